"""Which calls are allowed, asked for or denied: the rules of the option `approvals`, compiled once.

A condition on the input is read as a tool may read the input. FastMCP and pydantic take `"5"` for 5, `"yes"` for true,
and a text of JSON for what it holds; and a parameter that is left out has its default. So each input has several
readings: an `ask` or `deny` rule applies if one of them meets its condition, an `allow` rule only if all of them do.
Each value is read as its place in the tool's schema says; where that says nothing, in every way, beside every reading
of the others. An input of more readings than are tried counts against the call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any, Final, NamedTuple, Protocol, cast

from anyio import to_thread

from codecall.approvals.options import ApprovalAction, ApprovalRule
from codecall.catalog.entries import CatalogEntry
from codecall.concurrency import ThreadLimit
from codecall.errors import OptionsError
from codecall.globs import Patterns
from codecall.schema.comparison import StepBudget
from codecall.schema.model import property_defaults, property_schemas, resolve_pointer

JsonObject = Mapping[str, object]

MAX_READINGS: Final = 100
"""Most readings of one input that are compared."""

MAX_VALUES: Final = 10_000
"""Most values of one input that are read, each once for each alternative of the schema. Those under names of which the
condition says nothing do not count."""

MAX_COMPARED: Final = 100_000
"""Most values, in all readings together, that are compared with a condition: a second or so."""

MAX_RULING_THREADS: Final = 2
"""Threads of one event loop that compare inputs with conditions at a time."""

MAX_DEPTH: Final = 24
"""Levels of an input, and steps from a schema to what it refers to, that are followed."""

MAX_FILLED: Final = 1_000
"""Most defaults that are filled into one input."""

_OPEN: Final = frozenset({"additionalProperties", "patternProperties", "unevaluatedProperties"})
"""Keys of a condition that reach properties it does not name."""

_SHAPE: Final = ("type", "properties", "additionalProperties", "required", "prefixItems", "items")
"""Keys of a schema that say how a value is read."""

_HINTS: Final = {"read_only": "readOnlyHint", "destructive": "destructiveHint", "open_world": "openWorldHint"}
"""The annotation of a tool that each field of a rule compares."""

_WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
"""Texts that pydantic takes for truth values."""


_RULING: Final = ThreadLimit("codecall_rulings", MAX_RULING_THREADS)


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
        asks_within: Whether the tool of a name is a composite tool whose own calls these rules are held against: one
            question about each of them is enough, so only rules that name the tool itself ask for it.

    Raises:
        OptionsError: the condition of a rule is no JSON Schema.
    """

    def __init__(self, rules: Sequence[ApprovalRule], asks_within: Callable[[str], bool] = lambda _: False) -> None:
        self._asks_within = asks_within
        self._rules = [_CompiledRule(number, rule) for number, rule in enumerate(rules, 1)]

    async def ruling(self, entry: CatalogEntry, arguments: Mapping[str, object]) -> Ruling:
        """What the rules say of a call of `entry` with these arguments."""
        candidates: list[_CompiledRule] = []
        for rule in self._about(entry):
            candidates.append(rule)
            if rule.condition is None:
                break
        if not candidates:
            return NO_RULE
        if candidates[0].condition is None:
            return candidates[0].ruling
        # In a thread: the patterns of a condition may be slow for what a script sends.
        limiter = _RULING.limiter()
        return await to_thread.run_sync(_first_ruling, candidates, arguments, entry.input_schema, limiter=limiter)

    def may_ask(self, entry: CatalogEntry) -> int:
        """The number of the first rule that asks for calls of `entry`, with whatever input; 0 if none does."""
        for rule in self._about(entry):
            if rule.ruling.action == "ask":
                return rule.ruling.rule
            if rule.condition is None:
                break
        return 0

    def _about(self, entry: CatalogEntry) -> Iterator[_CompiledRule]:
        """The rules about this tool, whatever the arguments are."""
        for rule in self._rules:
            if rule.covers(entry) and (
                rule.ruling.action != "ask" or rule.names(entry) or not self._asks_within(entry.name)
            ):
                yield rule


class _CompiledRule:
    """One rule with its globs and its condition taken apart."""

    def __init__(self, number: int, rule: ApprovalRule) -> None:
        self.ruling = Ruling(rule.action, number)
        self.condition = None if rule.input is None else _compile(rule.input, f"approvals.rules.{number - 1}.input")
        keys = set(_keys(rule.input))
        self._named = None if keys & _OPEN else keys
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

    def names(self, entry: CatalogEntry) -> bool:
        """Whether the rule is about this tool, its app or its server by name, and not about all that are of a kind."""
        given = ((self._tools, entry.name), (self._apps, entry.app_id), (self._servers, entry.server))
        return any(patterns is not None and patterns.matches(name) for patterns, name in given)

    def applies(self, arguments: JsonObject, schema: JsonObject) -> bool:
        """Whether the condition is met, for all readings or one of them; what cannot be compared counts against it."""
        condition = self.condition
        if condition is None:
            return True
        allows = self.ruling.action == "allow"
        try:
            readings = _all_readings(arguments, schema, self._named)
            return (all if allows else any)(condition.is_valid(reading) for reading in readings)
        except Exception:
            # A reference that leads nowhere, a value that is nested too deeply, or one of too many readings.
            return not allows


def _first_ruling(candidates: Sequence[_CompiledRule], arguments: JsonObject, schema: JsonObject) -> Ruling:
    return next((rule.ruling for rule in candidates if rule.applies(arguments, schema)), NO_RULE)


def _all_readings(arguments: JsonObject, schema: JsonObject, named: set[str] | None) -> Iterator[object]:
    # First: an input that is too large to be read is not compared at all.
    by_place = _Readings(schema).of_input(arguments, named)
    with_defaults = {**property_defaults(schema), **arguments}
    yield arguments
    yield with_defaults
    for numbers in (True, False):
        yield _read(with_defaults, numbers=numbers)
    yield from by_place


def _keys(value: object) -> Iterator[str]:
    """Every key in `value`, at any depth."""
    if isinstance(value, Mapping):
        for key, item in cast("JsonObject", value).items():
            yield key
            yield from _keys(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _keys(item)


def _compile(schema: Mapping[str, object], where: str) -> Condition:
    # Not above: few servers have conditions.
    from codecall.schema.validator import InvalidSchemaError, check_schema, create_validator

    try:
        check_schema(schema)
    except InvalidSchemaError as failure:
        raise OptionsError(f"{where}: {failure}") from None
    return create_validator(schema)


class _TooManyReadings(ValueError):  # noqa: N818 - named for what is there
    """An input can be read in more ways than are compared."""


class _Readings:
    """The readings of an input, each value by its place in the schema of the tool."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._filled = 0
        self._budget = StepBudget()
        self._values = StepBudget(MAX_VALUES)
        self._known: dict[int, tuple[object, list[JsonObject]]] = {}
        """The shapes of schemas by their identities, with the schemas, which keeps these."""

    def of_input(self, arguments: JsonObject, named: set[str] | None) -> list[object]:
        """The readings of the arguments; those that are not `named` stay as they are.

        Raises:
            _TooManyReadings: there are more than are compared.
            BudgetSpentError: the schema says too much to be looked at, or the input has too many values.
        """
        found = self._of(arguments, self._schema, 0, named)
        if len(found) * (MAX_VALUES - self._values.left) > MAX_COMPARED:
            raise _TooManyReadings
        return found

    def _of(self, value: object, schema: object, depth: int, named: set[str] | None = None) -> list[object]:
        self._values.spend()
        if depth > MAX_DEPTH:
            shapes: list[JsonObject] = [{}]
        elif (known := self._known.get(id(schema))) is not None:
            shapes = known[1]
        else:
            shapes = self._shapes(schema, 0)
            self._known[id(schema)] = schema, shapes
        if isinstance(value, Mapping):
            mapping = cast("JsonObject", value)
            fits = [shape for shape in shapes if _kinds(shape) & {"object", "any"}] or [{}]
            return _distinct([self._of_object(mapping, shape, depth + 1, named) for shape in fits])
        if isinstance(value, list):
            values = cast("list[object]", value)
            fits = [shape for shape in shapes if _kinds(shape) & {"array", "any"}] or [{}]
            return _distinct([self._of_list(values, shape, depth + 1) for shape in fits])
        kinds = {kind for shape in shapes for kind in _kinds(shape)} - {"null"}
        if kinds == {"string"}:
            return [value]
        ways = (False,) if kinds == {"boolean"} else (True,) if kinds and kinds <= {"number", "integer"} else None
        if ways == (True,) and isinstance(value, bool):
            return [int(value)]
        found = [[value]] if ways is None else []
        for numbers in ways or (True, False):
            read = _read(value, numbers=numbers)
            nested = isinstance(value, str) and read != value and isinstance(read, str | list | dict)
            found.append(self._of(cast("object", read), schema, depth + 1) if nested else [read])
        return _distinct(found)

    def _of_object(self, value: JsonObject, shape: JsonObject, depth: int, named: set[str] | None) -> list[object]:
        known = property_schemas(shape)
        missing = {name: default for name, default in property_defaults(shape).items() if name not in value}
        self._filled += len(missing)
        if self._filled > MAX_FILLED:
            raise _TooManyReadings
        filled = {**missing, **value}
        others = shape.get("additionalProperties")
        parts = (
            [item] if named is not None and name not in named else self._of(item, known.get(name, others), depth)
            for name, item in filled.items()
        )
        return [dict(zip(filled, found, strict=True)) for found in _combined(parts)]

    def _of_list(self, value: list[object], shape: JsonObject, depth: int) -> list[object]:
        first = shape.get("prefixItems")
        heads = cast("list[object]", first) if isinstance(first, list) else []
        rest = shape.get("items")
        places = [*heads[: len(value)], *[rest] * (len(value) - len(heads))]
        return [
            list(found)
            for found in _combined(self._of(item, at, depth) for item, at in zip(value, places, strict=True))
        ]

    def _shapes(self, schema: object, depth: int) -> list[JsonObject]:
        """What a schema says of the values at its place, one for each of its alternatives; {}: nothing."""
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return [{}]
        body = dict(cast("JsonObject", schema))
        self._budget.spend(1 + len(property_schemas(body)))
        if (reference := body.pop("$ref", None)) is not None:
            found = resolve_pointer(reference, self._schema)
            target = found[1] if found is not None else None
            if not isinstance(target, Mapping):
                return [{}]
            return self._shapes(_merged(cast("JsonObject", target), body), depth + 1)
        if isinstance(parts := body.pop("allOf", None), list):
            for part in cast("list[object]", parts):
                for shape in self._shapes(part, depth + 1)[:1]:
                    body = _merged(shape, body)
            return self._shapes(body, depth + 1)
        for key in ("anyOf", "oneOf"):
            if isinstance(alternatives := body.pop(key, None), list):
                merged = [
                    _merged(body, cast("JsonObject", each))
                    for each in cast("list[object]", alternatives)
                    if isinstance(each, Mapping)
                ]
                return cast("list[JsonObject]", _distinct([self._shapes(each, depth + 1) for each in merged]))
        return [{key: body[key] for key in _SHAPE if key in body}]


def _merged(schema: JsonObject, more: JsonObject) -> dict[str, object]:
    """Both schemas in one; of what both say, `more` counts, and properties are put together."""
    return {**schema, **more, "properties": {**property_schemas(schema), **property_schemas(more)}}


def _kinds(shape: JsonObject) -> set[object]:
    """The types that a schema names; "any" where it names none."""
    kinds = shape.get("type")
    return set(cast("list[object]", kinds)) if isinstance(kinds, list) else {kinds or "any"}


def _distinct(found: Sequence[Sequence[Any]]) -> list[Any]:
    """What was found, each once."""
    if len(found) == 1:
        return list(found[0])
    # As texts: to Python true is 1.
    distinct = list({json.dumps(each, sort_keys=True): each for some in found for each in some}.values())
    if len(distinct) > MAX_READINGS:
        raise _TooManyReadings
    return distinct


def _combined(parts: Iterable[Sequence[object]]) -> Iterator[tuple[object, ...]]:
    """Every choice of one reading of each part; no more parts are read than it takes to see that there are too many."""
    readings, read = 1, list[Sequence[object]]()
    for part in parts:
        read.append(part)
        readings *= len(part)
        if readings > MAX_READINGS:
            raise _TooManyReadings
    return product(*read)


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
