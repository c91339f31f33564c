"""Shapes of JSON values: their types and names of fields, inferred from results and joined. Never a value.

`infer_shape` reads the beginning of a result's JSON text. The event loop waits meanwhile, so that the work is bounded
and not the result: at most `MAX_CHARS` characters are read, `MAX_VALUES` values visited and `MAX_ITEMS` items of an
array. What was not read is never claimed: an object whose end was not read has no missing fields.
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
"""Levels of nested containers whose inside is kept."""

MAX_FIELDS: Final = 128
"""Fields of one object that are kept. The largest records of public interfaces have about a hundred fields."""

MAX_SHAPES: Final = 300
"""Shapes within the shape of one tool. With more, the most deeply nested ones are left out."""

MAX_CHARS: Final = 8 * 1024
"""Characters of a result that are read: 0.1 to 1 ms."""

MAX_VALUES: Final = 500
"""Values of a result that are visited: 0.1 to 0.4 ms."""

MAX_ITEMS: Final = 32
"""Items of one array, or values of one dictionary, that are visited."""

_TEXT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BRACKET: Final = re.compile(rf'(?:{_TEXT}|[^"\[\]{{}}])*+([\[\]{{}}])', re.DOTALL)
"""The text up to and including the next bracket that is not in a string."""
_COMMA: Final = re.compile(rf'(?:{_TEXT}|[^",])*+,', re.DOTALL)
_OPEN_STRING: Final = re.compile(rf'(?:{_TEXT}|[^"])*+"', re.DOTALL)

MAX_NAME_CHARS: Final = 48
"""Characters of the longest name of a field. Of the 4,300 names in the schemas of 5,000 published tools, none is
longer."""

_FIRST_CHARACTER: Final = re.compile(r"\$?[^\W\d]")
_SEPARATORS: Final = str.maketrans("-$", "__")
_DIGITS: Final = re.compile(r"\d+")
_HEXADECIMAL: Final = re.compile(r"(?<![^\W_])(?=[a-f]*\d)[\da-f]{8,}(?![^\W_])", re.IGNORECASE)
_TOO_LONG_WORD: Final = re.compile(r"[^\W\d_A-Z]{25,}|[A-Z]{17,}")


class FieldShape(NamedTuple):
    """A field of the objects at one place."""

    shape: ValueShape
    optional: bool
    """Whether an object was seen without the field."""
    owner: str | None
    """The only caller whose results had the field; None: the results of several callers had it."""


class ValueShape(NamedTuple):
    """What is known of the values at one place. Compare with `==`; `join` returns an unchanged shape itself."""

    kinds: int
    items: ValueShape | None = None
    """The shape of the items of arrays; None while all arrays were empty."""
    fields: Mapping[str, FieldShape] = {}
    """The fields of objects whose keys look like names of fields."""
    other_values: ValueShape | None = None
    """The shape of the values of objects under all other keys."""
    complete: bool = False
    """Whether an object has been read to its end; if not, a field that was not seen may still exist."""
    max_fields: int = 0
    """The largest number of fields that one object had."""
    dictionary: bool = False
    """Whether objects are dictionaries: no fields are kept, because their keys are data, or too many."""


NO_VALUES: Final = ValueShape(0)
"""The shape of no value at all: joined to a shape it changes nothing."""
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
    """Returns the shape of values of either shape; `one` itself if `other` adds nothing."""
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
    fields = one.fields if dictionary else _join_names(one, other)
    dictionary = dictionary or len(fields) > MAX_FIELDS
    other_values = _join_maybe(one.other_values, other.other_values)
    if dictionary:
        other_values = join_all(
            [*_shapes(other_values), *(name.shape for part in (one, other) for name in part.fields.values())]
        )
        fields = one.fields if one.dictionary else NO_VALUES.fields
        joined = ValueShape(kinds, items, fields, other_values, dictionary=True)
    else:
        joined = ValueShape(
            kinds, items, fields, other_values, one.complete or other.complete, max(one.max_fields, other.max_fields)
        )
    same = all(new is old for new, old in zip(joined[:4], one[:4], strict=True)) and joined[4:] == one[4:]
    return one if same else joined


def join_all(shapes: Iterable[ValueShape]) -> ValueShape | None:
    """Joins shapes; returns None if there are none."""
    return reduce(_join_maybe, shapes, None)


def limit_size(shape: ValueShape) -> ValueShape:
    """Returns `shape` without its most deeply nested levels, where it has more than `MAX_SHAPES` shapes within it."""
    level, count, depth = [shape], 0, 0
    while level and (count := count + len(level)) <= MAX_SHAPES:
        level = [part for item in level for part in _parts(item)]
        depth += 1
    return _cut(shape, depth - 1) if level else shape


def count_shapes(shape: ValueShape) -> int:
    """Returns the number of shapes within `shape`, itself included; `UNKNOWN` does not count."""
    return 1 + sum(map(count_shapes, _parts(shape)))


class InferredShape(NamedTuple):
    """The shape of one result."""

    shape: ValueShape
    partial: bool
    """Whether a part of the result was not read."""


def infer_shape(text: str, owner: str) -> InferredShape | None:
    """Infers the shape of one result from its JSON text; returns None if nothing can be inferred.

    Args:
        text: JSON; it may contain half surrogate pairs as escapes.
        owner: the caller who got the result, as in `FieldShape.owner`.
    """
    is_complete = len(text) <= MAX_CHARS
    beginning, open_levels = (text, 0) if is_complete else _completed(text[:MAX_CHARS])
    try:
        value: object = json.loads(beginning)
    except (ValueError, RecursionError):
        # Nested beyond reading, a number of thousands of digits, or cut before anything was complete.
        shape = _BY_FIRST_CHARACTER.get(text[:MAX_CHARS].lstrip()[:1])
        return None if shape is None else InferredShape(shape, shape is not _STRING)
    builder = _ShapeBuilder(owner)
    shape = builder.build(value, 0, open_levels)
    return InferredShape(shape, builder.partial or open_levels > 0)


def is_field_name(key: str) -> bool:
    """Whether `key` looks like the name of a field.

    Such a name begins like an identifier and has at most `MAX_NAME_CHARS` characters, one group of at most three digits
    (`sha256`, `line_2`), no word of eight or more hexadecimal digits and no run of letters too long for a word. It is
    none of the names that scripts may not use.
    """
    if len(key) > MAX_NAME_CHARS or _FIRST_CHARACTER.match(key) is None or key in NEVER_NAMES:
        return False
    if not key.translate(_SEPARATORS).isidentifier():
        return False
    digits: list[str] = _DIGITS.findall(key)
    if len(digits) > 1 or (digits and len(digits[0]) > 3):
        return False
    return _TOO_LONG_WORD.search(key) is None and _HEXADECIMAL.search(key) is None


def _join_maybe(one: ValueShape | None, other: ValueShape | None) -> ValueShape | None:
    if one is None or other is None:
        return one or other
    return join(one, other)


def _join_names(one: ValueShape, other: ValueShape) -> Mapping[str, FieldShape]:
    fields = dict(one.fields)
    changed = False
    for key, theirs in other.fields.items():
        mine = fields.get(key)
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
        fields[key] = joined
        changed = True
    if other.complete:
        for key, mine in one.fields.items():
            if not mine.optional and key not in other.fields:
                fields[key] = mine._replace(optional=True)
                changed = True
    return fields if changed else one.fields


def _cut(shape: ValueShape, depth: int) -> ValueShape:
    """`shape` with unknown containers at level `depth`."""
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
    """The known shapes directly within `shape`."""
    parts = [name.shape for name in shape.fields.values()]
    parts.extend((*_shapes(shape.items), *_shapes(shape.other_values)))
    return [part for part in parts if not part.kinds & ANY_KIND]


def _shapes(shape: ValueShape | None) -> tuple[ValueShape, ...]:
    return () if shape is None else (shape,)


def _completed(beginning: str) -> tuple[str, int]:
    """Completes the beginning of a JSON text to valid JSON; returns it, and how many containers were open at its end.

    It ends after the last complete value. A string that is cut is a value, too: its type is known.
    """
    closers: list[str] = []
    end = 0
    # Not `finditer`, which would try again at each character after the last bracket.
    while (match := _BRACKET.match(beginning, end)) is not None:
        end = match.end()
        bracket = match[1]
        if bracket in "[{":
            closers.append("]" if bracket == "[" else "}")
        else:
            closers.pop()
    closing = "".join(reversed(closers))
    # From here on there is no bracket outside of a text.
    if (string := _OPEN_STRING.match(beginning, end)) is not None:
        head = beginning[: string.end() - 1].rstrip()
        if head.endswith(":") or (head.endswith(("[", ",")) and closers[-1:] == ["]"]):
            return f'{head}""{closing}', len(closers)
    cut = end
    while (comma := _COMMA.match(beginning, end)) is not None:
        end = comma.end()
        cut = end - 1
    return beginning[:cut] + closing, len(closers)


class _ShapeBuilder:
    """Converts a value to a shape. Values of the same shape, such as the rows of a table, share one object."""

    def __init__(self, owner: str) -> None:
        self.partial = False
        self._owner = owner
        self._remaining = MAX_VALUES
        self._keys_seen: dict[tuple[str, ...], tuple[bool, list[bool]]] = {}
        self._objects: dict[tuple[tuple[str, ...], tuple[int, ...], bool], ValueShape] = {}
        self._arrays: dict[int, ValueShape] = {}

    def build(self, value: object, depth: int, open_levels: int) -> ValueShape:
        """Returns the shape of `value`, whose last `open_levels` containers were cut off."""
        self._remaining -= 1
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
            if self._remaining <= 0:
                self.partial = True
                break
            item_shape = self.build(item, depth + 1, _open_levels_of(open_levels, index, items))
            shape = item_shape if shape is None else join(shape, item_shape)
        if shape is None:
            return _SOME_ARRAY
        # A shape is kept as part of what was made of it, so that its `id` stays its own.
        return self._arrays.setdefault(id(shape), ValueShape(ARRAY, shape))

    def _object(self, fields: dict[str, object], depth: int, open_levels: int) -> ValueShape:
        if depth == MAX_DEPTH:
            return ANY_OBJECT
        keys = tuple(fields)
        dictionary, _ = self._classify_keys(keys)
        shapes: list[ValueShape] = []
        for index, field in enumerate(fields.values()):
            if self._remaining <= 0 or (dictionary and index >= MAX_ITEMS):
                self.partial = True
                break
            shapes.append(self.build(field, depth + 1, _open_levels_of(open_levels, index, fields)))
        complete = not open_levels and len(shapes) == len(fields)
        key = keys, tuple(map(id, shapes)), complete
        known_shape = self._objects.get(key)
        if known_shape is None:
            known_shape = self._objects[key] = self._new_object(keys, shapes, complete=complete)
        return known_shape

    def _new_object(self, keys: tuple[str, ...], shapes: list[ValueShape], *, complete: bool) -> ValueShape:
        dictionary, are_names = self._classify_keys(keys)
        if dictionary:
            return ValueShape(OBJECT, other_values=join_all(shapes), dictionary=True)
        named: dict[str, FieldShape] = {}
        others: list[ValueShape] = []
        for key, is_name, shape in zip(keys, are_names, shapes, strict=False):
            if is_name:
                named[key] = FieldShape(shape, False, self._owner)
            else:
                others.append(shape)
        return ValueShape(OBJECT, fields=named, other_values=join_all(others), complete=complete, max_fields=len(named))

    def _classify_keys(self, keys: tuple[str, ...]) -> tuple[bool, list[bool]]:
        """Whether an object with these keys is a dictionary, and if not, which of the keys are names of fields."""
        result = self._keys_seen.get(keys)
        if result is None:
            are_names = [] if len(keys) > MAX_FIELDS else list(map(is_field_name, keys))
            result = self._keys_seen[keys] = bool(keys) and 2 * sum(are_names) <= len(keys), are_names
        return result


def _open_levels_of(open_levels: int, index: int, container: dict[str, object] | list[object]) -> int:
    """How many levels are open in the value at `index`: it must be the last one."""
    return open_levels - 1 if open_levels and index == len(container) - 1 else 0
