"""Which tools of a server may be used: globs, tools that change nothing, tools that may destroy something.

A tool is judged by its name and by what its server says about it, in every listing anew: one that is called harmless
today and destructive tomorrow is gone tomorrow. What a server says may be wrong; rules about names do not rest on it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import mcp_types

from codecall.calls.names import Patterns
from codecall.gateway.options import AccessOptions

Reason = Literal[
    "not_allowed", "denied", "not_read_only", "destructive", "name", "size", "number", "shadows", "unusable"
]
"""Why something is hidden. Access rules have the first four, and nothing gets around the other ones."""


Kind = Literal["tool", "resource", "template", "prompt"]
"""What servers list."""


class Refusal(NamedTuple):
    """Why something is hidden."""

    code: Reason
    why: str


class Hidden(NamedTuple):
    """Something that a server lists and nobody sees."""

    server: str
    kind: Kind
    name: str
    """As the server writes it, shortened where it is very long; the URI of a resource."""
    code: Reason
    why: str


class Access:
    """The rules for the tools of one server."""

    def __init__(self, options: AccessOptions) -> None:
        self._allow = None if options.allow is None else Patterns(options.allow)
        self._deny = Patterns(options.deny)
        self._read_only = options.read_only
        self._destructive = (
            options.destructive if isinstance(options.destructive, bool) else Patterns(options.destructive)
        )

    def refusal(self, tool: mcp_types.Tool) -> Refusal | None:
        """Why this tool may not be used; None if it may."""
        hints = tool.annotations
        if self._deny.cover(tool.name):
            return Refusal("denied", "it is in access.deny")
        if self._allow is not None and not self._allow.cover(tool.name):
            return Refusal("not_allowed", "it is not in access.allow")
        if self._read_only and not (hints is not None and hints.read_only_hint is True):
            return Refusal("not_read_only", "access.read_only is set, and it does not say that it changes nothing")
        if hints is not None and hints.destructive_hint is True and not self._lets_destroy(tool.name):
            return Refusal("destructive", "it says that it may destroy something; access.destructive allows it")
        return None

    def rests_on_hints(self, name: str) -> bool:
        """Whether it counts for a tool of that name what its server says about it."""
        return self._read_only or not self._lets_destroy(name)

    def _lets_destroy(self, name: str) -> bool:
        return self._destructive if isinstance(self._destructive, bool) else self._destructive.cover(name)
