"""Composite tools are their operator's: none names a tool that its caller cannot see, or quotes its script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth import require_scopes
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.utilities.tests import asgi_client

from codecall import CodeCallPlugin

pytestmark = pytest.mark.anyio

HIDDEN = "treasury_ledger"
STEP: dict[str, Any] = {"id": "a", "tool": HIDDEN, "arguments": {}}
EACH: dict[str, Any] = {"type": "forEach", "collection": "[1, 2]", "itemVar": "x", "step": {**STEP, "type": "tool"}}
GIVEN = "{{json .steps.a}}"
SECRET = "['treasury', 'ledger'].join('_')"


def workflow(name: str, step: dict[str, Any]) -> dict[str, Any]:
    """A workflow of one step, which gives all that is known of it."""
    output = {"properties": {"text": {"type": "string", "description": "All", "value": GIVEN}}}
    return {"name": name, "description": "Does something", "steps": [step], "output": output}


WORKFLOWS = {
    "plain": STEP,
    "continues": {**STEP, "onError": {"action": "continue"}, "defaultResults": {"x": 1}},
    "each": {**EACH, "id": "a", "onError": {"action": "continue"}},
    "nested": {**STEP, "tool": "plain"},
}
SCRIPTS = {
    "called.js": f"return await callTool('{HIDDEN}', {{}});",
    "function.js": f"return await {HIDDEN}({{}});",
    "namespace.js": "return await treasury.ledger({});",
    "member.js": f"return await tools['{HIDDEN}']({{}});",
    "caught.js": f"try {{ return await callTool({SECRET}, {{}}) }} catch (e) {{ return [e.toolName, `${{e}}`] }}",
    "soft.js": f"return await callTool({SECRET}, {{}}, {{throwOnError: false}});",
    "thrown.js": f"try {{ await callTool({SECRET}, {{}}) }} catch {{ }} throw new Error('mine');",
    "aside.js": f"await Promise.allSettled([callTool({SECRET}, {{}})]); return await callTool('fail', {{}});",
    "parallel.js": f"return await __safe_parallel([() => callTool({SECRET}, {{}}), () => callTool('open_tool')]);",
    "looked_up.js": "const tool = getTool('treasury_' + 'ledger'); return tool.description;",
    "warned.js": f"try {{ await callTool({SECRET}, {{}}) }} catch {{ }} return 1;",
    "resource.js": "return await readResource('treasury_' + 'ledger://x');",
    "planned.js": f"await callTool('open_tool', {{nope: 1}}); return await callTool('{HIDDEN}', {{}});",
    "quoted.js": f"return [`open_tool`, `{HIDDEN}`].nope();",
    "prompt.js": "return await getPrompt('treasury_' + 'ledger', {});",
    "starlark.star": f"call_tool('{HIDDEN}')",
    "starlark_function.star": f"{HIDDEN}()",
    "starlark_joined.star": "call_tool('_'.join(['treasury', 'ledger']))",
}
HEADER = ["---", "name: {name}", "description: Does something", "---"]
CHOOSES = f"""/*
---
name: chooses
description: Calls a tool
parameters: {{properties: {{tool: {{type: string}}}}}}
allowedTools: [open_tool, {HIDDEN}, 'treasury_*']
---
*/
return await callTool(codecallContext.tool, {{}});
"""


def office(path: Path) -> FastMCP[Any]:
    """A server with a tool for the north alone, which the tools of its operator call."""
    tokens = {name: {"client_id": name, "sub": name, "scopes": [name]} for name in ("north", "south")}
    server = FastMCP[Any]("office", auth=StaticTokenVerifier(tokens=tokens))
    server.tool(lambda: "gold", name=HIDDEN, auth=require_scopes("north"))
    server.tool(lambda: 1, name="open_tool")

    def fail() -> None:
        """Fail."""
        raise ValueError("no")

    server.tool(fail)
    for file, body in SCRIPTS.items():
        name, _, suffix = file.partition(".")
        lines = [line.format(name=name) for line in HEADER]
        header = ["/*", *lines, "*/"] if suffix == "js" else [f"# {line}" for line in lines]
        (path / file).write_text("\n".join([*header, body]), encoding="utf-8")
    (path / "chooses.js").write_text(CHOOSES, encoding="utf-8")
    composites = [*(workflow(name, step) for name, step in WORKFLOWS.items()), str(path)]
    CodeCallPlugin.init(composite_tools=composites, starlark=True, pool={"min_workers": 0}).install(server)
    return server


async def answers(client: Client[Any], name: str, **arguments: str) -> list[str]:
    """All of what a client gets of a tool: directly, in a script, and by invoke."""
    script = f"return await callTool('{name}', {json.dumps(arguments)})"
    results = [
        await client.call_tool_mcp(name, arguments),
        await client.call_tool_mcp("codecall:execute", {"script": script}),
        await client.call_tool_mcp("codecall:invoke", {"tool": name, "input": arguments}),
    ]
    return [result.model_dump_json() for result in results]


@pytest.mark.parametrize("name", [*WORKFLOWS, *(file.partition(".")[0] for file in SCRIPTS)])
async def test_no_answer_names_what_its_caller_cannot_see(tmp_path: Path, name: str) -> None:
    async with asgi_client(office(tmp_path), auth="south") as south:
        for answer in await answers(south, name):
            assert "ledger" not in answer.casefold()


@pytest.mark.parametrize("name", ["plain", "called", "function", "member", "starlark", "starlark_function"])
async def test_the_error_names_the_composite_tool_and_what_is_missing(tmp_path: Path, name: str) -> None:
    async with asgi_client(office(tmp_path), auth="south") as south:
        body = (await south.call_tool_mcp(name, {})).structured_content
        assert body is not None
        assert body["message"] == f"Tool '{name}' needs a tool that is not available to you"
        assert (body["code"], body["toolName"], body["status"]) == ("TOOL_NOT_FOUND", name, "tool_error")
        assert (
            body["hint"] == "This tool calls what is not there, or not for you: use another one, or tell its operator."
        )


async def test_a_caller_who_sees_the_tool_gets_its_answer(tmp_path: Path) -> None:
    async with asgi_client(office(tmp_path), auth="north") as north:
        for name in ("plain", "called", "function", "member"):
            assert all("gold" in answer for answer in await answers(north, name))


async def test_what_is_allowed_is_listed_as_far_as_its_caller_sees_it(tmp_path: Path) -> None:
    server = office(tmp_path)
    async with asgi_client(server, auth="south") as south, asgi_client(server, auth="north") as north:
        for client, listed in ((south, "open_tool"), (north, f"open_tool, {HIDDEN}")):
            body = (await client.call_tool_mcp("chooses", {"tool": "zzz"})).structured_content
            assert body is not None
            assert body["message"] == "Tool 'zzz' is not in allowedTools"
            assert f"Allowed here: {listed}." in body["hint"]
        for tool in ("zzz", "treasury_ledgr", "open_tol"):
            for answer in await answers(south, "chooses", tool=tool):
                assert HIDDEN not in answer


async def test_what_has_taken_effect_is_said_all_the_same(tmp_path: Path) -> None:
    async with asgi_client(office(tmp_path), auth="south") as south:
        body = (await south.call_tool_mcp("parallel", {})).structured_content
        assert body is not None
        assert (
            "1 tool call had completed and is not undone: open_tool; 1 tool call had failed: parallel " in body["hint"]
        )
        assert body["location"] == {"line": 7, "column": 14}
