"""`CodeCallPlugin`: CodeCall on a FastMCP server. Start here: the whole wiring is in this file.

A plugin is a FastMCP transform. It replaces what `tools/list` shows as the mode says, adds the meta-tools, and leaves
every other lookup as it is, so that a hidden tool can still be called: by a script, or by a client that knows it.
Each request reads FastMCP's own listing for its caller, with this plugin bypassed, or proves that it would be the same
as before; nothing about a caller is kept.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar, cast, overload

from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.server.transforms import GetToolNext
from fastmcp.server.transforms.catalog import CatalogTransform
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec

from codecall.catalog.apps import Apps, Server
from codecall.catalog.index import Library, Meaning, Semantic
from codecall.catalog.listing import inlines, reads_beneath
from codecall.catalog.models import settled
from codecall.catalog.observed import Observations
from codecall.catalog.reach import Reach
from codecall.catalog.remembered import Catalogues
from codecall.catalog.unhurried import unhurried
from codecall.catalog.view import CatalogView
from codecall.errors import OptionsError
from codecall.meta_tools.base import MetaTool, Wiring
from codecall.meta_tools.describe import DescribeTool
from codecall.meta_tools.execute import ExecuteTool
from codecall.meta_tools.invoke import InvokeTool
from codecall.meta_tools.lifetime import EnclaveLifetime
from codecall.meta_tools.observing import Flushing
from codecall.meta_tools.search import SearchTool
from codecall.options import PluginOptions, SearchOptions
from codecall.sandbox.enclave import Enclave

P = ParamSpec("P")
_CATALOGUE = ("get_tool_catalog", "list_tools")
"""What of FastMCP's transform reads a server's catalogue."""

ServerT = TypeVar("ServerT", bound="FastMCP[object]")


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

    def __init__(self, options: PluginOptions) -> None:
        super().__init__()
        self.options = options
        self._reach = Reach(options)
        self._catalogues = Catalogues(self._reach)
        self._enclaves = EnclaveLifetime(self._enclave)
        self._index = _library(options.embedding)
        observed = options.observed_output
        self._observations = Observations(observed) if observed.enabled else None
        self._flushing = Flushing(self._observations) if self._observations is not None and observed.store else None
        wiring = Wiring(options, self.view, self._enclaves, self._index, self._observations)
        tools: list[MetaTool] = [SearchTool.create(wiring), DescribeTool.create(wiring), ExecuteTool.create(wiring)]
        if options.direct_calls.enabled:
            tools.insert(2, InvokeTool.create(wiring))
        self._meta_tools = tools
        verbs = [tool.name.removeprefix("codecall")[1:] for tool in tools]
        self._by_name = {f"codecall{mark}{verb}": t for verb, t in zip(verbs, tools, strict=True) for mark in ":_"}

    @classmethod
    def init(cls, *, vm: Mapping[str, object] | None = None, **options: object) -> CodeCallPlugin:
        """A plugin with these options; see `codecall.options.PluginOptions` for all of them.

        Args:
            vm: `{"preset": name or path, <limit>: value, …}`: the limits scripts run under.
            **options: `mode`, `app_ids`, `include_tools`, `direct_calls`, `tool_name_separator`, `top_k`,
                `mark_errors`, `embedding`, `observed_output`, `sanitization`, `pool`; each in its Python or its wire
                spelling.

        Raises:
            OptionsError: anything unknown, of the wrong type or out of range; the message names the field. Also when
                search is to use a model, and it or its libraries are not installed; the hint says what to install.
        """
        built = PluginOptions.build(vm=vm, **options)
        return cls(built.model_copy(update={"embedding": settled(built.embedding)}))

    @property
    def meta_tools(self) -> tuple[Tool, ...]:
        """The tools this plugin adds, as they are advertised."""
        return tuple(self._meta_tools)

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers that run for this plugin now, on all its servers; none outside their lifespans."""
        return tuple(self._enclaves.pids())

    def install(self, server: ServerT) -> ServerT:
        """Put CodeCall on `server` and give the server back.

        Raises:
            OptionsError: the server has a CodeCall plugin already.
        """
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

    async def transform_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """What clients list: the meta-tools, and the tools that the mode or their metadata shows."""
        server = _server()
        if server is None:
            # FastMCP walks the transforms once when a server's lifespan begins: time to get ready.
            self._index.warm()
            await self._enclaves.start_with_lifespan()
            if self._flushing is not None:
                await self._flushing.start_with_lifespan()
        shown = await self._shown(tools, server)
        return [*self._meta_tools, *shown]

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Tool | None:
        """The meta-tools under either spelling; every other tool as it is."""
        return self._by_name.get(name) or await call_next(name, version=version)

    async def _shown(self, tools: Sequence[Tool], server: Server | None) -> list[Tool]:
        apps = await Apps.read(server) if server is not None and self._reach.by_app else None
        shown: list[Tool] = []
        async for tool in unhurried(tools):
            if isinstance(tool, MetaTool):
                raise _two_plugins(server)
            metadata = self._reach.metadata(tool.name, tool.meta)
            app_id = metadata.app_id or (apps.of(tool).app_id if apps else "")
            if tool.name not in self._by_name and self._reach.lists(metadata, app_id):
                shown.append(tool)
        return shown

    def view(self, context: Context) -> CatalogView:
        """The tools of the caller of this request."""
        server = cast("Server", context.fastmcp)
        plugins = [transform for transform in server.transforms if isinstance(transform, CodeCallPlugin)]
        if plugins != [self]:
            raise _two_plugins(server)
        beneath = reads_beneath(server.middleware)
        read = functools.partial(self.get_tool_catalog, context, run_middleware=not beneath)
        # A subclass that reads or passes on the catalogue in a way of its own is asked in every request.
        usual = all(getattr(type(self), name) is getattr(CatalogTransform, name) for name in _CATALOGUE)
        return CatalogView(
            server,
            read,
            self._reach,
            self._catalogues.of(server),
            own=self if beneath and usual else None,
            inline=inlines(server.middleware),
            library=self._index,
        )

    def _enclave(self) -> Enclave:
        options = self.options
        return Enclave(options.preset, pool=options.pool, sanitization=options.sanitization)

    def _installed(self, server: ServerT, factory: Callable[..., object]) -> ServerT:
        if not isinstance(server, FastMCP):  # pyright: ignore[reportUnnecessaryIsInstance] - users make mistakes
            name = getattr(factory, "__name__", repr(factory))
            raise TypeError(f"{name}() must return a FastMCP server; it returned {type(server).__name__}")
        return self.install(server)


def _library(options: SearchOptions) -> Library:
    def load() -> Semantic:
        from codecall.catalog.embedding import embedding_ranker  # loads nothing yet, but is not needed by everybody

        ranker = embedding_ranker(options)
        _ = ranker.load()
        return ranker

    meaning = None if options.strategy == "tfidf" else Meaning(load, alone=options.strategy == "embedding")
    return Library(meaning, synonyms=options.synonyms)


def _server() -> Server | None:
    """The server whose request this is; None outside of requests."""
    try:
        return cast("Server", get_context().fastmcp)
    except RuntimeError:
        return None


def _two_plugins(server: Server | None) -> OptionsError:
    name = repr(server.name) if server is not None else "of this request"
    return OptionsError(
        f"Server {name} must have exactly one CodeCall plugin, as a transform of the server itself",
        hint="Give one CodeCallPlugin to transforms=[…], add_transform or install, and only once.",
    )
