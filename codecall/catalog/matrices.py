"""scikit-learn and SciPy behind typed functions: the one place that touches these untyped libraries.

Importing this module imports scikit-learn: about 0.8 s, 40 MB. Only the lexical index does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

_sparse: Any = import_module("scipy.sparse")
_text: Any = import_module("sklearn.feature_extraction.text")

GRAM_LENGTHS = (3, 4)
"""Characters of the n-grams of a word and the blanks around it, shortest and longest."""

_GRAM_SLOTS = 2**18
"""Hash slots for n-grams: a large catalogue has some 50,000 different ones, so that few share a slot."""

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
