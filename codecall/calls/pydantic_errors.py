"""The errors of pydantic about an input of a Python function: read within bounds, and found at the first wrong value of
a large input.

FastMCP has pydantic collect every error of an input and reads all of them, which holds the event loop and takes about a
kilobyte for each: an input of a megabyte may have half a million. So a large input is validated beforehand, by the same
validation but for one thing: lists, sets, tuples and objects fail at their first wrong item. Validators of the author's
see a large input that is right twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from fastmcp.server.dependencies import without_injected_parameters
from fastmcp.utilities.types import get_cached_typeadapter
from pydantic import ValidationError
from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, core_schema, to_json

from codecall.schema.locations import located_problems
from codecall.schema.validation import Problem

MAX_READ_ERRORS: Final = 1_000
"""Errors of one failed validation that are read one by one, which takes pydantic about 1 ms."""

MAX_UNKNOWN: Final = 1_000
"""Members that an object without room for others may have beside its own, each of which is an error."""

_FAILING_FAST: Final = frozenset(
    {"list", "set", "frozenset", "tuple", "dict", "deque", "frozendict", "ordered-dict", "counter"}
)
"""Types of nodes in pydantic's core schema that can end at the first wrong item."""

_WITH_FIELDS: Final = frozenset({"model-fields", "typed-dict", "dataclass-args"})
_OPAQUE: Final = frozenset({"default", "metadata", "serialization", "cls", "config", "function", "expected"})
"""Keys of nodes that hold no schema, or what has nothing to do with validation."""


def problems_from_pydantic(
    failure: ValidationError, arguments: Mapping[str, object] | None, schema: dict[str, object]
) -> list[Problem]:
    """The fields that a tool's argument validation refuses, in its order: `MAX_FIELDS`, and one entry for the rest.

    A failure with more than `MAX_READ_ERRORS` is only counted: pydantic cannot give the first few errors alone, and
    making a million of them would hold the event loop for a second.

    Args:
        failure: The error.
        arguments: The input; None: it is not known.
        schema: The tool's input schema.
    """
    count = failure.error_count()
    if count > MAX_READ_ERRORS:
        return [{"field": "input", "message": f"{count:,} values are not valid"}]
    errors = failure.errors(include_url=False, include_context=False, include_input=False)
    return located_problems([(item["loc"], item["msg"]) for item in errors], arguments, schema)


def find_first_error(
    function: Callable[..., Any], arguments: Mapping[str, object], *, strict: bool
) -> ValidationError | None:
    """The error of the first wrong value of a function's input, if there is one, and perhaps a few more.

    Args:
        function: As the tool has it.
        arguments: The input.
        strict: Whether its server validates inputs strictly.
    """
    try:
        # What is valid as strict JSON, as FastMCP reads it, is valid.
        if (validator := _validator(function)) is not None:
            validator.validate_python(arguments)
        if strict and (validator := _validator(function, closes=False)) is not None:
            validator.validate_json(to_json(arguments), strict=True)
    except ValidationError as failure:
        return failure
    except Exception:  # of a validator of the author's, which the call will meet, too
        return None
    return None


@lru_cache(maxsize=1_000)
def _validator(function: Callable[..., Any], *, closes: bool = True) -> SchemaValidator | None:
    """Validates the parameters of a function alone; None where that cannot be.

    Args:
        function: The function.
        closes: Refuse objects with very many unknown members with one error, by code for which JSON becomes Python.
    """
    try:
        whole = get_cached_typeadapter(without_injected_parameters(function)).core_schema
        changed = cast("CoreSchema", _fail_fast(whole, None, closes=closes))
        # Models would bring validators of their own, which collect all errors.
        return SchemaValidator(changed, _use_prebuilt=False)
    except Exception:  # a signature or a type that is like nothing pydantic makes itself
        return None


def _fail_fast(node: object, extra: object, *, closes: bool) -> object:
    """A part of a core schema that fails at the first wrong item; a call of a function is its parameters.

    Args:
        node: The part.
        extra: What the configuration around it says of members that its objects do not have.
        closes: As of `_validator`.
    """
    if isinstance(node, list | tuple):
        items = [_fail_fast(item, extra, closes=closes) for item in cast("Sequence[object]", node)]
        return items if isinstance(node, list) else tuple(items)
    if not isinstance(node, dict):
        return node
    members = cast("dict[str, Any]", node)
    kind = members.get("type")
    if kind == "call":
        return _fail_fast(members["arguments_schema"], extra, closes=closes)
    if isinstance(config := members.get("config"), dict):
        extra = cast("dict[str, object]", config).get("extra_fields_behavior", extra)
    changed = {key: item if key in _OPAQUE else _fail_fast(item, extra, closes=closes) for key, item in members.items()}
    if kind in _FAILING_FAST:
        changed["fail_fast"] = True
    own = _members_of_closed(members, extra) if closes else None
    return changed if own is None else _closed(changed, own)


def _members_of_closed(node: Mapping[str, Any], extra: object) -> int | None:
    """How many members the objects of a node may have; None: it says nothing of that, or lets them have others."""
    kind = node.get("type")
    if kind == "arguments":
        return len(node["arguments_schema"]) if node.get("var_kwargs_schema") is None else None
    is_closed = kind in _WITH_FIELDS and node.get("extra_behavior", extra) == "forbid"
    return len(node["fields"]) if is_closed else None


def _closed(schema: Mapping[str, object], own: int) -> CoreSchema:
    """A schema of objects with `own` members, which refuses those that have far more with one error."""

    def check(value: object) -> object:
        count = len(cast("dict[object, object]", value)) - own if isinstance(value, dict) else 0
        if count > MAX_UNKNOWN:
            raise PydanticCustomError("too_many_members", "{count} members are not known", {"count": count})
        return cast("object", value)

    return core_schema.no_info_before_validator_function(check, cast("CoreSchema", schema))
