"""`codecall:execute` over a real server and real workers."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from fastmcp import Client, FastMCP
from mcp_types import TextContent

from codecall import CodeCallPlugin, tool_metadata
from codecall.envelopes import EXECUTE_SCHEMA
from codecall.meta_tools.runs import max_value_bytes
from codecall.presets import PRESET_NAMES, load_preset
from codecall.sandbox.wire import MAX_FRAME_BYTES


async def run(shop: Any, script: str, **arguments: Any) -> dict[str, Any]:
    envelope = await shop.ask("codecall:execute", script=script, **arguments)
    jsonschema.validate(envelope, EXECUTE_SCHEMA)
    return envelope


async def test_the_advertised_schema_is_small_and_holds_for_every_envelope(shop: Any) -> None:
    async with Client(shop.server) as client:
        tool = next(tool for tool in await client.list_tools() if tool.name == "codecall:execute")
        assert len(json.dumps(tool.output_schema)) < 250
        for script in ("return 1", "throw new Error('no')", "const x = {"):
            jsonschema.validate(await run(shop, script), tool.output_schema)
        answer = await client.call_tool("codecall:execute", {"script": "return { a: 1 }"})
    assert (answer.data.status, answer.data.result) == ("ok", {"a": 1})


async def test_a_script_chains_tools_and_returns_one_value(shop: Any) -> None:
    envelope = await run(
        shop,
        """
        const users = await callTool('users_list', { limit: 3 });
        const refunds = await Promise.all(users.map(u => callTool('orders:refund', { order: u.name, amount: u.id })));
        console.log('refunded', refunds.length);
        refunds
        """,
    )
    assert envelope["status"] == "ok"
    assert envelope["result"] == [f"refunded {n} of user {n}" for n in range(3)]
    assert envelope["logs"] == ["refunded 3"]
    assert envelope["stats"]["toolCalls"] == 4
    assert shop.calls[0] == "list"
    assert sorted(shop.calls[1:]) == ["refund user 0", "refund user 1", "refund user 2"]


async def test_the_text_is_the_compact_json_of_the_envelope(shop: Any) -> None:
    result = await shop.result("codecall:execute", script="return { text: 'Grüße', list: [1, 2] }")
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert json.loads(block.text) == result.structured_content
    assert block.text.startswith('{"status":"ok","result":{"text":"Grüße","list":[1,2]}')


async def test_context_and_get_tool(shop: Any) -> None:
    script = """
        const { properties } = getTool(codecallContext.tool).inputSchema;
        return { parameters: Object.keys(properties), unknown: getTool('nope') === undefined };
    """
    envelope = await run(shop, script, context={"tool": "orders:refund"})
    assert envelope["result"] == {"parameters": ["order", "amount"], "unknown": True}


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        ("return 1 +", "syntax_error", "SYNTAX_ERROR"),
        ("return eval('1')", "illegal_access", "VALIDATION_ERROR"),
        ("await callTool('codecall:execute', { script: 'return 1' })", "illegal_access", "SELF_REFERENCE_BLOCKED"),
        ("throw new TypeError('x')", "runtime_error", "EXECUTION_ERROR"),
        ("await callTool('users_get', { id: 100 })", "tool_error", "TOOL_EXECUTION_ERROR"),
        ("await callTool('nope', {})", "tool_error", "TOOL_NOT_FOUND"),
        ("await callTool('users_get', { id: 'x' })", "tool_error", "INVALID_INPUT"),
        ("x" * 70_000, "illegal_access", "VALIDATION_ERROR"),
    ],
)
async def test_a_failed_script_is_an_envelope_not_an_error(shop: Any, script: str, status: str, code: str) -> None:
    envelope = await run(shop, script)
    assert (envelope["status"], envelope["error"]["code"]) == (status, code)


async def test_a_name_put_together_at_run_time_cannot_reach_a_meta_tool(shop: Any) -> None:
    script = "await callTool(['codecall', 'search'].join(codecallContext.by), { query: 'x' }, { throwOnError: false })"
    for by in (":", "_"):
        envelope = await run(shop, script, context={"by": by})
        assert (envelope["status"], envelope["error"]["code"]) == ("illegal_access", "SELF_REFERENCE_BLOCKED")


async def test_allowed_tools_limit_the_script(shop: Any) -> None:
    script = """
        const free = getTool('users_get') !== undefined, kept = getTool('orders:refund') === undefined;
        return { free, kept, error: (await callTool('orders:refund', {}, { throwOnError: false })).error.code };
    """
    envelope = await run(shop, script, allowedTools=["users_*"])
    assert envelope["result"] == {"free": True, "kept": True, "error": "ACCESS_DENIED"}
    assert (await run(shop, "return await callTool('users_get', { id: 1 })", allowedTools=[]))["status"] == "tool_error"


async def test_a_lookup_of_a_tool_that_is_not_there_names_the_one_that_was_meant(shop: Any) -> None:
    envelope = await run(shop, "return getTool('users_gett')?.inputSchema ?? null")
    assert envelope["warnings"] == [
        '`getTool("users_gett")` is undefined: no tool is called so. Did you mean "users_get"?'
    ]


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("return getTool('users_gett').inputSchema", "'users_gett'"),
        ("const name = 'users' + '_gett'; return getTool(name).inputSchema", "name"),
        ("const { inputSchema } = getTool('users_gett'); return inputSchema", "'users_gett'"),
        ("getTool('quite_another'); return getTool('users_gett').inputSchema", "'users_gett'"),
    ],
)
async def test_what_is_read_from_a_tool_that_is_not_there_names_the_one_that_was_meant(
    shop: Any, script: str, what: str
) -> None:
    hint = (await run(shop, script))["error"]["hint"]
    assert hint.startswith(f'`getTool({what})` is undefined: no tool is called so. Did you mean "users_get"? ')


@pytest.mark.parametrize(
    "script",
    [
        "return getTool('users_gett') ?? getTool('users_get').name",
        "return getTool('quite_another') === undefined",
        "return getTool('users_get').name",
        "return getTool('x'.repeat(200)) === undefined",
    ],
)
async def test_a_lookup_that_asks_whether_a_tool_is_there_is_not_warned_of(shop: Any, script: str) -> None:
    assert "warnings" not in await run(shop, script)


async def test_a_function_of_scripts_that_is_called_as_a_tool(shop: Any) -> None:
    envelope = await run(shop, "return await callTool('getResult', { handle: 'x' })")
    assert "a function of the script, not a tool: write `await getResult('res_…')`" in envelope["error"]["hint"]


async def test_a_tool_that_is_not_for_scripts_says_so_as_a_function_too() -> None:
    server = FastMCP("kept")
    server.tool(lambda: 1, name="wipe", meta=tool_metadata(enabled_in_codecall=False))
    CodeCallPlugin.init(vm={"preset": "secure"}).install(server)
    hints: list[str] = []
    async with Client(server) as client:
        for script in ("return wipe({})", "return await callTool('wipe', {})", "return wpie({})", "return wipe"):
            answer = await client.call_tool("codecall:execute", {"script": script})
            hints.append("{message}: {hint}".format(**answer.structured_content["error"]))
    assert "Tool 'wipe' is not available to CodeCall. The server's operator has not enabled it" in hints[0]
    assert "Tool 'wipe' is not available to CodeCall" in hints[1]
    assert all("available" not in hint for hint in hints[2:])


async def test_mark_errors(make_shop: Any) -> None:
    shop = make_shop(mark_errors=True)
    failed = await shop.result("codecall:execute", script="throw new Error('x')")
    assert failed.is_error
    assert failed.structured_content["status"] == "runtime_error"
    assert not (await shop.result("codecall:execute", script="return 1")).is_error


async def test_the_limits_are_those_of_the_plugin(make_shop: Any) -> None:
    shop = make_shop(vm={"preset": "locked_down", "maxToolCalls": 2})
    script = "for (let i = 0; i < 3; i++) { await callTool('users_get', { id: i }); }"
    envelope = await run(shop, script)
    assert envelope["error"]["code"] == "TOOL_CALL_LIMIT"
    assert "Script exceeded the limit of 2 tool calls" in envelope["error"]["message"]


async def test_a_script_without_calls_lists_nothing(shop: Any) -> None:
    from fastmcp.server.middleware import Middleware

    class Count(Middleware):
        lists = 0

        async def on_list_tools(self, context: Any, call_next: Any) -> Any:
            self.lists += 1
            return await call_next(context)

    count = Count()
    shop.server.add_middleware(count)
    await shop.server.call_tool("codecall:execute", {"script": "return 1"})
    assert count.lists == 0
    many = "return (await Promise.all([1, 2, 3].map(id => callTool('users_get', { id })))).length"
    result = await shop.server.call_tool("codecall:execute", {"script": many})
    assert result.structured_content["result"] == 3
    assert count.lists == 1


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_values_fit_into_the_heap_and_into_a_frame(preset: str) -> None:
    limits = load_preset(preset)
    assert limits.max_result_bytes <= max_value_bytes(limits) <= limits.memory_mb * 1024 * 1024 // 4
    assert 4 * max_value_bytes(limits) <= MAX_FRAME_BYTES


async def test_declared_text_stays_text_and_other_text_is_read_where_it_is_json() -> None:
    server = FastMCP("texts")
    users = '{"users": [{"id": 1}]}'
    server.tool(lambda: users, name="undeclared")

    @server.tool
    def declared() -> str:
        return users

    CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": 0}).install(server)
    script = """
        const parsed = await callTool('undeclared', {});
        const text = await callTool('declared', {});
        return [parsed, text, JSON.parse(text), getTool('declared').outputSchema.type];
    """
    async with Client(server) as client:
        ended = (await client.call_tool("codecall:execute", {"script": script})).structured_content or {}
        assert ended["result"] == [json.loads(users), users, json.loads(users), "string"]
        for name, value in (("undeclared", json.loads(users)), ("declared", users)):
            invoked = await client.call_tool("codecall:invoke", {"tool": name, "input": {}})
            assert (invoked.structured_content or {})["result"] == value
        failing = "return (await callTool('declared', {})).users.map((user) => user.id)"
        error = (await client.call_tool("codecall:execute", {"script": failing})).structured_content or {}
        assert "`JSON.parse` it first, to get {users: [{id: number}]}" in error["error"]["hint"]
