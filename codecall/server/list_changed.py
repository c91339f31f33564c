"""Tells clients that a list has changed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from typing import Any, Final
from weakref import WeakSet

import mcp_types
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)

from codecall.identity import share_key
from codecall.server.fastmcp_internals import client_connection, handler_registry

logger = logging.getLogger("codecall")

MAX_STREAMS: Final = 1_024
"""Clients that may listen at the same time."""

SHARE: Final = 4
"""Somebody who has signed in may have one in so many of these streams. Callers that do not sign in are not told apart,
and share all."""


class ListChangedNotifier(Middleware):
    """Notifies all clients of one server that a list has changed: those of the handshake over their connection, those
    of 2026-07-28 over the stream of `subscriptions/listen` that they have opened.

    FastMCP 4.1 notifies only the client whose request it is answering, and does not serve that stream; the SDK below it
    does.
    """

    def __init__(self) -> None:
        self._connections: WeakSet[Connection] = WeakSet()
        self._bus = InMemorySubscriptionBus()
        self._listen_handler = ListenHandler(self._bus, max_subscriptions=MAX_STREAMS)
        self._streams = Counter[str]()
        """Open ones, by caller."""

    @classmethod
    def of(cls, server: FastMCP[Any]) -> ListChangedNotifier:
        """The one that notifies the clients of `server`, which is installed if there is none."""
        installed = next((item for item in server.middleware if isinstance(item, cls)), None)
        if installed is None:
            installed = cls()
            installed.install(server)
        return installed

    def install(self, server: FastMCP[Any]) -> None:
        """Have the clients of `server` notified."""
        server.add_middleware(self)
        params = mcp_types.SubscriptionsListenRequestParams
        handler_registry(server).add_request_handler("subscriptions/listen", params, self._listen)

    async def _listen(
        self, context: Any, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        if get_access_token() is None:
            return await self._listen_handler(context, params)
        caller, most = share_key(None), MAX_STREAMS // SHARE
        if self._streams[caller] >= most:
            raise MCPError(
                code=mcp_types.INTERNAL_ERROR, message=f"Subscription limit reached: one caller may have {most} streams"
            )
        self._streams[caller] += 1
        try:
            return await self._listen_handler(context, params)
        finally:
            self._streams[caller] -= 1
            if not self._streams[caller]:
                del self._streams[caller]

    async def on_initialize(
        self,
        context: MiddlewareContext[mcp_types.InitializeRequest],
        call_next: CallNext[mcp_types.InitializeRequest, mcp_types.InitializeResult | None],
    ) -> mcp_types.InitializeResult | None:
        """Remember the client's connection for as long as it lasts."""
        result = await call_next(context)
        request_context = context.fastmcp_context
        connection = client_connection(request_context) if request_context is not None else None
        if connection is not None:
            self._connections.add(connection)
        return result

    async def notify(self, kinds: Collection[str]) -> None:
        """Notify all clients that lists of these kinds have changed: `tools`, `resources`, `prompts`."""
        for connection in list(self._connections):
            try:
                if "tools" in kinds:
                    await connection.send_tool_list_changed()
                if "resources" in kinds:
                    await connection.send_resource_list_changed()
                if "prompts" in kinds:
                    await connection.send_prompt_list_changed()
            except Exception:
                # One that cannot be notified must not keep the others from being notified.
                logger.debug("A client could not be told of a change", exc_info=True)
                self._connections.discard(connection)
        if "tools" in kinds:
            await self._bus.publish(ToolsListChanged())
        if "resources" in kinds:
            await self._bus.publish(ResourcesListChanged())
        if "prompts" in kinds:
            await self._bus.publish(PromptsListChanged())

    def close(self) -> None:
        """End the streams of clients that listen."""
        self._listen_handler.close()
