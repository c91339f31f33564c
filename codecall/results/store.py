"""Kept results in a key-value store: one entry for its head, and one for each page of its text.

The keys are made of the owner and the handle together, so that nobody finds what is somebody else's, and whoever reads
keys learns no handle. The pages are written first and outlive the head: where there is a head, all is there. A store
may fail, hang, or hold what somebody else has written: nothing waits for it longer than it may, and what is read is
used only if it could have been written here.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine, Mapping
from heapq import heappop, heappush
from typing import Annotated, Any, Final, SupportsFloat, TypeVar

import msgspec

from codecall.concurrency import with_timeout
from codecall.jsonio.incremental import JsonIndex
from codecall.key_value import KeyValueStore

# ----------------------------------------------------------------------------------------------------
# Kept results in a key-value store: one entry for its head, and one for each page of its text.

COLLECTION: Final = "codecall_results"
"""The collection of the store that holds them."""

PAGE_CHARS: Final = 64 * 1024
"""Characters of a page."""

REQUEST_TIMEOUT_S: Final = 2.0
"""How long one request to the store may take."""

PUT_TIMEOUT_S: Final = 10.0
"""How long putting away one result may take."""

PAGE_GRACE_S: Final = 60.0
"""Seconds that pages are kept longer than their head, so that a text whose reading began can be read to its end."""

T = TypeVar("T")


class ResultMeta(msgspec.Struct, frozen=True):
    """What is known of a kept result."""

    size: Annotated[int, msgspec.Meta(ge=1)]
    """Bytes, as UTF-8."""
    chars: Annotated[int, msgspec.Meta(ge=1)]
    parts: JsonIndex

    @property
    def pages(self) -> int:
        """How many there are; at least one."""
        return page_count(self.chars)


class ResultStoreError(Exception):
    """The store could not be used; its cause says why."""


def page_count(chars: int) -> int:
    """Pages of a text of so many characters."""
    return max(1, -(-chars // PAGE_CHARS))


class ResultStore:
    """Keeps texts under an owner and a handle."""

    def __init__(self, store: KeyValueStore, ttl_s: int) -> None:
        """
        Args:
            store: where they are kept; it is neither opened nor closed here.
            ttl_s: seconds for which.
        """
        self._store = store
        self._ttl_s = ttl_s

    async def put(self, owner: str, handle: str, text: str, meta: ResultMeta, on_write: Callable[[int], None]) -> None:
        """Put a text away.

        Args:
            owner: whose it is.
            handle: under which it is found.
            text: the whole of it.
            head: what is known of it.
            wrote: told how many entries there may be by now, before the next is written.

        Raises:
            StoreFailed: it could not be put away, or only some of it.
        """
        key = _key(owner, handle)
        ends = asyncio.get_running_loop().time() + PUT_TIMEOUT_S
        for number in range(meta.pages):
            on_write(number + 1)
            page = text[number * PAGE_CHARS : (number + 1) * PAGE_CHARS]
            await self._put(f"{key}.{number + 1}", {"text": page}, self._ttl_s + PAGE_GRACE_S, ends)
            await asyncio.sleep(0)
        on_write(meta.pages + 1)
        await self._put(key, {"head": msgspec.json.encode(meta).decode()}, self._ttl_s, ends)

    async def meta(self, owner: str, handle: str) -> ResultMeta | None:
        """What is known of a result; None if this owner has none of that handle.

        Raises:
            StoreFailed: the store does not say.
        """
        value = await self._get(_key(owner, handle))
        try:
            return msgspec.json.decode(value["head"], type=ResultMeta) if value else None
        except (KeyError, TypeError, msgspec.MsgspecError):
            return None

    async def text(self, owner: str, handle: str, meta: ResultMeta, start: int, end: int) -> str | None:
        """The characters of its text from `start` to `end`; None if they are gone.

        Raises:
            StoreFailed: the store does not say.
        """
        key = _key(owner, handle)
        end = min(end, meta.chars)
        parts: list[str] = []
        for number in range(start // PAGE_CHARS, -(-end // PAGE_CHARS)):
            begins = number * PAGE_CHARS
            value = await self._get(f"{key}.{number + 1}")
            page: object = value.get("text") if value else None
            if not isinstance(page, str) or len(page) != min(PAGE_CHARS, meta.chars - begins):
                return None
            parts.append(page[max(0, start - begins) : end - begins])
            await asyncio.sleep(0)
        return "".join(parts)

    async def _put(self, key: str, value: dict[str, Any], ttl: float, ends: float) -> None:
        seconds = min(REQUEST_TIMEOUT_S, ends - asyncio.get_running_loop().time())
        await _asked(self._store.put(key, value, collection=COLLECTION, ttl=ttl), seconds)

    async def _get(self, key: str) -> dict[str, Any] | None:
        value: object = await _asked(self._store.get(key, collection=COLLECTION), REQUEST_TIMEOUT_S)
        return value if isinstance(value, dict) else None  # whatever the store promises


async def _asked(request: Coroutine[Any, Any, T], seconds: float) -> T:
    """What the store answers."""
    try:
        return await with_timeout(max(0.0, seconds), request)
    except Exception as failure:
        raise ResultStoreError from failure


def _key(owner: str, handle: str) -> str:
    return hashlib.blake2b(f"{owner}\x00{handle}".encode(), digest_size=32).hexdigest()


# ----------------------------------------------------------------------------------------------------
# A key-value store in the memory of this process, for kept results: what has expired is gone, and its memory free.


class MemoryResults:
    """The part of a key-value store that is used. Its entries must have a time to live.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[tuple[str | None, str], tuple[float, bytes]] = {}
        self._expiring: list[tuple[float, tuple[str | None, str]]] = []
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """What was put under `key`; None if there is nothing any more."""
        expires, value = self._entries.get((collection, key), (0.0, b""))
        return msgspec.msgpack.decode(value) if expires > self._clock() else None

    async def put(
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        """Keep `value` under `key`, for `ttl` seconds."""
        self._drop_expired()
        expires = self._clock() + float(ttl or 0)
        self._entries[collection, key] = expires, msgspec.msgpack.encode(value)
        heappush(self._expiring, (expires, (collection, key)))
        self._wake_up()

    def __len__(self) -> int:
        return len(self._entries)

    def _wake_up(self) -> None:
        """See to it that nothing stays for much longer than it may, though nobody comes."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer[0] is loop:
                return
            self._timer[1].cancel()
        if self._expiring:
            seconds = max(0.0, self._expiring[0][0] - self._clock())
            self._timer = loop, loop.call_later(seconds, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._drop_expired()
        self._wake_up()

    def _drop_expired(self) -> None:
        now = self._clock()
        while self._expiring and self._expiring[0][0] <= now:
            _, key = heappop(self._expiring)
            if key in self._entries and self._entries[key][0] <= now:
                del self._entries[key]
