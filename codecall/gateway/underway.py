"""One call under way: how long it may take, whose it is, and what is passed on to him meanwhile."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import math
from collections import deque
from collections.abc import Coroutine, Hashable
from typing import Any, Final, TypeVar, cast

import anyio
import mcp_types
from fastmcp import Context
from mcp import ClientSession, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.calls.callers import client_key

T = TypeVar("T")

MAX_SAID: Final = 256
"""Log messages of one call that wait to be passed on; more are left out, and counted in our own log."""

_SETTLE_S: Final = 1.0
"""Seconds the answer of a call waits for what the server said before it."""

_Progress = tuple[float, float | None, str | None]
_Log = mcp_types.LoggingMessageNotificationParams


class Underway:
    """One call under way, made on behalf of a request of a client, or of nobody.

    Args:
        session: with the server.
        context: FastMCP's context of the request; None: nobody's.
        timeout_s: seconds it may take without a word of progress.
        logger: of the server.

    Attributes:
        scope: what the call runs in. Cancelled when its time is up.
    """

    def __init__(
        self, session: ClientSession, context: Context | None, timeout_s: float, logger: logging.Logger
    ) -> None:
        self.session = session
        self.context = context
        self.scope = anyio.CancelScope(deadline=asyncio.get_running_loop().time() + timeout_s)
        # What is done for the client is done with the variables of his request: FastMCP finds the request there.
        self._variables = contextvars.copy_context()
        self._timeout_s = timeout_s
        self._logger = logger
        self._who: Hashable | None = None
        self._asks = 0
        self._said: deque[_Progress | _Log] = deque()
        self._left_out = 0
        self._telling: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Give the call its whole time again, and pass the progress on. What comes while an earlier one is being
        written replaces what waits."""
        if not self._asks:
            self.scope.deadline = asyncio.get_running_loop().time() + self._timeout_s
        if self._said and isinstance(self._said[-1], tuple):
            self._said.pop()
        self._say((progress, total, message))

    def log(self, params: _Log) -> None:
        """Pass a log message on, if the client asked for such."""
        if len(self._said) < MAX_SAID:
            self._say(params)
        else:
            self._left_out += 1

    async def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """The client's answer to `question`; the call's time stands still meanwhile.

        Raises:
            MCPError: he refused, or the call ended before he answered.
        """
        self._asks += 1
        self.scope.deadline = math.inf
        task = self._start(question)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._asks -= 1
            if not self._asks:
                self.scope.deadline = asyncio.get_running_loop().time() + self._timeout_s
        if task.cancelled():
            raise MCPError(code=mcp_types.INVALID_REQUEST, message="Refused by the gateway: the call has ended")
        return task.result()

    async def settle(self) -> None:
        """Wait until what the server said before its answer has been passed on, but not for long."""
        if self._telling is not None:
            await asyncio.wait({self._telling}, timeout=_SETTLE_S)

    def end(self) -> None:
        """The call is over: nothing more is passed on or asked."""
        for task in self._tasks:
            task.cancel()
        if self._left_out:
            self._logger.warning("%d log messages were left out: the client reads too slowly", self._left_out)

    @property
    def who(self) -> Hashable | None:
        """Whose call it is: on handshake-era connections the client's session, on others the request; None: nobody."""
        if self._who is None and self.context is not None:
            self._who = self._variables.run(_who, self.context)
        return self._who

    def _say(self, what: _Progress | _Log) -> None:
        if self.context is None:
            return
        self._said.append(what)
        if self._telling is None or self._telling.done():
            self._telling = self._start(self._tell(self.context))

    async def _tell(self, context: Context) -> None:
        while self._said:
            said = self._said.popleft()
            try:
                if isinstance(said, tuple):
                    await context.report_progress(*said)
                else:
                    text, extra = _text(said.data)
                    await context.log(text, level=said.level, logger_name=said.logger, extra=extra)
            except Exception as failure:
                # The client has gone, or takes no such thing; the call itself will show.
                self._logger.debug("what it said could not be passed on (%s)", type(failure).__name__)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work, context=self._variables)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


UNDERWAY: Final[contextvars.ContextVar[Underway | None]] = contextvars.ContextVar("codecall_underway", default=None)
"""The call that is being made."""


def _who(context: Context) -> Hashable | None:
    if context.request_context is None:
        return None
    if context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return context.session
    return client_key(context), context.session_id


def _text(data: object) -> tuple[str, dict[str, Any] | None]:
    """FastMCP sends `{"msg": …, "extra": …}`; other servers anything, which is passed on as text."""
    if isinstance(data, dict):
        told = cast("dict[str, Any]", data)
        if isinstance(message := told.get("msg"), str):
            extra = told.get("extra")
            return message, cast("dict[str, Any]", extra) if isinstance(extra, dict) else None
    return data if isinstance(data, str) else json.dumps(data), None
