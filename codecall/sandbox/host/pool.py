"""Worker processes ready for scripts: prewarm, checkout, recycle, a bounded queue, clean shutdown.

The pool has no task of its own, so that it may be opened in one task and closed in another (a server's lifespan, a
request): whoever needs a worker starts it, whoever returns one decides its fate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio

from codecall.errors import (
    QueueFullError,
    QueueTimeoutError,
    WorkerError,
    WorkerPoolDisposedError,
    WorkerStartupError,
)
from codecall.options import PoolOptions
from codecall.sandbox.host.process import WorkerProcess


class _Waiter:
    """A script in the queue; `worker` is set by whoever returns one."""

    __slots__ = ("event", "worker")

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.worker: WorkerProcess | None = None


class WorkerPool:
    """Lends each worker to one script at a time.

    Args:
        options: Sizes and waiting times.
        max_runs: Scripts a worker serves before it is replaced.
    """

    def __init__(self, options: PoolOptions, *, max_runs: int) -> None:
        self._options = options
        self._max_runs = max_runs
        self._living: set[WorkerProcess] = set()
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._dying: list[WorkerProcess] = []
        self._waiters: deque[_Waiter] = deque()
        self._spawning = 0
        self._closed = False

    @property
    def size(self) -> int:
        """Worker processes, those being started included."""
        return len(self._living) + self._spawning

    @property
    def waiting(self) -> int:
        """Scripts in the queue."""
        return len(self._waiters)

    @property
    def closed(self) -> bool:
        """Whether the pool has been closed."""
        return self._closed

    def pids(self) -> list[int]:
        """Process ids of the living workers."""
        return [worker.pid for worker in self._living]

    async def start(self) -> None:
        """Start `min_workers` processes; they load while the caller goes on.

        Raises:
            WorkerStartupError: a process could not be started.
        """
        while self.size < min(self._options.min_workers, self._options.max_workers) and not self._closed:
            await self._spawn_idle()

    async def aclose(self) -> None:
        """Kill every worker, busy ones included, and refuse whoever waits. Idempotent."""
        self._closed = True
        while self._waiters:
            self._waiters.popleft().event.set()
        workers = [*self._living, *self._dying]
        self._living.clear()
        self._idle.clear()
        self._dying.clear()
        with anyio.CancelScope(shield=True):
            for worker in workers:
                worker.kill()
            for worker in workers:
                await worker.close()

    @asynccontextmanager
    async def checkout(self) -> AsyncGenerator[WorkerProcess]:
        """A ready worker for one script.

        Leaving normally returns the worker; leaving by any exception, or with `retired` set on it, kills it and
        starts another in its place.

        Raises:
            QueueFullError, QueueTimeoutError, WorkerPoolDisposedError, WorkerStartupError
        """
        worker = await self._acquire()
        clean = False
        try:
            await worker.wait_ready(self._options.startup_timeout_ms)
            worker.runs += 1
            yield worker
            clean = not worker.retired
        finally:
            self._busy.discard(worker)
            if clean and worker.runs < self._max_runs and not self._closed and not worker.has_unread():
                self._offer(worker)
            else:
                await self._replace(worker)

    async def _acquire(self) -> WorkerProcess:
        self._check_open()
        self._reap()
        while self._idle:
            worker = self._take_idle()
            if worker.alive() and not (worker.ready and worker.has_unread()):
                self._busy.add(worker)
                return worker
            self._bury(worker)
        if self.size >= self._options.max_workers:
            return await self._wait()
        return await self._spawn_or_wait()

    def _take_idle(self) -> WorkerProcess:
        """The last one returned, whose memory is warm; one that still loads only if there is no other."""
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index].ready:
                return self._idle.pop(index)
        return self._idle.pop()

    async def _wait(self) -> WorkerProcess:
        if len(self._waiters) >= self._options.max_queue:
            raise QueueFullError(
                f"{len(self._waiters)} scripts already wait for a worker; the limit is {self._options.max_queue}",
                hint="Try again in a moment; the operator can raise pool.max_workers or pool.max_queue.",
            )
        waiter = _Waiter()
        self._waiters.append(waiter)
        try:
            with anyio.move_on_after(self._options.queue_timeout_ms / 1000):
                await waiter.event.wait()
        except BaseException:
            self._leave(waiter)
            raise
        if waiter.worker is None:
            self._leave(waiter)
            self._check_open()
            raise QueueTimeoutError(
                f"No worker became free within {self._options.queue_timeout_ms}ms",
                hint="Try again in a moment; the operator can raise pool.max_workers or pool.queue_timeout_ms.",
            )
        return waiter.worker

    def _leave(self, waiter: _Waiter) -> None:
        """A waiter gives up; a worker it has just been handed goes to the next."""
        if waiter.worker is not None:
            self._busy.discard(waiter.worker)
            self._offer(waiter.worker)
        elif waiter in self._waiters:
            self._waiters.remove(waiter)

    async def _spawn_or_wait(self) -> WorkerProcess:
        """A new process takes a while to load: take whichever comes first, it or one that is returned."""
        worker = await self._spawn()
        if not self._busy:
            self._busy.add(worker)
            return worker
        waiter = _Waiter()
        self._waiters.append(waiter)
        trouble: WorkerStartupError | None = None
        try:
            async with anyio.create_task_group() as group:

                async def load() -> None:
                    nonlocal trouble
                    try:
                        await worker.wait_ready(self._options.startup_timeout_ms)
                    except WorkerStartupError as error:
                        trouble = error
                    group.cancel_scope.cancel()

                group.start_soon(load)
                await waiter.event.wait()
                group.cancel_scope.cancel()
        except BaseException:
            self._leave(waiter)
            self._bury(worker)
            raise
        if waiter.worker is not None:
            if trouble is None:
                self._offer(worker)
            else:
                self._bury(worker)
            return waiter.worker
        self._leave(waiter)
        self._check_open(worker)
        if trouble is not None:
            self._bury(worker)
            raise trouble
        self._busy.add(worker)
        return worker

    async def _spawn(self) -> WorkerProcess:
        self._spawning += 1
        try:
            worker = await WorkerProcess.spawn()
        finally:
            self._spawning -= 1
        self._living.add(worker)
        worker.peers = self._busy
        self._check_open(worker)
        return worker

    async def _spawn_idle(self) -> None:
        self._offer(await self._spawn())

    def _offer(self, worker: WorkerProcess) -> None:
        if self._closed:
            self._bury(worker)
        elif self._waiters:
            waiter = self._waiters.popleft()
            waiter.worker = worker
            self._busy.add(worker)
            waiter.event.set()
        else:
            self._idle.append(worker)

    async def _replace(self, worker: WorkerProcess) -> None:
        self._bury(worker)
        wanted = bool(self._waiters) or self.size < min(self._options.min_workers, self._options.max_workers)
        if wanted and not self._closed:
            # The script that has just ended must not pay for it: whoever needs a worker next gets the error.
            with anyio.CancelScope(shield=True), suppress(WorkerError):
                await self._spawn_idle()

    def _bury(self, worker: WorkerProcess) -> None:
        """Kill now; take it off the system's table when it has died."""
        self._living.discard(worker)
        worker.kill()
        if not worker.reap():
            self._dying.append(worker)

    def _reap(self) -> None:
        if self._dying:
            self._dying = [worker for worker in self._dying if not worker.reap()]

    def _check_open(self, worker: WorkerProcess | None = None) -> None:
        if self._closed:
            if worker is not None:
                self._bury(worker)
            raise WorkerPoolDisposedError("The enclave has been closed")
