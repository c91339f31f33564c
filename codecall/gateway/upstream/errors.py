"""What callers are told of a server that is down or slow: which one, what happened, whether to try again; no secrets.

Every text is made here, of the server's name and of what this process has seen. Nothing of what the server wrote, of
its arguments, its environment, its URL or its headers is in any of them.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, cast

import mcp_types
from fastmcp import Context
from fastmcp.exceptions import FastMCPError
from mcp import ClientSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.errors import CodeCallError, ServerTimeoutError, ServerUnavailableError

# ----------------------------------------------------------------------------------------------------
# What callers are told of a server that is down or slow: which one, what happened, whether to try again; no secrets.

ServerError = ServerUnavailableError | ServerTimeoutError
"""What a call of a server behind the gateway raises when the server, not the tool, is the trouble."""

SERVER_ERRORS: Final = (ServerUnavailableError, ServerTimeoutError)

_MAY_HAVE = "The call may have taken effect. The server is started anew by the next call; check before you repeat it."
_AGAIN = "Call again"
_TELLS = "`codecall doctor` tells what it wrote last."
UNREACHABLE_ADVICE: Final = "Is the server up, and the address right?"
"""What to ask about a URL that does not answer as it should."""


class ConnectFailure(Exception):  # noqa: N818 - carries a reason, not an error
    """Why a connection could not be made; its text is made for callers.

    Args:
        text: the reason.
        advice: what to do about it, as a sentence; empty: try again.
    """

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.advice = advice


def start_error(
    server: str, reason: str, retry_after_s: float, *, advice: str, has_stderr: bool
) -> ServerUnavailableError:
    """It could not be started or reached; the next try may be made in `again_s` seconds.

    Args:
        server: its name.
        why: the reason.
        again_s: as above.
        advice: what to do about it; empty: try again.
        wrote: its program ran and wrote something to stderr.
    """
    hint = _hint(retry_after_s, advice, wrote=has_stderr)
    return _unavailable(server, f"Server '{server}' is not available: {reason}", hint, retry_after_s)


def backoff_error(
    server: str, reason: str, retry_after_s: float, *, advice: str, has_stderr: bool
) -> ServerUnavailableError:
    """It failed a moment ago and is not tried yet; the arguments are those of `start_error`."""
    message = f"Server '{server}' is not available: {reason}. It is tried again in {_soon(retry_after_s)}"
    return _unavailable(server, message, _hint(retry_after_s, advice, wrote=has_stderr), retry_after_s)


def connection_ended_error(server: str, reason: str) -> ServerUnavailableError:
    """Its connection ended with a call under way."""
    return _unavailable(server, f"Server '{server}' {reason} while the call was under way", _MAY_HAVE)


def request_refused_error(server: str, reason: str) -> ServerUnavailableError:
    """What is in front of it, or its transport, refused the call."""
    return _unavailable(
        server, f"Server '{server}' {reason} instead of taking the call", f"Call again. {UNREACHABLE_ADVICE}"
    )


def gateway_closing_error(server: str) -> ServerUnavailableError:
    """The gateway itself is ending."""
    return _unavailable(server, f"Server '{server}' was stopped: the gateway is ending", "Call again when it is back.")


def too_many_clients_error(server: str, limit: int) -> ServerUnavailableError:
    """As many clients as may have a connection of their own."""
    message = f"Server '{server}' has {limit} connections, one for each client, and takes no more"
    return _unavailable(server, message, "Call again when another client has gone.")


def listing_too_large_error(server: str, limit: str) -> ServerUnavailableError:
    """Nobody can use that much."""
    return _unavailable(server, f"Server '{server}' lists more than {limit}", "It is not used; ask who runs it.")


def call_timeout_error(server: str, seconds: float) -> ServerTimeoutError:
    """It did not answer a call in time."""
    return ServerTimeoutError(
        f"Server '{server}' did not answer within {_seconds(seconds)}; the call was cancelled",
        tool_name=server,
        hint="It may still have taken effect. Ask for less at once, or raise the server's `call_timeout_s`.",
    )


def repair_advice(error: CodeCallError) -> str:
    """What its hint says is to be mended; empty: it only says when to try again."""
    hint = error.hint or ""
    return "" if hint.startswith(_AGAIN) else hint


def error_text(error: ServerError) -> str:
    """What a client reads that called the tool itself: code, message and hint."""
    return f"{error.code}: {error.message}.{f' {error.hint}' if error.hint else ''}"


def describe_exit(code: int | None) -> str:
    """How a process ended, as in `ended (exit code 1)`."""
    if code is None:
        return "closed its output"
    if code >= 0:
        return f"ended (exit code {code})"
    with suppress(ValueError):
        return f"ended (killed by {signal.Signals(-code).name})"
    return f"ended (killed by signal {-code})"


def _unavailable(server: str, message: str, hint: str, again_s: float | None = None) -> ServerUnavailableError:
    retry = None if again_s is None else math.ceil(again_s * 1000)
    return ServerUnavailableError(message, tool_name=server, hint=hint, retry_after_ms=retry)


def _hint(again_s: float, advice: str, *, wrote: bool) -> str:
    """Trying again helps only where there is nothing to mend first."""
    again = advice or (f"{_AGAIN} in {_soon(again_s)}." if again_s > 0 else f"{_AGAIN}.")
    return f"{again} {_TELLS}" if wrote else again


def _soon(seconds: float) -> str:
    return f"{math.ceil(seconds) if seconds > 1 else math.ceil(seconds * 10) / 10:g} s"


def _seconds(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds > 1 else f"{seconds:.3g} s"


# ----------------------------------------------------------------------------------------------------
# What every call that is passed on to a server shares: what goes with it, and how its failure is told.

CONNECTION_META_KEYS: Final = frozenset(
    {
        mcp_types.PROTOCOL_VERSION_META_KEY,
        mcp_types.CLIENT_INFO_META_KEY,
        mcp_types.CLIENT_CAPABILITIES_META_KEY,
        mcp_types.SERVER_INFO_META_KEY,
        "progressToken",
        "progress_token",
    }
)
"""Keys of `_meta` that mean something on one connection only."""


@contextmanager
def raise_server_errors_as(kind: type[FastMCPError]) -> Generator[None]:
    """What is wrong with the server, raised as FastMCP shows it to clients, and with its cause."""
    try:
        yield
    except SERVER_ERRORS as failure:
        raise kind(error_text(failure)) from failure


def forwarded_meta(context: Context) -> mcp_types.RequestParamsMeta | None:
    """What the client's request says besides its parameters, but for what is about his connection."""
    request = context.request_context
    if request is None or not request.meta:
        return None
    meta = {key: value for key, value in request.meta.items() if key not in CONNECTION_META_KEYS}
    return cast("mcp_types.RequestParamsMeta", meta) if meta else None


def is_modern(session: ClientSession) -> bool:
    """Whether the server answers with questions instead of asking them while a call is under way (2026-07-28)."""
    return session.protocol_version in MODERN_PROTOCOL_VERSIONS
