"""Streams of messages of our own, where a task and a queue for each way would take longer than the message."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Stream:
    """What both ways have: they can be closed."""

    closed = False

    async def aclose(self) -> None:
        """Nothing passes any more."""
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _failure: BaseException | None, _where: TracebackType | None
    ) -> None:
        await self.aclose()
