"""Prepares schemas as FastMCP's default middleware would: without `$ref`, and no deeper than an answer can hold.

That middleware inlines every `$ref` of every schema on each listing, which costs more than the rest of it. A script
that calls one tool needs the schemas of none, so they are inlined only for the tools that are shown.
"""

from __future__ import annotations

import marshal
from functools import lru_cache
from typing import cast

from fastmcp.utilities.json_schema import dereference_refs

JsonObject = dict[str, object]

MAX_SCHEMA_DEPTH = 100
"""Levels of nested objects and arrays of a schema that is shown. JSON writers give up at two to three hundred."""

MAX_SCHEMA_VALUES = 100_000
"""Values of a schema that is shown. Python objects may contain each other, so that a small one never ends."""

CACHED_SCHEMAS = 256
"""Dereferenced schemas that are cached."""

MAX_CACHED_BYTES = 32 * 1024
"""The longest schema that is cached, as `marshal` writes it."""


def presentable_schema(schema: JsonObject | None, *, dereference: bool) -> JsonObject | None:
    """Returns a schema as it is shown: without `$ref` where clients see it so, and no deeper than an answer can hold.

    A part that is left out becomes a schema that allows everything and says so in a `$comment`. A schema that needs no
    change is returned itself.
    """
    if schema is None:
        return None
    has_references, fits = _inspect(schema)
    if not fits:
        return cast("JsonObject", _BoundedCopy().copy(schema))
    return _dereferenced(schema) if has_references and dereference else schema


def _dereferenced(schema: JsonObject) -> JsonObject:
    """A schema without `$ref`; cached by its serialized form, which is much quicker than dereferencing."""
    try:
        serialized = marshal.dumps(schema, 2)  # 2: the last version whose output is decided by the content alone
    except ValueError:
        return dereference_refs(schema)
    return _dereferenced_serialized(serialized) if len(serialized) <= MAX_CACHED_BYTES else dereference_refs(schema)


@lru_cache(maxsize=CACHED_SCHEMAS)
def _dereferenced_serialized(serialized: bytes) -> JsonObject:
    return dereference_refs(marshal.loads(serialized))  # noqa: S302 - serialized above


def _inspect(schema: JsonObject) -> tuple[bool, bool]:
    """Whether a schema holds references or definitions, and whether it can be shown as it is."""
    has_references = False
    remaining = MAX_SCHEMA_VALUES
    pending: list[tuple[object, int]] = [(schema, 1)]
    while pending:
        value, level = pending.pop()
        if isinstance(value, dict):
            members = cast("JsonObject", value)
            has_references = has_references or "$ref" in members or "$defs" in members
            inner = members.values()
        else:
            inner = cast("list[object]", value)
        remaining -= len(inner)
        if level > MAX_SCHEMA_DEPTH or remaining < 0:
            return has_references, False
        pending += [(item, level + 1) for item in inner if isinstance(item, (dict, list))]
    return has_references, True


class _BoundedCopy:
    """Copies a schema that is nested too deeply, contains itself or has too many parts."""

    def __init__(self) -> None:
        self._remaining = MAX_SCHEMA_VALUES
        self._enclosing: list[object] = []

    def copy(self, value: object) -> object:
        """Copies `value`, with comments in place of what is left out."""
        if not isinstance(value, (dict, list)):
            return value
        if any(value is outer for outer in self._enclosing):
            return {"$comment": "left out: the schema contains itself here"}
        if len(self._enclosing) >= MAX_SCHEMA_DEPTH or self._remaining <= 0:
            return {"$comment": "left out: the schema is too large or nested too deeply"}
        self._enclosing.append(cast("object", value))
        try:
            self._remaining -= len(cast("list[object]", value))
            if isinstance(value, list):
                return [self.copy(item) for item in cast("list[object]", value)]
            return {name: self.copy(item) for name, item in cast("JsonObject", value).items()}
        finally:
            self._enclosing.pop()
