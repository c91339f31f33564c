"""What a client does not take of a stream of events: counted as a whole, whatever stands before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import mcp_types
import pytest
from fastmcp import Context, FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from codecall.gateway.serve import bodies, unsent
from codecall.gateway.serve.bodies import BoundedBodies
from codecall.gateway.serve.unsent import ByteQuota, EventQueue, Message
from tests.gateway.backends import serve_over_http, wait_until

LARGE = 8 * 1024 * 1024
"""Bytes of a result, more than the sockets of a connection take."""

STEPS = 40
"""Notifications before it, more than the SDK takes for a stream that nobody reads."""

Call = Callable[[int], bytes]


@asynccontextmanager
async def reporting(modern: bool) -> AsyncGenerator[tuple[BoundedBodies, int, Call, list[int]]]:
    """A server that reports at length before it answers with much: what counts its answers, its port, the request of a
    call, and the calls that it has answered."""
    answered: list[int] = []
    tokens = {"alice": {"client_id": "alice", "scopes": []}}
    server: FastMCP[Any] = FastMCP("up", auth=StaticTokenVerifier(tokens))

    @server.tool(output_schema=None)
    async def report(ctx: Context) -> str:
        for step in range(STEPS):
            await ctx.report_progress(step, STEPS, "p" * 200_000)
        answered.append(1)
        return "x" * LARGE

    bounded = BoundedBodies(server.http_app(path="/mcp"))
    async with serve_over_http(bounded) as url:
        headers = {
            "host": httpx.URL(url).netloc.decode(),
            "authorization": "Bearer alice",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        }
        meta: dict[str, Any] = {}
        if modern:
            headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "report"}
            meta = {mcp_types.PROTOCOL_VERSION_META_KEY: "2026-07-28", mcp_types.CLIENT_CAPABILITIES_META_KEY: {}}
        else:
            about = {"clientInfo": {"name": "x", "version": "1"}, "capabilities": {}}
            params = {"protocolVersion": "2025-06-18", **about}
            async with httpx.AsyncClient() as client:
                first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
                begun = await client.post(url, json=first, headers=headers)
                headers |= {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
                done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                await client.post(url, json=done, headers=headers)

        def call(number: int) -> bytes:
            params = {"name": "report", "arguments": {}, "_meta": {**meta, "progressToken": number}}
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            body = json.dumps(asked).encode()
            lines = [f"{name}: {value}" for name, value in headers.items()]
            head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"content-length: {len(body)}", "connection: close"])
            return head.encode() + b"\r\n\r\n" + body

        port = httpx.URL(url).port
        assert port is not None
        yield bounded, port, call, answered


@asynccontextmanager
async def not_reading(port: int, request: bytes) -> AsyncGenerator[asyncio.StreamReader]:
    """A client that takes nothing of its answer yet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(request)
    try:
        yield reader
    finally:
        writer.close()


@pytest.mark.parametrize("modern", [True, False])
async def test_a_result_counts_behind_notifications_that_nobody_reads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, modern: bool
) -> None:
    monkeypatch.setattr(bodies, "MAX_UNSENT", 3 * LARGE)
    async with reporting(modern) as (bounded, port, call, answered), AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(not_reading(port, call(number))) for number in range(2, 6)]
        await wait_until(lambda: len(answered) == len(readers), 20)
        # The server has made all calls, and keeps the results of two: a result and what is around it are counted.
        await wait_until(lambda: bounded.unsent.by_all > 2 * LARGE)
        assert bounded.unsent.by_all < 3 * LARGE
        whole = [(await reader.read()).count(b"x") >= LARGE for reader in readers]
        assert sorted(whole) == [False, False, True, True]
        await wait_until(lambda: bounded.unsent.by_caller == {})
        await wait_until(lambda: "notifications were left out: a client reads too slowly" in caplog.text)


class Client:
    """Takes messages when it may."""

    def __init__(self) -> None:
        self.taken: list[Message] = []
        self.may_take = asyncio.Event()

    async def send(self, message: Message) -> None:
        await self.may_take.wait()
        self.taken.append(message)


def event(text: bytes) -> Message:
    return {"type": "http.response.body", "body": text, "more_body": True}


PROGRESS = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\r\n\r\n'
LOG = PROGRESS.replace(b"progress", b"message")
QUESTION = PROGRESS.replace(b"notifications/progress", b"elicitation/create")
CHANGE = PROGRESS.replace(b"progress", b"tools/list_changed")


async def test_what_may_be_left_out_is_where_too_much_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unsent, "SENT_PIECE", 100)
    client, quota = Client(), ByteQuota(1_000, 1_000)
    queue = EventQueue(client.send, quota)
    begin = {"type": "http.response.start", "status": 200}
    for message in (begin, event(PROGRESS), event(LOG), event(b": ping\r\n\r\n"), event(QUESTION), event(CHANGE)):
        queue.put(message, "alice")
    assert quota.by_all == len(QUESTION) + len(CHANGE)
    client.may_take.set()
    await queue.join()
    assert client.taken == [begin, event(PROGRESS), event(b": ping\r\n\r\n"), event(QUESTION), event(CHANGE)]
    assert quota.by_caller == {}
    assert "1 notifications were left out" in caplog.text


async def test_a_stream_ends_in_the_place_of_what_may_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsent, "SENT_PIECE", 100)
    client, quota = Client(), ByteQuota(250, 1_000)
    queue = EventQueue(client.send, quota)
    for text in (b"a" * 50, b"b" * 200, b"c" * 200, b"d"):
        queue.put(event(text), "alice")
    client.may_take.set()
    await queue.join()
    assert [message["body"] for message in client.taken] == [b"a" * 50, b"b" * 100, b"b" * 100, b""]
    assert [message.get("more_body", False) for message in client.taken] == [True, True, True, False]


@pytest.mark.parametrize("end", ["joined", "aborted", "before its first turn"])
async def test_what_is_not_sent_any_more_does_not_count(end: str) -> None:
    client, quota = Client(), ByteQuota(LARGE, LARGE)
    queue = EventQueue(client.send, quota)
    queue.put(event(b"a" * LARGE), "alice")
    assert quota.by_all == LARGE
    if end == "joined":
        task = asyncio.create_task(queue.join())
        await asyncio.sleep(0)
        task.cancel()
    else:
        if end == "aborted":
            await asyncio.sleep(0)
        queue.abort()
    await wait_until(lambda: quota.by_caller == {})
    queue.put(event(b"a"), "alice")
    assert client.taken == []
