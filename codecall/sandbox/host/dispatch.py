"""The calls of one script: admitted as its worker sends them, performed by its broker, entered in its ledger."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

import anyio
from anyio.abc import TaskGroup

from codecall.envelopes import MAX_STORED_INPUT_CHARS, CallRecord
from codecall.errors import (
    CodeCallError,
    InvalidInputError,
    MessageValidationError,
    ResultNotFoundError,
    ToolCallError,
    TooManyPendingCallsError,
)
from codecall.jsonio.decode import JsonBounds, NotJson, TooManyContainers, decode_json, encode_json
from codecall.sandbox import wire
from codecall.sandbox.host.outcomes import error_payload, unexpected_error
from codecall.sandbox.host.pipe import WorkerPipe
from codecall.sandbox.host.references import ReferenceLimits, ReferenceResolver, ReferenceStore
from codecall.sandbox.interfaces import RunHooks, ToolBroker

# ----------------------------------------------------------------------------------------------------
# Several calls of one script at the same time: how many, and how much is held in memory for them.

MAX_CALLS_IN_FLIGHT = 20
"""Tool calls of one script performed at the same time; the rest wait. The contract's number."""

MAX_HELD_BYTES = 32 * 1024 * 1024
"""Bytes of input that may wait for a tool before the worker gets no further turn, and bytes of answers that may wait
for the worker before no further call starts. One frame of the first and `MAX_CALLS_IN_FLIGHT` of the second may come on
top."""

ANSWERS_BUDGET = wire.MAX_FRAME_BYTES // 2
"""Bytes of answers given in one turn; what is beyond waits for the next. One answer is always given."""


class ConcurrentCalls:
    """The calls of one script while more than one of them is pending.

    Args:
        pipe: Of the worker whose script it is; when the worker goes, so do its calls.
        make: Makes one call.
        turn: Gives the worker its turn with some answers, and returns what it ends the turn with.
        check: The calls of a frame, if the worker may make them.
    """

    def __init__(
        self,
        pipe: WorkerPipe,
        *,
        make: Callable[[wire.Call], Awaitable[wire.Answer]],
        turn: Callable[[list[wire.Answer]], Awaitable[wire.Calls | wire.Done]],
        check: Callable[[wire.Calls], list[wire.Call]],
    ) -> None:
        self._pipe = pipe
        self._make = make
        self._turn = turn
        self._check = check
        self._queue: deque[wire.Call] = deque()
        self._queued = 0
        """Bytes of names and input in the queue."""
        self._answers: deque[wire.Answer] = deque()
        self._held = 0
        """Bytes of the answers."""
        self._troubles: list[CodeCallError] = []
        self._lanes = 0
        self._news = anyio.Event()

    async def perform(self, frame: wire.Calls) -> wire.Calls | wire.Done:
        """Make the calls of `frame`, and those the script adds meanwhile, until it ends or waits for none of them.

        Raises:
            CodeCallError: what `make`, `turn` or `check` raised first; the other calls are cancelled.
        """
        ended: wire.Calls | wire.Done | None = None
        async with anyio.create_task_group() as group:
            try:
                self._enqueue(frame)
                ended = await self._drive(group)
            except CodeCallError as error:
                self._troubles.insert(0, error)
            # What the script no longer waits for is not worth finishing.
            group.cancel_scope.cancel()
        if ended is None:
            raise self._troubles[0]
        return ended

    async def _drive(self, group: TaskGroup) -> wire.Calls | wire.Done:
        while True:
            if self._held <= MAX_HELD_BYTES:
                for _ in range(min(len(self._queue), MAX_CALLS_IN_FLIGHT - self._lanes)):
                    self._lanes += 1
                    group.start_soon(self._lane)
            while not self._troubles and (not self._answers or self._queued > MAX_HELD_BYTES >= self._held):
                await self._listen()
            if self._troubles:
                raise self._troubles[0]
            message = await self._turn(self._batch())
            if isinstance(message, wire.Done) or not (self._lanes or self._answers or self._queue):
                return message
            self._enqueue(message)

    async def _listen(self) -> None:
        """Wait until a call has ended.

        Raises:
            WorkerError: the worker has ended, or spoke out of turn.
        """
        self._news = anyio.Event()
        alarms: list[None] = []

        def alarm() -> None:
            alarms.append(None)
            self._news.set()

        with self._pipe.watch_for_interrupt(alarm):
            await self._news.wait()
        if alarms:
            raise await self._pipe.interrupt_error()

    async def _lane(self) -> None:
        """One task makes calls until none is left: fewer tasks than calls."""
        while self._queue and self._held <= MAX_HELD_BYTES:
            call = self._queue.popleft()
            self._queued -= _size(call.input) + _size(call.name)
            try:
                answer = await self._make(call)
            except CodeCallError as error:
                self._troubles.append(error)
            else:
                self._answers.append(answer)
                self._held += _size(answer.payload)
            self._news.set()
        self._lanes -= 1

    def _enqueue(self, frame: wire.Calls) -> None:
        calls = self._check(frame)
        self._queue.extend(calls)
        self._queued += sum(_size(call.input) + _size(call.name) for call in calls)

    def _batch(self) -> list[wire.Answer]:
        """The oldest answers, as many as one turn may carry."""
        taken: list[wire.Answer] = []
        size = 0
        while self._answers and (not taken or size + _size(self._answers[0].payload) <= ANSWERS_BUDGET):
            answer = self._answers.popleft()
            taken.append(answer)
            size += _size(answer.payload)
        self._held -= size
        return taken


def _size(text: str) -> int:
    """Bytes of `text` as UTF-8, at most."""
    return len(text) if text.isascii() else 4 * len(text)


# ----------------------------------------------------------------------------------------------------
# What became of each call of one script, kept by the server: names, the beginnings of inputs, outcomes and times, no

MAX_NAMES: Final = 5
"""Different names that one list of a summary has; it says how many more there were."""

MAX_NAME_SHOWN: Final = 60
"""Most characters of a name, and of a code, in a summary."""

MAX_SUMMARY: Final = 320
"""Most characters of a summary; what is beyond is cut with a mark."""


@dataclass(slots=True)
class CallLog:
    """The calls of one script."""

    calls: dict[int, CallRecord] = field(default_factory=dict[int, CallRecord])
    """By their number, in the order in which the script made them."""

    epoch: int = 0
    """See `CallRecord.epoch`; of the calls that are added next."""

    def add(self, call: wire.Call) -> None:
        """The script has made a call; it will be started when its turn comes."""
        self.calls[call.call] = CallRecord(
            call.call,
            call.kind,
            call.name,
            call.input[:MAX_STORED_INPUT_CHARS],
            len(call.input),
            epoch=self.epoch,
            line=call.line,
            column=call.column,
        )

    def summary(self, except_call: int | None = None) -> str:
        """What the calls came to, in one sentence for the hint of a script that failed; empty where nothing is to tell.

        Args:
            told: Number of the call whose failure is the script's own, which is told elsewhere.
        """
        done: list[str] = []
        failed: list[str] = []
        running: list[str] = []
        waiting = 0
        now = time.perf_counter()
        for number, call in self.calls.items():
            name = _short(call.name)
            if call.started is None:
                waiting += 1
            elif call.ended is None:
                running.append(f"{name} for {now - call.started:.1f} s")
            elif call.code is None:
                done.append(name)
            elif number != except_call:
                failed.append(f"{name} ({_short(call.code)})")
        said = [
            *_part(done, "had completed and {is} not undone"),
            *_part(failed, "had failed"),
            *_part(running, "{was} still running and may have taken effect"),
        ]
        if waiting:
            said.append(f"{_counted(waiting)} {'was' if waiting == 1 else 'were'} never started")
        text = f"{'; '.join(said)}." if said else ""
        return text if len(text) <= MAX_SUMMARY else f"{text[: MAX_SUMMARY - 1]}…"


def _part(names: list[str], what: str) -> list[str]:
    if not names:
        return []
    grammar = {"is": "is", "was": "was"} if len(names) == 1 else {"is": "are", "was": "were"}
    return [f"{_counted(len(names))} {what.format_map(grammar)}: {_listed(names)}"]


def _counted(count: int) -> str:
    return "1 tool call" if count == 1 else f"{count} tool calls"


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME_SHOWN else f"{name[:MAX_NAME_SHOWN]}…"


def _listed(names: Iterable[str]) -> str:
    counted = Counter(names)
    shown = [name if count == 1 else f"{count} of {name}" for name, count in list(counted.items())[:MAX_NAMES]]
    more = len(counted) - len(shown)
    return ", ".join(shown) + (f" and {more} more names" if more else "")


# ----------------------------------------------------------------------------------------------------
# The calls of one script: admitted as its worker sends them, performed by its broker, entered in its ledger.


class CallValue(NamedTuple):
    """What came of a call that worked."""

    value: str
    """JSON text."""
    reference: str | None
    """What the script gets in its place; JSON text, too."""


class CallDispatcher:
    """Makes the calls of one script.

    Args:
        broker: Performs them.
        limits: Of the run.
        services: Who watches, and what remembers.
        allowance: What of their values may stay outside the engine.
    """

    def __init__(self, broker: ToolBroker, limits: wire.Limits, services: RunHooks, allowance: ReferenceLimits) -> None:
        self._broker = broker
        self._limits = limits
        self._services = services
        self.log = CallLog()
        """What became of them."""
        self.errors: dict[int, ToolCallError] = {}
        """Of those that failed, by number."""
        self.references = ReferenceStore(allowance)
        """Their values that the script has references to."""

    def admit(self, frame: wire.Calls) -> list[wire.Call]:
        """The calls of a frame, if the worker may make them; they are in the ledger then.

        Raises:
            WorkerError: it may not.
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
            if call.kind == "resource" and call.input != "{}":
                raise MessageValidationError("The worker sent input with the URI of a resource")
            if len(call.input) > self._limits.max_result_bytes:
                raise MessageValidationError("The worker sent a tool input larger than its preset allows")
            self.log.add(call)
        if len(self.log.calls) > self._limits.max_tool_calls:
            raise MessageValidationError("The worker made more tool calls than its preset allows")
        return frame.calls

    async def perform(self, call: wire.Call) -> wire.Answer:
        """Make one call that was admitted.

        Raises:
            CodeCallError: it ends the script.
        """
        made = self.log.calls[call.call]
        text = (
            await self.references.replace_with_digests(call.input)
            if self.references.may_contain(call.input)
            else call.input
        )
        made.start()
        ended = self._services.observer.on_call(made, text)
        given: CallValue | None = None
        try:
            given = await self._outcome(call, made, text)
        finally:
            if ended is not None:
                ended(None if given is None else given.value)
        if given is not None:
            value, reference = given
            return wire.Answer(call.call, ok=True, payload=reference or value, reference=reference is not None)
        return wire.Answer(call.call, ok=False, payload=encode_json(error_payload(self.errors[call.call])))

    async def _outcome(self, call: wire.Call, made: CallRecord, text: str) -> CallValue | None:
        """What came of a call; None of one that failed, whose error is then in `errors`."""
        try:
            longest = self.references.admit(call) if call.reference else None
            value = await self._remembered(call, made, text, longest)
            given = CallValue(value, await self.references.keep(call, value) if call.reference else None)
        except ToolCallError as error:
            self.references.advise(call, error)
            failure = error
        except CodeCallError as error:
            made.end(error.code)
            raise
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            # Nobody has cancelled this run: the tool let through the end of something of its own.
            message = f"{call.kind.capitalize()} '{call.name}' was cancelled before it answered"
            failure = ToolCallError(message, tool_name=call.name, called=call.kind)
        except Exception as error:
            failure = unexpected_error(call.name, error, call.kind)
        else:
            made.result_chars = len(value)
            made.end()
            return given
        made.end(failure.code)
        self.errors[call.call] = failure
        return None

    async def _remembered(self, call: wire.Call, made: CallRecord, text: str, longest: int | None) -> str:
        """The value of a call as JSON text, from where earlier runs are remembered, if it is."""
        memory = self._services.memory
        if memory is None or call.kind == "result":
            return await self._value(call, longest)
        value = await memory.recall(made, text)
        made.reused = value is not None
        if value is None:
            try:
                value = await self._value(call, longest)
            except Exception:
                await memory.keep(made, text, None)
                raise
        await memory.keep(made, text, value)
        return value

    async def _value(self, call: wire.Call, longest: int | None) -> str:
        if call.kind == "resource":
            return await self._broker.read(call.name, max_bytes=longest)
        if call.kind == "result":
            return await self._kept(call, longest)
        perform = self._broker.call if call.kind == "tool" else self._broker.prompt
        arguments = await self._arguments(call)
        if not self.references.may_contain(call.input):
            return await perform(call.name, arguments, max_bytes=longest)
        async with ReferenceResolver(self.references, self._limits, call).arguments(arguments) as whole:
            return await perform(call.name, whole, max_bytes=longest)

    async def _kept(self, call: wire.Call, longest: int | None) -> str:
        part = await self._arguments(call)
        if self._services.results is None:
            hint = "No results are kept here: return what a later script needs, and pass it on as `context`."
            message = f"Result '{call.name}' was not found"
            raise ResultNotFoundError(message, tool_name=call.name, called="result", hint=hint)
        return await self._services.results.fetch(call.name, part, max_bytes=longest)

    async def _arguments(self, call: wire.Call) -> dict[str, object]:
        try:
            arguments = await decode_json(call.input, JsonBounds.from_limits(self._limits))
        except NotJson:
            raise MessageValidationError("The worker sent tool input that is not JSON") from None
        except TooManyContainers as failure:
            raise InvalidInputError(
                f"The input of '{call.name}' has {failure.count} objects and arrays: too many for one call",
                tool_name=call.name,
                called=call.kind,
                hint="Split the input over several calls.",
            ) from None
        if not isinstance(arguments, dict):
            raise MessageValidationError("The worker sent tool input that is not an object")
        return cast("dict[str, object]", arguments)
