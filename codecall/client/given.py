"""A server whose client somebody else has made: what it lists, and calls over that client's own session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import mcp_types
from fastmcp import Client, Context
from mcp import ClientSession, MCPError

from codecall.gateway.listing import Listing
from codecall.gateway.unavailable import ServerUnavailableError

T = TypeVar("T")


class _Line:
    """The session of such a client, for one call."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Nobody waits for it: an agent hears of a script as a whole."""


class Given:
    """A server behind a client that its owner keeps connected. Changes of its lists are taken with `refresh` only:
    notifications are its owner's, and so are questions to a person.

    Args:
        name: what its tools' names begin with; empty: nothing.
        client: connected while this is used.
    """

    def __init__(self, name: str, client: Client[Any]) -> None:
        self.name = name
        self._client = client
        self._called = f"The client {name!r}" if name else "The client"

    @property
    def server_info(self) -> mcp_types.Implementation | None:
        """What the server called itself."""
        return self._client.session.server_info if self._client.is_connected() else None

    @asynccontextmanager
    async def use(self, context: Context | None) -> AsyncGenerator[_Line]:  # noqa: ARG002 - all callers share it
        """The client's session.

        Raises:
            ServerUnavailableError: the client is not connected any more.
        """
        if not self._client.is_connected():
            raise ServerUnavailableError(
                f"{self._called} is not connected any more", tool_name=self.name, hint="Open the clients anew."
            )
        yield _Line(self._client.session)

    async def listing(self) -> Listing:
        """What the server lists now. A kind of things that it does not know is empty.

        Raises:
            ServerUnavailableError: it cannot be asked.
        """
        client = self._client
        try:
            return Listing(
                tools=tuple(await client.list_tools()),
                resources=tuple(await _if_known(client.list_resources)),
                templates=tuple(await _if_known(client.list_resource_templates)),
                prompts=tuple(await _if_known(client.list_prompts)),
                server_info=self.server_info,
                instructions=client.session.instructions,
            )
        except (MCPError, RuntimeError) as failure:
            raise ServerUnavailableError(
                f"{self._called} could not be listed: {failure}", tool_name=self.name, hint="Look at its server."
            ) from failure

    def on_changed(self, callback: Callable[[str], None]) -> None:
        """Never called: see above."""


async def _if_known(ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
    try:
        return await ask()
    except MCPError as failure:
        if failure.error.code == mcp_types.METHOD_NOT_FOUND:
            return []
        raise
