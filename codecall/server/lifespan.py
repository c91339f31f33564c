"""When worker processes live: as long as the server's lifespan, or as long as the calls that need them.

FastMCP keeps what belongs to a whole run of a server in its `SharedContext`, which it opens and closes with the
server's lifespan and shows to every request; the enclave lives there, once for each plugin and lifespan. Where there
is no lifespan (`await mcp.call_tool(…)` on a bare server) calls that overlap share one enclave, and the last closes it.

When options are reloaded, a lifespan has two enclaves for a while: scripts that run keep theirs, which closes with the
last of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import anyio
from fastmcp.dependencies import Shared
from fastmcp.server.context import Context
from uncalled_for import SharedContext

from codecall.errors import WorkerError
from codecall.sandbox.enclave import Enclave
from codecall.server.shutdown import SHUTDOWN_SIGNALS, DrainCallback
from codecall.telemetry.metrics import ObservedPool

logger = logging.getLogger("codecall")

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Lease:
    """An open enclave, and how many scripts use it."""

    enclave: Enclave
    users: int = 0


@dataclass(slots=True, eq=False)
class _Scope:
    """Where enclaves are: a lifespan, or the calls of an event loop that have none."""

    loop: asyncio.AbstractEventLoop
    lifespan: bool
    leases: dict[EnclavePool, _Lease] = field(default_factory=dict["EnclavePool", _Lease])
    closed: bool = False
    served: bool = False
    """Whether a script has been run: by then the HTTP server has set its signal handlers."""


class EnclaveLifespan:
    """Where the enclaves of one plugin are open: on any number of servers and event loops.

    Args:
        at_sigterm: What a SIGTERM does first while a lifespan is open; None: nothing.
    """

    def __init__(self, on_sigterm: DrainCallback | None = None) -> None:
        self._at_sigterm = on_sigterm
        self._of_lifespan = self._open  # one object: it is the key under which SharedContext keeps the place
        self._lifespans: list[_Scope] = []
        self._of_calls: dict[asyncio.AbstractEventLoop, _Scope] = {}
        self._draining = False

    def pids(self) -> list[int]:
        """Process ids of the living workers of every open enclave."""
        return [pid for enclave in self._all() for pid in enclave.pool.pids()]

    def pools(self) -> list[ObservedPool]:
        """The pools of every open enclave."""
        return [enclave.pool for enclave in self._all()]

    @property
    def running_scripts(self) -> int:
        """Scripts that run or wait."""
        return sum(len(enclave.in_flight) for enclave in self._all())

    async def start_with_lifespan(self, enclaves: EnclavePool) -> None:
        """Start workers now, if a server's lifespan is beginning in this context; else do nothing.

        A worker that cannot start is logged: the server's other tools still work, and scripts get the error.
        """
        if SharedContext.resolved.get(None) is None:
            return
        try:
            await self.open_enclave(await self._shared(), enclaves).enclave.start()
        except WorkerError:
            logger.exception("CodeCall could not start a worker process")

    async def prepare(self, enclaves: EnclavePool) -> None:
        """Open these in each lifespan of this event loop, and see that scripts can run in them. (Elsewhere they are
        opened when the first script comes.)

        Raises:
            WorkerError: they cannot; nothing is left of them.
        """
        here = asyncio.get_running_loop()
        try:
            for place in tuple(self._lifespans):
                if place.loop is here and not place.closed:
                    await self.open_enclave(place, enclaves).enclave.probe()
        except BaseException:
            await self.retire(enclaves)
            raise

    async def retire(self, enclaves: EnclavePool) -> None:
        """Close these where no script uses them; elsewhere the last one that does closes them."""
        enclaves.retired = True
        with anyio.CancelScope(shield=True):
            for place in self._places():
                held = place.leases.get(enclaves)
                if held is not None and not held.users:
                    await _on(place.loop, self.close(place, enclaves, held))

    async def drain(self, grace_s: float) -> int:
        """Let no script begin any more, until the lifespan has ended, and end those that run in `grace_s` seconds; how
        many had to be ended."""
        self._draining = True
        enclaves = [(place.loop, held.enclave) for place in self._places() for held in place.leases.values()]
        return sum(await asyncio.gather(*(_on(loop, enclave.drain(grace_s)) for loop, enclave in enclaves)))

    async def scope_of(self, context: Context) -> _Scope:
        """Where the enclaves for the request of `context` are."""
        place = (SharedContext.resolved.get(None) or {}).get(self._of_lifespan)
        if place is None and context.request_context is not None:
            place = await self._shared()
        if place is None and context.is_background_task:
            place = self._around()
        if place is None or place.closed:
            loop = asyncio.get_running_loop()
            return self._of_calls.get(loop) or self._of_calls.setdefault(loop, _Scope(loop, lifespan=False))
        if not place.served:
            place.served = True
            SHUTDOWN_SIGNALS.move_to_front()
        return place

    def open_enclave(self, place: _Scope, enclaves: EnclavePool) -> _Lease:
        """The enclave of that place."""
        held = place.leases.get(enclaves)
        if held is None:
            held = place.leases[enclaves] = _Lease(enclaves.create_enclave())
            if self._draining:
                held.enclave.pool.refuse()
        return held

    async def close(self, place: _Scope, enclaves: EnclavePool, held: _Lease) -> None:
        """Nobody uses that one any more."""
        if place.leases.get(enclaves) is held:
            del place.leases[enclaves]
        if not place.lifespan and not place.leases and self._of_calls.get(place.loop) is place:
            del self._of_calls[place.loop]
        with anyio.CancelScope(shield=True):
            await held.enclave.aclose()

    def _around(self) -> _Scope | None:
        """A lifespan in this event loop: a task's worker has a `SharedContext` of its own, in which the one of the
        lifespan around it is not found."""
        loop = asyncio.get_running_loop()
        return next((place for place in self._lifespans if place.loop is loop and not place.closed), None)

    async def _shared(self) -> _Scope:
        """The lifespan this context belongs to."""
        return await cast("AbstractAsyncContextManager[_Scope]", Shared(self._of_lifespan)).__aenter__()

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[_Scope]:
        place = _Scope(asyncio.get_running_loop(), lifespan=True)
        self._lifespans.append(place)
        with SHUTDOWN_SIGNALS.drain_first(self._at_sigterm):
            try:
                yield place
            finally:
                place.closed = True
                for enclaves, held in tuple(place.leases.items()):
                    await self.close(place, enclaves, held)
                self._lifespans.remove(place)
                self._draining = self._draining and bool(self._lifespans)

    def _places(self) -> list[_Scope]:
        """Those of event loops that run; one that has been stopped cannot be asked for anything."""
        return [place for place in (*self._lifespans, *self._of_calls.values()) if place.loop.is_running()]

    def _all(self) -> list[Enclave]:
        places = (*self._lifespans, *self._of_calls.values())
        return [held.enclave for place in places for held in tuple(place.leases.values())]


class EnclavePool:
    """Gives each script an enclave that is open, of those that one set of options makes.

    Args:
        lifetime: Where they are.
        make: Makes one.
    """

    def __init__(self, lifetime: EnclaveLifespan, make: Callable[[], Enclave]) -> None:
        self.create_enclave = make
        self.retired = False
        """Whether other options are in force now."""
        self._lifetime = lifetime

    @asynccontextmanager
    async def use(self, context: Context) -> AsyncGenerator[Enclave]:
        """An open enclave for the request of `context`."""
        place = await self._lifetime.scope_of(context)
        held = self._lifetime.open_enclave(place, self)
        held.users += 1
        try:
            yield held.enclave
        finally:
            held.users -= 1
            if not held.users and (self.retired or not place.lifespan):
                await self._lifetime.close(place, self, held)


async def _on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """The outcome of `work` in the event loop it belongs to."""
    if loop is asyncio.get_running_loop():
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
