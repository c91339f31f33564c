"""Who results are learned from and shown to, and when what was learned is written to a store."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, cast

from fastmcp.dependencies import Shared
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token
from uncalled_for import SharedContext

from codecall.calls.rates import client_key
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.meta_tools.base import Wiring


def watcher(wiring: Wiring, context: Context) -> Callable[[CatalogEntry, str], None] | None:
    """What a broker tells of each result of this request: the tool, and the JSON text of its value."""
    observations = wiring.observations
    if observations is None or not wiring.options.observed_output.enabled:
        return None
    return functools.partial(observations.saw, owner=_caller(wiring, context))


async def observed_output(wiring: Wiring, context: Context, entry: CatalogEntry) -> JsonObject | None:
    """The JSON Schema learned of a tool's results, as the caller of this request may see it; not to be changed.

    None for tools that declare the form of their output, while nothing is known, and where the option is off.
    """
    observations = wiring.observations
    if observations is None:
        return None
    return await observations.output_of(entry, _caller(wiring, context))


def _caller(wiring: Wiring, context: Context) -> str:
    """Who this request counts for. A process that is spoken to over stdio, or in its own memory, serves one party."""
    if not wiring.options.observed_output.per_caller:
        request = context.request_context.request if context.request_context is not None else None
        if request is None and get_access_token() is None and not context.is_background_task:
            return ""
    return client_key(context)


class Flushes(Protocol):
    """Has something that is still to be written."""

    async def flush(self) -> None:
        """Write it, and wait until it is; not for long."""
        ...


class Flushing:
    """Writes what was learned and recorded when a server's lifespan ends."""

    def __init__(self, *what: Flushes) -> None:
        self._what = what
        self._of_lifespan = self._flushed  # one object: it is the key under which SharedContext keeps it

    async def start_with_lifespan(self) -> None:
        """Do so at the end of the lifespan that is beginning in this context, if one is."""
        if SharedContext.resolved.get(None) is not None:
            await cast("AbstractAsyncContextManager[None]", Shared(self._of_lifespan)).__aenter__()

    async def flush(self) -> None:
        """Do so now."""
        for what in self._what:
            await what.flush()

    @asynccontextmanager
    async def _flushed(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.flush()
