"""How a ranking gets its entries: in a thread of its own, a batch at a time, while searches go on.

The thread begins with the first entry and ends when there is nothing more to do.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

import anyio
import numpy as np

from codecall.catalog.collecting import full_collections_later
from codecall.catalog.entries import CatalogEntry
from codecall.catalog.ranking import Flags, Numbers, Ranker

BATCH = 250
"""Entries a ranking takes in at a time: a tenth of a second by words. What is in a batch is searched after it."""


RankerT = TypeVar("RankerT", bound=Ranker)


class _Job(NamedTuple):
    numbers: list[int]
    entries: list[CatalogEntry] | None
    """None: the numbers are to be forgotten."""
    done: Callable[[], None] | None = None


class Feeder(Generic[RankerT]):
    """Feeds one ranking.

    Args:
        make: Makes it; runs in the thread, since it may load large libraries or a model.
        name: Of the thread.
    """

    def __init__(self, make: Callable[[], RankerT], name: str) -> None:
        self._make = make
        self._name = name
        self._guard = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._running = False
        self._wanted: Flags = np.zeros(0, np.bool_)
        self._ready: Flags = np.zeros(0, np.bool_)
        self._failure: BaseException | None = None
        self.ranker: RankerT | None = None
        """The ranking, as soon as it is made."""

    def want(self, numbers: Numbers, entries: Sequence[CatalogEntry]) -> None:
        """Have those of the entries that are neither taken in nor about to be taken in, soon."""
        if self.ready(numbers).all():
            return
        with self._guard:
            places = np.flatnonzero(~_flags(self._wanted, numbers)).tolist()
            missing = {int(numbers[place]): entries[place] for place in places}
            jobs: list[_Job] = []
            for first in range(0, len(missing), BATCH):
                batch = list(missing)[first : first + BATCH]
                jobs.append(_Job(batch, [missing[number] for number in batch]))
            self._begin(jobs)
            self._wanted = _marked(self._wanted, list(missing), to=True)

    def forget(self, numbers: Sequence[int], done: Callable[[], None]) -> None:
        """Have entries forgotten, soon; then `done` is called, in the thread."""
        with self._guard:
            self._begin([_Job(list(numbers), None, done)])

    def warm(self) -> None:
        """Have the ranking made, soon."""
        with self._guard:
            self._begin([])

    def ready(self, numbers: Numbers) -> Flags:
        """Which of these can be searched."""
        return _flags(self._ready, numbers)

    async def wait(self, numbers: Numbers, seconds: float, first_seconds: float) -> None:
        """Until all of these, which are wanted, can be searched, or for that many seconds; while none can, for
        `first_seconds`.

        Raises:
            Exception: whatever stopped the ranking from taking entries in. The next search tries again.
        """
        if self.ready(numbers).all():
            return
        began = anyio.current_time()
        while True:
            waiter = asyncio.get_running_loop(), asyncio.Event()
            with self._guard:
                flags = self.ready(numbers)
                if self._failure is not None and not _flags(self._wanted, numbers).all():
                    raise self._failure
                left = began + (seconds if flags.any() else first_seconds) - anyio.current_time()
                if flags.all() or left <= 0:
                    return
                self._waiting.add(waiter)
            try:
                with anyio.move_on_after(left):
                    await waiter[1].wait()
            finally:
                with self._guard:
                    self._waiting.discard(waiter)

    def _begin(self, jobs: list[_Job]) -> None:
        """Have jobs done. The guard is held."""
        if not self._running and (jobs or self._jobs or self.ranker is None):
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._running = True
        self._jobs += jobs

    def _run(self) -> None:
        try:
            if self.ranker is None:
                with full_collections_later():
                    self.ranker = self._make()
            while (job := self._next()) is not None:
                self._work(self.ranker, job)
        except BaseException as failure:
            with self._guard:
                self._failure = failure
                failed = self._jobs[0] if self._jobs else None
                # What is to be forgotten still is, later; entries are wanted anew by the next search.
                self._jobs = deque(job for job in self._jobs if job.entries is None and job is not failed)
                self._wanted = self._ready
                self._running = False
            self._tell()

    def _next(self) -> _Job | None:
        with self._guard:
            if not self._jobs:
                self._running = False
                return None
            return self._jobs[0]

    def _work(self, ranker: Ranker, job: _Job) -> None:
        if job.entries is None:
            self._ready = _marked(self._ready, job.numbers, to=False)
            ranker.forget(job.numbers)
        else:
            ranker.add(job.numbers, job.entries)
            self._ready = _marked(self._ready, job.numbers, to=True)
        with self._guard:
            if job.entries is None:
                self._wanted = _marked(self._wanted, job.numbers, to=False)
            _ = self._jobs.popleft()
        if job.done is not None:
            job.done()
        self._tell()

    def _tell(self) -> None:
        with self._guard:
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            with suppress(RuntimeError):  # that event loop is no more
                loop.call_soon_threadsafe(event.set)


def _flags(known: Flags, numbers: Numbers) -> Flags:
    """`known` of these numbers; False for those beyond its end."""
    flags = np.zeros(len(numbers), np.bool_)
    inside = numbers < len(known)
    flags[inside] = known[numbers[inside]]
    return flags


def _marked(known: Flags, numbers: Sequence[int], *, to: bool) -> Flags:
    """`known` as it is with these numbers marked; readers keep what they have."""
    flags = np.zeros(max(len(known), max(numbers, default=-1) + 1), np.bool_)
    flags[: len(known)] = known
    flags[numbers] = to
    return flags
