"""One upstream server: connected when it is needed, stopped when it is not, tried again when it has failed.

    idle ──a call──▶ starting ──▶ running ──unused for `idle_s`──▶ idle
                        │            │
                        ▼            ▼ ended by itself
                    backing off ◀────┘           a call then is refused at once, and says when the next try is
                        │ time is up
                        ▼
                      failed ──a call──▶ starting

The first try after a crash is made at once. From then on, and after a start that failed, it waits 1, 2, 4 … 60 seconds,
until a call has been answered. A call that was sent is never sent again: what it has done is not known.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal, Self

import mcp_types
from fastmcp import Context
from fastmcp.server.dependencies import get_access_token
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.gateway.config.options import AnyServer, StdioServer
from codecall.gateway.config.variables import resolve_server
from codecall.gateway.upstream.bounds.shares import CallerShares
from codecall.gateway.upstream.connection import Era, ResolveOptions, UpstreamConnection
from codecall.gateway.upstream.errors import (
    ConnectFailureError,
    ServerUnavailableError,
    backoff_error,
    gateway_closing_error,
    last_words,
    start_error,
    too_many_clients_error,
)
from codecall.gateway.upstream.listing import Listing, is_other_version, read_listing
from codecall.gateway.upstream.relay import InFlightCall
from codecall.identity import client_key
from codecall.options import SanitizationOptions
from codecall.redaction.clean import clean_text

State = Literal["idle", "starting", "running", "backing_off", "failed"]

MAX_CLIENTS: Final = 64
"""Connections to a server of which each client has one of its own."""

_MAX_BACKOFF_S: Final = 60.0
"""Seconds at most between two tries."""

_CHANGES_S: Final = 1.0
"""Least number of seconds between two times that callbacks are called with changes."""


@dataclass(frozen=True)
class Health:
    """The state of a server, for an operator."""

    state: State
    pid: int | None
    """Process id of its program, if it is one and runs; of the first, if each client has one."""
    connected_at: float | None
    """When it was connected, in seconds of the epoch; None: it is not."""
    restarts: int
    """How often it was connected again after it had failed."""
    connections: int
    """How many connections are ready."""
    calls: int
    """How many calls are under way."""
    last_error: str | None
    """Why it last failed; None: it has not."""
    stderr: tuple[str, ...]
    """The last lines it wrote to stderr, without paths and what looks like credentials. They are for an operator."""


@dataclass
class _Slot:
    """The connection of one client, or of all, and what is known of its failures."""

    connection: UpstreamConnection | None = None
    failures: int = 0
    not_before: float = 0.0
    """By the event loop's clock."""
    reason: str = ""
    advice: str = ""
    has_stderr: bool = False
    """Its program ran, and wrote something to stderr."""


class Backend:
    """One server behind the gateway. Use it as an async context manager: what runs ends with it.

    Args:
        name: its namespace.
        options: how it is reached.
        resolve: replaces references in them, each time a connection is made.
    """

    def __init__(self, name: str, options: AnyServer, resolve: ResolveOptions = resolve_server) -> None:
        self.name = name
        self.options = options
        self.server_info: mcp_types.Implementation | None = None
        """Name and version that it gave when it was last connected."""
        self._resolve: ResolveOptions = resolve
        self._logger = logging.getLogger(f"codecall.gateway.{name}")
        self._shares = CallerShares(bounded=not isinstance(options, StdioServer))
        self._slots: dict[tuple[str, Era], _Slot] = {}
        self._connections: set[UpstreamConnection] = set()
        self._modern: bool | None = None
        self._open = False
        self._restarts = 0
        self._last_error: str | None = None
        self._last_stderr: tuple[str, ...] = ()
        self._callbacks: list[Callable[[str], None]] = []
        self._pending_changes: dict[str, None] = {}
        self._change_timer: asyncio.TimerHandle | None = None
        self._notified_at = 0.0

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(self, *_failure: object) -> None:
        self._open = False
        if self._change_timer is not None:
            self._change_timer.cancel()
        # Those too that are ending already.
        await asyncio.gather(*(connection.close() for connection in self._connections))

    @asynccontextmanager
    async def use(self, context: Context | None = None) -> AsyncGenerator[InFlightCall]:
        """Enter one call on behalf of `context`, connecting first if need be; None: on behalf of the gateway itself.

        Raises:
            ServerUnavailableError: it does not start, is not tried yet, or ended with the call under way.
            ServerTimeoutError: it did not answer in time.
        """
        key = self._key(context)
        slot = self._slots.get(key)
        connection = slot.connection if slot is not None else None
        if connection is None or not connection.is_open or not connection.ready.done():
            connection = await self._ready_connection(key)
        connection.serves_clients = True
        async with connection.call(context) as call:
            yield call

    async def fetch_listing(self) -> Listing:
        """Ask the server for everything it lists now.

        Raises:
            ServerUnavailableError, ServerTimeoutError: it cannot be asked.
        """
        try:
            return await self._read_listing()
        except ServerUnavailableError:
            if not self._running_for_all():
                raise
            return await self._read_listing()  # a client's connection has replaced the one that was asked

    async def _read_listing(self) -> Listing:
        ready = next((one for one in self._running_for_all() if one.ready.done()), None)
        if (
            ready is not None
            and not ready.serves_clients
            and is_other_version(self.server_info, ready.session.server_info)
        ):
            await ready.close()  # a client's own connection has come upon a newer program
            ready = None
        connection = ready or await self._ready_connection(self._key(None), silent=True)
        async with connection.call(None, for_client=False) as call:
            return await read_listing(call.session, self.name)

    def _running(self) -> list[UpstreamConnection]:
        return [slot.connection for slot in self._slots.values() if slot.connection and slot.connection.is_open]

    def _running_for_all(self) -> list[UpstreamConnection]:
        """The connections that are no client's own. All clients see what is listed over them, and over no other."""
        return [one for key in self._slots if not key[0] and (one := self._connection_of(key))]

    def on_changed(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called, on the event loop: with "started" when it was connected for a call, and with "tools",
        "resources" or "prompts" when it says that they have changed, at most once a second each."""
        self._callbacks.append(callback)

    @property
    def health(self) -> Health:
        """The state of the server now."""
        slots, running = list(self._slots.values()), self._running()
        ready = [connection for connection in running if connection.ready.done()]
        stderr = next((lines for connection in running if (lines := connection.stderr_lines())), self._last_stderr)
        return Health(
            state=self._state(slots, bool(running), bool(ready)),
            pid=next((connection.pid for connection in running if connection.pid is not None), None),
            connected_at=min((connection.connected_at for connection in ready), default=None),
            restarts=self._restarts,
            connections=len(ready),
            calls=sum(connection.active_calls for connection in running),
            last_error=self._last_error,
            stderr=tuple(clean_text(line, SanitizationOptions()) for line in stderr),
        )

    def _state(self, slots: list[_Slot], running: bool, ready: bool) -> State:
        if running:
            return "running" if ready else "starting"
        if not any(slot.failures for slot in slots):
            return "idle"
        now = asyncio.get_running_loop().time()
        return "backing_off" if any(slot.not_before > now for slot in slots) else "failed"

    def _key(self, context: Context | None) -> tuple[str, Era]:
        request = context.request_context if context is not None else None
        legacy = request is not None and request.protocol_version not in MODERN_PROTOCOL_VERSIONS
        client = ""
        if self.options.per_client and context is not None:
            client = client_key(context)
            if legacy and get_access_token() is None:
                # Anonymous clients of one address have sessions of their own.
                client = f"{client} {context.session_id}"
        if isinstance(self.options, StdioServer):
            # A program has one process for clients of both eras, whose era is the first client's: what one changes,
            # all see.
            legacy = self.options.handshake or legacy
            other: tuple[str, Era] = (client, "auto" if legacy else "legacy")
            connection = self._connection_of(other)
            if connection is not None and (context is None or connection.serves_clients):
                return other
        # A server that knows only the handshake has one connection for clients of both eras.
        return client, "legacy" if legacy or self._modern is False else "auto"

    async def _ready_connection(self, key: tuple[str, Era], *, silent: bool = False) -> UpstreamConnection:
        """The connection of that client, made if there is none; callers that come meanwhile wait for the same one."""
        if not self._open:
            raise gateway_closing_error(self.name)
        if key[0] and key not in self._slots and self._has_max_clients():
            self._remove_failed_slots()
            if self._has_max_clients():
                raise too_many_clients_error(self.name, MAX_CLIENTS)
        slot = self._slots.setdefault(key, _Slot())
        connection = slot.connection
        if connection is None or not connection.is_open:
            if (wait_s := slot.not_before - asyncio.get_running_loop().time()) > 0:
                raise backoff_error(self.name, slot.reason, wait_s, advice=slot.advice, has_stderr=slot.has_stderr)
            self._restarts += 1 if slot.failures else 0
            connection = slot.connection = self._open_connection(key, slot, silent=silent)
        try:
            await asyncio.shield(connection.ready)
        except ConnectFailureError as failure:
            if self._modern is None and key[1] == "auto" and connection.ended_before_answer and self._open:
                # Some programs of the handshake era do not survive being asked anything before the handshake.
                self._modern, slot.failures, slot.not_before = False, 0, 0.0
                return await self._ready_connection((key[0], "legacy"), silent=silent)
            wait_s, has_stderr = slot.not_before - asyncio.get_running_loop().time(), bool(connection.stderr_lines())
            raise start_error(self.name, str(failure), wait_s, advice=failure.advice, has_stderr=has_stderr) from None
        return connection

    def _open_connection(self, key: tuple[str, Era], slot: _Slot, *, silent: bool) -> UpstreamConnection:
        def on_close(connection: UpstreamConnection, reason: str | None) -> None:
            self._last_stderr = connection.stderr_lines() or self._last_stderr
            if connection.has_answered or reason is None:
                slot.failures = 0
            if reason is None or not self._open:  # there is no next try where the gateway is ending
                self._remove_slot(slot)
                return
            started = connection.ready.done()
            slot.failures += 1
            slot.reason = reason if not started else f"it {reason}"
            slot.advice, slot.has_stderr = connection.advice, bool(connection.stderr_lines())
            exponent = slot.failures - 1 if started else slot.failures
            delay = min(_MAX_BACKOFF_S, 2.0 ** (exponent - 1)) if exponent else 0.0
            slot.not_before = asyncio.get_running_loop().time() + delay
            self._last_error = slot.reason
            wrote = last_words(self.health.stderr)
            self._logger.warning("server %r failed: %s; next try in %g s%s", self.name, slot.reason, delay, wrote)

        def on_ready(ready: asyncio.Future[None]) -> None:
            if not ready.cancelled() and ready.exception() is None:
                self._record_session(key, slot, connection)
                if not silent:
                    self._notify("started")

        connection = UpstreamConnection(
            self.name,
            self.options,
            self._resolve,
            key[1],
            replaces=self._take_unused(key) if isinstance(self.options, StdioServer) else None,
            serves_clients=not silent,
            logger=self._logger,
            on_change=lambda change: self._note_change(change, client=key[0]),
            on_close=on_close,
            shares=self._shares,
        )
        connection.ready.add_done_callback(on_ready)
        self._connections.add(connection)
        # It lasts for many requests, and keeps nothing of the first.
        connection.task.add_done_callback(
            lambda _task: self._connections.discard(connection), context=contextvars.Context()
        )
        return connection

    def _take_unused(self, key: tuple[str, Era]) -> UpstreamConnection | None:
        """The open connection of that client in the other era, which only the gateway has used: its program ends before
        another is started."""
        other: tuple[str, Era] = (key[0], "auto" if key[1] == "legacy" else "legacy")
        connection = self._connection_of(other)
        if connection is not None:
            del self._slots[other]
        return connection

    def _connection_of(self, key: tuple[str, Era]) -> UpstreamConnection | None:
        slot = self._slots.get(key)
        return slot.connection if slot is not None and slot.connection is not None and slot.connection.is_open else None

    def _record_session(self, key: tuple[str, Era], slot: _Slot, connection: UpstreamConnection) -> None:
        session = connection.session
        self.server_info = session.server_info
        self._modern = session.protocol_version in MODERN_PROTOCOL_VERSIONS if key[1] == "auto" else self._modern
        legacy: tuple[str, Era] = (key[0], "legacy")
        if self._modern is False and key[1] == "auto" and legacy not in self._slots:
            self._slots[legacy] = self._slots.pop(key, slot)

    def _has_max_clients(self) -> bool:
        return sum(bool(client) for client, _ in self._slots) >= MAX_CLIENTS

    def _remove_failed_slots(self) -> None:
        """Make room: forget clients whose connections failed and may be tried again."""
        now = asyncio.get_running_loop().time()
        for slot in list(self._slots.values()):
            if slot.not_before <= now and (slot.connection is None or not slot.connection.is_open):
                self._remove_slot(slot)

    def _remove_slot(self, slot: _Slot) -> None:
        for key, entry in list(self._slots.items()):
            if entry is slot:
                del self._slots[key]

    def _note_change(self, change: str, *, client: str) -> None:
        if client and self._running_for_all():
            return  # what all clients see is heard over these; the rest is that client's own
        self._pending_changes[change] = None
        if self._change_timer is None and self._open:
            loop = asyncio.get_running_loop()
            self._change_timer = loop.call_at(max(loop.time(), self._notified_at + _CHANGES_S), self._notify_changes)

    def _notify_changes(self) -> None:
        self._change_timer = None
        self._notified_at = asyncio.get_running_loop().time()
        changes, self._pending_changes = self._pending_changes, {}
        for change in changes:
            self._notify(change)

    def _notify(self, change: str) -> None:
        for callback in self._callbacks:
            callback(change)
