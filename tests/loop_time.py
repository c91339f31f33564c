"""Time that passes without a test waiting for it."""

from __future__ import annotations

import asyncio

import pytest


class LoopTime:
    """The time of the event loop, which can jump ahead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    async def jump(self, seconds: float) -> None:
        """Be so many seconds later; what is due by then happens."""
        loop = asyncio.get_running_loop()
        now = loop.time
        self._monkeypatch.setattr(loop, "time", lambda: now() + seconds)
        for _ in range(20):
            await asyncio.sleep(0)
