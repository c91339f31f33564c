"""Several calls of one script at the same time: how many, and how much is held in memory for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from codecall.errors import CodeCallError
from codecall.sandbox import wire
from codecall.sandbox.host.pipe import Pipe

MAX_CALLS_IN_FLIGHT = 20
"""Tool calls of one script performed at the same time; the rest wait. The contract's number."""

MAX_HELD_BYTES = 32 * 1024 * 1024
"""Bytes of input that may wait for a tool before the worker gets no further turn, and bytes of answers that may wait
for the worker before no further call starts. One frame of the first and `MAX_CALLS_IN_FLIGHT` of the second may come on
top."""

ANSWERS_BUDGET = wire.MAX_FRAME_BYTES // 2
"""Bytes of answers given in one turn; what is beyond waits for the next. One answer is always given."""


class Lanes:
    """The calls of one script while more than one of them is pending.

    Args:
        pipe: Of the worker whose script it is; when the worker goes, so do its calls.
        make: Makes one call.
        turn: Gives the worker its turn with some answers, and returns what it ends the turn with.
        check: The calls of a frame, if the worker may make them.
    """

    def __init__(
        self,
        pipe: Pipe,
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

        with self._pipe.overheard(alarm):
            await self._news.wait()
        if alarms:
            raise await self._pipe.trouble()

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
