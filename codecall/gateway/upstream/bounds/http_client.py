"""The HTTP client for whatever strangers answer: asks for uncompressed answers, and bounds their heads.

httpx2 hands an answer over once its final head has come. Informational ones (HTTP 1xx) it reads and forgets, as many as
come: an endless row of them took all of the processor, and nobody saw any. So the connections are read with an eye on
the heads. The `trace` extension of a request, a public one, is told of each connection that is made for it, and of the
stream that is read from then on.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import httpx2

from codecall.gateway.upstream.responses import UNCOMPRESSED, forget_cookies

MAX_INFORMATIONAL: Final = 20
"""Informational answers (HTTP 1xx) to one request."""

MAX_HEAD_LINES: Final = 1_000
"""Lines in the heads of all answers to one request: 13,000 short ones fit into what httpx2 reads, and take 0.2 s."""

_NEW_STREAM: Final = ("connect_tcp.complete", "start_tls.complete")
"""How the events end that bring a stream which may be read from then on."""

_HEAD_END: Final = re.compile(rb"\n\r?\n")
_INFORMATIONAL: Final = re.compile(rb"HTTP/[\d.]+ +1(?!01)\d\d")  # 101 is final
_STATUS_LINE: Final = b"HTTP/1."


_LIMITS: Final = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
"""As many connections as there are calls: one that waits for a connection could wait for other callers' calls. How many
calls there are is bounded for each caller, see `CallerShares`."""


class HeadError(httpx2.RemoteProtocolError):
    """A server has sent more heads than anybody needs; the text goes after its name."""


def create_http_client(
    *,
    headers: dict[str, str] | None = None,
    on_request: Sequence[Callable[[httpx2.Request], Awaitable[None]]] = (),
    on_response: Sequence[Callable[[httpx2.Response], Awaitable[None]]] = (),
    on_refusal: Callable[[str], None] = lambda _: None,
    keep_cookies: bool = False,
    **options: Any,
) -> httpx2.AsyncClient:
    """Create a client.

    Args:
        headers: of every request.
        on_request: called with each request before it is sent.
        on_response: called with each answer before its body is read.
        on_refusal: called with the text of a `HeadError` before that is raised.
        keep_cookies: whether what servers set is sent with later requests: not where callers share the client.
        options: further ones of `httpx2.AsyncClient`.
    """

    async def watch_heads(request: httpx2.Request) -> None:
        async def watch(event: str, about: dict[str, Any]) -> None:
            if event.endswith(_NEW_STREAM):
                _watch_stream(about["return_value"], on_refusal)

        add_trace(request, watch)

    client = httpx2.AsyncClient(
        headers={**UNCOMPRESSED, **(headers or {})},
        limits=_LIMITS,
        event_hooks={"request": [*on_request, watch_heads], "response": [*on_response]},
        **options,
    )
    if not keep_cookies:
        forget_cookies(client)
    return client


def add_trace(request: httpx2.Request, trace: Callable[[str, dict[str, Any]], Awaitable[None]]) -> None:
    """Have `trace` called with what httpx2 does for a request, after whatever is called already."""
    before = request.extensions.get("trace")

    async def both(event: str, about: dict[str, Any]) -> None:
        if before is not None:
            await before(event, about)
        await trace(event, about)

    request.extensions["trace"] = both


def _watch_stream(stream: Any, on_refusal: Callable[[str], None]) -> None:
    """Have what is read of a stream looked at."""
    heads = _Heads()
    read, write, get_extra_info = stream.read, stream.write, stream.get_extra_info

    async def watched_read(*arguments: Any, **named: Any) -> bytes:
        data = await read(*arguments, **named)
        try:
            heads.check(data)
        except HeadError as refusal:
            on_refusal(str(refusal))
            raise
        return data

    async def watched_write(*arguments: Any, **named: Any) -> None:
        heads.expect()
        await write(*arguments, **named)

    def watched_info(info: str) -> Any:
        # The pool closes a connection that has something to read before a request is sent.
        return (info == "is_readable" and heads.may_be_read) or get_extra_info(info)

    stream.read, stream.write, stream.get_extra_info = watched_read, watched_write, watched_info


class _Heads:
    """The heads of the answers to one request after the other, in what is read of a connection."""

    def __init__(self) -> None:
        self._expected = False
        self._waiting = bytearray()
        self._searched = 0
        self._informational = 0
        self._lines = 0
        self.may_be_read = False
        """Whether what was read last may hold many heads, of answers to a request that has not been sent."""

    def expect(self) -> None:
        """Begin anew: a request is being sent."""
        self._expected = True
        self._waiting.clear()
        self._searched = self._informational = self._lines = 0

    def check(self, data: bytes) -> None:
        """Look at what was read.

        Raises:
            HeadError: there are too many heads, or too many lines in them.
        """
        if not self._expected:
            self.may_be_read = data.count(_STATUS_LINE) > MAX_INFORMATIONAL
            return
        self._waiting += data
        self._lines += data.count(b"\n")
        while self._expected and (end := _HEAD_END.search(self._waiting, self._searched)) is not None:
            self._expected = _INFORMATIONAL.match(self._waiting) is not None
            self._informational += self._expected
            del self._waiting[: end.end()]
            self._searched = 0
        self._searched = max(0, len(self._waiting) - 2)
        if not self._expected:  # the rest is a body
            self._lines -= self._waiting.count(b"\n")
            self.may_be_read = self._waiting.count(_STATUS_LINE) > MAX_INFORMATIONAL
            self._waiting.clear()
        if self._informational > MAX_INFORMATIONAL:
            raise HeadError(f"sent more than {MAX_INFORMATIONAL} informational answers (HTTP 1xx) to one request")
        if self._lines > MAX_HEAD_LINES:
            raise HeadError(f"sent more than {MAX_HEAD_LINES:,} lines of headers in answer to one request")
