"""From what a worker says of a failure to the error a caller sees. Nothing here is decided by reading a message."""

from __future__ import annotations

from collections.abc import Mapping

from codecall.errors import (
    CodeCallError,
    IllegalAccess,
    LimitExceeded,
    Location,
    MessageValidationError,
    ScriptError,
    ScriptSyntaxError,
    ScriptTimeoutError,
    SelfReferenceError,
    ToolCallError,
    WorkerMemoryError,
)
from codecall.sandbox.wire import Failure

_TIMEOUT_HINT = "Do less in one script: page, filter with the tools' own parameters, or split the work."


def error_of(failure: Failure, tool_errors: Mapping[int, ToolCallError]) -> CodeCallError:
    """The error for `failure`. A failed tool call is described by the server's own record in `tool_errors`.

    Raises:
        MessageValidationError: the failure contradicts itself or names a call that did not fail.
    """
    location = None
    if failure.line is not None and failure.column is not None:
        location = Location(failure.line, failure.column)
    message, hint = failure.message, failure.hint
    error: CodeCallError
    match failure.code:
        case "SYNTAX_ERROR":
            error = ScriptSyntaxError(message, location=location, hint=hint)
        case "SELF_REFERENCE_BLOCKED":
            # The guard sends the finished text, the runtime the bare name.
            error = SelfReferenceError(message.removeprefix(SelfReferenceError.PREFIX), location=location)
        case "VALIDATION_ERROR":
            if failure.kind is None:
                raise MessageValidationError("The worker refused a script without saying why")
            error = IllegalAccess(message, kind=failure.kind, location=location, hint=hint)
        case "EXECUTION_ERROR":
            error = ScriptError(message, name=failure.name or "Error", location=location, hint=hint)
        case "TIMEOUT":
            error = ScriptTimeoutError(message, hint=_TIMEOUT_HINT)
        case "WORKER_MEMORY_EXCEEDED":
            error = WorkerMemoryError(message, hint=hint)
        case "TOOL":
            error = _told_to_the_worker(failure.call, tool_errors)
        case _:
            error = LimitExceeded(message, code=failure.code, location=location, hint=hint)
    return error


def _told_to_the_worker(call: int | None, tool_errors: Mapping[int, ToolCallError]) -> ToolCallError:
    if call is None or call not in tool_errors:
        raise MessageValidationError("The worker reports the failure of a tool call that did not fail")
    return tool_errors[call]


def told(error: ToolCallError) -> dict[str, object]:
    """What a script learns of a failed call."""
    told: dict[str, object] = {"code": error.code, "message": error.message, "toolName": error.tool_name}
    if error.details is not None:
        told["details"] = error.details
    if error.retry_after_ms is not None:
        told["retryAfterMs"] = error.retry_after_ms
    return told
