"""Counting one call for all the rules about it: either for every one, or for none.

The strategies are those of the `limits` library, on a store: this process (`rate_memory.py`), or Redis
(`rate_redis.py`). A call that several limits are about is tested against all of them first, then counted. Between the
two another instance may take what was left; then what was counted is taken back. Until that has happened, for about the
time one request to Redis takes, a third call may be refused that would have passed; none ever passes that should not.
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
"""When to try again where too many calls run at once: nobody knows when one of them ends."""


class Slot(NamedTuple):
    """A place for a running call."""

    key: str
    limit: int
    """Calls that may run in slots of this key at the same time."""


class CounterStore(Protocol):
    """Where counts are kept."""

    @property
    def storage(self) -> Storage:
        """For the strategies."""
        ...

    @property
    def late_s(self) -> float:
        """Seconds by which a fixed window may end later than the storage says."""
        ...

    async def undo(self, strategy: Strategy, key: str, /) -> None:
        """Take back one call that was just counted under that key of the storage."""
        ...

    async def acquire(self, slots: Sequence[Slot]) -> str | Slot:
        """One more running call in each slot: its lease, or the slot that is full, and then it runs in none."""
        ...

    async def release(self, lease: str) -> None:
        """The call of that lease has ended."""
        ...

    def release_nowait(self, lease: str) -> None:
        """The same where nothing can be awaited; the slots may be free only some time later."""
        ...


class WindowLimit(NamedTuple):
    """How often calls of a rule may begin, for one caller."""

    rule: RateLimitRule
    scope: tuple[str, str]
    """Rule and caller, as keys of the store name them."""
    item: RateLimitItem

    @property
    def key(self) -> str:
        """The key in the store."""
        return self.item.key_for(*self.scope)


class ConcurrencyLimit(NamedTuple):
    """How many calls of a rule may run at the same time, for one caller."""

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
    """Seconds until this limit lets a call pass, if no other comes first."""


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
        """Count a call for these limits.

        Returns:
            Its lease, to be given to `leave` when it has ended, or None if it needs none; or why it is refused, and
            then it counts for no limit.
        """
        often = [limit for limit in limits if isinstance(limit, WindowLimit)]
        at_once = [limit for limit in limits if isinstance(limit, ConcurrencyLimit)]
        if not at_once:
            return await self._count(often)
        slots = [Slot(limit.key, limit.calls) for limit in at_once]
        taken = await self._store.acquire(slots)
        if isinstance(taken, Slot):
            return LimitRefusal(at_once[slots.index(taken)], FULL_WAIT_MS / 1000)
        try:
            refused = await self._count(often)
        except BaseException:
            self._store.release_nowait(taken)
            raise
        if refused is None:
            return taken
        await self._store.release(taken)
        return refused

    async def _count(self, limits: Sequence[WindowLimit]) -> LimitRefusal | None:
        if len(limits) > 1:
            full = [limit for limit in limits if not await self._may(limit)]
            if full:
                # The longest wait: to come back before that would be in vain.
                return max(
                    [LimitRefusal(limit, await self._wait_s(limit)) for limit in full], key=lambda one: one.wait_s
                )
        for place, limit in enumerate(limits):
            if not await self._hit(limit):
                for counted in limits[:place]:
                    await self._store.undo(counted.rule.strategy, counted.key)
                return LimitRefusal(limit, await self._wait_s(limit))
        return None

    async def _may(self, limit: WindowLimit) -> bool:
        return await self._limiters[limit.rule.strategy].test(limit.item, *limit.scope)

    async def _hit(self, limit: WindowLimit) -> bool:
        return await self._limiters[limit.rule.strategy].hit(limit.item, *limit.scope)

    async def _wait_s(self, limit: WindowLimit) -> float:
        item = limit.item
        strategy = limit.rule.strategy
        if strategy == "sliding-window-counter":
            # The library's own answer is when the count next falls, which need not be far enough.
            storage = cast("SlidingWindowCounterSupport", self._store.storage)
            window = await storage.get_sliding_window(limit.key, item.get_expiry())
            return sliding_wait_s(item.amount, item.get_expiry(), window)
        stats = await self._limiters[strategy].get_window_stats(item, *limit.scope)
        late_s = self._store.late_s if strategy == "fixed-window" else 0.0
        return max(0.0, stats.reset_time - time.time() + late_s)


def sliding_wait_s(limit: int, window_s: int, window: tuple[int, float, int, float]) -> float:
    """Seconds until two counters let one more call pass, if no other comes first.

    Args:
        limit: calls per window.
        window_s: its seconds.
        window: calls of the window before, seconds until they no longer count, and the same of this window.

    The calls of the window before count in proportion to what is left of it: `before * left / window`, rounded down;
    together with those of this window they must be fewer than `limit`.
    """
    before, before_left_s, calls, calls_left_s = window
    if calls < limit:
        return max(0.0, before_left_s - (limit - calls) * window_s / before) if before else 0.0
    ends_in_s = max(0.0, calls_left_s - window_s)  # this window then becomes the one before
    return ends_in_s + max(0.0, window_s - limit * window_s / calls)


def wait_ms(wait_s: float) -> int:
    """Seconds as whole milliseconds, at least 1, rounded up."""
    return max(1, math.ceil(wait_s * 1000))
