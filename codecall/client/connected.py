"""The upstream of `CodeCallClient`: a server whose MCP client somebody else has made and keeps connected."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import mcp_types
from fastmcp import Client, Context
from mcp import ClientSession, MCPError

from codecall.gateway.upstream.errors import ServerUnavailableError
from codecall.gateway.upstream.listing import Listing

T = TypeVar("T")


class ConnectedUpstream:
    """The upstream of a server whose client somebody else keeps connected.

    Its lists are read again by `refresh` only: notifications and elicitations belong to the owner of the client.

    Args:
        name: the prefix of its tools' names; empty for none.
        client: a client that is connected while this is used.
    """

    def __init__(self, name: str, client: Client[Any]) -> None:
        self.name = name
        self._client = client
        self._title = f"The client {name!r}" if name else "The client"

    @property
    def server_info(self) -> mcp_types.Implementation | None:
        """Name and version that the server reports; None while the client is not connected."""
        return self._client.session.server_info if self._client.is_connected() else None

    @asynccontextmanager
    async def use(self, context: Context | None) -> AsyncGenerator[_ConnectedCall]:  # noqa: ARG002 - all callers share it
        """Give the session of the client for one call.

        Raises:
            ServerUnavailableError: the client is not connected any more.
        """
        if not self._client.is_connected():
            raise ServerUnavailableError(
                f"{self._title} is not connected any more", tool_name=self.name, hint="Open the clients anew."
            )
        yield _ConnectedCall(self._client.session)

    async def fetch_listing(self) -> Listing:
        """List what the server has now. A kind that the server does not support is empty.

        Raises:
            ServerUnavailableError: the server cannot be asked.
        """
        client = self._client
        try:
            return Listing(
                tools=tuple(await client.list_tools()),
                resources=tuple(await _list_if_supported(client.list_resources)),
                templates=tuple(await _list_if_supported(client.list_resource_templates)),
                prompts=tuple(await _list_if_supported(client.list_prompts)),
                server_info=self.server_info,
                instructions=client.session.instructions,
            )
        except (MCPError, RuntimeError) as failure:
            raise ServerUnavailableError(
                f"{self._title} could not be listed: {failure}", tool_name=self.name, hint="Look at its server."
            ) from failure

    def on_changed(self, callback: Callable[[str], None]) -> None:
        """Ignore the callback: notifications belong to the owner of the client."""


class _ConnectedCall:
    """The session of a connected client, for one call."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Do nothing: an agent gets the result of a script as a whole."""


async def _list_if_supported(request: Callable[[], Awaitable[list[T]]]) -> list[T]:
    try:
        return await request()
    except MCPError as failure:
        if failure.error.code == mcp_types.METHOD_NOT_FOUND:
            return []
        raise
