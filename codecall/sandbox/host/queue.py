"""What a script needs of a worker, and the queue of scripts that wait for one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import anyio

from codecall.errors import QueueFullError, WorkerPoolDisposedError
from codecall.sandbox.host.process import WorkerProcess

SLICE_S = 0.5
"""How long a worker stays with its owner while that one has more scripts waiting and others wait, too, in seconds. For
an owner that it does not know there has to be another worker, and making one takes longer than most scripts."""


class Need(NamedTuple):
    """What a script needs of a worker."""

    memory_mb: int
    """Engine heap in MiB."""
    owner: str = ""
    """Whose script it is. A worker serves one owner only: were it taken over, it would see what the next one brings."""

    def met_by(self, worker: WorkerProcess) -> bool:
        """Whether that worker will do."""
        return worker.memory_mb >= self.memory_mb and worker.owner in (None, self.owner)

    def best_of(self, idle: Sequence[WorkerProcess]) -> int | None:
        """Which of the workers, in the order in which they were returned, will do best: the last one, whose memory is
        warm; one that still loads only if there is no other. None if no one will do."""
        fitting = [index for index, worker in enumerate(idle) if self.met_by(worker)]
        return max(fitting, key=lambda index: (idle[index].ready, idle[index].owner is not None, index), default=None)


class Waiter:
    """A script in the queue. Whoever returns a worker hands it over, or the place of one that will not do."""

    __slots__ = ("event", "has_own", "has_place", "need", "refusal", "worker")

    def __init__(self, need: Need, *, has_own: bool) -> None:
        self.need = need
        self.has_own = has_own
        """Whether it has a worker of its own, which still loads: it needs no place."""
        self.event = anyio.Event()
        """Set when there is no more to wait for; with none of the three below, because the pool is closed."""
        self.worker: WorkerProcess | None = None
        self.has_place = False
        self.refusal: QueueFullError | None = None
        """Why it lost its place in the queue."""


class Queue:
    """Scripts that wait: owner by owner in turn, those of one owner in the order they came.

    So nobody waits longer because somebody else has sent more, but for the `SLICE_S` that a turn with a worker lasts:
    within it the worker takes its owner's next script rather than another's. Where the queue is full, whoever has
    fewer scripts in it takes the place of the last one of whoever has most.

    Args:
        longest: How many may wait.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._lines: dict[str, deque[Waiter]] = {}
        """By owner, whose turn it is first; no line is empty."""

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    def join(self, need: Need, *, has_own: bool = False) -> Waiter:
        """Go to the end. A script that `has_own` worker, which still loads, does not count against the bound.

        Raises:
            QueueFullError: as many wait as may, and nobody else has more of them.
        """
        if not has_own and len(self) >= self._longest:
            self._make_room(need.owner)
        waiter = Waiter(need, has_own=has_own)
        self._lines.setdefault(need.owner, deque()).append(waiter)
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """Somebody does not wait any longer."""
        line = self._lines.get(waiter.need.owner, ())
        if waiter in line:
            self._take(waiter)

    def hand_over(self, worker: WorkerProcess) -> bool:
        """Whoever's turn it is gets that worker; False if it will not do for them."""
        now = time.monotonic()
        own = self._lines.get(worker.owner) if worker.owner is not None and now < worker.stays_until else None
        if own and own[0].need.met_by(worker):
            waiter = own[0]
            self._take(waiter)
        else:
            waiter = self._first()
            if not waiter.need.met_by(worker):
                return False
            self._serve(waiter)
            begin_turn(worker)
        waiter.worker = worker
        waiter.event.set()
        return True

    def give_place(self) -> bool:
        """The first who has no worker of its own may have one made; False when there is nobody."""
        for line in self._lines.values():
            for waiter in line:
                if not waiter.has_own:
                    self._serve(waiter)
                    waiter.has_place = True
                    waiter.event.set()
                    return True
        return False

    def dismiss(self) -> None:
        """Nobody gets anything any more."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            for waiter in line:
                waiter.event.set()

    def _first(self) -> Waiter:
        return next(iter(self._lines.values()))[0]

    def _take(self, waiter: Waiter) -> None:
        line = self._lines[waiter.need.owner]
        line.remove(waiter)
        if not line:
            del self._lines[waiter.need.owner]

    def _serve(self, waiter: Waiter) -> None:
        """Its turn has come; that of its owner's next comes after everybody else's."""
        owner = waiter.need.owner
        self._take(waiter)
        if owner in self._lines:
            self._lines[owner] = self._lines.pop(owner)

    def _make_room(self, owner: str) -> None:
        """A place for a script of `owner`: one of whoever has at least two more than that."""
        longest = max(self._lines.values(), key=len, default=deque[Waiter]())
        if len(longest) > len(self._lines.get(owner, ())) + 1:
            for waiter in reversed(longest):
                if not waiter.has_own:
                    self._take(waiter)
                    waiter.refusal = self._full()
                    waiter.event.set()
                    return
        raise self._full()

    def _full(self) -> QueueFullError:
        return QueueFullError(
            f"{len(self)} scripts already wait for a worker; the limit is {self._longest}",
            hint="Try again in a moment; the operator can raise pool.max_workers or pool.max_queue.",
        )


def begin_turn(worker: WorkerProcess) -> None:
    """It is given to an owner whose turn has come, and stays there for `SLICE_S`."""
    worker.stays_until = time.monotonic() + SLICE_S


def closed() -> WorkerPoolDisposedError:
    """The error of scripts for which there are no workers any more."""
    return WorkerPoolDisposedError("The enclave has been closed")


def shutting_down() -> WorkerPoolDisposedError:
    """The error of scripts that come while the server waits for those that run."""
    return WorkerPoolDisposedError(
        "The server is shutting down and takes no more scripts; this one was not run",
        hint="Send it again: another instance of the server may take it, or this one when it is back.",
    )
