"""One script in one fresh engine. The only module that touches QuickJS.

The realm is built from the policy table (`prelude.js` keeps what the table lists and takes away the rest), then the
instrumented script runs until it waits for tool calls, settles, or is stopped. No timer and no thread of the engine:
what runs is decided here, job by job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, Protocol, cast

import _quickjs as quickjs  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from codecall.sandbox.agentscript.diagnosis.dataflow import CallEntry, CallHistory
from codecall.sandbox.agentscript.diagnosis.report import (
    FailureReport,
    Position,
    ScriptProgress,
    ThrownError,
    script_position,
)
from codecall.sandbox.agentscript.engine.memory import HeapGauge, release_memory
from codecall.sandbox.agentscript.instrument import InstrumentedScript
from codecall.sandbox.agentscript.policy import (
    GLOBALS,
    META_TOOLS,
    NEVER_MEMBERS,
    RUNTIME_NAMES,
    Rules,
    allowed_members,
    inherited,
)
from codecall.sandbox.agentscript.validator.names import AskHost, AskTopic
from codecall.sandbox.wire import MAX_CALLS_PER_FRAME, MAX_NAME_LENGTH, MAX_URI_LENGTH, Answer, Call, Failure, Limits

# ----------------------------------------------------------------------------------------------------
# The policy table as the prelude wants it: what to keep, what to take away, and the limits it counts itself.

_CONFIGURATIONS: dict[Limits, str] = {}

_OF_FUNCTIONS = frozenset({"length", "name", "prototype"})
"""What every function has of its own; the guard keeps scripts from naming `prototype`."""

_FOR_THE_ENGINE = {"Promise": frozenset({"@@species"})}
"""What no script can name and the engine's own methods do not work without (`finally`)."""


def _kept_of(name: str, rules: Rules) -> frozenset[str]:
    """What the realm leaves of a global itself."""
    return _OF_FUNCTIONS.union(allowed_members(name, rules) or (), _FOR_THE_ENGINE.get(name, ()))


def _set(names: Iterable[str]) -> dict[str, int]:
    """A set of names as the prelude looks things up."""
    return dict.fromkeys(sorted(names), 1)


def configuration(limits: Limits, overflow_message: str) -> str:
    """The prelude's configuration for these limits; a worker sees few different ones."""
    if (known := _CONFIGURATIONS.get(limits)) is None:
        rules = Rules.from_limits(limits)
        kept = [name for name, row in GLOBALS.items() if rules.permit(row.verdict) and name not in RUNTIME_NAMES]
        folded = {name.lower().replace(":", separator): 1 for name in META_TOOLS for separator in ":_"}
        known = msgspec.json.encode(
            {
                "globals": {name: _set(_kept_of(name, rules)) for name in kept},
                "prototypes": {name: _set(names) for name, names in inherited(rules).items()},
                "metaTools": folded,
                "neverMembers": _set(NEVER_MEMBERS),
                "overflowMessage": overflow_message,
                "clock": limits.allow_clock,
                "regex": limits.allow_regex,
                "console": limits.allow_console,
                "maxToolCalls": limits.max_tool_calls,
                "maxName": MAX_NAME_LENGTH,
                "maxUri": MAX_URI_LENGTH,
                "maxInput": limits.max_result_bytes,
                "sanitize": {
                    "depth": limits.sanitize_max_depth,
                    "properties": limits.sanitize_max_properties,
                    "string": limits.sanitize_max_string,
                    "array": limits.sanitize_max_array,
                },
            }
        ).decode()
        if len(_CONFIGURATIONS) > 16:
            _CONFIGURATIONS.clear()
        _CONFIGURATIONS[limits] = known
    return known


# ----------------------------------------------------------------------------------------------------
# One script in one fresh engine. The only module that touches QuickJS.

# The package `quickjs` starts a thread when it is imported, which a process that forks and is jailed must not have;
# this is the engine it wraps.


class _Engine(Protocol):
    """The part of `quickjs.Context` that is used; the binding has no types."""

    def add_callable(self, name: str, function: Callable[..., object]) -> None: ...
    def eval(self, text: str) -> Callable[..., Callable[..., float]]: ...
    def execute_pending_job(self) -> bool: ...
    def set_max_stack_size(self, size: int) -> None: ...
    def set_memory_limit(self, size: int) -> None: ...


_new_engine = cast("Callable[[], _Engine]", quickjs.Context)
_EngineError = cast("type[Exception]", quickjs.JSException)  # pyright: ignore[reportUnknownMemberType]

STACK_BYTES = 4 * 1024 * 1024
"""Engine stack: some 2,500 nested calls. The thread's own is 8 MiB, and native code needs room below this."""

CHECKPOINT_STEPS = 4096
"""Loop turns and function entries between two looks at the clock: well under a millisecond of script."""

JOBS_PER_LOOK = 256
"""Promise jobs between two looks at the clock: a chain of them need not run a line of the script's."""

MAX_PLACES = 64
"""Stacks whose place in the script is remembered."""

# The engine compiles it for every script: what is there for readers is taken out first. No text of it spans lines.
_PRELUDE, _ENGLISH, _REFERENCES = (
    re.sub(r"(?m)^\s*(?://.*)?\n?", "", (Path(__file__).parent / name).read_text(encoding="utf-8"))
    for name in ("prelude.js", "english.js", "references.js")
)
_OF_ENGLISH = re.compile("toLocale|localeCompare")
"""What a script says that needs `english.js`. The guard has seen to it that names are written without escapes."""
_HOST_FUNCTIONS = ("$post", "$ask", "$log", "$stop", "$checkpoint", "$finish", "$fail", "$exhausted", "$ran")

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
        ask: Answers with JSON text or None: what `getTool(name)` gives, or about namespaces; may block.
        clock: Milliseconds of the script's own time so far, counting from the first turn.
    """

    def __init__(self, limits: Limits, ask: AskHost, clock: Callable[[], float]) -> None:
        self.limits = limits
        """What it was built for."""
        self.ask = ask
        """Asks whoever knows the tools."""
        self._clock = clock
        self.calls: list[Call] = []
        """Tool calls made since they were last taken away."""
        self.logs: list[str] = []
        """Console lines since they were last taken away."""
        self.covered_lines: list[int] = []
        """Lines that ran, each told once, since they were last taken away; only of a program that tells."""
        self.outcome: ScriptOutcome | None = None
        """Set once the script has ended."""
        self.pending_calls = 0
        """Tool calls without an answer."""
        self.steps = 0
        """Loop turns and function entries at the last look."""
        self.started = False
        """Whether a script has been in it."""
        self._console_calls = 0
        self._console_bytes = 0
        self._journal = CallHistory()
        self._places: dict[str, Position | tuple[None, None]] = {}
        self._program: InstrumentedScript | None = None
        self._engine, self._operate = self._build()
        self._heap = HeapGauge()

    def rebind(self, ask: AskHost, clock: Callable[[], float]) -> None:
        """Ask and count elsewhere from now on: for an engine that was built in the process this one was forked from."""
        self.ask, self._clock, self._heap = ask, clock, HeapGauge()

    # ------------------------------------------------------------------------------------------------ building

    def _build(self) -> tuple[_Engine, Callable[..., float]]:
        limits = self.limits
        engine = _new_engine()
        engine.set_memory_limit(limits.memory_mb * 1024 * 1024)
        engine.set_max_stack_size(STACK_BYTES)
        for name in _HOST_FUNCTIONS:
            engine.add_callable(name, getattr(self, "_host_" + name[1:]))
        return engine, engine.eval(_PRELUDE)(configuration(limits, _overflow_message()))

    # ------------------------------------------------------------------------------------------------- running

    def start(
        self,
        program: InstrumentedScript,
        *,
        form: str,
        context: str | None,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Run the script until it waits, settles or is stopped. `context` is JSON text of an object, `spaces` are the
        namespaces it uses, with the members that are known of them."""
        self._program, self.started = program, True
        self._heap = HeapGauge()
        try:
            if _OF_ENGLISH.search(program.text):
                self._operate("english", self._engine.eval(_ENGLISH))
            if "reference" in program.text:
                self._operate("references", self._engine.eval(_REFERENCES))
            body = self._engine.eval(program.text)
        except _EngineError as error:
            # The binding tells the kind of an error by its text alone.
            if str(error).startswith("SyntaxError"):
                self._end(ScriptOutcome(failure=self._autopsy().syntax_failure(str(error))))
            else:
                self._stop("WORKER_MEMORY_EXCEEDED")
            return
        self._turn("run", body, context or "{}", form, msgspec.json.encode(namespaces or {}).decode())

    def resume(self, answers: list[Answer]) -> None:
        """Give the script the answers to its calls and run it until it waits again."""
        for answer in answers:
            self.pending_calls -= 1
            if self._stopped():
                continue
            self._journal.add_answer(answer)
            if self.outcome is not None and not answer.ok:
                self.outcome.warnings.append(self._autopsy().unawaited_failure_warning(answer.call))
            self._turn("settle", answer.call, answer.ok, answer.payload, answer.reference)

    def take_calls(self, budget: int) -> list[Call]:
        """The tool calls not yet taken, in order, as many as fit into `budget` bytes and one frame; at least one."""
        size = count = 0
        for call in self.calls[:MAX_CALLS_PER_FRAME]:
            size += sum(len(text) if text.isascii() else len(text.encode()) for text in (call.name, call.input))
            if count and size > budget:
                break
            count += 1
        taken, self.calls = self.calls[:count], self.calls[count:]
        return taken

    def _turn(self, *operation: object) -> None:
        try:
            self._operate(*operation)
            jobs = 0
            while not self._stopped() and self._engine.execute_pending_job():
                jobs += 1
                if jobs % JOBS_PER_LOOK == 0 and self._clock() > self.limits.timeout_ms:
                    self._stop("TIMEOUT")
        except _EngineError:
            # Nothing the script throws arrives here: promises catch it. What does is the engine giving up.
            self._stop("WORKER_MEMORY_EXCEEDED")
        if self.outcome is None and self.pending_calls == 0:
            self._never_settles()

    def _stopped(self) -> bool:
        return self.outcome is not None and self.outcome.failure is not None

    def count_steps(self) -> int:
        """Loop turns and function entries so far."""
        if self._program is not None and not self._stopped():
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

    def _autopsy(self) -> FailureReport:
        return FailureReport(self._program, self.limits, self._journal, self.limits.timeout_ms - self._clock())

    def _stop(self, code: str, detail: object = "", stack: str = "") -> None:
        progress = ScriptProgress(self.steps, self._console_calls, self._console_bytes)
        failure = self._autopsy().limit_failure(code, progress, detail, stack)
        self._end(ScriptOutcome(failure=failure, reusable=code != "WORKER_MEMORY_EXCEEDED"))

    def _never_settles(self) -> None:
        # A promise is also left unsettled by an engine without the memory to settle it.
        self._stop("WORKER_MEMORY_EXCEEDED" if self._host_exhausted() else "DEADLOCK")

    # -------------------------------------------------------------------------------- called by the prelude
    # The binding turns an exception raised here into a crash of the interpreter, so none of these may raise.

    def _host_post(
        self, call: int, kind: Literal["tool", "resource", "prompt", "result"], arguments: str, made: str
    ) -> None:
        told = _decode_json(made, type=CallEntry)
        self.calls.append(Call(call, told.name, arguments, kind, told.reference, *self._place(told.stack)))
        self._journal.add_call(int(call), told)
        self.pending_calls += 1

    def _place(self, stack: str) -> Position | tuple[None, None]:
        """Where a call was made; the same few places again and again."""
        if (place := self._places.get(stack)) is None:
            found = None if self._program is None else script_position(self._program, stack)
            place = found or (None, None)
            if len(self._places) < MAX_PLACES:
                self._places[stack] = place
        return place

    def _host_ask(self, name: str, about: AskTopic, member: str) -> str | None:
        return self.ask(_decode_json(name), about, _decode_json(member))

    def _host_log(self, line: str) -> bool:
        text = str(_decode_json(line))
        self._console_calls += 1
        self._console_bytes += len(text.encode())
        limits = self.limits
        if self._console_calls > limits.max_console_calls or self._console_bytes > limits.max_console_bytes:
            return False
        self.logs.append(text)
        return True

    def _host_checkpoint(self, steps: int) -> int:
        self.steps = int(steps)
        if self.steps > self.limits.max_steps:
            return -1
        if self._clock() > self.limits.timeout_ms:
            return -2
        return min(self.steps + CHECKPOINT_STEPS, self.limits.max_steps)

    def _host_stop(self, code: str, detail: str, stack: str) -> None:
        self._stop(code, _decode_json(detail), stack)

    def _host_finish(self, value: str, notes: str) -> None:
        size = len(value.encode())
        if size > self.limits.longest_result:
            self._stop("OUTPUT_LIMIT", size)
        else:
            autopsy = self._autopsy()
            told = [*_decode_json(notes), *autopsy.unawaited_call_warnings(), *autopsy.nothing_returned_warnings(value)]
            self._end(ScriptOutcome(value=value, warnings=told))

    def _host_fail(self, report: str) -> None:
        told = _decode_json(report, type=ThrownError)
        if told.kind == "memory":
            self._stop("WORKER_MEMORY_EXCEEDED")
        else:
            self._end(ScriptOutcome(failure=self._autopsy().thrown_failure(told)))

    def _host_ran(self, line: int) -> None:
        self.covered_lines.append(int(line))

    def _host_exhausted(self) -> bool:
        return self._heap.grew_by(self.limits.memory_mb * 1024 * 1024)


@cache
def _overflow_message() -> str:
    """What this engine says when its stack is exhausted, asked of the engine itself."""
    dive = "(() => { const dive = () => 1 + dive(); try { dive() } catch (error) { return error.message } })()"
    return str(_new_engine().eval(dive))
