"""The server's end of the pipe to one worker: frames out, frames in. No worker can hold up the event loop with them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
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

UNREAD_MS = 5_000
"""How long a worker may leave a message unread, in milliseconds. One that waits for it reads it at once; the time is
for a machine that is overloaded."""

MAX_HOLD_S = 0.002
"""How long a worker that keeps sending may keep other tasks from the event loop, in seconds."""

MIN_FRAGMENTS = 256
"""Fragments any frame may arrive in."""

MIN_FRAGMENT_BYTES = 512
"""Bytes each further fragment of a frame has to bring on average. A worker writes a frame in one go, and the system
cuts it into fragments of several thousand bytes."""

_RECEIVE_BYTES = 256 * 1024


class WorkerPipe:
    """Frames over one connection.

    Args:
        connection: The server's end.
        exit_error: Gives the error for a worker that has closed its end.
    """

    def __init__(self, connection: socket.socket, exit_error: Callable[[], Awaitable[WorkerError]]) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._exit_error = exit_error
        self._buffer = bytearray()
        self._held_since = 0.0
        self._frame_bytes = 0
        """Bytes of the frame that is being read, its header included."""
        self._receiving = False
        self._waiting: asyncio.Future[None] | None = None
        """The task that reads, until bytes have arrived."""
        self._writing: asyncio.Future[None] | None = None
        self._on_interrupt: Callable[[], object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop that calls `_on_readable`."""
        self.longest_frame = wire.MAX_READY_BYTES
        """Longest frame the worker may send, in bytes."""

    async def send(self, message: wire.ServerMessage) -> None:
        """Write one frame.

        Raises:
            MessageSizeError: the message does not fit into a frame.
            WorkerTimeoutError: the worker does not read it.
            WorkerCrashedError, ExecutionAbortedError: the worker has ended.
        """
        try:
            frame = memoryview(wire.pack(message))
        except wire.FrameTooLargeError as failure:
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
                raise await self._exit_error() from None
            frame = frame[sent:]
        return frame

    async def receive(self, spin_s: float = 0.0, until: float = math.inf) -> wire.WorkerMessage:
        """Read one frame. Cancelling loses nothing: bytes that have arrived stay buffered.

        Args:
            spin_s: Seconds to look for an answer without letting go of the event loop.
            until: When to give up, in seconds of the event loop's clock.

        Raises:
            TimeoutError: no complete frame had arrived by then.
            MessageValidationError, MessageSizeError, MessageFloodError: the worker broke the protocol.
            WorkerCrashedError, ExecutionAbortedError: the worker has ended.
        """
        self._receiving = True
        try:
            length = await self._read_frame(spin_s, until)
        finally:
            self._receiving = False
        body = bytes(memoryview(self._buffer)[wire.HEADER.size : length])
        del self._buffer[:length]
        try:
            return wire.decode_worker_message(body)
        except wire.InvalidMessage:
            raise MessageValidationError("The worker sent something that is not a message of the protocol") from None

    async def _read_frame(self, spin_s: float, until: float) -> int:
        """Buffer the next frame; its length, header included."""
        needed = wire.HEADER.size
        length = -1
        fragments = 0
        while True:
            if len(self._buffer) >= needed:
                if length >= 0:
                    return needed
                (length,) = wire.HEADER.unpack_from(self._buffer)
                if length > self.longest_frame:
                    raise MessageSizeError(
                        f"The worker announced a message of {length} bytes; the limit is {self.longest_frame} bytes"
                    )
                needed += length
                continue
            fragments += 1
            if fragments > MIN_FRAGMENTS + needed // MIN_FRAGMENT_BYTES:
                raise MessageFloodError("The worker sent a message in too many fragments")
            await self._fill(needed, spin_s, until)
            spin_s = 0.0

    async def _fill(self, needed: int, spin_s: float, until: float) -> None:
        """Buffer the bytes that arrive next."""
        before, self._frame_bytes = len(self._buffer), needed
        now = time.perf_counter()
        if now - self._held_since > MAX_HOLD_S:
            # What arrives without a wait would never let anybody else run, deadlines included. A worker that has only
            # just been written to has not answered yet, and looking would take as long as waiting begins.
            await (asyncio.sleep(0) if spin_s else self._wait_readable(until))
            self._held_since = now = time.perf_counter()
        spin_until = now + spin_s if spin_s else 0.0
        while len(self._buffer) == before and not self._read_available():
            if not spin_s or time.perf_counter() > spin_until:
                await self._wait_readable(until)
                self._held_since = time.perf_counter()
        if len(self._buffer) == before:
            raise await self._exit_error()

    def _read_available(self) -> bool:
        """Buffer the bytes there are; whether there were any, or the end of the stream."""
        try:
            data = self._connection.recv(max(_RECEIVE_BYTES, min(self._frame_bytes - len(self._buffer), 1 << 22)))
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._stop_listening()  # the end stays readable
        self._buffer += data
        return True

    # asyncio's own hooks rather than anyio's: those go round the event loop once more for every wait, which would be
    # a fifth of what a tool call costs here. (FastMCP runs on asyncio only.) And one that stays, since to come and go
    # with every wait takes longer than the wait's other parts.

    def _listen(self) -> None:
        """Have the event loop call `_on_readable` from now on."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop and self._connection.fileno() >= 0:
            self._stop_listening()
            # By number: looked for by the socket itself, one that is not registered is described in full each time.
            # Without the variables of the request that happens to be the first.
            contextvars.Context().run(loop.add_reader, self._connection.fileno(), self._on_readable)
            self._loop = loop

    def _stop_listening(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and (number := self._connection.fileno()) >= 0:
            loop.remove_reader(number)

    def _on_readable(self) -> None:
        """There is something to read, or there was when the event loop looked."""
        if not self._receiving:
            # Out of turn, and once is enough: until somebody reads it the loop would call again and again.
            if self._peek() is not None:
                self._stop_listening()
                self._interrupt()
        elif self._waiting is not None and not self._waiting.done() and self._read_available():
            _wake(self._waiting)

    def _interrupt(self) -> None:
        if self._on_interrupt is not None:
            self._on_interrupt()

    async def _wait_readable(self, until: float) -> None:
        """Wait until bytes have been buffered, or the worker has ended."""
        if self._connection.fileno() < 0:
            return
        self._listen()
        loop = asyncio.get_running_loop()
        if (left := until - loop.time()) <= 0:
            raise TimeoutError
        self._waiting = loop.create_future()
        timer = loop.call_at(until, _time_out, self._waiting) if left < math.inf else None
        try:
            await self._waiting
        finally:
            if timer is not None:
                timer.cancel()
            self._waiting = None

    async def _wait_writable(self) -> None:
        number = self._connection.fileno()
        loop = asyncio.get_running_loop()
        self._writing = loop.create_future()
        loop.add_writer(number, _wake, self._writing)
        try:
            await self._writing
        finally:
            self._writing = None
            if self._connection.fileno() >= 0:
                loop.remove_writer(number)

    def has_unread(self) -> bool:
        """Whether the worker has sent something out of turn, or closed its end."""
        return self._peek() is not None

    def interrupts(self) -> bool:
        """Whether the worker has sent something although the server has the turn."""
        return bool(self._peek())

    def _peek(self) -> bytes | bytearray | None:
        """Some unread bytes; empty when the worker has closed its end, None if there is nothing to read."""
        if self._buffer:
            return self._buffer
        try:
            return self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    @contextlib.contextmanager
    def watch_for_interrupt(self, on_interrupt: Callable[[], object]) -> Generator[None]:
        """While inside, the server has the turn: `on_interrupt` is called if the worker sends anything, or ends."""
        self._on_interrupt = on_interrupt
        self._listen()
        if self._buffer or self._connection.fileno() < 0:
            on_interrupt()  # the event loop reports only what has not been buffered
        try:
            yield
        finally:
            self._on_interrupt = None

    async def interrupt_error(self) -> WorkerError:
        """The error for an interrupt that `watch_for_interrupt` has reported."""
        if self.interrupts():
            return MessageValidationError("The worker sent a message out of turn")
        return await self._exit_error()

    def close(self) -> None:
        """Close this end. Tasks that wait are woken and find the worker gone."""
        if (number := self._connection.fileno()) >= 0:
            self._stop_listening()
            if self._writing is not None:
                self._writing.get_loop().remove_writer(number)
            self._connection.close()
            for waiting in filter(None, (self._waiting, self._writing)):
                _wake(waiting)
            self._interrupt()


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _time_out(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())
