"""The transport to a server behind a URL: streamable HTTP or SSE, with the configured headers and sign-in.

Nothing of the gateway's clients is sent. What the server sends is bounded in size and in values before it is parsed.
What is no message is left out: the SDK would take a second to find out, and log it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Literal, Unpack
from urllib.parse import unquote, urlsplit

import httpx2
from fastmcp.client.auth.bearer import BearerAuth
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from mcp import ClientSession, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR, METHOD_NOT_FOUND, RequestId

from codecall.gateway.upstream.addresses import PrivateAddressError
from codecall.gateway.upstream.bounds.http_client import HeadError, create_http_client
from codecall.gateway.upstream.errors import (
    NO_ENDPOINT_ADVICE,
    UNREACHABLE_ADVICE,
    Refusal,
    is_message_refused,
    status_advice,
)
from codecall.gateway.upstream.messages import MAX_MESSAGE_BYTES, is_lost
from codecall.gateway.upstream.oauth import create_oauth
from codecall.gateway.upstream.relay import CURRENT_CALL, InFlightCall
from codecall.gateway.upstream.remote.delivery import DeliveryMonitor
from codecall.gateway.upstream.remote.posts import PostMonitor
from codecall.gateway.upstream.responses import (
    BoundedBody,
    EventStream,
    checked_body,
    media_type,
    take_charset,
)
from codecall.gateway.upstream.session import RelayingSession

_CONNECT_S: Final = 30.0
"""Seconds a connection, or the sending of a request, may take."""

_NO_SESSION: Final = (401, 404, 410)
"""Statuses with which a server over SSE takes no message of anybody any more."""

_REFUSED_MESSAGE: Final = (INTERNAL_ERROR, "Server returned an error response")
"""Code and message of the error that the SDK raises for a response with an HTTP status that MCP does not use."""

_MAX_SSE_BYTES: Final = 1024 * 1024
"""Bytes of an event over SSE: the SDK leaves httpx2's limit, beyond which the stream ends, and so do all calls."""

_MAX_OTHER_BYTES: Final = 1024 * 1024
"""Bytes of an answer in which there is no result: of a sign-in, a redirect, an error."""

_NO_MCP: Final = f"answered its first request with error {METHOD_NOT_FOUND}"


class HttpTransport(ClientTransport):
    """Connects to a server over HTTP.

    Args:
        url: where the server is. A name and a password in it are sent as basic authentication.
        kind: streamable HTTP or SSE; None: SSE where the path ends in `/sse`.
        headers: of every request. Redirects never leave the server's origin, so the headers go nowhere else.
        auth: "oauth", a bearer token, or None.
        session: makes a session of two streams.
        auth_hosts: hosts of the sign-in that need not be public.
        keep_cookies: whether what the server sets is sent with later requests: not where callers share the transport.
        delivery_s: seconds that a server may take to acknowledge a message: any over SSE, one that is no request else.
    """

    def __init__(
        self,
        url: str,
        kind: Literal["http", "sse"] | None,
        headers: dict[str, str],
        auth: str | None,
        session: Callable[..., RelayingSession],
        *,
        auth_hosts: Sequence[str] = (),
        keep_cookies: bool = False,
        delivery_s: float = _CONNECT_S,
    ) -> None:
        self._url, basic = _split_credentials(url)
        self._sse = kind == "sse" or (kind is None and urlsplit(url).path.rstrip("/").endswith("/sse"))
        self._headers = headers
        self._auth = auth
        self._auth_hosts = auth_hosts
        self._keep_cookies = keep_cookies
        self._basic = basic
        self._session = session
        self._connected: RelayingSession | None = None
        self._status = 0
        self.session_forgotten = False
        self._refused_answer: str | None = None
        self._delivery_s = delivery_s
        self._undelivered: Refusal | None = None
        self.legacy_only = self._sse

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"  # the URL may hold a secret

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncGenerator[ClientSession]:
        """A session with the server."""
        _ = transport_options
        async with AsyncExitStack() as stack:
            if self._sse:
                streams = sse_client(
                    self._url,
                    self._headers,
                    timeout=_CONNECT_S,
                    # Seconds without a byte: as long as the connection is wanted. Calls have times of their own.
                    sse_read_timeout=None,  # pyright: ignore[reportArgumentType] - httpx2 takes None for ever
                    httpx_client_factory=self._monitored_client,
                    auth=self._auth_flow(),
                )
            else:
                timeout = httpx2.Timeout(_CONNECT_S, read=None)
                monitor = PostMonitor(self._delivery_s, self._note_refused, self._note_failed)
                client = await stack.enter_async_context(
                    monitor.watch(self._client(self._headers, timeout, self._auth_flow()))
                )
                streams = streamable_http_client(self._url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES)
            read, write = await stack.enter_async_context(streams)
            session = self._connected = self._session(read, write, **session_kwargs)
            yield await stack.enter_async_context(session)

    async def describe_end(self) -> str:
        """Say how the connection ended."""
        if self._undelivered is not None:
            return self._undelivered.reason
        return self._refused_answer or "closed the connection"

    def describe_loss(self, failure: MCPError, call: InFlightCall) -> str | None:
        """Say how the session, or the connection of the call alone, has ended, if `failure` means that."""
        if self.session_forgotten:
            return "has forgotten the session"
        return (call.undelivered or "closed the connection") if is_lost(failure.error) else None

    def describe_refusal(self, failure: BaseException) -> Refusal | None:
        """Say what kept a request from being answered, if `failure` is of the transport; None: it is not."""
        if isinstance(failure, MCPError) and (failure.error.code, failure.error.message) == _REFUSED_MESSAGE:
            return self._refused(self._status)
        if isinstance(failure, httpx2.HTTPStatusError):
            return self._refused(failure.response.status_code)
        reason = None
        if isinstance(failure, httpx2.TimeoutException):
            reason = "could not be reached in time"
        elif isinstance(failure, httpx2.ConnectError):
            reason = str(failure) if isinstance(failure, PrivateAddressError) else "could not be reached"
        elif isinstance(failure, HeadError):
            reason = str(failure)
        elif isinstance(failure, httpx2.HTTPError | httpx2.InvalidURL | httpx2.StreamError):
            reason = f"could not be reached ({type(failure).__name__})"
        return None if reason is None else Refusal(reason, UNREACHABLE_ADVICE)

    def describe_first_refusal(self, failure: BaseException) -> Refusal | None:
        """As `describe_refusal`, of the first request of a connection."""
        refusal = self.describe_refusal(failure) or self._undelivered
        if refusal is None and isinstance(failure, MCPError) and failure.error.code == METHOD_NOT_FOUND:
            # The SDK takes a path that there is not for a method that there is not.
            return self._refused(self._status) if self._status >= 400 else Refusal(_NO_MCP, NO_ENDPOINT_ADVICE)
        return refusal

    def _refused(self, status: int) -> Refusal:
        if status < 400:
            return Refusal("answered with an HTTP error", UNREACHABLE_ADVICE)
        return Refusal(f"answered HTTP {status}", status_advice(status, self._credentials()), status)

    def _credentials(self) -> str:
        """Which credentials are configured, by their places."""
        auth = {None: [], "oauth": ['auth = "oauth"']}.get(self._auth, ["the token in `auth`"])
        headers = [f"headers.{name}" for name in self._headers]
        return ", ".join([*auth, *(["the name and password in `url`"] if self._basic is not None else []), *headers])

    def _note_refused(self, status: int) -> None:
        if (call := CURRENT_CALL.get()) is not None:
            call.refusal = self._refused(status)

    def _note_failed(self, failure: Exception) -> bool:
        call = CURRENT_CALL.get()
        if call is None:
            return self._connected is not None and self._connected.router.has_others(None)
        told = isinstance(failure, httpx2.TimeoutException | httpx2.ConnectError | HeadError)
        if told and (refusal := self.describe_refusal(failure)) is not None:
            call.undelivered = refusal.reason
        return True

    def _note_refusal(self, reason: str) -> None:
        self._refused_answer = reason

    def _awaits(self, request_id: RequestId | None) -> bool:
        return self._connected is not None and self._connected.awaits(request_id)

    def _keep_result(self, request_id: RequestId, result: dict[str, Any]) -> bool:
        return self._connected is not None and self._connected.keep_result(request_id, result)

    def _auth_flow(self) -> httpx2.Auth | None:
        if self._auth == "oauth":
            return create_oauth(self._url, self._auth_hosts)
        return self._basic if self._auth is None else BearerAuth(self._auth)

    def _may_hold_messages(self, response: httpx2.Response) -> bool:
        """Whether the SDK looks for messages in it, and so reads a stream one event at a time. All others it reads as a
        whole, if at all: those of a sign-in, redirects, what answers a `DELETE`, and the `POST` to an SSE server."""
        request = response.request
        accepted = "text/event-stream" in request.headers.get("accept", "")
        return response.is_success and accepted and request.method in (("GET",) if self._sse else ("GET", "POST"))

    def _monitored_client(self, *arguments: Any, **options: Any) -> httpx2.AsyncClient:
        """A client whose stream of events ends when a message is not taken, if that does not concern one call alone."""

        def note_sending() -> None:
            if (call := CURRENT_CALL.get()) is not None:
                call.was_sent = True

        def note_refused(status: int, request_id: RequestId | None) -> bool:
            refusal, call, session = self._refused(status), CURRENT_CALL.get(), self._connected
            if session is not None and request_id is None and is_message_refused(status):
                if session.router.has_others(None):  # what it is about ends with the time of its call
                    return True
            elif call is not None and request_id is not None and session is not None:
                if is_message_refused(status):
                    call.was_sent = False
                    session.router.response_received(request_id)
                    call.refuse(refusal)
                    return True
                if status not in _NO_SESSION and session.router.has_others(call):
                    call.refuse(refusal)
                    return True
            self._undelivered = refusal
            return False

        def note_failed(failure: BaseException) -> None:
            late = f"did not take a message within {self._delivery_s:g} s"
            described = None if isinstance(failure, TimeoutError) else self.describe_refusal(failure)
            self._undelivered = described or Refusal(late, UNREACHABLE_ADVICE)

        monitor = DeliveryMonitor(self._delivery_s, note_sending, note_refused, note_failed)
        return monitor.watch(self._client(*arguments, **options))

    def _client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        async def record_response(response: httpx2.Response) -> None:
            self._status, self._refused_answer = response.status_code, None
            # That is how a server says that it does not know the session, whatever it writes into the answer. To a GET
            # it may also say that it has no stream.
            request = response.request
            forgotten = response.status_code == 404 and request.method == "POST" and "mcp-session-id" in request.headers
            self.session_forgotten |= forgotten

            # Whatever encoding the server names: what is checked here is UTF-8, as it has to be.
            take_charset(response)
            is_stream = media_type(response) == "text/event-stream"
            if not self._may_hold_messages(response):
                if is_stream:  # the SDK would look for events in some that are no success
                    del response.headers["content-type"]
                response.stream = BoundedBody(response, _MAX_OTHER_BYTES, checked_body)
            elif is_stream:
                limit = _MAX_SSE_BYTES if self._sse else MAX_MESSAGE_BYTES
                response.stream = EventStream(response, self._awaits, limit, self._keep_result)
            else:
                response.stream = BoundedBody(response, MAX_MESSAGE_BYTES, checked_body)

        return create_http_client(
            headers=headers,
            timeout=timeout,
            auth=auth,
            on_response=[record_response],
            on_refusal=self._note_refusal,
            keep_cookies=self._keep_cookies,
        )


def _split_credentials(url: str) -> tuple[str, httpx2.Auth | None]:
    """`url` without name and password, which would end up in logs of URLs, and these as authentication."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url, None
    name, _, address = parts.netloc.rpartition("@")
    user, _, password = name.partition(":")
    return parts._replace(netloc=address).geturl(), httpx2.BasicAuth(unquote(user), unquote(password))
