"""The `_meta` of a client's request is for CodeCall, not for the tools that it calls."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.server import create_proxy

from codecall import CodeCallPlugin
from codecall.gateway.config.options import GatewayOptions
from codecall.gateway.gateway import Gateway
from tests.gateway.backends import plain_server

SECRET = {"acme/secret": "hunter2", "fastmcp": {"note": "hunter2"}, "progressToken": "hunter2"}
PROTOCOL = "io.modelcontextprotocol/"


async def meta_of(ctx: Context) -> str:
    """What the client's request says besides its arguments, as a tool or a proxy reads it."""
    return json.dumps(ctx.request_context.meta if ctx.request_context else None)


def server_with_codecall() -> FastMCP[Any]:
    """One tool, one resource and one prompt that report `_meta`, and the same tool of a server behind a proxy."""
    behind, server = FastMCP[Any]("behind"), FastMCP[Any]("server")
    behind.tool(meta_of, name="meta")
    server.tool(meta_of, name="own_meta")
    server.resource("data://meta")(meta_of)
    server.prompt(meta_of, name="prompt_meta")
    server.mount(create_proxy(Client(behind)), namespace="far")
    CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": 0}).install(server)
    return server


@asynccontextmanager
async def gateway(tmp_path: Path) -> AsyncGenerator[FastMCP[Any]]:
    """A gateway in front of a program whose tool `meta` reports what arrives there."""
    options = {
        "servers": {"far": plain_server().model_dump()},
        "cache_dir": str(tmp_path),
        "expose": {"mode": "always"},
    }
    async with Gateway(GatewayOptions.read(options, where="")) as gate:
        yield gate.server


async def reports(server: FastMCP[Any], mode: Literal["legacy", "auto"], requests: list[tuple[str, Any]]) -> list[str]:
    """What the tools report, as text."""
    found: list[str] = []
    async with Client(server, mode=mode) as client:
        for tool, arguments in requests:
            answer = await client.call_tool_mcp(tool, arguments, meta=SECRET)
            assert answer.structured_content is not None
            assert answer.structured_content["status"] == "ok", answer.structured_content
            found.append(json.dumps(answer.structured_content["result"]))
    return found


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_tools_resources_and_prompts_of_a_server_get_none_of_it(mode: Literal["legacy", "auto"]) -> None:
    script = (
        "return [await callTool('own_meta'), await callTool('far_meta'), await readResource('data://meta'), "
        "await getPrompt('prompt_meta')]"
    )
    requests = [("codecall_execute", {"script": script})]
    requests += [("codecall_invoke", {"tool": name, "input": {}}) for name in ("own_meta", "far_meta")]
    for report in await reports(server_with_codecall(), mode, requests):
        assert "hunter2" not in report
        assert "acme" not in report


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_servers_behind_the_gateway_get_none_of_it(mode: Literal["legacy", "auto"], tmp_path: Path) -> None:
    requests = [
        ("codecall_execute", {"script": "return await far.meta()"}),
        ("codecall_invoke", {"tool": "far_meta", "input": {}}),
    ]
    async with gateway(tmp_path) as server:
        for report in await reports(server, mode, requests):
            assert "hunter2" not in report
            assert "acme" not in report
            # The token is the gateway's own, for the progress of this call; servers send logs by the level.
            assert json.loads(report).keys() <= {"progressToken", f"{PROTOCOL}logLevel"}


async def test_what_the_connection_says_stays() -> None:
    (report,) = await reports(server_with_codecall(), "auto", [("codecall_invoke", {"tool": "own_meta", "input": {}})])
    keys = json.loads(json.loads(report))
    assert keys
    assert all(key.startswith(PROTOCOL) for key in keys)


async def test_a_tool_that_a_client_calls_itself_gets_it_as_it_is() -> None:
    server = FastMCP[Any]("server")
    server.tool(meta_of, name="own_meta")
    CodeCallPlugin.init(mode="codecall_opt_in", pool={"min_workers": 0}).install(server)
    async with Client(server) as client:
        answer = await client.call_tool_mcp("own_meta", {}, meta={"acme/secret": "hunter2"})
    assert "hunter2" in str(answer.content)
