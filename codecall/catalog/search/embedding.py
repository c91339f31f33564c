"""The semantic ranker: one vector for each tool, compared with the query's vector.

The vectors are made in the background, a few tools at a time, and the score of a tool without a vector is NaN, so that
search answers from the first moment on. A model that fails ends only this ranker: the failure is logged once, and
search goes on without it. A tool's vector is the weighted sum of the vectors of a few short texts about it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from platformdirs import user_cache_path

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.analysis import name_parts
from codecall.catalog.search.models.encoder import Encoder, Floats, normalize
from codecall.catalog.search.models.load import load_encoder
from codecall.catalog.search.models.locate import STATIC, locate_model
from codecall.catalog.search.vectors import Ints, VectorCache, VectorMatrix
from codecall.concurrency import defer_full_collections
from codecall.errors import CodeCallError
from codecall.options import SearchOptions
from codecall.redaction.clean import well_formed

logger = logging.getLogger("codecall")

QUERY_PREFIX = "Use this tool to "
"""Each query is encoded as it is and behind these words, and the mean of both counts: descriptions say what a tool
does, queries what somebody wants. With MiniLM recall@5 and nDCG@10 are 0.2 and 0.2 higher on the development sets, 0.7
and 0.4 on catalogs that were not tuned on; with the prefixed query alone 0.1 and 0.0, 0.4 and 0.0."""

MAX_CACHED_QUERIES = 256
"""Vectors of queries that are cached; the one unused for longest is dropped first."""

TOOLS_PER_STEP = 64
"""Tools that are encoded, become searchable and are written to disk together."""

CACHED_TOOLS_PER_STEP = 512
"""Tools whose vectors are read from disk together."""

BATCH_SECONDS = 0.1
"""Processor time that one batch of the background work should take: the longest that a query waits for the model. Small
batches cost nothing: 500 characters at a time took no more processor time for a text than 4,000 (MiniLM, PyTorch)."""

_FIRST_BATCH, _SMALLEST_BATCH, _LARGEST_BATCH = 4_000, 500, 32_000
"""Characters of a batch, each text counted as long as the longest; the size follows the time of the last batch. The
largest bounds memory, since a model holds the attention of a whole batch; batches of 200,000 took gigabytes."""

PROGRESS_SECONDS = 10.0
"""The shortest time between two log messages about progress."""

_Work = list[tuple[int, CatalogEntry]]

MAX_PASSAGE_CHARS = 200
"""Characters of a text that are embedded. What a tool does stands at the beginning: with 1,000 of them recall@5 is 0.1
higher, nDCG@10 0.2 lower, and encoding takes a third longer."""

MAX_PARAMETER_CHARS = 200
"""Characters that are embedded of the description of one parameter."""

MAX_PARAMETERS = 40
"""Parameters of a tool that are embedded."""

NAME, DESCRIPTION, PARAMETERS, REMARKS, APP, EXAMPLES, ABOUT = 1.0, 1.4, 0.5, 0.4, 0.3, 0.3, 0.2
"""The weights of the texts. Flat around here: halving or doubling any but the first two changes recall@5 by less than
0.5."""


class EmbeddingRanker:
    """Ranks tools by their cosine with the query, by a model that is loaded on first use. Any thread may use it."""

    def __init__(
        self, open_encoder: Callable[[], Encoder], open_cache: Callable[[Encoder], VectorCache | None]
    ) -> None:
        """
        Args:
            open_encoder: loads the model; called once, in the thread that needs it first.
            open_cache: opens the cache of the model's vectors; returns None where they are not cached.
        """
        self._open_encoder = open_encoder
        self._open_cache = open_cache
        self._loading = threading.Lock()
        self._encoder: Encoder | None = None
        self._cache: VectorCache | None = None
        self._ended = False
        self._encoder_lock = _PriorityLock()
        self._batch_chars = _FIRST_BATCH
        self._lock = threading.Lock()
        self._vectors = VectorMatrix()
        self._encoded_tools, self._logged_at = 0, float("-inf")
        self._queries: OrderedDict[str, Floats] = OrderedDict()

    def load(self) -> bool:
        """Loads the model if it is not loaded yet; returns whether there is one. Takes seconds; never raises."""
        with self._loading:
            if self._encoder is None and not self._ended:
                try:
                    with defer_full_collections():
                        encoder = self._open_encoder()
                    self._cache = self._open_cache(encoder)
                    self._encoder = encoder
                except CodeCallError as failure:
                    self._give_up(failure.message)
        return self._encoder is not None and not self._ended

    @property
    def failed(self) -> bool:
        """Whether the model has failed, or `close` was called: no more vectors come."""
        return self._ended

    def close(self) -> None:
        """Ends the background work after its current batch; nothing is encoded any more."""
        self._ended = True

    def add(self, ids: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        """Computes the vectors of these documents; takes as long as the model does, minutes for thousands of new tools.

        Vectors in the cache on disk are available first, at once. Returns early when the model fails, when `close` is
        called, and when the interpreter ends.
        """
        self._vectors.expect(ids)
        if not entries or not self.load():
            return
        rest = self._publish_cached(list(zip(ids, entries, strict=True)))
        if rest:
            self._encode(rest)

    def remove(self, ids: Collection[int]) -> None:
        """Removes the vectors of these documents; their ids may then be used again."""
        self._vectors.remove(ids)

    def scores(self, view: Ints, query: str) -> Floats:
        """Returns the cosine of `query` with each document of `view`, -1 to 1, to 5 decimals; NaN without a vector.

        All are NaN while the model is loading, and after it has failed. Documents outside `view` do not matter.
        """
        vector = self._query_vector(query)
        return np.full(len(view), np.nan, dtype=np.float32) if vector is None else self._vectors.cosines(view, vector)

    def count_encoded(self, view: Ints) -> int:
        """Returns how many documents of `view` have a vector; 0 when there is no model to encode a query."""
        return 0 if self._encoder is None or self._ended else self._vectors.count(view)

    def encode_queries(self, queries: Iterable[str]) -> None:
        """Encodes queries in one go, so that `scores` has only to multiply. Never waits for the model to load."""
        encoder = self._encoder
        with self._lock:
            new = [query for query in dict.fromkeys(queries) if query not in self._queries]
        if encoder is None or self._ended or not new:
            return
        try:
            with self._encoder_lock.hold(urgent=True):
                plain = encoder.queries([*new, *(f"{QUERY_PREFIX}{query}" for query in new)])
                vectors = normalize(plain[: len(new)] + plain[len(new) :])
        except Exception as failure:  # a model raises whatever it likes
            self._give_up(_failure_line(failure))
            return
        with self._lock:
            self._queries.update(zip(new, vectors, strict=True))
            while len(self._queries) > MAX_CACHED_QUERIES:
                self._queries.popitem(last=False)

    def _query_vector(self, query: str) -> Floats | None:
        self.encode_queries([query])
        with self._lock:
            if query in self._queries:
                self._queries.move_to_end(query)
            return None if self._ended else self._queries.get(query)

    def _cached_vectors(self, texts: Collection[str]) -> dict[str, Floats]:
        return self._cache.get(texts) if self._cache else {}

    def _publish_cached(self, pairs: _Work) -> _Work:
        """Publishes the tools whose vectors are on disk; returns the others."""
        if self._cache is None:
            return pairs
        rest: _Work = []
        for batch in _steps(pairs, CACHED_TOOLS_PER_STEP):
            texts_of = {number: passages(entry) for number, entry in batch}
            vectors = self._cached_vectors({passage.text for texts in texts_of.values() for passage in texts})
            ready = {number: texts for number, texts in texts_of.items() if all(each.text in vectors for each in texts)}
            self._publish(ready, vectors)
            rest += [(number, entry) for number, entry in batch if number not in ready]
        return rest

    def _encode(self, pairs: _Work) -> None:
        """Encodes tools whose vectors are not on disk, step by step, and publishes and caches each step."""
        for step in _steps(pairs, TOOLS_PER_STEP):
            texts_of = {number: passages(entry) for number, entry in step}
            texts = {passage.text for texts_of_one in texts_of.values() for passage in texts_of_one}
            # Asked again: an earlier step, or another process, may have come across the same text.
            cached = self._cached_vectors(texts)
            fresh = self._encode_texts(texts - cached.keys())
            if fresh is None:
                return
            self._publish(texts_of, cached | fresh)
            if self._cache:
                self._cache.put(fresh)
            self._encoded_tools += len(step)
            if time.monotonic() - self._logged_at >= PROGRESS_SECONDS:
                self._logged_at = time.monotonic()
                logger.info("Encoded %d tools for search so far", self._encoded_tools)

    def _encode_texts(self, texts: Collection[str]) -> dict[str, Floats] | None:
        """Encodes new texts; returns None when the background work has ended."""
        result: dict[str, Floats] = {}
        # Of like length together, since a batch is as wide as its longest.
        remaining = sorted(texts, key=len)
        while remaining:
            batch = [remaining.pop()]
            longest = len(batch[0])
            while remaining and longest * (len(batch) + 1) <= self._batch_chars:
                batch.append(remaining.pop())
            vectors = self._encode_batch(batch)
            if vectors is None:
                return None
            # As they come back from the disk, so that a restart changes no score.
            result.update(zip(batch, vectors.astype(np.float16).astype(np.float32), strict=True))
        return result

    def _encode_batch(self, batch: Sequence[str]) -> Floats | None:
        encoder = self._encoder
        # The interpreter waits for this thread when it ends: the main thread is then no longer alive.
        if encoder is None or self._ended or not threading.main_thread().is_alive():
            return None
        try:
            with self._encoder_lock.hold(urgent=False):
                began = time.thread_time()
                vectors = encoder.passages(batch)
                took = time.thread_time() - began
        except Exception as failure:  # a model raises whatever it likes
            self._give_up(_failure_line(failure))
            return None
        size = len(batch) * len(batch[0]) * BATCH_SECONDS / max(took, 1e-4)
        self._batch_chars = int(
            min(max(size, self._batch_chars / 2, _SMALLEST_BATCH), 2 * self._batch_chars, _LARGEST_BATCH)
        )
        return vectors

    def _publish(self, texts_of: Mapping[int, list[EmbeddedText]], by_text: Mapping[str, Floats]) -> None:
        if not texts_of:
            return
        sums = [np.sum([each.weight * by_text[each.text] for each in texts], axis=0) for texts in texts_of.values()]
        vectors = normalize(np.asarray(sums, dtype=np.float32))
        self._vectors.put(dict(zip(texts_of, vectors, strict=True)))

    def _give_up(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            logger.error("Search goes on by words alone until the server is started again. %s", reason)


def embedding_ranker(options: SearchOptions) -> EmbeddingRanker:
    """Creates the ranker that `options` describe; it loads nothing yet."""

    def cache(encoder: Encoder) -> VectorCache | None:
        # The static model encodes about as fast as a disk reads.
        if options.cache_dir is False or options.model_name == STATIC:
            return None
        folder = Path(options.cache_dir).expanduser() if options.cache_dir else user_cache_path("codecall")
        return VectorCache(folder, encoder.identity, encoder.width)

    return EmbeddingRanker(lambda: load_encoder(locate_model(options), threads=options.threads), cache)


class EmbeddedText(NamedTuple):
    """One text about a tool, and the weight of its vector in the tool's vector."""

    text: str
    weight: float


def passages(entry: CatalogEntry) -> list[EmbeddedText]:
    """Returns the texts of `entry` that are not empty; at least one, since a tool has a name."""
    parameters = list(_parameters(entry.input_schema))
    parts = (
        (_name_text(entry), NAME),
        (entry.description, DESCRIPTION),
        (", ".join(" ".join(name_parts(name)) for name, _ in parameters), PARAMETERS),
        (" ".join(remark for _, remark in parameters if remark), REMARKS),
        (_app_text(entry), APP),
        (". ".join(example.description for example in entry.examples), EXAMPLES),
        (entry.about, ABOUT),
    )
    texts = ((_truncate(text, MAX_PASSAGE_CHARS), weight) for text, weight in parts)
    return [EmbeddedText(text, weight) for text, weight in texts if text] or [
        EmbeddedText(well_formed(entry.name[:MAX_PASSAGE_CHARS]), NAME)
    ]


def _steps(work: _Work, size: int) -> Iterator[_Work]:
    return (work[start : start + size] for start in range(0, len(work), size))


class _PriorityLock:
    """A lock that prefers urgent threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_held = False
        self._urgent_waiting = 0

    @contextmanager
    def hold(self, *, urgent: bool) -> Generator[None]:
        with self._changed:
            self._urgent_waiting += urgent
            try:
                self._changed.wait_for(lambda: not self._is_held and (urgent or not self._urgent_waiting))
            finally:
                self._urgent_waiting -= urgent
            self._is_held = True
        try:
            yield
        finally:
            with self._changed:
                self._is_held = False
                self._changed.notify_all()


def _failure_line(failure: Exception) -> str:
    return f"The search model failed: {type(failure).__name__}: {' '.join(str(failure).split())}"[:500]


def _name_text(entry: CatalogEntry) -> str:
    words = " ".join(name_parts(entry.name))
    return f"{words}. {entry.title}" if entry.title else words


def _app_text(entry: CatalogEntry) -> str:
    words: Iterable[str] = (entry.app_id, *sorted(entry.tags))
    return ", ".join(filter(None, (" ".join(name_parts(word)) for word in words)))


def _parameters(schema: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The names and descriptions of the first parameters; nested ones are left out."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for name, inner in list(cast("Mapping[str, object]", properties).items())[:MAX_PARAMETERS]:
        remark = cast("Mapping[str, object]", inner).get("description") if isinstance(inner, Mapping) else None
        yield name, _truncate(remark, MAX_PARAMETER_CHARS) if isinstance(remark, str) else ""


def _truncate(text: str, longest: int) -> str:
    """The first characters of `text`, with single blanks between words."""
    return " ".join(well_formed(text[: 2 * longest]).split())[:longest]
