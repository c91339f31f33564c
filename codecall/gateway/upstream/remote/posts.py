"""Messages to a server over streamable HTTP, each a POST of its own: one that fails ends none of the others.

For the SDK a POST that fails is the end of the session, and so of everybody's calls. Here it is the end of one request.
In the handshake era the SDK also waits for ever for the answer to a request that was given up, and a server need not
send one: of these some are waited for, in case that the server asks something meanwhile, and no more.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final, cast

import anyio
import httpx2
from mcp_types import RequestId

from codecall.gateway.upstream.messages import find_request_id, lost_response
from codecall.gateway.upstream.relay import CURRENT_CALL
from codecall.gateway.upstream.responses import media_type, message_event

MAX_GIVEN_UP: Final = 100
"""Requests that were given up, and whose answers are waited for all the same."""

_CANCELLATION_S: Final = 1.0
"""Seconds at most that other messages wait until a server acknowledges that a request was given up."""

_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
"""Failures before anything of a request has been sent."""

_STREAM: Final = "text/event-stream"


class _Post:
    """A request that waits for its answer."""

    def __init__(self, request_id: RequestId) -> None:
        self.request_id = request_id
        self.is_closed = False
        self.scope = anyio.CancelScope()

    def close(self) -> None:
        self.is_closed = True
        self.scope.cancel()

    def lost(self, request: httpx2.Request) -> httpx2.Response:
        """The response in place of one that does not come."""
        return httpx2.Response(
            200,
            headers={"content-type": _STREAM},
            content=message_event(lost_response(self.request_id)),
            request=request,
        )


_CURRENT_POST: Final[ContextVar[_Post | None]] = ContextVar("codecall_post", default=None)
"""The request whose answer the SDK is asking for, again where a stream has ended before it."""


class PostMonitor:
    """Watches the messages that one client sends.

    Args:
        timeout_s: seconds that the server may take to acknowledge a message that is no request.
        on_refused: called with the status, from 400 on, that a request was answered with.
        on_failed: called with what kept a message from being sent, or from being answered, in the context of its
            sender; whether that is the end of this message alone, and not of the session.
    """

    def __init__(
        self, timeout_s: float, on_refused: Callable[[int], None], on_failed: Callable[[Exception], bool]
    ) -> None:
        self._timeout_s = timeout_s
        self._on_refused = on_refused
        self._on_failed = on_failed
        self._plain_send: Callable[..., Awaitable[httpx2.Response]]
        self._given_up: dict[RequestId, _Post] = {}
        self._posts: dict[RequestId, _Post] = {}

    def watch(self, client: httpx2.AsyncClient) -> httpx2.AsyncClient:
        """Watch a client before it is used."""
        plain_send = self._plain_send = client.send

        async def send(request: httpx2.Request, **options: Any) -> httpx2.Response:
            if request.method == "GET":
                post = _CURRENT_POST.get()
                return await (plain_send(request, **options) if post is None else self._send(post, request, options))
            if request.method != "POST":
                return await plain_send(request, **options)
            if (request_id := find_request_id(request.content)) is not None:
                return await self._send_request(request_id, request, options)
            timeout_s = _CANCELLATION_S if self._note_cancelled(request.content) else self._timeout_s
            try:
                with anyio.fail_after(timeout_s):  # the SDK sends no other message meanwhile
                    return await plain_send(request, **options)
            except Exception as failure:
                if not self._on_failed(failure):
                    raise
                return httpx2.Response(503, request=request)

        cast("Any", client).send = send
        return client

    async def _send_request(
        self, request_id: RequestId, request: httpx2.Request, options: dict[str, Any]
    ) -> httpx2.Response:
        self._posts[request_id] = post = _Post(request_id)
        _CURRENT_POST.set(post)
        call = CURRENT_CALL.get()
        was_sent = call is not None and call.was_sent
        if call is not None:
            call.was_sent = True
        try:
            response = await self._send(post, request, options)
        except Exception as failure:
            if call is not None and isinstance(failure, _NOT_SENT):
                call.was_sent = was_sent
            if not self._on_failed(failure):
                raise
            return post.lost(request)
        if response.status_code >= 400:
            self._on_refused(response.status_code)
        return response

    async def _send(self, post: _Post, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        response: httpx2.Response | None = None
        try:
            if not post.is_closed:
                with anyio.CancelScope() as post.scope:
                    response = await self._plain_send(request, **options)
        finally:
            if response is None:
                self._end(post)
        if response is None:
            return post.lost(request)
        response.stream = _ClosableAnswer(response, post, self._end, self._on_failed)
        return response

    def _note_cancelled(self, message: bytes) -> bool:
        """Take note of a request that was given up; whether the message says so of one."""
        sent = json.loads(message)
        if sent.get("method") != "notifications/cancelled":
            return False
        request_id = sent["params"].get("requestId")
        if (post := self._posts.get(request_id)) is not None:
            self._given_up[request_id] = post
            if len(self._given_up) > MAX_GIVEN_UP:
                self._given_up.pop(next(iter(self._given_up))).close()
        return True

    def _end(self, post: _Post) -> None:
        self._posts.pop(post.request_id, None)
        self._given_up.pop(post.request_id, None)


class _ClosableAnswer(httpx2.AsyncByteStream):
    def __init__(
        self,
        response: httpx2.Response,
        post: _Post,
        on_end: Callable[[_Post], None],
        on_failed: Callable[[Exception], bool],
    ) -> None:
        self._on_failed = on_failed
        self._inner = cast("httpx2.AsyncByteStream", response.stream)
        self._post = post
        self._on_end = on_end
        self._is_stream = media_type(response) == _STREAM
        error = lost_response(post.request_id)
        self._in_its_place = (
            message_event(error) if self._is_stream else error.model_dump_json(exclude_unset=True).encode()
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        post = self._post
        async with aclosing(cast("Any", aiter(self._inner))) as chunks:
            while not post.is_closed:
                chunk: bytes | None = None
                with anyio.CancelScope() as post.scope:
                    try:
                        chunk = await anext(chunks, None)
                    except httpx2.TransportError as failure:  # of which the SDK thinks in streams alone
                        if self._is_stream or not self._on_failed(failure):
                            raise
                        break
                if chunk is not None:
                    yield chunk
                elif not post.is_closed:
                    return
        yield self._in_its_place

    async def aclose(self) -> None:
        self._on_end(self._post)
        await self._inner.aclose()
