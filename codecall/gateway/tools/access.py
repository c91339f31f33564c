"""Access rules: which tools of a server may be used, by their names and by what the server says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, cast

import mcp_types

from codecall.gateway.config.options import AccessOptions
from codecall.globs import Patterns

ListRule = Literal["allow", "deny", "destructive"]
"""The access rules that may name tools."""

LIST_RULES: Final[tuple[ListRule, ...]] = ("allow", "deny", "destructive")
"""All of them."""

HideCode = Literal[
    "not_allowed", "denied", "not_read_only", "destructive", "asked", "name", "size", "number", "shadows", "unusable"
]
"""Why a component is hidden. Access rules give the first five; nothing gets around the others. One that is `asked` for
is hidden only from clients whose person cannot be asked."""


class HideReason(NamedTuple):
    """Why a component is hidden."""

    code: HideCode
    reason: str


class UnmatchedPattern(NamedTuple):
    """A name or glob of an access rule that none of a server's tools has."""

    rule: ListRule
    pattern: str
    """As it is written."""
    near: str | None
    """The tool that may be meant, as the server writes it."""


class AccessRules:
    """The rules for the tools of one server."""

    def __init__(self, options: AccessOptions) -> None:
        self._options = options
        self._allow = None if options.allow is None else Patterns(options.allow)
        self._deny = Patterns(options.deny)
        self._read_only = options.read_only
        self._asks = options.destructive == "ask"
        destructive = False if options.destructive == "ask" else options.destructive
        self._destructive = destructive if isinstance(destructive, bool) else Patterns(destructive)

    def for_tools(self, server: str, names: Sequence[str]) -> tuple[AccessRules, tuple[UnmatchedPattern, ...]]:
        """The rules for a server that lists tools of these names, and what they name that is none of them.

        Lists may name tools as clients see them (`<server>_<tool>`), too. What denies counts in both readings; what
        allows counts as the server's own name where there is such a tool, so that it allows no more than it names.
        """
        lists: dict[str, tuple[str, ...]] = {}
        unmatched: list[UnmatchedPattern] = []
        for rule in LIST_RULES:
            written = cast("object", getattr(self._options, rule))
            if not isinstance(written, tuple):
                continue
            lists[rule] = ()
            for pattern in dict.fromkeys(cast("tuple[str, ...]", written)):
                readings = [pattern]
                prefixed = server != "" and pattern.startswith(f"{server}_") and len(pattern) > len(server) + 1
                if prefixed and (rule == "deny" or not _matches_any(pattern, names)):
                    readings.append(pattern[len(server) + 1 :])
                lists[rule] += tuple(readings)
                if not any(_matches_any(reading, names) for reading in readings):
                    from codecall.catalog.suggestions import nearest_name  # loaded when a name is wrong

                    unmatched.append(UnmatchedPattern(rule, pattern, nearest_name(readings[-1], names)))
        return AccessRules(self._options.model_copy(update=lists)), tuple(unmatched)

    def reason_to_hide(self, tool: mcp_types.Tool) -> HideReason | None:
        """Why this tool may not be used; None if it may."""
        hints = tool.annotations
        if self._deny.matches(tool.name):
            return HideReason("denied", "it is in access.deny")
        if self._allow is not None and not self._allow.matches(tool.name):
            return HideReason("not_allowed", "it is not in access.allow")
        if self._read_only and not (hints is not None and hints.read_only_hint is True):
            return HideReason("not_read_only", "access.read_only is set, and it does not say that it changes nothing")
        if hints is not None and hints.destructive_hint is True and not self._lets_destroy(tool.name):
            if self._asks:
                reason = "it says that it may destroy something; clients see it that can ask a person for each call"
                return HideReason("asked", f"{reason}, or all where access.destructive allows it")
            return HideReason("destructive", "it says that it may destroy something; access.destructive allows it")
        return None

    def depends_on_hints(self, name: str) -> bool:
        """Whether the decision about a tool of that name rests on the hints that its server gives."""
        return self._read_only or not self._lets_destroy(name)

    def _lets_destroy(self, name: str) -> bool:
        return self._destructive if isinstance(self._destructive, bool) else self._destructive.matches(name)


def _matches_any(pattern: str, names: Sequence[str]) -> bool:
    patterns = Patterns((pattern,))
    return any(map(patterns.matches, names))
