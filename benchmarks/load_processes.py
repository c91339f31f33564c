"""What a server and the processes it started take of the machine. Linux only."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
EVERY_S = 1.0
"""Between two looks at memory."""


class Usage:
    """Of one server."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.peak = {"server": 0.0, "workers": 0.0, "processes": 0.0}
        """Most seen, in MB: RSS of the server, PSS of the processes it started; and how many those were."""

    def processor(self) -> dict[str, float]:
        """Seconds of processor time so far: of the server, and of what it started."""
        own, _ended = _times(self._pid)
        return {"server": own, "workers": _ended + sum(sum(_times(pid)) for pid in _descendants(self._pid))}

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None]:
        """Look at memory all the while."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self) -> None:
        while True:
            await asyncio.to_thread(self._look)
            await asyncio.sleep(EVERY_S)

    def _look(self) -> None:
        started = _descendants(self._pid)
        seen = {
            "server": _kilobytes(self._pid, "status", "VmRSS:") / 1000,
            "workers": sum(_kilobytes(pid, "smaps_rollup", "\nPss:") for pid in started) / 1000,
            "processes": float(len(started)),
        }
        self.peak = {name: max(self.peak[name], value) for name, value in seen.items()}


def cpu_s() -> float:
    """Processor time of this process, in seconds."""
    return sum(os.times()[:2])


def children_cpu_ms(pid: int) -> float:
    """Processor time so far of the processes that a process has started, in milliseconds; of those that have ended, in
    steps of a clock tick."""
    total = _times(pid)[1] * 1e9
    for child in _descendants(pid):
        total += _times(child)[1] * 1e9
        for file in Path(f"/proc/{child}/task").glob("*/schedstat"):
            with suppress(OSError):
                total += int(file.read_text(encoding="ascii").split()[0])
    return total / 1e6


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children = [int(child) for child in file.read_text(encoding="ascii").split()]
            found += [*children, *(each for child in children for each in _descendants(child))]
    return found


def _times(pid: int) -> tuple[float, float]:
    """Processor time of a process, and of its children that have ended; nothing of one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    own, own_system, ended, ended_system = map(int, fields[11:15])
    return (own + own_system) / TICK, (ended + ended_system) / TICK


def _kilobytes(pid: int, file: str, label: str) -> int:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text(encoding="ascii")
    except OSError:
        return 0
    amount = text.partition(label)[2].split()
    return int(amount[0]) if amount else 0
