"""The front door of `codecall serve` over stdio: it listens at once, answers what it has a record of, and hands the
session over when the server behind it stands.

    process starts     the door claims both descriptors; standard input and output of the process lead elsewhere
    imports, building  a thread reads; a question with an answer in the record is answered, all else is kept, in order
    the server stands  it hears everything from the first byte on, reads on from the descriptor, and what it says goes
                       through the door (`passage`), which swallows second answers to questions that are answered

Nothing is lost or said twice, and the server knows what it would know without a door. Standard library only: this is
there before anything else is imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import threading
from collections.abc import Mapping
from typing import Final

from codecall.gateway.questions import Listener, Question, request_in

CHUNK: Final = 64 * 1024
MAX_KEPT: Final = 64 * 1024 * 1024
"""Bytes that are kept for the server before it stands; a client that sends more waits."""
INTERNAL_ERROR: Final = -32603


class Door:
    """Where a client speaks with this process, while it starts and after.

    Args:
        record: Answers of an earlier start, by question.
        stdin: The descriptor that the client writes to.
        stdout: The one it reads from.
    """

    def __init__(self, record: Mapping[str, str], stdin: int, stdout: int) -> None:
        self.record = record
        self.listener = Listener()
        self.heard = bytearray()
        """What the client has said, from the first byte to the hand-over."""
        self.asked: dict[str, Question] = {}
        """Questions that could be in a record, by the request's id."""
        self.told: dict[str, str] = {}
        """Those of them that were answered, with what was said."""
        self.at = 0
        """Where in `heard` the first line begins that is not complete."""
        self.stdin, self.stdout = stdin, stdout
        self._unanswered: list[str] = []
        self._nothing_open = True
        self._handed_over = False
        self._settling = threading.Lock()
        self._wake, self._waking = os.pipe()
        self._thread = threading.Thread(target=self._attend, name="codecall-front-door", daemon=True)

    def open(self) -> None:
        """Listen from now on."""
        self._thread.start()

    def building(self) -> None:
        """From now on there is something that wants to be closed: a client that leaves does not end the process."""
        with self._settling:
            self._nothing_open = False

    def hand_over(self) -> None:
        """Stop listening; `heard`, `told` and the descriptors are the caller's now."""
        if not self._handed_over:
            self._handed_over = True
            os.write(self._waking, b"\0")
            self._thread.join()

    def fail(self, message: str) -> None:
        """Answer what waits for an answer with an error: there will be no server. Does nothing if there was one."""
        if self._handed_over:
            return
        self.hand_over()
        for number in self._unanswered:
            error = json.dumps({"code": INTERNAL_ERROR, "message": message})
            with contextlib.suppress(OSError):
                write_all(self.stdout, f'{{"jsonrpc":"2.0","id":{number},"error":{error}}}\n'.encode())

    def _attend(self) -> None:
        while len(self.heard) < MAX_KEPT:
            ready, _, _ = select.select([self.stdin, self._wake], [], [])
            if self._wake in ready:
                return
            try:
                chunk = os.read(self.stdin, CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                chunk = b""
            if not chunk:
                self._leave()
                return
            self.heard += chunk
            try:
                self._answer()
            except OSError:  # the client reads no more
                self._leave()
                return

    def _answer(self) -> None:
        while (end := self.heard.find(b"\n", self.at)) >= 0:
            line = bytes(self.heard[self.at : end])
            self.at = end + 1
            question = self.listener.hear(line)
            if question is None or question.id in self.asked:
                if (request := request_in(line)) is not None:
                    self._unanswered.append(json.dumps(request["id"]))
                continue
            self.asked[question.id] = question
            if (answer := self.record.get(question.key)) is None:
                self._unanswered.append(question.id)
                continue
            self.told[question.id] = answer
            write_all(self.stdout, f'{{"jsonrpc":"2.0","id":{question.id},"result":{answer}}}\n'.encode())

    def _leave(self) -> None:
        """The client has gone. While nothing is open but this door, and nothing waits for an answer, so do we."""
        with self._settling:
            if self._nothing_open and not self._unanswered:
                os._exit(0)


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of it, however little the descriptor takes at once.

    Raises:
        OSError: nobody reads any more.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def _claim() -> tuple[int, int]:
    """The client's two descriptors, under numbers that nobody else knows. What reads standard input finds its end,
    and what prints goes to standard error.

    Raises:
        OSError: one of them is closed.
    """
    import fcntl

    stdin, stdout = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 1)
    os.close(nothing)
    return stdin, stdout


_opened: Door | None = None


def opened() -> Door | None:
    """The door of this process, if it has one."""
    return _opened


def open_door(record: Mapping[str, str]) -> Door:
    """Open the door of this process.

    Raises:
        OSError: standard input or output is closed.
    """
    global _opened  # noqa: PLW0603 - a process has one standard input
    _opened = Door(record, *_claim())
    _opened.open()
    return _opened


def possible() -> bool:
    """Whether this system can wait for a pipe, as the door has to; Windows cannot."""
    return sys.platform != "win32"
