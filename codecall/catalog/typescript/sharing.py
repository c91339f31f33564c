"""Types that occur in several places of several declarations are found and given one definition and one name."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from graphlib import TopologicalSorter
from typing import Final

from codecall.catalog.typescript.types import (
    NULL,
    ArrayType,
    AtomicType,
    IntersectionType,
    MappedType,
    ObjectType,
    PropertyType,
    TupleType,
    Type,
    TypeReference,
    UnionType,
    inner,
    recursive_definitions,
    references,
    without_cycles,
)
from codecall.schema.model import definition_title

MAX_TITLE = 40
"""Characters of a type's name."""

_PREDECLARED: Final = frozenset({"Promise", "Record"})
"""Names that declarations use themselves."""
_CONTAINERS: Final = frozenset({"content", "data", "entries", "items", "list", "nodes", "records", "result", "results"})
"""Names of properties that say nothing of what they hold."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a type stands: it is named after that."""

    tool: str
    title: str
    """Of the definition or the property."""
    whole: bool = False
    """Whether it is all that a tool takes or gives, or a row of that."""

    def of_property(self, name: str) -> _Place:
        return replace(self, title=name, whole=name.lower() in _CONTAINERS)

    def of_item(self) -> _Place:
        return replace(self, title=_singular(self.title))


class TypePool:
    """The types of several declarations: equal objects, enumerations and commented values are one definition.

    `definitions` and `notes` are for `print_types`, with the types that `add` returns.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Type] = {}
        self.notes: dict[str, str] = {}
        """The comments on the definitions."""
        self._keys: dict[Type, list[str]] = defaultdict(list)
        self._titles: dict[str, Counter[str]] = defaultdict(Counter)
        self._properties: dict[str, Counter[str]] = defaultdict(Counter)
        self._whole_of: dict[str, dict[str, None]] = defaultdict(dict)
        self._recursive: set[str] = set()
        self._numbers: dict[frozenset[tuple[str, Type, str]], int] = {}
        """A number for each recursive definition with all that it refers to."""

    def add(self, root: Type, definitions: Mapping[str, Type], notes: Mapping[str, str], tool: str, title: str) -> Type:
        """Returns `root` with references into the pool.

        Args:
            root: the type of what the tool takes or gives.
            definitions: what it refers to, directly or not, by JSON pointer.
            notes: comments on them.
            tool: the tool's name.
            title: what to call `root` where nothing else says it.
        """
        acyclic = without_cycles(definitions)
        recursive = recursive_definitions(acyclic)
        here = {place: TypeReference(f"{self._number(place, acyclic, notes)}{place}") for place in recursive}
        graph = {place: sorted(set(references(item)) - recursive) for place, item in acyclic.items()}
        for place in TopologicalSorter(graph).static_order():
            at = _Place(tool, definition_title(place))
            note = notes.get(place, "")
            if place in recursive:
                key = here[place].key
                self._recursive.add(key)
                item = self._contents(acyclic[place], here, at)
                self.definitions[key], self.notes[key] = item, note
            else:
                here[place] = self._defined(self._pooled(acyclic[place], here, at), note)
            self._titles[here[place].key][at.title] += 1
        return self._pooled(root, here, _Place(tool, title, whole=True))

    def title(self, key: str) -> str:
        """Returns what to call a definition: as its schemas do, else after the tools or the properties it is of."""
        whole, properties = self._whole_of[key], self._properties[key]
        titles = self._titles[key] or (Counter[str]() if whole else properties)
        if titles:
            return _type_name(titles.most_common(1)[0][0])
        words = _common_words(whole)
        return _type_name("_".join(words) or next(iter(properties)))

    def _number(self, place: str, definitions: Mapping[str, Type], notes: Mapping[str, str]) -> int:
        """The number of a definition that refers to itself: the same wherever all that it refers to is the same."""
        reached, pending = {place}, [place]
        while pending:
            more = set(references(definitions[pending.pop()])) - reached
            reached |= more
            pending += more
        contents = frozenset((each, definitions[each], notes.get(each, "")) for each in reached)
        return self._numbers.setdefault(contents, len(self._numbers))

    def _defined(self, item: Type, note: str) -> TypeReference:
        """A reference to the definition of `item` with that comment. Objects differ by more than their comment."""
        described = item
        if isinstance(item, TypeReference):
            # What is recursive may not be defined yet, and keeps its own comment.
            if not note or item.key not in self.definitions or item.key in self._recursive:
                return item
            described = self.definitions[item.key]
        keys = self._keys[described]
        for key in keys:
            other = self.notes[key]
            if other == note or (isinstance(described, ObjectType) and not (other and note)):
                self.notes[key] = other or note
                return TypeReference(key)
        key = f"shared {len(self.definitions)}"
        self.definitions[key], self.notes[key] = described, note
        keys.append(key)
        return TypeReference(key)

    def _pooled(self, item: Type, here: Mapping[str, TypeReference], at: _Place) -> Type:
        """`item`, or a reference to its definition in the pool where it may be worth a name."""
        item = self._contents(item, here, at)
        shared = _not_null(item)
        worth = isinstance(shared, ObjectType) and shared.properties
        if worth or (
            isinstance(shared, UnionType) and all(isinstance(member, AtomicType) for member in shared.members)
        ):
            shared = self._defined(shared, "")
            self._record(shared, at)
            return shared if _not_null(item) == item else UnionType((shared, NULL))
        return item

    def _record(self, shared: TypeReference, at: _Place) -> None:
        if at.whole:
            self._whole_of[shared.key][at.tool] = None
        self._properties[shared.key][at.title] += 1

    def _contents(self, item: Type, here: Mapping[str, TypeReference], at: _Place) -> Type:
        """`item` with references into the pool inside."""
        if isinstance(item, TypeReference):
            return here[item.key]
        if isinstance(item, ObjectType):
            fields = tuple(self._property(each, here, at) for each in item.properties)
            return ObjectType(fields, None if item.others is None else self._pooled(item.others, here, at.of_item()))
        within = at if isinstance(item, (UnionType, IntersectionType)) else at.of_item()
        pooled = tuple(self._pooled(each, here, within) for each in inner(item))
        match item:
            case UnionType():
                item = UnionType(pooled)
            case IntersectionType():
                item = IntersectionType(pooled)
            case ArrayType():
                item = ArrayType(pooled[0])
            case TupleType(items, required, rest):
                item = TupleType(pooled[: len(items)], required, None if rest is None else pooled[-1])
            case MappedType(names, _):
                item = MappedType(names, pooled[0])
            case _:
                pass
        return item

    def _property(self, each: PropertyType, here: Mapping[str, TypeReference], at: _Place) -> PropertyType:
        """A property; a plain value with a comment is a definition with that comment."""
        at = at.of_property(each.name)
        item = self._pooled(each.type, here, at)
        plain = _not_null(item)
        if not each.note or not isinstance(plain.item if isinstance(plain, ArrayType) else plain, AtomicType):
            return replace(each, type=item)
        shared = self._defined(plain, each.note)
        self._record(shared, replace(at, whole=False))
        return replace(each, type=shared if plain == item else UnionType((shared, NULL)), note="")


class TypeNames:
    """Names for the definitions of a pool, each its own."""

    def __init__(self, pool: TypePool, suffix: str = "") -> None:
        self._pool = pool
        self._suffix = suffix
        self._in_use = set(_PREDECLARED)

    def new_name(self, key: str) -> str:
        """Returns a new name for a definition."""
        title = self._pool.title(key)
        name, number = title, 2
        while name in self._in_use:
            name, number = f"{title}{number}", number + 1
        self._in_use.add(name)
        return f"{name}{self._suffix}"


def _not_null(item: Type) -> Type:
    """A type without its `null`, where it has one beside others."""
    if not isinstance(item, UnionType) or NULL not in item.members:
        return item
    members = tuple(member for member in item.members if member != NULL)
    return members[0] if len(members) == 1 else UnionType(members)


def _type_name(text: str) -> str:
    title = "".join(word[:1].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", text))[:MAX_TITLE] or "Type"
    return title if title[0].isalpha() else f"T{title}"


def _common_words(tools: Iterable[str]) -> Iterator[str]:
    """The words that all of these names have, in the order of the first one, in the singular."""
    listed = [[_singular(word.lower()) for word in _WORD.findall(tool)] for tool in tools]
    common = reduce(set[str].intersection, map(set, listed)) if listed else set[str]()
    return (word for word in dict.fromkeys(listed[0] if listed else ()) if word in common)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word
