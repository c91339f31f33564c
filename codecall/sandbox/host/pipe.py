"""The server's end of the pipe to one worker: frames out, frames in, and no worker holds up anybody with them."""

from __future__ import annotations

import asyncio
import contextlib
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

_RECEIVE_BYTES = 256 * 1024

UNREAD_MS = 5_000
"""How long a worker may leave a message unread, in milliseconds. One that waits for it reads it at once; the time is
for a machine that is overloaded."""

MAX_HOLD_S = 0.002
"""How long a worker that keeps talking may keep the event loop from anybody else, in seconds."""

MIN_FRAGMENTS = 256
"""Pieces any frame may arrive in."""

MIN_FRAGMENT_BYTES = 512
"""Bytes each further piece of a frame has to bring on average. A worker writes a frame in one go, and the system cuts
it into pieces of several thousand bytes."""


class WorkerPipe:
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
        self._due = 0
        """Bytes of the frame that is being read, its header included."""
        self._receiving = False
        self._waiting: asyncio.Future[None] | None = None
        """Whoever reads, until something has been taken in."""
        self._writing: asyncio.Future[None] | None = None
        self._notice: Callable[[], object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Which tells of what arrives."""
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

    async def receive(self, spin_s: float = 0.0, until: float = math.inf) -> wire.WorkerMessage:
        """Read one frame. Cancelling loses nothing: what has arrived stays buffered.

        Args:
            patience: Seconds to look for an answer without letting go of the event loop.
            until: When to give up, in seconds of the event loop's clock.

        Raises:
            TimeoutError: nothing that is whole had come by then.
            MessageValidationError, MessageSizeError, MessageFloodError: the worker broke the protocol.
            WorkerCrashedError, ExecutionAbortedError: the worker is gone.
        """
        self._receiving = True
        try:
            needed = await self._whole(spin_s, until)
        finally:
            self._receiving = False
        body = bytes(memoryview(self._buffer)[wire.HEADER.size : needed])
        del self._buffer[:needed]
        try:
            return wire.decode_worker_message(body)
        except wire.InvalidMessage:
            raise MessageValidationError("The worker sent something that is not a message of the protocol") from None

    async def _whole(self, patience: float, until: float) -> int:
        """The length of the next frame with its header; all of it has been taken in then."""
        needed = wire.HEADER.size
        length = -1
        pieces = 0
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
            pieces += 1
            if pieces > MIN_FRAGMENTS + needed // MIN_FRAGMENT_BYTES:
                raise MessageFloodError("The worker sent a message in crumbs")
            await self._fill(needed, patience, until)
            patience = 0.0

    async def _fill(self, needed: int, patience: float, latest: float) -> None:
        """Take in what arrives next."""
        had, self._due = len(self._buffer), needed
        now = time.perf_counter()
        if now - self._held_since > MAX_HOLD_S:
            # What arrives without a wait would never let anybody else run, deadlines included. A worker that has only
            # just been written to has not answered yet, and looking would take as long as waiting begins.
            await (asyncio.sleep(0) if patience else self._arrival(latest))
            self._held_since = now = time.perf_counter()
        until = now + patience if patience else 0.0
        while len(self._buffer) == had and not self._take_in():
            if not patience or time.perf_counter() > until:
                await self._arrival(latest)
                self._held_since = time.perf_counter()
        if len(self._buffer) == had:
            raise await self._gone()

    def _take_in(self) -> bool:
        """Read what there is; whether there was anything, the end included."""
        try:
            data = self._connection.recv(max(_RECEIVE_BYTES, min(self._due - len(self._buffer), 1 << 22)))
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._turn_away()  # the end stays readable
        self._buffer += data
        return True

    # asyncio's own hooks rather than anyio's: those go round the event loop once more for every wait, which would be
    # a fifth of what a tool call costs here. (FastMCP runs on asyncio only.) And one that stays, since to come and go
    # with every wait takes longer than the wait's other parts.

    def _listen(self) -> None:
        """Be told by the event loop of what arrives, from now on."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop and self._connection.fileno() >= 0:
            self._turn_away()
            # By number: looked for by the socket itself, one that is not registered is described in full each time.
            loop.add_reader(self._connection.fileno(), self._arrived)
            self._loop = loop

    def _turn_away(self) -> None:
        """Be told no more."""
        loop, self._loop = self._loop, None
        if loop is not None and (number := self._connection.fileno()) >= 0:
            loop.remove_reader(number)

    def _arrived(self) -> None:
        """There is something to read, or there was when the event loop looked."""
        if not self._receiving:
            # Out of turn, and once is enough: until somebody reads it the loop would call again and again.
            if self._next() is not None:
                self._turn_away()
                self._noticed()
        elif self._waiting is not None and not self._waiting.done() and self._take_in():
            _wake(self._waiting)

    def _noticed(self) -> None:
        if self._notice is not None:
            self._notice()

    async def _arrival(self, until: float) -> None:
        """Wait until something has been taken in, or the worker is gone."""
        if self._connection.fileno() < 0:
            return
        self._listen()
        loop = asyncio.get_running_loop()
        if (left := until - loop.time()) <= 0:
            raise TimeoutError
        self._waiting = loop.create_future()
        late = loop.call_at(until, _late, self._waiting) if left < math.inf else None
        try:
            await self._waiting
        finally:
            if late is not None:
                late.cancel()
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
    def watch_for_interrupt(self, on_interrupt: Callable[[], object]) -> Generator[None]:
        """Within this the server has the turn: `notice` is called once the worker speaks all the same, or has ended."""
        self._notice = on_interrupt
        self._listen()
        if self._buffer or self._connection.fileno() < 0:
            on_interrupt()  # the event loop tells only of what has not been taken in
        try:
            yield
        finally:
            self._notice = None

    async def interrupt_error(self) -> WorkerError:
        """The error for what was `watch_for_interrupt`."""
        if self.interrupts():
            return MessageValidationError("The worker sent a message out of turn")
        return await self._gone()

    def close(self) -> None:
        """Close this end. Whoever waits is woken and finds the worker gone."""
        if (number := self._connection.fileno()) >= 0:
            self._turn_away()
            if self._writing is not None:
                self._writing.get_loop().remove_writer(number)
            self._connection.close()
            for waiting in filter(None, (self._waiting, self._writing)):
                _wake(waiting)
            self._noticed()


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _late(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())
