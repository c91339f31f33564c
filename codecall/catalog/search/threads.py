"""The threads in which searches work, apart from those in which tools run."""

from __future__ import annotations

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

MAX_SEARCH_THREADS = 4
"""Threads of one event loop that search at a time: more would only contend for the interpreter."""

# One limiter an event loop, as AnyIO keeps its own: a limiter must not be shared between loops.
_search_limiter: RunVar[CapacityLimiter] = RunVar("codecall_index_lookups")


def search_threads() -> CapacityLimiter:
    """Returns the threads of this event loop for work on many entries, apart from those in which tools run."""
    limiter = _search_limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(MAX_SEARCH_THREADS)
        _search_limiter.set(limiter)
    return limiter
