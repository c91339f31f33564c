"""From what a worker sends at the end of a script to what a caller sees: results, errors, places in the script, lines
that ran. Nothing here is decided by reading a message."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from codecall.errors import (
    CallKind,
    CodeCallError,
    IllegalAccess,
    InvalidInputError,
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
from codecall.jsonio.check import check_json
from codecall.jsonio.decode import JsonBounds, NotJsonError, TooManyContainersError, decode_json, utf8_length
from codecall.redaction.clean import escape_invisible
from codecall.sandbox import wire
from codecall.sandbox.lines import LineTable

MAX_WARNINGS: Final = 50
"""Most warnings of one script; a last one says how many more there were."""

MAX_ERROR_NAME: Final = 200
"""Longest name of a thrown error, in characters; more is cut with a mark."""


logger = logging.getLogger("codecall")

# ------------------------------------------------------------------------------------------------------- results


class RawResult(NamedTuple):
    """A result as its worker sent it."""

    text: str
    """JSON, or so the worker says."""
    size: int
    """Bytes of it, as UTF-8."""


def raw_result(done: wire.Done, limits: wire.Limits) -> RawResult:
    """The text of the result.

    Raises:
        MessageValidationError: there is none, or it is larger than it may be.
    """
    if done.value is None:
        raise MessageValidationError("The worker ended a script without a result")
    # A compromised worker may send more than the runtime in it would.
    size = utf8_length(done.value)
    if size > limits.longest_result:
        raise MessageValidationError("The worker sent a result larger than its preset allows")
    return RawResult(done.value, size)


async def check_large_result(result: RawResult) -> RawResult:
    """`result`, which is too large for an answer, if it is JSON; no objects are made of it.

    Raises:
        MessageValidationError: it is not JSON.
    """
    await asyncio.sleep(0)  # its frame has just been decoded
    try:
        await check_json(result.text)
    except NotJsonError:
        raise MessageValidationError("The worker sent a result that is not JSON") from None
    return result


async def decode_result(text: str, limits: wire.Limits, *, has_values: bool = False) -> object:
    """The data of the result.

    Args:
        text: JSON, or so the worker says.
        limits: Limits of the run.
        has_values: Values stand in it in place of references; they are as deep as tools made them.

    Raises:
        MessageValidationError: it is not JSON.
        LimitExceeded: it has too many parts, or such a value is too deep.
    """
    bounds = JsonBounds.from_limits(limits)
    try:
        return await decode_json(text, bounds)
    except NotJsonError:
        if has_values:
            raise LimitExceeded(
                f"The result refers to values nested deeper than {bounds.depth} levels",
                code="OUTPUT_LIMIT",
                hint="Call without `reference: true`, and pick what is needed.",
            ) from None
        raise MessageValidationError("The worker sent a result that is not JSON") from None
    except TooManyContainersError as failure:
        raise LimitExceeded(
            f"The result has {failure.count} objects and arrays; the limit is {bounds.containers}",
            code="OUTPUT_LIMIT",
            hint="Return less: filter, aggregate, or return rows as text.",
        ) from None


def limit_warnings(done: wire.Done) -> tuple[str, ...]:
    """What the worker warns of, up to `MAX_WARNINGS`."""
    warnings = tuple(done.warnings[:MAX_WARNINGS])
    more = len(done.warnings) - len(warnings)
    return (*warnings, f"{more} more warnings were left out") if more else warnings


# -------------------------------------------------------------------------------------------------------- errors


def error_from_failure(
    failure: wire.Failure, tool_errors: Mapping[int, ToolCallError], lines: LineTable
) -> CodeCallError:
    """The error of a script that failed.

    The status and the source follow from the failure's code, whatever the worker says; a failed tool call is described
    by the server's own record in `tool_errors`.

    Raises:
        MessageValidationError: the failure contradicts itself, names a place outside the script, or a call that did
            not fail.
    """
    if failure.call is not None and failure.call not in tool_errors:
        raise MessageValidationError("The worker reports the failure of a tool call that did not fail")
    location = _location(failure, lines.source)
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
            name = failure.name or "Error"
            if (more := len(name) - MAX_ERROR_NAME) > 0:
                name = f"{name[:MAX_ERROR_NAME]}…[truncated {more} characters]"
            error = ScriptError(message, name=name, hint=hint)
        case "TIMEOUT":
            error = ScriptTimeoutError(message, hint=hint)
        case "WORKER_MEMORY_EXCEEDED":
            error = WorkerMemoryError(message, hint=hint)
        case "TOOL":
            error = _call_error(failure, tool_errors)
        case _:
            error = LimitExceeded(message, code=failure.code, hint=hint)
    # A worker's advice is about the text of the script.
    error.quotes_script = hint is not None and error.hint is hint
    if location is not None:
        error.location, error.excerpt = location, excerpt_at(location, lines)
    return error


def _call_error(failure: wire.Failure, tool_errors: Mapping[int, ToolCallError]) -> ToolCallError:
    """The server's own record of the call that a script failed with; the script says at most why its input lacks what
    the tool needs."""
    if failure.call is None:
        raise MessageValidationError("The worker reports the failure of a tool call without its number")
    error = tool_errors[failure.call]
    if error.hint is None and error.code == InvalidInputError.code:
        error.hint = failure.hint
    return error


def _location(failure: wire.Failure, script: str) -> Location | None:
    if failure.line is None or failure.column is None:
        return None
    # Just behind the end is a place too.
    last = len(script) + 1
    if not 1 <= failure.line <= last or not 1 <= failure.column <= last:
        raise MessageValidationError("The worker names a place that is not in the script")
    return Location(failure.line, failure.column)


def error_payload(error: ToolCallError) -> dict[str, object]:
    """What the script gets of a failed call, as JSON data."""
    payload: dict[str, object] = {"code": error.code, "message": error.message, **error.subject()}
    if error.details is not None:
        payload["details"] = error.details
    if error.retry_after_ms is not None:
        payload["retryAfterMs"] = error.retry_after_ms
    return payload


def refuse_oversize(call: wire.Call, most: int) -> None:
    """Fail a call whose input the worker has kept back, as it has more than `most` bytes. Before the call is looked up
    anywhere: the empty object in its place is not what the script gave."""
    if call.oversize:
        raise ToolCallError(
            f"'{call.name}' was not called: its input has {call.oversize} bytes; one input may have {most}",
            tool_name=call.name,
            called=call.kind,
            code="MESSAGE_TOO_LARGE",
            details={"bytes": call.oversize, "maxBytes": most},
            hint="Split the input over several calls. What another tool gave goes on as a whole if that is called with "
            "`{ reference: true }`.",
        )


def unexpected_error(name: str, failure: Exception, called: CallKind = "tool") -> ToolCallError:
    """The error for an exception that a broker did not name. It may hold anything, so the script gets nothing of it;
    the log gets its frames."""
    frames = traceback.format_tb(failure.__traceback__)
    logger.error("calling %s %r failed with %s\n%s", called, name, type(failure).__name__, "".join(frames))
    message = f"{called.capitalize()} '{name}' failed"
    return ToolCallError(message, tool_name=name, called=called, hint="The server's log says why.")


# -------------------------------------------------------------------------------------------- places in a script


def excerpt_at(location: Location, lines: LineTable) -> str | None:
    """The line at `location`, with invisible characters as escapes; None when there is no such line, or nothing in it.

    Args:
        location: The place.
        lines: The script as it was sent, never what a worker says of it.
    """
    excerpt = lines.excerpt(location.line, location.column)
    return None if excerpt is None else escape_invisible(excerpt)


class LineCoverage:
    """The lines of one script that ran, as its worker reports them: requested by programs that test scripts."""

    def __init__(self) -> None:
        self._lines: set[int] = set()
        self._last = 0

    def expect(self, start: wire.Start) -> None:
        """Begin with a script; where its lines were not requested, none may be reported."""
        self._last = start.script.count("\n") + 1 if start.coverage else 0

    def add(self, lines: Sequence[int]) -> None:
        """Add lines that the worker reports.

        Raises:
            MessageValidationError: the script has no such line, or lines were not requested.
        """
        if lines:
            if max(lines) > self._last:
                raise MessageValidationError("The worker says that lines ran which cannot have run")
            self._lines.update(lines)

    @property
    def lines(self) -> tuple[int, ...]:
        """The numbers of the lines, in ascending order."""
        return tuple(sorted(self._lines))
