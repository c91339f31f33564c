"""The signals that end a process, and what happens before it ends.

    a plugin with `shutdown.on_sigterm`    `ShutdownSignals`: running scripts get their grace, then happens what would
                                           have happened without CodeCall
    `codecall serve`                       `ServeSignals` beneath it: then the session or the port is closed
    other commands of `codecall`           `sigterm_as_interrupt`: SIGTERM ends a command as Ctrl-C does

That scripts come first matters: an HTTP server that is told to stop cuts off its event streams within half a second,
and a process that speaks over stdio has no handler at all and is gone at once.

Signals belong to the process and work on the main thread alone, so all plugins share one `ShutdownSignals`. What is put
before a handler (`_Link`) calls that handler later; a second SIGTERM calls it at once. Handlers that event loops keep
for themselves (`loop.add_signal_handler`) cannot be held up; they run beside the grace.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio  # at run time where it is needed: commands that need none are faster without
    from types import FrameType

logger = logging.getLogger("codecall")

RESPONSE_TIME_S: Final = 0.25
"""Seconds the answers of the last scripts have to leave the process before what comes next closes connections."""

EXIT_TIMEOUT_S: Final = 5.0
"""Seconds a process that the signal itself does not end has to end in some other way."""

EXTRA_GRACE_S: Final = 10.0
"""Seconds beyond their grace in which scripts must have been ended and records written; then what comes next comes."""

INTERRUPTS: Final = (signal.SIGINT, *([signal.SIGHUP] if sys.platform != "win32" else []))
"""Signals that end `codecall serve` as SIGTERM does."""

T = TypeVar("T")

DrainCallback: TypeAlias = Callable[[], Awaitable[bool]]
"""Drains a plugin; whether there was anybody to get an answer."""


async def within_grace(grace_s: float, draining: Coroutine[Any, Any, T]) -> T:
    """The result of `draining`, which has no more than `grace_s` and `EXTRA_GRACE_S` for it.

    Raises:
        TimeoutError: it took longer, whatever held it up.
    """
    from codecall.concurrency import with_timeout

    return await with_timeout(grace_s + EXTRA_GRACE_S, draining)


class ShutdownSignals:
    """What SIGTERM does first in this process: drain plugins."""

    def __init__(self) -> None:
        self._stops: dict[object, tuple[asyncio.AbstractEventLoop, DrainCallback]] = {}
        self._links: list[_Link] = []
        self._received: _Link | None = None
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def drain_first(self, stop: DrainCallback | None) -> Generator[None]:
        """Within this a SIGTERM calls `stop` first, if there is one. Does nothing on other threads than the main one,
        and where SIGTERM is ignored or its handler is not Python's."""
        if stop is None or not self._chain():
            yield
            return
        import asyncio

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
        import asyncio

        if self._task is None and self._received is not None:
            self._task = asyncio.get_running_loop().create_task(self._drain(self._received))

    async def _drain(self, link: _Link) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        # A plugin with several servers is there once for each.
        stops = dict.fromkeys(stop for where, stop in self._stops.values() if where is loop)
        answers = await asyncio.gather(*(stop() for stop in stops), return_exceptions=True)
        for failure in answers:
            if isinstance(failure, BaseException):
                logger.error("stopping at SIGTERM failed", exc_info=failure)
        if any(answer is True for answer in answers):
            await asyncio.sleep(RESPONSE_TIME_S)
        link.pass_on(unless_done=True)
        if not callable(link.previous):
            # The first process of a container outlives what would end any other. If its server does not end either:
            await asyncio.sleep(EXIT_TIMEOUT_S)
            os._exit(128 + signal.SIGTERM)

    def _end(self) -> None:
        """Nothing is left to be drained: restore the previous handlers."""
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
        _end_by(signal.SIGTERM)


SHUTDOWN_SIGNALS: Final = ShutdownSignals()
"""Those of this process."""


class ServeSignals:
    """SIGTERM, SIGINT and SIGHUP while `codecall serve` serves. At SIGTERM plugins are drained and HTTP servers are
    stopped before what is done here; the other signals lead to SIGTERM's handler.

    Args:
        kill_children: Kills at once what this process has started; called when it ends at once.
    """

    def __init__(self, kill_children: Callable[[], object]) -> None:
        self._kill_children = kill_children
        self._received: int | None = None
        self._previous: dict[int, Any] = {}
        self._stop: Callable[[], object] | None = None

    def __enter__(self) -> ServeSignals:
        for number in (signal.SIGTERM, *INTERRUPTS):
            if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` has it
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_failure: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def move_to_front(self) -> None:
        """Come before handlers that an HTTP server has set, but at SIGTERM."""
        for number in INTERRUPTS:
            if number in self._previous:
                signal.signal(number, self._on_signal)

    @contextmanager
    def stop_with(self, stop: Callable[[], object]) -> Generator[None]:
        """Within this a signal calls `stop`, which must end what is served; elsewhere it ends the process."""
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def exit_code(self) -> int:
        """The exit code of success; if a signal has been received, the process ends here as by that signal."""
        if self._received is not None:
            _end_by(self._received)
        return 0

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        first = self._received is None
        if first:
            self._received = number
        if self._stop is None or (not first and number in INTERRUPTS):
            self._kill_children()
            _end_by(number)
            return
        terminate = signal.getsignal(signal.SIGTERM)
        if number in INTERRUPTS and callable(terminate) and terminate != self._on_signal:
            terminate(signal.SIGTERM, None)  # scripts get their grace; then it is passed on to us
        else:
            self._stop()


@contextmanager
def sigterm_as_interrupt() -> Generator[list[int]]:
    """Within this SIGTERM ends a command as Ctrl-C does: with all that it has started. Yields the signals received.

    Also where Ctrl-C is ignored, as shells have it for what scripts start in the background.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def terminate(number: int, _frame: object) -> None:
        received.append(number)
        # What was about to begin does not begin any more.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(signal.SIGINT)
        else:
            _interrupt()

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, previous)


def _interrupt() -> None:
    """Raise KeyboardInterrupt, on an event loop between its steps: `asyncio.run` then ends all tasks, and waits."""
    asyncio = sys.modules.get("asyncio")
    try:
        loop = asyncio.get_running_loop() if asyncio is not None else None
    except (RuntimeError, AttributeError):  # none runs; it is being imported
        loop = None
    if loop is None:
        raise KeyboardInterrupt
    loop.call_soon_threadsafe(_raise_interrupt)


def _raise_interrupt() -> None:
    raise KeyboardInterrupt


def _end_by(number: int) -> None:
    """End the process as that signal does where nothing handles it."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
