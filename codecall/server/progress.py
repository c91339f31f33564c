"""Tells a client of its script while it runs: progress, and console lines.

What happens is only noted; a task of its own sends, so that a client that takes nothing in holds up no script. The task
starts when the script has run for `INTERVAL_S`, or has waited for a worker as long as a heartbeat may take: a shorter
one costs two timers, and its client gets no progress.

Private names of FastMCP and MCP that this file reads, since there is no public way: `_client_log_levels` of a server
and `_connection` of a session, for the level of logs that a client of the handshake era has asked for. A session is
copied by its `__dict__`, so that the progress that tools report can be intercepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self, TypeAlias, cast, get_args

import anyio
from fastmcp.server.context import Context
from fastmcp.server.dependencies import FastMCPRequestContext, fastmcp_request_ctx
from mcp.server.session import ServerSession
from mcp_types import (
    LOG_LEVEL_META_KEY,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    ProgressToken,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.envelopes import CallRecord
from codecall.fastmcp_errors import log_unexpected
from codecall.options import ProgressOptions
from codecall.patterns import display_name
from codecall.redaction.clean import well_formed
from codecall.sandbox.interfaces import OnCallEnd, RunObserver

CONSOLE_LEVEL: Final[LoggingLevel] = "info"
"""Level of console lines; which method of `console` wrote one is not known."""

_LEVELS: Final = cast("tuple[LoggingLevel, ...]", get_args(LoggingLevel))
_NO_SESSION: Final = "__no_session__"

OnProgress: TypeAlias = Callable[[float, "float | None", "str | None"], None]
"""Told what a tool reports of itself: progress, total, message."""


@dataclass(frozen=True, slots=True)
class ClientChannel:
    """The client of one request, or those who ask after a background task."""

    context: Context
    request: FastMCPRequestContext | None
    """None of a background task."""
    progress: bool
    """Whether progress was asked for."""
    lines: bool
    """Whether console lines were."""

    async def send_progress(self, progress: float, message: str) -> None:
        """Send progress; there is no total."""
        if self.request is not None:
            await self.request.session.report_progress(progress, None, message)
        else:
            await self.context.report_progress(progress, None, message)

    async def send_console_line(self, line: str, run_id: str) -> None:
        """Send one console line, in the form in which FastMCP sends logs."""
        if self.request is None:
            return
        data = {"msg": well_formed(line), "extra": {"runId": run_id}}
        params = LoggingMessageNotificationParams(level=CONSOLE_LEVEL, logger="codecall.console", data=data)
        # With the request, since on 2026-07-28 connections there is no other way to the client.
        request_id = self.request.request_id or ""
        await self.request.session.send_notification(LoggingMessageNotification(params=params), request_id)

    @contextlib.contextmanager
    def intercept_progress(self, hear: OnProgress) -> Generator[None]:
        """Within this context what tools report under the token of the request goes to `hear`.

        A client may take progress for broken that does not rise, and each tool begins at its own zero.
        """
        token = _token(self.request)
        if self.request is None or token is None:
            yield
            return
        session = _ProgressInterceptor(self.request.session, token, hear)
        before = fastmcp_request_ctx.set(replace(self.request, session=session))
        try:
            yield
        finally:
            fastmcp_request_ctx.reset(before)


def channel_from_context(context: Context) -> ClientChannel | None:
    """Who hears of the request of `context`; None where nobody asked."""
    if context.is_background_task:
        return ClientChannel(context, None, progress=True, lines=False)
    request = context.request_context
    if request is None:
        return None
    progress, lines = _token(request) is not None, _lines_asked(context, request)
    return ClientChannel(context, request, progress=progress, lines=lines) if progress or lines else None


class _ProgressInterceptor(ServerSession):
    """The session of a request, but for the progress that is reported under its token."""

    def __init__(self, session: ServerSession, token: ProgressToken, hear: OnProgress) -> None:
        vars(self).update(vars(session))
        self._token = token
        self._hear = hear

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._hear(progress, total, message)

    async def send_progress_notification(
        self,
        progress_token: str | int,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: str | None = None,
    ) -> None:
        if progress_token == self._token:
            self._hear(progress, total, message)
        else:
            await super().send_progress_notification(progress_token, progress, total, message, related_request_id)


def _token(request: FastMCPRequestContext | None) -> ProgressToken | None:
    token: object = (request.meta or {}).get("progressToken") if request is not None else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None


def _lines_asked(context: Context, request: FastMCPRequestContext) -> bool:
    server = context.fastmcp
    if request.protocol_version in MODERN_PROTOCOL_VERSIONS:
        asked: object = (request.meta or {}).get(LOG_LEVEL_META_KEY)
        return _covers(asked) and (server.client_log_level is None or _covers(server.client_log_level))
    # FastMCP keeps these levels to itself, by the session; what has none shares one.
    connection: object = getattr(request.session, "_connection", None)
    session_id: object = getattr(connection, "session_id", None) or _NO_SESSION
    levels = cast("dict[object, LoggingLevel]", getattr(server, "_client_log_levels", {}))
    return _covers(levels.get(session_id, server.client_log_level))


def _covers(level: object) -> bool:
    """Whether who asked for `level` gets console lines."""
    return level in _LEVELS[: _LEVELS.index(CONSOLE_LEVEL) + 1]


logger = logging.getLogger("codecall")

INTERVAL_S: Final = 0.5
"""Seconds a script runs before the first progress, and at least between any two. Telling a client costs as much as a
short script; on a busy server, where all scripts wait, that would make them wait longer."""

STALL_S: Final = 1.0
"""Seconds an answer waits for a client that takes in no more of what it asked to hear."""

MAX_STALLS: Final = 10
"""How many times that it waits at most, for one that is slow."""


class _Call:
    """A call that is being made."""

    __slots__ = ("_name", "_report")

    def __init__(self, name: str) -> None:
        self._name = name
        self._report = ""
        """What its tool has reported last."""

    @property
    def text(self) -> str:
        """Its name, and what its tool has reported last."""
        return display_name(self._name) + self._report

    def hear(self, progress: float, total: float | None, message: str | None) -> None:
        """The tool reports on itself."""
        share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._report = f" ({share}: {display_name(message)})" if message else f" ({share})"


_call: Final[contextvars.ContextVar[_Call | None]] = contextvars.ContextVar("codecall_call", default=None)
"""The call this task makes. What a tool starts takes it along."""


def progress_from_context(options: ProgressOptions, context: Context, run_id: str) -> ProgressNotifier | None:
    """What tells the client of `context` of its run; None where it asked for nothing, or the option is off."""
    listener = channel_from_context(context) if options.enabled else None
    return ProgressNotifier(listener, options.heartbeat_s, run_id) if listener is not None else None


class ProgressNotifier(RunObserver):
    """A `RunObserver` that tells a client. To be entered before the run begins, and left in the same task.

    Args:
        listener: The client.
        heartbeat_s: Seconds after which progress is told again though nothing has happened.
        run_id: Names the run in console lines.
    """

    def __init__(self, listener: ClientChannel, heartbeat_s: float, run_id: str) -> None:
        self._listener = listener
        self._heartbeat_s = heartbeat_s
        self._run_id = run_id
        self._began = time.perf_counter()
        self._waits = True
        self._done = 0
        self._running: dict[_Call, None] = {}
        """The one that was last heard of is the last."""
        self._lines: deque[str] = deque()
        self._rising = RisingProgress()
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        self._gone = False
        """Nothing can be sent any more."""
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        """Until the task starts."""
        self._within = ExitStack()

    # ---------------------------------------------------------------------------------------------- what happens

    def on_started(self) -> None:
        """See `RunObserver`."""
        self._waits = False
        self._news.set()
        self._begin_in(INTERVAL_S)

    def on_console(self, lines: Sequence[str]) -> None:
        """See `RunObserver`."""
        if self._listener.lines and not self._gone:
            self._lines.extend(lines)
            self._news.set()

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd | None:  # noqa: ARG002
        """See `RunObserver`."""
        call = _Call(record.name)
        before = _call.set(call)
        self._running[call] = None
        self._news.set()

        def ended(_value: str | None) -> None:
            _call.reset(before)
            del self._running[call]
            self._done += 1
            self._news.set()

        return ended

    def _heard(self, progress: float, total: float | None, message: str | None) -> None:
        """A tool reports on itself; one that has ended is not listened to."""
        call = _call.get()
        if call in self._running:
            call.hear(progress, total, message)
            del self._running[call]
            self._running[call] = None
            self._news.set()

    # --------------------------------------------------------------------------------------------------- sending

    async def __aenter__(self) -> Self:
        self._within.enter_context(self._listener.intercept_progress(self._heard))
        self._begin_in(max(INTERVAL_S, self._heartbeat_s))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._within.close()
        if self._timer is not None:
            self._timer.cancel()
        cancelled = kind is not None and not issubclass(kind, Exception)
        if self._lines and not self._gone and not cancelled:
            self._begin()
        if self._task is None:
            return
        self._over.set()
        self._news.set()
        try:
            if not cancelled:
                await self._outstanding(self._task)
        finally:
            if self._task.cancel():
                with anyio.CancelScope(shield=True):
                    await asyncio.wait({self._task}, timeout=STALL_S)

    async def _outstanding(self, task: asyncio.Task[None]) -> None:
        """Wait until the client has taken in everything, while it takes in anything."""
        for _ in range(MAX_STALLS):
            before = len(self._lines)
            await asyncio.wait({task}, timeout=STALL_S)
            if task.done():
                return
            if len(self._lines) == before:
                break
        said = "%s: its client takes in too slowly what it asked to hear; %d console lines are only in its answer"
        logger.warning(said, self._run_id, len(self._lines))

    def _begin_in(self, seconds: float) -> None:
        """Start the task so much later, and no more when it was to be."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._sending())

    async def _sending(self) -> None:
        try:
            while not self._over.is_set():
                await self._tell_lines()
                if self._listener.progress and not self._over.is_set():
                    await self._listener.send_progress(self._rising.next(self._done), self._message())
                await _within(INTERVAL_S, self._over)
                quiet = max(0.0, self._heartbeat_s - INTERVAL_S) if self._listener.progress else None
                await _within(quiet, self._news)
                self._news.clear()
            await self._tell_lines()
        except Exception as failure:
            self._gone = True
            self._lines.clear()
            logger.debug("%s: its client cannot be told of it any more: %s", self._run_id, type(failure).__name__)
            log_unexpected("telling a client of its script", failure)

    async def _tell_lines(self) -> None:
        while self._lines:
            await self._listener.send_console_line(self._lines[0], self._run_id)
            self._lines.popleft()

    def _message(self) -> str:
        said = f"{time.perf_counter() - self._began:.1f} s"
        if self._waits:
            return f"waiting for a worker, {said}"
        done = "1 call done" if self._done == 1 else f"{self._done} calls done"
        if not self._running:
            return f"{done}, {said}"
        more = len(self._running) - 1
        current = next(reversed(self._running)).text
        return f"{done}, now {current}{f' and {more} more' if more else ''}, {said}"


class RisingProgress:
    """Numbers for progress, each of which has to be more than the one before, though nothing may have been done."""

    def __init__(self) -> None:
        self._done = -1
        self._again = 0

    def next(self, done: int) -> float:
        """For `done`, which never falls: that, and with each time that it has been told before more of one more."""
        self._again = self._again + 1 if done == self._done else 0
        self._done = done
        return done + self._again / (self._again + 1)


async def _within(seconds: float | None, event: asyncio.Event) -> None:
    """Wait for `event`, so long at most."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
