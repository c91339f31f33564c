"""The server's end of the pipe to one worker: frames out, frames in, and no worker holds up anybody with them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Generator

import anyio

from codecall.errors import (
    MessageFloodError,
    MessageSizeError,
    MessageValidationError,
    WorkerError,
    WorkerTimeoutError,
)
from codecall.sandbox import wire

_RECEIVE_BYTES = 256 * 1024

UNREAD_MS = 5_000
"""How long a worker may leave a message unread, in milliseconds. One that waits for it reads it at once; the time is
for a machine that is overloaded."""

HOLD_S = 0.002
"""How long a worker that keeps talking may keep the event loop from anybody else, in seconds."""

QUIET_S = 0.05
"""How long a tool call runs before the server listens for a worker that speaks or ends meanwhile, in seconds."""

FEWEST_PIECES = 256
"""Pieces any frame may arrive in."""

SMALLEST_PIECE = 512
"""Bytes each further piece of a frame has to bring on average. A worker writes a frame in one go, and the system cuts
it into pieces of several thousand bytes."""


class Pipe:
    """Frames over one connection.

    Args:
        connection: The server's end.
        gone: Gives the error for a worker that has closed its end.
    """

    def __init__(self, connection: socket.socket, gone: Callable[[], Awaitable[WorkerError]]) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._gone = gone
        self._buffer = bytearray()
        self._held_since = 0.0
        self._waiting: asyncio.Future[None] | None = None
        self.longest_frame = wire.MAX_READY_BYTES
        """Longest frame the worker may send, in bytes."""

    async def send(self, message: wire.ServerMessage) -> None:
        """Write one frame.

        Raises:
            MessageSizeError: the message does not fit into a frame.
            WorkerTimeoutError: the worker does not read it.
            WorkerCrashedError, ExecutionAbortedError: the worker is gone.
        """
        try:
            frame = memoryview(wire.pack(message))
        except wire.FrameTooLarge as failure:
            raise MessageSizeError(
                f"A message of {failure.args[0]} bytes to the worker exceeds the limit of {wire.MAX_FRAME_BYTES} bytes"
            ) from None
        if not (rest := await self._write(frame)):
            return
        try:
            with anyio.fail_after(UNREAD_MS / 1000):
                while rest:
                    await self._wait_writable()
                    rest = await self._write(rest)
        except TimeoutError:
            raise WorkerTimeoutError(f"The worker did not read what it was sent within {UNREAD_MS}ms") from None

    async def _write(self, frame: memoryview) -> memoryview:
        """What is left of `frame` when the pipe takes no more."""
        while frame:
            try:
                sent = self._connection.send(frame)
            except BlockingIOError:
                break
            except OSError:
                raise await self._gone() from None
            frame = frame[sent:]
        return frame

    async def receive(self, patience: float = 0.0) -> wire.WorkerMessage:
        """Read one frame. Cancelling loses nothing: what has arrived stays buffered.

        Args:
            patience: Seconds to look for an answer without letting go of the event loop.

        Raises:
            MessageValidationError, MessageSizeError, MessageFloodError: the worker broke the protocol.
            WorkerCrashedError, ExecutionAbortedError: the worker is gone.
        """
        needed = wire.HEADER.size
        length = -1
        pieces = 0
        while True:
            if len(self._buffer) >= needed:
                if length >= 0:
                    break
                (length,) = wire.HEADER.unpack_from(self._buffer)
                if length > self.longest_frame:
                    raise MessageSizeError(
                        f"The worker announced a message of {length} bytes; the limit is {self.longest_frame} bytes"
                    )
                needed += length
                continue
            pieces += 1
            if pieces > FEWEST_PIECES + needed // SMALLEST_PIECE:
                raise MessageFloodError("The worker sent a message in crumbs")
            await self._fill(needed, patience)
            patience = 0.0
        body = bytes(memoryview(self._buffer)[wire.HEADER.size : needed])
        del self._buffer[:needed]
        try:
            return wire.decode_worker_message(body)
        except wire.InvalidMessage:
            raise MessageValidationError("The worker sent something that is not a message of the protocol") from None

    async def _fill(self, needed: int, patience: float) -> None:
        now = time.perf_counter()
        if now - self._held_since > HOLD_S:
            # What arrives without a wait would never let anybody else run, deadlines included. A worker that has only
            # just been written to has not answered yet, and looking would take as long as waiting begins.
            await (asyncio.sleep(0) if patience else self._wait_readable())
            self._held_since = now = time.perf_counter()
        until = now + patience if patience else 0.0
        while True:
            try:
                data = self._connection.recv(max(_RECEIVE_BYTES, min(needed - len(self._buffer), 1 << 22)))
            except BlockingIOError:
                if not patience or time.perf_counter() > until:
                    await self._wait_readable()
                    self._held_since = time.perf_counter()
                continue
            except OSError:
                data = b""
            if not data:
                raise await self._gone()
            self._buffer += data
            return

    # asyncio's own hooks rather than anyio's: those go round the event loop once more for every wait, which would be
    # a fifth of what a tool call costs here. (FastMCP runs on asyncio only.)

    # By number: looked for by the socket itself, one that is not registered is described in full each time.

    async def _wait_readable(self) -> None:
        if (number := self._connection.fileno()) < 0:
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_reader(number, _wake, self._waiting)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if self._connection.fileno() >= 0:
                loop.remove_reader(number)

    async def _wait_writable(self) -> None:
        number = self._connection.fileno()
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        loop.add_writer(number, _wake, self._waiting)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if self._connection.fileno() >= 0:
                loop.remove_writer(number)

    def has_unread(self) -> bool:
        """Whether the worker has said something out of turn, or closed its end."""
        return self._next() is not None

    def interrupts(self) -> bool:
        """Whether the worker has said something although the server has the turn."""
        return bool(self._next())

    def _next(self) -> bytes | bytearray | None:
        """Something of what has not been read; empty when the worker has closed its end, None if nothing."""
        if self._buffer:
            return self._buffer
        try:
            return self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    @contextlib.contextmanager
    def overheard(self, notice: Callable[[], object]) -> Generator[None]:
        """Within this the server has the turn: `notice` is called once the worker speaks all the same, or has ended.

        Listening starts after `QUIET_S`: most tool calls are over by then, and it costs as much as they do.
        """
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[None] | None = None

        def tell(_: asyncio.Future[None]) -> None:
            if heard is not None:
                notice()

        def listen() -> None:
            nonlocal heard
            heard = self._waiting = loop.create_future()
            heard.add_done_callback(tell)
            if (number := self._connection.fileno()) < 0:
                _wake(heard)
            else:
                loop.add_reader(number, _wake, heard)

        timer = loop.call_later(QUIET_S, listen)
        try:
            yield
        finally:
            timer.cancel()
            if heard is not None:
                heard = self._waiting = None
                if (number := self._connection.fileno()) >= 0:
                    loop.remove_reader(number)

    async def trouble(self) -> WorkerError:
        """The error for what was `overheard`."""
        if self.interrupts():
            return MessageValidationError("The worker sent a message out of turn")
        return await self._gone()

    def close(self) -> None:
        """Close this end. Whoever waits is woken and finds the worker gone."""
        if (number := self._connection.fileno()) >= 0:
            if self._waiting is not None:
                loop = self._waiting.get_loop()
                loop.remove_reader(number)
                loop.remove_writer(number)
                _wake(self._waiting)
            self._connection.close()


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
