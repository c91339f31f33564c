"""Programs run by a Python that has FastMCP and CodeCall loaded, which takes a fresh one two seconds each time.

`LoadedPython` is the tests' side. `python -m tests.loaded_python` is the other: it loads, and forks a process for each
program, which then is as `python program.py` would be, with modules that happen to be there.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

LOADED = ("fastmcp.client", "fastmcp.server.server", "codecall.plugin", "codecall.catalog.matrices")
REPOSITORY = Path(__file__).parent.parent


class LoadedPython:
    """Runs programs one after the other, each in a process of its own."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.loaded_python"],
                stdin=theirs.fileno(),
                cwd=REPOSITORY,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # others would be missing in forked processes
            )

    def run(
        self, program: Path, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """What `python program.py arguments` says. A DeprecationWarning for the program itself is an error.

        Raises:
            TimeoutError: it still runs after `timeout` seconds.
        """
        command = [str(program), *arguments]
        request = {"command": command, "cwd": str(cwd), "env": dict(os.environ if env is None else env)}
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            self._line.settimeout(timeout)
            socket.send_fds(self._line, [json.dumps(request).encode()], [output.fileno(), errors.fileno()])
            status = int(self._line.recv(100))
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(command, status, output.read(), errors.read())

    def close(self) -> None:
        """End it."""
        self._line.close()
        self._process.wait(20)


def serve() -> None:
    """Load, then fork whenever asked."""
    for name in LOADED:
        __import__(name)
    line = socket.socket(fileno=0)
    while True:
        record, descriptors, _, _ = socket.recv_fds(line, 1 << 18, 2)
        if not record:
            return
        if (child := os.fork()) == 0:
            become(json.loads(record), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        line.sendall(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def become(request: dict[str, object], descriptors: list[int]) -> None:
    """Run the program in this process, and end it."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[arg-type]
    os.chdir(str(request["cwd"]))
    sys.argv[:] = request["command"]  # type: ignore[index]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    warnings.filterwarnings("error", category=DeprecationWarning, module="__main__$")
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    serve()
