"""How a failed script is reported: its status and code, the place in the script, and a hint what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from codecall.sandbox.agentscript.checked import Position
from codecall.sandbox.agentscript.diagnosis import causes, inputs, loops
from codecall.sandbox.agentscript.diagnosis.calls import CallEntry, CallHistory
from codecall.sandbox.agentscript.diagnosis.context import FailureContext, FindMeantTool, FindMisread
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow, with_dataflow
from codecall.sandbox.agentscript.diagnosis.hints import NO_TEXT_FORM, NOT_AN_ERROR_HINT, hint_for
from codecall.sandbox.agentscript.foreign_words import message_hint
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.wire import Failure, Limits

ENDLESS_LOOP_HINT: Final = (
    "The loop on line {line} has no condition, and nothing in it ended it: advance in it what its `break` tests, or "
    "write `for (let i = 0; i < n; i++) {{ … }}`; to page, with the tool's own names for `cursor` and `next` (or "
    "`page: i + 1`, until a page is empty): `let page; for (let i = 0; i < 50; i++) {{ page = await list({{ cursor: "
    "page?.next }}); …; if (!page.next) break; }}`."
)
"""The hint for a limit that is reached in `for (;;)` or `while (true)`."""

INVALID_INPUT: Final = '"INVALID_INPUT"'
"""The code, as JSON text, of a call that was refused for its input."""

_LOOP_LIMITS: Final = frozenset({"ITERATION_LIMIT", "STEP_LIMIT", "TOOL_CALL_LIMIT"})


class ScriptProgress(NamedTuple):
    """How far a script had come."""

    steps: int
    """Loop turns and function entries."""


class ThrownError(msgspec.Struct):
    """An error that ended the script, as the prelude reports it."""

    kind: str
    """`script`: an Error; `value`: anything else that was thrown; `tool`: a failed call's own error; `stack` and
    `memory`: exhausted."""
    name: str
    message: str
    stack: str
    call: int | None = None


NO_VALUE: Final = frozenset({"undefined", "function", "symbol"})
"""Kinds of values that JSON does not have."""


class MissedLookup(msgspec.Struct):
    """A lookup that has found nothing, as the prelude reports it."""

    site: int
    """Its number in `ScriptEnding.lookups`."""
    count: int
    """How often."""
    key: str
    """What was looked up the first time, as a script writes it."""
    is_map: bool
    size: int
    """Keys that the table had."""
    keys: list[str]
    """Some of them."""
    alike: str
    """What makes a key that is there of the one that was looked up: `String` or `Number`; else empty."""


class Ending(msgspec.Struct):
    """How a script ended, as the prelude reports it."""

    notes: list[str]
    """What was shortened in its value."""
    kind: str
    """`typeof` of its value."""
    raced: list[int]
    """Numbers of calls of which the script wanted only the first to end."""
    empty_lists: int
    """Lists in its value that have items, none of them a value."""
    missing: list[str]
    """Keys of objects in its value that were left out, having no value; some of them."""
    misses: list[MissedLookup]

    @property
    def lacks_values(self) -> bool:
        """Whether the script, or something in its value, gave nothing."""
        return self.kind in NO_VALUE or self.empty_lists > 0 or bool(self.missing)


class FailureReport:
    """Reports the failure of a script that has ended.

    Args:
        program: What ran; None where nothing did.
        limits: What it ran under.
        calls: Its calls.
        room_ms: Milliseconds of its own time that it has left.
        brought: `codecallContext` as JSON text; None where the request brought none.
        misread: Finds what the script misread before it failed.
        meant_tool: Finds the tool that was meant by a name that `getTool` has not found.
    """

    def __init__(
        self,
        program: InstrumentedScript | None,
        limits: Limits,
        calls: CallHistory,
        room_ms: float,
        brought: str | None = None,
        *,
        misread: FindMisread | None = None,
        meant_tool: FindMeantTool | None = None,
    ) -> None:
        self._misread = misread
        self._meant_tool = meant_tool
        self._brought = brought
        self._program = program
        self._limits = limits
        self._calls = calls
        self._room_ms = room_ms

    def thrown_failure(self, error: ThrownError) -> Failure:
        """The failure of a script that threw `error`."""
        position = self._position(error.stack)
        if (error.name, error.message) == ("TypeError", "toPrimitive"):
            error = msgspec.structs.replace(error, message=NO_TEXT_FORM)
        if error.kind == "tool":
            entry = self._calls.open_calls.get(error.call or 0)
            place = self._position(entry.stack) if entry else None
            hint = None if entry is None or entry.payload is None else self._missing_input(entry, place)
            return _at(Failure(status="tool_error", code="TOOL", call=error.call, hint=hint), place)
        if error.kind == "stack":
            return _at(limit_failure("STACK_OVERFLOW", self._limits), position)
        if error.kind == "value":
            position = self._only_position(causes.thrown_values)
            offset = self._offset(position)
            misread = None if self._misread is None or offset is None else self._misread(error.message, offset)
            hint = " ".join(filter(None, (NOT_AN_ERROR_HINT, misread)))
        else:
            # What the runtime throws after it has waited has no place of its own.
            position = position or self._only_position(causes.parallel_calls)
            script = self._program.script if self._program else ""
            hint = with_dataflow(
                script, self._room_ms, lambda dataflow: self._hint(error, position, dataflow), fallback=None
            )
        failure = Failure(
            status="runtime_error", code="EXECUTION_ERROR", message=error.message, name=error.name, hint=hint
        )
        return _at(failure, position)

    def limit_failure(self, code: str, progress: ScriptProgress, detail: object = "", stack: str = "") -> Failure:
        """The failure of a script that exceeded a limit."""
        position = self._only_position(causes.unsettled_promises) if code == "DEADLOCK" else self._position(stack)
        hint = self._endless_loop(position) if code in _LOOP_LIMITS else None
        return _at(limit_failure(code, self._limits, detail, progress, hint), position)

    def syntax_failure(self, text: str) -> Failure:
        """The failure of a script that the engine could not compile; `text` is the engine's message and stack."""
        message, _, stack = text.partition("\n")
        message = message.removeprefix("SyntaxError: ")
        failure = Failure(status="syntax_error", code="SYNTAX_ERROR", message=message, hint=message_hint(message))
        position = self._position(stack) or self._only_position(causes.regular_expressions)
        if position is None and self._program is not None:
            position = self._program.lines.position(len(self._program.script))
        return _at(failure, position)

    def _missing_input(self, call: CallEntry, position: Position | None) -> str | None:
        """The hint for a call that was refused since fields of its input are missing."""
        script = self._program.script if self._program and INVALID_INPUT in (call.payload or "") else ""
        return with_dataflow(
            script,
            self._room_ms,
            lambda dataflow: inputs.missing_input(self._context(position, dataflow), call) if dataflow else None,
            fallback=None,
        )

    def _hint(self, error: ThrownError, position: Position | None, dataflow: DataFlow | None) -> str | None:
        return hint_for(error.name, error.message, self._context(position, dataflow))

    def _context(self, position: Position | None, dataflow: DataFlow | None) -> FailureContext:
        entries = self._calls.last_answers.values()
        offsets = {
            entry.number: offset
            for entry in entries
            if (offset := self._offset(self._position(entry.stack))) is not None
        }
        brought = msgspec.json.decode(self._brought or "{}", type=dict[str, object])
        return FailureContext(
            dataflow, self._offset(position), self._calls, offsets, brought, self._misread, self._meant_tool
        )

    def _endless_loop(self, position: Position | None) -> str | None:
        """The hint for a limit that is reached in a loop without a condition, or whose `break` tests what no answer
        has; None for any other place."""
        if position is None or self._program is None:
            return None
        lines, offset = self._program.lines, self._program.lines.offset(*position)

        def find(dataflow: DataFlow | None) -> str | None:
            if dataflow is None:
                return None
            start = loops.endless_loop(dataflow, offset)
            hint = None if start is None else ENDLESS_LOOP_HINT.format(line=lines.line(start))
            missing = loops.undefined_at_break(self._context(position, dataflow))
            return " ".join(filter(None, (missing, hint))) or None

        return with_dataflow(self._program.script, self._room_ms, find, fallback=None)

    def _position(self, stack: str) -> Position | None:
        """The innermost place in the script that a stack names."""
        return None if self._program is None else self._program.position_in_stack(stack)

    def _offset(self, position: Position | None) -> int | None:
        return None if position is None or self._program is None else self._program.lines.offset(*position)

    def _only_position(self, find: Callable[[DataFlow], Iterable[int]]) -> Position | None:
        """The place of the only offset in the script that `find` returns; None when there are several."""
        if self._program is None:
            return None
        offsets = with_dataflow(
            self._program.script,
            self._room_ms,
            lambda dataflow: list(find(dataflow)) if dataflow else [],
            fallback=[],
        )
        return self._program.lines.position(offsets[0]) if len(offsets) == 1 else None


def limit_failure(
    code: str, limits: Limits, detail: object = "", progress: ScriptProgress | None = None, hint: str | None = None
) -> Failure:
    """The failure for a script that ended with `code`, and how far it had come where that is known. `hint` stands in
    place of the usual one."""
    limit = LIMIT_MESSAGES[code]
    fields = {"detail": detail, "longest_result": limits.longest_result, **msgspec.structs.asdict(limits)}
    hint = hint or limit.failure.hint
    if progress is not None and limit.progress:
        hint = f"{limit.progress.format(**fields, **progress._asdict())} {hint}"
    return msgspec.structs.replace(limit.failure, message=limit.message.format(**fields), hint=hint)


def _at(failure: Failure, position: Position | None) -> Failure:
    return failure if position is None else msgspec.structs.replace(failure, line=position[0], column=position[1])


class LimitMessage(NamedTuple):
    """What is reported when a script exceeds one limit. `message` may name fields of `Limits`, and `longest_result`."""

    failure: Failure
    message: str
    progress: str = ""
    """How far the script had come: stands before the hint, and may name fields of `Limits` and `ScriptProgress`."""


def _limit(code: str, message: str, hint: str, progress: str = "") -> LimitMessage:
    # The code is checked where the frame is decoded; a test sends every one of them.
    failure = msgspec.convert({"status": "runtime_error", "code": code, "hint": hint}, Failure)
    return LimitMessage(failure, message, progress)


LIMIT_MESSAGES: Final = {
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
