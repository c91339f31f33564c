"""Requests over HTTP that have not been answered: how many one caller may have, and how many bytes of bodies.

A request's body stays in memory until it is answered, parsed and several times over. So it counts from when it arrives
until the application returns. A client of the handshake era that disconnects has its call go on in the session: the
body counts for as long as that. Answers have a quota of their own: they wait when the call has ended.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any, Final

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from codecall.gateway.serve.unsent import ByteQuota, Message

MAX_HELD: Final = 32 * 1024 * 1024
"""Bytes of the bodies of one caller's requests that are not answered: eight of the largest."""

MAX_HELD_BY_ALL: Final = 128 * 1024 * 1024
"""The same of all callers together. A body takes about four times as much memory while a tool is called with it."""

MAX_PENDING: Final = 1_000
"""Requests with a body of one caller that are not answered. The smallest takes some 120 KB of memory."""

SMALL: Final = 16 * 1024
"""Bytes of a body up to which they count nothing: whoever holds all that may be held can still cancel, and nobody else
is kept from the usual calls."""

_KEY: Final = "codecall.pending"
"""Of the scope of a request: its `PendingRequest`."""


class PendingQuota:
    """What callers have pending."""

    def __init__(self) -> None:
        self.bytes = ByteQuota(MAX_HELD, MAX_HELD_BY_ALL)
        self.requests = Counter[str]()
        """With a body, by caller."""


class PendingRequest:
    """One request, which counts while somebody is in it: the application, and the call that it makes."""

    def __init__(self, quota: PendingQuota, scope: Message) -> None:
        self._quota = quota
        self._users = 0
        self._caller = ""
        self._size = 0
        """Of its body, so far as it counts."""
        self._begun = False
        """It has a body, and counts as one request."""
        scope[_KEY] = self

    def __enter__(self) -> None:
        self._users += 1
        if self._users == 1:
            self._count(1)

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self._count(-1)

    def grow(self, caller: str, size: int) -> str | None:
        """Count a body of which so many bytes have arrived; what it is refused for."""
        self._caller = caller
        if not self._users:
            return "its client is gone"
        if size and not self._begun:
            if self._quota.requests[caller] >= MAX_PENDING:
                return f"{MAX_PENDING:,} requests of this caller are not answered yet"
            self._begun = True
            self._quota.requests[caller] += 1
        if size > SMALL:
            if not self._quota.bytes.hold(caller, size - self._size):
                return "large requests of this caller, or of all, that are not answered yet have too many bytes"
            self._size = size
        return None

    def drop(self) -> None:
        """The body is not kept."""
        if self._users:
            self._count(-1)
        self._size, self._begun = 0, False

    def _count(self, times: int) -> None:
        if self._size:
            self._quota.bytes.add(self._caller, times * self._size)
        if self._begun:
            self._quota.requests[self._caller] += times
            if not self._quota.requests[self._caller]:
                del self._quota.requests[self._caller]


class CountCalls(Middleware):
    """Has a request count until its call has ended, though the client is gone."""

    async def on_message(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """See FastMCP's `Middleware`."""
        fastmcp_context = context.fastmcp_context
        request_context = fastmcp_context.request_context if fastmcp_context is not None else None
        scope: Message = getattr(getattr(request_context, "request", None), "scope", None) or {}
        with scope.get(_KEY) or contextlib.nullcontext():
            return await call_next(context)
