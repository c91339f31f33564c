"""Configurations of other programs and our own: detected by content, translated, and never shown."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codecall.errors import OptionsError
from codecall.gateway.config.load import (
    Configuration,
    add_access_rules,
    merge_configurations,
    parse_openapi_servers,
    parse_servers,
    read_client,
    read_config,
)
from codecall.gateway.config.options import (
    AccessOptions,
    ExposeOptions,
    GatewayOptions,
    HttpServer,
    OpenApiServer,
    ServeOptions,
    StdioServer,
)
from codecall.gateway.gateway import Gateway

SECRET = "ghp_Zx81kQpLmN42vTrW90aBcDeFgHiJkLmNoPqR"
GIT = {"command": "uvx", "args": ["mcp-server-git"]}


def put(file: Path, content: object) -> Path:
    """A file with that content: a text, or data as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder of a Linux machine."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "VSCODE_PORTABLE"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_claude_desktop(tmp_path: Path):
    file = put(tmp_path / "claude_desktop_config.json", {"globalShortcut": "", "mcpServers": {"git": GIT}})
    read = read_config(file)
    assert read.options.servers == {"git": StdioServer(command="uvx", args=("mcp-server-git",))}
    assert read.files == (file,)
    assert read.notes == ()


@pytest.mark.parametrize("content", [{}, "", {"globalShortcut": ""}, {"mcpServers": {}}], ids=str)
def test_a_file_of_a_client_may_hold_no_servers(tmp_path: Path, content: object):
    assert read_config(put(tmp_path / "claude_desktop_config.json", content)).options.servers == {}


def test_claude_code_counts_the_servers_of_the_project_one_is_in(tmp_path: Path):
    project, other = tmp_path / "one", tmp_path / "two"
    (project / "deep").mkdir(parents=True)
    http = {"type": "http", "url": "https://a.example/mcp"}
    data = {
        "numStartups": 3,
        "mcpServers": {"git": GIT, "both": GIT},
        "projects": {
            str(project): {"mcpServers": {"own": http, "both": http}, "disabledMcpServers": ["git"]},
            str(other): {"mcpServers": {"far": GIT}},
        },
    }
    read = read_config(put(tmp_path / ".claude.json", data), folder=project / "deep")
    assert [*read.options.servers] == ["own", "both", "git"]
    assert isinstance(read.options.servers["both"], HttpServer)
    assert not read.options.servers["git"].enabled
    assert any("both: left out" in note for note in read.notes)


def test_claude_code_project_file_is_started_in_its_project(tmp_path: Path):
    file = put(tmp_path / "shop" / ".mcp.json", {"mcpServers": {"git": GIT, "db": {**GIT, "cwd": "./tools"}}})
    servers = read_config(file).options.servers
    assert servers["git"].cwd == str(tmp_path / "shop")
    assert servers["db"].cwd == str(tmp_path / "shop" / "tools")


def test_vscode_with_comments_and_inputs(tmp_path: Path):
    text = """\ufeff{
        // what we use
        "inputs": [
            {"id": "key", "type": "promptString", "password": true, "default": "no"},
            {"id": "place", "type": "pickString", "default": "eu"}, /* two */
        ],
        "servers": {
            "api": {
                "type": "http", "url": "https://h.example//mcp",
                "headers": {"X-Key": "${input:key}", "X-At": "${input:place}"}
            },
            "fs": {
                "command": "npx", "args": ["${workspaceFolder}/data", 3],
                "env": {"A": 1, "B": null}, "envFile": ".env", "dev": {"watch": "x"}
            },
        },
    }"""
    read = read_config(put(tmp_path / ".vscode" / "mcp.json", text))
    assert read.options.servers == {
        "api": HttpServer(
            url="https://h.example//mcp",
            transport="http",
            headers={"X-Key": "${input:key}", "X-At": "${CODECALL_INPUT_PLACE:-eu}"},
        ),
        "fs": StdioServer(
            command="npx",
            args=(f"{tmp_path}/data", "3"),
            env={"A": "1"},
            env_file=f"{tmp_path}/.env",
            cwd=str(tmp_path),
        ),
    }
    (asked,) = [note for note in read.notes if "asks for key" in note]
    assert asked.endswith("set the environment variable CODECALL_INPUT_KEY")
    assert any("fs: not used here: dev" in note for note in read.notes)
    assert any("fs: left out, as it is null: B" in note for note in read.notes)


def test_vscode_settings(tmp_path: Path):
    data = {"editor.fontSize": 12, "mcp": {"servers": {"git": GIT}}}
    assert [*read_config(put(tmp_path / "settings.json", data)).options.servers] == ["git"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"url": "https://h/x", "type": "sse"}, {"transport": "sse"}),
        ({"url": "https://h/x", "transport": "streamable-http"}, {"transport": "http"}),
        ({"url": "https://h/x", "type": "streamableHttp"}, {"transport": "http"}),
        ({"httpUrl": "https://h/x"}, {}),
        ({"serverUrl": "https://h/x"}, {}),
        ({"url": "https://h/x", "disabled": True}, {"enabled": False}),
        ({"url": "https://h/x", "enabled": False}, {"enabled": False}),
        ({"url": "https://h/x", "auth": "oauth"}, {"auth": "oauth"}),
        ({"url": "https://h/x", "oauth": {"clientId": "c"}}, {"auth": "oauth"}),
        ({"url": "https://h/x", "auth": SECRET}, {"auth": SECRET}),
        ({"url": "https://h/x", "timeout": 60_000, "description": "d"}, {"call_timeout_s": 60.0, "description": "d"}),
        ({"url": "https://h/x", "timeout": 60}, {"call_timeout_s": 60.0}),
        ({"url": "https://h/x", "includeTools": ["a"]}, {"access": AccessOptions(allow=("a",))}),
        ({"url": "https://h/x", "tools": ["*"], "disabledTools": ["b"]}, {"access": AccessOptions(deny=("b",))}),
    ],
    ids=str,
)
def test_what_clients_write_of_a_url(tmp_path: Path, entry: object, expected: dict[str, object]):
    read = read_config(put(tmp_path / "any.json", {"mcpServers": {"a": entry}}))
    assert read.options.servers == {"a": HttpServer(url="https://h/x").model_copy(update=expected)}


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        ({"type": "ws", "url": "wss://h"}, "left out: the gateway does not speak 'ws'"),
        ({"args": []}, "left out: it has neither a command nor a url, but 'args'; `codecall add NAME -- COMMAND…`"),
        ({"cmd": SECRET, "uri": SECRET}, "neither a command nor a url, but 'cmd', 'uri'; `codecall add NAME"),
        ({"disabled": False}, "left out: it has neither a command nor a url; `codecall add NAME -- COMMAND…`"),
        ({"openapi": "pets.yaml"}, "left out: its `openapi` is no whole path: `codecall add NAME --openapi …`"),
        ({"command": "codecall", "args": ["serve"]}, "left out: it is the gateway itself"),
        ({"command": "C:\\bin\\codecall.exe"}, "left out: it is the gateway itself"),
        ({"command": "uvx", "args": ["--from", "codecall[redis]", "codecall", "serve"]}, "it is the gateway itself"),
        ({"command": "/usr/bin/python3.12", "args": ["-m", "codecall.cli", "serve"]}, "it is the gateway itself"),
        ({"command": "uv", "args": ["run", "--project", "/x", "codecall", "serve"]}, "it is the gateway itself"),
        ({"command": "uvx codecall@1.0 serve"}, "it is the gateway itself"),
    ],
    ids=str,
)
def test_what_is_left_out_with_a_note(tmp_path: Path, entry: object, note: str):
    read = read_config(put(tmp_path / "any.json", {"mcpServers": {"a": entry, "git": GIT}}))
    assert [*read.options.servers] == ["git"]
    assert note in read.notes[0]
    assert SECRET not in str(read.notes)


def test_a_rest_api_in_the_file_of_another_program(tmp_path: Path):
    shop = {"openapi": "https://h/a.json", "baseUrl": "https://h/v2", "headers": {"X-Key": "${KEY}"}, "disabled": True}
    servers = {"shop": shop, "pets": {"openapi": "docs/pets.yaml"}, "git": GIT}
    read = read_config(put(tmp_path / ".mcp.json", {"mcpServers": servers}))
    assert read.options.servers == {
        "shop": OpenApiServer(
            openapi="https://h/a.json", base_url="https://h/v2", headers={"X-Key": "${KEY}"}, enabled=False
        ),
        "pets": OpenApiServer(openapi=f"{tmp_path}/docs/pets.yaml"),
        "git": StdioServer(**GIT, cwd=str(tmp_path)),
    }
    assert read.notes == ()
    (alone,) = read_config(put(tmp_path / "any.json", {"shop": shop})).options.servers.values()
    assert isinstance(alone, OpenApiServer)


def test_a_server_that_only_mentions_codecall_stays(tmp_path: Path):
    servers = {
        "a": {"command": "uvx", "args": ["mcp-server-git", "--repository", "/src/codecall"]},
        "b": {"command": "node", "args": ["/opt/codecall/server.js"]},
        "c": {"command": "C:\\Program Files\\tool.exe"},
    }
    read = read_config(put(tmp_path / "any.json", {"mcpServers": servers}))
    assert [*read.options.servers] == ["a", "b", "c"]
    assert read.notes == ()


def test_a_command_that_is_a_whole_line(tmp_path: Path):
    read = read_config(put(tmp_path / "any.json", {"mcpServers": {"a": {"command": "npx -y 'x y'"}}}))
    assert read.options.servers == {"a": StdioServer(command="npx", args=("-y", "x y"))}
    assert "words were taken" in read.notes[0]


def test_servers_at_the_top_and_a_fastmcp_file(tmp_path: Path):
    assert [*read_config(put(tmp_path / "any.json", {"git": GIT})).options.servers] == ["git"]
    file = put(tmp_path / "weather" / "fastmcp.json", {"source": {"path": "server.py"}, "deployment": {"port": 3}})
    (name,) = (servers := read_config(file).options.servers)
    assert name == "weather"
    assert servers[name].args[:4] == ("-m", "fastmcp.cli", "run", str(file))


def test_names_are_made_to_fit(tmp_path: Path):
    read = read_config(put(tmp_path / "any.json", {"mcpServers": {"My Server!": GIT, "3d": GIT, "日本": GIT}}))
    assert [*read.options.servers] == ["My_Server", "server_3d", "server"]
    assert any("My Server!: is called My_Server here" in note for note in read.notes)
    read = read_config(put(tmp_path / "any.json", {"mcpServers": {"My Server!": GIT, "My_Server": GIT}}))
    assert [*read.options.servers] == ["My_Server", "My_Server_2"]
    assert any("is called My_Server_2 here: My Server! in " in note for note in read.notes)


NEVER = {"deny": ["*"]}


@pytest.mark.parametrize(
    ("name", "content", "ignored"),
    [
        ("c.json", {"mcpServers": {"git": GIT}, "access": NEVER}, "access"),
        ("c.json", {"mcpServers": {"git": GIT}, "codecall": {"approvals": "all"}, "rateLimits": {}}, "codecall, rate"),
        ("c.json", {"mcpServers": {"git": GIT}, "servers": {"git": {**GIT, "access": NEVER}}}, "servers"),
        ("c.json", {"mcpServers": {"git": GIT}, "approvals": "all"}, "approvals"),
        ("c.json", {"mcpServers": {"git": {**GIT, "access": NEVER}}}, "git: access"),
        ("c.json", {"mcpServers": {"git": {**GIT, "readOnly": True}}}, "git: readOnly"),
        ("c.json", {"servers": {"git": {**GIT, "type": "stdio", "approvals": "all"}}}, "git: approvals"),
        ("c.json", {"git": {**GIT, "access": NEVER}}, "git: access"),
        ("settings.json", {"mcp": {"servers": {"git": GIT}, "access": NEVER}}, "mcp: access"),
        (".mcp.json", {"mcpServers": {"git": GIT}, "access": NEVER}, "access"),
        ("c.yaml", "mcpServers: {git: {command: x}}\nacces: {deny: ['*']}\n", "acces"),
        ("c.toml", "[servers.git]\ncommand='x'\nread_only=true\n[mcpServers.x]\ncommand='y'\n", "servers"),
    ],
)
def test_no_rule_of_ours_is_left_out_of_a_file_in_the_form_of_another_program(
    tmp_path: Path, name: str, content: object, ignored: str
):
    with pytest.raises(OptionsError, match=f"{re.escape(name)}: {ignored}.* would count for nothing") as failure:
        read_config(put(tmp_path / name, content))
    assert "under `servers`" in (failure.value.hint or "")


@pytest.mark.parametrize(
    "more",
    [
        {"servers": {"git": {**GIT, "type": "stdio"}}},
        {"servers": {"git": GIT}, "inputs": []},
        {"servers": {"git": GIT}, "projects": {}},
        {"servers": {"git": GIT}, "mcp": {"servers": {"other": GIT}}},
        {"servers": {"git": GIT}, "source": {"path": "server.py"}},
        {"git": GIT},
    ],
    ids=" ".join,
)
def test_a_file_with_a_rule_of_ours_is_ours_and_holds_nothing_else(tmp_path: Path, more: dict[str, object]):
    with pytest.raises(OptionsError, match=r"c\.json: .*unknown option"):
        read_config(put(tmp_path / "c.json", {**more, "access": NEVER}))


def test_rules_beside_servers_count_whatever_the_file_is_called(tmp_path: Path):
    data = {"servers": {"git": GIT}, "access": NEVER}
    for name in ("mcp.json", ".mcp.json", "claude_desktop_config.json", "c.json"):
        assert read_config(put(tmp_path / name, data)).options.access.deny == ("*",)


def test_what_else_stands_beside_servers_is_said(tmp_path: Path):
    file = put(tmp_path / "any.json", {"mcpServers": {"git": GIT}, "theme": "dark", "acces": NEVER})
    assert read_config(file).notes == (f"{file}: not used here: theme, acces (did you mean access?)",)
    typed = {"servers": {"git": {**GIT, "type": "stdio"}}, "vm": {"preset": "secure"}}
    assert read_config(put(file, typed)).notes == (f"{file}: not used here: vm",)


TOML = f"""
name = "shop"
cache_dir = "cache"
codecall = {{ vm = {{ preset = "balanced" }} }}
[access]
read_only = true
[expose]
mode = "always"
[serve]
transport = "http"
auth = {{ provider = "jwt", public_key = "{SECRET}" }}
[servers.git]
command = "uvx"
args = ["mcp-server-git"]
cwd = "repo"
callTimeoutS = 5
[servers.api]
url = "https://a.example/mcp"
auth = "oauth"
[servers.pets]
openapi = "pets.yaml"
access = {{ allow = ["get_*"] }}
"""


def test_our_own_formats_say_the_same(tmp_path: Path):
    import tomllib

    import yaml

    data = tomllib.loads(TOML)
    read = [
        read_config(put(tmp_path / name, text)).options
        for name, text in {"c.toml": TOML, "c.json": json.dumps(data), "c.yaml": yaml.safe_dump(data)}.items()
    ]
    assert read[0] == read[1] == read[2]
    options = read[0]
    assert options.servers == {
        "git": StdioServer(command="uvx", args=("mcp-server-git",), cwd=f"{tmp_path}/repo", call_timeout_s=5.0),
        "api": HttpServer(url="https://a.example/mcp", auth="oauth"),
        "pets": OpenApiServer(openapi=f"{tmp_path}/pets.yaml", access=AccessOptions(allow=("get_*",))),
    }
    assert options.cache_dir == f"{tmp_path}/cache"
    assert options.access.read_only
    assert SECRET not in repr(options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nam = 1", "c.toml: nam: unknown option; known here: name, "),
        ("nam = 1", "(did you mean name?)"),
        ("[servers.a]\ncommand='x'\nenvv={A='SECRET'}", "c.toml: servers.a.envv: unknown option"),
        ("[servers.a]\ncommand='x'\nenv={A=1}", "env.A: a text is needed, not a whole number: write it in quotes"),
        ("[servers.a]\ncommand='x'\nenv={A=true}", "env.A: a text is needed, not true: write it in quotes"),
        ("[servers.a]\ncommand='x'\nenv={A=2026-11-22}", "env.A: a text is needed, not a date: write it in quotes"),
        ("[servers.a]\ncommand='x'\nargs=['-p', 1.5]", "args.1: a text is needed, not a decimal number: write it in"),
        ("[servers.a]\ncommand=['x']", "c.toml: servers.a.command: a text is needed, not a list"),
        ("[servers.a]\ncommand='x'\nenabled='false'", "enabled: true or false is needed, not a text: write it without"),
        ("[servers.a]\ncommand='x'\nidle_s='5m'", "c.toml: servers.a.idle_s: a number is needed, not a text"),
        ("[serve]\nport='80'", "c.toml: serve.port: a whole number is needed, not a text: write it without quotes"),
        ("[serve]\nport=80.5", "c.toml: serve.port: a whole number is needed, not a decimal number"),
        ("port=80", "c.toml: port: unknown option; known here: name, "),
        ("port=80", "(did you mean serve.port?)"),
        ("[servers.a]\ncommand='x'\nread_only=true", "(did you mean access.read_only?)"),
        (
            "starlark='true'",
            "c.toml: starlark: true, false or a mapping is needed, not a text: write it without quotes",
        ),
        ("cache_dir=true", "c.toml: cache_dir: a text or false is needed, not true"),
        ("[servers.a]\ncommand='x'\nenv='SECRET'", "c.toml: servers.a.env: "),
        ("[servers.a]\nurl='x'\nheaders=['SECRET']", "c.toml: servers.a.headers: "),
        ("[servers.a]\nurl='x'\nauth=['SECRET']", "c.toml: servers.a.auth: "),
        ("[servers.a]\nurl='x'\ntransport='SECRET'", "c.toml: servers.a.transport: Input should be 'http' or 'sse'"),
        ("[serve]\nauth='SECRET'", "c.toml: serve.auth: "),
        ("[servers.a]\nurl='x'\ncommand='y'", "exactly one of command, url and openapi is needed, command and url"),
        ("[servers.a]\nargs=['SECRET']", "needed, none is given"),
        ("[servers.a]\ncomand='SECRET'", "none is given; unknown: comand (did you mean command?)"),
        ("[servers.a]\ncommand='x'\nargs='SECRET'", 'a.args: a list is needed, such as ["--local-timezone", "UTC"]'),
        ("[servers.a]\ncommand='x'\naccess={alow=['b']}", "servers.a.access.alow: unknown option; known here: allow,"),
        ("[servers.a]\ncommand='x'\naccess={read_only=true, readOnly=true}", "servers.a.access.read_only: given twice"),
        ("[servers.a]\ncommand='x'\nidle_s=1\nidleS=2", "servers.a.idle_s: given twice"),
        ("[servers.'a b']\ncommand='x'", "c.toml: servers.a b: is no name of a server; a_b would be one"),
        ("expose='SECRET'", 'c.toml: expose: a table is needed, such as expose = { mode = "always" }'),
        ("compositeTools=['SECRET']", 'a table is needed, such as composite_tools = { paths = ["tools"] }'),
        ("codecall='SECRET'", "c.toml: codecall: a table is needed, such as codecall = { vm = "),
        ("rate_limits=['SECRET']", "c.toml: rate_limits: a table is needed, such as rate_limits = { rules = "),
        (
            "expose={mode='sometimes'}",
            "c.toml: expose.mode: Input should be 'auto', 'always' or 'never' (got 'sometimes')",
        ),
        ("servers=['SECRET']", "c.toml: servers: a table of servers by name is needed"),
        ("[servers]\na='SECRET'", "c.toml: servers.a: a table is needed"),
        ("[servers.a]\ncommand='x'\nenv={A='SECRET'", "c.toml: not TOML"),
        ("a='SECRET'\na='SECRET'\n", "c.toml: not TOML: Cannot overwrite a value (at line 2, "),
    ],
)
def test_what_is_wrong_in_our_files_is_named_and_not_shown(tmp_path: Path, text: str, message: str):
    with pytest.raises(OptionsError) as failure:
        read_config(put(tmp_path / "c.toml", text.replace("SECRET", SECRET)))
    assert message in failure.value.message
    assert SECRET not in f"{failure.value!r} {failure.value.hint} {failure.value.__cause__!r}"


@pytest.mark.parametrize("value", ["'SECRET'", "3", "{all=true}"])
def test_an_option_of_several_types_is_explained_once(tmp_path: Path, value: str) -> None:
    with pytest.raises(OptionsError) as failure:
        read_config(put(tmp_path / "c.toml", f"[access]\ndestructive={value.replace('SECRET', SECRET)}"))
    kind = {"3": ", not a whole number", "{all=true}": ", not a mapping"}.get(value, "")
    needed = """true, false, 'ask' or a list such as ["delete_draft"] is needed"""
    assert failure.value.message == f"{tmp_path}/c.toml: access.destructive: {needed}{kind}"


def test_what_is_wrong_in_one_of_several_types_is_said_of_that(tmp_path: Path) -> None:
    with pytest.raises(OptionsError) as failure:
        read_config(put(tmp_path / "c.toml", "[access]\ndestructive=['a', 3]"))
    place = f"{tmp_path}/c.toml: access.destructive.1"
    assert failure.value.message == f"{place}: a text is needed, not a whole number: write it in quotes"


def test_a_text_without_quotes_is_told_of_them(tmp_path: Path) -> None:
    with pytest.raises(OptionsError) as failure:
        read_config(put(tmp_path / "c.toml", "name = shop"))
    assert failure.value.hint == 'Texts stand in quotes: key = "text".'


def test_an_option_of_the_plugin_at_the_top_of_our_file_is_sent_to_its_table(tmp_path: Path):
    with pytest.raises(OptionsError) as failure:
        read_config(put(tmp_path / "c.toml", "approvals='writes'"))
    assert failure.value.hint == "Under [codecall] there is approvals."


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "[rate_limits]\nper_minute=3",
            "c.toml: [rate_limits] rules: missing; per_minute: unknown option",
            "rate_limits = {",
        ),
        ("[codecall]\ntop_k='many'", "c.toml: [codecall] top_k: a whole number is needed (got 'many')", ""),
        ("[codecall]\npreset='secure'", "c.toml: [codecall] preset: set it as", ""),
        ("[codecall]\nrate_limits={per_minute=3}", "c.toml: [codecall] rate_limits: ", "at its top: [rate_limits]"),
        (
            "[codecall]\ncomposite_tools='a'",
            'c.toml: [codecall] composite_tools: a list is needed, such as ["tools"]',
            "",
        ),
    ],
)
def test_what_is_wrong_in_a_table_that_the_gateway_reads_names_file_and_table(
    tmp_path: Path, text: str, message: str, hint: str
):
    read = read_config(put(tmp_path / "c.toml", text))
    for options in (read.options, merge_configurations([read]).options):
        with pytest.raises(OptionsError) as failure:
            Gateway(options)
        assert message in failure.value.message
        assert hint in (failure.value.hint or "")


def test_yaml_is_read_as_version_1_2_has_it(tmp_path: Path):
    text = "servers: {no: {command: run, args: [on, 1:30, 2020-01-01], env: {GEO: NO}}}\naccess: {read_only: true}\n"
    options = read_config(put(tmp_path / "c.yaml", text)).options
    assert options.access.read_only
    server = options.servers["no"]
    assert isinstance(server, StdioServer)
    assert (server.args, server.env) == (("on", "1:30", "2020-01-01"), {"GEO": "NO"})


def test_what_is_merged_may_have_merged_something_itself(tmp_path: Path):
    text = """
servers:
  a: &a {command: run, args: [a]}
  b: &b {<<: *a, args: [b]}
  c: {<<: *b}
"""
    servers = read_config(put(tmp_path / "c.yaml", text)).options.servers
    assert [server.args for server in servers.values() if isinstance(server, StdioServer)] == [("a",), ("b",), ("b",)]


LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [" + f"*a{n - 1}," * 9 + "]\n" for n in range(1, 10))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.json", '{"mcpServers": {"a": {"command": "SECRET}}', "c.json: not JSON, line 1"),
        ("c.json", '{"a": 1, "a": "SECRET"}', "the key 'a' stands twice in one object"),
        ("c.json", "[" * 100_000, "c.json: "),
        ("c.json", '["SECRET"]', "c.json: a mapping is needed, a list is there"),
        (
            "c.yaml",
            "a: 'SECRET\n",
            "c.yaml: not YAML, line 1, column 4: while scanning a quoted scalar, ",
        ),
        (
            "c.yaml",
            "a: 1\nb: [SECRET\n",
            "line 2, column 4: while parsing a flow sequence, expected ',' or ']', but got the end of the file",
        ),
        ("c.yaml", "a: *SECRET\n", "c.yaml: not YAML, line 1, column 4: found undefined alias …"),
        ("c.yaml", "a:\n\tb: SECRET\n", "line 2, column 1: while scanning for the next token, found character '\\t'"),
        (
            "c.yaml",
            "a: {{.SECRET}}\n",
            "c.yaml: not YAML, line 1, column 5: while constructing a mapping, a ",
        ),
        ("c.yaml", "servers:\n  a: {command: x}\n  a: {command: SECRET}\n", "a key stands twice in one mapping"),
        ("c.yaml", "a: !SECRET 1\n", "c.yaml: not YAML, line 1"),
        ("c.yaml", LAUGHS, "c.yaml: is nested too deeply, or refers to itself too often"),
        ("c.yaml", "a: &a [*a]\n", "c.yaml: is nested too deeply, or refers to itself too often"),
        ("c.yaml", "a: " + "[" * 64 + "]" * 64, "c.yaml: is nested too deeply"),
        ("c.json", '{"a": ' + "[" * 64 + "]" * 64 + "}", "c.json: is nested too deeply"),
        ("c.toml", "a = " + "[" * 64 + "]" * 64, "c.toml: is nested too deeply"),
        ("c.json", " " * (1 << 20) + "{}", "c.json: is larger than 1048576 bytes"),
        ("c.json", "{" + "/*" * 500_000, "c.json: not JSON"),
        ("c.json", "{" + '"\\' * 500_000, "c.json: not JSON"),
        ("c.yaml", "1: 2\n", "c.yaml: 1: unknown option"),
        ("c.json", '{"mcpServers": ["SECRET"]}', "c.json: mcpServers: an object is needed"),
        ("c.json", '{"mcpServers": {"a": "SECRET"}}', "c.json: a: an object is needed"),
        ("c.json", '{"mcpServers": {"a": {"command": ["SECRET"]}}}', "c.json: a.command: "),
        ("c.json", '{"mcpServers": {"a": {"command": "x", "env": ["SECRET"]}}}', "c.json: a.env: "),
        ("c.json", '{"mcpServers": {"a": {"command": "x \'SECRET"}}}', "a.command: a quotation mark is not closed"),
        ("c.json", '{"servers": {}, "inputs": [{"SECRET": 1}]}', "c.json: inputs: every input needs an id"),
    ],
)
def test_malformed_files(tmp_path: Path, name: str, text: str, message: str):
    with pytest.raises(OptionsError) as failure:
        read_config(put(tmp_path / name, text.replace("SECRET", SECRET)))
    assert message in failure.value.message
    assert SECRET not in repr(failure.value)


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(OptionsError, match=r"none\.json: there is no such file"):
        read_config(tmp_path / "none.json")
    with pytest.raises(OptionsError, match="cannot be read"):
        read_config(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe4"}')
    with pytest.raises(OptionsError, match="is not UTF-8"):
        read_config(tmp_path / "latin.json")


def test_all_files_of_a_client_count_the_nearer_first(home: Path):
    project = home / "work" / "shop"
    (project / "src").mkdir(parents=True)
    shared = put(project / ".mcp.json", {"mcpServers": {"a": {"command": "project"}, "b": {"command": "project"}}})
    user = put(
        home / ".claude.json",
        {
            "mcpServers": {"a": {"command": "user"}, "b": {"command": "user"}, "c": {"command": "user"}},
            "projects": {str(project): {"mcpServers": {"a": {"command": "local"}}, "disabledMcpjsonServers": ["b"]}},
        },
    )
    read = read_client("Claude Code", folder=project / "src")
    assert {name: server.command for name, server in read.options.servers.items()} == {
        "a": "local",
        "b": "project",
        "c": "user",
    }
    assert {name for name, server in read.options.servers.items() if not server.enabled} == {"b"}
    assert set(read.files) == {shared, user}
    user.unlink()
    assert set(read_client("claude-code", folder=project).files) == {shared, user}
    assert sum("left out" in note for note in read.notes) == 3


def test_a_client_without_files_says_where_it_was_looked_for(home: Path):
    with pytest.raises(OptionsError, match=r"no configuration of Cursor was found; looked for .*mcp\.json"):
        read_client("cursor", folder=home)
    with pytest.raises(OptionsError, match="unknown client 'emacs'; known: claude-desktop"):
        read_client("emacs")


def test_merging(tmp_path: Path):
    one = read_config(put(tmp_path / "a.json", {"mcpServers": {"git": GIT}}))
    two = read_config(put(tmp_path / "b.toml", "name = 'shop'\n[servers.api]\nurl = 'https://a/mcp'"))
    merged = merge_configurations([one, two, parse_servers(["uvx mcp-server-time"])])
    assert [*merged.options.servers] == ["git", "api", "time"]
    assert merged.options.name == "shop"
    assert merged.files == (tmp_path / "a.json", tmp_path / "b.toml")
    with pytest.raises(OptionsError, match=r"servers\.git is given twice: by .*a\.json and by the command line"):
        merge_configurations([one, parse_servers(["git=uvx other"])])
    three = read_config(put(tmp_path / "c.toml", "name = 'other'"))
    with pytest.raises(OptionsError, match=r"name is given twice: by .*b\.toml and by .*c\.toml"):
        merge_configurations([two, three])
    assert merge_configurations([]) == Configuration(GatewayOptions())


@pytest.mark.parametrize(
    ("word", "name", "server"),
    [
        ("https://mcp.sentry.dev/mcp", "sentry", HttpServer(url="https://mcp.sentry.dev/mcp")),
        ("http://localhost:3000/sse", "localhost", HttpServer(url="http://localhost:3000/sse")),
        ("http://127.0.0.1/mcp?a=b", "server_127_0_0_1", HttpServer(url="http://127.0.0.1/mcp?a=b")),
        ("x=https://h/mcp", "x", HttpServer(url="https://h/mcp")),
        (
            "uvx mcp-server-git --repository '/a b'",
            "git",
            StdioServer(command="uvx", args=("mcp-server-git", "--repository", "/a b")),
        ),
        (
            "TOKEN=${T} npx -y @modelcontextprotocol/server-memory@1.2",
            "memory",
            StdioServer(command="npx", args=("-y", "@modelcontextprotocol/server-memory@1.2"), env={"TOKEN": "${T}"}),
        ),
        ("uvx --from git+x --with y mcp-time==2", "time", None),
        ("npx @playwright/mcp@latest", "playwright", None),
        ("docker run -i --rm -e TOKEN mcp/github:1", "github", None),
        ("python3.12 -m weather_mcp", "weather", None),
        ("uv --directory /x run server-files", "files", None),
        ("/opt/bin/crm-mcp-server.exe --x", "crm", None),
        ("git2=uvx mcp-server-git", "git2", None),
        ("uvx git+https://u:secret@h.example/o/mcp-server-crm.git@v1", "crm", None),
        ("uvx https://mcp.h.example/t?token=secret", "h", None),
        ("uvx --token secret srv", "uvx", None),
        ("python -c secret", "python", None),
    ],
)
def test_servers_on_the_line(word: str, name: str, server: object):
    ((found, made),) = parse_servers([word]).options.servers.items()
    assert found == name
    assert server is None or made == server


def test_files_on_the_line(tmp_path: Path):
    script = put(tmp_path / "weather" / "server.py", "")
    assert parse_servers([str(script)]).options.servers == {
        "weather": StdioServer(command=sys.executable, args=(str(script),))
    }
    assert parse_servers([f"w={put(tmp_path / 'sun.js', '')}"]).options.servers["w"].command == "node"
    spec = put(tmp_path / "pets.v1.json", {})
    assert parse_openapi_servers([str(spec)]).options.servers == {"pets": OpenApiServer(openapi=str(spec))}
    assert [*parse_openapi_servers(["https://api.shop.example/openapi.json", f"p={spec}"]).options.servers] == [
        "shop",
        "p",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.py"], "none.py: there is no such file"),
        (["x.json"], "is a file of data, no server"),
        (["uvx 'a"], "a quotation mark is not closed"),
        (["TOKEN=SECRET"], "a URL, a command or a file is needed"),
        (["uvx mcp-server-git", "uvx mcp-git"], "two servers are called git"),
    ],
)
def test_words_that_are_no_servers(words: list[str], message: str):
    with pytest.raises(OptionsError) as failure:
        parse_servers(words)
    assert message in failure.value.message
    assert "SECRET" not in failure.value.message
    with pytest.raises(OptionsError, match="is no file"):
        parse_openapi_servers(["none.json"])


def test_access_rules_on_the_line():
    own = AccessOptions(allow=("git_*",), deny=("git_reset",))
    options = GatewayOptions(servers={"git": StdioServer(command="x", access=own), "fs": StdioServer(command="y")})
    assert add_access_rules(options) is options
    changed = add_access_rules(options, deny=["*_push", "git:git_tag"], read_only=["fs"], destructive=["fs:move"])
    assert changed.servers["git"].access == AccessOptions(allow=("git_*",), deny=("git_reset", "*_push", "git_tag"))
    assert changed.servers["fs"].access == AccessOptions(deny=("*_push",), read_only=True, destructive=("move",))
    assert changed.access == AccessOptions(deny=("*_push",))
    everything = add_access_rules(options, allow=["*:a:b"], read_only=True, destructive=True)
    assert everything.servers["git"].access == AccessOptions(
        allow=("a:b",), deny=("git_reset",), read_only=True, destructive=True
    )
    for rules in ({"deny": ["gti:push"]}, {"read_only": ["gti"]}):
        with pytest.raises(OptionsError, match="there is no server 'gti'; known: git, fs"):
            add_access_rules(options, **rules)


def test_the_page_names_every_option():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "gateway.md").read_text(encoding="utf-8")
    rows = page.partition("| option | default |")[2].partition("\n\n")[0]
    parts = {
        "": GatewayOptions,
        "servers.*.": (StdioServer, HttpServer, OpenApiServer),
        "access.": AccessOptions,
        "expose.": ExposeOptions,
        "serve.": ServeOptions,
    }
    named: dict[str, set[str]] = {prefix: set() for prefix in parts}
    for row in rows.splitlines()[2:]:
        first, *others = re.findall(r"`([^`]+)`", row.split("|")[1])
        prefix = max((prefix for prefix in parts if first.startswith(prefix)), key=len)
        named[prefix] |= {first.removeprefix(prefix), *others}
    for prefix, models in parts.items():
        fields = {name for model in (models if isinstance(models, tuple) else (models,)) for name in model.model_fields}
        assert named[prefix] == fields, prefix


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just(SECRET) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(
    [
        "command",
        "args",
        "env",
        "url",
        "type",
        "headers",
        "auth",
        "oauth",
        "timeout",
        "tools",
        "cwd",
        "envFile",
        "disabled",
        "description",
        "includeTools",
        "excludeTools",
        "openapi",
        "access",
        "transport",
    ]
)
ENTRIES = st.dictionaries(KEYS, ANYTHING, max_size=4) | ANYTHING
DOCUMENTS = st.dictionaries(
    st.sampled_from(["mcpServers", "servers", "inputs", "projects", "source", "mcp", "serve", "access", "codecall"]),
    st.dictionaries(st.text(max_size=4), ENTRIES, max_size=2) | ANYTHING,
    max_size=3,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DOCUMENTS, st.sampled_from(["c.json", ".claude.json", "mcp.json"]))
def test_whatever_a_file_holds_is_read_or_refused_without_showing_a_secret(tmp_path: Path, document: object, name: str):
    try:
        said = "".join(read_config(put(tmp_path / name, document)).notes)
    except OptionsError as failure:
        said = f"{failure!r} {failure.hint}"
    assert SECRET[:20] not in said


def test_all_that_is_wrong_in_our_file_is_told_at_once(tmp_path: Path) -> None:
    text = "[servers.a]\nurll='x'\n[servers.b]\ncommand='c'\nargs=1\n[expose]\nmode='no'\n[serve]\nport='x'\n"
    file = put(tmp_path / "c.toml", f"{text}[access]\nbogus=1")
    with pytest.raises(OptionsError) as refused:
        read_config(file)
    said = refused.value.message
    places = ("servers.a: ", "servers.b.args: ", "expose.mode: ")
    assert [said.count(f"{file}: {place}") for place in places] == [1, 1, 1]
    assert "serve.port: a whole number is needed, not a text" in said
    assert "access.bogus: unknown option" in said


def test_all_that_is_wrong_in_the_table_of_the_plugin_is_told_at_once(tmp_path: Path) -> None:
    text = "[codecall]\ntop_k=0\ntimeout_ms=5\nvm={preset='fast', timeoutt_ms=1}\nmode='some'\nbogus=1\nbogus2=2\n"
    file = put(tmp_path / "c.toml", f"{text}approvals='x'")
    with pytest.raises(OptionsError) as refused:
        Gateway(read_config(file).options)
    said = [part.partition(": ")[0] for part in refused.value.message.split("; ")]
    assert said[0] == str(file)
    for place in ("approvals", "vm.preset", "vm.timeoutt_ms", "top_k", "mode", "bogus", "bogus2"):
        assert place in said, refused.value.message
    assert refused.value.message.count("tool_name_separator") == 1


@pytest.mark.parametrize(
    ("name", "text", "program"),
    [
        ("config.toml", '[mcp_servers.git]\ncommand = "uvx"\n', "Codex"),
        ("settings.json", '{"theme": "x", "context_servers": {"git": {"command": "uvx"}}}', "Zed"),
        ("opencode.json", '{"mcp": {"git": {"type": "local", "command": ["uvx"]}}}', "opencode"),
        ("config.yaml", "extensions:\n  git: {type: stdio, cmd: uvx}\n", "Goose"),
    ],
)
def test_a_file_of_another_client_is_told_to_be_one(tmp_path: Path, name: str, text: str, program: str):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(OptionsError, match=f"this is a file of {program}, which is not read") as refused:
        read_config(file)
    assert "codecall add NAME" in (refused.value.hint or "")


def test_a_plain_variable_is_said_to_stay(tmp_path: Path):
    file = tmp_path / "settings.json"
    file.write_text('{"mcpServers": {"git": {"command": "git", "env": {"A": "$KEY", "B": "${KEY}"}}}}')
    notes = read_config(file).notes
    assert notes == (f"{file}: git: passed on as it stands, since only ${{NAME}} is replaced and not $NAME: A",)
