"""Infers output schemas from the results that tools return, for tools that declare none or an uninformative one.

Schemas are kept per tool as the catalog describes it: a tool that changes its description, its input schema or its
version starts anew. The first results of a tool are read, then fewer and fewer while they add nothing; a caller's first
result from a tool always is. Nothing of a result is kept but types and keys that look like names of fields
(`shapes.is_field_name`); `schema_from_shape` shows a caller only those names that they may see.

A store, where one is configured, is read when the schema of a tool is first needed, and written in the background
(`store.py`).
"""

from __future__ import annotations

import functools
import json
import logging
import marshal
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import is_
from typing import Final

from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.catalog.inference.shapes import (
    ANY_KIND,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NO_VALUES,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    FieldShape,
    ValueShape,
    infer_shape,
    join,
    join_all,
    limit_size,
)
from codecall.catalog.inference.store import ShapeStore, StoredShape
from codecall.options import ObservedOutputOptions
from codecall.schema.model import is_uninformative

logger = logging.getLogger("codecall")

MAX_SKIPPED_RESULTS: Final = 1_024
"""Most results of a tool that are skipped before another one is read."""

MAX_OWNERS: Final = 32
"""Callers of a tool of each of whom one result is read in any case. Names that many callers have seen are public."""

_MAX_SCHEMAS: Final = 8
"""Schemas of one tool that are cached, one for each caller."""

REFRESH_SECONDS: Final = 300.0
"""How long what a store holds of a tool is trusted, before the store is asked again for what other processes added."""

OBSERVED_KEYWORD: Final = "x-observed"
"""Keyword of an inferred schema: how many results it is made from, and whether parts of them were not read."""

_TYPES: Final = {
    OBJECT: "object",
    ARRAY: "array",
    STRING: "string",
    NUMBER: "number",
    INTEGER: "integer",
    BOOLEAN: "boolean",
    NULL: "null",
}

_MIN_DICTIONARY_VALUES: Final = 8
"""From so many values on, an object whose values are all objects with the same fields is a dictionary."""

_COUNTS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)


class OutputObserver:
    """Infers the output schemas of the tools of one plugin, on all its servers and event loops."""

    def __init__(self, options: ObservedOutputOptions) -> None:
        """
        Args:
            options: what is inferred, for whom, and where it is stored.
        """
        self._options = options
        self._records: dict[str, _ToolRecord] = {}
        self._latest: dict[str, _ToolRecord] = {}
        self._lock = threading.Lock()
        self._store = None if options.store is None else ShapeStore(options.store)

    def observe(self, entry: CatalogEntry, value: str, owner: str = "") -> None:
        """Learns from the result of a call. Needs a running event loop; never fails, and takes a millisecond at most.

        Args:
            entry: the tool.
            value: the JSON text of the value that the script got.
            owner: the caller who got it.
        """
        if not self._options.enabled or entry.kind != "tool" or not is_uninformative(entry.output_schema):
            return
        slot = self._slot(entry, owner)
        record = self._latest.get(slot)
        if record is not None and record.may_be_for(entry):
            record.skip -= 1
            if record.skip > 0 and (owner in record.owners or len(record.owners) >= MAX_OWNERS):
                return
        try:
            self._read_result(self._record(entry, owner), value, owner)
        except Exception:
            # The call was a success, and has to stay one.
            logger.exception("CodeCall could not learn from a result of tool %r", entry.name)

    async def output_schema(self, entry: CatalogEntry, owner: str = "") -> JsonObject | None:
        """Returns the inferred JSON Schema of a tool's results, with the keyword `x-observed`; it must not be modified.

        Returns None while nothing is known of the results, and for tools that declare an output schema. A configured
        store is asked; one that fails or does not answer counts as empty.

        Args:
            entry: the tool.
            owner: the caller who will see the schema.
        """
        if not self._options.enabled or entry.kind != "tool" or not is_uninformative(entry.output_schema):
            return None
        if self._store is None and self._slot(entry, owner) not in self._latest:
            return None
        record = self._record(entry, owner)
        if self._store is not None and (
            record.store_read_at is None or record.store_read_at < time.monotonic() - REFRESH_SECONDS
        ):
            stored = await self._store.get(record.key)
            if stored is not None or not self._store.paused:
                record.store_read_at = time.monotonic()
            if stored is not None:
                _merge(record, stored)
                if stored.stale:
                    self._save(record)
        viewer = _pseudonym(record.key, owner)
        wanted = viewer, rounded_count(record.results), record.partial
        if wanted not in record.schemas:
            if len(record.schemas) >= _MAX_SCHEMAS:
                record.schemas.clear()
            record.schemas[wanted] = schema_from_shape(
                record.shape, viewer, results=record.results, partial=record.partial
            )
        return record.schemas[wanted]

    async def flush(self) -> None:
        """Writes unsaved changes to the store, within a few seconds; a failure is logged."""
        if self._store is not None:
            await self._store.flush()

    def _read_result(self, record: _ToolRecord, value: str, owner: str) -> None:
        record.results_read += 1
        if len(record.owners) < MAX_OWNERS:
            record.owners.add(owner)
        inferred = infer_shape(value, _pseudonym(record.key, owner))
        if inferred is not None:
            count_before = rounded_count(record.results)
            record.results += 1
            changed = record.learn(inferred.shape, partial=inferred.partial)
            record.unchanged_reads = 0 if changed else record.unchanged_reads + 1
            if changed or count_before != rounded_count(record.results):
                self._save(record)
        # Twice as far apart with each read that adds nothing; and whatever they add, ever fewer.
        record.skip = min(
            MAX_SKIPPED_RESULTS, max(1 << min(max(record.unchanged_reads - 2, 0), 10), record.results_read // 4)
        )

    def _slot(self, entry: CatalogEntry, owner: str) -> str:
        return f"{owner}\0{entry.name}" if self._options.per_caller else entry.name

    def _record(self, entry: CatalogEntry, owner: str) -> _ToolRecord:
        """The record of the tool as this entry describes it; it becomes the last one to be dropped."""
        slot = self._slot(entry, owner)
        record = self._latest.get(slot)
        if record is None or not record.is_for(entry):
            key = _key(entry, owner if self._options.per_caller else None)
            record = self._records.get(key) or _ToolRecord(key, slot, entry)
            record.entry = entry
        with self._lock:
            self._latest[slot] = record
            self._records.pop(record.key, None)
            self._records[record.key] = record
            if len(self._records) > self._options.max_tools:
                oldest = self._records.pop(next(iter(self._records)))
                if self._latest.get(oldest.slot) is oldest:
                    del self._latest[oldest.slot]
        return record

    def _save(self, record: _ToolRecord) -> None:
        def current() -> StoredShape:
            return StoredShape(record.shape, record.results, record.partial)

        if self._store is not None:
            self._store.save(record.key, current, functools.partial(_merge, record))


def rounded_count(results: int) -> int:
    """Rounds the number of results down, so that no caller can count the calls of others."""
    return max((count for count in _COUNTS if count <= results), default=0)


def schema_from_shape(shape: ValueShape, viewer: str, *, results: int, partial: bool) -> JsonObject | None:
    """Converts the shape of a tool's results to a JSON Schema; returns None if nothing is known of them.

    Args:
        shape: the shape of the results.
        viewer: the caller who will see the schema, as in `FieldShape.owner`.
        results: how many results the shape is made from.
        partial: whether some of them were read only in part.
    """
    schema = _schema(shape, viewer)
    if not schema:
        return None
    schema[OBSERVED_KEYWORD] = {"results": rounded_count(results)} | ({"partial": True} if partial else {})
    return schema


@dataclass(slots=True, eq=False)
class _ToolRecord:
    """What is known of the results of one tool."""

    key: str
    slot: str
    entry: CatalogEntry
    shape: ValueShape = NO_VALUES
    results: int = 0
    partial: bool = False
    results_read: int = 0
    unchanged_reads: int = 0
    """Results read in a row that added nothing."""
    skip: int = 0
    """Results to skip until one is read."""
    owners: set[str] = field(default_factory=set[str])
    store_read_at: float | None = None
    """The time at which the store was last asked about the tool."""
    schemas: dict[tuple[str, int, bool], JsonObject | None] = field(
        default_factory=dict[tuple[str, int, bool], JsonObject | None]
    )

    def may_be_for(self, entry: CatalogEntry) -> bool:
        """Whether the entry describes the same tool, its input schema aside."""
        known = self.entry
        return entry is known or (entry.version == known.version and entry.description == known.description)

    def is_for(self, entry: CatalogEntry) -> bool:
        """Whether the entry describes the same tool, as far as can be told without comparing its schema by value."""
        known, schema = self.entry.input_schema, entry.input_schema
        if not self.may_be_for(entry):
            return False
        # Copies of a tool, as mounted servers make them, hold the same objects.
        return known is schema or (known.keys() == schema.keys() and all(map(is_, known.values(), schema.values())))

    def learn(self, shape: ValueShape, *, partial: bool) -> bool:
        """Joins `shape` to what is known; returns whether that changed anything."""
        joined = join(self.shape, shape)
        if joined is not self.shape:
            joined = limit_size(joined)
        changed = joined != self.shape or (partial and not self.partial)
        if changed:
            self.shape = joined
            self.partial = self.partial or partial
            self.schemas.clear()
        return changed


def _merge(record: _ToolRecord, stored: StoredShape) -> None:
    """Joins what the store holds to what is known here."""
    record.results = max(record.results, stored.results)
    record.learn(stored.shape, partial=stored.partial)


def _key(entry: CatalogEntry, owner: str | None) -> str:
    """The key of a tool: a digest of its name and of what the catalog says of it."""
    description = (entry.name, entry.version, entry.description, entry.input_schema, owner)
    try:
        serialized = marshal.dumps(description, 2)
    except ValueError:
        # Not plain data. What JSON cannot write either is told apart by its type alone.
        serialized = json.dumps(description, default=lambda item: type(item).__name__, skipkeys=True).encode()
    return blake2b(serialized, digest_size=16).hexdigest()


def _pseudonym(key: str, owner: str) -> str:
    """A pseudonym of a caller, a different one for each tool, so that a store does not reveal what tools a caller
    uses."""
    return blake2b(f"{key}\0{owner}".encode(errors="replace"), digest_size=8).hexdigest()


def _schema(shape: ValueShape, viewer: str) -> JsonObject:
    kinds = shape.kinds
    if kinds & ANY_KIND:
        return {}
    if kinds & NUMBER:
        kinds &= ~INTEGER
    types = [name for kind, name in _TYPES.items() if kinds & kind]
    if not types:
        return {}
    schema: JsonObject = {"type": types[0] if len(types) == 1 else types}
    if shape.items is not None and (items := _schema(shape.items, viewer)):
        schema["items"] = items
    if kinds & OBJECT:
        schema |= _object(shape, viewer)
    return schema


def _object(shape: ValueShape, viewer: str) -> JsonObject:
    fields = {key: name for key, name in _fields(shape).items() if name.owner in (None, viewer)}
    hidden_shapes = [name.shape for key, name in shape.fields.items() if key not in fields]
    if not fields:
        values = join_all([*hidden_shapes, *([] if shape.other_values is None else [shape.other_values])])
        if values is None:
            return {} if shape.complete else {"additionalProperties": True}
        return {"additionalProperties": _schema(values, viewer) or True}
    schema: JsonObject = {"properties": {key: _schema(name.shape, viewer) for key, name in fields.items()}}
    if required := [key for key, name in fields.items() if not name.optional]:
        schema["required"] = required
    if hidden_shapes or shape.other_values is not None or not shape.complete:
        schema["additionalProperties"] = True
    return schema


def _fields(shape: ValueShape) -> Mapping[str, FieldShape]:
    """The fields whose names are no data, judged from all objects together."""
    fields = shape.fields
    if len(fields) >= _MIN_DICTIONARY_VALUES and _have_same_fields(name.shape for name in fields.values()):
        return {}
    required = {key: name for key, name in fields.items() if not name.optional}
    # Of fields that may be missing, one object has a good part; of data, each object has its own.
    at_once = max(0, shape.max_fields - len(required))
    max_optional = 4 * at_once + 8 if required else 2 * at_once
    return required if len(fields) - len(required) > max_optional else fields


def _have_same_fields(shapes: Iterable[ValueShape]) -> bool:
    """Whether all are objects with the same fields."""
    kinds = {(shape.kinds, frozenset(shape.fields)) for shape in shapes}
    return len(kinds) == 1 and all(kind == OBJECT and names for kind, names in kinds)
