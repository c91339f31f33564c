"""The commands as a whole: exit codes, errors, what is loaded, real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codecall.cli import app, main
from codecall.cli import exit_codes as exits
from codecall.cli.output import Output, escape_unprintable, json_text, one_line
from codecall.cli.render import render_finding, timeline
from codecall.errors import CodeCallError, OptionsError, ServerUnavailableError
from tests.cli.conftest import CommandLine, Terminal
from tests.gateway.backends import SERVERS
from tests.loaded_python import LoadedPython

REPOSITORY = Path(__file__).parent.parent.parent
PAGE = (REPOSITORY / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
GUIDE = (REPOSITORY / "docs" / "guide" / "cli.md").read_text(encoding="utf-8")


RAW = SERVERS / "raw.py"
CALL = {"number": 1, "startMs": 0, "durationMs": 1, "outcome": "error"}


def test_help_lists_every_command_and_the_exit_codes(cli: CommandLine):
    result = cli("--help")
    assert result.code == 0
    assert [name for name, _, _ in app.COMMANDS if f" {name} " not in result.out] == []
    assert "130 Ctrl-C" in result.out
    assert result.err == ""


@pytest.mark.parametrize("name", [name for name, _, _ in app.COMMANDS])
def test_every_command_has_help_and_json(cli: CommandLine, name: str):
    result = cli(name, "--help")
    assert result.code == 0
    assert f"codecall {name}" in result.out
    assert name == "serve" or "--json" in result.out


@pytest.mark.parametrize("name", [name for name, _, _ in app.COMMANDS])
def test_the_documentation_has_every_command(name: str):
    assert f"\n## `codecall {name}" in PAGE
    rows = [line.split("|")[1] for line in GUIDE.splitlines() if line.startswith("| `codecall ")]
    assert [row for row in rows if f"`codecall {name}`" in row or f", `{name}`" in row]


def test_the_documentation_has_every_exit_code():
    for code, meaning in exits.MEANINGS.items():
        assert f"| {code} | {meaning} |" in PAGE


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonsense",), "nonsense"),
        (("check",), "scripts"),
        (("policy", "--preset"), "--preset"),
        (("run", "a.js", "--nonsense"), "--nonsense"),
        (("run", "a.js", "--timeout", "soon"), "soon"),
        (("run", "a.js", "b.js"), "codecall run takes fewer arguments: 'b.js' is left over"),
        (("remove", "a", "b", "c"), "codecall remove takes fewer arguments: 'b', 'c' are left over"),
        (("trust", ".", *"abcdefg"), "'a', 'b', 'c', 'd', 'e' and 2 more are left over"),
    ],
)
def test_wrong_words_are_usage_errors(cli: CommandLine, words: tuple[str, ...], message: str):
    result = cli(*words)
    assert (result.code, result.out) == (exits.USAGE, "")
    assert result.err.startswith("error: USAGE: ")
    assert message.lower() in result.err.lower()
    assert "--help" in result.err
    document = cli(*words, "--json")
    assert document.code == exits.USAGE
    assert document.json["error"]["code"] == "USAGE"
    assert set(document.json["error"]) == {"code", "message", "hint"}


def test_a_missing_configuration_says_what_to_do(cli: CommandLine):
    result = cli("tools", "--json")
    assert result.code == exits.USAGE
    assert result.json["error"]["code"] == "NO_CONFIGURATION"
    assert "codecall init" in result.json["error"]["hint"]


def test_exit_codes_follow_the_error():
    assert exits.exit_for(None) == exits.OK
    assert exits.exit_for(OptionsError("x").code) == exits.USAGE
    assert exits.exit_for(ServerUnavailableError.code) == exits.UNAVAILABLE
    assert exits.exit_for("EXECUTION_ERROR") == exits.FAILED
    assert set(exits.BY_CODE.values()) <= set(exits.MEANINGS)


def test_ctrl_c_ends_a_command_with_130(cli: CommandLine, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("codecall.presets.load_preset", interrupted)
    result = cli("presets")
    assert result.code == exits.INTERRUPTED
    assert result.err == "error: INTERRUPTED: Interrupted\n"


def test_a_fault_of_our_own_shows_its_traceback(cli: CommandLine, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("codecall.presets.load_preset", broken)
    result = cli("presets")
    assert result.code == exits.BUG
    assert "Traceback" in result.err
    assert "error: BUG: ZeroDivisionError" in result.err


def test_what_others_wrote_cannot_drive_the_terminal():
    assert escape_unprintable("a\x1b[2Jb\tc\nd\u202e") == "a\\u{1B}[2Jb c\n    d\\u{202E}"
    assert one_line("a\r\n\tb") == "a b"
    assert json_text({"a": "\x1b\x7f\u202e\ud800é"}) == '{"a":"\\u001b\\u007f\\u202e\\ud800é"}'
    assert json_text(["é"], ascii_only=True) == '["\\u00e9"]'
    out, err = Terminal(), Terminal()
    output = Output(out=out, err=err)
    output.failure(CodeCallError("[bold]\x1b]0;x\x07", hint=":smile: [/]"))
    assert "[bold]\\u{1B}]0;x\\u{7}" in err.getvalue()
    assert ":smile: [/]" in err.getvalue()
    shown_text = render_finding("a.js\x1b", "", {"code": "E\x1b[0m", "message": "m\x1b", "hint": "h\x1b"}).plain
    assert "\x1b" not in shown_text + timeline([{**CALL, "name": "n\x1b", "code": "c\x1b"}], 1, 80).plain


FAKE = "it said\r\nhint: FAKE\nerror: FAKE " + "x" * 50 + " warning: FAKE"
"""What a server writes to look like lines of ours: by line ends of its own, and where a terminal of 80 columns ends."""

ANSWERS = """
const [log, failure] = [%s, %s];
try { await raw.write({ lines: [[log, 1], [failure, 1]] }) } catch (error) { console.log(error.message) }
await raw.write({ lines: [[failure, 1]] })
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_no_line_that_others_wrote_looks_like_one_of_ours(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, terminal: bool
):
    monkeypatch.setenv("COLUMNS", "80")
    usage = {"description": FAKE, "code": f"// {FAKE}".replace("\r\n", " ").replace("\n", "\n// ")}
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": FAKE}}}
    cli.serve(
        shop=[
            {"name": "t", "description": f"{FAKE}.\n\n- one\n- two", "inputSchema": schema}
            | {"_meta": {"codecall": {"examples": [usage]}}}
        ]
    )
    with (cli.folder / "codecall.toml").open("a") as file:
        file.write(f"[servers.raw]\ncommand = {json.dumps(sys.executable)}\nargs = ['-IS', {json.dumps(str(RAW))}]\n")
    cli("trust")
    log = {"method": "notifications/message", "params": {"level": "error", "data": FAKE}}
    failure = {"id": "%ID%", "result": {"isError": True, "content": [{"type": "text", "text": FAKE}]}}
    lines = [json.dumps({"jsonrpc": "2.0", **each}).replace('"%ID%"', "%ID%") for each in (log, failure)]
    script = cli.write("a.js", ANSWERS % tuple(map(json.dumps, lines)))
    for words in (("describe", "shop_t"), ("describe", "shop_t", "--typescript"), ("run", str(script)), ("tools",)):
        ran = cli(*words, terminal=terminal)
        shown = re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", ran.out + ran.err).split("\n")
        assert [line for line in shown if re.match(r" {0,3}(hint|error|warning): ?FAKE", line)] == []
        if words[0] != "tools":
            assert "FAKE" in "".join(shown)
        if words == ("describe", "shop_t"):
            assert [line for line in shown if "- " in line] == ["    - one", "    - two"]


def test_no_color_is_respected(cli: CommandLine, monkeypatch: pytest.MonkeyPatch):
    cli.write("a.js", "return eval(1)")
    coloured = "\x1b[1;31m"
    assert coloured in cli("check", "a.js", terminal=True).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured not in cli("check", "a.js", terminal=True).out


def test_a_real_process_answers_a_pipe_and_survives_its_reader(loaded_python: LoadedPython, tmp_path: Path):
    command = [loaded_python.executable, "-m", "codecall.cli"]
    result = subprocess.run(
        [*command, "presets", "--differing"], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("timeout_ms\t2000\t3500\t5000\t10000\n")
    reader, writer = os.pipe()
    os.close(reader)
    broken_pipe = subprocess.run([*command, "policy"], stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert (broken_pipe.returncode, broken_pipe.stderr) == (exits.NO_READER, b"")


@pytest.mark.parametrize(
    ("words", "closed", "code", "said"),
    [
        ("init", "<&-", exits.USAGE, "error: USAGE: There is nobody to ask"),
        ("run - --server http://127.0.0.1:1", "<&-", exits.OK, ""),
        ("presets", "<&- >&-", exits.OK, ""),
        ("presets nosuch", "<&- >&- 2>&-", exits.USAGE, ""),
    ],
)
def test_streams_may_be_closed(tmp_path: Path, words: str, closed: str, code: int, said: str):
    command = f"exec {sys.executable} -m codecall.cli {words} {closed}"
    result = subprocess.run(
        ["sh", "-c", command], stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert (result.returncode, result.stderr.startswith(said)) == (code, True), result
    assert "BUG" not in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_an_error(loaded_python: LoadedPython):
    with Path("/dev/full").open("wb") as full:
        command = [loaded_python.executable, "-m", "codecall.cli", "policy"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert result.returncode == exits.USAGE
    assert result.stderr == "error: CANNOT_WRITE: Cannot write the answer: No space left on device\n"


def test_serve_without_words(cli: CommandLine, loaded_python: LoadedPython):
    command = [loaded_python.executable, "-m", "codecall.cli", "serve"]
    none = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (none.returncode, none.stdout) == (exits.USAGE, "")
    assert none.stderr.startswith("error: NO_CONFIGURATION: ")
    cli.write("codecall.toml", "")
    assert cli("trust").code == exits.OK
    served = subprocess.run(
        [*command, "--port", "1"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert served.returncode == 0
    assert "no servers in " in served.stderr
    assert "--port: not used over stdio" in served.stderr
    bare = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (bare.returncode, bare.stdout) == (0, "")


@pytest.mark.parametrize("module", ["codecall", "codecall.cli"])
def test_the_package_is_the_command(module: str):
    ran = subprocess.run(
        [sys.executable, "-m", module, "presets", "--nonsense"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout) == (exits.exit_for("USAGE"), "")
    assert ran.stderr.startswith("error: USAGE: Unknown option: --nonsense")


@pytest.mark.parametrize("words", [("tools", "--config", "codecall.toml"), ("serve", "--config", "codecall.toml")])
def test_settings_of_the_folder_do_not_count(cli: CommandLine, words: tuple[str, ...]):
    # With any setting of FastMCP's read from there, importing it fails.
    cli.write(".env", "FASTMCP_HOME=tokens\nFASTMCP_HTTP_ALLOWED_HOSTS=no list\n")
    cli.write("codecall.toml", "")
    result = subprocess.run(
        [sys.executable, "-m", "codecall.cli", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, "Traceback" in result.stderr) == (exits.OK, False), result.stderr


def test_ctrl_c_while_modules_are_loaded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "run", interrupted)
    monkeypatch.setattr("sys.argv", ["codecall", "tools"])
    monkeypatch.setenv("FASTMCP_ENV_FILE", os.devnull)  # or else it stays set
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    main()
    assert ended == [exits.INTERRUPTED]
    assert capsys.readouterr().err == "error: INTERRUPTED: Interrupted\n"


DYING = """
import os
from fastmcp import FastMCP
server = FastMCP("q")
@server.tool
def die() -> str:
    os._exit(3)
server.run(show_banner=False)
"""


def test_a_server_that_ends_during_a_call_is_told_by_the_command_alone(cli: CommandLine, loaded_python: LoadedPython):
    program = cli.write("server.py", DYING)
    table = f"[servers.q]\ncommand = {json.dumps(loaded_python.executable)}\nargs = [{json.dumps(str(program))}]\n"
    cli.write("codecall.toml", table)
    assert cli("trust").code == exits.OK
    cli.write("a.js", "return q.die({})")
    environment = {key: value for key, value in os.environ.items() if key != "FASTMCP_LOG_LEVEL"}
    words = [sys.executable, "-m", "codecall.cli", "run", "a.js"]  # it sets what FastMCP logs when that is loaded
    ended = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert "SERVER_UNAVAILABLE" in ended.stderr, ended
    assert "Error calling tool" not in ended.stderr


@pytest.mark.parametrize("words", [("run", "-"), ("check", "-")])
def test_ctrl_c_ends_a_command_that_reads_its_script(
    cli: CommandLine, loaded_python: LoadedPython, words: tuple[str, ...]
):
    command = [loaded_python.executable, "-m", "codecall.cli", *words, "--server", "http://127.0.0.1:1"]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdin is not None
    started.stdin.write(b"//" + b"x" * 500_000)  # more than a pipe holds: it is being read
    started.stdin.flush()
    started.send_signal(signal.SIGINT)
    try:
        assert started.wait(timeout=60) == exits.INTERRUPTED
    finally:
        started.kill()
        started.communicate()


@pytest.mark.parametrize("of_ctrl_c", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_signal_ends_a_run_at_once_and_its_calls_are_told(
    cli: CommandLine, loaded_python: LoadedPython, of_ctrl_c: signal.Handlers
):
    # SIGTERM goes the way of Ctrl-C.
    cli.serve(shop=["list"])
    cli.write("a.js", "await shop.list({}); console.log('on'); for (let i = 0; i < 1e9; i++) { await shop.list({}); }")
    before = signal.signal(signal.SIGINT, of_ctrl_c)  # ignored, as what a script starts in the background has it
    started = subprocess.Popen(
        [loaded_python.executable, "-m", "codecall.cli", "run", "a.js", "--no-cache", "--preset", "experimental"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    assert started.stderr is not None
    assert started.stderr.readline().startswith("using ")
    assert started.stderr.readline() == "on\n"
    started.send_signal(signal.SIGTERM)
    out, err = started.communicate(timeout=30)
    assert started.returncode == exits.TERMINATED
    assert out == ""
    done = r"\d+ tool calls? had completed and (is|are) not undone: (\d+ of )?shop_list\b"
    assert re.match(rf"error: INTERRUPTED: Interrupted\nhint: {done}", err), err
