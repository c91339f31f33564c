"""From the bytes of a server's message to the message: counted before it is parsed, and repaired where that is safe.

A little JSON may be very many values: `[[],[],…]` of 30 MiB would take gigabytes and stop everything for seconds. So
what separates values is counted first, which is quick. Half of a character (`"\\ud800"`, as programs write that cut a
text in the middle of an emoji) becomes U+FFFD. A response that cannot be read is replaced by an error response, so that
nobody waits for it until the time of the call is up. `Throttle` slows down a server that sends more than anybody can
use: the rest waits, and none is lost.
"""

from __future__ import annotations

import re
from typing import Final

import anyio
import anyio.lowlevel
import mcp_types
from mcp_types import JSONRPCError, JSONRPCMessage
from pydantic import ValidationError

MAX_MESSAGE_VALUES: Final = 200_000
"""Values and names one message may have, counted by its commas, colons and opening brackets."""

IN_THREAD_BYTES: Final = 256 * 1024
"""Larger messages are parsed in a thread."""

TOO_MANY_VALUES: Final = f"it has more than {MAX_MESSAGE_VALUES:,} values"

_MARKS: Final = (b",", b":", b"[", b"{")
_SURROGATE_ESCAPES: Final = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u(?:([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""Surrogates as escapes: a pair, in the second group, or half of one."""

_EDGE: Final = 2048
"""Bytes at both ends of a response in which its id is looked for."""
_RESULT: Final = re.compile(rb'"(?:result|error)"\s*:')
_ID: Final = re.compile(rb'"id"\s*:\s*(?:(-?\d{1,18})|"([^"\\]{1,128})")')
_ID_LAST: Final = re.compile(_ID.pattern + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

MAX_LINES_PER_S: Final = 20_000
"""Lines that are no messages, read of a program in a second."""

_YIELD_EVERY: Final = 100
"""Events after which other tasks get a turn."""


class TooManyValuesError(Exception):
    """A message that is no response has more than `MAX_MESSAGE_VALUES`."""


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """Parse the message in this line; an error response in place of a response that cannot be read; None: no message.

    Raises:
        TooManyValuesError: it has too many values and is no response.
    """
    if not is_within_value_limit(line):
        if (response_id := find_response_id(line)) is None:
            raise TooManyValuesError
        return unreadable_response(response_id, TOO_MANY_VALUES)
    try:
        return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        if not line.lstrip().startswith(b"{"):
            return None
    try:
        repaired = replace_lone_surrogates(line.decode("utf-8", "replace").encode())
        return mcp_types.jsonrpc_message_adapter.validate_json(repaired, by_name=False)
    except ValidationError as failure:
        if b'"jsonrpc"' not in line or (response_id := find_response_id(line)) is None:
            return None
        error = failure.errors(include_url=False, include_input=False)[0]
        reason = error["msg"] if error["type"] == "json_invalid" else "it is no valid message"
        return unreadable_response(response_id, reason)


def is_within_value_limit(data: bytes) -> bool:
    """Whether a message has at most `MAX_MESSAGE_VALUES` values. What stands in its strings does not count."""
    if len(data) <= MAX_MESSAGE_VALUES or _count_marks(data) <= MAX_MESSAGE_VALUES:
        return True
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    # Each value and each name has two quotes at most.
    if unescaped.count(b'"') > 4 * MAX_MESSAGE_VALUES:
        return False
    return _count_marks(b"".join(unescaped.split(b'"')[::2])) <= MAX_MESSAGE_VALUES


def replace_lone_surrogates(data: bytes) -> bytes:
    """JSON, or events of it, with U+FFFD in place of halves of characters that are escaped alone."""
    if rb"\ud" not in data and rb"\uD" not in data:
        return data
    return _SURROGATE_ESCAPES.sub(lambda match: match[0] if match[2] else match[1] + rb"\ufffd", data)


def find_response_id(data: bytes) -> mcp_types.RequestId | None:
    """The id of the request that this is the response to, wherever in it that stands; None: it is no response."""
    head = data[:_EDGE]
    if (result := _RESULT.search(head)) is None:
        return None
    before = head[: result.start()]
    match = _ID.search(before) or _ID_LAST.search(data[-_EDGE:].rstrip())
    if match is None or b'"method"' in before:
        return None
    return int(match[1]) if match[1] is not None else match[2].decode("utf-8", "replace")


def unreadable_response(request_id: mcp_types.RequestId, reason: str) -> JSONRPCError:
    """The error response in place of a response that was not read."""
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=f"The server's answer was not read: {reason}")
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _count_marks(data: bytes) -> int:
    return sum(map(data.count, _MARKS))


class Throttle:
    """Lets so many events pass in a second.

    Args:
        per_s: how many; at least 1.
    """

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._second_began = 0.0
        self._count = 0

    async def wait(self) -> bool:
        """Count one event; wait for the next second if it was the last of this one, and say whether that was needed."""
        held = False
        self._count += 1
        if self._count >= self._per_s:
            now = anyio.current_time()
            if held := now - self._second_began < 1:
                await anyio.sleep_until(self._second_began + 1)
            self._second_began, self._count = anyio.current_time(), 0
        elif self._count == 1:
            self._second_began = anyio.current_time()
        elif self._count % _YIELD_EVERY == 0:
            await anyio.lowlevel.checkpoint()
            if anyio.current_time() - self._second_began >= 1:
                self._count = 0
        return held
