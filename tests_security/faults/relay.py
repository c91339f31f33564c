"""A relay between the server and a real worker that counts the frames of both directions and spoils the n-th.

Workers are forked from one fork server for all tests, so that a hundred of them cost no more than their work.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from codecall.sandbox import wire
from codecall.sandbox.host.spawner import ForkedProcess, ForkServer

Fault = Callable[["Line", socket.socket, bytes], bool]
"""Does what it does instead of passing on a frame; False ends the relay."""


@dataclass
class Plan:
    """Which frame is to be spoiled, and how. The first worker made after `arm` is the one that is hit."""

    at: int = 0
    fault: Fault | None = None
    frames: int = 0
    """Frames that have passed, of both directions."""
    fired: bool = False
    armed: bool = False

    def arm(self, at: int, fault: Fault) -> None:
        """Spoil frame `at`, counted from 1, of the next worker."""
        self.at, self.fault, self.frames, self.fired, self.armed = at, fault, 0, False, True


OWN_PLAN: ContextVar[Plan] = ContextVar("own_plan")
"""Of the enclaves that a task opens, where several do at the same time."""


@dataclass
class Line:
    """The two ends of one relay."""

    server: socket.socket
    worker: socket.socket
    process: ForkedProcess
    plan: Plan | None
    thread: threading.Thread | None = field(default=None)

    def run(self) -> None:
        """Pass frames on until either end is closed or the fault ends the line."""
        with contextlib.suppress(OSError, EOFError), self.server, self.worker:
            while True:
                for ready in select.select([self.server, self.worker], [], [])[0]:
                    other = self.worker if ready is self.server else self.server
                    if not self._pass_on(_read_frame(ready), other):
                        return

    def _pass_on(self, frame: bytes, other: socket.socket) -> bool:
        plan = self.plan
        if plan is not None and plan.fault is not None:
            plan.frames += 1
            if plan.frames == plan.at:
                plan.fired = True
                return plan.fault(self, other, frame)
        other.sendall(frame)
        return True

    def wait_for_the_end(self) -> None:
        """Keep the line open and silent until the server closes it."""
        while self.server.recv(1 << 16):
            pass


def _read_frame(source: socket.socket) -> bytes:
    header = _read(source, 4)
    return header + _read(source, struct.unpack(">I", header)[0])


def _read(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := source.recv(count - len(data))):
            raise EOFError
        data += more
    return data


class RelayedServer:
    """In the place of a `ForkServer`: forks real workers from a shared one and puts a relay before each."""

    def __init__(self, shared: ForkServer, plan: Plan) -> None:
        self._shared = shared
        self._plan = plan
        self.lines: list[Line] = []

    def __call__(self, prepare: wire.Prepare) -> RelayedServer:
        """Instead of starting one."""
        del prepare
        return RelayedServer(self._shared, OWN_PLAN.get(self._plan))

    def available(self) -> bool:
        """Whether the system can fork."""
        return ForkServer.available()

    def alive(self) -> bool:
        """Whether the shared one still runs."""
        return self._shared.alive()

    def fork(self, pipe: socket.socket) -> ForkedProcess:
        """A real worker behind a relay whose other end is `pipe`."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = self._shared.fork(theirs)
        armed, self._plan.armed = self._plan.armed, False
        line = Line(pipe.dup(), ours, process, self._plan if armed else None)
        line.thread = threading.Thread(target=line.run, daemon=True)
        line.thread.start()
        self.lines.append(line)
        return process

    def close(self) -> None:
        """The shared one lives on."""

    def wait(self) -> None:
        """The relays end with the pipes they join."""
        for line in self.lines:
            if line.thread is not None:
                line.thread.join(5)
                assert not line.thread.is_alive()
        self.lines.clear()


# ------------------------------------------------------------------------------------------------------------ faults


def kill(line: Line, other: socket.socket, frame: bytes) -> bool:
    """The worker dies instead of the frame."""
    del other, frame
    _kill(line, signal.SIGKILL)
    return False


def terminate(line: Line, other: socket.socket, frame: bytes) -> bool:
    """The worker is asked to end instead of the frame."""
    del other, frame
    _kill(line, signal.SIGTERM)
    return False


def _kill(line: Line, number: signal.Signals) -> None:
    until = time.monotonic() + 5
    while not line.process.pid and time.monotonic() < until:
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError):
        os.kill(line.process.pid, number)
    # The end shows on the worker's own end of the pipe.
    with contextlib.suppress(OSError):
        while line.worker.recv(1 << 16):
            pass


def cut(line: Line, other: socket.socket, frame: bytes) -> bool:
    """Half the frame, and the pipe is closed."""
    del line
    other.sendall(frame[: len(frame) // 2])
    return False


def stall(line: Line, other: socket.socket, frame: bytes) -> bool:
    """Half the frame, and then nothing."""
    other.sendall(frame[: len(frame) // 2])
    line.wait_for_the_end()
    return False


def lose(line: Line, other: socket.socket, frame: bytes) -> bool:
    """The frame does not arrive."""
    del line, other, frame
    return True


def garble(line: Line, other: socket.socket, frame: bytes) -> bool:
    """The body is another."""
    del line
    other.sendall(frame[:4] + b"\xc1" * (len(frame) - 4))
    return True


def grow(line: Line, other: socket.socket, frame: bytes) -> bool:
    """The header announces 4 GiB."""
    del line
    other.sendall(b"\xff\xff\xff\xff" + frame[4:])
    return True


def flip(line: Line, other: socket.socket, frame: bytes) -> bool:
    """One byte in the middle is another."""
    del line
    spoiled = bytearray(frame)
    spoiled[max(4, len(frame) // 2)] ^= 0x15
    other.sendall(spoiled)
    return True


def duplicate(line: Line, other: socket.socket, frame: bytes) -> bool:
    """The frame arrives twice."""
    del line
    other.sendall(frame + frame)
    return True


def delay(line: Line, other: socket.socket, frame: bytes) -> bool:
    """The frame is late."""
    del line
    time.sleep(0.02)
    other.sendall(frame)
    return True


def split(line: Line, other: socket.socket, frame: bytes) -> bool:
    """The frame arrives in three pieces."""
    del line
    third = max(1, len(frame) // 3)
    for piece in (frame[:third], frame[third : 2 * third], frame[2 * third :]):
        other.sendall(piece)
        time.sleep(0.005)
    return True
