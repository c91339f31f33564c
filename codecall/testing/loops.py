"""Work handed from one event loop to another, each in a thread of its own.

A portal starts a task by waiting for its event loop. Two loops that hand work to each other at the same time would wait
for each other for ever, so a third thread does the waiting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from threading import Event
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal

__tracebackhide__ = True  # pytest: tracebacks of tests end in the tests

T = TypeVar("T")


async def elsewhere(portal: BlockingPortal, job: Callable[[], Awaitable[T]]) -> T:
    """Do `job` on the event loop behind `portal` while this one goes on; it is cancelled with the caller.

    Raises:
        BaseException: what `job` raised.
    """
    started: list[Future[tuple[list[T], BaseException | None]]] = []
    given_up = Event()

    async def contained() -> tuple[list[T], BaseException | None]:
        try:
            return [await job()], None
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as failure:  # one that is no Exception would end all that the portal does
            return [], failure

    def wait() -> tuple[list[T], BaseException | None]:
        future = portal.start_task_soon(contained)
        started.append(future)
        if given_up.is_set():
            future.cancel()
        return future.result()

    try:
        # A limiter of its own: however many wait, none waits for a thread that another holds.
        done, failure = await anyio.to_thread.run_sync(wait, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    except anyio.get_cancelled_exc_class():
        given_up.set()
        for future in started:
            future.cancel()
        raise
    if failure is not None:
        raise failure
    return done[0]
