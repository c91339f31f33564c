"""The pool of worker processes: prewarming, checkout, recycling, a bounded queue, clean shutdown.

A script may call a tool that runs a script itself: the one outside keeps its worker while it waits for the one inside.
So that scripts never wait for each other in a circle, each level of nesting has one place of its own beyond the pool's
workers, for when none of these is free. The innermost waits for nobody, and gives its place to the next.

The pool has no task of its own, so that it may be opened in one task and closed in another (a server's lifespan, a
request): workers are spawned on demand, and the task that returns a worker recycles or kills it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Final, Literal

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

SPARES = 2
"""Workers kept ready where each serves one script: one for the next script, and one so that spawning another can wait
until that script has ended."""

MAX_NESTED: Final = 3
"""Levels of nesting that have a place beyond the pool's workers: as many as calls may be nested."""

_holding: Final[ContextVar[tuple[object, ...]]] = ContextVar("codecall_holding", default=())
"""The keys of the pools whose workers wait for what this task does. Not the pools: what is scheduled meanwhile keeps a
copy of the context, and would keep them."""


WorkerExitReason = Literal["recycled", "killed", "died", "replaced", "closed"]
"""Why a worker ended: `recycled`, it has served all its scripts; `killed`, its last script left it unusable; `died`, it
ended by itself; `replaced`, it made room for a script that it could not serve; `closed`, with its pool."""


class WorkerPool:
    """Lends each worker to one script at a time.

    Args:
        options: Sizes and waiting times.
        prepare: What workers make ready for; `runs` is how many scripts each serves.
    """

    def __init__(self, options: PoolOptions, prepare: wire.Prepare) -> None:
        self._options = options
        self._prepare = prepare
        self._single_use = prepare.runs == 1
        self.spawner = WorkerSpawner(options, prepare)
        """Spawns the workers, and knows the layers of their jail."""
        self.limit = options.max_workers
        """Most worker processes now."""
        self.workers = WorkerRegistry()
        """The live workers."""
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._queue = FairQueue(options.max_queue)
        self._reserved = 0
        """Places of workers that are about to be spawned."""
        self._key = object()
        """Stands for the pool in `_holding`."""
        self._levels: set[int] = set()
        """The levels of nesting whose place beyond the others is taken."""
        self._beyond: dict[WorkerProcess, int] = {}
        """The level of each worker that runs in such a place."""
        self._closed = False
        self._refusal: Callable[[], WorkerPoolDisposedError] | None = None

    @property
    def size(self) -> int:
        """Worker processes, including those that are about to be spawned."""
        return len(self.workers) + self._reserved

    @property
    def waiting(self) -> int:
        """Scripts in the queue."""
        return len(self._queue)

    @property
    def closed(self) -> bool:
        """Whether the pool has been closed."""
        return self._closed

    def pids(self) -> list[int]:
        """Process ids of the live workers; a worker that is being forked has none yet."""
        return [worker.pid for worker in self.workers if worker.pid]

    def busy_workers(self) -> frozenset[WorkerProcess]:
        """The workers that run scripts now."""
        return frozenset(self._busy)

    def lend_places(self, count: int) -> None:
        """Let so many more scripts run, since as many wait for a person and do nothing; or fewer, if it is negative.
        `RunClock` calls it, since it knows whether there is a slot for that."""
        self.limit += count
        if count > 0:
            self._grant_spawns()

    async def start(self) -> None:
        """Start `min_workers` processes; they load in the background.

        Raises:
            WorkerStartupError: a process could not be started.
        """
        while self.size < min(self._options.min_workers, self.limit) and not self._closed:
            self._reserved += 1
            worker = self._spawn(self._prepare.limits.memory_mb)
            self.spawner.log_first_jail_report(worker)
            self._release(worker)

    def refuse(self, error: Callable[[], WorkerPoolDisposedError] = shutting_down_error) -> None:
        """Refuse new requests from now on, and those that wait."""
        self._refusal = self._refusal or error
        self._queue.release_all()

    async def aclose(self) -> None:
        """Kill every worker, busy ones included, and refuse requests that wait. Idempotent."""
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
        spawns another in its place.

        Raises:
            QueueFullError, QueueTimeoutError, WorkerPoolDisposedError, WorkerStartupError
        """
        outer = _holding.get()
        worker = await self._acquire(request._replace(level=outer.count(self._key)))
        is_new, worker.owner = worker.owner is None, request.owner
        clean = False
        _holding.set((*outer, self._key))
        try:
            await self.spawner.wait_ready(worker)
            if is_new:
                start_time_slice(worker)  # start-up does not count against the owner's slice
            worker.runs += 1
            if self._single_use and not self._idle and not self._queue and not self._refusal:
                self._prefork_spares()
            yield worker
            clean = not worker.retired
        finally:
            _holding.set(outer)
            self._busy.discard(worker)
            if level := self._beyond.pop(worker, 0):
                self._leave(level)
            used_up = worker.runs >= self._prepare.runs
            if clean and not used_up and not self._closed and not worker.pipe.has_unread():
                self._release(worker)
            else:
                reason = "recycled" if clean and used_up else "killed" if worker.alive() else "died"
                self._replace(worker, reason)
            if level:
                self._grant_beyond(level)

    # -------------------------------------------------------------------------------------- acquiring a worker

    async def _acquire(self, request: WorkerRequest) -> WorkerProcess:
        self._check_open()
        self.workers.reap()
        while (worker := self._take_idle(request)) is not None:
            # One that has ended has closed its end of the pipe, too, which is quicker to see.
            if not worker.pipe.has_unread() if worker.ready else worker.alive():
                self._busy.add(worker)
                start_time_slice(worker)
                return worker
            self._discard(worker, "killed" if worker.alive() else "died")
        if self.size >= self.limit:
            if not self._idle:
                beyond = self._enter(request.level)
                return await (self._spawn_beyond(request) if beyond else self._wait(request))
            # One that waits for another owner makes room.
            self._discard(self._idle.pop(0), "replaced")
        self._reserved += 1
        return await self._spawn_or_wait(request)

    def _take_idle(self, request: WorkerRequest) -> WorkerProcess | None:
        best = request.pick(self._idle)
        return None if best is None else self._idle.pop(best)

    async def _wait(self, request: WorkerRequest) -> WorkerProcess:
        queued = self._queue.add(request)
        try:
            with anyio.move_on_after(self._options.queue_timeout_ms / 1000):
                await queued.event.wait()
        except BaseException:
            self._abandon(queued)
            raise
        if queued.worker is not None:
            return queued.worker
        if queued.may_spawn:
            return await (self._spawn_beyond(request) if queued.beyond else self._spawn_or_wait(request))
        self._abandon(queued)
        self._check_open()
        if queued.refusal is not None:
            raise queued.refusal
        raise QueueTimeoutError(
            f"No worker became free within {self._options.queue_timeout_ms}ms",
            hint="Try again in a moment; the operator can raise pool.max_workers or pool.queue_timeout_ms.",
        )

    def _abandon(self, queued: QueuedRequest) -> None:
        """Stop waiting with a request; what it has just been given goes to the next one."""
        if queued.worker is not None:
            self._busy.discard(queued.worker)
            self._release(queued.worker)
        elif queued.may_spawn:
            self._reserved -= 1
            if queued.beyond:
                self._leave(queued.request.level)
                self._grant_beyond(queued.request.level)
            self._grant_spawns()
        else:
            self._queue.remove(queued)

    async def _spawn_beyond(self, request: WorkerRequest) -> WorkerProcess:
        """Spawn a worker in the place of a level of nesting."""
        try:
            worker = await self._spawn_or_wait(request)
        except BaseException:
            self._leave(request.level)
            self._grant_beyond(request.level)
            raise
        self._beyond[worker] = request.level
        return worker

    def _enter(self, level: int) -> bool:
        """Reserve the place of a level of nesting; False where it has none, or it is taken."""
        if not 0 < level <= MAX_NESTED or level in self._levels:
            return False
        self._levels.add(level)
        self.limit += 1
        self._reserved += 1
        return True

    def _leave(self, level: int) -> None:
        self._levels.remove(level)
        self.limit -= 1

    def _grant_beyond(self, level: int) -> None:
        """Let the next request of a level of nesting have its place, which is free."""
        if not self._closed and level not in self._levels and self._queue.grant_beyond(level):
            self._enter(level)

    async def _spawn_or_wait(self, request: WorkerRequest) -> WorkerProcess:
        """Spawn a worker in a reserved place. It may take a while to load: one that is returned first is taken
        instead."""
        worker = self._spawn(request.memory_mb)
        if self.spawner.forks or not self._busy:
            self._busy.add(worker)
            return worker
        queued = self._queue.add(request, has_own_worker=True)
        startup_error: WorkerStartupError | None = None
        try:
            async with anyio.create_task_group() as group:

                async def load() -> None:
                    nonlocal startup_error
                    try:
                        await self.spawner.wait_ready(worker)
                    except WorkerStartupError as error:
                        startup_error = error
                    group.cancel_scope.cancel()

                group.start_soon(load)
                await queued.event.wait()
                group.cancel_scope.cancel()
        except BaseException:
            self._abandon(queued)
            self._discard(worker, "killed")
            raise
        if queued.worker is not None:
            if startup_error is None:
                self._release(worker)
            else:
                self._discard(worker, "died")
            return queued.worker
        self._abandon(queued)
        self._check_open(worker)
        if startup_error is not None:
            self._discard(worker, "died")
            raise startup_error
        self._busy.add(worker)
        return worker

    # -------------------------------------------------------------------------------------- spawning workers

    def _spawn(self, memory_mb: int) -> WorkerProcess:
        """Spawn a worker in a place reserved before; it loads in the background.

        Raises:
            WorkerStartupError, WorkerPoolDisposedError
        """
        try:
            worker = self.spawner.spawn(memory_mb)
        except BaseException:
            self._reserved -= 1
            self._grant_spawns()
            raise
        self._reserved -= 1
        self.workers.add(worker)
        worker.peers = self._busy
        self._check_open(worker)
        return worker

    def _prefork_spares(self) -> None:
        """Fork workers ahead of need, without waiting. Only a fork server can."""
        wanted = max(self._options.min_workers, SPARES) if self._single_use else self._options.min_workers
        with suppress(WorkerStartupError):  # the next request for a worker gets the error
            while self.spawner.forks and len(self._idle) < wanted and self.size < self.limit:
                worker = self.spawner.prefork()
                worker.peers = self._busy
                self.workers.add(worker)
                self._idle.append(worker)

    # -------------------------------------------------------------------------------------- returning workers

    def _release(self, worker: WorkerProcess) -> None:
        """Give a usable worker to the queue, or keep it idle."""
        if self._closed:
            self._discard(worker, "closed")
        elif self.size > self.limit:
            self._discard(worker, "replaced")
        elif not self._queue:
            self._idle.append(worker)
        elif self._queue.assign(worker):
            self._busy.add(worker)
        else:
            self._discard(worker, "replaced")

    def _replace(self, worker: WorkerProcess, reason: WorkerExitReason) -> None:
        self._discard(worker, reason)
        if self._refusal or self._queue:
            return
        if self.spawner.forks:
            if self._single_use or self.size < self._options.min_workers:
                self._prefork_spares()
        elif self.size < min(self._options.min_workers, self.limit):
            # The script that has just ended must not pay for it: the next request for a worker gets the error.
            with suppress(WorkerError):
                self._reserved += 1
                self._release(self._spawn(self._prepare.limits.memory_mb))

    def _discard(self, worker: WorkerProcess, reason: WorkerExitReason) -> None:
        self.workers.end(worker, reason)
        self._grant_spawns()

    def _grant_spawns(self) -> None:
        """Let queued requests spawn workers in the places that are free."""
        while self.size < self.limit and not self._closed and self._queue.grant_spawn():
            self._reserved += 1

    def _check_open(self, worker: WorkerProcess | None = None) -> None:
        """Raise the pool's refusal if it takes no requests, and discard `worker` then."""
        if self._refusal is not None:
            if worker is not None:
                self._discard(worker, "closed")
            raise self._refusal()


class WorkerRegistry:
    """The live workers of one pool, and those that are still dying."""

    def __init__(self) -> None:
        self.on_exit: Callable[[WorkerExitReason], None] | None = None
        """Called once for each worker that ends."""
        self._live: set[WorkerProcess] = set()
        self._dying: list[WorkerProcess] = []

    def __len__(self) -> int:
        """How many workers live."""
        return len(self._live)

    def __iter__(self) -> Iterator[WorkerProcess]:
        """The live workers, unordered."""
        return iter(self._live)

    def add(self, worker: WorkerProcess) -> None:
        """Register a new worker."""
        self._live.add(worker)

    def end(self, worker: WorkerProcess, reason: WorkerExitReason) -> None:
        """Kill a worker; it is reaped when it has died."""
        self._remove(worker, reason)
        worker.kill()
        if not worker.reap():
            self._dying.append(worker)

    def reap(self) -> None:
        """Reap the workers that have died since they were killed."""
        if self._dying:
            self._dying = [worker for worker in self._dying if not worker.reap()]

    def close(self) -> list[WorkerProcess]:
        """Remove all workers, and return them for the caller to kill and reap: live ones, and those still dying."""
        workers = [*self._live, *self._dying]
        for worker in tuple(self._live):
            self._remove(worker, "closed")
        self._dying.clear()
        return workers

    def _remove(self, worker: WorkerProcess, reason: WorkerExitReason) -> None:
        if worker in self._live:
            self._live.remove(worker)
            if self.on_exit is not None:
                self.on_exit(reason)
