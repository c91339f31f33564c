"""The worker processes of one pool: those that live, and those that are dying."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from codecall.sandbox.host.process import WorkerProcess

WorkerExitReason = Literal["recycled", "killed", "died", "replaced", "closed"]
"""Why a worker ended: `recycled`, it has served all its scripts; `killed`, its last script left it unusable; `died`, it
ended by itself; `replaced`, it made room for a script that it could not serve; `closed`, with its pool."""


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
