"""Composite tools of a gateway: named in its configuration, served whatever it exposes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp_types import ToolListChangedNotification

from codecall.errors import OptionsError
from codecall.gateway.config.load import read_config
from codecall.gateway.gateway import Gateway
from tests.approvals.conftest import ONCE, Person
from tests.loaded_python import LoadedPython

SERVER = """
from fastmcp import FastMCP

mcp = FastMCP("math")

@mcp.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> int:
    return a + b

mcp.run(show_banner=False)
"""

FLOW = """
name: twice
description: Adds a number to itself
parameters:
  properties: { n: { type: integer } }
steps:
  - { id: sum, tool: math_add, arguments: { a: '{{.params.n}}', b: '{{.params.n}}' } }
"""


def configuration(folder: Path, mode: str, python: LoadedPython) -> Path:
    """A configuration with one server and one composite tool."""
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    (folder / "workflows").mkdir()
    (folder / "workflows" / "twice.yaml").write_text(FLOW, encoding="utf-8")
    file = folder / "codecall.toml"
    command, args = json.dumps(python.executable), json.dumps([str(folder / "server.py")])
    file.write_text(
        f'cache_dir = false\n[servers.math]\ncommand = {command}\nargs = {args}\n[expose]\nmode = "{mode}"\n'
        '[composite_tools]\npaths = ["workflows"]\n[codecall.pool]\nmin_workers = 0\n',
        encoding="utf-8",
    )
    return file


@pytest.mark.parametrize("mode", ["always", "auto", "never"])
async def test_they_are_listed_and_run(loaded_python: LoadedPython, tmp_path: Path, mode: str):
    gateway = Gateway(read_config(configuration(tmp_path, mode, loaded_python)).options)
    async with gateway, Client(gateway.server) as client:
        listed = {tool.name: tool for tool in await client.list_tools()}
        assert "twice" in listed
        assert ("codecall_search" in listed) is (mode == "always")
        assert (await client.call_tool("twice", {"n": 4})).data == 8
        again = {tool.name: tool for tool in await client.list_tools()}["twice"]
        assert again.annotations is not None
        assert again.annotations.read_only_hint is True


ASKING = """
name: wiping
description: Asks what to remove, and removes it
steps:
  - id: ask
    type: elicitation
    message: 'Which?'
    schema: { type: object, properties: { decision: { type: string } }, required: [decision] }
  - { id: gone, tool: math_wipe, arguments: { path: '{{.steps.ask.output.content.decision}}' }, dependsOn: [ask] }
"""


@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_destructive_step_is_asked_for_by_default(
    tmp_path: Path, loaded_python: LoadedPython, era: Any, mode: str
):
    file = configuration(tmp_path, mode, loaded_python)
    wipe = (
        "@mcp.tool(annotations={'destructiveHint': True})\ndef wipe(path: str) -> str:\n    return f'wiped {path}'\n\n"
    )
    server = tmp_path / "server.py"
    server.write_text(SERVER.replace("mcp.run(", f"{wipe}mcp.run("), encoding="utf-8")
    (tmp_path / "workflows" / "wiping.yaml").write_text(ASKING, encoding="utf-8")
    gateway = Gateway(read_config(file).options)
    person = Person("/a", ONCE)
    async with gateway, Client(gateway.server, mode=era, elicitation_handler=person.answer) as client:
        assert (await client.call_tool("wiping", {})).data == "wiped /a"
    assert person.questions[0] == "Which?"
    assert "Tool: math_wipe" in person.questions[1]
    assert len(person.questions) == 2


ASKING_SERVER = """
from codecall import CodeCallPlugin

ask = {"id": "ask", "type": "elicitation", "message": "Which?", "schema": {
    "type": "object", "properties": {"decision": {"type": "string"}}, "required": ["decision"]}}
called = {"id": "said", "tool": "say", "arguments": {"text": "{{.steps.ask.output.content.decision}}"},
    "dependsOn": ["ask"]}
tool = {"name": "flow", "description": "Asks, and says it", "steps": [ask, called]}
CodeCallPlugin.init(composite_tools=[tool], pool={"min_workers": 0}).install(mcp)

@mcp.tool(annotations={"readOnlyHint": True})
def say(text: str) -> str:
    return f"said {text}"

mcp.run(show_banner=False)
"""


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("handshake", [False, True])
async def test_a_script_passes_on_what_one_behind_the_gateway_asks(
    tmp_path: Path, loaded_python: LoadedPython, era: Any, handshake: bool
):
    file = configuration(tmp_path, "always", loaded_python)
    (tmp_path / "server.py").write_text(SERVER.replace("mcp.run(show_banner=False)", ASKING_SERVER), encoding="utf-8")
    text = file.read_text(encoding="utf-8")
    if handshake:
        text = text.replace("[expose]", "handshake = true\n[expose]")
    file.write_text(text, encoding="utf-8")
    gateway, person = Gateway(read_config(file).options), Person("ann")
    async with gateway, Client(gateway.server, mode=era, elicitation_handler=person.answer) as client:
        script = {"script": "return callTool('math_flow', {})"}
        answer = (await client.call_tool("codecall_execute", script)).structured_content
    assert answer is not None
    assert answer.get("result") == "said ann", answer
    assert len(person.questions) == 1


async def test_rules_count_where_the_four_are_not_there(tmp_path: Path, loaded_python: LoadedPython):
    file = configuration(tmp_path, "never", loaded_python)
    rules = """approvals = [{ tools = ["add"], action = "deny" }]\n[expose]"""
    file.write_text(file.read_text(encoding="utf-8").replace("[expose]", rules), encoding="utf-8")
    gateway = Gateway(read_config(file).options)
    async with gateway, Client(gateway.server) as client:
        refused = await client.call_tool("twice", {"n": 4}, raise_on_error=False)
        assert (refused.structured_content or {})["code"] == "ACCESS_DENIED"
        assert not [tool.name for tool in await client.list_tools() if tool.name.startswith("codecall")]
        assert (await client.call_tool("codecall_execute", {"script": "return 1"}, raise_on_error=False)).is_error


@pytest.mark.parametrize("mode", ["always", "never"])
async def test_definitions_are_watched(loaded_python: LoadedPython, tmp_path: Path, mode: str):
    file = configuration(tmp_path, mode, loaded_python)
    heard = asyncio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    arguments = ["-m", "codecall.cli", "serve", "--config", str(file), "--watch"]
    transport = StdioTransport(loaded_python.executable, arguments, keep_alive=False)
    async with Client(transport, mode="legacy", message_handler=on_message) as client, asyncio.timeout(60):
        while "twice" not in [tool.name for tool in await client.list_tools()]:
            await heard.wait()
        assert (await client.call_tool("twice", {"n": 4})).data == 8
        heard.clear()
        (tmp_path / "workflows" / "wrong.yaml").write_text("name: wrong\n", encoding="utf-8")
        (tmp_path / "workflows" / "thrice.yaml").write_text(FLOW.replace("twice", "thrice"), encoding="utf-8")
        while "thrice" not in [tool.name for tool in await client.list_tools()]:
            await heard.wait()
            heard.clear()


async def test_a_path_that_is_not_there(loaded_python: LoadedPython, tmp_path: Path):
    file = configuration(tmp_path, "always", loaded_python)
    file.write_text(file.read_text(encoding="utf-8").replace('"workflows"', '"nowhere"'), encoding="utf-8")
    with pytest.raises(OptionsError, match="there is no file or folder"):
        Gateway(read_config(file).options)
