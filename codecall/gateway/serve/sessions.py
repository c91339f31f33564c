"""How many sessions of the handshake era may be open over HTTP, and how many of them one caller may have.

FastMCP has no option for either. The SDK's manager of sessions has the first as an attribute. For the second its
private names are used: `_admit_session`, which opens a session or returns None where that is refused, and
`_server_instances`, the open ones by id. Its own record of who has opened each has client ids, of which a person may
have many.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from codecall.identity import share_key

if TYPE_CHECKING:
    from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from mcp.server.streamable_http import StreamableHTTPServerTransport
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

logger = logging.getLogger("codecall")

_SDK_LOGGER: Final = logging.getLogger("mcp.server.streamable_http_manager")

_ALREADY_LOGGED: Final[ContextVar[bool]] = ContextVar("codecall_already_logged", default=False)
"""Whether the refusal of this request to open a session is in the log."""

_SHARE: Final = 4
"""One caller may have one in so many of all sessions."""

_LEAST: Final = 10
"""Sessions that a caller may have however few there may be in all."""


def sessions_per_caller(max_sessions: int) -> int:
    """How many sessions somebody who has signed in may have open, of so many in all."""
    return max(max_sessions // _SHARE, _LEAST)


def limit_sessions(app: Any, max_sessions: int) -> None:
    """Have FastMCP's HTTP application, which has started, refuse to open sessions beyond these bounds.

    Callers that do not sign in are not told apart, and share all sessions.
    """
    manager = _session_manager(app)
    manager.max_sessions = max_sessions
    admit, sessions = manager._admit_session, manager._server_instances  # pyright: ignore[reportPrivateUsage]
    own = sessions_per_caller(max_sessions)
    callers: dict[str, str] = {}
    """By session, some of which may have ended."""

    def admit_within_share(requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        if requestor is None:
            return admit(requestor)
        for ended in callers.keys() - sessions.keys():
            del callers[ended]
        caller = share_key(None)
        if list(callers.values()).count(caller) >= own:
            logger.warning("A caller may open no more sessions: it has %d", own)
            _ALREADY_LOGGED.set(True)
            return None
        transport = admit(requestor)
        if transport is not None and transport.mcp_session_id is not None:
            callers[transport.mcp_session_id] = caller
        return transport

    manager._admit_session = admit_within_share  # pyright: ignore[reportPrivateUsage]
    _SDK_LOGGER.addFilter(_is_true)


def _is_true(record: logging.LogRecord) -> bool:
    """Not the SDK's message that all sessions are open, where one caller was refused: it knows no other reason."""
    return not (_ALREADY_LOGGED.get() and record.levelno == logging.WARNING)


def _session_manager(app: Any) -> StreamableHTTPSessionManager:
    """What keeps the sessions of FastMCP's HTTP application, which exists once that has started."""
    from fastmcp.server.http import StreamableHTTPASGIApp

    for route in app.routes:
        endpoint = getattr(route, "endpoint", None)
        while not isinstance(endpoint, StreamableHTTPASGIApp) and endpoint is not None:
            endpoint = getattr(endpoint, "app", None)  # what checks tokens has the endpoint inside
        if endpoint is not None and endpoint.session_manager is not None:
            return endpoint.session_manager
    raise RuntimeError("FastMCP's HTTP application has no session manager")
