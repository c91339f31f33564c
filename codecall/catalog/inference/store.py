"""Persists inferred shapes in a store, so that they survive a restart and several servers learn together.

A store may fail, hang, or hold foreign data, and calls must not notice: no request to it waits longer than
`REQUEST_SECONDS`, a store that failed or was slow is left alone for a while, problems are logged once, and data is used
only if it is in every detail what could have been written here. Writing is joining (`shapes.join`): the stored shape is
read first, so that no process undoes what another has learned; of two processes that write in the same moment one may
lose, and its shape is written with its next change.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, cast
from weakref import WeakKeyDictionary

from codecall.catalog.inference.shapes import (
    ANY_KIND,
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_SHAPES,
    OBJECT,
    UNKNOWN,
    FieldShape,
    ValueShape,
    is_field_name,
)
from codecall.key_value import CheckedStore, KeyValueStore, StoreError

logger = logging.getLogger("codecall")

COLLECTION: Final = "codecall_observed_output"
"""The collection of the store; it has one entry for each tool, under 32 hexadecimal digits."""

TTL_DAYS: Final = 90
"""Days after its last write that an entry is kept."""

REQUEST_SECONDS: Final = 1.0
"""How long one request to the store may take."""

PAUSE_SECONDS: Final = 30.0
"""How long a store that failed is not asked."""

SLOW_SECONDS: Final = 0.25
"""A request that takes longer is slow."""

SLOW_PAUSE_SECONDS: Final = 5.0
"""How long a store that was slow is not asked."""

DELAY_SECONDS: Final = 1.0
"""How long changes are collected before they are written."""

FLUSH_SECONDS: Final = 5.0
"""How long the shutdown of a server waits for unsaved changes."""

MAX_UNSAVED: Final = 10_000
"""Tools with unsaved changes; with more, the oldest changes are dropped."""

STALE_DAYS: Final = 7
"""Days after which a stored shape that is still used is written again, unchanged."""

_LAYOUT: Final = 1
_MAX_RESULTS: Final = 1_000_000
_OWNER_CHARS: Final = 16


class ShapeStore:
    """Reads and writes shapes in a key-value store."""

    def __init__(self, store: KeyValueStore) -> None:
        """
        Args:
            store: the store; this class neither opens nor closes it.
        """
        self._store = CheckedStore(store, COLLECTION, REQUEST_SECONDS)
        self._unsaved: dict[str, _UnsavedShape] = {}
        self._writers: WeakKeyDictionary[asyncio.AbstractEventLoop, _WriterTask] = WeakKeyDictionary()
        self._paused_until = 0.0
        self._warned = False

    @property
    def paused(self) -> bool:
        """Whether the store has just failed or was slow, and is not asked for a while."""
        return time.monotonic() < self._paused_until

    async def get(self, key: str) -> StoredShape | None:
        """Returns the shape under `key`; None if there is none, or the store does not answer in time."""
        if self.paused:
            return None
        started = time.monotonic()
        try:
            stored = await self._read(key)
        except Exception as failure:
            self._pause(failure)
            return None
        # A request about fifty tools does not wait for fifty slow answers.
        if time.monotonic() - started > SLOW_SECONDS:
            self._paused_until = time.monotonic() + SLOW_PAUSE_SECONDS
        return stored

    def save(self, key: str, current: Callable[[], StoredShape], merge: Callable[[StoredShape], None]) -> None:
        """Schedules a write of the current shape, joined to the stored one. Needs a running event loop.

        Args:
            key: the key of the tool.
            current: returns the shape when it is written.
            merge: joins the stored shape to the current one.
        """
        self._unsaved[key] = _UnsavedShape(current, merge)
        if len(self._unsaved) > MAX_UNSAVED:
            del self._unsaved[next(iter(self._unsaved))]
        loop = asyncio.get_running_loop()
        writer = self._writers.get(loop)
        if writer is None or writer.task.done():
            now = asyncio.Event()
            # In a context of its own: it outlives the request, and has nothing to do with who made it.
            task = loop.create_task(self._write_later(now), context=contextvars.Context())
            self._writers[loop] = _WriterTask(task, now)

    async def flush(self) -> None:
        """Writes all unsaved changes now, for at most `FLUSH_SECONDS`."""
        writer = self._writers.get(asyncio.get_running_loop())
        if writer is not None and not writer.task.done():
            writer.now.set()
            await asyncio.wait({writer.task}, timeout=FLUSH_SECONDS + REQUEST_SECONDS)
        elif self._unsaved:
            await self._write_all()

    async def _write_later(self, now: asyncio.Event) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(DELAY_SECONDS, self._paused_until - time.monotonic())):
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
                self._pause(failure)
                return
        if self._unsaved:
            self._warn_once(f"Not all learned output shapes were written within {FLUSH_SECONDS:g} s")

    async def _write(self, key: str, unsaved: _UnsavedShape) -> None:
        stored = await self._read(key)
        if stored is not None:
            unsaved.merge(stored)
        current = unsaved.current()
        if current == stored:
            return
        await self._store.put(key, stored_shape_to_json(current), TTL_DAYS * 86_400)

    async def _read(self, key: str) -> StoredShape | None:
        data = await self._store.get(key)
        if data is None:
            return None
        try:
            return stored_shape_from_json(data)
        except (ValueError, TypeError, KeyError):
            self._warn_once("CodeCall does not use what it found in the store of learned output shapes: not its own")
            return None

    def _pause(self, failure: Exception) -> None:
        self._paused_until = time.monotonic() + PAUSE_SECONDS
        reason = failure.reason if isinstance(failure, StoreError) else type(failure).__name__
        self._warn_once(f"The store of learned output shapes failed ({reason}); calls go on without it")

    def _warn_once(self, message: str) -> None:
        logger.log(logging.DEBUG if self._warned else logging.WARNING, message)
        self._warned = True


class StoredShape(NamedTuple):
    """The shape of a tool's results as the store holds it."""

    shape: ValueShape
    results: int
    partial: bool
    stale: bool = False
    """Whether it should be written again before it expires."""


def stored_shape_to_json(stored: StoredShape) -> dict[str, object]:
    """Converts a stored shape to JSON data."""
    return {
        "layout": _LAYOUT,
        "day": _today(),
        "results": min(stored.results, _MAX_RESULTS),
        "partial": stored.partial,
        "shape": _as_data(stored.shape),
    }


def stored_shape_from_json(data: object) -> StoredShape:
    """Reads a stored shape from the data of `stored_shape_to_json`.

    Raises:
        ValueError, TypeError, KeyError: the data has another form.
    """
    fields = _mapping(data)
    if fields["layout"] != _LAYOUT:
        raise ValueError("layout")
    shape = _ShapeReader().shape(fields["shape"], 0)
    results = _integer(fields["results"], _MAX_RESULTS)
    day = _integer(fields["day"], _today() + 1)
    return StoredShape(shape, results, _boolean(fields["partial"]), stale=day < _today() - STALE_DAYS)


class _UnsavedShape(NamedTuple):
    current: Callable[[], StoredShape]
    merge: Callable[[StoredShape], None]


class _WriterTask(NamedTuple):
    task: asyncio.Task[None]
    now: asyncio.Event
    """Set to write at once."""


def _as_data(shape: ValueShape) -> dict[str, object]:
    """A shape as JSON data; fields with the values of an empty shape are left out."""
    data: dict[str, object] = {"kinds": shape.kinds}
    if shape.items is not None:
        data["items"] = _as_data(shape.items)
    if shape.fields:
        # A list, because stores may sort the keys of an object, and the order of fields is worth keeping.
        data["names"] = [[key, _as_data(name.shape), name.optional, name.owner] for key, name in shape.fields.items()]
    if shape.other_values is not None:
        data["rest"] = _as_data(shape.other_values)
    if shape.kinds & OBJECT:
        data |= {"whole": shape.complete, "widest": shape.max_fields, "dictionary": shape.dictionary}
    return data


class _ShapeReader:
    """Reads and validates shapes that anyone may have written."""

    def __init__(self) -> None:
        self._remaining = 3 * MAX_SHAPES  # of which two thirds may be what is not known

    def shape(self, data: object, depth: int) -> ValueShape:
        """Reads a shape.

        Raises:
            ValueError, TypeError, KeyError: the data is not a shape.
        """
        self._remaining -= 1
        if self._remaining < 0 or depth > MAX_DEPTH:
            raise ValueError("too much")
        fields = _mapping(data)
        kinds = _integer(fields["kinds"], 2 * ANY_KIND - 1)
        if kinds & ANY_KIND:
            return UNKNOWN
        listed = _list(fields.get("names", []))
        if len(listed) > MAX_FIELDS:
            raise ValueError("names")
        return ValueShape(
            kinds,
            self._part(fields, "items", depth),
            dict(self._name(name, depth) for name in listed),
            self._part(fields, "rest", depth),
            _boolean(fields.get("whole", False)),
            _integer(fields.get("widest", 0), MAX_FIELDS),
            _boolean(fields.get("dictionary", False)),
        )

    def _part(self, fields: Mapping[str, object], key: str, depth: int) -> ValueShape | None:
        return self.shape(fields[key], depth + 1) if key in fields else None

    def _name(self, data: object, depth: int) -> tuple[str, FieldShape]:
        key, shape, missing, owner = _list(data)
        if not (isinstance(key, str) and is_field_name(key)):
            raise ValueError("name")
        if not (owner is None or (isinstance(owner, str) and len(owner) <= _OWNER_CHARS)):
            raise ValueError("owner")
        return key, FieldShape(self.shape(shape, depth + 1), _boolean(missing), owner)


def _list(data: object) -> list[object]:
    if not isinstance(data, list):
        raise TypeError("list")
    return cast("list[object]", data)


def _mapping(data: object) -> Mapping[str, object]:
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in cast("Mapping[object, object]", data)):
        raise TypeError("mapping")
    return cast("Mapping[str, object]", data)


def _integer(data: object, limit: int) -> int:
    if not isinstance(data, int) or isinstance(data, bool) or not 0 <= data <= limit:
        raise ValueError("number")
    return data


def _boolean(data: object) -> bool:
    if not isinstance(data, bool):
        raise TypeError("switch")
    return data


def _today() -> int:
    return int(time.time() // 86_400)
