"""From the JSON text of one result to its shape, by looking at its beginning.

The event loop waits meanwhile, so that the work is bounded and not the result: at most `MAX_CHARS` characters are read,
`MAX_VALUES` values looked at and `MAX_ITEMS` items of an array. What was not read is never claimed: an object whose end
was not seen has no missing names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple, cast

from codecall.catalog.fieldnames import is_field_name
from codecall.catalog.outlines import (
    ANY_ARRAY,
    ANY_OBJECT,
    ARRAY,
    BOOLEAN,
    INTEGER,
    MAX_DEPTH,
    MAX_NAMES,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Name,
    Shape,
    join,
    join_all,
)

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

_STRING: Final = Shape(STRING)
_SCALARS: Final[Mapping[type, Shape]] = {
    type(None): Shape(NULL),
    bool: Shape(BOOLEAN),
    int: Shape(INTEGER),
    float: Shape(NUMBER),
    str: _STRING,
}
_SOME_OBJECT: Final = Shape(OBJECT)
_SOME_ARRAY: Final = Shape(ARRAY)
_BY_FIRST_CHARACTER: Final = {"{": _SOME_OBJECT, "[": _SOME_ARRAY, '"': _STRING}


class Outline(NamedTuple):
    """The shape of one result."""

    shape: Shape
    partial: bool
    """Something of the result was not read."""


def outline(text: str, owner: str) -> Outline | None:
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
        return None if shape is None else Outline(shape, shape is not _STRING)
    reader = _Reader(owner)
    shape = reader.read(value, 0, open_levels)
    return Outline(shape, reader.partial or open_levels > 0)


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
        self._objects: dict[tuple[tuple[str, ...], tuple[int, ...], bool], Shape] = {}
        self._arrays: dict[int, Shape] = {}

    def read(self, value: object, depth: int, open_levels: int) -> Shape:
        """The shape of `value`, of which the last `open_levels` containers were cut off."""
        self._left -= 1
        scalar = _SCALARS.get(type(value))
        if scalar is not None:
            return scalar
        if isinstance(value, dict):
            return self._object(cast("dict[str, object]", value), depth, open_levels)
        return self._array(cast("list[object]", value), depth, open_levels)

    def _array(self, items: list[object], depth: int, open_levels: int) -> Shape:
        if depth == MAX_DEPTH:
            return ANY_ARRAY
        if len(items) > MAX_ITEMS:
            self.partial = True
        shape: Shape | None = None
        for index, item in enumerate(islice(items, MAX_ITEMS)):
            if self._left <= 0:
                self.partial = True
                break
            read = self.read(item, depth + 1, _below(open_levels, index, items))
            shape = read if shape is None else join(shape, read)
        if shape is None:
            return _SOME_ARRAY
        # A shape is kept as part of what was made of it, so that its `id` stays its own.
        return self._arrays.setdefault(id(shape), Shape(ARRAY, shape))

    def _object(self, fields: dict[str, object], depth: int, open_levels: int) -> Shape:
        if depth == MAX_DEPTH:
            return ANY_OBJECT
        keys = tuple(fields)
        dictionary, _ = self._heading(keys)
        shapes: list[Shape] = []
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

    def _made(self, keys: tuple[str, ...], shapes: list[Shape], *, whole: bool) -> Shape:
        dictionary, are_names = self._heading(keys)
        if dictionary:
            return Shape(OBJECT, rest=join_all(shapes), dictionary=True)
        names: dict[str, Name] = {}
        others: list[Shape] = []
        for key, is_name, shape in zip(keys, are_names, shapes, strict=False):
            if is_name:
                names[key] = Name(shape, False, self._owner)
            else:
                others.append(shape)
        return Shape(OBJECT, names=names, rest=join_all(others), whole=whole, widest=len(names))

    def _heading(self, keys: tuple[str, ...]) -> tuple[bool, list[bool]]:
        """Whether an object with these keys is a dictionary, and if not, which of them are names."""
        known = self._headings.get(keys)
        if known is None:
            are_names = [] if len(keys) > MAX_NAMES else list(map(is_field_name, keys))
            known = self._headings[keys] = bool(keys) and 2 * sum(are_names) <= len(keys), are_names
        return known


def _below(open_levels: int, index: int, container: dict[str, object] | list[object]) -> int:
    """How many levels are open in the value at `index`: it must be the last one."""
    return open_levels - 1 if open_levels and index == len(container) - 1 else 0
