"""Vectors of documents by number, in one matrix that grows."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

_FIRST_ROWS = 256


class Rows:
    """One vector for each document that has one. Any thread may use it.

    10,000 vectors of 384 numbers take 15 to 25 MB: the matrix doubles when it is full, and rows are used again.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._matrix: Floats | None = None
        self._row_of: Ints = np.zeros(0, dtype=np.int32)
        self._free: list[int] = []
        self._used = 0
        self._expected: set[int] = set()

    def expect(self, numbers: Collection[int]) -> None:
        """Vectors of these documents will come; only of such are any taken."""
        with self._guard:
            self._expected.update(numbers)

    def put(self, vectors: Mapping[int, Floats]) -> None:
        """Take in vectors of documents that are expected; those forgotten meanwhile are left out, and zero ones."""
        with self._guard:
            for number, vector in vectors.items():
                if number in self._expected and vector.any():
                    self._place(number, vector)

    def forget(self, numbers: Collection[int]) -> None:
        """Drop the vectors of these documents, and expect none."""
        with self._guard:
            self._expected.difference_update(numbers)
            for number in numbers:
                if number < len(self._row_of) and self._row_of[number] >= 0:
                    self._free.append(int(self._row_of[number]))
                    self._row_of[number] = -1

    def cosines(self, view: Ints, vector: Floats) -> Floats:
        """The product of `vector` with that of each document of `view`, to 5 decimals; NaN where there is none.

        Equal to the last digit whatever documents there are besides.
        """
        found = np.full(len(view), np.nan, dtype=np.float32)
        with self._guard:
            rows = self._rows_of(view)
            known = rows >= 0
            if self._matrix is None or not known.any():
                return found
            if 2 * len(view) >= self._used:
                # To copy the rows of a large view takes longer than to multiply all.
                products = _products(self._matrix[: self._used], vector)[rows[known]]
            else:
                products = _products(self._matrix[rows[known]], vector)
        found[known] = np.round(products, 5)
        return found

    def known(self, view: Ints) -> int:
        """How many documents of `view` have a vector."""
        with self._guard:
            return int(np.count_nonzero(self._rows_of(view) >= 0))

    def _place(self, number: int, vector: Floats) -> None:
        """Make `vector` the row of document `number`."""
        if number >= len(self._row_of):
            grown = np.full(max(number + 1, 2 * len(self._row_of)), -1, dtype=np.int32)
            grown[: len(self._row_of)] = self._row_of
            self._row_of = grown
        if self._matrix is None:
            self._matrix = np.zeros((_FIRST_ROWS, len(vector)), dtype=np.float32)
        row = int(self._row_of[number])
        if row < 0:
            row = self._free.pop() if self._free else self._used
            if row == self._used:
                self._used += 1
                if row >= len(self._matrix):
                    self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
            self._row_of[number] = row
        self._matrix[row] = vector

    def _rows_of(self, view: Ints) -> Ints:
        if len(self._row_of) == 0:
            return np.full(len(view), -1, dtype=np.int32)
        inside = np.minimum(view, len(self._row_of) - 1)
        return np.where(view < len(self._row_of), self._row_of[inside], np.int32(-1))


def _products(matrix: Floats, vector: Floats) -> Floats:
    """`matrix @ vector`, in this thread alone: BLAS uses several, and on a busy machine waits for the last of them
    (8 ms instead of 0.1)."""
    return cast("Floats", np.einsum("ij,j->i", matrix, vector))
