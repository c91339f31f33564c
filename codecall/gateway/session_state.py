"""What FastMCP keeps of sessions: as it does by itself, in memory, but quicker to say that there is nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

from key_value.aio.stores.memory import MemoryStore


class SessionState(MemoryStore):
    """FastMCP's own default. It asks for the visibility rules of a session three times a call, and in a gateway hardly
    a session has any: until something has been put in here, nothing is looked for."""

    def __init__(self) -> None:
        super().__init__()
        self._used = False

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """What is kept under that key."""
        return await super().get(key, collection=collection) if self._used else None

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep something; `ttl`: seconds."""
        self._used = True
        await super().put(key, value, collection=collection, ttl=ttl)

    async def put_many(
        self,
        keys: Sequence[str],
        values: Sequence[Mapping[str, Any]],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> None:
        """Keep several things; `ttl`: seconds."""
        self._used = True
        await super().put_many(keys, values, collection=collection, ttl=ttl)
