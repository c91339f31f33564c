"""`[starlark]` of a gateway, and `code_mode` of its servers: what clients list, and what scripts reach."""

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
SCRIPT = "execute_tool_script"


def two(folder: Path) -> tuple[Listed, Listed]:
    small, large = Listed(folder, "small"), Listed(folder, "large")
    small.say(tool("a"))
    large.say(tool("b"))
    return small, large


async def names(client: Client[Any]) -> list[str]:
    return [each.name for each in await client.list_tools()]


async def ran(client: Client[Any], script: str) -> str:
    answer = await client.call_tool(SCRIPT, {"script": script}, raise_on_error=False)
    return str(answer.content[0].text)


@pytest.mark.parametrize(
    ("mode", "listed"),
    [
        ("always", [*META, SCRIPT]),
        ("auto", [SCRIPT, "small_a", "large_b"]),
        ("never", [SCRIPT, "small_a", "large_b"]),
    ],
)
async def test_the_script_tool_is_listed_whatever_is_exposed(tmp_path: Path, mode: str, listed: list[str]):
    servers = two(tmp_path)
    async with (
        gateway(tmp_path, *servers, expose={"mode": mode}, starlark=True) as gate,
        Client(gate.server) as client,
    ):
        await gate.wait_until_listed()
        assert await names(client) == listed
        script = "return [small_a(text='x')['text'], call_tool('large_b', text='y')['text']]"
        assert await ran(client, script) == '["x","y"]'
        answer = await client.call_tool("codecall_search", {"query": "a"}, raise_on_error=False)
        assert answer.is_error == (mode == "never")


@pytest.mark.parametrize("mode", ["always", "auto", "never"])
async def test_servers_in_code_mode_are_not_listed_and_the_others_are_and_no_script_reaches_those(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
):
    small, large = two(tmp_path)
    servers = {
        "small": {**small.options, "code_mode": False},
        "large": {**large.options, "codeMode": True},
    }
    given = {"servers": servers, "expose": {"mode": mode}, "cache_dir": str(tmp_path / "cache"), "starlark": {}}
    async with Gateway(GatewayOptions.read(given, where="")) as gate, Client(gate.server) as client:
        await gate.wait_until_listed()
        four = [] if mode == "never" else META
        assert await names(client) == [*four, SCRIPT, "small_a"]
        (described,) = [each.description for each in await client.list_tools() if each.name == SCRIPT]
        assert "large_b(" in str(described)
        assert "small_a" not in str(described)
        assert await ran(client, "return large_b(text='y')['text']") == '"y"'
        assert "'small_a' is not defined" in await ran(client, "return small_a()")
        assert "Did you mean `large_b`?" in await ran(client, "return large.b(text='y')")
        assert "Tool 'small_a' was not found" in await ran(client, "return call_tool('small' + '_a')")
        itself = await client.call_tool("small_a", {"text": "x"})
        assert "x" in str(itself.structured_content)
        if four:
            found = await client.call_tool("codecall_search", {"query": "a b"})
            assert [hit["name"] for hit in (found.structured_content or {})["tools"]] == ["large_b"]
    assert "app_ids" not in caplog.text


def test_code_mode_and_expose_of_one_server_are_one_choice(tmp_path: Path):
    file = tmp_path / "codecall.toml"
    file.write_text('[servers.git]\ncommand = "x"\nexpose = "tools"\ncode_mode = false\n', encoding="utf-8")
    with pytest.raises(OptionsError, match=r"servers\.git.*give expose or code_mode, not both"):
        read_config(file)


def test_code_mode_needs_a_tool_that_reaches_the_server(tmp_path: Path):
    small, _ = two(tmp_path)
    options = {"servers": {"small": {**small.options, "code_mode": True}}, "expose": {"mode": "never"}}
    with pytest.raises(OptionsError, match=r"servers\.small\.code_mode: true needs"):
        Gateway(GatewayOptions.read(options, where=""))


def test_it_is_given_in_one_place():
    with pytest.raises(OptionsError, match=r"starlark: given twice, as \[starlark\] and in \[codecall\]"):
        Gateway(GatewayOptions.read({"starlark": True, "codecall": {"starlark": True}}, where=""))


async def test_a_server_has_no_tool_of_its_name(tmp_path: Path):
    taken = Listed(tmp_path, "execute")
    taken.say(tool("tool_script"))
    async with (
        gateway(tmp_path, taken, expose={"mode": "always"}, starlark=True) as gate,
        Client(gate.server) as client,
    ):
        await gate.wait_until_listed()
        assert await names(client) == [*META, SCRIPT]
        (hidden,), text = gate.hidden(), await ran(client, "return 1")
    assert (hidden.name, hidden.code, text) == ("tool_script", "shadows", "1")


def test_it_is_read_from_the_file_in_both_spellings_and_written(tmp_path: Path):
    file = tmp_path / "codecall.toml"
    file.write_text("[starlark]\noptimizer = true\n[starlark.codeMode]\nstepLimit = 5000\n", encoding="utf-8")
    options = read_config(file).options
    assert options.starlark is not None
    assert (options.starlark.optimizer, options.starlark.code_mode.step_limit) == (True, 5_000)
    file.write_text(write_toml(options).text, encoding="utf-8")
    assert read_config(file).options == options
    file.write_text("starlark = true\n", encoding="utf-8")
    assert read_config(file).options.starlark is not None
    file.write_text("[starlark]\nsteplimit = 1\n", encoding="utf-8")
    with pytest.raises(OptionsError, match=r"starlark\.steplimit: unknown option"):
        read_config(file)


async def test_a_function_of_one_server_never_becomes_that_of_another(tmp_path: Path):
    drive, google = Listed(tmp_path, "google-drive"), Listed(tmp_path, "google")
    drive.say(tool("upload"))
    google.say(tool("drive_upload", "Upload a file"), tool("drive-upload"), tool("search"))
    async with gateway(tmp_path, google, drive, starlark=True, expose={"mode": "always"}) as gate:
        await gate.wait_until_listed()
        async with Client(gate.server) as client:
            script = {"script": "return google_drive_upload()", "language": "starlark"}
            await ran(client, "return google_drive_upload(doc='secret')")
            await client.call_tool("codecall_execute", script)
            await ran(client, "return [google_search(text='x'), call_tool('google_drive_upload', doc='y')]")
            (described,) = [each for each in await client.list_tools() if each.name == SCRIPT]
            found = await client.call_tool(
                "codecall_describe", {"toolNames": ["google-drive_upload", "google_drive_upload"]}
            )
    assert [drive.asked.count("tools/call"), google.asked.count("tools/call")] == [2, 2]
    assert "- call_tool('google_drive_upload', …): Upload a file" in described.description.replace('"', "'")
    forms = {each["name"]: each["starlark"] for each in found.structured_content["tools"]}
    assert forms["google-drive_upload"].startswith("google_drive_upload(")
    assert forms["google_drive_upload"].startswith("call_tool(")
