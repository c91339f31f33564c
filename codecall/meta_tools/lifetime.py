"""When worker processes live: as long as the server's lifespan, or as long as the calls that need them.

FastMCP keeps what belongs to a whole run of a server in its `SharedContext`, which it opens and closes with the
server's lifespan and shows to every request; the enclave lives there, once for each plugin and lifespan. Where there
is no lifespan (`await mcp.call_tool(…)` on a bare server) calls that overlap share one enclave, and the last closes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import cast

import anyio
from fastmcp.dependencies import Shared
from fastmcp.server.context import Context
from uncalled_for import SharedContext

from codecall.errors import WorkerError
from codecall.sandbox.enclave import Enclave

logger = logging.getLogger("codecall")


@dataclass(slots=True)
class _Held:
    """An enclave and whether it may still be used."""

    enclave: Enclave
    users: int = 0
    closed: bool = False


class EnclaveLifetime:
    """Gives each script an enclave that is open, and closes each enclave when nobody is left to use it.

    One object serves any number of servers and event loops: each lifespan, and each loop without one, has its own
    enclave.
    """

    def __init__(self, make: Callable[[], Enclave]) -> None:
        self._make = make
        self._of_lifespan = self._open  # one object: it is the key under which SharedContext keeps the enclave
        self._of_calls: dict[asyncio.AbstractEventLoop, _Held] = {}
        self._all: list[Enclave] = []

    def pids(self) -> list[int]:
        """Process ids of the living workers of every open enclave."""
        return [pid for enclave in tuple(self._all) for pid in enclave.pool.pids()]

    async def start_with_lifespan(self) -> None:
        """Start workers now, if a server's lifespan is beginning in this context; else do nothing.

        A worker that cannot start is logged: the server's other tools still work, and scripts get the error.
        """
        if SharedContext.resolved.get(None) is None:
            return
        try:
            held = await self._shared()
            await held.enclave.start()
        except WorkerError:
            logger.exception("CodeCall could not start a worker process")

    @asynccontextmanager
    async def use(self, context: Context) -> AsyncGenerator[Enclave]:
        """An open enclave for the request of `context`."""
        held = (SharedContext.resolved.get(None) or {}).get(self._of_lifespan)
        if held is None and context.request_context is not None:
            held = await self._shared()
        if held is not None and not held.closed:
            yield held.enclave
            return
        loop = asyncio.get_running_loop()
        held = self._of_calls.get(loop)
        if held is None:
            held = self._of_calls[loop] = self._new()
        held.users += 1
        try:
            yield held.enclave
        finally:
            held.users -= 1
            if not held.users:
                del self._of_calls[loop]
                await self._close(held)

    async def _shared(self) -> _Held:
        """The enclave of the lifespan this context belongs to, opened at first need."""
        return await cast("AbstractAsyncContextManager[_Held]", Shared(self._of_lifespan)).__aenter__()

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[_Held]:
        held = self._new()
        try:
            yield held
        finally:
            await self._close(held)

    def _new(self) -> _Held:
        held = _Held(self._make())
        self._all.append(held.enclave)
        return held

    async def _close(self, held: _Held) -> None:
        held.closed = True
        with anyio.CancelScope(shield=True):
            await held.enclave.aclose()
        self._all.remove(held.enclave)
