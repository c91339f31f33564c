"""References in configurations: what each becomes, what a missing one says, and that no value is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.errors import OptionsError
from codecall.gateway.config.options import HttpServer, OpenApiServer, StdioServer
from codecall.gateway.config.variables import (
    escape_references,
    read_env_file,
    required_variables,
    resolve_server,
    resolve_values,
)

SECRET = "s3cr3t-value-of-a-token"
ENVIRON = {"TOKEN": SECRET, "EMPTY": "", "HOST": "h.example", "CODECALL_INPUT_API_KEY": "asked"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain $TOKEN {TOKEN} $", "plain $TOKEN {TOKEN} $"),
        ("Bearer ${TOKEN}!", f"Bearer {SECRET}!"),
        ("${env:TOKEN}", SECRET),
        ("${HOST}:${HOST}", "h.example:h.example"),
        ("${NONE:-a b}", "a b"),
        ("${NONE:-}", ""),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("${env:NONE:-d}", "d"),
        ("${input:api-key}", "asked"),
        ("$${TOKEN}", "${TOKEN}"),
        ("${1} ${#a} ${a b} ${}", "${1} ${#a} ${a b} ${}"),
        ("${userHome}/x", f"{Path.home()}/x"),
        ("${workspaceFolder}${/}${workspaceFolderBasename}", f"{Path.cwd()}/{Path.cwd().name}"),
    ],
)
def test_what_a_text_becomes(text: str, expected: str):
    server = StdioServer(command="x", args=(text,))
    assert resolve_server(server, name="a", environ=ENVIRON).args == (expected,)
    assert server.args == (text,)


@given(st.text())
def test_an_escaped_text_stays(text: str):
    assert resolve_values({"a": escape_references(text)}, where="x", environ={})["a"] == text


def test_every_field_of_every_kind():
    program = StdioServer(
        command="~/bin/${HOST}", args=("--key=${OWN}",), env={"OWN": "${TOKEN}", "HOST": "own"}, cwd="~"
    )
    made = resolve_server(program, name="a", environ=ENVIRON)
    assert made.command == f"{Path.home()}/bin/own"
    assert made.args == (f"--key={SECRET}",)
    assert made.env == {"OWN": SECRET, "HOST": "own"}
    assert made.cwd == str(Path.home())
    http = HttpServer(url="https://${HOST}/mcp", headers={"A": "${TOKEN}"}, auth="${TOKEN}")
    assert resolve_server(http, name="a", environ=ENVIRON) == HttpServer(
        url="https://h.example/mcp", headers={"A": SECRET}, auth=SECRET
    )
    rest = OpenApiServer(openapi="~/${HOST}.json", base_url="https://${HOST}", headers={"A": "${TOKEN}"})
    assert resolve_server(rest, name="a", environ=ENVIRON).openapi == f"{Path.home()}/h.example.json"
    for each in (
        made,
        resolve_server(http, name="a", environ=ENVIRON),
        resolve_server(rest, name="a", environ=ENVIRON),
    ):
        assert SECRET not in repr(each)
        assert SECRET not in str(each)


def test_everything_missing_is_named_at_once():
    server = StdioServer(command="x", args=("${TOKEN}${A}", "${input:my-key}"), env={"B": "${env:B}"})
    with pytest.raises(OptionsError) as failure:
        resolve_server(server, name="git", environ=ENVIRON)
    assert failure.value.message == (
        "servers.git.env.B: environment variable B is not set; servers.git.args[0]: environment variable A is not set; "
        "servers.git.args[1]: the input my-key is asked for: environment variable CODECALL_INPUT_MY_KEY is not set"
    )
    assert failure.value.hint == "Set B, A, CODECALL_INPUT_MY_KEY in the environment codecall is started in."
    assert required_variables(server) == ("TOKEN", "A", "CODECALL_INPUT_MY_KEY", "B")


def test_the_placeholder_of_a_client_file_is_no_value():
    environ = {**ENVIRON, "KEY": "…", "OWN": "shell"}
    server = StdioServer(command="x", args=("${KEY}${KEY:-default}", "${OWN}"), env={"OWN": "…", "A": "${KEY}"})
    with pytest.raises(OptionsError) as failure:
        resolve_server(server, name="git", environ=environ)
    assert failure.value.message == (
        "servers.git.env.OWN: still has the placeholder …; "
        "servers.git.env.A: environment variable KEY still has the placeholder …; "
        "servers.git.args[0]: environment variable KEY still has the placeholder …"
    )
    assert (failure.value.hint or "").startswith("Write the value of KEY in place of … in the file of the client that")
    used = StdioServer(command="x", args=("${KEY:-default}", "${OWN}"))
    assert resolve_server(used, name="git", environ=environ).args == ("default", "shell")


def test_what_no_reference_can_mean_is_refused():
    with pytest.raises(OptionsError, match=r"servers\.a\.args\[0\]: \$\{command:pick\} means nothing here"):
        resolve_server(StdioServer(command="x", args=("${command:pick}",)), name="a", environ=ENVIRON)


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (HttpServer(url="${EMPTY}"), "servers.a.url: nothing is left of it"),
        (StdioServer(command="${EMPTY}"), "servers.a.command: nothing is left of it"),
        (HttpServer(url="https://h", headers={"K": "${LINES}"}), "servers.a.headers.K: a line break"),
        (HttpServer(url="https://h", auth="${LINES}"), "servers.a.auth: a line break"),
    ],
)
def test_values_that_cannot_be_used_are_not_shown(server: HttpServer, message: str):
    with pytest.raises(OptionsError) as failure:
        resolve_server(server, name="a", environ={**ENVIRON, "LINES": f"{SECRET}\n"})
    assert message in failure.value.message
    assert SECRET not in repr(failure.value)


@pytest.mark.parametrize("field", ["url", "openapi", "base_url"])
@pytest.mark.parametrize("text", ["${HOME}", "${workspaceFolder}", "${ODD}", "${ODD:-x}"])
def test_a_reference_moves_no_url_to_another_host(field: str, text: str):
    """A person sees the host behind the last `@`, before references are replaced."""
    url = f"https://h.example{text}@api.example/mcp"
    environ = {"HOME": "/home/a", "ODD": "?"}
    base = {"openapi": "https://h.example/a.json"} if field == "base_url" else {}
    model = HttpServer if field == "url" else OpenApiServer
    server = model.read({**base, field: url}, where="a")
    with pytest.raises(OptionsError, match=f"{field}: what its references stand for leads to another host"):
        resolve_server(server, name="a", environ=environ)


@pytest.mark.parametrize("text", ["${HOME}", "${workspaceFolder}", "${ODD}", "${ODD:-x}"])
def test_a_reference_moves_no_url_of_another_option_either(text: str):
    environ = {"HOME": "/home/a", "ODD": "?", "PASSWORD": "p@ss"}
    storage = f"redis://evil.example{text}@redis.example/0"
    with pytest.raises(
        OptionsError, match=r"rate_limits\.storage: what its references stand for leads to another host"
    ):
        resolve_values({"storage": storage}, where="rate_limits", environ=environ)
    storage = "redis://:${PASSWORD}@redis.example/0"
    assert resolve_values({"a": [storage]}, where="", environ=environ) == {"a": ["redis://:p@ss@redis.example/0"]}


@pytest.mark.parametrize("value", ["x#y", "x\\y", "x y", "x\u200by"])
def test_values_in_urls_have_no_characters_that_programs_read_differently(value: str):
    server = HttpServer.read({"url": "https://${USER}:${PW}@h.example/mcp"}, where="a")
    with pytest.raises(OptionsError, match=r"url: .*URL") as failure:
        resolve_server(server, name="a", environ={"USER": "u", "PW": value})
    assert value not in failure.value.message
    made = resolve_server(server, name="a", environ={"USER": "u", "PW": "a%23b"})
    assert made.url == "https://u:a%23b@h.example/mcp"


def test_nested_options():
    given = {"provider": "jwt", "keys": ["${TOKEN}", 3, None], "more": {"on": True, "at": "${HOST}"}}
    assert resolve_values(given, where="serve.auth", environ=ENVIRON) == {
        "provider": "jwt",
        "keys": [SECRET, 3, None],
        "more": {"on": True, "at": "h.example"},
    }
    with pytest.raises(OptionsError, match=r"serve\.auth\.keys\[0\]: environment variable TOKEN is not set"):
        resolve_values(given, where="serve.auth", environ={"HOST": "h"})


ENV_FILE = f"""\
# what the server needs

A=1
export B = two words  # and why
C='single # quoted'
D="line\\nnext \\"x\\""   # after
E=
F="two
lines"
G=a#b
TOKEN={SECRET}"""


def test_a_line_with_many_blanks_is_read_once(tmp_path: Path):
    file = tmp_path / "x.env"
    file.write_text(f"A=x{' ' * 100_000}y # {' ' * 100_000}z\nB=#\n")  # blank by blank it takes minutes
    assert read_env_file(file, where="x") == {"A": f"x{' ' * 100_000}y", "B": ""}


def test_env_files(tmp_path: Path):
    file = tmp_path / ".env"
    file.write_bytes(b"\xef\xbb\xbf" + ENV_FILE.replace("\n", "\r\n", 3).encode())
    expected = {
        "A": "1",
        "B": "two words",
        "C": "single # quoted",
        "D": 'line\nnext "x"',
        "E": "",
        "F": "two\nlines",
        "G": "a#b",
        "TOKEN": SECRET,
    }
    assert read_env_file(file, where="x") == expected
    server = StdioServer(command="x", args=("${A}",), env={"A": "own", "H": "${TOKEN}"}, env_file=str(file))
    made = resolve_server(server, name="a", environ={})
    assert made.env == {**expected, "A": "own", "H": SECRET}
    assert made.args == ("own",)
    assert made.env_file is None


@pytest.mark.parametrize("text", [f"A=1\n{SECRET}\n", f'A=1\nB="{SECRET}\n', f"A=1\na {SECRET} = 3"])
def test_an_env_file_with_something_else_in_it(tmp_path: Path, text: str):
    file = tmp_path / ".env"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(OptionsError, match=r"servers\.a\.env_file: .*\.env, line 2 is not NAME=value") as failure:
        resolve_server(StdioServer(command="x", env_file=str(file)), name="a", environ={})
    assert SECRET not in repr(failure.value)


def test_an_env_file_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(OptionsError, match=r"servers\.a\.env_file: .* cannot be read: No such file"):
        resolve_server(StdioServer(command="x", env_file=str(tmp_path / "none")), name="a", environ={})
    (tmp_path / "latin").write_bytes(b"A=\xe4")
    with pytest.raises(OptionsError, match="is not UTF-8"):
        read_env_file(tmp_path / "latin", where="x")
