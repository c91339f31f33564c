"""SIGTERM, by which supervisors ask a process to end: running scripts get their grace first, then happens what would
have happened without CodeCall.

That order matters: an HTTP server that is told to stop cuts off its event streams within half a second, and a process
that speaks over stdio has no handler at all and is gone at once.

The signal belongs to the process, so all plugins in it share one `ShutdownSignals`. It works on the main thread
alone, as
signals do. What is put before a handler (`_Link`) calls that handler later; a second SIGTERM calls it at once. Handlers
that event loops keep for themselves (`loop.add_signal_handler`) cannot be held up; they run beside the grace.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TypeAlias, TypeVar

from codecall.concurrency import with_timeout

logger = logging.getLogger("codecall")

ANSWERS_S: Final = 0.25
"""Seconds the answers of the last scripts have to leave the process before what comes next closes connections."""

EXIT_TIMEOUT_S: Final = 5.0
"""Seconds a process that the signal itself does not end has to end in some other way."""

EXTRA_GRACE_S: Final = 10.0
"""Seconds beyond their grace in which scripts must have been ended and records written; then what comes next comes."""

T = TypeVar("T")

DrainCallback: TypeAlias = Callable[[], Awaitable[bool]]
"""Drains a plugin; whether there was anybody to get an answer."""


async def within_grace(grace_s: float, stopping: Coroutine[Any, Any, T]) -> T:
    """What `stopping` gives, which has no more than `grace_s` and `EXTRA_GRACE_S` for it.

    Raises:
        TimeoutError: it took longer, whatever held it up.
    """
    return await with_timeout(grace_s + EXTRA_GRACE_S, stopping)


class ShutdownSignals:
    """The SIGTERM of this process."""

    def __init__(self) -> None:
        self._stops: dict[object, tuple[asyncio.AbstractEventLoop, DrainCallback]] = {}
        self._links: list[_Link] = []
        self._received: _Link | None = None
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def drain_first(self, stop: DrainCallback | None) -> Generator[None]:
        """Within this a SIGTERM calls `stop` first, if there is one. Does nothing on other threads than the main one,
        and where SIGTERM is ignored or belongs to somebody who does not use Python."""
        if stop is None or not self._chain():
            yield
            return
        key = object()
        self._stops[key] = asyncio.get_running_loop(), stop
        try:
            yield
        finally:
            del self._stops[key]
            if not self._stops:
                self._end()

    def move_to_front(self) -> None:
        """Come before handlers that have been set since: an HTTP server sets its own when its lifespan has begun."""
        if self._stops:
            self._chain()

    def _chain(self) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return False
        previous = signal.getsignal(signal.SIGTERM)
        if isinstance(previous, _Link) and previous in self._links:
            return True
        if previous is None or previous == signal.SIG_IGN:
            return False
        link = _Link(self, previous)
        try:
            signal.signal(signal.SIGTERM, link)
        except ValueError:  # an interpreter inside the interpreter has no signals
            return False
        self._links.append(link)
        return True

    def received(self, link: _Link) -> None:
        """A SIGTERM has come to `link`."""
        if self._received is not None or not self._stops:
            # The second one; or the server before whose handler we came has stopped, and passes it on.
            link.pass_on()
            return
        # All were noted on this thread, which runs one loop at a time: the others stand still or are closed, and
        # nothing that is theirs could be waited for.
        loop = next((loop for loop, _ in self._stops.values() if loop.is_running()), None)
        if loop is None:
            link.pass_on()
            return
        self._received = link
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._task is None and self._received is not None:
            self._task = asyncio.get_running_loop().create_task(self._drain(self._received))

    async def _drain(self, link: _Link) -> None:
        loop = asyncio.get_running_loop()
        # A plugin with several servers is there once for each.
        stops = dict.fromkeys(stop for where, stop in self._stops.values() if where is loop)
        answers = await asyncio.gather(*(stop() for stop in stops), return_exceptions=True)
        for failure in answers:
            if isinstance(failure, BaseException):
                logger.error("stopping at SIGTERM failed", exc_info=failure)
        if any(answer is True for answer in answers):
            await asyncio.sleep(ANSWERS_S)
        link.pass_on(unless_done=True)
        if not callable(link.previous):
            # The first process of a container outlives what would end any other. If its server does not end either:
            await asyncio.sleep(EXIT_TIMEOUT_S)
            os._exit(128 + signal.SIGTERM)

    def _end(self) -> None:
        """Nobody is left who would have anything done first: be as if we had never been here."""
        links, self._links = self._links, []
        received, self._received = self._received, None
        task, self._task = self._task, None
        while isinstance(current := signal.getsignal(signal.SIGTERM), _Link) and current in links:
            signal.signal(signal.SIGTERM, current.previous)
        if task is not None:
            task.cancel()
        if received is not None:
            received.pass_on(unless_done=True)


class _Link:
    """A handler of SIGTERM, put before another.

    Args:
        termination: What it tells.
        previous: What it was put before.
    """

    def __init__(self, termination: ShutdownSignals, previous: Callable[[int, FrameType | None], Any] | int) -> None:
        self.previous = previous
        self._termination = termination
        self._process = os.getpid()
        self._passed_on = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """What Python calls, on the main thread, between any two instructions."""
        if os.getpid() == self._process:
            self._termination.received(self)
        else:  # a fork of the server, which is another program's business
            self.pass_on()

    def pass_on(self, *, unless_done: bool = False) -> None:
        """Do what would have been done without us."""
        if unless_done and self._passed_on:
            return
        self._passed_on = True
        if callable(self.previous):
            self.previous(signal.SIGTERM, None)
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)


SHUTDOWN_SIGNALS: Final = ShutdownSignals()
"""The one there is."""
