"""Notifies a client of its script while it runs: sends progress, and console lines.

Events are only recorded; a separate task sends them, so that a client that reads nothing delays no script. The task
starts when the script has run for `INTERVAL_S`, or has waited for a worker as long as a heartbeat may take: a shorter
script costs a timer, and its client gets no progress.

A session is copied by its `__dict__`, so that the progress that tools report can be intercepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
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
from codecall.globs import display_name
from codecall.options import ProgressOptions
from codecall.redaction.clean import well_formed
from codecall.sandbox.interfaces import OnCallEnd, RunObserver
from codecall.server.fastmcp_internals import client_connection, log_levels

logger = logging.getLogger("codecall")

CONSOLE_LEVEL: Final[LoggingLevel] = "info"
"""Level of console lines that do not begin with one of their own."""

_LINE_LEVELS: Final[Mapping[str, LoggingLevel]] = {"[warn]": "warning", "[error]": "error"}

INTERVAL_S: Final = 0.5
"""Seconds a script runs before the first progress, and at least between any two. Sending progress costs as much as a
short script; on a busy server, where all scripts wait, that would make them wait longer."""

STALL_S: Final = 1.0
"""Seconds an answer waits for a client that stops reading the notifications it asked for."""

MAX_STALLS: Final = 10
"""How many times `STALL_S` an answer waits at most, for a client that reads slowly."""

_LEVELS: Final = cast("tuple[LoggingLevel, ...]", get_args(LoggingLevel))

_NO_SESSION: Final = "__no_session__"

OnProgress: TypeAlias = Callable[[float, "float | None", "str | None"], None]
"""Called with the progress that a tool reports: progress, total, message."""


def progress_from_context(options: ProgressOptions, context: Context, run_id: str) -> ProgressNotifier | None:
    """The notifier for the client of `context`; None if that client wants nothing, or the option is off."""
    channel = channel_from_context(context) if options.enabled else None
    return ProgressNotifier(channel, options.heartbeat_s, run_id) if channel is not None else None


class ProgressNotifier(RunObserver):
    """A `RunObserver` that notifies a client. It is entered before the run begins, and left in the same task.

    Args:
        channel: The connection to the client.
        heartbeat_s: Seconds after which progress is sent again though nothing has happened.
        run_id: The id of the run, for console lines.
    """

    def __init__(self, channel: ClientChannel, heartbeat_s: float, run_id: str) -> None:
        self._channel = channel
        self._heartbeat_s = heartbeat_s
        self._run_id = run_id
        self._started_at = time.perf_counter()
        self._waits_for_worker = True
        self._finished_calls = 0
        self._running: dict[_RunningCall, None] = {}
        """In the order of their last reports; the latest is the last."""
        self._lines: deque[str] = deque()
        self._rising = RisingProgress()
        self._changed = asyncio.Event()
        self._run_ended = asyncio.Event()
        self._disconnected = False
        """Whether nothing can be sent any more."""
        self._task: asyncio.Task[None] | None = None
        self._due = 0.0
        """When the task starts, by `time.perf_counter`."""
        self._timer: asyncio.TimerHandle | None = None
        """Starts the task."""
        self._exit_stack = ExitStack()

    def on_started(self) -> None:
        """See `RunObserver`."""
        self._waits_for_worker = False
        self._changed.set()
        self._due = time.perf_counter() + INTERVAL_S

    def on_console(self, lines: Sequence[str]) -> None:
        """See `RunObserver`."""
        if self._channel.lines and not self._disconnected:
            self._lines.extend(lines)
            self._changed.set()

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd | None:  # noqa: ARG002
        """See `RunObserver`."""
        call = _RunningCall(record.name)
        previous = _call.set(call)
        self._running[call] = None
        self._changed.set()

        def on_end(_value: str | None) -> None:
            _call.reset(previous)
            del self._running[call]
            self._finished_calls += 1
            self._changed.set()

        return on_end

    def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Keep what the tool of a running call reports of its progress; the call is the latest now."""
        call = _call.get()
        if call in self._running:
            call.report(progress, total, message)
            del self._running[call]
            self._running[call] = None
            self._changed.set()

    async def __aenter__(self) -> Self:
        self._exit_stack.enter_context(self._channel.intercept_progress(self._on_progress))
        self._due = time.perf_counter() + max(INTERVAL_S, self._heartbeat_s)
        self._start_when_due()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exit_stack.close()
        if self._timer is not None:
            self._timer.cancel()
        cancelled = kind is not None and not issubclass(kind, Exception)
        if self._lines and not self._disconnected and not cancelled:
            self._start()
        if self._task is None:
            return
        self._run_ended.set()
        self._changed.set()
        try:
            if not cancelled:
                await self._wait_until_sent(self._task)
        finally:
            if self._task.cancel():
                with anyio.CancelScope(shield=True):
                    await asyncio.wait({self._task}, timeout=STALL_S)

    async def _wait_until_sent(self, task: asyncio.Task[None]) -> None:
        """Wait until the client has read everything, while it reads anything."""
        for _ in range(MAX_STALLS):
            unsent = len(self._lines)
            await asyncio.wait({task}, timeout=STALL_S)
            if task.done():
                return
            if len(self._lines) == unsent:
                break
        message = "%s: its client reads notifications too slowly; %d console lines are only in its answer"
        logger.warning(message, self._run_id, len(self._lines))

    def _start_when_due(self) -> None:
        """Start the task if it is due, else look again: most scripts have ended by then."""
        left = self._due - time.perf_counter()
        if left <= 0:
            self._start()
        else:
            self._timer = asyncio.get_running_loop().call_later(min(left, INTERVAL_S), self._start_when_due)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            while not self._run_ended.is_set():
                await self._send_lines()
                if self._channel.progress and not self._run_ended.is_set():
                    await self._channel.send_progress(self._rising.next(self._finished_calls), self._message())
                await _wait_for_event(INTERVAL_S, self._run_ended)
                heartbeat_s = max(0.0, self._heartbeat_s - INTERVAL_S) if self._channel.progress else None
                await _wait_for_event(heartbeat_s, self._changed)
                self._changed.clear()
            await self._send_lines()
        except Exception as failure:
            self._disconnected = True
            self._lines.clear()
            logger.debug("%s: its client cannot be notified any more: %s", self._run_id, type(failure).__name__)
            log_unexpected("notifying a client of its script", failure)

    async def _send_lines(self) -> None:
        while self._lines:
            await self._channel.send_console_line(self._lines[0], self._run_id)
            self._lines.popleft()

    def _message(self) -> str:
        elapsed = f"{time.perf_counter() - self._started_at:.1f} s"
        if self._waits_for_worker:
            return f"waiting for a worker, {elapsed}"
        done = "1 call done" if self._finished_calls == 1 else f"{self._finished_calls} calls done"
        if not self._running:
            return f"{done}, {elapsed}"
        more = len(self._running) - 1
        current = next(reversed(self._running)).text
        return f"{done}, now {current}{f' and {more} more' if more else ''}, {elapsed}"


@dataclass(frozen=True, slots=True)
class ClientChannel:
    """The connection to the client of one request, or to the clients that poll a background task."""

    context: Context
    request: FastMCPRequestContext | None
    """None for a background task."""
    progress: bool
    """Whether the client wants progress."""
    lines: bool
    """Whether the client wants console lines."""

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
        level: LoggingLevel = _LINE_LEVELS.get(line[: line.find("]") + 1], CONSOLE_LEVEL)
        params = LoggingMessageNotificationParams(level=level, logger="codecall.console", data=data)
        # With the request, since on 2026-07-28 connections there is no other way to the client.
        request_id = self.request.request_id or ""
        await self.request.session.send_notification(LoggingMessageNotification(params=params), request_id)

    @contextlib.contextmanager
    def intercept_progress(self, on_progress: OnProgress) -> Generator[None]:
        """Within this context `on_progress` gets the progress that tools report under the token of the request.

        A client may reject progress that does not rise, and each tool begins at its own zero.
        """
        token = _token(self.request)
        if self.request is None or token is None:
            yield
            return
        session = _intercepting(type(self.request.session))(self.request.session, token, on_progress)
        previous = fastmcp_request_ctx.set(replace(self.request, session=session))
        try:
            yield
        finally:
            fastmcp_request_ctx.reset(previous)


def channel_from_context(context: Context) -> ClientChannel | None:
    """The channel to the client of `context`; None if that client wants neither progress nor console lines."""
    if context.is_background_task:
        return ClientChannel(context, None, progress=True, lines=False)
    request = context.request_context
    if request is None:
        return None
    progress, lines = _token(request) is not None, _wants_console_lines(context, request)
    return ClientChannel(context, request, progress=progress, lines=lines) if progress or lines else None


class RisingProgress:
    """Makes numbers for progress, each more than the one before, though no call may have finished in between."""

    def __init__(self) -> None:
        self._done = -1
        self._repeats = 0

    def next(self, done: int) -> float:
        """The number for `done`, which never falls: `done` itself, then with each repetition closer to `done + 1`."""
        self._repeats = self._repeats + 1 if done == self._done else 0
        self._done = done
        return done + self._repeats / (self._repeats + 1)


class _RunningCall:
    """A call that is running."""

    __slots__ = ("_name", "_report")

    def __init__(self, name: str) -> None:
        self._name = name
        self._report = ""
        """The last report of its tool."""

    @property
    def text(self) -> str:
        """Its name, and the last report of its tool."""
        return display_name(self._name) + self._report

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Keep what the tool reports of its progress."""
        share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._report = f" ({share}: {display_name(message)})" if message else f" ({share})"


_call: Final[contextvars.ContextVar[_RunningCall | None]] = contextvars.ContextVar("codecall_call", default=None)
"""The call this task makes. Tasks that a tool starts inherit it."""


@functools.cache
def _intercepting(kind: type[ServerSession]) -> type[_ProgressInterceptor]:
    """The class of a session that does all else as one of that class does."""
    if issubclass(kind, _ProgressInterceptor):
        return kind
    return type("ProgressInterceptor", (_ProgressInterceptor, kind), {})


class _ProgressInterceptor(ServerSession):
    """The session of a request that hands the progress under the request's token to a callback."""

    def __init__(self, session: ServerSession, token: ProgressToken, on_progress: OnProgress) -> None:
        vars(self).update(vars(session))
        self._token = token
        self._on_progress = on_progress

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._on_progress(progress, total, message)

    async def send_progress_notification(
        self,
        progress_token: str | int,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: str | None = None,
    ) -> None:
        if progress_token == self._token:
            self._on_progress(progress, total, message)
        else:
            await super().send_progress_notification(progress_token, progress, total, message, related_request_id)


def _token(request: FastMCPRequestContext | None) -> ProgressToken | None:
    token: object = (request.meta or {}).get("progressToken") if request is not None else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None


def _wants_console_lines(context: Context, request: FastMCPRequestContext) -> bool:
    server = context.fastmcp
    if request.protocol_version in MODERN_PROTOCOL_VERSIONS:
        level: object = (request.meta or {}).get(LOG_LEVEL_META_KEY)
        return _covers(level) and (server.client_log_level is None or _covers(server.client_log_level))
    # FastMCP keeps these levels by session; requests without one share a level.
    session_id: object = getattr(client_connection(context), "session_id", None) or _NO_SESSION
    return _covers(log_levels(server).get(session_id, server.client_log_level))


def _covers(level: object) -> bool:
    """Whether a client whose log level is `level` gets console lines."""
    return level in _LEVELS[: _LEVELS.index(CONSOLE_LEVEL) + 1]


async def _wait_for_event(seconds: float | None, event: asyncio.Event) -> None:
    """Wait for `event`, for `seconds` at most."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
