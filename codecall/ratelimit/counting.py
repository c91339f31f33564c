"""Counts one call for all limits that apply to it: either for every one, or for none.

The strategies are those of the `limits` library, on a store: this process (`memory_store.py`) or Redis
(`redis_store.py`). A call with several limits is tested against all of them first, then counted. If another instance
uses up a limit in between, the counts already made are undone. Until then, for about the time of one request to
Redis, a third call may be refused that would have passed; no call ever passes that should not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, cast

from codecall.ratelimit.rules import RateLimitRule, Strategy

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.aio.storage import Storage
    from limits.aio.storage.base import SlidingWindowCounterSupport
    from limits.aio.strategies import RateLimiter

FULL_WAIT_MS: Final = 1_000
"""Milliseconds to wait where too many calls run at once, since the end of a running call is not known."""


class Slot(NamedTuple):
    """A limit of calls that run at the same time, under one key."""

    key: str
    limit: int
    """Most calls that run under this key at the same time."""


class CounterStore(Protocol):
    """Stores the counts of calls."""

    @property
    def storage(self) -> Storage:
        """The storage that the strategies use."""
        ...

    @property
    def late_s(self) -> float:
        """Most seconds by which a fixed window ends later than the storage reports."""
        ...

    async def undo(self, strategy: Strategy, key: str, /) -> None:
        """Removes one call that was just counted under that key of the storage."""
        ...

    async def acquire(self, slots: Sequence[Slot]) -> str | Slot:
        """Adds a running call to each slot; returns its lease, or the first full slot and then adds it to none."""
        ...

    async def release(self, lease: str) -> None:
        """Ends the call of that lease."""
        ...

    def release_nowait(self, lease: str) -> None:
        """Ends the call of that lease without awaiting; its slots may become free only some time later."""
        ...


class WindowLimit(NamedTuple):
    """How often calls of one rule may begin for one caller."""

    rule: RateLimitRule
    scope: tuple[str, str]
    """Rule and caller, as keys of the store contain them."""
    item: RateLimitItem

    @property
    def key(self) -> str:
        """The key in the store."""
        return self.item.key_for(*self.scope)


class ConcurrencyLimit(NamedTuple):
    """How many calls of one rule may run at the same time for one caller."""

    rule: RateLimitRule
    scope: tuple[str, str]
    calls: int

    @property
    def key(self) -> str:
        """The key in the store."""
        return "/".join(("RUNNING", *self.scope))


Limit: TypeAlias = WindowLimit | ConcurrencyLimit


class LimitRefusal(NamedTuple):
    """Why a call is refused."""

    limit: Limit
    wait_s: float
    """Seconds until this limit admits a call, if no other call comes first."""


class CallCounter:
    """Counts calls in one store."""

    def __init__(self, store: CounterStore) -> None:
        from limits.aio.strategies import STRATEGIES

        self._store = store
        self._limiters: dict[Strategy, RateLimiter] = {
            strategy: STRATEGIES[strategy](store.storage)
            for strategy in ("moving-window", "fixed-window", "sliding-window-counter")
        }

    async def admit(self, limits: Sequence[Limit]) -> str | LimitRefusal | None:
        """Counts a call for these limits.

        Returns:
            The lease that `release` needs when the call has ended, or None if it needs none; or the refusal, and then
            the call counts for no limit.
        """
        windows = [limit for limit in limits if isinstance(limit, WindowLimit)]
        concurrent = [limit for limit in limits if isinstance(limit, ConcurrencyLimit)]
        if not concurrent:
            return await self._count(windows)
        slots = [Slot(limit.key, limit.calls) for limit in concurrent]
        acquired = await self._store.acquire(slots)
        if isinstance(acquired, Slot):
            return LimitRefusal(concurrent[slots.index(acquired)], FULL_WAIT_MS / 1000)
        try:
            refusal = await self._count(windows)
        except BaseException:
            self._store.release_nowait(acquired)
            raise
        if refusal is None:
            return acquired
        await self._store.release(acquired)
        return refusal

    async def _count(self, limits: Sequence[WindowLimit]) -> LimitRefusal | None:
        if len(limits) > 1:
            full = [limit for limit in limits if not await self._test(limit)]
            if full:
                # The longest wait: an earlier attempt would fail.
                return max(
                    [LimitRefusal(limit, await self._wait_s(limit)) for limit in full], key=lambda one: one.wait_s
                )
        for place, limit in enumerate(limits):
            if not await self._hit(limit):
                for counted in limits[:place]:
                    await self._store.undo(counted.rule.strategy, counted.key)
                return LimitRefusal(limit, await self._wait_s(limit))
        return None

    async def _test(self, limit: WindowLimit) -> bool:
        return await self._limiters[limit.rule.strategy].test(limit.item, *limit.scope)

    async def _hit(self, limit: WindowLimit) -> bool:
        return await self._limiters[limit.rule.strategy].hit(limit.item, *limit.scope)

    async def _wait_s(self, limit: WindowLimit) -> float:
        item = limit.item
        strategy = limit.rule.strategy
        if strategy == "sliding-window-counter":
            # The library reports when the count next falls, which need not be far enough.
            storage = cast("SlidingWindowCounterSupport", self._store.storage)
            window = await storage.get_sliding_window(limit.key, item.get_expiry())
            return sliding_wait_s(item.amount, item.get_expiry(), window)
        stats = await self._limiters[strategy].get_window_stats(item, *limit.scope)
        late_s = self._store.late_s if strategy == "fixed-window" else 0.0
        return max(0.0, stats.reset_time - time.time() + late_s)


def sliding_wait_s(limit: int, window_s: int, window: tuple[int, float, int, float]) -> float:
    """Returns the seconds until a sliding window with two counters admits one more call, if no other comes first.

    The calls of the previous window count in proportion to what is left of it: `before * left / window`, rounded down;
    together with those of this window they must be fewer than `limit`.

    Args:
        limit: calls per window.
        window_s: seconds of a window.
        window: calls of the previous window and seconds until they no longer count; the same for this window.
    """
    before, before_left_s, calls, calls_left_s = window
    if calls < limit:
        return max(0.0, before_left_s - (limit - calls) * window_s / before) if before else 0.0
    ends_in_s = max(0.0, calls_left_s - window_s)  # this window then becomes the previous one
    return ends_in_s + max(0.0, window_s - limit * window_s / calls)


def wait_ms(wait_s: float) -> int:
    """Returns seconds as whole milliseconds, rounded up, at least 1."""
    return max(1, math.ceil(wait_s * 1000))
