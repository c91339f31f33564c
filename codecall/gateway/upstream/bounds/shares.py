"""How many calls of one caller are at a server at a time, each of which holds a connection; more of them wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

MAX_CALLS: Final = 100
"""Calls of one caller that may be at one server at a time."""


class CallerShares:
    """The shares that callers have of one server.

    Args:
        bounded: whether a call holds a connection; else there is room for any.
    """

    def __init__(self, *, bounded: bool) -> None:
        self._bounded = bounded
        self._shares: dict[str, _Share] = {}

    @asynccontextmanager
    async def take(self, caller: str | None) -> AsyncGenerator[None]:
        """Within this is one call of a caller, once there is room for it; None: one of the gateway's own."""
        if caller is None or not self._bounded:
            yield
            return
        share = self._shares.setdefault(caller, _Share())
        share.calls += 1
        try:
            async with share.room:
                yield
        finally:
            share.calls -= 1
            if not share.calls:
                del self._shares[caller]


class _Share:
    def __init__(self) -> None:
        self.room = asyncio.Semaphore(MAX_CALLS)
        self.calls = 0
        """Those that are at the server, and those that wait."""
