"""How a tool may read an input.

FastMCP and pydantic take `"5"` for 5, `"yes"` for true, and a text of JSON for what it holds; of texts with a `format`
many stand for the same value (`formats.py`); and a parameter that is left out has its default. So each input has
several readings. Each value is read as its place in the tool's schema says; where that says nothing, in every way,
beside every reading of the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import product
from typing import Any, Final, cast

from codecall.schema.comparison import StepBudget
from codecall.schema.formats import (
    FORMATS,
    JSON,
    FilledObject,
    FloatOrText,
    FormattedText,
    IntOrText,
    UnreadableError,
    identity,
    is_ambiguous,
    read_number,
    unique,
)
from codecall.schema.model import property_defaults, property_schemas, resolve_pointer

JsonObject = Mapping[str, object]

MAX_READINGS: Final = 100
"""Most readings of one input that are compared."""

MAX_VALUES: Final = 10_000
"""Most values of one input that are read, each once for each alternative of the schema. Those under names of which the
condition says nothing do not count; of a text with a format each hundred characters count as one more."""

MAX_COMPARED: Final = 100_000
"""Most values, in all readings together, that are compared with a condition: a second or so."""

MAX_JSON: Final = 262_144
"""Longest text that is read as JSON, in one call that holds the interpreter for some 20 ms."""

MAX_DEPTH: Final = 24
"""Levels of an input, and steps from a schema to what it refers to, that are followed. What is said of values deeper
down is not known."""

MAX_FILLED: Final = 1_000
"""Most defaults that are filled into one input."""

_SHAPE: Final = (
    *("type", "properties", "additionalProperties", "required", "prefixItems", "items", "uniqueItems"),
    *("format", "contentMediaType", "contentSchema"),
)
"""Keys of a schema that say how a value is read."""

_OF_TEXTS: Final = frozenset({"pattern", "minLength", "maxLength"})
"""Keys of a condition that look at how a text is spelled."""

_TYPES: Final = frozenset({"string", "boolean", "number", "integer", "null", "array", "object"})

_WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
"""Texts that pydantic takes for truth values."""


class TooManyReadingsError(ValueError):
    """An input can be read in more ways than are compared."""


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
    with_defaults = {**property_defaults(schema), **arguments}
    looked_at = {name: value for name, value in with_defaults.items() if named is None or name in named}
    yield arguments
    yield with_defaults
    for numbers in (True, False):
        yield {**with_defaults, **cast("JsonObject", _read(looked_at, numbers=numbers))}
    yield from by_place


class _Readings:
    """The readings of an input, each value by its place in the schema of the tool."""

    def __init__(self, schema: JsonObject, named: set[str] | None) -> None:
        self._schema = schema
        self._named = named
        self._plain = named is None or not named.isdisjoint(_OF_TEXTS)
        """Whether a condition looks at how a text is spelled."""
        self._filled = 0
        self._budget = StepBudget()
        self._values = StepBudget(MAX_VALUES)
        self._known: dict[int, tuple[object, list[JsonObject]]] = {}
        """The shapes of schemas by their identities, with the schemas, which keeps these."""

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
        if depth > MAX_DEPTH:
            shapes: list[JsonObject] = [{}]
        elif (known := self._known.get(id(schema))) is not None:
            shapes = known[1]
        else:
            shapes = self._shapes(schema, 0)
            self._known[id(schema)] = schema, shapes
        kinds = {kind for shape in shapes for kind in _kinds(shape)}
        if isinstance(value, Mapping | list):
            wanted = "object" if isinstance(value, Mapping) else "array"
            fits = [shape for shape in shapes if _kinds(shape) & {wanted, "any"}]
            if not fits:
                raise UnreadableError
            if isinstance(value, Mapping):
                mapping = cast("JsonObject", value)
                return _distinct([self._of_object(mapping, shape, depth + 1) for shape in fits])
            items = cast("list[object]", value)
            return _distinct([self._of_list(items, shape, depth + 1) for shape in fits])
        return [None] if value is None and kinds & {"null", "any"} else self._of_scalar(value, shapes, schema, depth)

    def _of_scalar(self, value: object, shapes: Sequence[JsonObject], schema: object, depth: int) -> list[object]:
        kinds = {kind for shape in shapes for kind in _kinds(shape)} - {"null"}
        texts = [shape for shape in shapes if _kinds(shape) & {"string", "any"}]
        found = [reading for shape in texts for reading in self._of_text(value, shape, depth)]
        if kinds != {"string"}:
            if isinstance(value, str) and _is_long_json(value):
                raise TooManyReadingsError
            ways = (False,) if kinds == {"boolean"} else (True,) if kinds <= {"number", "integer"} else (True, False)
            for numbers in ways:
                read = int(value) if ways == (True,) and isinstance(value, bool) else _read(value, numbers=numbers)
                if isinstance(value, str) and isinstance(read, str | list | dict):
                    # A text that says nothing else has been read as one.
                    found += self._of(cast("object", read), schema, depth + 1) if read != value else []
                elif isinstance(read, int | float) and not isinstance(read, bool):
                    found.append(IntOrText(read) if isinstance(read, int) else FloatOrText(read))
                else:
                    found.append(read)
        if "any" not in kinds and not any(_fits(reading, kinds) for reading in found):
            raise UnreadableError
        return _distinct([[reading] for reading in found])

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
        self._filled += len(filled) - len(value)
        if self._filled > MAX_FILLED:
            raise TooManyReadingsError
        others = shape.get("additionalProperties")

        def read(name: str, item: object) -> list[object]:
            if depth == 1 and self._named is not None and name not in self._named:
                return [item]
            try:
                return self._of(item, known.get(name, others), depth)
            except UnreadableError:
                # Nothing checks a default: a tool may have null for a text.
                if name not in defaults or identity(item) != identity(defaults[name]):
                    raise
                return [item]

        parts = (read(name, item) for name, item in filled.items())
        # Pydantic drops members that a model does not have, if its schema says nothing of others.
        names = frozenset(known) if known and "additionalProperties" not in shape else None
        return [FilledObject.of(zip(filled, found, strict=True), defaults, names) for found in _combined(parts)]

    def _of_list(self, value: list[object], shape: JsonObject, depth: int) -> list[object]:
        first = shape.get("prefixItems")
        heads = cast("list[object]", first) if isinstance(first, list) else []
        rest = shape.get("items")
        places = [*heads[: len(value)], *[rest] * (len(value) - len(heads))]
        found = _combined(self._of(item, at, depth) for item, at in zip(value, places, strict=True))
        lists = [list(items) for items in found]
        if shape.get("uniqueItems") is not True:
            return cast("list[object]", lists)
        sets = [unique(items) for items in lists]
        return [*sets, *(items for items, each in zip(lists, sets, strict=True) if len(each) < len(items))]

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
            bodies: list[JsonObject] = [body]
            for part in cast("list[object]", parts):
                found = self._shapes(part, depth + 1)
                self._budget.spend(len(found) * len(bodies))
                bodies = [_merged(shape, each) for shape in found for each in bodies]
            return cast("list[JsonObject]", _distinct([self._shapes(each, depth + 1) for each in bodies]))
        for key in ("anyOf", "oneOf"):
            if isinstance(alternatives := body.pop(key, None), list):
                merged = [
                    _merged(body, cast("JsonObject", each))
                    for each in cast("list[object]", alternatives)
                    if isinstance(each, Mapping)
                ]
                return cast("list[JsonObject]", _distinct([self._shapes(each, depth + 1) for each in merged]))
        shape = {key: body[key] for key in _SHAPE if key in body}
        if "type" not in body and isinstance(choices := body.get("enum"), list):
            shape["type"] = list({_kind(choice) for choice in cast("list[object]", choices)})
        return [shape]


def _merged(schema: JsonObject, more: JsonObject) -> dict[str, object]:
    """Both schemas in one; of what both say, `more` counts, and properties are put together."""
    return {**schema, **more, "properties": {**property_schemas(schema), **property_schemas(more)}}


def _kinds(shape: JsonObject) -> set[object]:
    """The types that a schema names; "any" where it names none, or one that is none."""
    named = shape.get("type")
    kinds = set(cast("list[object]", named)) if isinstance(named, list) else {named}
    return kinds if kinds and kinds <= _TYPES else (kinds & _TYPES) | {"any"}


def _kind(value: object) -> str:
    """The type of a JSON value."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    if isinstance(value, str | list):
        return "string" if isinstance(value, str) else "array"
    return "null" if value is None else "object"


def _fits(value: object, kinds: set[object]) -> bool:
    """Whether a value is of one of these types."""
    kind = _kind(value)
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _distinct(found: Sequence[Sequence[Any]]) -> list[Any]:
    """What was found, each once."""
    if len(found) == 1:
        return list(found[0])
    # By their texts: to Python true is 1. Of these only digests are kept, for values may be long.
    distinct = list({blake2b(repr(each).encode()).digest(): each for some in found for each in some}.values())
    if len(distinct) > MAX_READINGS:
        raise TooManyReadingsError
    return distinct


def _combined(parts: Iterable[Sequence[object]]) -> Iterator[tuple[object, ...]]:
    """Every choice of one reading of each part; no more parts are read than it takes to see that there are too many."""
    readings, read = 1, list[Sequence[object]]()
    for part in parts:
        read.append(part)
        readings *= len(part)
        if readings > MAX_READINGS:
            raise TooManyReadingsError
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
    with suppress(ValueError):
        return read_number(bare)
    with suppress(ValueError, RecursionError):
        return text if _is_long_json(text) else cast("object", json.loads(bare))
    return text


def _is_long_json(text: str) -> bool:
    """Whether a text may be JSON, and is longer than it is read as such."""
    return len(text) > MAX_JSON and text.lstrip()[:1] in ("[", "{", '"')
