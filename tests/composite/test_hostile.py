"""Hostile definitions and outputs end as clear errors, and the server has time for others meanwhile."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.tools.base import ToolResult
from mcp_types import TextContent

from codecall import CodeCallPlugin
from codecall.audit.events import RunDetails
from codecall.composite.budgets import MAX_KEYS
from codecall.composite.run import WorkflowRun
from codecall.envelopes import CallRecord, ExecutionResult
from codecall.sandbox.interfaces import OnCallEnd, RunObserver
from tests.composite.documents import Stubs
from tests.loop_turns import MAX_TIMES, LoopTurns, assert_turns_below, count_loop_turns, longest_gap

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
    watches: list[Watch] = []
    with count_loop_turns() as turns:

        def observe(_run: RunDetails) -> Watch:
            watches.append(Watch(turns))
            return watches[-1]

        audit = {"watchers": [observe]}
        CodeCallPlugin.init(composite_tools=[flow(step)], audit=audit).install(stubs.server)
        async with Client(stubs.server) as client:
            # Where other processes keep both cores busy, the loop has few turns of its own.
            for _ in range(MAX_TIMES):
                result = await client.call_tool("flow", arguments, raise_on_error=False)
                assert (result.structured_content or {})["code"] == code
                assert (result.structured_content or {})["steps"] == {"big": "completed", "after": "failed"}
                if watches[-1].between > OTHERS:
                    break
    assert watches[-1].between > OTHERS
    assert set(stubs.names()) == {"big"}


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


LISTS = "[]," * 60_000

MANY_PARTS = {
    "of one step": {"id": "some", "tool": "lists", "arguments": {"count": 20}},
    "of many iterations": {
        "id": "some",
        "type": "forEach",
        "collection": "[" + "1," * 19 + "1]",
        "step": {"tool": "lists"},
    },
}


@pytest.mark.parametrize("what", MANY_PARTS)
async def test_outputs_of_too_many_objects_and_arrays_are_refused(what: str):
    stubs = Stubs()
    stubs.add("lists", {"count": {}}, lambda given: f"[{LISTS * int(given.get('count', 1))}[]]")
    definition = {"name": "flow", "description": "A flow", "steps": [MANY_PARTS[what]]}
    CodeCallPlugin.init(composite_tools=[definition]).install(stubs.server)
    async with Client(stubs.server) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
    failure = result.structured_content or {}
    assert (failure["code"], failure["step"], failure["steps"]) == ("OUTPUT_LIMIT", "some", {"some": "failed"})
    assert "bytes of memory together; a run may hold 268,435,456" in failure["message"]


async def test_a_large_output_is_decoded_while_others_have_their_turn():
    stubs = Stubs()
    stubs.add("big", answer=json.dumps({f"{number:x}": 0 for number in range(800_000)}))
    stubs.add("echo", answer="yes")
    CodeCallPlugin.init(composite_tools=[flow(after(tool="echo"))]).install(stubs.server)
    async with Client(stubs.server) as client:
        await assert_turns_below(40, lambda: client.call_tool("flow", {}), longest_gap)


MANY_KEYS = {f"k{number}": number for number in range(MAX_KEYS + 1)}
THROUGH = {
    "range of a field": "{{range $k, $v := .steps.big.output.inner}}{{break}}{{end}}",
    "range of an output": "{{range $k, $v := .steps.big.output}}{{break}}{{end}}",
    "a list of it": "{{print .steps.big.output.list}}",
    "its JSON": "{{range $k, $v := (fromJson .steps.big.output.text)}}{{break}}{{end}}",
    "a parameter": "{{range $k, $v := .params.map}}{{break}}{{end}}",
}


@pytest.mark.parametrize("how", THROUGH)
async def test_no_template_goes_through_an_object_with_very_many_keys(how: str):
    stubs = Stubs()
    stubs.add("big", answer={**MANY_KEYS, "inner": MANY_KEYS, "list": [{"a": MANY_KEYS}]})
    stubs.add("echo", answer="yes")
    definition = flow(after(tool="echo", arguments={"q": THROUGH[how]}))
    definition["parameters"] = {"type": "object", "properties": {"map": {"type": "object"}}}
    CodeCallPlugin.init(composite_tools=[definition]).install(stubs.server)
    async with Client(stubs.server) as client:
        failure = await client.call_tool("flow", {"map": MANY_KEYS}, raise_on_error=False)
        body = failure.structured_content or {}
    assert f"keys; a template goes through at most {MAX_KEYS:,}" in body["message"]
    assert "Read single fields of it" in body["hint"]


async def test_an_object_with_very_many_keys_is_read_and_returned():
    stubs = Stubs()
    answer = {"inner": MANY_KEYS, "list": [{"a": MANY_KEYS}]}
    stubs.add("big", answer=answer)
    stubs.add("echo", answer="yes")
    read = "{{.steps.big.output.inner.k7}} {{(index .steps.big.output.list 0).a.k8}} {{len .steps.big.output.inner}}"
    arguments = {"q": f"{read} {{{{.params.map.k9}}}}"}
    definition = flow(after(tool="echo", arguments=arguments), {"id": "last", "tool": "big", "dependsOn": ["after"]})
    definition["parameters"] = {"type": "object", "properties": {"map": {"type": "object"}}}
    CodeCallPlugin.init(composite_tools=[definition]).install(stubs.server)
    async with Client(stubs.server) as client:
        result = await client.call_tool("flow", {"map": MANY_KEYS})
    assert result.structured_content == answer
    assert ("echo", {"q": f"7 8 {MAX_KEYS + 1} 9"}) in stubs.calls


FIELD = "{{(fromJson .steps.big.output.text).field}}"


def lists_of(count: int) -> str:
    """A JSON text with a field, and so many empty lists."""
    return f'{{"field":"x","rest":[{"[]," * count}0]}}'


TEXTS = {
    "of one text": (lists_of(1_200_000), FIELD),
    "of several texts": (
        json.dumps([lists_of(400_000 + number) for number in range(3)]),
        "{{range .steps.big.output.result}}{{(fromJson .).field}}{{end}}",
    ),
}


@pytest.mark.parametrize("what", TEXTS)
async def test_json_texts_of_too_many_objects_and_arrays_are_not_read(what: str):
    answer, template = TEXTS[what]
    value = {"result": json.loads(answer)} if answer.startswith("[") else {"text": answer}
    stubs = Stubs()
    stubs.add("big", answer=value)
    stubs.add("echo", answer="yes")
    CodeCallPlugin.init(composite_tools=[flow(after(tool="echo", arguments={"q": template}))]).install(stubs.server)
    async with Client(stubs.server) as client:
        failure = (await client.call_tool("flow", {}, raise_on_error=False)).structured_content or {}
    assert (failure["code"], failure["step"]) == ("OUTPUT_LIMIT", "after")
    assert "bytes of memory together; a run may hold 268,435,456" in failure["message"]
    assert stubs.names() == ["big"]


async def test_an_output_that_is_json_is_not_read_again():
    stubs = Stubs()
    stubs.add("big", answer=lists_of(600_000))
    stubs.add("echo", answer="yes")
    both = after(tool="echo", arguments={"q": f"{FIELD}{{{{.steps.big.output.field}}}}"})
    CodeCallPlugin.init(composite_tools=[flow(both)]).install(stubs.server)
    async with Client(stubs.server) as client:
        await client.call_tool("flow", {})
    assert stubs.calls[-1][1] == {"q": "xx"}


async def test_a_json_text_is_read_once_in_a_run_while_others_have_their_turn():
    stubs = Stubs()
    stubs.add("echo", answer="yes")

    @stubs.server.tool
    def big() -> str:
        return text

    text = lists_of(900_000)
    each = after(type="forEach", collection="[1,2,3,4,5,6]", step={"tool": "echo", "arguments": {"q": FIELD}})
    CodeCallPlugin.init(composite_tools=[flow(each)]).install(stubs.server)
    async with Client(stubs.server) as client:

        async def run() -> None:
            assert (await client.call_tool("flow", {})).data["completed"] == 6

        await assert_turns_below(40, run, longest_gap)


async def test_half_a_surrogate_pair_and_what_no_client_can_read():
    stubs = Stubs()
    stubs.add("half", answer=r'{"text": "\ud83d"}')
    stubs.add("deep", answer="[" * 101 + "]" * 101)
    stubs.add("large", answer="[1e999]")
    definitions = [
        {"name": f"flow_{name}", "description": "A flow", "steps": [{"id": "only", "tool": name}]}
        for name in ("half", "deep", "large")
    ]
    CodeCallPlugin.init(composite_tools=definitions).install(stubs.server)
    async with Client(stubs.server) as client:
        assert (await client.call_tool("flow_half", {})).structured_content == {"text": "\ufffd"}
        for name in ("deep", "large"):
            result = await client.call_tool(f"flow_{name}", {}, raise_on_error=False)
            assert (result.structured_content or {})["code"] == "OUTPUT_LIMIT"


FREED = {
    "that went well": [],
    "that failed": [after(tool="down")],
    "that failed in an iteration": [after(type="forEach", collection="[1]", step={"tool": "down"})],
    "that went on": [after(tool="down", onError={"action": "continue"})],
    "that took too long": [after(tool="hang", timeout="1ms")],
}


@pytest.mark.parametrize("what", FREED)
async def test_a_run_that_has_ended_is_freed_at_once(what: str):
    stubs = Stubs()
    for name in ("big", "down"):
        stubs.add(name, answer={"text": "x"})
    stubs.failing.add("down")

    @stubs.server.tool
    async def hang() -> None:
        await asyncio.sleep(60)

    CodeCallPlugin.init(composite_tools=[flow(*FREED[what])]).install(stubs.server)
    async with Client(stubs.server) as client:
        gc.collect()
        gc.disable()
        try:
            result = await client.call_tool("flow", {}, raise_on_error=False)
            assert [each for each in gc.get_objects() if type(each) is WorkflowRun] == []
        finally:
            gc.enable()
    assert result.is_error is (what not in ("that went well", "that went on"))


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
