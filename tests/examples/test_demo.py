"""`make demo`: the transcript from end to end, and the CRM server as a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from examples import demo
from examples.transcript import Transcript
from tests.loaded_python import LoadedPython

ROOT = Path(__file__).parents[2]


def run(python: str, *command: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of Python's, with its output as text."""
    return subprocess.run(
        [python, *command],
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def transcript(loaded_python: LoadedPython) -> str:
    """What the demo prints into a pipe, also where the environment asks for colour."""
    done = run(loaded_python.executable, "-m", "examples.demo", FORCE_COLOR="1")
    assert done.returncode == 0, done.stderr
    assert "from server" not in done.stderr  # FastMCP logs a server's messages, in the middle of what is shown
    return done.stdout


def test_tells_the_whole_story(transcript: str) -> None:
    headings = re.findall(r"^\d+\. (.+)$", transcript, re.MULTILINE)
    assert headings == [
        "What a model reads before the first question",
        "Search: which tools would answer the question?",
        "Describe: how are they called, what do they answer?",
        "Execute: page, join and add up, in one call",
        "A slow tool, five times at once",
        "A script that is refused, and how to mend it",
        "A tool fails; the script recovers",
        "A person stays in charge of calls that destroy",
        "What a model reads before the first question",
        "Log, every commit, both diffs and the status, joined into one answer",
    ]
    for words in (
        "hint:",
        "UPSTREAM_DOWN",
        "the person: deny",
        "APPROVAL_DENIED",
        "mcp-server-git",
        "bytes / 4",
        " ms",
    ):
        assert words in transcript


def test_costs_a_fraction_of_the_tokens(transcript: str) -> None:
    without, reduced = (int(size.replace(",", "")) for size in re.findall(r"CodeCall +\d+ +([\d,]+)", transcript)[:2])
    assert reduced < without / 2


def test_is_plain_text_in_a_pipe(transcript: str) -> None:
    assert "\x1b" not in transcript
    assert all(len(line) <= 130 and line == line.rstrip() for line in transcript.splitlines())


async def test_the_crm_serves_over_stdio(tmp_path: Path, loaded_python: LoadedPython) -> None:
    database = tmp_path / "crm.sqlite3"
    with (tmp_path / "log").open("w") as log:
        process = StdioTransport(
            loaded_python.executable,
            ["-m", "examples.crm", "--preset", "balanced", "--separator", "_", "--database", str(database)],
            cwd=str(ROOT),
            keep_alive=False,
            log_file=log,
        )
        async with Client(process) as client:
            names = {tool.name for tool in await client.list_tools()}
            # `while` is what tells `balanced` from the default.
            script = "let n = 0; while (n < 3) n += 1; return n + (await callTool('users_list', {})).total"
            answer = await client.call_tool("codecall_execute", {"script": script})
    assert names == {"codecall_search", "codecall_describe", "codecall_invoke", "codecall_execute"}
    assert (answer.structured_content or {})["result"] == 63
    assert database.stat().st_size > 100_000


def test_the_crm_refuses_a_file_that_is_no_database(tmp_path: Path, loaded_python: LoadedPython) -> None:
    (tmp_path / "notes.txt").write_text("plain words " * 100)
    done = run(loaded_python.executable, "-m", "examples.crm", "--database", str(tmp_path / "notes.txt"))
    assert done.returncode == 2
    assert "cannot be used as a CRM database" in done.stderr


async def test_leaves_the_git_part_out_where_there_is_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    await demo.git_part(Transcript(), sys.stderr, tmp_path)
    assert "Left out: mcp-server-git needs the program `git`" in capsys.readouterr().out


def test_fails_when_something_is_not_as_expected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert demo.main() == 1
    assert "What the servers wrote:" in capsys.readouterr().err
