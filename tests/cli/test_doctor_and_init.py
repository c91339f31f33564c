"""`codecall doctor` and `codecall init`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from codecall.cli import exit_codes as exits
from codecall.cli.commands.setup.client_files import find_clients, merge_servers
from codecall.cli.commands.setup.doctor import cache_check
from tests.cli.conftest import CommandLine
from tests.cli.terminal import typed_at_terminal
from tests.loaded_python import LoadedPython

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def clients(cli: CommandLine) -> CommandLine:
    """With files of two clients: Cursor's and Claude Code's."""
    github = {"command": "npx", "args": ["-y", "server-github"], "env": {"GITHUB_TOKEN": TOKEN}}
    time = {"command": "uvx", "args": ["mcp-server-time"]}
    other = {"command": "uvx", "args": ["another-time"]}
    cli.write("../home/.cursor/mcp.json", json.dumps({"mcpServers": {"github": github, "time": time}}))
    cli.write(".mcp.json", json.dumps({"mcpServers": {"github": github, "time": other}}))
    return cli


def test_init_writes_what_clients_have_without_their_secrets(clients: CommandLine):
    ran = clients("init", "--yes", "--json")
    assert ran.code == exits.OK
    document = ran.json
    assert set(document) == {"path", "written", "servers", "clients", "notes"}
    path = Path(document["path"])
    assert path == clients.folder / "codecall.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    servers = tomllib.loads(path.read_text())["servers"]
    assert servers["github"]["env"] == {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}
    assert [(server["name"], server["from"]) for server in document["servers"]] == [
        ("github", "claude-code"),
        ("time", "claude-code"),
        ("time_cursor", "cursor"),
    ]
    assert [each["client"] for each in document["clients"]] == ["claude-code", "cursor"]
    entry = json.loads(document["clients"][1]["text"])["mcpServers"]["codecall"]
    assert entry["args"] == ["serve", "--config", str(path)]
    assert any("GITHUB_TOKEN" in note for note in document["notes"])
    assert any("time_cursor" in note for note in document["notes"])
    assert TOKEN not in ran.out + path.read_text()
    # What was written is found without being named, once somebody has looked: some of it is the project's.
    assert any(f"has the servers of {clients.folder / '.mcp.json'}" in note for note in document["notes"])
    assert clients("tools", "--json").json["error"]["code"] == "UNTRUSTED_CONFIGURATION"
    assert clients("trust").code == exits.OK
    assert clients("tools", "nosuch", "--json").json["error"]["message"].endswith("github, time, time_cursor")


def test_init_never_writes_over_a_file_unless_told(clients: CommandLine):
    path = clients.write("codecall.toml", "# mine\n")
    ran = clients("init", "--yes", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (exits.USAGE, "EXISTS_ALREADY")
    assert path.read_text() == "# mine\n"
    ran = clients("init", "--yes", "--force", "--no-start")
    assert ran.code == exits.OK
    assert path.read_text() != "# mine\n"
    assert (clients.folder / "codecall.toml.backup-1").read_text() == "# mine\n"
    assert f"what {path} was is in {path}.backup-1" in " ".join(ran.err.split())


@pytest.mark.parametrize("name", ["x.yaml", "x.json", "x"])
def test_init_writes_toml_under_no_other_name(clients: CommandLine, name: str):
    ran = clients("init", "--yes", "-o", name, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (exits.USAGE, "USAGE")
    assert ran.json["error"]["hint"] == "--output x.toml"
    assert not (clients.folder / name).exists()


def test_init_asks_nobody_who_is_not_there(clients: CommandLine):
    ran = clients("init", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (exits.USAGE, "USAGE")
    assert not (clients.folder / "codecall.toml").exists()


@pytest.mark.parametrize(("answer", "code"), [("y", exits.OK), ("n", exits.FAILED)])
def test_init_asks_on_a_terminal(clients: CommandLine, monkeypatch: pytest.MonkeyPatch, answer: str, code: int):
    monkeypatch.setattr("builtins.input", lambda *_: answer)
    ran = clients("init", terminal=True)
    assert ran.code == code
    assert (clients.folder / "codecall.toml").exists() is (answer == "y")
    assert "github: GITHUB_TOKEN=… npx -y server-github" in ran.err
    assert TOKEN not in ran.out + ran.err


def test_nothing_typed_before_init_asks_answers_it(clients: CommandLine):
    ended, shown = typed_at_terminal(["init"], ["n\n"], "(y)", clients.folder, dict(os.environ), ahead="y\n")
    assert ended == exits.FAILED, shown
    assert "nothing was written" in shown


@pytest.mark.parametrize(
    ("key", "code", "said"),
    [("\x03", exits.INTERRUPTED, "INTERRUPTED: Interrupted"), ("\x04", exits.FAILED, "nothing was written")],
    ids=["ctrl-c", "ctrl-d"],
)
def test_ctrl_c_and_ctrl_d_at_the_question_of_init_write_nothing(cli: CommandLine, key: str, code: int, said: str):
    ended, shown = typed_at_terminal(["init"], [key], "(y)", cli.folder, dict(os.environ))
    assert (ended, said in shown.splitlines()[-1]) == (code, True), shown
    assert not (cli.folder / "codecall.toml").exists()


INTERRUPTING = "import os, signal, sys; os.kill(os.getppid(), signal.SIGINT); sys.stdin.read()"


@pytest.mark.parametrize("option", [["--json"], []])
def test_who_interrupts_init_while_it_asks_servers_is_told_what_was_written(
    cli: CommandLine, loaded_python: LoadedPython, option: list[str]
):
    entry = {"command": sys.executable, "args": ["-c", INTERRUPTING], "env": {"A_TOKEN": TOKEN}}
    cli.write("../home/.cursor/mcp.json", json.dumps({"mcpServers": {"slow": entry}}))
    words = [loaded_python.executable, "-m", "codecall.cli", "init", "--yes", *option]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "A_TOKEN": TOKEN})
    assert ended.returncode == exits.INTERRUPTED, ended
    path = cli.folder / "codecall.toml"
    assert path.exists()
    hint = f"{path} is written; `codecall tools --all` says which tools are hidden."
    if option:
        assert json.loads(ended.stdout)["error"]["hint"] == hint
        return
    assert ended.stderr.endswith(f"hint: {hint}\n")
    assert f"wrote {path}" in ended.stderr
    assert "In place of … write the value: A_TOKEN" in ended.stderr
    assert str(path) in json.loads(ended.stdout.partition("\n")[2])["mcpServers"]["codecall"]["args"]


def test_init_prints_what_it_would_write(clients: CommandLine):
    ran = clients("init", "--dry-run", "--from", "cursor", "-o", "other.toml")
    assert ran.code == exits.OK
    assert list(tomllib.loads(ran.out)["servers"]) == ["github", "time"]
    assert not (clients.folder / "other.toml").exists()
    assert "text" in clients("init", "--dry-run", "--json").json


def test_init_takes_over_a_file_and_says_where_values_go(clients: CommandLine):
    github = {"command": "npx", "args": ["other"], "env": {"GITHUB_TOKEN": TOKEN}}
    clients.write("leak.json", json.dumps({"mcpServers": {"github": github}}))
    document = clients("init", "--config", "leak.json", "--from", "cursor", "--dry-run", "--json").json
    assert [server["name"] for server in document["servers"]] == ["github", "time", "github_leak"]
    assert [each["client"] for each in document["clients"]] == ["cursor"]
    assert "GITHUB_TOKEN" in json.loads(document["clients"][0]["text"])["mcpServers"]["codecall"]["env"]
    ran = clients("init", "--config", "leak.json", "--yes", "--no-start")
    assert ran.code == exits.OK
    assert "Cursor" in ran.out
    assert "In place of … write the value: GITHUB_TOKEN" in ran.err
    assert "Claude Code must be started with it in its environment: GITHUB_TOKEN" in ran.err
    assert TOKEN not in ran.out + ran.err
    assert list(tomllib.loads((clients.folder / "codecall.toml").read_text())["servers"]) == ["github"]


def test_init_ends_with_what_is_hidden_and_what_allows_it(cli: CommandLine):
    writing = [
        {"name": name, "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}
        for name in ("write_file", "edit_file")
    ]
    cli.serve(files=["read_file", *writing], shop=["list"])
    servers = tomllib.loads((cli.folder / "codecall.toml").read_text())["servers"]
    servers["gone"] = {"command": "no-such-program"}
    cli.write("../home/.cursor/mcp.json", json.dumps({"mcpServers": servers}))
    ran = cli("init", "--yes", "--force", "--json")
    assert ran.code == exits.OK
    allow = '[servers.files.access]\ndestructive = ["write_file", "edit_file"]'
    assert ran.json["hidden"] == [
        {"server": "files", "code": "asked", "tools": ["write_file", "edit_file"], "allow": allow}
    ]
    assert any(note.startswith("gone could not be asked for its tools") for note in ran.json["notes"])
    ran = cli("init", "--yes", "--force")
    reason = "which may destroy something by what the server says"
    hidden = f"Asked for, and hidden where nobody can be asked: 2 tools of files, {reason}: write_file, edit_file.\n"
    assert hidden in ran.err
    assert ran.err.endswith(f"{allow}\n")
    path = cli.folder / "codecall.toml"
    ran = cli("savings", "files", "--json")
    assert ran.json["hidden"][0]["allow"] == allow
    assert hidden in cli("savings", "files").err
    path.write_text(f"{path.read_text()}\n{allow}\n")
    assert cli("trust").code == exits.OK
    assert cli("savings", "files", "--json").json["hidden"] == []
    assert "hidden" not in cli("init", "--yes", "--force", "--no-start", "--json").json


def test_an_empty_configuration_is_told(cli: CommandLine):
    path = cli.write("empty.toml", "")
    assert f"no servers in {path}" in cli("tools", "--config", "empty.toml").err


def test_init_where_there_is_nothing(cli: CommandLine):
    ran = cli("init", "--from", "cursor", "--yes", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (exits.FAILED, "NOTHING_FOUND")
    assert cli("init", "--from", "notepad", "--json").json["error"]["code"] == "INVALID_OPTIONS"
    path = cli.write(".mcp.json", json.dumps({"mcpServers": {"codecall": {"command": "codecall", "args": ["serve"]}}}))
    assert "no servers but the gateway" in cli("init", "--yes").err
    path.write_text("{")
    assert cli("init", "--yes", "--json").json["error"]["code"] == "NOTHING_FOUND"
    (cli.folder / "locked").mkdir()


def test_servers_that_are_the_same_in_two_clients_count_once(clients: CommandLine):
    matches = merge_servers(list(find_clients()))
    assert list(matches.options.servers) == ["github", "time", "time_cursor"]
    assert matches.origins["time_cursor"] == "cursor"


def test_doctor_looks_at_everything(clients: CommandLine):
    clients.serve(shop=["list"], empty=[])
    with (clients.folder / "codecall.toml").open("a") as file:
        program = "import sys; sys.stderr.write('no database\\n'); raise SystemExit(4)"
        file.write(f"[servers.broken]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(['-c', program])}\n")
        file.write('[servers.off]\ncommand = "nothing"\nenabled = false\n')
    assert clients("trust").code == exits.OK
    ran = clients("doctor", "--json")
    assert ran.code == exits.FAILED
    document = ran.json
    assert set(document) == {"ok", "checks"}
    assert not document["ok"]
    checks = {(check["about"], check["name"]): check for check in document["checks"]}
    assert checks["This machine", "Python"]["verdict"] == "ok"
    assert checks["Sandbox", "engine"]["said"].startswith("a script with one call takes")
    assert "landlock" in {name for about, name in checks if about == "Sandbox"}
    assert checks["Servers", "shop"]["said"].startswith("shop 1.5, 1 tool, started and listed in")
    assert checks["Servers", "empty"]["verdict"] == "warn"
    assert checks["Servers", "off"]["said"] == "is switched off"
    assert checks["Servers", "broken"]["verdict"] == "fail"
    assert "no database" in checks["Servers", "broken"]["advice"]
    assert "2 servers in" in checks["Clients", "Cursor"]["said"]
    assert TOKEN not in ran.out
    one = clients("doctor", "broken", "--json").json["checks"]
    assert [check["name"] for check in one] == ["configuration", "cache", "broken"]
    assert "no database" in one[2]["advice"]
    assert clients("doctor", "shop").code == exits.OK
    misspelt = clients("doctor", "brokn")
    assert misspelt.err.startswith("error: INVALID_OPTIONS: There is no server 'brokn'; configured: shop, ")
    assert not any((clients.folder.parent / "home").rglob("*.listing"))


def test_what_a_server_calls_itself_is_no_line_of_the_report(cli: CommandLine):
    cli.serve(shop=["list"])
    shop = cli.folder / "shop.json"
    shop.write_text(json.dumps({**json.loads(shop.read_text()), "name": "shop\n ✓ jail: whole", "version": "1\r\n2"}))
    ran = cli("doctor", terminal=True)
    assert "shop\\u000a ✓ jail: whole" in ran.out
    assert not any(line.strip().startswith("✓ jail: whole") for line in ran.out.splitlines())


def test_doctor_without_a_configuration(cli: CommandLine):
    cli.write(
        ".mcp.json", json.dumps({"mcpServers": {"codecall": {"command": "codecall"}, "git": {"command": "git-mcp"}}})
    )
    ran = cli("doctor", terminal=True)
    assert ran.code == exits.OK
    assert "codecall init" in ran.out
    assert "put them behind the gateway" in " ".join(ran.out.split())
    cli.write("codecall.toml", "[servers")
    rows = cli("doctor").rows
    assert ["fail", "Servers", "configuration"] in [row[:3] for row in rows]


def test_doctor_says_when_the_preset_asks_for_more_than_there_is(cli: CommandLine):
    ran = cli("doctor", "--preset", "nosuch")
    assert ["fail", "Sandbox", "worker"] in [row[:3] for row in ran.rows]


def test_the_cache_folder_is_looked_at(tmp_path: Path):
    assert cache_check(None).verdict == "ok"
    folder = tmp_path / "listings"
    assert cache_check(folder).verdict == "ok"
    folder.mkdir(mode=0o700)
    (folder / "a.listing").write_text("x" * 2048)
    assert cache_check(folder).detail.endswith("1 catalog, 2 KiB")
    folder.chmod(0o777)
    assert cache_check(folder).advice == f"chmod 700 {folder}"
