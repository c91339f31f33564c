"""The policy's tables, cut to one set of rules for fast look-up; and the words in which the guard refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from codecall.sandbox.agentscript.foreign_words import NAMES
from codecall.sandbox.agentscript.policy import GLOBALS, MEMBERS, NODES, VARIANTS, Row, Rules, allowed_members

_MAX_LISTED = 12
"""Most members a hint lists; longer lists are left to the documentation."""

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
    """The tables under `rules`. There are 16 different rules."""
    permitted = {name for name, row in GLOBALS.items() if rules.permit(row.verdict)}
    return RuleSet(
        rules=rules,
        refused_nodes={node_type: row for node_type, row in NODES.items() if not rules.permit(row.verdict)},
        globals=frozenset(permitted),
        members={name: names for name in permitted if (names := allowed_members(name, rules)) is not None},
        owned=frozenset(name for name, row in GLOBALS.items() if not row.declarable),
    )


def refusal_message(what: str, name: str) -> str:
    """The message about a refused construct; `what` says which sort of thing `name` is, with a capital letter."""
    return f"{what} '{shorten_name(name)}' is not allowed in AgentScript"


def shorten_name(name: str) -> str:
    """A name as messages show it: whole, unless it is absurdly long."""
    return name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}…"


def member_hint(owner: str, member: str, words: RuleSet) -> str:
    """What to write instead of a member that is not allowed."""
    row = MEMBERS.get(f"{owner}.{member}")
    if row is not None:
        return row.instead
    allowed = words.members[owner]
    near = get_close_matches(member, allowed, n=1)
    if near:
        return f"Did you mean `{owner}.{near[0]}`?"
    if allowed and len(allowed) <= _MAX_LISTED:
        return f"`{owner}` has: {', '.join(sorted(allowed))}."
    return VARIANTS["unknown member"].instead


def name_hint(name: str, declared: Iterable[str], words: RuleSet) -> str:
    """What to write instead of an identifier that means nothing."""
    declared = list(declared)
    hint = VARIANTS["unknown identifier"].instead
    # What the script itself calls so, or nearly so, is nearer than another language.
    if name in NAMES and not get_close_matches(name, declared, n=1, cutoff=0.75):
        return NAMES[name]
    near = near_name(name, declared, words)
    return f"Did you mean `{near}`? {hint}" if near else hint


def near_name(name: str, declared: Iterable[str], words: RuleSet) -> str | None:
    """The name that an identifier that means nothing may have been meant for."""
    near = get_close_matches(name, [*declared, *words.globals], n=1, cutoff=0.75)
    return near[0] if near else None
