"""What callers are told of a server that is down or slow: which one, what happened, whether to try again; no secrets.

Every text is made here, of the server's name and of what this process has seen. Nothing of what the server wrote, of
its arguments, its environment, its URL or its headers is in any of them.
"""

from __future__ import annotations

import math
import signal
from contextlib import suppress
from typing import Final

from codecall.errors import ServerTimeoutError, ServerUnavailableError

ServerError = ServerUnavailableError | ServerTimeoutError
"""What a call of a server behind the gateway raises when the server, not the tool, is the trouble."""

SERVER_ERRORS: Final = (ServerUnavailableError, ServerTimeoutError)

_MAY_HAVE = "The call may have taken effect. The server is started anew by the next call; check before you repeat it."
_TELLS = "`codecall doctor` tells what it wrote last."


class Why(Exception):  # noqa: N818 - carries a reason, not an error
    """Why a connection could not be made; its text is made for callers."""


def not_started(server: str, why: str, again_s: float) -> ServerUnavailableError:
    """It could not be started or reached; the next try may be made in `again_s` seconds."""
    return _unavailable(server, f"Server '{server}' is not available: {why}", f"{_again(again_s)} {_TELLS}", again_s)


def backing_off(server: str, why: str, again_s: float) -> ServerUnavailableError:
    """It failed a moment ago and is not tried yet."""
    message = f"Server '{server}' is not available: {why}. It is tried again in {_seconds(again_s)}"
    return _unavailable(server, message, f"{_again(again_s)} {_TELLS}", again_s)


def ended(server: str, why: str) -> ServerUnavailableError:
    """Its connection ended with a call under way."""
    return _unavailable(server, f"Server '{server}' {why} while the call was under way", _MAY_HAVE)


def refused(server: str, why: str) -> ServerUnavailableError:
    """What is in front of it, or its transport, refused the call."""
    return _unavailable(server, f"Server '{server}' {why} instead of taking the call", f"Call again. {_TELLS}")


def closed(server: str) -> ServerUnavailableError:
    """The gateway itself is ending."""
    return _unavailable(server, f"Server '{server}' was stopped: the gateway is ending", "Call again when it is back.")


def crowded(server: str, most: int) -> ServerUnavailableError:
    """As many clients as may have a connection of their own."""
    message = f"Server '{server}' has {most} connections, one for each client, and takes no more"
    return _unavailable(server, message, "Call again when another client has gone.")


def listed_too_much(server: str, most: str) -> ServerUnavailableError:
    """Nobody can use that much."""
    return _unavailable(server, f"Server '{server}' lists more than {most}", "It is not used; ask who runs it.")


def timed_out(server: str, seconds: float) -> ServerTimeoutError:
    """It did not answer a call in time."""
    return ServerTimeoutError(
        f"Server '{server}' did not answer within {_seconds(seconds)}; the call was cancelled",
        tool_name=server,
        hint="It may still have taken effect. Ask for less at once, or raise the server's `call_timeout_s`.",
    )


def text_of(error: ServerError) -> str:
    """What a client reads that called the tool itself: code, message and hint."""
    return f"{error.code}: {error.message}.{f' {error.hint}' if error.hint else ''}"


def exit_text(code: int | None) -> str:
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


def _again(seconds: float) -> str:
    return f"Call again in {_seconds(seconds)}." if seconds > 0 else "Call again."


def _seconds(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds > 1 else f"{seconds:.3g} s"
