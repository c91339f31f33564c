"""What `codecall:search` asks: one library for all callers, of which each sees only their own part.

A caller brings the entries they may see; those the library does not know yet are indexed, alone and in the background.
Scores, counts and suggestions are made from the caller's entries: what is indexed for others changes nothing in them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, overload

import numpy as np
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import MAX_REQUEST_PARTS, split_request
from codecall.catalog.search.fusion import best_cosines, fuse_scores, representative_entries, semantic_scores
from codecall.catalog.search.indexer import BackgroundIndexer, DocumentIdArray, DocumentIds, DocumentSet, Ranker, Scores
from codecall.concurrency import load_and_freeze

WAIT_S = 2.0
"""Seconds a search waits for what is being indexed before it answers from what there is. A model's turn takes as long;
1,000 entries take half of it."""

FIRST_WAIT_S = 30.0
"""The same while there is nothing to answer from: a process that begins loads libraries first."""

MAX_SEARCH_THREADS = 4
"""Threads of one event loop that search at a time: more would only contend for the interpreter."""

MIN_SCORE = 0.1
"""Scores below are noise and count as no hit."""

LOADER_THREAD = "codecall-index"
"""Name of the thread in which a process loads what a library needs."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One entry found."""

    entry: CatalogEntry
    score: float
    """At least `LEAST_SCORE`, at most 1, rounded to 4 decimals."""


class Hits(Sequence[Hit]):
    """What one query found, by falling score, then name, then kind. A hit is made when it is looked at."""

    def __init__(self, entries: Sequence[CatalogEntry], found: DocumentIdArray, scores: Sequence[float]) -> None:
        self._entries = entries
        self._found = found
        self._scores = scores

    def __len__(self) -> int:
        """How many there are."""
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        """The hit at a place, or some of them."""
        if isinstance(index, slice):
            return Hits(self._entries, self._found[index], self._scores[index])
        return Hit(self._entries[int(self._found[index])], self._scores[index])


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What a search found."""

    hits: list[Hits]
    """For each query."""
    ready: int
    """Entries that could be searched by their words; fewer than there are while the rest is being indexed."""
    encoded: int
    """Entries that could be searched by their meaning, where that is asked for; else the same as `ready`."""


class SemanticRanker(Ranker, Protocol):
    """A ranking by meaning: cosines, NaN where an entry has no vector yet. It may have none at all."""

    @property
    def failed(self) -> bool:
        """Whether the model has failed: there is nothing more to wait for."""
        ...

    def count_encoded(self, view: DocumentIdArray) -> int:
        """How many entries of `view` have a vector."""
        ...

    def encode_queries(self, queries: Iterable[str]) -> None:
        """What is about to be asked, so that it is encoded at once."""
        ...


@dataclass(frozen=True, slots=True)
class SemanticOptions:
    """How a library ranks by meaning."""

    create_ranker: Callable[[], SemanticRanker]
    """Makes the ranking, once; runs in a thread, since it loads a model."""
    semantic_only: bool = False
    """Whether words count only where there is no vector yet."""


_warming = threading.Event()

# One limiter an event loop, as AnyIO keeps its own: a limiter must not be shared between loops.
_lookups: RunVar[CapacityLimiter] = RunVar("codecall_index_lookups")


def search_threads() -> CapacityLimiter:
    """The threads of this event loop for work on many entries, apart from those in which tools run."""
    limiter = _lookups.get(None)
    if limiter is None:
        limiter = CapacityLimiter(MAX_SEARCH_THREADS)
        _lookups.set(limiter)
    return limiter


class SearchIndex:
    """The entries of all callers, indexed.

    Entries that are the same objects, in the same order, as in one of the last searches are recognised at once; others
    are compared by value in a thread. An entry nobody has seen for a while is forgotten.
    """

    def __init__(
        self,
        semantic: SemanticOptions | None = None,
        *,
        synonyms: Iterable[Iterable[str]] = (),
        wait_s: float = WAIT_S,
    ) -> None:
        """
        Args:
            meaning: How it ranks by meaning, if it does.
            synonyms: Groups of words that stand for each other.
            patience: Seconds a search waits for what is being indexed.
        """
        self._words = BackgroundIndexer(partial(_lexical, tuple(map(tuple, synonyms))), "codecall-words")
        self._meaning = BackgroundIndexer(semantic.create_ranker, "codecall-meaning") if semantic is not None else None
        self._alone = semantic is not None and semantic.semantic_only
        self._feeders: list[BackgroundIndexer[Any]] = [self._words, *([self._meaning] if self._meaning else [])]
        self._shelves = DocumentIds()
        self._patience = wait_s

    def start_loading(self) -> None:
        """Load what a search needs, in threads that nobody waits for.

        Once per process, what it holds by then is kept out of all later garbage collections (`gc.freeze`): see
        `collecting`.
        """
        for feeder in self._feeders:
            feeder.start_loading()
        if not _warming.is_set():
            _warming.set()
            threading.Thread(target=load_and_freeze, args=(_lexical,), name=LOADER_THREAD).start()

    async def search(
        self, entries: Sequence[CatalogEntry], queries: Sequence[str], *, timeout_s: float | None = None
    ) -> SearchResults:
        """The hits of each query among exactly these entries; all work off the event loop.

        Args:
            entries: What the caller may see.
            queries: What is looked for.
            at_most: Seconds to wait for what is being indexed; without it as long as a model would.

        Raises:
            Exception: what stopped the index from being made; the next search tries again.
        """
        view = await self._view(entries)
        # By words there is an answer in a moment; a model may take minutes, and nobody waits for those.
        patience, first = (self._patience, FIRST_WAIT_S) if timeout_s is None else (timeout_s, timeout_s)
        await self._words.wait_until_indexed(view.ids, patience, first)
        work = partial(self._search, view, tuple(queries))
        return await to_thread.run_sync(work, limiter=search_threads())

    async def representative_entries(
        self, entries: Sequence[CatalogEntry], per_app: int, apps: Sequence[str] | None = None
    ) -> dict[str, list[CatalogEntry]]:
        """For each app, or those named, the `per_app` entries that are most like the others of the app; best first."""
        return await to_thread.run_sync(representative_entries, entries, per_app, apps, limiter=search_threads())

    async def _view(self, entries: Sequence[CatalogEntry]) -> DocumentSet:
        view = self._shelves.recent(entries)
        if view is None:
            view = await to_thread.run_sync(self._shelve, entries, limiter=search_threads())
        for feeder in self._feeders:
            feeder.enqueue(view.ids, view.entries)
        return view

    def _shelve(self, entries: Sequence[CatalogEntry]) -> DocumentSet:
        view, unseen = self._shelves.assign(entries)
        if unseen:
            free = self._shelves.release_after(unseen, len(self._feeders))
            for feeder in self._feeders:
                feeder.remove(unseen, free)
        return view

    def _search(self, view: DocumentSet, queries: Sequence[str]) -> SearchResults:
        asked = [(query, [query, *split_request(query, MAX_REQUEST_PARTS)]) for query in queries]
        known = self._words.is_indexed(view.ids)
        words = self._words.ranker
        meaning = self._meaning.ranker if self._meaning is not None else None
        ready = int(np.count_nonzero(known))
        # A model that has failed is not waited for.
        encoded = ready if self._meaning is None or (meaning is not None and meaning.failed) else 0
        if meaning is not None and not meaning.failed:
            encoded = meaning.count_encoded(view.ids)
            meaning.encode_queries([part for _, parts in asked for part in parts])
        hits: list[Hits] = []
        for query, parts in asked:
            scores = np.zeros(len(view.ids), np.float32)
            if words is not None and ready:
                scores[known] = words.scores(view.ids[known], query)
            if meaning is not None and encoded:
                cosines = best_cosines([meaning.scores(view.ids, part) for part in parts])
                scores = semantic_scores(cosines, scores) if self._alone else fuse_scores(scores, cosines)
            hits.append(_hits(view, scores))
        return SearchResults(hits, ready=ready, encoded=min(encoded, ready))


def _lexical(synonyms: tuple[tuple[str, ...], ...] = ()) -> Ranker:
    # Imported in the thread: scikit-learn takes most of a second.
    from codecall.catalog.search.lexical import LexicalRanker

    return LexicalRanker(synonyms=synonyms)


def _hits(view: DocumentSet, scores: Scores) -> Hits:
    shown = np.round(np.minimum(scores, 1.0).astype(np.float64), 4)
    found = np.flatnonzero(shown >= MIN_SCORE)
    found = found[np.lexsort((view.name_ranks[found], -shown[found]))].astype(np.int32)
    return Hits(view.entries, found, shown[found].tolist())
