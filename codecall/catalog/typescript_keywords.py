"""What single keywords of a JSON Schema say, whatever somebody wrote there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

JsonObject = Mapping[str, object]

MAX_NAMES = 60
"""Names that properties may have, as far as they are listed in a type."""

_KINDS: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", tuple: "array"}
_ALONE: Final = ("draft-03", "draft-04", "draft-06", "draft-07")


def is_old(document: object) -> bool:
    """Whether a document says that it is of a draft in which nothing beside `$ref` counts."""
    named = cast("JsonObject", document).get("$schema") if isinstance(document, Mapping) else None
    return isinstance(named, str) and any(draft in named for draft in _ALONE)


def is_const(schema: object) -> bool:
    """Whether a schema stands for one value."""
    return isinstance(schema, Mapping) and "const" in schema and "nullable" not in schema


def has(body: JsonObject, keywords: Sequence[str]) -> bool:
    """Whether one of these keywords is there, with something in it."""
    return any(isinstance(body.get(keyword), (Mapping, list)) for keyword in keywords)


def agree(body: JsonObject, kinds: Sequence[str]) -> bool:
    """Whether one at least of the values that `const` or `enum` states is of one of these types."""
    values = [body["const"]] if "const" in body else cast("list[object]", body["enum"])
    return any(kind in kinds or (kind == "integer" and "number" in kinds) for kind in map(kind_of, values))


def kind_of(value: object) -> str:
    """The JSON type of a value, whole numbers as `integer`."""
    if value is None:
        return "null"
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return next((kind for python, kind in _KINDS.items() if isinstance(value, python)), "object")


def names_of(schema: object) -> tuple[str, ...]:
    """The names that `propertyNames` lists."""
    names = cast("JsonObject", schema).get("enum") if isinstance(schema, Mapping) else None
    if not isinstance(names, list):
        return ()
    listed = cast("list[object]", names)
    return tuple(dict.fromkeys(str(name) for name in listed)) if len(listed) <= MAX_NAMES else ()


def count(value: object) -> int | None:
    """A number of items; None for what is none."""
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9 else None
