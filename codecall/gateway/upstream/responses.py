"""Responses of servers over HTTP, before anything reads them: bounded, uncompressed, and quick to decode; of a stream
of events, those that may be messages, without large results: the SDK reads each again, and writes it out for its log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final, NamedTuple, TypeVar, cast

import anyio.to_thread
import httpx2
from mcp_types import JSONRPCError, JSONRPCResponse, RequestId

from codecall.concurrency import release_frames
from codecall.gateway.upstream.messages import (
    IN_THREAD_BYTES,
    MAX_MESSAGE_BYTES,
    VALUES_PER_S,
    Throttle,
    TooLargeError,
    find_excess,
    find_long_number,
    find_request_id,
    find_response_id,
    message_cost,
    parse_message,
    unreadable_response,
)
from codecall.jsonio.check import replace_lone_surrogates

logger = logging.getLogger("codecall")

T = TypeVar("T")

COMPRESSED: Final = "it is compressed"

UNCOMPRESSED: Final = {"accept-encoding": "identity"}
"""Headers that ask for answers as they are: a little that is compressed may be very much."""

_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,20})", re.IGNORECASE)
MAX_CONTENT_TYPE: Final = 200
"""Characters of a content type that are looked at."""

QUICK_CHARSETS: Final = {
    "ascii": "ascii",
    "us-ascii": "ascii",
    "iso-8859-1": "iso-8859-1",
    "iso8859-1": "iso-8859-1",
    "latin-1": "iso-8859-1",
    "latin1": "iso-8859-1",
    "windows-1252": "windows-1252",
    "cp1252": "windows-1252",
}
"""What a server or its document may call the encodings, beside UTF-8, that it may name; Python has some that take
a time that grows by the square of the text."""

_SMALL_CHUNK: Final = 1024
_SMALL_CHUNKS_PER_S: Final = 5_000
"""Chunks of fewer bytes that are read of one body in a second: one of a single byte takes 40 µs to take apart."""

_BYTES_PER_CHUNK: Final = 64
"""Bytes that the chunks of a large body have on average, or more."""

_EVENT_END: Final = re.compile(rb"(?:\n\r?\n|\r\r)[\r\n]*")
"""The end of an event."""
_SHORT_RETRY: Final = re.compile(rb"retry:(?! ?[1-9]\d{3,8}$)")
"""When to connect again, in less than a second: a server could have it done without a pause."""

_ID: Final = re.compile(rb"id(?::[ -~]{0,1024})?")
"""Where to go on, which the SDK sends in a header: one of 32 MiB would take seconds and gigabytes to check."""

_MAX_EVENT_LINES: Final = 20_000
"""Lines of an event, each of which takes time to read, whatever is in it."""

_MESSAGE: Final = b"event: message\ndata: "
_READ_KINDS: Final = (b"message", b"endpoint")
"""Kinds of events that the SDK reads; of others it notes where to go on, and when."""

_QUICK_VALUES: Final = 1_000
"""Values of what is no message up to which the SDK may find that out."""

_NOT_AWAITED: Final = "it is large, and no request waits for it"

_IDLE_EVENTS_PER_S: Final = 100
"""Events without a message that are read of one stream in a second."""

_MAX_IDLE_S: Final = 10
"""Seconds with that many events, and no message between them, after which a stream is closed."""


async def in_thread_if_large(work: Callable[[bytes], T], data: bytes) -> T:
    """What `work` makes of `data`. An error that refuses it does not keep it."""
    if len(data) <= IN_THREAD_BYTES:
        return work(data)
    try:
        return await anyio.to_thread.run_sync(work, data)
    except (TooLargeError, httpx2.StreamError) as refusal:
        release_frames(refusal)
        raise


def media_type(response: httpx2.Response) -> str:
    """What kind of body a response has, in lower case, without parameters."""
    content_type: str = response.headers.get("content-type", "")
    return content_type[:MAX_CONTENT_TYPE].partition(";")[0].strip().lower()


def take_charset(response: httpx2.Response) -> str:
    """Have whoever reads a response take its body for UTF-8, and say what encoding it names, if that is quick to read;
    else UTF-8."""
    if (content_type := response.headers.get("content-type")) is None:
        return "utf-8"
    match = _CHARSET.search(content_type[:MAX_CONTENT_TYPE])
    response.headers["content-type"] = media_type(response)
    return "utf-8" if match is None else QUICK_CHARSETS.get(match[1].lower(), "utf-8")


def forget_cookies(client: httpx2.AsyncClient) -> None:
    """Have a client that all callers share keep no cookies: what a server sets for one would speak for the next."""
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))


class ResponseBody(httpx2.AsyncByteStream):
    """The body of a server's response."""

    def __init__(self, response: httpx2.Response) -> None:
        self._inner = cast("httpx2.AsyncByteStream", response.stream)
        self._encoded = response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")
        # What comes out of here is not compressed, whatever the server says.
        response.headers.pop("content-encoding", None)
        self._small_chunks = Throttle(_SMALL_CHUNKS_PER_S)

    async def _pace(self, chunk: bytes) -> None:
        """Let others have a turn of the event loop: what has arrived is handed on without one, 64 KiB at a time."""
        await self._small_chunks.wait(len(chunk) < _SMALL_CHUNK)

    async def aclose(self) -> None:
        """Close it, read or not."""
        await self._inner.aclose()


class BoundedBody(ResponseBody):
    """A body that is read as a whole.

    Args:
        response: with the body.
        limit: most bytes.
        check: what is passed on in its place; raises `httpx2.StreamError` where nothing is.
    """

    def __init__(self, response: httpx2.Response, limit: int, check: Callable[[bytes], bytes]) -> None:
        super().__init__(response)
        self._limit = limit
        self._check = check

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body, chunks = bytearray(), 0  # not a list of chunks: each costs an object, however few bytes it has
        async for chunk in self._inner:
            body += chunk
            chunks += 1
            if len(body) > self._limit or self._encoded:
                raise unread(COMPRESSED if self._encoded else f"it has more than {self._limit // 2**20} MiB")
            if chunks > self._limit // _BYTES_PER_CHUNK:
                raise unread("it comes in too many small chunks")
            await self._pace(chunk)
        whole = bytes(body)
        body.clear()
        yield await in_thread_if_large(self._check, whole)


class EventStream(ResponseBody):
    """A stream of events, each of which is passed on once it is complete.

    Args:
        response: with the stream.
        awaits: whether the answer to a request is waited for. What nobody waits for must not cost much.
        limit: bytes that the reader of the events takes in one; an error stands in place of a larger one.
        keep: keeps the large result of a request for whoever waits for it, and says whether somebody does.
    """

    def __init__(
        self,
        response: httpx2.Response,
        awaits: Callable[[RequestId | None], bool],
        limit: int = MAX_MESSAGE_BYTES,
        keep: Callable[[RequestId, dict[str, Any]], bool] = lambda _id, _result: False,
    ) -> None:
        super().__init__(response)
        self._limit = limit
        self._keep = keep
        self._request_id = find_request_id(response.request.content)  # the SDK's, whatever the server writes
        self._host = response.url.host
        self._awaits = awaits
        self._costs, self._idle = Throttle(VALUES_PER_S), Throttle(_IDLE_EVENTS_PER_S)
        self._idle_s = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoded:
            yield _error_event(b"", COMPRESSED)
            return
        waiting = bytearray()
        async for chunk in self._inner:
            await self._pace(chunk)
            searched = max(0, len(waiting) - 3)
            waiting += chunk
            # Only here, a chunk at a time: a pattern takes long for a large event, and holds the interpreter.
            ends = [blank.span() for blank in _EVENT_END.finditer(waiting, searched)]
            if len(waiting) - (ends[-1][1] if ends else 0) > MAX_MESSAGE_BYTES:
                ends.append((len(waiting), len(waiting)))
            if ends:
                block = bytes(waiting)
                del waiting[: ends[-1][1]]
                for event in await in_thread_if_large(partial(_checked_events, ends=ends, limit=self._limit), block):
                    if not event.is_last:
                        await self._wait(event)
                    yield self._without_large_result(event)
                    if event.is_last:
                        logger.warning("A stream of %s was closed: it sent an event that is too large", self._host)
                        return

    def _without_large_result(self, event: _Event) -> bytes:
        """The event, with an empty result if its own is kept."""
        request_id = event.answers if self._request_id is None else self._request_id
        if request_id is None or event.large_result is None or not self._keep(request_id, event.large_result):
            return event.text
        about_stream, _, _ = event.text.rpartition(_MESSAGE)
        return about_stream + message_event(JSONRPCResponse(jsonrpc="2.0", id=request_id, result={}))

    async def _wait(self, event: _Event) -> None:
        """Let as much time pass as the event may take.

        Raises:
            httpx2.StreamError: there have been too many without a message.
        """
        if not self._awaits(event.answers):
            await self._costs.wait(event.cost)
        if event.has_message:
            self._idle_s = 0
        elif await self._idle.wait():
            self._idle_s += 1
        if self._idle_s >= _MAX_IDLE_S:
            logger.warning("A stream of %s was closed: it sent events without messages", self._host)
            raise httpx2.StreamError("The server's stream was closed: it sent events without messages")


class ErrorBody(ResponseBody):
    """The beginning of a body that says what went wrong, with a mark where more follows.

    Args:
        response: with the body.
        limit: most bytes.
    """

    def __init__(self, response: httpx2.Response, limit: int) -> None:
        super().__init__(response)
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoded:
            yield f"[not read: {COMPRESSED}]".encode()
            return
        left = self._limit
        async for chunk in self._inner:
            await self._pace(chunk)
            yield chunk[:left]
            left -= len(chunk)
            if left < 0:
                yield "…[truncated]".encode()
                return


class UnreadBody(ResponseBody):
    """A body that nobody needs."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for nothing in ():
            yield nothing


def unread(reason: str) -> httpx2.StreamError:
    """The error for an answer that is not passed on."""
    return httpx2.StreamError(f"The server's answer was not read: {reason}")


class _Event(NamedTuple):
    text: bytes
    """What is passed on; empty: nothing."""
    cost: int
    has_message: bool = True
    answers: RequestId | None = None
    """The request that it answers."""
    is_last: bool = False
    """Whether no more of the stream is read."""
    large_result: dict[str, Any] | None = None
    """The result in it, if it is large; the text has none then."""


def checked_body(body: bytes) -> bytes:
    """The repaired body.

    Raises:
        httpx2.StreamError: it has too many values or too long numbers, or as many values as make it costly to find that
            it is no message.
    """
    if (excess := find_excess(body) or find_long_number(body)) is not None:
        raise unread(f"it has more than {excess}")
    if message_cost(body) > _QUICK_VALUES and body.lstrip().startswith((b"{", b"[")):
        try:
            message = parse_message(body)
        except TooLargeError as limit:
            raise unread(f"it has more than {limit}") from None
        if message is None:
            raise unread("it is no valid message")
        if isinstance(message, JSONRPCError):
            return message.model_dump_json(exclude_unset=True).encode()
    return replace_lone_surrogates(body)


def _checked_events(block: bytes, ends: Sequence[tuple[int, int]], limit: int = MAX_MESSAGE_BYTES) -> list[_Event]:
    """The events of a block, repaired, with an error in place of each that has too many values or lines.

    Args:
        block: of a stream.
        ends: where the lines of each event end, and the blank ones behind them.
        limit: bytes that one may have.
    """
    starts = [0, *(end for _, end in ends)]
    return [_checked_event(block[start:end], limit) for start, (end, _) in zip(starts, ends, strict=False)]


def _checked_event(event: bytes, limit: int) -> _Event:
    """One event; its last line need not end."""
    if len(event) > MAX_MESSAGE_BYTES:
        reason = f"it has more than {MAX_MESSAGE_BYTES // 2**20} MiB"
        return _Event(_error_event(event, reason), 0, is_last=True)
    lines_read = event.count(b"\n") + event.count(b"\r")
    cost = message_cost(event) + lines_read
    reason = "" if (excess := find_excess(event)) is None else f"it has more than {excess}"
    if lines_read > _MAX_EVENT_LINES:
        reason = "it has too many lines"
    if len(event) > limit:
        reason = f"it has more than {limit:,} bytes, the most over SSE"
    if reason:
        return _Event(_error_event(event, reason), cost, answers=find_response_id(event))
    # Lines as the reader finds them, for whom an empty one would end the event. It does not count comments.
    lines = [
        b"retry: 1000" if _SHORT_RETRY.match(line) is not None else line
        for line in replace_lone_surrogates(event).splitlines()
        if line and not line.startswith(b":") and (not _is_id(line) or _ID.fullmatch(line) is not None)
    ]
    kind, data = _fields(lines)
    about_stream = [line for line in lines if _is_id(line) or line.startswith(b"retry:")]
    if kind not in _READ_KINDS:  # the SDK would log it
        lines = about_stream
    passed_on = b"\n".join((*lines, b"", b"")) if lines else b""
    if kind != b"message" or not data:
        return _Event(passed_on, cost, has_message=False)
    try:
        message = parse_message(data)
    except TooLargeError as too_large:
        return _Event(_error_event(event, f"it has more than {too_large}"), cost)
    if isinstance(message, JSONRPCError):  # the server's own, or in place of what could not be read
        passed_on = message_event(message)
    if not isinstance(message, JSONRPCError | JSONRPCResponse):
        return _Event(b"" if message is None else passed_on, cost, has_message=message is not None)
    large = message.result if isinstance(message, JSONRPCResponse) and len(event) > IN_THREAD_BYTES else None
    if large is not None:
        passed_on = b"\n".join((*about_stream, _error_event(event, _NOT_AWAITED)))
    return _Event(passed_on, cost, answers=message.id, large_result=large)


def _is_id(line: bytes) -> bool:
    return line.partition(b":")[0] == b"id"


def _fields(lines: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The kind of an event and its data."""
    kind, data = b"", list[bytes]()
    for line in lines:
        name, _, value = line.partition(b":")
        if name == b"event":
            kind = value.removeprefix(b" ")
        elif name == b"data":
            data.append(value.removeprefix(b" "))
    return kind or b"message", b"\n".join(data)


def _error_event(event: bytes, reason: str) -> bytes:
    """The event in place of one that was not read. Where that has no id, the SDK knows which request is answered."""
    response_id = find_response_id(event)
    return message_event(unreadable_response(0 if response_id is None else response_id, reason))


def message_event(message: JSONRPCError | JSONRPCResponse) -> bytes:
    """A message as an event of a stream."""
    return _MESSAGE + message.model_dump_json(exclude_unset=True).encode() + b"\n\n"
