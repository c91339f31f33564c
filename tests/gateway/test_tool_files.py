"""`[tool_files]` of a gateway: files by server, and what servers say of their tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codecall.errors import OptionsError
from codecall.gateway.config.codecall_toml import write_toml
from codecall.gateway.config.load import read_config
from codecall.gateway.config.options import GatewayOptions
from codecall.gateway.gateway import Gateway
from tests.gateway.listing_servers import Listed, gateway, tool

META = ["codecall_search", "codecall_describe", "codecall_invoke", "codecall_execute"]
FOUR = ["listToolFiles", "readToolFile", "getToolDocs", "executeToolCode"]


def two(folder: Path) -> tuple[Listed, Listed]:
    small, large = Listed(folder, "small"), Listed(folder, "large-one")
    small.say(tool("a"))
    large.say(tool("b"), tool("c"))
    return small, large


async def ask(client: Client[Any], tool: str, /, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments, raise_on_error=False)
    return str(answer.content[0].text)


@pytest.mark.parametrize(
    ("mode", "listed"),
    [
        ("always", [*META, *FOUR]),
        ("auto", [*FOUR, "small_a", "large-one_b", "large-one_c"]),
        ("never", [*FOUR, "small_a", "large-one_b", "large-one_c"]),
    ],
)
async def test_the_four_are_listed_whatever_is_exposed_and_have_the_servers_as_files(
    tmp_path: Path, mode: str, listed: list[str]
):
    async with (
        gateway(tmp_path, *two(tmp_path), expose={"mode": mode}, tool_files=True) as gate,
        Client(gate.server) as client,
    ):
        await gate.wait_until_listed()
        assert [each.name for each in await client.list_tools()] == listed
        assert await ask(client, "listToolFiles") == "servers/\n  small.pyi\n  large_one.pyi"
        assert "\ndef c(" in await ask(client, "readToolFile", fileName="large-one")
        code = "result = [small.a(text='x')['text'], large_one.b({'text': 'y'})['text']]"
        assert await ask(client, "executeToolCode", code=code) == '{"result":["x","y"]}'


async def test_servers_say_what_code_may_call(tmp_path: Path):
    small, large = two(tmp_path)
    servers = {
        "small": {**small.options, "code_mode": False},
        "large-one": {**large.options, "tools_to_execute": ["b", "c"], "toolsToAutoExecute": ["c"]},
    }
    given = {"servers": servers, "expose": {"mode": "always"}, "cache_dir": str(tmp_path / "c"), "tool_files": {}}
    async with Gateway(GatewayOptions.read(given, where="")) as gate, Client(gate.server) as client:
        await gate.wait_until_listed()
        assert await ask(client, "listToolFiles") == "servers/\n  large_one.pyi"
        assert '"z"' in await ask(client, "executeToolCode", code="result = large_one.c(text='z')['text']")
        refused = await ask(client, "executeToolCode", code="result = large_one.b(text='z')")
        assert "# - A person has to allow: large_one.b" in refused


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tool_files": True, "codecall": {"toolFiles": True}}, r"tool_files: given twice, as \[tool_files\]"),
        (
            {"servers": {"git": {"command": "x", "tools_to_auto_execute": ["a"]}}},
            r"servers\.git: tools_to_execute or tools_to_auto_execute needs \[tool_files\]",
        ),
        (
            {
                "servers": {"git": {"command": "x", "tools_to_execute": []}},
                "tool_files": {"servers": {"git": {}}},
            },
            r"servers\.git: .* is in tool_files\.servers, too",
        ),
    ],
)
def test_it_is_said_in_one_place(given: dict[str, Any], says: str):
    from codecall.gateway.config.codecall_toml import parse_own_options

    with pytest.raises(OptionsError, match=says):
        Gateway(parse_own_options(Path("codecall.toml"), given))


def test_it_is_read_from_the_file_and_written(tmp_path: Path):
    file = tmp_path / "codecall.toml"
    file.write_text(
        '[tool_files]\nbindingLevel = "tool"\n[tool_files.servers.git]\ntoolsToAutoExecute = ["log"]\n',
        encoding="utf-8",
    )
    options = read_config(file).options
    assert options.tool_files is not None
    assert options.tool_files.servers[0].tools_to_auto_execute == ("log",)
    file.write_text(write_toml(options).text, encoding="utf-8")
    assert read_config(file).options == options
    file.write_text("tool_files = true\n", encoding="utf-8")
    assert read_config(file).options.tool_files is not None
