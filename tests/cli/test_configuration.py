"""`codecall add`, `remove` and `clients`: configurations that commands change."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from codecall.cli import exit_codes as exits
from codecall.gateway.config.codecall_toml import remove_server
from tests.cli.conftest import LISTED, CommandLine
from tests.cli.terminal import typed_at_terminal

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def servers(folder: Path) -> dict[str, object]:
    """The servers that the folder's configuration has."""
    return tomllib.loads((folder / "codecall.toml").read_text()).get("servers", {})


def test_servers_are_added_used_and_removed(cli: CommandLine) -> None:
    listing = cli.write("shop.json", json.dumps({"name": "shop", "tools": [{"name": "a", "inputSchema": {}}]}))
    ran = cli("add", "shop", "--env", f"GITHUB_TOKEN={TOKEN}", "--", sys.executable, str(LISTED), str(listing))
    assert ran.code == exits.OK
    assert TOKEN not in ran.out + ran.err + (cli.folder / "codecall.toml").read_text()
    assert "GITHUB_TOKEN" in ran.err
    assert cli("add", "crm", "https://crm.example.com/mcp").code == exits.OK
    assert cli("add", "dash", "--", "uvx", "mcp-server-git", "--repository", "a folder", "-v").code == exits.OK
    assert servers(cli.folder) == {
        "shop": {
            "command": sys.executable,
            "args": [str(LISTED), str(listing)],
            "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"},
        },
        "crm": {"url": "https://crm.example.com/mcp"},
        "dash": {"command": "uvx", "args": ["mcp-server-git", "--repository", "a folder", "-v"]},
    }
    assert cli("remove", "dash").code == cli("remove", "crm", "--json").code == exits.OK
    assert list(servers(cli.folder)) == ["shop"]
    # It counts without being named: its user wrote it with a command.
    document = cli("tools", "--json").json
    assert "UNTRUSTED_CONFIGURATION" not in str(document)
    assert [server["name"] for server in document["servers"]] == ["shop"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("add", "shop"), "USAGE"),
        (("add", "shop", "--", "other"), "EXISTS_ALREADY"),
        (("add", "a b", "--", "other"), "INVALID_OPTIONS"),
        (("add", "crm", "https://crm.example.com/mcp", "--header", "Authorization"), "USAGE"),
        (("add", "crm", "https://crm.example.com/mcp", "--env", f"TOKEN={TOKEN}"), "USAGE"),
        (("add", "git", "--header", "X-Team=a", "--", "git-mcp"), "USAGE"),
        (("remove", "nosuch"), "NOT_FOUND"),
        (("remove", "shop", "--config", "other.json"), "CANNOT_WRITE"),
        (("clients", "write", "notepad", "--yes"), "INVALID_OPTIONS"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(cli: CommandLine, words: tuple[str, ...], code: str) -> None:
    path = cli.write("codecall.toml", '[servers.shop]\ncommand = "x"\n')
    assert cli("trust").code == exits.OK
    before = path.read_text()
    ran = cli(*words, "--json") if "--" not in words else cli(words[0], "--json", *words[1:])
    assert ran.json["error"]["code"] in (code, "USAGE")
    assert ran.code != exits.OK
    assert path.read_text() == before


def test_headers_of_a_server_are_added_and_secrets_of_them_are_not(cli: CommandLine) -> None:
    given = ("Authorization=Bearer ${CRM_TOKEN}", "X-Team: blue", f"X-Api-Key={TOKEN}")
    ran = cli("add", "crm", "https://crm.example.com/mcp", *(word for each in given for word in ("--header", each)))
    assert ran.code == exits.OK
    assert servers(cli.folder) == {
        "crm": {
            "url": "https://crm.example.com/mcp",
            "headers": {"Authorization": "Bearer ${CRM_TOKEN}", "X-Team": "blue", "X-Api-Key": "${CRM_X_API_KEY}"},
        }
    }
    assert "CRM_X_API_KEY" in ran.err
    assert TOKEN not in ran.out + ran.err + (cli.folder / "codecall.toml").read_text()


def test_a_rest_api_is_added_by_its_document(cli: CommandLine) -> None:
    document = cli.write("docs/pets.yaml", "openapi: 3.1.0\n")
    url = "https://shop.example.com/openapi.json"
    more = ("--base-url", "https://shop.example.com/v2", "--header", f"X-Api-Key={TOKEN}")
    assert cli("add", "pets", "--openapi", "docs/pets.yaml").code == exits.OK
    ran = cli("add", "shop", "--openapi", url, *more)
    assert ran.code == exits.OK, ran.err
    assert servers(cli.folder) == {
        "pets": {"openapi": str(document)},
        "shop": {
            "openapi": url,
            "base_url": "https://shop.example.com/v2",
            "headers": {"X-Api-Key": "${SHOP_X_API_KEY}"},
        },
    }
    assert "SHOP_X_API_KEY" in ran.err
    assert TOKEN not in ran.out + ran.err + (cli.folder / "codecall.toml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("https://x.example/openapi.json",), "Give it with --openapi"),
        (("https://x.example/v1/swagger.json?v=2",), "Give it with --openapi"),
        (("https://x.example/shop-openapi.YAML",), "Give it with --openapi"),
        (("openapi.json",), "--openapi"),
        ((), "codecall add api --openapi PATH_OR_URL"),
        (("--openapi", "nowhere.json"), "nowhere.json is no file"),
        (("--openapi", "https://x.example/a.json", "--env", "A=b"), "has no environment"),
        (("https://x.example/mcp", "--openapi", "https://x.example/a.json"), "is left over"),
        (("https://x.example/mcp", "--base-url", "https://x.example"), "--base-url belongs to --openapi"),
    ],
)
def test_a_rest_api_is_not_taken_for_an_mcp_server(cli: CommandLine, words: tuple[str, ...], said: str) -> None:
    ran = cli("add", "api", *words, "--json")
    assert ran.code == exits.exit_for("USAGE")
    assert said in f"{ran.json['error']['message']} {ran.json['error'].get('hint')}"
    assert not (cli.folder / "codecall.toml").exists()


def test_an_mcp_server_may_be_called_after_openapi(cli: CommandLine) -> None:
    assert cli("add", "api", "https://openapi.json.example.com/openapi/mcp").code == exits.OK
    assert cli("add", "API", "--openapi", "https://x.example/a.json", "--json").json["error"]["code"] == "USAGE"


def test_what_nobody_trusted_is_not_trusted_by_a_change(cli: CommandLine) -> None:
    cli.write("codecall.toml", '[servers.theirs]\ncommand = "x"\n')
    assert cli("add", "mine", "--config", "codecall.toml", "--", "y").code == exits.OK
    assert cli("tools", "--json").json["error"]["code"] == "UNTRUSTED_CONFIGURATION"


def test_a_removal_leaves_the_rest_as_it_was() -> None:
    text = (
        '# mine\nname = "x"\n\n[servers.a]\ncommand = "a"  # why\n[servers.a.access]\nread_only = true\n'
        '[servers.ab]\ncommand = """\n[servers.a]\n"""\n[expose]\nmode = "always"\n'
    )
    assert remove_server(text, "a") is None  # what looks like a head is a text here
    text = text.replace('"""\n[servers.a]\n"""', '"ab"')
    assert remove_server(text, "a") == (
        '# mine\nname = "x"\n\n[servers.ab]\ncommand = "ab"\n[expose]\nmode = "always"\n'
    )
    assert remove_server('servers = { a = { command = "a" } }\n', "a") is None
    assert remove_server('[servers.a]\ncommand = "a"\n', "b") is None


COMMENTED = """\
# What we use.

# Of the whole team.
# Ask ann.
[servers.git]
# its program
command = "git-mcp"
args = [
  # verbose
  "-v",
]
# env = { A = "b" }

# [servers.old]
# command = "old"

# of git, too
[servers.git.access]
read_only = true
[[servers.git.approvals]]
tools = ["push"]
# The following is for CRM; keep!
[servers.crm]
command = "crm-mcp"

# [servers.last]
"""


def test_a_removal_takes_the_comments_of_the_server_and_leaves_those_of_others() -> None:
    without_git = """\
# What we use.

# [servers.old]
# command = "old"

# The following is for CRM; keep!
[servers.crm]
command = "crm-mcp"

# [servers.last]
"""
    assert remove_server(COMMENTED, "git") == without_git
    assert remove_server(without_git, "crm") == (
        '# What we use.\n\n# [servers.old]\n# command = "old"\n\n# [servers.last]\n'
    )
    assert remove_server('# all\n\n[servers.crm]\ncommand = "x"\n', "crm") == "# all\n"
    assert remove_server('[servers.crm]\ncommand = "x"\n', "crm") == ""


def test_init_without_other_clients_writes_a_template(cli: CommandLine) -> None:
    ran = cli("init", "--yes")
    assert ran.code == exits.OK
    assert "codecall add NAME" in ran.err
    # There is no client to take servers out of.
    assert "Take the servers out there" not in ran.err
    text = (cli.folder / "codecall.toml").read_text()
    assert "# [servers.git]" in text
    assert servers(cli.folder) == {}
    examples = text[text.index("# [servers.git]") :].replace("# ", "")
    assert set(tomllib.loads(examples)["servers"]) == {"git", "issues", "shop"}
    assert cli("add", "git", "--", "git-mcp").code == exits.OK
    assert "# [servers.git]" in (cli.folder / "codecall.toml").read_text()
    assert list(servers(cli.folder)) == ["git"]


def test_clients_get_the_gateway_and_a_backup(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.write("codecall.toml", '[servers.shop]\ncommand = "x"\n')
    assert cli("trust").code == exits.OK
    other = {"mcpServers": {"git": {"command": "git-mcp"}}, "theme": "dark"}
    file = cli.write("../home/.cursor/mcp.json", json.dumps(other)).resolve()
    file.chmod(0o644)
    assert cli("clients").rows == [["Cursor", "1 server", "no", str(file)]]
    assert cli("clients", "write", "--json").json["error"]["code"] == "USAGE"
    ended, shown = typed_at_terminal(["clients", "write"], ["\x04"], "(y)", cli.folder, dict(os.environ))
    assert (ended, " ".join(shown.split()).endswith(f"{file} stays as it is")) == (exits.FAILED, True), shown
    monkeypatch.setattr("builtins.input", lambda *_: "n")
    assert cli("clients", "write", terminal=True).code == exits.FAILED
    assert json.loads(file.read_text()) == other
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    assert cli("clients", "write", "cursor", terminal=True).code == exits.OK
    document = json.loads(file.read_text())
    entry = document["mcpServers"].pop("codecall")
    assert entry["args"] == ["serve", "--config", str(cli.folder / "codecall.toml")]
    assert document == other
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert json.loads(file.with_name("mcp.json.backup-1").read_text()) == other
    assert "has the gateway already" in cli("clients", "write", "--yes").err
    assert cli("clients", "--json").json["clients"][0]["hasGateway"] is True


def test_what_a_person_filled_in_stays_when_the_gateway_is_written_again(cli: CommandLine) -> None:
    config = cli.write("gateway.toml", '[servers.a]\ncommand = "x"\nenv = { A = "${A}" }\n')
    write = ("clients", "write", "cursor", "--yes", "--config", str(config))
    file = cli.write("../home/.cursor/mcp.json", "{}").resolve()
    ran = cli(*write)
    assert "In place of … write the values there: A" in ran.err
    document = json.loads(file.read_text())
    entry = document["mcpServers"]["codecall"]
    entry.update(env={"A": "mine", "LANG": "C"}, disabled=True, timeout=5, args=[*entry["args"], "--read-only"])
    file.write_text(json.dumps(document))
    before = file.read_text()
    again = cli(*write)
    assert (again.code, "has the gateway already" in again.err, "In place of" in again.err) == (exits.OK, True, False)
    assert file.read_text() == before
    # Of what changed only that is set.
    config.write_text('[servers.a]\ncommand = "x"\nenv = { A = "${A}", B = "${B}" }\n')
    entry["command"] = "/old/bin/codecall"
    file.write_text(json.dumps(document))
    ran = cli(*write)
    assert "write the values there: B" in ran.err
    written = json.loads(file.read_text())["mcpServers"]["codecall"]
    assert written["command"] != "/old/bin/codecall"
    assert written == {**entry, "command": written["command"], "env": {**entry["env"], "B": "…"}}
    # Under another name it is the gateway, too.
    file.write_text(json.dumps({"mcpServers": {"all": written}}))
    assert "has the gateway already" in cli(*write).err


def test_a_file_with_comments_keeps_them_and_one_that_cannot_be_written_stops_no_other(cli: CommandLine) -> None:
    cli.write("codecall.toml", '[servers.shop]\ncommand = "x"\n')
    assert cli("trust").code == exits.OK
    other = '{\n  "mcpServers": {"codecall": {"command": "another"}}\n}'
    desktop = cli.write("../home/.config/Claude/claude_desktop_config.json", other).resolve()
    cursor = cli.write("../home/.cursor/mcp.json", '{\n  "mcpServers": {\n    // mine\n  },\n}\n').resolve()
    vscode = cli.write("../home/.config/Code/User/mcp.json", '{\n  "servers": 3\n}').resolve()
    ran = cli("clients", "write", "claude-desktop", "cursor", "vscode", "--yes")
    assert ran.code == exits.FAILED
    assert "// mine" in cursor.read_text()
    assert desktop.read_text() == other
    said = " ".join(ran.err.split())
    assert f"{desktop} stays as it is: it has another server that is called codecall" in said
    assert f"{vscode} stays as it is: servers in it is no object" in said
    assert '"mcpServers"' in said
    assert "Restart these clients." in said
    assert [each["hasGateway"] for each in cli("clients", "list", "cursor", "--json").json["clients"]] == [True]
    document = cli("clients", "write", "claude-desktop", "cursor", "--yes", "--json").json
    assert document["written"] == []
    assert [(each["client"], each["path"]) for each in document["left"]] == [("claude-desktop", str(desktop))]


def test_where_no_client_has_servers_clients_says_so(cli: CommandLine) -> None:
    ran = cli("clients")
    assert (ran.code, ran.out, ran.err) == (exits.OK, "", "No other client keeps servers here\n")
    assert cli("clients", "list", "cursor").err == "There is no file of Cursor here\n"
    assert cli("clients", "--json").json == {"clients": []}


GIT = {"git": {"command": "git-mcp"}}
"""What a client has."""


@pytest.mark.parametrize(
    ("users", "project", "file"),
    [
        (None, None, "../home/.claude.json"),
        ({"mcpServers": GIT}, None, "../home/.claude.json"),
        ({"mcpServers": GIT}, GIT, "../home/.claude.json"),
        ({"mcpServers": {}, "projects": {}}, GIT, ".mcp.json"),
        (None, GIT, ".mcp.json"),
        (None, {}, "../home/.claude.json"),
    ],
)
def test_the_gateway_goes_where_the_servers_of_claude_code_are(
    cli: CommandLine, users: dict[str, object] | None, project: dict[str, object] | None, file: str
) -> None:
    path = cli.folder / file
    if users is not None:
        cli.write("../home/.claude.json", json.dumps(users))
    if project is not None:
        cli.write(".mcp.json", json.dumps({"mcpServers": project}))
    if project or users:
        (snippet,) = cli("init", "--yes", "--no-start", "--json").json["clients"]
        assert Path(snippet["path"]).resolve() == path.resolve()
        scope = "project" if file == ".mcp.json" else "user"
        assert snippet["command"].startswith(f"claude mcp add --scope {scope} codecall -- ")
    else:
        cli.write("codecall.toml", '[servers.git]\ncommand = "git-mcp"\n')
    there = json.loads(path.read_text()) if path.exists() else {}
    (written,) = cli("clients", "write", "claude-code", "--config", "codecall.toml", "--yes", "--json").json["written"]
    assert Path(written["path"]).resolve() == path.resolve()
    document = json.loads(path.read_text())
    assert document.get("projects") == there.get("projects")
    assert list(document["mcpServers"]) == [*there.get("mcpServers", ()), "codecall"]
    # It is found there when its user has taken the others out.
    path.write_text(json.dumps({"mcpServers": {"codecall": document["mcpServers"]["codecall"]}}))
    again = cli("clients", "write", "claude-code", "--config", "codecall.toml", "--yes")
    assert "has the gateway already" in again.err


def test_add_takes_no_other_addresses_and_says_where_options_stand(cli: CommandLine):
    assert "http:// or https://, not at ftp://" in cli("add", "bad", "ftp://x/y", "--json").json["error"]["message"]
    assert not (cli.folder / "codecall.toml").exists()
    told = cli("add", "y", "ls", "-l", "--json").json["error"]
    assert told["hint"] == "Options of the server's command stand behind --: codecall add NAME -- COMMAND…"
