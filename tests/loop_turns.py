"""Counts how often other tasks had a turn of the event loop while something was done."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
