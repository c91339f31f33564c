"""What a search index is, and the cache that builds one for each catalogue, off the event loop and only once.

Callers with different rights see different catalogues, so an index belongs to exactly the entries it was built from: a
hit, a score or a count can never betray a tool the caller may not see.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Protocol

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from codecall.catalog.collecting import full_collections_later, keep_out_of_collections
from codecall.catalog.entries import CatalogEntry

KEPT_CATALOGUES = 4
"""Indexes an `IndexCache` keeps by default; the one unused for longest goes first. An index of 10,000 real tools takes
about 15 MB, the entries aside (printed by `benchmarks/search_quality.py`)."""

MAX_LOOKUPS = 4
"""Threads of one event loop that look up or search at a time: more would only contend for the interpreter."""


WARMING = "codecall-index"
"""Name of the thread in which `IndexCache.warm` works."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One tool found."""

    name: str
    score: float
    """Above 0, at most 1, rounded to 4 decimals."""


class SearchIndex(Protocol):
    """A catalogue made searchable. Immutable; any thread may search it."""

    @property
    def size(self) -> int:
        """Tools in the index."""
        ...

    def search(self, query: str) -> list[Hit]:
        """All tools with a score above 0: falling score, then name. Equal input gives equal output."""
        ...


Build = Callable[[Sequence[CatalogEntry]], SearchIndex]


def _tfidf(entries: Sequence[CatalogEntry]) -> SearchIndex:
    with full_collections_later():
        # Imported here, in the worker thread: scikit-learn takes most of a second.
        from codecall.catalog.tfidf import TfidfIndex

        return TfidfIndex(entries)


@dataclass(frozen=True, slots=True)
class _Kept:
    entries: tuple[CatalogEntry, ...]
    index: SearchIndex


_warming = threading.Event()

# One limiter an event loop, as AnyIO keeps its own: a limiter must not be shared between loops.
_lookups: RunVar[CapacityLimiter] = RunVar("codecall_index_lookups")
_builds: RunVar[CapacityLimiter] = RunVar("codecall_index_builds")


def _limiter(variable: RunVar[CapacityLimiter], tokens: int) -> CapacityLimiter:
    limiter = variable.get(None)
    if limiter is None:
        limiter = CapacityLimiter(tokens)
        variable.set(limiter)
    return limiter


class IndexCache:
    """The indexes of the catalogues seen last.

    A catalogue is recognised by its entries: by identity on the event loop (0.2 ms for 10,000), else by value in a
    worker thread. An entry added, removed or changed in any field therefore gives a fresh index. Builds run one at a
    time in a worker thread; callers of the same catalogue share one, and a cancelled caller leaves it running for the
    others.

    The first build of a process loads scikit-learn: 0.8 s in a thread. `warm` at start-up gets that done before anybody
    waits.
    """

    def __init__(self, build: Build = _tfidf, *, kept: int = KEPT_CATALOGUES) -> None:
        """
        Args:
            build: makes an index of entries; runs in a worker thread.
            kept: indexes kept at most, at least 1.
        """
        if kept < 1:
            raise ValueError(f"kept: at least 1 index must be kept, got {kept}")
        self._build = build
        self._limit = kept
        self._kept: list[_Kept] = []
        self._kept_guard = threading.Lock()
        self._build_guard = threading.Lock()

    def warm(self) -> None:
        """Load what a build needs, in a thread of its own that nobody waits for; once per process.

        Then what the process holds at that moment is kept out of all later garbage collections (`gc.freeze`): see
        `collecting`.
        """
        if not _warming.is_set():
            _warming.set()
            threading.Thread(target=keep_out_of_collections, args=(partial(self._build, ()),), name=WARMING).start()

    async def get(self, entries: Sequence[CatalogEntry]) -> SearchIndex:
        """The index of exactly these entries, built if need be. Whatever `build` raises reaches each waiting caller."""
        wanted = tuple(entries)
        index = self._same(wanted)
        if index is None:
            # A lookup never waits for somebody else's build, so it comes first and has threads of its own.
            index = await to_thread.run_sync(
                self._equal, wanted, abandon_on_cancel=True, limiter=_limiter(_lookups, MAX_LOOKUPS)
            )
        if index is None:
            index = await to_thread.run_sync(
                self._equal_or_built, wanted, abandon_on_cancel=True, limiter=_limiter(_builds, 1)
            )
        return index

    async def search(self, entries: Sequence[CatalogEntry], queries: Sequence[str]) -> list[list[Hit]]:
        """The hits of each query over exactly these entries, in the order of the queries; all work off the loop."""
        index = await self.get(entries)
        work = partial(_search_all, index, tuple(queries))
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=_limiter(_lookups, MAX_LOOKUPS))

    def _same(self, wanted: tuple[CatalogEntry, ...]) -> SearchIndex | None:
        """The index of the very same entry objects; cheap enough for the event loop."""
        for kept in self._snapshot():
            if len(kept.entries) == len(wanted) and all(map(is_, kept.entries, wanted)):
                self._used(kept)
                return kept.index
        return None

    def _equal(self, wanted: tuple[CatalogEntry, ...]) -> SearchIndex | None:
        for kept in self._snapshot():
            if kept.entries == wanted:
                self._used(kept)
                return kept.index
        return None

    def _equal_or_built(self, wanted: tuple[CatalogEntry, ...]) -> SearchIndex:
        # The lock matters where the limiter does not reach: builds whose caller was cancelled, and other event loops.
        with self._build_guard:
            index = self._equal(wanted)
            if index is None:
                index = self._build(wanted)
                self._used(_Kept(wanted, index))
            return index

    def _snapshot(self) -> list[_Kept]:
        with self._kept_guard:
            return list(self._kept)

    def _used(self, kept: _Kept) -> None:
        """Put `kept` first and forget what is beyond the limit."""
        with self._kept_guard:
            self._kept = [kept, *(other for other in self._kept if other is not kept)][: self._limit]


def _search_all(index: SearchIndex, queries: Sequence[str]) -> list[list[Hit]]:
    return [index.search(query) for query in queries]
