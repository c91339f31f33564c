"""What is sure to be wrong with an input, by the tool's JSON Schema alone, where not all of the input need be known.

What a tool makes of its input is its own business: it may take `"5"` for a number, and JSON text for a list. So only
what no tool can mend is told. RULES has it all; an input breaks one of them or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from codecall.inputs import MAX_FIELDS, JsonObject, Problem, problem, resolve, with_rest
from codecall.sandbox.known import Gap, Partial, Path, Some

RULES: Final[dict[str, str]] = {
    "missing": "a required parameter is left out that has no default, and there is no unknown one that it may be",
    "unknown": "a member that the schema does not have, where `additionalProperties` is false",
    "type": "an object or array for text, a number, a boolean or null; a number or boolean for an object or array",
    "choice": "text or a number that is none of `enum`, nor is but for blanks and the case of letters",
}
"""What is sure to be wrong. `missing` is told of every tool, the others where the schema is the tool's own word."""

MAX_STEPS: Final = 5_000
"""Places in schemas that are looked at for one input; then nothing more is told."""

_PLAIN: Final = frozenset(
    {"$ref", "$defs", "definitions", "$schema", "$id", "$comment", "type", "enum", "const", "properties", "required",
     "additionalProperties", "items", "anyOf", "title", "description", "default", "examples", "deprecated", "readOnly",
     "writeOnly", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
     "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems"}
)  # fmt: skip
"""Keywords that leave the meaning of the others alone. A schema with any other is not looked at."""

_SCALARS: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_TYPES: Final = _SCALARS | {"object", "array"}


class Breach(NamedTuple):
    """One thing that is wrong."""

    path: Path
    message: str


class _EnoughError(Exception):
    """`MAX_STEPS` have been taken."""


def missing(known: Mapping[str, object], schema: JsonObject) -> list[Breach]:
    """The required parameters that are left out of an input."""
    properties = schema.get("properties")
    if isinstance(known, Partial) or not schema.keys() <= _PLAIN or not isinstance(properties, dict):
        return []
    return list(_missing(known, schema, ())) if known.keys() <= cast("JsonObject", properties).keys() else []


def breaches(known: Mapping[str, object], schema: JsonObject) -> list[Breach]:
    """All that is sure to be wrong with an input."""
    try:
        return list(_Reader(schema).read(known, schema, ()))
    except (_EnoughError, RecursionError):
        return []


def problems(found: Sequence[Breach], schema: JsonObject) -> list[Problem]:
    """What was found, as an error tells it."""
    told = [problem([str(part) for part in path], message, schema) for path, message in found[:MAX_FIELDS]]
    return with_rest(told, len(found))


class _Reader:
    """Compares one input with one schema."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MAX_STEPS

    def read(self, value: object, schema: object, path: Path) -> Iterator[Breach]:
        """What is wrong with `value`, which should fit `schema`."""
        self._left -= 1
        if self._left < 0:
            raise _EnoughError
        place = self._plain(schema)
        if place is None or isinstance(value, Gap):
            return
        branches = place.get("anyOf")
        if isinstance(branches, list):
            every = [next(self.read(value, branch, path), None) for branch in cast("list[object]", branches)]
            if every and None not in every:
                yield Breach(path, "Fits none of the forms this may have")
            return
        if _is_wrong_type(value, place):
            yield Breach(path, "Wrong type")
        elif _is_no_choice(value, place):
            yield Breach(path, "Not one of the allowed values")
        elif isinstance(value, dict):
            yield from self._members(cast("dict[str, object]", value), place, path)
        elif isinstance(value, list):
            for at, item in enumerate(cast("list[object]", value)):
                yield from self.read(item, place.get("items"), path if isinstance(value, Some) else (*path, at))

    def _members(self, value: Mapping[str, object], place: JsonObject, path: Path) -> Iterator[Breach]:
        properties = _properties(place)
        if not isinstance(value, Partial):
            yield from _missing(value, place, path)
        for key, member in value.items():
            if key in properties:
                yield from self.read(member, properties[key], (*path, key))
            elif place.get("additionalProperties") is False and member is not Gap.PERHAPS:
                yield Breach((*path, key), "Unknown parameter")

    def _plain(self, schema: object) -> JsonObject | None:
        """`schema` without `$ref`; None where it is more than this can read."""
        place = cast("JsonObject", schema) if isinstance(schema, dict) else None
        for _ in range(10):
            if place is None or not place.keys() <= _PLAIN:
                return None
            if "$ref" not in place:
                return place
            place = resolve(place, self._root) if str(place["$ref"]).startswith("#/") else None
        return None


def _missing(value: Mapping[str, object], place: JsonObject, path: Path) -> Iterator[Breach]:
    properties = _properties(place)
    required = place.get("required")
    closed = place.get("additionalProperties") is False
    strange = any(key not in properties for key in value)
    if not isinstance(required, list) or (strange and not closed):
        return
    for name in cast("list[object]", required):
        if isinstance(name, str) and name not in value and not _has_default(properties.get(name)):
            yield Breach((*path, name), "Field required")


def _properties(place: JsonObject) -> JsonObject:
    properties = place.get("properties")
    return cast("JsonObject", properties) if isinstance(properties, dict) else {}


def _has_default(field: object) -> bool:
    return isinstance(field, dict) and "default" in field


def _is_wrong_type(value: object, place: JsonObject) -> bool:
    said = place.get("type")
    kinds = set(map(str, cast("list[object]", said))) if isinstance(said, list) else {str(said)}
    if not kinds or not kinds <= _TYPES:
        return False
    if isinstance(value, (dict, list)):
        return kinds <= _SCALARS
    return isinstance(value, (bool, int, float)) and kinds.isdisjoint(_SCALARS)


def _is_no_choice(value: object, place: JsonObject) -> bool:
    choices = place.get("enum", [place["const"]] if "const" in place else None)
    said = _folded(value)
    if said is None or not isinstance(choices, list):
        return False
    allowed = {_folded(choice) for choice in cast("list[object]", choices) if choice is not None}
    return None not in allowed and said not in allowed


def _folded(value: object) -> str | None:
    """Text and numbers as a lenient tool may compare them; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return f"{value:g}" if not isinstance(value, str) else value.strip().casefold()
