"""Waiting for what belongs to others, and no longer than that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LEFT_BEHIND: Final[set[asyncio.Task[Any]]] = set()
"""What nobody waits for any more, until it ends."""


class CancelledItself(RuntimeError):  # noqa: N818 - named for what happened
    """Work that somebody waited for let through the end of something of its own."""


async def ended(task: asyncio.Task[Any], seconds: float) -> None:
    """Wait for `task`, so long at most: `asyncio.wait` for one task, at half the price."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiting.done():
            waiting.set_result(None)

    task.add_done_callback(wake)
    timer = loop.call_later(seconds, wake)
    try:
        await waiting
    finally:
        timer.cancel()
        task.remove_done_callback(wake)


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. Work that does not even let itself be cancelled is not waited for.

    Raises:
        TimeoutError: it took longer.
        CancelledItself: to the caller, whom nobody cancels, that is a failure like any other.
    """
    task = asyncio.ensure_future(work)
    try:
        await ended(task, seconds)
    except asyncio.CancelledError:
        leave(task)
        raise
    if not task.done():
        leave(task)
        raise TimeoutError(f"no answer within {seconds:g} s")
    if task.cancelled():
        raise CancelledItself("it cancelled itself")
    return task.result()


async def in_own_thread(seconds: float, work: Callable[[], T]) -> T:
    """What `work` gives, in a thread of its own: those of asyncio and anyio may all be taken by tools that hang.

    Raises:
        TimeoutError: it took longer; the thread is left alone, and keeps no process alive.
        RuntimeError: no thread can be started.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(value: T | None, failure: BaseException | None) -> None:
        if done.done():
            return
        if failure is None:
            done.set_result(value)  # pyright: ignore[reportArgumentType] - what `work` has given
        else:
            done.set_exception(failure)

    def run() -> None:
        value, failed = None, None
        try:
            value = work()
        except BaseException as failure:
            failed = failure
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(tell, value, failed)

    threading.Thread(target=run, name="codecall waits", daemon=True).start()
    await asyncio.wait({done}, timeout=seconds)
    if not done.done():
        done.cancel()
        raise TimeoutError(f"no answer within {seconds:g} s")
    return done.result()


def leave(task: asyncio.Task[Any]) -> None:
    """Cancel `task`, and wait for it no longer: it is kept until it ends, and how it ends is nobody's business."""
    task.cancel()
    _LEFT_BEHIND.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _LEFT_BEHIND.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report what nobody waits for any more
