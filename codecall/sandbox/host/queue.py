"""The queue of requests for a worker: owners take turns, and the requests of one owner keep their order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import anyio

from codecall.errors import QueueFullError, WorkerPoolDisposedError
from codecall.sandbox.host.process import WorkerProcess

TIME_SLICE_S = 0.5
"""How long a worker stays with its owner while that owner has more scripts waiting and others wait, too, in seconds.
Another owner needs another worker, and spawning one takes longer than most scripts."""


class WorkerRequest(NamedTuple):
    """What a script needs of a worker."""

    memory_mb: int
    """Engine heap in MiB."""
    owner: str = ""
    """Whose script it is. A worker serves one owner only: were it taken over, it would see what the next one brings."""
    level: int = 0
    """How many scripts that hold workers of the same pool it is inside of."""

    def accepts(self, worker: WorkerProcess) -> bool:
        """Whether `worker` can run the script."""
        return worker.memory_mb >= self.memory_mb and worker.owner in (None, self.owner)

    def pick(self, idle: Sequence[WorkerProcess]) -> int | None:
        """The index of the best worker in `idle`, which is in the order in which workers were returned.

        That is the last one, whose memory is warm; one that still loads only if there is no other. None if no worker
        will do.
        """
        fitting = [index for index, worker in enumerate(idle) if self.accepts(worker)]
        return max(fitting, key=lambda index: (idle[index].ready, idle[index].owner is not None, index), default=None)


class QueuedRequest:
    """A request in the queue. A returned worker is assigned to it, or its place in the pool if that worker will not
    do."""

    __slots__ = ("beyond", "event", "has_own_worker", "may_spawn", "refusal", "request", "worker")

    def __init__(self, request: WorkerRequest, *, has_own_worker: bool) -> None:
        self.request = request
        self.has_own_worker = has_own_worker
        """Whether a worker is being loaded for it: it needs no place in the pool."""
        self.event = anyio.Event()
        """Set when waiting is over; with none of the three below, because the pool is closed."""
        self.worker: WorkerProcess | None = None
        """The worker that was assigned to it."""
        self.may_spawn = False
        """Whether it got a place in the pool for a new worker."""
        self.beyond = False
        """Whether that place is one beyond the pool's workers."""
        self.refusal: QueueFullError | None = None
        """Why it lost its place in the queue."""


class FairQueue:
    """Requests that wait: owner by owner in turn, those of one owner in the order they came; those of scripts inside
    of others first, since a worker waits for each.

    So nobody waits longer because another owner has sent more, but for the `TIME_SLICE_S` of a worker: within it the
    worker takes its owner's next script rather than another's. When the queue is full, an owner with fewer requests in
    it takes the place of the last request of the owner with most.

    Args:
        longest: How many may wait.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._lines: dict[str, deque[QueuedRequest]] = {}
        """Requests by owner; the owner whose turn it is comes first. No line is empty."""

    def __len__(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._lines.values()))

    def add(self, request: WorkerRequest, *, has_own_worker: bool = False) -> QueuedRequest:
        """Add a request at the end. One that `has_own_worker`, which still loads, does not count against the bound.

        Raises:
            QueueFullError: the queue is full, and no other owner has more requests in it.
        """
        if not has_own_worker and len(self) >= self._longest:
            self._make_room(request.owner)
        queued = QueuedRequest(request, has_own_worker=has_own_worker)
        line = self._lines.setdefault(request.owner, deque())
        behind = sum(1 for other in line if other.request.level < request.level) if request.level else 0
        line.insert(len(line) - behind, queued)
        return queued

    def remove(self, queued: QueuedRequest) -> None:
        """Remove a request that does not wait any longer, if it is still in the queue."""
        if queued in self._lines.get(queued.request.owner, ()):
            self._drop(queued)

    def assign(self, worker: WorkerProcess) -> bool:
        """Assign `worker` to the request whose turn it is; False if the worker will not do for it."""
        now = time.monotonic()
        own = self._lines.get(worker.owner) if worker.owner is not None and now < worker.slice_ends_at else None
        if own and own[0].request.accepts(worker):
            queued = own[0]
            self._drop(queued)
        else:
            queued = next(iter(self._lines.values()))[0]
            if not queued.request.accepts(worker):
                return False
            self._take_turn(queued)
            start_time_slice(worker)
        queued.worker = worker
        queued.event.set()
        return True

    def grant_spawn(self) -> bool:
        """Let the first request that has no worker of its own spawn one; False when there is no such request."""
        for line in self._lines.values():
            for queued in line:
                if not queued.has_own_worker:
                    self._take_turn(queued)
                    queued.may_spawn = True
                    queued.event.set()
                    return True
        return False

    def grant_beyond(self, level: int) -> bool:
        """Let the first request of a level of nesting spawn a worker beyond the pool's; False if none waits."""
        for line in self._lines.values():
            for queued in line:
                if queued.request.level == level and not queued.has_own_worker:
                    self._take_turn(queued)
                    queued.may_spawn = queued.beyond = True
                    queued.event.set()
                    return True
        return False

    def release_all(self) -> None:
        """Empty the queue: every request stops waiting and gets nothing."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            for queued in line:
                queued.event.set()

    def _drop(self, queued: QueuedRequest) -> None:
        line = self._lines[queued.request.owner]
        line.remove(queued)
        if not line:
            del self._lines[queued.request.owner]

    def _take_turn(self, queued: QueuedRequest) -> None:
        """Take a request out; the turn of its owner's next one comes after everybody else's."""
        owner = queued.request.owner
        self._drop(queued)
        if owner in self._lines:
            self._lines[owner] = self._lines.pop(owner)

    def _make_room(self, owner: str) -> None:
        """Refuse a request of the owner with most, if that has at least two more than `owner`."""
        longest = max(self._lines.values(), key=len, default=deque[QueuedRequest]())
        if len(longest) > len(self._lines.get(owner, ())) + 1:
            for queued in reversed(longest):
                if not queued.has_own_worker:
                    self._drop(queued)
                    queued.refusal = self._full_error()
                    queued.event.set()
                    return
        raise self._full_error()

    def _full_error(self) -> QueueFullError:
        return QueueFullError(
            f"{len(self)} scripts already wait for a worker; the limit is {self._longest}",
            hint="Try again in a moment; the operator can raise pool.max_workers or pool.max_queue.",
        )


def start_time_slice(worker: WorkerProcess) -> None:
    """Keep `worker` with its owner for the next `TIME_SLICE_S`."""
    worker.slice_ends_at = time.monotonic() + TIME_SLICE_S


def closed_error() -> WorkerPoolDisposedError:
    """The error of scripts that find the pool closed."""
    return WorkerPoolDisposedError("The enclave has been closed")


def shutting_down_error() -> WorkerPoolDisposedError:
    """The error of scripts that come while the server waits for those that run."""
    return WorkerPoolDisposedError(
        "The server is shutting down and takes no more scripts; this one was not run",
        hint="Send it again: another instance of the server may take it, or this one when it is back.",
    )
