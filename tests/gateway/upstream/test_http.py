"""A server behind a URL: FastMCP's own over HTTP, of both eras."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import fastmcp
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.server.dependencies import get_http_headers
from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from codecall.errors import ServerUnavailableError
from codecall.gateway.config.options import HttpServer
from codecall.gateway.upstream import http as web
from codecall.gateway.upstream import messages, responses, session
from codecall.gateway.upstream import server as backends
from codecall.gateway.upstream.addresses import PrivateAddressError
from codecall.gateway.upstream.http import HttpTransport
from codecall.gateway.upstream.oauth import create_oauth
from codecall.gateway.upstream.server import Backend
from codecall.gateway.upstream.session import RelayingSession
from tests.gateway.backends import CuttableLink, call, result_text, serve_components, serve_over_http, wait_until
from tests.loop_turns import assert_turns_below

_ABOUT = {"name": "x", "version": "1"}


async def sse_events(answers: asyncio.Queue[str]) -> AsyncIterator[str]:
    """The stream of a server over SSE, which sends these answers."""
    yield "event: endpoint\ndata: /sse\n\n"
    while True:
        yield f"data: {await answers.get()}\n\n"


def behind() -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("far", version="1.0")

    @server.tool
    def headers() -> dict[str, str]:
        return get_http_headers(include_all=True)

    @server.tool
    def large(size: int) -> str:
        return "x" * size

    @server.tool
    async def slow() -> str:
        await asyncio.sleep(60)
        return "done"

    @server.tool
    async def steps(ctx: Context) -> str:
        for step in range(3):
            await ctx.report_progress(step + 1, 3)
        return "done"

    @server.tool
    async def asks(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", str)
        return f"{answer.action} {getattr(answer, 'data', '')}"

    return server


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_calls_and_progress_over_http(mode: str) -> None:
    heard: list[float] = []

    async def progress(done: float, _total: float | None, _message: str | None) -> None:
        heard.append(done)

    async with (
        serve_over_http(behind()) as url,
        serve_components(Backend("far", HttpServer(url=url))) as server,
        Client(server, mode=mode) as client,
    ):
        assert len(result_text(await client.call_tool("large", {"size": 3_000_000}))) == 3_000_000
        assert result_text(await client.call_tool("steps", {}, progress_handler=progress)) == "done"
    assert heard[-1] == 3


async def test_what_clients_send_reaches_no_server_and_what_is_configured_does(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAR_TOKEN", "t0ken")
    caplog.set_level(logging.INFO)
    async with serve_over_http(behind()) as url:
        options = HttpServer(url=url.replace("//", "//me:pa55@"), headers={"X-Team": "${FAR_TOKEN}"})
        async with (
            serve_components(Backend("far", options)) as server,
            serve_over_http(server) as outer,
            Client(outer, auth="client-token") as client,
        ):
            seen = (await client.call_tool("headers", {})).data
    assert seen["x-team"] == "t0ken"
    assert seen["authorization"].startswith("Basic ")
    assert "client-token" not in str(seen)
    assert "pa55" not in caplog.text


@pytest.mark.parametrize("per_client", [False, True])
async def test_what_a_server_sets_for_one_caller_is_not_sent_for_another(per_client: bool) -> None:
    seen: list[str | None] = []

    async def answer(request: Request) -> Response:
        asked = await request.json()
        result: object = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        if asked["method"] == "tools/call":
            seen.append(request.headers.get("cookie"))
            result = {"content": [{"type": "text", "text": "x"}]}
        message = {"jsonrpc": "2.0", "id": asked.get("id"), "result": result}
        return JSONResponse(message, headers={"set-cookie": f"session={len(seen)}"})

    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    async with (
        serve_over_http(app) as url,
        Backend("far", HttpServer(url=url, per_client=per_client)) as backend,
    ):
        backend._modern = False
        assert [await call(backend, "x"), await call(backend, "x")] == ["x", "x"]
    assert seen == (["session=0", "session=1"] if per_client else [None, None])


async def test_an_answer_that_is_too_large_for_sse_fails_its_call_alone() -> None:
    answers: asyncio.Queue[str] = asyncio.Queue()

    async def answer(request: Request) -> Response:
        if request.method == "GET":
            return StreamingResponse(sse_events(answers), media_type="text/event-stream")
        asked = await request.json()
        result: object = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        if asked["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": "x" * asked["params"]["arguments"]["size"]}]}
        if "id" in asked:
            answers.put_nowait(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
        return Response(status_code=202)

    app = Starlette(routes=[Route("/sse", answer, methods=["GET", "POST"])])
    async with (
        serve_over_http(app) as url,
        Backend("far", HttpServer(url=url.replace("/mcp", "/sse"), transport="sse")) as backend,
    ):
        with pytest.raises(ServerUnavailableError, match=r"read: it has more than 1,048,576 bytes, the most over SSE"):
            await call(backend, "large", size=2_000_000)
        assert await call(backend, "large", size=1) == "x"


@pytest.mark.parametrize("answers", ["its request", "another"])
async def test_a_large_answer_in_a_stream_holds_nobody_up(answers: str) -> None:
    """The SDK takes what comes in answer to a request for its answer, whatever request it names."""
    text = "\x85" * 4_000_000
    result = json.dumps({"content": [{"type": "text", "text": text}]}, ensure_ascii=False).encode()
    parts = [result[start : start + 65_536] for start in range(0, len(result), 65_536)]

    async def events(request_id: object) -> AsyncIterator[bytes]:
        yield f'data: {{"jsonrpc":"2.0","id":{json.dumps(request_id)},"result":'.encode()
        for part in parts:
            yield part
        yield b"}\n\n"

    async def answer(request: Request) -> Response:
        asked = await request.json()
        if asked["method"] == "tools/call":
            request_id = asked["id"] if answers == "its request" else "other"
            return StreamingResponse(events(request_id), media_type="text/event-stream")
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        return JSONResponse({"jsonrpc": "2.0", "id": asked.get("id"), "result": about})

    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        backend._modern = False

        async def read() -> None:
            assert await call(backend, "x") == text

        await assert_turns_below(10, read)


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_an_answer_that_is_too_large_or_compressed_fails_its_call_alone(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr(web, "MAX_MESSAGE_BYTES", 100_000)

    async def answer(request: Request) -> Response:
        asked = await request.json()
        if asked["method"] != "tools/call":
            init = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
            return JSONResponse({"jsonrpc": "2.0", "id": asked.get("id"), "result": init})
        size = asked["params"]["arguments"]["size"]
        result = {"content": [{"type": "text", "text": "x" * size}]}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        return Response(
            gzip.compress(body) if encoding == "gzip" and size > 9 else body,
            media_type="application/json",
            headers={"content-encoding": encoding} if encoding == "gzip" and size > 9 else {},
        )

    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        backend._modern = False
        with pytest.raises(ServerUnavailableError, match=r"cannot be read: it (is compressed|has more than)"):
            await call(backend, "large", size=200_000)
        assert await call(backend, "large", size=1) == "x"


async def test_calls_that_are_given_up_leave_others_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_SENT_REQUESTS", 3)
    gone, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def answer(request: Request) -> Response:
        asked = await request.json()
        result: object = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        if asked["method"] != "tools/call":
            return JSONResponse({"jsonrpc": "2.0", "id": asked.get("id"), "result": result})
        arrived.release()
        await (gone.wait() if asked["params"]["name"] == "large" else asyncio.Event().wait())
        result = {"content": [{"type": "text", "text": "x" * 1_000_000}]}
        message = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        return Response(f"event: message\ndata: {message}\n\n", media_type="text/event-stream")

    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        backend._modern = False
        large = asyncio.create_task(call(backend, "large"))
        await arrived.acquire()
        for _ in range(5):
            never = asyncio.create_task(call(backend, "never"))
            await arrived.acquire()
            never.cancel()
            await asyncio.wait({never})
        gone.set()
        assert len(await large) == 1_000_000


@pytest.mark.parametrize("body", ['{"jsonrpc":"2.0","id":%d,"result":[]}', "{secret%d", "[%d]"])
async def test_a_body_that_is_no_message_is_not_quoted(body: str) -> None:
    async def answer(request: Request) -> Response:
        asked = await request.json()
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        if asked["method"] == "tools/call":
            return Response(body % asked["id"], headers={"content-type": "application/json"})
        return JSONResponse({"jsonrpc": "2.0", "id": asked.get("id"), "result": result})

    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        backend._modern = False
        with pytest.raises(ServerUnavailableError, match=r"cannot be read: it is no valid message$"):
            await call(backend, "x")


@pytest.mark.parametrize(
    ("media_type", "encoding", "value", "why"),
    [
        ("application/json; x=event-stream", "gzip", "", "it is compressed"),
        ("Text/Event-Stream", "gzip", "", "it is compressed"),
        ("application/json", "", "[]," * 100_001, "it has more than 200,000 values"),
        ("text/event-stream; charset=utf-8", "", "[]," * 100_001, "it has more than 200,000 values"),
        ("application/json", "", "9" * 401 + ",", "it has more than 400 digits in a number"),
        ("text/event-stream", "", "9" * 401 + ",", "it has more than 400 digits in a number"),
    ],
)
async def test_no_kind_of_answer_escapes_its_bounds(media_type: str, encoding: str, value: str, why: str) -> None:
    async def answer(request: Request) -> Response:
        asked = await request.json()
        result: object = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        headers: dict[str, str] = {"content-type": "application/json"}
        if calls := asked["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": "[],\ud83d" * 70_000}]}
        body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result})
        if bad := calls and asked["params"]["arguments"]["bad"]:
            body = body.replace('"content"', f'"structuredContent":{{"a":[{value}0]}},"content"')
        if calls and "event" in media_type.partition(";")[0].lower():
            body = f": hello\r\n\r\nevent: message\ndata: {body}\n\n"
        if calls:
            headers = {"content-type": media_type, **({"content-encoding": encoding} if bad and encoding else {})}
        return Response(gzip.compress(body.encode(), 1) if "content-encoding" in headers else body, headers=headers)

    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        backend._modern = False
        with pytest.raises(ServerUnavailableError, match=f"cannot be read: {why}"):
            await call(backend, "x", bad=True)
        assert await call(backend, "x", bad=False) == "[],\ufffd" * 70_000


@pytest.mark.parametrize("modern", [True, False])
async def test_a_connection_that_drops_is_made_again(modern: bool) -> None:
    async with serve_over_http(behind()) as first, serve_over_http(behind()) as second:
        wire = CuttableLink(first)
        await wire.open()
        async with Backend("far", HttpServer(url=wire.url)) as backend:
            backend._modern = None if modern else False
            assert await call(backend, "large", size=1) == "x"
            running = asyncio.create_task(call(backend, "slow"))
            await wait_until(lambda: backend.health.calls)
            await asyncio.sleep(0.1)  # until it is at the server
            await wire.cut()
            with pytest.raises(ServerUnavailableError, match="closed the connection while the call was under way"):
                await running
            with pytest.raises(ServerUnavailableError, match="could not be reached"):
                await call(backend, "large", size=1)
            for slot in backend._slots.values():
                slot.not_before = 0
            await wire.open()
            assert await call(backend, "large", size=1) == "x"
            # Another process at the same place does not know the session of the handshake era.
            await wire.cut()
            wire.target = second
            await wire.open()
            await asyncio.gather(call(backend, "large", size=1), return_exceptions=True)
            assert await call(backend, "large", size=1) == "x"
            await wire.cut()


@pytest.mark.parametrize("place", ["metadata", "401", "redirect", "sse", "delete"])
async def test_what_is_read_as_a_whole_is_bounded_whatever_it_is_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    most, sent = 64 * 2**20, 0
    closed = asyncio.Event()
    answers: asyncio.Queue[str] = asyncio.Queue()

    async def endless(request_id: int) -> AsyncIterator[bytes]:
        nonlocal sent
        result = {"content": [{"type": "text", "text": "x" * 200_000}]}
        event = f"data: {json.dumps({'jsonrpc': '2.0', 'id': request_id, 'result': result})}\n\n".encode()
        try:
            while sent < most:
                yield event
                sent += len(event)
                await asyncio.sleep(0)
        finally:
            closed.set()

    def stream(request_id: int = 1, status: int = 200, **headers: str) -> Response:
        return StreamingResponse(endless(request_id), status, headers, "text/event-stream")

    async def answer(request: Request) -> Response:
        if request.method == "DELETE":
            return stream()
        if "well-known" in request.url.path:
            return stream()
        if request.method == "GET":
            sse = StreamingResponse(sse_events(answers), media_type="text/event-stream")
            return sse if place == "sse" else Response(b"", 405)
        asked = await request.json()
        if place in ("metadata", "401"):
            return stream(asked["id"], 401) if place == "401" else Response(status_code=401)
        if "id" not in asked:
            return Response(status_code=202)
        result: object = {"content": [{"type": "text", "text": "x"}]}
        if asked["method"] == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        elif place == "redirect":
            return stream(asked["id"], 307, location="/elsewhere")
        elif place == "sse":
            return stream(asked["id"])
        message = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        if place == "sse":
            answers.put_nowait(json.dumps(message))
            return Response(status_code=202)
        return JSONResponse(message, headers={"mcp-session-id": "1"})

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"])])
    async with serve_over_http(app) as url, asyncio.timeout(30):
        options: dict[str, Any] = {"auth": "oauth"} if place in ("metadata", "401") else {}
        async with Backend(
            "far", HttpServer(url=url.replace("/mcp", "/sse") if place == "sse" else url, **options)
        ) as far:
            far._modern = False
            called = asyncio.create_task(call(far, "x"))
            await (called if place == "delete" else closed.wait())
        await closed.wait()
        (outcome,) = await asyncio.gather(called, return_exceptions=True)
    assert outcome == "x" if place == "delete" else isinstance(outcome, ServerUnavailableError)
    assert sent < most / 2  # of which the most is in the buffers of the connection


@pytest.mark.parametrize("status", [201, 300])
async def test_events_are_read_where_the_request_had_success(status: int) -> None:
    async def answer(request: Request) -> Response:
        asked = await request.json()
        result: object = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        message = {"jsonrpc": "2.0", "id": asked.get("id"), "result": result}
        if asked["method"] != "tools/call":
            return JSONResponse(message)
        message["result"] = {"content": [{"type": "text", "text": "x"}]}
        # What is no message is left out of a stream; elsewhere the SDK would fail at it.
        return Response(f"data: {{}}\n\ndata: {json.dumps(message)}\n\n", status, media_type="text/event-stream")

    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        backend._modern = False
        if status < 300:
            assert await call(backend, "x") == "x"
        else:
            with pytest.raises(MCPError, match="Unexpected content type"):
                await call(backend, "x")


class TenTimesAsFast:
    """The clock of a `Throttle`, for those who do not want to wait for its seconds."""

    lowlevel = anyio.lowlevel

    @staticmethod
    def current_time() -> float:
        return anyio.current_time() * 10

    @staticmethod
    async def sleep_until(deadline: float) -> None:
        await anyio.sleep_until(deadline / 10)


@pytest.mark.parametrize(
    "event",
    [
        b"event: ping\n\n",
        b": \n\n",
        b"id: 1\ndata:\n\n",
        b"\n\n",
        b"event: x\ndata: {}\n\n",
        b"event: endpoint\ndata: /x\n\n",
        b'data: {"x":1}\n\n',
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_stream_of_events_without_messages_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, event: bytes, method: str
) -> None:
    monkeypatch.setattr(responses, "_IDLE_EVENTS_PER_S", 10)
    monkeypatch.setattr(responses, "_MAX_IDLE_S", 1)
    monkeypatch.setattr(messages, "anyio", TenTimesAsFast)
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield event
                await asyncio.sleep(0)
        finally:
            closed.set()

    async def answer(request: Request) -> Response:
        if request.method == "GET":
            return StreamingResponse(endless(), media_type="text/event-stream")
        asked = await request.json()
        if "id" not in asked:
            return Response(status_code=202)
        result: dict[str, Any] = {"content": [{"type": "text", "text": "x"}]}
        if asked["method"] == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        elif asked["method"] != "tools/call":
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}})
        elif asked["params"]["name"] == "endless":
            return StreamingResponse(endless(), media_type="text/event-stream")
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result}, headers={"mcp-session-id": "1"})

    app = Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST", "DELETE"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        if method == "POST":
            with pytest.raises(ServerUnavailableError):
                await call(backend, "endless")
        else:
            assert await call(backend, "quick") == "x"
        async with asyncio.timeout(30):
            await closed.wait()
        assert await call(backend, "quick") == "x"
    assert "Error parsing" not in caplog.text
    assert "127.0.0.1 was closed: it sent events without messages" in caplog.text


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream; charset=utf-7"])
async def test_json_that_is_no_message_holds_nobody_up(media_type: str) -> None:
    bomb = '{"a":[' + ",".join(["[]"] * 60_000) + "]}"

    async def answer(request: Request) -> Response:
        asked = await request.json()
        result: object = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
        if asked["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": "+AG8-"}]}
        body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result})
        if asked["method"] != "tools/call":
            return Response(body, media_type="application/json")
        bad = asked["params"]["arguments"]["bad"]
        if "event" in media_type:
            body = f"data: {bomb}\n\ndata: {body}\n\n" if bad else f"data: {body}\n\n"
        return Response(bomb if bad and "json" in media_type else body, headers={"content-type": media_type})

    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        backend._modern = False
        assert await call(backend, "x", bad=False) == "+AG8-"

        async def read() -> None:
            if "json" in media_type:
                with pytest.raises(ServerUnavailableError, match="cannot be read: it is no valid message"):
                    await call(backend, "x", bad=True)
            else:
                assert await call(backend, "x", bad=True) == "+AG8-"

        await assert_turns_below(30, read)  # 2 to 10; read by pydantic, 90


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream"])
async def test_an_answer_in_chunks_of_one_byte_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, media_type: str
) -> None:
    monkeypatch.setattr(responses, "_SMALL_CHUNKS_PER_S", 10**9)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = re.search(rb"content-length: (\d+)", head)
                asked = json.loads(await reader.readexactly(int(length[1]) if length else 0))
                result: object = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": _ABOUT}
                if calls := asked["method"] == "tools/call":
                    result = {"content": [{"type": "text", "text": "x" * 20_000}]}
                body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result})
                if calls and "event" in media_type:
                    body = f"data: {body}\n\n"
                chunks = "".join(f"1\r\n{byte}\r\n" for byte in body)
                kind = media_type if calls else "application/json"
                head_sent = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
                writer.write(f"{head_sent}{chunks}0\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
        async with Backend("far", HttpServer(url=url)) as backend:
            backend._modern = False

            async def read() -> None:
                assert await call(backend, "x") == "x" * 20_000

            await assert_turns_below(5, read)


async def test_an_answer_that_is_no_mcp_is_told_without_the_url() -> None:
    app = Starlette(routes=[Route("/mcp", lambda _request: PlainTextResponse("no", 401), methods=["GET", "POST"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=f"{url}?key=s3cret")) as backend:
        with pytest.raises(ServerUnavailableError, match="it answered HTTP 401") as failure:
            await call(backend, "large", size=1)
        assert "s3cret" not in f"{failure.value} {failure.value.hint} {backend.health}"


@pytest.mark.parametrize(
    ("status", "options", "said"),
    [
        (
            401,
            {},
            'No credentials are configured. Give those that it takes: `headers`, `auth` with a token, or auth = "',
        ),
        (403, {"auth": "s3cret"}, "It refuses what is configured: the token in `auth`. Give those that it takes"),
        (401, {"headers": {"X-Key": "s3cret"}}, "It refuses what is configured: headers.X-Key. "),
        (404, {}, "Nothing of MCP answers at this path: `url` has to be that of the server's MCP endpoint"),
        (405, {}, "Nothing of MCP answers at this path"),
        (503, {}, "Something answers there and fails: look into the log of the server, or of the proxy before it."),
        (200, {}, "Nothing of MCP answers at this path"),
        (429, {}, "Is the server up, and the address right?"),
    ],
)
async def test_what_an_http_status_asks_for_is_said(status: int, options: dict[str, Any], said: str) -> None:
    async def answer(request: Request) -> Response:
        if status != 200 or request.method == "GET":
            return PlainTextResponse("no", status)
        error = {"code": -32601, "message": "Method not found"}
        return JSONResponse({"jsonrpc": "2.0", "id": (await request.json()).get("id"), "error": error})

    app = Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST"])])
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url, **options)) as backend:
        with pytest.raises(ServerUnavailableError) as failure:
            await call(backend, "large", size=1)
    assert (failure.value.hint or "").startswith(said)
    assert "s3cret" not in f"{failure.value} {failure.value.hint} {backend.health}"
    assert f"HTTP {status}" in str(failure.value) or status == 200


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_server_of_either_era_may_ask_through_the_gateway(mode: str) -> None:
    server = behind()

    @server.tool
    async def guard(ctx: Context) -> Any:
        if ctx.input_responses:
            return f"hello {ctx.input_responses['who'].content['name']}"  # pyright: ignore
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        ask = ElicitRequest(params=ElicitRequestFormParams(message="Who?", requested_schema=schema))
        return InputRequiredResult(input_requests={"who": ask})

    async def elicit(*_what: Any) -> Any:
        return ElicitResult(action="accept", content={"value": "Ann", "name": "Ann"})

    async with (
        serve_over_http(server) as url,
        serve_components(Backend("far", HttpServer(url=url))) as gateway,
        Client(gateway, mode=mode, elicitation_handler=elicit) as client,
    ):
        tool = "asks" if mode == "legacy" else "guard"
        assert "Ann" in result_text(await client.call_tool(tool, {}))


def test_tokens_are_kept_for_nobody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    create_oauth("https://far.example/mcp")
    assert (tmp_path / "oauth-tokens").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("said_by", ["resource_metadata", "authorization_servers", "registration_endpoint"])
@pytest.mark.parametrize("allowed", [False, True])
async def test_a_sign_in_sends_nothing_into_a_network_that_is_not_the_servers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said_by: str, allowed: bool
) -> None:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    asked: list[bytes] = []

    async def internal(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    async def answer(request: Request) -> Response:
        here = str(request.base_url).rstrip("/")
        if "oauth-protected-resource" in request.url.path:
            there = secret if said_by == "authorization_servers" else here
            return JSONResponse({"resource": f"{here}/mcp", "authorization_servers": [there]})
        if "oauth-authorization-server" in request.url.path:
            endpoints = {"authorization_endpoint": f"{here}/a", "token_endpoint": f"{here}/t"}
            return JSONResponse({"issuer": here, **endpoints, "registration_endpoint": f"{secret}/admin"})
        metadata = f"{secret if said_by == 'resource_metadata' else here}/.well-known/oauth-protected-resource"
        return Response(status_code=401, headers={"www-authenticate": f'Bearer resource_metadata="{metadata}"'})

    routes = [Route("/{path:path}", answer, methods=["GET", "POST"])]
    async with await asyncio.start_server(internal, "127.0.0.2", 0) as listener:
        secret = f"http://127.0.0.2:{listener.sockets[0].getsockname()[1]}"
        async with serve_over_http(Starlette(routes=routes)) as url:
            options = HttpServer(url=url, auth="oauth", auth_hosts=("127.0.0.2",) if allowed else ())
            async with Backend("far", options) as backend:
                with pytest.raises(ServerUnavailableError) as failure:
                    await call(backend, "large", size=1)
    assert bool(asked) is allowed
    assert ("wants the sign-in at 127.0.0.2, which is no public address" in str(failure.value)) is not allowed


async def test_the_request_before_a_sign_in_reads_no_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    sent: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        for number in range(2_000):
            sent.append(number)
            yield b"x" * 100_000
            await asyncio.sleep(0)

    async def answer(request: Request) -> Response:
        assert request.headers["accept-encoding"] == "identity"
        return StreamingResponse(endless(), headers={"set-cookie": "a=b", "content-encoding": "gzip"})

    async with (
        serve_over_http(Starlette(routes=[Route("/authorize", answer)])) as url,
        create_oauth(url).httpx_client_factory() as client,
    ):
        response = await client.get(url.replace("/mcp", "/authorize"), follow_redirects=False)
        assert (response.status_code, response.content, len(client.cookies)) == (200, b"", 0)
    assert len(sent) < 2_000


async def test_a_sign_in_cannot_move_into_this_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    asked: list[Any] = []
    find = socket.getaddrinfo

    def moving(host: Any, *more: Any, **options: Any) -> Any:
        if (host.decode() if isinstance(host, bytes) else host) != "moving.test":
            return find(host, *more, **options)
        asked.append(host)
        return find("93.184.216.34" if len(asked) == 1 else "127.0.0.1", *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", moving)
    reached: list[str] = []

    async def answer(request: Request) -> Response:
        reached.append(request.url.path)
        return Response()

    async with serve_over_http(Starlette(routes=[Route("/authorize", answer)])) as url:
        there = url.replace("127.0.0.1", "moving.test").replace("/mcp", "/authorize")
        async with create_oauth(url).httpx_client_factory() as client:
            with pytest.raises(PrivateAddressError, match=r"wants the sign-in at moving\.test"):
                await client.get(there)
            assert (await client.get(url.replace("/mcp", "/authorize"))).status_code == 200
    assert (len(asked), reached) == (2, ["/authorize"])


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "latin-1", "nothing", "a" * 300])
async def test_no_encoding_that_a_server_names_is_used(charset: str) -> None:
    async def answer(_request: Request) -> Response:
        return Response(b"a-a9a9\\n", 400, headers={"content-type": f"Text/Plain; x=y; charset={charset}"})

    async with serve_over_http(Starlette(routes=[Route("/mcp", answer)])) as url:
        transport = HttpTransport(url, None, {}, None, RelayingSession)
        async with transport._client() as client:
            response = await client.get(url)
    assert (response.text, response.headers["content-type"]) == ("a-a9a9\\n", "text/plain")


async def test_changes_are_heard_from_servers_of_the_new_era(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_CHANGES_S", 0.01)
    heard: Counter[str] = Counter()
    bus = InMemorySubscriptionBus()
    app = MCPServer("far", subscriptions=bus).streamable_http_app(streamable_http_path="/mcp")
    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        backend.on_changed(lambda what: heard.update([what]))
        async with backend.use(None) as line:
            assert line.session.protocol_version == "2026-07-28"
            async with asyncio.timeout(5):
                while not heard["tools"]:
                    await bus.publish(ToolsListChanged())
                    await asyncio.sleep(0.02)
        await bus.publish(PromptsListChanged())
        await wait_until(lambda: heard["prompts"])


async def test_a_server_that_drops_what_it_acknowledges_is_asked_less_and_less(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    app = MCPServer("far", subscriptions=InMemorySubscriptionBus()).streamable_http_app(streamable_http_path="/mcp")

    async def dropping(scope: Any, receive: Any, send: Any) -> None:
        listens = (b"mcp-method", b"subscriptions/listen") in scope.get("headers", ())

        async def send_one(message: Any) -> None:
            ends = listens and message["type"] == "http.response.body"
            await send({**message, "more_body": False} if ends else message)
            if ends:
                task.cancel()

        task = asyncio.ensure_future(app(scope, receive, send_one))
        with suppress(asyncio.CancelledError):
            await task

    async with serve_over_http(dropping) as url, Backend("far", HttpServer(url=url)) as backend:
        async with backend.use(None) as line:
            assert line.session.protocol_version == "2026-07-28"
        again = re.compile(r"is asked to tell of changes again in (\d+) s")
        await wait_until(lambda: again.findall(caplog.text)[:3] == ["1", "2", "4"], 30)
