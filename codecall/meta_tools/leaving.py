"""Clients that go away without a word while their script runs.

A client that cancels says so, and FastMCP cancels the request. One that is gone (a crash, a network that fails) says
nothing; what becomes of its request depends on how it came:

    stdio, in memory                        the session ends, and with it the request
    HTTP, 2026-07-28, event stream          FastMCP sees the connection close and cancels the request
    HTTP, 2026-07-28, JSON answers          \\ nobody looks at the connection: the script would run to its end
    HTTP, handshake era                     / or its limits, for an answer that nobody can get. This module looks
    HTTP, handshake era, with event store   the answer is kept for the client to fetch when it comes back: runs on
    the older SSE transport                 the request's connection says nothing about the client: runs on
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final

import anyio
from fastmcp.server.context import Context
from fastmcp.server.http import StreamableHTTPASGIApp
from starlette.requests import Request

from codecall.envelopes import ExecutionResult
from codecall.errors import ExecutionAbortedError

WATCH_AFTER_S: Final = 1.0
"""Seconds a script runs before anybody looks at its client's connection. Most scripts are over by then, and cost
nothing more."""


async def unless_left(context: Context, run: Awaitable[ExecutionResult]) -> ExecutionResult:
    """The result of `run`, which is cancelled when the client of `context` has gone and nobody can get it any more."""
    request = _waiting_for_answer(context)
    if request is None:
        return await run
    with anyio.CancelScope() as scope, _watched(request, scope.cancel):
        return await run
    error = ExecutionAbortedError("The client went away, and nobody was left to answer")
    return ExecutionResult(error.status, error=error)


@contextmanager
def _watched(request: Request, notice: Callable[[], object]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    task: asyncio.Task[None] | None = None

    def watch() -> None:
        nonlocal task
        task = loop.create_task(_gone(request, notice))

    timer = loop.call_later(WATCH_AFTER_S, watch)
    try:
        yield
    finally:
        timer.cancel()
        if task is not None:
            task.cancel()


def _waiting_for_answer(context: Context) -> Request | None:
    """The HTTP request whose connection is the only way for the answer; None where there is none, or another way."""
    here = context.request_context
    if here is None or context.is_background_task or not isinstance(request := here.request, Request):
        return None
    endpoint: object = request.scope.get("endpoint")
    while not isinstance(endpoint, StreamableHTTPASGIApp) and hasattr(endpoint, "app"):
        endpoint = endpoint.app  # what asks for authorization stands around it
    if not isinstance(endpoint, StreamableHTTPASGIApp) or endpoint.session_manager.event_store is not None:
        return None
    return request


async def _gone(request: Request, notice: Callable[[], object]) -> None:
    # Middleware around the server may give `receive` a meaning of its own; then nothing is known of the client.
    with contextlib.suppress(Exception):
        while (await request.receive())["type"] != "http.disconnect":
            pass
        notice()
