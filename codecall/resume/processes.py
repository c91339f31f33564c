"""Which process runs a run, so that another one on the same machine sees when it has been killed."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path
from typing import Final

MAX_CHARS: Final = 512
"""Characters of an identity."""

_PROC: Final = Path("/proc")


@lru_cache(maxsize=1)
def _place() -> str:
    """This machine since it was started, and the processes that this one can see; empty where that is not known."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink(_PROC / "self/ns/pid")  # noqa: PTH115 - a text, not a file
    except OSError:
        return ""
    return f"{socket.gethostname()} {boot} {namespace}"[: MAX_CHARS - 64]


def _start_of(pid: int) -> str | None:
    """When a process started, in ticks of its machine; None if there is no such process."""
    try:
        # The name of the program, which may hold anything, ends with the last bracket.
        return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def process_identity() -> str:
    """What identifies this process; empty where another one could not tell whether it runs."""
    place, pid = _place(), os.getpid()
    start = _start_of(pid) if place else None
    return f"{place} {pid} {start}" if start is not None else ""


def has_ended(identity: str) -> bool:
    """Whether the process of an identity runs no more; False where that cannot be told from here."""
    place, pid, start = (*identity.rsplit(" ", 2), "", "")[:3]
    if not place or place != _place() or not pid.isdecimal():
        return False
    return _start_of(int(pid)) != start
