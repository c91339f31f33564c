"""Serving one client over standard input and output, by FastMCP's own stdio server.

That server ends when its input ends, and a read that waits for the client cannot be cancelled: a signal could end the
session only once the client writes or leaves. So the server reads from `InterruptibleStdin`, whose end `stop` brings
about at any time. Requests under way are then cancelled, as they are when the client leaves.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from fastmcp import FastMCP


async def run_stdio(server: FastMCP[Any]) -> None:
    """Serve the client behind standard input and output until it leaves or the input is stopped.

    Only the protocol reaches the client: what else is printed goes to standard error.
    """
    try:
        await server.run_stdio_async(show_banner=False)
    except* ConnectionError:  # the client reads no more, which is as good as gone
        pass


@contextmanager
def interruptible_stdin() -> Generator[Callable[[], None] | None]:
    """Within this, `sys.stdin` ends when the function that it gives is called; a signal handler may do so.

    Descriptor 0 leads to the null device meanwhile, so that nothing else in the process takes what the client says.
    Windows cannot wait for a pipe and for something else at once; standard input stays as it is there, and None is
    given.
    """
    if sys.platform == "win32":
        yield None
        return
    client = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    before, stdin = sys.stdin, InterruptibleStdin(client)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(stdin))
    try:
        yield stdin.stop
    finally:
        sys.stdin = before
        os.dup2(client, 0)
        os.close(client)


class InterruptibleStdin(io.RawIOBase):
    """Reads from a descriptor, and finds the end of the input at the descriptor's or once it is stopped. POSIX only.

    Args:
        descriptor: a pipe, a socket, a terminal or a file; whoever gives it closes it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._stop_reader, self._stop_writer = os.pipe()

    def stop(self) -> None:
        """End the input, even under a read that waits."""
        os.write(self._stop_writer, b"\0")

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for input and put it into `buffer`; the number of bytes, 0 at the end."""
        room = memoryview(buffer).cast("B")
        while True:
            ready, _, _ = select.select([self._descriptor, self._stop_reader], [], [])
            if self._stop_reader in ready:
                return 0
            try:
                chunk = os.read(self._descriptor, len(room))
            except BlockingIOError:  # the client shares the descriptor, and may have made it one that does not block
                continue
            room[: len(chunk)] = chunk
            return len(chunk)
