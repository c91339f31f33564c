"""What a JSON Schema says of the type of the values at its place, its references followed and its parts put together.

That is one shape for each alternative of `anyOf` and `oneOf`, and of what holds on conditions (`then`). A shape that is
`UNDECIDED` does not say all there is: parts contradict each other, or cannot be found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, cast

from codecall.schema.comparison import StepBudget
from codecall.schema.model import property_defaults, property_schemas, resolve_pointer

JsonObject = Mapping[str, object]

MAX_ALTERNATIVES: Final = 100
"""Most shapes of one schema, and most readings of one input."""

MAX_DEPTH: Final = 24
"""Levels of an input, and steps from a schema to what it refers to, that are followed. What is said of values deeper
down is not known."""

UNDECIDED: Final = "undecided"
"""Key of a shape that does not say all there is."""

_SHAPE: Final = (
    *("type", "properties", "patternProperties", "additionalProperties", "prefixItems", "items", "uniqueItems"),
    *("format", "contentMediaType", "contentSchema"),
)
"""Keys of a schema that say how a value is read."""

_PLACES: Final = ("additionalProperties", "items", "contentSchema")
"""Those that hold one schema."""

_UNKNOWN: Final[JsonObject] = {UNDECIDED: True}
"""The shape of what is not followed."""

_CHOICES: Final = "choices"
"""Key of a shape: the types of the values that a schema lists, which counts where it names none."""

_TYPES: Final = frozenset({"string", "boolean", "number", "integer", "null", "array", "object"})
_NUMBERS: Final = frozenset({"number", "integer"})


class TooManyReadingsError(ValueError):
    """An input can be read in more ways than are compared."""


class Shapes:
    """The shapes of a schema and of all within it, each found once."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._budget = StepBudget()
        self._known: dict[int, tuple[object, list[JsonObject]]] = {}
        """By the identities of schemas, with these, which keeps them."""

    def of(self, schema: object) -> list[JsonObject]:
        """The shapes of a value at the place of `schema`; {}: nothing is said of it.

        Raises:
            TooManyReadingsError: there are more than are compared.
            BudgetSpentError: the schema says too much to be looked at.
        """
        known = self._known.get(id(schema))
        if known is None:
            known = schema, [_checked(_with_patterns(shape)) for shape in self._found(schema, 0)]
            self._known[id(schema)] = known
        return known[1]

    def _found(self, schema: object, depth: int) -> list[JsonObject]:
        if depth > MAX_DEPTH:
            return [_UNKNOWN]
        if not isinstance(schema, Mapping):
            return [{}]
        body = cast("JsonObject", schema)
        self._budget.spend(1 + len(property_schemas(body)))
        shapes = [_own_shape(body)]
        for part in self._parts(body, depth):
            self._budget.spend(len(part) * len(shapes))
            shapes = distinct([[_merged(shape, more) for shape in shapes] for more in part])
        return shapes

    def _parts(self, body: JsonObject, depth: int) -> list[list[JsonObject]]:
        """The shapes of each part of a schema, all of which hold beside what it says itself."""
        parts: list[list[JsonObject]] = []
        if "$ref" in body:
            target = resolve_pointer(body["$ref"], self._root)
            parts.append([_UNKNOWN] if target is None else self._found(target[1], depth + 1))
        if "$dynamicRef" in body or "$recursiveRef" in body:
            parts.append([_UNKNOWN])
        parts += (self._found(part, depth + 1) for part in _listed(body, "allOf"))
        for key in ("anyOf", "oneOf"):
            if alternatives := _listed(body, key):
                parts.append(distinct([self._found(each, depth + 1) for each in alternatives if each is not False]))
        conditional = [body.get("then"), body.get("else")]
        for key in ("dependentSchemas", "dependencies"):
            conditional += _mapping(body.get(key)).values()
        parts += ([{}, *self._found(each, depth + 1)] for each in conditional if _mapping(each))
        return parts


def kinds_of(shape: JsonObject) -> set[object]:
    """The types that a shape names; "any" where it names none, or one that is none."""
    named = shape.get("type", shape.get(_CHOICES))
    kinds = set(cast("list[object]", named)) if isinstance(named, list) else {named}
    return kinds if kinds and kinds <= _TYPES else (kinds & _TYPES) | {"any"}


def kind_of(value: object) -> str:
    """The type of a JSON value."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    if isinstance(value, str | list):
        return "string" if isinstance(value, str) else "array"
    return "null" if value is None else "object"


def is_ruled_out(shape: JsonObject, value: JsonObject) -> bool:
    """Whether an object has another text where a shape has a constant, as in the models of a union that a text tells
    apart."""
    return any(
        isinstance(item := value.get(name), str)
        and isinstance(constant := _mapping(field).get("const"), str)
        and item.strip().casefold() != constant.strip().casefold()
        for name, field in property_schemas(shape).items()
    )


def distinct(found: Sequence[Sequence[Any]]) -> list[Any]:
    """What was found, each once.

    Raises:
        TooManyReadingsError: that is more than is compared.
    """
    if len(found) == 1:
        return list(found[0])
    # By their texts: to Python true is 1. Of these only digests are kept, for values may be long.
    each_once = list({blake2b(repr(each).encode()).digest(): each for some in found for each in some}.values())
    if len(each_once) > MAX_ALTERNATIVES:
        raise TooManyReadingsError
    return each_once


def _mapping(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, Mapping) else {}


def _listed(body: JsonObject, key: str) -> list[object]:
    found = body.get(key)
    return cast("list[object]", found) if isinstance(found, list) else []


def _own_shape(body: JsonObject) -> JsonObject:
    """What a schema says itself."""
    shape = {key: body[key] for key in _SHAPE if key in body}
    choices = [body["const"]] if "const" in body else _listed(body, "enum")
    if choices:
        shape[_CHOICES] = sorted({kind_of(choice) for choice in choices})
    return shape


def _merged(shape: JsonObject, more: JsonObject) -> JsonObject:
    """What both shapes say; of what cannot be put together, `more` counts, and the whole is undecided."""
    merged = {**shape, **more}
    for key in shape.keys() & more.keys():
        one, two = shape[key], more[key]
        if one == two:
            continue
        if key == "type":
            kinds, others = kinds_of(shape), kinds_of(more)
            both = _common(kinds, others)
            merged["type"] = sorted(map(str, both or kinds | others))
            if not both:
                merged[UNDECIDED] = True
        elif key in ("properties", "patternProperties"):
            merged[key] = _both_members(_mapping(one), _mapping(two))
        elif key in _PLACES and isinstance(one, Mapping) and isinstance(two, Mapping):
            merged[key] = {"allOf": [one, two]}
        else:
            merged[UNDECIDED] = True
    return merged


def _both_members(one: JsonObject, two: JsonObject) -> JsonObject:
    """The properties of both, of which both count where both name them."""
    both = {name: {"allOf": [one[name], two[name]]} for name in one.keys() & two.keys() if one[name] != two[name]}
    defaults = {**property_defaults({"properties": one}), **property_defaults({"properties": two})}
    return {
        **one,
        **two,
        **{name: {**each, **({"default": defaults[name]} if name in defaults else {})} for name, each in both.items()},
    }


def _common(kinds: set[object], others: set[object]) -> set[object]:
    """The types that both allow; none where they contradict each other, or one is not known."""
    if "any" in kinds | others:
        return set()
    whole: set[object] = {"integer"} if kinds & _NUMBERS and others & _NUMBERS else set()
    return kinds & others or whole


def _checked(shape: JsonObject) -> JsonObject:
    """A shape that is undecided where it lists values of no type that it names, as YAML makes truth values of `on`."""
    named, choices = kinds_of(shape), shape.get(_CHOICES)
    agree = choices is None or "any" in named or _common(named, kinds_of({"type": choices}))
    return shape if agree else {**shape, UNDECIDED: True}


def _with_patterns(shape: JsonObject) -> JsonObject:
    """A shape whose other properties are read in every way, and as each of the patterns for their names says."""
    if "patternProperties" not in shape:
        return shape
    others = [*_mapping(shape["patternProperties"]).values(), shape.get("additionalProperties")]
    alternatives: list[object] = [*(each for each in others if isinstance(each, Mapping)), {}]
    return {**shape, "additionalProperties": {"anyOf": alternatives}}
