"""Telling clients that a list has changed: those of the handshake over their connection, those of 2026-07-28 over the
stream of `subscriptions/listen` that they have opened.

FastMCP 4.1 tells only the client whose request it is answering, and does not serve that stream; the SDK below it does.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any, Final, Protocol, cast
from weakref import WeakSet

import mcp_types
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)

logger = logging.getLogger("codecall")

MAX_STREAMS: Final = 1_024
"""Clients that may listen at the same time."""


class _Handlers(Protocol):
    def add_request_handler(self, method: str, params_type: type[Any], handler: Any, /) -> None: ...


class Clients(Middleware):
    """The clients of one server, as far as they can be told something."""

    def __init__(self) -> None:
        self._connections: WeakSet[Connection] = WeakSet()
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus, max_subscriptions=MAX_STREAMS)

    def install(self, server: FastMCP[Any]) -> None:
        """Have the clients of `server` told."""
        server.add_middleware(self)
        # Private in FastMCP, which registers all of its handlers there; test_gateway holds us to the name.
        handlers = cast("_Handlers", vars(server)["_mcp_server"])
        params = mcp_types.SubscriptionsListenRequestParams
        handlers.add_request_handler("subscriptions/listen", params, self._listening)

    async def on_initialize(
        self,
        context: MiddlewareContext[mcp_types.InitializeRequest],
        call_next: CallNext[mcp_types.InitializeRequest, mcp_types.InitializeResult | None],
    ) -> mcp_types.InitializeResult | None:
        """Remember the client's connection for as long as it lasts."""
        result = await call_next(context)
        asked = context.fastmcp_context
        # Private in the SDK, whose sessions last for one request; FastMCP's proxies read it too.
        connection = getattr(asked.session, "_connection", None) if asked is not None else None
        if isinstance(connection, Connection):
            self._connections.add(connection)
        return result

    async def tell(self, kinds: Collection[str]) -> None:
        """Tell all of them that lists of these kinds have changed: `tools`, `resources`, `prompts`."""
        for connection in list(self._connections):
            try:
                if "tools" in kinds:
                    await connection.send_tool_list_changed()
                if "resources" in kinds:
                    await connection.send_resource_list_changed()
                if "prompts" in kinds:
                    await connection.send_prompt_list_changed()
            except Exception:
                # One that cannot be told must not keep the others from being told.
                logger.debug("A client could not be told of a change", exc_info=True)
                self._connections.discard(connection)
        if "tools" in kinds:
            await self._bus.publish(ToolsListChanged())
        if "resources" in kinds:
            await self._bus.publish(ResourcesListChanged())
        if "prompts" in kinds:
            await self._bus.publish(PromptsListChanged())

    def close(self) -> None:
        """End the streams of those that listen."""
        self._listening.close()
