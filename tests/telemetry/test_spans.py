"""Spans: what is below what, what they say of how a script ended, and what they never say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import fastmcp
import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.telemetry import suppress_fastmcp_telemetry
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider, StatusCode

from codecall import RateLimitPlugin
from codecall.telemetry import semconv as names
from tests.telemetry.listening import Listener, execute, is_below, scope, serve, told


def double(x: int) -> int:
    """Twice that much."""
    return 2 * x


def fail(x: int) -> int:
    """Does not work."""
    raise ToolError(f"no {x}")


async def test_a_starlark_script_has_the_name_of_its_tool(listener: Listener) -> None:
    async with Client(serve(double, fail, starlark=True)) as client:
        for script in ("return double(x=4)", "return call_tool('fail', x=1)"):
            await client.call_tool("execute_tool_script", {"script": script}, raise_on_error=False)
        await execute(client, "return double(x=4)", language="starlark")
    first, second = [span for span in listener.spans() if span.name == "codecall.execute_tool_script"]
    assert (told(first)[names.STATUS], told(first)[names.CALLS]) == ("ok", 1)
    assert (told(second)[names.STATUS], told(second)[names.ERROR]) == ("tool_error", "TOOL_EXECUTION_ERROR")
    assert told(listener.span("codecall.execute"))[names.STATUS] == "ok"


async def test_a_composite_tool_and_its_steps(listener: Listener) -> None:
    steps = [{"id": "a", "tool": "double", "arguments": {"x": 4}}, {"id": "b", "tool": "fail", "arguments": {"x": 1}}]
    flow = {"name": "flow", "description": "Two steps", "steps": steps}
    async with Client(serve(double, fail, composite_tools=[flow])) as client:
        await client.call_tool("flow", {}, raise_on_error=False)
    run = listener.span("codecall.composite")
    assert (told(run)[names.STATUS], told(run)[names.ERROR]) == ("tool_error", "TOOL_EXECUTION_ERROR")
    assert told(run)[names.CALLS] == 2
    calls = [span for span in listener.spans() if names.CALL_NUMBER in told(span)]
    assert len(calls) == 2
    assert all(is_below(span, run) for span in calls)


async def test_a_script_and_its_calls(listener: Listener) -> None:
    parts = FastMCP[Any]("parts")
    parts.tool(double)
    server = serve(fail)
    server.mount(parts, namespace="parts")
    async with Client(server) as client:
        await execute(client, "return await callTool('parts_double', {x: 4})", context={"a": 1})
    run = listener.span("codecall.execute")
    assert {name: value for name, value in told(run).items() if not name.endswith((".id", ".duration"))} == {
        names.STATUS: "ok",
        names.PRESET: "secure",
        names.DRY_RUN: False,
        names.SCRIPT_SIZE: 45,
        names.STEPS: 0,
        names.CALLS: 1,
        names.ANSWER_SIZE: told(run)[names.ANSWER_SIZE],
    }
    assert str(told(run)[names.RUN_ID]).startswith("run_")
    assert 0 < float(told(run)[names.SCRIPT_DURATION]) < 3.5
    assert run.status.status_code is StatusCode.UNSET
    parent = next(span for span in listener.all_spans() if run.parent and span.context.span_id == run.parent.span_id)
    assert (scope(parent), parent.name) == ("fastmcp", "tools/call codecall:execute")

    queue, validate, ran, call = [span for span in listener.spans() if is_below(span, run)]
    assert [span.name for span in (queue, validate, ran, call)] == [
        "codecall.queue",
        "codecall.validate",
        "codecall.run",
        "execute_tool parts_double",
    ]
    times = [queue.start_time, queue.end_time, validate.end_time, call.start_time, call.end_time, ran.end_time]
    assert times == sorted(times, key=lambda time: time or 0)
    assert (queue.end_time, validate.end_time) == (validate.start_time, ran.start_time)
    assert told(call) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "parts_double",
        "codecall.call.number": 1,
        "codecall.call.kind": "tool",
        "codecall.call.outcome": "ok",
        "codecall.call.input.size": 7,
        "codecall.call.output.size": 1,
    }
    # FastMCP's own spans of the call, down to the mounted server, in one line below ours.
    below = call
    for name in ("tools/call parts_double", "delegate double", "tools/call double"):
        (below,) = [span for span in listener.all_spans() if span.name == name and is_below(span, below)]


async def test_calls_side_by_side_are_spans_side_by_side(listener: Listener) -> None:
    both = asyncio.Barrier(3)

    async def meet(x: int) -> int:
        current = trace.get_current_span()
        seen[x] = current.get_span_context().span_id
        async with both:
            return x

    seen: dict[int, int] = {}
    async with Client(serve(meet)) as client:
        script = "return await Promise.all([1, 2, 3].map(x => callTool('meet', {x})))"
        assert (await execute(client, script))["result"] == [1, 2, 3]
    run = listener.span("codecall.execute")
    calls = [span for span in listener.spans() if span.name == "execute_tool meet"]
    assert all(is_below(call, run) for call in calls)
    assert max(call.start_time or 0 for call in calls) < min(call.end_time or 0 for call in calls)
    inner = {span.context.span_id: span for span in listener.all_spans() if span.name == "tools/call meet"}
    # What a tool sees is the span of its own call, which is below ours of the same call.
    assert [is_below(inner[seen[x]], call) for x, call in zip((1, 2, 3), calls, strict=True)] == [True] * 3


ENDS = {
    "syntax": ("return (", "syntax_error", "SYNTAX_ERROR", ["queue", "validate"]),
    "refused": ("eval('1')", "illegal_access", "VALIDATION_ERROR", ["queue", "validate"]),
    "thrown": ("throw new Error('x')", "runtime_error", "EXECUTION_ERROR", ["queue", "validate", "run"]),
    "limit": ("for (let i = 0; i < 1e6; i++);", "runtime_error", "ITERATION_LIMIT", ["queue", "validate", "run"]),
    "slow": (
        "let s = ''; for (const a of Array(4000)) for (const b of Array(4000)) s = [a, b].join()",
        "timeout",
        "TIMEOUT",
        ["queue", "validate", "run"],
    ),
    "itself": (
        "return await callTool(['codecall', 'execute'].join(':'), {})",
        "illegal_access",
        "SELF_REFERENCE_BLOCKED",
        ["queue", "validate", "run"],
    ),
    "tool": (
        "const x = [1][0]; return await callTool('fail', {x})",
        "tool_error",
        "TOOL_EXECUTION_ERROR",
        ["queue", "validate", "run", "execute_tool fail"],
    ),
    "absent": (
        "const n = ['f'].join(); return await callTool(n + '2', {})",
        "tool_error",
        "TOOL_NOT_FOUND",
        ["queue", "validate", "run", "execute_tool"],
    ),
}


async def test_how_a_script_ended(listener: Listener) -> None:
    ran = 0
    # One server for all, since starting its workers takes longer than the rest.
    async with Client(serve(double, fail, vm={"preset": "secure", "timeout_ms": 100})) as client:
        for how, (script, status, code, stages) in ENDS.items():
            listener.clear()
            body = await execute(client, script)
            assert (body["status"], body["error"]["code"]) == (status, code), how
            run = listener.span("codecall.execute")
            assert (told(run)[names.STATUS], told(run)[names.ERROR]) == (status, code)
            assert run.status.status_code is StatusCode.ERROR
            assert run.status.description is None
            below = [span for span in listener.spans() if is_below(span, run)]
            assert [span.name.removeprefix("codecall.") for span in below] == stages, how
            assert told(below[-1])[names.ERROR] == code
            assert below[-1].status.status_code is StatusCode.ERROR
            assert listener.value("codecall.executions", codecall__status=status, error__type=code) == 1
            ran += "run" in stages
            assert listener.value("codecall.script.duration") == ran


async def test_a_script_that_is_only_looked_at(listener: Listener) -> None:
    async with Client(serve(double)) as client:
        await execute(client, "return await callTool('double', {x: 1})", dryRun=True)
    assert [span.name for span in listener.spans()] == ["codecall.execute", "codecall.queue", "codecall.validate"]
    assert listener.value("codecall.executions", codecall__dry_run=True) == 1


async def test_no_worker_is_free(listener: Listener) -> None:
    held = anyio.Event()
    began = anyio.Event()

    async def hold() -> None:
        began.set()
        await held.wait()

    server = serve(hold, pool={"min_workers": 0, "max_workers": 1, "max_queue": 0})
    async with Client(server) as client, anyio.create_task_group() as group:
        group.start_soon(execute, client, "return await callTool('hold', {})")
        await began.wait()
        assert listener.value("codecall.worker.count", codecall__worker__state="busy") == 1
        body = await execute(client, "return 1")
        assert body["error"]["code"] == "QUEUE_FULL"
        held.set()
    refused = next(span for span in listener.spans() if told(span).get(names.ERROR) == "QUEUE_FULL")
    assert told(refused)[names.STATUS] == "runtime_error"
    (queue,) = [span for span in listener.spans() if is_below(span, refused)]
    assert (queue.name, told(queue)) == ("codecall.queue", {names.ERROR: "QUEUE_FULL"})
    assert listener.value("codecall.queue.duration", error__type="QUEUE_FULL") == 1


async def test_a_script_waits_for_a_worker(listener: Listener) -> None:
    held, began = anyio.Event(), anyio.Event()

    async def hold() -> None:
        began.set()
        await held.wait()

    server = serve(hold, pool={"min_workers": 0, "max_workers": 1})
    async with Client(server) as client, anyio.create_task_group() as group:
        group.start_soon(execute, client, "return await callTool('hold', {})")
        await began.wait()
        group.start_soon(execute, client, "return 1")
        with anyio.fail_after(10):
            while not listener.value("codecall.queue.depth"):
                await anyio.lowlevel.checkpoint()
        held.set()
    assert listener.value("codecall.queue.depth") == 0
    waits = sorted(
        (span.end_time or 0) - (span.start_time or 0) for span in listener.spans() if span.name == names.QUEUE
    )
    assert len(waits) == 2
    assert listener.value("codecall.queue.duration") == 2


async def test_rate_limits(listener: Listener) -> None:
    server = serve(double)
    RateLimitPlugin.init(
        rules=[
            {"tool": "double", "rate": "1/hour", "name": "doubling"},
            {"tool": "codecall:search", "rate": "1/hour"},
        ]
    ).install(server)
    async with Client(server) as client:
        script = "await callTool('double', {x: 1}); return await callTool('double', {x: 2})"
        assert (await execute(client, script))["error"]["code"] == "RATE_LIMIT"
        for _ in range(2):
            await client.call_tool_mcp("codecall:search", {"query": "double"})
    first, second = [span for span in listener.spans() if span.name == "execute_tool double"]
    assert (told(first).get(names.ERROR), told(second).get(names.ERROR)) == (None, "RATE_LIMIT")
    assert listener.metrics()["codecall.rate.refusals"] == [
        ({"codecall.call.kind": "tool", "codecall.rate.rule": "doubling", "codecall.rate.reason": "limit"}, 1),
        ({"codecall.call.kind": "tool", "codecall.rate.rule": "codecall:search", "codecall.rate.reason": "limit"}, 1),
    ]


async def test_the_other_meta_tools(listener: Listener) -> None:
    async with Client(serve(double, fail)) as client:
        await client.call_tool("codecall:search", {"query": "twice that much"})
        await client.call_tool("codecall:describe", {"toolNames": ["double", "none"]})
        await client.call_tool("codecall:invoke", {"tool": "double", "input": {"x": 1}})
        await client.call_tool("codecall:invoke", {"tool": "fail", "input": {"x": 1}})
        await client.call_tool_mcp("codecall:describe", {"toolNames": []})
    search, describe, worked, inside, failed, failing, wrong = listener.spans()
    assert (search.name, told(search)[names.FOUND]) == ("codecall.search", 1)
    assert (describe.name, told(describe)[names.FOUND]) == ("codecall.describe", 1)
    assert (worked.name, told(worked)[names.STATUS]) == ("codecall.invoke", "ok")
    assert inside.name == "execute_tool double"
    assert is_below(inside, worked)
    assert told(inside)[names.OUTPUT_SIZE] == 1
    assert (told(failed)[names.STATUS], told(failed)[names.ERROR]) == ("error", "TOOL_EXECUTION_ERROR")
    assert (failing.name, told(failing)[names.CALL_OUTCOME]) == ("execute_tool fail", "error")
    assert (told(wrong)[names.STATUS], told(wrong)[names.ERROR]) == ("error", "ValidationError")
    assert [
        listener.value("codecall.request.duration", codecall__operation=what) for what in ("search", "describe")
    ] == [1, 2]
    assert listener.value("codecall.tool.calls", codecall__operation="invoke", gen_ai__tool__name="double") == 1


async def test_a_client_that_gives_up(listener: Listener) -> None:
    began, ended = anyio.Event(), anyio.Event()

    async def hold() -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    server = serve(hold)
    async with Client(server) as client:
        with anyio.move_on_after(20) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(execute, client, "return await callTool('hold', {})")
                await began.wait()
                scope.cancel()
        with anyio.fail_after(10):
            await ended.wait()
            while not [span for span in listener.spans() if span.name == names.EXECUTE]:
                await anyio.lowlevel.checkpoint()
    assert told(listener.span("codecall.execute"))[names.STATUS] == "cancelled"
    assert told(listener.span("execute_tool hold"))[names.CALL_OUTCOME] == "unfinished"
    assert listener.value("codecall.executions", codecall__status="cancelled") == 1
    assert listener.value("codecall.tool.calls", codecall__call__outcome="unfinished") == 1


SECRET = "hunter2"


async def test_nothing_of_scripts_arguments_results_and_messages_is_told(listener: Listener) -> None:
    server = serve(double)

    @server.tool
    def secret(key: str) -> dict[str, str]:
        """Gives what it is given."""
        if key.endswith("!"):
            raise ToolError(key)
        return {key: key}

    @server.resource("vault://{key}")
    def vault(key: str) -> str:
        """One thing."""
        return key

    @server.prompt
    def ask(key: str) -> str:
        """Asks."""
        return key

    scripts = [
        f"const k = '{SECRET}'; console.log(k); return await callTool('secret', {{key: k}})",
        f"const k = '{SECRET}'; return await callTool('secret', {{key: k + '!'}})",
        f"const k = '{SECRET}'; return await callTool(k, {{}})",
        f"const k = '{SECRET}'; return await readResource('vault://' + k)",
        f"const k = '{SECRET}'; return await readResource('no-vault://' + k)",
        f"const k = '{SECRET}'; return await getPrompt('ask', {{key: k}})",
        f"const k = '{SECRET}'; return await getPrompt(k, {{}})",
        f"const k = '{SECRET}'; return await callTool('double', {{x: k}})",
        f"throw new Error('{SECRET}')",
        f"{SECRET} {SECRET}",
        f"eval('{SECRET}')",
        f"return (await callTool('secret', JSON.parse('{{\"key\": 1, \"{SECRET}\": 2}}')))",
    ]
    async with Client(server) as client:
        for script in scripts:
            await execute(client, script, context={SECRET: SECRET})
        await client.call_tool_mcp("codecall:search", {"query": SECRET})
        await client.call_tool_mcp("codecall:search", {"query": "x", SECRET: SECRET})
        await client.call_tool_mcp("codecall:describe", {"toolNames": [SECRET]})
        await client.call_tool_mcp("codecall:invoke", {"tool": SECRET, "input": {SECRET: SECRET}})
        await client.call_tool_mcp("codecall:invoke", {"tool": "secret", "input": {"key": f"{SECRET}!"}})
    assert len(listener.spans()) > 50
    for span in listener.spans():
        assert SECRET not in span.to_json()
        assert not span.events
    assert SECRET not in str(listener.metrics())
    known = {kind.name for kind in names.SPANS}
    assert {span.name.split(" ")[0] for span in listener.spans()} <= known
    assert {span.name for span in listener.spans() if " " in span.name} == {
        "execute_tool secret",
        "execute_tool double",
        "get_prompt ask",
    }


async def test_codes_that_tools_make_up_are_not_told(listener: Listener) -> None:
    server = serve()

    @server.tool
    def strange(x: int) -> int:
        """Fails in a new way each time."""
        raise ToolError(f'{{"code": "{SECRET}{x}", "message": "no"}}')

    async with Client(server) as client:
        body = await execute(client, "const x = [7][0]; return await callTool('strange', {x})")
    assert body["error"]["code"] == f"{SECRET}7"
    assert told(listener.span("codecall.execute"))[names.ERROR] == "_OTHER"
    assert told(listener.span("execute_tool strange"))[names.ERROR] == "_OTHER"
    assert SECRET not in str(listener.metrics())


async def test_the_option_switches_it_off(listener: Listener) -> None:
    async with Client(serve(double, telemetry=False)) as client:
        await client.list_tools()
        await execute(client, "return await callTool('double', {x: 1})")
    assert listener.spans() == []
    assert listener.metrics() == {}
    assert [span.name for span in listener.all_spans()].count("tools/call double") == 1


@pytest.mark.parametrize("mode", ["propagation_only", "off"])
async def test_fastmcps_switch_holds_too(listener: Listener, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastmcp.settings, "telemetry_mode", mode)
    async with Client(serve(double)) as client:
        await execute(client, "return await callTool('double', {x: 1})")
    assert {scope(span) for span in listener.all_spans()} == {"mcp-python-sdk"}
    assert listener.value("codecall.executions") == (mode == "propagation_only")


async def test_spans_may_be_suppressed_for_a_while(listener: Listener) -> None:
    server = serve(double)
    with suppress_fastmcp_telemetry():
        await server.call_tool("codecall:execute", {"script": "return await callTool('double', {x: 1})"})
    assert listener.all_spans() == ()
    await server.call_tool("codecall:execute", {"script": "return 1"})
    assert listener.span("codecall.execute")
    assert listener.value("codecall.executions") == 2


async def test_a_trace_that_is_not_sampled(make_listener: Callable[..., Listener]) -> None:
    listener = make_listener(sampler=ALWAYS_OFF)
    listener.listen()
    async with Client(serve(double)) as client:
        assert (await execute(client, "return await callTool('double', {x: 1})"))["result"] == 2
    assert listener.all_spans() == ()
    assert listener.value("codecall.executions") == 1


async def test_providers_may_come_late(make_listener: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch) -> None:
    listener = make_listener()
    async with Client(serve(double)) as client:
        await execute(client, "return 1")
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", NoOpTracerProvider())
        await execute(client, "return 1")
        listener.listen()
        await execute(client, "return 1")
        assert len([span for span in listener.spans() if span.name == names.EXECUTE]) == 1
        assert listener.value("codecall.executions") == 1
        assert listener.value("codecall.worker.count") == 1


async def test_a_result_of_an_earlier_script(listener: Listener) -> None:
    async with Client(serve()) as client:
        body = await execute(client, "return Array(40).fill('x'.repeat(50_000))")
        handle = body["largeResult"]["handle"]
        script = f"return (await getResult('{handle}', {{from: 0, count: 3}})).length"
        body = await execute(client, script)
    assert body["result"] == 3
    read = listener.span("get_result")
    assert told(read)[names.CALL_KIND] == "result"
    assert int(told(read)[names.OUTPUT_SIZE]) > 100_000
    assert handle not in str([span.to_json() for span in listener.spans()])
    assert listener.value("codecall.tool.calls", codecall__call__kind="result") == 1
