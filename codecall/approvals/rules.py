"""Which calls are allowed, asked for or denied: the rules of the option `approvals`, compiled once.

A condition on the input is read as a tool may read the input. FastMCP and pydantic take `"5"` for 5, `"yes"` for true,
and a text of JSON for what it holds; and a parameter that is left out has its default. So each input has several
readings: an `ask` or `deny` rule applies if one of them meets its condition, an `allow` rule only if all of them do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, cast

from anyio import to_thread

from codecall.approvals.options import ApprovalAction, ApprovalRule
from codecall.catalog.entries import CatalogEntry
from codecall.errors import OptionsError
from codecall.globs import Patterns

_HINTS: Final = {"read_only": "readOnlyHint", "destructive": "destructiveHint", "open_world": "openWorldHint"}
"""The annotation of a tool that each field of a rule compares."""

_WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
"""Texts that pydantic takes for truth values."""


class Condition(Protocol):
    """A compiled JSON Schema."""

    def is_valid(self, instance: Any) -> bool:
        """Whether a value fits it."""
        ...


class Ruling(NamedTuple):
    """What the rules say of one call."""

    action: ApprovalAction
    rule: int
    """Number of the rule that says so, from 1; 0: no rule applies."""


NO_RULE: Final = Ruling("allow", 0)


class RuleSet:
    """The rules of a server; the first that applies to a call decides.

    Args:
        rules: The rules, in order.

    Raises:
        OptionsError: the condition of a rule is no JSON Schema.
    """

    def __init__(self, rules: Sequence[ApprovalRule]) -> None:
        self._rules = [_CompiledRule(number, rule) for number, rule in enumerate(rules, 1)]

    async def ruling(self, entry: CatalogEntry, arguments: Mapping[str, object]) -> Ruling:
        """What the rules say of a call of `entry` with these arguments."""
        candidates: list[_CompiledRule] = []
        for rule in self._rules:
            if rule.covers(entry):
                candidates.append(rule)
                if rule.condition is None:
                    break
        if not candidates:
            return NO_RULE
        if candidates[0].condition is None:
            return candidates[0].ruling
        # In a thread: the patterns of a condition may be slow for what a script sends.
        return await to_thread.run_sync(_first_ruling, candidates, arguments, entry.input_schema)

    def may_ask(self, entry: CatalogEntry) -> int:
        """The number of the first rule that asks for calls of `entry`, with whatever input; 0 if none does."""
        for rule in self._rules:
            if rule.covers(entry):
                if rule.ruling.action == "ask":
                    return rule.ruling.rule
                if rule.condition is None:
                    break
        return 0


class _CompiledRule:
    """One rule with its globs and its condition taken apart."""

    def __init__(self, number: int, rule: ApprovalRule) -> None:
        self.ruling = Ruling(rule.action, number)
        self.condition = None if rule.input is None else _compile(rule.input, f"approvals.rules.{number - 1}.input")
        self._tools, self._apps, self._servers = (
            None if patterns is None else Patterns(patterns) for patterns in (rule.tools, rule.apps, rule.servers)
        )
        self._hints = [(key, wanted) for name, key in _HINTS.items() if (wanted := getattr(rule, name)) is not None]

    def covers(self, entry: CatalogEntry) -> bool:
        """Whether the rule is about this tool, whatever the arguments are."""
        return (
            (self._tools is None or self._tools.matches(entry.name))
            and (self._apps is None or self._apps.matches(entry.app_id))
            and (self._servers is None or self._servers.matches(entry.server))
            and all((entry.annotations.get(key) is True) is wanted for key, wanted in self._hints)
        )

    def applies(self, readings: Sequence[object]) -> bool:
        """Whether the condition is met, for all readings or one of them; what cannot be compared counts against it."""
        condition = self.condition
        if condition is None:
            return True
        allows = self.ruling.action == "allow"
        try:
            return (all if allows else any)(condition.is_valid(reading) for reading in readings)
        except Exception:
            # A reference that leads nowhere, or a value that is nested too deeply.
            return not allows


def _first_ruling(
    candidates: Sequence[_CompiledRule], arguments: Mapping[str, object], schema: Mapping[str, object]
) -> Ruling:
    with_defaults = {**_defaults(schema), **arguments}
    readings = (arguments, with_defaults, _read(with_defaults, numbers=True), _read(with_defaults, numbers=False))
    return next((rule.ruling for rule in candidates if rule.applies(readings)), NO_RULE)


def _compile(schema: Mapping[str, object], where: str) -> Condition:
    from jsonschema import Draft202012Validator, SchemaError  # not above: few servers have conditions
    from referencing import Registry

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as failure:
        raise OptionsError(f"{where}: not a JSON Schema: {failure.message}") from None
    # Without a registry of its own, a reference to another document would be fetched.
    registry: Registry[Any] = Registry()
    return cast("Condition", Draft202012Validator(schema, registry=registry))


def _defaults(schema: Mapping[str, object]) -> dict[str, object]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    fields = cast("dict[str, object]", properties)
    return {
        name: cast("dict[str, object]", field)["default"]
        for name, field in fields.items()
        if isinstance(field, dict) and "default" in field
    }


def _read(value: object, *, numbers: bool) -> object:
    """`value` as a tool may read it: texts as what they say, and 0 and 1 as truth values unless `numbers`."""
    if isinstance(value, dict):
        return {key: _read(item, numbers=numbers) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_read(item, numbers=numbers) for item in cast("list[object]", value)]
    if isinstance(value, str):
        return _read_text(value, numbers=numbers)
    if not numbers and isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    return value


def _read_text(text: str, *, numbers: bool) -> object:
    bare = text.strip()
    if not numbers and (word := _WORDS.get(bare.lower())) is not None:
        return word
    for read in (int, float, json.loads):
        with suppress(ValueError, RecursionError):
            return cast("object", read(bare))
    return text
