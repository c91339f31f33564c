"""A session over standard input and output on the event loop: no thread is asked for a small message.

What MCP's SDK has for this reads, writes and flushes in a thread each, which costs a call more than all that the
gateway does between. Here the loop watches the client's descriptor and reads what is there, and writes what the
descriptor takes at once. Nothing that could wait is done on the loop: messages that are large, or that the client has
no room for, are written by a thread, one after the other, and a file, which a loop cannot watch, is read by one.
The descriptors' own flags are left alone, for they are the client's and its shell's as well.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import select
import socket
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types
from anyio.abc import TaskGroup
from fastmcp import FastMCP
from fastmcp.server.context import reset_transport, set_transport
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from codecall.gateway.upstream.messages import IN_THREAD_BYTES, LineReader, MessageStream
from codecall.gateway.warm_start.door import CHUNK, LISTS, MAX_BYTES, Door, Question, write_all

# ----------------------------------------------------------------------------------------------------
# Through the front door, once the server stands: what it reads, and where its words go.

logger = logging.getLogger("codecall")

_ANSWER: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(result|error)":')
"""How the SDK's answers begin."""


class Passage:
    """Both ways of one session.

    Args:
        door: Where it began; it listens until the server does.
        noted: Told of a question and the server's answer to it, as JSON text; None: the server has refused it.
    """

    def __init__(self, door: Door, noted: Callable[[Question, str | None], None]) -> None:
        self._door = door
        self._noted = noted
        self._stop, self._stopping = os.pipe()
        self._ahead: memoryview | None = None
        self._line = b""

    @contextmanager
    def standard(self) -> Generator[None]:
        """Within this, what takes `sys.stdin.buffer` and `sys.stdout.buffer` speaks with the client. All else of
        both stays as it was: who prints does not speak with the client."""
        before = sys.stdin, sys.stdout
        sys.stdin = cast("Any", _Stream(before[0], io.BufferedReader(_Heard(self), CHUNK)))
        sys.stdout = cast("Any", _Stream(before[1], _Said(self)))
        try:
            yield
        finally:
            sys.stdin, sys.stdout = before

    def stop(self) -> None:
        """Let the server find the end of its input. May be called by a signal handler."""
        os.write(self._stopping, b"\0")

    @property
    def stdin(self) -> int:
        """The descriptor that the client writes to."""
        return self._door.stdin

    @property
    def stdout(self) -> int:
        """The one it reads from."""
        return self._door.stdout

    @property
    def stopped(self) -> int:
        """One that can be read from once this was told to stop."""
        return self._stop

    @property
    def compares(self) -> bool:
        """Whether the next thing that the server says may be an answer to a question of the record."""
        return bool(self._door.asked)

    def begin(self) -> bytes:
        """What the client has said to the door, which listens no more. Waits for the door."""
        self._door.hand_over()
        heard = self._door.heard
        self._line = bytes(heard[self._door.at : self._door.at + MAX_BYTES + 1])
        return bytes(heard)

    def next(self) -> bytes:
        """What the client says next; waits for it. Nothing at the end."""
        while self._stop not in select.select([self._stop, self._door.stdin], [], [])[0]:
            try:
                chunk = os.read(self._door.stdin, CHUNK)
            except BlockingIOError:
                continue
            self.hear(chunk)
            return chunk
        return b""

    def read(self, room: memoryview) -> int:
        """Put in there what the client says first, or next; how many bytes, 0 at the end."""
        if self._ahead is None:
            self._ahead = memoryview(self.begin())
        if not self._ahead:
            self._ahead = memoryview(self.next())
        elif select.select([self._stop], [], [], 0)[0]:
            return 0
        taken = min(len(room), len(self._ahead))
        room[:taken], self._ahead = self._ahead[:taken], self._ahead[taken:]
        return taken

    def write(self, data: bytes) -> None:
        """Send what the server says: one message."""
        try:
            if not self._door.asked or not self._swallowed(data):
                write_all(self._door.stdout, data)
        except OSError:  # the client reads no more, which is as good as gone
            self.stop()

    def hear(self, said: bytes) -> None:
        """Look for questions in what the client says. They end with the first call, and so does this."""
        if self._door.listener.over:
            return
        *lines, rest = (self._line + said).split(b"\n")
        self._line = rest[: MAX_BYTES + 1]  # a longer one is no question
        for line in lines:
            if (question := self._door.listener.hear(line)) is not None:
                self._door.asked[question.id] = question

    def _swallowed(self, data: bytes) -> bool:
        """Whether the client has this answer already."""
        begins = _ANSWER.match(data)
        if begins is None:
            return False
        # One id has several spellings: the door and the SDK escape otherwise.
        question = self._door.asked.pop(json.dumps(json.loads(begins[1])), None)
        if question is None:
            return False
        answer = data[begins.end() :].rstrip()[:-1].decode() if begins[2] == b"result" else None
        told = self._door.told.pop(question.id, None)
        if answer is None or told is None or not _same(told, answer):
            self._noted(question, answer)
            if told is not None:
                self._correct(question)
        return told is not None

    def _correct(self, question: Question) -> None:
        """The client was told something that is no longer so. In the era without a handshake it asks again whenever
        it wants to know, and is told of changes only where it asked for that."""
        logger.info("%s: the answer from the record of an earlier start is out of date", question.method)
        notification = LISTS.get(question.method)
        if notification is not None and not question.modern:
            write_all(self._door.stdout, b'{"jsonrpc":"2.0","method":"%s"}\n' % notification.encode())


def _same(told: str, answer: str) -> bool:
    return told == answer or json.loads(told) == json.loads(answer)


class _Stream:
    """Another stream, but for its buffer."""

    def __init__(self, stream: object, buffer: io.BufferedIOBase | io.RawIOBase) -> None:
        self._stream = stream
        self.buffer = buffer

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


class _Heard(io.RawIOBase):
    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._passage.read(memoryview(buffer).cast("B"))


class _Said(io.RawIOBase):
    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        said = bytes(data)
        self._passage.write(said)
        return len(said)


# ----------------------------------------------------------------------------------------------------
# A session over standard input and output on the event loop: no thread is asked for a small message.


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


class Heard(LineReader):
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


class Said(MessageStream):
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
