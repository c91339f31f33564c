"""From the bytes of a server's message to the message: counted before it is parsed, and mended where that is safe.

A little JSON may be very many values: `[[],[],…]` of 30 MiB would take gigabytes and stop everything for seconds. So
what separates values is counted first, which is quick. Half of a character (`"\\ud800"`, as programs write that cut a
text in the middle of an emoji) becomes U+FFFD. An answer that cannot be read is answered in its place with an error:
nobody waits for it until the time of the call is up.
"""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections import deque
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.lowlevel
import mcp_types
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage
from pydantic import ValidationError

# ----------------------------------------------------------------------------------------------------
# From the bytes of a server's message to the message: counted before it is parsed, and mended where that is safe.

MAX_MESSAGE_VALUES: Final = 200_000
"""Values and names one message may have, as its commas, colons and opening brackets tell."""

IN_THREAD_BYTES: Final = 256 * 1024
"""Larger messages are read in a thread."""

TOO_MANY_VALUES: Final = f"it has more than {MAX_MESSAGE_VALUES:,} values"

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


class TooManyValuesError(Exception):
    """A message that is no answer to anything has more than `MAX_VALUES`."""


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """The message in this line, or an error in place of an answer that cannot be read; None: there is none.

    Raises:
        TooManyError: it has too many values, and nobody waits for it.
    """
    if not is_within_value_limit(line):
        if (answered := find_response_id(line)) is None:
            raise TooManyValuesError
        return unreadable_response(answered, TOO_MANY_VALUES)
    try:
        return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        if not line.lstrip().startswith(b"{"):
            return None
    try:
        plain = replace_lone_surrogates(line.decode("utf-8", "replace").encode())
        return mcp_types.jsonrpc_message_adapter.validate_json(plain, by_name=False)
    except ValidationError as failure:
        if b'"jsonrpc"' not in line or (answered := find_response_id(line)) is None:
            return None
        what = failure.errors(include_url=False, include_input=False)[0]
        why = what["msg"] if what["type"] == "json_invalid" else "it is no valid message"
        return unreadable_response(answered, why)


def is_within_value_limit(data: bytes) -> bool:
    """Whether a message has at most `MAX_VALUES`. What stands in its texts does not count."""
    if len(data) <= MAX_MESSAGE_VALUES or _marks(data) <= MAX_MESSAGE_VALUES:
        return True
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    # Each value and each name has two quotes at most.
    if plain.count(b'"') > 4 * MAX_MESSAGE_VALUES:
        return False
    return _marks(b"".join(plain.split(b'"')[::2])) <= MAX_MESSAGE_VALUES


def replace_lone_surrogates(data: bytes) -> bytes:
    """JSON, or events of it, with U+FFFD in place of halves of characters."""
    if rb"\ud" not in data and rb"\uD" not in data:
        return data
    return _HALVES.sub(lambda found: found[0] if found[2] else found[1] + rb"\ufffd", data)


def find_response_id(data: bytes) -> mcp_types.RequestId | None:
    """The id of the request that this answers, wherever in it that stands; None: it is no answer."""
    head = data[:_EDGE]
    if (result := _RESULT.search(head)) is None:
        return None
    before = head[: result.start()]
    found = _ID.search(before) or _ID_LAST.search(data[-_EDGE:].rstrip())
    if found is None or b'"method"' in before:
        return None
    return int(found[1]) if found[1] is not None else found[2].decode("utf-8", "replace")


def unreadable_response(request_id: mcp_types.RequestId, reason: str) -> JSONRPCError:
    """The error in place of an answer that was not read."""
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=f"The server's answer was not read: {reason}")
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _marks(data: bytes) -> int:
    return sum(map(data.count, _MARKS))


# ----------------------------------------------------------------------------------------------------
# Streams of messages of our own, where a task and a queue for each way would take longer than the message.


class MessageStream:
    """What both ways have: they can be closed."""

    closed = False

    async def aclose(self) -> None:
        """Nothing passes any more."""
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _failure: BaseException | None, _where: TracebackType | None
    ) -> None:
        await self.aclose()


class LineReader(MessageStream):
    """One way, line by line, read when it is asked for.

    Attributes:
        over: There is no more to come than has been read.
    """

    def __init__(self) -> None:
        self.at_end = False
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        """Of a line without its end."""
        self._size = 0
        """Of these, in bytes."""

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception:
        """The next message; an exception in place of what is none. Waits for it.

        Raises:
            anyio.EndOfStream: there are no more.
            anyio.ClosedResourceError: this is closed.
        """
        ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    @abstractmethod
    async def _more(self) -> None:
        """Wait until something has been taken, or it is over."""
        ...

    async def _line(self) -> bytes:
        """The next line; waits for it. Raises what `receive` does."""
        if self._lines:  # who says much lets others speak
            await asyncio.sleep(0)
        while not self._lines:
            if self.closed:
                raise anyio.ClosedResourceError
            if self.at_end:
                raise anyio.EndOfStream
            await self._more()
        return self._lines.popleft()

    def _take(self, chunk: bytes) -> None:
        """What was read, cut anywhere."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            self._lines.append(b"".join((*self._parts, lines[0])))
            self._lines += lines[1:]
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)


# ----------------------------------------------------------------------------------------------------
# Slowing down a server that says more than anybody can use: it waits with the rest, and none is lost.

MAX_LINES_PER_S: Final = 20_000
"""Lines read of a program in a second that are no messages."""

_TURN: Final = 100
"""After so many others have a turn."""


class Throttle:
    """Lets so many things pass in a second.

    Args:
        per_s: how many; at least 1.
    """

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._since = 0.0
        self._count = 0

    async def wait(self) -> None:
        """One has passed: waits for the next second, if it was the last of this one."""
        self._count += 1
        if self._count >= self._per_s:
            now = anyio.current_time()
            if now - self._since < 1:
                await anyio.sleep_until(self._since + 1)
            self._since, self._count = anyio.current_time(), 0
        elif self._count == 1:
            self._since = anyio.current_time()
        elif self._count % _TURN == 0:
            await anyio.lowlevel.checkpoint()
            if anyio.current_time() - self._since >= 1:
                self._count = 0
