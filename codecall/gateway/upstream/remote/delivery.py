"""Messages to a server over SSE, each a POST of its own, after the one before: who does not take one takes no more.

The SDK neither bounds how long a server may take to acknowledge a POST nor says that one has failed: the calls of all
would wait for answers to what was never sent. So the connection ends there, as if the server had closed it. A request
that the server refuses for what is in it ends its call alone.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Any, Final, cast

import anyio
import httpx2
from mcp_types import RequestId

from codecall.gateway.upstream.messages import find_request_id

logger = logging.getLogger("codecall")

_REST_S: Final = 1.0
"""Seconds that the rest of an acknowledgement is read, which says nothing; that keeps the connection for the next."""

_ENDPOINT: Final = re.compile(rb"^event: ?endpoint$", re.MULTILINE)


class DeliveryMonitor:
    """Watches the messages that one client sends, and ends its stream of events with the first that is not taken, if
    that says something of those behind it.

    Args:
        timeout_s: seconds that the server may take to acknowledge a message, and send none itself.
        on_sending: called when a message is about to be sent, in the context of its sender.
        on_refused: called with the status of the answer that refuses a message, in the context of its sender, and the
            id of the request that it is; whether that concerns the sender alone, and the stream of events goes on.
        on_failed: called with what kept a message from being sent; `TimeoutError`: the server does not take it.
    """

    def __init__(
        self,
        timeout_s: float,
        on_sending: Callable[[], None],
        on_refused: Callable[[int, RequestId | None], bool],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        self._timeout_s = timeout_s
        self._on_sending = on_sending
        self._on_refused = on_refused
        self._on_failed = on_failed
        self._timer: asyncio.TimerHandle | None = None
        self._reading: anyio.CancelScope | None = None
        self._ended = False

    def watch(self, client: httpx2.AsyncClient) -> httpx2.AsyncClient:
        """Watch a client before it is used."""
        hooks = client.event_hooks
        client.event_hooks = {
            "request": [*hooks["request"], self._request_sent],
            "response": [*hooks["response"], self._response_begun],
        }
        watched, plain_send = cast("Any", client), client.send

        async def send(request: httpx2.Request, **options: Any) -> httpx2.Response:
            if request.method != "POST":
                return await plain_send(request, **options)
            self._on_sending()
            try:
                response = await plain_send(request, **options)
            except Exception as failure:
                self._fail(failure)
                raise
            if (status := response.status_code) >= 400:
                request_id = find_request_id(request.content)
                if self._ended or not self._on_refused(status, request_id):
                    self._end()
                    return response
                if request_id is None:
                    logger.warning("A server refused an answer or a notification with HTTP %d; it is lost", status)
                response.status_code = HTTPStatus.ACCEPTED  # else the SDK would send no more
                response.stream = _Acknowledgement(cast("httpx2.AsyncByteStream", response.stream))
            elif response.is_success:
                response.stream = _Acknowledgement(cast("httpx2.AsyncByteStream", response.stream))
            else:  # followed, if it leads to where it may
                self._start_timer()
            return response

        watched.send = send
        return client

    async def _request_sent(self, request: httpx2.Request) -> None:
        if request.headers.get("accept") != "text/event-stream":  # those of a sign-in, too, each for itself
            self._start_timer()

    async def _response_begun(self, response: httpx2.Response) -> None:
        if response.request.headers.get("accept") != "text/event-stream":
            self._stop_timer()
        elif response.is_success:
            response.stream = _EndableEvents(cast("httpx2.AsyncByteStream", response.stream), self)

    def _start_timer(self) -> None:
        self._stop_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._timeout_s, self._fail, TimeoutError())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail(self, why: BaseException) -> None:
        if not self._ended:
            self._on_failed(why)
        self._end()

    def _end(self) -> None:
        self._stop_timer()
        if self._ended:
            return
        self._ended = True
        if self._reading is not None:
            self._reading.cancel()

    async def read_events(self, events: httpx2.AsyncByteStream) -> AsyncIterator[bytes]:
        """The events of a stream, each as one chunk, until a message is not taken. What names the address of messages
        a second time is left out: the SDK would end the connection."""
        has_address = False
        async with aclosing(cast("Any", aiter(events))) as chunks:
            while not self._ended:
                event: bytes | None = None
                with anyio.CancelScope() as self._reading:
                    event = await anext(chunks, None)
                if event is None or self._reading.cancelled_caught:
                    break
                if event and self._timer is not None:
                    self._start_timer()
                if _ENDPOINT.search(event) is not None:
                    if has_address:
                        logger.warning("An event that names a second address for messages was left out")
                        continue
                    has_address = True
                yield event
        self._stop_timer()

    def close(self) -> None:
        """Watch no longer."""
        self._ended = True
        self._stop_timer()


class _EndableEvents(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, monitor: DeliveryMonitor) -> None:
        self._inner = inner
        self._monitor = monitor

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._monitor.read_events(self._inner)

    async def aclose(self) -> None:
        self._monitor.close()
        await self._inner.aclose()


class _Acknowledgement(httpx2.AsyncByteStream):
    """The body of an answer of which the status says all."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with suppress(TimeoutError, httpx2.StreamError, httpx2.TransportError):
            async with asyncio.timeout(_REST_S):
                async for _ in self._inner:
                    pass
        for nothing in ():
            yield nothing

    async def aclose(self) -> None:
        await self._inner.aclose()
