"""The command line in this process: its exit code, and what it printed."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from codecall.cli.app import run

LISTED = Path(__file__).parent.parent / "gateway" / "servers" / "listed.py"


USING = re.compile(r"^(?:\x1b\[2m)?using (.*?)(?:\x1b\[0m)?\n", re.MULTILINE)


class CommandResult(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str
    """Without the line that says which configuration was found."""
    using: str = ""
    """What that line says."""

    @property
    def json(self) -> Any:
        """The one document it printed."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """Its lines, cell by cell."""
        return [line.split("\t") for line in self.out.splitlines()]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class TerminalInput(io.TextIOWrapper):
    """Somebody sits there."""

    def isatty(self) -> bool:
        return True


class CommandLine:
    """Runs commands, in a folder of their own, with a home of their own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str, stdin: str = "", terminal: bool = False) -> CommandResult:
        out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
        given = (TerminalInput if terminal else io.TextIOWrapper)(io.BytesIO(stdin.encode()), encoding="utf-8")
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.setattr(sys, "stdin", given)
            code = run(list(words))
        using = USING.search(err.getvalue())
        return CommandResult(code, out.getvalue(), USING.sub("", err.getvalue(), 1), using[1] if using else "")

    def write(self, name: str, text: str) -> Path:
        """A file in its folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def serve(self, **servers: Any) -> None:
        """A configuration of servers that list these tools: names, or definitions."""
        lines: list[str] = []
        for name, tools in servers.items():
            listed = [tool if isinstance(tool, dict) else _tool(tool) for tool in tools]
            what = self.write(f"{name}.json", json.dumps({"name": name, "version": "1.5", "tools": listed}))
            args = json.dumps([str(LISTED), str(what)])
            lines.append(f"[servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n")
        self.write("codecall.toml", "\n".join(lines))
        assert self("trust").code == 0


def _tool(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"Do {name.replace('_', ' ')}.\nAnd more.", "inputSchema": schema}


Cli = Callable[..., CommandResult]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> CommandLine:
    home = tmp_path / "home"
    home.mkdir()
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("APPDATA", "CLAUDE_CONFIG_DIR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("COLUMNS", "120"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "CODECALL_VM_PRESET"):
        monkeypatch.delenv(name, raising=False)
    # In a process of its own it is set before FastMCP is loaded.
    monkeypatch.setenv("FASTMCP_LOG_LEVEL", "ERROR")
    monkeypatch.setattr(logging.getLogger("fastmcp"), "level", logging.ERROR)
    return CommandLine(folder, monkeypatch)
