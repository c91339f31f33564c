"""What a run waits for: the limit of its duration, and the calls of its script that have no answer yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import anyio

MAX_CALLS_IN_FLIGHT: Final = 20
"""Tool calls of one script performed at the same time; the rest wait. The contract's number."""


class RunClock:
    """Makes the limit of a run's whole duration stand still while a person is asked, and knows whether anything else
    goes on."""

    __slots__ = ("_left_s", "_scope", "_waits", "calls", "on_calls", "on_wait")

    def __init__(self) -> None:
        self.calls = 0
        """Calls of the script that have no answer yet. What the script does with an answer belongs to its call."""
        self.on_calls: Callable[[], None] | None = None
        """Called when that changes."""
        self.on_wait: Callable[[int], None] | None = None
        """Called with 1 when the run begins to wait for a person, and with -1 when it goes on."""
        self._scope: anyio.CancelScope | None = None
        self._waits = 0
        self._left_s = 0.0

    def attach(self, scope: anyio.CancelScope) -> None:
        """The run has begun: its limit is the deadline of `scope`."""
        self._scope = scope

    def count_calls(self, change: int) -> None:
        """The script has made so many calls, or has gone on with so many answers, if it is negative."""
        self.calls += change
        if self.on_calls is not None:
            self.on_calls()

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stand still within this context, and within every other one that is open at the same time."""
        scope = self._scope
        if scope is None:
            yield
            return
        if not self._waits:
            self._left_s = scope.deadline - anyio.current_time()
            scope.deadline = math.inf
            if self.on_wait is not None:
                self.on_wait(1)
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                scope.deadline = anyio.current_time() + self._left_s
                if self.on_wait is not None:
                    self.on_wait(-1)
