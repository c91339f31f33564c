"""One worker process, seen from the server: spawn, send, receive, kill, reap."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys

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
from codecall.sandbox.host.fork_server import ForkServer, Process, pair, start_process
from codecall.sandbox.host.pipe import Pipe

_STOPPED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""How a process is asked to end: by an operator, or by the system when it shuts a service down."""

WORKER_COMMAND = (sys.executable, "-I", "-m", "codecall.sandbox.worker")
"""How a worker is started: isolated from the environment, the user's site folder and the working directory."""


class WorkerProcess:
    """A worker and the pipe to it. Not safe for two users at once: the pool lends it to one run at a time."""

    def __init__(self, process: Process, connection: socket.socket, prepare: wire.Prepare) -> None:
        self._process = process
        self.pipe = Pipe(connection, self._gone)
        """What is said to it, and what it says."""
        self.memory_mb = prepare.limits.memory_mb
        """Engine heap its jail has room for, in MiB."""
        self.owner: str | None = None
        """Whose scripts it has run: it runs no others."""
        self.stays_until = 0.0
        """While that owner has scripts waiting, it stays with them so long; on the clock of `time.monotonic`."""
        self._lacks: str | None = None
        self.layers: list[wire.Layer] = []
        """The layers of its jail, once it is ready."""
        self.ready = False
        """Whether it has said that everything is loaded and its jail shut."""
        self.runs = 0
        """Scripts it has been given."""
        self.peers: set[WorkerProcess] = set()
        """The workers of its pool that run scripts now."""
        self.retired = False
        """Set when it must not be used again."""
        # A new pipe has room for one small frame. Whoever does not read it will not be ready either.
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
        ours, theirs = pair()
        with theirs:
            try:
                process = start_process(WORKER_COMMAND, theirs)
            except WorkerStartupError:
                ours.close()
                raise
        return cls(process, ours, prepare)

    @classmethod
    def fork(cls, server: ForkServer, prepare: wire.Prepare) -> WorkerProcess:
        """Have the fork server make a process; it is not ready yet.

        Raises:
            WorkerStartupError: the fork server does not answer.
        """
        ours, theirs = pair()
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
                f"A worker process ended while it was starting ({await self._ending()})",
                hint=f"Run `{' '.join(WORKER_COMMAND)}` by hand: it prints what is missing.",
            ) from failure
        if not isinstance(message, wire.Ready):
            raise WorkerStartupError("A worker process did not start by the protocol")
        self.layers = message.layers
        self._lacks = message.failure
        self._check_jail()
        self.ready = True

    def _check_jail(self) -> None:
        if self._lacks is not None:
            raise WorkerStartupError(
                f"The worker's jail lacks a layer that the preset requires: {self._lacks}",
                hint="`python -m codecall.sandbox.report` shows every layer; `require_jail=False` runs without.",
            )

    def kill(self) -> None:
        """End the process at once. Whoever waits for it is woken and finds it gone."""
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

    async def _gone(self) -> WorkerError:
        """The error for a worker that has ended, or closed its pipe."""
        ending = await self._ending()
        if (code := self._process.poll()) is not None and -code in _STOPPED:
            return ExecutionAbortedError(
                f"The worker process was stopped from outside ({ending})",
                hint="Somebody, or the system shutting down, asked it to end. Calls already made have taken effect.",
            )
        return WorkerCrashedError(f"The worker process ended ({ending})")

    async def _ending(self) -> str:
        code = self._process.poll()
        if code is None:
            # The pipe closes a moment before the process is gone; its exit status is worth that moment.
            with contextlib.suppress(subprocess.TimeoutExpired), anyio.CancelScope(shield=True):
                code = await anyio.to_thread.run_sync(self._process.wait, 0.25)
        if code is None:
            return "it closed its pipe"
        if code < 0:
            try:
                return f"signal {signal.Signals(-code).name}"
            except ValueError:
                return f"signal {-code}"
        return f"exit status {code}"
