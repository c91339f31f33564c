"""How much of runs one caller may have kept, and how many records are read at the same time."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from codecall.errors import LimitExceeded

# ----------------------------------------------------------------------------------------------------
# How much of runs one caller may have kept, and how many records are read at the same time.

AT_ONCE: Final = 4
"""Runs that are taken up at the same time; of one caller it is one."""

OVERHEAD: Final = 512
"""Characters that count for each entry in a store besides its value, so that many small ones have a limit too."""


class Share:
    """What one run takes of its caller's room, until it has expired."""

    __slots__ = ("chars", "expires", "owner")

    def __init__(self, expires: float, owner: str) -> None:
        self.expires = expires
        self.owner = owner
        self.chars = 0

    def __lt__(self, other: Share) -> bool:
        return self.expires < other.expires


class Keeping:
    """Counts what this process keeps of runs, and has those that are taken up wait for each other.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._of_owner: Counter[str] = Counter()
        self._shares: list[Share] = []
        self._reading: Counter[str] = Counter()
        self._all = asyncio.Semaphore(AT_ONCE)
        self._own: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def share(self, owner: str, seconds: float) -> Share:
        """What a run of theirs is going to take, for so long."""
        share = Share(self._clock() + seconds, owner)
        heappush(self._shares, share)
        return share

    def take(self, share: Share, chars: int, most: int | None) -> bool:
        """So much more for that run; False, and nothing is taken, if its caller had more than `most` then."""
        now = self._clock()
        while self._shares and self._shares[0].expires <= now:
            gone = heappop(self._shares)
            self._of_owner[gone.owner] -= gone.chars
            if not self._of_owner[gone.owner]:
                del self._of_owner[gone.owner]
            gone.chars = 0
        if share.expires <= now:
            return True
        if most is not None and self._of_owner[share.owner] + chars > most:
            return False
        share.chars += chars
        self._of_owner[share.owner] += chars
        return True

    def reading(self, owner: str) -> int:
        """Characters of theirs that are in memory, of runs that were taken up."""
        return self._reading[owner]

    def reads(self, owner: str, record: object, chars: int) -> None:
        """So many more, as long as that record is there."""
        self._reading[owner] += chars
        weakref.finalize(record, self._read, owner, chars).atexit = False

    def _read(self, owner: str, chars: int) -> None:
        self._reading[owner] -= chars
        if not self._reading[owner]:
            del self._reading[owner]

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncGenerator[None]:
        """Wait until a run of this caller may be taken up: first come, first served, and one of each caller."""
        own = self._own.get(owner)
        if own is None:
            self._own[owner] = own = asyncio.Lock()
        async with own, self._all:
            yield


_OF_LOOPS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Keeping]] = WeakKeyDictionary()


def keeping() -> Keeping:
    """That of this event loop; a server has one."""
    loop = asyncio.get_running_loop()
    found = _OF_LOOPS.get(loop)
    if found is None:
        _OF_LOOPS[loop] = found = Keeping()
    return found


# ----------------------------------------------------------------------------------------------------
# How much room kept results take: of one caller, and of all that this process has kept and that has not expired.

RESULT_OVERHEAD: Final = 1_024
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
