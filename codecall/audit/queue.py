"""From a run to the sinks, without the run waiting for any of them.

Each sink has a queue of its own and, for as long as there is something in it, a thread; one that is an async function
has a task on the event loop instead. A sink that is slow, hangs or fails holds up nobody but itself. What it misses is
counted: the log says so, and the next event that gets through is preceded by one that says how many are missing.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from codecall.audit.events import AuditEvent
from codecall.concurrency import run_in_daemon_thread, with_timeout

logger = logging.getLogger("codecall")

T = TypeVar("T")

Sink: TypeAlias = Callable[[AuditEvent], "Awaitable[object] | object"]
"""Is told each event, one after the other. A plain one is called in a thread, an async one on the event loop."""

MAX_QUEUED: Final = 10_000
"""Events that may wait for one sink; what comes then is lost, and counted."""

MAX_HELD: Final = 64 * 1024 * 1024
"""Characters of inputs and values that may wait to be hashed or masked, and of events for one sink; what comes then is
lost, and counted."""

FLUSH_SECONDS: Final = 5.0
"""How long the end of a server, and that of the process, waits for what is still to be written."""

ASYNC_SECONDS: Final = 10.0
"""How long an async sink may take for one event; then it is given up, and the event is lost."""

IDLE_SECONDS: Final = 10.0
"""How long a thread waits for more before it ends."""

WARNING_INTERVAL_S: Final = 60.0
"""The log says of each sink at most so often that it loses events."""


class DropCounter:
    """What one sink has missed.

    Args:
        name: of the sink, for the log.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        """Events so far."""
        self._reported = 0
        self._last_warning = -WARNING_INTERVAL_S
        self._lock = threading.Lock()

    def add(self, count: int, why: str) -> None:
        """So many more."""
        with self._lock:
            self.count += count
            now = time.monotonic()
            if now - self._last_warning < WARNING_INTERVAL_S:
                return
            self._last_warning = now
        logger.error("audit: %s has missed %d events so far (%s)", self.name, self.count, why)

    def unreported_event(self) -> tuple[AuditEvent, int] | None:
        """What tells the sink of those it has not been told of, and how many those are in all."""
        unreported = self.count - self._reported
        if not unreported:
            return None
        return AuditEvent("codecall.audit.lost", time.time(), fields={"events": unreported}), self.count

    def mark_reported(self, count: int) -> None:
        """The sink has been told of so many in all."""
        self._reported = count


class QueueWorker(Generic[T]):
    """A queue that a thread of its own works off; the thread ends when there is nothing to do.

    Args:
        name: of the thread.
        carry: takes one thing; what it raises is told to `lost`.
        lost: told of things that did not get through, and why.
    """

    def __init__(self, name: str, handle: Callable[[T], None], on_drop: Callable[[int, str], None]) -> None:
        self._name = name
        self._handle = handle
        self._on_drop = on_drop
        self._queue: deque[tuple[T, int]] = deque()
        self._held = 0
        self._changed = threading.Condition()
        self._handling = False
        self._thread: threading.Thread | None = None
        _WORKERS.add(self)

    def put(self, item: T, held: int = 0) -> None:
        """Have it carried when its turn comes; never waits. `held`: characters it keeps in memory until then."""
        with self._changed:
            full = len(self._queue) >= MAX_QUEUED or (held and self._held + held > MAX_HELD)
            if not full:
                self._queue.append((item, held))
                self._held += held
                full = not self._wake()
        if full:
            self._on_drop(1, f"{len(self._queue):,} are waiting, {self._held:,} characters")

    def _wake(self) -> bool:
        """Have a thread see to it; whether one will."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the process is about to end
                self._thread = None
                self._held -= self._queue.pop()[1]
                return False
        elif not self._handling:
            self._changed.notify_all()
        return True

    def flush(self, seconds: float) -> bool:
        """Wait until all is carried, for so long at most; whether it is. Not on the event loop."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._queue or self._handling:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return not (self._queue or self._handling)
        return True

    async def flush_async(self, seconds: float) -> int:
        """`flush` on the event loop, though all threads of asyncio be taken; how many things are left."""
        try:
            await run_in_daemon_thread(seconds + 1, lambda: self.flush(seconds))
        except (TimeoutError, RuntimeError) as failure:
            logger.warning("audit: cannot wait for what is still to be written (%s)", failure)
        return self.pending

    @property
    def pending(self) -> int:
        """Things that have not been carried yet."""
        return len(self._queue) + self._handling

    def _work(self) -> None:
        while (item := self._next()) is not None:
            try:
                self._handle(item[0])
            except BaseException as failure:
                self._on_drop(1, _failure_text(failure))

    def _next(self) -> tuple[T] | None:
        with self._changed:
            self._handling = False
            if not self._queue:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue, IDLE_SECONDS)
            if not self._queue:
                self._thread = None
                return None
            self._handling = True
            item, held = self._queue.popleft()
            self._held -= held
            return (item,)


class ThreadSinkQueue:
    """The way to a plain sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.drops = DropCounter(_name(sink))
        self._worker = QueueWorker[AuditEvent](f"codecall audit: {self.drops.name}", self._handle, self.drops.add)

    def put(self, event: AuditEvent, _loop: asyncio.AbstractEventLoop) -> None:
        """Tell the sink when its turn comes."""
        self._worker.put(event, event.held)

    async def flush(self, seconds: float) -> int:
        """Wait until the sink has been told of all, for so long at most; of how many it has not."""
        return await self._worker.flush_async(seconds)

    def _handle(self, event: AuditEvent) -> None:
        if (unreported := self.drops.unreported_event()) is not None:
            self._deliver(unreported[0])
            self.drops.mark_reported(unreported[1])
        self._deliver(event)

    def _deliver(self, event: AuditEvent) -> None:
        answer = self._sink(event)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("a sink that is to be awaited is declared with `async def`")


class _Queue:
    """Events that wait for one async sink."""

    def __init__(self) -> None:
        self.events: deque[AuditEvent] = deque()
        self.held = 0
        """Characters of them."""


class TaskSinkQueue:
    """The way to an async sink: a task on the event loop of the run."""

    def __init__(self, sink: Callable[[AuditEvent], Awaitable[object]]) -> None:
        self._sink = sink
        self.drops = DropCounter(_name(sink))
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
        self._tasks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()

    def put(self, event: AuditEvent, loop: asyncio.AbstractEventLoop) -> None:
        """Tell the sink when its turn comes. From any thread."""
        try:
            loop.call_soon_threadsafe(self._put, event, loop, context=contextvars.Context())
        except RuntimeError:
            self.drops.add(1, "the event loop has ended")

    async def flush(self, seconds: float) -> int:
        """As of `ThreadSinkQueue`, for this event loop."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # what other threads have put is in the queue then
        task = self._tasks.get(loop)
        if task is not None and not task.done():
            await asyncio.wait({task}, timeout=seconds)
        return len(self._queues[loop].events if loop in self._queues else ()) + (task is not None and not task.done())

    def _put(self, event: AuditEvent, loop: asyncio.AbstractEventLoop) -> None:
        queue = self._queues.setdefault(loop, _Queue())
        if len(queue.events) >= MAX_QUEUED or queue.held + event.held > MAX_HELD:
            self.drops.add(1, f"{len(queue.events):,} are waiting, {queue.held:,} characters")
            return
        queue.events.append(event)
        queue.held += event.held
        task = self._tasks.get(loop)
        if task is None or task.done():
            self._tasks[loop] = loop.create_task(self._work(queue))

    async def _work(self, queue: _Queue) -> None:
        while queue.events:
            event = queue.events.popleft()
            queue.held -= event.held
            try:
                if (unreported := self.drops.unreported_event()) is not None:
                    await with_timeout(ASYNC_SECONDS, self._reported(unreported[0]))
                    self.drops.mark_reported(unreported[1])
                await with_timeout(ASYNC_SECONDS, self._reported(event))
            except Exception as failure:
                self.drops.add(1, _failure_text(failure))
            except asyncio.CancelledError:
                self.drops.add(1 + len(queue.events), "the event loop has ended")
                queue.events.clear()
                queue.held = 0
                raise

    async def _reported(self, event: AuditEvent) -> None:
        await self._sink(event)


def sink_queue(sink: Sink) -> ThreadSinkQueue | TaskSinkQueue:
    """The way to that sink."""
    call = getattr(sink, "__call__", None)  # noqa: B004 - the method, to see whether it is async
    if inspect.iscoroutinefunction(sink) or inspect.iscoroutinefunction(call):
        return TaskSinkQueue(sink)  # pyright: ignore[reportArgumentType] - that is what was just seen
    return ThreadSinkQueue(sink)


def _failure_text(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}"[:200]


def _name(sink: object) -> str:
    return getattr(sink, "__name__", None) or type(sink).__name__


_WORKERS: Final[WeakSet[QueueWorker[Any]]] = WeakSet()


@atexit.register
def _at_exit() -> None:
    """The threads are daemons, so that no sink that hangs keeps a process alive: wait for those that do not."""
    deadline = time.monotonic() + FLUSH_SECONDS
    # Twice: what makes events out of notes puts them on the belts of the sinks.
    for worker in [*_WORKERS, *_WORKERS]:
        if not worker.flush(max(0.0, deadline - time.monotonic())):
            logger.error("audit: %d events were not written when the process ended", worker.pending)
