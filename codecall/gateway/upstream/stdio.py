"""The transport to a server that is a program: one line of JSON a message over its pipes, none too large, none too
fast.

The streams are our own, since the SDK's task and queue for each direction would take longer than a message does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack

import anyio
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, RequestId

from codecall.concurrency import abandon
from codecall.gateway.upstream.errors import describe_exit
from codecall.gateway.upstream.messages import (
    MAX_LINES_PER_S,
    MAX_MESSAGE_BYTES,
    VALUES_PER_S,
    Throttle,
    TooLargeError,
    message_cost,
    parse_message,
)
from codecall.gateway.upstream.process import ServerProcess
from codecall.gateway.upstream.responses import in_thread_if_large
from codecall.gateway.upstream.session import RelayingSession

_CHUNK: Final = 256 * 1024
_MALFORMED_PER_S: Final = 1000
"""Lines read in a second that look like messages and are none."""

_LARGE_VALUES: Final = 10_000
_MAX_LARGE_MALFORMED: Final = 20
"""Lines of more than so many values that look like messages and are none; a program that writes as many is ended."""

_EXIT_S: Final = 0.5
"""Seconds between the end of a program and the end of its output, for what it wrote last, and the other way round."""


T = TypeVar("T")


class ProcessTransport(ClientTransport):
    """Starts a program for each session, and ends it with the session.

    Args:
        start: starts the program.
        session: makes the session of the two streams.
        logger: gets a line for what is no message.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[ServerProcess]],
        session: Callable[..., RelayingSession],
        logger: logging.Logger,
    ) -> None:
        self._start = start
        self._session = session
        self._logger = logger
        self.process: ServerProcess | None = None
        self._reader: _MessageReader | None = None

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncGenerator[ClientSession]:
        """A session with a new program."""
        _ = transport_options
        process = self.process = await self._start()
        reader = self._reader = _MessageReader(process.stdout, self._logger)
        watcher = asyncio.create_task(_stop_after_exit(process, reader))
        try:
            async with self._session(reader, _MessageWriter(process.stdin, reader), **session_kwargs) as session:
                reader.awaits = session.awaits
                yield session
        finally:
            abandon(watcher)
            await process.stop()

    @property
    def wrote_other(self) -> bool:
        """Whether the program wrote what is no message to its standard output."""
        return self._reader is not None and self._reader.wrote_other

    async def describe_end(self) -> str:
        """Say how the program ended, as in `ended (exit code 1)`."""
        if self._reader is not None and self._reader.failure is not None:
            return self._reader.failure
        if self.process is None:
            return "closed its output"
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_S):
                await self.process.exited.wait()
        return describe_exit(self.process.exit_code)


class _Stream:
    """What both directions have: they can be closed."""

    closed = False

    async def aclose(self) -> None:
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _failure: BaseException | None, _where: TracebackType | None
    ) -> None:
        await self.aclose()


class _MessageReader(_Stream):
    """The messages that a program writes, read when they are asked for.

    Args:
        stdout: the program's standard output.
        logger: gets a line for what is no message.

    Attributes:
        failure: why the program was given up; None while it was not, and where its output just ended.
        wrote_other: whether it wrote what is no message.
        on_stop: called when reading is stopped.
        awaits: whether the answer to a request is waited for. What nobody waits for must not cost much.
    """

    def __init__(self, stdout: asyncio.StreamReader, logger: logging.Logger) -> None:
        self.failure: str | None = None
        self.wrote_other = False
        self.on_stop: Callable[[], object] = lambda: None
        self.awaits: Callable[[RequestId | None], bool] = lambda _request_id: False
        self._stdout = stdout
        self._logger = logger
        self._at_end = False
        """No more comes than has been read."""
        self._lines: deque[bytes] = deque()
        self._line_start = bytearray()
        """Of a line without its end."""
        self._pending: asyncio.Timeout | None = None
        self._rubbish, self._malformed = Throttle(MAX_LINES_PER_S), Throttle(_MALFORMED_PER_S)
        self._costs = Throttle(VALUES_PER_S)
        self._large_malformed = 0

    async def receive(self) -> SessionMessage:
        """Wait for the next message.

        Raises:
            anyio.EndOfStream: there are no more.
            anyio.ClosedResourceError: this is closed.
        """
        while (message := await self._parse(line := await self._next_line())) is None:
            await self._pass_over(line)
        if not (isinstance(message, JSONRPCResponse | JSONRPCError) and self.awaits(message.id)):
            await self._wait(self._costs, message_cost(line))
        return SessionMessage(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def stop(self) -> None:
        """Read nothing more, and drop what has been read."""
        if self._pending is not None and not self._at_end:
            self._pending.reschedule(asyncio.get_running_loop().time())
        self._at_end = True
        self._lines.clear()
        self.on_stop()

    async def _next_line(self) -> bytes:
        if self._lines:  # a program that writes much lets other tasks run
            await asyncio.sleep(0)
        while not self._lines:
            if self.closed:
                raise anyio.ClosedResourceError
            if self._at_end:
                raise anyio.EndOfStream
            await self._read_chunk()
        return self._lines.popleft()

    async def _read_chunk(self) -> None:
        if chunk := await self._unless_stopped(self._stdout.read(_CHUNK)):
            self._split(chunk)
        else:
            self._at_end = True
        if len(self._line_start) > MAX_MESSAGE_BYTES:  # as much as shows that it is too long
            self._lines.append(bytes(self._line_start))

    def _split(self, chunk: bytes) -> None:
        """Take what was read, which may be cut anywhere."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            self._lines.append(bytes(self._line_start) + lines[0])
            self._lines += lines[1:]
            self._line_start = bytearray()
        self._line_start += rest  # a part for each read would take fifteen times the memory

    async def _unless_stopped(self, work: Awaitable[T]) -> T | None:
        try:
            async with asyncio.timeout(None) as self._pending:
                return await work
        except OSError:  # a TimeoutError too, when it was stopped
            return None
        finally:
            self._pending = None

    async def _pass_over(self, line: bytes) -> None:
        """Let as much time pass as what is no message may take."""
        if not _looks_like_message(line):
            await self._wait(self._rubbish)
            return
        if (cost := message_cost(line)) > _LARGE_VALUES:
            self._large_malformed += 1
            if self._large_malformed >= _MAX_LARGE_MALFORMED:
                raise self._give_up(f"{_MAX_LARGE_MALFORMED} large lines that are no messages")
        await self._wait(self._costs, cost)
        await self._wait(self._malformed)

    async def _wait(self, throttle: Throttle, amount: int = 1) -> None:
        if not self._at_end:
            await self._unless_stopped(throttle.wait(amount))

    async def _parse(self, line: bytes) -> JSONRPCMessage | None:
        if len(line) > MAX_MESSAGE_BYTES:
            raise self._give_up(f"a message of more than {MAX_MESSAGE_BYTES // 2**20} MiB")
        message = None
        try:
            if _looks_like_message(line):
                message = await in_thread_if_large(parse_message, line)
        except TooLargeError as limit:
            raise self._give_up(f"a message of more than {limit}") from None
        if message is None and line.strip():
            self.wrote_other = True
            self._logger.debug("wrote %d bytes to its standard output that are no message", len(line))
        return message

    def _give_up(self, sent: str) -> anyio.EndOfStream:
        self.failure = f"sent {sent} and was ended"
        self.stop()
        return anyio.EndOfStream()


class _MessageWriter(_Stream):
    """Writes messages to a program. One message waits for another, and all wait for a program that reads nothing.

    Args:
        stdin: the program's standard input.
        reader: is stopped when nothing reaches the program any more, though it may live; then nothing waits for it.
    """

    def __init__(self, stdin: asyncio.StreamWriter, reader: _MessageReader) -> None:
        self._stdin = stdin
        self._reader = reader
        self._lock = asyncio.Lock()
        self._pending: set[asyncio.Timeout] = set()
        reader.on_stop = self._release

    async def send(self, item: SessionMessage) -> None:
        """Write a message. Where that fails, whoever waits for the answer learns it from the end of what is read.

        Raises:
            anyio.ClosedResourceError: this is closed.
        """
        if self.closed:
            raise anyio.ClosedResourceError
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            async with asyncio.timeout(None) as pending:
                self._pending.add(pending)
                try:
                    await self._write(data)
                finally:
                    self._pending.discard(pending)
        except TimeoutError:
            if self.closed:
                raise anyio.ClosedResourceError from None
        except OSError:
            self._reader.stop()

    async def aclose(self) -> None:
        """Write nothing more, and wait for no program that reads nothing."""
        await super().aclose()
        self._release()

    async def _write(self, data: bytes) -> None:
        async with self._lock:
            await self._stdin.drain()  # what others, who have left, still have to write
            self._stdin.write(data)
            await self._stdin.drain()
        if self._stdin.is_closing():
            raise BrokenPipeError

    def _release(self) -> None:
        """Let nothing wait any more."""
        now = asyncio.get_running_loop().time()
        while self._pending:
            self._pending.pop().reschedule(now)


def _looks_like_message(line: bytes) -> bool:
    """Whether a line looks like a message, or several of them."""
    return line.lstrip().startswith((b"{", b"["))


async def _stop_after_exit(process: ServerProcess, reader: _MessageReader) -> None:
    """Stop reading soon after the program has ended: what it has started may hold its output open."""
    await process.exited.wait()
    await asyncio.sleep(_EXIT_S)
    reader.stop()
