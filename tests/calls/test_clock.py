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


async def slowly(*_: Any) -> Any:
    """A person who takes longer than the call, and the whole run, may."""
    await asyncio.sleep(2.1)
    return ElicitResult(action="accept", content={"value": "Ann"})


@pytest.mark.parametrize("tool", ["ask", "outer"])
async def test_a_person_may_take_longer_than_a_tool(tool: str) -> None:
    async with Client(server(), mode="legacy", elicitation_handler=slowly) as client:
        answer = await run(client, f"return await callTool('{tool}', {{}})")
    result = answer["result"]["result"] if tool == "outer" else answer["result"]
    assert result == "hello Ann"


async def test_invoke_waits_too() -> None:
    async with Client(server(), mode="legacy", elicitation_handler=slowly) as client:
        result = await client.call_tool("codecall:invoke", {"tool": "ask", "input": {}})
    assert result.structured_content == {"status": "ok", "result": "hello Ann"}


async def test_a_question_that_nobody_answers_ends_with_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "MAX_QUESTION_S", 0.1)

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    async with Client(server(), mode="legacy", elicitation_handler=never) as client:
        answer = await run(client, "return await callTool('ask', {})")
    assert answer["error"]["code"] == "TOOL_TIMEOUT"


async def test_the_clock_of_a_call_that_asks_nothing_runs_on() -> None:
    made = server()

    async def hang() -> None:
        """Hang."""
        await asyncio.Event().wait()

    made.tool(hang)
    async with Client(made, mode="legacy", elicitation_handler=slowly) as client:
        answer = await run(client, "return await callTool('hang', {})")
    assert answer["error"]["code"] == "TOOL_TIMEOUT"
