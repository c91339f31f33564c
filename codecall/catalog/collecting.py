"""Garbage collection and the event loop: why a thread of CodeCall sets off no full collection.

A full collection walks every container object of the process and stops all threads meanwhile: 100 ms on a server with
5,000 tools. CPython starts one after the number of long-lived objects has grown by a quarter, in whichever thread
allocates next; loading scikit-learn alone adds 46,000. So while a thread loads or builds, full collections wait, and
what a server has loaded by the end of its start is taken out of them for good.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

_NEVER = 2**31 - 1
"""As a threshold of the oldest generation: the largest C int, which no process reaches."""

_guard = threading.Lock()
_holding = 0
_usual = 0


@contextmanager
def full_collections_later() -> Generator[None]:
    """Let the interpreter start no full collection by itself inside; the young generations are collected as ever.

    Holds for the whole process, from any number of threads at once, and ends with the last of them. Thresholds that
    somebody else sets meanwhile stay as set. Meant for a second or two: garbage in cycles that is old is kept so long.
    """
    global _holding, _usual  # noqa: PLW0603 - the collector's thresholds belong to the process, too
    with _guard:
        _holding += 1
        youngest, middle, oldest = gc.get_threshold()
        if oldest != _NEVER:
            _usual = oldest
            gc.set_threshold(youngest, middle, _NEVER)
    try:
        yield
    finally:
        with _guard:
            _holding -= 1
            youngest, middle, oldest = gc.get_threshold()
            if not _holding and oldest == _NEVER:
                gc.set_threshold(youngest, middle, _usual)


def keep_out_of_collections(load: Callable[[], object]) -> None:
    """Run `load`, then keep what the process holds out of all later collections: modules, tools, scikit-learn.

    They stay as long as the process, and without them a full collection takes a few milliseconds. Objects still go
    when nothing refers to them; only cycles among those of this moment are never found any more, so what can be lost is
    bounded by what there is now. `gc.unfreeze()` undoes it.
    """
    with full_collections_later():
        load()
        gc.freeze()
