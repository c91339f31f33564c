"""From the JSON text of one result to its shape, by looking at its beginning.

The event loop waits meanwhile, so that the work is bounded and not the result: at most `MAX_CHARS` characters are read,
`MAX_VALUES` values looked at and `MAX_ITEMS` items of an array. What was not read is never claimed: an object whose end
was not seen has no missing names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import islice
from typing import Final, NamedTuple, cast

from codecall.sandbox.agentscript.policy import NEVER_NAMES

NULL, BOOLEAN, INTEGER, NUMBER, STRING, ARRAY, OBJECT, ANY_KIND = (1 << bit for bit in range(8))
"""The kinds of JSON values, as bits; `ANYTHING` stands for all of them, with nothing known."""

MAX_DEPTH: Final = 8
"""Containers within containers of which the inside is known."""

MAX_FIELDS: Final = 128
"""Names that are kept of one object. The largest records of public interfaces have about a hundred fields."""

MAX_SHAPES: Final = 300
"""Shapes within the shape of one tool. With more, what is nested most deeply is left out."""

MAX_CHARS: Final = 8 * 1024
"""Characters of a result that are read: 0.1 to 1 ms."""

MAX_VALUES: Final = 500
"""Values of a result that are looked at: 0.1 to 0.4 ms."""

MAX_ITEMS: Final = 32
"""Items of one array, or values of one dictionary, that are looked at."""

_TEXT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BRACKET: Final = re.compile(rf'(?:{_TEXT}|[^"\[\]{{}}])*+([\[\]{{}}])', re.DOTALL)
"""What stands before the next bracket, texts as a whole, and the bracket."""
_COMMA: Final = re.compile(rf'(?:{_TEXT}|[^",])*+,', re.DOTALL)
_UNENDED: Final = re.compile(rf'(?:{_TEXT}|[^"])*+"', re.DOTALL)

MAX_NAME_CHARS: Final = 48
"""Longest name of a field. Of the 4,300 names in the schemas of 5,000 published tools, none is longer."""

_BEGINNING: Final = re.compile(r"\$?[^\W\d]")
_JOINTS: Final = str.maketrans("-$", "__")
_DIGITS: Final = re.compile(r"\d+")
_HEXADECIMAL: Final = re.compile(r"(?<![^\W_])(?=[a-f]*\d)[\da-f]{8,}(?![^\W_])", re.IGNORECASE)
_ENDLESS: Final = re.compile(r"[^\W\d_A-Z]{25,}|[A-Z]{17,}")


class FieldShape(NamedTuple):
    """A name of a field, in the objects seen at one place."""

    shape: ValueShape
    optional: bool
    """An object was seen without it."""
    owner: str | None
    """The only caller whose results had it; None: the results of several had it."""


class ValueShape(NamedTuple):
    """What is known of the values at one place. Compare with `==`; `join` gives back what did not change."""

    kinds: int
    items: ValueShape | None = None
    """Of arrays: their items; None while all were empty."""
    fields: Mapping[str, FieldShape] = {}
    """Of objects: what looks like names of fields."""
    other_values: ValueShape | None = None
    """Of objects: the values under all other names."""
    complete: bool = False
    """An object has been read to its end; without it a name that was not seen is not missing."""
    max_fields: int = 0
    """Most names that one object had at the same time."""
    dictionary: bool = False
    """No names are kept, because they are data, or too many; nor is anything about names."""


NO_VALUES: Final = ValueShape(0)
"""Of no value at all: joined to a shape it changes nothing."""
UNKNOWN: Final = ValueShape(ANY_KIND)
ANY_OBJECT: Final = ValueShape(OBJECT, other_values=UNKNOWN, dictionary=True)
"""An object of which nothing will ever be known."""
ANY_ARRAY: Final = ValueShape(ARRAY, items=UNKNOWN)
"""An array of which nothing will ever be known."""

_STRING: Final = ValueShape(STRING)
_SCALARS: Final[Mapping[type, ValueShape]] = {
    type(None): ValueShape(NULL),
    bool: ValueShape(BOOLEAN),
    int: ValueShape(INTEGER),
    float: ValueShape(NUMBER),
    str: _STRING,
}
_SOME_OBJECT: Final = ValueShape(OBJECT)
_SOME_ARRAY: Final = ValueShape(ARRAY)
_BY_FIRST_CHARACTER: Final = {"{": _SOME_OBJECT, "[": _SOME_ARRAY, '"': _STRING}


def join(one: ValueShape, other: ValueShape) -> ValueShape:
    """What values of either shape have in common; `one` itself if `other` says nothing new."""
    if one is other or one.kinds & ANY_KIND:
        return one
    if other.kinds & ANY_KIND:
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
    names = one.fields if dictionary else _join_names(one, other)
    dictionary = dictionary or len(names) > MAX_FIELDS
    rest = _join_maybe(one.other_values, other.other_values)
    if dictionary:
        rest = join_all([*_shapes(rest), *(name.shape for part in (one, other) for name in part.fields.values())])
        names = one.fields if one.dictionary else NO_VALUES.fields
        joined = ValueShape(kinds, items, names, rest, dictionary=True)
    else:
        joined = ValueShape(
            kinds, items, names, rest, one.complete or other.complete, max(one.max_fields, other.max_fields)
        )
    same = all(new is old for new, old in zip(joined[:4], one[:4], strict=True)) and joined[4:] == one[4:]
    return one if same else joined


def join_all(shapes: Iterable[ValueShape]) -> ValueShape | None:
    """What all of them have in common; None if there are none."""
    return reduce(_join_maybe, shapes, None)


def limit_size(shape: ValueShape) -> ValueShape:
    """`shape` without what is nested so deeply that it would have more than `MAX_SHAPES` within it."""
    level, count, depth = [shape], 0, 0
    while level and (count := count + len(level)) <= MAX_SHAPES:
        level = [part for item in level for part in _parts(item)]
        depth += 1
    return _cut(shape, depth - 1) if level else shape


def count_shapes(shape: ValueShape) -> int:
    """How many shapes there are within `shape`, itself included; `UNKNOWN` does not count."""
    return 1 + sum(map(count_shapes, _parts(shape)))


class InferredShape(NamedTuple):
    """The shape of one result."""

    shape: ValueShape
    partial: bool
    """Something of the result was not read."""


def infer_shape(text: str, owner: str) -> InferredShape | None:
    """The shape of one result, the JSON text of which is given, for a caller; None if nothing can be told.

    Args:
        text: JSON; half surrogate pairs may stand in it as escapes.
        owner: who got it, as `Name.owner` has it.
    """
    whole = len(text) <= MAX_CHARS
    beginning, open_levels = (text, 0) if whole else _closed(text[:MAX_CHARS])
    try:
        value: object = json.loads(beginning)
    except (ValueError, RecursionError):
        # Nested beyond reading, a number of thousands of digits, or cut before anything was complete.
        shape = _BY_FIRST_CHARACTER.get(text[:MAX_CHARS].lstrip()[:1])
        return None if shape is None else InferredShape(shape, shape is not _STRING)
    reader = _Reader(owner)
    shape = reader.read(value, 0, open_levels)
    return InferredShape(shape, reader.partial or open_levels > 0)


def is_field_name(key: str) -> bool:
    """Whether `key` looks like the name of a field.

    Such a name begins like an identifier and has at most `MAX_NAME_CHARS` characters, one group of at most three digits
    (`sha256`, `line_2`), no word of eight or more hexadecimal digits and no run of letters too long for a word. It is
    none of the names that scripts may not use.
    """
    if len(key) > MAX_NAME_CHARS or _BEGINNING.match(key) is None or key in NEVER_NAMES:
        return False
    if not key.translate(_JOINTS).isidentifier():
        return False
    digits: list[str] = _DIGITS.findall(key)
    if len(digits) > 1 or (digits and len(digits[0]) > 3):
        return False
    return _ENDLESS.search(key) is None and _HEXADECIMAL.search(key) is None


def _join_maybe(one: ValueShape | None, other: ValueShape | None) -> ValueShape | None:
    if one is None or other is None:
        return one or other
    return join(one, other)


def _join_names(one: ValueShape, other: ValueShape) -> Mapping[str, FieldShape]:
    names = dict(one.fields)
    changed = False
    for key, theirs in other.fields.items():
        mine = names.get(key)
        if mine is theirs:
            continue
        if mine is None:
            joined = theirs._replace(optional=True) if one.complete else theirs
        else:
            shape = join(mine.shape, theirs.shape)
            owner = mine.owner if mine.owner == theirs.owner else None
            missing = mine.optional or theirs.optional
            if shape is mine.shape and owner == mine.owner and missing == mine.optional:
                continue
            joined = FieldShape(shape, missing, owner)
        names[key] = joined
        changed = True
    if other.complete:
        for key, mine in one.fields.items():
            if not mine.optional and key not in other.fields:
                names[key] = mine._replace(optional=True)
                changed = True
    return names if changed else one.fields


def _cut(shape: ValueShape, depth: int) -> ValueShape:
    """`shape` with nothing said of containers that are `depth` deep."""
    if not shape.kinds & (ARRAY | OBJECT):
        return shape
    if not depth:
        parts = [part for part in (ANY_ARRAY, ANY_OBJECT) if shape.kinds & part.kinds]
        return reduce(join, parts, ValueShape(shape.kinds & ~(ARRAY | OBJECT)))
    return shape._replace(
        items=None if shape.items is None else _cut(shape.items, depth - 1),
        fields={key: name._replace(shape=_cut(name.shape, depth - 1)) for key, name in shape.fields.items()},
        other_values=None if shape.other_values is None else _cut(shape.other_values, depth - 1),
    )


def _parts(shape: ValueShape) -> list[ValueShape]:
    """What is known within `shape`."""
    parts = [name.shape for name in shape.fields.values()]
    parts.extend((*_shapes(shape.items), *_shapes(shape.other_values)))
    return [part for part in parts if not part.kinds & ANY_KIND]


def _shapes(shape: ValueShape | None) -> tuple[ValueShape, ...]:
    return () if shape is None else (shape,)


def _closed(beginning: str) -> tuple[str, int]:
    """The beginning of a JSON text as JSON of its own, and how many containers at its end were open.

    It ends after the last value that is complete. A text that is cut is a value, too: its type is known.
    """
    closers: list[str] = []
    end = 0
    # Not `finditer`, which would try again at each character after the last bracket.
    while (found := _BRACKET.match(beginning, end)) is not None:
        end = found.end()
        bracket = found[1]
        if bracket in "[{":
            closers.append("]" if bracket == "[" else "}")
        else:
            closers.pop()
    closing = "".join(reversed(closers))
    # From here on there is no bracket outside of a text.
    if (text := _UNENDED.match(beginning, end)) is not None:
        before = beginning[: text.end() - 1].rstrip()
        if before.endswith(":") or (before.endswith(("[", ",")) and closers[-1:] == ["]"]):
            return f'{before}""{closing}', len(closers)
    kept = end
    while (comma := _COMMA.match(beginning, end)) is not None:
        end = comma.end()
        kept = end - 1
    return beginning[:kept] + closing, len(closers)


class _Reader:
    """Reads the value of one result. Values of the same shape, such as the rows of a table, get one object."""

    def __init__(self, owner: str) -> None:
        self.partial = False
        self._owner = owner
        self._left = MAX_VALUES
        self._headings: dict[tuple[str, ...], tuple[bool, list[bool]]] = {}
        self._objects: dict[tuple[tuple[str, ...], tuple[int, ...], bool], ValueShape] = {}
        self._arrays: dict[int, ValueShape] = {}

    def read(self, value: object, depth: int, open_levels: int) -> ValueShape:
        """The shape of `value`, of which the last `open_levels` containers were cut off."""
        self._left -= 1
        scalar = _SCALARS.get(type(value))
        if scalar is not None:
            return scalar
        if isinstance(value, dict):
            return self._object(cast("dict[str, object]", value), depth, open_levels)
        return self._array(cast("list[object]", value), depth, open_levels)

    def _array(self, items: list[object], depth: int, open_levels: int) -> ValueShape:
        if depth == MAX_DEPTH:
            return ANY_ARRAY
        if len(items) > MAX_ITEMS:
            self.partial = True
        shape: ValueShape | None = None
        for index, item in enumerate(islice(items, MAX_ITEMS)):
            if self._left <= 0:
                self.partial = True
                break
            read = self.read(item, depth + 1, _below(open_levels, index, items))
            shape = read if shape is None else join(shape, read)
        if shape is None:
            return _SOME_ARRAY
        # A shape is kept as part of what was made of it, so that its `id` stays its own.
        return self._arrays.setdefault(id(shape), ValueShape(ARRAY, shape))

    def _object(self, fields: dict[str, object], depth: int, open_levels: int) -> ValueShape:
        if depth == MAX_DEPTH:
            return ANY_OBJECT
        keys = tuple(fields)
        dictionary, _ = self._heading(keys)
        shapes: list[ValueShape] = []
        for index, field in enumerate(fields.values()):
            if self._left <= 0 or (dictionary and index >= MAX_ITEMS):
                self.partial = True
                break
            shapes.append(self.read(field, depth + 1, _below(open_levels, index, fields)))
        whole = not open_levels and len(shapes) == len(fields)
        alike = keys, tuple(map(id, shapes)), whole
        known = self._objects.get(alike)
        if known is None:
            known = self._objects[alike] = self._made(keys, shapes, whole=whole)
        return known

    def _made(self, keys: tuple[str, ...], shapes: list[ValueShape], *, whole: bool) -> ValueShape:
        dictionary, are_names = self._heading(keys)
        if dictionary:
            return ValueShape(OBJECT, other_values=join_all(shapes), dictionary=True)
        names: dict[str, FieldShape] = {}
        others: list[ValueShape] = []
        for key, is_name, shape in zip(keys, are_names, shapes, strict=False):
            if is_name:
                names[key] = FieldShape(shape, False, self._owner)
            else:
                others.append(shape)
        return ValueShape(OBJECT, fields=names, other_values=join_all(others), complete=whole, max_fields=len(names))

    def _heading(self, keys: tuple[str, ...]) -> tuple[bool, list[bool]]:
        """Whether an object with these keys is a dictionary, and if not, which of them are names."""
        known = self._headings.get(keys)
        if known is None:
            are_names = [] if len(keys) > MAX_FIELDS else list(map(is_field_name, keys))
            known = self._headings[keys] = bool(keys) and 2 * sum(are_names) <= len(keys), are_names
        return known


def _below(open_levels: int, index: int, container: dict[str, object] | list[object]) -> int:
    """How many levels are open in the value at `index`: it must be the last one."""
    return open_levels - 1 if open_levels and index == len(container) - 1 else 0
