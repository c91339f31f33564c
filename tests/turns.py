"""How often others had a turn of the event loop while something was done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Counts them."""

    count = 0

    async def take(self) -> None:
        """Take every turn there is."""
        while True:
            await asyncio.sleep(0)
            self.count += 1


@contextmanager
def turns_of_others() -> Iterator[Turns]:
    """Within this somebody else takes every turn there is."""
    turns = Turns()
    task = asyncio.create_task(turns.take())
    try:
        yield turns
    finally:
        task.cancel()
