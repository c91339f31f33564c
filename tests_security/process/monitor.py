"""What an operator would watch while a server is under attack: the event loop, the memory, the processes."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

TICK_S = 0.005
"""How often the loop is asked for a sign of life, in seconds."""


@dataclass
class LoopLag:
    """How late the event loop was."""

    ticks: int = 0
    """Signs of life."""
    worst_ms: float = 0.0
    """The latest of them."""
    total_ms: float = 0.0

    def __str__(self) -> str:
        mean = self.total_ms / self.ticks if self.ticks else 0.0
        return f"loop lag over {self.ticks} ticks: mean {mean:.2f} ms, worst {self.worst_ms:.1f} ms"


@asynccontextmanager
async def loop_lag(title: str) -> AsyncIterator[LoopLag]:
    """Watch the loop while the block runs, and print what was seen."""
    lag = LoopLag()

    async def watch() -> None:
        while True:
            before = time.perf_counter()
            await anyio.sleep(TICK_S)
            late = (time.perf_counter() - before - TICK_S) * 1000
            lag.ticks += 1
            lag.total_ms += late
            lag.worst_ms = max(lag.worst_ms, late)

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        yield lag
        group.cancel_scope.cancel()
    print(f"{title}: {lag}")


def resident_mb() -> float:
    """MiB of memory this process has now, what can be collected or given back to the system left out."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # a C library without it
            ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    output = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], check=True, capture_output=True, text=True)
    return int(output.stdout) / 1024


def running(pid: int) -> bool:
    """Whether there is such a process, one that has ended and waits to be reaped left out."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    try:
        return (
            not state.parent.parent.joinpath("self").exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except (FileNotFoundError, ProcessLookupError):
        return False
