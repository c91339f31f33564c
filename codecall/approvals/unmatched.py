"""Warns of rules about calls that name what there is not, and of conditions that fit more than they seem to: such a
rule asks for nothing and denies nothing, or it does so where nobody means it to.

A warning and never an error, since tools come and go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from codecall.approvals.options import ApprovalRule, FlowRule
from codecall.approvals.rules import RuleSubject
from codecall.catalog.entries import CatalogEntry
from codecall.catalog.suggestions import nearest_name
from codecall.globs import Patterns, display_name
from codecall.schema.comparison import BudgetSpentError
from codecall.schema.model import property_defaults, property_schemas
from codecall.schema.shapes import UNDECIDED, Shapes, TooManyReadingsError, kinds_of
from codecall.wording import join_names, nearest

JsonObject = Mapping[str, object]

_BOUNDS: Final[Mapping[str, tuple[str, frozenset[object]]]] = {
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        ("number", frozenset({"integer", "number"})),
    ),
    **dict.fromkeys(("minLength", "maxLength", "pattern"), ("text", frozenset({"string"}))),
    **dict.fromkeys(("minItems", "maxItems", "contains"), ("array", frozenset({"array"}))),
}
"""Keywords that look at values of one type alone, and what a message and a schema call these."""

_TYPING: Final = frozenset({"type", "const", "enum", "$ref", "allOf", "anyOf", "oneOf"})
"""Keywords that may say which type a value has."""

_OPEN: Final = frozenset(
    {"patternProperties", "unevaluatedProperties", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf"}
)
"""Keywords by which a tool may have parameters that its `properties` do not name."""


class KnownNames(NamedTuple):
    """What rules may name, on one server or behind one gateway."""

    tools: Collection[str]
    apps: Collection[str]
    servers: Collection[str]
    tool: str
    """What a message calls one of the tools."""
    entries: Collection[CatalogEntry]
    """The tools whose parameters the conditions of rules are about."""


def rule_warnings(rules: Sequence[ApprovalRule], flows: Sequence[FlowRule], known: KnownNames) -> list[str]:
    """A sentence for each name or glob in rules that matches nothing of its kind; those of flows only where a tool has
    a similar name, as they may name resources and prompts, too. Up to 15 ms for each in 10,000 names. And one for each
    part of a condition that names nothing, or that fits values it seems to leave out."""
    return list(dict.fromkeys((*_of_rules(rules, known), *_of_flows(flows, known))))


def _of_rules(rules: Sequence[ApprovalRule], known: KnownNames) -> Iterator[str]:
    kinds = {"tools": known.tool, "apps": "app", "servers": "server"}
    for rule in rules:
        for field, kind in kinds.items():
            names: Collection[str] = getattr(known, field)
            for pattern in _without_readings(rule, field, names):
                yield unmatched_sentence(f"approvals.{field}", pattern, kind, names)
        if rule.input is not None:
            subject = RuleSubject(rule)
            covered = {entry.name: entry.input_schema for entry in known.entries if subject.covers(entry)}
            yield from _of_condition(rule.input, covered, allows=rule.action == "allow")


def _of_condition(condition: JsonObject, tools: Mapping[str, JsonObject], *, allows: bool) -> Iterator[str]:
    """What is wrong with a condition of a rule that is about these tools."""
    # Not above: few servers have conditions.
    from codecall.schema.validator import KEYWORDS, unknown_keywords

    parameters = {name for schema in tools.values() for name in property_schemas(schema)}
    for word in unknown_keywords(condition):
        what = "is no keyword of JSON Schema"
        if word in parameters:
            yield _of_name(word, f"{what}: conditions on parameters stand in `properties`")
        else:
            yield _of_name(word, what, next(iter(nearest(word, KEYWORDS)), None))
    levels = list(_levels(condition))
    required = {name for level in levels for name in _names(level.get("required"))}
    if tools and not any(map(_is_open, tools.values())):
        for name in dict.fromkeys(name for level in levels for name in (*property_schemas(level), *required)):
            if name not in parameters:
                what = "is no parameter of the tools that the rule is about"
                yield _of_name(name, what, next(iter(nearest(name, parameters)), None))
    for name, field in property_schemas(condition).items():
        if not isinstance(field, dict) or not field:
            continue
        about = cast("JsonObject", field)
        keyword = next((key for key in about if key in _BOUNDS), None)
        if keyword is not None and _TYPING.isdisjoint(about):
            what, kinds = _BOUNDS[keyword]
            if not all(_kinds(schema, name) <= kinds for schema in tools.values() if name in property_schemas(schema)):
                yield _of_name(name, f"has `{keyword}` and no `type`: what is no {what} fits, too")
        if name in required or name not in parameters:
            continue
        # Where a rule allows, the default has to fit as well.
        without = [
            tool
            for tool, schema in tools.items()
            if name not in (*_names(schema.get("required")), *(property_defaults(schema) if allows else ()))
        ]
        if without:
            of = join_names(without, 3, lambda tool: repr(display_name(tool)))
            yield _of_name(name, f"is not in `required`: calls of {of} without it fit, too")


def _of_name(name: str, what: str, near: str | None = None) -> str:
    suggestion = f"; did you mean {display_name(near)!r}?" if near is not None else ""
    return f"approvals.input: {display_name(name)!r} {what}{suggestion}"


def _levels(condition: object) -> Iterator[JsonObject]:
    """The schemas in a condition that are about the whole input."""
    if isinstance(condition, dict):
        level = cast("JsonObject", condition)
        yield level
        parts = [level.get(key) for key in ("not", "if", "then", "else")]
        for key in ("allOf", "anyOf", "oneOf"):
            parts += cast("list[object]", level.get(key, []))
        for part in parts:
            yield from _levels(part)


def _names(required: object) -> list[str]:
    return (
        [name for name in cast("list[object]", required) if isinstance(name, str)] if isinstance(required, list) else []
    )


def _is_open(schema: JsonObject) -> bool:
    """Whether a tool may have parameters that its schema does not name."""
    is_closed = schema.get("additionalProperties", False) is False and "properties" in schema
    return not is_closed or not _OPEN.isdisjoint(schema)


def _kinds(schema: JsonObject, name: str) -> set[object]:
    """The types that a parameter of a tool may have."""
    shapes = Shapes(schema)
    try:
        found = shapes.of(property_schemas(schema)[name])
    except (TooManyReadingsError, BudgetSpentError):
        return {"any"}
    return {kind for shape in found for kind in ({"any"} if UNDECIDED in shape else kinds_of(shape))}


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
