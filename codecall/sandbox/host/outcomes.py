"""From what a worker says of a failure to the error a caller sees. Nothing here is decided by reading a message."""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from codecall.envelopes import LargeResult
from codecall.errors import (
    CallKind,
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
from codecall.jsonio.decode import JsonBounds, NotJson, TooManyContainers, decode_json, utf8_length
from codecall.sandbox import wire
from codecall.sandbox.interfaces import ResultStorage
from codecall.sandbox.wire import Failure

# ----------------------------------------------------------------------------------------------------
# The result a worker sends: within the preset's bounds, and JSON; one that is too large for an answer is put away.

MAX_WARNINGS = 50
"""Most warnings of one script; a last one says how many more there were."""

_check = msgspec.json.Decoder(msgspec.Raw).decode


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
    """A result that is too large for an answer, if it is JSON. A megabyte takes 1.5 ms: no objects are made of it.

    Raises:
        MessageValidationError: it is not.
    """
    await asyncio.sleep(0)  # its frame has just been decoded
    try:
        _check(result.text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        raise MessageValidationError("The worker sent a result that is not JSON") from None
    return result


async def store_result(result: RawResult, limits: wire.Limits, results: ResultStorage | None) -> LargeResult:
    """Where a result is kept that is too large for an answer.

    Raises:
        LimitExceeded: it is not kept.
    """
    if results is None:
        raise LimitExceeded(
            f"The result is {result.size} bytes; the limit is {limits.max_result_bytes} bytes", code="OUTPUT_LIMIT"
        )
    return await results.keep(result.text, result.size)


async def decode_result(text: str, limits: wire.Limits, *, referring: bool = False) -> object:
    """The data of the result.

    Args:
        text: JSON, or so the worker says.
        limits: Of the run.
        referring: Values stand in it in place of references, which are as deep as tools made them.

    Raises:
        MessageValidationError: it is not JSON.
        LimitExceeded: it has too many parts, or such a value is too deep.
    """
    bounds = JsonBounds.from_limits(limits)
    try:
        return await decode_json(text, bounds)
    except NotJson:
        if referring:
            raise LimitExceeded(
                f"The result refers to values nested deeper than {bounds.depth} levels",
                code="OUTPUT_LIMIT",
                hint="Call without `reference: true`, and pick what is needed.",
            ) from None
        raise MessageValidationError("The worker sent a result that is not JSON") from None
    except TooManyContainers as failure:
        raise LimitExceeded(
            f"The result has {failure.count} objects and arrays; the limit is {bounds.containers}",
            code="OUTPUT_LIMIT",
            hint="Return less: filter, aggregate, or return rows as text.",
        ) from None


def limit_warnings(done: wire.Done) -> tuple[str, ...]:
    """What was shortened on the way out, as far as it is told."""
    warnings = tuple(done.warnings[:MAX_WARNINGS])
    more = len(done.warnings) - len(warnings)
    return (*warnings, f"{more} more warnings were left out") if more else warnings


# ----------------------------------------------------------------------------------------------------
# From an offset in a script to its line and column.

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class LineIndex:
    """The lines of one script, read when they are asked for."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._starts: list[int] = []

    def location(self, offset: int) -> Location | None:
        """The place of the character at `offset`, from 0; None for one outside the script."""
        if not 0 <= offset <= len(self._script):
            return None
        if not self._starts:
            self._starts = [0, *(end.end() for end in _LINE_END.finditer(self._script))]
        line = bisect_right(self._starts, offset)
        return Location(line, offset - self._starts[line - 1] + 1)


# ----------------------------------------------------------------------------------------------------
# The line of a script that an error is about: taken from the script as it was sent, never from what a worker says.

MAX_EXCERPT: Final = 160
"""Most characters of a line that are shown, marks not counted. Longer lines are cut around the place."""

_MARK: Final = "…"


def excerpt(script: str, location: Location) -> str | None:
    """The line of `script` at `location` without the blanks around it; None when there is no such line, or nothing in
    it. What nobody would see is written as an escape."""
    line = _line(script, location.line)
    if line is None or not (text := line.strip()):
        return None
    # Of a line that is too long: what is before the place, and twice as much of what is behind it.
    place = max(0, location.column - 1 - (len(line) - len(line.lstrip())))
    start = max(0, min(place - MAX_EXCERPT // 3, len(text) - MAX_EXCERPT))
    end = start + MAX_EXCERPT
    shown = "".join(map(_visible, text[start:end]))
    before = _MARK if start > 0 else ""
    return f"{before}{shown}{_MARK if end < len(text) else ''}"


def _line(script: str, number: int) -> str | None:
    start = 0
    for _ in range(number - 1):
        found = _LINE_END.search(script, start)
        if found is None:
            return None
        start = found.end()
    last = _LINE_END.search(script, start)
    return script[start : last.start() if last else len(script)]


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character == "\t" else f"\\u{{{ord(character):X}}}"


# ----------------------------------------------------------------------------------------------------
# Which lines of a script ran, as its worker tells: asked for by those who test scripts.


class LineCoverage:
    """The lines of one script that ran so far."""

    def __init__(self) -> None:
        self._lines: set[int] = set()
        self._last = 0

    def expect(self, start: wire.Start) -> None:
        """A script begins; where nobody asked for its lines, none may be told."""
        self._last = start.script.count("\n") + 1 if start.coverage else 0

    def add(self, lines: Sequence[int]) -> None:
        """The worker says that these lines ran.

        Raises:
            MessageValidationError: the script has no such line, or nobody asked.
        """
        if lines:
            if max(lines) > self._last:
                raise MessageValidationError("The worker says that lines ran which cannot have run")
            self._lines.update(lines)

    @property
    def lines(self) -> tuple[int, ...]:
        """In ascending order."""
        return tuple(sorted(self._lines))


# ----------------------------------------------------------------------------------------------------
# From what a worker says of a failure to the error a caller sees. Nothing here is decided by reading a message.

MAX_ERROR_NAME = 200
"""Longest name of a thrown error, in characters; more is cut with a mark."""

logger = logging.getLogger("codecall")


def error_from_failure(failure: Failure, tool_errors: Mapping[int, ToolCallError], script: str) -> CodeCallError:
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


def error_payload(error: ToolCallError) -> dict[str, object]:
    """What a script learns of a failed call."""
    told: dict[str, object] = {"code": error.code, "message": error.message, **error.subject()}
    if error.details is not None:
        told["details"] = error.details
    if error.retry_after_ms is not None:
        told["retryAfterMs"] = error.retry_after_ms
    return told


def unexpected_error(name: str, failure: Exception, called: CallKind = "tool") -> ToolCallError:
    """A broker promises named errors; what it lets through all the same may hold anything, so nothing of it is told."""
    frames = traceback.format_tb(failure.__traceback__)
    logger.error("calling %s %r failed with %s\n%s", called, name, type(failure).__name__, "".join(frames))
    message = f"{called.capitalize()} '{name}' failed"
    return ToolCallError(message, tool_name=name, called=called, hint="The server's log says why.")
