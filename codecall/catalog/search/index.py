"""The search index behind `codecall:search`: one for all callers, of which each searches only their own entries.

A caller passes the entries they may see; new ones are indexed in the background, each once. Scores, counts and
suggestions are made from the caller's entries alone: what is indexed for others changes nothing in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, overload

import numpy as np
from anyio import to_thread

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import MAX_REQUEST_PARTS, split_request
from codecall.catalog.search.fusion import best_cosines, fuse_scores, representative_entries, semantic_scores
from codecall.catalog.search.indexer import BackgroundIndexer, DocumentIdArray, DocumentIds, DocumentSet, Ranker, Scores
from codecall.catalog.search.lexical import LexicalRanker
from codecall.catalog.search.threads import search_threads

WAIT_S = 2.0
"""Seconds that a search waits for entries that are being indexed before it answers without them. A model's turn takes
as long; 1,000 entries take half of it."""

FIRST_WAIT_S = 30.0
"""Seconds that a search waits while no entry is indexed yet: a new process loads libraries first."""

MIN_SCORE = 0.1
"""Entries with a lower score are noise and no hits."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that a query has found."""

    entry: CatalogEntry
    score: float
    """The score, from `MIN_SCORE` to 1, rounded to 4 decimals."""


class Hits(Sequence[Hit]):
    """The hits of one query, by falling score, then name, then kind. A `Hit` is created when it is accessed."""

    def __init__(self, entries: Sequence[CatalogEntry], order: DocumentIdArray, scores: Sequence[float]) -> None:
        self._entries = entries
        self._found = order
        self._scores = scores

    def __len__(self) -> int:
        """Returns the number of hits."""
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        """Returns the hit at an index, or the hits of a slice."""
        if isinstance(index, slice):
            return Hits(self._entries, self._found[index], self._scores[index])
        return Hit(self._entries[int(self._found[index])], self._scores[index])


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The results of a search."""

    hits: list[Hits]
    """The hits of each query."""
    ready: int
    """How many entries could be searched by their words; fewer than there are while the rest is being indexed."""
    encoded: int
    """How many entries could be searched by their meaning, where that is configured; else the same as `ready`."""


class SemanticRanker(Ranker, Protocol):
    """Ranks entries by meaning: its scores are cosines, NaN where an entry has no vector yet. All may be NaN."""

    @property
    def failed(self) -> bool:
        """Whether the model has failed, so that no more vectors will come."""
        ...

    def count_encoded(self, view: DocumentIdArray) -> int:
        """Returns how many entries of `view` have a vector."""
        ...

    def encode_queries(self, queries: Iterable[str]) -> None:
        """Encodes queries in one go, before scores are computed for each."""
        ...


@dataclass(frozen=True, slots=True)
class SemanticOptions:
    """How a search index ranks by meaning."""

    create_ranker: Callable[[], SemanticRanker]
    """Creates the ranker, once; runs in a thread, since it loads a model."""
    semantic_only: bool = False
    """Whether words count only for entries that have no vector yet."""


class SearchIndex:
    """The index of the entries of all callers.

    Entries that are the same objects, in the same order, as in one of the last searches are recognised at once; others
    are compared by value in a thread. Entries that no caller has searched for a while are removed.
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
            semantic: How it ranks by meaning; None ranks by words alone.
            synonyms: Groups of words that stand for each other.
            wait_s: Seconds that a search waits for entries that are being indexed.
        """
        self._lexical = BackgroundIndexer(partial(_lexical_ranker, tuple(map(tuple, synonyms))), "codecall-words")
        self._semantic = BackgroundIndexer(semantic.create_ranker, "codecall-meaning") if semantic is not None else None
        self._semantic_only = semantic is not None and semantic.semantic_only
        self._indexers: list[BackgroundIndexer[Any]] = [self._lexical, *([self._semantic] if self._semantic else [])]
        self._ids = DocumentIds()
        self._wait_s = wait_s

    def start_loading(self) -> None:
        """Starts to create the rankers, of which one may load a model, in threads that nobody waits for."""
        for indexer in self._indexers:
            indexer.start_loading()

    async def search(
        self, entries: Sequence[CatalogEntry], queries: Sequence[str], *, timeout_s: float | None = None
    ) -> SearchResults:
        """Searches exactly these entries for each query; all work is done off the event loop.

        Args:
            entries: The entries that the caller may see.
            queries: The texts to search for.
            timeout_s: Seconds to wait for entries that are being indexed; None waits for the configured time.

        Raises:
            Exception: what stopped the index from being built; the next search tries again.
        """
        documents = await self._document_set(entries)
        # By words there is an answer in a moment; a model may take minutes, and nobody waits for those.
        wait_s, first = (self._wait_s, FIRST_WAIT_S) if timeout_s is None else (timeout_s, timeout_s)
        await self._lexical.wait_until_indexed(documents.ids, wait_s, first)
        work = partial(self._search, documents, tuple(queries))
        return await to_thread.run_sync(work, limiter=search_threads())

    async def representative_entries(
        self, entries: Sequence[CatalogEntry], per_app: int, apps: Sequence[str] | None = None
    ) -> dict[str, list[CatalogEntry]]:
        """Returns, for each app or those named, the `per_app` entries most like the others of the app; best first."""
        return await to_thread.run_sync(representative_entries, entries, per_app, apps, limiter=search_threads())

    async def _document_set(self, entries: Sequence[CatalogEntry]) -> DocumentSet:
        documents = self._ids.recent(entries)
        if documents is None:
            documents = await to_thread.run_sync(self._assign_ids, entries, limiter=search_threads())
        for indexer in self._indexers:
            indexer.enqueue(documents.ids, documents.entries)
        return documents

    def _assign_ids(self, entries: Sequence[CatalogEntry]) -> DocumentSet:
        documents, unseen = self._ids.assign(entries)
        if unseen:
            release = self._ids.release_after(unseen, len(self._indexers))
            for indexer in self._indexers:
                indexer.remove(unseen, release)
        return documents

    def _search(self, documents: DocumentSet, queries: Sequence[str]) -> SearchResults:
        indexed = self._lexical.is_indexed(documents.ids)
        lexical = self._lexical.ranker
        semantic = self._semantic.ranker if self._semantic is not None else None
        ready = int(np.count_nonzero(indexed))
        requests = [
            (query, [] if semantic is None else _texts(lexical, documents.ids[indexed], query)) for query in queries
        ]
        # A model that has failed is not waited for.
        encoded = ready if self._semantic is None or (semantic is not None and semantic.failed) else 0
        if semantic is not None and not semantic.failed:
            encoded = semantic.count_encoded(documents.ids)
            semantic.encode_queries([part for _, parts in requests for part in parts])
        hits: list[Hits] = []
        for query, parts in requests:
            scores = np.zeros(len(documents.ids), np.float32)
            if lexical is not None and ready:
                scores[indexed] = lexical.scores(documents.ids[indexed], query)
            if semantic is not None and encoded:
                cosines = best_cosines([semantic.scores(documents.ids, part) for part in parts])
                only = self._semantic_only
                scores = semantic_scores(cosines, scores) if only else fuse_scores(scores, cosines, len(parts))
            if lexical is not None and ready:
                scores[indexed] = lexical.prefer_intended(documents.ids[indexed], query, scores[indexed])
            hits.append(_hits(documents, scores))
        return SearchResults(hits, ready=ready, encoded=min(encoded, ready))


def _texts(lexical: LexicalRanker | None, view: DocumentIdArray, query: str) -> list[str]:
    """The texts of a query that a model reads: the query as words search it, and its parts."""
    text = query if lexical is None else lexical.rewrite(view, query)
    return [text, *split_request(text, MAX_REQUEST_PARTS)]


def _lexical_ranker(synonyms: tuple[tuple[str, ...], ...] = ()) -> LexicalRanker:
    return LexicalRanker(synonyms=synonyms)


def _hits(documents: DocumentSet, scores: Scores) -> Hits:
    rounded = np.round(np.minimum(scores, 1.0).astype(np.float64), 4)
    order = np.flatnonzero(rounded >= MIN_SCORE)
    order = order[np.lexsort((documents.name_ranks[order], -rounded[order]))].astype(np.int32)
    return Hits(documents.entries, order, rounded[order].tolist())
