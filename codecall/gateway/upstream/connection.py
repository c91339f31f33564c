"""One connection to a server: made and ended by a task of its own, used by calls of many tasks at once."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from mcp import ClientSession

from codecall.gateway.config.options import AnyServer, OpenApiServer, StdioServer
from codecall.gateway.config.secrets import find_credentials
from codecall.gateway.upstream.http import HttpTransport
from codecall.gateway.upstream.process import ServerProcess
from codecall.gateway.upstream.stdio import ProcessTransport

if TYPE_CHECKING:
    from codecall.gateway.upstream.openapi import OpenApiTransport
import asyncio
import contextvars
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Literal, cast

import anyio
import mcp_types
from fastmcp import Context
from fastmcp.server.providers.proxy import ProxyClient
from mcp import MCPError
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    SubscriptionLost,
    ToolsListChanged,
    listen,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.concurrency import abandon
from codecall.errors import CodeCallError
from codecall.gateway.config.options import HttpServer
from codecall.gateway.upstream.errors import (
    UNREACHABLE_ADVICE,
    ConnectFailure,
    ServerError,
    call_timeout_error,
    connection_ended_error,
    gateway_closing_error,
    is_modern,
    request_refused_error,
)
from codecall.gateway.upstream.relay import CURRENT_CALL, InFlightCall, MessageRouter
from codecall.gateway.upstream.session import RelayingSession

# ----------------------------------------------------------------------------------------------------
# From the options of a server to a transport that reaches it: a program's pipes, HTTP, or a REST API in memory.

ResolveOptions: TypeAlias = Callable[..., AnyServer]
"""Gives options with their references replaced: `references.resolved`. In a thread: `resolve(options, name=…)`."""

Transport: TypeAlias = "ProcessTransport | HttpTransport | OpenApiTransport"


def create_transport(
    name: str, options: AnyServer, session: Callable[..., ClientSession], logger: logging.Logger
) -> Transport:
    """A transport to the server, not connected yet.

    Args:
        name: of the server.
        options: with their references replaced.
        session: makes a session of two streams.
        logger: of the server.
    """
    if isinstance(options, StdioServer):
        program, hidden = options, find_credentials(options)

        def start() -> Awaitable[ServerProcess]:
            return ServerProcess.start(program.command, program.args, program.env, program.cwd, logger, secrets=hidden)

        return ProcessTransport(start, session, logger)
    if isinstance(options, OpenApiServer):
        from codecall.gateway.upstream.openapi import OpenApiTransport

        return OpenApiTransport(name, options, session)
    return HttpTransport(options.url, options.transport, dict(options.headers), options.auth, session)


# ----------------------------------------------------------------------------------------------------
# Hearing of changes from a server of 2026-07-28, which tells only those who have asked it to.

_LONGEST_S: Final = 60.0
"""Seconds at most before a stream that was lost is opened again."""

_WHAT: Final[dict[type, str]] = {
    ToolsListChanged: "tools",
    ResourcesListChanged: "resources",
    PromptsListChanged: "prompts",
}


async def listen_for_changes(session: ClientSession, on_change: Callable[[str], None], logger: logging.Logger) -> None:
    """Tell `changed` what the server says has changed: "tools", "resources", "prompts". Ends when the server does not
    tell such things, or has told all it will; servers of older versions tell unasked."""
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS or not any(told := _told(session)):
        return
    wait_s = 1.0
    while True:
        try:
            async with listen(
                session, tools_list_changed=told[0], resources_list_changed=told[1], prompts_list_changed=told[2]
            ) as events:
                wait_s = 1.0
                async for event in events:
                    if (what := _WHAT.get(type(event))) is not None:
                        on_change(what)
                return
        except MCPError as failure:
            if failure.error.code in (mcp_types.METHOD_NOT_FOUND, mcp_types.INVALID_PARAMS):
                return
            logger.debug("does not tell of changes (error %d)", failure.error.code)
        except SubscriptionLost:
            # What happened meanwhile is not told again.
            for what in _WHAT.values():
                on_change(what)
        await anyio.sleep(wait_s)
        wait_s = min(_LONGEST_S, wait_s * 2)


def _told(session: ClientSession) -> tuple[bool, bool, bool]:
    """Whether the server says that it tells of changes of tools, resources and prompts."""
    able = session.server_capabilities or mcp_types.ServerCapabilities()
    return (
        able.tools is not None and bool(able.tools.list_changed),
        able.resources is not None and bool(able.resources.list_changed),
        able.prompts is not None and bool(able.prompts.list_changed),
    )


# ----------------------------------------------------------------------------------------------------
# One connection to a server: made and ended by a task of its own, used by calls of many tasks at once.

Era = Literal["auto", "legacy"]
"""How a connection negotiates: the newest version that both sides have, or the handshake of older ones."""

_SIGN_IN_S: Final = 300.0
"""Seconds at least that a start may take in which a person may have to sign in."""

_CLOSE_S: Final = 15.0
"""Seconds the end of a connection is waited for; its program has been killed well before."""


class UpstreamConnection:
    """A connection to one server. It begins to be made at once.

    Args:
        server: its name.
        options: of it.
        resolve: replaces references.
        era: how to negotiate.
        logger: of the server.
        changed: told what the server says has changed.
        over: called once, when the connection can be used no more: with itself, and why unless it was meant to end.

    Attributes:
        open: it is being made, or can be used.
        ready: done when it has been made, or cannot be; then with `ConnectFailure`.
        worked: it has answered a call.
        busy: calls under way.
        ended_early: its program ended before it had answered anything.
        advice: what to do about why it could not be made; empty: try again.
        task: runs until everything that belongs to it has ended.
        since: when it was made, in seconds of the epoch.
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
    ) -> None:
        loop = asyncio.get_running_loop()
        self.era: Era = era
        self.is_open = True
        self.has_answered = False
        self.active_calls = 0
        self.ended_before_answer = False
        self.advice = ""
        self.connected_at = time.time()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.router = MessageRouter(server, logger, on_change)
        self._server = server
        self._options = options
        self._resolve = resolve
        self._logger = logger
        self._over = on_close
        signs_in = isinstance(options, HttpServer) and options.auth == "oauth"
        self._start_timeout_s = max(options.start_timeout_s, _SIGN_IN_S) if signs_in else options.start_timeout_s
        self._changed = on_change
        self._transport: Transport | None = None
        self._client: ProxyClient[Transport] | None = None
        self._session: ClientSession | None = None
        self._used = loop.time()
        self._stop = asyncio.Event()
        self._closing = asyncio.Event()
        self._told: str | None = None
        self._why: asyncio.Future[str | None] = loop.create_future()
        # Nothing of the request that happens to be the first is left in what serves all.
        self.task = asyncio.create_task(self._run(), context=contextvars.Context())

    @property
    def session(self) -> ClientSession:
        """The session.

        Raises:
            RuntimeError: it is not ready.
        """
        if self._session is None:
            raise RuntimeError("the connection is not ready")
        return self._session

    @property
    def pid(self) -> int | None:
        """Of the program, for a server that is one and runs."""
        program = self._transport.process if isinstance(self._transport, ProcessTransport) else None
        return None if program is None or program.exit_code is not None else program.pid

    def stderr_lines(self) -> tuple[str, ...]:
        """The last lines the program wrote to stderr, as they are."""
        program = self._transport.process if isinstance(self._transport, ProcessTransport) else None
        return () if program is None else tuple(program.stderr_lines)

    @asynccontextmanager
    async def call(self, context: Context | None, *, for_client: bool = True) -> AsyncGenerator[InFlightCall]:
        """One call over this connection, which is ready.

        Args:
            context: of the client's request.
            for_client: it is a client's, who may be asked and told things meanwhile.

        Raises:
            ServerUnavailableError: the connection ended.
            ServerTimeoutError: it took too long; the server was told that it is cancelled.
        """
        timeout_s = self._options.call_timeout_s
        call = InFlightCall(self.session, context, timeout_s, self._logger)
        self.active_calls += 1
        if for_client:
            self.router.calls[call] = None
        outer = CURRENT_CALL.get()
        CURRENT_CALL.set(call)
        try:
            with call.scope:
                yield call
                self.has_answered = True
                await call.drain()
        except MCPError as failure:
            if (error := await self._error_of(failure)) is not None:
                raise error from None
            self.has_answered = True
            raise
        finally:
            CURRENT_CALL.set(outer)
            # Over HTTP a call of 2026-07-28 ends with its response, on which everything comes that belongs to it.
            self.router.end_call(
                call, may_linger=not (isinstance(self._transport, HttpTransport) and is_modern(call.session))
            )
            call.close()
            self.active_calls -= 1
            self._used = asyncio.get_running_loop().time()
        if call.scope.cancelled_caught:
            raise call_timeout_error(self._server, timeout_s)

    async def close(self) -> None:
        """End it, and wait until what belongs to it has ended."""
        self._closing.set()
        self.is_open = False
        self._stop.set()
        await asyncio.wait({self.task}, timeout=_CLOSE_S)

    async def _error_of(self, failure: MCPError) -> ServerError | None:
        """What `failure` is when it is no answer of the server but the end of the connection."""
        if not self.is_open and failure.error.code == mcp_types.CONNECTION_CLOSED:
            why = await asyncio.shield(self._why)
            return gateway_closing_error(self._server) if why is None else connection_ended_error(self._server, why)
        if isinstance(self._transport, HttpTransport):
            if (why := self._transport.describe_loss(failure)) is not None:
                self._told = why
                self._lost()
                return connection_ended_error(self._server, why)
            if (why := self._transport.describe_refusal(failure)) is not None:
                return request_refused_error(self._server, why)
        return None

    async def _run(self) -> None:
        why: str | None = None
        try:
            try:
                await self._connect()
            except Exception as failure:
                why = await self._reason(failure)
            else:
                self.connected_at = time.time()
                self._used = asyncio.get_running_loop().time()
                self.ready.set_result(None)
                hearing = asyncio.create_task(listen_for_changes(self.session, self._changed, self._logger))
                try:
                    why = await self._until_over()
                finally:
                    abandon(hearing)
        finally:
            self.is_open = False
            self._over(self, why)
            if not self.ready.done():
                self.ready.set_exception(ConnectFailure(why or "the gateway is ending", self.advice))
                self.ready.exception()  # whoever waited may have left
            self._why.set_result(why)
            await self._disconnect()

    async def _connect(self) -> None:
        """Raises whatever keeps it from being made."""
        session = partial(RelayingSession, router=self.router, on_close=self._lost)
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
            raise ConnectFailure("the gateway is ending")
        opening.result()
        self._session = self._client.session

    async def _until_over(self) -> str | None:
        """Why the connection is over; None when it was closed, or nobody has used it for long."""
        idle_s, loop = self._options.idle_s, asyncio.get_running_loop()
        while not self._stop.is_set():
            left = idle_s if self.active_calls else self._used + idle_s - loop.time()
            if idle_s and left <= 0:
                self._logger.debug("stopped: not used for %g s", idle_s)
                return None
            try:
                async with asyncio.timeout(left if idle_s else None):
                    await self._stop.wait()
            except TimeoutError:
                continue
        if self._told is not None or self._closing.is_set() or self._transport is None:
            return self._told
        return await self._transport.describe_end()

    async def _disconnect(self) -> None:
        if self._client is not None:
            try:
                await self._client.close()
            except Exception as failure:
                self._logger.debug("its connection ended with %s", type(failure).__name__)
        if isinstance(self._transport, ProcessTransport) and self._transport.process is not None:
            await self._transport.process.stop()

    def _lost(self) -> None:
        """No more messages come."""
        self.is_open = False
        self._stop.set()

    async def _reason(self, failure: Exception) -> str:
        """Why it could not be made, in words of our own."""
        if isinstance(failure, TimeoutError):
            self.advice = UNREACHABLE_ADVICE if isinstance(self._transport, HttpTransport) else ""
            return f"it did not answer its first request within {self._start_timeout_s:g} s"
        for step in _steps(failure):
            if isinstance(step, ConnectFailure | CodeCallError):
                self.advice = step.advice if isinstance(step, ConnectFailure) else step.hint or ""
                return str(step)
            if (
                isinstance(self._transport, HttpTransport)
                and (why := self._transport.describe_refusal(step)) is not None
            ):
                self.advice = UNREACHABLE_ADVICE
                return f"it {why}"
            if isinstance(step, MCPError):
                if step.error.code != mcp_types.CONNECTION_CLOSED or self._transport is None:
                    return f"it answered its first request with error {step.error.code}"
                self.ended_before_answer = isinstance(self._transport, ProcessTransport)
                return f"it {await self._transport.describe_end()} before it answered its first request"
        return f"it could not be reached ({type(failure).__name__})"


def _steps(failure: BaseException) -> Iterator[BaseException]:
    """`failure`, what is in it and what it was raised from."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [failure]
    while waiting:
        step = waiting.pop()
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        yield step
        waiting += [step.__context__, step.__cause__]
        if isinstance(step, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", step).exceptions
