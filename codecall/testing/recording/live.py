"""A live server as scripts see it: CodeCall's own broker, within a request to that server."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

from fastmcp import Client, FastMCP
from fastmcp.prompts import PromptResult
from fastmcp.server import create_proxy
from fastmcp.server.context import Context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from codecall.calls.blocks import BlockLimits, BlockStore
from codecall.calls.broker import Broker
from codecall.catalog.cache.cache import CatalogCaches
from codecall.catalog.components import component_view
from codecall.catalog.view import CatalogView
from codecall.catalog.visibility import VisibilityPolicy
from codecall.meta_tools.runs import max_value_bytes
from codecall.options import PluginOptions
from codecall.plugin import CodeCallPlugin
from codecall.presets import Preset
from codecall.schema.partial import PreflightError

T = TypeVar("T")

_REQUEST: Final = "codecall:record"
"""Name of the prompt that holds the request open; the middleware answers it, and no server has it."""


class LiveServerError(RuntimeError):
    """The server to record cannot be used."""


class LiveBroker:
    """Performs the calls of scripts on a server.

    The server is opened by the first call and stays open until `close`, in a task of its own; every call is made within
    one request to it, as the calls of a script are.

    Args:
        target: What `fastmcp.Client` takes: a FastMCP server, a URL, a transport, the configuration of MCP servers, the
            path of a script. A server in this process keeps its own CodeCall plugin, if it has one.
        preset: Limits of one call.
        on_failure: Receives, once, why the server cannot be opened.
    """

    def __init__(self, target: object, preset: Preset, on_failure: Callable[[str], None] | None = None) -> None:
        self._target = target
        self._preset = preset
        self._on_failure = on_failure
        self._serving: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[tuple[Broker, contextvars.Context]] | None = None
        self._stop = asyncio.Event()

    async def close(self) -> None:
        """Close the server, if it was opened."""
        self._stop.set()
        if self._serving is not None:
            await self._serving

    async def prepare(self) -> None:
        """See `ToolBroker.prepare`."""
        await self._within(lambda broker: broker.prepare())

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """See `ToolBroker.call`."""
        return await self._within(lambda broker: broker.call(name, arguments, max_bytes=max_bytes))

    async def read(self, uri: str, *, max_bytes: int | None = None) -> str:
        """See `ToolBroker.read`."""
        return await self._within(lambda broker: broker.read(uri, max_bytes=max_bytes))

    async def prompt(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        """See `ToolBroker.prompt`."""
        return await self._within(lambda broker: broker.prompt(name, arguments, max_bytes=max_bytes))

    async def preflight(self, name: str, arguments: Mapping[str, object] | None) -> PreflightError | None:
        """See `ToolBroker.foresee`."""
        return await self._within(lambda broker: broker.preflight(name, arguments))

    async def check_reachable(self, name: str) -> PreflightError | None:
        """See `ToolBroker.unreachable`."""
        return await self._within(lambda broker: broker.check_reachable(name))

    async def describe(self, name: str) -> dict[str, object] | None:
        """See `ToolBroker.describe`."""
        return await self._within(lambda broker: broker.describe(name))

    async def namespace(self, path: str) -> dict[str, object]:
        """See `ToolBroker.space`."""
        return await self._within(lambda broker: broker.namespace(path))

    async def member(self, path: str, member: str) -> dict[str, object]:
        """See `ToolBroker.member`."""
        return await self._within(lambda broker: broker.member(path, member))

    async def _within(self, work: Callable[[Broker], Awaitable[T]]) -> T:
        """Run `work` within the request, and return its result."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._opened))
        broker, context = await asyncio.shield(self._opened)

        async def run() -> T:
            return await work(broker)

        return await asyncio.create_task(run(), context=context.copy())

    async def _serve(self, opened: asyncio.Future[tuple[Broker, contextvars.Context]]) -> None:
        """Hold a request to the server open until told to stop."""

        async def hold(context: Context) -> None:
            try:
                opened.set_result((await _broker(context, self._preset), contextvars.copy_context()))
            except Exception as failure:
                # The server's middleware would make something else of it.
                self._fail(opened, failure)
            else:
                await self._stop.wait()

        middleware = _HoldRequest(hold)
        try:
            async with _server(self._target) as server:
                server.middleware.append(middleware)
                try:
                    async with Client(server) as client:
                        await client.get_prompt(_REQUEST)
                finally:
                    server.middleware.remove(middleware)
        except Exception as failure:
            if opened.done():
                raise
            error = LiveServerError(
                f"the server to record, {self._target!r:.200}, cannot be opened: {type(failure).__name__}: {failure}"
            )
            error.__cause__ = failure
            self._fail(opened, error)

    def _fail(self, opened: asyncio.Future[tuple[Broker, contextvars.Context]], failure: Exception) -> None:
        opened.set_exception(failure)
        if self._on_failure is not None:
            self._on_failure(str(failure))


class _HoldRequest(Middleware):
    """Answers one request itself, after any time, and passes on all others."""

    def __init__(self, hold: Callable[[Context], Awaitable[None]]) -> None:
        self._hold = hold

    async def on_get_prompt(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Hold the request for `_REQUEST`; pass on every other."""
        if context.message.name != _REQUEST or context.fastmcp_context is None:
            return await call_next(context)
        await self._hold(context.fastmcp_context)
        return PromptResult([])


@asynccontextmanager
async def _server(target: object) -> AsyncGenerator[FastMCP[Any]]:
    """Give the server itself if it is in this process, else a proxy of it over one connection."""
    if isinstance(target, FastMCP):
        yield target
        return
    client = cast("Client[Any]", target if isinstance(target, Client) else Client(cast("Any", target)))
    async with client:
        yield create_proxy(client, name="recorded")


async def _broker(context: Context, preset: Preset) -> Broker:
    """Create the broker that `codecall:execute` would use for this request.

    Raises:
        LiveServerError: the server shows CodeCall's tools instead of its own.
    """
    server = context.fastmcp
    plugin = next((transform for transform in server.transforms if isinstance(transform, CodeCallPlugin)), None)
    options = PluginOptions.build() if plugin is None else plugin.options
    if plugin is None:
        names = {tool.name for tool in await server.list_tools()}
        if not names.isdisjoint({"codecall:execute", "codecall_execute"}):
            raise LiveServerError(
                "the server to record shows CodeCall's tools instead of its own: record against the server without "
                "CodeCall, or give the FastMCP object itself"
            )
        policy = VisibilityPolicy(options)
        view = CatalogView(server, server.list_tools, policy, CatalogCaches(policy).for_server(server))
    else:
        view = plugin.view(context)
    return Broker(
        context,
        view,
        allowed_tools=None,
        tool_call_timeout_ms=preset.tool_call_timeout_ms,
        max_value_bytes=max_value_bytes(preset),
        sanitization=options.sanitization,
        components=component_view(context, options),
        # Without a key, so that a recording has the same references wherever it is made.
        create_blocks=lambda: BlockStore(BlockLimits.from_preset(preset), ""),
    )
