"""What components and providers need of an upstream server: protocols, so that tests and the client bring their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeVar

import mcp_types
from fastmcp import Context
from mcp import ClientSession

from codecall.gateway.upstream.listing import Listing

T = TypeVar("T")

UNCHECKED_KEYWORD: Final = "x-unchecked"
"""Marks the schema of a tool's results that says what they should be, and that nobody holds them against."""


class UpstreamCall(Protocol):
    """One call to an upstream server, and the connection it goes over."""

    @property
    def session(self) -> ClientSession:
        """The connected session, which may answer with `InputRequiredResult`."""
        ...

    async def run(self, send: Callable[[mcp_types.InputResponses | None, str | None], Awaitable[T]]) -> T:
        """Make a request with `send`, which is handed answers to the server's questions and the state it sent with
        them, and ask the client the questions where it is handed none."""
        ...

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass a progress notification of the server on; the SDK calls this."""
        ...


class Upstream(Protocol):
    """One upstream server."""

    @property
    def name(self) -> str:
        """The server's name, which is its namespace."""
        ...

    @property
    def server_info(self) -> mcp_types.Implementation | None:
        """Name and version that the server gave when it was last connected; None before."""
        ...

    def use(self, context: Context | None) -> AbstractAsyncContextManager[UpstreamCall]:
        """Enter one call made on behalf of `context`; None: on behalf of the gateway itself.

        Raises:
            ServerUnavailableError, ServerTimeoutError: on entering, or when the call fails for such a reason.
        """
        ...

    async def fetch_listing(self) -> Listing:
        """Ask the server for everything it lists now.

        Raises:
            ServerUnavailableError, ServerTimeoutError: it cannot be asked.
        """
        ...

    def on_changed(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called with "started" when the server was connected for a call, and with "tools", "resources"
        or "prompts" when it says that they have changed."""
        ...


def unchecked_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that every result has for which `schema` says what it should be; clients refuse results by it."""
    if not schema.get("x-fastmcp-wrap-result"):
        return {"type": "object", "additionalProperties": True}
    return {"type": "object", "properties": {"result": {}}, "required": ["result"], "x-fastmcp-wrap-result": True}
