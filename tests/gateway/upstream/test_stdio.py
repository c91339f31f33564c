"""Messages of a program that really runs, and what it is told."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from codecall.gateway.config.options import StdioServer
from codecall.gateway.upstream import process as processes
from codecall.gateway.upstream import stdio as pipes
from codecall.gateway.upstream.process import ServerProcess
from codecall.gateway.upstream.server import Backend
from codecall.gateway.upstream.stdio import _MessageReader, _MessageWriter
from tests.gateway.backends import call
from tests.loop_turns import count_loop_turns

QUITTING = Path(__file__).parents[1] / "servers" / "quitting.py"
LOGGER = logging.getLogger("test")


def message(method: str, **params: object) -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method=method, params=dict(params)))


@asynccontextmanager
async def running(code: str) -> AsyncGenerator[ServerProcess]:
    """A Python program."""
    program = await ServerProcess.start(sys.executable, ["-S", "-E", "-c", code], {}, None, LOGGER)
    try:
        yield program
    finally:
        program.kill()
        await program.stop()


async def methods(reader: _MessageReader) -> list[str]:
    """Of all messages until the end."""
    return [json.loads(item.message.model_dump_json())["method"] async for item in reader]


@given(cuts=st.lists(st.integers(0, 200), max_size=12), ends=st.sampled_from(["\n", "\r\n", "\n\n", "\nrubbish\n"]))
async def test_it_does_not_matter_where_what_it_says_is_cut(cuts: Sequence[int], ends: str) -> None:
    data = "".join(f'{{"jsonrpc":"2.0","method":"m{n}"}}{ends}' for n in range(4)).encode()
    stdout = asyncio.StreamReader()
    reader = _MessageReader(stdout, LOGGER)
    reading = asyncio.create_task(methods(reader))
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for begin, end in pairwise(places):
        stdout.feed_data(data[begin:end])
        await asyncio.sleep(0)
    stdout.feed_eof()
    assert await reading == ["m0", "m1", "m2", "m3"]


async def test_who_says_much_at_once_lets_others_speak() -> None:
    stdout = asyncio.StreamReader()
    stdout.feed_data(b'{"jsonrpc":"2.0","method":"m"}\n' * 1000)
    stdout.feed_eof()
    with count_loop_turns() as turns:
        assert len(await methods(_MessageReader(stdout, LOGGER))) == 1000
    assert turns.count >= 990


async def test_nothing_more_is_heard_once_it_was_stopped() -> None:
    stdout = asyncio.StreamReader()
    ended: list[bool] = []
    reader = _MessageReader(stdout, LOGGER)
    reader.on_stop = lambda: ended.append(True)
    stdout.feed_data(b'{"jsonrpc":"2.0","method":"a"}\n{"jsonrpc":"2.0","method":"b"}\n')
    first = await reader.receive()
    assert (first.message.model_dump()["method"], ended) == ("a", [])
    reader.stop()
    assert (await methods(reader), ended) == ([], [True])
    with pytest.raises(anyio.EndOfStream):
        await reader.receive()


async def test_it_may_be_stopped_twice() -> None:
    for turns in range(5):
        reader = _MessageReader(asyncio.StreamReader(), LOGGER)
        waiting = asyncio.create_task(reader.receive())
        for _ in range(turns):
            await asyncio.sleep(0)
        reader.stop()
        for _ in range(3):
            await asyncio.sleep(0)
            reader.stop()
        with pytest.raises(anyio.EndOfStream):
            await waiting


async def test_closed_streams_pass_nothing() -> None:
    async with running("input()") as program:
        reader = _MessageReader(program.stdout, LOGGER)
        writer = _MessageWriter(program.stdin, reader)
        async with reader, writer:
            pass
        with pytest.raises(anyio.ClosedResourceError):
            await writer.send(message("m"))
        with pytest.raises(anyio.ClosedResourceError):
            await reader.receive()


async def test_a_program_that_closes_its_input_is_heard_no_more() -> None:
    code = 'import os, time; os.close(0); print(\'{"jsonrpc":"2.0","method":"closed"}\', flush=True); time.sleep(60)'
    async with running(code) as program:
        reader = _MessageReader(program.stdout, LOGGER)
        writer = _MessageWriter(program.stdin, reader)
        await reader.receive()
        waiting = asyncio.create_task(reader.receive())
        async with asyncio.timeout(10):
            while not waiting.done():
                await writer.send(message("m"))
                await asyncio.sleep(0)
        assert isinstance(waiting.exception(), anyio.EndOfStream)
        assert program.exit_code is None


async def test_a_program_that_reads_nothing_is_not_sent_ever_more() -> None:
    async with running("import time; time.sleep(60)") as program:
        writer = _MessageWriter(program.stdin, _MessageReader(program.stdout, LOGGER))
        large = message("m", text="x" * 200_000)
        for _ in range(30):
            sending = asyncio.create_task(writer.send(large))
            for _ in range(5):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait({sending})
        assert program.stdin.transport.get_write_buffer_size() < 500_000


async def test_nothing_is_lost_of_what_waits_for_it() -> None:
    code = "import sys; [print(line[:48].split(',\"params')[0] + '}', flush=True) for line in sys.stdin]"
    async with running(code) as program:
        reader = _MessageReader(program.stdout, LOGGER)
        writer = _MessageWriter(program.stdin, reader)
        async with asyncio.TaskGroup() as all_at_once:
            for number in range(20):
                all_at_once.create_task(writer.send(message(f"m{number:02}", text="x" * 100_000)))
        program.stdin.close()
        assert await methods(reader) == [f"m{number:02}" for number in range(20)]


@pytest.mark.parametrize(
    ("word", "why"),
    [("rubbish", "ended (exit code 3)"), ("deaf", "closed its output"), ("survived", "ended (exit code 3)")],
)
async def test_its_end_ends_all_calls_at_once(monkeypatch: pytest.MonkeyPatch, word: str, why: str) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.2)
    server = StdioServer(command=sys.executable, args=("-S", "-E", str(QUITTING), word))
    async with Backend("git", server) as backend, asyncio.timeout(20):
        async with backend.use(None):
            pass
        # The first is not read to its end, and the others wait for it; where it is alone, nobody else finds out.
        sizes = (1_000_000,) if word == "deaf" else (1_000_000, 10, 10)
        calls = [call(backend, "t", text="x" * size) for size in sizes]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert {str(end) for end in ends} == {f"Server 'git' {why} while the call was under way"}


async def test_the_output_ends_with_the_program_though_others_hold_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "_EXIT_S", 0.05)
    code = (
        "import subprocess, sys;"
        "subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)']);"
        'print(\'{"jsonrpc":"2.0","method":"last"}\', flush=True)'
    )
    async with running(code) as program:
        reader = _MessageReader(program.stdout, LOGGER)
        watching = asyncio.create_task(pipes._stop_after_exit(program, reader))
        async with asyncio.timeout(10):
            assert await methods(reader) == ["last"]
        await watching
