"""The lexical index's store: documents in segments that never change, so that any thread may search while one adds.

New documents become a segment of their own; neighbours of about the same size are merged, so that there are never more
than a few, and a document is copied a few times in all, not with every change. Words and n-grams have one number in all
segments. Nothing here depends on what else there is: how rare a word is, is counted at each search over what that
caller sees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from math import fsum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.search.analysis import IndexedDocument

# ----------------------------------------------------------------------------------------------------
# scikit-learn and SciPy behind typed functions: the one place that touches these untyped libraries.

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

_sparse: Any = import_module("scipy.sparse")
_text: Any = import_module("sklearn.feature_extraction.text")

GRAM_LENGTHS = (3, 4)
"""Characters of the n-grams of a word and the blanks around it, shortest and longest."""

_GRAM_SLOTS = 2**18
"""Hash slots for n-grams: a large catalog has some 50,000 different ones, so that few share a slot."""

_hasher: Any = _text.HashingVectorizer(
    analyzer="char_wb",
    ngram_range=GRAM_LENGTHS,
    n_features=_GRAM_SLOTS,
    alternate_sign=False,
    norm=None,
    lowercase=False,
    dtype=np.float32,
)


class Postings(NamedTuple):
    """A sparse matrix by columns: column `c` owns the slice `starts[c]:starts[c + 1]` of the other two."""

    starts: Ints
    rows: Ints
    values: Floats

    def column(self, number: int) -> slice:
        """Where the postings of a column are; empty for one that did not exist yet when these were made."""
        if number + 1 >= len(self.starts):
            return slice(0, 0)
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def columns(self, numbers: Sequence[int]) -> tuple[Ints, Floats, Ints]:
        """Rows and values of many columns, one after the other, and how many of them each has."""
        slices = [self.column(number) for number in numbers]
        rows = [self.rows[part] for part in slices]
        values = [self.values[part] for part in slices]
        sizes = np.fromiter((len(part) for part in rows), np.int32, len(rows))
        if not rows:
            return np.zeros(0, np.int32), np.zeros(0, np.float32), sizes
        return np.concatenate(rows), np.concatenate(values), sizes


def rows_of(counts: Iterable[Mapping[int, float]], width: int) -> Any:
    """A sparse matrix of a row for each of `counts`, from column numbers below `width` to values."""
    starts = [0]
    columns: list[int] = []
    values: list[float] = []
    for row in counts:
        columns += row.keys()
        values += row.values()
        starts.append(len(columns))
    shape = (len(starts) - 1, width)
    return _sparse.csr_matrix(
        (np.array(values, np.float32), np.array(columns, np.int32), np.array(starts, np.int32)), shape=shape
    )


def postings_of(matrix: Any) -> Postings:
    """A matrix of rows, turned."""
    turned = matrix.tocsc()
    turned.sort_indices()
    return Postings(turned.indptr.astype(np.int32), turned.indices.astype(np.int32), turned.data)


def joined(matrices: Sequence[Any], kept: Sequence[Flags]) -> Any:
    """The `kept` rows of those matrices in one, as wide as the widest."""
    width = max(matrix.shape[1] for matrix in matrices)
    parts: list[Any] = []
    for matrix, rows in zip(matrices, kept, strict=True):
        part = matrix if rows.all() else matrix[np.flatnonzero(rows)]
        part.resize((part.shape[0], width))
        parts.append(part)
    return _sparse.vstack(parts, format="csr")


def columns_in_use(matrix: Any) -> Ints:
    """The columns of a matrix that hold something."""
    return np.unique(matrix.indices)


def grams_of_words(words: Sequence[str]) -> Any:
    """A row of n-gram counts for each word."""
    return _hasher.transform(words)


def likeness_rows(spellings: Any, grams: Any) -> Any:
    """Rows of n-grams of documents, given their words and the n-grams of those: damped counts, of length 1."""
    matrix = spellings @ grams
    matrix.sort_indices()  # the last digit of a length must not depend on what else was indexed at the time
    matrix.data = (1 + np.log(matrix.data)).astype(np.float32)
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    lengths[lengths == 0] = 1
    return (_sparse.diags((1 / lengths).astype(np.float32)) @ matrix).tocsr().astype(np.float32)


def grams_of_text(words: Sequence[str]) -> tuple[list[int], Floats]:
    """The n-grams of a text's words with their damped counts."""
    row = _hasher.transform([" ".join(words)])
    return row.indices.tolist(), (1 + np.log(row.data)).astype(np.float32)


# ----------------------------------------------------------------------------------------------------
# The lexical index's store: documents in segments that never change, so that any thread may search while one adds.


class Segment(NamedTuple):
    """Some documents: each is a row of the matrices, and `numbers` says which. The postings are these, turned."""

    ids: Ints
    rows: tuple[Any, Any, Any]
    words: Postings
    """By word: how much it counts in which document."""
    names: Postings
    """By word: its part in the name of which document: one divided by the number of the name's words."""
    grams: Postings
    """By n-gram: its part in the document's vector of length 1."""


class IndexSnapshot(NamedTuple):
    """All documents at one moment."""

    word_ids: dict[str, int]
    """The number of each word; may grow, which changes nothing in these segments."""
    segments: tuple[Segment, ...] = ()
    lengths: Floats = np.zeros(0, np.float32)
    """By document number: how much its words count in all."""


class InvertedIndex:
    """Keeps documents. One thread at a time changes it; `shelf` is for any thread, and stays what it was."""

    def __init__(self) -> None:
        self.snapshot = IndexSnapshot({})

    def add(self, numbers: Sequence[int], documents: Sequence[IndexedDocument]) -> None:
        """Add documents under numbers that are not in use."""
        if not numbers:
            return
        fresh = _segment(np.array(numbers, np.int32), self._rows(documents))
        segments = [*self.snapshot.segments, fresh]
        while len(segments) > 1 and 2 * len(segments[-1].ids) >= len(segments[-2].ids):
            segments[-2:] = [_segment(*_joined(segments[-2:], ()))]
        lengths = np.zeros(max(len(self.snapshot.lengths), max(numbers) + 1), np.float32)
        lengths[: len(self.snapshot.lengths)] = self.snapshot.lengths
        lengths[numbers] = [fsum(document.words.values()) for document in documents]
        self.snapshot = IndexSnapshot(self.snapshot.word_ids, tuple(segments), lengths)

    def remove(self, numbers: Collection[int]) -> None:
        """Take documents out, and the words that only they had; their numbers may be used again."""
        if not self.snapshot.segments:
            return
        left, (words, names, grams) = _joined(self.snapshot.segments, numbers)
        used = columns_in_use(words)
        place = dict(zip(used.tolist(), range(len(used)), strict=True))
        kept = {word: place[number] for word, number in self.snapshot.word_ids.items() if number in place}
        segments = (_segment(left, (words[:, used], names[:, used], grams)),) if len(left) else ()
        self.snapshot = IndexSnapshot(kept, segments, self.snapshot.lengths)

    def _rows(self, documents: Sequence[IndexedDocument]) -> tuple[Any, Any, Any]:
        number = self.snapshot.word_ids
        for document in documents:
            for word in document.words:
                _ = number.setdefault(word, len(number))
        words = rows_of(({number[w]: n for w, n in document.words.items()} for document in documents), len(number))
        names = rows_of(({number[w]: 1 / len(d.name_words) for w in d.name_words} for d in documents), len(number))
        return words, names, _grams(documents)


def _grams(documents: Sequence[IndexedDocument]) -> Any:
    # Through the different words, each of which is taken apart once.
    spellings: dict[str, int] = {}
    for document in documents:
        for word in document.spelling:
            _ = spellings.setdefault(word, len(spellings))
    if not spellings:
        return rows_of(({} for _ in documents), grams_of_words([""]).shape[1])
    counts: Iterable[dict[int, float]] = ({spellings[w]: n for w, n in d.spelling.items()} for d in documents)
    return likeness_rows(rows_of(counts, len(spellings)), grams_of_words(list(spellings)))


def _segment(numbers: Ints, rows: tuple[Any, Any, Any]) -> Segment:
    words, names, grams = rows
    return Segment(numbers, rows, postings_of(words), postings_of(names), postings_of(grams))


def _joined(segments: Sequence[Segment], without: Collection[int]) -> tuple[Ints, tuple[Any, Any, Any]]:
    """The documents of those segments in one, but for those of `without`, and their matrices."""
    gone = np.fromiter(without, np.int32, len(without))
    kept = [~np.isin(segment.ids, gone) for segment in segments]
    numbers = np.concatenate([segment.ids[rows] for segment, rows in zip(segments, kept, strict=True)])
    words, names, grams = (joined([segment.rows[kind] for segment in segments], kept) for kind in range(3))
    return numbers, (words, names, grams)
