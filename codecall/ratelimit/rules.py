"""The options and rules of `RateLimitPlugin`, and what a rule matches.

A rule for a URI holds for every spelling under which the resource can be read: percent-encoding, a query and a fragment
do not make it another resource.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, Required, Self, TypeAlias, TypedDict, cast
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator, model_validator

from codecall.errors import OptionsError
from codecall.globs import MAX_GLOB_CHARS, Patterns
from codecall.identity import Per
from codecall.option_base import Options
from codecall.sandbox.agentscript.policy import META_TOOLS, is_meta_tool

MAX_WINDOW_S: Final = 30 * 86_400
"""Longest window of a rule, in seconds: 30 days, which is what `limits` calls a month."""

MAX_CALLS: Final = 1_000_000
"""Most calls that a rule may allow per window."""

Strategy: TypeAlias = Literal["moving-window", "fixed-window", "sliding-window-counter"]
"""How a rule counts; the strategies of the `limits` library, under its names:

    moving-window           the default: exact, counted back from each call. Stores a number for every call
    fixed-window            one number, reset when the window ends: up to twice the limit around that moment
    sliding-window-counter  two numbers; nearly the moving window, as if the last window's calls were spread evenly
"""

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WINDOW: Final = re.compile(r"([0-9]{1,9})([smhd]?)")
_PERCENT_ENCODED: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_GLOB_CHARACTERS: Final = re.compile(r"[*?\[]")
_NO_WINDOW: Final = re.compile(r"(?:/|per)\s*0", re.IGNORECASE)


class Rate(NamedTuple):
    """A number of calls in a number of seconds."""

    calls: int
    seconds: int


class RateLimitRule(Options):
    """How often `tool` may be called, by one caller or by all; or how many calls may run at the same time; or both.

    The rate is given as `rate`, or as `limit` and `window`.
    """

    tool: str = Field(min_length=1, max_length=MAX_GLOB_CHARS)
    """A name, URI or glob (`users:*`). Meta-tools match in either spelling and any letter case."""
    name: str | None = Field(default=None, pattern=r"^[^\x00-\x1f\x7f]+$", max_length=64)
    """The name of the rule in a refusal (`details.rule`); by default its `tool`."""
    rate: tuple[Rate, ...] = Field(default=(), max_length=16)
    """A rate in the notation of `limits`: `10/minute`, `100 per 2 hours`; several in a list, or in a text with `;`."""
    limit: int | None = Field(default=None, ge=1, le=MAX_CALLS, strict=True)
    """Most calls per `window`."""
    window: int | None = Field(default=None, ge=1, le=MAX_WINDOW_S)
    """The window of `limit` in seconds, or as text: `30s`, `1m`, `1h`, `1d`."""
    concurrent: int | None = Field(default=None, ge=1, le=100_000, strict=True)
    """Most calls that run at the same time."""
    per: Per = "caller"
    """For whom the calls are counted."""
    strategy: Strategy = "moving-window"
    """How `rate`, or `limit` and `window`, are counted."""

    @field_validator("window", mode="before")
    @classmethod
    def _seconds(cls, window: object) -> object:
        if isinstance(window, str) and (parsed := _WINDOW.fullmatch(window.strip().lower())):
            return int(parsed[1]) * _UNITS[parsed[2] or "s"]
        if window is None or (isinstance(window, int) and not isinstance(window, bool)):
            return window
        raise ValueError("seconds as a number are needed, or a text such as '30s', '1m', '1h' or '1d'")

    @field_validator("rate", mode="before")
    @classmethod
    def _rates(cls, rate: object) -> object:
        texts = [rate] if isinstance(rate, str) else list(cast("list[object]", rate)) if _is_list(rate) else []
        if not texts:
            raise ValueError("a text such as '10/minute' is needed, or a list of such")
        return tuple(parsed for text in texts for parsed in _parse_rates(text))

    @model_validator(mode="after")
    def _names_a_meta_tool(self) -> Self:
        name = self.tool.strip().lower()
        # With a slash it may be the URI of a kept result.
        if name.startswith("codecall:") and "/" not in name and not any(map(self.matches, META_TOOLS)):
            raise ValueError(f"tool: {self.tool!r} is none of CodeCall's tools: {', '.join(META_TOOLS)}")
        return self

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if (self.limit is None) != (self.window is None):
            raise ValueError("limit and window belong together; as one text: rate='10/minute'")
        if not self.rates and self.concurrent is None:
            raise ValueError("says no limit: give rate, or limit and window, or concurrent")
        return self

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The rates, given in either form."""
        return self.rate if self.limit is None or self.window is None else (*self.rate, Rate(self.limit, self.window))

    @property
    def display_name(self) -> str:
        """The name of the rule in a refusal."""
        return self.name or self.tool

    def matches(self, tool: str) -> bool:
        """Whether the rule matches the tool or prompt of that name."""
        if not is_meta_tool(tool):
            return self._pattern.matches(tool)
        name = tool.strip().lower()
        return any(map(self._meta_pattern.matches, (name, canonical_meta_tool(name), name.replace(":", "_"))))

    def matches_resource(self, forms: Sequence[str]) -> bool:
        """Whether the rule matches the resource whose URI has these spellings (`uri_spellings`)."""
        return self.matches(forms[0]) or any(map(self._uri_pattern.matches, forms))

    @cached_property
    def _uri_pattern(self) -> Patterns:
        # A `%2A` in the rule is the character, not a glob.
        decoded = _PERCENT_ENCODED.sub(lambda coded: _GLOB_CHARACTERS.sub(r"[\g<0>]", unquote(coded[0])), self.tool)
        return Patterns((self.tool, decoded))

    @cached_property
    def _pattern(self) -> Patterns:
        return Patterns((self.tool,))

    @cached_property
    def _meta_pattern(self) -> Patterns:
        return Patterns((self.tool.strip().lower(),))


class RuleDict(TypedDict, total=False):
    """A rule as a dictionary, so that editors complete its keys; it has the fields of `RateLimitRule`."""

    tool: Required[str]
    name: str | None
    rate: str | Sequence[str]
    limit: int | None
    window: int | str | None
    concurrent: int | None
    per: Per
    strategy: Strategy


class RateLimitOptions(Options):
    """All options of `RateLimitPlugin.init`."""

    rules: tuple[RateLimitRule, ...] = Field(min_length=1, max_length=1_000, strict=False)
    tenant: Any = None
    """How rules with `per: "tenant"` find the tenant: the name of a claim of the token, or a function, sync or async,
    that takes FastMCP's `Context` (None outside of requests) and returns the tenant's name, or None."""
    storage: str = Field(default="memory://", max_length=2_048)
    """Where counts are stored: `memory://`, this process; or a Redis that all instances share, as `redis://`, `rediss://`
    (TLS) or `redis+unix:///path`. Redis needs the extra `redis`."""
    fail: Literal["open", "closed"] = "open"
    """How calls end while Redis does not answer: with `open` they pass uncounted, with `closed` they are refused."""
    timeout_ms: int = Field(default=1_000, ge=10, le=10_000)
    """Milliseconds for which Redis may be silent; then it counts as unavailable, and is retried once a second."""
    prefix: str = Field(default="codecall", pattern=r"^[\w.:-]{1,64}$")
    """The prefix of keys in Redis. Servers with the same prefix and equal rules count together."""
    lease_s: int = Field(default=30, ge=1, le=3_600)
    """Seconds after which calls of an instance that died no longer count as running; over Redis only."""

    @field_validator("tenant")
    @classmethod
    def _names_tenants(cls, tenant: object) -> object:
        if tenant is None or callable(tenant) or (isinstance(tenant, str) and tenant):
            return tenant
        raise ValueError("the name of a claim is needed, or a function")


STORAGES: Final = ("memory", "redis", "rediss", "redis+unix")
"""Schemes of `RateLimitOptions.storage`."""


def check_options(options: RateLimitOptions) -> None:
    """Checks what no single field can check.

    Raises:
        OptionsError: the storage is of an unknown kind; or a rule counts for tenants, and nothing names them.
    """
    scheme = urlsplit(options.storage).scheme
    if scheme not in STORAGES:
        # Nothing else of it is repeated: it may hold a password.
        supported = ", ".join(f"{name}://" for name in STORAGES)
        raise OptionsError(f"storage: {scheme}:// is not known; known here: {supported}")
    for place, rule in enumerate(options.rules):
        if rule.per == "tenant" and options.tenant is None:
            raise OptionsError(
                f"rules.{place}.per: nothing names tenants; give the option tenant: a claim or a function"
            )


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _parse_rates(text: object) -> list[Rate]:
    from limits import parse_many  # not above: 80 ms that a server without rules need not pay

    if not isinstance(text, str) or len(text) > 1_000 or _NO_WINDOW.search(text):
        raise ValueError("a text such as '10/minute' is needed")
    try:
        items = parse_many(text)
    except ValueError:
        raise ValueError(f"{text!r:.80} is no rate; one is '10/minute', '5 per 2 hours', '2/second;100/day'") from None
    rates = [Rate(item.amount, item.get_expiry()) for item in items]
    if any(not 1 <= rate.calls <= MAX_CALLS or rate.seconds > MAX_WINDOW_S for rate in rates):
        raise ValueError(f"1 to {MAX_CALLS:,} calls in at most 30 days can be counted")
    return rates


def uri_spellings(uri: str) -> list[str]:
    """Returns `uri` and its plain forms, which are the same for all URIs that FastMCP reads alike.

    FastMCP drops the fragment, decodes `%` for templates, and passes a query only to a template that names it.
    """
    bare = uri.partition("#")[0]
    path = bare.partition("?")[0]
    return list(dict.fromkeys((uri, bare, path, unquote(bare), unquote(path))))


def canonical_meta_tool(meta_tool: str) -> str:
    """Returns the name of a meta-tool with its colon, from either spelling in lower case."""
    return meta_tool.replace("codecall_", "codecall:", 1)
