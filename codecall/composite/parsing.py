"""Makes a `Workflow` of the data of a definition, and finds all that is wrong with its form: keys, types, limits.

What only the steps together can show is in `checks.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast, get_args

from codecall.composite.definition import (
    MAX_ELICITATION_S,
    MAX_ITERATIONS,
    MAX_PARALLEL_ITERATIONS,
    MAX_RETRIES,
    MAX_STEPS,
    MAX_TIMEOUT_S,
    MISSING,
    STEP_ID,
    AnswerAction,
    AnyStep,
    ElicitationStep,
    ErrorAction,
    FailureMode,
    ForEachStep,
    JsonObject,
    OnError,
    Output,
    OutputProperty,
    ToolStep,
    Workflow,
)
from codecall.composite.fields import Fields, Findings, kind_of
from codecall.schema.validator import InvalidSchemaError, check_schema

_WORKFLOW_KEYS: Final = ("name", "description", "parameters", "steps", "timeout", "failureMode", "output")
_STEP_KEYS: Final = ("id", "type", "dependsOn", "condition", "timeout", "onError", "defaultResults")
_KEYS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "tool": (*_STEP_KEYS, "tool", "arguments"),
    "elicitation": (*_STEP_KEYS, "message", "schema", "onDecline", "onCancel"),
    "forEach": (*_STEP_KEYS, "collection", "itemVar", "maxParallel", "maxIterations", "step"),
}
_INNER_KEYS: Final = ("id", "type", "tool", "arguments", "timeout")
_ERROR_KEYS: Final = ("action", "retryCount", "retryDelay")
_OUTPUT_KEYS: Final = ("properties", "required")
_PROPERTY_KEYS: Final = ("type", "description", "value", "properties", "default")
_OUTPUT_TYPES: Final = ("string", "integer", "number", "boolean", "object", "array")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
_MAX_DEPTH: Final = 20
"""Levels of `output.properties`."""


def parse_workflow(data: object, findings: Findings) -> Workflow | None:
    """The workflow of a definition, as far as its form is right, and `findings` say where it is not; None where it is
    no mapping."""
    if not isinstance(data, Mapping):
        findings.add("", f"a definition is a mapping with name, description and steps; this is {kind_of(data)}")
        return None
    fields = Fields(cast("Mapping[object, object]", data), "", findings)
    name = fields.tool_name()
    fields.only(_WORKFLOW_KEYS)
    description = fields.text("description", required=True)
    mode = fields.choice("failureMode", get_args(FailureMode), "abort")
    steps = _steps(fields, "continue" if mode == "continue" else "abort")
    return Workflow(
        name=name or "",
        description=description or "",
        steps=tuple(steps),
        parameters=parameters_of(fields),
        output=_output(fields),
        timeout_s=fields.duration("timeout", 1_800.0, MAX_TIMEOUT_S),
        failure_mode=cast("FailureMode", mode),
        source=_source(fields),
    )


def _source(fields: Fields) -> str:
    try:
        return json.dumps(fields.data, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        fields.findings.add("", "holds what JSON has no form for, such as a date without quotes")
        return ""


def parameters_of(fields: Fields) -> JsonObject:
    """The JSON Schema of a tool's arguments, from the field `parameters`."""
    schema = fields.mapping("parameters")
    if schema is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if schema.get("type", "object") != "object":
        fields.wrong("parameters.type", "must be object: a tool's arguments are one")
    check_schema_field(schema, "parameters", fields)
    # An argument that no template can know of is refused rather than ignored.
    return {"additionalProperties": False, **schema, "type": "object"}


def check_schema_field(schema: JsonObject, key: str, fields: Fields) -> None:
    """Note what is wrong with the JSON Schema that is a field."""
    try:
        check_schema(schema)
    except InvalidSchemaError as failure:
        fields.wrong(f"{key}{failure.path}", str(failure))


def _steps(fields: Fields, default_action: ErrorAction) -> list[AnyStep]:
    items = fields.items("steps", required=True)
    if not items and isinstance(fields.data.get("steps"), list):
        fields.wrong("steps", "is empty: a workflow has at least one step")
    if len(items) > MAX_STEPS:
        fields.wrong("steps", f"{len(items):,} steps; a workflow may have {MAX_STEPS}")
        items = items[:MAX_STEPS]
    steps: list[AnyStep] = []
    for number, item in enumerate(items):
        path = f"steps[{number}]"
        if not isinstance(item, dict):
            fields.findings.add(path, f"a step is a mapping with id and tool; this is {kind_of(item)}")
            continue
        steps.append(_step(Fields(cast("Mapping[object, object]", item), path, fields.findings), default_action))
    return steps


def _step(fields: Fields, default_action: ErrorAction) -> AnyStep:
    kind = fields.choice("type", _KEYS_OF, "tool")
    fields.only(_KEYS_OF[kind])
    step_id = fields.text("id", required=True) or ""
    if step_id and not STEP_ID.fullmatch(step_id):
        fields.wrong("id", f"{step_id!r:.80} is no id: letters, digits, _ and -, a letter or _ first, at most 64")
    condition = fields.data.get("condition")
    shared: dict[str, Any] = {
        "id": step_id,
        "path": fields.path,
        "depends_on": fields.names("dependsOn"),
        # A bare `true` in YAML is a truth value.
        "condition": str(condition).lower() if isinstance(condition, bool) else fields.text("condition"),
        "default_results": fields.data.get("defaultResults", MISSING),
    }
    make = {"tool": _tool_step, "elicitation": _elicitation_step, "forEach": _for_each_step}[kind]
    return make(fields, shared, default_action)


def _on_error(fields: Fields, default_action: ErrorAction) -> OnError:
    inner = fields.below("onError")
    if inner is None:
        return OnError(default_action)
    inner.only(_ERROR_KEYS)
    action = cast("ErrorAction", inner.choice("action", get_args(ErrorAction), default_action))
    if action != "retry":
        for key in ("retryCount", "retryDelay"):
            if key in inner.data:
                inner.wrong(key, "goes with action: retry")
    return OnError(
        action,
        inner.number("retryCount", 3 if action == "retry" else 0, MAX_RETRIES),
        inner.duration("retryDelay", 1.0, MAX_TIMEOUT_S),
    )


def _tool_step(fields: Fields, shared: dict[str, Any], default_action: ErrorAction) -> AnyStep:
    return ToolStep(
        **shared,
        tool=fields.text("tool", required=True) or "",
        arguments=fields.mapping("arguments") or {},
        timeout_s=fields.duration("timeout", 300.0, MAX_TIMEOUT_S),
        on_error=_on_error(fields, default_action),
    )


def _elicitation_step(fields: Fields, shared: dict[str, Any], default_action: ErrorAction) -> AnyStep:
    on_error = _on_error(fields, default_action)
    if on_error.action == "retry":
        fields.wrong("onError.action", "retry is for tool steps; a person is not asked again")
    schema = fields.mapping("schema", required=True) or {}
    if schema:
        _check_elicitation_schema(schema, fields)
    return ElicitationStep(
        **shared,
        message=fields.text("message", required=True) or "",
        schema=schema,
        on_decline=_answer_action(fields, "onDecline"),
        on_cancel=_answer_action(fields, "onCancel"),
        timeout_s=fields.duration("timeout", 300.0, MAX_ELICITATION_S),
        on_error=on_error,
    )


def _answer_action(fields: Fields, key: str) -> AnswerAction:
    """What an answer leads to: a word, or a mapping with `action`."""
    holder = fields
    if isinstance(fields.data.get(key), dict):
        inner = fields.below(key)
        if inner is None:
            return "abort"
        inner.only(("action",))
        holder, key = inner, "action"
    return cast("AnswerAction", holder.choice(key, get_args(AnswerAction), "abort"))


def _check_elicitation_schema(schema: JsonObject, fields: Fields) -> None:
    """MCP lets a person be asked for an object of texts, numbers, truth values and choices."""
    check_schema_field(schema, "schema", fields)
    if schema.get("type", "object") != "object":
        fields.wrong("schema.type", "must be object: clients ask for the fields of one")
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        fields.wrong("schema.properties", "missing: the fields that a person fills in")
        return
    for name, field in cast("JsonObject", properties).items():
        kind = cast("JsonObject", field).get("type") if isinstance(field, dict) else None
        if kind in ("object", None) or isinstance(kind, list):
            fields.wrong(f"schema.properties.{name}.type", "must be string, number, integer, boolean or array")


def _for_each_step(fields: Fields, shared: dict[str, Any], default_action: ErrorAction) -> AnyStep:  # noqa: ARG001
    on_error = _on_error(fields, "abort")
    if on_error.action == "retry":
        fields.wrong("onError.action", "forEach does not support retry: use abort or continue, or retry on a tool step")
    item_var = fields.text("itemVar") or "item"
    if not _VARIABLE.fullmatch(item_var) or item_var == "index":
        fields.wrong("itemVar", f"{item_var!r:.80} is no name of a variable, or is index, which has the number")
    return ForEachStep(
        **shared,
        collection=fields.text("collection", required=True) or "",
        step=_inner_step(fields),
        item_var=item_var,
        max_parallel=fields.number("maxParallel", 10, MAX_PARALLEL_ITERATIONS),
        max_iterations=fields.number("maxIterations", 100, MAX_ITERATIONS),
        timeout_s=fields.duration("timeout", MAX_TIMEOUT_S, MAX_TIMEOUT_S),
        on_error=on_error,
    )


def _inner_step(fields: Fields) -> ToolStep:
    if "step" not in fields.data:
        fields.wrong("step", "missing: the tool step that runs for each item is needed")
    inner = fields.below("step")
    if inner is None:
        return ToolStep(id="", path="", tool="")
    if "onError" in inner.data:
        inner.wrong("onError", "stands on the forEach step, where it holds for each item; retry is not supported")
        inner.data = {key: value for key, value in inner.data.items() if key != "onError"}
    kind = inner.choice("type", ("tool",), "tool")
    if kind == "tool":
        inner.only(_INNER_KEYS)
    return ToolStep(
        id=inner.text("id") or "",
        path=inner.path,
        tool=inner.text("tool", required=True) or "",
        arguments=inner.mapping("arguments") or {},
        timeout_s=inner.duration("timeout", 300.0, MAX_TIMEOUT_S),
    )


def _output(fields: Fields) -> Output | None:
    block = fields.below("output")
    if block is None:
        return None
    block.only(_OUTPUT_KEYS)
    properties = _properties(block, required=True, depth=1)
    required = block.names("required")
    for name in required:
        if name not in properties:
            block.wrong("required", f"names {name!r:.80}, which is not among its properties")
    return Output(properties, required)


def _properties(fields: Fields, *, required: bool, depth: int) -> dict[str, OutputProperty]:
    entries = fields.mapping("properties", required=required)
    found: dict[str, OutputProperty] = {}
    if entries is not None and not entries:
        fields.wrong("properties", "is empty")
    for name, entry in (entries or {}).items():
        path = f"{fields.at('properties')}.{name}"
        if not isinstance(entry, dict):
            fields.findings.add(path, f"a mapping with type, description and value is needed; this is {kind_of(entry)}")
            continue
        found[name] = _property(Fields(cast("Mapping[object, object]", entry), path, fields.findings), depth)
    return found


def _property(fields: Fields, depth: int) -> OutputProperty:
    fields.only(_PROPERTY_KEYS)
    if "type" not in fields.data:
        fields.wrong("type", f"missing: one of {', '.join(_OUTPUT_TYPES)} is needed")
    kind = fields.choice("type", _OUTPUT_TYPES, "string")
    description = fields.text("description", required=True) or ""
    has_value, has_properties = "value" in fields.data, "properties" in fields.data
    if has_value == has_properties:
        both = "value and properties exclude each other" if has_value else "value or properties is needed"
        fields.wrong("value", both)
    if has_properties and kind != "object":
        fields.wrong("properties", f"are for objects; a property of type {kind} has a value")
    if depth >= _MAX_DEPTH:
        fields.wrong("properties", f"are nested more than {_MAX_DEPTH} deep")
        has_properties = False
    default = fields.data.get("default", MISSING)
    if default is not MISSING and default is not None and not _fits(default, kind):
        fields.wrong("default", f"{kind_of(default)} is no {kind}")
    # Templates give text; a number in a definition is its text.
    value = fields.data.get("value")
    written = str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return OutputProperty(
        kind,
        description,
        (written or fields.text("value")) if has_value else None,
        _properties(fields, required=False, depth=depth + 1) if has_properties else {},
        default,
    )


_FITS: Final[Mapping[str, Callable[[object], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}


def _fits(value: object, kind: str) -> bool:
    return _FITS[kind](value)
