"""Tokens of a sign-in, and the authorization server that issued them: a refresh token goes nowhere else.

The SDK knows that server only until the process ends, or the connection. Then it sends a stored refresh token to
`/token` at the MCP server, which is mostly another. So what was discovered is kept beside the tokens.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

import httpx2
from fastmcp.client.auth.oauth import TokenStorageAdapter
from key_value.aio.adapters.pydantic import PydanticAdapter
from key_value.aio.protocols import AsyncKeyValue
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    handle_auth_metadata_response,
    issuers_match,
)
from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel

_KEPT_S: Final = 60 * 60 * 24 * 365
"""Seconds the server is remembered: as long as FastMCP keeps the tokens."""


class TokenSource(BaseModel):
    """Who issued tokens."""

    refresh_token_sha256: str
    """Of which refresh token: other clients of FastMCP keep their tokens in the same place."""
    token_endpoint: str
    auth_server_url: str | None = None
    authorization_server: OAuthMetadata | None = None
    """None: there is no metadata, and the token endpoint is where the MCP server is."""
    protected_resource: ProtectedResourceMetadata | None = None


@dataclass
class BoundContext(OAuthContext):
    """What the SDK knows of a sign-in, and where the tokens in it come from."""

    tokens_from: str | None = None
    """The token endpoint; None: not known."""

    @property
    def token_endpoint(self) -> str:
        """Where the SDK would send a refresh token now."""
        if self.oauth_metadata is not None:
            return str(self.oauth_metadata.token_endpoint)
        return urljoin(self.get_authorization_base_url(self.server_url), "/token")

    def update_token_expiry(self, token: OAuthToken) -> None:
        """Note until when a token that has come is used. One that has expired on arrival, or that outlives us all, is
        used, and stored, as one to be used until the server refuses it."""
        if token.expires_in is not None and not 0 < token.expires_in < _KEPT_S:
            token.expires_in = _KEPT_S
        super().update_token_expiry(token)

    def can_refresh_token(self) -> bool:
        """Whether there is a refresh token, and what goes with it would go to where it comes from."""
        if not super().can_refresh_token() or self.tokens_from != self.token_endpoint:
            return False
        issuer = None if self.client_info is None else self.client_info.issuer
        metadata = self.oauth_metadata
        return issuer is None or metadata is None or issuers_match(issuer, str(metadata.issuer))


class BoundTokenStorage(TokenStorageAdapter):
    """FastMCP's storage of the tokens for one server, and who issued them.

    Args:
        store: where.
        server_url: of the server, as FastMCP writes it.
        context: is told who issued the tokens that are read, and says it of those that are written.
    """

    def __init__(self, store: AsyncKeyValue, server_url: str, context: BoundContext) -> None:
        super().__init__(store, server_url)
        self._key = server_url
        self._context = context
        self._sources = PydanticAdapter[TokenSource](
            store, pydantic_model=TokenSource, default_collection="codecall-oauth-source"
        )

    async def get_tokens(self) -> OAuthToken | None:
        """The stored tokens; who issued them goes to the context."""
        tokens = await super().get_tokens()
        source = await self._source_of(tokens)
        self._context.tokens_from = None
        if source is not None:
            self._context.tokens_from = source.token_endpoint
            self._context.auth_server_url = source.auth_server_url
            self._context.oauth_metadata = source.authorization_server
            self._context.protected_resource_metadata = source.protected_resource
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens, and who issued them."""
        context = self._context
        context.tokens_from = context.token_endpoint
        await super().set_tokens(tokens)
        if tokens.refresh_token is not None:
            await self._keep_source(
                tokens.refresh_token,
                token_endpoint=context.token_endpoint,
                auth_server_url=context.auth_server_url,
                authorization_server=context.oauth_metadata,
                protected_resource=context.protected_resource_metadata,
            )

    async def find_lost_issuer(self) -> str | None:
        """The issuer of stored tokens of which nobody has kept who issued them, where the client that was registered
        for them is bound to one."""
        tokens, client = await super().get_tokens(), await self.get_client_info()
        if tokens is None or tokens.refresh_token is None or client is None or await self._source_of(tokens):
            return None
        return client.issuer

    async def take_metadata(self, issuer: str, response: httpx2.Response) -> bool:
        """Keep what an authorization server answers of itself as the source of the stored tokens.

        Args:
            issuer: the server.
            response: to a request at one of `metadata_urls`.

        Returns:
            Whether no more of these URLs need be asked.
        """
        may_go_on, metadata = await handle_auth_metadata_response(response)
        tokens = await super().get_tokens()
        if metadata is None or tokens is None or tokens.refresh_token is None:
            return not may_go_on
        if issuers_match(str(metadata.issuer), issuer):
            await self._keep_source(
                tokens.refresh_token,
                token_endpoint=str(metadata.token_endpoint),
                auth_server_url=issuer,
                authorization_server=metadata,
            )
        return True

    def metadata_urls(self, issuer: str) -> list[str]:
        """Where an authorization server may tell of itself."""
        return build_oauth_authorization_server_metadata_discovery_urls(issuer, self._key)

    async def _source_of(self, tokens: OAuthToken | None) -> TokenSource | None:
        if tokens is None or tokens.refresh_token is None:
            return None
        source = await self._sources.get(self._key)
        return source if source is not None and source.refresh_token_sha256 == _digest(tokens.refresh_token) else None

    async def _keep_source(self, refresh_token: str, **source: Any) -> None:
        kept = TokenSource(refresh_token_sha256=_digest(refresh_token), **source)
        await self._sources.put(self._key, kept, ttl=_KEPT_S)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
