"""The records of resumed runs in memory: what they take there, and that the runs of all callers wait for room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.utilities.tests import asgi_server
from key_value.aio.stores.memory import MemoryStore

from codecall import CodeCallPlugin
from codecall.resume.limits import MAX_CONCURRENT_LOADS, RecordLimits
from codecall.resume.matching import PreviousCalls

CHARS = 100_000
NOTES = f"for (const n of [1, 2, 3]) await callTool('note', {{ text: 'x'.repeat({CHARS}) + '😀' + n }});"
RECORD = 3 * 4 * CHARS
"""Bytes of the three texts: one character of each makes all of it take four."""
FAILS = f"{NOTES} null.x;"
HANGS = f"{NOTES} await callTool('hang'); return 1;"
ENDS = f"{NOTES} return 1;"


class Store(MemoryStore):
    """A store that says what is read of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.read: dict[str, int] = {}
        self.watched: dict[str, asyncio.Event] = {}

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        run_id = key.partition(".")[0]
        self.read[run_id] = self.read.get(run_id, 0) + 1
        if run_id in self.watched:
            self.watched[run_id].set()
        return await super().get(key, collection=collection)


class Server:
    """A server whose callers have tokens; scripts write notes, and hang until they are let go."""

    def __init__(self) -> None:
        self.store = Store()
        self.written = 0
        self.hanging, self.released = asyncio.Event(), asyncio.Event()
        tokens = {name: {"client_id": name, "sub": name, "scopes": []} for name in ("ann", "bob")}
        self.mcp = FastMCP[Any]("notes", auth=StaticTokenVerifier(tokens))
        self.mcp.tool(self.note)
        self.mcp.tool(self.hang)
        CodeCallPlugin.init(pool={"min_workers": 0}, resume={"store": self.store}).install(self.mcp)
        self._served: Any = None

    async def note(self, text: str) -> str:
        """Write a note."""
        self.written += 1
        return text

    async def hang(self) -> None:
        """Wait."""
        self.hanging.set()
        await self.released.wait()

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[None]:
        """Answer requests."""
        async with asgi_server(self.mcp) as self._served:
            yield

    async def run(self, caller: str, script: str, **more: Any) -> dict[str, Any]:
        """The envelope of a script."""
        async with self._served.client(auth=caller) as client:
            answer = await client.call_tool("codecall:execute", {"script": script, **more})
            assert answer.structured_content is not None
            return answer.structured_content


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Server]:
    """A server with limits of its own: other tests have the same event loop."""
    monkeypatch.setattr("codecall.resume.limits._LIMITS", WeakKeyDictionary())
    server = Server()
    async with server.serve():
        yield server
        server.released.set()


async def test_a_loaded_record_counts_the_memory_that_it_takes_until_its_run_has_ended(server: Server):
    limits = RecordLimits.of_running_loop()
    failed = await server.run("ann", FAILS)
    assert limits.loaded.total == 0
    resumed = asyncio.ensure_future(server.run("ann", HANGS, resumeFrom=failed["runId"]))
    await server.hanging.wait()
    assert RECORD < limits.loaded.total < RECORD * 1.1
    server.released.set()
    ended = await resumed
    assert (ended["result"], len(ended["resumed"]["calls"]), server.written) == (1, 3, 3)
    assert limits.loaded.total == 0


@pytest.mark.parametrize("other", ["ann", "bob"])
async def test_a_run_waits_with_its_record_until_those_of_all_callers_leave_room(
    server: Server, monkeypatch: pytest.MonkeyPatch, other: str
):
    monkeypatch.setattr("codecall.resume.limits.MAX_LOADED_BYTES", int(RECORD * 1.5))
    first, second = await server.run("ann", FAILS), (await server.run(other, FAILS))["runId"]
    resumed = asyncio.ensure_future(server.run("ann", HANGS, resumeFrom=first["runId"]))
    await server.hanging.wait()
    server.store.watched[second] = asyncio.Event()
    waiting = asyncio.ensure_future(server.run(other, ENDS, resumeFrom=second))
    await server.store.watched[second].wait()
    # Another run, which resumes nothing, goes on meanwhile.
    assert (await server.run(other, "return 2"))["result"] == 2
    assert server.store.read[second] == 1  # its header
    server.released.set()
    assert (await resumed)["result"] == 1
    ended = await waiting
    assert (ended["result"], len(ended["resumed"]["calls"]), server.written) == (1, 3, 6)


async def test_a_run_that_finds_no_room_is_refused_and_can_be_resumed_later(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("codecall.resume.limits.MAX_LOADED_BYTES", RECORD)
    failed = await server.run("ann", FAILS)
    resumed = asyncio.ensure_future(server.run("ann", HANGS, resumeFrom=failed["runId"]))
    await server.hanging.wait()
    with monkeypatch.context() as patched:
        patched.setattr("codecall.resume.replay.LOAD_TIMEOUT_S", 0.01)
        with pytest.raises(ToolError, match=r"resumeFrom: too many resumed runs have not ended yet; nothing was run"):
            await server.run("ann", ENDS, resumeFrom=failed["runId"])
    server.released.set()
    await resumed
    ended = await server.run("ann", ENDS, resumeFrom=failed["runId"])
    assert (len(ended["resumed"]["calls"]), server.written) == (3, 3)


async def test_a_run_whose_server_was_killed_needs_no_more_room_than_others(server: Server):
    """Nobody knows the size of its record: its server wrote the header at the start."""
    failed, killed = await server.run("ann", FAILS), (await server.run("ann", FAILS))["runId"]
    header = await server.store.get(killed, collection="codecall_runs")
    assert header is not None
    process = f"{header['process'].rsplit(' ', 2)[0]} 999999 1"
    started = {**header, "state": "running", "size": 0, "last": 0, "kept": 0, "process": process}
    await server.store.put(killed, started, collection="codecall_runs", ttl=600)
    resumed = asyncio.ensure_future(server.run("ann", HANGS, resumeFrom=failed["runId"]))
    await server.hanging.wait()
    ended = await server.run("ann", ENDS, resumeFrom=killed)
    assert (ended["result"], len(ended["resumed"]["calls"])) == (1, 3)
    server.released.set()
    assert (await resumed)["result"] == 1
    assert RecordLimits.of_running_loop().loaded.total == 0


async def test_a_record_that_cannot_be_read_takes_no_room(server: Server):
    failed = await server.run("ann", FAILS)
    await server.store.delete(f"{failed['runId']}.0.2", collection="codecall_runs")
    with pytest.raises(ToolError, match="is incomplete"):
        await server.run("ann", ENDS, resumeFrom=failed["runId"])
    assert RecordLimits.of_running_loop().loaded.total == 0


async def test_one_caller_leaves_room_for_others():
    limits = RecordLimits()
    mib = 1024 * 1024

    async def taken(owner: str, size: int) -> int:
        count = 0
        while count < 100:
            try:
                async with asyncio.timeout(0):
                    await limits.wait_for_room(owner, size, max_owned=128 * mib)
            except TimeoutError:
                break
            count += 1
        return count

    assert await taken("ann", 16 * mib) == 3
    assert await taken("bob", 16 * mib) == 2
    assert limits.loaded.total <= 256 * mib
    assert await taken("cid", 64 * mib) == 1
    assert await taken("dan", 300 * mib) == 0
    assert (await limits.wait_for_room("ann", 999 * mib, max_owned=None)).size == 999 * mib


async def test_a_record_that_has_gone_leaves_room():
    limits, record = RecordLimits(), PreviousCalls()
    room = await limits.wait_for_room("ann", 90, max_owned=100)
    limits.hold(room, 40, record)
    assert limits.loaded.owned_by("ann") == 40
    del record
    await asyncio.sleep(0)
    assert limits.loaded.owned_by("ann") == 0


async def test_records_are_read_a_few_at_a_time_and_of_one_caller_one():
    limits = RecordLimits()
    now: list[str] = []
    most: list[int] = []

    async def load(owner: str) -> None:
        async with limits.turn(owner), limits.loads:
            now.append(owner)
            assert now.count(owner) == 1
            most.append(len(now))
            await asyncio.sleep(0)
            now.remove(owner)

    await asyncio.gather(*(load(owner) for owner in "aaaaaaaabcdefg"))
    assert max(most) == MAX_CONCURRENT_LOADS
    assert len(most) == 14
