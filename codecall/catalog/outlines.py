"""What is known of the shape of a tool's results: types, and names of fields. Never a value.

A `Shape` is what many values at one place have in common, and shapes join: in any order, in any grouping, the same one
twice or once. So what two processes have learned apart is one shape as soon as they meet. Where there would be too much
to keep, the shape says less: an object with too many names is a dictionary, and what is nested too deeply is anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final, NamedTuple

NULL, BOOLEAN, INTEGER, NUMBER, STRING, ARRAY, OBJECT, ANYTHING = (1 << bit for bit in range(8))
"""The kinds of JSON values, as bits; `ANYTHING` stands for all of them, with nothing known."""

MAX_DEPTH: Final = 8
"""Containers within containers of which the inside is known."""

MAX_NAMES: Final = 128
"""Names that are kept of one object. The largest records of public interfaces have about a hundred fields."""

MAX_SHAPES: Final = 300
"""Shapes within the shape of one tool. With more, what is nested most deeply is left out."""


class Name(NamedTuple):
    """A name of a field, in the objects seen at one place."""

    shape: Shape
    missing: bool
    """An object was seen without it."""
    owner: str | None
    """The only caller whose results had it; None: the results of several had it."""


class Shape(NamedTuple):
    """What is known of the values at one place. Compare with `==`; `join` gives back what did not change."""

    kinds: int
    items: Shape | None = None
    """Of arrays: their items; None while all were empty."""
    names: Mapping[str, Name] = {}
    """Of objects: what looks like names of fields."""
    rest: Shape | None = None
    """Of objects: the values under all other names."""
    whole: bool = False
    """An object has been read to its end; without it a name that was not seen is not missing."""
    widest: int = 0
    """Most names that one object had at the same time."""
    dictionary: bool = False
    """No names are kept, because they are data, or too many; nor is anything about names."""


NOTHING: Final = Shape(0)
"""Of no value at all: joined to a shape it changes nothing."""
UNKNOWN: Final = Shape(ANYTHING)
ANY_OBJECT: Final = Shape(OBJECT, rest=UNKNOWN, dictionary=True)
"""An object of which nothing will ever be known."""
ANY_ARRAY: Final = Shape(ARRAY, items=UNKNOWN)
"""An array of which nothing will ever be known."""


def join(one: Shape, other: Shape) -> Shape:
    """What values of either shape have in common; `one` itself if `other` says nothing new."""
    if one is other or one.kinds & ANYTHING:
        return one
    if other.kinds & ANYTHING:
        return UNKNOWN
    kinds = one.kinds | other.kinds
    items = _join_maybe(one.items, other.items)
    if not other.kinds & OBJECT:
        if kinds == one.kinds and items is one.items:
            return one
        return one._replace(kinds=kinds, items=items)
    if not one.kinds & OBJECT:
        return other._replace(kinds=kinds, items=items)
    dictionary = one.dictionary or other.dictionary
    names = one.names if dictionary else _join_names(one, other)
    dictionary = dictionary or len(names) > MAX_NAMES
    rest = _join_maybe(one.rest, other.rest)
    if dictionary:
        rest = join_all([*_shapes(rest), *(name.shape for part in (one, other) for name in part.names.values())])
        names = one.names if one.dictionary else NOTHING.names
        joined = Shape(kinds, items, names, rest, dictionary=True)
    else:
        joined = Shape(kinds, items, names, rest, one.whole or other.whole, max(one.widest, other.widest))
    same = all(new is old for new, old in zip(joined[:4], one[:4], strict=True)) and joined[4:] == one[4:]
    return one if same else joined


def join_all(shapes: Iterable[Shape]) -> Shape | None:
    """What all of them have in common; None if there are none."""
    return reduce(_join_maybe, shapes, None)


def fitted(shape: Shape) -> Shape:
    """`shape` without what is nested so deeply that it would have more than `MAX_SHAPES` within it."""
    level, count, depth = [shape], 0, 0
    while level and (count := count + len(level)) <= MAX_SHAPES:
        level = [part for item in level for part in _parts(item)]
        depth += 1
    return _cut(shape, depth - 1) if level else shape


def size(shape: Shape) -> int:
    """How many shapes there are within `shape`, itself included; `UNKNOWN` does not count."""
    return 1 + sum(map(size, _parts(shape)))


def _join_maybe(one: Shape | None, other: Shape | None) -> Shape | None:
    if one is None or other is None:
        return one or other
    return join(one, other)


def _join_names(one: Shape, other: Shape) -> Mapping[str, Name]:
    names = dict(one.names)
    changed = False
    for key, theirs in other.names.items():
        mine = names.get(key)
        if mine is theirs:
            continue
        if mine is None:
            joined = theirs._replace(missing=True) if one.whole else theirs
        else:
            shape = join(mine.shape, theirs.shape)
            owner = mine.owner if mine.owner == theirs.owner else None
            missing = mine.missing or theirs.missing
            if shape is mine.shape and owner == mine.owner and missing == mine.missing:
                continue
            joined = Name(shape, missing, owner)
        names[key] = joined
        changed = True
    if other.whole:
        for key, mine in one.names.items():
            if not mine.missing and key not in other.names:
                names[key] = mine._replace(missing=True)
                changed = True
    return names if changed else one.names


def _cut(shape: Shape, depth: int) -> Shape:
    """`shape` with nothing said of containers that are `depth` deep."""
    if not shape.kinds & (ARRAY | OBJECT):
        return shape
    if not depth:
        parts = [part for part in (ANY_ARRAY, ANY_OBJECT) if shape.kinds & part.kinds]
        return reduce(join, parts, Shape(shape.kinds & ~(ARRAY | OBJECT)))
    return shape._replace(
        items=None if shape.items is None else _cut(shape.items, depth - 1),
        names={key: name._replace(shape=_cut(name.shape, depth - 1)) for key, name in shape.names.items()},
        rest=None if shape.rest is None else _cut(shape.rest, depth - 1),
    )


def _parts(shape: Shape) -> list[Shape]:
    """What is known within `shape`."""
    parts = [name.shape for name in shape.names.values()]
    parts.extend((*_shapes(shape.items), *_shapes(shape.rest)))
    return [part for part in parts if not part.kinds & ANYTHING]


def _shapes(shape: Shape | None) -> tuple[Shape, ...]:
    return () if shape is None else (shape,)
