"""A key-value store in the memory of this process, for kept results: what has expired is gone, and its memory free.

Entries are bytes, so that they take the room they are counted with: a Python text with one rare character in it takes
four times as much.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any, SupportsFloat

import msgspec


class MemoryResults:
    """The part of a key-value store that is used. Its entries must have a time to live.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[tuple[str | None, str], tuple[float, bytes]] = {}
        self._expiring: list[tuple[float, tuple[str | None, str]]] = []
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """What was put under `key`; None if there is nothing any more."""
        expires, value = self._entries.get((collection, key), (0.0, b""))
        return msgspec.msgpack.decode(value) if expires > self._clock() else None

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep `value` under `key`, for `ttl` seconds."""
        self._drop_expired()
        expires = self._clock() + float(ttl or 0)
        self._entries[collection, key] = expires, msgspec.msgpack.encode(value)
        heappush(self._expiring, (expires, (collection, key)))
        self._wake_up()

    def __len__(self) -> int:
        return len(self._entries)

    def _wake_up(self) -> None:
        """See to it that nothing stays for much longer than it may, though nobody comes."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer[0] is loop:
                return
            self._timer[1].cancel()
        if self._expiring:
            seconds = max(0.0, self._expiring[0][0] - self._clock())
            self._timer = loop, loop.call_later(seconds, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._drop_expired()
        self._wake_up()

    def _drop_expired(self) -> None:
        now = self._clock()
        while self._expiring and self._expiring[0][0] <= now:
            _, key = heappop(self._expiring)
            if key in self._entries and self._entries[key][0] <= now:
                del self._entries[key]
