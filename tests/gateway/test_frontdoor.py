"""The front door: what it answers at once, and how it hands a session over without a byte lost or said twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastmcp import FastMCP

from codecall.gateway.serve.stdio import Passage, speak
from codecall.gateway.warm_start.door import Door, Listener, Question
from tests.gateway.lines import INITIALIZED, Line, initialize, modern, request

TOOLS = {"tools": [{"name": "sum", "inputSchema": {"type": "object"}}]}


def key_of(*messages: bytes) -> str:
    """The key of the last of them."""
    listener = Listener()
    questions = [listener.hear(message) for message in messages]
    assert questions[-1] is not None
    return questions[-1].key


GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "gate", "version": "1"}}


@pytest.fixture
def line() -> Iterator[Line]:
    """A client before a door that has a record."""
    said = {
        key_of(initialize()): json.dumps(GREETING),
        key_of(initialize(), request(2, "tools/list")): json.dumps(TOOLS),
        key_of(modern(1, "tools/list")): json.dumps({**TOOLS, "resultType": "complete"}),
    }
    opened = Line(said)
    opened.door.open()
    yield opened
    opened.door.hand_over()
    opened.close()


class Noted(list[tuple[str, str | None]]):
    """What a passage notes."""

    def __call__(self, question: Question, answer: str | None) -> None:
        self.append((question.method, answer))


def server(*tools: str) -> FastMCP:
    """A server with these tools."""
    made: FastMCP = FastMCP("gate", version="1")
    for name in tools:
        made.tool(lambda a=1: a + 1, name=name)
    return made


async def run(behind: FastMCP, line: Line, client: Callable[[], None], noted: Noted | None = None) -> Noted:
    """Serve `behind` through the door of `line` while `client` speaks on a thread; ends when it has left."""
    notes = noted if noted is not None else Noted()
    passage = Passage(line.door, notes)

    def told() -> None:
        try:
            client()
        except BaseException:
            passage.stop()
            raise

    speaking = asyncio.create_task(asyncio.to_thread(told))
    await speak(behind, passage)
    await speaking
    return notes


def test_the_handshake_and_a_list_are_answered_before_there_is_a_server(line: Line):
    line.say(initialize(name="anybody"), INITIALIZED, request("two", "tools/list", {"_meta": {"progressToken": 1}}))
    assert line.hear() == {"jsonrpc": "2.0", "id": 1, "result": GREETING}
    assert line.hear() == {"jsonrpc": "2.0", "id": "two", "result": TOOLS}


def test_the_era_without_handshake_too(line: Line):
    line.say(modern(7, "tools/list"))
    assert line.hear()["result"]["resultType"] == "complete"


@pytest.mark.parametrize(
    "messages",
    [
        (request(1, "tools/list"),),
        (modern(1, "tools/list", cursor="x"),),
        (modern(1, "server/discover"),),
        (modern(1, "prompts/list"), initialize(2)),
        (initialize(1).replace(b"2025-11-25", b"2024-11-05"), request(2, "tools/list")),
        (initialize(1).replace(b'"capabilities": {}', b'"capabilities": {"roots": {}}'), request(2, "tools/list")),
        (modern(1, "tools/call", name="sum"), modern(2, "tools/list")),
    ],
    ids=["no handshake", "another page", "not recorded", "the other era", "version", "capabilities", "after a call"],
)
def test_what_may_have_another_answer_waits_for_the_server(line: Line, messages: tuple[bytes, ...]):
    line.say(*messages, modern(9, "nothing"))
    line.leave()
    line.door.building()
    line.door._thread.join()
    line.door.fail("it broke")
    waiting = [json.loads(message)["id"] for message in messages] + [9]
    answers = [line.hear() for _ in waiting]
    assert [answer["id"] for answer in answers] == waiting
    assert {json.dumps(answer["error"]) for answer in answers} == {'{"code": -32603, "message": "it broke"}'}


async def test_the_server_takes_over_where_the_door_stopped(line: Line):
    def client() -> None:
        assert line.hear()["result"] == GREETING
        assert line.hear()["result"] == TOOLS
        said = [line.hear(), line.hear()]
        changed = next(message for message in said if "method" in message)
        called = next(message for message in said if "id" in message)
        assert changed == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        assert (called["id"], called["result"]["content"][0]["text"]) == (3, "3")
        line.say(request(4, "tools/list"))
        listed = line.hear()
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["sum", "more"]
        line.leave()

    call = request(3, "tools/call", {"name": "sum", "arguments": {"a": 2}})
    # In one piece, with the call cut in two: nothing may be lost between the door and the server.
    line.say(initialize(), INITIALIZED, request(2, "tools/list"), call[:20])
    line.say(call[20:])
    noted = await run(server("sum", "more"), line, client)
    assert [method for method, _ in noted] == ["initialize", "tools/list"]
    assert "more" in str(noted[1][1])


async def test_a_session_that_begins_with_nothing_known_is_noted_and_then_known():
    first, again = Line(), None
    first.door.open()
    notes: dict[str, str] = {}

    def ask(to: Line) -> None:
        to.say(modern(1, "server/discover"), modern(2, "tools/list"), modern(3, "ping"))

    def talk(to: Line, *before: dict[str, Any]) -> None:
        answered = {answer["id"]: answer for answer in (*before, *(to.hear() for _ in range(3 - len(before))))}
        assert answered[2]["result"]["tools"][0]["name"] == "sum"
        assert "error" in answered[3]
        to.say(modern(4, "tools/call", name="sum", arguments={}), modern(5, "tools/list"))
        assert {to.hear()["id"], to.hear()["id"]} == {4, 5}
        to.leave()

    class Kept(Noted):
        def __call__(self, question: Question, answer: str | None) -> None:
            super().__call__(question, answer)
            if answer is not None:
                notes[question.key] = answer

    ask(first)
    noted = await run(server("sum"), first, lambda: talk(first), Kept())
    assert sorted(method for method, _ in noted) == ["ping", "server/discover", "tools/list"]
    again = Line(notes)
    again.door.open()
    ask(again)
    told = again.hear(), again.hear()  # by the door: once the server stands, it answers itself
    noted = await run(server("sum"), again, lambda: talk(again, *told))
    assert [method for method, _ in noted] == ["ping"]  # the others were said, and said rightly
    assert again.door.told == {}
    first.close()
    again.close()


@pytest.mark.parametrize("number", [-1, 'a"b', "é", "a\\b", "\x7f", 10**25])
async def test_no_request_is_answered_twice_however_its_id_is_written(line: Line, number: int | str):
    line.say(initialize(), INITIALIZED, request(number, "tools/list"))
    assert [line.hear()["id"] for _ in range(2)] == [1, number]

    said: list[object] = []

    def client() -> None:
        line.say(request("call", "tools/call", {"name": "sum", "arguments": {}}))
        while "call" not in said:
            said.append(line.hear().get("id"))
        line.leave()

    await run(server("sum"), line, client)
    assert number not in said


async def test_a_client_that_reads_no_more_ends_the_session():
    line = Line()
    line.door.open()
    line.say(initialize())

    def client() -> None:
        line.deafen()

    await run(server("sum"), line, client)
    line.door.hand_over()
    line.close()


def test_a_door_that_nobody_knows_keeps_everything():
    line = Line()
    line.door.open()
    line.say(b"no json\n", b"[1]\n", modern(1, "ping"), b'{"jsonrpc"')
    line.leave()
    line.door.building()
    line.door._thread.join()
    assert bytes(line.door.heard) == b"no json\n[1]\n" + modern(1, "ping") + b'{"jsonrpc"'
    assert isinstance(line.door, Door)
    line.door.hand_over()
    line.close()
