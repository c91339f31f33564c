"""Bodies of HTTP requests: how many values they may have, and how many of one caller are parsed in a second; and of
answers, how much of them may wait for clients that do not take it.

A little JSON may be very many values: `[[],[],…]` of 3.6 MB takes a second of the event loop, and the MCP SDK bounds
bodies in bytes alone. So what separates values is counted first, which is quick, once whoever calls has signed in and
the application asks for the body. One with too many never reaches the SDK: that gets an empty one in its place, and the
answer to it is replaced. Large ones of one caller are let through one after the other, each when those before it have
been paid for. It has only so long to arrive, and counts for the caller until it has been answered, see `pending`.

An answer is sent piece by piece, each when the client has taken those before it: what waits here counts for the caller,
where a server that is given all of it at once would hold it without a bound. `unsent` does so with streams of events.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Final, TypeAlias

import fastmcp
import mcp_types
from fastmcp.server.dependencies import get_access_token
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from codecall.gateway.serve.answers import MAX_ANSWER_VALUES, has_long_answer
from codecall.gateway.serve.pending import PendingQuota, PendingRequest
from codecall.gateway.serve.unsent import SENT_PIECE, ByteQuota, EventQueue, Message, Send, body_in_pieces
from codecall.identity import peer_network, share_key

MAX_CONTAINERS: Final = 100_000
"""Objects and arrays in a body: some 40 ms of parsing."""

MAX_VALUES: Final = 600_000
"""Values and names in a body. A megabyte of numbers of one digit, which a tool may take, has 524,288."""

MAX_LONG_DIGITS: Final = 512 * 1024
"""Digits in numbers of `_LONG` digits or more: some 120 ms of parsing."""

MAX_OPENING: Final = 64 * 1024
"""Bytes of a body that opens a session, which keeps it, parsed, for as long as it is open: 0.4 MB at these bounds."""

MAX_OPENING_CONTAINERS: Final = 250
"""Objects and arrays in it. Clients send fewer than 20, and less than 4 KB."""

MAX_OPENING_VALUES: Final = 1_000
"""Values and names in it."""

MAX_UNSENT: Final = 64 * 1024 * 1024
"""Bytes of answers that wait until one caller has taken what came before. One answer may always wait."""

MAX_UNSENT_BY_ALL: Final = 256 * 1024 * 1024
"""The same of all callers together."""

MAX_BODY_S: Final = 60.0
"""Seconds in which a body has to arrive, from when it is asked for."""

_LARGE: Final = 20_000
"""The cost, in values, from which on a body has to be paid for."""

_CONTAINER_COST: Final = 10
"""An object or array costs as much more as so many numbers."""

_BYTES_PER_VALUE: Final = 64
"""Bytes that cost as much as one value."""

_LONG: Final = 128
"""Digits of a number from which on they are counted: reading and writing one takes the square of its digits."""

_LONG_COST: Final = 600
"""What so many digits of a long number cost. The longest that Python reads has 4,300, and takes a millisecond."""

_COST_PER_S: Final = 2_000_000
"""What one caller may have parsed in a second: less than a tenth of it is spent in parsing."""

_MAX_WAITING: Final = 8
"""Large bodies of one caller that may wait for those before them."""

_MAX_CALLERS: Final = 1_000
"""Callers whose payments are remembered."""

_MAX_BYTES: Final = 4 * 1024 * 1024
"""As the SDK has it; it refuses what is larger without parsing it."""

_PIECE: Final = 64 * 1024

_ONE_DIGIT: Final = bytes.maketrans(b"123456789", b"000000000")
"""Makes all digits the same."""

Receive: TypeAlias = Callable[[], Awaitable[Message]]


class BoundedBodies:
    """An ASGI application around another, which gets no body that takes long to parse."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._payments: dict[str, _Payments] = {}
        self.pending = PendingQuota()
        self.unsent = ByteQuota(MAX_UNSENT, MAX_UNSENT_BY_ALL)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _BoundedRequest(self, scope, receive, send)
        try:
            with request.pending:
                await self._app(scope, request.receive, request.send)
        except BaseException:
            request.abort()
            raise
        with contextlib.suppress(asyncio.CancelledError):  # the process ends; uvicorn would log where it waited
            await request.join()

    def payments_of(self, caller: str) -> _Payments:
        """What a caller has had parsed; what others had is forgotten where there are too many."""
        payments = self._payments.pop(caller, None) or _Payments()
        self._payments[caller] = payments
        for other in list(self._payments)[: max(0, len(self._payments) - _MAX_CALLERS)]:
            if not self._payments[other].waiting:
                del self._payments[other]
        return payments


class _Payments:
    """What one caller has had parsed."""

    def __init__(self) -> None:
        self.waiting = 0
        self._turn = asyncio.Lock()
        self._paid_until = 0.0

    async def pay(self, cost: int) -> None:
        """Wait until what came before is paid for."""
        self.waiting += 1
        try:
            async with self._turn:
                now = asyncio.get_running_loop().time()
                await asyncio.sleep(max(0.0, self._paid_until - now))
                self._paid_until = max(now, self._paid_until) + cost / _COST_PER_S
        finally:
            self.waiting -= 1


class _BoundedRequest:
    """The two directions of one request."""

    def __init__(self, bodies: BoundedBodies, scope: Message, receive: Receive, send: Send) -> None:
        self._bodies = bodies
        self.pending = PendingRequest(bodies.pending, scope)
        self._scope = scope
        self._receive = receive
        self._send = send
        self._messages: Iterator[Message] | None = None
        """What is left of the body; None: nobody has asked for it."""
        self._refusal: tuple[int, str] | None = None
        self._start: Message | None = None
        """The beginning of an answer that is sent with its body."""
        self._events: EventQueue | None = None
        """Of an answer that is a stream of events."""
        self._ended = False
        """No more of the answer is sent."""

    async def receive(self) -> Message:
        """A piece of the body, the first once it is there as a whole; or what comes after it."""
        if self._messages is None:
            self._messages = iter(await self._read_body())
        return next(self._messages, None) or await self._receive()

    async def _read_body(self) -> Iterable[Message]:
        caller, body = _caller(self._scope), bytearray()
        size, more, why = 0, True, None
        try:
            async with asyncio.timeout(MAX_BODY_S):
                while more and size <= _MAX_BYTES:
                    message = await self._receive()
                    if message["type"] != "http.request":
                        return [message]
                    piece = message.get("body", b"")
                    more = message.get("more_body", False)
                    size += len(piece)
                    if why is not None:
                        continue  # clients that cannot send the rest do not read why
                    if (why := self.pending.grow(caller, size)) is not None:
                        self.pending.drop()
                        body.clear()
                    else:
                        body += piece
            if why is not None:
                return self._refuse(429, why)
            if size <= _MAX_BYTES and (refusal := await self._check_opening(body) or await self._check(body, caller)):
                return self._refuse(*refusal)
            return _in_pieces(body, more)
        except TimeoutError:
            return self._refuse(408, f"it has not come as a whole within {MAX_BODY_S:.0f} s")

    def _refuse(self, status: int, why: str) -> Iterable[Message]:
        self.pending.drop()
        self._refusal = status, f"The request was not read: {why}"
        return _in_pieces(bytearray(), more=False)

    async def send(self, message: Message) -> None:
        """Pass the answer on, or send a refusal in its place."""
        if self._ended:
            return
        if self._refusal is not None:
            self._ended = True
            await self._send_refusal(*self._refusal)
        elif self._events is not None:
            self._events.put(message, _caller(self._scope))
        elif message["type"] == "http.response.start" and _is_stream(message):
            self._events = EventQueue(self._send, self._bodies.unsent)
            self._events.put(message, _caller(self._scope))
        elif message["type"] == "http.response.start":
            self._start = message
        else:
            await self._send_body(message)

    async def join(self) -> None:
        """Wait until the client has taken all."""
        if self._events is not None:
            await self._events.join()

    def abort(self) -> None:
        """Send no more."""
        if self._events is not None:
            self._events.abort()

    async def _send_body(self, message: Message) -> None:
        """Pass on a part of the answer, as fast as the client takes it."""
        body: bytes = message.get("body", b"")
        if len(body) <= SENT_PIECE:
            await self._send_part(message)
            return
        caller, unsent = _caller(self._scope), self._bodies.unsent
        if not unsent.hold(caller, len(body), first=True):
            self._ended = True
            if self._start is not None:
                why = "this caller, or all together, do not take the large answers that wait for them"
                await self._send_refusal(429, f"The answer was not sent: {why}")
            else:
                await self._send({"type": "http.response.body", "body": b""})
            return
        try:
            for part in body_in_pieces(message):
                await self._send_part(part)
        finally:
            unsent.release(caller, len(body))

    async def _send_part(self, message: Message) -> None:
        start, self._start = self._start, None
        if start is not None:
            await self._send(start)
        await self._send(message)

    async def _send_refusal(self, status: int, reason: str) -> None:
        error = {"code": mcp_types.INVALID_REQUEST, "message": reason}
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == HTTPStatus.REQUEST_TIMEOUT:
            headers.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def _check_opening(self, body: bytearray) -> tuple[int, str] | None:
        if not _opens_session(self._scope) or not await _is_large_opening(body):
            return None
        most = f"{MAX_OPENING // 1024} KiB, {MAX_OPENING_CONTAINERS} objects and arrays"
        return 413, f"one that opens a session may have {most}, and {MAX_OPENING_VALUES:,} values"

    async def _check(self, body: bytearray, caller: str) -> tuple[int, str] | None:
        if json.detect_encoding(body) not in ("utf-8", "utf-8-sig"):
            return 400, "it is not encoded as UTF-8"
        containers, values = await _count(body, MAX_CONTAINERS, MAX_VALUES)
        if containers > MAX_CONTAINERS or values > MAX_VALUES:
            return 413, f"it has more than {MAX_CONTAINERS:,} objects and arrays, or more than {MAX_VALUES:,} values"
        if values > MAX_ANSWER_VALUES and await has_long_answer(body, MAX_CONTAINERS):
            return 413, f"what it answers a question with has more than {MAX_ANSWER_VALUES:,} values"
        long = await _count_long(body)
        if long * _LONG > MAX_LONG_DIGITS:
            return 413, f"it has more than {MAX_LONG_DIGITS:,} digits in numbers of {_LONG} digits or more"
        cost = values + _CONTAINER_COST * containers + _LONG_COST * long + len(body) // _BYTES_PER_VALUE
        payments = self._bodies.payments_of(caller) if cost > _LARGE else None
        if payments is not None and payments.waiting >= _MAX_WAITING:
            return 429, f"{_MAX_WAITING} large requests of this caller are waiting"
        if payments is not None:
            await payments.pay(cost)
        return None


def _is_stream(start: Message) -> bool:
    """Whether an answer is a stream of events, of which clients wait for the beginning."""
    return any(
        name == b"content-type" and value.startswith(b"text/event-stream") for name, value in start.get("headers", ())
    )


def _opens_session(scope: Message) -> bool:
    """Whether only a request that opens a session of the handshake era can be answered."""
    headers = dict(reversed(scope["headers"]))  # of several the first counts, as for the SDK
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER.encode(), b"").decode("latin-1")
    has_session = MCP_SESSION_ID_HEADER.encode() in headers or fastmcp.settings.stateless_http
    return not has_session and (not version or version in HANDSHAKE_PROTOCOL_VERSIONS)


def _in_pieces(body: bytearray, more: bool) -> Iterator[Message]:
    """A body as messages. What has been passed on is kept no longer: the application has it then, while it answers."""
    while True:
        piece = bytes(body[:_PIECE])
        del body[:_PIECE]
        yield {"type": "http.request", "body": piece, "more_body": more or bool(body)}
        if not body:
            return


def _caller(scope: Message) -> str:
    """Whoever has signed in, else the address."""
    if get_access_token() is not None:
        return share_key(None)
    client = scope.get("client")
    return f"peer {peer_network(client[0])}" if client else ""


async def _is_large_opening(body: bytearray) -> bool:
    if len(body) > MAX_OPENING:
        return True
    containers, values = await _count(body, MAX_OPENING_CONTAINERS, MAX_OPENING_VALUES)
    return containers > MAX_OPENING_CONTAINERS or values > MAX_OPENING_VALUES


async def _count(body: bytes | bytearray, most_containers: int, most_values: int) -> tuple[int, int]:
    """The objects and arrays in JSON, and all values and names, by what stands before or between them. Where these are
    few enough as it is, those in texts are counted, too."""
    containers, commas = _brackets(body), _separators(body)
    if containers <= most_containers and containers + commas <= most_values:
        return containers, containers + commas
    containers = commas = 0
    for plain in _outside_texts(body):
        containers, commas = containers + _brackets(plain), commas + _separators(plain)
        if containers > most_containers or containers + commas > most_values:
            break
        await asyncio.sleep(0)
    return containers, containers + commas


async def _count_long(body: bytes | bytearray) -> int:
    """How often there are `_LONG` digits in one number, nearly: pieces may cut some."""
    if not _long_digits(body):
        return 0
    long = 0
    for plain in _outside_texts(body):
        long += _long_digits(plain)
        await asyncio.sleep(0)
    return long


def _outside_texts(body: bytes | bytearray) -> Iterator[bytes]:
    """A piece at a time, what stands in no text of JSON."""
    inside, start = 0, 0
    while start < len(body):
        piece = body[start : start + _PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and start + len(piece) < len(body):
            piece += body[start + len(piece) : start + len(piece) + 1]  # no escape is cut
        start += len(piece)
        parts = piece.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        yield b"".join(parts[inside::2])
        inside = (inside + len(parts) - 1) % 2


def _brackets(data: bytes | bytearray) -> int:
    return data.count(b"[") + data.count(b"{")


def _separators(data: bytes | bytearray) -> int:
    return data.count(b",") + data.count(b":")


def _long_digits(data: bytes | bytearray) -> int:
    return data.translate(_ONE_DIGIT).count(b"0" * _LONG)
