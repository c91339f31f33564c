"""The signals that end a process, and what happens before it ends.

    a plugin with `shutdown.on_sigterm`    `ShutdownSignals`: running scripts get their grace, then the handler that was
                                           there before is called
    `codecall serve`                       `ServeSignals` beneath it: then the session or the port is closed
    other commands of `codecall`           `sigterm_as_interrupt`: SIGTERM ends a command as Ctrl-C does

Scripts have to come first: an HTTP server that is told to stop cuts off its event streams within half a second,
and a process that speaks over stdio has no handler at all and is gone at once.

Signals belong to the process and work on the main thread alone, so all plugins share one `ShutdownSignals`. The handler
it puts before another one (`_ChainedHandler`) calls that one later; a second SIGTERM calls it at once. Handlers that
event loops manage themselves (`loop.add_signal_handler`) cannot be delayed; they run during the grace.
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
"""Seconds the answers of the last scripts have to leave the process before the next handler closes connections."""

EXIT_TIMEOUT_S: Final = 5.0
"""Seconds in which a process that the signal itself does not end has to end in some other way."""

EXTRA_GRACE_S: Final = 10.0
"""Seconds after the grace in which scripts are ended and records written; then the next handler is called."""

INTERRUPTS: Final = (signal.SIGINT, *([signal.SIGHUP] if sys.platform != "win32" else []))
"""Signals that end `codecall serve` as SIGTERM does."""

T = TypeVar("T")

DrainCallback: TypeAlias = Callable[[], Awaitable[bool]]
"""Drains a plugin; returns whether a client was left to get an answer."""


async def within_grace(grace_s: float, drain: Coroutine[Any, Any, T]) -> T:
    """Await `drain` for at most `grace_s + EXTRA_GRACE_S` seconds, and return its result.

    Raises:
        TimeoutError: `drain` takes longer.
    """
    from codecall.concurrency import with_timeout

    return await with_timeout(grace_s + EXTRA_GRACE_S, drain)


class ShutdownSignals:
    """Drains the plugins of this process at SIGTERM, before the handlers that were there before."""

    def __init__(self) -> None:
        self._drains: dict[object, tuple[asyncio.AbstractEventLoop, DrainCallback]] = {}
        self._handlers: list[_ChainedHandler] = []
        self._received: _ChainedHandler | None = None
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def drain_first(self, drain: DrainCallback | None) -> Generator[None]:
        """Within this context a SIGTERM calls `drain` first. Does nothing without `drain`, on threads other than the
        main one, and where SIGTERM is ignored or its handler is not Python's."""
        if drain is None or not self._chain():
            yield
            return
        import asyncio

        key = object()
        self._drains[key] = asyncio.get_running_loop(), drain
        try:
            yield
        finally:
            del self._drains[key]
            if not self._drains:
                self._restore()

    def move_to_front(self) -> None:
        """Put a handler before those that were set since: an HTTP server sets its own when its lifespan has begun."""
        if self._drains:
            self._chain()

    def _chain(self) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return False
        previous = signal.getsignal(signal.SIGTERM)
        if isinstance(previous, _ChainedHandler) and previous in self._handlers:
            return True
        if previous is None or previous == signal.SIG_IGN:
            return False
        handler = _ChainedHandler(self, previous)
        try:
            signal.signal(signal.SIGTERM, handler)
        except ValueError:  # an interpreter inside the interpreter has no signals
            return False
        self._handlers.append(handler)
        return True

    def on_sigterm(self, handler: _ChainedHandler) -> None:
        """Begin to drain, since `handler` has received a SIGTERM."""
        if self._received is not None or not self._drains:
            # The second one; or the server whose handler comes after ours has stopped, and passes it on.
            handler.pass_on()
            return
        # All were registered on this thread, which runs one loop at a time: the others are paused or closed, and
        # nothing of theirs could be awaited.
        loop = next((loop for loop, _ in self._drains.values() if loop.is_running()), None)
        if loop is None:
            handler.pass_on()
            return
        self._received = handler
        loop.call_soon_threadsafe(self._start_draining)

    def _start_draining(self) -> None:
        import asyncio

        if self._task is None and self._received is not None:
            self._task = asyncio.get_running_loop().create_task(self._drain(self._received))

    async def _drain(self, handler: _ChainedHandler) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        # A plugin with several servers is registered once for each.
        drains = dict.fromkeys(drain for owner, drain in self._drains.values() if owner is loop)
        results = await asyncio.gather(*(drain() for drain in drains), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                logger.error("stopping at SIGTERM failed", exc_info=result)
        if any(result is True for result in results):
            await asyncio.sleep(RESPONSE_TIME_S)
        handler.pass_on(unless_done=True)
        if not callable(handler.previous):
            # The first process of a container outlives what would end any other. If its server does not end either:
            await asyncio.sleep(EXIT_TIMEOUT_S)
            os._exit(128 + signal.SIGTERM)

    def _restore(self) -> None:
        """Restore the previous handlers, since no plugin is left to be drained."""
        handlers, self._handlers = self._handlers, []
        received, self._received = self._received, None
        task, self._task = self._task, None
        while isinstance(current := signal.getsignal(signal.SIGTERM), _ChainedHandler) and current in handlers:
            signal.signal(signal.SIGTERM, current.previous)
        if task is not None:
            task.cancel()
        if received is not None:
            received.pass_on(unless_done=True)


class _ChainedHandler:
    """A handler of SIGTERM that comes before another one.

    Args:
        signals: Is notified of the signal.
        previous: The handler that comes after this one.
    """

    def __init__(self, signals: ShutdownSignals, previous: Callable[[int, FrameType | None], Any] | int) -> None:
        self.previous = previous
        self._signals = signals
        self._process = os.getpid()
        self._passed_on = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """Handle the signal. Python calls this on the main thread, between any two instructions."""
        if os.getpid() == self._process:
            self._signals.on_sigterm(self)
        else:  # a fork of the server, which is another program
            self.pass_on()

    def pass_on(self, *, unless_done: bool = False) -> None:
        """Call the previous handler, as the signal would without CodeCall."""
        if unless_done and self._passed_on:
            return
        self._passed_on = True
        if callable(self.previous):
            self.previous(signal.SIGTERM, None)
            return
        _end_process(signal.SIGTERM)


SHUTDOWN_SIGNALS: Final = ShutdownSignals()
"""The handlers of this process."""


class ServeSignals:
    """Handles SIGTERM, SIGINT and SIGHUP while `codecall serve` serves. At SIGTERM plugins are drained and HTTP servers
    are stopped before this handler is called; the other signals call SIGTERM's handler.

    Args:
        kill_children: Kills the child processes at once; called when this process ends at once.
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
        """Replace the handlers that an HTTP server has set, except that of SIGTERM."""
        for number in INTERRUPTS:
            if number in self._previous:
                signal.signal(number, self._on_signal)

    @contextmanager
    def stop_with(self, stop: Callable[[], object]) -> Generator[None]:
        """Within this context a signal calls `stop`, which must end the server; elsewhere it ends the process."""
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def exit_code(self) -> int:
        """The exit code of success; if a signal was received, this ends the process as that signal does."""
        if self._received is not None:
            _end_process(self._received)
        return 0

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        first = self._received is None
        if first:
            self._received = number
        if self._stop is None or (not first and number in INTERRUPTS):
            self._kill_children()
            _end_process(number)
            return
        terminate = signal.getsignal(signal.SIGTERM)
        if number in INTERRUPTS and callable(terminate) and terminate != self._on_signal:
            terminate(signal.SIGTERM, None)  # scripts get their grace; then this handler is called
        else:
            self._stop()


@contextmanager
def sigterm_as_interrupt() -> Generator[list[int]]:
    """Within this context SIGTERM ends a command as Ctrl-C does, with its child processes. Yields the signals received.

    It does so also where Ctrl-C is ignored, as in commands that shell scripts start in the background.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def terminate(number: int, _frame: object) -> None:
        received.append(number)
        # Coroutines that were about to start do not start any more.
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
    """Raise KeyboardInterrupt; on an event loop between its steps, so that `asyncio.run` awaits all tasks."""
    asyncio = sys.modules.get("asyncio")
    try:
        loop = asyncio.get_running_loop() if asyncio is not None else None
    except (RuntimeError, AttributeError):  # no loop runs; asyncio is being imported
        loop = None
    if loop is None:
        raise KeyboardInterrupt
    loop.call_soon_threadsafe(_raise_interrupt)


def _raise_interrupt() -> None:
    raise KeyboardInterrupt


def _end_process(number: int) -> None:
    """End the process as the signal does where nothing handles it."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
