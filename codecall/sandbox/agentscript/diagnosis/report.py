"""From what the engine says of an error to the failure that is reported: its place in the script, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple, TypeVar, cast

import msgspec

from codecall.sandbox.agentscript.diagnosis import symptoms as suspects
from codecall.sandbox.agentscript.diagnosis.case import FailureContext, short
from codecall.sandbox.agentscript.diagnosis.dataflow import CallEntry, CallHistory, DataFlow
from codecall.sandbox.agentscript.diagnosis.hints import NOT_AN_ERROR_HINT, hint_for
from codecall.sandbox.agentscript.foreign_words import syntax_hint
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.wire import Failure, Limits

# ----------------------------------------------------------------------------------------------------
# What ends a script from outside its own logic: each limit's message and its usual way out, as data.


class ScriptProgress(NamedTuple):
    """How far a script had come."""

    steps: int
    """Loop turns and function entries."""
    lines: int
    """Of its console, with the one that was too much."""
    line_bytes: int


class LimitMessage(NamedTuple):
    """How one limit is told. `message` may name fields of `Limits`, and `longest_result`."""

    failure: Failure
    message: str
    progress: str = ""
    """How far the script had come: stands before the hint, and may name fields of `Limits` and `Progress`."""


def _limit(code: str, message: str, hint: str, far: str = "") -> LimitMessage:
    # The code is checked where the frame is decoded; a test sends every one of them.
    return LimitMessage(msgspec.convert({"status": "runtime_error", "code": code, "hint": hint}, Failure), message, far)


LIMIT_MESSAGES = {
    "ITERATION_LIMIT": _limit(
        "ITERATION_LIMIT",
        "Loop exceeded the iteration limit of {max_iterations}",
        "Loop over less: page or filter with the tool's own parameters, or use array methods.",
    ),
    "STEP_LIMIT": _limit(
        "STEP_LIMIT",
        "Script exceeded the limit of {max_steps} steps",
        "Do less work in the script: filter with the tool's own parameters before looping.",
    ),
    "TOOL_CALL_LIMIT": _limit(
        "TOOL_CALL_LIMIT",
        "Script exceeded the limit of {max_tool_calls} tool calls",
        "Use a tool that returns many items at once, or larger pages.",
    ),
    "CONSOLE_LIMIT": _limit(
        "CONSOLE_LIMIT",
        "Script exceeded the console limit of {max_console_calls} calls or {max_console_bytes} bytes",
        "Log less, or return the data instead.",
        "This was line {lines}, and {line_bytes} bytes in all.",
    ),
    "STACK_OVERFLOW": _limit(
        "STACK_OVERFLOW",
        "Script exceeded the stack limit: a function calls itself too deeply",
        "Use a loop instead of recursion, or make the recursion stop earlier.",
    ),
    "OUTPUT_LIMIT": _limit(
        "OUTPUT_LIMIT",
        "The result is {detail} bytes; the limit is {longest_result} bytes",
        "Return less: filter, aggregate, or select the fields that are needed.",
    ),
    "DEADLOCK": _limit(
        "DEADLOCK",
        "The script waits for a promise that can never settle",
        "What it awaits must come from callTool or an async function, or from a `new Promise` that calls its `resolve` "
        "on every way; `Promise.race([])` never settles.",
    ),
    "WORKER_MEMORY_EXCEEDED": _limit(
        "WORKER_MEMORY_EXCEEDED",
        "Script exceeded the memory limit of {memory_mb} MB",
        "Keep less data at once: work page by page and keep only the fields that are needed.",
        "At least {steps} steps had been taken.",
    ),
    "TIMEOUT": LimitMessage(
        Failure(
            status="timeout",
            code="TIMEOUT",
            hint="Do less in one script: page, filter with the tools' own parameters, or split the work.",
        ),
        "Script execution timed out after {timeout_ms}ms",
        "At least {steps} steps had been taken.",
    ),
    "SELF_REFERENCE_BLOCKED": LimitMessage(
        Failure(status="illegal_access", code="SELF_REFERENCE_BLOCKED", kind="SelfReference"), "{detail}"
    ),
}
"""By code. The texts of ITERATION_LIMIT, TOOL_CALL_LIMIT and TIMEOUT are fixed by the contract."""


def limit_failure(code: str, limits: Limits, detail: object = "", progress: ScriptProgress | None = None) -> Failure:
    """The failure for a script that ran into `code`, and how far it had come where that is known."""
    stop = LIMIT_MESSAGES[code]
    fields = {"detail": detail, "longest_result": limits.longest_result, **msgspec.structs.asdict(limits)}
    hint = stop.failure.hint
    if progress is not None and stop.progress:
        hint = f"{stop.progress.format(**fields, **progress._asdict())} {hint}"
    return msgspec.structs.replace(stop.failure, message=stop.message.format(**fields), hint=hint)


# ----------------------------------------------------------------------------------------------------
# From what the engine says of an error to the failure that is reported: its place in the script, and what to do.

CHARS_PER_MS: Final = 50
"""Characters of script that are parsed again in a millisecond of the time the script has left: a fifth of what this
takes, so that a slow machine does it too. Of a script with less time only the message is looked at."""

MAX_WARNED_CALLS: Final = 5
"""Calls that one warning names, and calls that failed unseen of which each has a warning."""

MAX_LOOKED_AT: Final = 50
"""Failed calls that are looked at when a script ends well."""

MAX_LOST: Final = 300
"""Most characters of a failed call's message in a warning."""

MAX_FRAMES: Final = 200
"""Frames of a stack that are looked at. Names of functions stand in it, and may look like any number of frames."""

_AWAIT_IT: Final = "Write `await` in front of a call whose value or failure matters."

# A function's name stands before the place, and a script chooses that name.
_FRAME = re.compile(r"(?m)^ +at (?:.* )?\(?<input>:(\d{1,6}):(\d{1,6})\)?$")
_KEPT = re.compile(r"\bawait\b|\breturn\b|=")

Position = tuple[int, int]
"""Line and column, from 1."""

T = TypeVar("T")


class ThrownError(msgspec.Struct):
    """What the prelude says of an error that ended the script."""

    kind: str
    """`script`: an Error; `value`: anything else that was thrown; `tool`: a failed call's own error; `stack` and
    `memory`: exhausted."""
    name: str
    message: str
    stack: str
    call: int | None = None


def script_position(program: InstrumentedScript, stack: str) -> Position | None:
    """The innermost place in the script of `program` that a stack names."""
    for match in islice(_FRAME.finditer(stack), MAX_FRAMES):
        if (place := program.original_position(int(match[1]), int(match[2]))) is not None:
            return place
    return None


class FailureReport:
    """What is known of a script that has ended.

    Args:
        program: What ran; None where nothing did.
        limits: What it ran under.
        journal: Its calls.
        room_ms: Milliseconds of its own time that it has left.
    """

    def __init__(
        self, program: InstrumentedScript | None, limits: Limits, journal: CallHistory, room_ms: float
    ) -> None:
        self._program = program
        self._limits = limits
        self._journal = journal
        self._room_ms = room_ms

    # ---------------------------------------------------------------------------------------------- its failure

    def thrown_failure(self, report: ThrownError) -> Failure:
        """The failure of a script that threw what `report` tells."""
        place = self._place(report.stack)
        if report.kind == "tool":
            made = self._journal.open_calls.get(report.call or 0)
            failure = Failure(status="tool_error", code="TOOL", call=report.call)
            return _placed(failure, self._place(made.stack) if made else None)
        if report.kind == "stack":
            return _placed(limit_failure("STACK_OVERFLOW", self._limits), place)
        if report.kind == "value":
            hint, place = NOT_AN_ERROR_HINT, self._only_one(suspects.thrown_values)
        else:
            # What the runtime throws after it has waited has no place of its own.
            place = place or self._only_one(suspects.parallel_calls)
            hint = self._read(lambda reading: self._hint(report, place, reading), None)
        failure = Failure(
            status="runtime_error", code="EXECUTION_ERROR", message=report.message, name=report.name, hint=hint
        )
        return _placed(failure, place)

    def limit_failure(self, code: str, progress: ScriptProgress, detail: object = "", stack: str = "") -> Failure:
        """The failure of a script that ran into a limit."""
        place = self._only_one(suspects.unsettled_promises) if code == "DEADLOCK" else self._place(stack)
        return _placed(limit_failure(code, self._limits, detail, progress), place)

    def syntax_failure(self, text: str) -> Failure:
        """The failure of a script that the engine could not compile; `text` is its message and the place."""
        message, _, stack = text.partition("\n")
        message = message.removeprefix("SyntaxError: ")
        failure = Failure(status="syntax_error", code="SYNTAX_ERROR", message=message, hint=syntax_hint(message))
        return _placed(failure, self._place(stack) or self._only_one(suspects.regular_expressions) or self._end())

    def _hint(self, report: ThrownError, place: Position | None, reading: DataFlow | None) -> str | None:
        places = {made.number: self._place(made.stack) for made in self._journal.last_answers.values()}
        offsets = {number: at for number, where in places.items() if (at := self._offset(where)) is not None}
        case = FailureContext(reading, self._offset(place), self._journal, offsets)
        return hint_for(report.name, report.message, case)

    # ------------------------------------------------------------------------------------------ calls not awaited

    def unawaited_failure_warning(self, number: int) -> str:
        """What is said of a call that failed where nobody could catch it."""
        call = self._journal.open_calls[number]
        told = cast("dict[str, object]", msgspec.json.decode(call.payload or "{}"))
        message = f"{told.get('message', '')!s:.{MAX_LOST}} ({told.get('code')})"
        return f"{self._called(call)} was not awaited, and failed: {message}. {_AWAIT_IT}"

    def unawaited_call_warnings(self) -> list[str]:
        """What is said of the calls that a script has not waited for when it ends well."""
        said = [self.unawaited_failure_warning(call.number) for call in self._forgotten()]
        running = [call for call in self._journal.open_calls.values() if not call.failed]
        if running:
            names = ", ".join(map(self._called, running[:MAX_WARNED_CALLS]))
            more = f" and {len(running) - MAX_WARNED_CALLS} more" if len(running) > MAX_WARNED_CALLS else ""
            said.append(f"The script ended without the values of {names}{more}: not awaited. {_AWAIT_IT}")
        return said

    def nothing_returned_warnings(self, value: str) -> list[str]:
        """What is said of a script that only declares what it is for, and gives `value`, JSON text."""
        name = self._program.uncalled_function if self._program else None
        if name is None or value != "null" or self._journal.open_calls or self._journal.last_answers:
            return []
        run = short(name)
        return [f"Nothing was returned: `{run}` is declared but never called; end with `return {run}();`"]

    def _called(self, call: CallEntry) -> str:
        place = self._place(call.stack)
        return f"{short(call.name)}{f' (line {place[0]})' if place else ''}"

    def _forgotten(self) -> list[CallEntry]:
        """Calls that failed and are statements of their own, without `await`: their failure went nowhere."""
        failed = [call for call in self._journal.open_calls.values() if call.failed][:MAX_LOOKED_AT]
        # Whoever waits, or keeps the promise, writes so before the call: most scripts need not be parsed for it.
        bare = [call for call in failed if (place := self._place(call.stack)) and not _KEPT.search(self._before(place))]
        if not bare:
            return []
        spans = self._read(lambda reading: suspects.statement_calls(reading) if reading else [], [])
        offsets = {call.number: self._offset(self._place(call.stack)) or 0 for call in bare}
        return [call for call in bare if any(start <= offsets[call.number] < end for start, end in spans)][
            :MAX_WARNED_CALLS
        ]

    # -------------------------------------------------------------------------------------------------- the script

    def _place(self, stack: str) -> Position | None:
        """The innermost place in the script that a stack names."""
        return None if self._program is None else script_position(self._program, stack)

    @cached_property
    def _starts(self) -> list[int]:
        script = self._program.script if self._program else ""
        return [0, *(found.end() for found in re.finditer("\n", script))]

    def _offset(self, place: Position | None) -> int | None:
        return None if place is None else self._starts[place[0] - 1] + place[1] - 1

    def _before(self, place: Position) -> str:
        """The line of a place, up to there."""
        start = self._starts[place[0] - 1]
        return self._program.script[start : start + place[1] - 1] if self._program else ""

    def _end(self) -> Position | None:
        return None if self._program is None else (len(self._starts), len(self._program.script) - self._starts[-1] + 1)

    def _only_one(self, find: Callable[[DataFlow], Iterable[int]]) -> Position | None:
        """The place of the only thing in the script that `find` finds; None when there are several."""
        found = self._read(lambda reading: list(find(reading)) if reading else [], [])
        if len(found) != 1 or self._program is None:
            return None
        line = self._program.script.count("\n", 0, found[0])
        return line + 1, found[0] - self._starts[line] + 1

    def _read(self, use: Callable[[DataFlow | None], T], otherwise: T) -> T:
        """What `use` makes of the script, parsed again where there is time for it; `otherwise` if that fails."""
        script = self._program.script if self._program else ""
        try:
            return use(DataFlow(script) if script and len(script) <= self._room_ms * CHARS_PER_MS else None)
        except Exception:
            # A script nested to the limit, an answer beyond the stack: the failure is told all the same. The engine
            # calls this, and an exception would end the process.
            return otherwise


def _placed(failure: Failure, place: Position | None) -> Failure:
    return failure if place is None else msgspec.structs.replace(failure, line=place[0], column=place[1])
