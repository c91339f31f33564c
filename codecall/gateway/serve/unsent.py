"""What of the answers waits for clients that do not take it, and counts for them.

A stream of events is taken from the application at once, and sent by a task of its own: an event that waited in the
application until those before it have been taken would be held there uncounted, however large the result in it is.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Final, NamedTuple, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

logger = logging.getLogger("codecall")

SENT_PIECE: Final = 256 * 1024
"""Bytes that are sent at a time. As many of one stream may wait without being counted."""

_LOSSY: Final = re.compile(
    rb'(?:event: message\r?\ndata: )?\{"jsonrpc":"2\.0","method":"notifications/(?:progress|message)"|:'
)
"""The beginning of an event that may be left out: progress, a log message, or a comment."""


class ByteQuota:
    """How many bytes each caller may have waiting, and all together.

    Args:
        most: of one caller.
        most_by_all: of all together.
    """

    def __init__(self, most: int, most_by_all: int) -> None:
        self._most = most
        self._most_by_all = most_by_all
        self.by_caller: dict[str, int] = {}
        """Of those that have some."""
        self.by_all = 0

    def hold(self, caller: str, size: int, *, first: bool = False) -> bool:
        """Count so many bytes more, unless they are too many; with `first` none are for whoever has none yet."""
        held = self.by_caller.get(caller, 0)
        too_many = held + size > self._most or self.by_all + size > self._most_by_all
        if too_many and (held or not first):
            return False
        self.add(caller, size)
        return True

    def release(self, caller: str, size: int) -> None:
        """Count so many bytes less."""
        self.add(caller, -size)

    def add(self, caller: str, size: int) -> None:
        """Count so many bytes more, or less, however many there are."""
        self.by_all += size
        held = self.by_caller.pop(caller, 0) + size
        if held:
            self.by_caller[caller] = held


def body_in_pieces(message: Message) -> Iterator[Message]:
    """A part of a body as parts that may be sent one after the other."""
    body, more = message.get("body", b""), message.get("more_body", False)
    for at in range(0, len(body), SENT_PIECE) or (0,):
        yield {**message, "body": body[at : at + SENT_PIECE], "more_body": more or at + SENT_PIECE < len(body)}


class _Waiting(NamedTuple):
    message: Message
    size: int
    caller: str | None
    """For whom it is counted; None: it is not."""


class EventQueue:
    """The events of one stream that wait until the client has taken those before them.

    Args:
        send: sends a message once there is room for it.
        quota: of what counts.
    """

    def __init__(self, send: Send, quota: ByteQuota) -> None:
        self._send = send
        self._quota = quota
        self._waiting: deque[_Waiting] = deque()
        self._uncounted = 0
        self._left_out = 0
        self._ended = False
        self._sending: asyncio.Task[None] | None = None

    def put(self, message: Message, caller: str) -> None:
        """Have a message sent after those before it. Notifications are left out where too much waits, and the stream
        ends in the place of anything else."""
        if self._ended:
            return
        body: bytes = message.get("body", b"")
        counts = self._uncounted + len(body) > SENT_PIECE
        if counts and _LOSSY.match(body) is not None and self._waiting:
            self._left_out += 1
            return
        if counts and not self._quota.hold(caller, len(body), first=True):
            self._ended, message, body, counts = True, {"type": "http.response.body", "body": b""}, b"", False
        self._uncounted += 0 if counts else len(body)
        self._waiting.append(_Waiting(message, len(body), caller if counts else None))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_waiting())
            self._sending.add_done_callback(self._drop_waiting)

    async def join(self) -> None:
        """Wait until all has been sent. Nothing more is, if this is cancelled."""
        try:
            if self._sending is not None:
                await self._sending
        finally:
            self.abort()

    def abort(self) -> None:
        """Send nothing more."""
        self._ended = True
        if self._sending is not None:
            self._sending.cancel()
        if self._left_out:
            logger.warning("%d notifications were left out: a client reads too slowly", self._left_out)

    async def _send_waiting(self) -> None:
        while self._waiting:
            message = self._waiting[0].message
            for part in body_in_pieces(message) if message["type"] == "http.response.body" else (message,):
                await self._send(part)
            self._remove_first()

    def _drop_waiting(self, sending: asyncio.Task[None]) -> None:
        """Count nothing of what is not sent any more. Not in the task itself, which may end before its first turn."""
        if sending.cancelled() or sending.exception() is not None:
            self._ended = True
            while self._waiting:
                self._remove_first()

    def _remove_first(self) -> None:
        _, size, caller = self._waiting.popleft()
        if caller is None:
            self._uncounted -= size
        else:
            self._quota.release(caller, size)
