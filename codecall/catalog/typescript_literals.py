"""Literal types: what a schema's `const` and `enum` state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Final, cast

from codecall.catalog.literals import quoted
from codecall.catalog.typescript_keywords import kind_of
from codecall.catalog.typescript_types import (
    ANY_OBJECT,
    BOOLEAN,
    FALSE,
    NULL,
    NUMBER,
    STRING,
    TRUE,
    UNKNOWN,
    Field,
    Many,
    Row,
    Shape,
    Type,
    Word,
    either,
)

MAX_DEPTH = 5
"""Levels of a stated object or array; what lies deeper is `unknown`."""
MAX_DIGITS = 20
"""Digits of a stated whole number; longer ones are `number`."""
SHOWN = 45
"""Characters of values that a remark names where an enumeration is too long."""

_BY_KIND: Final[Mapping[str, Type]] = {
    "null": NULL,
    "boolean": BOOLEAN,
    "integer": NUMBER,
    "number": NUMBER,
    "string": STRING,
    "array": Many(UNKNOWN),
    "object": ANY_OBJECT,
}


def const(value: object, limit: int) -> Type:
    """The type of exactly this value; of its kind where it would take more than `limit` characters."""
    return choice([value], limit)


def choice(values: Sequence[object], limit: int) -> Type:
    """The type of exactly these values; of their kinds, with a remark, where it would take over `limit` characters."""
    found: dict[Type, None] = {}
    left = [limit]
    for value in values:
        found[_literal(value, left, MAX_DEPTH)] = None
        if left[0] < 0:
            return _widened(values)
    return either(found)


def _literal(value: object, left: list[int], depth: int) -> Type:
    """The type of one value, whose characters are taken off what is `left`."""
    left[0] -= 4
    if left[0] < 0 or depth == 0:
        return UNKNOWN
    if isinstance(value, str):
        left[0] -= len(value)
        return STRING if left[0] < 0 else Word(quoted(value))
    if isinstance(value, (bool, int, float)):
        return _number(value)
    if isinstance(value, Mapping):
        return _object(cast("Mapping[object, object]", value), left, depth)
    if isinstance(value, (list, tuple)):
        return _list(cast("Sequence[object]", value), left, depth)
    return NULL if value is None else UNKNOWN


def _object(value: Mapping[object, object], left: list[int], depth: int) -> Type:
    fields: list[Field] = []
    for name, item in value.items():
        left[0] -= len(str(name))
        if left[0] < 0:
            break
        fields.append(Field(str(name), _literal(item, left, depth - 1), optional=False))
    return Shape(tuple(fields))


def _list(value: Sequence[object], left: list[int], depth: int) -> Type:
    items: list[Type] = []
    for item in value:
        if left[0] < 0:
            break
        items.append(_literal(item, left, depth - 1))
    return Row(tuple(items), len(items), None)


def _number(value: float) -> Type:
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return Word(str(value)) if abs(value) < 10**MAX_DIGITS else NUMBER
    if not isfinite(value):
        return NUMBER
    if value.is_integer() and abs(value) < 10**MAX_DIGITS:
        return Word(str(int(value)))
    return Word(repr(value))


def _widened(values: Sequence[object]) -> Type:
    """What these values have in common."""
    kinds = dict.fromkeys(_BY_KIND[kind_of(value)] for value in values)
    if len(values) > 1:
        first = next(iter(kinds))
        remark = ", ".join((f"{len(values)} values", *_beginning(values), "…"))
        kinds = {Word(kind.text, remark) if kind is first and isinstance(kind, Word) else kind: None for kind in kinds}
    return either(kinds)


def _beginning(values: Sequence[object]) -> Iterator[str]:
    left = SHOWN
    for value in values:
        if isinstance(value, str):
            left -= len(value)
            if left < 0:
                return
            yield quoted(value)
