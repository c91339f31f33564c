"""The lexical index's store: documents in segments that never change, so that any thread may search while one adds.

New documents become a segment of their own; neighbours of about the same size are merged, so that there are never more
than a few, and a document is copied a few times in all, not with every change. Words and n-grams have one number in all
segments. Nothing here depends on what else there is: how rare a word is, is counted at each search over what that
caller sees.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from codecall.catalog.documents import Document
from codecall.catalog.matrices import (
    Floats,
    Ints,
    Postings,
    columns_in_use,
    grams_of_words,
    joined,
    likeness_rows,
    postings_of,
    rows_of,
)


class Segment(NamedTuple):
    """Some documents: each is a row of the matrices, and `numbers` says which. The postings are these, turned."""

    numbers: Ints
    rows: tuple[Any, Any, Any]
    words: Postings
    """By word: how much it counts in which document."""
    names: Postings
    """By word: its part in the name of which document: one divided by the number of the name's words."""
    grams: Postings
    """By n-gram: its part in the document's vector of length 1."""


class Shelf(NamedTuple):
    """All documents at one moment."""

    words: dict[str, int]
    """The number of each word; may grow, which changes nothing in these segments."""
    segments: tuple[Segment, ...] = ()
    lengths: Floats = np.zeros(0, np.float32)
    """By document number: how much its words count in all."""


class Store:
    """Keeps documents. One thread at a time changes it; `shelf` is for any thread, and stays what it was."""

    def __init__(self) -> None:
        self.shelf = Shelf({})

    def add(self, numbers: Sequence[int], documents: Sequence[Document]) -> None:
        """Add documents under numbers that are not in use."""
        if not numbers:
            return
        fresh = _segment(np.array(numbers, np.int32), self._rows(documents))
        segments = [*self.shelf.segments, fresh]
        while len(segments) > 1 and 2 * len(segments[-1].numbers) >= len(segments[-2].numbers):
            segments[-2:] = [_segment(*_joined(segments[-2:], ()))]
        lengths = np.zeros(max(len(self.shelf.lengths), max(numbers) + 1), np.float32)
        lengths[: len(self.shelf.lengths)] = self.shelf.lengths
        lengths[numbers] = [fsum(document.words.values()) for document in documents]
        self.shelf = Shelf(self.shelf.words, tuple(segments), lengths)

    def forget(self, numbers: Collection[int]) -> None:
        """Take documents out, and the words that only they had; their numbers may be used again."""
        if not self.shelf.segments:
            return
        left, (words, names, grams) = _joined(self.shelf.segments, numbers)
        used = columns_in_use(words)
        place = dict(zip(used.tolist(), range(len(used)), strict=True))
        kept = {word: place[number] for word, number in self.shelf.words.items() if number in place}
        segments = (_segment(left, (words[:, used], names[:, used], grams)),) if len(left) else ()
        self.shelf = Shelf(kept, segments, self.shelf.lengths)

    def _rows(self, documents: Sequence[Document]) -> tuple[Any, Any, Any]:
        number = self.shelf.words
        for document in documents:
            for word in document.words:
                _ = number.setdefault(word, len(number))
        words = rows_of(({number[w]: n for w, n in document.words.items()} for document in documents), len(number))
        names = rows_of(({number[w]: 1 / len(d.name) for w in d.name} for d in documents), len(number))
        return words, names, _grams(documents)


def _grams(documents: Sequence[Document]) -> Any:
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
    kept = [~np.isin(segment.numbers, gone) for segment in segments]
    numbers = np.concatenate([segment.numbers[rows] for segment, rows in zip(segments, kept, strict=True)])
    words, names, grams = (joined([segment.rows[kind] for segment in segments], kept) for kind in range(3))
    return numbers, (words, names, grams)
