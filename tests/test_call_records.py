"""The calls of a run that failed, in its envelope: which were made, and how each ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from typing import Any, Literal

import jsonschema
import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin, Enclave
from codecall.envelopes import (
    EXECUTE_SCHEMA,
    MAX_LISTED_CALLS,
    MAX_STORED_INPUT_CHARS,
    SHORT_INPUT_CHARS,
    CallRecord,
    calls_body,
)

Answer = dict[str, Any]
SECRET = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"


class Shop:
    """A server and one client of it."""

    def __init__(self, client: Client[Any], plugin: CodeCallPlugin) -> None:
        self.client = client
        self.plugin = plugin

    async def run(self, script: str) -> Answer:
        result = await self.client.call_tool("codecall:execute", {"script": script})
        assert result.structured_content is not None
        jsonschema.validate(result.structured_content, EXECUTE_SCHEMA)
        return result.structured_content


@pytest.fixture(scope="module")
async def shop() -> AsyncGenerator[Shop]:
    server = FastMCP("shop")
    limits = {"preset": "secure", "max_duration_ms": 900, "timeout_ms": 500, "max_tool_calls": 5}
    plugin = CodeCallPlugin.init(vm=limits, pool={"min_workers": 0})

    @server.tool
    def note(text: str = "", token: str = "") -> str:
        if text == "bad":
            raise ValueError("no")
        return SECRET

    @server.tool
    async def hang() -> None:
        await asyncio.Event().wait()

    @server.tool
    async def crash() -> None:
        for pid in plugin.worker_pids:
            os.kill(pid, signal.SIGKILL)
        await asyncio.Event().wait()

    async with Client(plugin.install(server)) as client:
        yield Shop(client, plugin)


FAILURES = {
    "script": ("null.x", "EXECUTION_ERROR", []),
    "tool": ("await callTool('note', {text: 'bad'})", "TOOL_EXECUTION_ERROR", [("note", "error")]),
    "limit": (
        "for (let i = 0; i < 9; i++) await callTool('note')",
        "TOOL_CALL_LIMIT",
        [("note", "ok")] * 4,
    ),
    "iterations": ("for (let i = 0; i < 9999; i++) {}", "ITERATION_LIMIT", []),
    "script time": ("for (const s = 'x'.repeat(9e6);;) s.lastIndexOf('y')", "TIMEOUT", []),
    "duration": ("await callTool('hang')", "TIMEOUT", [("hang", "unfinished")]),
    "worker killed": ("await callTool('crash')", "WORKER_CRASHED", [("crash", "unfinished")]),
    "self reference": ("await callTool(['codecall', 'search'].join(':'))", "SELF_REFERENCE_BLOCKED", None),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_every_failure_tells_the_calls_before_it(shop: Shop, failure: str):
    script, code, then = FAILURES[failure]
    envelope = await shop.run(f"await callTool('note', {{text: 'first'}}); {script}")
    assert envelope["error"]["code"] == code, envelope
    assert envelope["runId"].startswith("run_")
    first, *rest = envelope["calls"]
    assert {key: first[key] for key in ("number", "toolName", "outcome", "input")} == {
        "number": 1,
        "toolName": "note",
        "outcome": "ok",
        "input": '{"text":"first"}',
    }
    assert first["durationMs"] > 0
    if then is not None:
        assert [(call["toolName"], call["outcome"]) for call in rest] == then


async def test_every_envelope_has_a_run_id_and_only_those_of_failed_runs_the_calls(shop: Shop):
    ended = await shop.run("await callTool('note'); return 1")
    assert "calls" not in ended
    refused = await shop.run("eval('1')")
    broken = await shop.run("return (")
    unreadable = await shop.run("return '\ud800'")
    runs = [ended, refused, broken, unreadable]
    assert len({envelope["runId"] for envelope in runs}) == len(runs)


async def test_what_a_script_hands_on_is_not_seen_in_the_list(shop: Shop):
    envelope = await shop.run("const token = await callTool('note'); await callTool('note', {token}); null.x")
    assert SECRET not in json.dumps(envelope)
    assert json.loads(envelope["calls"][1]["input"]) == {"token": "masked-credential-1"}


async def test_calls_of_an_enclave_without_a_server_are_told_too():
    async with Enclave(preset="secure") as enclave:
        result = await enclave.execute("await callTool('a', {b: 1}); null.x", tool_handler=lambda name, value: 1)
        assert [call.outcome for call in result.calls] == ["ok"]
        assert result.envelope()["calls"][0]["input"] == '{"b":1}'


Outcome = Literal["ok", "error", "unfinished", "not_started"]


def made(number: int, outcome: Outcome, text: str = "x" * 300) -> CallRecord:
    call = CallRecord(number, "tool", "t" * 256, text[:MAX_STORED_INPUT_CHARS], len(text))
    if outcome != "not_started":
        call.start()
    if outcome in ("ok", "error"):
        call.end("NO" if outcome == "error" else None)
    return call


def test_a_long_list_is_bounded_and_says_what_is_not_in_it():
    outcomes: list[Outcome] = ["error" if number == 3 else "ok" for number in range(1, 901)]
    outcomes += ["unfinished"] * 20 + ["not_started"] * 80
    body = calls_body([made(number, outcome) for number, outcome in enumerate(outcomes, 1)])
    calls = body["calls"]
    assert len(calls) == MAX_LISTED_CALLS
    # Those that need looking at, and the latest that went well.
    assert [call["number"] for call in calls] == [3, *range(822, 921)]
    assert body["callsLeftOut"] == {"ok": 820, "not_started": 80}
    assert calls[0]["input"] == "x" * SHORT_INPUT_CHARS + f"…[{300 - SHORT_INPUT_CHARS} more characters]"
    assert len(json.dumps(body)) < 60_000


def test_a_short_list_is_whole():
    body = calls_body([made(number, "ok") for number in range(1, 4)])
    assert "callsLeftOut" not in body
    assert [len(call["input"]) for call in body["calls"]] == [len("x" * 200 + "…[100 more characters]")] * 3
