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
