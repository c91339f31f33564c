"""Rate limits as FastMCP middleware: how often one client may call a tool, read a resource or get a prompt.

    RateLimitPlugin.init(rules=[{"tool": "codecall:execute", "rate": "10/minute", "concurrent": 2}]).install(mcp)

Calls of scripts pass the same middleware, so a rule for a tool holds inside and outside of scripts. All tools that a
glob matches share its limit. A call that several rules match must pass them all, and a refused call counts for none.
A rule's `tool` is compared with the URIs of resources and the names of prompts too: `*` matches everything.

`codecall/identity.py` determines the caller that a call counts for, `rules.py` defines the rules, `counting.py` counts
calls. Counts are stored in the memory of this process, or in a Redis that several processes share.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeVar

import mcp_types
import msgspec
from fastmcp.exceptions import NotFoundError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.providers.addressing import parse_hashed_backend_name
from fastmcp.tools.base import ToolResult

from codecall.catalog.entries import META_KEY, OTHER_NAMES, read_metadata
from codecall.envelopes import ExecutionResult, invoke_error
from codecall.errors import CallKind, OptionsError, RateLimitedError
from codecall.globs import MAX_NAME_CHARS, display_name
from codecall.identity import client_key, rate_limit_key
from codecall.option_base import merge_options, passed_options
from codecall.ratelimit.continuations import Continuation, find_continuation
from codecall.ratelimit.counting import ConcurrencyLimit, Limit, LimitRefusal, WindowLimit, wait_ms
from codecall.ratelimit.redis_store import RETRY_AFTER_S, StoreUnavailableError
from codecall.ratelimit.refusal import RateLimitRefusedError, error_text
from codecall.ratelimit.rules import (
    Per,
    Rate,
    RateLimitOptions,
    RateLimitRule,
    canonical_meta_tool,
    check_options,
    uri_spellings,
)
from codecall.ratelimit.storage import RunningCall, open_storage
from codecall.sandbox.agentscript.policy import is_meta_tool
from codecall.telemetry.spans import record_rate_refusal

if TYPE_CHECKING:
    from fastmcp import Context, FastMCP
    from fastmcp.prompts import PromptResult
    from fastmcp.resources import ResourceResult
    from limits import RateLimitItem

    from codecall.ratelimit.rules import RuleDict

__all__ = ["RateLimitPlugin", "RateLimitRefusedError", "client_key"]

M = TypeVar("M")
R = TypeVar("R")

MAX_RATED_URI: Final = 8_192
"""Most characters of a URI that is compared with the rules; a longer URI is not read. HTTP servers limit a request's
first line to about as much."""


_META_VERB: Final = re.compile(r"codecall[:_](\w+)$")


class _PreparedRule(NamedTuple):
    """A rule, prepared for checking."""

    rule: RateLimitRule
    id: str
    """An id that is the same on every instance that has the rule."""
    items: tuple[RateLimitItem, ...]
    concurrent: int | None
    """Most calls at the same time."""

    def limits(self, key: str) -> list[Limit]:
        """Returns the limits of the rule for the caller of that key."""
        scope = (self.id, key)
        limits: list[Limit] = [WindowLimit(self.rule, scope, item) for item in self.items]
        if self.concurrent is not None:
            limits.append(ConcurrencyLimit(self.rule, scope, self.concurrent))
        return limits


class RateLimitPlugin(Middleware):
    """Enforces the rate limits of one server; created with `init`.

    Args:
        options: the rules and their storage.

    Raises:
        OptionsError: the options contradict each other, or the client for Redis is not installed.
    """

    def __init__(self, options: RateLimitOptions) -> None:
        check_options(options)
        self.rules: Final = options.rules
        """The rules, as they were given."""
        self._options = options
        self._rules = _prepare(options.rules)
        self._stores = open_storage(options)

    @classmethod
    def init(
        cls,
        options: Mapping[str, object] | None = None,
        /,
        *,
        rules: Sequence[RuleDict | Mapping[str, object] | RateLimitRule] = (),
        tenant: str | Callable[[Context | None], str | Awaitable[str | None] | None] | None = None,
        storage: str = "memory://",
        fail: Literal["open", "closed"] = "open",
        timeout_ms: int = 1_000,
        prefix: str = "codecall",
        lease_s: int = 30,
        **wire_spelling: object,
    ) -> Self:
        """Create the plugin for these rules. Each option may also be given in its wire spelling (`timeoutMs`).

        Args:
            options: All or some of them as one mapping: `init({"rules": […]})`.
            rules: At least one, each `{"tool": name or glob, "rate": "10/minute"}`, or with `"limit": 10` and
                `"window": "1m"`, or with `"concurrent": 2`; all fields in `codecall.ratelimit.rules.RateLimitRule`.
            tenant: For rules with `per: "tenant"`: the name of a claim of the token, or a function, sync or async, that
                takes FastMCP's `Context` (None outside of requests) and returns the tenant's name, or None.
            storage: Where counts are stored: `memory://`, this process; or a Redis that all instances share, as
                `redis://`, `rediss://` (TLS) or `redis+unix:///path`. Redis needs the extra `redis`.
            fail: How calls end while Redis does not answer: with `open` they pass uncounted, with `closed` they are
                refused.
            timeout_ms: Milliseconds for which Redis may be silent; then it counts as unavailable, and is retried once a
                second. 10 to 10,000.
            prefix: What keys in Redis begin with. Servers with the same prefix and equal rules count together.
            lease_s: Seconds after which calls of an instance that died no longer count as running; over Redis only.
            **wire_spelling: The same options in their wire spelling; anything else is refused.

        Raises:
            OptionsError: there are no rules, or an option is wrong; the message names the field.
        """
        values = {name: value for name, value in locals().items() if name not in ("cls", "options", "wire_spelling")}
        keywords = {**passed_options(cls.init, values), **wire_spelling}
        return cls(RateLimitOptions.read(merge_options(options, keywords, call="RateLimitPlugin.init"), where=""))

    def install(self, mcp: FastMCP[Any]) -> None:
        """Add the rules to a server; the same as `mcp.add_middleware(plugin)`.

        Raises:
            OptionsError: this is no FastMCP server.
        """
        if not hasattr(mcp, "add_middleware"):
            raise OptionsError(f"install: a FastMCP server is needed, got {type(mcp).__name__}")
        mcp.add_middleware(self)

    async def aclose(self) -> None:
        """Close the connections to Redis that were opened in this event loop outside of any server's lifespan."""
        await self._stores.aclose()

    async def on_call_tool(
        self,
        context: MiddlewareContext[mcp_types.CallToolRequestParams],
        call_next: CallNext[mcp_types.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """FastMCP's hook: passes the call on, or refuses it.

        Raises:
            NotFoundError: the name is longer than any tool may have, and so is compared with no rule.
            RateLimitRefusedError: a rule refused the call.
        """
        tool = context.message.name
        if len(tool) > MAX_NAME_CHARS:
            raise NotFoundError(f"Unknown tool: {display_name(tool)!r}")
        names = await _tool_names(tool, context.fastmcp_context)
        try:
            running = await self._admit("tool", tool, self._matching_rules(*names), context.fastmcp_context)
        except RateLimitRefusedError as refusal:
            if is_meta_tool(names[-1]):
                return _refusal_result(names, refusal)
            raise
        return await _call_and_release(running, context, call_next)

    async def on_read_resource(
        self,
        context: MiddlewareContext[mcp_types.ReadResourceRequestParams],
        call_next: CallNext[mcp_types.ReadResourceRequestParams, ResourceResult],
    ) -> ResourceResult:
        """FastMCP's hook: lets the resource be read, or refuses it.

        Raises:
            NotFoundError: the URI is longer than `MAX_RATED_URI`, and so is compared with no rule.
            RateLimitRefusedError: a rule refused it.
        """
        uri = str(context.message.uri)
        if len(uri) > MAX_RATED_URI:
            raise NotFoundError(f"Unknown resource: {display_name(uri)!r}")
        forms = uri_spellings(uri)
        matching = [prepared for prepared in self._rules if prepared.rule.matches_resource(forms)]
        return await _call_and_release(
            await self._admit("resource", uri, matching, context.fastmcp_context), context, call_next
        )

    async def on_get_prompt(
        self,
        context: MiddlewareContext[mcp_types.GetPromptRequestParams],
        call_next: CallNext[mcp_types.GetPromptRequestParams, PromptResult],
    ) -> PromptResult:
        """FastMCP's hook: lets the prompt be rendered, or refuses it.

        Raises:
            NotFoundError: the name is longer than any prompt may have, and so is compared with no rule.
            RateLimitRefusedError: a rule refused it.
        """
        name = context.message.name
        if len(name) > MAX_NAME_CHARS:
            raise NotFoundError(f"Unknown prompt: {display_name(name)!r}")
        admitted = await self._admit("prompt", name, self._matching_rules(name), context.fastmcp_context)
        return await _call_and_release(admitted, context, call_next)

    def _matching_rules(self, *names: str) -> list[_PreparedRule]:
        """Returns the rules that match a tool or prompt under any of its names."""
        return [prepared for prepared in self._rules if any(map(prepared.rule.matches, names))]

    async def _admit(
        self, called: CallKind, name: str, matching: Sequence[_PreparedRule], context: Context | None
    ) -> RunningCall | None:
        """Counts the call for these rules; returns the running call if its end matters.

        Raises:
            RateLimitRefusedError: a rule refuses the call.
        """
        if not matching:
            return None
        keys: dict[Per, str] = {}
        limits: list[Limit] = []
        for prepared in matching:
            per = prepared.rule.per
            if per not in keys:
                keys[per] = await rate_limit_key(per, context, self._options.tenant)
            limits += prepared.limits(keys[per])
        if (continuation := await find_continuation(context)) is not None:
            limits = [limit for limit in limits if isinstance(limit, ConcurrencyLimit)]
            if not limits:
                return None
        try:
            admitted = await self._stores.admit(limits)
        except StoreUnavailableError:
            if self._options.fail == "open":
                return None
            record_rate_refusal(called, matching[0].rule.display_name, "unchecked")
            raise _refusal(_unchecked_error(called, name, matching[0].rule), continuation) from None
        if isinstance(admitted, LimitRefusal):
            record_rate_refusal(called, admitted.limit.rule.display_name, "limit")
            raise _refusal(_limit_error(called, name, admitted), continuation)
        return admitted


async def _tool_names(name: str, context: Context | None) -> tuple[str, ...]:
    """Returns the names of the tool that a call reaches: the one called, and the one that rules know it by.

    FastMCP also calls tools of apps by `<hash>_<name>`, whatever they are listed as; and it lists the meta-tools of a
    mounted server with its namespace before them.
    """
    hashed = parse_hashed_backend_name(name)
    may_be_meta = not is_meta_tool(name) and ("codecall" in name.lower() or name.endswith(tuple(OTHER_NAMES)))
    if context is None or not (hashed or may_be_meta):
        return (name,)
    server = context.fastmcp
    tool = await server.get_tool(name)
    if tool is None and hashed is not None:
        tool = await server.get_tool_by_hash(*hashed)
    if tool is None:
        return (name,)
    listed = (name,) if tool.name == name else (name, tool.name)
    if not read_metadata(name, tool.meta, set()).meta_tool:
        return listed
    own = next((own for own in OTHER_NAMES if tool.name.endswith(own)), None)
    if own is not None:
        return (*dict.fromkeys((*listed, own)), OTHER_NAMES[own])
    verb = _META_VERB.search(tool.name)
    return listed if verb is None else (*listed, f"codecall:{verb[1]}")


async def _call_and_release(running: RunningCall | None, context: MiddlewareContext[M], call_next: CallNext[M, R]) -> R:
    if running is None:
        return await call_next(context)
    try:
        return await call_next(context)
    finally:
        await running.end()


def _prepare(rules: Sequence[RateLimitRule]) -> list[_PreparedRule]:
    """Prepares the rules for checking. A limit that several rules state for the same tools is checked once."""
    from limits import RateLimitItemPerSecond  # not above: 80 ms that a server without rules need not pay

    prepared: list[_PreparedRule] = []
    seen: set[tuple[str, Rate | int | None]] = set()
    for rule in rules:
        # The strategy too: each stores its counts in another form.
        description = "\x00".join((rule.name or "", rule.tool, rule.per, rule.strategy))
        identity = hashlib.blake2b(description.encode(), digest_size=8).hexdigest()
        rates = [rate for rate in dict.fromkeys(rule.rates) if (identity, rate) not in seen]
        concurrent = None if (identity, rule.concurrent) in seen else rule.concurrent
        seen.update((identity, limit) for limit in (*rates, rule.concurrent))
        items = tuple(RateLimitItemPerSecond(rate.calls, rate.seconds) for rate in rates)
        prepared.append(_PreparedRule(rule, identity, items, concurrent))
    return prepared


def _refusal(error: RateLimitedError, continuation: Continuation | None) -> RateLimitRefusedError:
    if continuation is None:
        return RateLimitRefusedError(error)
    continuation.explain(error)
    return RateLimitRefusedError(error, continuation.run_id)


def _limit_error(called: CallKind, name: str, refusal: LimitRefusal) -> RateLimitedError:
    limit, ms = refusal.limit, wait_ms(refusal.wait_s)
    if isinstance(limit, ConcurrencyLimit):
        message = f"Too many calls of '{display_name(name)}' at the same time: {limit.calls} may run"
        hint = f"Try again when one has ended, at the earliest in {math.ceil(ms / 1000)} s."
    else:
        window = _window_text(limit.item.get_expiry())
        message = f"Rate limit exceeded for '{display_name(name)}': {limit.item.amount} calls per {window}"
        hint = f"Try again in {math.ceil(ms / 1000)} s, or do the same with fewer calls."
    return RateLimitedError(
        message,
        tool_name=display_name(name),
        called=called,
        details={"rule": limit.rule.display_name},
        retry_after_ms=ms,
        hint=hint,
    )


def _unchecked_error(called: CallKind, name: str, rule: RateLimitRule) -> RateLimitedError:
    return RateLimitedError(
        f"The rate limit of '{display_name(name)}' cannot be checked now, so the call was not made",
        tool_name=display_name(name),
        called=called,
        details={"rule": rule.display_name},
        retry_after_ms=wait_ms(RETRY_AFTER_S),
        hint="Nothing is wrong with the call; try again later.",
    )


def _refusal_result(names: Sequence[str], refusal: RateLimitRefusedError) -> ToolResult:
    """Returns the answer of a refused meta-tool: an envelope where it has one, else an error result."""
    error = refusal.error
    body = {META_KEY: {"status": error.status, "error": error.as_dict()}}
    if "execute_tool_script" in names:
        hint = f" Hint: {error.hint}" if error.hint else ""
        return ToolResult(content=f"script execution failed: {error.message}.{hint}", is_error=True, meta=body)
    if "executeToolCode" in names:
        hint = f"\n# Hints:\n# - {error.hint}" if error.hint else ""
        return ToolResult(content=f"# Error: {error.message}{hint}", is_error=True, meta=body)
    name = canonical_meta_tool(names[-1].strip().lower())
    if name == "codecall:execute":
        envelope = ExecutionResult(status=error.status, error=error, run_id=refusal.run_id).envelope()
    elif name == "codecall:invoke":
        envelope = invoke_error(error)
    else:
        return ToolResult(content=error_text(error), is_error=True)
    return ToolResult(content=msgspec.json.encode(envelope).decode(), structured_content=envelope)


def _window_text(seconds: int) -> str:
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % unit == 0:
            return name if seconds == unit else f"{seconds // unit} {name}s"
    return "second" if seconds == 1 else f"{seconds} seconds"
