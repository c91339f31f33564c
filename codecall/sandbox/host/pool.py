"""Worker processes ready for scripts: prewarm, checkout, recycle, a bounded queue, clean shutdown.

The pool has no task of its own, so that it may be opened in one task and closed in another (a server's lifespan, a
request): whoever needs a worker has one made, whoever returns one decides its fate.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

import anyio

from codecall.errors import QueueTimeoutError, WorkerError, WorkerPoolDisposedError, WorkerStartupError
from codecall.options import PoolOptions
from codecall.sandbox import wire
from codecall.sandbox.host.process import WorkerProcess
from codecall.sandbox.host.queue import (
    FairQueue,
    QueuedRequest,
    WorkerRequest,
    closed_error,
    shutting_down_error,
    start_time_slice,
)
from codecall.sandbox.host.spawner import WorkerSpawner

# ----------------------------------------------------------------------------------------------------
# The living workers of a pool, and how those ended that have.

WorkerExitReason = Literal["recycled", "killed", "died", "replaced", "closed"]
"""How a worker ended: `recycled`, its scripts are used up; `killed`, its last script left it unusable; `replaced`, it
made room for a script that it could not serve; `closed`, with its pool."""


class WorkerRegistry:
    """The living workers of one pool."""

    def __init__(self) -> None:
        self.on_exit: Callable[[WorkerExitReason], None] | None = None
        """Told of each that ends, once."""
        self._living: set[WorkerProcess] = set()
        self._dying: list[WorkerProcess] = []

    def __len__(self) -> int:
        """How many live."""
        return len(self._living)

    def __iter__(self) -> Iterator[WorkerProcess]:
        """They, in any order."""
        return iter(self._living)

    def add(self, worker: WorkerProcess) -> None:
        """A worker has been made."""
        self._living.add(worker)

    def end(self, worker: WorkerProcess, ending: WorkerExitReason) -> None:
        """Kill it now; take it off the system's table when it has died."""
        self._leaves(worker, ending)
        worker.kill()
        if not worker.reap():
            self._dying.append(worker)

    def reap(self) -> None:
        """Take those off the system's table that have died meanwhile."""
        if self._dying:
            self._dying = [worker for worker in self._dying if not worker.reap()]

    def close(self) -> list[WorkerProcess]:
        """All end with their pool: those to be killed, and those that are still dying."""
        workers = [*self._living, *self._dying]
        for worker in tuple(self._living):
            self._leaves(worker, "closed")
        self._dying.clear()
        return workers

    def _leaves(self, worker: WorkerProcess, ending: WorkerExitReason) -> None:
        if worker in self._living:
            self._living.remove(worker)
            if self.on_exit is not None:
                self.on_exit(ending)


# ----------------------------------------------------------------------------------------------------
# Worker processes ready for scripts: prewarm, checkout, recycle, a bounded queue, clean shutdown.

SPARES = 2
"""Workers kept ready where each serves one script: one for the next script, and one so that making another can wait
until that script has ended."""


class WorkerPool:
    """Lends each worker to one script at a time.

    Args:
        options: Sizes and waiting times.
        prepare: What workers make ready for; `runs` is how many scripts each serves.
    """

    def __init__(self, options: PoolOptions, prepare: wire.Prepare) -> None:
        self._options = options
        self._prepare = prepare
        self._once_only = prepare.runs == 1
        self.spawner = WorkerSpawner(options, prepare)
        """What makes its workers, and knows how they are held."""
        self.limit = options.max_workers
        """Worker processes at most."""
        self.workers = WorkerRegistry()
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._queue = FairQueue(options.max_queue)
        self._places = 0
        self._closed = False
        self._refusal: Callable[[], WorkerPoolDisposedError] | None = None

    @property
    def size(self) -> int:
        """Worker processes, those about to be made included."""
        return len(self.workers) + self._places

    @property
    def waiting(self) -> int:
        """Scripts in the queue."""
        return len(self._queue)

    @property
    def closed(self) -> bool:
        """Whether the pool has been closed."""
        return self._closed

    def pids(self) -> list[int]:
        """Process ids of the living workers; one being forked has none yet."""
        return [worker.pid for worker in self.workers if worker.pid]

    def busy_workers(self) -> frozenset[WorkerProcess]:
        """The workers that run scripts now."""
        return frozenset(self._busy)

    async def start(self) -> None:
        """Start `min_workers` processes; they load while the caller goes on.

        Raises:
            WorkerStartupError: a process could not be started.
        """
        while self.size < min(self._options.min_workers, self.limit) and not self._closed:
            self._places += 1
            worker = self._make(self._prepare.limits.memory_mb)
            self.spawner.log_first_jail_report(worker)
            self._offer(worker)

    def refuse(self, error: Callable[[], WorkerPoolDisposedError] = shutting_down_error) -> None:
        """Refuse whoever comes from now on, and whoever waits."""
        self._refusal = self._refusal or error
        self._queue.release_all()

    async def aclose(self) -> None:
        """Kill every worker, busy ones included, and refuse whoever waits. Idempotent."""
        self._closed = self.spawner.closed = True
        self.refuse(closed_error)
        workers = self.workers.close()
        self._idle.clear()
        with anyio.CancelScope(shield=True):
            for worker in workers:
                worker.kill()
            await self.spawner.aclose()
            for worker in workers:
                await worker.close()

    @asynccontextmanager
    async def checkout(self, request: WorkerRequest) -> AsyncGenerator[WorkerProcess]:
        """A ready worker for one script.

        Leaving normally returns the worker; leaving by any exception, or with `retired` set on it, kills it and
        has another made in its place.

        Raises:
            QueueFullError, QueueTimeoutError, WorkerPoolDisposedError, WorkerStartupError
        """
        worker = await self._acquire(request)
        is_new, worker.owner = worker.owner is None, request.owner
        clean = False
        try:
            await self.spawner.wait_ready(worker)
            if is_new:
                start_time_slice(worker)  # the time it took to load is not its owner's
            worker.runs += 1
            if self._once_only and not self._idle and not self._queue and not self._refusal:
                self._stock()
            yield worker
            clean = not worker.retired
        finally:
            self._busy.discard(worker)
            used_up = worker.runs >= self._prepare.runs
            if clean and not used_up and not self._closed and not worker.pipe.has_unread():
                self._offer(worker)
            else:
                ending = "recycled" if clean and used_up else "killed" if worker.alive() else "died"
                self._replace(worker, ending)

    # --------------------------------------------------------------------------------------- finding a worker

    async def _acquire(self, need: WorkerRequest) -> WorkerProcess:
        self._check_open()
        self.workers.reap()
        while (worker := self._take_idle(need)) is not None:
            if (alive := worker.alive()) and not (worker.ready and worker.pipe.has_unread()):
                self._busy.add(worker)
                start_time_slice(worker)
                return worker
            self._bury(worker, "killed" if alive else "died")
        if self.size >= self.limit:
            if not self._idle:
                return await self._wait(need)
            # One that waits for another owner makes room.
            self._bury(self._idle.pop(0), "replaced")
        self._places += 1
        return await self._make_or_wait(need)

    def _take_idle(self, need: WorkerRequest) -> WorkerProcess | None:
        best = need.pick(self._idle)
        return None if best is None else self._idle.pop(best)

    async def _wait(self, need: WorkerRequest) -> WorkerProcess:
        waiter = self._queue.add(need)
        try:
            with anyio.move_on_after(self._options.queue_timeout_ms / 1000):
                await waiter.event.wait()
        except BaseException:
            self._leave(waiter)
            raise
        if waiter.worker is not None:
            return waiter.worker
        if waiter.may_spawn:
            return await self._make_or_wait(need)
        self._leave(waiter)
        self._check_open()
        if waiter.refusal is not None:
            raise waiter.refusal
        raise QueueTimeoutError(
            f"No worker became free within {self._options.queue_timeout_ms}ms",
            hint="Try again in a moment; the operator can raise pool.max_workers or pool.queue_timeout_ms.",
        )

    def _leave(self, waiter: QueuedRequest) -> None:
        """A waiter gives up; what it has just been handed goes to the next."""
        if waiter.worker is not None:
            self._busy.discard(waiter.worker)
            self._offer(waiter.worker)
        elif waiter.may_spawn:
            self._places -= 1
            self._admit()
        else:
            self._queue.remove(waiter)

    async def _make_or_wait(self, need: WorkerRequest) -> WorkerProcess:
        """A new process may take a while to load: take whichever comes first, it or one that is returned."""
        worker = self._make(need.memory_mb)
        if self.spawner.forks or not self._busy:
            self._busy.add(worker)
            return worker
        waiter = self._queue.add(need, has_own_worker=True)
        trouble: WorkerStartupError | None = None
        try:
            async with anyio.create_task_group() as group:

                async def load() -> None:
                    nonlocal trouble
                    try:
                        await self.spawner.wait_ready(worker)
                    except WorkerStartupError as error:
                        trouble = error
                    group.cancel_scope.cancel()

                group.start_soon(load)
                await waiter.event.wait()
                group.cancel_scope.cancel()
        except BaseException:
            self._leave(waiter)
            self._bury(worker, "killed")
            raise
        if waiter.worker is not None:
            if trouble is None:
                self._offer(worker)
            else:
                self._bury(worker, "died")
            return waiter.worker
        self._leave(waiter)
        self._check_open(worker)
        if trouble is not None:
            self._bury(worker, "died")
            raise trouble
        self._busy.add(worker)
        return worker

    # ---------------------------------------------------------------------------------------- making workers

    def _make(self, memory_mb: int) -> WorkerProcess:
        """A new process in a place counted before; it loads while the caller goes on.

        Raises:
            WorkerStartupError, WorkerPoolDisposedError
        """
        try:
            worker = self.spawner.spawn(memory_mb)
        except BaseException:
            self._places -= 1
            self._admit()
            raise
        self._places -= 1
        self.workers.add(worker)
        worker.peers = self._busy
        self._check_open(worker)
        return worker

    def _stock(self) -> None:
        """Have workers made ahead of need, without waiting. Only a fork server can."""
        few = max(self._options.min_workers, SPARES) if self._once_only else self._options.min_workers
        with suppress(WorkerStartupError):  # whoever needs a worker next gets the error
            while self.spawner.forks and len(self._idle) < few and self.size < self.limit:
                worker = self.spawner.prefork()
                worker.peers = self._busy
                self.workers.add(worker)
                self._idle.append(worker)

    # -------------------------------------------------------------------------------------- returning workers

    def _offer(self, worker: WorkerProcess) -> None:
        if self._closed:
            self._bury(worker, "closed")
        elif not self._queue:
            self._idle.append(worker)
        elif self._queue.assign(worker):
            self._busy.add(worker)
        else:
            self._bury(worker, "replaced")

    def _admit(self) -> None:
        """Whenever a place has come free: those in the queue may have workers made."""
        while self.size < self.limit and not self._closed and self._queue.grant_spawn():
            self._places += 1

    def _replace(self, worker: WorkerProcess, ending: WorkerExitReason) -> None:
        self._bury(worker, ending)
        if self._refusal or self._queue:
            return
        if self.spawner.forks:
            if self._once_only or self.size < self._options.min_workers:
                self._stock()
        elif self.size < min(self._options.min_workers, self.limit):
            # The script that has just ended must not pay for it: whoever needs a worker next gets the error.
            with suppress(WorkerError):
                self._places += 1
                self._offer(self._make(self._prepare.limits.memory_mb))

    def _bury(self, worker: WorkerProcess, ending: WorkerExitReason) -> None:
        self.workers.end(worker, ending)
        self._admit()

    def _check_open(self, worker: WorkerProcess | None = None) -> None:
        if self._refusal is not None:
            if worker is not None:
                self._bury(worker, "closed")
            raise self._refusal()
