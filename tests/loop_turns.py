"""How often other tasks had a turn of the event loop while something was done, and how much work one turn was."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

MAX_TIMES = 20
"""How often an action is repeated whose turns are long."""


class LoopTurns:
    """Counts turns of the event loop."""

    count = 0

    async def take(self) -> None:
        """Take every turn that the loop gives."""
        while True:
            await asyncio.sleep(0)
            self.count += 1


@contextmanager
def count_loop_turns() -> Iterator[LoopTurns]:
    """Within this context another task takes every turn of the loop, and counts them.

    Threads take turns so often that the count says where work is done, not how fast the machine is.
    """
    turns = LoopTurns()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    task = asyncio.create_task(turns.take())
    try:
        yield turns
    finally:
        task.cancel()
        sys.setswitchinterval(interval)


class LongestTurn:
    """The most work of one turn of the event loop."""

    work = 0.0
    """In units of `_unit_s`, which a slow machine and a fast one need as often. Known once the block has ended."""


@contextmanager
def longest_turn() -> Iterator[LongestTurn]:
    """Within this context the processor time of each callback of the event loop is measured. What the garbage
    collector finds of what was there before counts nothing."""
    longest, run = LongestTurn(), asyncio.Handle._run
    unit, most = _unit_s(), 0.0
    _freeze()
    began = time.thread_time()

    def measured(handle: asyncio.Handle) -> None:
        nonlocal began, most
        began = time.thread_time()
        run(handle)
        most = max(most, time.thread_time() - began)

    asyncio.Handle._run = measured  # type: ignore[method-assign]
    try:
        yield longest
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        # The turn in which the block ends has not ended.
        longest.work = max(most, time.thread_time() - began) / unit


@contextmanager
def longest_gap() -> Iterator[LongestTurn]:
    """Within this context the processor time of the process between two turns of a task is measured: work of a thread
    that holds the interpreter counts as well as that of the loop."""
    longest, unit = LongestTurn(), _unit_s()
    _freeze()

    async def take() -> None:
        began = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            longest.work, began = max(longest.work, (now - began) / unit), now

    task = asyncio.create_task(take())
    try:
        yield longest
    finally:
        task.cancel()


def _freeze() -> None:
    """Exempt what is there from garbage collection for good, as after each file of tests: the two million objects of a
    whole run took seconds of each of these tests."""
    gc.collect()
    gc.freeze()


async def assert_turns_below(
    most: float,
    action: Callable[[], Awaitable[object]],
    measure: Callable[[], AbstractContextManager[LongestTurn]] = longest_turn,
) -> None:
    """An action that can be repeated takes no turn of so much work; one time of several without one is enough.

    A virtual machine counts what its host takes away, and the finding of memory, as time of the thread, and a shared
    core is a slow one: that only adds.
    """
    turns: list[float] = []
    while len(turns) < MAX_TIMES:
        with measure() as turn:
            await action()
        if turn.work < most:
            return
        turns.append(turn.work)
    raise AssertionError(f"the longest turns are {turns}, none of which is below {most}")


def _unit_s() -> float:
    """Processor time, in seconds, of adding up the squares of 100,000 numbers: the least of five times."""
    times: list[float] = []
    for _ in range(5):
        began = time.thread_time()
        sum(number * number for number in range(100_000))
        times.append(time.thread_time() - began)
    return min(times)
