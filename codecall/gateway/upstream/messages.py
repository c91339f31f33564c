"""From the bytes of a server's message to the message: counted before it is parsed, and repaired where that is safe.

A little JSON may be very many values: `[[],[],…]` of 30 MiB would take gigabytes and stop everything for seconds. So
what separates values is counted first, which is quick, and so are the levels of nesting: each time the garbage
collector looks at 190,000 arrays, it takes fifty times as long where they stand 180 deep in each other as where they
stand side by side. Half of a character (`"\\ud800"`, as programs write that cut a
text in the middle of an emoji) becomes U+FFFD. A response that cannot be read is replaced by an error response, so that
nobody waits for it until the time of the call is up. `Throttle` slows down a server that sends more than anybody can
use: the rest waits, and none is lost.

JSON is read first, and held against the kinds of messages as an object: pydantic, given the text, reads it once for
each kind, and once more for each error, which takes a second for 255 KB of `[[],[],…]` that are no message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import anyio
import anyio.lowlevel
import mcp_types
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest
from pydantic import ValidationError
from pydantic_core import from_json

from codecall.jsonio.check import replace_lone_surrogates

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Bytes one message of a server may have."""

MAX_MESSAGE_VALUES: Final = 200_000
"""Values and names one message may have, counted by its commas, colons and opening brackets."""

MAX_MESSAGE_LEVELS: Final = 300_000
"""Levels of nesting in one message, those in each of its objects and arrays added up: `[[],[[]]]` has seven, three
of the outermost array, one and two of those in it, and one of the innermost. A row that holds a list has three."""

MAX_DIGITS: Final = 400
"""Digits in a row in one number, of an MCP server or a REST API: reading and writing an integer takes the square of its
digits. A double that is written out in full has 309 before the point, or 324 behind it, or fewer. To write 64 MiB of
integers for a client takes 3.6 s with 4,300 digits, 1 s with 1,000, and 0.6 s with 400; of texts, 0.4 s."""

_LONG_DIGITS: Final = 19
_LONG_VALUES: Final = 4
"""What so many digits in a row count beside the number that they are in: pydantic takes ten times as long to write an
integer that is beyond 64 bits."""

MAX_UNSOLICITED_VALUES: Final = 50_000
MAX_UNSOLICITED_BYTES: Final = 4 * 1024 * 1024
"""As many of a message that is no answer: a request or a notification of the server."""

VALUES_PER_S: Final = 200_000
"""Values in a second of all messages of one connection that nobody waits for, and of what is no message."""

_BYTES_PER_VALUE: Final = 64
"""Bytes that count as much as one value."""

MAX_ERROR_CHARS: Final = 64 * 1024
"""Characters of the text of a server's error: logs and clients get it as a whole."""

_NOT_READ: Final = "The server's answer was not read: "
_SDK_NOT_READ: Final = re.compile(r"\AFailed to parse (?:JSON response|SSE message): ")
"""Begins the SDK's text for a body that is no message, or whose reading failed."""
_NO_MESSAGE: Final = "it is no valid message"
"""Why an answer is not read that is not of the protocol."""
_MAX_REASON_CHARS: Final = 1_000
"""Characters of the longest reason: a server may write one itself."""

IN_THREAD_BYTES: Final = 256 * 1024
"""Larger messages are parsed in a thread."""

VALUE_MARKS: Final = (b",", b":", b"[", b"{")
"""What stands before each value and name of JSON, but for the outermost."""

_LOST: Final = "SSE stream ended without a response"
_LOST_FOR_GOOD: Final = "SSE stream ended and reconnection attempts were exhausted"
"""What the SDK writes where an answer does not come over HTTP."""

_DEEPEST: Final = 255
"""Levels of nesting that may be read at all, or more."""
_ONE_BRACKET: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_ONE_DIGIT: Final = bytes.maketrans(b"123456789", b"000000000")

_PIECE: Final = 256 * 1024
"""Bytes that are taken apart at once."""

_EDGE: Final = 2048
"""Bytes at both ends of a response in which its id is looked for."""
_RESULT: Final = re.compile(rb'"(?:result|error)"\s*:')
_ID: Final = re.compile(rb'"id"\s*:\s*(?:(-?\d{1,18})|"([^"\\]{1,128})")')
_OWN_ID: Final = re.compile(rb'\{"jsonrpc":"2.0",' + _ID.pattern + rb',"method":')
_ID_LAST: Final = re.compile(_ID.pattern + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

MAX_LINES_PER_S: Final = 20_000
"""Lines that are no messages, read of a program in a second."""

_YIELD_EVERY: Final = 100
"""Events after which other tasks get a turn."""


class TooLargeError(Exception):
    """A message that is no response has too many values or bytes; the text says how many it may have."""


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """Parse the message in this line; an error response in place of a response that cannot be read; None: no message,
    or one with a long number that is no response.

    Raises:
        TooLargeError: it has too many values or bytes, and is no response.
    """
    excess = find_excess(line)
    if (reason := excess or find_long_number(line)) is not None:
        if (response_id := find_response_id(line)) is not None:
            return unreadable_response(response_id, f"it has more than {reason}")
        if excess is not None:
            raise TooLargeError(excess)
        return None
    try:
        message = _read_message(line)
    except ValueError as failure:
        if not line.lstrip().startswith(b"{"):
            return None
        message = _repaired_message(line, failure)
    if isinstance(message, JSONRPCRequest | JSONRPCNotification):
        if len(line) > MAX_UNSOLICITED_BYTES:
            raise TooLargeError(f"{MAX_UNSOLICITED_BYTES // 2**20} MiB that is no answer")
        if not is_within_value_limit(line, MAX_UNSOLICITED_VALUES):
            raise TooLargeError(f"{MAX_UNSOLICITED_VALUES:,} values that is no answer")
    return message


def _read_message(line: bytes) -> JSONRPCMessage:
    return mcp_types.jsonrpc_message_adapter.validate_python(from_json(line), by_name=False)


def _repaired_message(line: bytes, failure: ValueError) -> JSONRPCMessage | None:
    """The message in a line that could not be read as it is, or the response in its place; None: it is none."""
    if not isinstance(failure, ValidationError):
        try:
            return _read_message(replace_lone_surrogates(line.decode("utf-8", "replace").encode()))
        except ValueError as again:
            failure = again
    if b'"jsonrpc"' not in line or (response_id := find_response_id(line)) is None:
        return None
    invalid = isinstance(failure, ValidationError)
    return unreadable_response(response_id, _NO_MESSAGE if invalid else f"Invalid JSON: {failure}")


def find_excess(data: bytes, values: int = MAX_MESSAGE_VALUES, levels: int = MAX_MESSAGE_LEVELS) -> str | None:
    """How much of what a message, or a part of one, may have, if it has more: `200,000 values`."""
    if not is_within_value_limit(data, values):
        return f"{values:,} values"
    few = len(_brackets(data)) // 2 * _DEEPEST <= levels  # even with those in strings
    return None if few or count_levels(data, levels) <= levels else f"{levels:,} levels of nesting, added up"


def find_long_number(data: bytes) -> str | None:
    """How many digits a number in JSON may have, if one has more: `400 digits in a number`."""
    long = _count_digits(data, MAX_DIGITS + 1) and _count_digits(outside_strings(data), MAX_DIGITS + 1)
    return f"{MAX_DIGITS} digits in a number" if long else None


def count_values(data: bytes) -> int:
    """The values and names in JSON; a number of 19 digits or more counts as several, if no piece cuts it."""
    return sum(
        _count_marks(piece) + _LONG_VALUES * _count_digits(piece, _LONG_DIGITS)
        for piece in _pieces_outside_strings(_without_escapes(data))
    )


def _count_digits(data: bytes, many: int) -> int:
    """How often so many digits stand in a row."""
    return data.translate(_ONE_DIGIT).count(b"0" * many) if len(data) >= many else 0


def count_levels(data: bytes, limit: int) -> int:
    """The levels of nesting in JSON, as `MAX_MESSAGE_LEVELS` counts them; of more than `limit`, some number above."""
    brackets, levels = _brackets(outside_strings(data)), 0
    while brackets and levels <= limit:
        levels += len(brackets) // 2
        inner = brackets.replace(b"[]", b"")
        if len(inner) == len(brackets):  # it is no JSON
            break
        brackets = inner
    return levels


def _brackets(data: bytes) -> bytes:
    return data.translate(_ONE_BRACKET, _NO_BRACKETS)


def is_within_value_limit(data: bytes, limit: int = MAX_MESSAGE_VALUES) -> bool:
    """Whether a message has at most so many values. What stands in its strings does not count."""
    if len(data) <= limit or _count_marks(data) <= limit:
        return True
    unescaped = _without_escapes(data)
    if unescaped.count(b'"') > 4 * limit:  # each value and each name has two at most
        return False
    values = 0
    for piece in _pieces_outside_strings(unescaped):
        values += _count_marks(piece)
        if values > limit:
            return False
    return True


def outside_strings(data: bytes) -> bytes:
    """JSON without what stands in its strings."""
    return b"".join(_pieces_outside_strings(_without_escapes(data)))


def _without_escapes(data: bytes) -> bytes:
    """JSON whose strings have no quotes of their own."""
    return data.replace(rb"\\", b"").replace(rb"\"", b"")


def _pieces_outside_strings(unescaped: bytes) -> Iterator[bytes]:
    """JSON with its strings emptied, a piece at a time: to take millions of strings apart at once holds the interpreter
    for half a second."""
    within = 0  # a string: 1, else 0
    for start in range(0, len(unescaped), _PIECE):
        parts = unescaped[start : start + _PIECE].split(b'"')
        outside = b'""'.join(parts[within::2])
        yield b'""' + outside if within and len(parts) > 1 else outside
        within = (within + len(parts) - 1) % 2


def message_cost(data: bytes) -> int:
    """What it costs to read a message, in values. What stands in its strings counts, too."""
    return 1 + _count_marks(data) + len(data) // _BYTES_PER_VALUE


def shorten_error(error: JSONRPCError) -> None:
    """Cut the text of an error that is too long, and say so there."""
    error.error.message = shorten(error.error.message, MAX_ERROR_CHARS)


def shorten(text: str, limit: int) -> str:
    """The text of an error, cut after `limit` characters with a mark that says how many are left out."""
    left_out = len(text) - limit
    return f"{text[:limit]}…[truncated {left_out} characters]" if left_out > 0 else text


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


def lost_response(request_id: mcp_types.RequestId) -> JSONRPCError:
    """The error response in place of one that does not come, as the SDK makes it."""
    error = mcp_types.ErrorData(code=mcp_types.CONNECTION_CLOSED, message=_LOST)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def is_lost(error: mcp_types.ErrorData) -> bool:
    """Whether an error stands in place of an answer that does not come over HTTP."""
    return error.code == mcp_types.CONNECTION_CLOSED and error.message in (_LOST, _LOST_FOR_GOOD)


def find_request_id(data: bytes) -> mcp_types.RequestId | None:
    """The id of a request of the SDK's, which stands before all that may be of somebody else; None: it is none."""
    match = _OWN_ID.match(data)
    return None if match is None else int(match[1]) if match[1] is not None else match[2].decode()


def unreadable_response(request_id: mcp_types.RequestId, reason: str) -> JSONRPCError:
    """The error response in place of a response that was not read."""
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=f"{_NOT_READ}{reason}")
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def unreadable_reason(error: mcp_types.ErrorData) -> str | None:
    """Why a response was not read, if `error` stands in its place."""
    text = _SDK_NOT_READ.sub("", error.message) if error.code == mcp_types.PARSE_ERROR else ""
    if text.startswith(_NOT_READ):
        return shorten(text.removeprefix(_NOT_READ), _MAX_REASON_CHARS)
    return _NO_MESSAGE if text and text != error.message else None


def _count_marks(data: bytes) -> int:
    return sum(map(data.count, VALUE_MARKS))


class Throttle:
    """Lets so much pass in a second: events, or what they cost.

    Args:
        per_s: how much; at least 1.
    """

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._second_began = 0.0
        self._count = 0
        self._events = 0

    async def wait(self, amount: int = 1) -> bool:
        """Count one event, which may be as much as several; wait until its time where that makes too much of a second,
        and say whether that was needed."""
        if not self._count:
            self._second_began = anyio.current_time()
        held = False
        self._count += amount
        self._events += 1
        if self._count >= self._per_s:
            due = self._second_began + self._count / self._per_s
            if held := anyio.current_time() < due:
                await anyio.sleep_until(due)
            self._count = 0
        elif self._events % _YIELD_EVERY == 0:
            await anyio.lowlevel.checkpoint()
            if anyio.current_time() - self._second_began >= 1:
                self._count = 0
        return held
