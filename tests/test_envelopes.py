"""Every shape an envelope can take, against the schemas the meta-tools advertise."""

from __future__ import annotations

import json

import jsonschema
import pytest

from codecall import errors
from codecall.envelopes import EXECUTE_SCHEMA, INVOKE_SCHEMA, ExecutionResult, Stats, invoke_error, invoke_ok
from codecall.errors import CodeCallError, OptionsError, ScriptError, ToolNotFoundError


def every_error() -> list[CodeCallError]:
    """One of each class of the tree, with as many fields set as it has."""
    here = errors.Location(3, 7)
    special: dict[type[CodeCallError], CodeCallError] = {
        errors.IllegalAccess: errors.IllegalAccess("m", kind="DisallowedMember", location=here, hint="h"),
        errors.SelfReferenceError: errors.SelfReferenceError("codecall:execute", location=here),
        errors.LimitExceeded: errors.LimitExceeded("m", code="STEP_LIMIT", location=here),
        errors.ScriptError: errors.ScriptError("m", name="TypeError", location=here),
        errors.RateLimitedError: errors.RateLimitedError("m", tool_name="t", retry_after_ms=1200),
    }

    def one(kind: type[CodeCallError]) -> CodeCallError:
        if kind in special:
            return special[kind]
        if issubclass(kind, errors.ToolCallError):
            return kind("m", tool_name="t", details=[{"field": "id"}], hint="h")
        return kind("m", hint="h")

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CodeCallError)]
    return [one(kind) for kind in kinds if not kind.__name__.startswith("_")]


RAN = ("ok", "runtime_error", "tool_error", "timeout")


def valid(body: dict[str, object], schema: dict[str, object]) -> None:
    """Fails unless `body` is JSON that matches `schema`."""
    jsonschema.validate(json.loads(json.dumps(body)), schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("schema", [EXECUTE_SCHEMA, INVOKE_SCHEMA], ids=["execute", "invoke"])
def test_the_schemas_are_schemas_with_an_object_on_top(schema: dict[str, object]):
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"


@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, {"a": [1, "x", None]}])
def test_ok_always_has_a_result(value: object):
    result = ExecutionResult("ok", value)
    assert result.success
    assert result.raise_for_status() is result
    body = result.envelope()
    assert body == {"status": "ok", "result": value, "stats": Stats().as_dict()}
    valid(body, EXECUTE_SCHEMA)
    valid(invoke_ok(value), INVOKE_SCHEMA)


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
def test_a_failure_has_an_error_and_no_result(error: CodeCallError):
    result = ExecutionResult(error.status, error=error)
    assert not result.success
    body = result.envelope()
    assert body["status"] == error.status
    assert body["error"] == error.as_dict()
    assert "result" not in body
    assert ("stats" in body) == (error.status in RAN)
    valid(body, EXECUTE_SCHEMA)
    valid(invoke_error(error), INVOKE_SCHEMA)
    with pytest.raises(type(error)) as raised:
        result.raise_for_status()
    assert raised.value is error


def test_logs_and_warnings_appear_only_when_there_are_some():
    body = ExecutionResult("ok", 1, logs=("a", "b"), warnings=("cut",)).envelope()
    assert body["logs"] == ["a", "b"]
    assert body["warnings"] == ["cut"]
    valid(body, EXECUTE_SCHEMA)
    failed = ExecutionResult("runtime_error", error=ScriptError("m"), logs=("a",)).envelope()
    assert failed["logs"] == ["a"]
    assert {"logs", "warnings"}.isdisjoint(ExecutionResult("ok").envelope())


def test_stats_use_wire_names_and_round_to_microseconds():
    stats = Stats(duration_ms=12.34567, script_ms=0.1, tool_calls=3, steps=9)
    assert stats.as_dict() == {"durationMs": 12.346, "scriptMs": 0.1, "toolCalls": 3, "steps": 9}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"status": "fine"},
        {"status": "ok", "logs": "one line"},
        {"status": "timeout", "error": {"code": "TIMEOUT"}},
        {"status": "syntax_error", "error": {"code": "X", "message": "m", "location": {"line": 0, "column": 1}}},
        {"status": "ok", "stats": {"durationMs": 1}},
    ],
)
def test_the_execute_schema_refuses_what_is_not_an_envelope(wrong: dict[str, object]):
    with pytest.raises(jsonschema.ValidationError):
        valid(wrong, EXECUTE_SCHEMA)


def test_invoke_envelopes():
    assert invoke_ok([1]) == {"status": "ok", "result": [1]}
    error = ToolNotFoundError("Tool 'x' was not found", tool_name="x", hint="Did you mean y?")
    assert invoke_error(error) == {
        "status": "error",
        "error": {
            "code": "TOOL_NOT_FOUND",
            "source": "tool",
            "message": "Tool 'x' was not found",
            "toolName": "x",
            "hint": "Did you mean y?",
        },
    }


def test_results_compare_by_content():
    assert ExecutionResult("ok", [1]) == ExecutionResult("ok", [1])
    assert ExecutionResult("ok", [1]) != ExecutionResult("ok", [2])
    assert OptionsError("m").status == "runtime_error"
