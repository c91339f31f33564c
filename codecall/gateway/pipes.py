"""Messages over the pipes of a program: one line of JSON each, none larger than may be, none too fast."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Unpack

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.shared.message import SessionMessage

from codecall.gateway.messages import IN_THREAD_BYTES, MAX_VALUES, TooManyError, read_message
from codecall.gateway.pace import LINES_PER_S, Pace
from codecall.gateway.processes import Program
from codecall.gateway.unavailable import exit_text

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Bytes one message of a server may have; a server that sends a larger one is ended."""

_CHUNK: Final = 256 * 1024
_MALFORMED_PER_S: Final = 1000
"""Lines read in a second that look like messages and are none."""

_EXIT_S: Final = 0.5
"""Seconds between the end of a program and the end of its output, for what it wrote last, and the other way round."""

_Message = SessionMessage | Exception


class ProgramTransport(ClientTransport):
    """Starts a program for each session, and ends it with the session.

    Args:
        start: starts the program.
        session: makes the session of the two streams.
        logger: is told of what is no message.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[Program]],
        session: Callable[..., ClientSession],
        logger: logging.Logger,
    ) -> None:
        self._start = start
        self._session = session
        self._logger = logger
        self.program: Program | None = None
        self.why: str | None = None
        """Why the program was given up, where it was not for its end."""

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncGenerator[ClientSession]:
        """A session with a new program."""
        _ = transport_options
        program = self.program = await self._start()
        try:
            read_in, read_out = anyio.create_memory_object_stream[_Message](0)
            write_in, write_out = anyio.create_memory_object_stream[SessionMessage](0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, program, read_in)
                tasks.start_soon(self._write, program, write_out, read_in)
                try:
                    async with self._session(read_out, write_in, **session_kwargs) as session:
                        yield session
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            await program.stop()

    async def describe_end(self) -> str:
        """How it ended, as in `ended (exit code 1)`."""
        if self.why is not None:
            return self.why
        if self.program is None:
            return "closed its output"
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_S):
                await self.program.exited.wait()
        return exit_text(self.program.code)

    async def _read(self, program: Program, messages: MemoryObjectSendStream[_Message]) -> None:
        async with messages, anyio.create_task_group() as watch:
            watch.start_soon(_until_exited, program, watch.cancel_scope)
            rubbish, malformed = Pace(LINES_PER_S), Pace(_MALFORMED_PER_S)
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                async for line in _lines(program.stdout):
                    message = await self._message(line)
                    if message is not None:
                        await messages.send(message)
                    else:
                        await (malformed if _begins(line) else rubbish).after()
            watch.cancel_scope.cancel()

    async def _message(self, line: bytes) -> SessionMessage | None:
        if len(line) > MAX_MESSAGE_BYTES:
            raise self._given_up(f"{MAX_MESSAGE_BYTES // 2**20} MiB")
        message = None
        try:
            if _begins(line):
                large = len(line) > IN_THREAD_BYTES
                message = await anyio.to_thread.run_sync(read_message, line) if large else read_message(line)
        except TooManyError:
            raise self._given_up(f"{MAX_VALUES:,} values") from None
        if message is None and line:
            self._logger.debug("wrote %d bytes to its standard output that are no message", len(line))
        return None if message is None else SessionMessage(message)

    def _given_up(self, most: str) -> OSError:
        self.why = f"sent a message of more than {most} and was ended"
        return OSError(self.why)

    async def _write(
        self,
        program: Program,
        messages: MemoryObjectReceiveStream[SessionMessage],
        ends: MemoryObjectSendStream[_Message],
    ) -> None:
        async with messages:
            try:
                async for message in messages:
                    program.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
                    program.stdin.write(b"\n")
                    await program.stdin.drain()
            except OSError:
                # Its input is closed: it may live, but nothing reaches it.
                await ends.aclose()


def _begins(line: bytes) -> bool:
    """Whether a line looks like a message, or some of them."""
    return line.lstrip().startswith((b"{", b"["))


async def _lines(stream: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """Lines without their ends; of one that is too long, as much as shows that it is."""
    parts: list[bytes] = []
    size = 0
    while chunk := await stream.read(_CHUNK):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line)) if parts else line
            parts.clear()
            size = 0
        if rest:
            parts.append(rest)
            size += len(rest)
            if size > MAX_MESSAGE_BYTES:
                yield b"".join(parts)
                return


async def _until_exited(program: Program, reading: anyio.CancelScope) -> None:
    """End the reading soon after the program: what it has started may hold its output open."""
    await program.exited.wait()
    await anyio.sleep(_EXIT_S)
    reading.cancel()
