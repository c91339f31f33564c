"""The policy's tables reduced to one set of rules for fast look-up, and the messages and hints of the validator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from codecall.sandbox.agentscript.checked import Violation
from codecall.sandbox.agentscript.foreign_words import NAMES
from codecall.sandbox.agentscript.policy import GLOBALS, MEMBERS, NODES, VARIANTS, Row, Rules, allowed_members
from codecall.wording import cut

_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")
"""A word of a name: `next` and `cursor` of `next_cursor`, and of `nextCursor`."""

_DIGITS: Final = re.compile(r"\d+")

_MAX_LISTED = 12
"""Most members a hint lists; for longer lists there is the documentation."""

_VALUES = frozenset({"undefined", "NaN", "Infinity"})
"""Globals that are no misspelling of names in which they stand as a word: `undefinedVar` is not `undefined`."""

_MAX_SHOWN = 100
"""Most characters of a name that a message shows."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """What one set of rules allows."""

    rules: Rules
    refused_nodes: Mapping[str, Row]
    """By node type."""
    globals: frozenset[str]
    """The global names a script may use."""
    members: Mapping[str, frozenset[str]]
    """The members of those globals a script may name; globals that hold data are left out."""
    owned: frozenset[str]
    """The names a script may neither declare nor assign to."""


@lru_cache(maxsize=16)
def rule_set(rules: Rules) -> RuleSet:
    """The tables under `rules`. There are 16 different sets of rules."""
    permitted = {name for name, row in GLOBALS.items() if rules.permit(row.verdict)}
    return RuleSet(
        rules=rules,
        refused_nodes={node_type: row for node_type, row in NODES.items() if not rules.permit(row.verdict)},
        globals=frozenset(permitted),
        members={name: names for name in permitted if (names := allowed_members(name, rules)) is not None},
        owned=frozenset(name for name, row in GLOBALS.items() if not row.declarable),
    )


def refused_name(what: str, name: str, row: Row, offset: int) -> Violation:
    """The violation of naming what `row` refuses; see `refusal_message`."""
    return Violation(offset, row.kind, refusal_message(what, name), row.instead)


def refusal_message(what: str, name: str) -> str:
    """The message about a refused construct; `what` is the sort of thing `name` is, with a capital letter."""
    return f"{what} '{shorten_name(name)}' is not allowed in AgentScript"


def shorten_name(name: str) -> str:
    """A name as messages show it: in full, unless it is absurdly long."""
    return cut(name, _MAX_SHOWN)


def member_hint(owner: str, member: str, ruleset: RuleSet) -> str:
    """What to write instead of a member that is not allowed."""
    row = MEMBERS.get(f"{owner}.{member}")
    if row is not None:
        return row.instead
    allowed = ruleset.members[owner]
    closest = closest_name(member, allowed, cutoff=0.6)
    if closest is not None:
        return f"Did you mean `{owner}.{closest}`?"
    if allowed and len(allowed) <= _MAX_LISTED:
        return f"`{owner}` has: {', '.join(sorted(allowed))}."
    return VARIANTS["unknown member"].instead


def name_hint(name: str, declared: Iterable[str], ruleset: RuleSet) -> str:
    """What to write instead of an identifier that is not defined."""
    declared = list(declared)
    hint = VARIANTS["unknown identifier"].instead
    # A similar name in the script itself is a better guess than another language.
    if name in NAMES and closest_name(name, declared) is None:
        return NAMES[name]
    closest = closest_known_name(name, declared, ruleset)
    return f"Did you mean `{closest}`? {hint}" if closest else hint


def closest_known_name(name: str, declared: Iterable[str], ruleset: RuleSet) -> str | None:
    """The declared or global name most similar to `name`, if one is similar enough."""
    values = {value for value in _VALUES if value.lower() in name.lower() and len(name) > len(value) + 1}
    return closest_name(name, [*declared, *(ruleset.globals - values)])


def closest_key(name: str, keys: Iterable[str]) -> str | None:
    """The key that somebody means who writes `name`: the most similar one, else the only one of which it is a word, as
    `next` is of `next_cursor`."""
    # What differs in its digits alone is another one of a row: a day, an identifier.
    letters = _DIGITS.sub("0", name)
    candidates = [key for key in keys if letters != _DIGITS.sub("0", key) or _DIGITS.search(name) is None]
    if (key := closest_name(name, candidates)) is not None:
        return key
    having = [key for key in candidates if name.casefold() in map(str.casefold, _WORD.findall(key))]
    return having[0] if len(having) == 1 else None


def closest_name(name: str, candidates: Iterable[str], *, cutoff: float = 0.75) -> str | None:
    """The candidate most similar to `name`, None below `cutoff`. Time grows with the square of the lengths."""
    matches = get_close_matches(name, candidates, n=1, cutoff=cutoff)  # pyright: ignore[reportArgumentType]
    return matches[0] if matches else None
