"""Worker processes and the fork server, seen from the server process: spawn, kill, wait, reap."""

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

import anyio
import anyio.to_thread

from codecall.errors import (
    ExecutionAbortedError,
    MessageFloodError,
    MessageSizeError,
    MessageValidationError,
    WorkerCrashedError,
    WorkerError,
    WorkerStartupError,
)
from codecall.sandbox import wire
from codecall.sandbox.host.pipe import WorkerPipe

WORKER_COMMAND = (sys.executable, "-I", "-m", "codecall.sandbox.worker")
"""How a worker is started: isolated from the environment, the user's site folder and the working directory."""

FORK_SERVER_COMMAND = (sys.executable, "-I", "-m", "codecall.sandbox.worker.fork_server")
"""How the fork server is started: isolated in the same way."""

CLOSING_S = 1.0
"""How long a fork server may take to end its workers and itself, in seconds."""

UNKNOWN_EXIT_STATUS = -signal.SIGKILL
"""Exit status of a worker whose fork server died with it."""

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""How a process is asked to end: by an operator, or by the system when it shuts a service down."""


class WorkerProcess:
    """A worker and the pipe to it. Not safe for two users at once: the pool lends it to one run at a time."""

    def __init__(self, process: ProcessHandle, connection: socket.socket, prepare: wire.Prepare) -> None:
        self._process = process
        self.pipe = WorkerPipe(connection, self._exit_error)
        """Messages to it and from it."""
        self.memory_mb = prepare.limits.memory_mb
        """Engine heap its jail has room for, in MiB."""
        self.owner: str | None = None
        """Whose scripts it has run: it runs no others."""
        self.slice_ends_at = 0.0
        """Until then it stays with an owner that has scripts waiting; on the clock of `time.monotonic`."""
        self._missing_layers: str | None = None
        self.layers: list[wire.Layer] = []
        """The layers of its jail, once it is ready."""
        self.ready = False
        """Whether it has reported that everything is loaded and its jail shut."""
        self.runs = 0
        """Scripts it has been given."""
        self.peers: set[WorkerProcess] = set()
        """The workers of its pool that run scripts now."""
        self.retired = False
        """Set when it must not be used again."""
        # A new pipe has room for one small frame. A worker that does not read it will not be ready either.
        with contextlib.suppress(OSError):
            connection.send(wire.pack(prepare))

    @property
    def pid(self) -> int:
        """Its process id; 0 until that is known."""
        return self._process.pid

    @classmethod
    def spawn(cls, prepare: wire.Prepare) -> WorkerProcess:
        """Start a process; it is not ready yet. Takes some milliseconds.

        Raises:
            WorkerStartupError: the process could not be started.
        """
        ours, theirs = socket_pair()
        with theirs:
            try:
                process = start_process(WORKER_COMMAND, theirs)
            except WorkerStartupError:
                ours.close()
                raise
        return cls(process, ours, prepare)

    @classmethod
    def fork(cls, server: ForkServer, prepare: wire.Prepare) -> WorkerProcess:
        """Have the fork server fork a process; it is not ready yet.

        Raises:
            WorkerStartupError: the fork server does not answer.
        """
        ours, theirs = socket_pair()
        with theirs:
            try:
                process = server.fork(theirs)
            except WorkerStartupError:
                ours.close()
                raise
        return cls(process, ours, prepare)

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    async def wait_ready(self, timeout_ms: int) -> None:
        """Wait until everything is loaded.

        Raises:
            WorkerStartupError: it died or took longer than `timeout_ms`.
        """
        if self.ready:
            return
        self._check_jail()
        try:
            with anyio.fail_after(timeout_ms / 1000):
                message = await self.pipe.receive()
        except TimeoutError:
            raise WorkerStartupError(f"A worker process was not ready within {timeout_ms}ms") from None
        except (MessageFloodError, MessageSizeError, MessageValidationError):
            raise WorkerStartupError("A worker process did not start by the protocol") from None
        except (WorkerCrashedError, ExecutionAbortedError) as failure:
            raise WorkerStartupError(
                f"A worker process ended while it was starting ({await self._exit_text()})",
                hint=f"Run `{' '.join(WORKER_COMMAND)}` by hand: it prints what is missing.",
            ) from failure
        if not isinstance(message, wire.Ready):
            raise WorkerStartupError("A worker process did not start by the protocol")
        self.layers = message.layers
        self._missing_layers = message.failure
        self._check_jail()
        self.ready = True

    def _check_jail(self) -> None:
        if self._missing_layers is not None:
            raise WorkerStartupError(
                f"The worker's jail lacks a layer that the preset requires: {self._missing_layers}",
                hint="`python -m codecall.sandbox.report` shows every layer; `require_jail=False` runs without.",
            )

    def kill(self) -> None:
        """End the process at once. A task that waits for its messages is woken and finds it gone."""
        self.pipe.close()
        self._process.kill()

    def reap(self) -> bool:
        """Take the ended process off the system's table; False while it is still dying."""
        return self._process.poll() is not None

    async def close(self) -> None:
        """Kill and reap."""
        self.kill()
        if not self.reap():
            await anyio.to_thread.run_sync(self._process.wait)

    async def _exit_error(self) -> WorkerError:
        """The error for a worker that has ended, or closed its pipe."""
        text = await self._exit_text()
        if (status := self._process.poll()) is not None and -status in _STOP_SIGNALS:
            return ExecutionAbortedError(
                f"The worker process was stopped from outside ({text})",
                hint="Somebody, or the system shutting down, asked it to end. Calls already made have taken effect.",
            )
        return WorkerCrashedError(f"The worker process ended ({text})")

    async def _exit_text(self) -> str:
        status = self._process.poll()
        if status is None:
            # The pipe closes a moment before the process is gone; its exit status is worth that moment.
            with contextlib.suppress(subprocess.TimeoutExpired), anyio.CancelScope(shield=True):
                status = await anyio.to_thread.run_sync(self._process.wait, 0.25)
        if status is None:
            return "it closed its pipe"
        if status < 0:
            try:
                return f"signal {signal.Signals(-status).name}"
            except ValueError:
                return f"signal {-status}"
        return f"exit status {status}"


class ProcessHandle(Protocol):
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


class ForkServer:
    """A clean process with everything loaded that forks workers on demand. Starting it blocks for some milliseconds.

    Args:
        prepare: What its workers make ready for.
    """

    def __init__(self, prepare: wire.Prepare) -> None:
        self._control, theirs = socket_pair(socket.SOCK_SEQPACKET)
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
        """Whether it still runs. One that does not is closed."""
        if self._process.poll() is None:
            return True
        self._control.close()
        return False

    def kill(self) -> None:
        """End it at once, and with it every worker it has forked."""
        self._process.kill()

    def fork(self, pipe: socket.socket) -> ForkedProcess:
        """Fork a worker with `pipe` as its descriptor 0, without waiting for it.

        Raises:
            WorkerStartupError: the fork server has ended, or is too far behind.
        """
        records, theirs = socket_pair(socket.SOCK_SEQPACKET)
        try:
            socket.send_fds(self._control, [b"f"], [pipe.fileno(), theirs.fileno()])
        except OSError as failure:
            records.close()
            raise WorkerStartupError(f"The fork server does not answer: {failure.strerror}") from failure
        finally:
            theirs.close()
        return ForkedProcess(records)

    def close(self) -> None:
        """Have it end itself and every worker it has forked."""
        self._control.close()

    def wait(self) -> None:
        """Wait until it has ended, its workers before it; one that hangs is killed, and they with it."""
        try:
            self._process.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ForkedProcess:
    """A worker that the fork server forks. Records of its start and end arrive on a socket of its own: see
    `wire.EXIT_RECORD`."""

    def __init__(self, records: socket.socket) -> None:
        records.setblocking(False)
        self._records = records
        self._pid = 0
        self._descriptor = -1
        self._status: int | None = None
        self._killed = False
        # One thread may wait for its end while another kills it, and whichever learns of the end closes the socket.
        self._lock = threading.RLock()

    @property
    def pid(self) -> int:
        """Its process id; 0 until it is known."""
        if not self._pid:
            self.poll()
        return self._pid

    def kill(self) -> None:
        """End it at once; one that has not been forked yet ends as soon as it is."""
        with self._lock:
            self._killed = True
            if self.poll() is None:
                self._send_kill()

    def _send_kill(self) -> None:
        if self._pid and self._descriptor < 0:
            self._set_status(UNKNOWN_EXIT_STATUS)
        elif self._descriptor >= 0:
            # By descriptor: the number of an ended process may already be another's.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs or is being forked."""
        with self._lock:
            return self._read_records()

    def _read_records(self) -> int | None:
        while self._status is None:
            try:
                record, descriptors, _, _ = socket.recv_fds(self._records, wire.EXIT_RECORD.size, 1)
            except BlockingIOError:
                break
            if not record:
                # The fork server is gone, and its workers die with it: the system has been told to see to that.
                if self._descriptor < 0 or _readable(self._descriptor, 0.0):
                    self._set_status(UNKNOWN_EXIT_STATUS)
                break
            mark, number = wire.EXIT_RECORD.unpack(record)
            if mark == wire.SPAWNED:
                self._pid = number
                # Without a descriptor, because this process has too many, it ends when its socket is closed.
                self._descriptor = descriptors[0] if descriptors else -1
                if self._killed or not descriptors:
                    self._send_kill()
            else:
                self._set_status(number)
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
            # Its end shows on the process, and soon after in a record; another thread may close the socket meanwhile.
            if (number := self._records.fileno()) >= 0:
                longest = 0.05 if self._descriptor < 0 else 0.01
                _readable(number, longest if left is None else min(longest, left))
        return status

    def _set_status(self, status: int) -> None:
        self._status = status
        self._records.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._records.close()


def start_process(command: Sequence[str], connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start a process that sees nothing of this one but `connection`, as its descriptor 0.

    Raises:
        WorkerStartupError: it could not be started.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - fixed commands, nothing from outside
            command,
            stdin=connection.fileno(),
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


def socket_pair(kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, socket.socket]:
    """Two connected sockets.

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


def _readable(descriptor: int, seconds: float | None) -> bool:
    """Whether there is something to read within that time. Unlike `select`, for descriptors of any number."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if seconds is None else seconds * 1000))
