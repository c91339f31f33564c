"""How long a server is left alone that goes on telling of changes: each listing of it makes a new catalogue."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LONGEST_S: Final = 60.0
"""Seconds at most between two listings."""

QUIET_S: Final = 60.0
"""Seconds without a change after which a server is one that changes seldom."""


class Pauses:
    """1, 2, 4 … 60 seconds between the listings of one server, and 1 again when it has been quiet for a while.

    Args:
        clock: gives seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard_at: float | None = None
        self._count = 0

    def heard(self) -> None:
        """Note that the server has told of a change."""
        now = self._clock()
        if self._heard_at is None or now - self._heard_at >= QUIET_S:
            self._count = 0
        self._heard_at = now

    def next_s(self, shortest_s: float) -> float:
        """Seconds to wait after a listing that was just made; `shortest_s` after the first one."""
        self._count += 1
        return min(LONGEST_S, shortest_s * 2.0 ** min(self._count - 1, 10))
