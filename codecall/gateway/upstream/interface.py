"""What components and providers need of a server behind the gateway, whoever has the connection to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import mcp_types
from fastmcp import Context
from mcp import ClientSession

from codecall.gateway.upstream.listing import Listing


class UpstreamCall(Protocol):
    """A connection to the server, for one call."""

    @property
    def session(self) -> ClientSession:
        """The session, connected. Answers `InputRequiredResult` where it is allowed to."""
        ...

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """What the server tells of the call's progress goes here."""
        ...


class Upstream(Protocol):
    """A server behind the gateway."""

    @property
    def name(self) -> str:
        """Its name, which is its namespace."""
        ...

    @property
    def server_info(self) -> mcp_types.Implementation | None:
        """What it called itself when it was last connected; None before."""
        ...

    def use(self, context: Context | None) -> AbstractAsyncContextManager[UpstreamCall]:
        """A connection for one call made on behalf of `context`.

        Raises:
            ServerUnavailableError, ServerTimeoutError: on entering, or when the call fails for such a reason.
        """
        ...

    async def fetch_listing(self) -> Listing:
        """What it lists now.

        Raises:
            ServerUnavailableError, ServerTimeoutError: it cannot be asked.
        """
        ...

    def on_changed(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called with "started" when it was connected for a call, and with "tools", "resources" or
        "prompts" when it says that they have changed."""
        ...
