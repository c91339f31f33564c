"""The ranker that goes by meaning: one vector for each tool, compared with the query's.

The vectors are made in the background, a few tools at a time, and what has none yet is told by NaN, so that search
answers from the first moment on. A model that fails ends its own part only: it is logged once, and search goes on
without it.
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
from codecall.catalog.search.models import STATIC, Encoder, Floats, load_encoder, locate_model, normalize
from codecall.catalog.search.vectors import Ints, VectorCache, VectorMatrix
from codecall.concurrency import defer_full_collections
from codecall.errors import CodeCallError
from codecall.options import SearchOptions
from codecall.redaction.clean import well_formed

logger = logging.getLogger("codecall")

MAX_CACHED_QUERIES = 256
"""Vectors of queries that are kept; the one unused for longest goes first."""

TOOLS_PER_STEP = 64
"""Tools that are encoded, searchable and written to disk together."""

CACHED_TOOLS_PER_STEP = 512
"""Tools whose vectors are read from disk together."""

BATCH_SECONDS = 0.1
"""Processor time that one batch of the background work should take: so long a query waits for the model at worst. Small
batches cost nothing: 500 characters at a time took no more processor time for a text than 4,000 (MiniLM, PyTorch)."""

_FIRST_BATCH, _SMALLEST_BATCH, _LARGEST_BATCH = 4_000, 500, 200_000
"""Characters of a batch, each text counted as long as the longest; the size follows the time the last one took."""

PROGRESS_SECONDS = 10.0
"""How often progress is logged at most."""

_Work = list[tuple[int, CatalogEntry]]

MAX_PASSAGE_CHARS = 1_000
"""Characters of a text that are read; MiniLM takes in 256 word pieces, about as much."""

MAX_PARAMETER_CHARS, MAX_PARAMETERS_CHARS = 200, 600
"""Characters that are read of the description of one parameter, and of all of them."""

MAX_PARAMETERS = 40
"""Parameters that are read."""

NAME, DESCRIPTION, PARAMETERS, REMARKS, APP, EXAMPLES = 1.0, 1.0, 0.5, 0.4, 0.3, 0.3
"""The weights. Flat around here: halving or doubling any but the first two changes recall@5 by less than 0.4."""


class EmbeddingRanker:
    """Cosines of a query with the tools, by a model that is loaded when it is first needed. Any thread may use it."""

    def __init__(
        self, open_encoder: Callable[[], Encoder], open_cache: Callable[[Encoder], VectorCache | None]
    ) -> None:
        """
        Args:
            open_encoder: loads the model; called once, in the thread that needs it first.
            open_cache: where the model's vectors are kept; None for nowhere.
        """
        self._open_encoder = open_encoder
        self._open_cache = open_cache
        self._loading = threading.Lock()
        self._encoder: Encoder | None = None
        self._cache: VectorCache | None = None
        self._ended = False
        self._turns = _Turns()
        self._batch = _FIRST_BATCH
        self._guard = threading.Lock()
        self._rows = VectorMatrix()
        self._count, self._noted = 0, float("-inf")
        self._queries: OrderedDict[str, Floats] = OrderedDict()

    def load(self) -> bool:
        """Load the model if that is still to be done; whether there is one. Takes seconds; never raises."""
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
        """End the work of the background after its present batch; nothing is encoded any more."""
        self._ended = True

    def add(self, ids: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        """Give these documents their vectors; takes as long as the model does, minutes for thousands of new tools.

        What the cache on disk knows comes first, at once. Returns early when the model fails, when `close` is called,
        and when the interpreter ends.
        """
        self._rows.expect(ids)
        if not entries or not self.load():
            return
        rest = self._take_kept(list(zip(ids, entries, strict=True)))
        if rest:
            self._encode(rest)

    def remove(self, ids: Collection[int]) -> None:
        """Drop the vectors of these documents; their ids may then stand for others."""
        self._rows.remove(ids)

    def scores(self, view: Ints, query: str) -> Floats:
        """The cosine of `query` with each document of `view`, -1 to 1, to 5 decimals; NaN: it has no vector (yet).

        All NaN while the model is loading, and after it has failed. Documents outside `view` do not matter.
        """
        vector = self._query_vector(query)
        return np.full(len(view), np.nan, dtype=np.float32) if vector is None else self._rows.cosines(view, vector)

    def count_encoded(self, view: Ints) -> int:
        """How many documents of `view` have a vector; 0 when there is no model to compare a query with them."""
        return 0 if self._encoder is None or self._ended else self._rows.count(view)

    def encode_queries(self, queries: Iterable[str]) -> None:
        """Encode these queries in one go; `scores` then has only to multiply. Never waits for the model to load."""
        encoder = self._encoder
        with self._guard:
            new = [query for query in dict.fromkeys(queries) if query not in self._queries]
        if encoder is None or self._ended or not new:
            return
        try:
            with self._turns.take(urgent=True):
                vectors = encoder.queries(new)
        except Exception as failure:  # a model raises whatever it likes
            self._give_up(_what(failure))
            return
        with self._guard:
            self._queries.update(zip(new, vectors, strict=True))
            while len(self._queries) > MAX_CACHED_QUERIES:
                self._queries.popitem(last=False)

    def _query_vector(self, query: str) -> Floats | None:
        self.encode_queries([query])
        with self._guard:
            if query in self._queries:
                self._queries.move_to_end(query)
            return None if self._ended else self._queries.get(query)

    def _kept(self, texts: Collection[str]) -> dict[str, Floats]:
        return self._cache.get(texts) if self._cache else {}

    def _take_kept(self, work: _Work) -> _Work:
        """Publish what the disk has the vectors of; the rest."""
        if self._cache is None:
            return work
        rest: _Work = []
        for step in _steps(work, CACHED_TOOLS_PER_STEP):
            read = {number: passages(entry) for number, entry in step}
            known = self._kept({passage.text for texts in read.values() for passage in texts})
            ready = {number: texts for number, texts in read.items() if all(each.text in known for each in texts)}
            self._publish(ready, known)
            rest += [(number, entry) for number, entry in step if number not in ready]
        return rest

    def _encode(self, work: _Work) -> None:
        """Encode step by step what the disk does not have, and publish and keep each step."""
        for step in _steps(work, TOOLS_PER_STEP):
            read = {number: passages(entry) for number, entry in step}
            texts = {passage.text for found in read.values() for passage in found}
            # Asked again: an earlier step, or another process, may have come across the same text.
            known = self._kept(texts)
            fresh = self._vectors(texts - known.keys())
            if fresh is None:
                return
            self._publish(read, known | fresh)
            if self._cache:
                self._cache.put(fresh)
            self._count += len(step)
            if time.monotonic() - self._noted >= PROGRESS_SECONDS:
                self._noted = time.monotonic()
                logger.info("Encoded %d tools for search so far", self._count)

    def _vectors(self, texts: Collection[str]) -> dict[str, Floats] | None:
        """The vectors of new texts; None when the work has ended."""
        found: dict[str, Floats] = {}
        # Of like length together, since a batch is as wide as its longest.
        waiting = sorted(texts, key=len)
        while waiting:
            batch = [waiting.pop()]
            longest = len(batch[0])
            while waiting and longest * (len(batch) + 1) <= self._batch:
                batch.append(waiting.pop())
            vectors = self._batch_vectors(batch)
            if vectors is None:
                return None
            # As they come back from the disk, so that a restart changes no score.
            found.update(zip(batch, vectors.astype(np.float16).astype(np.float32), strict=True))
        return found

    def _batch_vectors(self, batch: Sequence[str]) -> Floats | None:
        encoder = self._encoder
        # The interpreter waits for this thread when it ends: the main thread is then no longer alive.
        if encoder is None or self._ended or not threading.main_thread().is_alive():
            return None
        try:
            with self._turns.take(urgent=False):
                began = time.thread_time()
                vectors = encoder.passages(batch)
                took = time.thread_time() - began
        except Exception as failure:  # a model raises whatever it likes
            self._give_up(_what(failure))
            return None
        size = len(batch) * len(batch[0]) * BATCH_SECONDS / max(took, 1e-4)
        self._batch = int(min(max(size, self._batch / 2, _SMALLEST_BATCH), 2 * self._batch, _LARGEST_BATCH))
        return vectors

    def _publish(self, work: Mapping[int, list[EmbeddedText]], known: Mapping[str, Floats]) -> None:
        if not work:
            return
        sums = [np.sum([each.weight * known[each.text] for each in texts], axis=0) for texts in work.values()]
        vectors = normalize(np.asarray(sums, dtype=np.float32))
        self._rows.put(dict(zip(work, vectors, strict=True)))

    def _give_up(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            logger.error("Search goes on by words alone until the server is started again. %s", reason)


def embedding_ranker(options: SearchOptions) -> EmbeddingRanker:
    """The ranker that `options` describe; it loads nothing yet."""

    def cache(encoder: Encoder) -> VectorCache | None:
        # The static model encodes about as fast as a disk reads.
        if options.cache_dir is False or options.model_name == STATIC:
            return None
        folder = Path(options.cache_dir).expanduser() if options.cache_dir else user_cache_path("codecall")
        return VectorCache(folder, encoder.identity, encoder.width)

    return EmbeddingRanker(lambda: load_encoder(locate_model(options), threads=options.threads), cache)


class EmbeddedText(NamedTuple):
    """One text about a tool, and what its vector counts in the tool's."""

    text: str
    weight: float


def passages(entry: CatalogEntry) -> list[EmbeddedText]:
    """The texts of `entry` that are not empty; never none, since a tool has a name."""
    parameters = list(_parameters(entry.input_schema))
    found = (
        (_name(entry), NAME),
        (entry.description, DESCRIPTION),
        (", ".join(" ".join(name_parts(name)) for name, _ in parameters), PARAMETERS),
        (" ".join(remark for _, remark in parameters if remark)[:MAX_PARAMETERS_CHARS], REMARKS),
        (_app(entry), APP),
        (". ".join(example.description for example in entry.examples), EXAMPLES),
    )
    texts = ((_shortened(text, MAX_PASSAGE_CHARS), weight) for text, weight in found)
    return [EmbeddedText(text, weight) for text, weight in texts if text] or [
        EmbeddedText(well_formed(entry.name[:MAX_PASSAGE_CHARS]), NAME)
    ]


def _steps(work: _Work, size: int) -> Iterator[_Work]:
    return (work[start : start + size] for start in range(0, len(work), size))


class _Turns:
    """One thread at a time; an urgent one goes before all others."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken = False
        self._urgent = 0

    @contextmanager
    def take(self, *, urgent: bool) -> Generator[None]:
        with self._changed:
            self._urgent += urgent
            try:
                self._changed.wait_for(lambda: not self._taken and (urgent or not self._urgent))
            finally:
                self._urgent -= urgent
            self._taken = True
        try:
            yield
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()


def _what(failure: Exception) -> str:
    return f"The search model failed: {type(failure).__name__}: {' '.join(str(failure).split())}"[:500]


def _name(entry: CatalogEntry) -> str:
    words = " ".join(name_parts(entry.name))
    return f"{words}. {entry.title}" if entry.title else words


def _app(entry: CatalogEntry) -> str:
    words: Iterable[str] = (entry.app_id, *sorted(entry.tags))
    return ", ".join(filter(None, (" ".join(name_parts(word)) for word in words)))


def _parameters(schema: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Names and descriptions of the first parameters; nested ones are left out."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for name, inner in list(cast("Mapping[str, object]", properties).items())[:MAX_PARAMETERS]:
        remark = cast("Mapping[str, object]", inner).get("description") if isinstance(inner, Mapping) else None
        yield name, _shortened(remark, MAX_PARAMETER_CHARS) if isinstance(remark, str) else ""


def _shortened(text: str, longest: int) -> str:
    """At most `longest` characters of `text`, with single blanks between words."""
    return " ".join(well_formed(text[: 2 * longest]).split())[:longest]
