"""The limits of a running script: one meter for all its tasks, looked at with every step of the evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from starlark.eval.evaluator import Thread
from starlark.eval.module import Module

from codecall.sandbox.wire import Limits

CHECKPOINT_STEPS: Final = 16
"""Steps between two looks at the clock: each may work on a text of megabytes."""

VISITS_PER_STEP: Final = 64
"""Elements of a list and the like that a built-in function may take for one step."""

ALLOCATED_HEAPS: Final = 4
"""How often a script may fill its memory in all: what it drops is not given back to the count."""


MissingKey: TypeAlias = Callable[[Any, object, object], None]
"""Is told the dict that was asked for a key which it lacks, the key and the default."""


class Stopped(BaseException):
    """The script has to end: no code of a script, and none of the evaluator, catches it."""

    def __init__(self, code: str, detail: object = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class Meter:
    """Steps and memory of one script, all tasks together.

    Args:
        limits: What it may use.
        clock: Milliseconds of its own time so far.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self.steps = 0
        self.allocated = 0
        self._max_steps = limits.max_steps
        self._max_allocated = ALLOCATED_HEAPS * limits.memory_mb << 20
        self._timeout_ms = limits.timeout_ms
        self._clock = clock
        self._next = 0
        self._visits = 0

    def tick(self, steps: int = 1) -> None:
        """Count steps.

        Raises:
            Stopped: there are no more, or the time is over.
        """
        self.steps += steps
        if self.steps >= self._next:
            if self.steps > self._max_steps:
                raise Stopped("STEP_LIMIT")
            self.look()
            self._next = min(self.steps + CHECKPOINT_STEPS, self._max_steps + 1)

    def visit(self, elements: int) -> None:
        """Count elements that a built-in function takes.

        Raises:
            Stopped: there are no more steps, or the time is over.
        """
        self._visits += elements
        if self._visits >= VISITS_PER_STEP:
            steps, self._visits = divmod(self._visits, VISITS_PER_STEP)
            self.tick(steps)

    def look(self) -> None:
        """Look at the clock.

        Raises:
            Stopped: the time is over.
        """
        if self._clock() > self._timeout_ms:
            raise Stopped("TIMEOUT")

    def allocate(self, size: int) -> None:
        """Count bytes.

        Raises:
            Stopped: there is no more memory.
        """
        self.allocated += size
        if self.allocated > self._max_allocated:
            raise Stopped("WORKER_MEMORY_EXCEEDED")


class TaskThread(Thread):
    """The evaluator's state of one task; its steps and its memory are the script's."""

    __slots__ = ("meter", "missing_key")

    def __init__(
        self,
        meter: Meter,
        missing_key: MissingKey,
        module: Module,
        universal: dict[str, Any],
        parent: Thread | None = None,
    ) -> None:
        super().__init__(module, universal=universal)  # pyright: ignore[reportUnknownMemberType]
        self.meter = meter
        self.missing_key = missing_key
        if parent is not None:
            # A function that starts itself in a task calls itself all the same.
            self.active = set(parent.active)
            self.depth = parent.depth

    def tick(self, n: int = 1) -> None:
        """Count steps; the evaluator calls this."""
        self.meter.tick(n)

    def add_allocs(self, n: int) -> None:
        """Count bytes; the evaluator calls this."""
        self.meter.allocate(n)
