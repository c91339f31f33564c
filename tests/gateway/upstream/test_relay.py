"""What passes between a server and the clients of the gateway besides calls and answers, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import ToolError
from mcp import MCPError

from codecall.gateway.config.options import StdioServer
from codecall.gateway.upstream import relay as passing
from codecall.gateway.upstream import stdio as pipes
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import (
    RAW,
    calls_in_flight,
    plain_server,
    result_text,
    serve_components,
    serve_over_http,
    wait_until,
)
from tests.loop_time import LoopTime

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
ELICIT = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": SCHEMA}}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 9},
}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_progress_reaches_the_request_it_belongs_to(mode: str) -> None:
    heard: dict[str, list[tuple[float, str | None]]] = {"a": [], "b": []}

    async with (
        serve_components(Backend("git", plain_server())) as server,
        Client(server, mode=mode) as a,
        Client(server, mode=mode) as b,
    ):

        async def steps(client: Client[Any], who: str) -> None:
            async def progress(done: float, _total: float | None, message: str | None) -> None:
                heard[who].append((done, message))

            await client.call_tool("steps", {"count": 20, "say": who, "pause": 0.002}, progress_handler=progress)

        await asyncio.gather(steps(a, "a"), steps(b, "b"))
    for who, told in heard.items():
        assert told[-1] == (20, f"{who}20")
        assert all(message == f"{who}{done:g}" for done, message in told)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_logs_reach_the_client_whose_calls_alone_are_under_way() -> None:
    heard: list[str] = []

    async def log(message: mcp_types.LoggingMessageNotificationParams) -> None:
        heard.append(message.data["msg"])

    async with (
        serve_components(Backend("git", plain_server())) as server,
        Client(server, mode="legacy", log_handler=log) as client,
    ):
        await client.call_tool("logs", {"count": 5})
        await wait_until(lambda: len(heard) == 5)
        assert heard == [f"line {number}" for number in range(5)]


async def test_nobody_sees_logs_while_calls_of_several_clients_are_under_way() -> None:
    heard: list[str] = []

    async def log(message: mcp_types.LoggingMessageNotificationParams) -> None:
        heard.append(message.data["msg"])

    backend = Backend("git", plain_server())
    async with (
        serve_components(backend) as server,
        Client(server, mode="legacy", log_handler=log) as a,
        Client(server, mode="legacy") as b,
    ):
        slow = asyncio.create_task(a.call_tool("sleep", {"seconds": 0.3}))
        await wait_until(lambda: calls_in_flight(backend))
        await b.call_tool("logs", {"count": 5})
        await slow
        assert not heard


async def test_what_waits_for_a_client_that_does_not_read_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pipes, "VALUES_PER_S", 10**9)
    monkeypatch.setattr(passing, "MAX_PENDING_CHARS", 1_000_000)

    def notification(method: str, **params: object) -> str:
        text = json.dumps({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})
        return text.replace('"%ID%"', "%ID%")

    def progress(step: int, chars: int = 200_000) -> str:
        return notification("progress", progressToken="%ID%", progress=step, message="x" * chars)

    log = notification("message", level="info", data="x" * 200_000)
    lines = [(f"{log}\n{progress(1)}", 100), (progress(2, 900_000), 1)]
    backend = Backend("raw", RAW)
    async with serve_components(backend) as server, serve_over_http(server) as url, httpx2.AsyncClient() as client:

        def message(method: str, number: int | None = None, **params: object) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "method": method, "params": params, **({"id": number} if number else {})}

        client.headers["accept"] = "application/json, text/event-stream"
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        opened = await client.post(url, json=message("initialize", 1, **about))
        client.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        await client.post(url, json=message("notifications/initialized"))
        await client.post(url, json=message("logging/setLevel", 2, level="debug"))
        asked = message("tools/call", 3, name="write", arguments={"lines": lines}, _meta={"progressToken": "p"})
        async with client.stream("POST", url, json=asked):
            await wait_until(lambda: calls_in_flight(backend))
            (call,) = calls_in_flight(backend)
            await wait_until(lambda: call._pending and str(call._pending[-1]).startswith("(2.0,"), 30)
            waiting = list(call._pending)
    assert len(waiting) > 2
    assert sum(len(str(each)) for each in waiting) < 1_100_000
    (left_out,) = re.findall(r"(\d+) log messages and the texts of (\d+) progress notifications", caplog.text)
    assert min(map(int, left_out)) > 0


async def test_a_server_may_ask_the_client_whose_call_is_under_way() -> None:
    async def elicit(message: str, _type: Any, _params: Any, _context: Any) -> Any:
        return ElicitResult(action="accept", content={"name": f"{message} Me."})

    async def sample(messages: Any, _params: Any, _context: Any) -> str:
        return f"{messages[0].content.text} there"

    async with (
        serve_components(Backend("git", plain_server(sampling=True))) as server,
        Client(
            server, mode="legacy", elicitation_handler=elicit, sampling_handler=sample, roots=["file:///srv"]
        ) as client,
    ):
        answers = [
            json.loads(result_text(await client.call_tool("ask", asked)))["result"]
            for asked in (ELICIT, SAMPLE, {"method": "roots/list"})
        ]
    assert answers[0] == {"action": "accept", "content": {"name": "[git] Who? Me."}}
    assert answers[1]["content"]["text"] == "Hi there"
    assert [root["uri"] for root in answers[2]["roots"]] == ["file:///srv"]


@pytest.mark.parametrize(
    ("mode", "why"),
    [("legacy", "it does not offer it"), ("auto", "it speaks MCP 2026-07-28, in which only a server of that version")],
)
@pytest.mark.parametrize("asked", [ELICIT, SAMPLE, {"method": "roots/list"}])
async def test_a_client_that_cannot_be_asked_is_not(mode: str, why: str, asked: dict[str, Any]) -> None:
    backend = Backend("git", plain_server(sampling=True))
    async with serve_components(backend) as server, Client(server, mode=mode) as client:
        answer = json.loads(result_text(await client.call_tool("ask", asked)))
    assert answer["error"]["message"].startswith("Refused by the gateway: the client cannot be asked for")
    assert why in answer["error"]["message"]


async def test_nobody_is_asked_while_calls_of_several_clients_are_under_way() -> None:
    async def elicit(*_what: Any) -> Any:
        raise AssertionError("asked")

    backend = Backend("git", plain_server())
    async with (
        serve_components(backend) as server,
        Client(server, mode="legacy", elicitation_handler=elicit) as a,
        Client(server, mode="legacy", elicitation_handler=elicit) as b,
    ):
        slow = asyncio.create_task(a.call_tool("sleep", {"seconds": 0.3}))
        await wait_until(lambda: calls_in_flight(backend))
        answer = json.loads(result_text(await b.call_tool("ask", ELICIT)))
        assert "calls of several clients are under way" in answer["error"]["message"]
        await slow


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("most", [passing.MAX_LINGERING, 0], ids=["known callers", "too many callers"])
async def test_a_call_that_was_given_up_is_still_its_callers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int
) -> None:
    monkeypatch.setattr(passing, "_ECHO_S", 0.0)
    monkeypatch.setattr(passing, "MAX_LINGERING", most)
    heard: list[object] = []
    until = tmp_path / "until"
    os.mkfifo(until)

    async def log(message: mcp_types.LoggingMessageNotificationParams) -> None:
        heard.append(message.data)

    async def elicit(*_what: Any) -> Any:
        return ElicitResult(action="decline")

    backend = Backend("git", plain_server())
    async with (
        serve_components(backend) as server,
        Client(server, mode="legacy", elicitation_handler=elicit) as a,
        Client(server, mode="legacy", elicitation_handler=elicit, log_handler=log) as b,
    ):
        slow = asyncio.create_task(a.call_tool("sleep", {"until": str(until)}))
        await wait_until(lambda: calls_in_flight(backend))
        slow.cancel()
        await wait_until(lambda: not calls_in_flight(backend))
        assert "calls of several clients" in result_text(await b.call_tool("ask", ELICIT))
        await b.call_tool("logs", {"count": 2})
        assert not heard
        own = result_text(await a.call_tool("ask", ELICIT))
        assert ("decline" if most else "calls of several clients") in own
        # Nothing is written: the tool closes the pipe once it is open.
        os.close(await asyncio.to_thread(os.open, until, os.O_WRONLY))
        async with asyncio.timeout(5):
            while "decline" not in result_text(await b.call_tool("ask", ELICIT)):  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.05)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_no_time_makes_a_call_that_was_given_up_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server need not answer what was cancelled, and may ask about it an hour later."""
    asked: list[str] = []

    def person(name: str) -> Any:
        async def elicit(*_what: Any) -> Any:
            asked.append(name)
            return ElicitResult(action="decline")

        return elicit

    backend = Backend("git", plain_server(idle_s=0))
    async with (
        serve_components(backend) as server,
        Client(server, mode="legacy", elicitation_handler=person("a")) as a,
        Client(server, mode="legacy", elicitation_handler=person("b")) as b,
    ):
        slow = asyncio.create_task(a.call_tool("sleep", {"seconds": 600}))
        await wait_until(lambda: calls_in_flight(backend))
        slow.cancel()
        await wait_until(lambda: not calls_in_flight(backend))
        loop = asyncio.get_running_loop()
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + 3_600)
        told = result_text(await b.call_tool("ask", ELICIT))
        assert "calls of several clients are under way; `per_client` keeps clients apart" in told
        assert "decline" in result_text(await a.call_tool("ask", ELICIT))
        assert asked == ["a"]


async def test_nothing_is_kept_of_the_request_of_a_call_that_was_given_up() -> None:
    """Nor does its server answer; still nobody else is asked."""
    requests: list[weakref.ref[Any]] = []

    def session_of(context: Any) -> weakref.ref[Any]:
        return weakref.ref(context.session)

    async def elicit(*_what: Any) -> Any:
        raise AssertionError("asked")

    backend = Backend("git", plain_server())
    async with (
        serve_components(backend) as server,
        Client(server, mode="auto") as a,
        Client(server, mode="legacy", elicitation_handler=elicit) as b,
    ):
        for _ in range(2):
            slow = asyncio.create_task(a.call_tool("sleep", {"seconds": 600}))
            await wait_until(lambda: calls_in_flight(backend))
            requests += [one._variables.run(session_of, one.context) for one in calls_in_flight(backend)]
            slow.cancel()
            await wait_until(lambda: not calls_in_flight(backend))
        assert "calls of several clients" in result_text(await b.call_tool("ask", ELICIT))
        assert len(requests) == 2
        await wait_until(lambda: gc.collect() >= 0 and not any(request() for request in requests))
        (connection,) = (slot.connection for slot in backend._slots.values())
        assert connection is not None
        owners = [entry.owner for entry in connection.router._lingering]
        assert len(owners) == len(set(owners)) == 2
        assert "calls of several clients" in result_text(await b.call_tool("ask", ELICIT))


async def test_a_call_that_took_too_long_is_still_its_callers() -> None:
    async def elicit(*_what: Any) -> Any:
        raise AssertionError("asked")

    backend = Backend("git", plain_server(call_timeout_s=0.2))
    async with (
        serve_components(backend) as server,
        Client(server, mode="legacy") as a,
        Client(server, mode="legacy", elicitation_handler=elicit) as b,
    ):
        with pytest.raises(ToolError, match="SERVER_TIMEOUT"):
            await a.call_tool("sleep", {"seconds": 60})
        assert "calls of several clients" in result_text(await b.call_tool("ask", ELICIT))


async def test_the_time_of_a_call_stands_still_while_a_person_thinks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def elicit(*_what: Any) -> Any:
        await LoopTime(monkeypatch).jump(31)
        return ElicitResult(action="decline")

    async with (
        serve_components(Backend("git", plain_server(call_timeout_s=30))) as server,
        Client(server, mode="legacy", elicitation_handler=elicit) as client,
    ):
        assert "decline" in result_text(await client.call_tool("ask", ELICIT))


async def test_a_call_that_ends_is_asked_about_no_more() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def elicit(*_what: Any) -> Any:
        asked.set()
        try:
            await asyncio.sleep(60)
        finally:
            gone.set()

    backend = Backend("git", plain_server())
    async with (
        serve_components(backend) as server,
        Client(server, mode="legacy", elicitation_handler=elicit) as client,
    ):
        call = asyncio.create_task(client.call_tool("ask", ELICIT))
        await asked.wait()
        call.cancel()
        await wait_until(lambda: not calls_in_flight(backend))
        await asyncio.wait_for(gone.wait(), 5)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_that_the_client_cancels_is_cancelled_at_the_server(mode: str) -> None:
    backend = Backend("git", plain_server())
    async with serve_components(backend) as server, Client(server, mode=mode) as client:
        call = asyncio.create_task(client.call_tool("sleep", {"seconds": 60}))
        await wait_until(lambda: calls_in_flight(backend))
        call.cancel()
        await wait_until(lambda: not calls_in_flight(backend))
        assert len(json.loads(result_text(await client.call_tool("cancelled", {})))) == 1
        assert backend.health.restarts == 0


async def test_one_client_each_has_a_process_of_its_own_where_that_is_wanted() -> None:
    backend = Backend("git", plain_server(per_client=True))
    async with (
        serve_components(backend) as server,
        Client(server, mode="legacy") as a,
        Client(server, mode="legacy") as b,
    ):
        pids = [result_text(await client.call_tool("pid", {})) for client in (a, b, a, b)]
        assert pids[:2] == pids[2:]
        assert pids[0] != pids[1]


async def test_anonymous_clients_of_one_address_are_told_apart_by_their_sessions() -> None:
    backend = Backend("git", plain_server(per_client=True))
    async with (
        serve_components(backend) as server,
        serve_over_http(server) as url,
        Client(url, mode="legacy") as a,
        Client(url, mode="legacy") as b,
    ):
        pids = [result_text(await client.call_tool("pid", {})) for client in (a, b, a, b)]
    assert pids[:2] == pids[2:]
    assert pids[0] != pids[1]


async def test_clients_of_both_eras_share_a_server_that_knows_one() -> None:
    backend = Backend("git", plain_server())
    async with (
        serve_components(backend) as server,
        Client(server, mode="auto") as new,
        Client(server, mode="legacy") as old,
    ):
        assert new.protocol_version != old.protocol_version
        pids = {result_text(await client.call_tool("pid", {})) for client in (new, old)}
        assert len(pids) == 1


AskingServer = Callable[..., StdioServer]


async def who(message: str, *_more: Any) -> Any:
    return ElicitResult(action="accept", content={"name": f"{message} Ann", "value": "Ann"})


@pytest.mark.parametrize("per_client", [False, True])
async def test_a_program_has_one_process_whatever_the_era_of_its_clients(
    asking_server: AskingServer, per_client: bool
) -> None:
    backend = Backend("door", asking_server(per_client=per_client))
    async with (
        serve_components(backend) as server,
        Client(server, mode="legacy", elicitation_handler=who) as old,
        Client(server, mode="auto", elicitation_handler=who) as new,
    ):
        pids = {(await client.call_tool("pid", {})).data for client in (new, old, new)}
        assert len(pids) == 1 + per_client
        assert "Ann" in result_text(await new.call_tool("guard", {}))
        if not per_client:
            assert "Ann" in result_text(await old.call_tool("guard", {}))
            assert backend.health.connections == 1
            assert backend.health.restarts == 0
            await old.call_tool("open_door", {})
            assert "door" in [tool.name for tool in (await backend.fetch_listing()).tools]


async def test_a_client_of_the_handshake_era_is_asked_what_a_server_asks_in_its_answer(
    asking_server: AskingServer,
) -> None:
    async with (
        serve_components(Backend("door", asking_server())) as server,
        Client(server, mode="auto") as first,
        Client(server, mode="legacy", elicitation_handler=who) as client,
        Client(server, mode="legacy") as mute,
    ):
        await first.call_tool("pid", {})
        assert result_text(await client.call_tool("guard", {})) == "hello [door] Who? Ann"
        assert result_text(await client.call_tool("guard", {"rounds": 10})) == "hello [door] Who? Ann"
        with pytest.raises((ToolError, MCPError), match="asked 10 times and did not answer"):
            await client.call_tool("guard", {"rounds": 11})
        with pytest.raises((ToolError, MCPError), match="it does not offer it"):
            await mute.call_tool("guard", {})


@pytest.mark.parametrize("first", ["legacy", "auto"])
@pytest.mark.parametrize("handshake", [True, False])
async def test_the_first_client_decides_which_version_a_program_speaks(
    asking_server: AskingServer, first: str, handshake: bool
) -> None:
    async with (
        serve_components(Backend("door", asking_server(handshake=handshake))) as server,
        Client(server, mode=first, elicitation_handler=who) as client,
        Client(server, mode="legacy", elicitation_handler=who) as old,
    ):
        await client.call_tool("pid", {})
        answer = await old.call_tool("asks", {}, raise_on_error=False)
        assert (result_text(answer) == "hello Ann") is (handshake or first == "legacy")


async def test_a_listing_goes_on_where_a_client_has_the_program_started_anew(asking_server: AskingServer) -> None:
    backend = Backend("door", asking_server())
    async with serve_components(backend) as server, Client(server, mode="legacy") as client:
        pid, listing, _ = await asyncio.gather(
            client.call_tool("pid", {}), backend.fetch_listing(), client.call_tool("pid", {})
        )
        assert "pid" in [tool.name for tool in listing.tools]
        assert (await client.call_tool("pid", {})).data == pid.data
        assert backend.health.connections == 1


async def test_what_a_request_says_besides_passes_but_nothing_of_its_connection() -> None:
    async with serve_components(Backend("git", plain_server())) as server, Client(server, mode="auto") as client:
        result = await client.call_tool("meta", {}, meta={"acme/team": "blue"})
        meta = json.loads(result_text(result))
        assert meta.pop("acme/team") == "blue"
        assert set(meta) == {"progressToken", "io.modelcontextprotocol/logLevel"}


async def test_a_server_that_is_down_says_so_to_whoever_calls_its_tools() -> None:
    async with serve_components(Backend("git", plain_server())) as server, Client(server) as client:
        with pytest.raises(ToolError, match=r"SERVER_UNAVAILABLE: Server 'git' ended \(exit code 3\) while"):
            await client.call_tool("die", {})
        assert result_text(await client.call_tool("echo", {"text": "again"})) == "again"
