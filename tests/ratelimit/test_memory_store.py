"""The counts of one process: the strategies hold their limits at any time, and waits are as long as they say."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage as LimitsMemoryStorage
from limits.aio.strategies import STRATEGIES

from codecall.ratelimit.counting import sliding_wait_s
from codecall.ratelimit.memory_store import MemoryStorage

WINDOW = 10


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000_000_003.25

    def __call__(self) -> float:
        return self.now


GAPS = st.lists(st.integers(0, 48).map(lambda eighths: eighths / 8), max_size=60)


@given(GAPS, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
async def test_no_moving_window_has_more_than_the_limit(gaps: list[float], limit: int) -> None:
    clock = Clock()
    limiter = STRATEGIES["moving-window"](MemoryStorage(clock))
    item = RateLimitItemPerSecond(limit, WINDOW)
    passed: list[float] = []
    for gap in gaps:
        clock.now += gap
        could = await limiter.test(item, "x")
        assert await limiter.hit(item, "x") == could
        # Refused exactly when the window is full.
        assert could == (sum(at > clock.now - WINDOW for at in passed) < limit)
        if could:
            passed.append(clock.now)
        else:
            stats = await limiter.get_window_stats(item, "x")
            assert stats.reset_time == passed[-limit] + WINDOW


@given(GAPS, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
async def test_a_fixed_window_begins_with_its_first_call(gaps: list[float], limit: int) -> None:
    clock = Clock()
    limiter = STRATEGIES["fixed-window"](MemoryStorage(clock))
    item = RateLimitItemPerSecond(limit, WINDOW)
    begin, calls = -1e9, 0
    for gap in gaps:
        clock.now += gap
        if clock.now >= begin + WINDOW:
            begin, calls = clock.now, 0
        could = await limiter.test(item, "x")
        assert could == (calls < limit)
        assert await limiter.hit(item, "x") == could
        calls += 1
        assert (await limiter.get_window_stats(item, "x")).reset_time == begin + WINDOW


@given(GAPS, st.integers(1, 7))
@settings(max_examples=100, deadline=None)
async def test_two_counters_let_a_call_pass_after_the_wait_and_not_before(gaps: list[float], limit: int) -> None:
    clock = Clock()
    counts = MemoryStorage(clock)
    limiter = STRATEGIES["sliding-window-counter"](counts)
    item = RateLimitItemPerSecond(limit, WINDOW)
    for gap in gaps:
        clock.now += gap
        could = await limiter.test(item, "x")
        if not could:
            before = clock.now
            wait_s = sliding_wait_s(limit, WINDOW, await counts.get_sliding_window(item.key_for("x"), WINDOW))
            assert 0 <= wait_s <= 2 * WINDOW
            clock.now = before + wait_s - 0.001
            assert wait_s < 0.001 or not await limiter.test(item, "x")
            clock.now = before + wait_s + 0.001
            assert await limiter.test(item, "x")
            clock.now = before
        assert await limiter.hit(item, "x") == could


@pytest.mark.parametrize("strategy", ["moving-window", "fixed-window", "sliding-window-counter"])
async def test_it_counts_as_the_library_s_own_memory_does(strategy: str) -> None:
    item = RateLimitItemPerSecond(5, 3_600)
    ours, theirs = STRATEGIES[strategy](MemoryStorage()), STRATEGIES[strategy](LimitsMemoryStorage())
    for _ in range(8):
        assert await ours.test(item, "x") == await theirs.test(item, "x")
        assert await ours.hit(item, "x") == await theirs.hit(item, "x")
        mine, other = await ours.get_window_stats(item, "x"), await theirs.get_window_stats(item, "x")
        assert mine.remaining == other.remaining
        assert abs(mine.reset_time - other.reset_time) < 1


@pytest.mark.parametrize("strategy", ["moving-window", "fixed-window", "sliding-window-counter"])
async def test_callers_who_do_not_come_back_are_forgotten(strategy: str) -> None:
    clock = Clock()
    counts = MemoryStorage(clock)
    limiter = STRATEGIES[strategy](counts)
    item = RateLimitItemPerSecond(5, WINDOW)
    kept: list[int] = []
    for number in range(4_000):
        clock.now += 0.1
        assert await limiter.hit(item, str(number))
        kept.append(len(counts))
    # A hundred come in a window, and what a window needs is at most two of them.
    assert max(kept) <= 450
    assert all(later - earlier <= 1 for earlier, later in pairwise(kept))


async def test_what_is_cleared_is_gone() -> None:
    counts = MemoryStorage()
    for strategy in STRATEGIES.values():
        item = RateLimitItemPerSecond(1, WINDOW)
        limiter = strategy(counts)
        assert await limiter.hit(item, "x")
        assert not await limiter.hit(item, "x")
        await limiter.clear(item, "x")
        assert await limiter.hit(item, "x")
        assert await counts.reset()
        assert len(counts) == 0
        assert await limiter.hit(item, "x")
    assert await counts.check()
