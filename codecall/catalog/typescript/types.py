"""TypeScript types as values, and their text.

A definition is written where it is used; it gets a name where it is recursive, or where that makes the whole shorter.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import chain
from math import prod
from typing import TypeAlias

from codecall.catalog.javascript import property_key, string_literal
from codecall.catalog.typescript.comments import block_comment, doc_comment

NAME_CHARS = 12
"""Characters that a name is taken to have where its cost is weighed."""
ALIAS_CHARS = 10
"""Characters of a `type` declaration besides its name, its type and its comment."""
MAX_PRODUCT = 200
"""Alternatives that an intersection may expand to. Compilers expand them, and give up at 100,000."""
MAX_INDEX = 120
"""Characters of the type of further properties, which has to allow all that the named ones allow."""


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type of one keyword or literal, with a remark on what it leaves out."""

    text: str
    remark: str = ""


UNKNOWN = AtomicType("unknown")
NEVER = AtomicType("never")
NULL = AtomicType("null")
STRING = AtomicType("string")
NUMBER = AtomicType("number")
INTEGER = AtomicType("integer")
"""Of Python; TypeScript has no such type."""
BOOLEAN = AtomicType("boolean")
TRUE = AtomicType("true")
FALSE = AtomicType("false")


@dataclass(frozen=True, slots=True)
class TypeReference:
    """A reference to a definition, by its key."""

    key: str


@dataclass(frozen=True, slots=True)
class UnionType:
    """A union; created by `union`."""

    members: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class IntersectionType:
    """An intersection; created by `intersection`."""

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
    """An object: its properties, and the type of any other property, where it is known."""

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
    """Returns the union of types: each once, null last; `unknown` where one of them is."""
    types: dict[Type, None] = {}
    for member in chain.from_iterable(item.members if isinstance(item, UnionType) else (item,) for item in members):
        if isinstance(member, AtomicType) and member.text == "unknown":
            return member
        if member != NEVER:
            types[member] = None
    if TRUE in types and FALSE in types:
        del types[FALSE]
        types = {BOOLEAN if member == TRUE else member: None for member in types}
    several = [member for member in types if member != NULL]
    if NULL in types:
        several.append(NULL)
    if not several:
        return NEVER
    return several[0] if len(several) == 1 else UnionType(tuple(several))


def intersection(members: Iterable[Type]) -> Type:
    """Returns the intersection of types: each once, without those that add nothing to the others."""
    types: dict[Type, None] = {}
    for member in chain.from_iterable(
        item.members if isinstance(item, IntersectionType) else (item,) for item in members
    ):
        types[member] = None
    several = [member for member in types if not (isinstance(member, AtomicType) and member.text == "unknown")]
    if not several:
        return next(iter(types), UNKNOWN)
    telling = [member for member in several if not _is_wide(member)] or several[:1]
    return telling[0] if len(telling) == 1 else IntersectionType(tuple(telling))


def inner(item: Type) -> Iterator[Type]:
    """Yields the types directly inside `item`; not those it refers to."""
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
    """Yields the keys of all definitions that `item` refers to, each as often as it does."""
    pending = [item]
    while pending:
        part = pending.pop()
        if isinstance(part, TypeReference):
            yield part.key
        pending.extend(inner(part))


def print_types(
    roots: Sequence[Type], definitions: Mapping[str, Type], notes: Mapping[str, str], name_of: Callable[[str], str]
) -> tuple[list[str], list[str]]:
    """`roots` as text, and the `type` declarations that they need, each once.

    Args:
        roots: the types.
        definitions: what they refer to, directly or not, by key.
        notes: comments on them.
        name_of: gives each key its name in the text.
    """
    printer = _TypePrinter(definitions, notes, name_of)
    texts = printer.link(roots)
    return [text.text for text in texts], list(printer.named(texts))


def _is_wide(item: Type) -> bool:
    """Whether a type adds nothing to a more specific one in an intersection."""
    return all(member in _WIDE for member in (item.members if isinstance(item, UnionType) else (item,)))


@dataclass(slots=True)
class _TypeText:
    text: str
    loose: bool
    """Whether it needs parentheses inside another type."""
    named: set[str] = field(default_factory=set[str])
    """The definitions that it names."""


class _TypePrinter:
    def __init__(
        self, definitions: Mapping[str, Type], notes: Mapping[str, str], name_of: Callable[[str], str]
    ) -> None:
        self._definitions = without_cycles(definitions)
        self._notes = notes
        self._name_of = name_of
        self._uses: Counter[str] = Counter()
        self._recursive: set[str] = set()
        self._texts: dict[str, _TypeText] = {}
        self._names: dict[str, str] = {}
        self._widths: dict[str, int] = {}

    def link(self, roots: Sequence[Type]) -> list[_TypeText]:
        """Returns the texts of `roots`; definitions are written first, each after those it contains."""
        graph = {place: set(references(item)) for place, item in self._definitions.items()}
        self._recursive = recursive_definitions(self._definitions)
        self._uses.update(place for root in roots for place in references(root))
        reached = _reachable(set(self._uses), graph)
        for place in reached:
            self._uses.update(references(self._definitions[place]))
        for place in TopologicalSorter(
            {each: set(_direct_references(self._definitions[each])) for each in reached}
        ).static_order():
            self._widths[place] = self._width(self._definitions[place])
        # Sorted: names are given in this order.
        order = TopologicalSorter({place: sorted(graph[place] - self._recursive) for place in sorted(reached)})
        for place in order.static_order():
            if place in reached:
                self._texts[place] = self._print(self._definitions[place])
        return [self._print(root) for root in roots]

    def named(self, texts: Sequence[_TypeText]) -> Iterator[str]:
        """Yields the `type` declarations that texts need."""
        pending = deque(dict.fromkeys(place for text in texts for place in sorted(text.named)))
        seen = set(pending)
        while pending:
            place = pending.popleft()
            body = self._texts[place]
            note = self._notes.get(place)
            yield f"{f'{doc_comment(note)} ' if note else ''}type {self._named(place)} = {body.text};"
            pending.extend(sorted(body.named - seen))
            seen |= body.named

    def _named(self, place: str) -> str:
        if place not in self._names:
            self._names[place] = self._name_of(place)
        return self._names[place]

    def _is_inlined(self, place: str) -> bool:
        if place in self._recursive:
            return False
        uses, note = self._uses[place], self._notes.get(place)
        chars = len(self._texts[place].text) + (len(doc_comment(note)) + 1 if note else 0)
        return uses * chars <= (uses + 1) * NAME_CHARS + ALIAS_CHARS + chars

    def _print(self, item: Type) -> _TypeText:
        named: set[str] = set()
        text, loose = self._text(item, named)
        return _TypeText(text, loose, named)

    def _text(self, item: Type, named: set[str]) -> tuple[str, bool]:
        """A type as text, and whether it needs parentheses inside another."""
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
                expandable = self._expandable(members)
                text, loose = (
                    " & ".join(self._parenthesized(member, named) for member in expandable),
                    len(expandable) > 1,
                )
            case ArrayType(of):
                text = f"{self._parenthesized(of, named)}[]"
            case TupleType():
                text = self._tuple(item, named)
            case ObjectType():
                text = self._object(item, named)
            case MappedType(names, value):
                text = f"{{ [K in {' | '.join(map(string_literal, names))}]?: {self._text(value, named)[0]} }}"
        return text, loose

    def _parenthesized(self, item: Type, named: set[str]) -> str:
        text, loose = self._text(item, named)
        return f"({text})" if loose else text

    def _tuple(self, row: TupleType, named: set[str]) -> str:
        parts = [self._parenthesized(item, named) for item in row.items]
        parts = [part if place < row.required else f"{part}?" for place, part in enumerate(parts)]
        if row.rest is not None:
            parts.append(f"...{self._parenthesized(row.rest, named)}[]")
        return f"[{', '.join(parts)}]"

    def _object(self, shape: ObjectType, named: set[str]) -> str:
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
        """The type of an index signature, which the named properties must fit too."""
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

    def _expandable(self, members: tuple[Type, ...]) -> list[Type]:
        """As much of an intersection as compilers can expand; without the rest it allows more."""
        expandable: list[Type] = []
        width = 1
        for member in members:
            wider = width * self._width(member)
            if wider <= MAX_PRODUCT or not expandable:
                expandable.append(member)
                width = wider
        return expandable

    def _width(self, item: Type) -> int:
        """The number of alternatives of a type."""
        match item:
            case UnionType(members):
                return min(sum(map(self._width, members)), MAX_PRODUCT)
            case IntersectionType(members):
                return min(prod(map(self._width, members)), MAX_PRODUCT)
            case TypeReference(place):
                return self._widths[place]
            case _:
                return 1


def _reachable(first: set[str], graph: Mapping[str, set[str]]) -> set[str]:
    """All that can be reached from `first`, itself included."""
    seen = set(first)
    waiting = list(first)
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting.extend(new)
    return seen


def recursive_definitions(definitions: Mapping[str, Type]) -> set[str]:
    """Returns the keys of the definitions that contain themselves."""
    graph = {place: set(references(item)) for place, item in definitions.items()}
    return {place for place in graph if place in _reachable(graph[place], graph)}


def without_cycles(definitions: Mapping[str, Type]) -> dict[str, Type]:
    """Returns the definitions without those that are defined by themselves alone: such types mean nothing."""
    acyclic = dict(definitions)
    graph = {place: set(_direct_references(item)) for place, item in acyclic.items()}
    for place in acyclic:
        if place in _reachable(graph[place], graph):
            acyclic[place] = UNKNOWN
            graph[place] = set()
    return acyclic


def _direct_references(item: Type) -> Iterator[str]:
    """Yields what a type refers to without an object or an array in between."""
    waiting = [item]
    while waiting:
        part = waiting.pop()
        if isinstance(part, TypeReference):
            yield part.key
        elif isinstance(part, (UnionType, IntersectionType)):
            waiting.extend(inner(part))
