"""What a run does: order, failures, retries, coercion, output, and that it is a run as a script's is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.client import CallToolResult
from fastmcp.exceptions import ToolError
from key_value.aio.stores.memory import MemoryStore
from mcp.client.subscriptions import listen
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types import ToolListChangedNotification

from codecall import AuditEvent, CodeCallPlugin, CompositeTools, RateLimitPlugin
from codecall.approvals.request import Decision
from tests.composite.documents import Stubs

INTEGER = {"n": {"type": "integer"}}


def step(step_id: str, tool: str = "echo", **fields: Any) -> dict[str, Any]:
    """A step."""
    return {"id": step_id, "tool": tool, **fields}


def flow(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A definition."""
    return {"name": "flow", "description": "A flow", "steps": list(steps), **fields}


@asynccontextmanager
async def served(server: FastMCP[Any], *definitions: dict[str, Any], **options: Any) -> AsyncGenerator[Client[Any]]:
    """A client of the server with these composite tools."""
    plugin = CodeCallPlugin.init(composite_tools=definitions, **options)
    assert plugin.composite_findings == ()
    plugin.install(server)
    async with Client(server) as client:
        yield client


async def run(stubs: Stubs, definition: dict[str, Any], arguments: dict[str, Any] | None = None) -> CallToolResult:
    """Run one definition once."""
    async with served(stubs.server, definition) as client:
        return await client.call_tool("flow", arguments or {}, raise_on_error=False)


def about(result: CallToolResult) -> dict[str, Any]:
    """What an answer says of its run."""
    body = result.structured_content if result.is_error else (result.meta or {})["codecall"]
    assert body is not None
    return body


def echo_server() -> Stubs:
    """A server with a tool that gives back its arguments."""
    stubs = Stubs()
    stubs.add("echo", answer=lambda arguments: arguments)
    return stubs


async def test_a_step_starts_when_what_it_depends_on_has_ended_and_not_later():
    stubs, release = Stubs(), asyncio.Event()
    server: FastMCP[Any] = stubs.server

    @server.tool
    async def slow() -> str:
        await asyncio.wait_for(release.wait(), 30)
        return "slow"

    @server.tool
    async def last() -> str:
        release.set()
        return "last"

    stubs.add("echo", answer=lambda arguments: arguments)
    # `c` needs only `b`, so it ends while `a` still runs: levels would wait for ever.
    definition = flow(step("a", "slow"), step("b"), step("c", "last", dependsOn=["b"]), step("d", dependsOn=["a", "c"]))
    result = await run(stubs, definition)
    assert about(result)["steps"] == dict.fromkeys("abcd", "completed")


async def test_ten_steps_at_once_and_no_more():
    server: FastMCP[Any] = FastMCP("ten")
    running, most = 0, 0
    full = asyncio.Event()

    @server.tool
    async def hold() -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 10:
            full.set()
        await asyncio.wait_for(full.wait(), 30)
        await asyncio.sleep(0)
        running -= 1
        return most

    async with served(server, flow(*(step(f"s{n}", "hold") for n in range(25)))) as client:
        result = await client.call_tool("flow", {})
    assert result.data == 10


@pytest.mark.parametrize(
    ("schema", "template", "value"),
    [
        ({"type": "integer"}, "{{.params.n}}", 5),
        ({"type": ["integer", "null"]}, "{{.params.none}}", None),
        ({"type": "number"}, "{{.params.n}}", 5),
        ({"type": "boolean"}, "{{eq .params.n 5}}", True),
        ({"type": "array"}, "{{json .params.list}}", [1, "x"]),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, '{"a": {{.params.n}}}', {"a": 5}),
        ({"type": "string"}, "{{.params.n}}", "5"),
        ({"type": ["string", "integer"]}, "{{.params.n}}", "5"),
        ({}, "{{.params.n}}", "5"),
        ({"type": "integer"}, "n{{.params.n}}", "n5"),
        ({"enum": [1, 5]}, "{{.params.n}}", 5),
        ({"type": "array", "items": {"type": "integer"}}, ["{{.params.n}}", 7], [5, 7]),
        ({"type": "object", "properties": INTEGER}, {"n": "{{.params.n}}", "m": "{{.params.n}}"}, {"n": 5, "m": "5"}),
    ],
)
async def test_arguments_are_what_the_schema_of_the_tool_asks(schema: dict[str, Any], template: Any, value: object):
    stubs = Stubs()
    stubs.add("take", {"value": schema}, lambda arguments: arguments)
    parameters = {"properties": {"n": {"type": "integer", "default": 5}, "none": {"default": None}, "list": {}}}
    definition = flow(step("a", "take", arguments={"value": template}), parameters=parameters)
    await run(stubs, definition, {"list": [1, "x"]})
    assert stubs.arguments("take") == [{"value": value}]


OPTIONAL = {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("template", "given", "sent"),
    [
        ("{{.params.a}}", {}, {}),
        ("{{.params.a}}", {"a": None}, {"q": None}),
        ("{{.params.a}}", {"a": "<no value>"}, {"q": "<no value>"}),
        ("{{json .params.n}}", {}, {}),
        ("{{json .params.n}}", {"n": 2}, {"q": "2"}),
        ({"in": "{{.params.a}}", "n": 1}, {}, {"q": {"n": 1}}),
    ],
)
async def test_an_argument_that_is_a_parameter_left_out_is_left_out(template: Any, given: Any, sent: Any):
    stubs = Stubs()
    stubs.add("echo", {"q": {"type": ["string", "null"]}}, lambda arguments: arguments)
    result = await run(stubs, flow(step("a", arguments={"q": template}), parameters=OPTIONAL), given)
    assert result.structured_content == sent


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("of {{.params.a}}", "writes .params.a that is not there, or null"),
        (["{{.params.a}}", "x"], "The item '{{.params.a}}' of a list is not there"),
    ],
)
async def test_a_parameter_left_out_cannot_be_part_of_an_argument(template: Any, message: str):
    stubs = echo_server()
    result = await run(stubs, flow(step("a", arguments={"q": template}), parameters=OPTIONAL))
    assert message in about(result)["message"]
    assert about(result)["code"] == "TEMPLATE_ERROR"
    assert stubs.calls == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "n: Field required"), ({"n": "x"}, "n: 'x' is not of type"), ({"n": 1, "m": 2}, "'m' was unexpected")],
)
async def test_arguments_of_the_workflow_are_checked_by_its_schema(arguments: dict[str, Any], message: str):
    stubs = echo_server()
    definition = flow(step("a"), parameters={"properties": INTEGER, "required": ["n"]})
    async with served(stubs.server, definition) as client:
        refused = await client.call_tool("flow", arguments, raise_on_error=False)
        invoke = {"tool": "flow", "input": arguments}
        answer = await client.call_tool("codecall:invoke", invoke, raise_on_error=False)
    invoked = (answer.structured_content or {})["error"]
    assert message in str(refused.content)
    assert [invoked["code"], invoked["message"].count("Valid parameters")] == ["INVALID_INPUT", 1]
    assert message in "; ".join(f"{each['field']}: {each['message']}" for each in invoked["details"])
    assert stubs.calls == []


@pytest.mark.parametrize(
    ("schema", "given", "read"),
    [
        ({"type": "integer", "maximum": 200}, "100", 100),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": "boolean"}, " true", True),
        ({"type": "array", "items": {"type": "number"}}, '["0.5", 1]', [0.5, 1]),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": "7"}, {"n": 7}),
        ({"type": "string"}, "100", "100"),
    ],
)
async def test_texts_are_read_as_what_the_schema_asks(schema: dict[str, Any], given: object, read: object):
    """As those of functions: a literal in a step, or of a client, that `composite check` has nothing against."""
    stubs, echo = (
        echo_server(),
        {"value": "{{json .params.value}}" if schema != {"type": "string"} else "{{.params.value}}"},
    )
    stubs.add("typed", {"value": schema}, answer=lambda arguments: arguments)
    parameters = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
    inner = flow(step("a", "typed", arguments=echo), parameters=parameters, name="inner")
    outer = flow(step("a", "inner", arguments={"value": given}))
    async with served(stubs.server, inner, outer) as client:
        await client.call_tool("inner", {"value": given})
        await client.call_tool("flow", {})
    assert stubs.arguments("typed") == [{"value": read}] * 2


async def test_a_step_that_fails_ends_the_run_and_cancels_the_others():
    server: FastMCP[Any] = FastMCP("failing")
    started, cancelled = asyncio.Event(), asyncio.Event()

    @server.tool
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    @server.tool
    async def fail() -> None:
        await started.wait()
        raise ToolError("no such row")

    definition = flow(step("a", "endless"), step("b", "fail"), step("c", "fail", dependsOn=["b"]))
    async with served(server, definition) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
    assert cancelled.is_set()
    body = about(result)
    assert (body["code"], body["message"], body["step"]) == ("TOOL_EXECUTION_ERROR", "no such row", "b")
    assert body["steps"] == {"a": "cancelled", "b": "failed", "c": "not_run"}
    assert body["hint"].startswith("A call that this tool makes failed: ")  # without a word about scripts


@pytest.mark.parametrize("where", ["step", "workflow"])
async def test_continue_after_a_failure(where: str):
    stubs = echo_server()
    stubs.failing = {"backend_fetch"}
    failing = step("a", "backend_fetch", defaultResults={"value": 0})
    fields: dict[str, Any] = {"failureMode": "continue"}
    if where == "step":
        failing, fields = {**failing, "onError": {"action": "continue"}}, {}
    shown = "{{.steps.a.status}} {{.steps.a.error}} {{.steps.a.output.value}}"
    result = await run(stubs, flow(failing, step("b", arguments={"q": shown}, dependsOn=["a"]), **fields))
    assert result.structured_content == {"q": "failed the backend is down 0"}


def failing_times(times: int, error: Callable[[], Exception]) -> FastMCP[Any]:
    """A server whose tool fails so many times before it answers with the number of its calls."""
    server: FastMCP[Any] = FastMCP("flaky")
    calls = 0

    @server.tool
    def flaky() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise error()
        return calls

    @server.tool
    def count() -> int:
        return calls

    return server


async def flaky_run(server: FastMCP[Any], **retry: Any) -> tuple[CallToolResult, int]:
    on_error = {"action": "retry", "retryDelay": "1ms", **retry}
    async with served(server, flow(step("a", "flaky", onError=on_error))) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
        return result, (await client.call_tool("count", {})).data


async def test_a_failure_that_may_pass_is_tried_again():
    result, calls = await flaky_run(failing_times(2, lambda: ToolError("busy")), retryCount=3)
    assert (result.data, calls) == (3, 3)


async def test_attempts_end():
    result, calls = await flaky_run(failing_times(9, lambda: ToolError("busy")), retryCount=2)
    assert (about(result)["message"], calls) == ("busy", 3)


async def test_a_refused_argument_is_not_tried_again():
    server = failing_times(0, lambda: ToolError(""))

    @server.tool
    def strict(n: int) -> int:
        return n

    definition = flow(step("a", "strict", arguments={"n": "x"}, onError={"action": "retry", "retryDelay": "1ms"}))
    async with served(server, definition) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
    assert about(result)["code"] == "INVALID_INPUT"


async def test_a_tool_that_is_not_there():
    result = await run(echo_server(), flow(step("a", "ecko")))
    assert about(result)["code"] == "TOOL_NOT_FOUND"


@pytest.mark.parametrize("where", ["step", "workflow"])
async def test_time_is_limited(where: str):
    server: FastMCP[Any] = FastMCP("slow")

    @server.tool
    async def endless() -> None:
        await asyncio.Event().wait()

    fields = {"timeout": "20ms"}
    definition = flow(step("a", "endless", **fields)) if where == "step" else flow(step("a", "endless"), **fields)
    async with served(server, definition) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
    assert about(result)["code"] == ("TOOL_TIMEOUT" if where == "step" else "TIMEOUT")
    assert "20ms" in about(result)["message"]


@pytest.mark.parametrize(("condition", "status"), [("true", "completed"), (" false ", "skipped")])
async def test_conditions(condition: str, status: str):
    result = await run(echo_server(), flow(step("a", condition=condition), step("b", dependsOn=["a"])))
    assert about(result)["steps"] == {"a": status, "b": "completed"}


async def test_a_condition_is_true_or_false():
    result = await run(echo_server(), flow(step("a", condition="{{.workflow.name}}")))
    assert about(result)["code"] == "WORKFLOW_ERROR"
    assert about(result)["message"] == "The condition gave 'flow'; true or false is needed"


def each(collection: str, **fields: Any) -> dict[str, Any]:
    """A forEach step over `echo`."""
    arguments = {"n": "{{.forEach.index}}", "item": "{{json .forEach.item}}"}
    inner = {"tool": "echo", "arguments": arguments}
    return {"id": "all", "type": "forEach", "collection": collection, "step": inner, **fields}


@pytest.mark.parametrize(
    ("collection", "message"),
    [
        ("{}", "The collection is no JSON array: '{}'"),
        ("nothing", "The collection is no JSON array"),
        (json.dumps([0] * 101), "The collection has 101 items; maxIterations allows 100"),
    ],
)
async def test_a_collection_that_is_none(collection: str, message: str):
    stubs = echo_server()
    result = await run(stubs, flow(each(collection)))
    assert message in about(result)["message"]
    assert stubs.calls == []


@pytest.mark.parametrize("collection", ["{{json .steps.a.output}}", "{{ json .steps.a.output.result }}"])
async def test_an_empty_list_of_a_tool_without_an_output_schema_is_an_empty_collection(collection: str):
    stubs = Stubs()

    @stubs.server.tool
    def rows(count: int):
        return [{"n": n} for n in range(count)]

    result = await run(stubs, flow(step("a", "rows", arguments={"count": 0}), each(collection, dependsOn=["a"])))
    assert result.structured_content == {"iterations": [], "count": 0, "completed": 0, "failed": 0}


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("items", ".steps.a.output.items is null"),
        ("item", ".steps.a.output.item is not there; there are: items, deep."),
        ("deep.y", ".steps.a.output.deep.y is not there; there are: x."),
    ],
)
async def test_a_collection_that_is_null_says_what_is_missing(field: str, hint: str):
    stubs = Stubs()
    stubs.add("rows", answer={"items": None, "deep": {"x": 1}})
    collection = f"{{{{json .steps.a.output.{field}}}}}"
    result = await run(stubs, flow(step("a", "rows"), each(collection, dependsOn=["a"])))
    assert hint in about(result)["hint"]
    assert "Write it with" not in about(result)["hint"]


async def test_a_collection_of_a_million_items_ends_at_once():
    stubs = Stubs()
    stubs.add("many", answer={"items": [0] * 1_000_000})
    definition = flow(step("a", "many"), each("{{json .steps.a.output.items}}", dependsOn=["a"], maxIterations=1000))
    result = await run(stubs, definition)
    assert about(result)["code"] == "TEMPLATE_ERROR"
    assert stubs.names() == ["many"]


async def test_an_iteration_that_fails_ends_the_step_unless_it_goes_on():
    for action in ("abort", "continue"):
        stubs = Stubs()
        stubs.add("echo")
        stubs.failing = {"echo"}
        result = await run(stubs, flow(each("[1, 2, 3]", maxParallel=1, onError={"action": action})))
        assert result.is_error is (action == "abort")
        assert len(stubs.calls) == (1 if action == "abort" else 3)


async def test_the_output_block():
    output = {
        "properties": {
            "text": {"type": "string", "description": "d", "value": "{{.params.n}} of {{.workflow.name}}"},
            "number": {"type": "number", "description": "d", "value": "1.5e2"},
            "yes": {"type": "boolean", "description": "d", "value": "1"},
            "list": {"type": "array", "description": "d", "value": "{{json .steps.a.output.items}}"},
            "whole": {"type": "integer", "description": "d", "value": "{{.steps.a.output.none}}", "default": 3},
            "null": {"type": "integer", "description": "d", "value": "x", "default": None},
        },
        "required": ["text"],
    }
    stubs = Stubs()
    stubs.add("items", answer={"items": [1, {"a": 2}]})
    definition = flow(step("a", "items"), output=output, parameters={"properties": {"n": {"default": 4}}})
    async with served(stubs.server, definition) as client:
        result = await client.call_tool("flow", {})
        (tool,) = [tool for tool in await client.list_tools() if tool.name == "flow"]
    assert result.structured_content == {
        "text": "4 of flow",
        "number": 150.0,
        "yes": True,
        "list": [1, {"a": 2}],
        "whole": 3,
        "null": None,
    }
    assert len(about(result)["warnings"]) == 2
    assert tool.output_schema is not None
    assert tool.output_schema["properties"]["null"]["type"] == ["integer", "null"]
    assert tool.output_schema["required"] == ["text"]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("integer", "1.5", "The output 'x' is no integer: '1.5'"),
        ("number", "many", "is no number"),
        ("boolean", "yes", "is neither true nor false"),
        ("array", "{}", "is no array as JSON"),
        ("object", "map[a:1]", "is no object as JSON"),
        ("string", "{{.steps.a.output.nothing}}", "writes .steps.a.output.nothing that is not there, or null"),
        ("integer", "{{len .steps.a.output.nothing}}", "The output 'x': The template"),
    ],
)
async def test_an_output_that_is_not_of_its_type(kind: str, value: str, message: str):
    output = {"properties": {"x": {"type": kind, "description": "d", "value": value}}}
    result = await run(echo_server(), flow(step("a"), output=output))
    assert message in about(result)["message"]


async def test_a_required_output_is_not_null():
    entry = {"type": "integer", "description": "d", "value": "x", "default": None}
    result = await run(echo_server(), flow(step("a"), output={"properties": {"x": entry}, "required": ["x"]}))
    assert about(result)["message"] == "The output 'x' is required, and is null"


@pytest.mark.parametrize("answer", ["a text", {"an": "object"}])
async def test_without_an_output_block_the_result_is_that_of_the_last_step(answer: object):
    stubs = Stubs()
    stubs.add("tool", answer=answer)
    result = await run(stubs, flow(step("a", "tool")))
    assert result.data == answer if isinstance(answer, str) else result.structured_content == answer


async def test_outputs_are_read_as_objects_as_json_and_as_text():
    stubs = echo_server()
    stubs.add("text", answer='{"papers": [{"id": 5}]}')
    shown = "{{.steps.a.output.text}} {{(fromJson .steps.a.output.text).papers}} {{.steps.a.output.papers}}"
    definition = flow(step("a", "text"), step("b", arguments={"q": shown}, dependsOn=["a"]))
    result = await run(stubs, definition)
    assert result.structured_content == {"q": '{"papers": [{"id": 5}]} [map[id:5]] [map[id:5]]'}


async def test_scripts_invoke_and_other_composite_tools_call_it():
    inner = flow(step("a", arguments={"n": "{{.params.n}}"}), parameters={"properties": {"n": {"type": "integer"}}})
    outer = {**flow(step("b", "flow", arguments={"n": 2})), "name": "outer"}
    async with served(echo_server().server, inner, outer) as client:
        script = "return [await callTool('outer', {}), (await getTool('flow')).inputSchema.properties];"
        ran = await client.call_tool("codecall:execute", {"script": script})
        assert ran.structured_content is not None
        assert ran.structured_content["result"] == [{"n": "2"}, {"n": {"type": "integer"}}]
        invoked = await client.call_tool("codecall:invoke", {"tool": "flow", "input": {"n": 1}})
        assert (invoked.structured_content or {})["result"] == {"n": "1"}
        found = await client.call_tool("codecall:search", {"query": "flow"})
        assert "flow" in [tool["name"] for tool in (found.structured_content or {})["tools"]]
        failed = "return await callTool('flow', { n: 'x' }, { throwOnError: false });"
        wrong = await client.call_tool("codecall:execute", {"script": failed})
        assert (wrong.structured_content or {})["result"]["error"]["code"] == "INVALID_INPUT"


async def test_a_chain_of_composite_tools_has_an_end():
    chain = [{**flow(step("a", f"t{n + 1}" if n < 4 else "echo")), "name": f"t{n}"} for n in range(5)]
    async with served(echo_server().server, *chain) as client:
        result = await client.call_tool("t0", {}, raise_on_error=False)
    assert "call one another more than 3 deep" in about(result)["message"]


async def test_it_calls_no_tool_that_its_steps_do_not_name():
    """What a template gives is an argument, never the name of a tool."""
    stubs = echo_server()
    result = await run(stubs, flow(step("a", "{{.params.t}}"), parameters={"properties": {"t": {}}}), {"t": "echo"})
    assert about(result)["code"] == "TOOL_NOT_FOUND"
    assert stubs.calls == []


async def test_annotations_are_the_worst_of_the_tools():
    server: FastMCP[Any] = FastMCP("annotated")
    for name, hints in {
        "read": {"readOnlyHint": True, "openWorldHint": False},
        "add": {"readOnlyHint": False, "destructiveHint": False},
        "drop": {},
    }.items():
        server.tool(lambda: {}, name=name, annotations=hints)
    tools = [{**flow(step("a", "read"), step("b", name)), "name": f"with_{name}"} for name in ("read", "add", "drop")]
    async with served(server, *tools) as client:
        listed = {tool.name: tool.annotations for tool in await client.list_tools()}
    assert [(a.read_only_hint, a.destructive_hint) for a in map(listed.get, (t["name"] for t in tools)) if a] == [
        (True, False),
        (False, False),
        (False, True),
    ]


async def test_a_definition_that_is_wrong_is_not_served_and_the_log_says_so(caplog: pytest.LogCaptureFixture):
    plugin = CodeCallPlugin.init(composite_tools=[flow(step("a")), {**flow(step("a", tool=1)), "name": "wrong"}])
    server = plugin.install(echo_server().server)
    async with Client(server) as client:
        names = [tool.name for tool in await client.list_tools()]
    assert "flow" in names
    assert "wrong" not in names
    assert "composite tool wrong is not served: steps[0].tool: a text is needed" in caplog.text
    assert [finding.tool for finding in plugin.composite_findings] == ["wrong"]


async def test_no_other_server_takes_the_name_of_a_composite_tool(caplog: pytest.LogCaptureFixture):
    stubs, backend = echo_server(), FastMCP[Any]("backend")
    stubs.server.mount(backend, namespace="backend")
    async with served(stubs.server, {**flow(step("a")), "name": "backend_report"}) as client:
        before = (await client.call_tool("backend_report", {})).structured_content
        backend.tool(lambda: {"taken": True}, name="report")
        assert (await client.call_tool("backend_report", {})).structured_content == before
        script = "return callTool('backend_report', {})"
        result = (await client.call_tool("codecall:execute", {"script": script})).structured_content
        assert result is not None
        assert result["result"] == before
        listed = [tool.description for tool in await client.list_tools() if tool.name == "backend_report"]
    assert len(listed) <= 1
    assert "tool backend_report cannot be reached: a composite tool has its name" in caplog.text


async def test_reload_reads_the_definitions_again():
    definition = flow(step("a"))
    plugin = CodeCallPlugin.init(composite_tools=[definition])
    server = plugin.install(echo_server().server)
    async with Client(server) as client:
        await client.call_tool("flow", {})
        await plugin.reload(composite_tools=[{**definition, "name": "other"}])
        names = [tool.name for tool in await client.list_tools()]
        script = "return [!!getTool('flow'), !!getTool('other')];"
        known = await client.call_tool("codecall:execute", {"script": script})
    assert "other" in names
    assert "flow" not in names
    assert (known.structured_content or {})["result"] == [False, True]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_reload_reads_changed_files_and_clients_hear_of_it(tmp_path: Path, mode: Any):
    file = tmp_path / "flow.json"
    file.write_text(json.dumps(flow(step("a"))), encoding="utf-8")
    plugin = CodeCallPlugin.init(composite_tools=[tmp_path])
    server = plugin.install(echo_server().server)
    heard = asyncio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    async with Client(server, mode=mode, message_handler=on_message) as client:
        assert "flow" in [tool.name for tool in await client.list_tools()]

        async def change() -> None:
            await plugin.reload()  # nothing has changed
            file.write_text(json.dumps({**flow(step("a")), "name": "other"}), encoding="utf-8")
            await plugin.reload()

        async with asyncio.timeout(10):
            if mode == "legacy":
                await change()
                await heard.wait()
            else:
                async with listen(client.session, tools_list_changed=True) as events:
                    await change()
                    assert await anext(aiter(events)) == ToolsListChanged()
        assert "other" in [tool.name for tool in await client.list_tools()]


async def test_its_runs_are_in_the_audit_record():
    events: list[AuditEvent] = []
    definition = flow(step("a"), step("b", dependsOn=["a"]))
    async with served(echo_server().server, definition, audit={"sinks": [events.append]}) as client:
        result = await client.call_tool("flow", {})
    assert [event.name.rpartition(".")[2] for event in events] == ["start", "tool_call", "tool_call", "complete"]
    assert {event.run_id for event in events} == {about(result)["runId"]}
    assert events[0].fields["language"] == "workflow"
    assert events[-1].fields["step_states"] == {"a": "completed", "b": "completed"}


async def test_a_failed_run_is_resumed_without_repeating_what_it_did():
    stubs = echo_server()
    stubs.failing = {"backend_scan"}
    definition = flow(step("a"), step("b", "backend_scan", dependsOn=["a"]))
    async with served(stubs.server, definition, resume={"store": MemoryStore()}) as client:
        failed = await client.call_tool("flow", {}, raise_on_error=False)
        stubs.failing.clear()
        resumed = await client.call_tool("flow", {"resumeFrom": about(failed)["runId"]})
        unknown = await client.call_tool("flow", {"resumeFrom": "run_0123456789abcdef"}, raise_on_error=False)
    assert stubs.names() == ["echo", "backend_scan", "backend_scan"]
    assert resumed.structured_content == {"count": 3, "max_severity": "high"}
    assert about(resumed)["resumedFrom"] == about(failed)["runId"]
    assert "resumeFrom: there is no run" in str(unknown.content)


async def test_outputs_together_are_limited():
    stubs = Stubs()
    stubs.add("large", answer={"text": "\U0001f6a2" + "x" * 1_000_000})  # four bytes a character
    definition = flow(*(step(f"s{n}", "large") for n in range(40)))
    async with served(stubs.server, definition, vm={"preset": "secure"}) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
    assert about(result)["code"] == "OUTPUT_LIMIT"
    assert "a run may hold" in about(result)["message"]


ASKED = {"rules": [{"tools": ["backend_scan"], "action": "ask"}, {"action": "allow"}]}


@pytest.mark.parametrize(
    "fields",
    [
        {"onError": {"action": "continue"}},
        {"onError": {"action": "retry", "retryDelay": "1ms"}},
        {
            "type": "forEach",
            "collection": "[1, 2]",
            "step": {"tool": "backend_scan"},
            "onError": {"action": "continue"},
        },
    ],
)
async def test_a_call_that_a_person_has_to_allow_ends_the_run_whatever_follows_errors(fields: dict[str, Any]):
    stubs = echo_server()
    asking = {"id": "ask", **({} if "step" in fields else {"tool": "backend_scan"}), **fields}
    definition = flow(asking, step("after", dependsOn=["ask"]), failureMode="continue")
    async with served(stubs.server, definition, approvals=ASKED) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
    assert about(result)["code"] == "APPROVAL_REQUIRED"
    assert stubs.calls == []


@pytest.mark.parametrize("answer", [True, False])
async def test_limits_of_time_stand_still_while_a_person_thinks(answer: bool):
    stubs, thought = echo_server(), asyncio.Event()

    async def person(_request: Any) -> Decision:
        asyncio.get_running_loop().call_later(0.5, thought.set)
        await thought.wait()
        return Decision("allow" if answer else "deny")

    definition = flow(step("a", "backend_scan", timeout="100ms"), timeout="200ms")
    async with served(stubs.server, definition, approvals={**ASKED, "approver": person}) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
    assert about(result).get("code") == (None if answer else "APPROVAL_DENIED")


async def test_calls_keep_to_rate_limits():
    stubs = echo_server()
    RateLimitPlugin.init(rules=[{"tool": "echo", "rate": "2/hour"}]).install(stubs.server)
    definition = flow(step("a"), step("b", dependsOn=["a"]), step("c", dependsOn=["b"]))
    async with served(stubs.server, definition) as client:
        result = await client.call_tool("flow", {}, raise_on_error=False)
    assert (about(result)["code"], about(result)["step"]) == ("RATE_LIMIT", "c")
    assert len(stubs.calls) == 2


async def test_clients_hear_of_its_progress():
    server: FastMCP[Any] = FastMCP("slow")
    heard = asyncio.Event()

    @server.tool
    async def wait() -> str:
        await heard.wait()
        return "done"

    said: list[str | None] = []

    async def on_progress(_done: float, _total: float | None, message: str | None) -> None:
        said.append(message)
        heard.set()

    async with served(server, flow(step("a", "wait")), progress={"heartbeat_s": 0.05}) as client, asyncio.timeout(20):
        assert (await client.call_tool("flow", {}, progress_handler=on_progress)).data == "done"
    assert any("wait" in (message or "") for message in said)


async def test_a_provider_without_code_mode():
    stubs = echo_server()
    stubs.server.add_provider(CompositeTools(flow(step("a", arguments={"n": 1}))))
    async with Client(stubs.server) as client:
        assert [tool.name for tool in await client.list_tools()].count("flow") == 1
        result = await client.call_tool("flow", {})
    assert result.structured_content == {"n": 1}


async def test_a_client_that_cancels_ends_the_calls():
    server: FastMCP[Any] = FastMCP("cancelled")
    started, cancelled = asyncio.Event(), asyncio.Event()

    @server.tool
    async def endless(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with served(server, flow(step("a", "endless"))) as client:
        call = asyncio.create_task(client.call_tool("flow", {}))
        await started.wait()
        call.cancel()
        await asyncio.wait({call})
        await asyncio.wait_for(cancelled.wait(), 30)


def rows_server(output: dict[str, Any] | None) -> FastMCP[Any]:
    """A server with a workflow that gives so many rows."""
    mcp = FastMCP[Any]("shop")

    @mcp.tool
    def rows(n: int) -> list[str]:
        return ["row"] * n

    definition: dict[str, Any] = {
        "name": "all",
        "description": "All rows",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "steps": [{"id": "a", "tool": "rows", "arguments": {"n": "{{.params.n}}"}}],
    }
    definition |= {"output": output} if output is not None else {}
    return CodeCallPlugin.init(composite_tools=[definition]).install(mcp)


async def test_what_is_too_large_for_an_answer_to_a_client_is_kept_but_goes_into_scripts() -> None:
    async with Client(rows_server(None)) as client:
        small = await client.call_tool("all", {"n": 20_000})
        assert small.structured_content == {"result": ["row"] * 20_000}
        large = await client.call_tool("all", {"n": 250_000})
        assert large.structured_content is not None
        handle = large.structured_content["largeResult"]["handle"]
        script = f"return [(await getResult('{handle}')).length, (await callTool('all', {{ n: 250_000 }})).length]"
        answer = await client.call_tool("codecall:execute", {"script": script})
        assert answer.structured_content is not None
        assert answer.structured_content["result"] == [250_000, 250_000]


async def test_where_a_workflow_says_what_its_answer_looks_like_too_large_a_one_is_an_error() -> None:
    text = {"type": "string", "description": "All rows", "value": "{{.steps.a.output}}"}
    async with Client(rows_server({"properties": {f"copy{number}": text for number in range(14)}})) as client:
        small = await client.call_tool("all", {"n": 2})
        assert small.structured_content == {f"copy{number}": "map[result:[row row]]" for number in range(14)}
        large = await client.call_tool("all", {"n": 20_000}, raise_on_error=False)
        assert "OUTPUT_LIMIT" in str(large.content)
        assert "codecall:invoke" in str(large.content)
        script = "return (await callTool('all', { n: 20_000 })).copy13.length"
        answer = await client.call_tool("codecall:execute", {"script": script})
        assert answer.structured_content is not None
        assert answer.structured_content["result"] > 80_000


@pytest.mark.parametrize("way", ["direct", "script", "invoke"])
async def test_a_failure_says_what_had_been_done(way: str) -> None:
    server = FastMCP[Any]("office")

    @server.tool
    def send(to: str) -> str:
        """Send a letter."""
        if to == "eve":
            raise ToolError("there is no eve")
        return to

    each = {
        "id": "each",
        "type": "forEach",
        "collection": '["ann", "ben", "eve", "kim"]',
        "maxParallel": 1,
        "step": {"tool": "send", "arguments": {"to": "{{.forEach.item}}"}},
        "dependsOn": ["first"],
    }
    definition = flow(step("first", "send", arguments={"to": "ann"}), each)
    async with served(server, definition) as client:
        if way == "script":
            answer = await client.call_tool("codecall:execute", {"script": "return await flow({})"})
        elif way == "invoke":
            answer = await client.call_tool("codecall:invoke", {"tool": "flow", "input": {}}, raise_on_error=False)
        else:
            answer = await client.call_tool("flow", {}, raise_on_error=False)
    body = answer.structured_content or {}
    if way == "direct":
        assert body["steps"] == {"first": "completed", "each": "failed"}
        assert body["iterations"] == {"each": {"count": 4, "completed": 2, "failed": 1}}
        return
    assert body["error"]["hint"].startswith("A call that this tool makes failed: ")
    effects = "Steps of it that had completed are not undone: first, 2 of 4 iterations of each."
    assert effects in body["error"]["hint"]
