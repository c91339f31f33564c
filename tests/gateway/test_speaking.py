"""A session on the event loop: the SDK's messages, however they are cut, and nobody waits for the client."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from fastmcp import Context, FastMCP
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from codecall.gateway.serve.stdio import Passage, speak, streams
from tests.gateway.lines import INITIALIZED, Line, initialize, request

BOTH = pytest.mark.parametrize("sockets", [False, True], ids=["pipes", "sockets"])
OPENING = initialize() + INITIALIZED
LARGE = 2 * 1024 * 1024


@contextmanager
def opened(*, sockets: bool = False) -> Generator[tuple[Line, Passage]]:
    """A client, and the passage to it."""
    line = Line(sockets=sockets)
    line.door.building()
    line.door.open()
    passage = Passage(line.door, lambda _question, _answer: None)
    try:
        yield line, passage
    finally:
        line.door.hand_over()
        line.close()


def called(number: int, tool: str, **arguments: object) -> bytes:
    """A call of that tool."""
    return request(number, "tools/call", {"name": tool, "arguments": arguments})


def text(answer: dict[str, Any]) -> str:
    """What a tool has answered."""
    return answer["result"]["content"][0]["text"]


async def run(server: FastMCP, passage: Passage, client: Callable[[], None]) -> None:
    """Serve while `client` speaks on a thread."""

    def speaking() -> None:
        try:
            client()
        finally:
            passage.stop()

    told = asyncio.create_task(asyncio.to_thread(speaking))
    await speak(server, passage)
    await told


@pytest.fixture
def server() -> FastMCP:
    """One that repeats."""
    made: FastMCP = FastMCP("gate", version="1")

    @made.tool
    def echo(said: str) -> str:
        return said

    return made


ODD = (
    OPENING
    + b"\n no json\n[1]\n\xff\n"
    + called(1, "echo", said="\u00e9").replace(b"\n", b"\r\n")
    + called(2, "echo", said="?").replace(b"?", b"\xe9")
    + called(3, "echo", said="a" * 300_000)
    + b'{"jsonrpc":"2.0","id":4,"result":{}}\n{"jsonrpc":"2.0","method":1}\n'
    + called(5, "echo", said="the last one, without an end").rstrip()
)


def shown(message: SessionMessage | Exception) -> str:
    """A message, or that there was none: the SDK reports the end of the line too."""
    return repr(message) if isinstance(message, SessionMessage) else type(message).__name__


async def as_the_sdk_has_it(data: bytes) -> list[str]:
    """The messages in there."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace")
    async with stdio_server(anyio.wrap_file(text), anyio.wrap_file(io.StringIO())) as (heard, said), heard, said:
        return [shown(message) async for message in heard]


@pytest.mark.parametrize("kind", ["pipes", "sockets"])
@pytest.mark.parametrize("singly", [0, 500], ids=["in large pieces", "byte by byte at first"])
async def test_messages_are_the_sdks_however_they_are_cut(kind: str, singly: int):
    with opened(sockets=kind == "sockets") as (line, passage):

        def client() -> None:
            for byte in ODD[:singly]:
                line.say(bytes((byte,)))
            line.say(ODD[singly:])
            line.leave()

        telling = asyncio.create_task(asyncio.to_thread(client))
        async with streams(passage) as (heard, _said):
            messages = [shown(message) async for message in heard]
        await telling
    assert messages == await as_the_sdk_has_it(ODD)
    assert len(messages) == 12


async def test_a_file_is_read_too(tmp_path: Path):
    file = tmp_path / "said"
    file.write_bytes(ODD)
    with opened() as (line, passage), file.open("rb", buffering=0) as unwatchable:
        line.door.hand_over()
        line.door.stdin = unwatchable.fileno()
        async with streams(passage) as (heard, _said):
            messages = [shown(message) async for message in heard]
    assert messages == await as_the_sdk_has_it(ODD)


@BOTH
async def test_large_messages_both_ways_and_flags_are_left_alone(server: FastMCP, sockets: bool):
    with opened(sockets=sockets) as (line, passage):

        def client() -> None:
            line.say(OPENING, called(2, "echo", said="x" * LARGE), called(3, "echo", said="y" * 9000))
            answers = {answer["id"]: answer for answer in (line.hear() for _ in range(3))}
            assert text(answers[2]) == "x" * LARGE
            assert text(answers[3]) == "y" * 9000
            line.say(called(4, "echo", said="z"))
            assert text(line.hear()) == "z"

        await run(server, passage, client)
        assert [os.get_blocking(descriptor) for descriptor in (passage.stdin, passage.stdout)] == [True, True]


@BOTH
async def test_a_client_that_reads_nothing_holds_up_nobody_else(server: FastMCP, sockets: bool):
    touched = threading.Event()

    @server.tool
    async def much(context: Context) -> str:
        for number in range(1, 1001):
            await context.report_progress(number, 1000, "p" * 1000)
        return "done"

    @server.tool
    async def touch() -> str:
        touched.set()
        return "touched"

    with opened(sockets=sockets) as (line, passage):

        def client() -> None:
            line.say(OPENING)
            line.hear()
            watched = {"name": "much", "arguments": {}, "_meta": {"progressToken": 7}}
            line.say(request(2, "tools/call", watched), called(3, "echo", said="x" * LARGE), called(4, "touch"))
            assert touched.wait(10)
            heard = [line.hear() for _ in range(1003)]
            steps = [message["params"]["progress"] for message in heard if "params" in message]
            assert steps == list(range(1, 1001))
            answers = {message["id"]: text(message) for message in heard if "id" in message}
            assert answers == {2: "done", 3: "x" * LARGE, 4: "touched"}

        await run(server, passage, client)


@BOTH
async def test_what_waits_for_its_turn_can_be_given_up(sockets: bool):
    def note(size: int) -> SessionMessage:
        return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="m" * size))

    with opened(sockets=sockets) as (line, passage):
        async with streams(passage) as (_heard, said):
            await said.send(note(LARGE))  # nobody reads that yet
            with anyio.move_on_after(0.01) as limit:
                await said.send(note(1))
            assert limit.cancelled_caught

            def client() -> list[int]:
                return [len(line.hear()["method"]) for _ in range(2)]

            reading = asyncio.create_task(asyncio.to_thread(client))
            await said.send(note(2))
            assert await reading == [LARGE, 2]
            await said.aclose()
            with pytest.raises(anyio.ClosedResourceError):
                await said.send(note(3))


@BOTH
@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_client_that_goes_away_before_an_answer_ends_the_session(server: FastMCP, sockets: bool, size: int):
    with opened(sockets=sockets) as (line, passage):
        line.say(OPENING)
        serving = asyncio.create_task(speak(server, passage))
        await asyncio.to_thread(line.hear)
        line.deafen()
        await asyncio.to_thread(line.say, called(2, "echo", said="x" * size))
        async with asyncio.timeout(10):
            await serving


async def test_nothing_more_is_heard_after_a_stop():
    with opened() as (line, passage):
        line.say(OPENING, OPENING)
        async with streams(passage) as (heard, _said):
            assert isinstance(await heard.receive(), SessionMessage)
            passage.stop()
            line.say(OPENING)
            rest = [message async for message in heard]
            assert len(rest) <= 3
            await heard.aclose()
            with pytest.raises(anyio.ClosedResourceError):
                await heard.receive()


class Other:
    """A server as a later FastMCP may have it."""

    def __init__(self, server: FastMCP) -> None:
        self.run_stdio_async = server.run_stdio_async


@pytest.mark.parametrize("other", [False, True], ids=["on the loop", "the SDK's way"])
async def test_a_server_whose_insides_have_other_names_is_served_too(server: FastMCP, other: bool):
    # As long as this holds the quick way is taken.
    assert {"_lifespan_manager", "_mcp_server"} <= set(dir(server))
    with opened() as (line, passage):

        def client() -> None:
            line.say(OPENING, called(2, "echo", said="x"))
            assert [line.hear()["id"] for _ in range(2)] == [1, 2]

        await run(cast("FastMCP", Other(server)) if other else server, passage, client)


def test_what_a_file_would_say_is_read_in_pieces():
    with opened() as (line, passage):
        line.say(OPENING)
        room, got = memoryview(bytearray(10)), b""
        while len(got) < len(OPENING):
            got += bytes(room[: passage.read(room)])
        assert got == OPENING
        passage.stop()
        assert passage.read(room) == 0
