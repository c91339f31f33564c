"""What a script needs of a worker, and the queue of scripts that wait for one."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import anyio

from codecall.errors import QueueFullError
from codecall.sandbox.host.process import WorkerProcess


class Need(NamedTuple):
    """What a script needs of a worker."""

    memory_mb: int
    """Engine heap in MiB."""
    owner: str = ""
    """Whose script it is. A worker serves one owner only: were it taken over, it would see what the next one brings."""

    def met_by(self, worker: WorkerProcess) -> bool:
        """Whether that worker will do."""
        return worker.memory_mb >= self.memory_mb and worker.owner in (None, self.owner)


class Waiter:
    """A script in the queue. Whoever returns a worker hands it over, or the place of one that will not do."""

    __slots__ = ("event", "has_own", "has_place", "need", "worker")

    def __init__(self, need: Need, *, has_own: bool) -> None:
        self.need = need
        self.has_own = has_own
        """Whether it has a worker of its own, which still loads: it needs no place."""
        self.event = anyio.Event()
        """Set when there is no more to wait for; with neither of the two below, because the pool is closed."""
        self.worker: WorkerProcess | None = None
        self.has_place = False


class Queue:
    """Scripts that wait, in the order they came.

    Args:
        longest: How many may wait.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._waiters: deque[Waiter] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiters)

    def join(self, need: Need, *, has_own: bool = False) -> Waiter:
        """Go to the end. A script that `has_own` worker, which still loads, does not count against the bound.

        Raises:
            QueueFullError: as many wait as may.
        """
        if not has_own and len(self._waiters) >= self._longest:
            raise QueueFullError(
                f"{len(self._waiters)} scripts already wait for a worker; the limit is {self._longest}",
                hint="Try again in a moment; the operator can raise pool.max_workers or pool.max_queue.",
            )
        waiter = Waiter(need, has_own=has_own)
        self._waiters.append(waiter)
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """Somebody does not wait any longer."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def wants(self, worker: WorkerProcess) -> bool:
        """Whether that worker will do for the first."""
        return self._waiters[0].need.met_by(worker)

    def hand_over(self, worker: WorkerProcess) -> None:
        """The first gets that worker."""
        waiter = self._waiters.popleft()
        waiter.worker = worker
        waiter.event.set()

    def give_place(self) -> bool:
        """The first who has no worker of its own may have one made; False when there is nobody."""
        for waiter in self._waiters:
            if not waiter.has_own:
                self._waiters.remove(waiter)
                waiter.has_place = True
                waiter.event.set()
                return True
        return False

    def dismiss(self) -> None:
        """Nobody gets anything any more."""
        while self._waiters:
            self._waiters.popleft().event.set()
