"""A real Redis for one test: Debian's `redis-server`, started by the test on a free port, with nothing kept on disk."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

MISSING = (
    "This test needs redis-server, and it is not on the PATH. Install Debian's package: apt-get install redis-server "
    "(make test does so where it may), or name the program in REDIS_SERVER."
)


def redis_program() -> str:
    """The path of the program; the test fails if there is none."""
    program = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")
    if program is None:
        pytest.fail(MISSING, pytrace=False)
    return program


class RedisServer:
    """One server, which keeps its address when it is stopped and started again, but not its data.

    Args:
        folder: the working folder of the server.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def socket(self) -> Path:
        """Its Unix socket."""
        return self._folder / "redis.sock"

    def start(self) -> None:
        """Start it; returns when it takes connections."""
        assert self._process is None
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        options += ["--unixsocket", str(self.socket), "--dir", str(self._folder)]
        self._process = subprocess.Popen([redis_program(), *options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        output: list[str] = []
        for line in self._process.stdout:
            output.append(line)
            if "Ready to accept connections" in line or "ready to accept connections" in line:
                return
        raise AssertionError("redis-server did not start:\n" + "".join(output))

    def stop(self) -> None:
        """Kill it, and wait until it has ended. Does nothing if it does not run."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.communicate()
            self._process = None

    def freeze(self) -> None:
        """Stop the process: it accepts connections and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the process."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
