"""Bodies of HTTP requests: how many values they may have, and how many of one caller are parsed in a second.

A little JSON may be very many values: `[[],[],…]` of 3.6 MB takes a second of the event loop, and the MCP SDK bounds
bodies in bytes alone. So what separates values is counted first, which is quick, once whoever calls has signed in and
the application asks for the body. One with too many never reaches the SDK: that gets an empty one in its place, and the
answer to it is replaced. Large ones of one caller are let through one after the other, each when those before it have
been paid for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Final, TypeAlias

import mcp_types
from fastmcp.server.dependencies import get_access_token

from codecall.identity import client_key

MAX_CONTAINERS: Final = 100_000
"""Objects and arrays in a body: some 40 ms of parsing."""

MAX_VALUES: Final = 600_000
"""Values and names in a body. A megabyte of numbers of one digit, which a tool may take, has 524,288."""

_LARGE: Final = 20_000
"""Values from which on a body has to be paid for."""

_CONTAINER_COST: Final = 10
"""An object or array costs as much more as so many numbers."""

_COST_PER_S: Final = 2_000_000
"""What one caller may have parsed in a second: less than a tenth of it is spent in parsing."""

_MAX_WAITING: Final = 8
"""Large bodies of one caller that may wait for those before them."""

_MAX_CALLERS: Final = 1_000
"""Callers whose payments are remembered."""

_MAX_BYTES: Final = 4 * 1024 * 1024
"""As the SDK has it; it refuses what is larger without parsing it."""

_PIECE: Final = 64 * 1024

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class BoundedBodies:
    """An ASGI application around another, which gets no body that takes long to parse."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._payments: dict[str, _Payments] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _BoundedRequest(receive, send, lambda: self._payments_of(_caller(scope)))
        await self._app(scope, request.receive, request.send)

    def _payments_of(self, caller: str) -> _Payments:
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

    def __init__(self, receive: Receive, send: Send, payments: Callable[[], _Payments]) -> None:
        self._receive = receive
        self._send = send
        self._payments = payments
        self._body: bytearray | None = bytearray()
        """What has come of the body; None: the application has it."""
        self._refusal: tuple[int, str] | None = None

    async def receive(self) -> Message:
        """The whole body as one message, or what comes after it."""
        body = self._body
        if body is None:
            return await self._receive()
        more = True
        while more and len(body) <= _MAX_BYTES:
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if len(body) <= _MAX_BYTES:
            self._refusal = await self._check(bytes(body))
        self._body = None
        return {"type": "http.request", "body": b"" if self._refusal else bytes(body), "more_body": more}

    async def send(self, message: Message) -> None:
        """Pass the answer on, or send a refusal in its place."""
        if self._refusal is None:
            await self._send(message)
        elif message["type"] == "http.response.start":
            status, reason = self._refusal
            error = {"code": mcp_types.INVALID_REQUEST, "message": reason}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": body})

    async def _check(self, body: bytes) -> tuple[int, str] | None:
        containers, values = await _count(body)
        if containers > MAX_CONTAINERS or values > MAX_VALUES:
            return 413, (
                f"The request was not read: it has more than {MAX_CONTAINERS:,} objects and arrays, or more than "
                f"{MAX_VALUES:,} values"
            )
        if values <= _LARGE:
            return None
        payments = self._payments()
        if payments.waiting >= _MAX_WAITING:
            return 429, f"The request was not read: {_MAX_WAITING} large requests of this caller are waiting"
        await payments.pay(values + _CONTAINER_COST * containers)
        return None


def _caller(scope: Message) -> str:
    """Whoever has signed in, else the address."""
    if get_access_token() is not None:
        return client_key(None)
    client = scope.get("client")
    return f"peer {client[0]}" if client else ""


async def _count(body: bytes) -> tuple[int, int]:
    """The objects and arrays in JSON, and all values and names, by what stands before or between them. Where these are
    few enough as it is, those in texts are counted, too."""
    containers, commas = _brackets(body), _separators(body)
    if containers <= MAX_CONTAINERS and containers + commas <= MAX_VALUES:
        return containers, containers + commas
    containers = commas = 0
    for plain in _outside_texts(body):
        containers, commas = containers + _brackets(plain), commas + _separators(plain)
        if containers > MAX_CONTAINERS or containers + commas > MAX_VALUES:
            break
        await asyncio.sleep(0)
    return containers, containers + commas


def _outside_texts(body: bytes) -> Iterator[bytes]:
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


def _brackets(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")


def _separators(data: bytes) -> int:
    return data.count(b",") + data.count(b":")
