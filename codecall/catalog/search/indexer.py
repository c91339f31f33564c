"""Feeds entries to a ranker in the background, and assigns the ids by which rankers know them.

A `BackgroundIndexer` adds entries in a thread of its own, a batch at a time, while searches go on. The thread starts
with the first entry and ends when there is nothing more to do.
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

BATCH_ENTRIES = 250
"""Entries that are indexed at a time: a tenth of a second by words. They can be searched after their batch."""

DocumentIdArray = NDArray[np.int32]
"""Ids of documents; each entry keeps its id for as long as any caller sees it."""
Scores = NDArray[np.float32]
Flags = NDArray[np.bool_]

MAX_DOCUMENT_SETS = 16
"""Different sets of entries, one for each kind of caller, that are recognised at once."""

SPARE_ENTRIES = 256
"""Entries that no caller sees and that stay indexed: a caller may come back. As many as are seen may stay in any
case."""


class Ranker(Protocol):
    """Ranks entries for a query. One thread at a time adds and removes; any thread may ask for scores meanwhile."""

    def add(self, ids: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        """Adds entries under ids that are not in use."""
        ...

    def remove(self, ids: Collection[int]) -> None:
        """Removes entries; their ids may be used again."""
        ...

    def scores(self, view: DocumentIdArray, query: str) -> Scores:
        """Returns how well each entry of `view` fits, 0 to 1; entries outside `view` do not matter.

        All entries of `view` have been added.
        """
        ...


RankerT = TypeVar("RankerT", bound=Ranker)


class BackgroundIndexer(Generic[RankerT]):
    """Adds entries to one ranker and removes them, in a background thread.

    Args:
        create_ranker: Creates the ranker; runs in the thread, since it may load large libraries or a model.
        name: The name of the thread.
    """

    def __init__(self, make: Callable[[], RankerT], name: str) -> None:
        self._create_ranker = make
        self._name = name
        self._lock = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._running = False
        self._scheduled: Flags = np.zeros(0, np.bool_)
        self._indexed: Flags = np.zeros(0, np.bool_)
        self._failure: BaseException | None = None
        self.ranker: RankerT | None = None
        """The ranker, as soon as it exists."""

    def enqueue(self, numbers: DocumentIdArray, entries: Sequence[CatalogEntry]) -> None:
        """Schedules the entries that are neither indexed nor scheduled yet."""
        if self.is_indexed(numbers).all():
            return
        with self._lock:
            places = np.flatnonzero(~_flags(self._scheduled, numbers)).tolist()
            missing = {int(numbers[place]): entries[place] for place in places}
            jobs: list[_Job] = []
            for first in range(0, len(missing), BATCH_ENTRIES):
                batch = list(missing)[first : first + BATCH_ENTRIES]
                jobs.append(_Job(batch, [missing[number] for number in batch]))
            self._schedule(jobs)
            self._scheduled = _with_flags(self._scheduled, list(missing), to=True)

    def remove(self, numbers: Sequence[int], done: Callable[[], None]) -> None:
        """Schedules the removal of entries; `done` is called afterwards, in the thread."""
        with self._lock:
            self._schedule([_Job(list(numbers), None, done)])

    def start_loading(self) -> None:
        """Starts to create the ranker."""
        with self._lock:
            self._schedule([])

    def is_indexed(self, numbers: DocumentIdArray) -> Flags:
        """Returns which of these documents can be searched."""
        return _flags(self._indexed, numbers)

    async def wait_until_indexed(self, numbers: DocumentIdArray, seconds: float, first_seconds: float) -> None:
        """Waits until all of these scheduled documents can be searched, for `seconds` at most; while none can, for
        `first_seconds`.

        Raises:
            Exception: whatever stopped the ranker from adding entries. The next search tries again.
        """
        if self.is_indexed(numbers).all():
            return
        began = anyio.current_time()
        while True:
            waiter = asyncio.get_running_loop(), asyncio.Event()
            with self._lock:
                flags = self.is_indexed(numbers)
                if self._failure is not None and not _flags(self._scheduled, numbers).all():
                    raise self._failure
                left = began + (seconds if flags.any() else first_seconds) - anyio.current_time()
                if flags.all() or left <= 0:
                    return
                self._waiting.add(waiter)
            try:
                with anyio.move_on_after(left):
                    await waiter[1].wait()
            finally:
                with self._lock:
                    self._waiting.discard(waiter)

    def _schedule(self, jobs: list[_Job]) -> None:
        """Schedules jobs. The lock is held."""
        if not self._running and (jobs or self._jobs or self.ranker is None):
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._running = True
        self._jobs += jobs

    def _run(self) -> None:
        try:
            if self.ranker is None:
                with defer_full_collections():
                    self.ranker = self._create_ranker()
            while (job := self._next_job()) is not None:
                self._run_job(self.ranker, job)
        except BaseException as failure:
            with self._lock:
                self._failure = failure
                failed = self._jobs[0] if self._jobs else None
                # What is to be forgotten still is, later; entries are wanted anew by the next search.
                self._jobs = deque(job for job in self._jobs if job.entries is None and job is not failed)
                self._scheduled = self._indexed
                self._running = False
            self._notify_waiters()

    def _next_job(self) -> _Job | None:
        with self._lock:
            if not self._jobs:
                self._running = False
                return None
            return self._jobs[0]

    def _run_job(self, ranker: Ranker, job: _Job) -> None:
        if job.entries is None:
            self._indexed = _with_flags(self._indexed, job.numbers, to=False)
            ranker.remove(job.numbers)
        else:
            ranker.add(job.numbers, job.entries)
            self._indexed = _with_flags(self._indexed, job.numbers, to=True)
        with self._lock:
            if job.entries is None:
                self._scheduled = _with_flags(self._scheduled, job.numbers, to=False)
            _ = self._jobs.popleft()
        if job.done is not None:
            job.done()
        self._notify_waiters()

    def _notify_waiters(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            with suppress(RuntimeError):  # that event loop is no more
                loop.call_soon_threadsafe(event.set)


class DocumentSet:
    """The documents that a caller sees. While the object is alive, none of its entries is removed."""

    def __init__(self, entries: tuple[CatalogEntry, ...], numbers: DocumentIdArray) -> None:
        self.entries = entries
        self.ids = numbers

    @cached_property
    def name_ranks(self) -> DocumentIdArray:
        """For each entry, its rank by name; 5 ms for 10,000, once."""
        order = sorted(range(len(self.entries)), key=lambda i: (self.entries[i].name, self.entries[i].kind))
        places = np.zeros(len(order), np.int32)
        places[order] = np.arange(len(order))
        return places


class DocumentIds:
    """Assigns ids to entries. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # comparing 10,000 entries takes its time: not for the event loop
        self._recent_lock = threading.Lock()
        self._recent_sets: list[DocumentSet] = []
        self._document_sets: list[weakref.ref[DocumentSet]] = []
        self._entries: dict[int, CatalogEntry] = {}
        self._by_identity: dict[int, int] = {}
        self._by_name: dict[tuple[str, str, str], list[int]] = {}
        self._free_ids: list[int] = []
        self._next_id = 0

    def recent(self, entries: Sequence[CatalogEntry]) -> DocumentSet | None:
        """Returns the recent document set of the very same entry objects in the same order; 0.2 ms for 10,000."""
        with self._recent_lock:
            for view in self._recent_sets:
                if view.entries is entries or (
                    len(view.entries) == len(entries) and all(map(is_, view.entries, entries))
                ):
                    self._recent_sets.remove(view)
                    self._recent_sets.insert(0, view)
                    return view
        return None

    def assign(self, entries: Sequence[CatalogEntry]) -> tuple[DocumentSet, list[int]]:
        """Returns the document set of these entries, and the ids of entries that are to be removed."""
        with self._lock:
            numbers = np.fromiter(map(self._id_of, entries), np.int32, len(entries))
            view = DocumentSet(tuple(entries), numbers)
            self._remember(view)
            self._document_sets = [*(held for held in self._document_sets if held() is not None), weakref.ref(view)]
            return view, self._take_unseen(len(entries))

    def release_after(self, numbers: Sequence[int], times: int) -> Callable[[], None]:
        """Returns a function that is to be called so many times before these ids are assigned to other entries."""
        left = times

        def done() -> None:
            nonlocal left
            with self._lock:
                left -= 1
                if not left:
                    self._free_ids += numbers

        return done

    def _remember(self, view: DocumentSet) -> None:
        with self._recent_lock:
            # Of equal entries made anew for each search, those of the last one are enough.
            others = [other for other in self._recent_sets if not np.array_equal(other.ids, view.ids)]
            self._recent_sets = [view, *others[: MAX_DOCUMENT_SETS - 1]]

    def _id_of(self, entry: CatalogEntry) -> int:
        number = self._by_identity.get(id(entry))
        if number is not None:
            return number
        key = (entry.kind, entry.app_id, entry.name)
        namesakes = self._by_name.setdefault(key, [])
        for number in namesakes:
            if _equal(self._entries[number], entry):
                return number
        number = self._free_ids.pop() if self._free_ids else self._next_id
        self._next_id = max(self._next_id, number + 1)
        self._entries[number] = entry
        self._by_identity[id(entry)] = number
        namesakes.append(number)
        return number

    def _take_unseen(self, newest: int) -> list[int]:
        """Takes out the entries that are in no document set, once they are many; `newest` entries are seen in any
        case."""
        if len(self._entries) - newest <= max(SPARE_ENTRIES, newest):
            return []
        views = [view for held in self._document_sets if (view := held()) is not None]
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


class _Job(NamedTuple):
    numbers: list[int]
    entries: list[CatalogEntry] | None
    """The entries to add; None: the ids are to be removed."""
    done: Callable[[], None] | None = None


def _flags(flags_by_id: Flags, ids: DocumentIdArray) -> Flags:
    """The flags of these ids; False for ids beyond the end."""
    selected = np.zeros(len(ids), np.bool_)
    inside = ids < len(flags_by_id)
    selected[inside] = flags_by_id[ids[inside]]
    return selected


def _with_flags(flags_by_id: Flags, ids: Sequence[int], *, to: bool) -> Flags:
    """A copy of the flags with those of these ids set to a value; readers keep the old array."""
    copied = np.zeros(max(len(flags_by_id), max(ids, default=-1) + 1), np.bool_)
    copied[: len(flags_by_id)] = flags_by_id
    copied[ids] = to
    return copied


def _equal(entry: CatalogEntry, other: CatalogEntry) -> bool:
    try:
        return entry == other
    except RecursionError:  # a schema nested without end; taken for a changed one
        return False
