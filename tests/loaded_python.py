"""Programs run by a Python that has FastMCP and CodeCall loaded, which takes a fresh one two seconds each time.

`LoadedPython` is the tests' side. `python -m tests.loaded_python` is the other: it loads, listens, and forks a process
for each program, which then is as `python program.py` would be, with modules that happen to be there. Between the two
is `tests/launch.py`: a small process in the place of the program, to be waited for and to be sent signals.
"""

from __future__ import annotations

import array
import atexit
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

from tests.launch import MAX_REQUEST, load_time_environment

LOADED = (
    *("fastmcp.client", "fastmcp.server.server", "codecall.plugin", "codecall.catalog.search.inverted_index"),
    *("coverage", "pytest", "codecall.testing.plugin"),
)
REPOSITORY = Path(__file__).parent.parent

LAUNCHER = """#!{python} -IS
import sys
sys.path.insert(0, {folder!r})
import launch
launch.main({address!r}, {python!r}, {environment!r})
"""


class LoadedPython:
    """Runs programs, each in a process of its own."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="python")
        address = str(Path(self._folder.name) / "line")
        environment = {name: value for name, value in os.environ.items() if name != "FASTMCP_LOG_LEVEL"}
        self.executable = str(Path(self._folder.name) / "python")
        """Stands for `sys.executable` in commands of the forms `python program.py`, `python -m module` and
        `python -c text`; others, and those in an environment that changes what is loaded, it hands on to Python. The
        programs, too, find it in `sys.executable`."""
        launcher = LAUNCHER.format(
            python=sys.executable,
            folder=str(REPOSITORY / "tests"),
            address=address,
            environment=load_time_environment(os.environ),
        )
        Path(self.executable).write_text(launcher, encoding="utf-8")
        Path(self.executable).chmod(0o700)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.bind(address)
            line.listen(50)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.loaded_python", self.executable],
                stdin=line.fileno(),
                cwd=REPOSITORY,
                # BLAS: other threads would be missing in forked processes.
                env={**environment, "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1"},
            )

    def run(
        self, program: Path, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run `python program.py arguments`. A DeprecationWarning in the program itself is an error.

        Raises:
            subprocess.TimeoutExpired: the program still runs after `timeout` seconds.
        """
        return subprocess.run(
            [self.executable, str(program), *arguments],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def close(self) -> None:
        """End the loaded Python, and programs that still run."""
        self._process.terminate()
        self._process.wait(20)
        self._folder.cleanup()


def serve() -> None:
    """Load the modules, then fork for each request and report how its program ended.

    A program whose launcher has gone is killed.
    """
    for name in LOADED:
        __import__(name)
    gc.collect()
    gc.freeze()  # none of the programs needs to look through all this for garbage
    running: dict[int, socket.socket] = {}
    child_exits, wakeup = os.pipe()
    for end in (child_exits, wakeup):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listening = socket.socket(fileno=0)
    with selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        selector.register(child_exits, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listening:
                    line, _ = listening.accept()
                    request, descriptors = receive_request(line)
                    if (child := os.fork()) == 0:
                        signal.set_wakeup_fd(-1)
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        selector.close()
                        for open_here in (listening, line, *running.values()):
                            open_here.detach()
                        run_program(request, descriptors)
                    for descriptor in descriptors:
                        os.close(descriptor)
                    line.sendall(b"%d" % child)
                    selector.register(line, selectors.EVENT_READ, child)
                    running[child] = line
                elif key.data is not None:  # nothing comes there: its other end is closed
                    selector.unregister(key.fileobj)
                    os.kill(key.data, signal.SIGKILL)
                else:
                    os.read(child_exits, 4096)
                    while (exited := reap_child())[0]:
                        line = running.pop(exited[0])
                        if line in {other.fileobj for other in selector.get_map().values()}:
                            selector.unregister(line)
                            line.sendall(b"%d" % exited[1])
                        line.close()


def receive_request(line: socket.socket) -> tuple[dict[str, object], list[int]]:
    """Receive what to run, and the descriptors it gets."""
    size = array.array("i").itemsize
    record, ancillary, _, _ = line.recvmsg(MAX_REQUEST, socket.CMSG_SPACE(100 * size))
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data[: len(data) - len(data) % size])
    return json.loads(record), list(descriptors)


def reap_child() -> tuple[int, int]:
    """Reap a child that has ended: its process id and exit code; 0 and 0 if there is none."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0
    return pid, os.waitstatus_to_exitcode(status) if pid else 0


def run_program(request: dict[str, object], descriptors: list[int]) -> None:
    """Run the program in this process, and end the process."""
    numbers: list[int] = request["descriptors"]  # type: ignore[assignment]
    first_free = max(numbers) + 1
    high = [os.dup2(descriptor, first_free + 100 + at) for at, descriptor in enumerate(descriptors)]
    os.closerange(0, first_free + 100)
    for number, descriptor in zip(numbers, high, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    command: list[str] = request["command"]  # type: ignore[assignment]
    unbuffered = command[0] == "-u" or "PYTHONUNBUFFERED" in request["env"]  # type: ignore[operator]
    command = command[command[0] == "-u" :]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        # The streams that exist describe other files than those that are open now.
        lines = number == 2 or (number == 1 and unbuffered)
        stream = open(number, mode, 1 if lines else -1, encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[arg-type]
    os.chdir(str(request["cwd"]))
    if level := os.environ.get("FASTMCP_LOG_LEVEL"):
        import fastmcp
        from fastmcp.utilities.logging import configure_logging

        fastmcp.settings.log_level = level  # type: ignore[assignment]
        configure_logging(level=level)  # type: ignore[arg-type]
    sys.executable = sys.argv[1]
    sys.path[:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    warnings.filterwarnings("error", category=DeprecationWarning, module="__main__$")
    try:
        if command[0] == "-m":
            sys.argv[:] = command[1:]
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        elif command[0] == "-c":
            sys.argv[:] = ["-c", *command[2:]]
            sys.path.insert(0, "")
            exec(compile(command[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv[:] = command
            sys.path.insert(0, str(Path(command[0]).parent))
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as system_exit:
        exit_process(system_exit.code)
    except Exception:
        traceback.print_exc()
        exit_process(1)
    exit_process(0)


def exit_process(code: object) -> None:
    """End this process as `sys.exit` does, without unloading, module by module, what was only loaded here."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()  # warns about what the program has left open
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    serve()
