"""What work costs and who does it, told apart from how fast the machine is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def python_steps(work: Callable[[], object]) -> int:
    """Lines of Python that `work` runs in this thread. What C code does in one call counts nothing."""
    steps = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


class ThreadShare:
    """How much of a process's work one thread does."""

    share = 0.0
    """Processor time of the thread as a part of the whole process's, from 0 to 1. Known once the block has ended."""


@contextmanager
def thread_share() -> Iterator[ThreadShare]:
    """Measures the calling thread: an event loop's share stays small where the heavy work is done elsewhere."""
    measured = ThreadShare()
    thread, process = time.thread_time(), time.process_time()
    yield measured
    measured.share = (time.thread_time() - thread) / (time.process_time() - process)
