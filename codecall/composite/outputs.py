"""The data that templates read of a step's output; and the `output` block: its values, and the schema of them."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, cast

import msgspec

from codecall.composite.budgets import MAX_KEYS, TemplateBudget, too_many_keys
from codecall.composite.definition import MISSING, JsonObject, Output, OutputProperty
from codecall.composite.failures import WorkflowError
from codecall.composite.templates.references import find_field, only_field
from codecall.composite.templates.rendering import render
from codecall.jsonio.decode import JsonBounds, NotJsonError, decode_json, read_json
from codecall.meta_tools.invoke import MAX_DEPTH
from codecall.wording import cut

logger = logging.getLogger("codecall")

MAX_NAMED: Final = 8
"""Fields that a hint names."""
_INTEGER: Final = re.compile(r"[+-]?\d{1,400}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


class StepOutput(dict[str, object]):
    """What `.steps.<id>.output` is: the fields of an object, or `result` with any other value; and `text`, which is the
    value as text where it has no field of that name.

    `text` is no member of it: it is not there when the output as a whole is written.

    Args:
        value: The value of the step.
        json_text: Its JSON, where it is known.
    """

    def __init__(self, value: object, json_text: str | None = None) -> None:
        self._value: Final = value
        super().__init__(cast("Mapping[str, object]", value) if isinstance(value, dict) else {"result": value})
        self._text = json_text

    @property
    def is_null(self) -> bool:
        """Whether the step gave no value."""
        return self._value is None

    def changed(self, change: Callable[[object], object]) -> StepOutput:
        """The output with another value, and another text that is as long."""
        text = None if self._text is None else cast("str", change(self._text))
        return StepOutput(change(self._value), text)

    def __iter__(self) -> Iterator[str]:
        if len(self) > MAX_KEYS:
            raise too_many_keys(len(self))
        return super().__iter__()

    def __contains__(self, key: object) -> bool:
        return key == "text" or super().__contains__(key)

    def __missing__(self, key: str) -> object:
        if key != "text":
            raise KeyError(key)
        if isinstance(self._value, str):
            return self._value
        if self._text is None:
            self._text = msgspec.json.encode(self._value).decode()
        return self._text


async def decode_output(text: str) -> object:
    """The value of a step, or a collection, whose JSON is `text`.

    Raises:
        WorkflowError: clients could not read it in an answer.
    """
    try:
        return await decode_json(text, JsonBounds(MAX_DEPTH, len(text)))
    except NotJsonError:
        raise WorkflowError(
            f"A step returned a value that is nested more than {MAX_DEPTH} deep, or has a number out of range",
            code="OUTPUT_LIMIT",
        ) from None


async def read_collection(text: str, template: str, data: Mapping[str, object]) -> list[object]:
    """The items of a collection, whose template has given `text` for `data`. The output of a step that answered nothing
    has none: so does a tool without an output schema give an empty list.

    Raises:
        WorkflowError: it is no array.
    """
    fields = only_field(template) or ()
    output = find_field(data, fields[:3]) if fields[:1] == ("steps",) and fields[2:3] == ("output",) else None
    if isinstance(output, StepOutput) and output.is_null and fields[3:] in ((), ("result",)):
        return []
    try:
        items = await decode_output(text)
    except WorkflowError:
        items = None
    if isinstance(items, list):
        return cast("list[object]", items)
    hint = "Write it with `json`, as in {{json .steps.list.output.items}}."
    if text == "null" and fields:
        hint = _about_null(fields, data)
    raise WorkflowError(f"The collection is no JSON array: {text[:60]!r}", hint=hint)


def _about_null(fields: tuple[str, ...], data: Mapping[str, object]) -> str:
    """Why a field of the data has no value, which is one of objects only."""
    value = data
    for number, name in enumerate(fields, 1):
        path = f".{'.'.join(fields[:number])}"
        if name not in value:
            known = [str(key) for key in islice(value, MAX_NAMED)]
            return f"{path} is not there; there are: {', '.join(known) or 'no fields'}."
        if not isinstance(found := value[name], Mapping):
            return f"{path} is null: the answer has no list there."
        value = cast("Mapping[str, object]", found)
    return f".{'.'.join(fields)} is no list."


class _NoCoercionError(ValueError):
    """A text is no value of the type that is asked."""


def build_output(output: Output, data: Mapping[str, object], budget: TemplateBudget) -> tuple[JsonObject, list[str]]:
    """The values of the `output` block, and warnings of those that have their defaults.

    Raises:
        WorkflowError: a value has not its type and no default, or a required one is null.
    """
    warnings: list[str] = []
    values = _values(output.properties, data, budget, "", warnings)
    for name in output.required:
        if values.get(name) is None:
            raise WorkflowError(f"The output '{name}' is required, and is null")
    return values, warnings


def _values(
    properties: Mapping[str, OutputProperty],
    data: Mapping[str, object],
    budget: TemplateBudget,
    prefix: str,
    warnings: list[str],
) -> JsonObject:
    values: JsonObject = {}
    for name, entry in properties.items():
        path = f"{prefix}{name}"
        try:
            if entry.value is None:
                values[name] = _values(entry.properties, data, budget, f"{path}.", warnings)
            else:
                values[name] = coerce_output(render(entry.value, data, budget), entry.type)
        except (_NoCoercionError, WorkflowError) as failure:
            if entry.default is MISSING:
                if isinstance(failure, WorkflowError):
                    prefixed = f"The output '{path}': {failure.message}"
                    raise type(failure)(prefixed, code=failure.code, hint=failure.hint) from None
                hint = "Give it a `default`, or a `value` that has the type; `json` writes objects and arrays."
                raise WorkflowError(f"The output '{path}' {failure}", hint=hint) from None
            values[name] = entry.default
            why = failure.message if isinstance(failure, WorkflowError) else str(failure)
            warnings.append(f"The output '{path}' has its default: {why}")
            logger.warning("a composite tool's output %r has its default: %s", path, why)
    return values


def coerce_output(text: str, kind: str) -> object:
    """The value of a type that a rendered text stands for.

    Raises:
        ValueError: it stands for none.
    """
    return _COERCIONS[kind](text)


def _integer(text: str) -> object:
    if _INTEGER.fullmatch(text.strip()) is None:
        raise _NoCoercionError(f"is no integer: {_shown(text)}")
    return int(text)


def _number(text: str) -> object:
    stripped = text.strip()
    if _INTEGER.fullmatch(stripped):
        return int(stripped)
    value = float(stripped) if len(stripped) <= 400 and _NUMBER.fullmatch(stripped) else math.nan
    if not math.isfinite(value):
        raise _NoCoercionError(f"is no number: {_shown(text)}")
    return value


def _boolean(text: str) -> object:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.strip() not in known:
        raise _NoCoercionError(f"is neither true nor false: {_shown(text)}")
    return known[text.strip()]


def _json(kind: type, named: str) -> Callable[[str], object]:
    def read(text: str) -> object:
        try:
            value = read_json(text)
        except (msgspec.MsgspecError, RecursionError):
            value = None
        if not isinstance(value, kind):
            raise _NoCoercionError(f"is no {named} as JSON: {_shown(text)}")
        return value

    return read


_COERCIONS: Final[Mapping[str, Callable[[str], object]]] = {
    "string": str,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "object": _json(dict, "object"),
    "array": _json(list, "array"),
}


def _shown(text: str) -> str:
    return repr(cut(text, 60))


def output_schema(output: Output) -> JsonObject:
    """The JSON Schema of what `build_output` gives."""
    return _object_schema(output.properties, output.required)


def _object_schema(properties: Mapping[str, OutputProperty], required: tuple[str, ...]) -> JsonObject:
    return {
        "type": "object",
        "properties": {name: dict(_property_schema(entry)) for name, entry in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }


def _property_schema(entry: OutputProperty) -> Iterator[tuple[str, object]]:
    yield "type", [entry.type, "null"] if entry.default is None else entry.type
    yield "description", entry.description
    if entry.properties:
        inner = _object_schema(entry.properties, tuple(entry.properties))
        yield from ((key, inner[key]) for key in ("properties", "required", "additionalProperties"))
