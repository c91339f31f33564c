"""One worker process, seen from the server: start, wait until it is ready, kill, reap; and how it is jailed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

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

PYTHON = str(Path(sys.executable).absolute())
"""The interpreter of this process: one that was found by a relative path means no file where workers start."""

WORKER_COMMAND = (PYTHON, "-I", "-m", "codecall.sandbox.worker")
"""How a worker is started: isolated from the environment, the user's site folder and the working directory."""

KERNEL_FACTS = {"NoNewPrivs": "1", "Seccomp": "2", "CapPrm": "0" * 16, "CapEff": "0" * 16, "CapAmb": "0" * 16}
"""Lines of `/proc/<pid>/status`, and their values for a worker whose jail is complete (proc_pid_status(5))."""

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
        self.killed = False
        """Whether `kill` has ended it."""
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
                process = start_process((*WORKER_COMMAND, *(("starlark",) if prepare.starlark else ())), theirs)
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
        self.killed = True
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
    except FileNotFoundError as failure:
        raise WorkerStartupError(
            f"A worker process could not be started: there is no {command[0]}",
            hint=f"`{command[0]}` was `sys.executable` when the server started: start it with an interpreter that is "
            "there.",
        ) from failure
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


class SandboxReport(NamedTuple):
    """How the workers of an enclave are jailed: every layer as a worker has entered it, and what the kernel says of the
    same process."""

    platform: str
    """`linux`, `darwin` …"""
    fork_server: bool
    """Whether workers are forked ahead of need, rather than started each by itself."""
    runs_per_worker: int
    """Scripts a worker serves before it is replaced."""
    required: bool
    """Whether the preset refuses to run scripts unless all layers hold."""
    layers: tuple[wire.Layer, ...]
    """Every layer, active or not."""
    kernel: dict[str, str]
    """Lines of KERNEL_FACTS as the kernel has them for a worker; empty where there is no /proc."""

    @property
    def complete(self) -> bool:
        """Whether every layer holds, and the kernel agrees."""
        agreed = all(self.kernel.get(name, wanted) == wanted for name, wanted in KERNEL_FACTS.items())
        return bool(self.layers) and all(layer.active for layer in self.layers) and agreed

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON data, for a health endpoint or a log."""
        return {
            "complete": self.complete,
            "platform": self.platform,
            "forkServer": self.fork_server,
            "runsPerWorker": self.runs_per_worker,
            "required": self.required,
            "layers": [
                {"name": layer.name, "active": layer.active, "stops": layer.stops, "detail": layer.detail}
                for layer in self.layers
            ],
            "kernel": self.kernel,
        }

    def __str__(self) -> str:
        """The report as a table."""
        lines = [f"{'layer':<14}{'':<9}a worker that was taken over cannot"]
        for layer in self.layers:
            lines.append(f"{layer.name:<14}{'active' if layer.active else 'MISSING':<9}{layer.stops}")
            if layer.detail:
                lines.append(f"{'':<23}({layer.detail})")
        facts = [f"kernel: {name} {value}" for name, value in self.kernel.items()]
        lines += ["", *(facts or ["kernel: shows nothing of the worker (no /proc, or hidepid)"])]
        spawned = "forked ahead of need" if self.fork_server else "started one by one"
        lines.append(f"workers are {spawned}, each for {self.runs_per_worker} script(s)")
        lines.append("every layer holds" if self.complete else "NOT every layer holds")
        return "\n".join(lines)


def kernel_facts(pid: int) -> dict[str, str]:
    """The lines of KERNEL_FACTS in the status of that process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    facts = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return {name: value for name, value in facts if name in KERNEL_FACTS}
