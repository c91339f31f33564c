"""Work on many tools that lets other tasks of the event loop have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import TypeVar

CHUNK = 200
"""Tools worked on before other tasks of the event loop get their turn: about 2 ms."""

T = TypeVar("T")


async def unhurried(items: Iterable[T]) -> AsyncGenerator[T]:
    """`items`, letting other tasks of the event loop run after every `CHUNK` of them."""
    for index, item in enumerate(items, 1):
        yield item
        if not index % CHUNK:
            await asyncio.sleep(0)
