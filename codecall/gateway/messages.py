"""From the bytes of a server's message to the message: counted before it is parsed, and mended where that is safe.

A little JSON may be very many values: `[[],[],…]` of 30 MiB would take gigabytes and stop everything for seconds. So
what separates values is counted first, which is quick. Half of a character (`"\\ud800"`, as programs write that cut a
text in the middle of an emoji) becomes U+FFFD. An answer that cannot be read is answered in its place with an error:
nobody waits for it until the time of the call is up.
"""

from __future__ import annotations

import re
from typing import Final

import mcp_types
from mcp_types import JSONRPCError, JSONRPCMessage
from pydantic import ValidationError

MAX_VALUES: Final = 200_000
"""Values and names one message may have, as its commas, colons and opening brackets tell."""

IN_THREAD_BYTES: Final = 256 * 1024
"""Larger messages are read in a thread."""

TOO_MANY: Final = f"it has more than {MAX_VALUES:,} values"

_MARKS: Final = (b",", b":", b"[", b"{")
_HALVES: Final = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u(?:([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""Surrogates as escapes: a pair, in the second group, or half of one."""

_EDGE: Final = 2048
"""Bytes at both ends of an answer in which its id is looked for."""
_RESULT: Final = re.compile(rb'"(?:result|error)"\s*:')
_ID: Final = re.compile(rb'"id"\s*:\s*(?:(-?\d{1,18})|"([^"\\]{1,128})")')
_ID_LAST: Final = re.compile(_ID.pattern + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class TooManyError(Exception):
    """A message that is no answer to anything has more than `MAX_VALUES`."""


def read_message(line: bytes) -> JSONRPCMessage | None:
    """The message in this line, or an error in place of an answer that cannot be read; None: there is none.

    Raises:
        TooManyError: it has too many values, and nobody waits for it.
    """
    if not fits(line):
        if (answered := answered_in(line)) is None:
            raise TooManyError
        return unread(answered, TOO_MANY)
    try:
        return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        if not line.lstrip().startswith(b"{"):
            return None
    try:
        plain = mended(line.decode("utf-8", "replace").encode())
        return mcp_types.jsonrpc_message_adapter.validate_json(plain, by_name=False)
    except ValidationError as failure:
        if b'"jsonrpc"' not in line or (answered := answered_in(line)) is None:
            return None
        what = failure.errors(include_url=False, include_input=False)[0]
        why = what["msg"] if what["type"] == "json_invalid" else "it is no valid message"
        return unread(answered, why)


def fits(data: bytes) -> bool:
    """Whether a message has at most `MAX_VALUES`. What stands in its texts does not count."""
    if len(data) <= MAX_VALUES or _marks(data) <= MAX_VALUES:
        return True
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    # Each value and each name has two quotes at most.
    if plain.count(b'"') > 4 * MAX_VALUES:
        return False
    return _marks(b"".join(plain.split(b'"')[::2])) <= MAX_VALUES


def mended(data: bytes) -> bytes:
    """JSON, or events of it, with U+FFFD in place of halves of characters."""
    if rb"\ud" not in data and rb"\uD" not in data:
        return data
    return _HALVES.sub(lambda found: found[0] if found[2] else found[1] + rb"\ufffd", data)


def answered_in(data: bytes) -> mcp_types.RequestId | None:
    """The id of the request that this answers, wherever in it that stands; None: it is no answer."""
    head = data[:_EDGE]
    if (result := _RESULT.search(head)) is None:
        return None
    before = head[: result.start()]
    found = _ID.search(before) or _ID_LAST.search(data[-_EDGE:].rstrip())
    if found is None or b'"method"' in before:
        return None
    return int(found[1]) if found[1] is not None else found[2].decode("utf-8", "replace")


def unread(request: mcp_types.RequestId, why: str) -> JSONRPCError:
    """The error in place of an answer that was not read."""
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=f"The server's answer was not read: {why}")
    return JSONRPCError(jsonrpc="2.0", id=request, error=error)


def _marks(data: bytes) -> int:
    return sum(map(data.count, _MARKS))
