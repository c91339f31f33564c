"""`CodeCallPlugin`: CodeCall on a FastMCP server. Start here: the whole wiring is in this file.

A plugin is a FastMCP transform. It replaces what `tools/list` shows as the mode says, adds the meta-tools, and leaves
every other lookup as it is, so that a hidden tool can still be called: by a script, or by a client that knows it.
Each request reads FastMCP's own listing for its caller, with this plugin bypassed, or proves that it would be the same
as before; nothing about a caller is kept.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar, Final, Literal, ParamSpec, Self, TypeVar, Unpack, cast, overload
from weakref import WeakSet

from anyio import to_thread
from fastmcp import FastMCP
from fastmcp.resources import ResourceTemplate
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context, get_server
from fastmcp.server.transforms import GetResourceTemplateNext, GetToolNext
from fastmcp.server.transforms.catalog import CatalogTransform
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec

from codecall.audit.recorder import Audit
from codecall.catalog.apps import AppResolver, FastMCPServer
from codecall.catalog.cache.fastmcp_internals import can_bypass, dereferences_schemas
from codecall.catalog.inference.output_schemas import OutputObserver
from codecall.catalog.search.lazy import resolve_strategy
from codecall.catalog.view import CatalogView
from codecall.concurrency import iterate_cooperatively
from codecall.errors import OptionsError
from codecall.meta_tools.approval_source import PluginApprovals
from codecall.meta_tools.base import MetaTool, Runtime, separator_for
from codecall.meta_tools.execute import ExecuteTool
from codecall.meta_tools.runtime import (
    ToolSet,
    changed_options,
    create_enclave_pool,
    create_search_index,
)
from codecall.meta_tools.starlark.script import describe_script_tool
from codecall.option_base import merge_options, passed_options
from codecall.options import (
    AuditOptions,
    DirectCalls,
    Mode,
    ObservedOutputOptions,
    PluginOptions,
    PoolOptions,
    ProgressOptions,
    ResultsOptions,
    ResumeOptions,
    SanitizationOptions,
    SearchOptions,
    Separator,
    ShutdownOptions,
    StarlarkOptions,
)
from codecall.results.resources import ResultResources
from codecall.results.service import ResultService
from codecall.server.lifespan import EnclaveLifespan, LifespanFlush
from codecall.server.list_changed import ListChangedNotifier
from codecall.server.shutdown import within_grace
from codecall.telemetry.spans import Telemetry

if TYPE_CHECKING:
    from codecall.approvals.grants import Grants
    from codecall.approvals.options import Approvals, FlowRuleDict
    from codecall.composite.definition import Finding
    from codecall.composite.provider import CompositeToolSet
    from codecall.extraction.options import ExtractDict, ExtractOptions
    from codecall.meta_tools.starlark.options import ToolFiles
    from codecall.options import (
        AuditDict,
        DirectCallsDict,
        ObservedOutputDict,
        PluginKeywords,
        PoolDict,
        ProgressDict,
        ResultsDict,
        ResumeDict,
        SanitizationDict,
        SearchDict,
        ShutdownDict,
        StarlarkDict,
        VmOptions,
    )

logger = logging.getLogger("codecall")

P = ParamSpec("P")
_CATALOG = ("get_tool_catalog", "list_tools")
"""What of FastMCP's transform reads a server's catalog."""

_READING: Final[ContextVar[bool]] = ContextVar("codecall_reading", default=False)
"""Whether the plugin of some server reads its catalog."""

ServerT = TypeVar("ServerT", bound="FastMCP[object]")
MetaToolT = TypeVar("MetaToolT", bound=Tool)


class CodeCallPlugin(CatalogTransform):
    """Code mode for a FastMCP server: four meta-tools, and scripts that chain the server's tools.

    Made by `init`; then any one of

        FastMCP("crm", transforms=[plugin])
        mcp.add_transform(plugin)
        plugin.install(mcp)

        @plugin                       # over a function, sync or async, that returns a FastMCP server
        def create_server() -> FastMCP: ...

    One plugin may serve several servers at once; a server takes one plugin.
    """

    warns_of_rules: ClassVar[bool] = True
    """Whether it compares rules about calls, and `app_ids`, with the tools when these are listed first."""

    def __init__(self, options: PluginOptions) -> None:
        if not isinstance(options, PluginOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionsError(
                f"CodeCallPlugin: PluginOptions are needed, got {type(options).__name__}",
                hint="Write CodeCallPlugin.init(…), which takes options as keywords or one mapping.",
            )
        super().__init__()
        self._reloading = asyncio.Lock()
        self._lifetime = EnclaveLifespan(self._at_sigterm if options.shutdown.on_sigterm else None)
        telemetry = Telemetry(enabled=options.telemetry)
        telemetry.observe(self._lifetime)
        observed = options.observed_output
        observations = OutputObserver(observed) if observed.enabled else None
        audit = Audit(options.audit)
        self.asking: Final = PluginApprovals(options, audit, self._is_composite)
        """What asks persons in its runs; a plugin of a server that this one is mounted on looks at it."""
        stored = [observations] if observations is not None and observed.store else []
        self._flushing = LifespanFlush(self.asking, audit, *stored)
        results = ResultService(options.results) if options.results.enabled else None
        self._results = ResultResources(results) if results is not None else None
        enclaves = create_enclave_pool(options, self._lifetime, telemetry)
        index = create_search_index(options.embedding)
        self._now = ToolSet.from_runtime(
            Runtime(
                options,
                self.view,
                self._runtime,
                enclaves,
                index,
                telemetry,
                audit,
                observations,
                results,
                self.asking,
            ),
            warns_of_apps=self.warns_of_rules,
        )
        self._composites = self._read_composites(options)
        self._checked: WeakSet[FastMCPServer] = WeakSet()
        """The servers whose tools were compared with the rules about calls."""
        self._notifiers: WeakSet[ListChangedNotifier] = WeakSet()
        """Notify the clients of the servers that have composite tools."""

    @classmethod
    def init(
        cls,
        options: Mapping[str, object] | None = None,
        /,
        *,
        vm: VmOptions | Mapping[str, object] | None = None,
        mode: Mode = "codecall_only",
        app_ids: Sequence[str] | None = None,
        include_tools: Callable[[Tool], bool] | None = None,
        direct_calls: bool | Sequence[str] | DirectCallsDict | Mapping[str, object] | DirectCalls = True,
        tool_name_separator: Literal["auto", ":", "_"] = "auto",
        top_k: int = 5,
        inline_result_bytes: int = 64 * 1024,
        mark_errors: bool = False,
        embedding: SearchDict | Mapping[str, object] | SearchOptions | None = None,
        observed_output: bool | ObservedOutputDict | Mapping[str, object] | ObservedOutputOptions = True,
        sanitization: SanitizationDict | Mapping[str, object] | SanitizationOptions | None = None,
        pool: PoolDict | Mapping[str, object] | PoolOptions | None = None,
        audit: AuditDict | Mapping[str, object] | AuditOptions | None = None,
        resume: ResumeDict | Mapping[str, object] | ResumeOptions | None = None,
        results: bool | ResultsDict | Mapping[str, object] | ResultsOptions = True,
        approvals: Approvals = None,
        flows: Sequence[FlowRuleDict | Mapping[str, object]] = (),
        extract: bool | ExtractDict | Mapping[str, object] | ExtractOptions | None = None,
        progress: ProgressDict | Mapping[str, object] | ProgressOptions | None = None,
        shutdown: ShutdownDict | Mapping[str, object] | ShutdownOptions | None = None,
        composite_tools: Sequence[str | os.PathLike[str] | Mapping[str, object]] = (),
        telemetry: bool = True,
        tasks: bool = False,
        starlark: bool | StarlarkDict | Mapping[str, object] | StarlarkOptions | None = None,
        tool_files: ToolFiles = None,
        **wire_spelling: object,
    ) -> Self:
        """Create a plugin with these options. Each may also be given in its wire spelling (`toolNameSeparator`), and so
        may the keys of a group; None for a group stands for its defaults.

        Args:
            options: All or some of them as one mapping: `init({"vm": {"preset": "secure"}})`.
            vm: The limits that scripts run under: `{"preset": name or path, <limit>: value, …}`. Without a preset that
                of the environment variable `CODECALL_VM_PRESET`, else `secure`. See `codecall.Preset`.
            mode: `codecall_only`: clients list only the meta-tools; `additive`: all tools too, and scripts may use all;
                `codecall_opt_in`, `metadata_driven`: all too, and scripts may use only those that opted in.
            app_ids: Apps that CodeCall manages; tools of other apps stay as they are. None: all.
            include_tools: Called with each FastMCP tool; False keeps the tool out of CodeCall's reach.
            direct_calls: Whether there is `codecall:invoke`; or the names or globs it may call; or both, as
                `{"enabled": …, "allowed_tools": […]}`.
            tool_name_separator: `:` lists `codecall:search`, `_` `codecall_search`, `auto` the latter for clients that
                are known to refuse colons (`codecall.meta_tools.naming`); both spellings work.
            top_k: Hits of a search that does not say `topK`; 1 to 50.
            inline_result_bytes: Bytes of a result that an answer holds; a larger one is kept, and the answer has its
                handle, preview and shape.
            mark_errors: Set MCP's `isError` on every envelope whose status is not `ok`.
            embedding: How search works: `{"strategy": "tfidf" | "embedding" | "hybrid" | "auto" | "model", …}`. See
                `codecall.options.SearchOptions`.
            observed_output: Whether output shapes are learned from results; or `{"per_caller": …, "store": …}`. See
                `codecall.options.ObservedOutputOptions`.
            sanitization: What error messages lose on their way to a model. See `codecall.options.SanitizationOptions`.
            pool: The worker processes: `{"max_workers": 8, …}`. See `codecall.PoolOptions`.
            audit: Records of what scripts did: `{"sinks": [JsonLinesSink(path)], …}`. See
                `codecall.options.AuditOptions`.
            resume: Lets `codecall:execute` resume a run that failed (`resumeFrom`): `{"store": …}`; None: it cannot.
                See `codecall.options.ResumeOptions`.
            results: Whether results larger than `inline_result_bytes` are stored; or `{"store": …, "ttl_s": …}`. See
                `codecall.options.ResultsOptions`.
            approvals: Calls that a person has to allow: `"writes"`, `"destructive"`, a list of rules, or
                `{"rules": …, "approver": …}`; None: none. See `codecall.approvals.options.ApprovalOptions`.
            flows: Values of tools that may not go to other tools, or only if a person allows it:
                `[{"from": "mail:*", "to": "http:*", "action": "ask"}]`. See `codecall.approvals.options.FlowRule`.
            extract: Whether scripts may have a model read values with `extract(value, type)`; or `{"max_requests": …,
                "extractor": …}`. See `codecall.extraction.options.ExtractOptions`.
            progress: What clients hear while a script runs. See `codecall.options.ProgressOptions`.
            shutdown: What becomes of running scripts when the server ends. See `codecall.options.ShutdownOptions`.
            composite_tools: Workflows and scripts that are served as tools: files of definitions, folders of them, or
                definitions as mappings. One that is wrong is logged, and not served.
            telemetry: Report spans and metrics to OpenTelemetry, where a provider is set.
            tasks: Let clients run `codecall:execute` as a background task of FastMCP (extra `tasks`).
            starlark: Add `execute_tool_script`, which runs Starlark (extra `starlark`); or `{"code_mode": {…},
                "optimizer": …}`. See `codecall.options.StarlarkOptions`.
            tool_files: Add `listToolFiles`, `readToolFile`, `getToolDocs` and `executeToolCode` (extra `starlark`); or
                `{"binding_level": …, "servers": …}`. See `codecall.meta_tools.starlark.options.ToolFilesOptions`.
            **wire_spelling: The same options in their wire spelling; anything else is refused.

        Raises:
            OptionsError: An option is unknown, of the wrong type or out of range; the message names the field. Also
                where search is to use a model, and it or its libraries are not installed; the hint says what to do.
        """
        values = {name: value for name, value in locals().items() if name not in ("cls", "options", "wire_spelling")}
        keywords = {**passed_options(cls.init, values), **wire_spelling}
        built = PluginOptions.build(**merge_options(options, keywords, call="CodeCallPlugin.init"))
        return cls(built.model_copy(update={"embedding": resolve_strategy(built.embedding)}))

    @property
    def options(self) -> PluginOptions:
        """What is in force now."""
        return self._now.runtime.options

    @property
    def meta_tools(self) -> tuple[Tool, ...]:
        """The tools this plugin adds, as a client lists them of which nothing is known."""
        return self._now.by_separator[separator_for(self.options, None)]

    @property
    def composite_findings(self) -> tuple[Finding, ...]:
        """What is wrong with definitions of composite tools that are therefore not served."""
        return self._composites.findings if self._composites is not None else ()

    @property
    def grants(self) -> Grants | None:
        """The calls that persons have allowed in advance, to list and to revoke; None where nothing asks a person."""
        asks = self.options.approvals is not None or self.options.flows
        approvals = self._now.runtime.approvals if asks else None
        return approvals.grants if approvals is not None else None

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers that run for this plugin now, on all its servers; none outside their lifespans."""
        return tuple(self._lifetime.pids())

    async def reload(
        self, *, vm: VmOptions | Mapping[str, object] | None = None, **options: Unpack[PluginKeywords]
    ) -> None:
        """Put other options in force while the server runs. Scripts that run finish under those they began with, on
        their own workers; every later request sees the new ones. Without options it reads the definitions of composite
        tools again. Clients of such tools are told that the list of tools has changed; others see it when they list.

        Args:
            vm: As for `init`.
            **options: As for `init`. Each that is given replaces what it was as a whole; the others stay as they are.

        Raises:
            OptionsError: one is wrong, or cannot be changed; nothing has changed then.
            WorkerError: no worker can be had under these options; nothing has changed then.
        """
        async with self._reloading:
            old = self._now
            changed = changed_options(old.runtime.options, vm, options)
            composites = await to_thread.run_sync(self._read_composites, changed)
            if vm is None and not options:
                await self._lifetime.check_scripts(old.runtime.enclaves, composites)
                before, self._composites = self._composites, composites
                if composites is None or composites.serves_as(before):
                    return
            else:
                new = await old.with_options(self._lifetime, changed)
                await self._lifetime.check_scripts(new.runtime.enclaves, composites)
                self.asking.prepare(changed)  # composite tools may be the first that ask
                self._now, self._composites = new, composites
                await self._lifetime.retire(old.runtime.enclaves)
        for notifier in tuple(self._notifiers):
            await notifier.notify({"tools"})

    async def drain(self, grace_s: float | None = None) -> int:
        """Let no script begin any more on any server of this plugin, and wait for those that run. It lasts until the
        servers' lifespans have ended; everything but `codecall:execute` goes on.

        Args:
            grace_s: Seconds after which scripts that still run end with EXECUTION_ABORTED; None: `shutdown.grace_s`.

        Returns:
            How many had to be ended.

        Raises:
            OptionsError: `grace_s` is wrong.
        """
        shutdown = self.options.shutdown if grace_s is None else ShutdownOptions.read({"grace_s": grace_s}, where="")
        ended = await self._lifetime.drain(shutdown.grace_s)
        await self._flushing.flush()
        return ended

    async def _at_sigterm(self) -> bool:
        scripts, grace_s = self._lifetime.running_scripts, self.options.shutdown.grace_s
        if scripts:
            logger.warning("SIGTERM: no new scripts; those in progress (%d) have %g s to end", scripts, grace_s)
        if ended := await within_grace(grace_s, self.drain()):
            logger.warning("SIGTERM: scripts that had not ended in time: %d", ended)
        return scripts > 0

    def install(self, server: ServerT) -> ServerT:
        """Put CodeCall on `server` and give the server back; OptionsError: it has a plugin already, or is no server."""
        if not isinstance(server, FastMCP):  # pyright: ignore[reportUnnecessaryIsInstance] - users make mistakes
            hint = "CodeCallPlugin.init(…).install(mcp), with mcp = FastMCP(…)."
            raise OptionsError(f"install: a FastMCP server is needed, got {type(server).__name__}", hint=hint)
        if any(isinstance(transform, CodeCallPlugin) for transform in server.transforms):
            raise OptionsError(f"Server {server.name!r} has a CodeCall plugin already; one server takes one")
        server.add_transform(self)
        return server

    @overload
    def __call__(self, factory: Callable[P, Awaitable[ServerT]]) -> Callable[P, Awaitable[ServerT]]: ...
    @overload
    def __call__(self, factory: Callable[P, ServerT]) -> Callable[P, ServerT]: ...
    def __call__(
        self, factory: Callable[P, ServerT] | Callable[P, Awaitable[ServerT]]
    ) -> Callable[P, ServerT] | Callable[P, Awaitable[ServerT]]:
        """Decorate a function that returns a server: what it returns has CodeCall installed."""
        if not callable(factory):
            raise TypeError(f"CodeCallPlugin decorates a function; for the server itself use install({factory!r})")
        if inspect.iscoroutinefunction(factory):

            @functools.wraps(factory)
            async def create_async(*args: P.args, **kwargs: P.kwargs) -> ServerT:
                return self._installed(await factory(*args, **kwargs), factory)

            return create_async

        @functools.wraps(factory)
        def create(*args: P.args, **kwargs: P.kwargs) -> ServerT:
            return self._installed(cast("Callable[P, ServerT]", factory)(*args, **kwargs), factory)

        return create

    def _runtime(self) -> Runtime:
        return self._now.runtime

    def _read_composites(self, options: PluginOptions) -> CompositeToolSet | None:
        """The composite tools of these options, read anew; None where there are none."""
        if not options.composite_tools:
            return None
        from codecall.composite.provider import CompositeToolSet  # loads the engine of templates

        return CompositeToolSet(
            options.composite_tools,
            self._runtime,
            resumes=options.resume is not None,
            starlark=options.starlark is not None,
        )

    def _is_composite(self, name: str) -> bool:
        return self._composites is not None and name in self._composites.tools

    async def list_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """The composite tools beside those of the server: for clients and in the catalog alike."""
        return await super().list_tools(tools if self._composites is None else self._composites.added_to(tools))

    async def get_tool_catalog(self, ctx: Context, *, run_middleware: bool = True) -> Sequence[Tool]:
        """The tools of the server, and those of servers mounted on it that their own plugins keep for scripts."""
        token = _READING.set(True)
        try:
            return await super().get_tool_catalog(ctx, run_middleware=run_middleware)
        finally:
            _READING.reset(token)

    async def transform_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """What clients list: the meta-tools, and the tools that the mode or their metadata shows."""
        server, now = _server(), self._now
        if _READING.get():  # the plugin of a server that this one's is mounted on
            return await self._shown(tools, server, for_scripts=True)
        if server is None:
            # FastMCP walks the transforms once when a server's lifespan begins: time to get ready.
            now.runtime.index.start_loading()
            # First: what is opened later ends before, and scripts that it ends are in the record, too.
            await self._flushing.start_with_lifespan()
            await self._lifetime.start_with_lifespan(now.runtime.enclaves)
            await self._lifetime.check_scripts(now.runtime.enclaves, self._composites)
            if self.options.tasks:
                from codecall.meta_tools.tasks import remember_root  # loaded with its tool

                await remember_root()
            now.log_naming()
            # FastMCP finds here what may run as a task: under each spelling that it may be called by.
            if (starting := _starting_server()) is not None:
                if self._composites is not None:
                    self._notifiers.add(ListChangedNotifier.of(starting))
                await self._check_own_tools(starting)
            return [*now.by_name.values(), *await self._shown(tools, server)]
        now.check_names(tools)
        if self.warns_of_rules and server not in self._checked and (context := self._own_context()) is not None:
            self._checked.add(server)
            await self._warn_of_rules(self.view(context), server)
        visible, own = await self._shown(tools, server), self._offered(now.by_separator[self._separator()])
        if self.options.starlark is not None and (context := self._own_context()) is not None:
            own = await describe_script_tool(own, self.view(context), self.options.starlark)
        now.runtime.telemetry.record_listing(tools, len(visible), own)
        return [*own, *visible]

    async def _check_own_tools(self, server: FastMCPServer) -> None:
        """Refuse to start where a tool of the server itself, or a composite tool, has the name of a meta-tool. No other
        server is asked: theirs are looked at when tools are listed.

        Raises:
            OptionsError: one has.
        """
        if self not in server.transforms or (self.options.starlark is None and self.options.tool_files is None):
            return
        tools = await server.local_provider.list_tools()
        for transform in server.transforms[: server.transforms.index(self)]:
            tools = await transform.list_tools(tools)
        self._now.check_names(tools if self._composites is None else [*tools, *self._composites.tools.values()])

    async def _warn_of_rules(self, view: CatalogView, server: FastMCPServer) -> None:
        """Log what is wrong with rules about calls, of the tools that the first caller may use."""
        options = self.options
        rules = options.approvals.rules if options.approvals is not None else ()
        if not rules and not options.flows:
            return
        if any(rule.action == "deny" for rule in rules):
            logger.warning(
                "approvals: what a rule denies, it denies to scripts and codecall:invoke; a client that calls such a "
                "tool by its name, without CodeCall, is not stopped"
            )
        from codecall.approvals.unmatched import KnownNames, rule_warnings  # few servers have rules

        entries = await view.entries()
        names, apps, servers = ({getattr(entry, of) for entry in entries} for of in ("name", "app_id", "server"))
        known = KnownNames(names, apps, servers, f"tool that scripts may use on {server.name!r}", entries)
        for warning in await to_thread.run_sync(rule_warnings, rules, options.flows, known):
            logger.warning("%s", warning)

    def _offered(self, own: Sequence[MetaToolT]) -> Sequence[MetaToolT]:
        """Those of the meta-tools that clients list."""
        return own

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Tool | None:
        """The meta-tools under either spelling; every other tool as it is."""
        tool = self._now.by_name.get(name)
        if tool is None:
            # The operator's definition goes first: another server may come to offer a tool of its name.
            composite = self._composites.tools.get(name) if self._composites is not None else None
            return composite or await call_next(name, version=version)
        tool = self._now.as_listed[self._separator(), name]
        if self.options.tasks and isinstance(tool, ExecuteTool):
            from codecall.meta_tools.tasks import record_submitter  # loaded with its tool

            await record_submitter()
        return tool

    def _separator(self) -> Separator:
        """The separator in the names that the client of this request lists."""
        return separator_for(self.options, _context())

    async def transform_resource_templates(self, templates: Sequence[ResourceTemplate]) -> Sequence[ResourceTemplate]:
        """Those of kept results as well, and those of the server as they are."""
        return [*templates, *(self._results.templates if self._results is not None else ())]

    async def get_resource_template(
        self, uri: str, call_next: GetResourceTemplateNext, *, version: VersionSpec | None = None
    ) -> ResourceTemplate | None:
        """The one of a kept result of this caller; every other as it is."""
        ours = await self._results.find_template(uri) if self._results is not None else None
        return ours or await call_next(uri, version=version)

    async def _shown(
        self, tools: Sequence[Tool], server: FastMCPServer | None, *, for_scripts: bool = False
    ) -> list[Tool]:
        """The tools that clients list, or that scripts may use as well."""
        reach, own = self._now.visibility, self._now.by_name
        apps = await AppResolver.from_server(server) if server is not None and reach.depends_on_app else None
        app_of: Callable[[Tool], str] | None = (lambda tool: apps.origin(tool).app_id) if apps is not None else None
        listed: list[Tool] = []
        async for tool in iterate_cooperatively(tools):
            if isinstance(tool, MetaTool):  # a second plugin's; or a mounted server's, which may be a task of this one
                if server is not None and self in server.transforms and _plugins(server) != [self]:
                    raise _two_plugins(server)
                continue
            if tool.name in own:
                continue
            if reach.is_visible_to_clients(tool, app_of) or (for_scripts and self._is_usable(tool, app_of)):
                listed.append(tool)
        return listed

    def _is_usable(self, tool: Tool, app_of: Callable[[Tool], str] | None) -> bool:
        reach = self._now.visibility
        metadata = reach.metadata(tool.name, tool.meta)
        app_id = metadata.app_id or (app_of(tool) if app_of is not None else "")
        return reach.allows(tool.name, metadata, app_id) and reach.includes(tool, tool.name)

    def _own_context(self) -> Context | None:
        """The context of this request; None where it is one of another server, whose tool asks this one."""
        context = _context()
        return context if context is not None and _plugins(cast("FastMCPServer", context.fastmcp)) == [self] else None

    def view(self, context: Context) -> CatalogView:
        """The tools of the caller of this request."""
        server = cast("FastMCPServer", context.fastmcp)
        if _plugins(server) != [self]:
            raise _two_plugins(server)
        now = self._now
        beneath = can_bypass(server.middleware)
        read = functools.partial(self.get_tool_catalog, context, run_middleware=not beneath)
        # A subclass that reads or passes on the catalog in a way of its own is asked in every request.
        usual = all(getattr(type(self), name) is getattr(CodeCallPlugin, name) for name in _CATALOG)
        return CatalogView(
            server,
            read,
            now.visibility,
            now.catalogs.for_server(server),
            plugin_transform=self if beneath and usual else None,
            dereference=dereferences_schemas(server.middleware),
            index=now.runtime.index,
        )

    def _installed(self, server: ServerT, factory: Callable[..., object]) -> ServerT:
        if not isinstance(server, FastMCP):  # pyright: ignore[reportUnnecessaryIsInstance] - users make mistakes
            name = getattr(factory, "__name__", repr(factory))
            raise TypeError(f"{name}() must return a FastMCP server; it returned {type(server).__name__}")
        return self.install(server)


def _context() -> Context | None:
    """The context of this request; None outside of requests."""
    try:
        return get_context()
    except RuntimeError:
        return None


def _starting_server() -> FastMCPServer | None:
    """The server whose lifespan begins; None outside of lifespans."""
    try:
        return cast("FastMCPServer", get_server())
    except RuntimeError:
        return None


def _server() -> FastMCPServer | None:
    """The server whose request this is; None outside of requests."""
    context = _context()
    return cast("FastMCPServer", context.fastmcp) if context is not None else None


def _plugins(server: FastMCPServer) -> list[CodeCallPlugin]:
    return [transform for transform in server.transforms if isinstance(transform, CodeCallPlugin)]


def _two_plugins(server: FastMCPServer | None) -> OptionsError:
    name = repr(server.name) if server is not None else "of this request"
    return OptionsError(
        f"Server {name} must have exactly one CodeCall plugin, as a transform of the server itself",
        hint="Give one CodeCallPlugin to transforms=[…], add_transform or install, and only once.",
    )
