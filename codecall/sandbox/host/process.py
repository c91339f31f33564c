"""One worker process, seen from the server: spawn, send, receive, kill, reap."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import time

import anyio
import anyio.to_thread

from codecall.errors import MessageSizeError, MessageValidationError, WorkerCrashedError, WorkerStartupError
from codecall.sandbox import wire
from codecall.sandbox.host.fork_server import ForkServer, Process, start_process

_RECEIVE_BYTES = 256 * 1024

WORKER_COMMAND = (sys.executable, "-I", "-m", "codecall.sandbox.worker")
"""How a worker is started: isolated from the environment, the user's site folder and the working directory."""


class WorkerProcess:
    """A worker and the pipe to it. Not safe for two users at once: the pool lends it to one run at a time."""

    def __init__(self, process: Process, connection: socket.socket, prepare: wire.Prepare) -> None:
        connection.setblocking(False)
        self._process = process
        self._connection = connection
        self._buffer = bytearray()
        self._waiting: asyncio.Future[None] | None = None
        self.memory_mb = prepare.limits.memory_mb
        """Engine heap its jail has room for, in MiB."""
        self.owner: str | None = None
        """Whose scripts it has run: it runs no others."""
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
    async def spawn(cls, prepare: wire.Prepare) -> WorkerProcess:
        """Start a process; it is not ready yet.

        Raises:
            WorkerStartupError: the process could not be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await anyio.to_thread.run_sync(start_process, WORKER_COMMAND, theirs)
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
        ours, theirs = socket.socketpair()
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
        try:
            with anyio.fail_after(timeout_ms / 1000):
                message = await self.receive()
        except TimeoutError:
            raise WorkerStartupError(f"A worker process was not ready within {timeout_ms}ms") from None
        except (MessageSizeError, MessageValidationError):
            raise WorkerStartupError("A worker process did not start by the protocol") from None
        except WorkerCrashedError as failure:
            raise WorkerStartupError(
                f"A worker process ended while it was starting ({await self._ending()})",
                hint=f"Run `{' '.join(WORKER_COMMAND)}` by hand: it prints what is missing.",
            ) from failure
        if not isinstance(message, wire.Ready):
            raise WorkerStartupError("A worker process did not start by the protocol")
        self.layers = message.layers
        if message.failure is not None:
            raise WorkerStartupError(
                f"The worker's jail lacks a layer that the preset requires: {message.failure}",
                hint="`python -m codecall.sandbox.report` shows every layer; `require_jail=False` runs without.",
            )
        self.ready = True

    async def send(self, message: wire.ServerMessage) -> None:
        """Write one frame.

        Raises:
            MessageSizeError: the message does not fit into a frame.
            WorkerCrashedError: the worker is gone.
        """
        try:
            frame = memoryview(wire.pack(message))
        except wire.FrameTooLarge as failure:
            raise MessageSizeError(
                f"A message of {failure.args[0]} bytes to the worker exceeds the limit of {wire.MAX_FRAME_BYTES} bytes"
            ) from None
        while frame:
            try:
                sent = self._connection.send(frame)
            except BlockingIOError:
                await self._wait_writable()
            except OSError:
                raise WorkerCrashedError(f"The worker process ended ({await self._ending()})") from None
            else:
                frame = frame[sent:]

    async def receive(self, patience: float = 0.0) -> wire.WorkerMessage:
        """Read one frame. Cancelling loses nothing: what has arrived stays buffered.

        Args:
            patience: Seconds to look for an answer without letting go of the event loop.

        Raises:
            MessageValidationError, MessageSizeError: the worker broke the protocol.
            WorkerCrashedError: the worker is gone.
        """
        needed = wire.HEADER.size
        length = -1
        while True:
            if len(self._buffer) >= needed:
                if length >= 0:
                    break
                (length,) = wire.HEADER.unpack_from(self._buffer)
                if length > wire.MAX_FRAME_BYTES:
                    raise MessageSizeError(
                        f"The worker announced a frame of {length} bytes; the limit is {wire.MAX_FRAME_BYTES} bytes"
                    )
                needed += length
                continue
            await self._fill(needed, patience)
        body = bytes(memoryview(self._buffer)[wire.HEADER.size : needed])
        del self._buffer[:needed]
        try:
            return wire.decode_worker_message(body)
        except (wire.InvalidMessage, RecursionError):
            raise MessageValidationError("The worker sent something that is not a message of the protocol") from None

    async def _fill(self, needed: int, patience: float) -> None:
        until = time.perf_counter() + patience if patience else 0.0
        while True:
            try:
                data = self._connection.recv(max(_RECEIVE_BYTES, min(needed - len(self._buffer), 1 << 22)))
            except BlockingIOError:
                if not patience or time.perf_counter() > until:
                    await self._wait_readable()
                continue
            except OSError:
                data = b""
            if not data:
                raise WorkerCrashedError(f"The worker process ended ({await self._ending()})")
            self._buffer += data
            return

    # asyncio's own hooks rather than anyio's: those go round the event loop once more for every wait, which would be
    # a fifth of what a tool call costs here. (FastMCP runs on asyncio only.)

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_reader(self._connection, _wake, self._waiting)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if self._connection.fileno() >= 0:
                loop.remove_reader(self._connection)

    async def _wait_writable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_writer(self._connection, _wake, self._waiting)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if self._connection.fileno() >= 0:
                loop.remove_writer(self._connection)

    def has_unread(self) -> bool:
        """Whether the worker has said something out of turn."""
        if self._buffer:
            return True
        try:
            return len(self._connection.recv(1, socket.MSG_PEEK)) >= 0
        except BlockingIOError:
            return False
        except OSError:
            return True

    def kill(self) -> None:
        """End the process at once. Whoever waits for it is woken and finds it gone."""
        if self._connection.fileno() >= 0:
            if self._waiting is not None:
                loop = self._waiting.get_loop()
                loop.remove_reader(self._connection)
                loop.remove_writer(self._connection)
                _wake(self._waiting)
            self._connection.close()
        self._process.kill()

    def reap(self) -> bool:
        """Take the ended process off the system's table; False while it is still dying."""
        return self._process.poll() is not None

    async def close(self) -> None:
        """Kill and reap."""
        self.kill()
        if not self.reap():
            await anyio.to_thread.run_sync(self._process.wait)

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


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
