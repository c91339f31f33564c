"""Rate limits as FastMCP middleware: how often one client may call a tool, read a resource or get a prompt.

    RateLimitPlugin.init(rules=[{"tool": "codecall:execute", "limit": 10, "window": "1m"}]).install(mcp)

Calls a script makes pass the same middleware, so a rule for a tool holds inside and outside of scripts. All tools that
a glob matches share its limit. A call that several rules match must pass them all, and a refused call counts for none.
A rule's `tool` is compared with the URIs of resources and the names of prompts too: `*` is about everything.

Who is one client (`client_key`): the key must be one that a caller cannot change to escape its limit.

    authenticated                      issuer and subject of the token, else its client id. Not the client id first:
                                       with dynamic registration a user can have as many as he likes.
    HTTP, anonymous                    the address of the peer (for IPv6 its /64 network). Not the session id: a new
                                       session is free, and on 2026-07-28 connections every request has a new one.
                                       Not `X-Forwarded-For`: only the ASGI server knows which proxies to trust.
    stdio and in-memory, handshake era the session id, which the server makes and which lasts as long as the connection
    stdio and in-memory, 2026-07-28    one key for all: the process serves one client, and nothing tells two apart

Limits are kept in the memory of this process.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

import mcp_types
import msgspec
from fastmcp.exceptions import NotFoundError, ToolError
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.calls.names import MAX_NAME_CHARS, shown
from codecall.calls.rules import RateLimitOptions, RateLimitRule, canonical, spellings
from codecall.envelopes import ExecutionResult, invoke_error
from codecall.errors import Called, RateLimitedError
from codecall.sandbox.agentscript.policy import is_meta_tool

if TYPE_CHECKING:
    from fastmcp import Context, FastMCP
    from fastmcp.prompts import PromptResult
    from fastmcp.resources import ResourceResult
    from limits import RateLimitItem
    from limits.aio.strategies import MovingWindowRateLimiter

MAX_RATED_URI: Final = 8_192
"""Longest URI that is compared with the rules, in characters; a longer one is not read. HTTP servers draw the line for
a request's first line there or thereabouts."""


class RateLimitRefused(ToolError):  # noqa: N818 - reads as the event it is
    """A rule refused a call. Its text is the error object as JSON, which is what a client of the tool receives."""

    def __init__(self, error: RateLimitedError) -> None:
        super().__init__(_error_text(error))
        self.error = error


class RateLimitPlugin(Middleware):
    """Holds the rules of one server; made with `init`.

    Args:
        options: the rules.
    """

    def __init__(self, options: RateLimitOptions) -> None:
        # Not imported above: 80 ms that a server without rules need not pay.
        from limits import RateLimitItemPerSecond
        from limits.aio.storage import MemoryStorage
        from limits.aio.strategies import MovingWindowRateLimiter

        self._rules: list[tuple[RateLimitRule, RateLimitItem]] = [
            (rule, RateLimitItemPerSecond(rule.limit, rule.window)) for rule in options.rules
        ]
        self._limiter: MovingWindowRateLimiter = MovingWindowRateLimiter(MemoryStorage())

    @classmethod
    def init(cls, *, rules: Sequence[Mapping[str, object] | RateLimitRule], **unknown: object) -> Self:
        """The plugin for these rules, each `{"tool": name or glob, "limit": calls, "window": "30s" | "1m" | …}`.

        Raises:
            OptionsError: no rules, or a bad one; the message names the field.
        """
        return cls(RateLimitOptions.read({"rules": rules, **unknown}, where=""))

    def install(self, mcp: FastMCP[Any]) -> None:
        """Add the rules to a server; the same as `mcp.add_middleware(plugin)`."""
        mcp.add_middleware(self)

    async def on_call_tool(
        self,
        context: MiddlewareContext[mcp_types.CallToolRequestParams],
        call_next: CallNext[mcp_types.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """FastMCP's hook: pass the call on, or refuse it.

        Raises:
            NotFoundError: the name is longer than any tool may have, and so is compared with no rule.
            RateLimitRefused: a rule refused the call.
        """
        tool = context.message.name
        if len(tool) > MAX_NAME_CHARS:
            raise NotFoundError(f"Unknown tool: {shown(tool)!r}")
        refused = await self._check(tool, self._about(tool), context.fastmcp_context)
        if refused is None:
            return await call_next(context)
        if is_meta_tool(tool):
            return _answer(tool, refused)
        raise RateLimitRefused(refused)

    async def on_read_resource(
        self,
        context: MiddlewareContext[mcp_types.ReadResourceRequestParams],
        call_next: CallNext[mcp_types.ReadResourceRequestParams, ResourceResult],
    ) -> ResourceResult:
        """FastMCP's hook: let the resource be read, or refuse it.

        Raises:
            NotFoundError: the URI is longer than `MAX_RATED_URI`, and so is compared with no rule.
            RateLimitRefused: a rule refused it.
        """
        uri = str(context.message.uri)
        if len(uri) > MAX_RATED_URI:
            raise NotFoundError(f"Unknown resource: {shown(uri)!r}")
        forms = spellings(uri)
        rules = [place for place, (rule, _) in enumerate(self._rules) if rule.covers_resource(forms)]
        await self._pass("resource", uri, rules, context.fastmcp_context)
        return await call_next(context)

    async def on_get_prompt(
        self,
        context: MiddlewareContext[mcp_types.GetPromptRequestParams],
        call_next: CallNext[mcp_types.GetPromptRequestParams, PromptResult],
    ) -> PromptResult:
        """FastMCP's hook: let the prompt be rendered, or refuse it.

        Raises:
            NotFoundError: the name is longer than any prompt may have, and so is compared with no rule.
            RateLimitRefused: a rule refused it.
        """
        name = context.message.name
        if len(name) > MAX_NAME_CHARS:
            raise NotFoundError(f"Unknown prompt: {shown(name)!r}")
        await self._pass("prompt", name, self._about(name), context.fastmcp_context)
        return await call_next(context)

    async def _pass(self, called: Called, name: str, places: Sequence[int], context: Context | None) -> None:
        if (refused := await self._check(name, places, context)) is not None:
            refused.called = called
            raise RateLimitRefused(refused)

    def _about(self, name: str) -> list[int]:
        """The places of the rules about that tool or prompt."""
        return [place for place, (rule, _) in enumerate(self._rules) if rule.covers(name)]

    async def _check(self, tool: str, places: Sequence[int], context: Context | None) -> RateLimitedError | None:
        """Count the call for the rules at these places, or say which refuses it."""
        if not places:
            return None
        rules = [(str(place), *self._rules[place]) for place in places]
        key = client_key(context)
        for place, rule, item in rules:
            if not await self._limiter.test(item, place, key):
                return await self._refusal(tool, place, rule, item, key)
        for place, rule, item in rules:
            if not await self._limiter.hit(item, place, key):  # a call at the same time was faster
                return await self._refusal(tool, place, rule, item, key)
        return None

    async def _refusal(
        self, tool: str, place: str, rule: RateLimitRule, item: RateLimitItem, key: str
    ) -> RateLimitedError:
        stats = await self._limiter.get_window_stats(item, place, key)
        wait_ms = max(1, math.ceil((stats.reset_time - time.time()) * 1000))
        return RateLimitedError(
            f"Rate limit exceeded for '{shown(tool)}': {rule.limit} calls per {_spoken(rule.window)}",
            tool_name=shown(tool),
            retry_after_ms=wait_ms,
            hint=f"Try again in {math.ceil(wait_ms / 1000)} s, or do the same with fewer calls.",
        )


def client_key(context: Context | None) -> str:
    """Who a call counts for, as the table at the top of this module says; a hash, so that no identity is stored."""
    return hashlib.blake2b("\x00".join(_client(context)).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _client(context: Context | None) -> tuple[str, ...]:
    token = get_access_token()
    if token is not None:
        subject: object = token.subject or token.claims.get("sub")
        if subject:
            return "subject", str(token.claims.get("iss", "")), str(subject)
        return "client", token.client_id
    request_context = context.request_context if context is not None else None
    if context is None or request_context is None:
        return ("process",)
    request = request_context.request
    if request is not None:
        return "peer", _network(request.client.host) if request.client is not None else ""
    if request_context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return ("process",)
    return "session", context.session_id


def _network(host: str) -> str:
    """An IPv6 peer stands for its /64, all of which belongs to one customer; anything else for itself."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def _answer(tool: str, error: RateLimitedError) -> ToolResult:
    """What a refused meta-tool answers: an envelope where it has one, else an error result."""
    name = canonical(tool.strip().lower())
    if name == "codecall:execute":
        envelope = ExecutionResult(status=error.status, error=error).envelope()
    elif name == "codecall:invoke":
        envelope = invoke_error(error)
    else:
        return ToolResult(content=_error_text(error), is_error=True)
    return ToolResult(content=msgspec.json.encode(envelope).decode(), structured_content=envelope)


def _error_text(error: RateLimitedError) -> str:
    return msgspec.json.encode(error.as_dict()).decode()


def _spoken(seconds: int) -> str:
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % unit == 0:
            return name if seconds == unit else f"{seconds // unit} {name}s"
    return "second" if seconds == 1 else f"{seconds} seconds"
