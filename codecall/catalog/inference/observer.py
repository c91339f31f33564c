"""What the results of tools look like whose output schema is missing or says nothing, learned from results really seen.

Per tool, as the catalog has it: one that changes its description, its input schema or its version starts anew. The
first results of a tool are looked at, then fewer and fewer while they say nothing new; those of a caller who is new to
the tool always are. Nothing of a result is kept but types and what looks like names of fields (`fieldnames`), and who
is shown which name is told in `observed_schema`.

A store, where one is configured, is read when something is asked about a tool for the first time, and written in the
background (`observed_store`).
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
"""Most results of a tool that pass before another one is looked at."""

MAX_OWNERS: Final = 32
"""Callers of whom, for each tool, one result is looked at in any case. Names that many have seen are everybody's."""

_MAX_SCHEMAS: Final = 8
"""Callers for whom a tool's schema is kept ready."""

REFRESH_SECONDS: Final = 300.0
"""How long what a store said of a tool is believed, before it is asked again for what other processes have learned."""

OBSERVED_KEYWORD: Final = "x-observed"
"""Keyword of a schema that was learned: how many results it is made of, and whether parts of them were not read."""

_TYPES: Final = {
    OBJECT: "object",
    ARRAY: "array",
    STRING: "string",
    NUMBER: "number",
    INTEGER: "integer",
    BOOLEAN: "boolean",
    NULL: "null",
}

_ALIKE: Final = 8
"""So many objects of the same names under the names of one object are entries of a dictionary."""

_COUNTS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)


class OutputObserver:
    """What is known of the results of the tools of one plugin, on all its servers and event loops."""

    def __init__(self, options: ObservedOutputOptions) -> None:
        """
        Args:
            options: what is learned, for whom, and where it is kept.
        """
        self._options = options
        self._records: dict[str, _Record] = {}
        self._latest: dict[str, _Record] = {}
        self._changing = threading.Lock()
        self._store = None if options.store is None else ShapeStore(options.store)

    def observe(self, entry: CatalogEntry, value: str, owner: str = "") -> None:
        """Learn from the result of a call. Within a running event loop; never fails, and takes a millisecond at most.

        Args:
            entry: the tool.
            value: JSON text of what the script got.
            owner: who got it.
        """
        if not self._options.enabled or entry.kind != "tool" or not is_uninformative(entry.output_schema):
            return
        slot = self._slot(entry, owner)
        record = self._latest.get(slot)
        if record is not None and record.may_be_of(entry):
            record.wait -= 1
            if record.wait > 0 and (owner in record.owners or len(record.owners) >= MAX_OWNERS):
                return
        try:
            self._look(self._record(entry, owner), value, owner)
        except Exception:
            # The call was a success, and has to stay one.
            logger.exception("CodeCall could not learn from a result of tool %r", entry.name)

    async def output_schema(self, entry: CatalogEntry, owner: str = "") -> JsonObject | None:
        """The JSON Schema of a tool's results as they were seen, with the mark `x-observed`; it is not to be changed.

        None while nothing is known of them, and for tools that declare the form of their output. Where a store is
        configured it is asked; one that fails or does not answer counts as empty.

        Args:
            entry: the tool.
            owner: who is going to see it.
        """
        if not self._options.enabled or entry.kind != "tool" or not is_uninformative(entry.output_schema):
            return None
        if self._store is None and self._slot(entry, owner) not in self._latest:
            return None
        record = self._record(entry, owner)
        if self._store is not None and (record.asked is None or record.asked < time.monotonic() - REFRESH_SECONDS):
            kept = await self._store.get(record.key)
            if kept is not None or not self._store.paused:
                record.asked = time.monotonic()
            if kept is not None:
                _take(record, kept)
                if kept.stale:
                    self._save(record)
        viewer = _tag(record.key, owner)
        wanted = viewer, rounded_count(record.results), record.partial
        if wanted not in record.schemas:
            if len(record.schemas) >= _MAX_SCHEMAS:
                record.schemas.clear()
            record.schemas[wanted] = schema_from_shape(
                record.shape, viewer, results=record.results, partial=record.partial
            )
        return record.schemas[wanted]

    async def flush(self) -> None:
        """Write what the store does not have yet, within a few seconds; what cannot be written is logged."""
        if self._store is not None:
            await self._store.flush()

    def _look(self, record: _Record, value: str, owner: str) -> None:
        record.looks += 1
        if len(record.owners) < MAX_OWNERS:
            record.owners.add(owner)
        read = infer_shape(value, _tag(record.key, owner))
        if read is not None:
            shown = rounded_count(record.results)
            record.results += 1
            changed = record.learn(read.shape, partial=read.partial)
            record.quiet = 0 if changed else record.quiet + 1
            if changed or shown != rounded_count(record.results):
                self._save(record)
        # Twice as far apart with each look that told nothing new; and whatever they tell, ever fewer.
        record.wait = min(MAX_SKIPPED_RESULTS, max(1 << min(max(record.quiet - 2, 0), 10), record.looks // 4))

    def _slot(self, entry: CatalogEntry, owner: str) -> str:
        return f"{owner}\0{entry.name}" if self._options.per_caller else entry.name

    def _record(self, entry: CatalogEntry, owner: str) -> _Record:
        """What is known of the tool as this entry has it; the last one to be forgotten from now on."""
        slot = self._slot(entry, owner)
        record = self._latest.get(slot)
        if record is None or not record.is_of(entry):
            key = _key(entry, owner if self._options.per_caller else None)
            record = self._records.get(key) or _Record(key, slot, entry)
            record.entry = entry
        with self._changing:
            self._latest[slot] = record
            self._records.pop(record.key, None)
            self._records[record.key] = record
            if len(self._records) > self._options.max_tools:
                oldest = self._records.pop(next(iter(self._records)))
                if self._latest.get(oldest.slot) is oldest:
                    del self._latest[oldest.slot]
        return record

    def _save(self, record: _Record) -> None:
        def current() -> StoredShape:
            return StoredShape(record.shape, record.results, record.partial)

        if self._store is not None:
            self._store.save(record.key, current, functools.partial(_take, record))


def rounded_count(results: int) -> int:
    """The number of results as it is shown: round, so that nobody can count the calls of others."""
    return max((count for count in _COUNTS if count <= results), default=0)


def schema_from_shape(shape: ValueShape, viewer: str, *, results: int, partial: bool) -> JsonObject | None:
    """The JSON Schema of a tool's results; None if nothing is known of them.

    Args:
        shape: what is known.
        viewer: who is going to see it, as `Name.owner` has it.
        results: how many results it is made of.
        partial: some of them were read in part.
    """
    schema = _schema(shape, viewer)
    if not schema:
        return None
    schema[OBSERVED_KEYWORD] = {"results": rounded_count(results)} | ({"partial": True} if partial else {})
    return schema


@dataclass(slots=True, eq=False)
class _Record:
    """What is known of one tool."""

    key: str
    slot: str
    entry: CatalogEntry
    shape: ValueShape = NO_VALUES
    results: int = 0
    partial: bool = False
    looks: int = 0
    quiet: int = 0
    """Looks in a row that told nothing new."""
    wait: int = 0
    """Results until the next look."""
    owners: set[str] = field(default_factory=set[str])
    asked: float | None = None
    """When the store was last asked about it."""
    schemas: dict[tuple[str, int, bool], JsonObject | None] = field(
        default_factory=dict[tuple[str, int, bool], JsonObject | None]
    )

    def may_be_of(self, entry: CatalogEntry) -> bool:
        """Whether what the catalog says of the tool is the same, its input schema aside."""
        mine = self.entry
        return entry is mine or (entry.version == mine.version and entry.description == mine.description)

    def is_of(self, entry: CatalogEntry) -> bool:
        """Whether it is about the tool as this entry has it, as far as can be told without reading its schema."""
        mine, schema = self.entry.input_schema, entry.input_schema
        if not self.may_be_of(entry):
            return False
        # Copies of a tool, as mounted servers make them, hold the same objects.
        return mine is schema or (mine.keys() == schema.keys() and all(map(is_, mine.values(), schema.values())))

    def learn(self, shape: ValueShape, *, partial: bool) -> bool:
        """Join `shape` to what is known; whether that changed anything."""
        joined = join(self.shape, shape)
        if joined is not self.shape:
            joined = limit_size(joined)
        changed = joined != self.shape or (partial and not self.partial)
        if changed:
            self.shape = joined
            self.partial = self.partial or partial
            self.schemas.clear()
        return changed


def _take(record: _Record, kept: StoredShape) -> None:
    """Join what the store has to what is known here."""
    record.results = max(record.results, kept.results)
    record.learn(kept.shape, partial=kept.partial)


def _key(entry: CatalogEntry, owner: str | None) -> str:
    """What a tool is kept under: its name, and a digest of what the catalog says of it."""
    said = (entry.name, entry.version, entry.description, entry.input_schema, owner)
    try:
        written = marshal.dumps(said, 2)
    except ValueError:
        # Not plain data. What JSON cannot write either is told apart by its type alone.
        written = json.dumps(said, default=lambda item: type(item).__name__, skipkeys=True).encode()
    return blake2b(written, digest_size=16).hexdigest()


def _tag(key: str, owner: str) -> str:
    """A caller as names know them: another one for each tool, so that a store does not tell what somebody uses."""
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
    names = {key: name for key, name in _fields(shape).items() if name.owner in (None, viewer)}
    hidden = [name.shape for key, name in shape.fields.items() if key not in names]
    if not names:
        values = join_all([*hidden, *([] if shape.other_values is None else [shape.other_values])])
        if values is None:
            return {} if shape.complete else {"additionalProperties": True}
        return {"additionalProperties": _schema(values, viewer) or True}
    described: JsonObject = {"properties": {key: _schema(name.shape, viewer) for key, name in names.items()}}
    if required := [key for key, name in names.items() if not name.optional]:
        described["required"] = required
    if hidden or shape.other_values is not None or not shape.complete:
        described["additionalProperties"] = True
    return described


def _fields(shape: ValueShape) -> Mapping[str, FieldShape]:
    """The names that are fields, and not data, as far as all objects together tell."""
    names = shape.fields
    if len(names) >= _ALIKE and _are_alike(name.shape for name in names.values()):
        return {}
    always = {key: name for key, name in names.items() if not name.optional}
    # Of fields that may be missing, one object has a good part; of data, each object has its own.
    at_once = max(0, shape.max_fields - len(always))
    most = 4 * at_once + 8 if always else 2 * at_once
    return always if len(names) - len(always) > most else names


def _are_alike(shapes: Iterable[ValueShape]) -> bool:
    """Whether all are objects that have the same names."""
    kinds = {(shape.kinds, frozenset(shape.fields)) for shape in shapes}
    return len(kinds) == 1 and all(kind == OBJECT and names for kind, names in kinds)
