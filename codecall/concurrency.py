"""Waiting for what belongs to others, and no longer than that."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

# ----------------------------------------------------------------------------------------------------
# Waiting for what belongs to others, and no longer than that.

T = TypeVar("T")

_LEFT_BEHIND: Final[set[asyncio.Task[Any]]] = set()
"""What nobody waits for any more, until it ends."""


class WorkCancelledError(RuntimeError):
    """Work that somebody waited for let through the end of something of its own."""


async def wait_for_task(task: asyncio.Task[Any], seconds: float) -> None:
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


async def with_timeout(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. Work that does not even let itself be cancelled is not waited for.

    Raises:
        TimeoutError: it took longer.
        CancelledItself: to the caller, whom nobody cancels, that is a failure like any other.
    """
    task = asyncio.ensure_future(work)
    try:
        await wait_for_task(task, seconds)
    except asyncio.CancelledError:
        abandon(task)
        raise
    if not task.done():
        abandon(task)
        raise TimeoutError(f"no answer within {seconds:g} s")
    if task.cancelled():
        raise WorkCancelledError("it cancelled itself")
    return task.result()


async def run_in_daemon_thread(seconds: float, work: Callable[[], T]) -> T:
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


def abandon(task: asyncio.Task[Any]) -> None:
    """Cancel `task`, and wait for it no longer: it is kept until it ends, and how it ends is nobody's business."""
    task.cancel()
    _LEFT_BEHIND.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _LEFT_BEHIND.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report what nobody waits for any more


# ----------------------------------------------------------------------------------------------------
# Work on many tools that lets other tasks of the event loop have their turn.

CHUNK = 200
"""Tools worked on before other tasks of the event loop get their turn: about 2 ms."""


async def iterate_cooperatively(items: Iterable[T]) -> AsyncGenerator[T]:
    """`items`, letting other tasks of the event loop run after every `CHUNK` of them."""
    for index, item in enumerate(items, 1):
        yield item
        if not index % CHUNK:
            await asyncio.sleep(0)


# ----------------------------------------------------------------------------------------------------
# Garbage collection and the event loop: why a thread of CodeCall sets off no full collection.

_NEVER = 2**31 - 1
"""As a threshold of the oldest generation: the largest C int, which no process reaches."""

_guard = threading.Lock()
_holding = 0
_usual = 0


@contextmanager
def defer_full_collections() -> Generator[None]:
    """Let the interpreter start no full collection by itself inside; the young generations are collected as ever.

    Holds for the whole process, from any number of threads at once, and ends with the last of them. Thresholds that
    somebody else sets meanwhile stay as set. Meant for a second or two: garbage in cycles that is old is kept so long.
    """
    global _holding, _usual  # noqa: PLW0603 - the collector's thresholds belong to the process, too
    with _guard:
        _holding += 1
        youngest, middle, oldest = gc.get_threshold()
        if oldest != _NEVER:
            _usual = oldest
            gc.set_threshold(youngest, middle, _NEVER)
    try:
        yield
    finally:
        with _guard:
            _holding -= 1
            youngest, middle, oldest = gc.get_threshold()
            if not _holding and oldest == _NEVER:
                gc.set_threshold(youngest, middle, _usual)


def load_and_freeze(load: Callable[[], object]) -> None:
    """Run `load`, then keep what the process holds out of all later collections: modules, tools, scikit-learn.

    They stay as long as the process, and without them a full collection takes a few milliseconds. Objects still go
    when nothing refers to them; only cycles among those of this moment are never found any more, so what can be lost is
    bounded by what there is now. `gc.unfreeze()` undoes it.
    """
    with defer_full_collections():
        load()
        gc.freeze()
