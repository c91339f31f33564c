"""Tools, resources, templates and prompts of a server as clients of the gateway see, call and read them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import mcp_types
import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import PromptError, ResourceError
from mcp import MCPError

from codecall import CodeCallPlugin
from codecall.gateway.config.options import StdioServer
from codecall.gateway.tools.components import MAX_PARTS, GatewayPrompt, GatewayResource, GatewayTemplate, GatewayTool
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import plain_server, result_text, serve_components


async def test_everything_a_server_says_of_its_parts_is_kept() -> None:
    async with serve_components(Backend("git", plain_server())) as server, Client(server) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert tools["echo"].annotations is not None
        assert tools["echo"].annotations.read_only_hint
        assert tools["add"].meta is not None
        assert tools["add"].meta["a/b"] == "add"
        assert [str(resource.uri) for resource in await client.list_resources()] == ["note://one"]
        assert [template.uri_template for template in await client.list_resource_templates()] == ["note://{which}/text"]
        prompt = (await client.list_prompts())[0]
        assert prompt.arguments is not None
        assert prompt.arguments[0].required


async def test_results_pass_as_they_are() -> None:
    async with serve_components(Backend("git", plain_server())) as server, Client(server) as client:
        failed = await client.call_tool("fail", {}, raise_on_error=False)
        assert failed.is_error
        assert result_text(failed) == "it went wrong"
        assert failed.structured_content == {"why": "because"}
        assert failed.meta is not None
        assert failed.meta["x/y"] == 1
        contents = await client.read_resource("note://one")
        assert [getattr(item, "text", getattr(item, "blob", None)) for item in contents] == [
            "text of note://one",
            "AAEC",
        ]
        assert contents[1].mime_type == "image/png"
        contents = await client.read_resource("note://two/text")
        assert getattr(contents[0], "text", None) == "text of note://two/text"
        rendered = await client.get_prompt("greet", {"who": "Ann"})
        assert rendered.description == "a greeting"
        assert getattr(rendered.messages[0].content, "text", None) == "Hello Ann"


async def test_a_name_space_changes_no_name_that_the_server_hears() -> None:
    backend = Backend("git", plain_server())
    async with serve_components(backend) as inner:
        outer: FastMCP[Any] = FastMCP("outer")
        outer.mount(inner, namespace="git")
        async with Client(outer) as client:
            assert result_text(await client.call_tool("git_echo", {"text": "hi"})) == "hi"
            assert "Ann" in str(await client.get_prompt("git_greet", {"who": "Ann"}))
            assert "text of note://one" in str(await client.read_resource("note://git/one"))


async def test_a_server_that_is_down_is_named_in_every_kind_of_failure() -> None:
    server: FastMCP[Any] = FastMCP("front")
    async with serve_components(Backend("git", plain_server())) as known:
        listed = await known.list_resources(), await known.list_resource_templates(), await known.list_prompts()
    down = Backend("git", StdioServer(command="no-such-program-anywhere"))
    for resource in listed[0]:
        assert isinstance(resource, GatewayResource)
        resource._upstream = down
        server.add_resource(resource)
    for template in listed[1]:
        assert isinstance(template, GatewayTemplate)
        template._upstream = down
        server.add_template(template)
    for prompt in listed[2]:
        assert isinstance(prompt, GatewayPrompt)
        prompt._upstream = down
        server.add_prompt(prompt)
    async with down, Client(server) as client:
        with pytest.raises(MCPError, match="SERVER_UNAVAILABLE: Server 'git' is not available: its program was not"):
            await client.read_resource("note://one")
        with pytest.raises(MCPError, match="SERVER_UNAVAILABLE"):
            await client.read_resource("note://one/text")
        with pytest.raises(MCPError, match="SERVER_UNAVAILABLE"):
            await client.get_prompt("greet", {"who": "Ann"})
        with pytest.raises(ResourceError, match="SERVER_UNAVAILABLE"):
            await server.read_resource("note://one")
        with pytest.raises(PromptError, match="SERVER_UNAVAILABLE"):
            await server.render_prompt("greet", {"who": "Ann"})


class Answering:
    """A server that answers everything with this."""

    name = "far"

    def __init__(self, answer: object) -> None:
        self._answer = answer

    @asynccontextmanager
    async def use(self, _context: object) -> AsyncIterator[Any]:
        async def run(_make: object) -> object:
            return self._answer

        yield SimpleNamespace(run=run)


@pytest.mark.parametrize("count", [MAX_PARTS, MAX_PARTS + 1])
async def test_a_prompt_or_resource_of_very_many_parts_is_refused(count: int) -> None:
    text = mcp_types.TextContent(type="text", text="x")
    messages = [mcp_types.PromptMessage(role="user", content=text)] * count
    contents: list[Any] = [mcp_types.TextResourceContents(uri="a://b", text="x")] * count
    prompted: Any = Answering(mcp_types.GetPromptResult(messages=messages))
    read: Any = Answering(mcp_types.ReadResourceResult(contents=contents))
    server: FastMCP[Any] = FastMCP("front")
    server.add_prompt(GatewayPrompt.from_mcp(prompted, mcp_types.Prompt(name="p")))
    server.add_resource(GatewayResource.from_mcp(read, mcp_types.Resource(name="r", uri="a://b")))
    async with Client(server) as client:
        if count == MAX_PARTS:
            assert len((await client.get_prompt("p")).messages) == len(await client.read_resource("a://b")) == count
            return
        with pytest.raises(MCPError, match="Server 'far' answered with 2,001 messages; at most 2,000 are passed on"):
            await client.get_prompt("p")
        with pytest.raises(MCPError, match="Server 'far' answered with 2,001 contents"):
            await client.read_resource("a://b")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_scripts_and_direct_calls_get_the_code_and_the_next_call_works(mode: str) -> None:
    plugin = CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": 0}, tool_name_separator="_")
    async with serve_components(Backend("git", plain_server(call_timeout_s=0.5))) as server:
        plugin.install(server)
        async with Client(server, mode=mode) as client:

            async def ask(name: str, /, **arguments: Any) -> Any:
                return (await client.call_tool(name, arguments)).structured_content

            down = await ask("codecall_invoke", tool="die", input={})
            assert down["error"]["code"] == "SERVER_UNAVAILABLE"
            assert down["error"]["message"] == "Server 'git' ended (exit code 3) while the call was under way"
            assert "may have taken effect" in down["error"]["hint"]
            slow = await ask("codecall_invoke", tool="sleep", input={"seconds": 9})
            assert slow["error"]["code"] == "SERVER_TIMEOUT"
            script = """
                const seen = [(await callTool("echo", { text: "on" })).text];
                for (const tool of ["die", "sleep"]) {
                    try { await callTool(tool, { seconds: 9 }); } catch (error) { seen.push(error.code); }
                }
                seen.push(await callTool("echo", { text: "again" }));
                return seen;
            """
            ran = await ask("codecall_execute", script=script)
            assert ran["result"] == ["on", "SERVER_UNAVAILABLE", "SERVER_TIMEOUT", {"text": "again"}]
            failed = await ask("codecall_execute", script="return await callTool('die', {})")
            assert failed["status"] == "tool_error"
            assert failed["error"]["code"] == "SERVER_UNAVAILABLE"


def test_a_tool_is_made_without_copying_its_schema() -> None:
    backend = Backend("git", plain_server())
    tool = mcp_types.Tool(name="x", input_schema={"type": "object", "properties": {"a": {"type": "string"}}})
    made = GatewayTool.from_mcp(backend, tool)
    assert made.parameters is tool.input_schema
