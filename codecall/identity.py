"""The identity that a call counts for.

The caller (`client_key`) is identified by what it cannot change to escape its limits:

    authenticated                      issuer and subject of the token, else its client id. Not the client id first:
                                       with dynamic registration a user can have as many as they like. Of a
                                       `MultiAuth`, the source that has verified the token belongs to it. A token
                                       with neither is a caller of its own, but where rates and shares are counted.
    HTTP, anonymous                    the address of the peer (for IPv6 its /64 network). Not the session id: a new
                                       session is free, and on 2026-07-28 connections every request has a new one.
                                       Not `X-Forwarded-For`: only the ASGI server knows which proxies to trust.
    stdio and in-memory, handshake era the session id, which the server makes and which lasts as long as the connection
    stdio and in-memory, 2026-07-28    one key for all: the process serves one client, and nothing tells two apart
    a background task, anonymous       the caller who started it, by the rows above

A rate rule may count for something else (`per`, see `Per`). Where a call has no such thing it counts for its caller, so
that no rule is escaped by leaving something out. All keys are hashes: no identity is stored.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from fastmcp.server.dependencies import get_access_token
from mcp_types import CLIENT_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.fastmcp_errors import log_unexpected

if TYPE_CHECKING:
    from fastmcp import Context
    from fastmcp.server.auth import AccessToken


Per: TypeAlias = Literal["caller", "session", "client", "subject", "tenant", "global"]
"""Whom a rule counts for:

    caller   the default: the caller, as defined at the top of this file
    session  the MCP session: fair shares for several sessions of one caller, no protection, because sessions are free
    client   the client id of the token: the application, whoever uses it
    subject  source, issuer and subject of the token: the user, whatever application they use
    tenant   what the option `tenant` gives
    global   everybody together

A call that has no such thing counts for its caller.
"""

Tenant: TypeAlias = "str | Callable[[Context | None], str | Awaitable[str | None] | None]"
"""What names the tenant of a call: a claim of the token, or a function."""

_SUBMITTED: Final = "submitted"
"""Marks a key that is a hash already."""

_SUBMITTER: ContextVar[str | None] = ContextVar("codecall_submitter", default=None)


@contextmanager
def as_submitter(caller: str) -> Generator[None]:
    """What is called inside counts for the caller of that key, unless it has a token: the caller of a background task
    is not there while it runs."""
    reset = _SUBMITTER.set(caller)
    try:
        yield
    finally:
        _SUBMITTER.reset(reset)


def client_name(context: Context | None) -> str:
    """What the client calls itself, in `initialize` or, since 2026-07-28, in the `_meta` of each request; else empty.
    It proves nothing."""
    request = context.request_context if context is not None else None
    if context is None or request is None:
        return ""
    params = context.session.client_params
    if params is not None:
        return params.client_info.name
    info: object = (request.meta or {}).get(CLIENT_INFO_META_KEY)
    name = cast("dict[str, object]", info).get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


def client_key(context: Context | None) -> str:
    """The caller, as the table at the top of this module says; a hash, so that no identity is stored.

    What belongs to a caller belongs to one token where that names nobody. For rates and shares all such tokens are one
    caller: a new one must not be a way around a rule.
    """
    token = get_access_token()
    if token is not None and _names_nobody(token):
        return _hash(("token", token.token))
    return _hash(_client(context))


def share_key(context: Context | None) -> str:
    """The caller that a share of what all have counts for: as `client_key`, but that tokens which name nobody are one
    caller, as for rates."""
    return _hash(_client(context))


def is_local(context: Context) -> bool:
    """Whether who made a request is at this machine: over stdio, or in this process."""
    request = context.request_context
    return request is not None and request.request is None and context.transport in (None, "stdio")


async def rate_limit_key(per: Per, context: Context | None, tenant: Tenant | None) -> str:
    """Whom a call counts for under a rule with that `per`; a hash.

    Args:
        per: the rule's.
        context: of the request; None outside of requests.
        tenant: the name of a claim, or a function of the context that gives the tenant's name or None. One that raises
            is logged, and the call counts for its caller.
    """
    if per == "tenant":
        return _hash(await _tenant(context, tenant) or _client(context))
    return _hash(_KEY_PARTS[per](context))


def _hash(parts: tuple[str, ...]) -> str:
    if parts[0] == _SUBMITTED:
        return parts[1]
    # With their lengths no two callers have the same text, whatever characters a token's claims have.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _client(context: Context | None) -> tuple[str, ...]:
    token = get_access_token()
    if token is not None:
        return _token_subject(token)
    submitter = _SUBMITTER.get()
    if submitter is not None:
        return _SUBMITTED, submitter
    request_context = context.request_context if context is not None else None
    if context is None or request_context is None:
        return ("process",)
    request = request_context.request
    if request is not None:
        return "peer", peer_network(request.client.host) if request.client is not None else ""
    if request_context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return ("process",)
    return "session", context.session_id


def _token_subject(token: AccessToken) -> tuple[str, ...]:
    issuer = (*_sources(token), str(token.claims.get("iss", "")))
    subject: object = token.subject or token.claims.get("sub")
    if subject:
        return "subject", *issuer, str(subject)
    return "client", *issuer, token.client_id


def _sources(token: AccessToken) -> tuple[str, ...]:
    """The names of the sources that have verified a token of FastMCP's `MultiAuth`, the outermost first: two sources
    may give one subject to two people.

    `MultiAuth` writes them into the client's id, as JSON, in front of the id that the source gave, which is left out: a
    user may have many. One that is written in another way is a source as a whole: better too many callers than one for
    two people.
    """
    names: list[str] = []
    client_id = token.client_id
    while token.original_client_id is not None and client_id != token.original_client_id:
        try:
            source, client_id, *_ = cast("list[str]", json.loads(client_id))
        except (TypeError, ValueError):
            return *names, str(client_id)
        names.append(str(source))
    return tuple(names)


def _names_nobody(token: AccessToken) -> bool:
    """Whether neither a subject nor a client is known. FastMCP's verifiers then call the client `unknown`."""
    if token.subject or token.claims.get("sub"):
        return False
    client_id = token.original_client_id or token.client_id
    return not client_id or (client_id == "unknown" and token.claims.get("client_id") != "unknown")


def _session(context: Context | None) -> tuple[str, ...]:
    caller = _client(context)
    request_context = context.request_context if context is not None else None
    if context is None or request_context is None or request_context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return caller
    # With the caller: nobody uses up the limit of a session whose id they have heard of.
    return "of session", *caller, context.session_id


def _token_client(context: Context | None) -> tuple[str, ...]:
    token = get_access_token()
    return ("client", token.client_id) if token is not None else _client(context)


def _global(_context: Context | None) -> tuple[str, ...]:
    return ("everybody",)


_KEY_PARTS: Final[dict[Per, Callable[[Context | None], tuple[str, ...]]]] = {
    "caller": _client,
    "subject": _client,
    "client": _token_client,
    "session": _session,
    "global": _global,
}


async def _tenant(context: Context | None, tenant: Tenant | None) -> tuple[str, ...] | None:
    if isinstance(tenant, str):
        token = get_access_token()
        claim: object = token.claims.get(tenant) if token is not None else None
        return ("tenant", str(claim)) if isinstance(claim, str | int) and not isinstance(claim, bool) else None
    if tenant is None:
        return None
    try:
        answer = tenant(context)
        name: object = await answer if isinstance(answer, Awaitable) else answer
    except Exception as failure:
        log_unexpected("asking for the tenant of a call", failure)
        return None
    return ("tenant", str(name)) if name is not None else None


@lru_cache(maxsize=1_024)
def peer_network(host: str) -> str:
    """An IPv6 peer stands for its /64, all of which belongs to one customer; anything else for itself."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
