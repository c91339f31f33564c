"""Messages over the pipes of a program: one line of JSON each, none larger than may be, none too fast."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar, Unpack

import anyio
import anyio.to_thread
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.shared.message import SessionMessage

from codecall.concurrency import abandon
from codecall.gateway.upstream.errors import describe_exit
from codecall.gateway.upstream.messages import (
    IN_THREAD_BYTES,
    MAX_LINES_PER_S,
    MAX_MESSAGE_VALUES,
    LineReader,
    MessageStream,
    Throttle,
    TooManyValuesError,
    parse_message,
)
from codecall.gateway.upstream.process import ServerProcess

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Bytes one message of a server may have; a server that sends a larger one is ended."""

_CHUNK: Final = 256 * 1024
_MALFORMED_PER_S: Final = 1000
"""Lines read in a second that look like messages and are none."""

_EXIT_S: Final = 0.5
"""Seconds between the end of a program and the end of its output, for what it wrote last, and the other way round."""


T = TypeVar("T")


class ProcessTransport(ClientTransport):
    """Starts a program for each session, and ends it with the session.

    Args:
        start: starts the program.
        session: makes the session of the two streams.
        logger: is told of what is no message.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[ServerProcess]],
        session: Callable[..., ClientSession],
        logger: logging.Logger,
    ) -> None:
        self._start = start
        self._session = session
        self._logger = logger
        self.process: ServerProcess | None = None
        self._heard: _Heard | None = None

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncGenerator[ClientSession]:
        """A session with a new program."""
        _ = transport_options
        program = self.process = await self._start()
        heard = self._heard = _Heard(program.stdout, self._logger)
        watching = asyncio.create_task(_until_exited(program, heard))
        try:
            async with self._session(heard, _Said(program.stdin, heard), **session_kwargs) as session:
                yield session
        finally:
            abandon(watching)
            await program.stop()

    async def describe_end(self) -> str:
        """How it ended, as in `ended (exit code 1)`."""
        if self._heard is not None and self._heard.why is not None:
            return self._heard.why
        if self.process is None:
            return "closed its output"
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_S):
                await self.process.exited.wait()
        return describe_exit(self.process.exit_code)


class _Heard(LineReader):
    """What a program says, message by message.

    Args:
        stdout: where it says that.
        logger: is told of what is no message.

    Attributes:
        why: Why the program was given up, where it was not for its end.
        stopped: Called when it is stopped.
    """

    def __init__(self, stdout: asyncio.StreamReader, logger: logging.Logger) -> None:
        super().__init__()
        self.why: str | None = None
        self.stopped: Callable[[], object] = lambda: None
        self._stdout = stdout
        self._logger = logger
        self._waiting: asyncio.Timeout | None = None
        self._rubbish, self._malformed = Throttle(MAX_LINES_PER_S), Throttle(_MALFORMED_PER_S)

    async def receive(self) -> SessionMessage:
        """The next message; waits for it.

        Raises:
            anyio.EndOfStream: there are no more.
            anyio.ClosedResourceError: this is closed.
        """
        while (message := await self._message(line := await self._line())) is None:
            if not self.over:
                await self._unless_stopped((self._malformed if _begins(line) else self._rubbish).wait())
        return message

    def stop(self) -> None:
        """Hear nothing more, not even what has been read."""
        if self._waiting is not None and not self.over:
            self._waiting.reschedule(asyncio.get_running_loop().time())
        self.over = True
        self._lines.clear()
        self.stopped()

    async def _more(self) -> None:
        if chunk := await self._unless_stopped(self._stdout.read(_CHUNK)):
            self._take(chunk)
        else:
            self.over = True
        if self._size > MAX_MESSAGE_BYTES:  # as much as shows that it is too long
            self._lines.append(b"".join(self._parts))

    async def _unless_stopped(self, work: Awaitable[T]) -> T | None:
        try:
            async with asyncio.timeout(None) as self._waiting:
                return await work
        except OSError:  # a TimeoutError too, when it was stopped
            return None
        finally:
            self._waiting = None

    async def _message(self, line: bytes) -> SessionMessage | None:
        if len(line) > MAX_MESSAGE_BYTES:
            raise self._given_up(f"{MAX_MESSAGE_BYTES // 2**20} MiB")
        message = None
        try:
            if _begins(line):
                large = len(line) > IN_THREAD_BYTES
                message = await anyio.to_thread.run_sync(parse_message, line) if large else parse_message(line)
        except TooManyValuesError:
            raise self._given_up(f"{MAX_MESSAGE_VALUES:,} values") from None
        if message is None and line:
            self._logger.debug("wrote %d bytes to its standard output that are no message", len(line))
        return None if message is None else SessionMessage(message)

    def _given_up(self, most: str) -> anyio.EndOfStream:
        self.why = f"sent a message of more than {most} and was ended"
        self.stop()
        return anyio.EndOfStream()


class _Said(MessageStream):
    """What a program is told. One message waits for another, and all for a program that reads nothing.

    Args:
        stdin: where it is told that.
        heard: ends when nothing reaches it any more, though it may live; nobody waits for it then.
    """

    def __init__(self, stdin: asyncio.StreamWriter, heard: _Heard) -> None:
        self._stdin = stdin
        self._heard = heard
        self._free = asyncio.Lock()
        self._waiting: set[asyncio.Timeout] = set()
        heard.stopped = self._leave

    async def send(self, item: SessionMessage) -> None:
        """Tell it that. Where it cannot be told, whoever waits for an answer learns from the end of what is heard.

        Raises:
            anyio.ClosedResourceError: this is closed.
        """
        if self.closed:
            raise anyio.ClosedResourceError
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            async with asyncio.timeout(None) as waiting:
                self._waiting.add(waiting)
                try:
                    await self._written(data)
                finally:
                    self._waiting.discard(waiting)
        except TimeoutError:
            if self.closed:
                raise anyio.ClosedResourceError from None
        except OSError:
            self._heard.stop()

    async def aclose(self) -> None:
        """Say nothing more, and wait for nobody who reads nothing."""
        await super().aclose()
        self._leave()

    async def _written(self, data: bytes) -> None:
        async with self._free:
            await self._stdin.drain()  # what others, who have left, still have to say
            self._stdin.write(data)
            await self._stdin.drain()
        if self._stdin.is_closing():
            raise BrokenPipeError

    def _leave(self) -> None:
        """Let nobody wait any more."""
        now = asyncio.get_running_loop().time()
        while self._waiting:
            self._waiting.pop().reschedule(now)


def _begins(line: bytes) -> bool:
    """Whether a line looks like a message, or some of them."""
    return line.lstrip().startswith((b"{", b"["))


async def _until_exited(program: ServerProcess, heard: _Heard) -> None:
    """End the reading soon after the program: what it has started may hold its output open."""
    await program.exited.wait()
    await asyncio.sleep(_EXIT_S)
    heard.stop()
