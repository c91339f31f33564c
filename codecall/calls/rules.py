"""The rules of `RateLimitPlugin`: what one says, and what it is about.

A rule for a URI holds under whatever spelling the resource is read: percent signs, a query and a fragment make no other
resource of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final
from urllib.parse import unquote

from pydantic import Field, field_validator

from codecall.calls.names import MAX_GLOB_CHARS, Patterns
from codecall.options import Options
from codecall.sandbox.agentscript.policy import is_meta_tool

MAX_WINDOW_S: Final = 30 * 86_400
"""Longest window of a rule, in seconds: 30 days."""

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WINDOW: Final = re.compile(r"([0-9]{1,9})([smhd]?)")
_CODED: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_GLOBBING: Final = re.compile(r"[*?\[]")


class RateLimitRule(Options):
    """At most `limit` calls of `tool` per `window` and client."""

    tool: str = Field(min_length=1, max_length=MAX_GLOB_CHARS)
    """Name, URI or glob (`users:*`). Meta-tools are meant under either spelling, in any letter case."""
    limit: int = Field(ge=1, le=1_000_000, strict=True)
    """Calls."""
    window: int = Field(ge=1, le=MAX_WINDOW_S)
    """Seconds; also as text: `30s`, `1m`, `1h`, `1d`. Moving: counted back from each call."""

    @field_validator("window", mode="before")
    @classmethod
    def _seconds(cls, window: object) -> object:
        if isinstance(window, str) and (read := _WINDOW.fullmatch(window.strip().lower())):
            return int(read[1]) * _UNITS[read[2] or "s"]
        if isinstance(window, int) and not isinstance(window, bool):
            return window
        raise ValueError("seconds as a number are needed, or a text such as '30s', '1m', '1h' or '1d'")

    def covers(self, tool: str) -> bool:
        """Whether the rule is about the tool of that name."""
        if not is_meta_tool(tool):
            return self._pattern.cover(tool)
        name = tool.strip().lower()
        return any(map(self._meta_pattern.cover, (name, canonical(name), name.replace(":", "_"))))

    def covers_resource(self, forms: Sequence[str]) -> bool:
        """Whether the rule is about the resource of that URI, of which these are the `spellings`."""
        return self.covers(forms[0]) or any(map(self._uri_pattern.cover, forms))

    @cached_property
    def _uri_pattern(self) -> Patterns:
        # A `%2A` of the rule is the character, and no glob.
        decoded = _CODED.sub(lambda coded: _GLOBBING.sub(r"[\g<0>]", unquote(coded[0])), self.tool)
        return Patterns((self.tool, decoded))

    @cached_property
    def _pattern(self) -> Patterns:
        return Patterns((self.tool,))

    @cached_property
    def _meta_pattern(self) -> Patterns:
        return Patterns((self.tool.strip().lower(),))


class RateLimitOptions(Options):
    """Everything `RateLimitPlugin.init` takes."""

    rules: tuple[RateLimitRule, ...] = Field(min_length=1, max_length=1_000, strict=False)


def spellings(uri: str) -> list[str]:
    """What rules are compared with: `uri`, then its plain forms, the same for all URIs that FastMCP reads alike.

    FastMCP leaves out the fragment, gives a template what `%` stands for, and a query only to one that names it.
    """
    bare = uri.partition("#")[0]
    path = bare.partition("?")[0]
    return list(dict.fromkeys((uri, bare, path, unquote(bare), unquote(path))))


def canonical(meta_tool: str) -> str:
    """The name of a meta-tool with its colon, of either spelling in lower case."""
    return meta_tool.replace("codecall_", "codecall:", 1)
