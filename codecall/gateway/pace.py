"""Slowing down a server that says more than anybody can use: it waits with the rest, and none is lost."""

from __future__ import annotations

from typing import Final

import anyio
import anyio.lowlevel

LINES_PER_S: Final = 20_000
"""Lines read of a program in a second that are no messages."""

_TURN: Final = 100
"""After so many others have a turn."""


class Pace:
    """Lets so many things pass in a second.

    Args:
        per_s: how many; at least 1.
    """

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._since = 0.0
        self._count = 0

    async def after(self) -> None:
        """One has passed: waits for the next second, if it was the last of this one."""
        self._count += 1
        if self._count >= self._per_s:
            now = anyio.current_time()
            if now - self._since < 1:
                await anyio.sleep_until(self._since + 1)
            self._since, self._count = anyio.current_time(), 0
        elif self._count == 1:
            self._since = anyio.current_time()
        elif self._count % _TURN == 0:
            await anyio.lowlevel.checkpoint()
            if anyio.current_time() - self._since >= 1:
                self._count = 0
