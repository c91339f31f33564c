"""One request to the server on behalf of a script: as a task of its own, within a time limit, and never too deep.

A synchronous tool runs in a thread that no cancel scope of anyio can interrupt. So each request runs as a task of its
own: without it, neither the time limit nor a cancelled script would end the wait for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import anyio

from codecall.calls.names import called, label
from codecall.catalog.entries import CatalogEntry
from codecall.errors import ToolCallError, ToolTimeoutError
from codecall.patience import ended, leave

logger = logging.getLogger("codecall")

T = TypeVar("T")

STOP_GRACE_S: Final = 0.25
"""Seconds a cancelled tool has for its clean-up before the broker goes on without it."""

MAX_NESTING: Final = 3
"""Calls within calls: a tool that a script calls may itself have a script run, and so on. Each level holds a worker, so
a tool that ends up at itself would take them all."""

_nesting: Final = contextvars.ContextVar("codecall_nesting", default=0)
"""How many calls of brokers this task is inside of. Tasks and threads that a tool starts take it along."""


class ToolExit(Exception):  # noqa: N818 - named for what the tool did
    """A tool raised what is meant to end the process, or is no `Exception`; `kind` says which."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def check_nesting(entry: CatalogEntry) -> None:
    """Refuse what is too deep.

    Raises:
        ToolCallError: this task is inside of `MAX_NESTING` calls already.
    """
    if _nesting.get() >= MAX_NESTING:
        raise ToolCallError(
            f"{label(entry)} was not called: scripts and tools call one another more than {MAX_NESTING} deep",
            tool_name=entry.name,
            called=called(entry),
            hint="A tool that this script calls runs scripts itself; call what they do directly.",
        )


async def perform(request: Coroutine[Any, Any, T], entry: CatalogEntry, timeout_ms: int) -> T:
    """The server's answer to `request`, which is about `entry`, within `timeout_ms` milliseconds.

    Raises:
        ToolTimeoutError: it took longer; it has been cancelled.
        ToolCallError: it ended by being cancelled, though nobody had cancelled it.
        ToolExit: it meant to end the process.
        Exception: whatever else it raised.
    """
    within = contextvars.copy_context()
    within.run(_nesting.set, _nesting.get() + 1)
    task = asyncio.create_task(_contained(request), context=within)
    try:
        await ended(task, timeout_ms / 1000)
    except asyncio.CancelledError:
        await _stop(task, entry.name)
        raise
    if not task.done():
        await _stop(task, entry.name)
        raise ToolTimeoutError(
            f"{label(entry)} did not answer within {timeout_ms}ms",
            tool_name=entry.name,
            called=called(entry),
            hint="It may still have taken effect. Ask it for less work per call, or make fewer calls at once.",
        )
    if task.cancelled():
        message = f"{label(entry)} was cancelled before it answered"
        raise ToolCallError(message, tool_name=entry.name, called=called(entry))
    return task.result()


async def _contained(request: Coroutine[Any, Any, T]) -> T:
    """The answer to `request`. What a tool raises to leave the program (`sys.exit`, as of a command-line parser) would
    leave the event loop through this task, and so end the server for everybody.

    Raises:
        ToolExit: instead of that. Not instead of KeyboardInterrupt, which is an operator's wish.
    """
    try:
        return await request
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as failure:
        raise ToolExit(type(failure).__name__).with_traceback(failure.__traceback__) from failure


async def _stop(task: asyncio.Task[Any], name: str) -> None:
    """Cancel `task` and wait briefly for its clean-up; a tool that does not let go is left behind, and logged."""
    leave(task)
    with anyio.CancelScope(shield=True):
        await asyncio.wait({task}, timeout=STOP_GRACE_S)
    if not task.done():
        logger.warning("tool %r ignores its cancellation; its result will be dropped", name)
