"""Errors of a server that is down or slow, as callers see them: which server, what happened, whether to try again.

Every text is made here, of the server's name and of what this process has seen. It holds no secrets: nothing of what
the server wrote (`last_words` aside), of its arguments, its environment, its URL or its headers is in any. Below are
the parts of a call that all kinds of components share: what of a request goes with it, and how its failure is raised.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Final, NamedTuple, cast

import mcp_types
from fastmcp import Context
from fastmcp.exceptions import FastMCPError
from mcp import ClientSession
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.errors import CodeCallError, InputRequiredError, ServerTimeoutError, ServerUnavailableError
from codecall.fastmcp_errors import UNREADABLE_HINT
from codecall.globs import display_name

ServerError = ServerUnavailableError | ServerTimeoutError
"""What a call of a server behind the gateway raises when the server, not the tool, is the trouble."""

SERVER_ERRORS: Final = (ServerUnavailableError, ServerTimeoutError)

_MAY_HAVE = "The call may have taken effect: check before you repeat it."
_AGAIN = "Call again"
_SESSION_STATUSES: Final = frozenset({401, 403, 404, 407, 410})
_NOT_NOW: Final = frozenset({408, 425, 429})
_NOT_TAKEN: Final = frozenset({501, 503})
"""Statuses from 500 on of a server that has not begun with a request; with others it may have done it."""
_STDERR_HINT = "`codecall doctor` tells what it wrote last."
OTHER_OUTPUT: Final = "; it wrote what is no MCP to its standard output"
"""Ends the reason why a program could not be used that prints there, as servers must not."""
OUTPUT_ADVICE: Final = (
    "Have it print nothing there but MCP: what it logs belongs to its standard error. Or the command is no MCP server."
)
"""What to do about a program that prints to its standard output."""
UNREACHABLE_ADVICE: Final = "Is the server up, and the address right?"
"""What to ask about a URL that does not answer as it should."""
NO_ENDPOINT_ADVICE: Final = (
    "Nothing of MCP answers at this path: `url` has to be that of the server's MCP endpoint, such as https://host/mcp."
)
"""What to do about a URL where something else answers."""

_HANDSHAKE_HINT: Final = (
    "Whoever runs the gateway can set `handshake = true` in the options of this server: an earlier version of MCP is "
    "spoken with it then, in which it can ask."
)
_OLDER_CLIENT_HINT: Final = (
    "It can ask clients of an earlier version of MCP; those of 2026-07-28 it has to ask in its answer "
    "(`InputRequiredResult`)."
)
_CANNOT_ASK: Final = re.compile(
    r"elicitation via server-initiated requests is unavailable|no back-channel for server-initiated requests"
)
"""How FastMCP and the MCP SDK say that on this connection a server asks nothing while a call is under way."""

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


class Refusal(NamedTuple):
    """Why a request was not answered."""

    reason: str
    """What happened, after the name of the server."""
    advice: str
    """What to do about it."""
    status: int = 0
    """Of HTTP, if that is why."""


class ConnectFailureError(Exception):
    """A connection could not be made; the text is the reason, in words for callers.

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
    """The error of a server that could not be started or reached.

    Args:
        server: its name.
        reason: why it could not.
        retry_after_s: seconds until the next try may be made.
        advice: what to do about it; empty: try again.
        has_stderr: whether its program ran and wrote something to stderr.
    """
    hint = _hint(retry_after_s, advice, has_stderr=has_stderr)
    return _unavailable(server, f"Server '{server}' is not available: {reason}", hint, retry_after_s)


def backoff_error(
    server: str, reason: str, retry_after_s: float, *, advice: str, has_stderr: bool
) -> ServerUnavailableError:
    """The error of a server that failed a moment ago and is not tried yet; the arguments are those of `start_error`."""
    message = f"Server '{server}' is not available: {reason}. It is tried again in {_soon(retry_after_s)}"
    return _unavailable(server, message, _hint(retry_after_s, advice, has_stderr=has_stderr), retry_after_s)


def connection_ended_error(server: str, reason: str, *, sent: bool = True) -> ServerUnavailableError:
    """The error of a call under way when the connection ended, or one that had not been sent yet."""
    if not sent:
        return _unavailable(server, f"Server '{server}' {reason}; the call was not sent", f"{_AGAIN}.")
    return _unavailable(server, f"Server '{server}' {reason} while the call was under way", _MAY_HAVE)


def is_message_refused(status: int) -> bool:
    """Whether an HTTP status says that one message was not taken, whatever happens to others."""
    return 400 <= status < 500 and status not in _SESSION_STATUSES


def request_refused_error(server: str, refusal: Refusal, *, sent: bool = False) -> ServerUnavailableError:
    """The error of a call that the transport, or a proxy before the server, refused.

    Args:
        server: its name.
        refusal: how.
        sent: whether it may have been taken all the same.
    """
    reason, advice, status = refusal
    if sent and status not in _NOT_TAKEN:
        return connection_ended_error(server, reason)
    if is_message_refused(status):
        hint = "The server does not take what this call sends: send something else."
        if status in _NOT_NOW:
            hint = f"{_AGAIN} later."
        elif status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            hint = "The server takes no message of this size: send less."
        return _unavailable(server, f"Server '{server}' {reason}: the call was refused, and not done", hint)
    return _unavailable(server, f"Server '{server}' {reason} instead of taking the call", f"{_AGAIN}. {advice}")


def cannot_ask_error(server: str, text: str, *, is_program: bool) -> InputRequiredError | None:
    """The error of a call whose own error says that the server cannot ask anything meanwhile; None for other errors.

    Args:
        server: its name.
        text: of the error that the server answered with.
        is_program: whether it is a program, whose version of MCP the option `handshake` chooses.
    """
    if _CANNOT_ASK.search(text) is None:
        return None
    return InputRequiredError(
        f"Server '{server}' asks the client while a call is under way, which MCP 2026-07-28 does not allow; "
        "the call failed",
        tool_name=server,
        hint=_HANDSHAKE_HINT if is_program else _OLDER_CLIENT_HINT,
    )


def unreadable_answer_error(server: str, reason: str) -> ServerUnavailableError:
    """The error of a call whose answer is not of the protocol, or too large to be read."""
    return _unavailable(server, f"Server '{server}' gave an answer that cannot be read: {reason}", UNREADABLE_HINT)


def gateway_closing_error(server: str) -> ServerUnavailableError:
    """The error of a call while the gateway itself is ending."""
    return _unavailable(server, f"Server '{server}' was stopped: the gateway is ending", "Call again when it is back.")


def too_many_clients_error(server: str, limit: int) -> ServerUnavailableError:
    """The error for one client more than may have a connection of its own."""
    message = f"Server '{server}' has {limit} connections, one for each client, and takes no more"
    return _unavailable(server, message, "Call again when another client has gone.")


def listing_too_large_error(server: str, limit: str) -> ServerUnavailableError:
    """The error of a server that lists more than can be used."""
    return _unavailable(server, f"Server '{server}' lists more than {limit}", "It is not used; ask who runs it.")


def call_timeout_error(server: str, seconds: float, *, sent: bool = True) -> ServerTimeoutError:
    """The error of a call that the server did not answer in time, or one that waited as long to be sent."""
    if not sent:
        waited = f"Server '{server}' took no call within {_seconds(seconds)}; this one was not sent"
        return ServerTimeoutError(waited, tool_name=server, hint=f"{_AGAIN}.")
    return ServerTimeoutError(
        f"Server '{server}' did not answer within {_seconds(seconds)}; the call was cancelled",
        tool_name=server,
        hint="It may still have taken effect. Ask for less at once, or raise the server's `call_timeout_s`.",
    )


def status_advice(status: int, credentials: str) -> str:
    """What to do about a server that answers its first request with an HTTP status.

    Args:
        status: the status.
        credentials: which credentials are configured, in words; empty: none.
    """
    if status in (401, 403):
        given = f"It refuses what is configured: {credentials}." if credentials else "No credentials are configured."
        return f'{given} Give those that it takes: `headers`, `auth` with a token, or auth = "oauth" to sign in.'
    if status in (404, 405, 406, 410, 415):
        return NO_ENDPOINT_ADVICE
    if status >= 500:
        return "Something answers there and fails: look into the log of the server, or of the proxy before it."
    return UNREACHABLE_ADVICE


def repair_advice(error: CodeCallError) -> str:
    """What its hint says is to be repaired; empty where the hint only says when to try again."""
    hint = error.hint or ""
    return "" if hint.startswith(_AGAIN) else hint


def error_text(error: CodeCallError) -> str:
    """The text for a client that called the tool itself: code, message and hint."""
    return f"{error.code}: {error.message}.{f' {error.hint}' if error.hint else ''}"


def last_words(stderr: Sequence[str]) -> str:
    """The last of these lines as the end of a sentence, for the operator alone; empty where there is none."""
    last_line = next((line.strip() for line in reversed(stderr) if line.strip()), "")
    return f"; it wrote last: {display_name(last_line)}" if last_line else ""


def describe_exit(code: int | None) -> str:
    """Say how a process ended, as in `ended (exit code 1)`; None: its output ended first."""
    if code is None:
        return "closed its output"
    if code >= 0:
        return f"ended (exit code {code})"
    with suppress(ValueError):
        return f"ended (killed by {signal.Signals(-code).name})"
    return f"ended (killed by signal {-code})"


def _unavailable(server: str, message: str, hint: str, retry_after_s: float | None = None) -> ServerUnavailableError:
    milliseconds = None if retry_after_s is None else math.ceil(retry_after_s * 1000)
    return ServerUnavailableError(message, tool_name=server, hint=hint, retry_after_ms=milliseconds)


def _hint(retry_after_s: float, advice: str, *, has_stderr: bool) -> str:
    """Advise to try again only where there is nothing to repair first."""
    again = advice or (f"{_AGAIN} in {_soon(retry_after_s)}." if retry_after_s > 0 else f"{_AGAIN}.")
    return f"{again} {_STDERR_HINT}" if has_stderr else again


def _soon(seconds: float) -> str:
    return f"{math.ceil(seconds) if seconds > 1 else math.ceil(seconds * 10) / 10:g} s"


def _seconds(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds > 1 else f"{seconds:.3g} s"


def causes_of(failure: BaseException) -> Iterator[BaseException]:
    """`failure`, the exceptions in it, and those it was raised from."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [failure]
    while waiting:
        cause = waiting.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__context__, cause.__cause__]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", cause).exceptions


@contextmanager
def raise_server_errors_as(kind: type[FastMCPError]) -> Generator[None]:
    """Within this, errors of the server, and questions of it that nobody answers, are raised as `kind`, which FastMCP
    shows to clients, with their cause."""
    try:
        yield
    except (*SERVER_ERRORS, InputRequiredError) as failure:
        raise kind(error_text(failure)) from failure


def forwarded_meta(context: Context) -> mcp_types.RequestParamsMeta | None:
    """The `_meta` of the client's request that goes on to the server: without what concerns the client's connection."""
    request = context.request_context
    if request is None or not request.meta:
        return None
    meta = {key: value for key, value in request.meta.items() if key not in CONNECTION_META_KEYS}
    return cast("mcp_types.RequestParamsMeta", meta) if meta else None


def is_modern(session: ClientSession) -> bool:
    """Whether the session speaks MCP 2026-07-28, in which servers answer with questions instead of asking them while a
    call is under way."""
    return session.protocol_version in MODERN_PROTOCOL_VERSIONS
