"""How workers are spawned: forked by a fork server where there can be one, else started one by one.

The fork server is a process of its own (`worker/fork_server.py`); `ForkServer` is its handle in this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import select
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress

import anyio
import anyio.to_thread
import msgspec

from codecall.errors import WorkerStartupError
from codecall.options import PoolOptions
from codecall.sandbox import wire
from codecall.sandbox.host.process import PYTHON, WorkerProcess, socket_pair, start_process

FORK_SERVER_COMMAND = (PYTHON, "-I", "-m", "codecall.sandbox.worker.fork_server")
"""How the fork server is started: isolated as a worker is."""

CLOSING_S = 1.0
"""How long a fork server may take to end its workers and itself, in seconds."""

UNKNOWN_EXIT_STATUS = -signal.SIGKILL
"""Exit status of a worker whose fork server died with it."""

MAX_ABANDONED = 2
"""Fork servers kept although they hang, for the sake of the scripts that run in their workers."""

logger = logging.getLogger("codecall")


class WorkerSpawner:
    """Spawns the workers of one pool.

    Args:
        options: Whether to fork, and how long a start may take.
        prepare: What workers make ready for.
    """

    def __init__(self, options: PoolOptions, prepare: wire.Prepare) -> None:
        self._options = options
        self._prepare = prepare
        self._server: ForkServer | None = None
        self._abandoned: list[ForkServer] = []
        self._report: tuple[WorkerProcess, asyncio.Task[None]] | None = None
        """The worker whose jail is reported at start-up, and the task that waits for it."""
        self.closed = False
        """Set when no worker is to be spawned any more."""
        self.layers: list[wire.Layer] = []
        """The layers of the jail as the first worker found them; empty before there was one."""

    @property
    def forks(self) -> bool:
        """Whether a fork server runs: then a worker can be spawned without waiting."""
        return self._server is not None

    def spawn(self, memory_mb: int) -> WorkerProcess:
        """Spawn a worker with room for an engine heap of that many MiB; it loads in the background.

        Raises:
            WorkerStartupError: it could not be started.
        """
        prepare = self._prepared_for(memory_mb)
        if (server := self._running_server()) is None:
            return WorkerProcess.spawn(prepare)
        try:
            return _fork(server, prepare)
        except WorkerStartupError:
            # It has died, and its workers with it. If a second one is no better, that is for the caller.
            self._abandon(server)
            if (server := self._running_server()) is None:
                raise
            return _fork(server, prepare)

    def prefork(self) -> WorkerProcess:
        """Fork a worker for the memory of the preset, without waiting; only while `forks`.

        Raises:
            WorkerStartupError: it could not be started.
        """
        if self._server is None:
            raise WorkerStartupError("There is no fork server")
        return _fork(self._server, self._prepare)

    def log_first_jail_report(self, worker: WorkerProcess) -> None:
        """Wait in a task for `worker`, the first one, so that the log says at start-up how scripts are jailed."""
        if self._report is None:
            self._report = worker, asyncio.create_task(self._log_report(worker), context=contextvars.Context())

    async def _log_report(self, worker: WorkerProcess) -> None:
        try:
            await self._wait_ready(worker)
        except WorkerStartupError as failure:
            if not (self.closed or worker.killed):
                logger.error("scripts cannot run: %s", failure.message)  # noqa: TRY400 - the reason is all there is

    async def wait_ready(self, worker: WorkerProcess) -> None:
        """Wait until a new worker is ready.

        Raises:
            WorkerStartupError: it died, took too long, or lacks a layer of the jail that is required.
        """
        if self._report is not None and self._report[0] is worker:
            await asyncio.wait([self._report[1]])
        await self._wait_ready(worker)

    async def _wait_ready(self, worker: WorkerProcess) -> None:
        server = self._server
        try:
            await worker.wait_ready(self._options.startup_timeout_ms)
        except WorkerStartupError:
            # One worker may die for reasons of its own. One that neither lives nor dies is the fork server's fault.
            if server is not None and not worker.layers and (worker.alive() or not server.alive()):
                self._abandon(server)
            raise
        if not self.layers:
            self.layers = worker.layers
            _log_layers(worker.layers)

    async def aclose(self) -> None:
        """End the fork server, and with it every worker it has forked."""
        self.closed = True
        if self._report is not None:
            self._report[1].cancel()
            await asyncio.wait([self._report[1]])
        if self._server is not None:
            self._abandon(self._server)
        for server in self._abandoned:
            server.close()
        for server in self._abandoned:
            await anyio.to_thread.run_sync(server.wait)
        self._abandoned.clear()

    def _running_server(self) -> ForkServer | None:
        """The fork server, started by the first call. None where there can be none, or is to be none."""
        if self._server is None and self._options.fork_server and not self.closed and ForkServer.available():
            # Not in a thread: it takes two milliseconds, and a process that is started there is lost when the caller
            # is cancelled meanwhile.
            self._server = ForkServer(self._prepare)
        return self._server

    def _abandon(self, server: ForkServer) -> None:
        """Fork no more workers with `server`. Those that run scripts go on; they end with it, when the pool is
        closed."""
        if self._server is server:
            self._server = None
            self._abandoned = [other for other in self._abandoned if other.alive()]
            self._abandoned.append(server)
        for old in self._abandoned[:-MAX_ABANDONED]:
            old.kill()

    def _prepared_for(self, memory_mb: int) -> wire.Prepare:
        limits = self._prepare.limits
        if memory_mb <= limits.memory_mb:
            return self._prepare
        limits = msgspec.structs.replace(limits, memory_mb=memory_mb)
        return msgspec.structs.replace(self._prepare, limits=limits)


def _log_layers(layers: list[wire.Layer]) -> None:
    """Log the one line at start-up that says how the workers are jailed."""
    missing = [f"{layer.name} ({layer.detail})" for layer in layers if not layer.active]
    if missing:
        active = len(layers) - len(missing)
        logger.warning(
            "scripts run with %d of %d layers of the jail; missing: %s", active, len(layers), "; ".join(missing)
        )
    else:
        logger.info("scripts run with all %d layers of the jail", len(layers))


def _fork(server: ForkServer, prepare: wire.Prepare) -> WorkerProcess:
    """Have the fork server fork a worker; it is not ready yet.

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
    return WorkerProcess(process, ours, prepare)


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
        with suppress(OSError):  # one that has ended already answers no request either, which says so
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


def _readable(descriptor: int, seconds: float | None) -> bool:
    """Whether there is something to read within that time. Unlike `select`, for descriptors of any number."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if seconds is None else seconds * 1000))
