"""Cancels the scripts of clients that disconnect without cancelling their request.

A client that cancels sends a notification, and FastMCP cancels the request. One that is gone (a crash, a network that
fails) sends nothing; what happens to its request depends on the transport:

    stdio, in memory, the SSE transport     the session ends, and with it the request
    HTTP, 2026-07-28, event stream          FastMCP sees the connection close and cancels the request
    HTTP, 2026-07-28, JSON answers          \\ nothing watches the connection: the script would run to its end
    HTTP, handshake era                     / or its limits, for an answer that nobody can get. This module watches
    HTTP, handshake era, with event store   the answer is kept for the client to fetch when it comes back: runs on
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import anyio
from fastmcp.server.context import Context
from fastmcp.server.http import StreamableHTTPASGIApp

from codecall.envelopes import ExecutionResult
from codecall.errors import ExecutionAbortedError

T = TypeVar("T")

_Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

WATCH_AFTER_S: Final = 1.0
"""Seconds a script runs before its client's connection is watched. Most scripts have ended by then, and cost nothing
more."""


async def run_while_connected(context: Context, run: Awaitable[ExecutionResult]) -> ExecutionResult:
    """Await `run` and return its result; cancel it when the client of `context` is gone for good."""
    try:
        return await while_connected(context, run)
    except ExecutionAbortedError as error:
        return ExecutionResult(error.status, error=error)


async def while_connected(context: Context, answer: Awaitable[T]) -> T:
    """Await `answer` and return it; cancel it when the client of `context` is gone for good.

    Raises:
        ExecutionAbortedError: it is.
    """
    receive = _connection_receive(context)
    if receive is None:
        return await answer
    with anyio.CancelScope() as scope, _watch_connection(receive, scope.cancel):
        return await answer
    raise ExecutionAbortedError("The client went away, and nobody was left to answer")


@contextmanager
def _watch_connection(receive: _Receive, on_disconnect: Callable[[], object]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    task: asyncio.Task[None] | None = None

    def watch() -> None:
        nonlocal task
        task = loop.create_task(_await_disconnect(receive, on_disconnect))

    timer = loop.call_later(WATCH_AFTER_S, watch)
    try:
        yield
    finally:
        timer.cancel()
        if task is not None:
            task.cancel()


def _connection_receive(context: Context) -> _Receive | None:
    """The `receive` of this request's HTTP connection, if the answer can be sent on that connection only."""
    request_context = context.request_context
    request: Any = None if request_context is None or context.is_background_task else request_context.request
    scope: Mapping[str, Any] = getattr(request, "scope", None) or {}
    endpoint: Any = scope.get("endpoint")
    while not isinstance(endpoint, StreamableHTTPASGIApp) and hasattr(endpoint, "app"):
        endpoint = endpoint.app  # authorization middleware wraps it
    sessions = endpoint.session_manager if isinstance(endpoint, StreamableHTTPASGIApp) else None
    return request.receive if sessions is not None and sessions.event_store is None else None


async def _await_disconnect(receive: _Receive, on_disconnect: Callable[[], object]) -> None:
    # Middleware around the server may give `receive` a meaning of its own; then the client counts as connected.
    with contextlib.suppress(Exception):
        if (await receive())["type"] == "http.disconnect":
            on_disconnect()
