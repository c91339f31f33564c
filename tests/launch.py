"""The launcher of a program that a loaded Python runs (`tests/loaded_python.py`): it hands on its command line, its
files and each signal it gets, and ends as the program does. It starts often and loads as little as it can."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping

MAX_REQUEST = 1 << 18
"""Most bytes of a request."""

FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def load_time_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter when Python and its modules are loaded, and so cannot be handed on."""
    prefixes = ("PYTHON", "FASTMCP_", "OTEL_", "COV")
    handed_on = {"FASTMCP_LOG_LEVEL", "PYTHONPATH", "PYTHONUTF8", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
    return {name: value for name, value in environment.items() if name.startswith(prefixes) and name not in handed_on}


def main(address: str, python: str, environment: dict[str, str]) -> None:
    """Have the command line run by the process that listens at `address`, which was loaded with `environment`; by
    `python` if that process cannot do it."""
    command = sys.argv[1:]
    fits = command and (not command[0].startswith("-") or command[0] in ("-m", "-c") or command[:2] == ["-u", "-c"])
    if not fits or load_time_environment(os.environ) != environment:
        os.execv(python, [python, *command])
    files = os.listdir("/dev/fd")  # noqa: PTH208 - pathlib takes long to load
    inherited = sorted(number for number in map(int, files) if is_inherited(number))
    folder = os.getcwd()  # noqa: PTH109 - the same
    request = {"command": command, "cwd": folder, "env": dict(os.environ), "descriptors": inherited}
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(address)
    descriptors = array.array("i", inherited)
    line.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    pid = int(line.recv(100))
    for descriptor in inherited[3:]:
        os.close(descriptor)
    for number in FORWARDED_SIGNALS:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = int(line.recv(100) or -signal.SIGKILL)
    if status < 0:
        if -status in FORWARDED_SIGNALS:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def is_inherited(number: int) -> bool:
    """Whether the descriptor is an open file inherited from the parent process."""
    try:
        return os.get_inheritable(number)
    except OSError:
        return False
