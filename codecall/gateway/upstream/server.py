"""A server behind the gateway: connected when it is needed, stopped when it is not, tried again when it has failed.

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
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal, Self

import mcp_types
from fastmcp import Context
from fastmcp.server.dependencies import get_access_token
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codecall.gateway.config.options import AnyServer
from codecall.gateway.config.variables import resolve_server
from codecall.gateway.upstream.connection import Era, ResolveOptions, UpstreamConnection
from codecall.gateway.upstream.errors import (
    ConnectFailure,
    backoff_error,
    gateway_closing_error,
    start_error,
    too_many_clients_error,
)
from codecall.gateway.upstream.listing import Listing, read_listing
from codecall.gateway.upstream.relay import InFlightCall
from codecall.identity import client_key
from codecall.options import SanitizationOptions
from codecall.redaction.clean import clean_text

State = Literal["idle", "starting", "running", "backing_off", "failed"]

MAX_CLIENTS: Final = 64
"""Connections to a server of which each client has one of its own."""

_LONGEST_S: Final = 60.0
"""Seconds at most between two tries."""

_CHANGES_S: Final = 1.0
"""Seconds at least between two times that listeners are told of changes."""


@dataclass(frozen=True)
class Health:
    """How a server is."""

    state: State
    pid: int | None
    """Of its program, if it is one and runs; of the first, if each client has one."""
    connected_at: float | None
    """When it was connected, in seconds of the epoch; None: it is not."""
    restarts: int
    """How often it was connected again after it had failed."""
    connections: int
    """How many there are."""
    calls: int
    """How many calls are under way."""
    last_error: str | None
    """Why it last failed; None: it has not."""
    stderr: tuple[str, ...]
    """The last lines it wrote to stderr, without paths and what looks like credentials. They are for an operator."""


@dataclass
class _Slot:
    """Where the connection of one client, or of all, goes."""

    connection: UpstreamConnection | None = None
    failures: int = 0
    not_before: float = 0.0
    """Of the event loop's clock."""
    why: str = ""
    advice: str = ""
    wrote: bool = False
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
        """What it called itself when it was last connected."""
        self._resolve: ResolveOptions = resolve
        self._logger = logging.getLogger(f"codecall.gateway.{name}")
        self._slots: dict[tuple[str, Era], _Slot] = {}
        self._alive: set[UpstreamConnection] = set()
        self._modern: bool | None = None
        self._open = False
        self._restarts = 0
        self._last_error: str | None = None
        self._last_said: tuple[str, ...] = ()
        self._callbacks: list[Callable[[str], None]] = []
        self._changes: dict[str, None] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._told = 0.0

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(self, *_failure: object) -> None:
        self._open = False
        if self._telling is not None:
            self._telling.cancel()
        # Those too that are ending already.
        await asyncio.gather(*(connection.close() for connection in self._alive))

    @asynccontextmanager
    async def use(self, context: Context | None = None) -> AsyncGenerator[InFlightCall]:
        """A connection for one call on behalf of `context`; it is made if there is none. None: on nobody's.

        Raises:
            ServerUnavailableError: it does not start, is not tried yet, or ended with the call under way.
            ServerTimeoutError: it did not answer in time.
        """
        key = self._key(context)
        slot = self._slots.get(key)
        connection = slot.connection if slot is not None else None
        if connection is None or not connection.is_open or not connection.ready.done():
            connection = await self._connected(key)
        async with connection.call(context) as call:
            yield call

    async def fetch_listing(self) -> Listing:
        """Everything it lists, read anew.

        Raises:
            ServerUnavailableError, ServerTimeoutError: it cannot be asked.
        """
        running = [slot.connection for slot in self._slots.values() if slot.connection and slot.connection.is_open]
        ready = next((one for one in running if one.ready.done()), None)
        connection = ready or await self._connected(self._key(None), quietly=True)
        async with connection.call(None, for_client=False) as call:
            return await read_listing(call.session, self.name)

    def on_changed(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called, on the event loop: with "started" when it was connected for a call, and with "tools",
        "resources" or "prompts" when it says that they have changed, at most once a second each."""
        self._callbacks.append(callback)

    @property
    def health(self) -> Health:
        """How it is now."""
        slots = list(self._slots.values())
        running = [slot.connection for slot in slots if slot.connection is not None and slot.connection.is_open]
        ready = [connection for connection in running if connection.ready.done()]
        said = next((lines for connection in running if (lines := connection.stderr_lines())), self._last_said)
        return Health(
            state=self._state(slots, bool(running), bool(ready)),
            pid=next((connection.pid for connection in running if connection.pid is not None), None),
            connected_at=min((connection.connected_at for connection in ready), default=None),
            restarts=self._restarts,
            connections=len(ready),
            calls=sum(connection.active_calls for connection in running),
            last_error=self._last_error,
            stderr=tuple(clean_text(line, SanitizationOptions()) for line in said),
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
        # A server that knows only the handshake has one connection for clients of both eras.
        era: Era = "legacy" if legacy or self._modern is False else "auto"
        if not self.options.per_client or context is None:
            return "", era
        client = client_key(context)
        if legacy and get_access_token() is None:
            # Anonymous clients of one address have sessions of their own.
            client = f"{client} {context.session_id}"
        return client, era

    async def _connected(self, key: tuple[str, Era], *, quietly: bool = False) -> UpstreamConnection:
        """The connection of that client, made if there is none; all who ask meanwhile wait for the same."""
        if not self._open:
            raise gateway_closing_error(self.name)
        if key not in self._slots and len(self._slots) >= MAX_CLIENTS:
            self._forget_failures()
            if len(self._slots) >= MAX_CLIENTS:
                raise too_many_clients_error(self.name, MAX_CLIENTS)
        slot = self._slots.setdefault(key, _Slot())
        connection = slot.connection
        if connection is None or not connection.is_open:
            if (left := slot.not_before - asyncio.get_running_loop().time()) > 0:
                raise backoff_error(self.name, slot.why, left, advice=slot.advice, has_stderr=slot.wrote)
            self._restarts += 1 if slot.failures else 0
            connection = slot.connection = self._connection(key, slot, quietly=quietly)
        try:
            await asyncio.shield(connection.ready)
        except ConnectFailure as why:
            if self._modern is None and key[1] == "auto" and connection.ended_before_answer and self._open:
                # Some programs of the handshake era do not survive being asked anything before the handshake.
                self._modern, slot.failures, slot.not_before = False, 0, 0.0
                return await self._connected((key[0], "legacy"), quietly=quietly)
            left, wrote = slot.not_before - asyncio.get_running_loop().time(), bool(connection.stderr_lines())
            raise start_error(self.name, str(why), left, advice=why.advice, has_stderr=wrote) from None
        return connection

    def _connection(self, key: tuple[str, Era], slot: _Slot, *, quietly: bool) -> UpstreamConnection:
        def over(connection: UpstreamConnection, why: str | None) -> None:
            self._last_said = connection.stderr_lines() or self._last_said
            if connection.has_answered or why is None:
                slot.failures = 0
            if why is None or not self._open:  # nobody is to try again where the gateway is ending
                self._forget(slot)
                return
            started = connection.ready.done()
            slot.failures += 1
            slot.why = why if not started else f"it {why}"
            slot.advice, slot.wrote = connection.advice, bool(connection.stderr_lines())
            waits = slot.failures - 1 if started else slot.failures
            delay = min(_LONGEST_S, 2.0 ** (waits - 1)) if waits else 0.0
            slot.not_before = asyncio.get_running_loop().time() + delay
            self._last_error = slot.why
            self._logger.warning("server %r failed: %s; next try in %g s", self.name, slot.why, delay)

        def made(ready: asyncio.Future[None]) -> None:
            if not ready.cancelled() and ready.exception() is None:
                self._connected_to(key, slot, connection)
                if not quietly:
                    self._tell("started")

        connection = UpstreamConnection(
            self.name,
            self.options,
            self._resolve,
            key[1],
            logger=self._logger,
            on_change=self._changed,
            on_close=over,
        )
        connection.ready.add_done_callback(made)
        self._alive.add(connection)
        connection.task.add_done_callback(lambda _task: self._alive.discard(connection))
        return connection

    def _connected_to(self, key: tuple[str, Era], slot: _Slot, connection: UpstreamConnection) -> None:
        session = connection.session
        self.server_info = session.server_info
        self._modern = session.protocol_version in MODERN_PROTOCOL_VERSIONS if key[1] == "auto" else self._modern
        legacy: tuple[str, Era] = (key[0], "legacy")
        if self._modern is False and key[1] == "auto" and legacy not in self._slots:
            self._slots[legacy] = self._slots.pop(key, slot)

    def _forget_failures(self) -> None:
        """Make room: clients whose connections failed, and may be tried again, leave nothing behind."""
        now = asyncio.get_running_loop().time()
        for slot in list(self._slots.values()):
            if slot.not_before <= now and (slot.connection is None or not slot.connection.is_open):
                self._forget(slot)

    def _forget(self, slot: _Slot) -> None:
        for key, known in list(self._slots.items()):
            if known is slot:
                del self._slots[key]

    def _changed(self, what: str) -> None:
        self._changes[what] = None
        if self._telling is None and self._open:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_at(max(loop.time(), self._told + _CHANGES_S), self._tell_changes)

    def _tell_changes(self) -> None:
        self._telling = None
        self._told = asyncio.get_running_loop().time()
        changes, self._changes = self._changes, {}
        for what in changes:
            self._tell(what)

    def _tell(self, what: str) -> None:
        for callback in self._callbacks:
            callback(what)
