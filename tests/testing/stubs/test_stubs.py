"""`tool_stub` in this very session: what stubs answer, which of them, and what is refused when they are declared."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import ANY, AsyncMock

import anyio
import pytest
from fastmcp import FastMCP
from pydantic import BaseModel

from codecall import CodeCallPlugin, ToolCallError
from codecall.sandbox.languages import Language
from codecall.testing import Script, ScriptEnclave, Stub, Stubs
from codecall.testing.stubs.answers import CODES

CALL = "return await callTool('t', codecallContext.input ?? {})"
CODE = "try { await callTool('t', {}) } catch (error) { return [error.code, error.message] }"


class Person(BaseModel):
    name: str
    born: datetime.date


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("returns", "value"),
    [
        (None, None),
        ([1, "a"], [1, "a"]),
        (Person(name="Ann", born=datetime.date(2000, 1, 2)), {"name": "Ann", "born": "2000-01-02"}),
        ({"points": (Point(1), {2})}, {"points": [{"x": 1}, [2]]}),
        (float("nan"), None),
    ],
)
def test_values_become_json(codecall_enclave: ScriptEnclave, tool_stub: Stubs, returns: object, value: object):
    tool_stub("t", returns=returns)
    assert codecall_enclave.run(CALL).value == value


def test_a_stub_without_an_answer_gives_null(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("t")
    assert codecall_enclave.run(CALL).value is None


@pytest.mark.parametrize("code", CODES)
def test_failures_by_code(codecall_enclave: ScriptEnclave, tool_stub: Stubs, code: str):
    tool_stub("t", raises=code)
    value = codecall_enclave.run(CODE).value
    assert isinstance(value, list)
    assert value[0] == code
    assert "Tool 't'" in value[1]


@pytest.mark.parametrize(
    ("raises", "text"),
    [
        ("it broke", ["TOOL_EXECUTION_ERROR", "it broke"]),
        (KeyError("id"), ["TOOL_EXECUTION_ERROR", "'id'"]),
        (TimeoutError, ["TOOL_EXECUTION_ERROR", "TimeoutError"]),
        (ToolCallError("own", tool_name="t", code="OWN_CODE"), ["OWN_CODE", "own"]),
        ({"code": "card.declined", "message": "No funds"}, ["card.declined", "No funds"]),
    ],
)
def test_other_failures(codecall_enclave: ScriptEnclave, tool_stub: Stubs, raises: Any, text: list[str]):
    tool_stub("t", raises=raises)
    assert codecall_enclave.run(CODE).value == text


def test_details_reach_the_script(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("t", raises={"code": "RATE_LIMIT", "message": "slow down", "details": {"left": 0}, "retryAfterMs": 5})
    result = codecall_enclave.run(CALL)
    assert isinstance(result.error, ToolCallError)
    assert (result.error.details, result.error.retry_after_ms) == ({"left": 0}, 5)


def test_functions_answer(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    async def double(given: dict[str, int]) -> int:
        await asyncio.sleep(0)
        return given["n"] * 2

    tool_stub("t", side_effect=lambda given: [given.pop("n")])
    tool_stub("u", side_effect=double)
    tool_stub("v", side_effect=lambda given: double({"n": given["n"]}))
    tool_stub("w", side_effect=AsyncMock(return_value=4))
    script = "return Promise.all(['t', 'u', 'v', 'w'].map((name) => callTool(name, { n: 3 })))"
    assert codecall_enclave.run(script).value == [[3], 6, 6, 4]
    assert tool_stub.calls.of("t").inputs == [{"n": 3}], "what a function does to its input is not in the record"


def test_a_sequence_may_be_any_iterable(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("t", side_effect=iter(range(100)))
    assert codecall_enclave.run("return [await callTool('t'), await callTool('t')]").value == [0, 1]


def test_which_stub_answers(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("t", returns="optional", optional=True)
    tool_stub("t", returns="any", times=2)
    tool_stub("t", when=lambda given: given.get("n", 0) > 5, returns="large")
    tool_stub("t", when={"n": 1, "m": ANY}, returns="one")
    tool_stub("t", when={"n": True}, returns="true")
    script = """
        const answers = [];
        for (const input of [{ n: 1, m: [] }, { n: true }, { n: 9 }, { n: 1 }, {}, {}]) {
            answers.push(await callTool('t', input));
        }
        return answers;
    """
    assert codecall_enclave.run(script).value == ["one", "true", "large", "any", "any", "optional"]


def test_a_stub_knows_its_calls(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    one = tool_stub("t", when={"n": 1}, returns=1)
    two = tool_stub("t", when={"n": 2}, raises="TOOL_TIMEOUT")
    result = codecall_enclave.run("await callTool('t', { n: 1 }); await callTool('t', { n: 2 });")
    one.assert_called_once_with(n=1)
    assert two.calls.outcomes == ["TOOL_TIMEOUT"]
    assert result.calls == tool_stub.calls == [("t", {"n": 1}), ("t", {"n": 2})]
    assert tool_stub.calls[0].value == 1
    assert tool_stub.calls[1].error is result.error
    assert repr(one) == 'tool_stub("t", when={"n": 1})'


def test_calls_of_results_are_their_own(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("t")
    first, second = codecall_enclave.run(CALL), codecall_enclave.run(CALL, context={"input": {"n": 1}})
    assert (first.calls.inputs, second.calls.inputs) == ([{}], [{"n": 1}])
    assert [call.number for call in tool_stub.calls] == [1, 2]


@pytest.mark.codecall(tool_call_timeout_ms=20)
def test_a_delay_beyond_the_limit_is_a_timeout(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("t", delay_ms=60_000)
    assert codecall_enclave.run(CODE).value == ["TOOL_TIMEOUT", "Tool 't' did not answer within 20ms"]


@pytest.mark.codecall(max_duration_ms=150)
def test_a_call_that_outlives_its_script_is_cancelled(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("slow", delay_ms=60_000)
    tool_stub("t", returns=1)
    assert codecall_enclave.run("return Promise.all([callTool('slow'), callTool('t')])").code == "TIMEOUT"
    assert tool_stub.calls.outcomes == ["cancelled", "ok"]


def test_resources_and_prompts(
    codecall_enclave: ScriptEnclave,
    resource_stub: Callable[..., Stub],
    prompt_stub: Callable[..., Stub],
    tool_stub: Stubs,
):
    resource_stub("users://*", side_effect=lambda uri: {"uri": uri})
    prompt_stub("greet", when={"name": "Ann"}, returns={"description": "d", "messages": []})
    prompt_stub("greet", returns="Hello")
    script = """
        const prompts = await Promise.all([{ name: 'Ann' }, {}].map((input) => getPrompt('greet', input)));
        return [await readResource('users://1'), ...prompts];
    """
    assert codecall_enclave.run(script).value == [
        {"uri": "users://1"},
        {"description": "d", "messages": []},
        {"description": None, "messages": [{"role": "user", "content": "Hello"}]},
    ]
    assert tool_stub.calls == [("greet", {"name": "Ann"}), ("greet", {}), ("users://1", {})]
    assert [call.kind for call in tool_stub.calls] == ["prompt", "prompt", "resource"]


def test_kept_results(codecall_enclave: ScriptEnclave, result_stub: Callable[..., Stub], tool_stub: Stubs):
    result_stub("res_1", when={"page": 1}, returns="[1,2]")
    result_stub("res_1", returns=[1, 2])
    result_stub("res_2", raises="RESULT_NOT_FOUND")
    script = """
        const parts = [{}, { page: 1 }].map((part) => getResult('res_1', part));
        return [...await Promise.all(parts), (await getResult('res_2', {}, { throwOnError: false })).error.message];
    """
    result = codecall_enclave.run(script, allowed_tools=[])
    assert result.value == [[1, 2], "[1,2]", "Result 'res_2' was not found"]
    assert {call.kind for call in tool_stub.calls} == {"result"}
    # Nothing is kept in a test.
    assert codecall_enclave.run("return 'x'.repeat(5000)", config={"max_result_bytes": 1_000}).code == "OUTPUT_LIMIT"


def test_a_handler_answers_what_has_no_stub(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("t", returns="stub")
    script = "return [await callTool('t'), await callTool('u', { n: 1 })]"
    result = codecall_enclave.run(script, tool_handler=lambda name, given: [name, given])
    assert result.value == ["stub", ["u", {"n": 1}]]
    assert result.calls.names == ["t", "u"]


def test_what_a_script_may_not_call_needs_no_stub(codecall_enclave: ScriptEnclave):
    assert codecall_enclave.run(CALL, allowed_tools=["u", "v:*"]).code == "ACCESS_DENIED"
    assert codecall_enclave.run("await callTool('codecall:' + 'search', {})").code == "SELF_REFERENCE_BLOCKED"


def test_what_is_allowed_gives_the_code_a_server_would(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub.allow_undeclared()
    assert codecall_enclave.run(CALL).code == "TOOL_NOT_FOUND"
    assert codecall_enclave.run("return await readResource('a://b')").code == "RESOURCE_NOT_FOUND"
    assert codecall_enclave.run("return await getPrompt('p', {})").code == "PROMPT_NOT_FOUND"
    assert codecall_enclave.run("return await getResult('res_1')").code == "RESULT_NOT_FOUND"


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"returns": 1, "raises": "x"}, TypeError, "give one of returns, raises and side_effect"),
        ({"returns": object()}, TypeError, "Tool 't': JSON data is needed"),
        (
            {"raises": "NO_SUCH_CODE"},
            ValueError,
            "'NO_SUCH_CODE' is no code of CodeCall's; it has TOOL_EXECUTION_ERROR",
        ),
        ({"raises": {"code": "A"}}, ValueError, "a mapping has `code` and `message`"),
        ({"raises": {"code": "A", "message": "b", "more": 1}}, ValueError, "a mapping has `code` and `message`"),
        ({"raises": 5}, TypeError, "a code, a text, an exception or a mapping is needed, got int"),
        ({"side_effect": "text"}, TypeError, "a callable or a list of answers is needed, got str"),
        ({"side_effect": 5}, TypeError, "a callable or a list of answers is needed, got int"),
        ({"side_effect": []}, ValueError, "the list of answers is empty"),
        ({"times": 0}, ValueError, "times is 1 or more, got 0"),
        ({"when": 5}, TypeError, "when is a dictionary or a callable, got 5"),
        ({"input_schema": {"type": "nonsense"}}, ValueError, "the input schema of 't' is no JSON Schema"),
        ({"output_schema": {"type": "string"}, "returns": 5}, ValueError, "does not fit the output schema"),
    ],
)
def test_what_is_no_stub(tool_stub: Stubs, settings: dict[str, Any], kind: type[Exception], text: str):
    with pytest.raises(kind, match=text):
        tool_stub("t", **settings)
    assert tool_stub.stubs == []


GET_TOOL = "const tool = getTool('t'); return tool && [tool.description, tool.inputSchema, tool.outputSchema]"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def test_get_tool_sees_what_was_declared(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    assert codecall_enclave.run(GET_TOOL).value is None
    tool_stub("t", optional=True)
    assert codecall_enclave.run(GET_TOOL).value == ["", {"type": "object"}, None]
    tool_stub.declare([{"name": "t", "description": "Does it", "inputSchema": SCHEMA}])
    tool_stub("t", output_schema={"type": "null"}, optional=True)
    assert codecall_enclave.run(GET_TOOL).value == ["Does it", SCHEMA, {"type": "null"}]


@pytest.mark.codecall(allow_invalid_input=True)
def test_input_is_checked_with_all_of_its_schema(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("t", input_schema=SCHEMA, optional=True)
    assert codecall_enclave.run(CALL, context={"input": {"n": 1}}).success
    for wrong in ({}, {"n": "1"}, {"n": 1, "m": 2}, {"n": 1.5}):
        result = codecall_enclave.run(CALL, context={"input": wrong})
        assert result.code == "INVALID_INPUT"
        assert "Valid parameters (* = required): n*" in str(result.error)


def test_schemas_with_references(tool_stub: Stubs):
    inner = {"$ref": "#/$defs/name", "$defs": {"name": {"type": "string"}}}
    tool_stub("t", output_schema=inner, returns="a")
    with pytest.raises(
        ValueError, match="does not fit the output schema of the tool: value: 5 is not of type 'string'"
    ):
        tool_stub("t", returns=5)
    with pytest.raises(ValueError, match="refers to what it does not hold"):
        tool_stub("u", output_schema={"$ref": "file:///etc/passwd"}, returns=5)
    tool_stub.allow_unused()


@pytest.mark.parametrize(
    "tool",
    [
        {},
        {"name": 1},
        {"name": "t", "description": 1},
        {"name": "t", "inputSchema": []},
        {"name": "t", "outputSchema": 1},
    ],
)
def test_what_is_no_declaration(tool_stub: Stubs, tool: dict[str, object]):
    with pytest.raises(TypeError):
        tool_stub.declare([tool])


def test_stubs_declared_before_their_schema_are_checked_too(tool_stub: Stubs):
    tool_stub("u", returns=5, optional=True, output_schema=False)
    tool_stub.declare([{"name": "u", "outputSchema": {"type": "string"}}])
    tool_stub("t", returns=5, optional=True)
    with pytest.raises(ValueError, match="does not fit"):
        tool_stub.declare([{"name": "t", "outputSchema": {"type": "string"}}])


def shop() -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("shop")

    @server.tool
    def products(limit: int) -> list[str]:
        """What there is."""
        return ["tea"] * limit

    @server.tool(meta={"codecall": {"enabledInCodeCall": False}})
    def secret() -> str:
        """Not for scripts."""
        return "secret"

    return server


@pytest.mark.parametrize("plugin", [False, True])
def test_the_tools_of_a_server(codecall_enclave: ScriptEnclave, tool_stub: Stubs, plugin: bool):
    server = CodeCallPlugin.init().install(shop()) if plugin else shop()
    tool_stub("products", returns=["a"])
    tool_stub.from_server(server)
    assert tool_stub.declared.names == ["products"]
    assert codecall_enclave.run("return await callTool('products', { limit: 1 })").value == ["a"]
    output = codecall_enclave.run("return getTool('products').outputSchema").value
    assert output == {"type": "array", "items": {"type": "string"}}
    with pytest.raises(ValueError, match="the server 'shop' has no tool 'product' that scripts can call; did you mean"):
        tool_stub("product")
    with pytest.raises(ValueError, match="has no tool 'secret'"):
        tool_stub("secret")


def test_schemas_of_a_server_are_read_when_they_are_needed(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    server = shop()
    odd = {"type": "object", "properties": {"a": {"type": "nonsense"}}}
    server.tool(lambda: {"a": 1}, name="odd", output_schema=odd)
    tool_stub.from_server(server)
    tool_stub("products", returns=["tea"])
    assert codecall_enclave.run("return await callTool('products', { limit: 1 })").value == ["tea"]
    with pytest.raises(ValueError, match="the output schema of 'odd' is no JSON Schema"):
        tool_stub("odd", returns={"a": 1})


@pytest.mark.codecall(allow_invalid_input=True)
def test_texts_of_another_format_are_refused_as_by_the_server(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    server = shop()

    @server.tool
    def due(on: datetime.date, at: datetime.datetime | None = None) -> str:
        return f"{on} {at}"

    tool_stub.from_server(server)
    tool_stub("due", returns="ok")
    assert codecall_enclave.run("return await callTool('due', { on: '2026-01-31' })").value == "ok"
    for wrong in ("on: '31.01.2026'", "on: '2026-01-31', at: 'tomorrow noon'"):
        result = codecall_enclave.run(f"return await callTool('due', {{ {wrong} }})")
        assert result.code == "INVALID_INPUT"


def test_a_stub_the_server_does_not_know(tool_stub: Stubs):
    tool_stub("orders", optional=True)
    with pytest.raises(ValueError, match=r"has no tool 'orders' that scripts can call\Z"):
        tool_stub.from_server(shop())


async def test_coroutines_run_on_the_loop_of_the_test(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    here, loops = asyncio.get_running_loop(), list[asyncio.AbstractEventLoop]()
    requests, answered = asyncio.Event(), asyncio.Event()

    async def wait(_given: object) -> str:
        loops.append(asyncio.get_running_loop())
        requests.set()
        await answered.wait()
        return "done"

    tool_stub("t", side_effect=wait)
    running = asyncio.create_task(codecall_enclave.execute(CALL))
    await requests.wait()
    answered.set()
    assert (await running).value == "done"
    assert loops == [here]


async def test_scripts_at_the_same_time(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("t", side_effect=lambda given: given["n"])
    runs = [codecall_enclave.execute(CALL, context={"input": {"n": n}}) for n in range(10)]
    assert [result.value for result in await asyncio.gather(*runs)] == [*range(10)]


async def test_two_loops_that_hand_work_to_each_other(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    async def answer(given: dict[str, int]) -> int:
        await asyncio.sleep(0)
        return given["n"]

    tool_stub("t", side_effect=answer)
    with anyio.fail_after(60):
        runs = [codecall_enclave.execute(CALL, context={"input": {"n": n}}) for n in range(60)]
        results = await asyncio.gather(*runs)
    assert [result.value for result in results] == [*range(60)]
    assert [result.calls.inputs for result in results] == [[{"n": n}] for n in range(60)], "each has its own calls"


async def test_a_script_that_a_tool_runs(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    async def answer(_given: object) -> object:
        return (await codecall_enclave.execute("return await callTool('inner')")).value

    tool_stub("inner", returns="inner")
    tool_stub("t", side_effect=answer)
    assert (await codecall_enclave.execute(CALL)).value == "inner"


async def test_a_cancelled_test_cancels_the_script(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    requests = asyncio.Event()
    stopped = asyncio.Event()

    async def wait(_given: object) -> None:
        requests.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    tool_stub("t", side_effect=wait)
    running = asyncio.create_task(codecall_enclave.execute(CALL))
    await requests.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await stopped.wait()
    assert tool_stub.calls.names == ["t"]


async def test_options_that_are_wrong_are_told_at_once(codecall_enclave: ScriptEnclave):
    with pytest.raises(ValueError, match="no_such_limit"):
        codecall_enclave.run("1", config={"no_such_limit": 1})
    with pytest.raises(TypeError, match="JSON data"):
        codecall_enclave.run("1", context={"a": object()})
    with pytest.raises(TypeError, match="JSON data"):
        await codecall_enclave.execute("1", context={"a": object()})


def test_a_run_from_within_a_run(codecall_enclave: ScriptEnclave, tool_stub: Stubs):
    tool_stub("inner", returns="inner")
    tool_stub("t", side_effect=lambda _: codecall_enclave.run("return await callTool('inner')").value)
    assert codecall_enclave.run(CALL).value == "inner"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"return_value": 1}, "tool_stub has no argument 'return_value'; did you mean returns?"),
        ({"side_effects": [1]}, "did you mean side_effect?"),
        ({"exception": "x"}, "did you mean raises?"),
        ({"zzz": 1}, "has no argument 'zzz'. It takes name, returns, raises, "),
    ],
)
def test_what_a_stub_does_not_take(tool_stub: Stubs, given: dict[str, Any], text: str):
    with pytest.raises(TypeError, match=re.escape(text)):
        tool_stub("t", **given)
    assert tool_stub.stubs == []


def test_what_stubs_of_resources_and_prompts_do_not_take(tool_stub: Stubs):
    with pytest.raises(TypeError, match=r"resource_stub has no argument 'when'\. It takes uri, returns"):
        cast("Any", tool_stub.resource)("a://b", when={})
    with pytest.raises(TypeError, match=r"tool_stub takes a name and keywords: tool_stub\('t', returns=…\)"):
        cast("Any", tool_stub)("t", {"a": 1})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"allow_tools": ["a"]}, "run has no argument 'allow_tools'; did you mean allowed_tools?"),
        ({"contxt": {}}, "did you mean context?"),
        ({"limit": 2}, "run has no argument 'limit'; did you mean context={\"limit\": 2}?"),
        ({"timeout_ms": 2}, 'did you mean config={"timeout_ms": 2}?'),
    ],
)
async def test_what_a_run_does_not_take(
    codecall_enclave: ScriptEnclave,
    script: Callable[[Path], Script],
    tmp_path: Path,
    given: dict[str, Any],
    text: str,
):
    path = tmp_path / "one.js"
    path.write_text("return 1", encoding="utf-8")
    with pytest.raises(TypeError, match=re.escape(text)):
        script(path).run(**given)
    with pytest.raises(TypeError, match=re.escape(text)):
        await script(path).execute(**given)
    with pytest.raises(TypeError, match=re.escape(text)):
        codecall_enclave.run("return 1", **given)
    with pytest.raises(TypeError, match=re.escape(text)):
        await codecall_enclave.execute("return 1", **given)
    assert codecall_enclave.results == []


@pytest.mark.parametrize("language", ["javascript", "starlark"])
def test_extracted_values(
    codecall_enclave: ScriptEnclave, extract_stub: Callable[..., Stub], tool_stub: Stubs, language: Language
):
    extract_stub("number", when={"value": "seven"}, returns=7)
    extract_stub("number", raises="EXTRACTION_FAILED")
    extract_stub(returns={"who": "Ann"}, optional=True)
    script = """
        const all = await Promise.all([extract('seven', 'number'), extract('x', '{ who: string }')]);
        return [...all, (await extract('eight', 'number', { throwOnError: false })).error.code];
    """
    if language == "starlark":
        script = """
all = parallel([lambda: extract("seven", "number"), lambda: extract("x", "{ who: string }")])
return all + [try_call(extract, "eight", "number")["error"]["code"]]
"""
    result = codecall_enclave.run(script, language=language, allowed_tools=[])
    assert result.value == [7, {"who": "Ann"}, "EXTRACTION_FAILED"]
    assert {call.kind for call in tool_stub.calls} == {"extract"}
