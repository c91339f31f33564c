"""Stores kept results in a key-value store: one entry for the metadata of a result, and one for each piece of its text.

The keys are made of the owner and the handle together, so that nobody finds the result of somebody else, and whoever
reads keys learns no handle. The pieces are written first and outlive the entry that describes them: where that entry
exists, all pieces do. A store may fail, hang, or hold entries of another writer: every operation has a time limit, and
an entry is used only if it could have been written here.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Annotated, Any, Final, SupportsFloat, cast

import msgspec

from codecall.jsonio.incremental import JsonIndex
from codecall.key_value import CheckedStore, KeyValueStore, LocalStore

COLLECTION: Final = "codecall_results"
"""The collection of the store that holds them."""

ENTRY_CHARS: Final = 64 * 1024
"""Characters of an entry of the store that holds a part of a text."""

PAGE_CHARS: Final = 15 * 1024
"""Characters of a page, as a script or a client reads it: with escapes, or four bytes a character, it is a JSON text of
less than the 64 KiB that an answer holds, so that a script may return it."""

PUT_TIMEOUT_S: Final = 10.0
"""Seconds that storing one result may take."""

PIECE_GRACE_S: Final = 60.0
"""Seconds that pieces outlive their metadata, so that a text whose reading began can be read to its end."""

_SURROGATES: Final = "surrogatepass"


class ResultMeta(msgspec.Struct, frozen=True):
    """The metadata of a kept result."""

    size: Annotated[int, msgspec.Meta(ge=1)]
    """Bytes, as UTF-8."""
    chars: Annotated[int, msgspec.Meta(ge=1)]
    parts: JsonIndex

    @property
    def pages(self) -> int:
        """The number of pages; at least one."""
        return max(1, -(-self.chars // PAGE_CHARS))


def entry_count(chars: int) -> int:
    """The number of entries for a text of `chars` characters."""
    return max(1, -(-chars // ENTRY_CHARS))


class ResultStore:
    """Keeps texts under an owner and a handle.

    Args:
        store: holds the texts; it is neither opened nor closed here. None: the memory of this process.
        ttl_s: seconds for which a text is kept.
    """

    def __init__(self, store: KeyValueStore | None, ttl_s: int) -> None:
        self._store = CheckedStore(ExpiringMemoryStore() if store is None else store, COLLECTION)
        self._ttl_s = ttl_s

    async def put(self, owner: str, handle: str, text: str, meta: ResultMeta, on_write: Callable[[int], None]) -> None:
        """Store a text.

        Args:
            owner: key of the caller who owns the text.
            handle: name under which the owner finds it.
            text: the whole text.
            meta: its metadata.
            on_write: called with the number of entries there may be by then, before each is written.

        Raises:
            StoreError: the text could not be stored, or only a part of it.
        """
        key = _key(owner, handle)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PUT_TIMEOUT_S
        count = entry_count(meta.chars)
        for number in range(count):
            on_write(number + 1)
            piece = {"text": text[number * ENTRY_CHARS : (number + 1) * ENTRY_CHARS]}
            timeout_s = deadline - loop.time()
            await self._store.put(f"{key}.{number + 1}", piece, self._ttl_s + PIECE_GRACE_S, timeout_s=timeout_s)
            await asyncio.sleep(0)
        on_write(count + 1)
        entry = {"head": msgspec.json.encode(meta).decode()}
        await self._store.put(key, entry, self._ttl_s, timeout_s=deadline - loop.time())

    async def meta(self, owner: str, handle: str) -> ResultMeta | None:
        """The metadata of a result; None if this owner has none of that handle.

        Raises:
            StoreError: the store does not answer.
        """
        value = await self._get(_key(owner, handle))
        try:
            return msgspec.json.decode(value["head"], type=ResultMeta) if value else None
        except (KeyError, TypeError, msgspec.MsgspecError):
            return None

    async def text(self, owner: str, handle: str, meta: ResultMeta, start: int, end: int) -> str | None:
        """The characters of its text from `start` to `end`; None if they are gone.

        Raises:
            StoreError: the store does not answer.
        """
        key = _key(owner, handle)
        end = min(end, meta.chars)
        parts: list[str] = []
        for number in range(start // ENTRY_CHARS, -(-end // ENTRY_CHARS)):
            piece_start = number * ENTRY_CHARS
            value = await self._get(f"{key}.{number + 1}")
            piece: object = value.get("text") if value else None
            if not isinstance(piece, str) or len(piece) != min(ENTRY_CHARS, meta.chars - piece_start):
                return None
            parts.append(piece[max(0, start - piece_start) : end - piece_start])
            await asyncio.sleep(0)
        return "".join(parts)

    async def _get(self, key: str) -> dict[str, Any] | None:
        value = await self._store.get(key)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None


class ExpiringMemoryStore(LocalStore):
    """A key-value store in the memory of this process that deletes entries when they expire, and not only when somebody
    asks for them. Those of the library that FastMCP brings keep them, and take 0.3 s to load.

    Texts are held as UTF-8: in memory, one emoji would make each character of its text take four bytes."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str | None], tuple[float, dict[str, Any]]] = {}
        """By key and collection: when an entry expires, by the event loop's clock, and what it holds."""
        self._expiring: list[tuple[float, str, str | None]] = []
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """What was put under `key`; None if there is nothing, or no longer."""
        expires, value = self._entries.get((key, collection), (0.0, None))
        if value is None or expires <= asyncio.get_running_loop().time():
            return None
        return {
            name: item.decode(errors=_SURROGATES) if isinstance(item, bytes) else item for name, item in value.items()
        }

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep `value` under `key`, for `ttl` seconds."""
        self._delete_expired()
        expires = asyncio.get_running_loop().time() + float(ttl or 0)
        self._entries[key, collection] = (
            expires,
            {name: item.encode(errors=_SURROGATES) if isinstance(item, str) else item for name, item in value.items()},
        )
        heappush(self._expiring, (expires, key, collection))
        self._schedule()

    def __len__(self) -> int:
        return len(self._entries)

    def _schedule(self) -> None:
        """Schedule the deletion of the next entry that expires."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer[0] is loop:
                return
            self._timer[1].cancel()
            self._timer = None
        if self._expiring:
            # Nothing of the request that keeps a result is kept as long.
            self._timer = loop, loop.call_at(self._expiring[0][0], self._expire, context=contextvars.Context())

    def _expire(self) -> None:
        self._timer = None
        self._delete_expired()
        self._schedule()

    def _delete_expired(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._expiring and self._expiring[0][0] <= now:
            expires, key, collection = heappop(self._expiring)
            if self._entries.get((key, collection), (None,))[0] == expires:
                del self._entries[key, collection]


def _key(owner: str, handle: str) -> str:
    return hashlib.blake2b(f"{owner}\x00{handle}".encode(), digest_size=32).hexdigest()
