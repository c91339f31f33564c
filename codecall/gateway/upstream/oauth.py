"""Signing in at a server with OAuth: FastMCP's, kept from sending requests into the gateway's own network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import fastmcp
import httpx2
from fastmcp.client.auth.oauth import OAuth
from key_value.aio.stores.filetree import (
    FileTreeStore,
    FileTreeV1CollectionSanitizationStrategy,
    FileTreeV1KeySanitizationStrategy,
)

from codecall.gateway.upstream.addresses import PrivateAddressError, guard_connection, is_allowed_target
from codecall.gateway.upstream.bounds.http_client import create_http_client
from codecall.gateway.upstream.responses import UnreadBody


class GuardedOAuth(OAuth):
    """OAuth whose requests go to the server's own host, to hosts that are configured, and to public addresses. The
    server names most of the URLs, and could have any of the gateway's network read otherwise.

    Args:
        url: of the server.
        hosts: names or addresses, beside the server's, that need not be public.
        options: as for FastMCP's.
    """

    def __init__(self, url: str, hosts: Sequence[str], **options: Any) -> None:
        self._hosts = (urlsplit(url).hostname or "", *hosts)
        super().__init__(url, httpx_client_factory=cast("Any", self._client), **options)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The requests of the sign-in, each of which is looked at."""
        async with aclosing(super().async_auth_flow(request)) as flow:
            response: httpx2.Response | None = None
            while True:
                try:
                    outgoing = await flow.asend(cast("Any", response))
                except StopAsyncIteration:
                    return
                await self._check(outgoing)
                response = yield outgoing

    def _client(self) -> httpx2.AsyncClient:
        """A client of the request that FastMCP makes before it opens the browser, for the status of its answer."""

        async def leave_unread(response: httpx2.Response) -> None:
            response.stream = UnreadBody(response)

        return create_http_client(on_request=[self._check], on_response=[leave_unread])

    async def _check(self, request: httpx2.Request) -> None:
        refusal = f"wants the sign-in at {request.url.host}, which is no public address"
        if not await is_allowed_target(str(request.url), self._hosts):
            raise PrivateAddressError(refusal)
        guard_connection(request, self._hosts, refusal)


def create_oauth(url: str, hosts: Sequence[str] = ()) -> OAuth:
    """OAuth with dynamic registration for the server at `url`, which opens a browser when there is no valid token.

    Tokens are kept where FastMCP's own client keeps them.
    """
    folder = Path(fastmcp.settings.home) / "oauth-tokens"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    store = FileTreeStore(
        data_directory=folder,
        key_sanitization_strategy=FileTreeV1KeySanitizationStrategy(folder),
        collection_sanitization_strategy=FileTreeV1CollectionSanitizationStrategy(folder),
    )
    return GuardedOAuth(url, hosts, client_name="CodeCall", token_storage=store)
