"""Hostile definitions and outputs end as clear errors, and the server has time for others meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.tools.base import ToolResult
from mcp_types import TextContent

from codecall import CodeCallPlugin
from codecall.audit.events import RunDetails
from codecall.envelopes import CallRecord, ExecutionResult
from codecall.sandbox.interfaces import OnCallEnd, RunObserver
from tests.composite.documents import Stubs
from tests.loop_turns import LoopTurns, count_loop_turns

OTHERS = 50
"""Turns that others had at least; work on the event loop itself leaves them fewer than ten."""

ENDLESS = "{{range 9000}}{{$x := json $.steps.big.output}}{{end}}"


def flow(*steps: dict[str, Any]) -> dict[str, Any]:
    """A definition whose first step calls `big`."""
    parameters = {"type": "object", "properties": {"q": {}}}
    return {
        "name": "flow",
        "description": "A flow",
        "parameters": parameters,
        "steps": [{"id": "big", "tool": "big"}, *steps],
    }


def after(**fields: Any) -> dict[str, Any]:
    """A step that reads what `big` gave."""
    return {"id": "after", "dependsOn": ["big"], **fields}


HOSTILE = {
    "a million items": (
        {"items": [0] * 1_000_000},
        after(type="forEach", collection="{{json .steps.big.output.items}}", step={"tool": "echo"}),
        "TEMPLATE_ERROR",
    ),
    "a template that loops": (
        {"text": "x" * 300_000},
        after(tool="echo", arguments={"q": ENDLESS}),
        "TEMPLATE_ERROR",
    ),
    "a large argument": (
        {"text": "x"},
        after(tool="echo", arguments={"q": "{{print .params.q}}"}),
        "TEMPLATE_ERROR",
    ),
}


class Watch(RunObserver):
    """Notes the turns between the end of the last call and the end of the run."""

    def __init__(self, turns: LoopTurns) -> None:
        self.turns = turns
        self.between = self.called = 0

    def on_call(self, record: CallRecord, input_json: str) -> OnCallEnd:
        """See `RunObserver`."""
        return self.on_end

    def on_end(self, _value: str | None) -> None:
        """A call has ended."""
        self.called = self.turns.count

    def on_finished(self, result: ExecutionResult) -> None:
        """See `RunObserver`."""
        self.between = self.turns.count - self.called


@pytest.mark.parametrize("name", HOSTILE)
async def test_work_on_what_is_large_leaves_time_for_others(name: str):
    answer, step, code = HOSTILE[name]
    arguments = {"q": list(range(150_000))} if "argument" in name else {}
    stubs = Stubs()
    stubs.add("echo")
    stubs.add("big", answer=answer)
    with count_loop_turns() as turns:
        watch = Watch(turns)

        def observe(_run: RunDetails) -> Watch:
            return watch

        audit = {"watchers": [observe]}
        CodeCallPlugin.init(composite_tools=[flow(step)], audit=audit).install(stubs.server)
        async with Client(stubs.server) as client:
            result = await client.call_tool("flow", arguments, raise_on_error=False)
    assert watch.between > OTHERS
    assert (result.structured_content or {})["code"] == code
    assert (result.structured_content or {})["steps"] == {"big": "completed", "after": "failed"}
    assert stubs.names() == ["big"]


async def test_an_output_of_a_gigabyte_is_refused():
    server: FastMCP[Any] = FastMCP("large")
    part = "x" * 1_000_000

    @server.tool(output_schema=None)
    def big() -> ToolResult:
        text = TextContent(type="text", text="large")
        return ToolResult.model_construct(content=[text], structured_content={"parts": [part] * 1_000}, meta=None)

    CodeCallPlugin.init(composite_tools=[flow()]).install(server)
    async with Client(server) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
        assert (result.structured_content or {})["code"] == "MESSAGE_TOO_LARGE"
        assert [tool.name for tool in await client.list_tools()]


async def test_definitions_are_read_beside_the_event_loop(tmp_path: Path):
    plugin = CodeCallPlugin.init(composite_tools=[tmp_path])
    plugin.install(FastMCP("watched"))
    steps = "".join(f"  - {{ id: s{number}, tool: t, arguments: {{ a: 1 }} }}\n" for number in range(4_000))
    (tmp_path / "many.yaml").write_text(f"name: many\ndescription: Many\nsteps:\n{steps}", encoding="utf-8")
    with count_loop_turns() as turns:
        await asyncio.sleep(0)
        await plugin.reload()
        assert turns.count > OTHERS
    assert "4,000 steps; a workflow may have 100" in str(plugin.composite_findings[0])
