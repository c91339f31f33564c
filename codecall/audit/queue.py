"""Queues that deliver events to sinks, without any run waiting for a sink.

Each sink has its own queue and, while the queue is not empty, a thread; an async sink has a task on the event loop
instead. A sink that is slow, hangs or fails delays no other. Events that it misses are counted: the log reports them,
and an event with their number precedes the next one that the sink receives.
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
"""Receives each event, one after the other. A plain sink is called in a thread, an async one on the event loop."""

MAX_QUEUED: Final = 10_000
"""Most events that wait for one sink; further events are dropped and counted."""

MAX_HELD: Final = 64 * 1024 * 1024
"""Most characters of scripts, inputs and values that wait to be hashed or masked, and of events that wait for one sink;
further events are dropped and counted."""

FLUSH_SECONDS: Final = 5.0
"""Seconds for which the end of a server, and of the process, waits until all events are delivered."""

ASYNC_SECONDS: Final = 10.0
"""Seconds that an async sink may take for one event before it is cancelled and the event is dropped."""

IDLE_SECONDS: Final = 10.0
"""Seconds for which a thread waits for the next item before it ends."""

WARNING_INTERVAL_S: Final = 60.0
"""Least seconds between two log lines about dropped events of one sink."""


class DropCounter:
    """Counts the events that one sink has missed.

    Args:
        name: the name of the sink in the log.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        """Events dropped so far."""
        self._reported = 0
        self._last_warning = -WARNING_INTERVAL_S
        self._lock = threading.Lock()

    def add(self, count: int, why: str) -> None:
        """Counts dropped events, and logs the reason at most once per `WARNING_INTERVAL_S`."""
        with self._lock:
            self.count += count
            now = time.monotonic()
            if now - self._last_warning < WARNING_INTERVAL_S:
                return
            self._last_warning = now
        logger.error("audit: %s has missed %d events so far (%s)", self.name, self.count, why)

    def unreported_event(self) -> tuple[AuditEvent, int] | None:
        """Returns the event that reports drops to the sink, and the total it covers; None if all are reported."""
        unreported = self.count - self._reported
        if not unreported:
            return None
        return AuditEvent("codecall.audit.lost", time.time(), fields={"events": unreported}), self.count

    def mark_reported(self, count: int) -> None:
        """Records that the sink has received a report of `count` drops in total."""
        self._reported = count


class QueueWorker(Generic[T]):
    """A queue whose own thread handles its items; the thread ends when the queue stays empty.

    Args:
        name: the name of the thread.
        handle: handles one item; `on_drop` is called if it raises.
        on_drop: called with the number of dropped items and the reason.
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
        """Appends an item without waiting. `held`: characters that it occupies in memory until it is handled."""
        with self._changed:
            full = len(self._queue) >= MAX_QUEUED or (held and self._held + held > MAX_HELD)
            if not full:
                self._queue.append((item, held))
                self._held += held
                full = not self._wake()
        if full:
            self._on_drop(1, f"{len(self._queue):,} are waiting, {self._held:,} characters")

    def _wake(self) -> bool:
        """Starts or wakes the thread; returns whether there is one."""
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
        """Waits until all items are handled, or `seconds` have passed; returns whether they are. Blocks."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._queue or self._handling:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return not (self._queue or self._handling)
        return True

    async def flush_async(self, seconds: float) -> int:
        """Runs `flush` in a thread of its own, not of asyncio's pool; returns how many items are left."""
        try:
            await run_in_daemon_thread(seconds + 1, lambda: self.flush(seconds))
        except (TimeoutError, RuntimeError) as failure:
            logger.warning("audit: cannot wait for what is still to be written (%s)", failure)
        return self.pending

    @property
    def pending(self) -> int:
        """Items that are not handled yet."""
        return len(self._queue) + self._handling

    def _work(self) -> None:
        while (item := self._next()) is not None:
            try:
                self._handle(item[0])
            except BaseException as failure:
                self._on_drop(1, _describe_failure(failure))

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
    """The queue of a plain sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.drops = DropCounter(_sink_name(sink))
        self._worker = QueueWorker[AuditEvent](f"codecall audit: {self.drops.name}", self._handle, self.drops.add)

    def put(self, event: AuditEvent, _loop: asyncio.AbstractEventLoop) -> None:
        """Appends an event for the sink."""
        self._worker.put(event, event.held)

    async def flush(self, seconds: float) -> int:
        """Waits until the sink has received all events, or `seconds` have passed; returns how many are left."""
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


class _LoopQueue:
    """Events that wait for one async sink on one event loop."""

    def __init__(self) -> None:
        self.events: deque[AuditEvent] = deque()
        self.held = 0
        """Characters that the events occupy."""


class TaskSinkQueue:
    """The queue of an async sink, which a task on the event loop of the run works off."""

    def __init__(self, sink: Callable[[AuditEvent], Awaitable[object]]) -> None:
        self._sink = sink
        self.drops = DropCounter(_sink_name(sink))
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopQueue] = WeakKeyDictionary()
        self._tasks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()

    def put(self, event: AuditEvent, loop: asyncio.AbstractEventLoop) -> None:
        """Appends an event for the sink, from any thread."""
        try:
            loop.call_soon_threadsafe(self._put, event, loop, context=contextvars.Context())
        except RuntimeError:
            self.drops.add(1, "the event loop has ended")

    async def flush(self, seconds: float) -> int:
        """Does what `ThreadSinkQueue.flush` does, for the running event loop."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # the events of other threads are in the queue after this
        task = self._tasks.get(loop)
        if task is not None and not task.done():
            await asyncio.wait({task}, timeout=seconds)
        return len(self._queues[loop].events if loop in self._queues else ()) + (task is not None and not task.done())

    def _put(self, event: AuditEvent, loop: asyncio.AbstractEventLoop) -> None:
        queue = self._queues.setdefault(loop, _LoopQueue())
        if len(queue.events) >= MAX_QUEUED or queue.held + event.held > MAX_HELD:
            self.drops.add(1, f"{len(queue.events):,} are waiting, {queue.held:,} characters")
            return
        queue.events.append(event)
        queue.held += event.held
        task = self._tasks.get(loop)
        if task is None or task.done():
            self._tasks[loop] = loop.create_task(self._work(queue))

    async def _work(self, queue: _LoopQueue) -> None:
        while queue.events:
            event = queue.events.popleft()
            queue.held -= event.held
            try:
                if (unreported := self.drops.unreported_event()) is not None:
                    await with_timeout(ASYNC_SECONDS, self._call_sink(unreported[0]))
                    self.drops.mark_reported(unreported[1])
                await with_timeout(ASYNC_SECONDS, self._call_sink(event))
            except Exception as failure:
                self.drops.add(1, _describe_failure(failure))
            except asyncio.CancelledError:
                self.drops.add(1 + len(queue.events), "the event loop has ended")
                queue.events.clear()
                queue.held = 0
                raise

    async def _call_sink(self, event: AuditEvent) -> None:
        await self._sink(event)


def sink_queue(sink: Sink) -> ThreadSinkQueue | TaskSinkQueue:
    """Returns the queue for a sink."""
    call = getattr(sink, "__call__", None)  # noqa: B004 - the method, to see whether it is async
    if inspect.iscoroutinefunction(sink) or inspect.iscoroutinefunction(call):
        return TaskSinkQueue(sink)  # pyright: ignore[reportArgumentType] - the check above says so
    return ThreadSinkQueue(sink)


def _describe_failure(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}"[:200]


def _sink_name(sink: object) -> str:
    return getattr(sink, "__name__", None) or type(sink).__name__


_WORKERS: Final[WeakSet[QueueWorker[Any]]] = WeakSet()


@atexit.register
def _at_exit() -> None:
    """Waits for the queues. Their threads are daemons, so that no hanging sink keeps a process alive."""
    deadline = time.monotonic() + FLUSH_SECONDS
    # Twice: the worker that turns notes into events appends to the queues of the sinks.
    for worker in [*_WORKERS, *_WORKERS]:
        if not worker.flush(max(0.0, deadline - time.monotonic())):
            logger.error("audit: %d events were not written when the process ended", worker.pending)
