"""Where clients keep their servers on each system, and what is pasted there."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from codecall.errors import OptionsError
from codecall.files import check_found_file
from codecall.gateway.config.load import read_client, read_config
from codecall.gateway.config.mcp_clients import (
    CLIENTS,
    Machine,
    build_snippet,
    client_files,
    existing_client_files,
    parse_client,
)

ADA = Path("/home/ada")
CACHED = "LocalCache/Roaming/Claude/claude_desktop_config.json"


@pytest.mark.parametrize(
    ("client", "platform", "environ", "expected"),
    [
        ("claude-desktop", "linux", {}, [".config/Claude/claude_desktop_config.json"]),
        ("claude-desktop", "linux", {"XDG_CONFIG_HOME": "/x"}, ["/x/Claude/claude_desktop_config.json"]),
        ("claude-desktop", "darwin", {}, ["Library/Application Support/Claude/claude_desktop_config.json"]),
        ("claude-desktop", "win32", {}, ["AppData/Roaming/Claude/claude_desktop_config.json"]),
        ("claude-desktop", "win32", {"APPDATA": "/r"}, ["/r/Claude/claude_desktop_config.json"]),
        ("claude-code", "linux", {}, ["work/.mcp.json", ".claude.json"]),
        ("claude-code", "win32", {"CLAUDE_CONFIG_DIR": "/c"}, ["work/.mcp.json", "/c/.claude.json"]),
        ("cursor", "darwin", {}, ["work/.cursor/mcp.json", ".cursor/mcp.json"]),
        (
            "vscode",
            "linux",
            {},
            [
                "work/.vscode/mcp.json",
                *(f".config/{name}/User/mcp.json" for name in ("Code", "Code - Insiders", "VSCodium")),
            ],
        ),
        ("vscode", "darwin", {}, ["work/.vscode/mcp.json", "Library/Application Support/Code/User/mcp.json", ...]),
        ("vscode", "win32", {"APPDATA": "/r"}, ["work/.vscode/mcp.json", "/r/Code/User/mcp.json", ...]),
        ("vscode", "linux", {"VSCODE_PORTABLE": "/p"}, ["work/.vscode/mcp.json", "/p/user-data/User/mcp.json", ...]),
    ],
)
def test_the_usual_places(client: str, platform: str, environ: dict[str, str], expected: list[str]):
    found = [
        place.path
        for place in client_files(parse_client(client), folder=ADA / "work", machine=Machine(platform, ADA, environ))
    ]
    wanted = [ADA / path for path in expected if path is not ...]
    assert found[: len(wanted)] == wanted
    assert len(found) == len(wanted) or ... in expected


def test_claude_desktop_from_the_store_comes_first(tmp_path: Path):
    package = tmp_path / "Packages" / "Claude_pzs8sxrjxfjjc"
    package.mkdir(parents=True)
    machine = Machine("win32", tmp_path, {"LOCALAPPDATA": str(tmp_path), "APPDATA": str(tmp_path / "r")})
    assert [place.path for place in client_files("claude-desktop", machine=machine)] == [
        package / CACHED,
        tmp_path / "r" / "Claude" / "claude_desktop_config.json",
    ]


def test_the_file_of_a_project_is_found_from_within_and_not_above_home(tmp_path: Path):
    machine = Machine("linux", tmp_path / "home", {})
    within = machine.home / "shop" / "src"
    within.mkdir(parents=True)
    for path in (tmp_path / ".mcp.json", machine.home / "shop" / ".mcp.json", machine.home / ".claude.json"):
        path.write_text("{}", encoding="utf-8")
    assert existing_client_files("claude-code", folder=within, machine=machine) == [
        machine.home / "shop" / ".mcp.json",
        machine.home / ".claude.json",
    ]
    assert existing_client_files("claude-code", folder=machine.home, machine=machine) == [machine.home / ".claude.json"]


def test_cursor_lists_the_file_in_the_home_folder_once(tmp_path: Path):
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text("{}", encoding="utf-8")
    assert existing_client_files("cursor", folder=tmp_path, machine=Machine("linux", tmp_path, {})) == [file]


def test_names_of_clients():
    assert [parse_client(client) for client in CLIENTS] == list(CLIENTS)
    assert parse_client("Claude Desktop") == "claude-desktop"
    assert parse_client("VS Code") == "vscode"
    with pytest.raises(OptionsError, match="unknown client 'zed'; known: claude-desktop, claude-code, cursor, vscode"):
        parse_client("zed")
    with pytest.raises(OptionsError, match="did you mean claude-code or claude-desktop"):
        parse_client("claude")
    with pytest.raises(OptionsError, match="did you mean claude-desktop") as refused:
        parse_client("claude-dektop")
    assert "--config FILE" in str(refused.value.hint)


@pytest.mark.parametrize("client", CLIENTS)
def test_snippets(client: str):
    arguments = ["serve", "--config", "/home/ada/my codecall.toml"]
    made = build_snippet(parse_client(client), arguments, folder=ADA / "work", machine=Machine("linux", ADA, {}))
    entry = {"command": "codecall", "args": arguments}
    typed = {"type": "stdio", **entry}
    text, path, command = {
        "claude-desktop": ({"mcpServers": {"codecall": entry}}, ".config/Claude/claude_desktop_config.json", None),
        "claude-code": (
            {"mcpServers": {"codecall": typed}},
            ".claude.json",
            ["claude", "mcp", "add", "--scope", "user", "codecall", "--", "codecall", *arguments],
        ),
        "cursor": ({"mcpServers": {"codecall": entry}}, ".cursor/mcp.json", None),
        "vscode": (
            {"servers": {"codecall": typed}},
            ".config/Code/User/mcp.json",
            ["code", "--add-mcp", json.dumps({"name": "codecall", **entry})],
        ),
    }[client]
    assert json.loads(made.text) == text
    assert made.path == ADA / path
    assert (None if made.command is None else shlex.split(made.command)) == command


def test_what_has_no_shell_gets_a_place_for_variables():
    machine = Machine("linux", ADA, {})
    made = {
        client: build_snippet(client, ["serve"], variables=["TOKEN"], folder=ADA, machine=machine) for client in CLIENTS
    }
    assert json.loads(made["cursor"].text)["mcpServers"]["codecall"]["env"] == {"TOKEN": "…"}
    assert made["vscode"].command is None
    assert "env" not in made["claude-code"].text


def test_claude_code_has_a_file_for_the_user_and_one_for_the_project():
    machine = Machine("linux", ADA, {})
    made = build_snippet("claude-code", ["serve"], folder=ADA / "work", machine=machine, scope="project")
    assert made.path == ADA / "work" / ".mcp.json"
    assert made.command == "claude mcp add --scope project codecall -- codecall serve"


def test_commands_are_quoted_as_windows_reads_them():
    made = build_snippet("claude-code", ["serve", "C:\\my file"], folder=ADA, machine=Machine("win32", ADA, {}))
    assert made.command is not None
    assert made.command.endswith('codecall serve "C:\\my file"')


def test_outside_the_home_folder_nobody_looks_above(tmp_path: Path):
    machine = Machine("linux", tmp_path / "home", {})
    within = tmp_path / "shop" / "src"
    within.mkdir(parents=True)
    (tmp_path / "shop" / ".mcp.json").write_text("{}", encoding="utf-8")
    assert existing_client_files("claude-code", folder=within, machine=machine) == []
    assert existing_client_files("claude-code", folder=tmp_path / "shop", machine=machine) == [
        tmp_path / "shop" / ".mcp.json"
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="rights are lists there")
def test_what_others_may_write_is_not_read_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}', encoding="utf-8")
    file.chmod(0o602)
    with pytest.raises(OptionsError, match=re.escape(f"others may write to {file}")) as refused:
        read_client("claude-code", folder=tmp_path)
    assert "--config" in str(refused.value.hint)
    assert [*read_config(file).options.servers] == ["a"]
    file.chmod(0o644)
    assert [*read_client("claude-code", folder=tmp_path).options.servers] == ["a"]


@pytest.mark.skipif(sys.platform == "win32", reason="rights are lists there")
@pytest.mark.parametrize(
    ("mode", "owner", "said"),
    [
        *((0o644, 0, None), (0o644, 43210, None), (0o644, 43211, "x belongs to another user")),
        *((0o664, 0, None), (0o664, 43210, "others may write to x"), (0o646, 0, "others may write to x")),
    ],
)
def test_a_file_must_be_ones_own_or_the_systems(
    monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, said: str | None
):
    monkeypatch.setattr(os, "geteuid", lambda: 43210)
    status = os.stat_result((0o100000 | mode, 0, 0, 1, owner, owner, 0, 0, 0, 0))
    with pytest.raises(PermissionError, match=said) if said else nullcontext():
        check_found_file(Path("x"), status)
