"""What the gateway sends to its clients besides answers: that a list has changed, and instructions at the beginning."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple
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

from codecall.gateway.upstream.session import client_connection, handler_registry
from codecall.redaction.clean import well_formed

logger = logging.getLogger("codecall")

MAX_STREAMS: Final = 1_024
"""Clients that may listen at the same time."""

MAX_CHARS_EACH: Final = 1_500
"""Characters of one server's description, and of its instructions, that are passed on."""

MAX_CHARS: Final = 12_000
"""Characters of all instructions together."""


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

    def install(self, server: FastMCP[Any]) -> None:
        """Have the clients of `server` notified."""
        server.add_middleware(self)
        params = mcp_types.SubscriptionsListenRequestParams
        handler_registry(server).add_request_handler("subscriptions/listen", params, self._listen_handler)

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


class ServerBlurb(NamedTuple):
    """What the instructions contain about one server."""

    name: str
    description: str | None
    """From the configuration."""
    instructions: str | None
    """From the server itself."""


def build_instructions(servers: Sequence[ServerBlurb], *, search: str | None) -> str:
    """The gateway's instructions: its servers, and what these say in turn, each within its own section.

    Args:
        servers: those behind the gateway.
        search: name of the meta-tool that finds tools; None where the tools themselves are listed.
    """
    names = ", ".join(server.name for server in servers) or "none yet"
    text = f"Tools of these servers are at hand, named after them: {names}."
    if search is not None:
        text += f" They are not listed one by one; {search} finds them."
    for index, server in enumerate(servers):
        parts = _shorten(server.description), _quote(server.instructions)
        body = "\n\n".join(part for part in parts if part)
        if not body:
            continue
        section = f"\n\n## {server.name}\n\n{body}"
        if len(text) + len(section) > MAX_CHARS:
            return f"{text}\n\n[what {len(servers) - index} more servers say of themselves is left out]"
        text += section
    return text


def _quote(text: str | None) -> str:
    """Each line with a mark before it, whatever separates lines. The marks count as the server's own characters."""
    lines = well_formed(text or "").strip().splitlines()
    return _shorten("\n".join(f"> {line}".rstrip() for line in lines))


def _shorten(text: str | None) -> str:
    text = well_formed(text or "").strip()
    if len(text) <= MAX_CHARS_EACH:
        return text
    return f"{text[:MAX_CHARS_EACH]}… [shortened by {len(text) - MAX_CHARS_EACH} characters]"
