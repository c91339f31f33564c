"""From what a worker says of a failure to the error a caller sees. Nothing here is decided by reading a message."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping

from codecall.errors import (
    Called,
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
from codecall.sandbox.host.excerpts import excerpt
from codecall.sandbox.wire import Failure

MAX_ERROR_NAME = 200
"""Longest name of a thrown error, in characters; more is cut with a mark."""

logger = logging.getLogger("codecall")


def error_of(failure: Failure, tool_errors: Mapping[int, ToolCallError], script: str) -> CodeCallError:
    """The error for `failure` of `script`. The status and the source follow from the code, whatever the worker says; a
    failed tool call is described by the server's own record in `tool_errors`.

    Raises:
        MessageValidationError: the failure contradicts itself, names a place outside the script, or a call that did
            not fail.
    """
    location = _place(failure, script)
    # Their length is bounded where they are cleaned.
    message, hint = failure.message, failure.hint
    error: CodeCallError
    match failure.code:
        case "SYNTAX_ERROR":
            error = ScriptSyntaxError(message, hint=hint)
        case "SELF_REFERENCE_BLOCKED":
            # The guard sends the finished text, the runtime the bare name.
            error = SelfReferenceError(message.removeprefix(SelfReferenceError.PREFIX))
        case "VALIDATION_ERROR":
            if failure.kind is None:
                raise MessageValidationError("The worker refused a script without saying why")
            error = IllegalAccess(message, kind=failure.kind, hint=hint)
        case "EXECUTION_ERROR":
            name = _shortened(failure.name or "Error", MAX_ERROR_NAME)
            error = ScriptError(message, name=name, hint=hint)
        case "TIMEOUT":
            error = ScriptTimeoutError(message, hint=hint)
        case "WORKER_MEMORY_EXCEEDED":
            error = WorkerMemoryError(message, hint=hint)
        case "TOOL":
            error = _told_to_the_worker(failure.call, tool_errors)
        case _:
            error = LimitExceeded(message, code=failure.code, hint=hint)
    if location is not None:
        error.location, error.excerpt = location, excerpt(script, location)
    return error


def _shortened(text: str, length: int) -> str:
    """`text`, or its first `length` characters and how many more there were."""
    return text if len(text) <= length else f"{text[:length]}…[truncated {len(text) - length} characters]"


def _place(failure: Failure, script: str) -> Location | None:
    if failure.line is None or failure.column is None:
        return None
    # Just behind the end is a place too.
    last = len(script) + 1
    if not 1 <= failure.line <= last or not 1 <= failure.column <= last:
        raise MessageValidationError("The worker names a place that is not in the script")
    return Location(failure.line, failure.column)


def _told_to_the_worker(call: int | None, tool_errors: Mapping[int, ToolCallError]) -> ToolCallError:
    if call is None or call not in tool_errors:
        raise MessageValidationError("The worker reports the failure of a tool call that did not fail")
    return tool_errors[call]


def told(error: ToolCallError) -> dict[str, object]:
    """What a script learns of a failed call."""
    told: dict[str, object] = {"code": error.code, "message": error.message, **error.subject()}
    if error.details is not None:
        told["details"] = error.details
    if error.retry_after_ms is not None:
        told["retryAfterMs"] = error.retry_after_ms
    return told


def unexpected(name: str, failure: Exception, called: Called = "tool") -> ToolCallError:
    """A broker promises named errors; what it lets through all the same may hold anything, so nothing of it is told."""
    frames = traceback.format_tb(failure.__traceback__)
    logger.error("calling %s %r failed with %s\n%s", called, name, type(failure).__name__, "".join(frames))
    message = f"{called.capitalize()} '{name}' failed"
    return ToolCallError(message, tool_name=name, called=called, hint="The server's log says why.")
