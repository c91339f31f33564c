"""Clients that go away without a word while their script runs.

A client that cancels says so, and FastMCP cancels the request. One that is gone (a crash, a network that fails) says
nothing; what becomes of its request depends on how it came:

    stdio, in memory, the SSE transport     the session ends, and with it the request
    HTTP, 2026-07-28, event stream          FastMCP sees the connection close and cancels the request
    HTTP, 2026-07-28, JSON answers          \\ nobody looks at the connection: the script would run to its end
    HTTP, handshake era                     / or its limits, for an answer that nobody can get. This module looks
    HTTP, handshake era, with event store   the answer is kept for the client to fetch when it comes back: runs on
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import anyio
from fastmcp.server.context import Context
from fastmcp.server.http import StreamableHTTPASGIApp

from codecall.envelopes import ExecutionResult
from codecall.errors import ExecutionAbortedError

_Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

WATCH_AFTER_S: Final = 1.0
"""Seconds a script runs before anybody looks at its client's connection. Most scripts are over by then, and cost
nothing more."""


async def run_while_connected(context: Context, run: Awaitable[ExecutionResult]) -> ExecutionResult:
    """The result of `run`, which is cancelled when the client of `context` has gone and nobody can get it any more."""
    receive = _waiting_for_answer(context)
    if receive is None:
        return await run
    with anyio.CancelScope() as scope, _watched(receive, scope.cancel):
        return await run
    error = ExecutionAbortedError("The client went away, and nobody was left to answer")
    return ExecutionResult(error.status, error=error)


@contextmanager
def _watched(receive: _Receive, notice: Callable[[], object]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    task: asyncio.Task[None] | None = None

    def watch() -> None:
        nonlocal task
        task = loop.create_task(_gone(receive, notice))

    timer = loop.call_later(WATCH_AFTER_S, watch)
    try:
        yield
    finally:
        timer.cancel()
        if task is not None:
            task.cancel()


def _waiting_for_answer(context: Context) -> _Receive | None:
    """What the HTTP server has to tell of the connection of this request, if that is the only way for the answer."""
    here = context.request_context
    request: Any = here.request if here is not None and not context.is_background_task else None
    scope: Mapping[str, Any] = getattr(request, "scope", None) or {}
    endpoint: Any = scope.get("endpoint")
    while not isinstance(endpoint, StreamableHTTPASGIApp) and hasattr(endpoint, "app"):
        endpoint = endpoint.app  # what asks for authorization stands around it
    sessions = endpoint.session_manager if isinstance(endpoint, StreamableHTTPASGIApp) else None
    return request.receive if sessions is not None and sessions.event_store is None else None


async def _gone(receive: _Receive, notice: Callable[[], object]) -> None:
    # Middleware around the server may give `receive` a meaning of its own; then nothing is known of the client.
    with contextlib.suppress(Exception):
        if (await receive())["type"] == "http.disconnect":
            notice()
