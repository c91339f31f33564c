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
from codecall.catalog.search.analysis import MAX_INTENTIONS, intentions
from codecall.catalog.search.fusion import best_cosines, by_both, by_meaning, central_entries
from codecall.catalog.search.indexer import Feeder, Numbers, Ranker, Scores, Shelves, View
from codecall.concurrency import keep_out_of_collections

PATIENCE_S = 2.0
"""Seconds a search waits for what is being indexed before it answers from what there is. A model's turn takes as long;
1,000 entries take half of it."""

FIRST_PATIENCE_S = 30.0
"""The same while there is nothing to answer from: a process that begins loads libraries first."""

MAX_LOOKUPS = 4
"""Threads of one event loop that search at a time: more would only contend for the interpreter."""

LEAST_SCORE = 0.1
"""Scores below are noise and count as no hit."""

WARMING = "codecall-index"
"""Name of the thread in which a process loads what a library needs."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One entry found."""

    entry: CatalogEntry
    score: float
    """At least `LEAST_SCORE`, at most 1, rounded to 4 decimals."""


class Hits(Sequence[Hit]):
    """What one query found, by falling score, then name, then kind. A hit is made when it is looked at."""

    def __init__(self, entries: Sequence[CatalogEntry], found: Numbers, scores: Sequence[float]) -> None:
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
class Searched:
    """What a search found."""

    hits: list[Hits]
    """For each query."""
    ready: int
    """Entries that could be searched by their words; fewer than there are while the rest is being indexed."""
    encoded: int
    """Entries that could be searched by their meaning, where that is asked for; else the same as `ready`."""


class Semantic(Ranker, Protocol):
    """A ranking by meaning: cosines, NaN where an entry has no vector yet. It may have none at all."""

    @property
    def ended(self) -> bool:
        """Whether the model has failed: there is nothing more to wait for."""
        ...

    def encoded(self, view: Numbers) -> int:
        """How many entries of `view` have a vector."""
        ...

    def prepare(self, queries: Iterable[str]) -> None:
        """What is about to be asked, so that it is encoded at once."""
        ...


@dataclass(frozen=True, slots=True)
class Meaning:
    """How a library ranks by meaning."""

    make: Callable[[], Semantic]
    """Makes the ranking, once; runs in a thread, since it loads a model."""
    alone: bool = False
    """Whether words count only where there is no vector yet."""


_warming = threading.Event()

# One limiter an event loop, as AnyIO keeps its own: a limiter must not be shared between loops.
_lookups: RunVar[CapacityLimiter] = RunVar("codecall_index_lookups")


def lookup_threads() -> CapacityLimiter:
    """The threads of this event loop for work on many entries, apart from those in which tools run."""
    limiter = _lookups.get(None)
    if limiter is None:
        limiter = CapacityLimiter(MAX_LOOKUPS)
        _lookups.set(limiter)
    return limiter


class Library:
    """The entries of all callers, indexed.

    Entries that are the same objects, in the same order, as in one of the last searches are recognised at once; others
    are compared by value in a thread. An entry nobody has seen for a while is forgotten.
    """

    def __init__(
        self,
        meaning: Meaning | None = None,
        *,
        synonyms: Iterable[Iterable[str]] = (),
        patience: float = PATIENCE_S,
    ) -> None:
        """
        Args:
            meaning: How it ranks by meaning, if it does.
            synonyms: Groups of words that stand for each other.
            patience: Seconds a search waits for what is being indexed.
        """
        self._words = Feeder(partial(_lexical, tuple(map(tuple, synonyms))), "codecall-words")
        self._meaning = Feeder(meaning.make, "codecall-meaning") if meaning is not None else None
        self._alone = meaning is not None and meaning.alone
        self._feeders: list[Feeder[Any]] = [self._words, *([self._meaning] if self._meaning else [])]
        self._shelves = Shelves()
        self._patience = patience

    def warm(self) -> None:
        """Load what a search needs, in threads that nobody waits for.

        Once per process, what it holds by then is kept out of all later garbage collections (`gc.freeze`): see
        `collecting`.
        """
        for feeder in self._feeders:
            feeder.warm()
        if not _warming.is_set():
            _warming.set()
            threading.Thread(target=keep_out_of_collections, args=(_lexical,), name=WARMING).start()

    async def search(
        self, entries: Sequence[CatalogEntry], queries: Sequence[str], *, at_most: float | None = None
    ) -> Searched:
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
        patience, first = (self._patience, FIRST_PATIENCE_S) if at_most is None else (at_most, at_most)
        await self._words.wait(view.numbers, patience, first)
        work = partial(self._search, view, tuple(queries))
        return await to_thread.run_sync(work, limiter=lookup_threads())

    async def central(
        self, entries: Sequence[CatalogEntry], per_app: int, apps: Sequence[str] | None = None
    ) -> dict[str, list[CatalogEntry]]:
        """For each app, or those named, the `per_app` entries that are most like the others of the app; best first."""
        return await to_thread.run_sync(central_entries, entries, per_app, apps, limiter=lookup_threads())

    async def _view(self, entries: Sequence[CatalogEntry]) -> View:
        view = self._shelves.same(entries)
        if view is None:
            view = await to_thread.run_sync(self._shelve, entries, limiter=lookup_threads())
        for feeder in self._feeders:
            feeder.want(view.numbers, view.entries)
        return view

    def _shelve(self, entries: Sequence[CatalogEntry]) -> View:
        view, unseen = self._shelves.view(entries)
        if unseen:
            free = self._shelves.freeing(unseen, len(self._feeders))
            for feeder in self._feeders:
                feeder.forget(unseen, free)
        return view

    def _search(self, view: View, queries: Sequence[str]) -> Searched:
        asked = [(query, [query, *intentions(query, MAX_INTENTIONS)]) for query in queries]
        known = self._words.ready(view.numbers)
        words = self._words.ranker
        meaning = self._meaning.ranker if self._meaning is not None else None
        ready = int(np.count_nonzero(known))
        # A model that has failed is not waited for.
        encoded = ready if self._meaning is None or (meaning is not None and meaning.ended) else 0
        if meaning is not None and not meaning.ended:
            encoded = meaning.encoded(view.numbers)
            meaning.prepare([part for _, parts in asked for part in parts])
        hits: list[Hits] = []
        for query, parts in asked:
            scores = np.zeros(len(view.numbers), np.float32)
            if words is not None and ready:
                scores[known] = words.scores(view.numbers[known], query)
            if meaning is not None and encoded:
                cosines = best_cosines([meaning.scores(view.numbers, part) for part in parts])
                scores = by_meaning(cosines, scores) if self._alone else by_both(scores, cosines)
            hits.append(_hits(view, scores))
        return Searched(hits, ready=ready, encoded=min(encoded, ready))


def _lexical(synonyms: tuple[tuple[str, ...], ...] = ()) -> Ranker:
    # Imported in the thread: scikit-learn takes most of a second.
    from codecall.catalog.search.lexical import LexicalRanker

    return LexicalRanker(synonyms=synonyms)


def _hits(view: View, scores: Scores) -> Hits:
    shown = np.round(np.minimum(scores, 1.0).astype(np.float64), 4)
    found = np.flatnonzero(shown >= LEAST_SCORE)
    found = found[np.lexsort((view.places[found], -shown[found]))].astype(np.int32)
    return Hits(view.entries, found, shown[found].tolist())
