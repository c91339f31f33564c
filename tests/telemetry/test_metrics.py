"""Metrics: what is counted, of which pools the gauges tell, and that nothing of them stays behind."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from opentelemetry.metrics import CallbackOptions

from codecall import CodeCallPlugin
from codecall.envelopes import CallRecord
from codecall.telemetry import metrics as meters
from codecall.telemetry import semconv as names
from codecall.telemetry.spans import RequestSpan, Telemetry
from codecall.telemetry.tokens import MAX_NODES, MAX_READ, estimate_characters, estimate_tokens, utf8_size
from tests.telemetry.listening import Listener, execute, serve, told


def repeat(text: str, times: int) -> str:
    """That text so many times."""
    return text * times


async def test_bytes_in_and_out(listener: Listener) -> None:
    script = "const long = await callTool('repeat', {text: 'ä', times: 1000}); return long.length"
    async with Client(serve(repeat)) as client:
        result = await client.call_tool("codecall:execute", {"script": script, "context": {"key": "ä"}})
        answered = len(result.content[0].text.encode())  # type: ignore[union-attr]
    assert listener.metrics()["codecall.io"] == [
        ({"codecall.io.direction": "scripts"}, len(script.encode()) + len('{"key":"ä"}'.encode())),
        ({"codecall.io.direction": "to_tools"}, len('{"text":"ä","times":1000}'.encode())),
        ({"codecall.io.direction": "from_tools"}, 2002),
        ({"codecall.io.direction": "answers"}, answered),
    ]
    saved = listener.value("codecall.tokens.saved", codecall__tokens__kind="results")
    assert saved == (1002 - answered) // 4


async def test_tokens_of_definitions(listener: Listener) -> None:
    server = serve()
    for number in range(200):
        server.tool(repeat, name=f"repeat{number}", description="Repeats. " * 50)
    async with Client(server) as client:
        await client.list_tools()
        await client.call_tool("codecall:describe", {"toolNames": ["repeat7"], "format": "typescript"})
    saved = listener.value("codecall.tokens.saved", codecall__tokens__kind="definitions")
    # 450 characters of description and 100 to 200 of schema for each, less CodeCall's own.
    assert 200 * 550 / 4 - 5_000 < saved < 200 * 650 / 4
    assert 0 < listener.value("codecall.tokens.spent") < 2_000


@pytest.mark.parametrize(
    ("preset", "script", "endings"),
    [
        ("locked_down", "return 1", ["recycled"]),
        # Such a worker ends by itself, too: which comes first is a matter of time.
        (
            "secure",
            "const a = []; for (let i = 0; i < 5000; i++) a.push('x'.repeat(100000) + i)",
            ["killed", "died"],
        ),
    ],
)
async def test_how_workers_end(listener: Listener, preset: str, script: str, endings: list[str]) -> None:
    async with Client(serve(vm={"preset": preset})) as client:
        await execute(client, script)
        ended = [listener.value("codecall.worker.ended", codecall__worker__ending=ending) for ending in endings]
        assert sum(ended) == 1
        assert listener.value("codecall.worker.ended") == 1
        left = listener.value("codecall.worker.count")
    assert listener.value("codecall.worker.ended", codecall__worker__ending="closed") == left
    assert listener.value("codecall.worker.count") == 0


async def test_a_worker_that_dies(listener: Listener) -> None:
    plugin = CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": 0})
    server = FastMCP[Any]("crm", transforms=[plugin])

    @server.tool
    def slay() -> None:
        """Ends the worker."""
        for pid in plugin.worker_pids:
            os.kill(pid, signal.SIGKILL)

    async with Client(server) as client:
        body = await execute(client, "return await callTool('slay', {})")
    assert body["error"]["code"] == "WORKER_CRASHED"
    assert listener.value("codecall.worker.ended", codecall__worker__ending="died") == 1


async def test_several_plugins_and_what_is_left_of_them(listener: Listener) -> None:
    first, second = serve(repeat, pool={"max_workers": 3}), serve(repeat, pool={"max_workers": 4})
    async with Client(first) as one:
        async with Client(second) as two:
            for client in (one, two, two):
                await execute(client, "return 1")
            assert listener.value("codecall.executions") == 3
            assert listener.value("codecall.worker.count", codecall__worker__state="idle") >= 2
            assert listener.value("codecall.worker.limit") == 7
            pools = [weakref.ref(pool) for pool in meters._pools()]
        assert listener.value("codecall.worker.limit") == 3
    assert listener.value("codecall.worker.limit") == 0
    assert listener.value("codecall.executions") == 3
    gc.collect()
    assert [pool() for pool in pools] == [None, None]


async def test_other_options_while_the_server_runs(listener: Listener) -> None:
    plugin = CodeCallPlugin.init(vm={"preset": "secure"}, pool={"max_workers": 3})
    async with Client(FastMCP[Any]("crm", transforms=[plugin])) as client:
        await execute(client, "return 1")
        await plugin.reload(pool={"max_workers": 5})
        assert listener.value("codecall.worker.limit") == 5
        assert listener.value("codecall.worker.ended", codecall__worker__ending="closed") == 1
        await execute(client, "return 1")
    assert listener.value("codecall.executions") == 2
    assert listener.value("codecall.worker.ended", codecall__worker__ending="closed") == 2


def test_a_call_that_an_earlier_run_answers(listener: Listener) -> None:
    request = Telemetry(enabled=True).request("execute")
    assert request is not None
    with request:
        made = CallRecord(1, "tool", "double", reused=True)
        ended = request.start_call(made, ())
        made.start()
        made.end()
        ended(3)
    assert listener.value("codecall.tool.calls", codecall__call__outcome="reused") == 1
    assert told(listener.span("execute_tool"))[names.CALL_OUTCOME] == "reused"


def test_a_plugin_that_is_gone_is_not_asked() -> None:
    gc.collect()
    before = len(meters._SOURCES)
    plugin = CodeCallPlugin.init(vm={"preset": "secure"})
    assert len(meters._SOURCES) == before + 1
    del plugin
    gc.collect()
    assert len(meters._SOURCES) == before


async def test_names_that_scripts_make_up_are_no_series(listener: Listener) -> None:
    async with Client(serve(repeat)) as client:
        script = """
        const name = ['n'].join();
        for (let i = 0; i < 50; i++) await callTool(name + i, {}, {throwOnError: false});
        await callTool('repeat', {text: 'x', times: 2})
        """
        await execute(client, script)
    assert listener.metrics()["codecall.tool.calls"] == [
        (
            {
                names.OPERATION: "execute",
                names.CALL_KIND: "tool",
                names.CALL_OUTCOME: "error",
                names.ERROR: "TOOL_NOT_FOUND",
            },
            50,
        ),
        (
            {names.OPERATION: "execute", names.CALL_KIND: "tool", names.CALL_OUTCOME: "ok", names.TOOL: "repeat"},
            1,
        ),
    ]


async def test_a_tool_that_asks_another_server(listener: Listener) -> None:
    """A request inside of a request: each has its own."""
    inner = serve(repeat, name="inner", telemetry=False)

    async def ask() -> Any:
        """Runs a script elsewhere."""
        async with Client(inner) as client:
            return await execute(client, "return (await callTool('repeat', {text: 'x', times: 2})).length")

    async with Client(serve(ask, name="outer")) as client:
        body = await execute(client, "return (await callTool('ask', {})).result")
    assert body["result"] == 2
    assert listener.value("codecall.executions") == 1
    assert [told["gen_ai.tool.name"] for told, _ in listener.metrics()["codecall.tool.calls"]] == ["ask"]


def test_every_metric_of_the_table_is_made(listener: Listener) -> None:
    made: dict[str, Any] = {}

    class Recorder:
        """A meter that notes what is made."""

        def make(self, name: str, *arguments: Any, **_: Any) -> None:
            made[name] = arguments

        create_counter = create_histogram = create_observable_up_down_counter = make

    meters.Instruments(Recorder())  # type: ignore[arg-type]
    assert set(made) == {metric.name for metric in names.METRICS}
    for metric in names.METRICS:
        assert metric.unit in made[metric.name]
        assert set(metric.attributes) <= set(names.ATTRIBUTES)
        if metric.kind == "gauge":
            ((observed,),) = [item for item in made[metric.name] if isinstance(item, list)]
            assert {key for item in observed(CallbackOptions()) for key in item.attributes or {}} == set(
                metric.attributes
            )
    assert {name for span in names.SPANS for name in span.attributes} <= set(names.ATTRIBUTES)


def test_where_nobody_listens_nothing_is_made() -> None:
    assert Telemetry(enabled=True).request("execute") is None
    with RequestSpan("execute", None, None):
        # Of another plugin, whose tool this plugin's server runs: it must not count what happens here.
        assert Telemetry(enabled=False).request("execute") is not None


@pytest.mark.parametrize("text", ["", "abc", "ä€😀", "\ud800", "ä" * MAX_READ])
def test_the_size_of_short_texts_is_exact(text: str) -> None:
    assert utf8_size(text) == len(text.encode("utf-8", "surrogatepass"))


def test_the_size_of_long_texts_is_an_estimate() -> None:
    text = "aä€" * 1_000_000
    assert utf8_size(text) == pytest.approx(len(text.encode()), rel=0.001)


class Definition:
    """What a model is shown of a tool."""

    def __init__(self, parameters: Any) -> None:
        self.name = "name"
        self.description = None
        self.parameters = parameters


def test_definitions_of_any_size_are_measured_in_no_time() -> None:
    wide = {"properties": {f"p{number}": {"type": "string"} for number in range(10 * MAX_NODES)}}
    itself: dict[str, Any] = {}
    itself["again"] = itself
    assert estimate_characters([Definition(wide), Definition(itself)]) < 40 * MAX_NODES
    assert estimate_characters([]) == 0
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    assert estimate_characters([Definition(schema)]) == pytest.approx(30 + 4 + 77, abs=15)
    assert estimate_characters([Definition(schema)] * 1_000) == 1_000 * estimate_characters([Definition(schema)])
    assert estimate_tokens(4_000) == 1_000
