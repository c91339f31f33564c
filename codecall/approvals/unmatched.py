"""Warns of rules about calls that name what there is not: a rule that is misspelt asks for nothing and denies nothing.

A warning and never an error, since tools come and go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from codecall.approvals.options import ApprovalRule, FlowRule
from codecall.catalog.suggestions import nearest_name
from codecall.globs import Patterns, display_name


class KnownNames(NamedTuple):
    """What rules may name, on one server or behind one gateway."""

    tools: Collection[str]
    apps: Collection[str]
    servers: Collection[str]
    tool: str
    """What a message calls one of the tools."""


def unmatched_names(rules: Sequence[ApprovalRule], flows: Sequence[FlowRule], known: KnownNames) -> list[str]:
    """A sentence for each name or glob in rules that matches nothing of its kind; those of flows only where a tool has
    a similar name, as they may name resources and prompts, too. Up to 15 ms for each in 10,000 names."""
    return list(dict.fromkeys((*_of_rules(rules, known), *_of_flows(flows, known))))


def _of_rules(rules: Sequence[ApprovalRule], known: KnownNames) -> Iterator[str]:
    kinds = {"tools": known.tool, "apps": "app", "servers": "server"}
    for rule in rules:
        for field, kind in kinds.items():
            names: Collection[str] = getattr(known, field)
            for pattern in _without_readings(rule, field, names):
                yield unmatched_sentence(f"approvals.{field}", pattern, kind, names)


def _of_flows(rules: Sequence[FlowRule], known: KnownNames) -> Iterator[str]:
    for rule in rules:
        for field, patterns in (("from", rule.source), ("to", rule.to)):
            for pattern in unmatched(patterns, known.tools):
                if nearest_name(pattern, known.tools) is not None:
                    yield unmatched_sentence(f"flows.{field}", pattern, known.tool, known.tools)


def unmatched_sentence(option: str, pattern: str, what: str, names: Collection[str]) -> str:
    """Says that what an option names is none of these, and which of them is near."""
    near = nearest_name(pattern, names)
    suggestion = f"; did you mean {display_name(near)!r}?" if near is not None else ""
    return f"{option}: {display_name(pattern)!r} matches no {what}{suggestion}"


def unmatched(patterns: Sequence[str], names: Collection[str]) -> list[str]:
    """Those of the patterns that match none of `names`."""
    return [pattern for pattern in patterns if not any(map(Patterns((pattern,)).matches, names))]


def _without_readings(rule: ApprovalRule, field: str, names: Collection[str]) -> Iterator[str]:
    """The patterns of a field that match nothing; of the two readings of a name in the rules of one server only where
    neither does."""
    patterns: tuple[str, ...] = getattr(rule, field) or ()
    missing = unmatched(patterns, names)
    matched = set(patterns) - set(missing)
    prefix = f"{rule.servers[0]}_" if field == "tools" and rule.servers is not None else ""
    for pattern in missing:
        if not prefix or not (pattern.removeprefix(prefix) in matched or prefix + pattern in patterns):
            yield pattern
