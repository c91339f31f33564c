"""How much one process stores and loads of the records of runs: of each caller, and of all in memory at a time."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from codecall.quota import Quota, QuotaExceededError, Reservation

MAX_CONCURRENT_LOADS: Final = 4
"""Most records that are read at the same time; at most one of each caller."""

MAX_LOADED_BYTES: Final = 256 * 1024 * 1024
"""Bytes of memory of the records of all callers' resumed runs that have not ended; a larger record is loaded alone."""


class RecordLimits:
    """Limits of what one process stores and loads of the records of runs, for each caller and for all."""

    def __init__(self) -> None:
        self.stored = Quota()
        """Characters in stores, which count until they expire."""
        self.loaded = Quota()
        """Bytes of memory of resumed runs that have not ended."""
        self.loads = asyncio.Semaphore(MAX_CONCURRENT_LOADS)
        """Held while a record is read."""
        self._turn_of_owner: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._freed = asyncio.Event()

    @staticmethod
    def of_running_loop() -> RecordLimits:
        """Returns the limits of the running event loop; a server has one."""
        loop = asyncio.get_running_loop()
        limits = _LIMITS.get(loop)
        if limits is None:
            _LIMITS[loop] = limits = RecordLimits()
        return limits

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncGenerator[None]:
        """Waits until a record of this caller may be read: first come, first served, one at a time."""
        lock = self._turn_of_owner.get(owner)
        if lock is None:
            self._turn_of_owner[owner] = lock = asyncio.Lock()
        async with lock:
            yield

    async def wait_for_room(self, owner: str, size: int, *, max_owned: int | None) -> Reservation:
        """Waits until there is room in memory for a record, and takes it.

        Args:
            owner: the caller.
            size: bytes of the record.
            max_owned: bytes that the records of the caller may have together, but for a first one. None: there is
                always room.
        """
        if max_owned is None:
            return self.loaded.reserve(owner, None, size)
        while (room := self._find_room(owner, size, max_owned)) is None:
            await self._freed.wait()
        return room

    def hold(self, room: Reservation, size: int, record: object) -> None:
        """Keeps as much of the room as the record takes, for as long as `record` exists."""
        self.loaded.grow(room, max(0, size - room.size))
        self._shrink(room, size)
        weakref.finalize(record, _run_in, asyncio.get_running_loop(), self.release, room).atexit = False

    def release(self, room: Reservation) -> None:
        """Gives room in memory back."""
        self._shrink(room, 0)

    def _find_room(self, owner: str, size: int, max_owned: int) -> Reservation | None:
        if not self.loaded.total:
            return self.loaded.reserve(owner, None, size)
        if not self.loaded.owned_by(owner):
            fits = self.loaded.total + size <= MAX_LOADED_BYTES
            return self.loaded.reserve(owner, None, size) if fits else None
        try:
            return self.loaded.reserve(owner, None, size, max_owned=max_owned, max_total=MAX_LOADED_BYTES)
        except QuotaExceededError:
            return None

    def _shrink(self, room: Reservation, size: int) -> None:
        """Gives back what is not needed, and lets those that wait look for room again."""
        self.loaded.shrink(room, size)
        self._freed.set()
        self._freed = asyncio.Event()


_LIMITS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, RecordLimits]] = WeakKeyDictionary()


def _run_in(loop: asyncio.AbstractEventLoop, release: Callable[[Reservation], None], room: Reservation) -> None:
    """The garbage collector finds a record in any thread."""
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(release, room)
