"""The living workers of a pool, and how those ended that have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from codecall.sandbox.host.process import WorkerProcess

WorkerEnding = Literal["recycled", "killed", "died", "replaced", "closed"]
"""How a worker ended: `recycled`, its scripts are used up; `killed`, its last script left it unusable; `replaced`, it
made room for a script that it could not serve; `closed`, with its pool."""


class Census:
    """The living workers of one pool."""

    def __init__(self) -> None:
        self.told: Callable[[WorkerEnding], None] | None = None
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

    def end(self, worker: WorkerProcess, ending: WorkerEnding) -> None:
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

    def _leaves(self, worker: WorkerProcess, ending: WorkerEnding) -> None:
        if worker in self._living:
            self._living.remove(worker)
            if self.told is not None:
                self.told(ending)
