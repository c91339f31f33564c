"""Through the front door, once the server stands: what it reads, and where its words go.

It reads what the client has said before, then on from the client's descriptor. What it writes goes to the client, but
for second answers to questions that the door has answered: these are compared with what was said. Answers to questions
that a record can hold are noted for the next start.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import select
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

from codecall.gateway.frontdoor import CHUNK, Door, write_all
from codecall.gateway.questions import LISTS, MAX_BYTES, Question

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
