"""How often others had a turn of the event loop while something was done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class LoopTurns:
    """Counts them."""

    count = 0

    async def take(self) -> None:
        """Take every turn there is."""
        while True:
            await asyncio.sleep(0)
            self.count += 1


@contextmanager
def count_loop_turns() -> Iterator[LoopTurns]:
    """Within this somebody else takes every turn there is."""
    turns = LoopTurns()
    task = asyncio.create_task(turns.take())
    try:
        yield turns
    finally:
        task.cancel()
