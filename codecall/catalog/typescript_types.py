"""TypeScript types as values: made from schemas by `typescript_schemas.py`, printed by `typescript_printing.py`.

Everything here errs on one side: what is made may allow more than what it was made from, never less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Word:
    """A type that is one word or literal, with a remark on what it leaves out."""

    text: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A definition, by its key."""

    key: str


@dataclass(frozen=True, slots=True)
class Either:
    """A union; made by `either`."""

    members: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Both:
    """An intersection; made by `both`."""

    members: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """An array."""

    item: Type


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple: the first `needed` items are there, the others may be; `rest` is what further ones are."""

    items: tuple[Type, ...]
    needed: int
    rest: Type | None


@dataclass(frozen=True, slots=True)
class Field:
    """A property of an object, with the text of its comment."""

    name: str
    type: Type
    optional: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """An object: its properties, and what any other property is, where something is said of those."""

    fields: tuple[Field, ...]
    others: Type | None = None


@dataclass(frozen=True, slots=True)
class Keyed:
    """An object that may have these properties, all of one type."""

    names: tuple[str, ...]
    value: Type


Type: TypeAlias = Word | Reference | Either | Both | Many | Row | Shape | Keyed

UNKNOWN = Word("unknown")
NEVER = Word("never")
NULL = Word("null")
STRING = Word("string")
NUMBER = Word("number")
BOOLEAN = Word("boolean")
TRUE = Word("true")
FALSE = Word("false")
ANY_OBJECT = Shape((), UNKNOWN)

_WIDE = (STRING, NUMBER, BOOLEAN, NULL, ANY_OBJECT, Many(UNKNOWN))


def either(members: Iterable[Type]) -> Type:
    """The union of `members`: each once, null last; `unknown` where one may be anything."""
    found: dict[Type, None] = {}
    for member in chain.from_iterable(item.members if isinstance(item, Either) else (item,) for item in members):
        if isinstance(member, Word) and member.text == "unknown":
            return member
        if member != NEVER:
            found[member] = None
    if TRUE in found and FALSE in found:
        del found[FALSE]
        found = {BOOLEAN if member == TRUE else member: None for member in found}
    several = [member for member in found if member != NULL]
    if NULL in found:
        several.append(NULL)
    if not several:
        return NEVER
    return several[0] if len(several) == 1 else Either(tuple(several))


def both(members: Iterable[Type]) -> Type:
    """The intersection of `members`: each once, without what says nothing beside the others."""
    found: dict[Type, None] = {}
    for member in chain.from_iterable(item.members if isinstance(item, Both) else (item,) for item in members):
        found[member] = None
    several = [member for member in found if not (isinstance(member, Word) and member.text == "unknown")]
    if not several:
        return next(iter(found), UNKNOWN)
    telling = [member for member in several if not _is_wide(member)] or several[:1]
    return telling[0] if len(telling) == 1 else Both(tuple(telling))


def _is_wide(item: Type) -> bool:
    """Whether an intersection can do without, where it has something that says more."""
    return all(member in _WIDE for member in (item.members if isinstance(item, Either) else (item,)))


def inner(item: Type) -> Iterator[Type]:
    """The types that `item` is made of directly; not what it refers to."""
    match item:
        case Either(members) | Both(members):
            yield from members
        case Many(of):
            yield of
        case Row(items, _, rest):
            yield from items
            if rest is not None:
                yield rest
        case Shape(fields, others):
            yield from (field.type for field in fields)
            if others is not None:
                yield others
        case Keyed(_, value):
            yield value
        case _:
            pass


def references(item: Type) -> Iterator[str]:
    """The keys of all definitions that `item` refers to, each as often as it does."""
    waiting = [item]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Reference):
            yield part.key
        waiting.extend(inner(part))
