"""What a run waits for: the limits of its time, and the calls of its script that have no answer yet."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

import anyio

MAX_CALLS_IN_FLIGHT: Final = 20
"""Tool calls of one script performed at the same time; the rest wait. The contract's number."""


class RunClock:
    """Makes the limits of a run's time stand still while a person is asked, and knows whether anything else goes on.

    Args:
        slot: Holds a slot for the run among those that wait, and says why there is none; None: it never lends its
            place.
    """

    __slots__ = ("_left_s", "_lends", "_slot", "_waits", "calls", "lend", "most_in_flight", "on_calls", "on_wait")

    def __init__(self, slot: Callable[[], AbstractContextManager[str]] | None = None) -> None:
        self.calls = 0
        """Calls of the script that have no answer yet. What the script does with an answer belongs to its call."""
        self.most_in_flight: float = MAX_CALLS_IN_FLIGHT
        """How many of them are performed at the same time."""
        self.on_calls: Callable[[], None] | None = None
        """Called when that changes."""
        self.on_wait: Callable[[int], None] | None = None
        """Called with 1 when the run's time is stopped, and with -1 when it goes on."""
        self.lend: Callable[[int], None] | None = None
        """Called with 1 when another script may have the place of the run's worker, and with -1 when none may any more;
        None: it has no worker."""
        self._slot = slot
        self._lends = 0
        self._left_s: dict[anyio.CancelScope | asyncio.Timeout, float] = {}
        """The limits, each with the seconds that were left of it when the clock was stopped."""
        self._waits = 0

    def attach(self, limit: anyio.CancelScope | asyncio.Timeout) -> None:
        """Have a limit stand still from now on, which has a deadline."""
        self._left_s[limit] = 0.0
        if self._waits:
            self._stop(limit)

    def detach(self, limit: anyio.CancelScope | asyncio.Timeout) -> None:
        """What the limit is for has ended."""
        self._left_s.pop(limit, None)

    def left_s(self, limit: anyio.CancelScope | asyncio.Timeout) -> float:
        """Seconds that were left of a limit when the clock was stopped."""
        return self._left_s[limit]

    @property
    def calls_in_flight(self) -> float:
        """How many calls are performed now."""
        return min(self.calls, self.most_in_flight)

    def count_calls(self, change: int) -> None:
        """The script has made so many calls, or has gone on with so many answers, if it is negative."""
        self.calls += change
        if self.on_calls is not None:
            self.on_calls()

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stand still within this context, and within every other one that is open at the same time."""
        self._waits += 1
        if self._waits == 1:
            for limit in self._left_s:
                self._stop(limit)
            if self.on_wait is not None:
                self.on_wait(1)
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                for limit, left_s in self._left_s.items():
                    _set_deadline(limit, anyio.current_time() + left_s)
                if self.on_wait is not None:
                    self.on_wait(-1)

    def slot(self) -> AbstractContextManager[str]:
        """Within this context a run that has a worker has a slot among those that wait; why there is none for it, empty
        if there is one."""
        return self._slot() if self._slot is not None and self.lend is not None else nullcontext("")

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Stand still within this context, as with `stopped`, and lend the place of the run's worker if there is a slot
        for it: so there are never more workers beyond the pool's than slots."""
        with self.slot() as full, self.stopped():
            lend = None if full or self._slot is None else self.lend
            if lend is None:
                yield
                return
            self._lends += 1
            if self._lends == 1:
                lend(1)
            try:
                yield
            finally:
                self._lends -= 1
                if not self._lends:
                    lend(-1)

    def _stop(self, limit: anyio.CancelScope | asyncio.Timeout) -> None:
        deadline = limit.deadline if isinstance(limit, anyio.CancelScope) else limit.when()
        self._left_s[limit] = math.inf if deadline is None else deadline - anyio.current_time()
        _set_deadline(limit, math.inf)


def _set_deadline(limit: anyio.CancelScope | asyncio.Timeout, deadline: float) -> None:
    if isinstance(limit, anyio.CancelScope):
        limit.deadline = deadline
    elif not limit.expired():
        limit.reschedule(None if math.isinf(deadline) else deadline)
