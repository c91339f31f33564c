"""From the shape of a tool's results to the JSON Schema that one caller is shown.

Names are shown to a caller whose own results had them, and to everybody once the results of two callers had them. A
field belongs to the tool, so that two callers soon have seen it; a name that is somebody's data (of a customer, of a
project) belongs to one. Where names vary from object to object they are data as well. Whatever is not shown is in
`additionalProperties`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from codecall.catalog.entries import JsonObject
from codecall.catalog.outlines import (
    ANYTHING,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Name,
    Shape,
    join_all,
)

MARK: Final = "x-observed"
"""Keyword of a schema that was learned: how many results it is made of, and whether parts of them were not read."""

_TYPES: Final = {
    OBJECT: "object",
    ARRAY: "array",
    STRING: "string",
    NUMBER: "number",
    INTEGER: "integer",
    BOOLEAN: "boolean",
    NULL: "null",
}

_ALIKE: Final = 8
"""So many objects of the same names under the names of one object are entries of a dictionary."""

_COUNTS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)


def shown_results(results: int) -> int:
    """The number of results as it is shown: round, so that nobody can count the calls of others."""
    return max((count for count in _COUNTS if count <= results), default=0)


def schema_of(shape: Shape, viewer: str, *, results: int, partial: bool) -> JsonObject | None:
    """The JSON Schema of a tool's results; None if nothing is known of them.

    Args:
        shape: what is known.
        viewer: who is going to see it, as `Name.owner` has it.
        results: how many results it is made of.
        partial: some of them were read in part.
    """
    schema = _schema(shape, viewer)
    if not schema:
        return None
    schema[MARK] = {"results": shown_results(results)} | ({"partial": True} if partial else {})
    return schema


def _schema(shape: Shape, viewer: str) -> JsonObject:
    kinds = shape.kinds
    if kinds & ANYTHING:
        return {}
    if kinds & NUMBER:
        kinds &= ~INTEGER
    types = [name for kind, name in _TYPES.items() if kinds & kind]
    if not types:
        return {}
    schema: JsonObject = {"type": types[0] if len(types) == 1 else types}
    if shape.items is not None and (items := _schema(shape.items, viewer)):
        schema["items"] = items
    if kinds & OBJECT:
        schema |= _object(shape, viewer)
    return schema


def _object(shape: Shape, viewer: str) -> JsonObject:
    names = {key: name for key, name in _fields(shape).items() if name.owner in (None, viewer)}
    hidden = [name.shape for key, name in shape.names.items() if key not in names]
    if not names:
        values = join_all([*hidden, *([] if shape.rest is None else [shape.rest])])
        if values is None:
            return {} if shape.whole else {"additionalProperties": True}
        return {"additionalProperties": _schema(values, viewer) or True}
    described: JsonObject = {"properties": {key: _schema(name.shape, viewer) for key, name in names.items()}}
    if required := [key for key, name in names.items() if not name.missing]:
        described["required"] = required
    if hidden or shape.rest is not None or not shape.whole:
        described["additionalProperties"] = True
    return described


def _fields(shape: Shape) -> Mapping[str, Name]:
    """The names that are fields, and not data, as far as all objects together tell."""
    names = shape.names
    if len(names) >= _ALIKE and _are_alike(name.shape for name in names.values()):
        return {}
    always = {key: name for key, name in names.items() if not name.missing}
    # Of fields that may be missing, one object has a good part; of data, each object has its own.
    at_once = max(0, shape.widest - len(always))
    most = 4 * at_once + 8 if always else 2 * at_once
    return always if len(names) - len(always) > most else names


def _are_alike(shapes: Iterable[Shape]) -> bool:
    """Whether all are objects that have the same names."""
    kinds = {(shape.kinds, frozenset(shape.names)) for shape in shapes}
    return len(kinds) == 1 and all(kind == OBJECT and names for kind, names in kinds)
