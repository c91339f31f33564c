"""The task that one call runs in: it ends when its time is up or its caller goes, and not with the process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import anyio

from codecall.calls.clock import ASK_CLIENT, Ask, Asking, CallClock
from codecall.calls.fastmcp_internals import context_of_call
from codecall.catalog.entries import CatalogEntry, call_kind, entry_label
from codecall.concurrency import abandon
from codecall.errors import ToolCallError, ToolTimeoutError

logger = logging.getLogger("codecall")

T = TypeVar("T")

STOP_GRACE_S: Final = 0.25
"""Seconds a cancelled tool has for its clean-up before the broker goes on without it."""

MAX_NESTING: Final = 3
"""Calls within calls: a tool that a script calls may itself have a script run, and so on. Each level holds a worker, so
a tool that ends up at itself would take them all."""

_nesting: Final = contextvars.ContextVar("codecall_nesting", default=0)
"""How many calls of brokers this task is inside of. Tasks and threads that a tool starts inherit it."""


class ToolExitError(Exception):
    """A tool raised an exception that ends the process, or that is no `Exception`; `kind` is its type's name."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def is_nested() -> bool:
    """Whether this task is inside of a call of a broker."""
    return _nesting.get() > 0


def check_nesting(entry: CatalogEntry) -> None:
    """Refuse a call that is nested too deeply.

    Raises:
        ToolCallError: this task is inside of `MAX_NESTING` calls already.
    """
    if _nesting.get() >= MAX_NESTING:
        raise ToolCallError(
            f"{entry_label(entry)} was not called: scripts and tools call one another more than {MAX_NESTING} deep",
            tool_name=entry.name,
            called=call_kind(entry),
            hint="A tool that this script calls runs scripts itself; call what they do directly.",
        )


async def request_with_timeout(
    request: Coroutine[Any, Any, T],
    entry: CatalogEntry,
    timeout_ms: int,
    clock: CallClock,
    ask: Ask | None,
) -> T:
    """Await `request`, which is about `entry`, until `clock` has come to `timeout_ms` milliseconds, and return its
    result. `ask` is for what the tool is called through, see `ASK_CLIENT`.

    Raises:
        ToolTimeoutError: the request takes longer; it has been cancelled.
        ToolCallError: the request ends by being cancelled, though nobody has cancelled it.
        ToolExitError: the tool raises what would end the process.
        Exception: whatever else the request raises.
    """
    task_context = context_of_call(clock)
    task_context.run(_nesting.set, _nesting.get() + 1)
    asking = Asking(entry.name, ask) if ask is not None else None
    task_context.run(ASK_CLIENT.set, asking)
    task = _start_task(_contain_exit(request), task_context)
    try:
        if not task.done():
            await clock.wait_for(task)
    except asyncio.CancelledError:
        await _stop(task, entry.name)
        raise
    finally:
        if asking is not None:
            asking.end()
    if not task.done():
        await _stop(task, entry.name)
        raise ToolTimeoutError(
            f"{entry_label(entry)} did not answer within {timeout_ms}ms",
            tool_name=entry.name,
            called=call_kind(entry),
            hint="It may still have taken effect. Ask it for less work per call, or make fewer calls at once.",
        )
    if task.cancelled():
        message = f"{entry_label(entry)} was cancelled before it answered"
        raise ToolCallError(message, tool_name=entry.name, called=call_kind(entry))
    return task.result()


def _start_task(request: Coroutine[Any, Any, T], context: contextvars.Context) -> asyncio.Task[T]:
    """Run `request` in a task; from Python 3.12 on, one that waits for nothing has ended when this returns."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(request, loop=asyncio.get_running_loop(), context=context, eager_start=True)
    return asyncio.create_task(request, context=context)


async def _contain_exit(request: Coroutine[Any, Any, T]) -> T:
    """Await `request`, and keep a tool from ending the program. What it raises to do so (`sys.exit`, as command-line
    parsers do) would leave the event loop through this task, and so end the server for everybody.

    Raises:
        ToolExitError: the tool tries to. KeyboardInterrupt passes, since it comes from an operator.
    """
    try:
        return await request
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as failure:
        raise ToolExitError(type(failure).__name__).with_traceback(failure.__traceback__) from failure


async def _stop(task: asyncio.Task[Any], name: str) -> None:
    """Cancel `task` and wait briefly for its clean-up; a tool that ignores this is left running, and logged."""
    abandon(task)
    with anyio.CancelScope(shield=True):
        await asyncio.wait({task}, timeout=STOP_GRACE_S)
    if not task.done():
        logger.warning("tool %r ignores its cancellation; its result will be dropped", name)
