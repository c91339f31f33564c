"""The time of a call stands still while its tool asks a person something; that of the run, too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult

from codecall import CodeCallPlugin
from codecall.calls import clock
from tests.approvals.conftest import run
from tests.loop_time import LoopTime

VM = {"preset": "secure", "tool_call_timeout_ms": 1_000, "max_duration_ms": 2_000}


def server() -> FastMCP[Any]:
    """A server with tools that ask, and one that runs scripts itself."""
    made = FastMCP[Any]("office")

    async def ask(ctx: Context) -> str:
        """Ask a person."""
        answer = await ctx.elicit("Who?", str)
        return f"hello {answer.data}"  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    async def outer(ctx: Context) -> Any:
        """Have a script run."""
        script = {"script": "return callTool('ask', {})"}
        result = await ctx.fastmcp.call_tool("codecall:execute", script)
        return result.structured_content

    made.tool(ask)
    made.tool(outer)
    return CodeCallPlugin.init(vm=VM, pool={"min_workers": 0}).install(made)


class Time(LoopTime):
    """A person's time."""

    async def answer_late(self, _message: str, _type: Any, params: Any, _context: Any) -> Any:
        """A person who takes longer than the call, and the whole run, may."""
        await self.jump(2.1)
        return ElicitResult(action="accept", content=dict.fromkeys(params.requested_schema["properties"], "Ann"))


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


@pytest.mark.parametrize("tool", ["ask", "outer"])
async def test_a_person_may_take_longer_than_a_tool(tool: str, time: Time) -> None:
    async with Client(server(), mode="legacy", elicitation_handler=time.answer_late) as client:
        answer = await run(client, f"return await callTool('{tool}', {{}})")
    result = answer["result"]["result"] if tool == "outer" else answer["result"]
    assert result == "hello Ann"


FORM = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
FLOW = {
    "name": "flow",
    "description": "Ask a person",
    "steps": [{"id": "ask", "type": "elicitation", "message": "Who?", "schema": FORM}],
}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_composite_tool_within_a_script_may_ask_as_long(mode: Any, time: Time) -> None:
    made = CodeCallPlugin.init(vm=VM, pool={"min_workers": 0}, composite_tools=[FLOW]).install(FastMCP[Any]("office"))
    async with Client(made, mode=mode, elicitation_handler=time.answer_late) as client:
        answer = await run(client, "return (await callTool('flow', {})).content")
    assert answer["result"] == {"who": "Ann"}


async def test_invoke_waits_too(time: Time) -> None:
    async with Client(server(), mode="legacy", elicitation_handler=time.answer_late) as client:
        result = await client.call_tool("codecall:invoke", {"tool": "ask", "input": {}})
    assert result.structured_content == {"status": "ok", "result": "hello Ann"}


async def test_a_question_that_nobody_answers_ends_with_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "MAX_QUESTION_S", 0.1)

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    async with Client(server(), mode="legacy", elicitation_handler=never) as client:
        answer = await run(client, "return await callTool('ask', {})")
    assert answer["error"]["code"] == "TOOL_TIMEOUT"


async def test_the_clock_of_a_call_that_asks_nothing_runs_on(time: Time) -> None:
    made = server()

    async def hang() -> None:
        """Hang."""
        await time.jump(1.1)
        await asyncio.Event().wait()

    made.tool(hang)
    async with Client(made, mode="legacy", elicitation_handler=time.answer_late) as client:
        answer = await run(client, "return await callTool('hang', {})")
    assert answer["error"]["code"] == "TOOL_TIMEOUT"
