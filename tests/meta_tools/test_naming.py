"""The names of the meta-tools that a client lists and reads: by what it calls itself, in both eras of the protocol."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from mcp.shared.tool_name_validation import validate_tool_name
from mcp_types import Implementation

from codecall import CodeCallPlugin, RateLimitPlugin
from codecall.meta_tools.naming import UNDERSCORE_CLIENTS
from tests.meta_tools.conftest import Shop

VERBS = ["search", "describe", "invoke", "execute"]
ERAS = ["legacy", "auto"]
API_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def client_called(server: FastMCP[Any], name: str, mode: str = "auto") -> Client[Any]:
    return Client(server, client_info=Implementation(name=name, version="1"), mode=mode)


async def listed(client: Client[Any]) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("name", [client.name for client in UNDERSCORE_CLIENTS])
async def test_clients_that_refuse_colons_list_names_without(name: str, mode: str) -> None:
    async with client_called(Shop().server, name, mode) as client:
        names = await listed(client)
    assert names == [f"codecall_{verb}" for verb in VERBS]
    assert all(API_NAME.fullmatch(name) and validate_tool_name(name).is_valid for name in names)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("name", "separator"),
    [
        ("mcp", ":"),
        ("someone-else", ":"),
        ("", ":"),
        ("cursors", ":"),
        ("my-claude-ai", ":"),
        ("Visual Studio Code", "_"),
        ("Visual Studio Code - Insiders", "_"),
        ("claude-ai (via mcp-remote 0.1.37)", "_"),
        ("gemini-cli-mcp-client-crm", "_"),
        ("cursor-vscode", "_"),
        (" Claude-Code ", "_"),
    ],
)
async def test_a_client_is_known_by_how_its_name_begins(name: str, separator: str, mode: str) -> None:
    async with client_called(Shop().server, name, mode) as client:
        assert await listed(client) == [f"codecall{separator}{verb}" for verb in VERBS]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("called", [":", "_"])
@pytest.mark.parametrize(
    ("name", "option", "separator"),
    [("claude-ai", "auto", "_"), ("mcp", "auto", ":"), ("mcp", "_", "_"), ("claude-ai", ":", ":")],
)
async def test_what_a_client_reads_has_the_names_it_lists(
    name: str, option: str, separator: str, called: str, mode: str
) -> None:
    """Descriptions, hints and refusals, whichever spelling is called."""
    async with client_called(Shop(tool_name_separator=option).server, name, mode) as client:
        texts = [f"{tool.name} {tool.description} {tool.input_schema}" for tool in await client.list_tools()]
        for verb, arguments in (
            ("invoke", {"tool": "zzzzqqqq", "input": {}}),
            ("invoke", {"tool": "users_get", "input": {"id": "x"}}),
            ("execute", {"script": "return await callTool('zzzzqqqq', {})"}),
            ("search", {"query": 5}),
            ("describe", {}),
        ):
            result = await client.call_tool_mcp(f"codecall{called}{verb}", arguments)
            texts += [block.text for block in result.content if block.type == "text"]
    said = re.findall(r"codecall([:_])(?:search|describe|invoke|execute)\b", "\n".join(texts))
    assert len(said) > 10
    assert set(said) == {separator}


@pytest.mark.parametrize(
    ("name", "option", "separator"),
    [("claude-ai", "auto", "_"), ("mcp", "auto", ":"), ("mcp", "_", "_"), ("claude-ai", ":", ":")],
)
@pytest.mark.parametrize("optimizer", [False, True])
async def test_so_have_tools_whose_own_name_has_no_separator(
    name: str, option: str, separator: str, optimizer: bool
) -> None:
    starlark = {"optimizer": optimizer, "description_tokens": 100}
    server = Shop(tool_name_separator=option, starlark=starlark).server
    for number in range(10):
        server.tool(lambda: "", name=f"tool_{number}", description="More than there is room for.")
    async with client_called(server, name) as client:
        script = "const rows = await users_list();\nreturn rows;"
        sent = await client.call_tool_mcp("execute_tool_script", {"script": script})
        texts = [block.text for block in sent.content if block.type == "text"]
        if optimizer:
            called = await client.call_tool_mcp("call_tool", {"tool": "zzzzqqqq", "input": {}})
            texts += [block.text for block in called.content if block.type == "text"]
        else:
            texts += [
                tool.description or "" for tool in await client.list_tools() if tool.name == "execute_tool_script"
            ]
    said = [re.findall(r"codecall([:_])(?:search|execute)\b", text) for text in texts]
    assert said == [[separator]] * 2, texts


async def test_the_findings_of_a_dry_run_have_the_names_it_lists() -> None:
    async with client_called(Shop(tool_name_separator="_").server, "mcp") as client:
        arguments = {"script": "return await callTool('zzzzq', {})", "dryRun": True}
        answer = await client.call_tool("codecall_execute", arguments)
    (finding,) = (answer.structured_content or {})["result"]["findings"]
    assert finding["hint"] == "codecall_search finds tools by what they do."


async def test_hints_of_invoke_are_for_somebody_without_a_script() -> None:
    shop = Shop()
    for tool, given in (("users_get", {"id": "x"}), ("users_get", {"id": 100}), ("zzzzqqqq", {})):
        answer = await shop.ask("codecall:invoke", tool=tool, input=given)
        assert not re.search(r"getTool|try \{|script", answer["error"]["hint"]), answer


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("rule", ["codecall:invoke", "codecall_invoke"])
async def test_rules_on_rates_count_both_spellings_together(rule: str, mode: str) -> None:
    shop = Shop()
    RateLimitPlugin.init(rules=[{"tool": rule, "limit": 1, "window": 60}]).install(shop.server)
    async with client_called(shop.server, "claude-code", mode) as client:
        statuses = []
        for name in ("codecall_invoke", "codecall:invoke"):
            answer = await client.call_tool(name, {"tool": "users_get", "input": {"id": 1}}, raise_on_error=False)
            assert answer.structured_content is not None
            statuses.append(answer.structured_content["status"])
    assert statuses == ["ok", "error"]


async def test_the_start_says_once_what_is_listed_for_whom(caplog: pytest.LogCaptureFixture) -> None:
    server = CodeCallPlugin.init(pool={"min_workers": 0}).install(FastMCP("crm"))
    with caplog.at_level(logging.INFO, logger="codecall"):
        async with client_called(server, "claude-ai") as client, client_called(server, "mcp") as other:
            await listed(client), await listed(other)
    said = [record.message for record in caplog.records if "codecall_search" in record.message]
    assert said == [
        "Clients list codecall:search and so on, but codecall_search if they are: "
        + ", ".join(client.name for client in UNDERSCORE_CLIENTS)
    ]


async def test_a_fixed_separator_is_nothing_to_speak_of(caplog: pytest.LogCaptureFixture) -> None:
    server = CodeCallPlugin.init(pool={"min_workers": 0}, tool_name_separator="_").install(FastMCP("crm"))
    with caplog.at_level(logging.INFO, logger="codecall"):
        async with client_called(server, "claude-ai") as client:
            assert await listed(client) == [f"codecall_{verb}" for verb in VERBS]
    assert "codecall_search" not in caplog.text


def test_each_row_of_the_table_has_its_source() -> None:
    for client in UNDERSCORE_CLIENTS:
        assert client.name == client.name.strip().casefold().replace(" ", "-")
        assert client.reason
        assert client.source.startswith("https://")
