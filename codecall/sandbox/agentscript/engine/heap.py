"""How much of its heap a script has used, and the memory that goes back to the system after it.

With its heap exhausted, the engine cannot even make an error: it throws `null`. A script can throw `null` too, and by
the time somebody asks, the memory may be free again. So the C library is told to take all memory from one growing heap
and to give nothing back by itself: then the size of that heap tells how much was in use at most. Resident memory would
not do: a forked process shares pages with others, and counts files it has mapped.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _NEVER = -1, -4, 2**31 - 1

_IDLE_BYTES: Final = 4 * 1024 * 1024
"""Free heap worth returning to the system between two scripts."""

_EXHAUSTED_SHARE: Final = 0.9
"""Share of the limit by which the heap must have grown. The rest is for what the worker itself freed in between."""


class HeapGauge:
    """Measures how much the heap has grown since a script began."""

    __slots__ = ("_start",)

    def __init__(self) -> None:
        library = _library()
        self._start = _peak_bytes() if library is None else library.info().uordblks

    def grew_by(self, limit: int) -> bool:
        """Whether as many as `limit` bytes more were in use at one time since then.

        Never misses it where the C library can tell; elsewhere the resident memory of the process decides. It may
        also say so of a heap that is that large because of gaps.
        """
        library = _library()
        now = _peak_bytes() if library is None else library.info().arena
        return now - self._start > _EXHAUSTED_SHARE * limit


def release_memory() -> None:
    """Return the memory a script has used to the system, and let the next one start from a small heap."""
    library = _library()
    if library is not None and library.info().fordblks > _IDLE_BYTES:
        library.trim(0)


def _peak_bytes() -> int:
    # In KiB on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library, 2.33 and later."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")),
    ]
    arena: int
    uordblks: int
    fordblks: int


class _Library(NamedTuple):
    """The functions of the C library that are used."""

    info: Callable[[], _MallocInfo]
    trim: Callable[[int], int]


@cache
def _library() -> _Library | None:
    """The C library, set up; None where it has no such functions."""
    try:
        library = ctypes.CDLL(None)
        info, trim, option = library.mallinfo2, library.malloc_trim, library.mallopt
    except (AttributeError, OSError):
        return None
    info.restype = _MallocInfo
    option(_M_MMAP_MAX, 0)
    option(_M_TRIM_THRESHOLD, _NEVER)
    return _Library(info, trim)
