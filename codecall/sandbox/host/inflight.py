"""The scripts of one enclave that have not ended: to wait for them, and to end them."""

from __future__ import annotations

from typing import Final

import anyio

from codecall.errors import ExecutionAbortedError
from codecall.sandbox.host.pool import WorkerPool
from codecall.sandbox.host.turns import Run

ABORT_S: Final = 1.0
"""Seconds scripts that are ended have to let go of what they wait for: a cancelled tool has a quarter of one."""


class InFlight:
    """What an enclave has begun and not ended."""

    __slots__ = ("_begun", "_none", "_runs")

    def __init__(self) -> None:
        self._begun = 0
        self._runs: set[Run] = set()
        self._none: anyio.Event | None = None

    def __len__(self) -> int:
        """How many there are, those that wait for a worker included."""
        return self._begun

    def begin(self) -> None:
        """One more; it waits for a worker."""
        self._begun += 1

    def started(self, run: Run) -> None:
        """It has got its worker."""
        self._runs.add(run)

    def end(self, run: Run | None) -> None:
        """One has ended; `run` if it had got a worker."""
        if run is not None:
            self._runs.discard(run)
        self._begun -= 1
        if not self._begun and self._none is not None:
            self._none.set()

    async def ended(self) -> None:
        """Wait until there is none."""
        while self._begun:
            if self._none is None or self._none.is_set():
                self._none = anyio.Event()
            await self._none.wait()

    def abort(self, message: str) -> int:
        """End those that have a worker with EXECUTION_ABORTED; how many they were."""
        for run in (runs := tuple(self._runs)):
            run.abort(ExecutionAbortedError(message))
        return len(runs)


async def drained(pool: WorkerPool, in_flight: InFlight, grace_s: float) -> int:
    """Wait for the scripts of a pool that takes no more, end those that run after `grace_s` seconds, and close it; how
    many had to be ended."""
    with anyio.move_on_after(grace_s):
        await in_flight.ended()
    aborted = in_flight.abort(f"The server is shutting down; the script had {grace_s:g} s to end, and had not ended")
    with anyio.move_on_after(ABORT_S):
        await in_flight.ended()
    await pool.aclose()
    return aborted
