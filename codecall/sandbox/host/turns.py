"""The turn loop: one script, one worker, from Start to Done.

It trusts nothing the worker says. What the worker may do at each moment is in `wire.py`; whatever else it does ends the
run with MESSAGE_INVALID (or a nearer code), and the pool kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import msgspec

from codecall.envelopes import CallRecord, ExecutionResult, Stats
from codecall.errors import (
    CodeCallError,
    LimitExceeded,
    MessageFloodError,
    MessageValidationError,
    ScriptTimeoutError,
    SelfReferenceError,
    ToolCallError,
    WorkerTimeoutError,
)
from codecall.errors.hints import add_default_hint
from codecall.jsonio.decode import utf8_length
from codecall.sandbox import wire
from codecall.sandbox.host.dispatch import CallDispatcher, ConcurrentCalls
from codecall.sandbox.host.outcomes import (
    LineCoverage,
    RawResult,
    check_large_result,
    decode_result,
    error_from_failure,
    limit_warnings,
    raw_result,
)
from codecall.sandbox.host.preflight import Preflight, QuestionHandler, dry_run_report
from codecall.sandbox.host.process import WorkerProcess
from codecall.sandbox.host.references import NO_REFERENCES, ReferenceLimits, resolve_result
from codecall.sandbox.interfaces import BLOCK_REFERENCE, NO_HOOKS, ResultPlace, RunHooks, ToolBroker
from codecall.sandbox.starlark import policy as starlark

WATCHDOG_GRACE_MS = 150
"""How long after its deadline a worker may still report by itself before it is killed, in milliseconds."""

SPIN_S = 0.0001
"""How long the event loop looks for the answer of the only script that runs, in seconds: twice what a short turn takes,
and a two-hundredth of what the event loop may be held up."""

PREPARE_MS = 50
"""How long a broker may read ahead, in milliseconds: with the grace above, a worker that overruns is still killed
within 250 ms, the contract's number."""

LATENCY_MS = 150
"""What of each turn, as the server measures it, is not held against the script, in milliseconds: the worker's frame may
wait for the event loop, and the server's for the processor."""


@dataclass(slots=True, eq=False)
class ScriptRun:
    """One run of a script: what is known while it runs, and what remains when it is cut short."""

    worker: WorkerProcess
    broker: ToolBroker
    limits: wire.Limits
    max_duration_ms: int
    hooks: RunHooks = NO_HOOKS
    reference_limits: ReferenceLimits = NO_REFERENCES
    """How much of its values may stay outside the engine."""
    logs: list[str] = field(default_factory=list[str])
    dropped_lines: int = 0
    """Console lines that had no room in the worker."""
    steps: int = 0
    script_ms: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    dispatcher: CallDispatcher = field(init=False)
    """Performs its calls."""
    coverage: LineCoverage = field(default_factory=LineCoverage)
    questions: QuestionHandler = field(init=False)
    """Answers what its worker asks within a turn."""
    emitted: dict[str, None] = field(default_factory=dict[str, None])
    """References of the content blocks that its answer shows, in order."""
    oversized: RawResult | None = None
    """Its result, if it is too large for an answer; to be stored once the worker is free."""
    _turns_ms: float = 0.0
    _log_bytes: int = 0
    _validated: bool = False
    _planned: bool = False
    """Whether the first frame, which may carry a plan, has come."""
    _duration_scope: anyio.CancelScope | None = None
    _abort_error: CodeCallError | None = None
    _starlark: bool = False

    def __post_init__(self) -> None:
        self.questions = QuestionHandler(self.broker, self._emit)
        self.dispatcher = CallDispatcher(self.broker, self.limits, self.hooks, self.reference_limits)

    def stats(self) -> Stats:
        """The counters so far."""
        duration_ms = (time.perf_counter() - self.started) * 1000.0
        return Stats(duration_ms, min(self.script_ms, duration_ms), len(self.dispatcher.log.calls), self.steps)

    def calls(self) -> tuple[CallRecord, ...]:
        """The calls so far."""
        return tuple(self.dispatcher.log.calls.values())

    def failed(self, error: CodeCallError, call: int | None = None) -> ExecutionResult:
        """The result of a run that ended with `error`, with its console so far, and what became of its calls in the
        hint.

        Args:
            error: Why it failed.
            call: Number of the call whose error it is, if it is one's.
        """
        hints = starlark.DEFAULT_HINTS if self._starlark else {}
        add_default_hint(error, self.dispatcher.log.summary(call), hints)
        return ExecutionResult(
            error.status,
            error=error,
            logs=self._console(),
            stats=self.stats(),
            calls=self.calls(),
            blocks=tuple(self.emitted),
        )

    def _emit(self, reference: str) -> bool:
        """Show the content block with this reference in the answer; whether there is one."""
        if self.hooks.blocks is None:
            exists = BLOCK_REFERENCE.fullmatch(reference) is not None
        else:
            exists = (blocks := self.hooks.blocks()) is not None and blocks.knows(reference)
        if exists:
            self.emitted[reference] = None
        return exists

    async def execute(self, start: wire.Start) -> ExecutionResult:
        """Drive the worker from `start` to the end of the script.

        Raises:
            WorkerError: the worker broke the protocol, died or had to be given up; the caller reports it with `failed`.
        """
        self._starlark = start.starlark is not None
        self.worker.pipe.longest_frame = wire.longest_frame(self.limits)
        self.coverage.expect(start)
        preflight = Preflight(self.broker, start)
        with anyio.move_on_after(self.max_duration_ms / 1000) as self._duration_scope:
            if self.hooks.clock is not None:
                self.hooks.clock.attach(self._duration_scope)
            try:
                await self._send(start)
                if "callTool" in start.script:
                    await self._prepare()
                message = await self._turn()
                if start.dry_run:
                    return await self._finish_dry_run(message, start, preflight)
                plan = None if _ended_by_limit(message) else message.plan
                if plan is not None and (error := await preflight.error(plan)) is not None:
                    return await self._abandon(message, error)
                if self.hooks.on_plan is not None and isinstance(message, wire.Calls):
                    try:
                        await self.hooks.on_plan(partial(preflight.foresee, plan))
                    except ToolCallError as error:
                        return await self._abandon(message, error)
                while isinstance(message, wire.Calls):
                    message = await self._perform(message)
                return await self._finish(message, preflight)
            except (SelfReferenceError, ToolCallError) as error:
                # A tool's failure reaches the script, but for one of `getTool`, which has no way to fail.
                self.worker.retired = True
                return self.failed(error)
            finally:
                self.dispatcher.references.close()
        # Only the scope's own cancellation ends up here; any other has left by its exception.
        self.worker.retired = True
        return self.failed(
            self._abort_error
            or ScriptTimeoutError(
                f"Script exceeded the total duration limit of {self.max_duration_ms}ms",
                hint=starlark.DURATION_HINT
                if self._starlark
                else "Make fewer or faster tool calls, run them side by side with `Promise.all`, or split the work.",
            )
        )

    def abort(self, error: CodeCallError) -> None:
        """End it with `error`, whatever it waits for."""
        self._abort_error = error
        if self._duration_scope is not None:
            self._duration_scope.cancel()

    async def store_oversized(self, result: ExecutionResult) -> ExecutionResult:
        """`result` with what is too large for it stored elsewhere. What cannot be stored is in the answer as far as the
        preset allows; else the run has failed."""
        raw, self.oversized = self.oversized, None
        if raw is None or result.error is not None:
            return result
        try:
            stored = await self._place.keep(raw.text, raw.size)
            if not isinstance(stored, str):
                return replace(result, large=stored)
            value = await decode_result(raw.text, self.limits, has_values=True)
            return replace(result, value=value, value_bytes=raw.size, warnings=(*result.warnings, stored))
        except CodeCallError as error:
            return self.failed(error)

    @property
    def _place(self) -> ResultPlace:
        return ResultPlace(None if self.hooks.whole_result else self.hooks.results, self.limits.max_result_bytes)

    async def _prepare(self) -> None:
        """Let the broker get ready while the worker checks the script; what fails here fails again at the call."""
        with anyio.move_on_after(PREPARE_MS / 1000), contextlib.suppress(Exception):
            await self.broker.prepare()

    # -------------------------------------------------------------------------------------------------- turns

    async def _turn(self) -> wire.Calls | wire.Done:
        """Give the worker its turn: wait for the frame that ends it."""
        # What it says of the time it has used can only shorten the wait.
        used_ms = max(self.script_ms, self._turns_ms)
        allowed_ms = max(0.0, self.limits.timeout_ms - used_ms) + WATCHDOG_GRACE_MS
        now = asyncio.get_running_loop().time
        until = now() + allowed_ms / 1000
        while True:
            try:
                # With no other script about, going to sleep and waking up takes longer than the worker's answer.
                message = await self.worker.pipe.receive(SPIN_S if len(self.worker.peers) == 1 else 0.0, until)
            except TimeoutError:
                self.worker.retired = True
                raise WorkerTimeoutError(f"Script execution timed out after {self.limits.timeout_ms}ms") from None
            if not isinstance(message, wire.Ask):
                break
            began = now()
            await self._send(await self.questions.answer(message))
            until += now() - began  # what the server takes to answer is not the script's time
        if isinstance(message, wire.Ready):
            raise MessageValidationError("The worker sent a message out of turn")
        took_ms = allowed_ms - (until - now()) * 1000
        self._turns_ms += max(0.0, took_ms - LATENCY_MS)
        if message.plan is not None and self._planned:
            raise MessageValidationError("The worker planned a script that is running")
        self._planned = True
        self._account(message)
        return message

    async def _send(self, message: wire.ServerMessage) -> None:
        """Write to a worker that waits."""
        if self.worker.pipe.interrupts():
            raise MessageValidationError("The worker sent a message out of turn")
        await self.worker.pipe.send(message)

    def _account(self, message: wire.Calls | wire.Done) -> None:
        """Take over the counters, lines and console of a frame."""
        # Written so that NaN is refused too.
        if not 0 <= message.script_ms < 2**53:
            raise MessageValidationError("The worker sent counters that cannot be")
        self.steps = max(self.steps, message.steps)
        self.script_ms = max(self.script_ms, message.script_ms)
        if not self._validated and 0 <= message.checked_ms <= self.script_ms:
            self._validated = True
            self.hooks.observer.on_validated(message.checked_ms)
        self.coverage.add(message.lines)
        self.dropped_lines = max(self.dropped_lines, message.dropped_lines)
        if message.logs:
            self._log_bytes += sum(utf8_length(line) for line in message.logs)
            limits = self.limits
            if (
                len(self.logs) + len(message.logs) > limits.max_console_calls
                or self._log_bytes > limits.max_console_bytes
            ):
                raise MessageFloodError("The worker sent more console output than its preset allows")
            self.logs.extend(message.logs)
            self.hooks.observer.on_console(message.logs)

    def _console(self) -> tuple[str, ...]:
        """The console lines of a run that has ended, with a mark in place of those that had no room."""
        if self.dropped_lines:
            limits = self.limits
            mark = (
                f"[lines that are not here: {self.dropped_lines:,}; a script has room for "
                f"{limits.max_console_calls:,} lines and {limits.max_console_bytes:,} bytes]"
            )
            self.logs.append(mark)
            self.dropped_lines = 0
            self.hooks.observer.on_console([mark])
        return tuple(self.logs)

    # -------------------------------------------------------------------------------------------------- calls

    async def _perform(self, frame: wire.Calls) -> wire.Calls | wire.Done:
        """Perform the calls of `frame` and give the worker its next turns, until the script waits for no call."""
        dispatcher = self.dispatcher
        dispatcher.log.epoch += 1
        if len(frame.calls) == 1:
            # By far the most common turn, and a task group would cost as much as the rest of it.
            return await self._give_turn([await self._perform_alone(dispatcher.admit(frame)[0])])
        if not frame.calls:
            raise MessageValidationError("The worker waits for a tool call it has not made")
        calls = ConcurrentCalls(
            self.worker.pipe,
            records=dispatcher.log.calls,
            perform=dispatcher.perform,
            give_turn=self._give_turn,
            admit=dispatcher.admit,
        )
        return await calls.perform(frame)

    async def _perform_alone(self, call: wire.Call) -> wire.Answer:
        """Perform a call while nothing else happens; give it up when the worker that waits for it has ended."""
        with anyio.CancelScope() as scope, self.worker.pipe.watch_for_interrupt(scope.cancel):
            return await self.dispatcher.perform(call)
        raise await self.worker.pipe.interrupt_error()

    async def _give_turn(self, answers: list[wire.Answer]) -> wire.Calls | wire.Done:
        await self._send(wire.Answers(answers))
        message = await self._turn()
        if self.hooks.clock is not None:
            # The calls of this message count before anybody else comes to look.
            self.hooks.clock.count_calls(-len(answers))
        return message

    # ---------------------------------------------------------------------------------------------------- end

    async def _abandon(self, message: wire.Calls | wire.Done, error: CodeCallError) -> ExecutionResult:
        """End a script that has made no call yet with `error`."""
        if isinstance(message, wire.Calls):
            await self._send(wire.Abandon())
            message = await self._turn()
            if isinstance(message, wire.Calls):
                raise MessageValidationError("The worker runs a script that was to end")
        self.worker.retired |= not message.reusable
        return self.failed(error)

    async def _finish_dry_run(
        self, message: wire.Calls | wire.Done, start: wire.Start, preflight: Preflight
    ) -> ExecutionResult:
        """The result of a script that was only checked."""
        if isinstance(message, wire.Calls):
            raise MessageValidationError("The worker ran a script that was not to run")
        self.worker.retired |= not message.reusable
        if message.failure is not None:
            return await self._finish(message, preflight)
        if message.plan is not None:
            # The report says of all names what is known of them.
            await preflight.check(message.plan, names=False)
        value = await dry_run_report(raw_result(message, self.limits).text, start, preflight, self.broker)
        return ExecutionResult("ok", value=value, stats=self.stats(), calls=self.calls())

    async def _finish(self, done: wire.Done, preflight: Preflight) -> ExecutionResult:
        if not done.reusable:
            self.worker.retired = True
        if done.failure is not None:
            failure, dispatcher, lines = done.failure, self.dispatcher, preflight.lines
            if failure.call in dispatcher.errors and not self._starlark:
                failure = msgspec.structs.replace(failure, call=dispatcher.first_failure(failure.call, lines.source))
            return self.failed(error_from_failure(failure, dispatcher.errors, lines), failure.call)
        value: object = None
        try:
            result, reference_warnings = await resolve_result(
                raw_result(done, self.limits), self.dispatcher.references, self.limits
            )
            if self.hooks.blocks is not None and (blocks := self.hooks.blocks()) is not None:
                self.emitted.update(dict.fromkeys(await blocks.in_result(result.text)))
            if not self._place.is_inline(result.size):
                self.oversized = await check_large_result(result)
            else:
                value = await decode_result(result.text, self.limits, has_values=result.text is not done.value)
        except LimitExceeded as error:
            return self.failed(error)
        return ExecutionResult(
            "ok",
            value=value,
            logs=self._console(),
            stats=self.stats(),
            warnings=(*limit_warnings(done), *reference_warnings),
            calls=self.calls(),
            blocks=tuple(self.emitted),
            value_bytes=0 if self.oversized else result.size,
        )


def _ended_by_limit(message: wire.Calls | wire.Done) -> bool:
    """Whether a script has met a limit."""
    failure = message.failure if isinstance(message, wire.Done) else None
    return failure is not None and failure.code not in ("EXECUTION_ERROR", "TOOL")
