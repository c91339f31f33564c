"""Signing in at a server with OAuth: FastMCP's, kept from sending requests into the gateway's own network, refresh
tokens to anybody but their issuer, and people to sign in again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import fastmcp
import httpx2
from fastmcp.client.auth.oauth import OAuth
from key_value.aio.protocols import AsyncKeyValue
from key_value.aio.stores.filetree import (
    FileTreeStore,
    FileTreeV1CollectionSanitizationStrategy,
    FileTreeV1KeySanitizationStrategy,
)
from mcp.client.auth import OAuthTokenError
from mcp.client.auth.utils import create_oauth_metadata_request, extract_field_from_www_auth
from pydantic import ValidationError

from codecall.fastmcp_errors import first_fault
from codecall.gateway.upstream.addresses import PrivateAddressError, guard_connection, is_allowed_target
from codecall.gateway.upstream.bounds.http_client import create_http_client
from codecall.gateway.upstream.errors import ConnectFailureError
from codecall.gateway.upstream.remote.oauth_tokens import BoundContext, BoundTokenStorage
from codecall.gateway.upstream.responses import UnreadBody

_SIGN_IN_PAUSE_S: Final = 60.0
"""Seconds until somebody is asked to sign in again, or for more scopes, whose new token the server has refused."""


class GuardedOAuth(OAuth):
    """OAuth whose requests go to the server's own host, to hosts that are configured, and to public addresses. The
    server names most of the URLs, and could have any of the gateway's network read otherwise.

    Args:
        url: of the server.
        hosts: names or addresses, beside the server's, that need not be public.
        store: keeps the tokens.
        options: as for FastMCP's.
    """

    def __init__(self, url: str, hosts: Sequence[str], store: AsyncKeyValue, **options: Any) -> None:
        self._hosts = (urlsplit(url).hostname or "", *hosts)
        super().__init__(url, httpx_client_factory=cast("Any", self._client), token_storage=store, **options)
        context = self.context = BoundContext(**vars(self.context))
        self._tokens = self.token_storage_adapter = context.storage = BoundTokenStorage(store, self.mcp_url, context)
        self._source_sought = False
        self._no_sign_in_before: dict[int, float] = {}  # by status: more scopes may help against 403 alone

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The requests of the sign-in, each of which is looked at."""
        async with self.context.lock:
            if not self._source_sought and (issuer := await self._tokens.find_lost_issuer()) is not None:
                for url in self._tokens.metadata_urls(issuer):
                    discovery = create_oauth_metadata_request(url)
                    await self._check(discovery)
                    if await self._tokens.take_metadata(issuer, (yield discovery)):
                        break
            self._source_sought = True
        async with aclosing(super().async_auth_flow(request)) as flow:
            response: httpx2.Response | None = None
            sent = False
            while True:
                try:
                    outgoing = await flow.asend(cast("Any", response))
                except StopAsyncIteration:
                    return
                except OAuthTokenError as failure:
                    raise _token_failure(failure) from None
                await self._check(outgoing)
                response = yield outgoing
                if outgoing is request and _asks_to_sign_in(response):
                    now, status = asyncio.get_running_loop().time(), response.status_code
                    if now < self._no_sign_in_before.get(status, 0.0):
                        return  # nor would it take what another sign-in brings
                    if sent:
                        self._no_sign_in_before[status] = now + _SIGN_IN_PAUSE_S
                sent = sent or outgoing is request

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


def _token_failure(failure: OAuthTokenError) -> ConnectFailureError:
    """Why a sign-in brought no tokens; the text of `failure` may hold what was sent instead."""
    fault = failure.__context__
    wrong = f"sent tokens that cannot be used: {first_fault(fault)}" if isinstance(fault, ValidationError) else ""
    return ConnectFailureError(f"the sign-in {wrong or 'ended without tokens'}", "Ask who runs the sign-in.")


def _asks_to_sign_in(response: httpx2.Response) -> bool:
    """Whether a server refuses a request for the token, or for its scopes, as the SDK reads that."""
    lacks_scope = extract_field_from_www_auth(response, "error") == "insufficient_scope"
    return response.status_code == 401 or (response.status_code == 403 and lacks_scope)


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
    return GuardedOAuth(url, hosts, store, client_name="CodeCall")
