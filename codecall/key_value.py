"""Key-value stores that may fail or hang: each request has a time limit, and every failure is one exception."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Final, Protocol, SupportsFloat, TypeVar, runtime_checkable

from codecall.concurrency import with_timeout

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 2.0
"""Seconds that one request to a store may take."""


@runtime_checkable
class KeyValueStore(Protocol):
    """Where something is kept for longer than a process lives: what is used of `AsyncKeyValue`, the interface of the
    stores that FastMCP takes (`key_value.aio`: files, Redis and many more)."""

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """What was put under `key`; None if there is nothing."""
        ...

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep `value` under `key`, for `ttl` seconds."""
        ...


@runtime_checkable
class DeletingStore(Protocol):
    """A key-value store that can delete, which not all can."""

    async def delete(self, key: str, *, collection: str | None = None) -> bool:
        """Delete what is under `key`; whether there was something."""
        ...


class LocalStore:
    """Base of stores in the memory of this process, which answer at once: no time limit is set for their requests."""


class StoreError(Exception):
    """A request to a store failed, or took too long; `__cause__` is what the store raised, or a `TimeoutError`."""

    @property
    def reason(self) -> str:
        """The type of the cause, for logs: its text may hold what was stored."""
        return type(self.__cause__ or self).__name__


class CheckedStore:
    """One collection of a key-value store, which is neither opened nor closed here.

    Args:
        store: the store.
        collection: of the store.
        timeout_s: seconds that one request may take.
    """

    def __init__(self, store: KeyValueStore, collection: str, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self._store = store
        self._collection = collection
        self._timeout_s = timeout_s

    async def get(self, key: str) -> object:
        """What is stored under `key`, whatever the store promises; None if there is nothing.

        Raises:
            StoreError: the store failed, or did not answer in time.
        """
        return await self._request(self._store.get(key, collection=self._collection), self._timeout_s)

    async def put(self, key: str, value: Mapping[str, Any], ttl_s: float, *, timeout_s: float = float("inf")) -> None:
        """Store `value` under `key` for `ttl_s` seconds. `timeout_s`: for this request, where that is less.

        Raises:
            StoreError: the store failed, or did not answer in time.
        """
        request = self._store.put(key, value, collection=self._collection, ttl=ttl_s)
        await self._request(request, max(0.0, min(timeout_s, self._timeout_s)))

    @property
    def can_delete(self) -> bool:
        """Whether the store has `delete`."""
        return isinstance(self._store, DeletingStore)

    async def delete(self, key: str) -> bool:
        """Delete what is stored under `key`; whether there was something.

        Raises:
            StoreError: the store failed, did not answer in time, or cannot delete.
        """
        if not isinstance(self._store, DeletingStore):
            raise StoreError
        return bool(await self._request(self._store.delete(key, collection=self._collection), self._timeout_s))

    async def _request(self, request: Coroutine[Any, Any, T], timeout_s: float) -> T:
        try:
            return await (request if isinstance(self._store, LocalStore) else with_timeout(timeout_s, request))
        except Exception as failure:
            raise StoreError from failure
