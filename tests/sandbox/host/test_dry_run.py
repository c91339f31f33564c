"""A dry run: what is wrong with a script and what it would call, without running anything. Over real servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin, Enclave
from codecall.sandbox.host.preflight import MAX_LOOKED_UP
from codecall.sandbox.wire import MAX_LISTED

SCRIPT = """
const { items } = await users.list({ limit: 5 });
for (const item of items) {
  await callTool("users:update", { id: item.id, stage: "closed" });
}
let n = 0;
while (n < 3) n++;
try { await callTool("users:updat", {}) } catch (error) { }
const menu = await readResource("shop://menu");
const prompt = await getPrompt("report", { of: menu });
return [prompt, await callTool(codecallContext.tool)];
"""

calls_made: list[str] = []


@pytest.fixture
async def client() -> AsyncIterator[Client[Any]]:
    calls_made.clear()
    server = FastMCP[Any]("shop")

    @server.tool(name="users:list")
    def users_list(limit: int = 10) -> dict[str, Any]:
        calls_made.append("list")
        return {"items": []}

    @server.tool(name="users:update")
    def users_update(id: int, stage: Literal["open", "won"]) -> str:  # noqa: A002
        calls_made.append("update")
        return "done"

    @server.tool(name="users:secret", auth=lambda context: False)
    def users_secret(key: int) -> int:
        return key

    @server.tool(name="users:hidden", meta={"codecall": {"enabledInCodeCall": False}})
    def users_hidden(key: int) -> int:
        return key

    CodeCallPlugin.init(vm={"preset": "balanced"}).install(server)
    async with Client(server) as client:
        yield client


async def look(client: Client[Any], script: str, **arguments: Any) -> dict[str, Any]:
    """The answer of a dry run."""
    result = await client.call_tool("codecall:execute", {"script": script, "dryRun": True, **arguments})
    envelope = result.structured_content or {}
    assert envelope["status"] == "ok", envelope
    assert envelope["stats"]["toolCalls"] == 0
    assert calls_made == []
    return envelope["result"]


async def test_everything_is_told(client: Client[Any]) -> None:
    answer = await look(client, SCRIPT)
    findings = [(item["code"], item["toolName"], item["location"]["line"]) for item in answer["findings"]]
    assert findings == [("INVALID_INPUT", "users:update", 4), ("TOOL_NOT_FOUND", "users:updat", 8)]
    assert answer["valid"] is False
    assert "'open', 'won'" in answer["findings"][0]["message"]
    assert answer["findings"][1]["hint"].startswith("Did you mean 'users:update'")
    assert all(item["hint"] and item["location"]["text"] in SCRIPT for item in answer["findings"])
    manifest = answer["manifest"]
    assert manifest["tools"] == [
        {"name": "users:list", "calls": [{"line": 2, "column": 25}], "known": True},
        {"name": "users:updat", "calls": [{"line": 8, "column": 13}], "known": False},
        {"name": "users:update", "calls": [{"line": 4, "column": 9}], "known": True},
    ]
    assert manifest["resources"] == [{"uri": "shop://menu", "calls": [{"line": 9, "column": 20}]}]
    assert manifest["prompts"] == [{"name": "report", "calls": [{"line": 10, "column": 22}]}]
    assert manifest["computedNames"] is True
    assert manifest["loops"] == [{"kind": "for…of", "line": 3}, {"kind": "while", "line": 7}]
    assert manifest["size"] == {
        "bytes": len(SCRIPT.encode()),
        "maxBytes": 65_536,
        "lines": 11,
        "longestLine": 67,
        "maxLineLength": 20_000,
    }
    assert manifest["limits"]["maxToolCalls"] == 200
    assert "more" not in manifest


async def test_a_script_that_may_run(client: Client[Any]) -> None:
    answer = await look(client, "return (await users.list()).items")
    assert (answer["valid"], answer["findings"]) == (True, [])
    assert answer["manifest"]["computedNames"] is False
    answer = await look(client, "return 1")
    assert answer["manifest"]["tools"] == []


@pytest.mark.parametrize(
    ("script", "code", "kind", "parsed"),
    [
        ("const x = {", "SYNTAX_ERROR", None, False),
        ("eval('1'); callTool('users:list')", "VALIDATION_ERROR", "IllegalBuiltinAccess", True),
        ("callTool('codecall:execute', {}); callTool('users:list')", "SELF_REFERENCE_BLOCKED", "SelfReference", True),
        ("x" * 70_000, "VALIDATION_ERROR", "UnsafeSource", False),
        ("enum A { B }\ncallTool('users:list')", "VALIDATION_ERROR", "DisallowedSyntax", False),
    ],
)
async def test_a_refused_script(client: Client[Any], script: str, code: str, kind: str | None, parsed: bool) -> None:
    answer = await look(client, script)
    first = answer["findings"][0]
    assert (first["code"], first.get("kind"), answer["valid"]) == (code, kind, False), first
    assert first["message"]
    assert ("tools" in answer["manifest"]) is parsed
    assert answer["manifest"]["size"]["bytes"] == len(script)
    if parsed:
        assert "users:list" in [tool["name"] for tool in answer["manifest"]["tools"]]


async def test_all_findings_are_told_in_order(client: Client[Any]) -> None:
    answer = await look(
        client, "eval('1');\nawait callTool('users:update', {});\nrequire('x');\nawait callTool('nope')"
    )
    assert [(item["code"], item["location"]["line"]) for item in answer["findings"]] == [
        ("VALIDATION_ERROR", 1),
        ("INVALID_INPUT", 2),
        ("VALIDATION_ERROR", 3),
        ("TOOL_NOT_FOUND", 4),
    ]


async def test_only_what_the_caller_may_see_is_known(client: Client[Any]) -> None:
    names = ("users:secret", "users:absent")
    answers = [json.dumps(await look(client, f"return await callTool('{name}', {{}})")) for name in names]
    assert answers[0].replace("secret", "absent") == answers[1]
    hidden = await look(client, "return await callTool('users:hidden', {})")
    assert hidden["findings"][0]["code"] == "ACCESS_DENIED"
    denied = await look(client, "return await callTool('users:update', {})", allowedTools=["users:list"])
    assert [item["code"] for item in denied["findings"]] == ["ACCESS_DENIED"]


async def test_members_of_namespaces_are_looked_up(client: Client[Any]) -> None:
    answer = await look(client, "await tools.users.list();\nawait users.lst();\nawait tools['users:list']()")
    assert [(tool["name"], tool["known"]) for tool in answer["manifest"]["tools"]] == [
        ("users.lst", False),
        ("users:list", True),
    ]
    assert "users.list" in answer["findings"][0]["hint"]


async def test_much_of_everything(client: Client[Any]) -> None:
    script = "".join(f"callTool('t{n}');\n" for n in range(MAX_LISTED + 5))
    answer = await look(client, script)
    tools = answer["manifest"]["tools"]
    assert len(tools) == MAX_LISTED
    assert sum("known" in tool for tool in tools) == MAX_LOOKED_UP
    assert answer["manifest"]["more"] == {"calls": 5, "loops": 0}
    assert not answer["valid"]


async def test_texts_are_cleaned(client: Client[Any]) -> None:
    answer = await look(client, "await callTool('users:update', { id: 1, '/home/ann/.ssh/id_rsa': 1 })")
    assert "/home/ann" not in json.dumps(answer["findings"])


async def test_only_a_boolean(client: Client[Any]) -> None:
    result = await client.call_tool_mcp("codecall:execute", {"script": "return 1", "dryRun": "yes"})
    assert result.is_error
    ran_it = await client.call_tool("codecall:execute", {"script": "return 1", "dryRun": False})
    assert (ran_it.structured_content or {})["result"] == 1


async def test_an_enclave() -> None:
    tools = [{"name": "users:list", "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False}}]
    async with Enclave("secure") as enclave:

        async def answer(script: str, **settings: Any) -> Any:
            return (await enclave.execute(script, dry_run=True, **settings)).value

        script = "await callTool('users:list', { x: 1 }); await callTool('users:lst')"
        answered = await answer(script, tool_handler=lambda *_: 1, tools=tools)
        assert [item["code"] for item in answered["findings"]] == ["INVALID_INPUT", "TOOL_NOT_FOUND"]
        assert answered["findings"][1]["hint"] == "Did you mean 'users:list'?"
        assert (await answer(script, tool_handler=lambda *_: 1))["valid"]
        assert [item["code"] for item in (await answer(script))["findings"]] == ["TOOL_NOT_FOUND"] * 2
        denied = await answer(script, tool_handler=lambda *_: 1, allowed_tools=["x"])
        assert {item["code"] for item in denied["findings"]} == {"ACCESS_DENIED"}
        assert (await enclave.execute("return 5", dry_run=True)).value["manifest"]["tools"] == []
        assert (await enclave.execute("return 5")).value == 5
