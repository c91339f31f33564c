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
from typing import Any, Final, NamedTuple, TypeAlias, cast

# ----------------------------------------------------------------------------------------------------
# What a client asks before it calls anything: the questions that can be answered from a record, and how one tells that

Json: TypeAlias = dict[str, Any]

LISTS: Final = {
    "tools/list": "notifications/tools/list_changed",
    "resources/list": "notifications/resources/list_changed",
    "resources/templates/list": "notifications/resources/list_changed",
    "prompts/list": "notifications/prompts/list_changed",
}
"""Each list, and the notification that it has changed."""
OPENINGS: Final = ("initialize", "server/discover")
ASKED: Final = (*OPENINGS, "ping", *LISTS)
MAX_BYTES: Final = 64 * 1024
"""Bytes of a message that is looked at."""

_PREFIX: Final = "io.modelcontextprotocol/"
_VERSION: Final = f"{_PREFIX}protocolVersion"
_OF_THE_ASKER: Final = (
    *(f"{_PREFIX}clientInfo", f"{_PREFIX}logLevel"),
    *("progressToken", "traceparent", "tracestate", "baggage"),
)


class Question(NamedTuple):
    """One that may be in a record."""

    id: str
    """The request's id as JSON."""
    method: str
    key: str
    """The same for the same question."""
    modern: bool
    """Of the era without a handshake."""


class Listener:
    """Hears what one client says, message by message, and tells which are such questions.

    The first request decides the era, as it does for the server; a message of the other era is no question, and is
    left to the server to refuse. With the first call the questions end: what is listed then may come of the call.
    """

    def __init__(self) -> None:
        self.over = False
        self._modern: bool | None = None
        self._greeting: str | None = None

    def hear(self, line: bytes) -> Question | None:
        """The question in this line, if it is one."""
        message = None if self.over or len(line) > MAX_BYTES else request_in(line)
        if message is None:
            return None
        method, params = message["method"], message.get("params")
        modern = method != "initialize" and _enveloped(params)
        opens = self._modern is None
        if self._modern is None:
            self._modern = modern
        self.over = method == "tools/call"
        if method not in ASKED or modern is not self._modern:
            return None
        said = json.dumps([method, _plain(params)], sort_keys=True)
        if method == "initialize" and opens:
            self._greeting = said
        elif not modern:
            if self._greeting is None or method in OPENINGS:
                return None
            said += self._greeting
        return Question(json.dumps(message["id"]), method, said, modern)


def request_in(line: bytes) -> Json | None:
    """The request in this line, if there is one: it has an id, a method, and an object for parameters or none."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    message = cast("Json", said)
    number, params = message.get("id"), message.get("params")
    numbered = isinstance(number, (str, int)) and not isinstance(number, bool)
    right = numbered and isinstance(message.get("method"), str) and (params is None or isinstance(params, dict))
    return message if right and message.get("jsonrpc") == "2.0" else None


def _enveloped(params: Json | None) -> bool:
    """Whether a request carries its protocol version, as those of the era without a handshake do."""
    meta = (params or {}).get("_meta")
    return isinstance(meta, dict) and _VERSION in meta


def _plain(params: Json | None) -> Json:
    """Parameters without what is about the asker."""
    plain = {name: value for name, value in (params or {}).items() if name != "clientInfo"}
    meta = plain.pop("_meta", None)
    if isinstance(meta, dict):
        about = {name: value for name, value in cast("Json", meta).items() if name not in _OF_THE_ASKER}
        plain |= {"_meta": about} if about else {}
    return plain


# ----------------------------------------------------------------------------------------------------
# The front door of `codecall serve` over stdio: it listens at once, answers what it has a record of, and hands the

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
