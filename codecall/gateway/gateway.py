"""`Gateway`: one FastMCP server in front of many. Start here to read how its parts work together.

Each upstream server is a `Backend`, which runs while it is used, and a `ServerProvider`, which lists what the server
listed last, under its name. On top stands the plugin (`GatewayPlugin`), which decides what clients list.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, cast

from fastmcp import FastMCP
from fastmcp.server.providers import Provider

from codecall.approvals.options import ApprovalRule
from codecall.catalog.entries import COMPOSITE_APP
from codecall.errors import CodeCallError, OptionsError
from codecall.gateway.config.options import TABLE_EXAMPLES, GatewayOptions
from codecall.gateway.config.variables import resolve_server, resolve_values
from codecall.gateway.direct_calls import DirectCallGate, read_rules, with_server_rules
from codecall.gateway.downstream import ServerBlurb, build_instructions
from codecall.gateway.exposure import Exposure, ExposurePolicy, GatewayPlugin, Mode, current_context, is_listing_tools
from codecall.gateway.rule_warnings import RuleWarnings
from codecall.gateway.tools.access import AccessRules
from codecall.gateway.tools.completions import install_completions
from codecall.gateway.tools.disk_cache import ListingCacheFile, cache_folder, remove_old_files
from codecall.gateway.tools.filter import HiddenComponent, ReservedNames
from codecall.gateway.tools.provider import ServerProvider
from codecall.gateway.tools.sources import MissingTools
from codecall.gateway.upstream.server import Backend
from codecall.meta_tools.starlark.options import ToolFileServer, ToolFilesOptions
from codecall.option_base import OptionProblems
from codecall.options import PluginOptions
from codecall.sandbox.agentscript.policy import is_meta_tool
from codecall.server.list_changed import ListChangedNotifier
from codecall.telemetry.metrics import codecall_version

logger = logging.getLogger("codecall")

_SEPARATOR: Final = ("tool_name_separator", "toolNameSeparator")
_APP_IDS: Final = ("app_ids", "appIds")
_OTHER_SETS: Final = {"starlark": ("starlark",), "tool_files": ("tool_files", "toolFiles")}
"""The options that add further sets of meta-tools, in their spellings."""
_COMPOSITES: Final = ("composite_tools", "compositeTools")


class Gateway:
    """CodeCall in front of the servers of a configuration.

        async with Gateway(options) as gateway:
            await gateway.server.run_async()

    The server's own lifespan opens the gateway too, for callers that run it in another way.

    Args:
        options: which servers, what of them may be used, how they are shown.
        for_operator: whether its client is its operator, who sees which tools are hidden.
        needed: the servers that are started where nothing is known of them; None: all. Others have no tools then.
        approvals_folder: where the operator decides about calls, if the options do not say; None: nowhere.

    Raises:
        OptionsError: an option of the plugin or of the rate limits is wrong, or names a variable that is not set.
    """

    def __init__(
        self,
        options: GatewayOptions,
        *,
        for_operator: bool = False,
        needed: Collection[str] | None = None,
        approvals_folder: Path | None = None,
    ) -> None:
        self.options: Final = options
        self._approvals_folder = approvals_folder
        self._for_operator = for_operator
        self._needed = needed
        enabled = {name: server for name, server in options.servers.items() if server.enabled}
        self._exposure_policy = ExposurePolicy(options.expose)
        self._exposed: dict[str, Mode] = {name: server.exposed for name, server in enabled.items() if server.exposed}
        asked = [
            name
            for name, server in enabled.items()
            if (server.access or options.access).destructive == "ask" and server.code_mode is not False
        ]
        self._plugin = self._create_plugin(asked)
        service = self._plugin.approval_service if self._plugin is not None else None
        asking = DirectCallGate(self._plugin, service) if self._plugin is not None and service is not None else None
        # The last rule is about tools that are asked for, and these have it anyway.
        has_rules = service is not None and len(service.options.rules) > bool(asked)
        for name, mode in self._exposed.items():
            if mode == "meta_tools" and (self._plugin is None or not self._plugin.may_list_own):
                option = 'expose: "meta_tools"' if enabled[name].code_mode is None else "code_mode: true"
                raise OptionsError(
                    f'servers.{name}.{option} needs CodeCall\'s four tools, and expose.mode is "never"',
                    hint='Leave one of them out; with expose.mode "auto" the tools of other servers may be listed too.',
                )
        self._notifier = ListChangedNotifier()
        self._cache_folder = cache_folder(options.cache_dir)
        self._backends: Final = {name: Backend(name, server, resolve_server) for name, server in enabled.items()}
        names = ReservedNames(enabled, _meta_tool_spellings(self._plugin))
        self._providers: Final = {
            name: ServerProvider(
                self._backends[name],
                access=AccessRules(server.access or options.access),
                cache_file=ListingCacheFile.from_server(self._cache_folder, name, server)
                if self._cache_folder is not None
                else None,
                names=names,
                description=server.description,
                on_change=self._lists_changed,
                wait_for_first=functools.partial(self._must_wait, server.exposed),
                asking=asking if name in asked else None,
                guard=asking if has_rules else None,
                per_client=server.per_client,
            )
            for name, server in enabled.items()
        }
        self._rated: list[str] = []
        """What the rules about rates are for."""
        self._server: Final = self._create_server()
        self.rule_warnings: Final = RuleWarnings(options, self._providers, self._plugin, self._rated, self._app_ids)
        """What rules name that is no tool."""
        self._users = 0
        self._lock = asyncio.Lock()
        self._closing = asyncio.Event()
        self._backend_tasks: list[asyncio.Task[None]] = []
        self._unsent_changes: set[str] = set()
        self._notify_task: asyncio.Task[None] | None = None
        self.on_exposure: Callable[[str], object] | None = None
        """Called with a sentence when clients list something else from now on."""
        self._update_exposure()

    @property
    def server(self) -> FastMCP[Any]:
        """The server that clients connect to."""
        return self._server

    @property
    def plugin(self) -> GatewayPlugin | None:
        """CodeCall on that server; None with `expose.mode` "never", no tool of another set of meta-tools, and no
        composite tool, and no rule about calls."""
        return self._plugin

    @property
    def backends(self) -> Mapping[str, Backend]:
        """The upstream servers by name; those that are not enabled are left out."""
        return MappingProxyType(self._backends)

    @property
    def providers(self) -> Mapping[str, ServerProvider]:
        """What is known of each upstream server, by name."""
        return MappingProxyType(self._providers)

    @property
    def exposure(self) -> Exposure:
        """What clients list now, and why."""
        return self._exposure_policy.current

    async def wait_until_listed(self) -> None:
        """Wait until it is known of each server what it lists, or that it could not be asked."""
        await asyncio.gather(*(provider.wait_until_listed() for provider in self._providers.values()))

    def describe_exposure(self) -> str:
        """What clients list now, and why, as a sentence."""
        return self.exposure.describe(sum(len(each.tools_with_approvals) for each in self._providers.values()))

    def hidden(self) -> list[HiddenComponent]:
        """Components that servers list and clients do not see, with the reasons."""
        return [hidden for provider in self._providers.values() for hidden in provider.hidden]

    async def refresh(
        self, names: Collection[str] | None = None, progress: Callable[[str, int, int], None] | None = None
    ) -> Mapping[str, CodeCallError]:
        """Ask servers for their lists, all at the same time, and use and keep these.

        Args:
            names: of the servers to ask; None: all.
            progress: called with the name of each that has answered or could not be asked, how many have by now, and
                how many are asked.

        Returns:
            The errors of those that could not be asked. What was known of them stays.

        Raises:
            OptionsError: there is no server of such a name.
        """
        unknown = sorted(set(names or ()) - set(self._providers))
        if unknown:
            raise OptionsError(
                f"no server of the name {', '.join(unknown)}",
                hint=f"There are: {', '.join(self._providers) or 'none'}.",
            )
        selected = [name for name in self._providers if names is None or name in names]
        failures: dict[str, CodeCallError] = {}
        done = 0

        async def one(name: str) -> None:
            nonlocal done
            try:
                await self._providers[name].refresh()
            except CodeCallError as error:
                failures[name] = error
            done += 1
            if progress is not None:
                progress(name, done, len(selected))

        await asyncio.gather(*map(one, selected))
        return failures

    async def __aenter__(self) -> Self:
        async with self._lock:
            if not self._users:
                await self._open()
            self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._lock:
            self._users -= 1
            if not self._users:
                await self._close()

    async def _open(self) -> None:
        await asyncio.to_thread(self._load_listings)
        self._update_exposure()
        self.rule_warnings.log()
        self._closing = asyncio.Event()
        loop = asyncio.get_running_loop()
        ready = {name: loop.create_future() for name in self._backends}
        self._backend_tasks = [
            asyncio.create_task(self._run_backend(backend, ready[name]), name=f"server {name}")
            for name, backend in self._backends.items()
        ]
        try:
            await asyncio.gather(*ready.values())
        except BaseException:
            await self._close()
            raise
        for name, provider in self._providers.items():
            if provider.is_listed or self._needed is None or name in self._needed:
                provider.open()

    async def _close(self) -> None:
        self._notifier.close()
        await asyncio.gather(*(provider.close() for provider in self._providers.values()))
        self._closing.set()
        if self._backend_tasks:
            await asyncio.wait(self._backend_tasks)
        if self._notify_task is not None:
            self._notify_task.cancel()
            await asyncio.wait({self._notify_task})

    async def _run_backend(self, backend: Backend, ready: asyncio.Future[None]) -> None:
        """Run one backend until the gateway closes. Each has a task of its own, so that all of them end at the same
        time."""
        ending = self._closing
        try:
            async with backend:
                ready.set_result(None)
                await ending.wait()
        except Exception as failure:
            if not ready.done():
                ready.set_exception(failure)
            else:
                logger.exception("Server %s did not end well", backend.name)

    def _load_listings(self) -> None:
        if self._cache_folder is not None:
            remove_old_files(self._cache_folder)
        for provider in self._providers.values():
            provider.load()

    def _create_plugin(self, asked: Sequence[str]) -> GatewayPlugin | None:
        """The plugin; calls of destructive tools of these servers are asked for."""
        options = dict(resolve_values(self.options.codecall, where="codecall"))
        problems = OptionProblems()
        with problems.collecting(), self.options.naming("codecall"):
            PluginOptions.build(**options)  # by itself, so that an error is known to be of that table
        own_rules: dict[str, Sequence[ApprovalRule]] = {}
        for name, server in self.options.servers.items():
            if server.enabled and server.approvals:
                with problems.collecting(), self.options.naming(f"servers.{name}"):
                    own_rules[name] = read_rules(server.approvals)
        problems.raise_all()
        given = next((value for spelling in _APP_IDS if (value := options.get(spelling)) is not None), ())
        self._app_ids = cast("Sequence[str]", given)
        own = {"starlark": self.options.starlark, "tool_files": self._tool_files()}
        for name, spellings in _OTHER_SETS.items():
            if own[name] is not None and any(options.get(spelling) is not None for spelling in spellings):
                raise OptionsError(f"{name}: given twice, as [{name}] and in [codecall]")
        options |= {name: value for name, value in own.items() if value is not None}
        others = (*(spelling for spellings in _OTHER_SETS.values() for spelling in spellings), *_COMPOSITES)
        paths = self.options.composite_tools.paths
        has_rules = bool(own_rules) or options.get("approvals") is not None
        needed = has_rules or paths or any(options.get(option) for option in others)
        if self.options.expose.mode == "never" and not needed:
            return None
        self._leave_alone([name for name, server in self.options.servers.items() if server.code_mode is False], options)
        if not any(spelling in options for spelling in _SEPARATOR):
            options["tool_name_separator"] = "_"
        if has_rules or asked:
            folder = self._approvals_folder
            options["approvals"] = with_server_rules(options.get("approvals"), own_rules, asked, folder)
        if paths:
            sources = next((options.pop(key) for key in _COMPOSITES if key in options), ())
            options["composite_tools"] = [*cast("Sequence[object]", sources), *paths]
        plugin = GatewayPlugin.init(options)
        plugin.exposure_policy = self._exposure_policy
        return plugin

    def _tool_files(self) -> ToolFilesOptions | None:
        """The option of the plugin, with what servers say of their tools.

        Raises:
            OptionsError: a server says something, and there is no `tool_files`; or it is in `tool_files`, too.
        """
        options = self.options.tool_files
        rules: list[ToolFileServer] = []
        for name, server in self.options.servers.items():
            if server.tools_to_execute is None and server.tools_to_auto_execute is None:
                continue
            if options is None or any(rule.name == name for rule in options.servers):
                reason = "needs [tool_files]" if options is None else "is in tool_files.servers, too"
                raise OptionsError(f"servers.{name}: tools_to_execute or tools_to_auto_execute {reason}")
            execute = ("*",) if server.tools_to_execute is None else server.tools_to_execute
            rules.append(
                ToolFileServer(name=name, tools_to_execute=execute, tools_to_auto_execute=server.tools_to_auto_execute)
            )
        return options.model_copy(update={"servers": (*options.servers, *rules)}) if options and rules else options

    def _leave_alone(self, servers: Collection[str], options: dict[str, object]) -> None:
        """Have the plugin manage the tools of all but these servers."""
        if not servers:
            return
        key = next((spelling for spelling in _APP_IDS if options.get(spelling) is not None), _APP_IDS[0])
        managed = cast("Iterable[str]", options.get(key) or (*self.options.servers, COMPOSITE_APP))
        options[key] = [name for name in managed if name not in servers]

    def _create_server(self) -> FastMCP[Any]:
        @asynccontextmanager
        async def lifespan(_: FastMCP[Any]) -> AsyncGenerator[dict[str, Any]]:
            async with self:
                yield {}

        server: FastMCP[Any] = FastMCP(self.options.name, version=codecall_version() or None, lifespan=lifespan)
        routes: dict[str, Provider] = {}
        for name, provider in self._providers.items():
            server.add_provider(provider, namespace=name)
            routes[name] = server.providers[-1]
        self._notifier.install(server)
        install_completions(server)
        if self.options.rate_limits is not None:
            from codecall.ratelimit.middleware import RateLimitPlugin  # loads what counts them

            limits = dict(resolve_values(self.options.rate_limits, where="rate_limits"))
            with self.options.naming("rate_limits", f"Such as {TABLE_EXAMPLES['rate_limits']}."):
                plugin = RateLimitPlugin.init(limits)
            plugin.install(server)
            self._rated += [rule.tool for rule in plugin.rules]
        if self._plugin is not None:
            self._plugin.routes = routes
            self._plugin.sources = MissingTools(self._providers, for_operator=self._for_operator)
            self._plugin.exposed = self._exposed
            self._plugin.install(server)
        return server

    async def reload_definitions(self) -> None:
        """Read the definitions of composite tools again; clients are told if that changes what there is.

        Raises:
            OptionsError: a file or folder that the options name is not there; nothing has changed then.
        """
        if self._plugin is not None:
            await self._plugin.reload()

    def _must_wait(self, exposed: Mode | None) -> bool:
        """Whether a request waits for a server of which nothing is known. One that lists the meta-tools in place of its
        tools does not."""
        return not ((exposed or self.exposure.mode) == "meta_tools" and is_listing_tools(current_context()))

    def _lists_changed(self, kinds: frozenset[str]) -> None:
        switched = self._update_exposure()
        self.rule_warnings.log()
        if switched and self.on_exposure is not None:
            self.on_exposure(self.describe_exposure())
        self._unsent_changes |= kinds | ({"tools"} if switched else set())
        if self._notify_task is None or self._notify_task.done():
            self._notify_task = asyncio.create_task(
                self._send_changes(), name="notifying clients", context=contextvars.Context()
            )

    async def _send_changes(self) -> None:
        while self._unsent_changes:
            kinds, self._unsent_changes = self._unsent_changes, set()
            await self._notifier.notify(kinds)

    def _update_exposure(self) -> bool:
        """Decide anew what clients list, and write the instructions; whether clients list something else now."""
        switched = self._exposure_policy.decide(
            sum(provider.tokens for name, provider in self._providers.items() if name not in self._exposed)
        )
        about = [
            ServerBlurb(name, self.options.servers[name].description, provider.listing.instructions)
            for name, provider in self._providers.items()
        ]
        lists_meta_tools = self._plugin is not None and self._plugin.lists_meta_tools
        self._server.instructions = build_instructions(
            about, search=_search_name(self._plugin) if lists_meta_tools else None
        )
        return switched


def _meta_tool_spellings(plugin: GatewayPlugin | None) -> list[str]:
    """Every spelling under which a client may call a meta-tool."""
    names = [tool.name for tool in plugin.meta_tools] if plugin is not None else []
    both = [
        f"codecall{mark}{name.removeprefix('codecall')[1:]}" for name in names if is_meta_tool(name) for mark in ":_"
    ]
    return [*both, *(name for name in names if not is_meta_tool(name))]


def _search_name(plugin: GatewayPlugin | None) -> str | None:
    return next((tool.name for tool in plugin.meta_tools if tool.name.endswith("search")), None) if plugin else None
