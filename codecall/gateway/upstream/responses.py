"""Responses of servers over HTTP, before anything reads them: bounded, uncompressed, and quick to decode."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from http.cookiejar import DefaultCookiePolicy
from typing import Final, TypeVar, cast

import anyio.to_thread
import httpx2

from codecall.concurrency import release_frames
from codecall.gateway.upstream.messages import IN_THREAD_BYTES, TooLargeError

T = TypeVar("T")

COMPRESSED: Final = "it is compressed"

UNCOMPRESSED: Final = {"accept-encoding": "identity"}
"""Headers that ask for answers as they are: a little that is compressed may be very much."""

_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,20})", re.IGNORECASE)
_MAX_CONTENT_TYPE: Final = 200
"""Characters of a content type that are looked at."""

_QUICK_CHARSETS: Final = {
    "ascii": "ascii",
    "us-ascii": "ascii",
    "iso-8859-1": "iso-8859-1",
    "iso8859-1": "iso-8859-1",
    "latin-1": "iso-8859-1",
    "latin1": "iso-8859-1",
    "windows-1252": "windows-1252",
    "cp1252": "windows-1252",
}
"""What a server may call the encodings, beside UTF-8, that it may name; Python has some that take a time that grows by
the square of the text."""


async def in_thread_if_large(work: Callable[[bytes], T], data: bytes) -> T:
    """What `work` makes of `data`. An error that refuses it does not keep it."""
    if len(data) <= IN_THREAD_BYTES:
        return work(data)
    try:
        return await anyio.to_thread.run_sync(work, data)
    except (TooLargeError, httpx2.StreamError) as refusal:
        release_frames(refusal)
        raise


def media_type(response: httpx2.Response) -> str:
    """What kind of body a response has, in lower case, without parameters."""
    content_type: str = response.headers.get("content-type", "")
    return content_type[:_MAX_CONTENT_TYPE].partition(";")[0].strip().lower()


def take_charset(response: httpx2.Response) -> str:
    """Have whoever reads a response take its body for UTF-8, and say what encoding it names, if that is quick to read;
    else UTF-8."""
    if (content_type := response.headers.get("content-type")) is None:
        return "utf-8"
    match = _CHARSET.search(content_type[:_MAX_CONTENT_TYPE])
    response.headers["content-type"] = media_type(response)
    return "utf-8" if match is None else _QUICK_CHARSETS.get(match[1].lower(), "utf-8")


def forget_cookies(client: httpx2.AsyncClient) -> None:
    """Have a client that all callers share keep no cookies: what a server sets for one would speak for the next."""
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))


class ResponseBody(httpx2.AsyncByteStream):
    """The body of a server's response."""

    def __init__(self, response: httpx2.Response) -> None:
        self._inner = cast("httpx2.AsyncByteStream", response.stream)
        self._encoded = response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")
        # What comes out of here is not compressed, whatever the server says.
        response.headers.pop("content-encoding", None)

    async def aclose(self) -> None:
        """Close it, read or not."""
        await self._inner.aclose()


class BoundedBody(ResponseBody):
    """A body that is read as a whole.

    Args:
        response: with the body.
        limit: most bytes.
        check: what is passed on in its place; raises `httpx2.StreamError` where nothing is.
    """

    def __init__(self, response: httpx2.Response, limit: int, check: Callable[[bytes], bytes]) -> None:
        super().__init__(response)
        self._limit = limit
        self._check = check

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()  # not a list of chunks: each costs an object, however few bytes it has
        async for chunk in self._inner:
            body += chunk
            if len(body) > self._limit or self._encoded:
                raise unread(COMPRESSED if self._encoded else f"it has more than {self._limit // 2**20} MiB")
        whole = bytes(body)
        body.clear()
        yield await in_thread_if_large(self._check, whole)


class ErrorBody(ResponseBody):
    """The beginning of a body that says what went wrong, with a mark where more follows.

    Args:
        response: with the body.
        limit: most bytes.
    """

    def __init__(self, response: httpx2.Response, limit: int) -> None:
        super().__init__(response)
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoded:
            yield f"[not read: {COMPRESSED}]".encode()
            return
        left = self._limit
        async for chunk in self._inner:
            yield chunk[:left]
            left -= len(chunk)
            if left < 0:
                yield "…[truncated]".encode()
                return


class UnreadBody(ResponseBody):
    """A body that nobody needs."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for nothing in ():
            yield nothing


def unread(reason: str) -> httpx2.StreamError:
    """The error for an answer that is not passed on."""
    return httpx2.StreamError(f"The server's answer was not read: {reason}")
