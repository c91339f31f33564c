"""The fork server and the processes it makes, seen from the server."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from codecall.errors import WorkerStartupError
from codecall.sandbox import wire
from codecall.sandbox.fate import BORN, FATE

FORK_SERVER_COMMAND = (sys.executable, "-I", "-m", "codecall.sandbox.worker.fork_server")
"""How the fork server is started: isolated from the environment, the user's site folder and the working directory."""

CLOSING_S = 1.0
"""How long a fork server may take to end its workers and itself, in seconds."""

UNKNOWN_ENDING = -signal.SIGKILL
"""Exit status of a worker whose fork server died with it."""


class Process(Protocol):
    """What is needed of a worker's process; `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        ...

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status when it has ended.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        ...


def start_process(command: Sequence[str], line: socket.socket) -> subprocess.Popen[bytes]:
    """Start a process that sees nothing of this one but `line`, as its descriptor 0.

    Raises:
        WorkerStartupError: it could not be started.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - fixed commands, nothing from outside
            command,
            stdin=line.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd=os.sep,
            close_fds=True,
            start_new_session=True,
        )
    except OSError as failure:
        raise WorkerStartupError(
            f"A worker process could not be started: {failure.strerror}",
            hint="Check the limits on processes and memory of the account that runs the server.",
        ) from failure


def pair(kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, socket.socket]:
    """Two sockets that are connected.

    Raises:
        WorkerStartupError: this process may open no more.
    """
    try:
        return socket.socketpair(socket.AF_UNIX, kind)
    except OSError as failure:
        raise WorkerStartupError(
            f"There is no descriptor left for a worker: {failure.strerror}",
            hint="Raise the limit on open files of the account that runs the server (ulimit -n).",
        ) from failure


class ForkServer:
    """A clean process with everything loaded that forks workers on demand. Starting it blocks for some milliseconds.

    Args:
        prepare: What its workers are for.
    """

    def __init__(self, prepare: wire.Prepare) -> None:
        self._control, theirs = pair(socket.SOCK_SEQPACKET)
        try:
            self._process = start_process(FORK_SERVER_COMMAND, theirs)
        except WorkerStartupError:
            self._control.close()
            raise
        finally:
            theirs.close()
        self._control.setblocking(False)
        self._control.send(wire.pack(prepare)[wire.HEADER.size :])

    @staticmethod
    def available() -> bool:
        """Whether this system has what it takes: fork, and descriptors that stand for processes (Linux 5.3)."""
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (AttributeError, OSError):
            return False
        return hasattr(os, "fork")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether it still runs. Of one that does not, nothing is left."""
        if self._process.poll() is None:
            return True
        self._control.close()
        return False

    def kill(self) -> None:
        """End it at once, and with it every worker it has made."""
        self._process.kill()

    def fork(self, pipe: socket.socket) -> ForkedProcess:
        """A new worker with `pipe` as its descriptor 0. Does not wait: the worker comes into being meanwhile.

        Raises:
            WorkerStartupError: the fork server has ended, or is too far behind.
        """
        fate, theirs = pair(socket.SOCK_SEQPACKET)
        try:
            socket.send_fds(self._control, [b"f"], [pipe.fileno(), theirs.fileno()])
        except OSError as failure:
            fate.close()
            raise WorkerStartupError(f"The fork server does not answer: {failure.strerror}") from failure
        finally:
            theirs.close()
        return ForkedProcess(fate)

    def close(self) -> None:
        """End it and every worker it has made."""
        self._control.close()

    def wait(self) -> None:
        """Wait until it has ended, its workers before it; one that hangs is killed, and they with it."""
        try:
            self._process.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ForkedProcess:
    """A worker made by the fork server. What becomes of it arrives on a line of its own: see `FATE`."""

    def __init__(self, fate: socket.socket) -> None:
        fate.setblocking(False)
        self._fate = fate
        self._pid = 0
        self._process = -1
        self._status: int | None = None
        self._unwanted = False
        # One thread may wait for its end while another sees to it, and whoever learns of the end closes the line.
        self._turn = threading.RLock()

    @property
    def pid(self) -> int:
        """Its process id; 0 until it is known."""
        if not self._pid:
            self.poll()
        return self._pid

    def kill(self) -> None:
        """End it at once; one that is not born yet ends as soon as it is."""
        with self._turn:
            self._unwanted = True
            if self.poll() is None:
                self._end()

    def _end(self) -> None:
        if self._pid and self._process < 0:
            self._settle(UNKNOWN_ENDING)
        elif self._process >= 0:
            # By descriptor: the number of an ended process may already be another's.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs or is being made."""
        with self._turn:
            return self._told()

    def _told(self) -> int | None:
        while self._status is None:
            try:
                record, descriptors, _, _ = socket.recv_fds(self._fate, FATE.size, 1)
            except BlockingIOError:
                break
            if not record:
                # The fork server is gone, and its workers die with it: the system has been told to see to that.
                if self._process < 0 or _readable(self._process, 0.0):
                    self._settle(UNKNOWN_ENDING)
                break
            mark, number = FATE.unpack(record)
            if mark == BORN:
                self._pid = number
                # Without a descriptor, because this process has too many, it ends by the fate that is closed.
                self._process = descriptors[0] if descriptors else -1
                if self._unwanted or not descriptors:
                    self._end()
            else:
                self._settle(number)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status when it has ended.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(FORK_SERVER_COMMAND, timeout or 0)
            # What ends it shows on the process, and soon after on its fate; another thread may close that meanwhile.
            if (line := self._fate.fileno()) >= 0:
                longest = 0.05 if self._process < 0 else 0.01
                _readable(line, longest if left is None else min(longest, left))
        return status

    def _settle(self, status: int) -> None:
        self._status = status
        self._fate.close()
        if self._process >= 0:
            os.close(self._process)
            self._process = -1

    def __del__(self) -> None:
        if self._process >= 0:
            os.close(self._process)
        self._fate.close()


def _readable(descriptor: int, seconds: float | None) -> bool:
    """Whether there is something to read within that time. Unlike `select`, for descriptors of any number."""
    watched = select.poll()
    watched.register(descriptor, select.POLLIN)
    return bool(watched.poll(None if seconds is None else seconds * 1000))
