"""Opens the store that counts calls: one for the process, or connections to Redis for each run of a server.

Connections belong to an event loop. They are opened for the first call and closed with the server's lifespan; where
there is none (`await mcp.call_tool(…)` on a bare server) they are kept until `RateLimitPlugin.aclose`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

import anyio
from uncalled_for import Shared, SharedContext

from codecall.ratelimit.counting import CallCounter, Limit, LimitRefusal
from codecall.ratelimit.redis_store import RedisCounterStore, redis_breaker
from codecall.ratelimit.rules import RateLimitOptions


class RunningCall(Protocol):
    """A running call that counts for limits of calls at the same time."""

    async def end(self) -> None:
        """Ends the call. It must be awaited, and is shielded from cancellation."""
        ...


class RateStorage(Protocol):
    """Counts calls."""

    async def admit(self, limits: Sequence[Limit]) -> RunningCall | LimitRefusal | None:
        """Counts a call for these limits; returns the running call if its end matters, or the refusal.

        Raises:
            StoreUnavailableError: the store did not answer.
        """
        ...

    async def aclose(self) -> None:
        """Closes the connections that no lifespan closes."""
        ...


def open_storage(options: RateLimitOptions) -> RateStorage:
    """Opens the storage that the options name.

    Raises:
        OptionsError: the client for Redis is not installed.
    """
    return _MemoryRateStorage() if options.storage.startswith("memory:") else _RedisRateStorage(options)


class _MemoryRateStorage:
    def __init__(self) -> None:
        from codecall.ratelimit.memory_store import MemoryCounterStore

        self.store = MemoryCounterStore()
        self._counting = CallCounter(self.store)

    async def admit(self, limits: Sequence[Limit]) -> RunningCall | LimitRefusal | None:
        admitted = await self._counting.admit(limits)
        return _MemoryCall(self.store, admitted) if isinstance(admitted, str) else admitted

    async def aclose(self) -> None:
        pass


class _Releasing(Protocol):
    def release_nowait(self, lease: str) -> None: ...


class _MemoryCall(NamedTuple):
    store: _Releasing
    lease: str

    async def end(self) -> None:
        self.store.release_nowait(self.lease)


class _Connections:
    """Connections of one run of a server, or of one event loop."""

    def __init__(self, options: RateLimitOptions) -> None:
        self.store = RedisCounterStore(options, redis_breaker(options))
        self.counting = CallCounter(self.store)
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True
        with anyio.CancelScope(shield=True):
            await self.store.aclose()


class _RedisCall(NamedTuple):
    connections: _Connections
    lease: str

    async def end(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.connections.store.release_if_available(self.lease)


class _RedisRateStorage:
    def __init__(self, options: RateLimitOptions) -> None:
        redis_breaker(options)  # if the client is missing, this says so now
        self._options = options
        self._lifespan_key = self._open  # one object: it is the key under which SharedContext keeps the connections
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connections] = WeakKeyDictionary()

    async def admit(self, limits: Sequence[Limit]) -> RunningCall | LimitRefusal | None:
        connections = await self._connections()
        admitted = await connections.store.ask(lambda: connections.counting.admit(limits))
        return _RedisCall(connections, admitted) if isinstance(admitted, str) else admitted

    async def aclose(self) -> None:
        connections = self._by_loop.pop(asyncio.get_running_loop(), None)
        if connections is not None:
            await connections.aclose()

    async def _connections(self) -> _Connections:
        if SharedContext.resolved.get(None) is not None:
            shared = cast("AbstractAsyncContextManager[_Connections]", Shared(self._lifespan_key))
            connections = await shared.__aenter__()
            if not connections.closed:
                return connections
        loop = asyncio.get_running_loop()
        return self._by_loop.get(loop) or self._by_loop.setdefault(loop, _Connections(self._options))

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[_Connections]:
        connections = _Connections(self._options)
        try:
            yield connections
        finally:
            await connections.aclose()
