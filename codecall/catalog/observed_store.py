"""Learned shapes kept in a store, so that they survive a restart and several servers learn together.

A store may fail, hang, or hold what somebody else has written, and calls must not notice: nothing waits for it longer
than `SECONDS`, a store that failed or was slow is left alone for a while, what goes wrong is logged once, and what is
read is used only if it is in every detail what could have been written here. Writing is joining (`outlines.join`): what
is there is read first, so that no process undoes what another has learned; of two that write in the same moment one may
lose, and what it knew is written with its next change.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from codecall.catalog.kept_shapes import Kept, as_data, read_kept
from codecall.configuring import KeyValueStore
from codecall.patience import within

logger = logging.getLogger("codecall")

COLLECTION: Final = "codecall_observed_output"
"""The collection of the store that holds what is learned; one entry for each tool, under 32 hexadecimal digits."""

KEPT_DAYS: Final = 90
"""Days after it was last written that an entry is kept."""

SECONDS: Final = 1.0
"""How long one request to the store may take."""

REST_SECONDS: Final = 30.0
"""How long a store that failed is left alone."""

SLOW_SECONDS: Final = 0.25
"""An answer that takes longer is slow."""

SLOW_REST_SECONDS: Final = 5.0
"""How long a store that was slow is not asked."""

DELAY_SECONDS: Final = 1.0
"""How long changes are gathered before they are written."""

FLUSH_SECONDS: Final = 5.0
"""How long the end of a server waits for what is still to be written."""

MAX_UNSAVED: Final = 10_000
"""Tools whose changes wait for a store that does not answer; beyond it the oldest are dropped."""

T = TypeVar("T")


class _Unsaved(NamedTuple):
    current: Callable[[], Kept]
    take: Callable[[Kept], None]


class _Writer(NamedTuple):
    task: asyncio.Task[None]
    now: asyncio.Event
    """Set where it shall not wait any longer."""


class ShapeStore:
    """Learned shapes in a store."""

    def __init__(self, store: KeyValueStore) -> None:
        """
        Args:
            store: the store; it is neither opened nor closed here.
        """
        self._store = store
        self._unsaved: dict[str, _Unsaved] = {}
        self._writers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Writer] = WeakKeyDictionary()
        self._rests_until = 0.0
        self._complained = False

    @property
    def resting(self) -> bool:
        """Whether the store has just failed or was slow, and is not asked."""
        return time.monotonic() < self._rests_until

    async def get(self, key: str) -> Kept | None:
        """What is kept under `key`; None if there is nothing, or the store does not say within its time."""
        if self.resting:
            return None
        asked = time.monotonic()
        try:
            kept = await self._read(key)
        except Exception as failure:
            self._failed(failure)
            return None
        # Whoever asks about fifty tools does not wait for fifty slow answers.
        if time.monotonic() - asked > SLOW_SECONDS:
            self._rests_until = time.monotonic() + SLOW_REST_SECONDS
        return kept

    def save(self, key: str, current: Callable[[], Kept], take: Callable[[Kept], None]) -> None:
        """Write soon what `current` gives then, joined to what is there. Within a running event loop.

        Args:
            key: under what it is kept.
            current: what is known when the time has come.
            take: joins what the store has to that.
        """
        self._unsaved[key] = _Unsaved(current, take)
        if len(self._unsaved) > MAX_UNSAVED:
            del self._unsaved[next(iter(self._unsaved))]
        loop = asyncio.get_running_loop()
        writer = self._writers.get(loop)
        if writer is None or writer.task.done():
            now = asyncio.Event()
            # In a context of its own: it outlives the request, and has nothing to do with who made it.
            task = loop.create_task(self._write_later(now), context=contextvars.Context())
            self._writers[loop] = _Writer(task, now)

    async def flush(self) -> None:
        """Write now what is still to be written, for at most `FLUSH_SECONDS`."""
        writer = self._writers.get(asyncio.get_running_loop())
        if writer is not None and not writer.task.done():
            writer.now.set()
            await asyncio.wait({writer.task}, timeout=FLUSH_SECONDS + SECONDS)
        elif self._unsaved:
            await self._write_all()

    async def _write_later(self, now: asyncio.Event) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(DELAY_SECONDS, self._rests_until - time.monotonic())):
                    await now.wait()
            await self._write_all()
        except asyncio.CancelledError:
            # The event loop ends without a server's end before it, and waits for this task.
            await self._write_all()
            raise
        finally:
            self._writers.pop(asyncio.get_running_loop(), None)

    async def _write_all(self) -> None:
        ends = time.monotonic() + FLUSH_SECONDS
        while self._unsaved and time.monotonic() < ends:
            key, unsaved = self._unsaved.popitem()
            try:
                await self._write(key, unsaved)
            except BaseException as failure:
                # Tried again with the next change.
                self._unsaved.setdefault(key, unsaved)
                if not isinstance(failure, Exception):
                    raise
                self._failed(failure)
                return
        if self._unsaved:
            self._complain(f"Not all learned output shapes were written within {FLUSH_SECONDS:g} s")

    async def _write(self, key: str, unsaved: _Unsaved) -> None:
        there = await self._read(key)
        if there is not None:
            unsaved.take(there)
        kept = unsaved.current()
        if kept == there:
            return
        ttl = KEPT_DAYS * 86_400
        await within(SECONDS, self._store.put(key, as_data(kept), collection=COLLECTION, ttl=ttl))

    async def _read(self, key: str) -> Kept | None:
        data: object = await within(SECONDS, self._store.get(key, collection=COLLECTION))
        if data is None:
            return None
        try:
            return read_kept(data)
        except (ValueError, TypeError, KeyError):
            self._complain("CodeCall does not use what it found in the store of learned output shapes: not its own")
            return None

    def _failed(self, failure: Exception) -> None:
        self._rests_until = time.monotonic() + REST_SECONDS
        self._complain(f"The store of learned output shapes failed ({type(failure).__name__}); calls go on without it")

    def _complain(self, message: str) -> None:
        logger.log(logging.DEBUG if self._complained else logging.WARNING, message)
        self._complained = True
