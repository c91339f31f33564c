"""A session over standard input and output on the event loop: no thread is asked for a small message.

What MCP's SDK has for this reads, writes and flushes in a thread each, which costs a call more than all that the
gateway does between. Here the loop watches the client's descriptor and reads what is there, and writes what the
descriptor takes at once. Nothing that could wait is done on the loop: messages that are large, or that the client has
no room for, are written by a thread, one after the other, and a file, which a loop cannot watch, is read by one.
The descriptors' own flags are left alone, for they are the client's and its shell's as well.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import stat
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types
from anyio.abc import TaskGroup
from fastmcp import FastMCP
from fastmcp.server.context import reset_transport, set_transport
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from codecall.gateway.frontdoor import CHUNK
from codecall.gateway.messages import IN_THREAD_BYTES
from codecall.gateway.passage import Passage
from codecall.gateway.streams import Lines, Stream


async def speak(server: FastMCP[Any], passage: Passage) -> None:
    """Serve the client behind `passage` until it has left or the passage is told to stop."""
    # What `run_stdio_async` does, with other streams; it has no public way to give it some.
    alive = cast("Callable[[], AbstractAsyncContextManager[None]] | None", getattr(server, "_lifespan_manager", None))
    behind = getattr(server, "_mcp_server", None)
    if alive is None or behind is None:
        with passage.standard():
            await server.run_stdio_async(show_banner=False)
        return
    token = set_transport("stdio")
    try:
        async with alive(), streams(passage) as (heard, said):
            await behind.run(heard, said, behind.create_initialization_options())
    finally:
        reset_transport(token)


@asynccontextmanager
async def streams(passage: Passage) -> AsyncGenerator[tuple[Heard, Said]]:
    """Both ways of a session, as the SDK's servers want them. Ends when all that was said is written."""
    async with anyio.create_task_group() as writing, Heard(passage) as heard:
        with _socket(passage.stdout) as connection:
            yield heard, Said(passage, connection, writing)


class Heard(Lines):
    """What the client says, message by message; an exception in place of what is none. Reads on only for who waits."""

    def __init__(self, passage: Passage) -> None:
        super().__init__()
        self._passage = passage
        self._loop = asyncio.get_running_loop()
        self._begun = False
        self._watches = False
        self._watchable = True
        self._waiting: asyncio.Future[None] | None = None

    async def receive(self) -> SessionMessage | Exception:
        """The next one; waits for it.

        Raises:
            anyio.EndOfStream: the client has left, or the session is to end.
            anyio.ClosedResourceError: this is closed.
        """
        if not self._begun:
            await self._begin()
        line = await self._line()
        return await anyio.to_thread.run_sync(_message, line) if len(line) > IN_THREAD_BYTES else _message(line)

    async def aclose(self) -> None:
        """Hear nothing more."""
        await super().aclose()
        self._stop()

    async def _begin(self) -> None:
        self._take(await anyio.to_thread.run_sync(self._passage.begin))
        self._loop.add_reader(self._passage.stopped, self._stop)
        self._begun = True

    async def _more(self) -> None:
        if self._watchable and not self._watches:
            try:
                self._loop.add_reader(self._passage.stdin, self._readable)
                self._watches = True
            except OSError:  # a file
                self._watchable = False
        if not self._watchable:
            self._heard(await anyio.to_thread.run_sync(self._passage.next))
            return
        self._waiting = self._loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _readable(self) -> None:
        if self._waiting is None or self._waiting.done():  # the server has enough to do
            self._unwatch()
            return
        try:
            chunk = os.read(self._passage.stdin, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # as good as gone
            chunk = b""
        if chunk:
            self._passage.hear(chunk)
        self._heard(chunk)

    def _heard(self, chunk: bytes) -> None:
        if chunk:
            self._take(chunk)
        else:
            if last := b"".join(self._parts):
                self._lines.append(last)
            self._end()
        if self._lines:
            self._wake()

    def _stop(self) -> None:
        self._loop.remove_reader(self._passage.stopped)
        self._lines.clear()
        self._end()

    def _end(self) -> None:
        self.over = True
        self._parts = []
        self._unwatch()
        self._wake()

    def _unwatch(self) -> None:
        if self._watches:
            self._watches = False
            self._loop.remove_reader(self._passage.stdin)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class Said(Stream):
    """What the server says.

    Args:
        passage: Through which it goes.
        connection: Where the client is at the other end of a socket, that.
        writing: What writes what cannot be written at once.
    """

    def __init__(self, passage: Passage, connection: socket.socket | None, writing: TaskGroup) -> None:
        self._passage = passage
        self._connection = connection
        self._writing = writing
        self._pipe = stat.S_ISFIFO(os.fstat(passage.stdout).st_mode)
        self._free = asyncio.Lock()
        """Taken while something is being written, in turn."""

    async def send(self, item: SessionMessage) -> None:
        """Say that; waits while something else is being written, not for the client to read it.

        Raises:
            anyio.ClosedResourceError: this is closed.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self.closed:
            raise anyio.ClosedResourceError
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        await self._free.acquire()
        slow = None
        try:
            slow = self._written(data)
        finally:
            if slow is None:
                self._free.release()
            else:
                self._writing.start_soon(self._in_thread, slow)
        if not isinstance(item.message, (JSONRPCResponse, JSONRPCError)):
            await asyncio.sleep(0)  # who says much lets others speak

    def _written(self, data: bytes) -> Callable[[], None] | None:
        """Write it, as far as the client has room; what writes the rest, which may take its time."""
        if self._passage.compares or len(data) > IN_THREAD_BYTES:
            return lambda: self._passage.write(data)
        rest = data
        try:
            rest = data[self._at_once(data) :]
        except BlockingIOError:
            pass
        except OSError:  # the client reads no more
            self._passage.stop()
            return None
        return (lambda: self._passage.write(rest)) if rest else None

    def _at_once(self, data: bytes) -> int:
        """How many of these bytes could be written without waiting."""
        if self._connection is not None:
            return self._connection.send(data, socket.MSG_DONTWAIT)
        if self._pipe and len(data) <= select.PIPE_BUF and select.select([], [self._passage.stdout], [], 0)[1]:
            return os.write(self._passage.stdout, data)
        return 0

    async def _in_thread(self, write: Callable[[], None]) -> None:
        try:
            await anyio.to_thread.run_sync(write)
        finally:
            self._free.release()


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(
            mcp_types.jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
        )
    except Exception as failure:
        return failure


def _socket(descriptor: int) -> AbstractContextManager[socket.socket | None]:
    """One of our own for that descriptor, if it is one."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return nullcontext()
    return socket.socket(fileno=os.dup(descriptor))
