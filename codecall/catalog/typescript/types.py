"""TypeScript types to text: what is used once stands where it is used, what is recursive or used often gets a name."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import chain
from math import prod
from typing import TypeAlias

from codecall.catalog.javascript import property_key, string_literal
from codecall.catalog.typescript.comments import block_comment, doc_comment

SHORT = 40
"""Characters of a type that is written out at each place it is used, rather than named."""
MAX_PRODUCT = 200
"""Alternatives that an intersection may come to. Compilers write them out, and give up at 100,000."""
MAX_INDEX = 120
"""Characters of the type of further properties, which has to allow all that the named ones do."""


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type that is one word or literal, with a remark on what it leaves out."""

    text: str
    remark: str = ""


UNKNOWN = AtomicType("unknown")
NEVER = AtomicType("never")
NULL = AtomicType("null")
STRING = AtomicType("string")
NUMBER = AtomicType("number")
BOOLEAN = AtomicType("boolean")
TRUE = AtomicType("true")
FALSE = AtomicType("false")


@dataclass(frozen=True, slots=True)
class TypeReference:
    """A definition, by its key."""

    key: str


@dataclass(frozen=True, slots=True)
class UnionType:
    """A union; made by `either`."""

    members: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class IntersectionType:
    """An intersection; made by `both`."""

    members: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array."""

    item: Type


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple: the first `needed` items are there, the others may be; `rest` is what further ones are."""

    items: tuple[Type, ...]
    required: int
    rest: Type | None


@dataclass(frozen=True, slots=True)
class PropertyType:
    """A property of an object, with the text of its comment."""

    name: str
    type: Type
    optional: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class ObjectType:
    """An object: its properties, and what any other property is, where something is said of those."""

    properties: tuple[PropertyType, ...]
    others: Type | None = None


ANY_OBJECT = ObjectType((), UNKNOWN)

_WIDE = (STRING, NUMBER, BOOLEAN, NULL, ANY_OBJECT, ArrayType(UNKNOWN))


@dataclass(frozen=True, slots=True)
class MappedType:
    """An object that may have these properties, all of one type."""

    names: tuple[str, ...]
    value: Type


Type: TypeAlias = (
    AtomicType | TypeReference | UnionType | IntersectionType | ArrayType | TupleType | ObjectType | MappedType
)


def union(members: Iterable[Type]) -> Type:
    """The union of `members`: each once, null last; `unknown` where one may be anything."""
    found: dict[Type, None] = {}
    for member in chain.from_iterable(item.members if isinstance(item, UnionType) else (item,) for item in members):
        if isinstance(member, AtomicType) and member.text == "unknown":
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
    return several[0] if len(several) == 1 else UnionType(tuple(several))


def intersection(members: Iterable[Type]) -> Type:
    """The intersection of `members`: each once, without what says nothing beside the others."""
    found: dict[Type, None] = {}
    for member in chain.from_iterable(
        item.members if isinstance(item, IntersectionType) else (item,) for item in members
    ):
        found[member] = None
    several = [member for member in found if not (isinstance(member, AtomicType) and member.text == "unknown")]
    if not several:
        return next(iter(found), UNKNOWN)
    telling = [member for member in several if not _is_wide(member)] or several[:1]
    return telling[0] if len(telling) == 1 else IntersectionType(tuple(telling))


def inner(item: Type) -> Iterator[Type]:
    """The types that `item` is made of directly; not what it refers to."""
    match item:
        case UnionType(members) | IntersectionType(members):
            yield from members
        case ArrayType(of):
            yield of
        case TupleType(items, _, rest):
            yield from items
            if rest is not None:
                yield rest
        case ObjectType(fields, others):
            yield from (field.type for field in fields)
            if others is not None:
                yield others
        case MappedType(_, value):
            yield value
        case _:
            pass


def references(item: Type) -> Iterator[str]:
    """The keys of all definitions that `item` refers to, each as often as it does."""
    waiting = [item]
    while waiting:
        part = waiting.pop()
        if isinstance(part, TypeReference):
            yield part.key
        waiting.extend(inner(part))


@dataclass(frozen=True, slots=True)
class PrintedType:
    """A type as text, and the definitions it needs."""

    text: str
    aliases: tuple[str, ...]
    """Whole `type` declarations, one for each definition that has a name."""


def print_type(
    root: Type, definitions: Mapping[str, Type], notes: Mapping[str, str], name_of: Callable[[str], str]
) -> PrintedType:
    """`root` as text.

    Args:
        root: the type.
        definitions: what it refers to, directly or not, by key.
        notes: comments on them.
        name_of: gives each key its name in the text.
    """
    linker = _Linker(definitions, notes, name_of)
    text = linker.link(root)
    return PrintedType(text.text, tuple(linker.named(text)))


def _is_wide(item: Type) -> bool:
    """Whether an intersection can do without, where it has something that says more."""
    return all(member in _WIDE for member in (item.members if isinstance(item, UnionType) else (item,)))


@dataclass(slots=True)
class _Text:
    text: str
    loose: bool
    """Whether it needs parentheses inside of another type."""
    named: set[str] = field(default_factory=set[str])
    """Definitions it names."""


class _Linker:
    def __init__(
        self, definitions: Mapping[str, Type], notes: Mapping[str, str], name_of: Callable[[str], str]
    ) -> None:
        self._definitions = _without_circles(definitions)
        self._notes = notes
        self._name_of = name_of
        self._uses: Counter[str] = Counter()
        self._recursive: set[str] = set()
        self._texts: dict[str, _Text] = {}
        self._names: dict[str, str] = {}
        self._widths: dict[str, int] = {}

    def link(self, root: Type) -> _Text:
        """The text of `root`; those of the definitions are made first, each after those it holds."""
        graph = {place: set(references(item)) for place, item in self._definitions.items()}
        self._recursive = {place for place in graph if place in _reached(graph[place], graph)}
        reached = _reached(set(references(root)), graph)
        self._uses.update(references(root))
        for place in reached:
            self._uses.update(references(self._definitions[place]))
        for place in TopologicalSorter(
            {each: set(_direct(self._definitions[each])) for each in reached}
        ).static_order():
            self._widths[place] = self._width(self._definitions[place])
        order = TopologicalSorter({place: graph[place] - self._recursive for place in reached})
        for place in order.static_order():
            if place in reached:
                self._texts[place] = self._print(self._definitions[place])
        return self._print(root)

    def named(self, text: _Text) -> Iterator[str]:
        """The declarations that a text needs."""
        waiting, seen = deque(sorted(text.named)), set(text.named)
        while waiting:
            place = waiting.popleft()
            body = self._texts[place]
            note = self._notes.get(place)
            yield f"{f'{doc_comment(note)} ' if note else ''}type {self._named(place)} = {body.text};"
            waiting.extend(sorted(body.named - seen))
            seen |= body.named

    def _named(self, place: str) -> str:
        if place not in self._names:
            self._names[place] = self._name_of(place)
        return self._names[place]

    def _is_inlined(self, place: str) -> bool:
        if place in self._recursive:
            return False
        return self._uses[place] == 1 or len(self._texts[place].text) <= SHORT

    def _print(self, item: Type) -> _Text:
        named: set[str] = set()
        text, loose = self._text(item, named)
        return _Text(text, loose, named)

    def _text(self, item: Type, named: set[str]) -> tuple[str, bool]:
        """A type as text, and whether it needs parentheses inside of another."""
        loose = False
        match item:
            case AtomicType(word, remark):
                text = f"{word} {block_comment(remark)}" if remark else word
            case TypeReference(place) if self._is_inlined(place):
                inlined = self._texts[place]
                named |= inlined.named
                text, loose = inlined.text, inlined.loose
            case TypeReference(place):
                named.add(place)
                text = self._named(place)
            case UnionType(members):
                text, loose = " | ".join(self._text(member, named)[0] for member in members), True
            case IntersectionType(members):
                kept = self._bounded(members)
                text, loose = " & ".join(self._tight(member, named) for member in kept), len(kept) > 1
            case ArrayType(of):
                text = f"{self._tight(of, named)}[]"
            case TupleType():
                text = self._row(item, named)
            case ObjectType():
                text = self._shape(item, named)
            case MappedType(names, value):
                text = f"{{ [K in {' | '.join(map(string_literal, names))}]?: {self._text(value, named)[0]} }}"
        return text, loose

    def _tight(self, item: Type, named: set[str]) -> str:
        text, loose = self._text(item, named)
        return f"({text})" if loose else text

    def _row(self, row: TupleType, named: set[str]) -> str:
        parts = [self._tight(item, named) for item in row.items]
        parts = [part if place < row.required else f"{part}?" for place, part in enumerate(parts)]
        if row.rest is not None:
            parts.append(f"...{self._tight(row.rest, named)}[]")
        return f"[{', '.join(parts)}]"

    def _shape(self, shape: ObjectType, named: set[str]) -> str:
        if not shape.properties:
            if shape.others is None:
                return "{}"
            value = self._text(shape.others, named)[0]
            # An alias that goes round through Record is refused.
            return f"{{ [key: string]: {value} }}" if any(references(shape.others)) else f"Record<string, {value}>"
        parts = [self._field(each, named) for each in shape.properties]
        if shape.others is not None:
            parts.append(f"[key: string]: {self._index(shape, shape.others, named)}")
        return f"{{ {'; '.join(parts)} }}"

    def _index(self, shape: ObjectType, others: Type, named: set[str]) -> str:
        """What any property is: a named one has to fit in, too."""
        texts: dict[str, None] = {}
        needed: set[str] = set()
        for item in (others, *(each.type for each in shape.properties)):
            for member in item.members if isinstance(item, UnionType) else (item,):
                texts[self._text(member, needed)[0]] = None
        if any(each.optional for each in shape.properties):
            texts["undefined"] = None
        union = " | ".join(texts)
        if others == UNKNOWN or len(union) > MAX_INDEX or "unknown" in texts:
            return "unknown"
        named |= needed
        return union

    def _field(self, each: PropertyType, named: set[str]) -> str:
        note = each.note or next((self._notes.get(place, "") for place in self._inlined_in(each.type)), "")
        text = f"{property_key(each.name)}{'?' if each.optional else ''}: {self._text(each.type, named)[0]}"
        return f"{doc_comment(note)} {text}" if note else text

    def _inlined_in(self, item: Type) -> Iterator[str]:
        """The definition that is written out as `item`, or as one that may be null."""
        for part in item.members if isinstance(item, UnionType) and len(item.members) == 2 else (item,):
            if isinstance(part, TypeReference) and self._is_inlined(part.key):
                yield part.key

    def _bounded(self, members: tuple[Type, ...]) -> list[Type]:
        """As much of an intersection as compilers can write out; without the rest it allows more."""
        kept: list[Type] = []
        width = 1
        for member in members:
            wider = width * self._width(member)
            if wider <= MAX_PRODUCT or not kept:
                kept.append(member)
                width = wider
        return kept

    def _width(self, item: Type) -> int:
        """Into how many alternatives a type falls."""
        match item:
            case UnionType(members):
                return min(sum(map(self._width, members)), MAX_PRODUCT)
            case IntersectionType(members):
                return min(prod(map(self._width, members)), MAX_PRODUCT)
            case TypeReference(place):
                return self._widths[place]
            case _:
                return 1


def _reached(first: set[str], graph: Mapping[str, set[str]]) -> set[str]:
    """All that can be reached from `first`, itself included."""
    seen = set(first)
    waiting = list(first)
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting.extend(new)
    return seen


def _without_circles(definitions: Mapping[str, Type]) -> dict[str, Type]:
    """The definitions without those that are defined by themselves alone: such types mean nothing."""
    found = dict(definitions)
    graph = {place: set(_direct(item)) for place, item in found.items()}
    for place in found:
        if place in _reached(graph[place], graph):
            found[place] = UNKNOWN
            graph[place] = set()
    return found


def _direct(item: Type) -> Iterator[str]:
    """What a type refers to without an object or an array in between."""
    waiting = [item]
    while waiting:
        part = waiting.pop()
        if isinstance(part, TypeReference):
            yield part.key
        elif isinstance(part, (UnionType, IntersectionType)):
            waiting.extend(inner(part))
