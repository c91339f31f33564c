"""Decisions read from bytes: the same bytes make the same program, and fewer or smaller bytes make a simpler one.

That is what lets one generator serve Hypothesis (which shrinks bytes well) and the long runs of `make fuzz` (which
need thousands of programs a second and must be able to repeat each of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Decisions from `data`, one byte each. When the bytes are used up every answer is the first, the simplest."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes not yet used."""
        return len(self._data) - self._at

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1; `bound` is at most 65,536."""
        if bound <= 1 or self._at >= len(self._data):
            return 0
        value = self._data[self._at]
        self._at += 1
        if bound > 256 and self._at < len(self._data):
            value = value << 8 | self._data[self._at]
            self._at += 1
        return value % bound

    def pick(self, options: Sequence[T]) -> T:
        """One of `options`; the first is the simplest."""
        return options[self.below(len(options))]

    def once_in(self, bound: int) -> bool:
        """True about once in `bound` times; False when the bytes are used up."""
        return self.below(bound) == bound - 1 and bound > 1
