"""A server over SSE that does not take a message, or takes it in odd ways."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from codecall.errors import ServerTimeoutError, ServerUnavailableError
from codecall.gateway.config.options import HttpServer
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import call, serve_over_http, wait_until

Acknowledge = Callable[["SseServer", dict[str, Any]], Awaitable[Response | None]]


class SseServer:
    """A server over SSE with one tool, `echo`; what it does with a call of another is said by a test."""

    def __init__(self, take: Acknowledge) -> None:
        self.streams: list[asyncio.Queue[str]] = []
        self.asked: list[str] = []
        self._take = take

    async def events(self) -> AsyncIterator[str]:
        self.streams.append(stream := asyncio.Queue())
        yield "event: endpoint\ndata: /sse\n\n"
        while True:
            yield f"{await stream.get()}\n\n"

    async def handle(self, request: Request) -> Response:
        if request.method == "GET":
            return StreamingResponse(self.events(), media_type="text/event-stream")
        message = await request.json()
        tool = message.get("params", {}).get("name")
        self.asked.append(tool or message["method"])
        if tool not in (None, "echo") and (response := await self._take(self, message)) is not None:
            return response
        self.answer(message)
        return Response(status_code=202)

    def answer(self, message: dict[str, Any]) -> None:
        result: object = {"content": [{"type": "text", "text": "hello"}]}
        if message["method"] == "initialize":
            about = {"name": "x", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": about}
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            self.streams[-1].put_nowait(f"data: {json.dumps(answer)}")


@asynccontextmanager
async def connected(server: SseServer, call_timeout_s: float = 60.0) -> AsyncGenerator[Backend]:
    app = Starlette(routes=[Route("/sse", server.handle, methods=["GET", "POST"])])
    async with serve_over_http(app) as url:
        options = HttpServer(url=url.replace("/mcp", "/sse"), transport="sse", call_timeout_s=call_timeout_s)
        async with Backend("far", options) as backend:
            assert await call(backend, "echo") == "hello"
            yield backend


async def never(_server: SseServer, _message: dict[str, Any]) -> Response | None:
    await asyncio.Event().wait()
    return None


async def test_a_message_that_is_not_acknowledged_ends_its_connection_and_no_other() -> None:
    server = SseServer(never)
    async with connected(server, call_timeout_s=1.0) as backend:
        hanging = asyncio.create_task(call(backend, "hang"))
        await wait_until(lambda: "hang" in server.asked)
        behind = asyncio.create_task(call(backend, "behind"))
        sent, unsent = await asyncio.gather(hanging, behind, return_exceptions=True)
        assert isinstance(sent, ServerUnavailableError)
        assert str(sent) == "Server 'far' did not take a message within 1 s while the call was under way"
        assert "may have taken effect" in (sent.hint or "")
        assert isinstance(unsent, ServerUnavailableError)
        assert str(unsent) == "Server 'far' did not take a message within 1 s; the call was not sent"
        assert await call(backend, "echo") == "hello"
    assert (len(server.streams), server.asked.count("behind")) == (2, 0)


class Refusing:
    """Answers `wait` when it may, and refuses whatever else."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.waits: dict[str, Any] | None = None

    async def __call__(self, server: SseServer, message: dict[str, Any]) -> Response | None:
        if message["params"]["name"] != "wait":
            return Response(status_code=self.status)
        self.waits = message
        return Response(status_code=202)


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (400, "The server does not take what this call sends: send something else."),
        (413, "The server takes no message of this size: send less."),
        (429, "Call again later."),
    ],
)
async def test_a_call_that_is_refused_for_what_it_sends_ends_alone(status: int, hint: str) -> None:
    refusing = Refusing(status)
    server = SseServer(refusing)
    async with connected(server) as backend:
        waiting = asyncio.create_task(call(backend, "wait"))
        await wait_until(lambda: refusing.waits)
        for _ in range(2):
            with pytest.raises(ServerUnavailableError) as refused:
                await call(backend, "refused")
            assert str(refused.value) == f"Server 'far' answered HTTP {status}: the call was refused, and not done"
            assert refused.value.hint == hint
        assert await call(backend, "echo") == "hello"
        assert refusing.waits is not None
        server.answer(refusing.waits)
        assert await waiting == "hello"
        (connection,) = [slot.connection for slot in backend._slots.values() if slot.connection]
        assert not connection.router._lingering  # the server has none of what it refused
    assert len(server.streams) == 1


async def test_a_refused_message_that_is_no_request_ends_no_call(caplog: pytest.LogCaptureFixture) -> None:
    refusing = Refusing(400)

    class RefusingNotifications(SseServer):
        async def handle(self, request: Request) -> Response:
            is_message = request.method == "POST" and "params" in (message := await request.json())
            if is_message and message["method"] == "notifications/cancelled":
                return Response(status_code=413)
            return await super().handle(request)

    async def wait(server: SseServer, message: dict[str, Any]) -> Response | None:
        if message["params"]["name"] == "hang":
            return Response(status_code=202)
        return await refusing(server, message)

    server = RefusingNotifications(wait)
    async with connected(server) as backend:
        waiting, hanging = asyncio.create_task(call(backend, "wait")), asyncio.create_task(call(backend, "hang"))
        await wait_until(lambda: refusing.waits and "hang" in server.asked)
        hanging.cancel()
        await wait_until(lambda: "refused an answer or a notification with HTTP 413" in caplog.text)
        assert await call(backend, "echo") == "hello"
        assert refusing.waits is not None
        server.answer(refusing.waits)
        assert await waiting == "hello"
    assert len(server.streams) == 1


@pytest.mark.parametrize("status", [403, 500])
async def test_a_status_that_may_concern_all_ends_no_other_call(status: int) -> None:
    refusing = Refusing(status)
    server = SseServer(refusing)
    async with connected(server) as backend:
        waiting = asyncio.create_task(call(backend, "wait"))
        await wait_until(lambda: refusing.waits)
        with pytest.raises(ServerUnavailableError, match=f"answered HTTP {status} while the call was under way"):
            await call(backend, "refused")
        assert refusing.waits is not None
        server.answer(refusing.waits)
        assert await waiting == "hello"
    assert len(server.streams) == 1


@pytest.mark.parametrize("status", [401, 404, 410])
async def test_a_server_that_knows_the_session_no_longer_is_connected_anew(status: int) -> None:
    refusing = Refusing(status)
    server = SseServer(refusing)
    async with connected(server) as backend:
        waiting = asyncio.create_task(call(backend, "wait"))
        await wait_until(lambda: refusing.waits)
        with pytest.raises(ServerUnavailableError, match=f"answered HTTP {status} while the call was under way"):
            await call(backend, "refused")
        with pytest.raises(ServerUnavailableError, match=f"answered HTTP {status} while the call was under way"):
            await waiting
        assert await call(backend, "echo") == "hello"
    assert len(server.streams) == 2


async def test_a_message_that_is_refused_ends_the_connection_at_once() -> None:
    async def refuse(_server: SseServer, _message: dict[str, Any]) -> Response | None:
        return Response(status_code=500)

    server = SseServer(refuse)
    async with connected(server) as backend:
        with pytest.raises(ServerUnavailableError, match="answered HTTP 500 while the call was under way"):
            await call(backend, "refused")
        assert await call(backend, "echo") == "hello"
    assert len(server.streams) == 2


async def test_the_rest_of_an_acknowledgement_is_not_waited_for() -> None:
    async def trickle(_server: SseServer, _message: dict[str, Any]) -> Response | None:
        async def endless() -> AsyncIterator[bytes]:
            yield b"x"
            await asyncio.Event().wait()

        return StreamingResponse(endless(), 202)

    server = SseServer(trickle)
    async with connected(server, call_timeout_s=3.0) as backend:
        hanging = asyncio.create_task(call(backend, "hang"))
        await wait_until(lambda: "hang" in server.asked)
        assert await call(backend, "echo") == "hello"
        with pytest.raises(ServerTimeoutError, match="did not answer within 3 s; the call was cancelled"):
            await hanging
        await wait_until(lambda: "notifications/cancelled" in server.asked)
        assert await call(backend, "echo") == "hello"
    assert len(server.streams) == 1


async def test_a_second_address_for_messages_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def move(server: SseServer, _message: dict[str, Any]) -> Response | None:
        server.streams[-1].put_nowait("event: endpoint\ndata: /elsewhere")
        return None

    server = SseServer(move)
    async with connected(server) as backend:
        assert [await call(backend, "moved"), await call(backend, "echo")] == ["hello", "hello"]
    assert len(server.streams) == 1
    assert "a second address for messages was left out" in caplog.text


async def test_a_server_that_answers_before_it_acknowledges_may_take_its_time() -> None:
    async def work(server: SseServer, message: dict[str, Any]) -> Response | None:
        progress = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 0}
        for step in range(8):
            notice = {"method": "notifications/progress", "params": {**progress, "progress": step}}
            server.streams[-1].put_nowait(f"data: {json.dumps({'jsonrpc': '2.0', **notice})}")
            await asyncio.sleep(0.25)
        return None

    server = SseServer(work)
    async with connected(server, call_timeout_s=1.0) as backend, backend.use(None) as line:
        result: Any = await line.session.call_tool("work", {}, progress_callback=line.progress)
        assert result.content[0].text == "hello"
    assert len(server.streams) == 1
