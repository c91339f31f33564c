"""Commands on a real terminal of a given width: a pseudo-terminal, and what somebody before it would read."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

RUN = """
import json, sys
from codecall.cli.app import run
for command in json.loads(sys.argv[1]):
    print(sys.argv[2], flush=True)
    run(command)
"""
MARK = "======== next command"

_PART = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+")


def read_screen(shown: str) -> str:
    """What stays on an endlessly wide screen: lines that were erased, as those of progress, do not."""
    lines, row, column = [""], 0, 0
    for part in _PART.findall(shown):
        match part:
            case "\r":
                column = 0
            case "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            case "\x1b[2K":
                lines[row] = ""
            case "\x1b[1A":
                row = max(0, row - 1)
            case _ if not part.startswith("\x1b"):
                lines[row] = f"{lines[row][:column]:<{column}}{part}{lines[row][column + len(part) :]}"
                column += len(part)
            case _:
                pass
    return "\n".join(lines)


def on_terminal(
    commands: Sequence[Sequence[str]], columns: int, folder: Path, environment: Mapping[str, str]
) -> list[str]:
    """What each command shows, stdout and stderr, on a terminal of so many columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    words = [sys.executable, "-c", RUN, json.dumps([list(command) for command in commands]), MARK]
    env = {**environment, "TERM": "xterm"}
    with subprocess.Popen(words, cwd=folder, env=env, stdin=follower, stdout=follower, stderr=follower) as process:
        os.close(follower)
        shown = b""
        while True:
            part = _read(leader)
            if not part:
                break
            shown += part
        assert process.wait() == 0, shown.decode()
    os.close(leader)
    return [part.strip("\n") for part in read_screen(shown.decode()).split(f"{MARK}\n")[1:]]


_CONTROLS = ("\x03", "\x04")
"""Ctrl-C and Ctrl-D."""


def typed_at_terminal(
    command: Sequence[str],
    keys: Sequence[str],
    prompt: str,
    folder: Path,
    environment: Mapping[str, str],
    *,
    ahead: str = "",
) -> tuple[int, str]:
    """The exit code of a command, and what it shows on a terminal of 80 columns where somebody types these keys, each
    when it asks with this prompt, and some `ahead` of its start."""
    leader, follower = pty.openpty()
    os.write(leader, ahead.encode())
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    attach = "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from codecall.cli import main; "
    words = [sys.executable, "-c", f"{attach}main()", *command]
    env = {key: value for key, value in environment.items() if key != "COLUMNS"}
    waiting, shown, asked_at = list(keys), b"", 0
    with subprocess.Popen(
        words, cwd=folder, env=env, stdin=follower, stdout=follower, stderr=follower, start_new_session=True
    ) as process:
        os.close(follower)
        typed = ""
        while part := _read(leader, again=typed if typed in _CONTROLS else ""):
            shown += part
            if waiting and (at := shown.find(prompt.encode(), asked_at)) >= 0:
                asked_at = at + len(prompt)
                typed = waiting.pop(0)
                os.write(leader, typed.encode())
        code = process.wait()
    os.close(leader)
    return code, read_screen(shown.decode())


def _read(leader: int, again: str = "") -> bytes:
    """What is shown next. While nothing is, `again` is typed now and then: Python may ignore an interrupt that comes
    while it finalizes an object, and the terminal the end of input that comes while its mode changes."""
    try:
        while again and not select.select([leader], [], [], 5)[0]:
            os.write(leader, again.encode())
        return os.read(leader, 65_536)
    except OSError:  # Linux: nobody writes any more
        return b""
