"""The inverted index of the lexical ranker: immutable segments, so that any thread may search while one adds.

New documents become a segment of their own; neighbours of about the same size are merged, so that there are never more
than a few, and a document is copied a few times in all, not with every change. A word or an n-gram has the same column
in all segments. Nothing in the index depends on which other documents there are: how rare a word is, is counted at each
search over what that caller sees.

This is the only module that touches SciPy, which has no types.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import chain
from math import fsum
from typing import Any, NamedTuple, cast
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.search.analysis import IndexedDocument, family_root
from codecall.catalog.search.spelling import Vocabulary

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

_sparse: Any = import_module("scipy.sparse")

GRAM_LENGTHS = (3, 4)
"""Lengths of the character n-grams of a word and the blanks around it, shortest and longest."""

_GRAM_SLOTS = 2**18
"""Hash slots for n-grams: a large catalog has some 50,000 different ones, so that few share a slot."""


class Segment(NamedTuple):
    """Some documents: each is a row of the matrices, and `ids` says which. The postings are the same by columns."""

    ids: Ints
    rows: tuple[Any, Any, Any, Any]
    words: Postings
    """By word: how much it counts in each document."""
    names: Postings
    """By word: the documents whose name holds it."""
    grams: Postings
    """By n-gram: its component in each document's vector of length 1."""
    spellings: Postings
    """By word as it is spelled: how often it counts in the spelling of each document."""


class IndexSnapshot(NamedTuple):
    """All documents at one moment."""

    word_ids: dict[str, int]
    """The column of each word, stemmed or as it is spelled; the dict may grow, which changes nothing in these
    segments."""
    vocabulary: Vocabulary
    """The words as they are spelled; it may grow likewise."""
    families: dict[str, list[str]]
    """The stems of each word family (`family_root`); it may grow likewise."""
    segments: tuple[Segment, ...] = ()
    lengths: Floats = np.zeros(0, np.float32)
    """By document id: how much its words count in all."""
    intents: NDArray[np.uint8] = np.zeros(0, np.uint8)
    """By document id: the `Intent` of the tool."""
    apps: Ints = np.zeros(0, np.int32)
    """By document id: the number of the app; 0: it has none."""
    abouts: Ints = np.zeros(0, np.int32)
    """By document id: the place in `about_words` of what its server says of itself."""
    about_words: tuple[frozenset[str], ...] = (frozenset(),)
    """What servers say of themselves, each text once; the first says nothing."""


class InvertedIndex:
    """An inverted index. One thread at a time changes it; any thread may read a `snapshot`, which never changes."""

    def __init__(self) -> None:
        self.snapshot = IndexSnapshot({}, Vocabulary(), {})
        self._apps = {"": 0}

    def add(self, numbers: Sequence[int], documents: Sequence[IndexedDocument], intents: Sequence[int] = ()) -> None:
        """Adds documents under ids that are not in use, with the intents of their tools."""
        if not numbers:
            return
        fresh = _segment(np.array(numbers, np.int32), self._rows(documents))
        segments = [*self.snapshot.segments, fresh]
        while len(segments) > 1 and 2 * len(segments[-1].ids) >= len(segments[-2].ids):
            segments[-2:] = [_segment(*_join_segments(segments[-2:], ()))]
        size = max(len(self.snapshot.lengths), max(numbers) + 1)
        lengths, kinds, apps = np.zeros(size, np.float32), np.zeros(size, np.uint8), np.zeros(size, np.int32)
        lengths[: len(self.snapshot.lengths)] = self.snapshot.lengths
        kinds[: len(self.snapshot.intents)] = self.snapshot.intents
        apps[: len(self.snapshot.apps)] = self.snapshot.apps
        lengths[numbers] = [fsum(document.words.values()) for document in documents]
        kinds[numbers] = intents or 0
        apps[numbers] = [self._apps.setdefault(document.app, len(self._apps)) for document in documents]
        abouts = np.zeros(size, np.int32)
        abouts[: len(self.snapshot.abouts)] = self.snapshot.abouts
        places = {words: place for place, words in enumerate(self.snapshot.about_words)}
        abouts[numbers] = [places.setdefault(document.about, len(places)) for document in documents]
        self.snapshot = self.snapshot._replace(
            segments=tuple(segments),
            lengths=lengths,
            intents=kinds,
            apps=apps,
            abouts=abouts,
            about_words=tuple(places),
        )

    def remove(self, numbers: Collection[int]) -> None:
        """Removes documents, and the words that only they had; their ids may be used again."""
        if not self.snapshot.segments:
            return
        remaining, (words, names, grams, spellings) = _join_segments(self.snapshot.segments, numbers)
        used = np.union1d(columns_in_use(words), columns_in_use(spellings))
        column = dict(zip(used.tolist(), range(len(used)), strict=True))
        word_ids = {word: column[old] for word, old in self.snapshot.word_ids.items() if old in column}
        segments: tuple[Segment, ...] = ()
        if len(remaining):
            segments = (_segment(remaining, (words[:, used], names[:, used], grams, spellings[:, used])),)
        vocabulary = Vocabulary()
        vocabulary.add(word for word in self.snapshot.vocabulary if word in word_ids)
        families = {
            root: left
            for root, stems in self.snapshot.families.items()
            if (left := [stem for stem in stems if stem in word_ids])
        }
        said = np.union1d(self.snapshot.abouts[remaining], [0])
        self.snapshot = IndexSnapshot(
            word_ids,
            vocabulary,
            families,
            segments,
            self.snapshot.lengths,
            self.snapshot.intents,
            self.snapshot.apps,
            # Ids that are in no use may point anywhere.
            np.searchsorted(said, self.snapshot.abouts).astype(np.int32) % len(said),
            tuple(self.snapshot.about_words[int(place)] for place in cast("Ints", said)),
        )

    def _rows(self, documents: Sequence[IndexedDocument]) -> tuple[Any, Any, Any, Any]:
        columns, families = self.snapshot.word_ids, self.snapshot.families
        stems = dict.fromkeys(chain.from_iterable(document.words for document in documents))
        spelled = list(dict.fromkeys(chain.from_iterable(document.spelling for document in documents)))
        for word in chain(stems, spelled):
            _ = columns.setdefault(word, len(columns))
        for word in stems:
            family = families.setdefault(family_root(word), [])
            if word not in family:
                family.append(word)
        self.snapshot.vocabulary.add(spelled)
        words = sparse_rows(({columns[w]: n for w, n in d.words.items()} for d in documents), len(columns))
        names = sparse_rows((dict.fromkeys((columns[w] for w in d.name_words), 1.0) for d in documents), len(columns))
        # The n-grams through the different words, each of which is taken apart once.
        places = {word: place for place, word in enumerate(spelled)}
        counts = sparse_rows(({places[w]: n for w, n in d.spelling.items()} for d in documents), len(spelled))
        grams = ngram_vectors(counts, word_ngrams(spelled))
        column_of = np.fromiter((columns[word] for word in spelled), np.int32, len(spelled))
        shape = (len(documents), len(columns))
        spellings = _sparse.csr_matrix((counts.data, column_of[counts.indices], counts.indptr), shape=shape)
        return words, names, grams, spellings


class Postings(NamedTuple):
    """A sparse matrix by columns: column `c` owns the slice `starts[c]:starts[c + 1]` of the other two."""

    starts: Ints
    rows: Ints
    values: Floats

    @property
    def columns_of_values(self) -> Ints:
        """The column of each value."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    def column(self, number: int) -> slice:
        """Returns the slice of a column; empty for a column that did not exist yet when these postings were made."""
        if number + 1 >= len(self.starts):
            return slice(0, 0)
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def columns(self, numbers: Sequence[int]) -> tuple[Ints, Floats, Ints]:
        """Returns the rows and values of many columns, one after the other, and the size of each column."""
        slices = [self.column(number) for number in numbers]
        rows = [self.rows[part] for part in slices]
        values = [self.values[part] for part in slices]
        sizes = np.fromiter((len(part) for part in rows), np.int32, len(rows))
        if not rows:
            return np.zeros(0, np.int32), np.zeros(0, np.float32), sizes
        return np.concatenate(rows), np.concatenate(values), sizes


def sparse_rows(counts: Iterable[Mapping[int, float]], width: int) -> Any:
    """Builds a sparse matrix with one row for each of `counts`, which map columns below `width` to values."""
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


def postings_from_rows(matrix: Any) -> Postings:
    """Turns a matrix by rows into one by columns."""
    turned = matrix.tocsc()
    turned.sort_indices()
    return Postings(turned.indptr.astype(np.int32), turned.indices.astype(np.int32), turned.data)


def join_rows(matrices: Sequence[Any], selections: Sequence[Flags]) -> Any:
    """Joins the selected rows of matrices into one matrix, as wide as the widest."""
    width = max(matrix.shape[1] for matrix in matrices)
    parts: list[Any] = []
    for matrix, selected in zip(matrices, selections, strict=True):
        part = matrix if selected.all() else matrix[np.flatnonzero(selected)]
        part.resize((part.shape[0], width))
        parts.append(part)
    return _sparse.vstack(parts, format="csr")


def columns_in_use(matrix: Any) -> Ints:
    """Returns the columns of a matrix that hold something."""
    return np.unique(matrix.indices)


def word_ngrams(words: Sequence[str]) -> Any:
    """Returns a row of n-gram counts for each word."""
    return sparse_rows((Counter(_gram_slots(word)) for word in words), _GRAM_SLOTS)


def ngram_vectors(spellings: Any, grams: Any) -> Any:
    """Returns the n-gram vectors of documents, from their words and the n-grams of those: damped counts, of length
    1."""
    matrix = spellings @ grams
    matrix.sort_indices()  # the last digit of a length must not depend on what else was indexed at the time
    matrix.data = (1 + np.log(matrix.data)).astype(np.float32)
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    lengths[lengths == 0] = 1
    return (_sparse.diags((1 / lengths).astype(np.float32)) @ matrix).tocsr().astype(np.float32)


def text_ngrams(words: Sequence[str]) -> tuple[list[int], Floats]:
    """Returns the n-grams of a text's words and their damped counts."""
    counts = Counter(chain.from_iterable(map(_gram_slots, words)))
    return list(counts), (1 + np.log(np.fromiter(counts.values(), np.float32, len(counts)))).astype(np.float32)


def _gram_slots(word: str) -> list[int]:
    """The slots of a word's n-grams. The shortest word, one letter between blanks, is one n-gram."""
    padded = f" {word} "
    shortest, longest = GRAM_LENGTHS
    spans = [
        (start, start + length)
        for length in range(shortest, max(shortest, min(longest, len(padded))) + 1)
        for start in range(len(padded) - length + 1)
    ]
    if padded.isascii():  # each character is a byte: encoded as a whole, in half the time
        data = padded.encode()
        return [crc32(data[start:end]) % _GRAM_SLOTS for start, end in spans]
    return [crc32(padded[start:end].encode()) % _GRAM_SLOTS for start, end in spans]


def _segment(numbers: Ints, rows: tuple[Any, Any, Any, Any]) -> Segment:
    words, names, grams, spellings = map(postings_from_rows, rows)
    return Segment(numbers, rows, words, names, grams, spellings)


def _join_segments(segments: Sequence[Segment], without: Collection[int]) -> tuple[Ints, tuple[Any, Any, Any, Any]]:
    """Joins the documents of segments, without those of `without`: their ids and their matrices."""
    removed = np.fromiter(without, np.int32, len(without))
    selections = [~np.isin(segment.ids, removed) for segment in segments]
    ids = np.concatenate([segment.ids[selected] for segment, selected in zip(segments, selections, strict=True)])
    kinds = zip(*(segment.rows for segment in segments), strict=True)
    words, names, grams, spellings = (join_rows(matrices, selections) for matrices in kinds)
    return ids, (words, names, grams, spellings)
