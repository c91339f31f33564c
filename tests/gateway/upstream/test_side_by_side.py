"""Questions of a server while several calls of one client are under way: whose they are, and how long they are open."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.auth import BearerAuth
from fastmcp.client.elicitation import ElicitResult
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from mcp import MCPError
from mcp_types import METHOD_NOT_FOUND, LoggingMessageNotificationParams

from codecall import CodeCallPlugin
from codecall.gateway.config.options import HttpServer
from codecall.gateway.upstream import session
from codecall.gateway.upstream.server import Backend
from tests.approvals.conftest import run
from tests.gateway.backends import (
    calls_in_flight,
    plain_server,
    result_text,
    serve_components,
    serve_over_http,
    wait_until,
)
from tests.loop_time import LoopTime

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
KINDS = pytest.mark.parametrize("kind", ["stdio", "http"])
CLIENTS = pytest.mark.parametrize("client_era", ["legacy", "2026-07-28"])


@dataclass
class Name:
    """What a person is asked for."""

    name: str


@dataclass
class Upstream:
    """A server of the handshake era with a tool that asks, and one that takes until it is let go."""

    backend: Backend
    ask: dict[str, Any]
    slow: dict[str, Any]
    let_go: Callable[[], Awaitable[object]]

    def is_asked(self) -> bool:
        """Whether a call has asked."""
        return any(call.asked for call in calls_in_flight(self.backend))


@asynccontextmanager
async def upstream(kind: str, folder: Path, **options: Any) -> AsyncGenerator[Upstream]:
    """A server over standard input and output, or over streamable HTTP."""
    if kind == "stdio":
        until = folder / "until"
        os.mkfifo(until)

        async def let_go() -> None:
            os.close(await asyncio.to_thread(os.open, until, os.O_WRONLY))

        form = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}}
        yield Upstream(Backend("door", plain_server(**options)), form, {"until": str(until)}, let_go)
        return
    behind, may_end = FastMCP[Any]("behind"), asyncio.Event()

    @behind.tool
    async def sleep() -> str:
        await may_end.wait()
        return "slept"

    @behind.tool
    async def ask(ctx: Context) -> str:
        return str(await ctx.elicit("Who?", Name))

    @behind.tool
    async def ask_apart(ctx: Context) -> str:
        """Asks on the stream that belongs to no request."""
        try:
            return str(await ctx.session.elicit_form("Who?", FORM))
        except MCPError as refused:
            return refused.error.message

    @behind.tool
    async def log(ctx: Context) -> str:
        await ctx.info("a line")
        return "logged"

    async def let_go_now() -> None:
        may_end.set()

    async with serve_over_http(old_era_only(behind.http_app(path="/mcp"))) as url:
        yield Upstream(Backend("door", HttpServer(url=url, **options)), {}, {}, let_go_now)


def old_era_only(app: Any) -> Any:
    """An ASGI application that does not know 2026-07-28."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await app(scope, receive, send)
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        message = json.loads(body)
        if message.get("method") == "server/discover":
            error = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": METHOD_NOT_FOUND, "message": "what?"}}
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            return await send({"type": "http.response.body", "body": json.dumps(error).encode()})
        parts = [{"type": "http.request", "body": body, "more_body": False}]
        return await app(scope, lambda: _next(parts, receive), send)

    return serve


async def _next(parts: list[Any], receive: Any) -> Any:
    return parts.pop() if parts else await receive()


@KINDS
async def test_each_of_several_questions_is_answered_whatever_calls_have_ended(kind: str, tmp_path: Path) -> None:
    asked: list[str] = []
    ended: list[str] = []

    async def elicit(message: str, *_what: Any) -> Any:
        asked.append(message)
        number = len(asked)
        await wait_until(lambda: len(asked) == 3 and len(ended) == number - 1)
        return ElicitResult(action="accept", content={"name": f"Ann {number}"})

    async def ask(client: Client[Any]) -> None:
        ended.append(result_text(await client.call_tool("ask", server.ask)))

    async with (
        upstream(kind, tmp_path) as server,
        serve_components(server.backend) as front,
        Client(front, mode="legacy", elicitation_handler=elicit) as client,
    ):
        await asyncio.gather(*(ask(client) for _ in range(3)))
    assert asked == ["[door] Who?"] * 3
    for number, text in enumerate(ended):
        assert f"Ann {number + 1}" in text


@KINDS
async def test_a_question_outlives_an_older_call_that_does_not_ask(kind: str, tmp_path: Path) -> None:
    async def elicit(*_what: Any) -> Any:
        await server.let_go()
        await slow
        return ElicitResult(action="accept", content={"name": "Ann"})

    async with (
        upstream(kind, tmp_path) as server,
        serve_components(server.backend) as front,
        Client(front, mode="legacy", elicitation_handler=elicit) as client,
    ):
        slow = asyncio.create_task(client.call_tool("sleep", server.slow))
        await wait_until(lambda: calls_in_flight(server.backend))
        assert "Ann" in result_text(await client.call_tool("ask", server.ask))


@KINDS
async def test_the_time_of_each_call_that_may_ask_stands_still(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def elicit(*_what: Any) -> Any:
        await LoopTime(monkeypatch).jump(31)
        return ElicitResult(action="accept", content={"name": "Ann"})

    async with (
        upstream(kind, tmp_path, call_timeout_s=30) as server,
        serve_components(server.backend) as front,
        Client(front, mode="legacy", elicitation_handler=elicit) as client,
    ):
        slow = asyncio.create_task(client.call_tool("sleep", server.slow, raise_on_error=False))
        await wait_until(lambda: calls_in_flight(server.backend))
        assert "Ann" in result_text(await client.call_tool("ask", server.ask))
        await server.let_go()
        # Over HTTP it is known which one asks: the time of the other goes on.
        assert ("SERVER_TIMEOUT" if kind == "http" else "slept") in result_text(await slow)


@KINDS
@CLIENTS
async def test_a_person_is_shown_no_tool_of_a_script_that_may_not_be_the_one_that_asks(
    kind: str, client_era: str, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def elicit(message: str, *_what: Any) -> Any:
        asked.append(message)
        await wait_until(lambda: len(calls_in_flight(server.backend)) == 1)
        return ElicitResult(action="accept", content={"name": "Ann"})

    async with upstream(kind, tmp_path) as server, serve_components(server.backend) as front:
        CodeCallPlugin.init(approvals=[], pool={"min_workers": 0}).install(front)
        async with Client(front, mode=client_era, elicitation_handler=elicit) as client:
            calls = f"callTool('sleep', {json.dumps(server.slow)}), callTool('ask', {json.dumps(server.ask)})"
            script = asyncio.create_task(run(client, f"return await Promise.all([{calls}])"))
            await wait_until(server.is_asked)
            await server.let_go()
            answer = await script
    assert answer["status"] == "ok", answer
    assert "Ann" in json.dumps(answer["result"])
    (question,) = asked
    assert f"\nTool: {'ask' if kind == 'http' else 'one of: ask, sleep'}\n" in question


@KINDS
@CLIENTS
async def test_a_script_has_each_of_several_questions_answered(kind: str, client_era: str, tmp_path: Path) -> None:
    asked: list[str] = []

    async def elicit(message: str, *_what: Any) -> Any:
        asked.append(message)
        return ElicitResult(action="accept", content={"name": "Ann"})

    async with upstream(kind, tmp_path) as server, serve_components(server.backend) as front:
        CodeCallPlugin.init(approvals=[], pool={"min_workers": 0}).install(front)
        async with Client(front, mode=client_era, elicitation_handler=elicit) as client:
            call = f"callTool('ask', {json.dumps(server.ask)})"
            answer = await run(client, f"return await Promise.all([{call}, {call}])")
    assert json.dumps(answer["result"]).count("Ann") == 2, answer
    assert ["\nTool: ask\n" in question for question in asked] == [True, True]


async def test_over_streamable_http_each_client_is_asked_its_own_question(tmp_path: Path) -> None:
    asked: list[str] = []

    def person(name: str) -> Any:
        async def elicit(*_what: Any) -> Any:
            asked.append(name)
            await wait_until(lambda: len(asked) == 2)
            return ElicitResult(action="accept", content={"name": name})

        return elicit

    async with (
        upstream("http", tmp_path) as server,
        serve_components(server.backend) as front,
        Client(front, mode="legacy", elicitation_handler=person("Ann")) as a,
        Client(front, mode="legacy", elicitation_handler=person("Bob")) as b,
    ):
        answers = await asyncio.gather(a.call_tool("ask", {}), b.call_tool("ask", {}))
    assert sorted(asked) == ["Ann", "Bob"]
    assert ["Ann" in result_text(answers[0]), "Bob" in result_text(answers[1])] == [True, True]


async def test_over_streamable_http_nobody_is_asked_what_may_be_anothers(tmp_path: Path) -> None:
    async def elicit(*_what: Any) -> Any:
        return ElicitResult(action="accept", content={"name": "Ann"})

    async with (
        upstream("http", tmp_path) as server,
        serve_components(server.backend) as front,
        Client(front, mode="legacy", elicitation_handler=elicit) as a,
        Client(front, mode="legacy", elicitation_handler=elicit) as b,
    ):
        slow = asyncio.create_task(a.call_tool("sleep", {}))
        await wait_until(lambda: calls_in_flight(server.backend))
        assert "calls of several clients are under way" in result_text(await b.call_tool("ask_apart", {}))
        assert "Ann" in result_text(await a.call_tool("ask_apart", {}))
        await server.let_go()
        await slow


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_over_streamable_http_a_log_message_reaches_the_client_whose_call_it_belongs_to(tmp_path: Path) -> None:
    heard: list[str] = []

    def hear(name: str) -> Any:
        async def log(message: LoggingMessageNotificationParams) -> None:
            heard.append(f"{name}: {message.data['msg']}")

        return log

    async with (
        upstream("http", tmp_path) as server,
        serve_components(server.backend) as front,
        Client(front, mode="legacy", log_handler=hear("a")) as a,
        Client(front, mode="legacy", log_handler=hear("b")) as b,
    ):
        slow = asyncio.create_task(a.call_tool("sleep", {}))
        await wait_until(lambda: calls_in_flight(server.backend))
        await b.call_tool("log", {})
        await wait_until(lambda: heard)
        await server.let_go()
        await slow
    assert heard == ["b: a line"]


async def test_a_question_ends_with_the_last_call_that_it_may_belong_to(tmp_path: Path) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def elicit(*_what: Any) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    async with (
        upstream("stdio", tmp_path) as server,
        serve_components(server.backend) as front,
        Client(front, mode="legacy", elicitation_handler=elicit) as client,
    ):
        calls = [asyncio.create_task(client.call_tool("sleep", server.slow))]
        await wait_until(lambda: calls_in_flight(server.backend))
        calls.append(asyncio.create_task(client.call_tool("ask", server.ask)))
        await asked.wait()
        for call, left in zip(calls, (1, 0), strict=True):
            assert not gone.is_set()
            call.cancel()
            await wait_until(lambda left=left: len(calls_in_flight(server.backend)) == left)
        await asyncio.wait_for(gone.wait(), 5)
        await server.let_go()


async def test_no_question_goes_to_a_stream_that_the_client_has_closed(tmp_path: Path) -> None:
    def call(number: int, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    about = {"protocolVersion": "2025-06-18", "clientInfo": {"name": "x", "version": "1"}}
    begin: dict[str, Any] = {"method": "initialize", "params": {**about, "capabilities": {"elicitation": {}}}}
    async with (
        upstream("stdio", tmp_path) as server,
        serve_components(server.backend) as front,
        serve_over_http(front) as url,
        httpx2.AsyncClient(headers={"accept": "application/json, text/event-stream"}) as client,
    ):
        opened = await client.post(url, json={"jsonrpc": "2.0", "id": 1, **begin})
        client.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        async with client.stream("POST", url, json=call(2, "sleep", server.slow)):
            await wait_until(lambda: calls_in_flight(server.backend))
        (slow,) = calls_in_flight(server.backend)
        async with asyncio.timeout(5):
            while not await slow.is_disconnected():  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.01)
        message: dict[str, Any] = {}
        async with asyncio.timeout(5), client.stream("POST", url, json=call(3, "ask", server.ask)) as stream:
            async for line in stream.aiter_lines():
                message = json.loads(line.removeprefix("data: ") if line.startswith("data: {") else "{}")
                if message.get("method") == "elicitation/create":
                    answer = {"action": "accept", "content": {"name": "Ann"}}
                    await client.post(url, json={"jsonrpc": "2.0", "id": message["id"], "result": answer})
                elif "result" in message:
                    break
        assert "Ann" in json.dumps(message["result"])
        await server.let_go()


async def test_questions_that_one_caller_leaves_open_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "MAX_OPEN_REQUESTS", 2)
    may_answer = asyncio.Event()

    async def later(*_: Any) -> ElicitResult[Any]:
        await may_answer.wait()
        return ElicitResult(action="decline")

    async def at_once(*_: Any) -> Name:
        return Name("Bob")

    names = {name: {"client_id": name, "scopes": []} for name in ("alice", "bob")}
    async with upstream("http", tmp_path) as up, serve_components(up.backend) as front:
        front.auth = StaticTokenVerifier(names)
        async with (
            serve_over_http(front) as url,
            Client(url, auth=BearerAuth("alice"), mode="legacy", elicitation_handler=later) as alice,
            Client(url, auth=BearerAuth("bob"), mode="legacy", elicitation_handler=at_once) as bob,
        ):
            asking = [asyncio.create_task(alice.call_tool("ask", {})) for _ in range(2)]
            await wait_until(lambda: sum(call.asked for call in calls_in_flight(up.backend)) == 2)
            assert "requests wait for their answers" in result_text(
                await alice.call_tool("ask", {}, raise_on_error=False)
            )
            assert "Bob" in result_text(await bob.call_tool("ask", {}))
            may_answer.set()
            await asyncio.gather(*asking)
