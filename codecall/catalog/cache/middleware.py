"""How a server's listing is read: with as much of its middleware as can change what a caller sees, and no more.

FastMCP's default middleware inlines every `$ref` of every schema on each listing, which costs more than the rest of it.
A script that calls one tool needs the schemas of none, so where no other middleware can touch a listing it is read
beneath the middleware, and the schemas are inlined for the tools that are shown.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.utilities.json_schema import dereference_refs

JsonObject = dict[str, object]

MAX_SCHEMA_DEPTH = 100
"""Objects and arrays within each other of a schema that is shown. JSON writers give up at two to three hundred."""

MAX_SCHEMA_VALUES = 100_000
"""Values of a schema that is shown. Python objects may hold each other, so that a small one goes on for ever."""

CACHED_SCHEMAS = 256
"""Schemas that are remembered without their `$ref`."""

MAX_CACHED_BYTES = 32 * 1024
"""Longest of them, as `marshal` writes it."""

_HOOKS = ("__call__", "_dispatch_handler", "on_message", "on_request", "on_list_tools")
"""Every way in which a middleware sees a listing pass."""


def can_bypass(middleware: Sequence[Middleware]) -> bool:
    """Whether a listing beneath this middleware shows the same tools as one through it."""
    return not any(map(_sees_listings, middleware))


def dereferences_schemas(middleware: Sequence[Middleware]) -> bool:
    """Whether the server shows its schemas without `$ref`."""
    return any(isinstance(item, DereferenceRefsMiddleware) for item in middleware)


def presentable_schema(schema: JsonObject | None, *, dereference: bool) -> JsonObject | None:
    """A schema as it is shown: without `$ref` where clients see it so, and no deeper than an answer can hold.

    What is left out says so in a `$comment`, and allows everything. A schema that nothing has to be done to is given
    back itself.
    """
    if schema is None:
        return None
    refers, fits = _looked_at(schema)
    if not fits:
        return cast("JsonObject", _Cut().copy(schema))
    return _inlined(schema) if refers and dereference else schema


def _inlined(schema: JsonObject) -> JsonObject:
    """A schema without `$ref`; remembered by what is written in it, which is told much sooner."""
    try:
        written = marshal.dumps(schema, 2)  # 2: the last version whose output is decided by the content alone
    except ValueError:
        return dereference_refs(schema)
    return _remembered(written) if len(written) <= MAX_CACHED_BYTES else dereference_refs(schema)


@lru_cache(maxsize=CACHED_SCHEMAS)
def _remembered(written: bytes) -> JsonObject:
    return dereference_refs(marshal.loads(written))  # noqa: S302 - written above


def _sees_listings(item: Middleware) -> bool:
    kind = type(item)
    # An attribute of the object itself would be called just like a method of its class.
    if not vars(item).keys().isdisjoint(_HOOKS):
        return True
    if kind is DereferenceRefsMiddleware:
        return False
    return any(getattr(kind, hook, None) is not getattr(Middleware, hook) for hook in _HOOKS)


def _looked_at(schema: JsonObject) -> tuple[bool, bool]:
    """Whether a schema holds references or definitions, and whether it can be shown as it is."""
    refers = False
    left = MAX_SCHEMA_VALUES
    waiting: list[tuple[object, int]] = [(schema, 1)]
    while waiting:
        value, level = waiting.pop()
        if isinstance(value, dict):
            members = cast("JsonObject", value)
            refers = refers or "$ref" in members or "$defs" in members
            inner = members.values()
        else:
            inner = cast("list[object]", value)
        left -= len(inner)
        if level > MAX_SCHEMA_DEPTH or left < 0:
            return refers, False
        waiting += [(item, level + 1) for item in inner if isinstance(item, (dict, list))]
    return refers, True


class _Cut:
    """Copies a schema that is nested too deeply, contains itself or has too many parts."""

    def __init__(self) -> None:
        self._left = MAX_SCHEMA_VALUES
        self._above: list[object] = []

    def copy(self, value: object) -> object:
        """`value` with comments in place of what is left out."""
        if not isinstance(value, (dict, list)):
            return value
        if any(value is outer for outer in self._above):
            return {"$comment": "left out: the schema contains itself here"}
        if len(self._above) >= MAX_SCHEMA_DEPTH or self._left <= 0:
            return {"$comment": "left out: the schema is too large or nested too deeply"}
        self._above.append(cast("object", value))
        try:
            self._left -= len(cast("list[object]", value))
            if isinstance(value, list):
                return [self.copy(item) for item in cast("list[object]", value)]
            return {name: self.copy(item) for name, item in cast("JsonObject", value).items()}
        finally:
            self._above.pop()
