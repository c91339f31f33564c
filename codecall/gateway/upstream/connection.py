"""One connection to a server: made and ended by a task of its own, used by calls of many tasks at once."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import mcp_types
from fastmcp import Context
from fastmcp.server.providers.proxy import ProxyClient
from mcp import ClientSession, MCPError

from codecall.concurrency import abandon
from codecall.errors import CodeCallError
from codecall.gateway.config.options import AnyServer, HttpServer, OpenApiServer, StdioServer
from codecall.gateway.config.secrets import find_credentials
from codecall.gateway.upstream.bounds.shares import CallerShares
from codecall.gateway.upstream.errors import (
    OTHER_OUTPUT,
    OUTPUT_ADVICE,
    UNREACHABLE_ADVICE,
    ConnectFailureError,
    ServerError,
    call_timeout_error,
    causes_of,
    connection_ended_error,
    gateway_closing_error,
    is_modern,
    request_refused_error,
    unreadable_answer_error,
)
from codecall.gateway.upstream.http import HttpTransport
from codecall.gateway.upstream.listing import listen_for_changes
from codecall.gateway.upstream.messages import unreadable_reason
from codecall.gateway.upstream.process import ServerProcess
from codecall.gateway.upstream.relay import CURRENT_CALL, InFlightCall, MessageRouter
from codecall.gateway.upstream.session import RelayingSession
from codecall.gateway.upstream.stdio import ProcessTransport
from codecall.identity import share_key

if TYPE_CHECKING:
    from codecall.gateway.upstream.rest.openapi import OpenApiTransport

ResolveOptions: TypeAlias = Callable[..., AnyServer]
"""Replaces the references in options: `variables.resolve_server`. Called in a thread: `resolve(options, name=…)`."""

Transport: TypeAlias = "ProcessTransport | HttpTransport | OpenApiTransport"

Era = Literal["auto", "legacy"]
"""How a connection negotiates: the newest version that both sides have, or the handshake of older ones."""

_SIGN_IN_S: Final = 300.0
"""Least number of seconds for a start in which a person may have to sign in."""

_CLOSE_S: Final = 15.0
"""Seconds the end of a connection is waited for; its program has been killed well before."""


class UpstreamConnection:
    """A connection to one server, which begins to be made at once.

    Args:
        server: its name.
        options: how it is reached.
        resolve: replaces references in them.
        era: how to negotiate.
        logger: of the server.
        on_change: called with "tools", "resources" or "prompts" when the server says that they have changed.
        on_close: called once, when the connection can be used no more: with the connection, and the reason; None where
            it was meant to end.
        shares: what each caller has of the server.
        replaces: a connection that ends before this one is made.
        serves_clients: whether a client's call, and not the gateway, has it made.

    Attributes:
        is_open: whether it is being made or can be used.
        ready: done when it has been made, or cannot be; then with `ConnectFailureError`.
        has_answered: whether it has answered a call.
        active_calls: calls under way.
        ended_before_answer: whether its program ended before it had answered anything.
        advice: what to do where it could not be made; empty: try again.
        task: runs until everything that belongs to it has ended.
        connected_at: when it was made, in seconds of the epoch.
    """

    def __init__(
        self,
        server: str,
        options: AnyServer,
        resolve: ResolveOptions,
        era: Era,
        *,
        logger: logging.Logger,
        on_change: Callable[[str], None],
        on_close: Callable[[UpstreamConnection, str | None], None],
        shares: CallerShares,
        replaces: UpstreamConnection | None = None,
        serves_clients: bool = True,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.era: Era = era
        self.is_open = True
        self.serves_clients = serves_clients
        self.has_answered = False
        self.active_calls = 0
        self.ended_before_answer = False
        self.advice = ""
        self.connected_at = time.time()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.router = MessageRouter(server, logger, on_change, sampling=options.sampling)
        self._server = server
        self._options = options
        self._resolve = resolve
        self._logger = logger
        self._on_close = on_close
        self._shares = shares
        self._replaces = replaces
        may_sign_in = isinstance(options, HttpServer) and options.auth == "oauth"
        self._start_timeout_s = max(options.start_timeout_s, _SIGN_IN_S) if may_sign_in else options.start_timeout_s
        self._on_change = on_change
        self._transport: Transport | None = None
        self._client: ProxyClient[Transport] | None = None
        self._session: ClientSession | None = None
        self._last_used = loop.time()
        self._stopped = asyncio.Event()
        self._closing = asyncio.Event()
        self._end_reason: str | None = None
        self._close_reason: asyncio.Future[str | None] = loop.create_future()
        # Nothing of the request that happens to be the first is left in what serves all.
        self.task = asyncio.create_task(self._run(), context=contextvars.Context())

    @property
    def session(self) -> ClientSession:
        """The session with the server.

        Raises:
            RuntimeError: it is not ready.
        """
        if self._session is None:
            raise RuntimeError("the connection is not ready")
        return self._session

    @property
    def pid(self) -> int | None:
        """The process id of the program, for a server that is one and runs."""
        program = self._transport.process if isinstance(self._transport, ProcessTransport) else None
        return None if program is None or program.exit_code is not None else program.pid

    def stderr_lines(self) -> tuple[str, ...]:
        """The last lines the program wrote to stderr, as they are."""
        program = self._transport.process if isinstance(self._transport, ProcessTransport) else None
        return () if program is None else tuple(program.stderr_lines)

    @asynccontextmanager
    async def call(self, context: Context | None, *, for_client: bool = True) -> AsyncGenerator[InFlightCall]:
        """Enter one call over this connection, which must be ready.

        Args:
            context: of the client's request.
            for_client: whether it is a client's, which may be asked and notified meanwhile.

        Raises:
            ServerUnavailableError: the connection ended.
            ServerTimeoutError: it took too long; the server was told that it is cancelled.
        """
        timeout_s, sampling = self._options.call_timeout_s, self._options.sampling
        is_program = isinstance(self._options, StdioServer)
        call = InFlightCall(
            self.session, context, timeout_s, self._logger, self._server, sampling=sampling, is_program=is_program
        )
        call.caller = share_key(context) if context else None
        over_http = isinstance(self._transport, HttpTransport)
        self.active_calls += 1
        if for_client:
            self.router.calls[call] = None
        outer = CURRENT_CALL.get()
        CURRENT_CALL.set(call)
        try:
            with call.scope:
                async with self._shares.take(call.caller):
                    call.was_sent = not over_http  # there the transport tells when it is
                    yield call
                self.has_answered = True
                await call.drain()
        except MCPError as failure:
            if (error := await self._server_error(failure, call)) is not None:
                raise error from None
            self.has_answered = True
            raise
        finally:
            CURRENT_CALL.set(outer)
            # Over HTTP a call of 2026-07-28 ends with its response, on which everything comes that belongs to it.
            self.router.end_call(call, may_linger=not (over_http and is_modern(call.session)))
            call.close()
            self.active_calls -= 1
            self._last_used = asyncio.get_running_loop().time()
        if call.scope.cancelled_caught:
            if call.refusal is not None:
                raise request_refused_error(self._server, call.refusal, sent=call.was_sent)
            if not self.is_open:  # nor could it be told
                raise await self._ended_error(call)
            raise call_timeout_error(self._server, timeout_s, sent=call.was_sent)

    async def close(self) -> None:
        """End the connection, and wait until what belongs to it has ended."""
        self._closing.set()
        self.is_open = False
        self._stopped.set()
        await asyncio.wait({self.task}, timeout=_CLOSE_S)

    async def _ended_error(self, call: InFlightCall) -> ServerError:
        reason = await asyncio.shield(self._close_reason)
        if reason is None:
            return gateway_closing_error(self._server)
        return connection_ended_error(self._server, reason, sent=call.was_sent)

    async def _server_error(self, failure: MCPError, call: InFlightCall) -> ServerError | None:
        """The error for the caller when `failure` is not the server's answer: the connection has ended, or the answer
        to a client's call was not read. What is wrong with a listing is told where it is used."""
        if not self.is_open and failure.error.code == mcp_types.CONNECTION_CLOSED:
            return await self._ended_error(call)
        if isinstance(self._transport, HttpTransport):
            if (reason := self._transport.describe_loss(failure, call)) is not None:
                if self._transport.session_forgotten or not self.router.has_others(call):
                    self._handle_end(reason)
                return connection_ended_error(self._server, reason, sent=call.was_sent)
            if (refusal := self._transport.describe_refusal(failure)) is not None:
                refusal = call.refusal or refusal
                sent = call.was_sent and refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR
                return request_refused_error(self._server, refusal, sent=sent)
        if call in self.router.calls and (reason := unreadable_reason(failure.error)) is not None:
            self.has_answered = True
            return unreadable_answer_error(self._server, reason)
        return None

    async def _run(self) -> None:
        reason: str | None = None
        try:
            try:
                await self._connect()
            except Exception as failure:
                reason = await self._describe_failure(failure)
            else:
                self.connected_at = time.time()
                self._last_used = asyncio.get_running_loop().time()
                self.ready.set_result(None)
                listener = asyncio.create_task(listen_for_changes(self.session, self._on_change, self._logger))
                try:
                    reason = await self._wait_for_end()
                finally:
                    abandon(listener)
        finally:
            self.is_open = False
            self._on_close(self, reason)
            if not self.ready.done():
                self.ready.set_exception(ConnectFailureError(reason or "the gateway is ending", self.advice))
                self.ready.exception()  # the task that waited may have ended
            self._close_reason.set_result(reason)
            await self._disconnect()

    async def _connect(self) -> None:
        """Make the connection; raises whatever keeps it from being made."""
        session = partial(RelayingSession, router=self.router, on_close=self._handle_end)
        if self._replaces is not None:
            await self._replaces.close()
            self._replaces = None
        options = await asyncio.to_thread(self._resolve, self._options, name=self._server)
        self._transport = create_transport(self._server, options, session, self._logger)
        self._client = ProxyClient(self._transport, name=self._server, mode=self.era, init_timeout=0)
        opening = asyncio.create_task(self._client.__aenter__())
        closing = asyncio.create_task(self._closing.wait())
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await asyncio.wait({opening, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            if not opening.done():
                opening.cancel()
                await asyncio.wait({opening})
        if opening.cancelled():
            raise ConnectFailureError("the gateway is ending")
        opening.result()
        self._session = self._client.session

    async def _wait_for_end(self) -> str | None:
        """Wait for the end of the connection; the reason, or None when it was closed or has not been used for long."""
        idle_s, loop = self._options.idle_s, asyncio.get_running_loop()
        while not self._stopped.is_set():
            left = idle_s if self.active_calls else self._last_used + idle_s - loop.time()
            if idle_s and left <= 0:
                self._logger.debug("stopped: not used for %g s", idle_s)
                return None
            try:
                async with asyncio.timeout(left if idle_s else None):
                    await self._stopped.wait()
            except TimeoutError:
                continue
        if self._end_reason is not None or self._closing.is_set() or self._transport is None:
            return self._end_reason
        return await self._transport.describe_end()

    async def _disconnect(self) -> None:
        if self._client is not None:
            try:
                await self._client.close()
            except Exception as failure:
                self._logger.debug("its connection ended with %s", type(failure).__name__)
        if isinstance(self._transport, ProcessTransport) and self._transport.process is not None:
            await self._transport.process.stop()

    def _handle_end(self, reason: str | None = None) -> None:
        """Take note that no more messages come."""
        self._end_reason = self._end_reason or reason
        self.is_open = False
        self._stopped.set()

    async def _describe_failure(self, failure: Exception) -> str:
        """Say why the connection could not be made, in words of our own."""
        unreachable = UNREACHABLE_ADVICE if isinstance(self._transport, HttpTransport) else ""
        wrote_other = isinstance(self._transport, ProcessTransport) and self._transport.wrote_other
        if isinstance(failure, TimeoutError):
            self.advice = OUTPUT_ADVICE if wrote_other else unreachable
            return f"it did not answer its first request within {self._start_timeout_s:g} s{OTHER_OUTPUT * wrote_other}"
        for cause in causes_of(failure):
            if isinstance(cause, ConnectFailureError | CodeCallError):
                known = isinstance(cause, CodeCallError)
                self.advice = cause.hint or "" if known else cause.advice
                return cause.message if known else str(cause)
            if (
                isinstance(self._transport, HttpTransport)
                and (refusal := self._transport.describe_first_refusal(cause)) is not None
            ):
                self.advice = refusal.advice
                return f"it {refusal.reason}"
            if isinstance(cause, MCPError):
                return await self._describe_first_error(cause)
        self.advice = unreachable
        return f"it could not be reached ({type(failure).__name__})"

    async def _describe_first_error(self, failure: MCPError) -> str:
        """Say why there was an error in place of the answer to the first request."""
        if self.router.initialize_excess is not None:
            return f"its first answer has more than {self.router.initialize_excess}"
        if (reason := unreadable_reason(failure.error)) is not None:
            return f"its first answer cannot be read: {reason}"
        if failure.error.code != mcp_types.CONNECTION_CLOSED or self._transport is None:
            return f"it answered its first request with error {failure.error.code}"
        self.ended_before_answer = isinstance(self._transport, ProcessTransport)
        wrote_other = isinstance(self._transport, ProcessTransport) and self._transport.wrote_other
        self.advice = OUTPUT_ADVICE if wrote_other else ""
        end = await self._transport.describe_end()
        return f"it {end} before it answered its first request{OTHER_OUTPUT * wrote_other}"


def create_transport(
    name: str, options: AnyServer, session: Callable[..., RelayingSession], logger: logging.Logger
) -> Transport:
    """Create the transport for the options of a server, not connected yet: pipes, HTTP, or a REST API in memory.

    Args:
        name: of the server.
        options: with their references replaced.
        session: makes a session of two streams.
        logger: of the server.
    """
    if isinstance(options, StdioServer):
        program, secrets = options, find_credentials(options)

        def start() -> Awaitable[ServerProcess]:
            return ServerProcess.start(program.command, program.args, program.env, program.cwd, logger, secrets=secrets)

        return ProcessTransport(start, session, logger)
    key, url = ("base_url", options.base_url) if isinstance(options, OpenApiServer) else ("url", options.url)
    if url is not None and not url.lower().startswith(("http://", "https://")):
        raise ConnectFailureError(
            f"its {key} is no address of HTTP", f"Write `{key}` with https:// or http:// before it."
        )
    if isinstance(options, OpenApiServer):
        from codecall.gateway.upstream.rest.openapi import OpenApiTransport

        return OpenApiTransport(name, options, session)
    return HttpTransport(
        options.url,
        options.transport,
        dict(options.headers),
        options.auth,
        session,
        auth_hosts=options.auth_hosts,
        keep_cookies=options.per_client,
        delivery_s=options.call_timeout_s,
    )
