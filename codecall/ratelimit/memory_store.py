"""Counts in the memory of this process: a storage for the strategies of the `limits` library, and running calls.

The library's own asynchronous memory looks through all its keys, each in a thread, whenever a call is counted: with
1,000 callers that is most of the cost of a call, and a call may have to wait between being tested and being counted.
Here nothing is awaited, so that testing and counting are one step, and each call looks at two other keys to forget
what has expired.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from limits.aio.storage import MovingWindowSupport, Storage
from limits.aio.storage.base import SlidingWindowCounterSupport

from codecall.ratelimit.counting import Slot
from codecall.ratelimit.rules import Strategy

_KEYS_CHECKED: Final = 2
"""Keys checked for expiry at each counted call: one more than a call can add, so that expired keys get fewer."""


class MemoryStorage(Storage, MovingWindowSupport, SlidingWindowCounterSupport):
    """A storage in memory. It forgets keys whose window has passed.

    Args:
        now: the clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._now = now
        self._fixed: dict[str, tuple[int, float]] = {}
        """Calls in the current window, and its end."""
        self._moving: dict[str, deque[float]] = {}
        """Times of the calls, oldest first."""
        self._sliding: dict[str, tuple[int, int, int]] = {}
        """Number of the window since the epoch, calls of the previous window, calls of this one."""
        self._expiry: dict[str, float] = {}
        """When each key may be forgotten."""
        self._rotation: deque[str] = deque()
        """All keys, in the order in which they are checked for expiry."""

    @property
    def base_exceptions(self) -> type[Exception]:
        """The exceptions of this storage: none but for wrong use."""
        return ValueError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Counts `amount` calls in the fixed window of `key`; returns the calls in it."""
        now = self._now()
        calls, end = self._fixed.get(key, (0, 0.0))
        if end <= now:
            calls, end = 0, now + expiry
        self._fixed[key] = (calls + amount, end)
        self._touch(key, end, now)
        return calls + amount

    async def get(self, key: str) -> int:
        """Returns the calls in the fixed window of `key`."""
        calls, end = self._fixed.get(key, (0, 0.0))
        return calls if end > self._now() else 0

    async def get_expiry(self, key: str) -> float:
        """Returns when the fixed window of `key` ends; the current time if there is none."""
        return self._fixed.get(key, (0, self._now()))[1]

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Counts `amount` calls if no more than `limit` are in the moving window then."""
        now = self._now()
        calls = self._recent_calls(key, expiry, now)
        if len(calls) + amount > limit:
            return False
        calls.extend([now] * amount)
        self._moving[key] = calls
        self._touch(key, now + expiry, now)
        return True

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:  # noqa: ARG002 - the interface
        """Returns the time of the oldest call in the window, and the number of calls in it."""
        now = self._now()
        calls = self._recent_calls(key, expiry, now)
        return (calls[0], len(calls)) if calls else (now, 0)

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Counts `amount` calls if no more than `limit` are in the window then, as two counters estimate."""
        now = self._now()
        window, previous, calls = self._windows(key, expiry, now)
        left = 1 - now % expiry / expiry
        if int(previous * left) + calls + amount > limit:
            return False
        self._sliding[key] = (window, previous, calls + amount)
        self._touch(key, (window + 2) * expiry, now)
        return True

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """Returns the calls of the previous window, the seconds it still counts, and the same for this window."""
        now = self._now()
        _, previous, calls = self._windows(key, expiry, now)
        left = expiry - now % expiry
        return previous, left if previous else 0.0, calls, left + expiry

    async def clear_sliding_window(self, key: str, expiry: int) -> None:  # noqa: ARG002 - the interface
        """Forgets the calls of `key`."""
        await self.clear(key)

    async def clear(self, key: str) -> None:
        """Forgets the calls of `key`."""
        for calls in (self._fixed, self._moving, self._sliding):
            calls.pop(key, None)

    async def check(self) -> bool:
        """Returns whether the storage is available: always."""
        return True

    async def reset(self) -> int:
        """Forgets everything; returns the number of keys."""
        keys = len(self._expiry)
        for collection in (self._fixed, self._moving, self._sliding, self._expiry, self._rotation):
            collection.clear()
        return keys

    def __len__(self) -> int:
        """Returns the number of keys."""
        return len(self._expiry)

    def _recent_calls(self, key: str, expiry: int, now: float) -> deque[float]:
        calls = self._moving.get(key)
        if calls is None:
            return deque()
        while calls and calls[0] <= now - expiry:
            calls.popleft()
        return calls

    def _windows(self, key: str, expiry: int, now: float) -> tuple[int, int, int]:
        window = int(now // expiry)
        last, previous, calls = self._sliding.get(key, (window, 0, 0))
        if last == window:
            return window, previous, calls
        return window, calls if last == window - 1 else 0, 0

    def _touch(self, key: str, until: float, now: float) -> None:
        if key not in self._expiry:
            self._rotation.append(key)
        self._expiry[key] = until
        for _ in range(min(_KEYS_CHECKED, len(self._rotation))):
            other = self._rotation.popleft()
            if self._expiry[other] > now:
                self._rotation.append(other)
            else:
                del self._expiry[other]
                for calls in (self._fixed, self._moving, self._sliding):
                    calls.pop(other, None)


class MemorySlots:
    """The running calls of this process."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._leases: dict[str, Sequence[Slot]] = {}
        self._numbers = count()

    def acquire(self, slots: Sequence[Slot]) -> str | Slot:
        """Adds a call to each slot; returns its lease, or the first full slot and then adds it to none."""
        for slot in slots:
            if self._running.get(slot.key, 0) >= slot.limit:
                return slot
        lease = str(next(self._numbers))
        self._leases[lease] = slots
        self._running.update(slot.key for slot in slots)
        return lease

    def release(self, lease: str) -> None:
        """Ends the call of that lease."""
        for slot in self._leases.pop(lease, ()):
            self._running[slot.key] -= 1
            if not self._running[slot.key]:
                del self._running[slot.key]


class MemoryCounterStore:
    """A `CounterStore` in the memory of this process."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self._slots = MemorySlots()

    late_s = 0.0

    async def undo(self, strategy: Strategy, key: str, /) -> None:
        """Never needed: no other call comes between testing and counting."""
        raise NotImplementedError(f"{strategy}: {key}")

    async def acquire(self, slots: Sequence[Slot]) -> str | Slot:
        """See `CounterStore.acquire`."""
        return self._slots.acquire(slots)

    async def release(self, lease: str) -> None:
        """See `CounterStore.release`."""
        self._slots.release(lease)

    def release_nowait(self, lease: str) -> None:
        """See `CounterStore.release_nowait`."""
        self._slots.release(lease)
