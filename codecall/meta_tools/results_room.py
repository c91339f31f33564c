"""How much room kept results take: of one caller, and of all that this process has kept and that has not expired."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from codecall.errors import LimitExceeded

OVERHEAD: Final = 1_024
"""Bytes that count for each entry in a store besides its text, so that many small ones have a limit too."""


SHARE: Final = 4
"""What is free must be so many times what the caller has who takes some more of it."""


class Claim:
    """Room that is taken until it expires."""

    __slots__ = ("expires", "owner", "size")

    def __init__(self, expires: float, owner: str, size: int) -> None:
        self.expires = expires
        self.owner = owner
        self.size = size

    def __lt__(self, other: Claim) -> bool:
        return self.expires < other.expires


class Room:
    """Counts what this process keeps.

    Args:
        most: Bytes for all callers together.
        most_of_one: Bytes for any one caller; and nobody may have more than a quarter of what is free after it. So
            however many callers take what they can, the next one still finds some room.
        clock: Seconds.
    """

    def __init__(self, most: int, most_of_one: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._most = most
        self._most_of_one = most_of_one
        self._taken = 0
        self._of_owner: Counter[str] = Counter()
        self._claims: list[Claim] = []

    def take(self, owner: str, size: int, seconds: float) -> Claim:
        """Room for a result of `size` bytes, for so long.

        Raises:
            LimitExceeded: there is none; the message says why. Nothing is thrown out to make some.
        """
        now = self._clock()
        while self._claims and self._claims[0].expires <= now:
            self.give_back(heappop(self._claims), 0)
        taken = self._of_owner[owner]
        if taken + size > self._most_of_one:
            raise _full(f"your kept results take {taken} of {self._most_of_one} bytes", "results.max_caller_bytes")
        if (taken + size) * SHARE > self._most - (self._taken + size):
            raise _full("there is too little room left among all that are kept", "results.max_total_bytes")
        claim = Claim(now + seconds, owner, 0)
        self._grow(claim, size)
        heappush(self._claims, claim)
        return claim

    def give_back(self, claim: Claim, size: int) -> None:
        """No more than `size` bytes of it are needed."""
        self._grow(claim, size - claim.size)

    def _grow(self, claim: Claim, size: int) -> None:
        claim.size += size
        self._taken += size
        self._of_owner[claim.owner] += size
        if not self._of_owner[claim.owner]:
            del self._of_owner[claim.owner]


def _full(why: str, option: str) -> LimitExceeded:
    return LimitExceeded(
        f"The result is too large for an answer, and is not kept: {why}",
        code="OUTPUT_LIMIT",
        hint=f"Return less: filter, aggregate, or select fields; or wait until others have expired ({option}).",
    )
