"""What the library asks of a ranking: the one by words, the one by meaning."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from codecall.catalog.entries import CatalogEntry

Numbers = NDArray[np.int32]
"""Documents; each entry of the catalogue has a number as long as anybody sees it."""
Scores = NDArray[np.float32]
Flags = NDArray[np.bool_]


class Ranker(Protocol):
    """Ranks entries for a query. One thread at a time adds and forgets; any thread asks for scores meanwhile."""

    def add(self, numbers: Sequence[int], entries: Sequence[CatalogEntry]) -> None:
        """Take entries in, under numbers that are not in use."""
        ...

    def forget(self, numbers: Collection[int]) -> None:
        """Let entries go; their numbers may be used again."""
        ...

    def scores(self, view: Numbers, query: str) -> Scores:
        """How well each entry of `view` fits, 0 to 1, and nothing that depends on an entry outside of it.

        All of `view` has been added.
        """
        ...
