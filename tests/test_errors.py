"""The exception tree, its drawing, its codes, and the `error` objects it turns into."""

from __future__ import annotations

import re
import typing
from collections import Counter
from collections.abc import Iterator

import pytest

from codecall import errors
from codecall.errors import (
    AccessDeniedError,
    ApprovalDeniedError,
    ApprovalRequiredError,
    CodeCallError,
    ExecutionAbortedError,
    ExtractionFailedError,
    FindingKind,
    FlowDeniedError,
    IllegalAccess,
    InputRequiredError,
    InvalidInputError,
    LimitCode,
    LimitExceeded,
    Location,
    MessageFloodError,
    MessageSizeError,
    MessageValidationError,
    OptionsError,
    PromptNotFoundError,
    QueueFullError,
    QueueTimeoutError,
    RateLimitedError,
    ResourceNotFoundError,
    ResultNotFoundError,
    RunDivergedError,
    ScriptError,
    ScriptRefused,
    ScriptSyntaxError,
    ScriptTimeoutError,
    SelfReferenceError,
    ServerTimeoutError,
    ServerUnavailableError,
    Source,
    Status,
    TaskStartedError,
    ToolCallError,
    ToolNotFoundError,
    ToolTimeoutError,
    TooManyPendingCallsError,
    WorkerCrashedError,
    WorkerError,
    WorkerMemoryError,
    WorkerPoolDisposedError,
    WorkerStartupError,
    WorkerTimeoutError,
)
from codecall.sandbox import wire

# The contract's table of codes (section 2): code -> status of the envelope it appears in.
CONTRACT = {
    "SYNTAX_ERROR": "syntax_error",
    "VALIDATION_ERROR": "illegal_access",
    "SELF_REFERENCE_BLOCKED": "illegal_access",
    "TOOL_NOT_FOUND": "tool_error",
    "RESOURCE_NOT_FOUND": "tool_error",
    "PROMPT_NOT_FOUND": "tool_error",
    "RESULT_NOT_FOUND": "tool_error",
    "ACCESS_DENIED": "tool_error",
    "APPROVAL_DENIED": "tool_error",
    "FLOW_DENIED": "tool_error",
    "EXTRACTION_FAILED": "tool_error",
    "RUN_DIVERGED": "tool_error",
    "APPROVAL_REQUIRED": "tool_error",
    "INVALID_INPUT": "tool_error",
    "TOOL_EXECUTION_ERROR": "tool_error",
    "TOOL_TIMEOUT": "tool_error",
    "INPUT_REQUIRED": "tool_error",
    "TASK_STARTED": "tool_error",
    "SERVER_UNAVAILABLE": "tool_error",
    "SERVER_TIMEOUT": "tool_error",
    "RATE_LIMIT": "tool_error",
    "EXECUTION_ERROR": "runtime_error",
    "ITERATION_LIMIT": "runtime_error",
    "STEP_LIMIT": "runtime_error",
    "TOOL_CALL_LIMIT": "runtime_error",
    "OUTPUT_LIMIT": "runtime_error",
    "STACK_OVERFLOW": "runtime_error",
    "DEADLOCK": "runtime_error",
    "TIMEOUT": "timeout",
    "WORKER_TIMEOUT": "timeout",
    "WORKER_MEMORY_EXCEEDED": "runtime_error",
    "WORKER_CRASHED": "runtime_error",
    "WORKER_STARTUP_FAILED": "runtime_error",
    "POOL_DISPOSED": "runtime_error",
    "QUEUE_FULL": "runtime_error",
    "QUEUE_TIMEOUT": "runtime_error",
    "EXECUTION_ABORTED": "runtime_error",
    "MESSAGE_FLOOD": "runtime_error",
    "MESSAGE_INVALID": "runtime_error",
    "MESSAGE_TOO_LARGE": "runtime_error",
    "TOO_MANY_PENDING_CALLS": "runtime_error",
}

PUBLIC = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, CodeCallError) and not name.startswith("_")
}


class Drawn(typing.NamedTuple):
    """One line of the drawing in the module's docstring."""

    name: str
    parent: str | None
    status: str | None
    code: str | None
    source: str | None


def drawing() -> list[Drawn]:
    """The tree as `errors.py` draws it."""
    statuses = typing.get_args(Status)
    above: list[str] = []
    found: list[Drawn] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.fullmatch(r"    ((?:[│ ] {3})*(?:[├└]── )?)(\w+)(.*)", line)
        if match is None:
            continue
        indent, name, rest = match.groups()
        depth = len(indent) // 4
        del above[depth:]
        words = rest.split()
        status = next((word for word in words if word in statuses), None)
        code = next((word for word in words if re.fullmatch(r"[A-Z]+(_[A-Z]+)+,?|TIMEOUT", word)), None)
        source = re.search(r'source "(\w+)"', rest)
        found.append(
            Drawn(name, above[-1] if above else None, status, code, source.group(1) if source is not None else None)
        )
        above.append(name)
    return found


def public_parent(kind: type) -> str | None:
    """Name of the nearest base that belongs to the interface."""
    return next((base.__name__ for base in kind.__mro__[1:] if base.__name__ in PUBLIC), None)


def test_the_drawing_names_every_class_once():
    names = [drawn.name for drawn in drawing()]
    assert Counter(names) == Counter(PUBLIC.keys())


@pytest.mark.parametrize("drawn", drawing(), ids=lambda drawn: drawn.name)
def test_the_drawing_tells_the_truth(drawn: Drawn):
    kind = PUBLIC[drawn.name]
    assert drawn.parent == public_parent(kind)
    if drawn.status is not None:
        assert kind.status == drawn.status
    if drawn.source is not None:
        assert kind.source == drawn.source
    if drawn.code is not None and not drawn.code.endswith(","):
        assert vars(kind)["code"] == drawn.code


def test_options_error_is_also_a_value_error():
    assert issubclass(OptionsError, ValueError)


def test_every_code_of_the_contract_exists_once_with_its_status():
    declared = [
        (kind.code, kind.status) for kind in PUBLIC.values() if "code" in vars(kind) and kind is not CodeCallError
    ]
    declared += [(code, LimitExceeded.status) for code in typing.get_args(LimitCode)]
    assert Counter(code for code, _ in declared) == Counter([*CONTRACT, "INVALID_OPTIONS"])
    assert {code: status for code, status in declared if code != "INVALID_OPTIONS"} == CONTRACT


def examples() -> Iterator[tuple[CodeCallError, dict[str, object]]]:
    """An instance of every class, and the `error` object it must turn into."""
    here = Location(3, 7)
    place = {"line": 3, "column": 7}
    yield CodeCallError("m", code="X", hint="h"), {"code": "X", "message": "m", "hint": "h"}
    yield OptionsError("m"), {"code": "INVALID_OPTIONS", "message": "m"}
    yield ScriptRefused("m", code="X"), {"code": "X", "message": "m"}
    yield ScriptSyntaxError("m", location=here), {"code": "SYNTAX_ERROR", "message": "m", "location": place}
    yield (
        IllegalAccess("m", kind="DisallowedLoop", location=here, hint="h"),
        {"code": "VALIDATION_ERROR", "message": "m", "kind": "DisallowedLoop", "location": place, "hint": "h"},
    )
    yield (
        ScriptError("m", name="TypeError"),
        {"code": "EXECUTION_ERROR", "source": "script", "message": "m", "name": "TypeError"},
    )
    yield (
        LimitExceeded("m", code="DEADLOCK", location=here),
        {"code": "DEADLOCK", "source": "limit", "message": "m", "name": "LimitError", "location": place},
    )
    yield ScriptTimeoutError("m"), {"code": "TIMEOUT", "message": "m"}
    yield (
        ToolCallError("m", tool_name="t", code="MINE", details={"a": 1}),
        {"code": "MINE", "source": "tool", "message": "m", "toolName": "t", "details": {"a": 1}},
    )
    for kind in (
        ToolNotFoundError,
        AccessDeniedError,
        ApprovalDeniedError,
        FlowDeniedError,
        ExtractionFailedError,
        RunDivergedError,
        ApprovalRequiredError,
        InvalidInputError,
        ToolTimeoutError,
        InputRequiredError,
        TaskStartedError,
        ServerUnavailableError,
        ServerTimeoutError,
    ):
        yield kind("m", tool_name="t"), {"code": kind.code, "source": "tool", "message": "m", "toolName": "t"}
    # What is no tool says so beside the name.
    yield (
        ResourceNotFoundError("m", tool_name="data://a", called="resource"),
        {
            "code": "RESOURCE_NOT_FOUND",
            "source": "tool",
            "message": "m",
            "toolName": "data://a",
            "resource": "data://a",
        },
    )
    yield (
        PromptNotFoundError("m", tool_name="p", called="prompt"),
        {"code": "PROMPT_NOT_FOUND", "source": "tool", "message": "m", "toolName": "p", "prompt": "p"},
    )
    yield (
        ResultNotFoundError("m", tool_name="r", called="result"),
        {"code": "RESULT_NOT_FOUND", "source": "tool", "message": "m", "result": "r"},
    )
    yield (
        RateLimitedError("m", tool_name="t", retry_after_ms=5),
        {"code": "RATE_LIMIT", "source": "tool", "message": "m", "toolName": "t", "retryAfterMs": 5},
    )
    yield WorkerError("m", code="X"), {"code": "X", "source": "worker", "message": "m", "name": "WorkerError"}
    for worker in (
        WorkerTimeoutError,
        WorkerMemoryError,
        WorkerCrashedError,
        WorkerStartupError,
        WorkerPoolDisposedError,
        QueueFullError,
        QueueTimeoutError,
        ExecutionAbortedError,
        MessageFloodError,
        MessageValidationError,
        MessageSizeError,
        TooManyPendingCallsError,
    ):
        yield (
            worker("m"),
            {"code": worker.code, "source": "worker", "message": "m", "name": worker.__name__},
        )
    refused = SelfReferenceError("codecall:execute", location=here)
    yield (
        refused,
        {
            "code": "SELF_REFERENCE_BLOCKED",
            "message": "Cannot call CodeCall tools from within AgentScript: codecall:execute",
            "kind": "SelfReference",
            "location": place,
            "hint": refused.hint,
        },
    )


def test_the_examples_leave_no_class_out():
    assert {type(error).__name__ for error, _ in examples()} == set(PUBLIC)


@pytest.mark.parametrize(("error", "expected"), list(examples()), ids=lambda value: type(value).__name__)
def test_an_error_object_has_the_keys_with_a_value_and_no_others(error: CodeCallError, expected: dict[str, object]):
    assert error.as_dict() == expected
    assert str(error) == error.message


def test_sources_and_kinds_are_closed_sets():
    assert set(typing.get_args(Source)) == {"script", "worker", "limit", "tool"}
    assert set(typing.get_args(FindingKind)) == {
        "IllegalBuiltinAccess",
        "DisallowedGlobal",
        "DisallowedSyntax",
        "DisallowedMember",
        "DisallowedLoop",
        "ReservedPrefix",
        "UnsafeSource",
        "SelfReference",
    }
    # Written twice, as neither module imports anything of ours.
    assert wire.FindingKind == FindingKind


def test_setting_a_code_leaves_the_class_alone():
    assert ToolCallError("m", tool_name="t", code="MINE").code == "MINE"
    assert ToolCallError.code == "TOOL_EXECUTION_ERROR"


def test_the_text_of_an_error_has_its_hint():
    """What a traceback shows is all that somebody reads who starts a server."""
    assert str(OptionsError("embedding: not installed", hint="pip install 'codecall[embedding]'")) == (
        "embedding: not installed\npip install 'codecall[embedding]'"
    )
