"""How a tool may read an input.

FastMCP and pydantic take `"5"` for 5, `"yes"` for true, and a text of JSON for what it holds; of texts with a `format`
many stand for the same value (`formats.py`); and a parameter that is left out has its default. So each input has
several readings. Each value is read in the ways of the types that its place in the tool's schema may have, beside every
reading of the others; where the schema says nothing, or what cannot be decided, in every way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count, islice, product, takewhile
from typing import Final, TypeVar, cast

from codecall.schema.comparison import StepBudget
from codecall.schema.formats import (
    FORMATS,
    JSON,
    FilledObject,
    FloatOrText,
    FormattedText,
    IntOrText,
    IntOrTruth,
    NumberText,
    UnreadableError,
    equal,
    identity,
    is_ambiguous,
    read_number,
    unique,
)
from codecall.schema.model import property_defaults, property_schemas
from codecall.schema.shapes import (
    MAX_ALTERNATIVES,
    MAX_DEPTH,
    UNDECIDED,
    Shapes,
    TooManyReadingsError,
    distinct,
    is_ruled_out,
    kind_of,
    kinds_of,
)

JsonObject = Mapping[str, object]

_Container = TypeVar("_Container", JsonObject, list[object])

MAX_VALUES: Final = 10_000
"""Most values of one input that are read, each once for each alternative of the schema. Those under names of which the
condition says nothing do not count; of a text with a format each hundred characters count as one more."""

MAX_COMPARED: Final = 100_000
"""Most values, in all readings together, that are compared with a condition: a second or so."""

MAX_JSON: Final = 262_144
"""Longest text that is read as JSON, in one call that holds the interpreter for some 20 ms."""

MAX_FILLED: Final = 1_000
"""Most defaults that are filled into one input."""

_NUMERIC: Final = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}) | frozenset(
    {"float", "double", "decimal"}
)
"""Formats of texts that a tool may read as numbers."""

_PLAIN_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?")
"""Texts that every tool takes for the same number."""

_OF_TEXTS: Final = frozenset({"pattern", "minLength", "maxLength"})
"""Keys of a condition that look at how a text is spelled."""

_WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
"""Texts that pydantic takes for truth values."""


class MismatchError(UnreadableError):
    """A value is of another type than a schema says: a tool cannot get it by that alternative."""


def all_readings(arguments: JsonObject, schema: JsonObject, named: set[str] | None) -> Iterator[object]:
    """The readings of the input of a tool.

    Args:
        arguments: The input.
        schema: The schema of the tool's input.
        named: The names of which a condition says something; values under others stay as they are. None: it may look
            at all.

    Raises:
        TooManyReadingsError: there are more than are compared.
        UnreadableError: a value is not what the schema says, or may be one of several.
        BudgetSpentError: the schema says too much to be looked at, or the input has too many values.
    """
    # First: an input that is too large to be read is not compared at all.
    by_place = _Readings(schema, named).of_input(arguments)
    yield arguments
    yield {**property_defaults(schema), **arguments}
    yield from by_place


def restricting_readings(arguments: JsonObject, schema: JsonObject, named: set[str] | None) -> Iterator[object]:
    """The readings for rules that restrict calls.

    There are two more: all texts, also those that the schema calls texts, as the numbers or truth values that they
    spell. Whoever wrote the rule may know that the tool reads them so. And a bound does not fit a text only because it
    is none of a number where the tool can see nothing but one.

    The arguments and errors are those of `all_readings`.
    """
    by_place = _Readings(schema, named).of_input(arguments)
    sent = cast("JsonObject", _with_numbers(arguments, by_place))
    yield sent
    yield (filled := {**property_defaults(schema), **sent})
    yield from by_place
    considered = {name: value for name, value in filled.items() if named is None or name in named}
    for numbers in (True, False):
        yield {**filled, **cast("JsonObject", _literal(considered, numbers=numbers))}


def _with_numbers(value: object, readings: Sequence[object]) -> object:
    """`value` with the texts that all of its readings take for a number. Of a spelling that not every tool takes for
    the same one, a text is left as it is."""
    if readings[0] is value:
        return value  # as it is under names of which the condition says nothing
    if isinstance(value, str):
        is_number = _PLAIN_NUMBER.fullmatch(value) and all(
            isinstance(each, IntOrText | FloatOrText) for each in readings
        )
        return NumberText.of(value) if is_number else value
    if isinstance(value, Mapping) and all(isinstance(each, Mapping) for each in readings):
        objects = cast("Sequence[JsonObject]", readings)
        members = cast("JsonObject", value).items()
        return {name: _with_numbers(item, [each[name] for each in objects]) for name, item in members}
    if isinstance(value, list) and all(type(each) is list for each in readings):
        arrays = cast("Sequence[list[object]]", readings)
        return [
            _with_numbers(item, [each[at] for each in arrays if at < len(each)])
            for at, item in enumerate(cast("list[object]", value))
        ]
    return cast("object", value)


def _literal(value: object, *, numbers: bool) -> object:
    """`value` with the numbers or, unless `numbers`, truth values that texts in it spell. What a tool can only see as
    the number 0 or 1 stays one beside."""
    if isinstance(value, dict):
        return {key: _literal(item, numbers=numbers) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_literal(item, numbers=numbers) for item in cast("list[object]", value)]
    if not numbers and (truth := _truth_value(value)) is not None:
        is_number = isinstance(value, NumberText) or not isinstance(value, bool | str)
        return IntOrTruth(truth) if is_number else truth
    with suppress(UnreadableError):
        return next(iter(_numbers(value)), value) if isinstance(value, str) else value
    return value


class _Readings:
    """The readings of an input, each value by its place in the schema of the tool."""

    def __init__(self, schema: JsonObject, named: set[str] | None) -> None:
        self._schema = schema
        self._shapes = Shapes(schema)
        self._named = named
        self._plain = named is None or not named.isdisjoint(_OF_TEXTS)
        """Whether a condition looks at how a text is spelled."""
        self._filled = 0
        self._values = StepBudget(MAX_VALUES)

    def of_input(self, arguments: JsonObject) -> list[object]:
        """The readings of the arguments; those that are not `named` stay as they are.

        Raises:
            TooManyReadingsError: there are more than are compared.
            BudgetSpentError: the schema says too much to be looked at, or the input has too many values.
        """
        found = self._of(arguments, self._schema, 0)
        if len(found) * (MAX_VALUES - self._values.left) > MAX_COMPARED:
            raise TooManyReadingsError
        return found

    def _of(self, value: object, schema: object, depth: int) -> list[object]:
        self._values.spend()
        if depth > MAX_DEPTH and schema not in (None, True, {}):
            raise UnreadableError
        shapes: list[JsonObject] = [{}] if depth > MAX_DEPTH else self._shapes.of(schema)
        if isinstance(value, Mapping):
            return self._of_container(cast("JsonObject", value), "object", self._of_object, shapes, depth)
        if isinstance(value, list):
            return self._of_container(cast("list[object]", value), "array", self._of_list, shapes, depth)
        return self._of_scalar(value, shapes, schema, depth)

    def _of_container(
        self,
        value: _Container,
        kind: str,
        read: Callable[[_Container, JsonObject, int], list[object]],
        shapes: Sequence[JsonObject],
        depth: int,
    ) -> list[object]:
        """The readings of an object or array by each shape that may be one, but for those that what it holds does not
        fit."""
        fits = [shape for shape in shapes if kinds_of(shape) & {kind, "any"}]
        if isinstance(value, Mapping) and len(fits) > 1:
            fits = [shape for shape in fits if not is_ruled_out(shape, value)] or fits
        found: list[list[object]] = []
        mismatch = MismatchError()
        for shape in fits:
            try:
                found.append(read(value, shape, depth + 1))
            except MismatchError as failure:
                mismatch = failure
        if not found:
            raise mismatch
        if any(UNDECIDED in shape for shape in shapes):
            found.append(read(value, {}, depth + 1))
        return distinct(found)

    def _of_scalar(self, value: object, shapes: Sequence[JsonObject], schema: object, depth: int) -> list[object]:
        kinds = {kind for shape in shapes for kind in kinds_of(shape)}
        if value is None and kinds & {"null", "any"}:
            return [None]
        texts = [shape for shape in shapes if kinds_of(shape) & {"string", "any"}]
        found = [reading for shape in texts for reading in self._of_text(value, shape, depth)]
        ways = kinds | {"any" for shape in shapes if UNDECIDED in shape}
        if ways & {"boolean", "any"} and (truth := _truth_value(value)) is not None:
            found.append(truth)
        is_number = not ways.isdisjoint({"integer", "number"})
        if isinstance(value, bool):
            found += [IntOrText(value)] if is_number else []
        elif is_number or "any" in ways or any(shape.get("format") in _NUMERIC for shape in texts):
            found += _numbers(value)
        if isinstance(value, str) and ways & {"null", "array", "object", "any"}:
            found += self._of_json(value, ways, schema, depth)
        if "any" in ways and isinstance(value, str) and value not in found:
            found.append(value)
        if "any" not in kinds and not any(_fits(reading, kinds) for reading in found):
            # What is none of a format, or too long for it, may be one to the tool.
            raise UnreadableError if isinstance(value, str) and texts else MismatchError
        return distinct([[reading] for reading in found])

    def _of_json(self, text: str, ways: set[object], schema: object, depth: int) -> list[object]:
        """The readings of what a text holds as JSON, as far as that is of a type that is wanted."""
        if text.strip() == "null":
            return [None] if ways & {"null", "any"} else []
        if not ways & {"array", "object", "any"}:
            return []
        if len(text) > MAX_JSON and text.lstrip()[:1] in ("[", "{", '"'):
            raise TooManyReadingsError
        held: object = None
        with suppress(ValueError, RecursionError):
            held = json.loads(text.strip())
        if not isinstance(held, Mapping | list) and not (isinstance(held, str) and "any" in ways):
            return []
        try:
            return self._of(cast("object", held), schema, depth + 1)
        except MismatchError:
            return self._of(cast("object", held), None, depth + 1) if "any" in ways else []

    def _of_text(self, value: object, shape: JsonObject, depth: int) -> list[object]:
        """The readings of a value where a text is wanted, beside those that it has as something else."""
        is_json = shape.get("contentMediaType") == "application/json"
        name = JSON if is_json else shape.get("format")
        if not isinstance(name, str) or name not in FORMATS:
            return [value] if isinstance(value, str) else []
        if is_ambiguous(name, value):
            raise UnreadableError
        if not isinstance(value, str):
            return []
        self._values.spend(len(value) // 100)
        try:
            text = FormattedText.read(name, value)
        except UnreadableError:
            return []  # but as another alternative, if there is one
        held = self._of(json.loads(value), shape.get("contentSchema"), depth + 1) if is_json else []
        return [text, *([text.plain()] if self._plain else []), *held]

    def _of_object(self, value: JsonObject, shape: JsonObject, depth: int) -> list[object]:
        known, defaults = property_schemas(shape), property_defaults(shape)
        filled = {**defaults, **value}
        self._fill(len(filled) - len(value))
        others = shape.get("additionalProperties")

        def read(name: str, item: object) -> list[object]:
            if depth == 1 and self._named is not None and name not in self._named:
                return [item]
            place = known.get(name, others)
            if name not in value:
                return self._of_default(item, place, depth)
            try:
                return self._of(item, place, depth)
            except UnreadableError:
                if name not in defaults or identity(item) != identity(defaults[name]):
                    raise
                return [item]

        parts = (read(name, item) for name, item in filled.items())
        # Pydantic drops members that a model does not have, if its schema says nothing of others.
        names = frozenset(known) if "properties" in shape and "additionalProperties" not in shape else None
        return [FilledObject.of(zip(filled, found, strict=True), defaults, names) for found in _combined(parts)]

    def _of_default(self, default: object, schema: object, depth: int) -> list[object]:
        """The readings of a default that is filled in, and itself: nothing checks it, so a tool may have null for a
        text, or 1 for a truth value."""
        try:
            found = self._of(default, schema, depth)
        except UnreadableError:
            return [default]
        is_there = any(each == default and kind_of(each) == kind_of(default) for each in found)
        return found if is_there else [*found, default]

    def _fill(self, defaults: int) -> None:
        self._filled += defaults
        if self._filled > MAX_FILLED:
            raise TooManyReadingsError

    def _of_list(self, value: list[object], shape: JsonObject, depth: int) -> list[object]:
        first = shape.get("prefixItems")
        heads = cast("list[object]", first) if isinstance(first, list) else []
        rest = shape.get("items")
        defaults = _defaults(heads)
        places = [*heads[: len(value)], *[rest] * (len(value) - len(heads))]
        filled = [(defaults[at], heads[at]) for at in takewhile(defaults.__contains__, count(len(value)))]
        self._fill(len(filled))
        parts = chain(
            (self._of(item, at, depth) for item, at in zip(value, places, strict=True)),
            (self._of_default(item, at, depth) for item, at in filled),
        )
        shortened = (short for items in _combined(parts) for short in _shortened(list(items), defaults))
        lists = list(islice(shortened, MAX_ALTERNATIVES + 1))
        if len(lists) > MAX_ALTERNATIVES:
            raise TooManyReadingsError
        if shape.get("uniqueItems") is not True:
            return cast("list[object]", lists)
        sets = [unique(items) for items in lists]
        return [*sets, *(items for items, each in zip(lists, sets, strict=True) if len(each) < len(items))]


def _defaults(heads: Sequence[object]) -> dict[int, object]:
    """The defaults of the first items of an array (a `NamedTuple`), by their places."""
    bodies = ((at, cast("JsonObject", head)) for at, head in enumerate(heads) if isinstance(head, Mapping))
    return {at: body["default"] for at, body in bodies if "default" in body}


def _shortened(items: list[object], defaults: Mapping[int, object]) -> Iterator[list[object]]:
    """An array, and each that is the same to a tool since only defaults at its end are left out."""
    yield items
    while (last := len(items) - 1) in defaults and equal(items[last], defaults[last]):
        items = items[:last]
        yield items


def _fits(value: object, kinds: set[object]) -> bool:
    """Whether a value is of one of these types."""
    kind = kind_of(value)
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _combined(parts: Iterable[Sequence[object]]) -> Iterator[tuple[object, ...]]:
    """Every choice of one reading of each part; no more parts are read than it takes to see that there are too many."""
    readings, read = 1, list[Sequence[object]]()
    for part in parts:
        read.append(part)
        readings *= len(part)
        if readings > MAX_ALTERNATIVES:
            raise TooManyReadingsError
    return product(*read)


def _truth_value(value: object) -> bool | None:
    """What pydantic reads as a truth value, as one."""
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower())
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def _numbers(value: object) -> list[object]:
    """A number, or the one that a text is; of anything else, nothing.

    Raises:
        UnreadableError: it is not a number to compare with (NaN).
    """
    if isinstance(value, str):
        try:
            value = read_number(value)
        except ValueError:
            return []
    if isinstance(value, int):
        return [IntOrText(value)]
    if isinstance(value, float) and math.isnan(value):
        raise UnreadableError
    return [FloatOrText(value)] if isinstance(value, float) else []
