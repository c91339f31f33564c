"""Waiting with a time limit, sharing the event loop, threads for one kind of work, what errors keep in memory, and
garbage collection beside a loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Hashable, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

T = TypeVar("T")

CHUNK: Final = 200
"""Tools worked on before other tasks of the event loop get their turn: about 2 ms."""


VALUES_PER_PAUSE: Final = 2_000
"""Values of an input that are looked at without a pause: half a millisecond."""


class ThreadLimit:
    """The threads of each event loop in which one kind of work is done on what callers, scripts or models have written:
    however much of it there is, those in which tools run are free.

    Args:
        name: The work, for AnyIO.
        threads: How many do it at a time; more would only contend for the interpreter.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._threads = threads
        # One limiter an event loop, as AnyIO keeps its own: a limiter must not be shared between loops.
        self._limiter: RunVar[CapacityLimiter] = RunVar(name)

    def limiter(self) -> CapacityLimiter:
        """The limiter of this event loop."""
        if (limiter := self._limiter.get(None)) is None:
            self._limiter.set(limiter := CapacityLimiter(self._threads))
        return limiter


class WorkCancelledError(RuntimeError):
    """Work that was waited for ended with the cancellation of something of its own."""


async def with_timeout(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. Work that does not even let itself be cancelled is not waited for.

    Raises:
        TimeoutError: it took longer.
        WorkCancelledError: it was cancelled. Nobody cancelled the caller, to whom that is a failure like any other.
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


async def wait_for_task(task: asyncio.Task[Any], seconds: float) -> None:
    """Wait until `task` has ended, for so long at most: `asyncio.wait` for one task, at half the price."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    task.add_done_callback(wake)
    timer = loop.call_later(seconds, wake)
    try:
        await waiter
    finally:
        timer.cancel()
        task.remove_done_callback(wake)


def abandon(task: asyncio.Task[Any]) -> None:
    """Cancel `task` and wait for it no longer. It is referenced until it ends, and its outcome is ignored."""
    task.cancel()
    _ABANDONED.add(task)
    task.add_done_callback(_forget)


_ABANDONED: Final[set[asyncio.Task[Any]]] = set()


def _forget(task: asyncio.Task[Any]) -> None:
    _ABANDONED.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it


async def run_in_daemon_thread(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`, from a thread of its own: those of asyncio and anyio may all be taken by tools that hang.

    Raises:
        TimeoutError: it took longer; the thread is left alone, and keeps no process alive.
        RuntimeError: no thread can be started.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def set_outcome(value: T | None, failure: BaseException | None) -> None:
        if done.done():
            return
        if failure is None:
            done.set_result(value)  # pyright: ignore[reportArgumentType] - the result of `work`
        else:
            done.set_exception(failure)

    def run() -> None:
        value, failure = None, None
        try:
            value = work()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(set_outcome, value, failure)

    threading.Thread(target=run, name="codecall waits", daemon=True).start()
    await asyncio.wait({done}, timeout=seconds)
    if not done.done():
        done.cancel()
        raise TimeoutError(f"no answer within {seconds:g} s")
    return done.result()


class StoppableThreads:
    """The threads of each event loop in which one kind of work is done that may take too long, since strangers decide
    what it is.

    They are daemons, which keep no process alive. Work that is waited for no longer is stopped at its next step in
    Python. Until its thread has ended there is no other one for the same key, so that whatever cannot be stopped takes
    one thread, and not one more with each attempt.

    Args:
        name: The work, for AnyIO and as the threads' name.
        threads: How many do it at a time.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._limit = ThreadLimit(name, threads)
        # Of one event loop each, as its limiter.
        self._ends: RunVar[dict[Hashable, asyncio.Event]] = RunVar(f"{name}: ends")

    async def run(self, key: Hashable, work: Callable[[], T]) -> T:
        """The result of `work`, once no other work of this key runs.

        Raises:
            RuntimeError: no thread can be started.
        """
        if (ends := self._ends.get(None)) is None:
            self._ends.set(ends := {})
        while key in ends:
            await ends[key].wait()
        ends[key] = end = asyncio.Event()
        limiter = self._limit.limiter()
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def release(has_thread: bool = True) -> None:
            if has_thread:
                limiter.release_on_behalf_of(end)
            del ends[key]
            end.set()

        def set_outcome(value: T | None, failure: BaseException | None) -> None:
            release()
            if outcome.done():
                return
            if failure is None:
                outcome.set_result(value)  # pyright: ignore[reportArgumentType] - the result of `work`
            else:
                outcome.set_exception(failure)

        try:
            await limiter.acquire_on_behalf_of(end)
        except BaseException:
            release(has_thread=False)
            raise
        thread = _StoppableThread(self._name, loop, work, set_outcome)
        try:
            thread.start()
        except BaseException:
            release()
            raise
        try:
            return await outcome
        finally:
            thread.stop()


class _WorkStopped(BaseException):
    """Raised inside of work that is to be stopped; nothing that catches errors catches it."""


class _StoppableThread(threading.Thread):
    """A daemon that does one piece of work, and says in the event loop how it ended."""

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[], T],
        on_end: Callable[[T | None, BaseException | None], None],
    ) -> None:
        super().__init__(name=f"codecall {name}", daemon=True)
        self._loop = loop
        self._work = work
        self._on_end = on_end
        self._lock = threading.Lock()
        self._may_be_stopped = True

    def run(self) -> None:
        value, failure = None, None
        try:
            try:
                value = self._work()
            finally:
                self._finish()
        except BaseException as error:
            failure = error
            self._finish()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._on_end, value, failure)

    def stop(self) -> None:
        """Raise `_WorkStopped` in the work, if it still runs; what waits in C is reached when it returns."""
        import ctypes  # a plugin does without

        with self._lock:
            if self._may_be_stopped and self.ident is not None:
                self._may_be_stopped = False
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(_WorkStopped))

    def _finish(self) -> None:
        """Let nothing be raised in this thread any more; what was to be is raised here."""
        with self._lock:
            self._may_be_stopped = False
        for _ in range(2):
            pass  # the interpreter raises it at the latest where it goes back in a loop


def release_frames(failure: BaseException) -> None:
    """Drop the traceback of an error that has been dealt with, what it was raised from, and the tracebacks of that.

    The future or task that an error came through holds the error, and a frame of the traceback holds that future: a
    cycle. All that the frames worked on, such as values that were refused for their size, would stay until a full
    collection.
    """
    waiting: list[BaseException | None] = [failure]
    while waiting:
        if (error := waiting.pop()) is not None:
            waiting += [error.__context__, error.__cause__]
            if isinstance(error, BaseExceptionGroup):
                waiting += cast("BaseExceptionGroup[BaseException]", error).exceptions
            error.__traceback__ = error.__context__ = error.__cause__ = None


async def iterate_cooperatively(items: Iterable[T]) -> AsyncGenerator[T]:
    """`items`, letting other tasks of the event loop run after every `CHUNK` of them."""
    for index, item in enumerate(items, 1):
        yield item
        if not index % CHUNK:
            await asyncio.sleep(0)


class Pauses:
    """Lets other tasks of the event loop run again and again while many small values are looked at.

    Args:
        every: Values between two pauses.
    """

    def __init__(self, every: int = VALUES_PER_PAUSE) -> None:
        self._every = every
        self._values = 0

    async def count(self, values: int = 1) -> None:
        """Count so many values, and pause if the last before a pause is among them."""
        self._values += values
        if self._values >= self._every:
            self._values = 0
            await asyncio.sleep(0)


@asynccontextmanager
async def loop_turn() -> AsyncGenerator[None]:
    """Holds work that takes milliseconds of the event loop: one such block runs in each iteration of the loop, however
    many wait, so that everything else gets its turn in between."""
    lock = _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    async with lock:
        yield
        await asyncio.sleep(0)


_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()


_NEVER: Final = 2**31 - 1
"""As a threshold of the oldest generation: the largest C int, which no process reaches."""


class _GarbageCollection:
    """What this module has changed of the process's garbage collector."""

    tuned = False
    """Whether it may change anything."""
    deferrals = 0
    """Blocks of `defer_full_collections` that are open, in all threads."""
    usual_threshold = 0
    """The threshold of the oldest generation that holds again after the last of them."""
    lock = threading.Lock()


def tune_garbage_collection() -> None:
    """Let `defer_full_collections` and `load_and_freeze` change how this process collects garbage. Only the process of
    `codecall serve` does this, which is CodeCall's own: a plugin leaves the collector of its host alone."""
    _GarbageCollection.tuned = True


@contextmanager
def defer_full_collections() -> Generator[None]:
    """Let the interpreter start no full collection by itself inside; the young generations are collected as ever. Does
    nothing before `tune_garbage_collection`.

    Holds for the whole process, from any number of threads at once, and ends with the last of them. Thresholds that
    other code sets in between stay as set. Meant for a second or two: garbage in old cycles is not freed so long.
    """
    state = _GarbageCollection
    if not state.tuned:
        yield
        return
    with state.lock:
        state.deferrals += 1
        youngest, middle, oldest = gc.get_threshold()
        if oldest != _NEVER:
            state.usual_threshold = oldest
            gc.set_threshold(youngest, middle, _NEVER)
    try:
        yield
    finally:
        with state.lock:
            state.deferrals -= 1
            youngest, middle, oldest = gc.get_threshold()
            if not state.deferrals and oldest == _NEVER:
                gc.set_threshold(youngest, middle, state.usual_threshold)


def load_and_freeze(load: Callable[[], T]) -> T:
    """Return the result of `load`. After `tune_garbage_collection` what the process then holds is kept out of all later
    collections: modules, tools, NumPy.

    They stay as long as the process, and without them a full collection takes a few milliseconds. Objects still go
    when nothing refers to them; only cycles among those of this moment are never found any more, so what can be lost is
    bounded by what there is now. `gc.unfreeze()` undoes it.
    """
    with defer_full_collections():
        loaded = load()
        if _GarbageCollection.tuned:
            gc.freeze()
    return loaded
