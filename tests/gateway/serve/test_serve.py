"""`codecall serve` as a process: over stdio and HTTP, from its start to each of its ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.auth import BearerAuth
from fastmcp.server.auth.providers.jwt import RSAKeyPair

from codecall.gateway.serve.serve import MAX_MESSAGE_CHARS, BoundedFormatter
from tests.gateway.requests import INITIALIZED, initialize, request
from tests.loaded_python import LoadedPython

SERVER = Path(__file__).parents[3] / "benchmarks" / "many_tools.py"
SILENT = Path(__file__).parents[1] / "servers" / "silent.py"
STUBBORN = Path(__file__).parents[1] / "servers" / "stubborn.py"
TOKEN = "a token of twenty characters"


class Served:
    """A gateway that runs, spoken to line by line."""

    def __init__(self, python: str, folder: Path, *words: str, start: tuple[str, str] = ("-m", "codecall.cli")) -> None:
        config = folder / "mcp.json"
        if not config.exists():
            server = {"command": sys.executable, "args": ["-IS", str(SERVER), "alpha", "30"]}
            config.write_text(json.dumps({"mcpServers": {"alpha": server}}))
        command = [python, *start, "serve", "--config", str(config), "--cache-dir", str(folder / "cache")]
        self.process = subprocess.Popen(
            [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def say(self, *messages: bytes) -> None:
        """Send messages."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(messages).decode())
        self.process.stdin.flush()

    def hear(self, number: int) -> dict[str, Any]:
        """The answer to that request."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if json.loads(line).get("id") == number:
                return json.loads(line)
        raise AssertionError(self.end())

    def end(self) -> tuple[int, str, str]:
        """Close its input; its exit code, and what else it said and logged."""
        said, logged = self.process.communicate(timeout=30)
        return self.process.returncode, said, logged


@pytest.fixture
def ended() -> Iterator[list[Served]]:
    """Gateways to be killed if a test fails."""
    served: list[Served] = []
    yield served
    for each in served:
        each.process.kill()
        each.process.communicate()


CALL = {"name": "codecall_invoke", "arguments": {"tool": "alpha_get_customer_5", "input": {"id": "7"}}}


def test_over_stdio_with_and_without_kept_listings(loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]):
    answers: list[list[dict[str, Any]]] = []
    for start in ("nothing kept", "kept"):
        served = Served(loaded_python.executable, tmp_path, "--expose", "always")
        ended.append(served)
        # Everything at once, before anything is read.
        served.say(initialize(), INITIALIZED, request(2, "tools/list"), request(3, "tools/call", CALL))
        answers.append([served.hear(number) for number in (1, 2, 3)])
        if start == "nothing kept":
            code, said, logged = served.end()
            assert (code, said, logged) == (0, "", "")
        else:
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(30) == -signal.SIGTERM
    assert answers[0][1:] == answers[1][1:]
    names = [tool["name"] for tool in answers[1][1]["result"]["tools"]]
    assert names == ["codecall_search", "codecall_describe", "codecall_invoke", "codecall_execute"]
    assert answers[1][2]["result"]["structuredContent"]["result"] == {"tool": "get_customer_5", "id": "7"}


def test_what_auto_has_chosen_is_said_once_with_the_reason(
    loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]
):
    cases = (
        (30, (), "Clients list the servers' 30 tools, and not CodeCall's four: the tools' definitions take about "),
        (300, (), "Clients list CodeCall's four tools in place of 300 tools: the tools' definitions would take about "),
        (30, ("--expose", "never"), ""),  # who chose knows
    )
    for number, (tools, words, chosen) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        server = {"command": sys.executable, "args": ["-IS", str(SERVER), "alpha", str(tools)]}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"alpha": server}}))
        served = Served(loaded_python.executable, folder, *words)
        ended.append(served)
        served.say(initialize(), INITIALIZED, request(2, "tools/call", CALL))
        served.hear(2)
        _, _, logged = served.end()
        assert logged.startswith(chosen)
        assert logged.count("\n") == (1 if chosen else 0)


def test_runs_leave_pages_where_nothing_keeps_a_record(
    loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]
):
    served = Served(loaded_python.executable, tmp_path, "--expose", "always", "--traces", str(tmp_path / "pages"))
    ended.append(served)
    script = "return await alpha.get_customer_5({ id: '7' })"
    call = {"name": "codecall_execute", "arguments": {"script": script}}
    served.say(initialize(), INITIALIZED, request(2, "tools/call", call))
    assert served.hear(2)["result"]["structuredContent"]["status"] == "ok"
    assert served.end() == (0, "", "")
    (page,) = (tmp_path / "pages").iterdir()
    text = page.read_text(encoding="utf-8")
    assert "alpha_get_customer_5" in text
    assert '<span class="keyword">return</span>' in text


WATCHED = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

provider = TracerProvider()
exporter = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.name + "\\n")
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
from codecall.cli import main
sys.argv[0] = "codecall"
main()
"""


@pytest.mark.parametrize("start", [("-c", WATCHED), ("-m", "codecall.cli")], ids=["watched", "not watched"])
def test_spans_are_made_for_who_sees_them(
    loaded_python: LoadedPython, tmp_path: Path, ended: list[Served], start: tuple[str, str]
):
    served = Served(loaded_python.executable, tmp_path, "--expose", "always", start=start)
    ended.append(served)
    served.say(initialize(), INITIALIZED, request(2, "tools/call", CALL))
    assert served.hear(2)["result"]["structuredContent"]["result"] == {"tool": "get_customer_5", "id": "7"}
    code, _, logged = served.end()
    spans = {"tools/call codecall_invoke", "tools/call alpha_get_customer_5", "codecall.invoke"}
    assert (code, spans & set(logged.splitlines())) == (0, spans if start[0] == "-c" else set())


async def test_over_http_with_a_token(loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]):
    config = tmp_path / "codecall.toml"
    config.write_text(
        f'[serve]\ntransport = "http"\nport = 0\nauth = {{ provider = "static", tokens = {{ alice = "{TOKEN}" }} }}\n'
    )
    served = Served(loaded_python.executable, tmp_path, "--config", str(config))
    ended.append(served)
    assert served.process.stderr is not None
    heading = served.process.stderr.readline()
    assert heading.startswith("Listening on http://127.0.0.1:")
    url = heading.split()[-1]
    async with Client(url, auth=BearerAuth(TOKEN)) as client:
        called = await client.call_tool("alpha_get_customer_5", {"id": "7"})
        assert called.structured_content == {"tool": "get_customer_5", "id": "7"}
    async with httpx.AsyncClient() as stranger:
        refused = await stranger.post(url, headers={"Authorization": "Bearer another"}, json={})
        assert refused.status_code == 401
        accepted = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}"}
        refused = await stranger.post(url, headers=accepted, json={"a": [[]] * 200_000})
        assert refused.status_code == 413
    served.process.send_signal(signal.SIGINT)
    code, said, logged = served.end()
    assert code == -signal.SIGINT
    assert said == ""
    assert TOKEN not in logged


NO_AUTH = "allowed_hosts = []\nallowed_origins = []\n"
LISTS = 'allowed_hosts = ["gate.example"]\nallowed_origins = ["https://page.example"]\n'
SIGN_IN = f'auth = {{ provider = "static", tokens = {{ alice = "{TOKEN}" }} }}\n'


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (NO_AUTH, {"gate.example": 421, "evil.example": 421, "https://page.example": 403, "http://evil.example": 403}),
        (SIGN_IN, {"gate.example": 421, "evil.example": 421, "https://page.example": 403, "http://evil.example": 403}),
        (LISTS, {"gate.example": 200, "evil.example": 421, "https://page.example": 200, "http://evil.example": 403}),
        (
            SIGN_IN + LISTS,
            {"gate.example": 200, "evil.example": 421, "https://page.example": 200, "http://evil.example": 403},
        ),
    ],
    ids=["nothing given", "token", "lists", "token and lists"],
)
def test_foreign_hosts_and_origins_are_refused(
    loaded_python: LoadedPython, tmp_path: Path, ended: list[Served], options: str, expected: dict[str, int]
):
    served = serve_over_http(loaded_python, tmp_path, ended, options)
    with open_http(served) as client:
        port = client.base_url.port
        assert {name: post(client, **_header(name)) for name in expected} == expected
        assert post(client) == 200
        assert post(client, Host=f"localhost:{port}", Origin=f"http://localhost:{port}") == 200
        # Pages of this machine pass at its own address, and at no other.
        assert post(client, Origin="https://[::1]:1") == 200
        assert post(client, Host="gate.example", Origin="http://localhost:1") in (403, 421)
        # The preflight of a browser, and reading, are refused alike.
        assert client.options("mcp", headers={"Host": "evil.example"}).status_code == 421
        assert client.get("mcp", headers={"Host": "evil.example"}).status_code == 421


def test_hosts_are_checked_at_every_address_that_nobody_signs_in_at(
    loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]
):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            route.connect(("192.0.2.1", 9))  # sends nothing
            address = route.getsockname()[0]
    except OSError:
        pytest.skip("this machine has no address but the loopback one")
    served = serve_over_http(loaded_python, tmp_path, ended, 'host = "0.0.0.0"\n', "--insecure")
    with open_http(served, address) as client:
        assert post(client) == 200
        assert post(client, Host="evil.example") == 421
        assert post(client, Origin="http://evil.example") == 403


@pytest.mark.parametrize("sign_in", ["", SIGN_IN], ids=["no token", "token"])
def test_sessions_are_bounded(loaded_python: LoadedPython, tmp_path: Path, ended: list[Served], sign_in: str):
    served = serve_over_http(loaded_python, tmp_path, ended, sign_in + "max_sessions = 3\n")
    with open_http(served) as client:
        opened = [open_session(client) for _ in range(4)]
        assert [answer.status_code for answer in opened] == [200, 200, 200, 503]
        assert opened[3].json()["error"]["message"] == "Too many open sessions"
        session = {"Mcp-Session-Id": opened[0].headers["Mcp-Session-Id"]}
        assert client.delete("mcp", headers=session).status_code == 200
        assert open_session(client).status_code == 200


def test_nobody_who_signs_in_takes_all_sessions(loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]):
    two = f'auth = {{ provider = "static", tokens = {{ alice = "{TOKEN}", mallory = "{TOKEN}-2" }} }}\n'
    served = serve_over_http(loaded_python, tmp_path, ended, two + "max_sessions = 48\n")
    with open_http(served) as client:
        opened = [open_session(client, Authorization=f"Bearer {TOKEN}-2") for _ in range(13)]
        assert [answer.status_code for answer in opened] == [200] * 12 + [503]
        assert open_session(client).status_code == 200
        session = {"Mcp-Session-Id": opened[0].headers["Mcp-Session-Id"], "Authorization": f"Bearer {TOKEN}-2"}
        # Through the gateway, too, a session is opened once.
        accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        again = client.post("mcp", content=initialize(), headers={**accept, **session})
        assert "This session is already initialized" in again.text
        assert client.delete("mcp", headers=session).status_code == 200
        assert open_session(client, Authorization=f"Bearer {TOKEN}-2").status_code == 200
    served.process.terminate()
    _, _, logged = served.end()
    assert "A caller may open no more sessions: it has 12" in logged
    assert "48 sessions are already open" not in logged


def test_a_person_has_one_share_of_the_sessions_over_all_apps(
    loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]
):
    keys = RSAKeyPair.generate()
    jwt = f'auth = {{ provider = "jwt", public_key = """{keys.public_key}""" }}\n'
    served = serve_over_http(loaded_python, tmp_path, ended, jwt + "max_sessions = 40\n")

    def token(subject: str, app: str) -> str:
        return f"Bearer {keys.create_token(subject=subject, additional_claims={'client_id': app})}"

    with open_http(served) as client:
        opened = [open_session(client, Authorization=token("mallory", f"app-{number % 5}")) for number in range(12)]
        assert [answer.status_code for answer in opened] == [200] * 10 + [503] * 2
        assert post(client, Authorization=token("alice", "app-1")) == 200
        session = {"Mcp-Session-Id": opened[3].headers["Mcp-Session-Id"], "Authorization": token("mallory", "app-3")}
        assert client.delete("mcp", headers=session).status_code == 200
        assert post(client, Authorization=token("mallory", "app-9")) == 200


def test_calls_that_are_not_answered_hold_only_so_much(
    loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]
):
    """Also those of clients that are gone."""
    silent = {"command": sys.executable, "args": ["-IS", str(SILENT)]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"up": silent}}))
    served = serve_over_http(loaded_python, tmp_path, ended, SIGN_IN, "--expose", "never")
    call = request(2, "tools/call", {"name": "up_wait", "arguments": {"text": "x" * 4_000_000}})
    with open_http(served) as client:
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        headers["Mcp-Session-Id"] = open_session(client).headers["Mcp-Session-Id"]
        client.post("mcp", content=INITIALIZED, headers=headers)
        statuses: list[int] = []
        for _ in range(9):
            with client.stream("POST", "mcp", content=call, headers=headers) as answer:
                statuses.append(answer.status_code)
        assert statuses == [200] * 8 + [429]
        assert client.post("mcp", content=request(3, "ping"), headers=headers).status_code == 200


def test_idle_sessions_end(loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]):
    served = serve_over_http(loaded_python, tmp_path, ended, "max_sessions = 1\nsession_idle_s = 0.01\n")
    with open_http(served) as client:
        assert open_session(client).status_code == 200
        # Room for another is there only once this one has ended by itself.
        while (again := open_session(client)).status_code != 200:
            assert again.status_code == 503


def serve_over_http(python: LoadedPython, folder: Path, ended: list[Served], options: str, *words: str) -> Served:
    """A gateway at any free port, with more lines in its `[serve]`."""
    config = folder / "codecall.toml"
    config.write_text(f'[serve]\ntransport = "http"\nport = 0\n{options}')
    served = Served(python.executable, folder, "--config", str(config), *words)
    ended.append(served)
    return served


def open_http(served: Served, address: str = "127.0.0.1") -> httpx.Client:
    """A client of the URL that the gateway prints, at this address."""
    assert served.process.stderr is not None
    heading = served.process.stderr.readline()
    assert heading.startswith("Listening on "), heading
    url = httpx.URL(heading.split()[-1]).copy_with(host=address, path="/")
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)


def post(client: httpx.Client, **headers: str) -> int:
    """Open a session; the status of the answer."""
    return open_session(client, **headers).status_code


def open_session(client: httpx.Client, **headers: str) -> httpx.Response:
    """The answer to a handshake."""
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    return client.post("mcp", content=initialize(), headers={**accept, **headers})


def _header(name: str) -> dict[str, str]:
    return {("Origin" if "://" in name else "Host"): name}


def test_what_others_wrote_cannot_drive_the_terminal(loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]):
    writes = "import sys; sys.stderr.write('\\x1b[2J\\u202e\\n')"
    entry = {"command": sys.executable, "args": ["-c", writes]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a\x1b]0;x\x07\u202e": entry}}))
    served = Served(loaded_python.executable, tmp_path, "--log-level", "debug")
    ended.append(served)
    served.say(initialize(name="c\x1b[31m"), INITIALIZED, request(2, "tools/list"))
    assert served.hear(2)["result"]["tools"] == []
    _, _, logged = served.end()
    assert r"\u{1B}]0;x\u{7}\u{202E}" in logged  # of the configuration
    assert r"\u{1B}[2J\u{202E}" in logged  # of the server's standard error
    assert [char for char in logged if not (char.isprintable() or char in "\n\t")] == []


def test_a_servers_long_error_is_cut_in_the_log(loaded_python: LoadedPython, tmp_path: Path, ended: list[Served]):
    raw = {"command": sys.executable, "args": ["-IS", str(STUBBORN.with_name("raw.py"))]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"raw": raw}}))
    served = Served(loaded_python.executable, tmp_path, "--expose", "never")
    ended.append(served)
    error = '{"jsonrpc":"2.0","id":%ID%,"error":{"code":-5,"message":"' + "x " * 100_000 + '"}}'
    call = {"name": "raw_write", "arguments": {"lines": [[error, 1]]}}
    served.say(initialize(), INITIALIZED, request(2, "tools/call", call))
    (block,) = served.hear(2)["result"]["content"]
    assert "…[truncated 134464 characters]" in block["text"]
    _, _, logged = served.end()
    assert "ERROR fastmcp" in logged
    assert "MCPError: x x x" in logged
    assert len(logged) < 60_000


MAPPED_BLOCKS = """
import ctypes, sys
from codecall.gateway.serve.serve import release_large_blocks

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]

info = ctypes.CDLL(None).mallinfo
info.restype = Info
if sys.argv[1] == "yes":
    assert release_large_blocks()
del_me = bytearray(4 * 2**20)
del del_me  # from now on glibc would keep blocks of this size
before = info().hblks
block = bytearray(4 * 2**20)
print(info().hblks - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries give back what is free")
@pytest.mark.parametrize(("asked", "mapped"), [("no", "0"), ("yes", "1")])
def test_large_blocks_of_memory_are_mapped_each_by_itself(asked: str, mapped: str):
    command = [sys.executable, "-c", MAPPED_BLOCKS, asked]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == mapped


def test_lines_of_the_log_are_cut_and_say_so():
    error = ValueError("e" * 20_000)
    record = logging.LogRecord("a", logging.ERROR, "", 0, "%s\x1b", ("m" * 5_000,), (ValueError, error, None))
    message, _, traceback = BoundedFormatter("%(message)s").format(record).partition("\n")
    assert message == "m" * MAX_MESSAGE_CHARS + "…[truncated 1001 characters]"
    assert traceback.startswith("    ValueError: e")  # as every line but the first
    assert re.search(r"e…\[truncated \d{4} characters\]$", traceback)


@pytest.fixture
def stubborn(tmp_path: Path) -> Iterator[int]:
    """A configuration with a server that stays; the end of the pipe in which it says what happens to it."""
    pipe = tmp_path / "said"
    os.mkfifo(pipe)
    server = {"command": sys.executable, "args": ["-IS", str(STUBBORN), str(pipe)]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"stubborn": server}}))
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(end, True)
    yield end
    os.close(end)


def test_a_second_signal_ends_it_at_once_and_all_servers(
    loaded_python: LoadedPython, tmp_path: Path, stubborn: int, ended: list[Served]
):
    served = Served(loaded_python.executable, tmp_path)
    ended.append(served)
    served.say(initialize(), INITIALIZED, request(2, "tools/list"))
    assert "result" in served.hear(2)
    served.process.send_signal(signal.SIGHUP)
    assert os.read(stubborn, 100) == b"left "  # the gateway closes what it has opened
    served.process.send_signal(signal.SIGHUP)
    assert served.process.wait(30) == -signal.SIGHUP
    assert os.read(stubborn, 100) == b""


async def test_ctrl_c_over_http_lets_scripts_end(
    loaded_python: LoadedPython, tmp_path: Path, stubborn: int, ended: list[Served]
):
    unread = os.open(tmp_path / "said", os.O_WRONLY)  # else there is an end before the server is there
    served = Served(loaded_python.executable, tmp_path, "--transport", "http", "--port", "0", "--expose", "always")
    ended.append(served)
    assert served.process.stderr is not None
    async with Client(served.process.stderr.readline().split()[-1]) as client:
        script = {"script": "return await callTool('stubborn_work', {})"}
        running = asyncio.create_task(client.call_tool("codecall_execute", script))
        assert await asyncio.to_thread(os.read, stubborn, 100) == b"called "
        served.process.send_signal(signal.SIGINT)
        ran = await running
        assert ran.structured_content is not None
        assert ran.structured_content["status"] == "ok"
    os.close(unread)
    assert served.process.wait(30) == -signal.SIGINT


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--transport", "http", "--host", "0.0.0.0", "--port", "0"), "nobody would have to sign in"),
        (("--transport", "http", "--port", "99999"), "serve.port"),
        (("--deny", "beta:x"), "there is no server 'beta'"),
    ],
)
def test_what_cannot_be_served(loaded_python: LoadedPython, tmp_path: Path, words: tuple[str, ...], said: str):
    served = Served(loaded_python.executable, tmp_path, *words)
    code, out, logged = served.end()
    assert (code, out) == (2, "")
    assert said in logged
