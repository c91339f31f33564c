"""Learned shapes as data for a store, and back: what is read is a shape in every detail, or nothing.

Whoever may write to the store may have written it. So what could not have been written here is not read: unknown kinds,
keys that do not look like names of fields, more names, levels or shapes than are ever kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from codecall.catalog.fieldnames import is_field_name
from codecall.catalog.outlines import ANYTHING, MAX_DEPTH, MAX_NAMES, MAX_SHAPES, OBJECT, UNKNOWN, Name, Shape

STALE_DAYS: Final = 7
"""Days after which what is still used is written again, unchanged."""

_LAYOUT: Final = 1
_MAX_RESULTS: Final = 1_000_000
_OWNER_CHARS: Final = 16


class Kept(NamedTuple):
    """What a store holds of a tool."""

    shape: Shape
    results: int
    partial: bool
    stale: bool = False
    """It should be written again, or it will be gone."""


def as_data(kept: Kept) -> dict[str, object]:
    """What is known of a tool as JSON data."""
    return {
        "layout": _LAYOUT,
        "day": _today(),
        "results": min(kept.results, _MAX_RESULTS),
        "partial": kept.partial,
        "shape": _as_data(kept.shape),
    }


def read_kept(data: object) -> Kept:
    """What `as_data` made such data of.

    Raises:
        ValueError, TypeError, KeyError: it did not make it.
    """
    fields = _mapping(data)
    if fields["layout"] != _LAYOUT:
        raise ValueError("layout")
    shape = _ShapeReader().shape(fields["shape"], 0)
    results = _whole(fields["results"], _MAX_RESULTS)
    day = _whole(fields["day"], _today() + 1)
    return Kept(shape, results, _switch(fields["partial"]), stale=day < _today() - STALE_DAYS)


def _as_data(shape: Shape) -> dict[str, object]:
    """A shape as JSON data; what is as in an empty shape is left out."""
    data: dict[str, object] = {"kinds": shape.kinds}
    if shape.items is not None:
        data["items"] = _as_data(shape.items)
    if shape.names:
        # A list, because stores may sort the keys of an object, and the order of fields is worth keeping.
        data["names"] = [[key, _as_data(name.shape), name.missing, name.owner] for key, name in shape.names.items()]
    if shape.rest is not None:
        data["rest"] = _as_data(shape.rest)
    if shape.kinds & OBJECT:
        data |= {"whole": shape.whole, "widest": shape.widest, "dictionary": shape.dictionary}
    return data


class _ShapeReader:
    """Reads shapes that a stranger may have written."""

    def __init__(self) -> None:
        self._left = 3 * MAX_SHAPES  # of which two thirds may be what is not known

    def shape(self, data: object, depth: int) -> Shape:
        """The shape that `data` stands for.

        Raises:
            ValueError, TypeError, KeyError: it stands for none.
        """
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise ValueError("too much")
        fields = _mapping(data)
        kinds = _whole(fields["kinds"], 2 * ANYTHING - 1)
        if kinds & ANYTHING:
            return UNKNOWN
        listed = _list(fields.get("names", []))
        if len(listed) > MAX_NAMES:
            raise ValueError("names")
        return Shape(
            kinds,
            self._part(fields, "items", depth),
            dict(self._name(name, depth) for name in listed),
            self._part(fields, "rest", depth),
            _switch(fields.get("whole", False)),
            _whole(fields.get("widest", 0), MAX_NAMES),
            _switch(fields.get("dictionary", False)),
        )

    def _part(self, fields: Mapping[str, object], key: str, depth: int) -> Shape | None:
        return self.shape(fields[key], depth + 1) if key in fields else None

    def _name(self, data: object, depth: int) -> tuple[str, Name]:
        key, shape, missing, owner = _list(data)
        if not (isinstance(key, str) and is_field_name(key)):
            raise ValueError("name")
        if not (owner is None or (isinstance(owner, str) and len(owner) <= _OWNER_CHARS)):
            raise ValueError("owner")
        return key, Name(self.shape(shape, depth + 1), _switch(missing), owner)


def _list(data: object) -> list[object]:
    if not isinstance(data, list):
        raise TypeError("list")
    return cast("list[object]", data)


def _mapping(data: object) -> Mapping[str, object]:
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in cast("Mapping[object, object]", data)):
        raise TypeError("mapping")
    return cast("Mapping[str, object]", data)


def _whole(data: object, most: int) -> int:
    if not isinstance(data, int) or isinstance(data, bool) or not 0 <= data <= most:
        raise ValueError("number")
    return data


def _switch(data: object) -> bool:
    if not isinstance(data, bool):
        raise TypeError("switch")
    return data


def _today() -> int:
    return int(time.time() // 86_400)
