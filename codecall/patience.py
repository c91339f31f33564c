"""Waiting for what belongs to others, and no longer than that."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LEFT_BEHIND: Final[set[asyncio.Task[Any]]] = set()
"""What nobody waits for any more, until it ends."""


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. Work that does not even let itself be cancelled is not waited for.

    Raises:
        TimeoutError: it took longer.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        _leave(task)
        raise
    if not done:
        _leave(task)
        raise TimeoutError(f"no answer within {seconds:g} s")
    return task.result()


def _leave(task: asyncio.Task[Any]) -> None:
    task.cancel()
    _LEFT_BEHIND.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _LEFT_BEHIND.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report what nobody waits for any more
