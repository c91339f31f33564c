"""Runs one script in one fresh engine. The only module that touches QuickJS.

The realm is built from the policy table (`prelude.js` keeps what the table lists and deletes the rest), then the
instrumented script runs until it waits for tool calls, settles, or is stopped. No timer and no thread of the engine:
what runs is decided here, job by job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Final, Literal, Protocol, TypeAlias, cast

import _quickjs as quickjs  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from codecall.sandbox.agentscript.checked import Position
from codecall.sandbox.agentscript.diagnosis.calls import CallEntry, CallHistory, CallWarnings
from codecall.sandbox.agentscript.diagnosis.flow.paths import ValuePath
from codecall.sandbox.agentscript.diagnosis.flow.values import CONTEXT
from codecall.sandbox.agentscript.diagnosis.lookups import missed_lookups
from codecall.sandbox.agentscript.diagnosis.nothing import (
    misread_before_failure,
    misread_properties,
    mistaken_values,
    nothing_returned,
)
from codecall.sandbox.agentscript.diagnosis.reads.declared import declares
from codecall.sandbox.agentscript.diagnosis.report import Ending, FailureReport, ScriptProgress, ThrownError
from codecall.sandbox.agentscript.diagnosis.request import warn_of_context
from codecall.sandbox.agentscript.diagnosis.unknown_tools import MAX_UNKNOWN_TOOLS, meant_tool, unknown_tool_warnings
from codecall.sandbox.agentscript.engine.bytecode import defer_collection, load
from codecall.sandbox.agentscript.engine.console import Console
from codecall.sandbox.agentscript.engine.heap import HeapGauge, release_memory
from codecall.sandbox.agentscript.engine.prelude import LOCALE, NEEDS_LOCALE, REFERENCES, runtime_text
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.agentscript.validator.names import AskHost, AskTopic
from codecall.sandbox.wire import Answer, Call, Failure, Limits, calls_that_fit, has_large_integer, utf8_length

_NoPosition: TypeAlias = tuple[None, None]
Clock: TypeAlias = Callable[[], float]

STACK_BYTES: Final = 4 * 1024 * 1024
"""Engine stack: some 2,500 nested calls. The thread's own is 8 MiB, and native code needs room below this."""

SMALL_STACK_BYTES: Final = 128 * 1024
"""Engine stack where it is exhausted on purpose: pages once used stay with every process forked later."""

CHECKPOINT_STEPS: Final = 4096
"""Loop turns and function entries between two looks at the clock: well under a millisecond of script."""

JOBS_PER_CHECK: Final = 256
"""Promise jobs between two looks at the clock: a chain of them need not run a line of the script's."""

MAX_POSITIONS: Final = 64
"""Stacks whose position in the script is remembered."""

_HOST_FUNCTIONS: Final = (
    *("$post", "$ask", "$log", "$stop", "$checkpoint", "$finish", "$fail", "$exhausted", "$ran"),
    "$large",
)

_decode_json = msgspec.json.decode


@dataclass(slots=True)
class ScriptOutcome:
    """How the script ended: `value` (JSON text) or `failure`."""

    value: str | None = None
    failure: Failure | None = None
    warnings: list[str] = field(default_factory=list[str])
    reusable: bool = True


class Realm:
    """A fresh engine with the AgentScript runtime in it, for exactly one script.

    Building one takes about as long as a short script takes to run, so the worker builds the next one while it waits.

    Args:
        limits: The preset's numbers.
        ask: Asks the host, for `getTool(name)` or about namespaces: JSON text or None; may block.
        clock: Milliseconds of the script's own time so far, counting from the first turn.
        stack_bytes: Bytes of the engine's stack.
    """

    def __init__(self, limits: Limits, ask: AskHost, clock: Clock, *, stack_bytes: int = STACK_BYTES) -> None:
        self.limits = limits
        """The limits it was built for."""
        self.ask = ask
        """Asks the host, which knows the tools."""
        self._clock = clock
        self.calls: list[Call] = []
        """Tool calls since they were last taken."""
        self.console = Console(limits)
        """What the script prints."""
        self.covered_lines: list[int] = []
        """Lines that ran for the first time since they were last taken; only with line coverage."""
        self.outcome: ScriptOutcome | None = None
        """Set once the script has ended."""
        self.pending_calls = 0
        """Tool calls without an answer."""
        self.steps = 0
        """Loop turns and function entries at the last check."""
        self.started = False
        """Whether a script has run in it."""
        self._raced = frozenset[int]()
        """Calls of a script that has ended, of which it wanted only the first to end."""
        self._calls = CallHistory()
        self._unknown_tools: dict[str, None] = {}
        """The tools that `getTool` was asked for in vain."""
        self._described: dict[str, str | None] = {}
        """What the host says of tools, and of their answers."""
        self._positions: dict[str, Position | _NoPosition] = {}
        self._program: InstrumentedScript | None = None
        self._context: str | None = None
        self._engine, self._operate = self._build(stack_bytes)
        self._heap = HeapGauge()

    def rebind(self, ask: AskHost, clock: Clock) -> None:
        """Use another `ask` and `clock`, for an engine that was built in the process this one was forked from."""
        self.ask, self._clock, self._heap = ask, clock, HeapGauge()

    def _build(self, stack_bytes: int) -> tuple[_Engine, Callable[..., float]]:
        limits = self.limits
        engine = _new_engine()
        engine.set_memory_limit(limits.memory_mb * 1024 * 1024)
        engine.set_max_stack_size(stack_bytes)
        defer_collection(engine)
        for name in _HOST_FUNCTIONS:
            engine.add_callable(name, getattr(self, "_host_" + name[1:]))
        return engine, load(engine, runtime_text(limits, _overflow_message(), _find_removals))

    def start(
        self,
        program: InstrumentedScript,
        *,
        context: str | None,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Run the script until it waits, settles or is stopped.

        Args:
            program: the script.
            context: JSON text of the object `codecallContext`.
            namespaces: the namespaces it uses; see `CheckedScript.namespaces`.
        """
        self._program, self._context, self.started = program, context, True
        self._calls.reads = program.ending.reads
        self._heap = HeapGauge()
        try:
            if NEEDS_LOCALE.search(program.text):
                self._operate("locale", load(self._engine, LOCALE))
            if "reference" in program.text:
                self._operate("references", load(self._engine, REFERENCES))
            if program.integers:
                self._operate("integers", msgspec.json.encode(program.integers).decode())
            body = self._engine.eval(program.text)
        except _EngineError as error:
            # The binding tells the kind of an error by its text alone.
            if str(error).startswith("SyntaxError"):
                self._end(ScriptOutcome(failure=self._failure_report().syntax_failure(str(error))))
            else:
                self._stop("WORKER_MEMORY_EXCEEDED")
            return
        self._turn("run", body, context or "{}", program.form, msgspec.json.encode(namespaces or {}).decode())

    def resume(self, answers: list[Answer]) -> None:
        """Give the script the answers to its calls and run it until it waits again."""
        for answer in answers:
            self.pending_calls -= 1
            if self._has_failed():
                continue
            self._calls.add_answer(answer)
            if self.outcome is not None and not answer.ok and answer.call not in self._raced:
                self.outcome.warnings.append(self._call_warnings().unawaited_failure(answer.call))
            large = has_large_integer(answer.payload)
            self._turn("settle", answer.call, answer.ok, answer.payload, answer.reference, large)

    def drain_calls(self, budget: int) -> list[Call]:
        """The tool calls not yet taken, in order, as many as fit into `budget` bytes and one frame; at least one."""
        count = calls_that_fit(self.calls, budget)
        batch, self.calls = self.calls[:count], self.calls[count:]
        return batch

    def _turn(self, *operation: object) -> None:
        try:
            self._operate(*operation)
            jobs = 0
            while not self._has_failed() and self._engine.execute_pending_job():
                jobs += 1
                if jobs % JOBS_PER_CHECK == 0 and self._clock() > self.limits.timeout_ms:
                    self._stop("TIMEOUT")
        except _EngineError:
            # Nothing the script throws arrives here: promises catch it. What does is the engine giving up.
            self._stop("WORKER_MEMORY_EXCEEDED")
        if self.outcome is None and self.pending_calls == 0:
            self._never_settles()

    def _has_failed(self) -> bool:
        return self.outcome is not None and self.outcome.failure is not None

    def count_steps(self) -> int:
        """Loop turns and function entries so far."""
        if self._program is not None and not self._has_failed():
            try:
                self.steps = max(self.steps, int(self._operate("steps")))
            except _EngineError:
                self._stop("WORKER_MEMORY_EXCEEDED")
        return self.steps

    def close(self) -> None:
        """Free the engine now: it and this object hold each other."""
        del self._engine, self._operate
        release_memory()

    def _end(self, outcome: ScriptOutcome) -> None:
        if self.outcome is None or (self.outcome.failure is None and outcome.failure is not None):
            self.outcome = outcome

    def _failure_report(self) -> FailureReport:
        program, calls, room_ms = self._program, self._calls, self._room_ms
        misread = partial(misread_before_failure, program, calls, room_ms, declares=self._declares)
        meant = partial(meant_tool, self._unknown_tools, self.ask)
        return FailureReport(program, self.limits, calls, room_ms, self._context, misread=misread, meant_tool=meant)

    def _call_warnings(self) -> CallWarnings:
        return CallWarnings(self._program, self._calls, self._room_ms)

    @property
    def _room_ms(self) -> float:
        """Milliseconds of its own time that the script has left."""
        return self.limits.timeout_ms - self._clock()

    def _stop(self, code: str, detail: object = "", stack: str = "") -> None:
        progress = ScriptProgress(self.steps)
        failure = self._failure_report().limit_failure(code, progress, detail, stack)
        self._end(ScriptOutcome(failure=failure, reusable=code != "WORKER_MEMORY_EXCEEDED"))

    def _never_settles(self) -> None:
        self.count_steps()
        # A promise is also left unsettled by an engine without the memory to settle it.
        self._stop("WORKER_MEMORY_EXCEEDED" if self._host_exhausted() else "DEADLOCK")

    # The binding turns an exception raised here into a crash of the interpreter, so none of these may raise.

    def _host_post(
        self,
        call: int,
        kind: Literal["tool", "resource", "prompt", "result", "extract"],
        arguments: str,
        entry_json: str,
    ) -> None:
        entry = _decode_json(entry_json, type=CallEntry)
        size = utf8_length(arguments)
        oversize = size if size > self.limits.max_tool_input_bytes else 0
        place = self._position(entry.stack)
        self.calls.append(
            Call(call, entry.name, "{}" if oversize else arguments, kind, entry.reference, *place, oversize)
        )
        self._calls.add_call(int(call), entry, arguments)
        self.pending_calls += 1

    def _position(self, stack: str) -> Position | _NoPosition:
        """Where a call was made; the same few places again and again."""
        if (position := self._positions.get(stack)) is None:
            position = (None if self._program is None else self._program.position_in_stack(stack)) or (None, None)
            if len(self._positions) < MAX_POSITIONS:
                self._positions[stack] = position
        return position

    def _host_ask(self, name: str, about: AskTopic, member: str) -> str | None:
        tool = str(_decode_json(name))
        answer = self.ask(tool, about, _decode_json(member))
        if about == "tool" and answer is None and len(self._unknown_tools) < MAX_UNKNOWN_TOOLS:
            self._unknown_tools[tool] = None
        return answer

    def _host_log(self, line: str) -> bool:
        return self.console.add(str(_decode_json(line)))

    def _host_checkpoint(self, steps: int) -> int:
        self.steps = int(steps)
        if self.steps > self.limits.max_steps:
            return -1
        if self._clock() > self.limits.timeout_ms:
            return -2
        return min(self.steps + CHECKPOINT_STEPS, self.limits.max_steps)

    def _host_stop(self, code: str, detail: str, stack: str) -> None:
        self._stop(code, _decode_json(detail), stack)

    def _host_finish(self, value: str, report: str) -> None:
        size = utf8_length(value)
        if size > self.limits.longest_result:
            self._stop("OUTPUT_LIMIT", size)
        else:
            ending = _decode_json(report, type=Ending)
            warnings = [*ending.notes, *self._call_warnings().at_end(ending.raced)]
            self._raced = frozenset(ending.raced)
            if self._program is not None:
                try:
                    warnings = self._with_advice(warnings, self._program, ending, value)
                except Exception as failure:
                    warnings.append(f"This script was not looked through for mistakes ({type(failure).__name__}).")
            self._end(ScriptOutcome(value=value, warnings=warnings))

    def _with_advice(self, warnings: list[str], program: InstrumentedScript, ending: Ending, value: str) -> list[str]:
        """The warnings, with those about what a script that has ended well makes of its answers."""
        if ending.lacks_values or program.ending.mistaken_callbacks:
            warnings += nothing_returned(program, self._calls, ending, self._room_ms)
        shows_undefined = "undefined" in value or self._calls.shows_undefined
        warnings += missed_lookups(program, ending.misses, value, self._calls) if "undefined" in value else ()
        if self._calls.may_misread(program.script, shows_undefined=shows_undefined):
            misread = misread_properties(
                program, self._calls, ending.missing, self._room_ms, self._declares, shows_undefined=shows_undefined
            )
            said = "".join(warnings)
            warnings += [text for text in misread if f"{text.partition(' on line')[0]} on line" not in said]
        warnings += self._call_warnings().refused("\n".join((value, *warnings)))
        warnings += self._call_warnings().unread_errors(value)
        if self._unknown_tools:
            warnings += unknown_tool_warnings(self._unknown_tools, self.ask, program.script)
        if self._calls.may_mistake(program.script, value):
            warnings += mistaken_values(program, self._calls, value, self._room_ms)
        if CONTEXT in program.script:
            warnings = warn_of_context(warnings, program, self._context, self._room_ms)
        return warnings

    def _declares(self, tool: str, path: ValuePath, name: str) -> bool:
        if tool not in self._described:
            self._described[tool] = self.ask(tool, "answers", "")
        return declares(self._described[tool], path, name)

    def _host_fail(self, report: str) -> None:
        error = _decode_json(report, type=ThrownError)
        if error.kind == "memory":
            self._stop("WORKER_MEMORY_EXCEEDED")
        else:
            self._end(ScriptOutcome(failure=self._failure_report().thrown_failure(error)))

    def _host_large(self, text: str) -> bool:
        return has_large_integer(text)

    def _host_ran(self, line: int) -> None:
        self.covered_lines.append(int(line))

    def _host_exhausted(self) -> bool:
        return self._heap.grew_by(self.limits.memory_mb * 1024 * 1024)


# The package `quickjs` starts a thread, which a process that forks must not have; this is the engine it wraps.


class _Engine(Protocol):
    """The part of `quickjs.Context` that is used; the binding has no types."""

    def add_callable(self, name: str, function: Callable[..., object]) -> None: ...
    def eval(self, text: str) -> Callable[..., Callable[..., float]]: ...
    def execute_pending_job(self) -> bool: ...
    def set_max_stack_size(self, size: int) -> None: ...
    def set_memory_limit(self, size: int) -> None: ...


_new_engine = cast("Callable[[], _Engine]", quickjs.Context)
_EngineError = cast("type[Exception]", quickjs.JSException)  # pyright: ignore[reportUnknownMemberType]


@cache
def _overflow_message() -> str:
    """The engine's message for an exhausted stack, asked of the engine itself."""
    dive = "(() => { const dive = () => 1 + dive(); try { dive() } catch (error) { return error.message } })()"
    engine = _new_engine()
    engine.set_max_stack_size(SMALL_STACK_BYTES)
    return str(engine.eval(dive))


def _find_removals(text: str) -> str:
    """What the realm that `text` builds has deleted, as JSON text."""
    engine = _new_engine()
    for name in _HOST_FUNCTIONS:
        engine.add_callable(name, print)  # never called: nothing runs in it
    return str(engine.eval(text)("removals"))
