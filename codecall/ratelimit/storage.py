"""The store that a call is counted in: one for the process, or connections to Redis for each run of a server.

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
from codecall.ratelimit.redis import RedisCounterStore, redis_breaker
from codecall.ratelimit.rules import RateLimitOptions


class RunningCall(Protocol):
    """A call that holds places of calls that run at the same time."""

    async def end(self) -> None:
        """It has ended. Must be awaited, and is not cancelled."""
        ...


class RateStorage(Protocol):
    """Where calls are counted."""

    async def admit(self, limits: Sequence[Limit]) -> RunningCall | LimitRefusal | None:
        """Count a call for these limits; what is to be ended with it, if anything, or why it is refused.

        Raises:
            AwayError: the store did not answer.
        """
        ...

    async def aclose(self) -> None:
        """Close what no lifespan closes."""
        ...


def open_storage(options: RateLimitOptions) -> RateStorage:
    """What the options name.

    Raises:
        OptionsError: the client for Redis is not installed.
    """
    return _Memory() if options.storage.startswith("memory:") else _Redis(options)


class _Memory:
    def __init__(self) -> None:
        from codecall.ratelimit.memory import MemoryCounterStore

        self.store = MemoryCounterStore()
        self._counting = CallCounter(self.store)

    async def admit(self, limits: Sequence[Limit]) -> RunningCall | LimitRefusal | None:
        admitted = await self._counting.admit(limits)
        return _RunningHere(self.store, admitted) if isinstance(admitted, str) else admitted

    async def aclose(self) -> None:
        pass


class _Droppable(Protocol):
    def release_nowait(self, lease: str) -> None: ...


class _RunningHere(NamedTuple):
    store: _Droppable
    lease: str

    async def end(self) -> None:
        self.store.release_nowait(self.lease)


class _Opened:
    """Connections of one run of a server, or of one event loop."""

    def __init__(self, options: RateLimitOptions) -> None:
        self.store = RedisCounterStore(options, redis_breaker(options))
        self.counting = CallCounter(self.store)
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True
        with anyio.CancelScope(shield=True):
            await self.store.aclose()


class _RunningThere(NamedTuple):
    opened: _Opened
    lease: str

    async def end(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.opened.store.release_if_available(self.lease)


class _Redis:
    def __init__(self, options: RateLimitOptions) -> None:
        redis_breaker(options)  # if the client is missing, this says so now
        self._options = options
        self._of_lifespan = self._opened  # one object: it is the key under which SharedContext keeps the connections
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = WeakKeyDictionary()

    async def admit(self, limits: Sequence[Limit]) -> RunningCall | LimitRefusal | None:
        opened = await self._here()
        admitted = await opened.store.ask(lambda: opened.counting.admit(limits))
        return _RunningThere(opened, admitted) if isinstance(admitted, str) else admitted

    async def aclose(self) -> None:
        opened = self._of_loops.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.aclose()

    async def _here(self) -> _Opened:
        if SharedContext.resolved.get(None) is not None:
            shared = cast("AbstractAsyncContextManager[_Opened]", Shared(self._of_lifespan))
            opened = await shared.__aenter__()
            if not opened.closed:
                return opened
        loop = asyncio.get_running_loop()
        return self._of_loops.get(loop) or self._of_loops.setdefault(loop, _Opened(self._options))

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[_Opened]:
        opened = _Opened(self._options)
        try:
            yield opened
        finally:
            await opened.aclose()
