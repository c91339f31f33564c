"""Telling clients that a list has changed: those of the handshake over their connection, those of 2026-07-28 over the
stream of `subscriptions/listen` that they have opened.

FastMCP 4.1 tells only the client whose request it is answering, and does not serve that stream; the SDK below it does.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, SupportsFloat, cast
from weakref import WeakSet

import mcp_types
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from key_value.aio.stores.memory import MemoryStore
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)

from codecall.redaction.clean import well_formed

# ----------------------------------------------------------------------------------------------------
# Telling clients that a list has changed: those of the handshake over their connection, those of 2026-07-28 over the

logger = logging.getLogger("codecall")

MAX_STREAMS: Final = 1_024
"""Clients that may listen at the same time."""


class _Handlers(Protocol):
    def add_request_handler(self, method: str, params_type: type[Any], handler: Any, /) -> None: ...


class ListChangedNotifier(Middleware):
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

    async def notify(self, kinds: Collection[str]) -> None:
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


# ----------------------------------------------------------------------------------------------------
# What the gateway tells clients about itself when they connect: its servers, and what these say in turn.

MAX_CHARS_EACH: Final = 1_500
"""Of what one server says that are passed on."""

MAX_CHARS: Final = 12_000
"""Of all of it."""


class ServerBlurb(NamedTuple):
    """One server."""

    name: str
    description: str | None
    """What the configuration says of it."""
    instructions: str | None
    """What it says itself."""


def build_instructions(servers: Sequence[ServerBlurb], *, search: str | None) -> str:
    """The text.

    Args:
        servers: those behind the gateway.
        search: name of the meta-tool that finds tools; None where the tools themselves are listed.
    """
    names = ", ".join(server.name for server in servers) or "none yet"
    text = f"Tools of these servers are at hand, named after them: {names}."
    if search is not None:
        text += f" They are not listed one by one; {search} finds them."
    for number, server in enumerate(servers):
        said = "\n\n".join(part for part in (_shortened(server.description), _quoted(server.instructions)) if part)
        if not said:
            continue
        section = f"\n\n## {server.name}\n\n{said}"
        if len(text) + len(section) > MAX_CHARS:
            return f"{text}\n\n[what {len(servers) - number} more servers say of themselves is left out]"
        text += section
    return text


def _quoted(text: str | None) -> str:
    """Each line with a mark before it, whatever separates lines. The marks count as its own characters."""
    lines = well_formed(text or "").strip().splitlines()
    return _shortened("\n".join(f"> {line}".rstrip() for line in lines))


def _shortened(text: str | None) -> str:
    text = well_formed(text or "").strip()
    if len(text) <= MAX_CHARS_EACH:
        return text
    return f"{text[:MAX_CHARS_EACH]}… [shortened by {len(text) - MAX_CHARS_EACH} characters]"


# ----------------------------------------------------------------------------------------------------
# What FastMCP keeps of sessions: as it does by itself, in memory, but quicker to say that there is nothing.


class SessionState(MemoryStore):
    """FastMCP's own default. It asks for the visibility rules of a session three times a call, and in a gateway hardly
    a session has any: until something has been put in here, nothing is looked for."""

    def __init__(self) -> None:
        super().__init__()
        self._used = False

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """What is kept under that key."""
        return await super().get(key, collection=collection) if self._used else None

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep something; `ttl`: seconds."""
        self._used = True
        await super().put(key, value, collection=collection, ttl=ttl)

    async def put_many(
        self,
        keys: Sequence[str],
        values: Sequence[Mapping[str, Any]],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> None:
        """Keep several things; `ttl`: seconds."""
        self._used = True
        await super().put_many(keys, values, collection=collection, ttl=ttl)
