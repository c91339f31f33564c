"""How a server's listing is read: with as much of its middleware as can change what a caller sees, and no more.

FastMCP's default middleware inlines every `$ref` of every schema on each listing, which costs more than the rest of it.
A script that calls one tool needs the schemas of none, so where no other middleware can touch a listing it is read
beneath the middleware, and the schemas are inlined for the tools that are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.utilities.json_schema import dereference_refs

JsonObject = dict[str, object]

_HOOKS = ("__call__", "_dispatch_handler", "on_message", "on_request", "on_list_tools")
"""Every way in which a middleware sees a listing pass."""


def reads_beneath(middleware: Sequence[Middleware]) -> bool:
    """Whether a listing beneath this middleware shows the same tools as one through it."""
    return not any(map(_sees_listings, middleware))


def inlines(middleware: Sequence[Middleware]) -> bool:
    """Whether the server shows its schemas without `$ref`."""
    return any(isinstance(item, DereferenceRefsMiddleware) for item in middleware)


def inlined(schema: JsonObject | None) -> JsonObject | None:
    """`schema` without `$ref`, as FastMCP shows it to clients."""
    if schema is None or not _refers(schema):
        return schema
    return dereference_refs(schema)


def _sees_listings(item: Middleware) -> bool:
    kind = type(item)
    # An attribute of the object itself would be called just like a method of its class.
    if not vars(item).keys().isdisjoint(_HOOKS):
        return True
    if kind is DereferenceRefsMiddleware:
        return False
    return any(getattr(kind, hook, None) is not getattr(Middleware, hook) for hook in _HOOKS)


def _refers(value: object) -> bool:
    if isinstance(value, dict):
        members = cast("JsonObject", value)
        return "$ref" in members or "$defs" in members or any(map(_refers, members.values()))
    return isinstance(value, list) and any(map(_refers, cast("list[object]", value)))
