"""What CodeCall opens and closes with a server's lifespan: enclaves of worker processes, and writers that are flushed.

FastMCP keeps what belongs to a whole run of a server in its `SharedContext`, which it opens and closes with the
server's lifespan and gives to every request; an enclave lives there, once for each plugin and lifespan. Where there
is no lifespan (`await mcp.call_tool(…)` on a bare server) calls that overlap share one enclave, and the last closes it.

When options are reloaded, a lifespan has two enclaves for a while: running scripts keep theirs, which closes with the
last of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

import anyio
from fastmcp.dependencies import Shared
from fastmcp.server.context import Context
from uncalled_for import SharedContext

from codecall.errors import WorkerError, WorkerPoolDisposedError
from codecall.sandbox.enclave import Abortable, Enclave, InFlightRuns
from codecall.server.shutdown import SHUTDOWN_SIGNALS, DrainCallback
from codecall.telemetry.metrics import ObservedPool

logger = logging.getLogger("codecall")

T = TypeVar("T")


class EnclaveLifespan:
    """Opens and closes the enclaves of one plugin, on any number of servers and event loops.

    Args:
        on_sigterm: What a SIGTERM does first while a lifespan is open; None: nothing.
    """

    def __init__(self, on_sigterm: DrainCallback | None = None) -> None:
        self._on_sigterm = on_sigterm
        self._resource = self._open_scope  # one object: it is the key under which SharedContext keeps the scope
        self._lifespans: list[_Scope] = []
        self._call_scopes: dict[asyncio.AbstractEventLoop, _Scope] = {}
        self._draining = False

    def pids(self) -> list[int]:
        """Process ids of the running workers of every open enclave."""
        return [pid for enclave in self._enclaves() for pid in enclave.pool.pids()]

    def pools(self) -> list[ObservedPool]:
        """The pools of every open enclave."""
        return [enclave.pool for enclave in self._enclaves()]

    @property
    def running_scripts(self) -> int:
        """The number of scripts that run or wait."""
        scopes = (*self._lifespans, *self._call_scopes.values())
        return sum(len(enclave.in_flight) for enclave in self._enclaves()) + sum(len(scope.runs) for scope in scopes)

    async def start_with_lifespan(self, pool: EnclavePool) -> None:
        """Start workers now if a server's lifespan is beginning in this context; otherwise do nothing.

        A worker that cannot start is logged: the server's other tools still work, and scripts get the error.
        """
        if SharedContext.resolved.get(None) is None:
            return
        try:
            await self.lease_enclave(await self._lifespan_scope(), pool).enclave.start()
        except WorkerError:
            logger.exception("CodeCall could not start a worker process")

    async def check_scripts(self, pool: EnclavePool, scripts: Checkable | None) -> None:
        """Have scripts checked in the enclave of a lifespan of this event loop; nothing where none is open."""
        here = asyncio.get_running_loop()
        leases = (scope.leases.get(pool) for scope in self._lifespans if scope.loop is here and not scope.closed)
        enclave = next((lease.enclave for lease in leases if lease is not None), None)
        if enclave is not None and scripts is not None:
            await scripts.check_scripts(enclave)

    async def prepare(self, pool: EnclavePool) -> None:
        """Open an enclave in each lifespan of this event loop, and check that scripts can run in it. (Elsewhere an
        enclave opens with the first script.)

        Raises:
            WorkerError: scripts cannot run; the enclaves are closed again.
        """
        here = asyncio.get_running_loop()
        try:
            for scope in tuple(self._lifespans):
                if scope.loop is here and not scope.closed:
                    await self.lease_enclave(scope, pool).enclave.probe()
        except BaseException:
            await self.retire(pool)
            raise

    async def retire(self, pool: EnclavePool) -> None:
        """Close the enclaves that no script uses; each of the others closes with its last script."""
        pool.retired = True
        with anyio.CancelScope(shield=True):
            for scope in self._running_scopes():
                lease = scope.leases.get(pool)
                if lease is not None and not lease.users:
                    await _run_on(scope.loop, self.close(scope, pool, lease))

    async def drain(self, grace_s: float) -> int:
        """Refuse new scripts until the lifespan has ended, and end the running ones after `grace_s` seconds.

        Returns:
            The number of scripts that had to be ended.
        """
        self._draining = True
        scopes = self._running_scopes()
        drained = [(scope.loop, lease.enclave.drain) for scope in scopes for lease in scope.leases.values()]
        drained += [(scope.loop, scope.runs.drain) for scope in scopes]
        return sum(await asyncio.gather(*(_run_on(loop, drain(grace_s)) for loop, drain in drained)))

    def check_open(self) -> None:
        """Refuse a run that would begin while the server shuts down.

        Raises:
            WorkerPoolDisposedError: the server shuts down.
        """
        if self._draining:
            raise WorkerPoolDisposedError("The server is shutting down and takes no more runs")

    async def scope_of(self, context: Context) -> _Scope:
        """The scope that holds the enclaves for the request of `context`."""
        scope = (SharedContext.resolved.get(None) or {}).get(self._resource)
        if scope is None and context.request_context is not None:
            scope = await self._lifespan_scope()
        if scope is None and context.is_background_task:
            scope = self._surrounding_lifespan()
        if scope is None or scope.closed:
            loop = asyncio.get_running_loop()
            return self._call_scopes.get(loop) or self._call_scopes.setdefault(loop, _Scope(loop, is_lifespan=False))
        if not scope.served:
            scope.served = True
            SHUTDOWN_SIGNALS.move_to_front()
        return scope

    def lease_enclave(self, scope: _Scope, pool: EnclavePool) -> _Lease:
        """The lease of a scope's enclave, which opens if it is not open."""
        lease = scope.leases.get(pool)
        if lease is None:
            lease = scope.leases[pool] = _Lease(pool.create_enclave())
            if self._draining:
                lease.enclave.pool.refuse()
        return lease

    async def close(self, scope: _Scope, pool: EnclavePool, lease: _Lease) -> None:
        """Close an enclave that no script uses any more."""
        if scope.leases.get(pool) is lease:
            del scope.leases[pool]
        self.forget_unused(scope)
        with anyio.CancelScope(shield=True):
            await lease.enclave.aclose()

    def forget_unused(self, scope: _Scope) -> None:
        """Forget the scope of calls outside of any lifespan once nothing uses it."""
        unused = not scope.is_lifespan and not scope.leases and not len(scope.runs)
        if unused and self._call_scopes.get(scope.loop) is scope:
            del self._call_scopes[scope.loop]

    def _surrounding_lifespan(self) -> _Scope | None:
        """A lifespan in this event loop: a task's worker has a `SharedContext` of its own, which lacks the scope of the
        lifespan around it."""
        loop = asyncio.get_running_loop()
        return next((scope for scope in self._lifespans if scope.loop is loop and not scope.closed), None)

    async def _lifespan_scope(self) -> _Scope:
        """The lifespan this context belongs to."""
        return await cast("AbstractAsyncContextManager[_Scope]", Shared(self._resource)).__aenter__()

    @asynccontextmanager
    async def _open_scope(self) -> AsyncGenerator[_Scope]:
        scope = _Scope(asyncio.get_running_loop(), is_lifespan=True)
        self._lifespans.append(scope)
        with SHUTDOWN_SIGNALS.drain_first(self._on_sigterm):
            try:
                yield scope
            finally:
                scope.closed = True
                for pool, lease in tuple(scope.leases.items()):
                    await self.close(scope, pool, lease)
                self._lifespans.remove(scope)
                self._draining = self._draining and bool(self._lifespans)

    def _running_scopes(self) -> list[_Scope]:
        """The scopes of event loops that run; one that has been stopped can do nothing."""
        return [scope for scope in (*self._lifespans, *self._call_scopes.values()) if scope.loop.is_running()]

    def _enclaves(self) -> list[Enclave]:
        scopes = (*self._lifespans, *self._call_scopes.values())
        return [lease.enclave for scope in scopes for lease in tuple(scope.leases.values())]


class EnclavePool:
    """Gives each script an open enclave made with one set of options.

    Args:
        lifetime: Holds the open enclaves.
        create: Creates an enclave.
    """

    def __init__(self, lifetime: EnclaveLifespan, create: Callable[[], Enclave]) -> None:
        self.create_enclave = create
        self.retired = False
        """Whether other options have replaced these."""
        self._lifetime = lifetime

    @asynccontextmanager
    async def use(self, context: Context) -> AsyncGenerator[Enclave]:
        """An open enclave for the request of `context`."""
        scope = await self._lifetime.scope_of(context)
        lease = self._lifetime.lease_enclave(scope, self)
        lease.users += 1
        try:
            yield lease.enclave
        finally:
            lease.users -= 1
            if not lease.users and (self.retired or not scope.is_lifespan):
                await self._lifetime.close(scope, self, lease)

    @asynccontextmanager
    async def hold(self, context: Context, run: Abortable, *, nested: bool) -> AsyncGenerator[None]:
        """Within this a run without an enclave lasts: a shutdown waits for it, and ends it.

        Args:
            context: Its request.
            run: The run.
            nested: Whether it is a part of another run, which a shutdown waits for.

        Raises:
            WorkerPoolDisposedError: the server shuts down.
        """
        scope = await self._lifetime.scope_of(context)
        if not nested:
            self._lifetime.check_open()
        scope.runs.begin()
        scope.runs.started(run)
        try:
            yield
        finally:
            scope.runs.end(run)
            self._lifetime.forget_unused(scope)


class LifespanFlush:
    """Flushes buffered data, such as audit records and observed schemas, when a server's lifespan ends."""

    def __init__(self, *targets: Flushable) -> None:
        self._targets = targets
        self._resource = self._flush_at_end  # one object: it is the key under which SharedContext keeps it

    async def start_with_lifespan(self) -> None:
        """Flush at the end of the lifespan that is beginning in this context, if one is."""
        if SharedContext.resolved.get(None) is not None:
            await cast("AbstractAsyncContextManager[None]", Shared(self._resource)).__aenter__()

    async def flush(self) -> None:
        """Flush all of them now."""
        for target in self._targets:
            await target.flush()

    @asynccontextmanager
    async def _flush_at_end(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.flush()


class Checkable(Protocol):
    """Scripts that are checked before they run."""

    async def check_scripts(self, enclave: Enclave) -> None:
        """Check those that have not been checked."""
        ...


class Flushable(Protocol):
    """An object that buffers data which has to be written."""

    async def flush(self) -> None:
        """Write the buffered data, and wait until it is written; not for long."""
        ...


@dataclass(slots=True, eq=False)
class _Lease:
    """An open enclave, and the number of scripts that use it."""

    enclave: Enclave
    users: int = 0


@dataclass(slots=True, eq=False)
class _Scope:
    """What enclaves belong to: a lifespan, or the calls of an event loop outside of any."""

    loop: asyncio.AbstractEventLoop
    is_lifespan: bool
    leases: dict[EnclavePool, _Lease] = field(default_factory=dict["EnclavePool", _Lease])
    runs: InFlightRuns = field(default_factory=InFlightRuns)
    """Runs that need no enclave."""
    closed: bool = False
    served: bool = False
    """Whether a script has run: by then the HTTP server has set its signal handlers."""


async def _run_on(loop: asyncio.AbstractEventLoop, operation: Coroutine[Any, Any, T]) -> T:
    """The result of `operation`, which runs on the event loop it belongs to."""
    if loop is asyncio.get_running_loop():
        return await operation
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(operation, loop))
