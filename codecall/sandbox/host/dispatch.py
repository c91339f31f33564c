"""Dispatch of a script's calls: admitted as its worker sends them, performed by the broker, noted in a call log."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

import anyio
from anyio.abc import TaskGroup

from codecall.envelopes import MAX_STORED_INPUT_CHARS, CallRecord, wait_for_calls
from codecall.errors import (
    ApprovalRequiredError,
    CodeCallError,
    ExtractionFailedError,
    InvalidInputError,
    Location,
    MessageValidationError,
    ResultNotFoundError,
    ToolCallError,
    TooManyPendingCallsError,
)
from codecall.jsonio.decode import JsonBounds, NotJsonError, TooManyContainersError, decode_json, encode_json
from codecall.sandbox import wire
from codecall.sandbox.clock import MAX_CALLS_IN_FLIGHT
from codecall.sandbox.host.outcomes import error_payload, refuse_oversize, unexpected_error
from codecall.sandbox.host.pipe import WorkerPipe
from codecall.sandbox.host.references import ReferenceLimits, ReferenceResolver, ReferenceStore
from codecall.sandbox.interfaces import RunHooks, ToolBroker
from codecall.wording import cut

MAX_BUFFERED_BYTES = 32 * 1024 * 1024
"""Bytes of input that may wait for a tool before the worker gets no further turn, and bytes of answers that may wait
for the worker before no further call starts. One frame of the first and `MAX_CALLS_IN_FLIGHT` of the second may come on
top."""

EARLIER_S: Final = 0.25
"""Seconds that the end of a script that failed by a call waits for the calls made before that one: they may fail, too,
and whatever is faster at the moment does not decide what the answer says."""

ANSWERS_BUDGET = wire.MAX_FRAME_BYTES // 2
"""Bytes of answers given in one turn; what is beyond waits for the next. One answer is always given."""

MAX_NAMES: Final = 5
"""Different names in one list of a summary; it says how many more there were."""

MAX_SUMMARY: Final = 320
"""Most characters of a summary; what is beyond is cut with a mark."""

MAX_INPUT_SHOWN: Final = 100
"""Most characters of the input of the call that failed, in a summary."""

_SWALLOWS: Final = re.compile(r"\b(?:catch|then|finally|allSettled|any|race|throwOnError|__safe_parallel)\b")
"""What lets a script go on after a call has failed."""

_MAX_NAME_SHOWN: Final = 60
"""Most characters of a name, and of a code, in a summary."""


class CallValue(NamedTuple):
    """The value of a call that succeeded."""

    value: str
    """JSON text."""
    reference: str | None
    """The reference that the script gets in its place; JSON text, too."""


class CallDispatcher:
    """Performs the calls of one script.

    Args:
        broker: Performs each call.
        limits: Limits of the run.
        hooks: Observers of the run, and the memory of its calls.
        references: How much of the values may stay outside the engine.
    """

    def __init__(self, broker: ToolBroker, limits: wire.Limits, hooks: RunHooks, references: ReferenceLimits) -> None:
        self._broker = broker
        self._limits = limits
        self._hooks = hooks
        self.log = CallLog()
        """A record of each call."""
        self.errors: dict[int, ToolCallError] = {}
        """Errors of the calls that failed, by number."""
        self.references = ReferenceStore(references)

    def admit(self, frame: wire.Calls) -> list[wire.Call]:
        """Check the calls of a frame, and enter them in the log.

        Raises:
            WorkerError: the worker may not make them.
        """
        if len(frame.calls) > wire.MAX_CALLS_PER_FRAME:
            raise TooManyPendingCallsError(
                f"The script has more than {wire.MAX_CALLS_PER_FRAME} tool calls pending",
                hint="Make fewer calls at once: await each batch before starting the next.",
            )
        for call in frame.calls:
            longest = wire.MAX_URI_LENGTH if call.kind in ("resource", "result") else wire.MAX_NAME_LENGTH
            if call.call != len(self.log.calls) + 1 or len(call.name) > longest:
                raise MessageValidationError("The worker numbered or named its tool calls wrongly")
            if (call.kind == "resource" or call.oversize) and call.input != "{}":
                raise MessageValidationError("The worker sent input beside a URI or the size of one")
            if len(call.input) > self._limits.max_tool_input_bytes:
                raise MessageValidationError("The worker sent a tool input larger than its preset allows")
            self.log.add(call)
        if len(self.log.calls) > self._limits.max_tool_calls:
            raise MessageValidationError("The worker made more tool calls than its preset allows")
        if self._hooks.clock is not None:
            self._hooks.clock.count_calls(len(frame.calls))
        return frame.calls

    async def perform(self, call: wire.Call) -> wire.Answer:
        """Perform one call that was admitted.

        Raises:
            CodeCallError: it ends the script.
        """
        record, input_json = self.log.calls[call.call], call.input
        if self.references.may_contain(input_json):
            # Digests stand for references, so that the same call has the same input in every run.
            input_json = await self.references.replace_with_digests(input_json)
        record.start()
        on_end = self._hooks.observer.on_call(record, input_json)
        result: CallValue | None = None
        try:
            result = await self._result(call, record, input_json)
        finally:
            if on_end is not None:
                on_end(None if result is None else result.value)
        if result is None:
            return wire.Answer(call.call, ok=False, payload=encode_json(error_payload(self.errors[call.call])))
        value, reference = result
        return wire.Answer(call.call, ok=True, payload=reference or value, reference=reference is not None)

    def first_failure(self, number: int, script: str) -> int:
        """The number of the call whose failure a script that ended by call `number` reports: of those made side by side
        at the same place, where each failure ends the script, the first that failed."""
        failed = self.log.calls[number]
        if _SWALLOWS.search(script) or failed.location is None:
            return number
        place = (failed.epoch, failed.location)
        return next(one for one in sorted({number, *self.errors}) if _place(self.log.calls[one]) == place)

    async def _result(self, call: wire.Call, record: CallRecord, input_json: str) -> CallValue | None:
        """The value of a call; None of one that failed, whose error is then in `errors`."""
        try:
            refuse_oversize(call, self._limits.max_tool_input_bytes)
            max_bytes = self.references.admit(call) if call.reference else None
            value = await self._recall(call, record, input_json, max_bytes)
            result = CallValue(value, await self.references.keep(call, value) if call.reference else None)
        except CodeCallError as error:
            if not isinstance(error, ToolCallError) or error.ends_script:
                record.end(error.code)
                raise
            self.references.advise(call, error)
            failure = error
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            # Nobody has cancelled this run: the tool let through the end of something of its own.
            message = f"{call.kind.capitalize()} '{call.name}' was cancelled before it answered"
            failure = ToolCallError(message, tool_name=call.name, called=call.kind)
        except Exception as error:
            failure = unexpected_error(call.name, error, call.kind)
        else:
            record.result_chars = len(value)
            record.end()
            return result
        record.end(failure.code)
        failure.__traceback__ = None  # has this frame, which has the error
        self.errors[call.call] = failure
        self.log.names[call.call] = failure.tool_name
        return None

    async def _recall(self, call: wire.Call, record: CallRecord, input_json: str, max_bytes: int | None) -> str:
        """The value of a call as JSON text: recalled from an earlier run where that is remembered, else computed."""
        memory = self._hooks.memory
        if memory is None or call.kind == "result":
            return await self._value(call, max_bytes)
        value = await memory.recall(record, input_json)
        record.reused = value is not None
        if value is None:
            try:
                value = await self._value(call, max_bytes)
            except Exception:
                await memory.keep(record, input_json, None)
                raise
        await memory.keep(record, input_json, value)
        return value

    async def _value(self, call: wire.Call, max_bytes: int | None) -> str:
        if call.kind == "resource":
            return await self._broker.read(call.name, max_bytes=max_bytes)
        if call.kind == "result":
            return await self._stored_result(call, max_bytes)
        if call.kind == "extract":
            return await self._extracted(call)
        perform = self._broker.call if call.kind == "tool" else self._broker.prompt
        arguments = await self._arguments(call)
        if not self.references.may_contain(call.input):
            return await perform(call.name, arguments, max_bytes=max_bytes)
        async with ReferenceResolver(self.references, self._limits, call).arguments(arguments) as resolved:
            return await perform(call.name, resolved, max_bytes=max_bytes)

    async def _stored_result(self, call: wire.Call, max_bytes: int | None) -> str:
        part = await self._arguments(call)
        if self._hooks.results is None:
            hint = "No results are kept here: return what a later script needs, and pass it on as `context`."
            message = f"Result '{call.name}' was not found"
            raise ResultNotFoundError(message, tool_name=call.name, called="result", hint=hint)
        return await self._hooks.results.fetch(call.name, part, max_bytes=max_bytes)

    async def _extracted(self, call: wire.Call) -> str:
        arguments = await self._arguments(call)
        if self._hooks.extractor is None:
            message = "extract is switched off here"
            raise ExtractionFailedError(message, tool_name=call.name, called="extract")
        if not self.references.may_contain(call.input):
            return await self._hooks.extractor.extract(call.name, arguments)
        async with ReferenceResolver(self.references, self._limits, call).arguments(arguments) as resolved:
            return await self._hooks.extractor.extract(call.name, resolved)

    async def _arguments(self, call: wire.Call) -> dict[str, object]:
        try:
            arguments = await decode_json(call.input, JsonBounds.from_limits(self._limits))
        except NotJsonError:
            raise MessageValidationError("The worker sent tool input that is not JSON") from None
        except TooManyContainersError as failure:
            message = f"The input of '{call.name}' has {failure.count} objects and arrays: too many for one call"
            hint = "Split the input over several calls."
            raise InvalidInputError(message, tool_name=call.name, called=call.kind, hint=hint) from None
        if not isinstance(arguments, dict):
            raise MessageValidationError("The worker sent tool input that is not an object")
        return cast("dict[str, object]", arguments)


class ConcurrentCalls:
    """The calls of one script while more than one of them is pending: how many run at the same time, and how many bytes
    are held in memory for them.

    Args:
        pipe: The pipe to the script's worker; when the worker ends, its calls are cancelled.
        perform: Performs one call.
        give_turn: Gives the worker its turn with some answers, and returns the message that ends the turn.
        admit: Checks the calls of a frame.
        records: Those of the script's calls, by number.
    """

    def __init__(
        self,
        pipe: WorkerPipe,
        *,
        records: Mapping[int, CallRecord],
        perform: Callable[[wire.Call], Awaitable[wire.Answer]],
        give_turn: Callable[[list[wire.Answer]], Awaitable[wire.Calls | wire.Done]],
        admit: Callable[[wire.Calls], list[wire.Call]],
    ) -> None:
        self._pipe = pipe
        self._records = records
        self._perform = perform
        self._give_turn = give_turn
        self._admit = admit
        self._queue: deque[wire.Call] = deque()
        self._queued_bytes = 0
        """Bytes of names and input in the queue."""
        self._answers: deque[wire.Answer] = deque()
        self._answer_bytes = 0
        self._errors: list[CodeCallError] = []
        self._tasks = 0
        self._running: set[int] = set()
        """The numbers of the calls that have started and not ended."""
        self._call_ended = anyio.Event()

    async def perform(self, frame: wire.Calls) -> wire.Calls | wire.Done:
        """Perform the calls of `frame`, and those the script adds in the meantime, until it ends or waits for none of
        them.

        Raises:
            CodeCallError: what `perform`, `give_turn` or `admit` raised first; the other calls are cancelled.
        """
        last: wire.Calls | wire.Done | None = None
        async with anyio.create_task_group() as group:
            try:
                self._enqueue(frame)
                last = await self._drive(group)
                await self._wait_for_earlier(last)
            except CodeCallError as error:
                self._errors.insert(0, error)
                if isinstance(error, ApprovalRequiredError):
                    # What has been allowed takes effect, and must be in the record that the run goes on from.
                    self._queue.clear()
                    await wait_for_calls(self._records[number] for number in self._running)
            # What the script no longer waits for is not worth finishing.
            group.cancel_scope.cancel()
        if last is None:
            raise self._errors[0]
        return last

    async def _drive(self, group: TaskGroup) -> wire.Calls | wire.Done:
        while True:
            if self._answer_bytes <= MAX_BUFFERED_BYTES:
                for _ in range(min(len(self._queue), MAX_CALLS_IN_FLIGHT - self._tasks)):
                    self._tasks += 1
                    group.start_soon(self._perform_queued)
            while not self._errors and (
                not self._answers or self._queued_bytes > MAX_BUFFERED_BYTES >= self._answer_bytes
            ):
                await self._wait_for_call()
            if self._errors:
                raise self._errors[0]
            message = await self._give_turn(self._next_answers())
            pending = self._tasks or self._answers or self._queue or self._errors
            if isinstance(message, wire.Done) or not pending:
                return message
            self._enqueue(message)

    async def _wait_for_call(self) -> None:
        """Wait until a call has ended.

        Raises:
            WorkerError: the worker has ended, or sent something out of turn.
        """
        self._call_ended = anyio.Event()
        interrupted = False

        def on_interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            self._call_ended.set()

        with self._pipe.watch_for_interrupt(on_interrupt):
            await self._call_ended.wait()
        if interrupted:
            raise await self._pipe.interrupt_error()

    async def _wait_for_earlier(self, last: wire.Calls | wire.Done) -> None:
        """Wait a little for the calls made before the one by whose failure the script has ended."""
        failure = last.failure if isinstance(last, wire.Done) else None
        if failure is None or failure.call is None:
            return
        self._queue.clear()
        with anyio.move_on_after(EARLIER_S):
            while any(number < failure.call for number in self._running):
                self._call_ended = anyio.Event()
                await self._call_ended.wait()

    async def _perform_queued(self) -> None:
        """Perform calls until none is left, in one task: fewer tasks than calls."""
        while self._queue and self._answer_bytes <= MAX_BUFFERED_BYTES:
            call = self._queue.popleft()
            self._queued_bytes -= _max_bytes(call.input) + _max_bytes(call.name)
            self._running.add(call.call)
            try:
                answer = await self._perform(call)
            except CodeCallError as error:
                self._errors.append(error)
            else:
                self._answers.append(answer)
                self._answer_bytes += _max_bytes(answer.payload)
            self._running.discard(call.call)
            self._call_ended.set()
        self._tasks -= 1

    def _enqueue(self, frame: wire.Calls) -> None:
        calls = self._admit(frame)
        self._queue.extend(calls)
        self._queued_bytes += sum(_max_bytes(call.input) + _max_bytes(call.name) for call in calls)

    def _next_answers(self) -> list[wire.Answer]:
        """The oldest answers, as many as one turn may carry."""
        answers: list[wire.Answer] = []
        size = 0
        while self._answers and (not answers or size + _max_bytes(self._answers[0].payload) <= ANSWERS_BUDGET):
            answer = self._answers.popleft()
            answers.append(answer)
            size += _max_bytes(answer.payload)
        self._answer_bytes -= size
        return answers


def _max_bytes(text: str) -> int:
    """Bytes of `text` as UTF-8, at most."""
    return len(text) if text.isascii() else 4 * len(text)


@dataclass(slots=True)
class CallLog:
    """A record of each call of one script, kept by the server: names, the beginnings of inputs, outcomes and times."""

    calls: dict[int, CallRecord] = field(default_factory=dict[int, CallRecord])
    """By number, in the order in which the script made them."""
    names: dict[int, str] = field(default_factory=dict[int, str])
    """What the errors of those that failed call them."""
    epoch: int = 0
    """`CallRecord.epoch` of the calls that are added next."""

    def add(self, call: wire.Call) -> None:
        """Enter a call that the script has made; it starts when its turn comes."""
        beginning, chars = call.input[:MAX_STORED_INPUT_CHARS], call.oversize or len(call.input)
        record = CallRecord(call.call, call.kind, call.name, beginning, chars)
        record.epoch, record.line, record.column = self.epoch, call.line, call.column
        self.calls[call.call] = record

    def summary(self, except_call: int | None = None) -> str:
        """What became of the calls, in one sentence for the hint of a script that failed; empty if there is nothing to
        report.

        Args:
            except_call: Number of the call whose failure is the script's own, which is reported elsewhere.
        """
        completed: list[str] = []
        failed: list[str] = []
        running: list[str] = []
        gated: list[str] = []
        not_started = 0
        now = time.perf_counter()
        for number, call in self.calls.items():
            name = _shortened(call.name)
            if call.started is None:
                not_started += 1
            elif call.ended is None and call.is_gated:
                gated.append(name)
            elif call.ended is None:
                running.append(f"{name} for {now - call.started:.1f} s")
            elif call.code is None:
                completed.append(name)
            elif number != except_call:
                failed.append(f"{_shortened(self.names.get(number, call.name))} ({_shortened(call.code)})")
        parts = [
            *_part(completed, "had completed and {is} not undone"),
            *_part(failed, "had failed" if except_call is None else "had failed, too"),
            *_part(running, "{was} still running and may have taken effect"),
            *_part(gated, "{was} not made and must be allowed, too"),
        ]
        if not_started:
            parts.append(f"{_counted(not_started)} {'was' if not_started == 1 else 'were'} never started")
        text = f"{'; '.join(parts)}." if parts else ""
        if except_call is not None and len(self.calls) > 1:
            text = f"{self._named(self.calls[except_call])} {text}"
        return cut(text, MAX_SUMMARY)

    def _named(self, call: CallRecord) -> str:
        """Which of the calls it is that failed."""
        input_text = call.input
        if call.input_chars > MAX_INPUT_SHOWN:
            # Whole members only: what is masked in a hint would not be known by its beginning.
            input_text = f"{input_text[:MAX_INPUT_SHOWN].rpartition(',')[0] or '{'}…"
        return f"It was call {call.number} of {len(self.calls)}{f', with {input_text}' if call.input != '{}' else ''}."


def _place(call: CallRecord) -> tuple[int, Location | None]:
    """When and where in the script a call was made."""
    return call.epoch, call.location


def _part(names: list[str], predicate: str) -> list[str]:
    if not names:
        return []
    verbs = {"is": "is", "was": "was"} if len(names) == 1 else {"is": "are", "was": "were"}
    return [f"{_counted(len(names))} {predicate.format_map(verbs)}: {_joined(names)}"]


def _counted(count: int) -> str:
    return "1 tool call" if count == 1 else f"{count} tool calls"


def _shortened(name: str) -> str:
    return cut(name, _MAX_NAME_SHOWN)


def _joined(names: Iterable[str]) -> str:
    counts = Counter(names)
    parts = [name if count == 1 else f"{count} of {name}" for name, count in list(counts.items())[:MAX_NAMES]]
    more = len(counts) - len(parts)
    return ", ".join(parts) + (f" and {more} more names" if more else "")
