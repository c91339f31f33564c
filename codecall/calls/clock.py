"""What a tool has asked at the client, and the clock of its call, which stands still meanwhile: a person needs longer
than any tool may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, TypeVar

from mcp.server.session import ServerSession
from mcp_types import InputRequest
from pydantic import BaseModel

from codecall.sandbox.interfaces import RunClock

ResultT = TypeVar("ResultT", bound=BaseModel)

MAX_QUESTION_S: Final = 600.0
"""Seconds that one question of a tool may wait for its answer; then the call is out of time."""


class CallClock:
    """How long one call may still take.

    Args:
        seconds: What it may take.
        run: The clock of its run, which stands still with it.
    """

    def __init__(self, seconds: float, run: RunClock | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = seconds
        self._run = run or RunClock()
        self._questions = 0
        self._started = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] = self._loop.create_future()

    async def wait_for(self, task: asyncio.Task[Any]) -> None:
        """Wait until `task` has ended, or its time is up."""
        task.add_done_callback(self._wake)
        if not self._questions:
            self._start(self._left)
        try:
            await self._waiter
        finally:
            if self._timer is not None:
                self._timer.cancel()
            task.remove_done_callback(self._wake)

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stand still within this context, and within every other one that is open at the same time."""
        with self._run.waiting():
            if not self._questions:
                if self._timer is not None:
                    self._left -= self._loop.time() - self._started
                self._start(MAX_QUESTION_S)
            self._questions += 1
            try:
                yield
            finally:
                self._questions -= 1
                if not self._questions:
                    self._start(self._left)

    def slot(self) -> AbstractContextManager[str]:
        """See `RunClock.slot`."""
        return self._run.slot()

    def _start(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._started = self._loop.time()
        self._timer = self._loop.call_later(max(seconds, 0.0), self._wake)

    def _wake(self, _: object = None) -> None:
        if not self._waiter.done():
            self._waiter.set_result(None)


OUTER_CLOCKS: Final[ContextVar[tuple[CallClock, ...]]] = ContextVar("codecall_call_clocks", default=())
"""The clocks of the calls that this task is inside of."""


@contextmanager
def all_stopped(clocks: Sequence[CallClock]) -> Generator[None]:
    """All these clocks stand still within this context."""
    with ExitStack() as stack:
        for clock in clocks:
            stack.enter_context(clock.stopped())
        yield


@contextmanager
def stopped_in_slots(clocks: Sequence[CallClock]) -> Generator[None]:
    """All these clocks stand still within this context, if there is a slot for each run that has a worker. Else their
    time goes on, as with any slow tool: a worker must not be held for as long as a person may take."""
    with ExitStack() as stack:
        if any(stack.enter_context(clock.slot()) for clock in clocks):
            stack.close()
        else:
            stack.enter_context(all_stopped(clocks))
        yield


def timed_session(session: ServerSession, clocks: Sequence[CallClock]) -> ServerSession:
    """The session of a client's request as a tool sees it that is called inside of that request: while it asks the
    client something (`Context.elicit`), the clocks of the calls stand still, as long as there are slots for runs that
    wait. All else it does as `session` does."""
    return _timed(type(session))(session, clocks)


@cache
def _timed(kind: type[ServerSession]) -> type[TimedSession]:
    return kind if issubclass(kind, TimedSession) else type("TimedSession", (TimedSession, kind), {})


class TimedSession(ServerSession):
    """What is the session of a call's own, beside what the session of the request is; see `timed_session`.

    Args:
        session: The session.
        clocks: The clocks of the call, and of those that it is made inside of.
    """

    def __init__(self, session: ServerSession, clocks: Sequence[CallClock]) -> None:
        vars(self).update(vars(session))
        self._clocks = clocks

    async def send_request(self, request: Any, result_type: type[ResultT], *options: Any, **more: Any) -> ResultT:
        """See `ServerSession.send_request`."""
        with stopped_in_slots(self._clocks):
            return await super().send_request(request, result_type, *options, **more)


Ask = Callable[[InputRequest, str], Awaitable[object | None]]
"""See `Asking.__call__`."""


class Asking:
    """What is asked through while a call lasts, and no longer. What the call leaves behind has its variables for as
    long as it exists, as tasks, connections that are kept open and cancelled timers of asyncio do: they keep nothing of
    the run.

    Args:
        tool: The tool that asks.
        ask: Asks.
    """

    def __init__(self, tool: str, ask: Ask) -> None:
        self.tool = tool
        self._ask: Ask | None = ask

    async def __call__(self, request: InputRequest, by: str = "") -> object | None:
        """Ask one thing, and give the answer; None if there is none.

        Args:
            request: What is asked.
            by: What is said to ask, where it may be another tool; empty: it is this one.
        """
        return await self._ask(request, by) if self._ask is not None else None

    def end(self) -> None:
        """Ask nobody from now on."""
        self._ask = None


ASK_CLIENT: Final[ContextVar[Asking | None]] = ContextVar("codecall_ask_client", default=None)
"""Asks the client of a request on behalf of the tool that this task calls. None where calls are made without a gate."""
