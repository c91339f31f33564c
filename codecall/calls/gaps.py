"""Validators of pydantic's that let pass what is not known of an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from codecall.sandbox.known import Gap, Partial, Some, has_gaps

Node = dict[str, Any]
"""A node of pydantic's core schema."""

Handler = Callable[[object], object]


def wrapped(function: Callable[[Any, Handler], object], schema: Node) -> Node:
    """A node that asks `function` first."""
    return {"type": "function-wrap", "function": {"type": "no-info", "function": function}, "schema": schema}


def past_gaps(value: object, handler: Handler) -> object:
    """Anything: a gap fits."""
    return value if isinstance(value, Gap) else handler(value)


def past_lists(value: object, handler: Handler) -> object:
    """A list or tuple, of which it must be known how many items there are."""
    return value if isinstance(value, Some) else handler(value)


def past_sets(value: object, handler: Handler) -> object:
    """A set, of which all must be known: with gaps in it, nobody can say which items are the same."""
    return value if has_gaps(value) else handler(value)


def past_mappings(value: object, handler: Handler) -> object:
    """An object whose members decide, or are counted."""
    return value if _is_uncertain(value) else handler(value)


def past_object(names: Mapping[str, bool], value: object, handler: Handler) -> object:
    """An object, without members that may not be there, and with those that may."""
    if isinstance(value, dict):
        members = cast("Mapping[str, object]", value)
        sure = {key: item for key, item in members.items() if key in names or item is not Gap.PERHAPS}
        rest = dict.fromkeys((name for name, required in names.items() if required), Gap.PERHAPS)
        value = {**rest, **sure} if isinstance(value, Partial) else sure
    return handler(value)


def _is_uncertain(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    members = cast("dict[str, object]", value).values()
    return isinstance(value, Partial) or any(isinstance(member, Gap) for member in members)
