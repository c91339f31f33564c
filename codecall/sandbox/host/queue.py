"""What a script needs of a worker, and the queue of scripts that wait for one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import anyio

from codecall.errors import QueueFullError, WorkerPoolDisposedError
from codecall.sandbox.host.process import WorkerProcess

TIME_SLICE_S = 0.5
"""How long a worker stays with its owner while that one has more scripts waiting and others wait, too, in seconds. For
an owner that it does not know there has to be another worker, and making one takes longer than most scripts."""


class WorkerRequest(NamedTuple):
    """What a script needs of a worker."""

    memory_mb: int
    """Engine heap in MiB."""
    owner: str = ""
    """Whose script it is. A worker serves one owner only: were it taken over, it would see what the next one brings."""

    def accepts(self, worker: WorkerProcess) -> bool:
        """Whether that worker will do."""
        return worker.memory_mb >= self.memory_mb and worker.owner in (None, self.owner)

    def pick(self, idle: Sequence[WorkerProcess]) -> int | None:
        """Which of the workers, in the order in which they were returned, will do best: the last one, whose memory is
        warm; one that still loads only if there is no other. None if no one will do."""
        fitting = [index for index, worker in enumerate(idle) if self.accepts(worker)]
        return max(fitting, key=lambda index: (idle[index].ready, idle[index].owner is not None, index), default=None)


class QueuedRequest:
    """A script in the queue. Whoever returns a worker hands it over, or the place of one that will not do."""

    __slots__ = ("event", "has_own_worker", "may_spawn", "refusal", "request", "worker")

    def __init__(self, need: WorkerRequest, *, has_own: bool) -> None:
        self.request = need
        self.has_own_worker = has_own
        """Whether it has a worker of its own, which still loads: it needs no place."""
        self.event = anyio.Event()
        """Set when there is no more to wait for; with none of the three below, because the pool is closed."""
        self.worker: WorkerProcess | None = None
        self.may_spawn = False
        self.refusal: QueueFullError | None = None
        """Why it lost its place in the queue."""


class FairQueue:
    """Scripts that wait: owner by owner in turn, those of one owner in the order they came.

    So nobody waits longer because somebody else has sent more, but for the `TIME_SLICE_S` that a turn with a worker
    lasts:
    within it the worker takes its owner's next script rather than another's. Where the queue is full, whoever has
    fewer scripts in it takes the place of the last one of whoever has most.

    Args:
        longest: How many may wait.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._lines: dict[str, deque[QueuedRequest]] = {}
        """By owner, whose turn it is first; no line is empty."""

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    def add(self, request: WorkerRequest, *, has_own_worker: bool = False) -> QueuedRequest:
        """Go to the end. A script that `has_own` worker, which still loads, does not count against the bound.

        Raises:
            QueueFullError: as many wait as may, and nobody else has more of them.
        """
        if not has_own_worker and len(self) >= self._longest:
            self._make_room(request.owner)
        waiter = QueuedRequest(request, has_own=has_own_worker)
        self._lines.setdefault(request.owner, deque()).append(waiter)
        return waiter

    def remove(self, waiter: QueuedRequest) -> None:
        """Somebody does not wait any longer."""
        line = self._lines.get(waiter.request.owner, ())
        if waiter in line:
            self._take(waiter)

    def assign(self, worker: WorkerProcess) -> bool:
        """Whoever's turn it is gets that worker; False if it will not do for them."""
        now = time.monotonic()
        own = self._lines.get(worker.owner) if worker.owner is not None and now < worker.slice_ends_at else None
        if own and own[0].request.accepts(worker):
            waiter = own[0]
            self._take(waiter)
        else:
            waiter = self._first()
            if not waiter.request.accepts(worker):
                return False
            self._serve(waiter)
            start_time_slice(worker)
        waiter.worker = worker
        waiter.event.set()
        return True

    def grant_spawn(self) -> bool:
        """The first who has no worker of its own may have one made; False when there is nobody."""
        for line in self._lines.values():
            for waiter in line:
                if not waiter.has_own_worker:
                    self._serve(waiter)
                    waiter.may_spawn = True
                    waiter.event.set()
                    return True
        return False

    def release_all(self) -> None:
        """Nobody gets anything any more."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            for waiter in line:
                waiter.event.set()

    def _first(self) -> QueuedRequest:
        return next(iter(self._lines.values()))[0]

    def _take(self, waiter: QueuedRequest) -> None:
        line = self._lines[waiter.request.owner]
        line.remove(waiter)
        if not line:
            del self._lines[waiter.request.owner]

    def _serve(self, waiter: QueuedRequest) -> None:
        """Its turn has come; that of its owner's next comes after everybody else's."""
        owner = waiter.request.owner
        self._take(waiter)
        if owner in self._lines:
            self._lines[owner] = self._lines.pop(owner)

    def _make_room(self, owner: str) -> None:
        """A place for a script of `owner`: one of whoever has at least two more than that."""
        longest = max(self._lines.values(), key=len, default=deque[QueuedRequest]())
        if len(longest) > len(self._lines.get(owner, ())) + 1:
            for waiter in reversed(longest):
                if not waiter.has_own_worker:
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


def start_time_slice(worker: WorkerProcess) -> None:
    """It is given to an owner whose turn has come, and stays there for `TIME_SLICE_S`."""
    worker.slice_ends_at = time.monotonic() + TIME_SLICE_S


def closed_error() -> WorkerPoolDisposedError:
    """The error of scripts for which there are no workers any more."""
    return WorkerPoolDisposedError("The enclave has been closed")


def shutting_down_error() -> WorkerPoolDisposedError:
    """The error of scripts that come while the server waits for those that run."""
    return WorkerPoolDisposedError(
        "The server is shutting down and takes no more scripts; this one was not run",
        hint="Send it again: another instance of the server may take it, or this one when it is back.",
    )
