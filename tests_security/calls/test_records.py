"""Resumed runs and records of runs: nobody gets at another's, and nobody writes what was not there."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.dependencies import get_access_token
from fastmcp.utilities.tests import asgi_client
from key_value.aio.stores.memory import MemoryStore

from codecall import CodeCallPlugin, JsonLinesSink
from codecall.resume.store import COLLECTION

CANARY = "what only north may see"
SCRIPT = "return await callTool('mine', {})"


class Tenants:
    """One server, and two who use it."""

    def __init__(self, north: Client[Any], south: Client[Any], store: MemoryStore, waiting: asyncio.Event) -> None:
        self.north = north
        self.south = south
        self.store = store
        self.waiting = waiting
        """Set once the tool has been called that never answers."""

    async def failed(self) -> str:
        """The id of a run of the north that failed after a call."""
        answer = await self.north.call_tool("codecall:execute", {"script": "await callTool('mine', {}); null.x"})
        return (answer.structured_content or {})["runId"]


async def refusal(client: Client[Any], run_id: str) -> str:
    with pytest.raises(ToolError) as refused:
        await client.call_tool("codecall:execute", {"script": SCRIPT, "resumeFrom": run_id})
    return str(refused.value)


@asynccontextmanager
async def two(store: MemoryStore) -> AsyncGenerator[Tenants]:
    tokens = {name: {"client_id": name, "sub": name, "scopes": []} for name in ("north", "south")}
    server = FastMCP("shared", auth=StaticTokenVerifier(tokens=tokens))

    @server.tool
    def mine() -> str:
        token = get_access_token()
        assert token is not None
        return CANARY if token.client_id == "north" else "south"

    waiting = asyncio.Event()

    @server.tool
    async def wait() -> None:
        waiting.set()
        await asyncio.Event().wait()

    CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": 0}, resume={"store": store}).install(server)
    async with asgi_client(server, auth="north") as north, asgi_client(server, auth="south") as south:
        yield Tenants(north, south, store, waiting)


@pytest.fixture(scope="module")
async def tenants() -> AsyncGenerator[Tenants]:
    async with two(MemoryStore()) as both:
        yield both


async def test_a_run_of_somebody_else_is_none(tenants: Tenants):
    run_id = await tenants.failed()
    unknown = "run_" + "x" * (len(run_id) - 4)
    told = await refusal(tenants.south, run_id)
    # Not even whether there is such a run.
    assert told.replace(run_id, "ID") == (await refusal(tenants.south, unknown)).replace(unknown, "ID")
    own = await tenants.north.call_tool("codecall:execute", {"script": SCRIPT, "resumeFrom": run_id})
    assert (own.structured_content or {})["result"] == CANARY


async def test_no_state_of_a_run_of_somebody_else_tells_of_it(tenants: Tenants):
    """Neither one that is running, nor one that was cancelled or taken up, nor the one that took it up."""
    before = set(await tenants.store.keys(collection=COLLECTION))
    waits = {"script": "await callTool('mine', {}); await callTool('wait', {})"}
    running = asyncio.create_task(tenants.north.call_tool("codecall:execute", waits))
    await asyncio.wait_for(tenants.waiting.wait(), 10)
    (live,) = {key for key in set(await tenants.store.keys(collection=COLLECTION)) - before if "." not in key}
    unknown = "run_" + "x" * (len(live) - 4)
    none = (await refusal(tenants.south, unknown)).replace(unknown, "ID")
    assert "has not ended yet" in await refusal(tenants.north, live)
    assert (await refusal(tenants.south, live)).replace(live, "ID") == none
    running.cancel()
    first = await tenants.failed()
    again = {"script": "await callTool('mine', {}); null.y", "resumeFrom": first}
    second = (await tenants.north.call_tool("codecall:execute", again)).structured_content or {}
    assert len(second["resumed"]["calls"]) == 1
    for run_id in (live, first, second["runId"]):
        told = await tenants.south.call_tool_mcp("codecall:execute", {"script": SCRIPT, "resumeFrom": run_id})
        assert told.is_error
        assert json.dumps([block.model_dump() for block in told.content]).count(CANARY) == 0
        assert (await refusal(tenants.south, run_id)).replace(run_id, "ID") == none
    # A refused attempt takes nothing from its owner.
    own = await tenants.north.call_tool("codecall:execute", {"script": SCRIPT, "resumeFrom": second["runId"]})
    assert (own.structured_content or {})["result"] == CANARY


async def test_clients_without_a_name_are_told_apart_by_their_sessions():
    server: FastMCP[Any] = FastMCP("shared")
    server.tool(lambda: CANARY, name="mine")
    options = {"vm": {"preset": "secure"}, "pool": {"min_workers": 0}, "resume": {"store": MemoryStore()}}
    CodeCallPlugin.init(**options).install(server)
    async with Client(server), Client(server, mode="legacy") as one, Client(server, mode="legacy") as other:
        answer = await one.call_tool("codecall:execute", {"script": "await callTool('mine', {}); null.x"})
        run_id = (answer.structured_content or {})["runId"]
        assert "there is no run" in await refusal(other, run_id)
        own = await one.call_tool("codecall:execute", {"script": SCRIPT, "resumeFrom": run_id})
        assert (own.structured_content or {})["result"] == CANARY


@pytest.mark.parametrize(
    "run_id",
    ["", "run_", "../run_aaaaaaaaaaaaaaaaaaaaaa", "run_aaaaaaaaaaaaaaaaaaaaaa.0.1", "run_a\n" + "a" * 20, "*" * 26],
)
async def test_only_names_of_runs_reach_the_store(tenants: Tenants, run_id: str):
    assert "there is no run" in await refusal(tenants.north, run_id)


LONG = {"called": "tool", "name": "x" * 5_000, "digest": "", "state": "ok", "value": "1"}
FORGED: list[Any] = [
    {"place": "elsewhere"},
    {"state": "ok"},
    {"called": "tool", "name": "mine", "digest": "0" * 64, "state": "ok", "value": "not JSON"},
    {"called": "tool", "name": "mine", "digest": "0" * 64, "state": "ok", "value": "[" * 100_000},
    {"called": "tool", "name": "mine", "digest": "0" * 64, "state": "ok", "value": '"' + "x" * 300_000 + '"'},
    {"state": "reused", "inherits": 7},
    {"called": ["tool"], "state": "ok", "value": 1},
    {"epochs": [[0, -1]]},
    {"epochs": [[0, 1]] * 17},
    {"value": None, "state": "stolen"},
    LONG,
]


@pytest.mark.parametrize("forged", FORGED, ids=lambda forged: json.dumps(forged)[:40])
async def test_a_forged_entry_is_not_believed(tenants: Tenants, forged: Any):
    run_id = await tenants.failed()
    key = f"{run_id}.0.1"
    await tenants.store.put(key, {"place": key, **forged}, collection=COLLECTION)
    assert "is incomplete" in await refusal(tenants.north, run_id)


async def test_what_was_written_for_one_run_counts_for_no_other(tenants: Tenants):
    """As somebody could who may write to a store that encrypts, and cannot read it."""
    one, other = await tenants.failed(), await tenants.failed()
    for end in ("", ".0.1"):
        moved = await tenants.store.get(f"{one}{end}", collection=COLLECTION)
        assert moved is not None
        await tenants.store.put(f"{other}{end}", moved, collection=COLLECTION)
        told = await refusal(tenants.north, other)
        assert ("there is no run" if end == "" else "is incomplete") in told
        other = await tenants.failed()


@pytest.mark.parametrize(
    "change",
    [
        {"owner": "somebody"},
        {"version": 2},
        {"inherited": 10**9},
        {"last": -1},
        {"ends": "soon"},
        {"state": "anything"},
        {"more": 1},
    ],
)
async def test_a_forged_header_is_not_believed(tenants: Tenants, change: dict[str, Any]):
    run_id = await tenants.failed()
    header = await tenants.store.get(run_id, collection=COLLECTION)
    assert header is not None
    await tenants.store.put(run_id, {**header, **change}, collection=COLLECTION)
    assert "there is no run" in await refusal(tenants.north, run_id)


async def test_a_header_that_promises_too_much_costs_no_more_than_its_limit(tenants: Tenants):
    run_id = await tenants.failed()
    header = await tenants.store.get(run_id, collection=COLLECTION)
    assert header is not None
    await tenants.store.put(run_id, {**header, "last": 10_000, "kept": 10_000}, collection=COLLECTION)
    assert "is incomplete" in await refusal(tenants.north, run_id)


# ---------------------------------------------------------------------------------------------------------- records

NASTY = 'x\n{"event":"codecall.execute.complete","status":"ok"}\r\u2028\u2029\x85\x1b[2J\x00\u202e\ud800"\\'


async def test_no_name_or_input_writes_a_line_of_its_own(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "audit.jsonl"
    server = FastMCP("log")
    audit = {"sinks": [JsonLinesSink(path)], "include_arguments": True, "include_results": True}
    CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": 0}, audit=audit).install(server)
    script = f"await callTool([{json.dumps(NASTY)}].join(), {{[{json.dumps(NASTY)}]: {json.dumps(NASTY)}}})"
    with caplog.at_level(logging.CRITICAL):
        async with Client(server) as client:
            await client.call_tool("codecall:execute", {"script": script})
            await client.call_tool("codecall:invoke", {"tool": NASTY.replace("\ud800", ""), "input": {"a": NASTY[:50]}})
    written = path.read_bytes()
    assert written.isascii()
    events = [json.loads(line) for line in written.splitlines()]
    assert written.count(b"\n") == len(events)
    assert not set(written) & {0x1B, 0x0D, 0x00, 0x7F}
    assert [event["event"].rpartition(".")[2] for event in events] == ["start", "tool_call", "complete", "tool_call"]
    assert events[1]["name"] == NASTY.replace("\ud800", "\ufffd")


async def test_a_sink_gets_nothing_it_did_not_ask_for(tmp_path: Path):
    path = tmp_path / "audit.jsonl"
    server = FastMCP("log")

    @server.tool
    async def echo(text: str) -> str:
        await asyncio.sleep(0)
        return text

    CodeCallPlugin.init(
        vm={"preset": "secure"}, pool={"min_workers": 0}, audit={"sinks": [JsonLinesSink(path)]}
    ).install(server)
    async with Client(server) as client:
        for end in ("return 1", "null.x", "eval(CANARY)", f"throw new Error({json.dumps(CANARY)})"):
            script = f"console.log({json.dumps(CANARY)}); await callTool('echo', {{text: {json.dumps(CANARY)}}}); {end}"
            await client.call_tool("codecall:execute", {"script": script, "context": {"a": CANARY}})
        await client.call_tool("codecall:invoke", {"tool": "echo", "input": {"text": CANARY}})
    written = path.read_text(encoding="ascii")
    assert len(written.splitlines()) == 3 * 3 + 3 + 1
    assert "north" not in written
