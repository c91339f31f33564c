"""Streams of messages of our own, where a task and a queue for each way would take longer than the message."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage


class Stream:
    """What both ways have: they can be closed."""

    closed = False

    async def aclose(self) -> None:
        """Nothing passes any more."""
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _failure: BaseException | None, _where: TracebackType | None
    ) -> None:
        await self.aclose()


class Lines(Stream):
    """One way, line by line, read when it is asked for.

    Attributes:
        over: There is no more to come than has been read.
    """

    def __init__(self) -> None:
        self.over = False
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        """Of a line without its end."""
        self._size = 0
        """Of these, in bytes."""

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception:
        """The next message; an exception in place of what is none. Waits for it.

        Raises:
            anyio.EndOfStream: there are no more.
            anyio.ClosedResourceError: this is closed.
        """
        ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    @abstractmethod
    async def _more(self) -> None:
        """Wait until something has been taken, or it is over."""
        ...

    async def _line(self) -> bytes:
        """The next line; waits for it. Raises what `receive` does."""
        if self._lines:  # who says much lets others speak
            await asyncio.sleep(0)
        while not self._lines:
            if self.closed:
                raise anyio.ClosedResourceError
            if self.over:
                raise anyio.EndOfStream
            await self._more()
        return self._lines.popleft()

    def _take(self, chunk: bytes) -> None:
        """What was read, cut anywhere."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            self._lines.append(b"".join((*self._parts, lines[0])))
            self._lines += lines[1:]
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
