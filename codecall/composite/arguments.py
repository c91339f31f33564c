"""The arguments of a workflow and of its steps: checked, with their defaults; rendered, and read as the type that the
tool's schema asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, cast

from jsonschema.protocols import Validator
from referencing.exceptions import Unresolvable

from codecall.composite.budgets import MAX_JSON_DEPTH, TemplateBudget
from codecall.composite.definition import MISSING, JsonObject
from codecall.composite.failures import TemplateError
from codecall.composite.templates.references import find_field, is_template, only_field
from codecall.composite.templates.rendering import render
from codecall.jsonio.decode import (
    BYTES_PER_CONTAINER,
    FEWEST_CONTAINERS,
    NotJsonError,
    count_containers_in_thread,
    decode_in_thread,
    exceeds_chars,
)
from codecall.schema.comparison import BudgetSpentError, StepBudget
from codecall.schema.model import property_defaults, property_schemas, resolve
from codecall.schema.pattern_search import TextTooLongError, one_validation
from codecall.schema.validation import Problem, make_problem
from codecall.schema.validator import create_validator

MAX_PROBLEMS: Final = 20
"""Bad fields that one error names; the others are not looked for."""

_TYPE_OF: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_ReadText = Callable[[str, JsonObject, JsonObject], object]
"""Reads a text by the schema of its place, with the schema that this refers to."""

QUICK_CHARS: Final = 8_192
"""Characters of arguments that are checked at once; more are in a thread."""


def with_defaults(arguments: Mapping[str, object], schema: JsonObject) -> JsonObject:
    """Arguments with the defaults that their schema gives for those left out."""
    defaults = {name: value for name, value in property_defaults(schema).items() if name not in arguments}
    return {**arguments, **defaults}


async def read_arguments(arguments: Mapping[str, object], schema: JsonObject) -> tuple[JsonObject, list[Problem]]:
    """The arguments of a composite tool with their defaults, and texts read as what `schema` asks, as FastMCP reads
    those of functions; and what is wrong with them. In a thread where that may take long."""

    def read() -> tuple[JsonObject, list[Problem]]:
        filled = with_defaults(arguments, schema)
        with suppress(RecursionError):  # the check says so
            filled = _map_members(filled, schema, schema, _convert)
        return filled, argument_problems(filled, schema, arguments)

    return await asyncio.to_thread(read) if exceeds_chars(arguments, QUICK_CHARS) else read()


async def find_problems(arguments: object, schema: JsonObject) -> list[Problem]:
    """See `argument_problems`; in a thread where that may take long."""
    find = partial(argument_problems, cast("JsonObject", arguments), schema)
    return await asyncio.to_thread(find) if exceeds_chars(arguments, QUICK_CHARS) else find()


def argument_problems(
    arguments: Mapping[str, object], schema: JsonObject, given: Collection[str] = ()
) -> list[Problem]:
    """What is wrong with arguments by their JSON Schema; as much as one error names. The formats of texts are checked
    in those that are `given`, where nothing else is wrong: no caller can mend a default."""
    try:
        with one_validation():
            found = _errors(create_validator(schema), arguments)
            errors = list(islice(found, MAX_PROBLEMS + 1)) or list(
                islice(_format_errors(arguments, schema, given), MAX_PROBLEMS + 1)
            )
    except TextTooLongError as failure:
        return [{"field": "input", "message": f"cannot be checked: {failure}"}]
    except (Unresolvable, RecursionError) as failure:
        lost = f"refers to {failure.ref!r:.200}" if isinstance(failure, Unresolvable) else "refers to itself"
        return [{"field": "input", "message": f"cannot be checked, since its schema {lost}"}]
    problems = [make_problem(path, message, schema) for path, message in errors[:MAX_PROBLEMS]]
    return [*problems, {"field": "…", "message": "and more bad fields"}] if len(errors) > MAX_PROBLEMS else problems


def _errors(validator: Validator, arguments: object) -> Iterator[tuple[list[str], str]]:
    seen: set[tuple[str, ...]] = set()
    for error in validator.iter_errors(cast("Any", arguments)):
        path = [str(part) for part in error.absolute_path]
        if error.validator != "required":
            yield path, error.message[:300]
        elif tuple(path) not in seen:  # the library reports each missing field apart, without its name
            seen.add(tuple(path))
            present = cast("Mapping[str, object]", error.instance)
            yield from (
                ([*path, name], "Field required")
                for name in cast("Sequence[str]", error.validator_value)
                if name not in present
            )


def _format_errors(
    arguments: Mapping[str, object], schema: JsonObject, given: Collection[str]
) -> Iterator[tuple[list[str], str]]:
    validator = cast("Any", create_validator(schema, formats=True))
    for name, field in property_schemas(schema).items():
        if name in given:
            for path, message in _errors(validator.evolve(schema=field), arguments[name]):
                yield [name, *path], message


def render_arguments(
    arguments: Mapping[str, object], schema: JsonObject | None, data: Mapping[str, object], budget: TemplateBudget
) -> JsonObject:
    """The arguments of a call: templates rendered, and their texts read as what `schema` asks. One that is a field
    is left out where that is not there, and null where it is null.

    Raises:
        TemplateError: a template fails.
    """
    root = schema or {}

    def read(text: str, place: JsonObject, root: JsonObject) -> object:
        if (field := only_field(text)) is not None and (found := find_field(data, field)) in (None, MISSING):
            return found
        return coerce(render(text, data, budget), place, root) if is_template(text) else text

    return _map_members(arguments, root, root, read)


def _map_members(members: Mapping[str, object], schema: JsonObject, root: JsonObject, read: _ReadText) -> JsonObject:
    """An object with its texts read by their places in `schema`; without those that are `MISSING`."""
    found = {name: _map_texts(value, _property(schema, name, root), root, read) for name, value in members.items()}
    return {name: value for name, value in found.items() if value is not MISSING}


def _map_texts(value: object, schema: JsonObject, root: JsonObject, read: _ReadText) -> object:
    if isinstance(value, str):
        return read(value, schema, root)
    if isinstance(value, Mapping):
        return _map_members(cast("Mapping[str, object]", value), schema, root, read)
    if isinstance(value, (list, tuple)):
        items = resolve(schema, root).get("items")
        inner = cast("JsonObject", items) if isinstance(items, dict) else {}
        found = [_map_texts(item, inner, root, read) for item in cast("Sequence[object]", value)]
        if MISSING in found:  # the items after it would move to its place
            gap = cast("Sequence[object]", value)[found.index(MISSING)]
            raise TemplateError(
                f"The item {gap!r:.120} of a list is not there, and no item can be left out",
                hint="Give it a `default`, or make the list of one template, with `json`.",
            )
        return found
    return value


def _convert(text: str, schema: JsonObject, root: JsonObject) -> object:
    """A text as what `schema` asks, with what it holds."""
    value = coerce(text, schema, root)
    return value if isinstance(value, str) else _map_texts(value, schema, root, _convert)


def _property(schema: JsonObject, name: str, root: JsonObject) -> JsonObject:
    properties = resolve(schema, root).get("properties")
    field = cast("JsonObject", properties).get(name) if isinstance(properties, dict) else None
    return cast("JsonObject", field) if isinstance(field, dict) else {}


def coerce(text: str, schema: JsonObject, root: JsonObject) -> object:
    """A rendered text as a value of a type that `schema` asks; the text itself where it asks for texts, or where the
    text is none of what it asks."""
    types = types_of(schema, root)
    if not types or "string" in types:
        return text
    most = FEWEST_CONTAINERS + len(text) // BYTES_PER_CONTAINER
    try:
        if (containers := count_containers_in_thread(written := text.strip(), most)) > most:
            return text
        value = decode_in_thread(written, containers, MAX_JSON_DEPTH)
    except NotJsonError:
        return text
    if isinstance(value, float) and value.is_integer() and "number" not in types:
        value = int(value)
    kind = _type_of(value)
    return value if kind in types or (kind == "integer" and "number" in types) else text


def types_of(schema: JsonObject, root: JsonObject) -> set[str]:
    """The types that a schema admits; empty where it says nothing about them, or more than is looked at."""
    try:
        return _types_of(schema, root, StepBudget())
    except (BudgetSpentError, RecursionError):
        return set()


def _types_of(schema: JsonObject, root: JsonObject, budget: StepBudget) -> set[str]:
    budget.spend()
    resolved = resolve(schema, root)
    named = resolved.get("type")
    if isinstance(named, str):
        return {named}
    if isinstance(named, list):
        return {str(item) for item in cast("list[object]", named)}
    found: set[str] = set()
    for keyword in ("anyOf", "oneOf", "allOf"):
        branches = resolved.get(keyword)
        for branch in cast("list[object]", branches) if isinstance(branches, list) else ():
            if isinstance(branch, dict):
                found |= _types_of(cast("JsonObject", branch), root, budget)
    choices = resolved.get("enum", [resolved["const"]] if "const" in resolved else None)
    if not found and isinstance(choices, list):
        found = {_type_of(item) for item in cast("list[object]", choices)}
    return found


def _type_of(value: object) -> str:
    """The JSON Schema type of JSON data."""
    kind: type = type(value)
    return "null" if value is None else _TYPE_OF.get(kind, "")
