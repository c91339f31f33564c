"""What the client of a request asked to hear while it waits, and how it is told.

progress         the request has a progress token, in either era of the protocol. A background task has no request;
                 FastMCP keeps what it reports as the status message of the task.
console lines    2026-07-28: the request names a log level, `info` or below.
                 Before: a level has been set with `logging/setLevel`, or the server has a `client_log_level`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast, get_args

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

from codecall.sanitizing import well_formed

LEVEL: Final[LoggingLevel] = "info"
"""Level of console lines; which method of `console` wrote one is not known."""

_LEVELS: Final = cast("tuple[LoggingLevel, ...]", get_args(LoggingLevel))
_NO_SESSION: Final = "__no_session__"

Hear: TypeAlias = Callable[[float, "float | None", "str | None"], None]
"""Told what a tool reports of itself: progress, total, message."""


@dataclass(frozen=True, slots=True)
class Listener:
    """The client of one request, or those who ask after a background task."""

    context: Context
    request: FastMCPRequestContext | None
    """None of a background task."""
    progress: bool
    """Whether progress was asked for."""
    lines: bool
    """Whether console lines were."""

    async def tell_progress(self, progress: float, message: str) -> None:
        """Send progress; there is no total."""
        if self.request is not None:
            await self.request.session.report_progress(progress, None, message)
        else:
            await self.context.report_progress(progress, None, message)

    async def tell_line(self, line: str, run_id: str) -> None:
        """Send one console line, in the form in which FastMCP sends logs."""
        if self.request is None:
            return
        data = {"msg": well_formed(line), "extra": {"runId": run_id}}
        params = LoggingMessageNotificationParams(level=LEVEL, logger="codecall.console", data=data)
        # With the request, since on 2026-07-28 connections there is no other way to the client.
        request_id = self.request.request_id or ""
        await self.request.session.send_notification(LoggingMessageNotification(params=params), request_id)

    @contextlib.contextmanager
    def overhearing(self, hear: Hear) -> Generator[None]:
        """Within this context what tools report under the token of the request goes to `hear`.

        A client may take progress for broken that does not rise, and each tool begins at its own zero.
        """
        token = _token(self.request)
        if self.request is None or token is None:
            yield
            return
        session = _Overheard(self.request.session, token, hear)
        before = fastmcp_request_ctx.set(replace(self.request, session=session))
        try:
            yield
        finally:
            fastmcp_request_ctx.reset(before)


def listener_of(context: Context) -> Listener | None:
    """Who hears of the request of `context`; None where nobody asked."""
    if context.is_background_task:
        return Listener(context, None, progress=True, lines=False)
    request = context.request_context
    if request is None:
        return None
    progress, lines = _token(request) is not None, _lines_asked(context, request)
    return Listener(context, request, progress=progress, lines=lines) if progress or lines else None


class _Overheard(ServerSession):
    """The session of a request, but for the progress that is reported under its token."""

    def __init__(self, session: ServerSession, token: ProgressToken, hear: Hear) -> None:
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
    return level in _LEVELS[: _LEVELS.index(LEVEL) + 1]
