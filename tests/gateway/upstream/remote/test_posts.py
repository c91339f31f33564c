"""Calls over streamable HTTP, each with a connection of its own: none ends another's, or keeps it from being sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.auth import BearerAuth
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from mcp import MCPError

from codecall.errors import ServerUnavailableError
from codecall.gateway.config.options import HttpServer
from codecall.gateway.upstream.bounds import shares
from codecall.gateway.upstream.remote import posts
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import call, result_text, serve_components, serve_over_http, wait_until
from tests.gateway.upstream.bounds.test_http_client import RawServer, Write


class Patient:
    """A server with a tool that waits until it may answer, and one that need not."""

    def __init__(self) -> None:
        self.waiting = 0
        self.may_answer = asyncio.Event()
        self.server: FastMCP[Any] = FastMCP("far")

        @self.server.tool
        async def wait(ctx: Context) -> str:
            self.waiting += 1
            while not self.may_answer.is_set():
                await ctx.report_progress(self.waiting)  # or its time would be up
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.may_answer.wait(), 0.2)
            return "at last"

        @self.server.tool
        def quick() -> str:
            return "hello"


@asynccontextmanager
async def many(patient: Patient, one: Any, count: int) -> AsyncGenerator[list[asyncio.Task[Any]]]:
    """So many calls that wait; they are answered at the end."""
    tasks = [asyncio.create_task(one()) for _ in range(count)]
    try:
        yield tasks
    finally:
        patient.may_answer.set()
        await asyncio.wait(tasks)


@pytest.mark.parametrize("modern", [True, False])
async def test_however_many_calls_wait_the_next_is_sent(modern: bool) -> None:
    patient = Patient()
    async with serve_over_http(patient.server) as url, Backend("far", HttpServer(url=url)) as backend:
        backend._modern = None if modern else False
        assert await call(backend, "quick") == "hello"
        async with many(patient, lambda: call(backend, "wait"), 120) as tasks:
            await wait_until(lambda: patient.waiting == 120, 30)
            assert await call(backend, "quick") == "hello"
        assert {task.result() for task in tasks} == {"at last"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_caller_with_many_calls_waits_for_its_own_and_no_other_for_it(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(shares, "MAX_CALLS", 3)
    patient = Patient()
    names = {name: {"client_id": name, "scopes": []} for name in ("alice", "mallory")}
    async with (
        serve_over_http(patient.server) as url,
        serve_components(Backend("far", HttpServer(url=url, call_timeout_s=2.0))) as front,
    ):
        front.auth = StaticTokenVerifier(names)
        async with (
            serve_over_http(front) as outer,
            Client(outer, auth=BearerAuth("alice"), mode=mode) as alice,
            Client(outer, auth=BearerAuth("mallory"), mode=mode) as mallory,
            many(patient, lambda: mallory.call_tool("wait", {}, raise_on_error=False), 3) as tasks,
        ):
            await wait_until(lambda: patient.waiting == 3)
            unsent = asyncio.create_task(mallory.call_tool("quick", {}, raise_on_error=False))
            assert (await alice.call_tool("quick", {})).data == "hello"
            assert result_text(await unsent) == (
                "SERVER_TIMEOUT: Server 'far' took no call within 2 s; this one was not sent. Call again."
            )
            waits = asyncio.create_task(mallory.call_tool("quick", {}))
            assert (await alice.call_tool("quick", {})).data == "hello"
            patient.may_answer.set()
            assert (await waits).data == "hello"
            await asyncio.wait(tasks)
            assert {task.result().data for task in tasks} == {"at last"}


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n"


def answer_to(asked: Any) -> bytes:
    if asked is None:
        return b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"
    if "id" not in asked:
        return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    result: object = {"content": [{"type": "text", "text": "hello"}]}
    if asked["method"] == "initialize":
        about = {"name": "x", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": about}
    body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize(
    "begun", [b"", HEAD % b"application/json", HEAD % b"text/event-stream"], ids=["nothing", "json", "events"]
)
async def test_a_connection_that_is_dropped_ends_its_own_call(begun: bytes) -> None:
    may_answer = asyncio.Event()
    asked_for: list[str] = []

    async def answer(asked: Any, write: Write) -> None:
        tool = asked and asked.get("params", {}).get("name")
        asked_for.append(tool or "")
        if tool == "drop":
            if begun:
                await write(begun)
            raise OSError
        if tool == "wait":
            await may_answer.wait()
        await write(answer_to(asked))

    async with RawServer(answer).serve() as server, Backend("far", HttpServer(url=server.url)) as backend:
        backend._modern = False
        waiting = asyncio.create_task(call(backend, "wait"))
        await wait_until(lambda: "wait" in asked_for)
        with pytest.raises(ServerUnavailableError, match="closed the connection while the call was under way") as lost:
            await call(backend, "drop")
        assert lost.value.hint == "The call may have taken effect: check before you repeat it."
        assert await call(backend, "quick") == "hello"
        may_answer.set()
        assert await waiting == "hello"


async def test_a_server_that_acknowledges_no_cancellation_takes_other_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "_CANCELLATION_S", 0.01)
    asked_for: list[str] = []

    async def answer(asked: Any, write: Write) -> None:
        tool = asked and asked.get("params", {}).get("name")
        asked_for.append(tool or (asked or {}).get("method", ""))
        if asked_for[-1] in ("hang", "notifications/cancelled"):
            await asyncio.Event().wait()
        await write(answer_to(asked))

    async with RawServer(answer).serve() as server, Backend("far", HttpServer(url=server.url)) as backend:
        backend._modern = False
        hanging = asyncio.create_task(call(backend, "hang"))
        await wait_until(lambda: "hang" in asked_for)
        hanging.cancel()
        await wait_until(lambda: "notifications/cancelled" in asked_for)
        assert await call(backend, "quick") == "hello"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "Server 'far' answered HTTP 500 while the call was under way"),
        (504, "Server 'far' answered HTTP 504 while the call was under way"),
        (503, "Server 'far' answered HTTP 503 instead of taking the call"),
    ],
)
async def test_of_a_call_that_may_have_been_done_nobody_says_that_it_was_not_taken(status: int, message: str) -> None:
    async def answer(asked: Any, write: Write) -> None:
        if asked and asked.get("params", {}).get("name") == "fails":
            await write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)
            return
        await write(answer_to(asked))

    async with RawServer(answer).serve() as server, Backend("far", HttpServer(url=server.url)) as backend:
        backend._modern = False
        with pytest.raises(ServerUnavailableError) as failed:
            await call(backend, "fails")
        assert str(failed.value) == message
        assert ("may have taken effect" in (failed.value.hint or "")) is (status != 503)


async def test_a_server_without_a_stream_of_its_own_has_not_forgotten_the_session() -> None:
    asked_for: list[object] = []

    async def answer(asked: Any, write: Write) -> None:
        asked_for.append(asked)
        if asked is None:
            await write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
        elif asked["method"] == "initialize":
            head, _, body = answer_to(asked).partition(b"\r\n\r\n")
            await write(head + b"\r\nMcp-Session-Id: 1\r\n\r\n" + body)
        elif asked.get("params", {}).get("name") == "bad":
            error = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32602, "message": "x is wrong"}}
            body = json.dumps(error).encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            await write(head % len(body) + body)
        else:
            await write(answer_to(asked))

    async with RawServer(answer).serve() as server, Backend("far", HttpServer(url=server.url)) as backend:
        backend._modern = False
        assert await call(backend, "quick") == "hello"
        await wait_until(lambda: None in asked_for)
        with pytest.raises(MCPError, match="x is wrong"):
            await call(backend, "bad")
        assert await call(backend, "quick") == "hello"


async def test_a_call_for_which_there_is_no_connection_was_not_sent_and_ends_no_other() -> None:
    may_answer = asyncio.Event()
    connected = asyncio.Event()

    async def answer(asked: Any, write: Write) -> None:
        if asked and asked.get("params", {}).get("name") == "wait":
            connected.set()
            await may_answer.wait()
        await write(answer_to(asked))

    raw = RawServer(answer)
    listening = await asyncio.start_server(raw._talk, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    async with Backend("far", HttpServer(url=url)) as backend:
        backend._modern = False
        busy = asyncio.create_task(call(backend, "wait"))
        await connected.wait()
        listening.close()
        others = [asyncio.create_task(call(backend, "quick")) for _ in range(3)]
        results = await asyncio.gather(*others, return_exceptions=True)
        unsent = [result for result in results if isinstance(result, ServerUnavailableError)]
        assert unsent  # one may have had the connection of the handshake
        assert {str(each) for each in unsent} == {"Server 'far' could not be reached; the call was not sent"}
        assert {each.hint for each in unsent} == {"Call again."}
        may_answer.set()
        assert await busy == "hello"


@pytest.mark.parametrize("begun", [None, b"application/json", b"text/event-stream"], ids=["nothing", "json", "events"])
async def test_of_calls_that_were_given_up_and_are_not_answered_few_keep_a_connection(
    monkeypatch: pytest.MonkeyPatch, begun: bytes | None
) -> None:
    monkeypatch.setattr(posts, "MAX_GIVEN_UP", 2)
    open_calls: list[int] = []
    asked_for: list[int] = []
    seen = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        asked = json.loads(body + message.get("body", b"") or b"null")
        if asked and asked.get("params", {}).get("name") == "hang":
            open_calls.append(asked["id"])
            asked_for.append(asked["id"])
            seen.set()
            if begun is not None:
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", begun)]})
                await send(
                    {"type": "http.response.body", "body": b" " if b"json" in begun else b": \n\n", "more_body": True}
                )
            while (await receive())["type"] != "http.disconnect":
                pass
            open_calls.remove(asked["id"])
            return
        head, _, content = answer_to(asked).partition(b"\r\n\r\n")
        kind = [(b"content-type", b"application/json")] if content else []
        await send({"type": "http.response.start", "status": int(head.split()[1]), "headers": kind})
        await send({"type": "http.response.body", "body": content})

    async with serve_over_http(app) as url, Backend("far", HttpServer(url=url)) as backend:
        backend._modern = False
        for _ in range(4):
            hanging = asyncio.create_task(call(backend, "hang"))
            await seen.wait()
            seen.clear()
            hanging.cancel()
            with suppress(asyncio.CancelledError):
                await hanging
        await wait_until(lambda: open_calls == asked_for[-2:])
        assert await call(backend, "quick") == "hello"
        (connection,) = [slot.connection for slot in backend._slots.values() if slot.connection]
        # What was given up may be going on at the server, whether anybody waits for it or not.
        (lingering,) = connection.router._lingering
        assert len(lingering.unanswered) == 4


async def test_the_place_of_a_call_that_ends_goes_to_the_next_of_its_caller() -> None:
    taken = shares.CallerShares(bounded=True)
    entered: list[int] = []

    async def one(number: int) -> None:
        async with taken.take("mallory"):
            entered.append(number)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(one(number)) for number in range(shares.MAX_CALLS + 1)]
    await wait_until(lambda: len(entered) == shares.MAX_CALLS)
    async with taken.take("alice"), taken.take(None):
        pass
    tasks[0].cancel()
    await wait_until(lambda: entered[-1] == shares.MAX_CALLS)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert not taken._shares
