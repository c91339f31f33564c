"""Heads of answers over HTTP: a server cannot send so many that anybody notices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from codecall.errors import ServerUnavailableError
from codecall.gateway.config.options import HttpServer
from codecall.gateway.upstream.addresses import guard_connection
from codecall.gateway.upstream.bounds.http_client import (
    MAX_HEAD_LINES,
    MAX_INFORMATIONAL,
    HeadError,
    create_http_client,
)
from codecall.gateway.upstream.oauth import create_oauth
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import call, wait_until

HINT = b"HTTP/1.1 103 Early Hints\r\n\r\n"
BODY = b'{"a":1}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n" + BODY
Write = Callable[[bytes], Awaitable[None]]


class RawServer:
    """Answers each request of HTTP with whatever `answer` writes; knows how many connections it has had, and has."""

    def __init__(self, answer: Callable[[Any, Write], Awaitable[None]]) -> None:
        self._answer = answer
        self.accepted = self.open = 0
        self.url = ""
        self._tasks: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[RawServer]:
        """Take connections."""
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        self.accepted += 1
        self.open += 1
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(size[0])) if size else b""
                await self._answer(json.loads(body) if body else None, write)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # at the end of the server too: asyncio logs each connection that is cancelled
        finally:
            self.open -= 1
            writer.transport.abort()


def answering(*parts: bytes) -> RawServer:
    """A server that answers each request with the same."""

    async def answer(_request: Any, write: Write) -> None:
        for part in parts:
            await write(part)

    return RawServer(answer)


async def flood(_request: Any, write: Write) -> None:
    while True:
        await write(HINT * 1_000)


@pytest.mark.parametrize("hints", [0, 1, MAX_INFORMATIONAL])
async def test_a_few_informational_answers_are_skipped(hints: int) -> None:
    async with answering(HINT * hints + ANSWER).serve() as server, create_http_client() as client:
        for _ in range(3):  # counted for each request
            assert (await client.get(server.url)).content == BODY
    assert server.accepted == 1


@pytest.mark.parametrize(
    "parts",
    [
        [HINT * (MAX_INFORMATIONAL + 1) + ANSWER],
        [*[HINT] * (MAX_INFORMATIONAL + 1), ANSWER],
        [HINT.replace(b"\r", b"") * (MAX_INFORMATIONAL + 1) + ANSWER],
        [*[bytes([byte]) for byte in HINT * (MAX_INFORMATIONAL + 1)], ANSWER],
        [HINT[:-1], *[HINT[-1:] + HINT[:-1]] * (MAX_INFORMATIONAL + 1)],
    ],
    ids=["at once", "one by one", "bare newlines", "bytes", "across reads"],
)
async def test_more_are_an_error_and_the_connection_is_closed(parts: list[bytes]) -> None:
    heard: list[str] = []
    async with answering(*parts).serve() as server, create_http_client(on_refusal=heard.append) as client:
        with pytest.raises(HeadError, match="more than 20 informational answers") as refused:
            await client.get(server.url)
        await wait_until(lambda: not server.open)
        assert heard == [str(refused.value)]


async def test_an_endless_row_of_them_is_an_error() -> None:
    async with RawServer(flood).serve() as server, create_http_client() as client:
        with pytest.raises(HeadError):
            await client.post(server.url, json={})
        await wait_until(lambda: not server.open)


@pytest.mark.parametrize(("lines", "fits"), [(MAX_HEAD_LINES - 10, True), (MAX_HEAD_LINES, False)])
async def test_heads_have_a_number_of_lines(lines: int, fits: bool) -> None:
    answer = ANSWER.replace(b"\r\n", b"\r\n" + b"a:\r\n" * lines, 1).replace(BODY, b"\n" * 7)
    async with answering(answer).serve() as server, create_http_client() as client:
        if fits:
            assert (await client.get(server.url)).content == b"\n" * 7
        else:
            with pytest.raises(HeadError, match="more than 1,000 lines of headers"):
                await client.get(server.url)


async def test_what_comes_before_a_request_is_no_answer_to_it() -> None:
    async with answering(ANSWER + HINT * 2_000).serve() as server, create_http_client() as client:
        for _ in range(2):
            assert (await client.get(server.url)).content == BODY
    assert server.accepted == 2


async def test_bodies_may_be_full_of_heads() -> None:
    text = ANSWER * 5_000
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    async with answering(answer).serve() as server, create_http_client() as client:
        for _ in range(2):
            assert (await client.get(server.url)).content == text


async def test_connections_are_looked_at_as_well() -> None:
    """Both want to be told of connections: whether the address is public, and what the heads are."""

    async def guard(request: httpx2.Request) -> None:
        guard_connection(request, ["127.0.0.1", "known"], "no public address")

    async def guard_all(request: httpx2.Request) -> None:
        guard_connection(request, [], "no public address")

    for server in (answering(ANSWER), RawServer(flood)):
        async with server.serve():
            async with create_http_client(on_request=[guard_all]) as client:
                with pytest.raises(httpx2.ConnectError, match="no public address"):
                    await client.get(server.url)
            await wait_until(lambda server=server: not server.open)
    async with RawServer(flood).serve() as server, create_http_client(on_request=[guard]) as client:
        with pytest.raises(HeadError):
            await client.get(server.url)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_is_told_of_that_floods_its_first_answer(transport: Any) -> None:
    async with (
        RawServer(flood).serve() as server,
        Backend("far", HttpServer(url=server.url, transport=transport)) as backend,
    ):
        with pytest.raises(ServerUnavailableError, match="it sent more than 20 informational answers"):
            await call(backend, "x")
        await wait_until(lambda: not server.open)


async def test_a_call_that_is_answered_with_a_flood_fails_and_says_so() -> None:
    async def answer(request: Any, write: Write) -> None:
        assert request is not None
        if request["method"] == "tools/call" and not server.url.endswith("#fine"):
            await flood(request, write)
        about = {"name": "x", "version": "1"}
        result: Any = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": about}
        if request["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": "fine"}]}
        body = json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "result": result}).encode()
        await write(ANSWER.replace(b"7", str(len(body)).encode(), 1).replace(BODY, body))

    server = RawServer(answer)
    async with server.serve(), Backend("far", HttpServer(url=server.url)) as backend:
        backend._modern = False
        with pytest.raises(ServerUnavailableError, match="'far' sent more than 20 informational answers"):
            await call(backend, "x")
        await wait_until(lambda: not server.open)
        server.url += "#fine"
        assert await call(backend, "x") == "fine"


async def test_a_sign_in_that_is_answered_with_a_flood_fails() -> None:
    async with RawServer(flood).serve() as server, create_http_client(auth=create_oauth(server.url)) as client:
        with pytest.raises(httpx2.RemoteProtocolError, match="informational"):
            await client.get(server.url)
        await wait_until(lambda: not server.open)
