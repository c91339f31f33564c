"""How a ranking gets its entries: in a thread of its own, a batch at a time, while searches go on.

The thread begins with the first entry and ends when there is nothing more to do.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property
from operator import is_
from typing import Generic, NamedTuple, Protocol, TypeVar

import anyio
import numpy as np
from numpy.typing import NDArray

from codecall.catalog.entries import CatalogEntry
from codecall.concurrency import defer_full_collections

# ----------------------------------------------------------------------------------------------------
# What the library asks of a ranking: the one by words, the one by meaning.

DocumentIdArray = NDArray[np.int32]
"""Documents; each entry of the catalog has a number as long as anybody sees it."""
Scores = NDArray[np.float32]
Flags = NDArray[np.bool_]


class Ranker(Protocol):
    """Ranks entries for a query. One thread at a time adds and forgets; any thread asks for scores meanwhile."""

    def add(self, ids: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        """Take entries in, under numbers that are not in use."""
        ...

    def remove(self, ids: Collection[int]) -> None:
        """Let entries go; their numbers may be used again."""
        ...

    def scores(self, view: DocumentIdArray, query: str) -> Scores:
        """How well each entry of `view` fits, 0 to 1, and nothing that depends on an entry outside of it.

        All of `view` has been added.
        """
        ...


# ----------------------------------------------------------------------------------------------------
# How a ranking gets its entries: in a thread of its own, a batch at a time, while searches go on.

BATCH_ENTRIES = 250
"""Entries a ranking takes in at a time: a tenth of a second by words. What is in a batch is searched after it."""


RankerT = TypeVar("RankerT", bound=Ranker)


class _Job(NamedTuple):
    numbers: list[int]
    entries: list[CatalogEntry] | None
    """None: the numbers are to be forgotten."""
    done: Callable[[], None] | None = None


class BackgroundIndexer(Generic[RankerT]):
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

    def enqueue(self, numbers: DocumentIdArray, entries: Sequence[CatalogEntry]) -> None:
        """Have those of the entries that are neither taken in nor about to be taken in, soon."""
        if self.is_indexed(numbers).all():
            return
        with self._guard:
            places = np.flatnonzero(~_flags(self._wanted, numbers)).tolist()
            missing = {int(numbers[place]): entries[place] for place in places}
            jobs: list[_Job] = []
            for first in range(0, len(missing), BATCH_ENTRIES):
                batch = list(missing)[first : first + BATCH_ENTRIES]
                jobs.append(_Job(batch, [missing[number] for number in batch]))
            self._begin(jobs)
            self._wanted = _marked(self._wanted, list(missing), to=True)

    def remove(self, numbers: Sequence[int], done: Callable[[], None]) -> None:
        """Have entries forgotten, soon; then `done` is called, in the thread."""
        with self._guard:
            self._begin([_Job(list(numbers), None, done)])

    def start_loading(self) -> None:
        """Have the ranking made, soon."""
        with self._guard:
            self._begin([])

    def is_indexed(self, numbers: DocumentIdArray) -> Flags:
        """Which of these can be searched."""
        return _flags(self._ready, numbers)

    async def wait_until_indexed(self, numbers: DocumentIdArray, seconds: float, first_seconds: float) -> None:
        """Until all of these, which are wanted, can be searched, or for that many seconds; while none can, for
        `first_seconds`.

        Raises:
            Exception: whatever stopped the ranking from taking entries in. The next search tries again.
        """
        if self.is_indexed(numbers).all():
            return
        began = anyio.current_time()
        while True:
            waiter = asyncio.get_running_loop(), asyncio.Event()
            with self._guard:
                flags = self.is_indexed(numbers)
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
                with defer_full_collections():
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
            ranker.remove(job.numbers)
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


def _flags(known: Flags, numbers: DocumentIdArray) -> Flags:
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


# ----------------------------------------------------------------------------------------------------
# Which number each entry has, and what the callers of the last searches saw.

MAX_DOCUMENT_SETS = 16
"""Different sets of entries, one for each kind of caller, that are recognised at once."""

SPARE_ENTRIES = 256
"""Entries nobody sees that are kept: a caller may come back. As many again as are seen are kept, too."""


class DocumentSet:
    """What a caller sees. While anybody holds it, none of its entries is forgotten."""

    def __init__(self, entries: tuple[CatalogEntry, ...], numbers: DocumentIdArray) -> None:
        self.entries = entries
        self.ids = numbers

    @cached_property
    def name_ranks(self) -> DocumentIdArray:
        """For each entry, its place by name; 5 ms for 10,000, once."""
        order = sorted(range(len(self.entries)), key=lambda i: (self.entries[i].name, self.entries[i].kind))
        places = np.zeros(len(order), np.int32)
        places[order] = np.arange(len(order))
        return places


class DocumentIds:
    """Numbers for entries. Any thread may ask."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # comparing 10,000 entries takes its time: not for the event loop
        self._recent = threading.Lock()
        self._views: list[DocumentSet] = []
        self._held: list[weakref.ref[DocumentSet]] = []
        self._entries: dict[int, CatalogEntry] = {}
        self._by_identity: dict[int, int] = {}
        self._by_name: dict[tuple[str, str, str], list[int]] = {}
        self._free: list[int] = []
        self._next = 0

    def recent(self, entries: Sequence[CatalogEntry]) -> DocumentSet | None:
        """The view of the very same entry objects in the same order; 0.2 ms for 10,000."""
        with self._recent:
            for view in self._views:
                if view.entries is entries or (
                    len(view.entries) == len(entries) and all(map(is_, view.entries, entries))
                ):
                    self._views.remove(view)
                    self._views.insert(0, view)
                    return view
        return None

    def assign(self, entries: Sequence[CatalogEntry]) -> tuple[DocumentSet, list[int]]:
        """The view of these entries, and the numbers of entries that are to be forgotten."""
        with self._guard:
            numbers = np.fromiter(map(self._number, entries), np.int32, len(entries))
            view = DocumentSet(tuple(entries), numbers)
            self._remember(view)
            self._held = [*(held for held in self._held if held() is not None), weakref.ref(view)]
            return view, self._unseen(len(entries))

    def release_after(self, numbers: Sequence[int], times: int) -> Callable[[], None]:
        """What to call so many times before these numbers are given to other entries."""
        left = times

        def done() -> None:
            nonlocal left
            with self._guard:
                left -= 1
                if not left:
                    self._free += numbers

        return done

    def _remember(self, view: DocumentSet) -> None:
        with self._recent:
            # Of equal entries made anew for each search, those of the last one are enough.
            others = [other for other in self._views if not np.array_equal(other.ids, view.ids)]
            self._views = [view, *others[: MAX_DOCUMENT_SETS - 1]]

    def _number(self, entry: CatalogEntry) -> int:
        number = self._by_identity.get(id(entry))
        if number is not None:
            return number
        key = (entry.kind, entry.app_id, entry.name)
        namesakes = self._by_name.setdefault(key, [])
        for number in namesakes:
            if _equal(self._entries[number], entry):
                return number
        number = self._free.pop() if self._free else self._next
        self._next = max(self._next, number + 1)
        self._entries[number] = entry
        self._by_identity[id(entry)] = number
        namesakes.append(number)
        return number

    def _unseen(self, newest: int) -> list[int]:
        """The entries that no view holds, taken out, once they are many; `newest` are seen in any case."""
        if len(self._entries) - newest <= max(SPARE_ENTRIES, newest):
            return []
        views = [view for held in self._held if (view := held()) is not None]
        seen = {number for view in views for number in view.ids.tolist()}
        if len(self._entries) - len(seen) <= max(SPARE_ENTRIES, len(seen)):
            return []
        unseen = [number for number in self._entries if number not in seen]
        for number in unseen:
            entry = self._entries.pop(number)
            del self._by_identity[id(entry)]
            key = (entry.kind, entry.app_id, entry.name)
            self._by_name[key].remove(number)
            if not self._by_name[key]:
                del self._by_name[key]
        return unseen


def _equal(entry: CatalogEntry, other: CatalogEntry) -> bool:
    try:
        return entry == other
    except RecursionError:  # a schema nested without end; taken for a changed one
        return False
