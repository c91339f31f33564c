"""scikit-learn and SciPy behind three typed functions: the one place that touches these untyped libraries.

Importing this module imports scikit-learn: about 0.8 s, 40 MB. Only `tfidf.py` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


class _Matrix(Protocol):
    """What is used of a SciPy CSR matrix."""

    indptr: Ints
    indices: Ints
    data: Floats
    shape: tuple[int, int]

    @property
    def T(self) -> Any: ...  # noqa: N802 - SciPy's name
    def __matmul__(self, other: _Matrix) -> _Matrix: ...


_text: Any = import_module("sklearn.feature_extraction.text")

NGRAM_LENGTHS = (2, 4)
"""Characters of the n-grams, shortest and longest. With typing errors put into the queries of the development sets,
2 to 4 found 1.5 points of recall@5 more than 3 to 5 (`benchmarks/search_quality.py`, this constant changed)."""

_NGRAM_SLOTS = 2**18
"""Hash slots for n-grams: a large catalogue has some 50,000 different ones, so that few share a slot. Hashing instead
of a vocabulary also spares sorting them, which would hold the interpreter's lock for too long."""


@dataclass(frozen=True, slots=True)
class Postings:
    """For each term the documents that hold it, with two weights. Term `t` owns the slice `starts[t]:starts[t + 1]`."""

    starts: Ints
    documents: Ints
    counts: Floats
    """How often the term stands in the document."""
    cosine: Floats
    """The document's unit vector: sub-linear TF-IDF, smoothed idf, L2 norm."""
    cosine_idf: Floats
    """By term: the idf of that vector, for the query's side."""

    def slice_of(self, term: int) -> slice:
        """Where the postings of `term` are."""
        return slice(int(self.starts[term]), int(self.starts[term + 1]))


def postings_of(documents: Iterable[Sequence[str]]) -> tuple[dict[str, int], Postings | None]:
    """The vocabulary (term to number) and postings of documents given as lists of terms, which are read once.

    No postings when no document holds a term.
    """
    counter: Any = _text.CountVectorizer(analyzer=_as_given, dtype=np.float32)
    some = _if_any(documents)
    if some is None:
        return {}, None
    counts = cast(_Matrix, counter.fit_transform(some))
    weighter: Any = _text.TfidfTransformer(sublinear_tf=True)
    weighted = cast(_Matrix, weighter.fit_transform(counts))
    by_term = cast(_Matrix, counts.T.tocsr())
    vocabulary = cast(dict[str, int], {term: int(number) for term, number in counter.vocabulary_.items()})
    return vocabulary, Postings(
        starts=by_term.indptr,
        documents=by_term.indices,
        counts=by_term.data,
        cosine=cast(_Matrix, weighted.T.tocsr()).data,
        cosine_idf=np.asarray(weighter.idf_, dtype=np.float32),
    )


def _if_any(documents: Iterable[Sequence[str]]) -> Iterable[Sequence[str]] | None:
    """The same documents, or None when all are empty: scikit-learn refuses an empty vocabulary."""
    rest = iter(documents)
    empty: list[Sequence[str]] = []
    for document in rest:
        if document:
            return chain(empty, [document], rest)
        empty.append(document)
    return None


def _as_given(document: Sequence[str]) -> Sequence[str]:
    return document


class WordShapes:
    """Which words of a vocabulary look like a given word: cosine over the character n-grams of each."""

    def __init__(self, words: Sequence[str]) -> None:
        self._ngrams: Any = _text.HashingVectorizer(
            analyzer="char_wb",
            ngram_range=NGRAM_LENGTHS,
            n_features=_NGRAM_SLOTS,
            alternate_sign=False,
            norm=None,
            dtype=np.float32,
        )
        self._weights: Any = _text.TfidfTransformer()
        weighted: Any = self._weights.fit_transform(self._ngrams.transform(words))
        self._by_ngram = cast(_Matrix, weighted.T.tocsr())

    def alike(self, words: Sequence[str], *, least: float, most: int) -> list[list[tuple[int, float]]]:
        """For each word up to `most` vocabulary numbers with their likeness (`least` to 1), best first."""
        if not words:
            return []
        vectors = cast(_Matrix, self._weights.transform(self._ngrams.transform(words)))
        likeness = vectors @ self._by_ngram
        found: list[list[tuple[int, float]]] = []
        for row in range(len(words)):
            part = slice(int(likeness.indptr[row]), int(likeness.indptr[row + 1]))
            numbers, values = likeness.indices[part], likeness.data[part]
            near = values >= least
            pairs = zip(numbers[near].tolist(), values[near].tolist(), strict=True)
            found.append(sorted(pairs, key=_best_first)[:most])
        return found


def _best_first(pair: tuple[int, float]) -> tuple[float, int]:
    number, likeness = pair
    return -likeness, number
