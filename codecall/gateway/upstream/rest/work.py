"""How much work a document makes, counted before it is done.

FastMCP reads what operations share as often as they use it, and a use takes few bytes. So what is shared is measured
once and counted for each use, and a document that makes too much work is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from pydantic_core import to_json

from codecall.gateway.upstream.messages import VALUE_MARKS

MAX_WORK: Final = 10_000_000
"""Values of a document that are read, each as often as it is used.

GitHub's description (the npm package `@octokit/openapi` 23.0.2: 13 MB, 1,200 operations) has 258,000 values and makes
work of 1,100,000, for which FastMCP takes two seconds."""

MAX_DEPTH: Final = 100
"""Nesting of a document: the time to read deeper YAML grows by its square. GitHub's has 22 levels."""

_CHARS_PER_VALUE: Final = 100
"""Characters that are as much work as a value: texts are written out, and searched."""

_BYTES_PER_DEFINITION: Final = 50

_BYTES_PER_VALUE: Final = 8

_CYCLE_WORK: Final = 100_000
"""Work of a schema that is made of itself: FastMCP goes round in it until it has visited so many schemas."""

_MAX_STEPS: Final = 1_000
"""References that FastMCP follows until it fails."""

_PLAIN_REFERENCE: Final = re.compile(r"#/components/[A-Za-z]+/[^/]+")
"""A reference that leads nowhere in FastMCP if it leads nowhere in the document. Others may lead to what FastMCP has
made of it."""

_REFERENCE_KEYS: Final = frozenset({"$ref", "summary", "description"})

_Json = dict[str, object]


class TooMuchWorkError(Exception):
    """A document makes more work than `MAX_WORK`, or is nested more than `MAX_DEPTH` deep."""


class Budget:
    """The work that is left for a document."""

    def __init__(self) -> None:
        self.left = MAX_WORK

    def spend(self, work: int) -> None:
        """Count work.

        Raises:
            TooMuchWorkError: it is more than is left.
        """
        self.left -= work
        if self.left < 0:
            raise TooMuchWorkError(f"reading it takes more than {MAX_WORK:,} steps")

    def walk(self, value: object) -> Iterator[object]:
        """Every value within one, which is counted.

        Raises:
            TooMuchWorkError: they are more than is left, or nested too deeply.
        """
        level = [value]
        for _ in range(MAX_DEPTH):
            self.spend(len(level))
            yield from level
            if not (level := [inner for each in level for inner in inner_values(each)]):
                return
        raise TooMuchWorkError(f"it is nested more than {MAX_DEPTH} deep")


def inner_values(value: object) -> Iterable[object]:
    """The values right in an object or a list."""
    if isinstance(value, dict):
        return cast("_Json", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


class Measure(NamedTuple):
    """How much a part of a document is, without what it refers to."""

    size: int
    """Bytes as JSON."""
    work: int
    names: Sequence[str] = ()
    """The definitions of schemas that it needs by itself."""
    variants: int = 0
    """How often its discriminators name a schema."""


class References:
    """What the references of a document lead to, and how much that is. Everything is measured once.

    Its methods raise `TooMuchWorkError` as its budget does.
    """

    def __init__(self, document: _Json, budget: Budget) -> None:
        self._document = document
        self._budget = budget
        self._targets: dict[str, tuple[object, int]] = {}
        # By identity; what is measured is kept, so that nothing else gets it.
        self._measures: dict[int, tuple[object, Measure]] = {}
        components = as_object(document.get("components"))
        for section in ("parameters", "requestBodies", "responses"):
            for node in as_object(components.get(section)).values():
                keep_reference(node)
        self._schemas = as_object(components.get("schemas"))
        self._definitions: dict[str, Measure] = {}
        self._endless = self._find_endless()
        for name in self._schemas:
            _, steps = self.follow(self._schemas[name])
            budget.spend(steps + self._definition(name).work)

    def follow(self, node: object) -> tuple[object, int]:
        """What a node leads to, if it is a reference, and in how many steps: FastMCP goes wherever a document says.
        What leads nowhere leads nowhere in FastMCP, too, from now on."""
        reference = as_object(node).get("$ref")
        if not isinstance(reference, str):
            return node, 0
        target, steps = self._target(reference)
        if target is None and reference.startswith("#/") and not _PLAIN_REFERENCE.fullmatch(reference):
            as_object(node)["$ref"] = "#/components/schemas/ "
        return target, steps

    def _target(self, reference: str) -> tuple[object, int]:
        way: dict[str, int] = {}
        target: object = None
        beyond = 0
        while reference not in self._targets:
            if reference in way:
                target, beyond = None, _MAX_STEPS
                break
            parts = reference.strip("#/").split("/") if reference.startswith("#/") else [""]
            way[reference] = len(parts)
            self._budget.spend(len(parts))
            target = self._document
            for part in parts:
                target = _member(target, part)
            following = as_object(target).get("$ref")
            if not isinstance(following, str):
                break
            reference = following
        else:
            target, beyond = self._targets[reference]
        for reference, steps in reversed(way.items()):
            beyond += steps + len(reference) // _CHARS_PER_VALUE
            self._targets[reference] = target, beyond
        return target, beyond

    def measure(self, node: object) -> Measure:
        """The measure of a node as it stands."""
        known = self._measures.get(id(node))
        if known is None:
            known = self._measures[id(node)] = node, self.measure_anew(node)
        return known[1]

    def measure_anew(self, node: object) -> Measure:
        """The same for a node that may have changed since it was measured."""
        names: dict[str, None] = {}
        values = variants = 0
        for value in self._budget.walk(node):
            values += 1
            if isinstance(value, str) and "/" in value:
                names[value.rpartition("/")[2]] = None
            elif isinstance(value, dict):
                members = cast("_Json", value)
                # A name that FastMCP gives to schemas itself, and follows wherever it stands.
                more = [members.get("x-fastmcp-top-level-schema"), *as_object(members.get("mapping")).values()]
                variants += len(more) - 1
                names |= {name: None for name in more if isinstance(name, str)}
        size = json_size(node)
        self._budget.spend(size // _CHARS_PER_VALUE)
        return Measure(size, values + size // _CHARS_PER_VALUE, [*names], variants)

    def closure(self, schema: object, most: int) -> Measure:
        """The measure of a schema with every definition that it needs, counted no further than `most` bytes."""
        size, work, names, variants = self.measure(schema)
        target, steps = self.follow(schema)
        work += steps
        if target is not schema and not any(self._schemas.get(name) is target for name in names):
            led = self.measure(target)
            size, work, variants = size + led.size, work + led.work, variants + led.variants
            names = [*names, *led.names]
        seen: set[str] = set()
        pending = list(names)
        while pending and size <= most:
            name = pending.pop()
            if name in seen or name not in self._schemas:
                continue
            seen.add(name)
            definition = self._definition(name)
            self._budget.spend(1 + len(definition.names))
            size += definition.size + _BYTES_PER_DEFINITION
            work += definition.work
            variants += definition.variants
            pending += definition.names
        return Measure(size, work + _CYCLE_WORK * (not seen.isdisjoint(self._endless)), (), variants)

    def _definition(self, name: str) -> Measure:
        """The measure of a definition; FastMCP replaces one that is a reference by what it leads to."""
        if (known := self._definitions.get(name)) is None:
            node = self._schemas[name]
            target, _ = self.follow(node)
            known = self.measure(node)
            if target is not node:
                led = self.measure(target)
                names = led.names if len(as_object(node)) == 1 else [*known.names, *led.names]
                known = Measure(known.size + led.size, known.work + led.work, names, known.variants + led.variants)
            self._definitions[name] = known
        return known

    def _find_endless(self) -> set[str]:
        """The definitions that are made of themselves, or of such ones, by `$ref` and `allOf` alone."""
        parts = {name: self._parts(schema) & self._schemas.keys() for name, schema in self._schemas.items()}
        wholes: dict[str, list[str]] = {}
        for name, needed in parts.items():
            for part in needed:
                wholes.setdefault(part, []).append(name)
        ending = [name for name, needed in parts.items() if not needed]
        for name in ending:
            for whole in wholes.get(name, ()):
                parts[whole].discard(name)
                if not parts[whole]:
                    ending.append(whole)
        return {name for name, needed in parts.items() if needed}

    def _parts(self, schema: object) -> set[str]:
        names: set[str] = set()
        pending = [schema]
        for node in pending:
            members = as_object(node)
            self._budget.spend(1)
            if isinstance(reference := members.get("$ref"), str):
                names.add(reference.rpartition("/")[2])
            pending += as_list(members.get("allOf"))
        return names


def _member(value: object, name: str) -> object:
    if isinstance(value, list):
        items = cast("list[object]", value)
        return items[int(name)] if name.isdecimal() and len(name) < 9 and int(name) < len(items) else None
    return as_object(value).get(name)


def keep_reference(node: object) -> None:
    """Leave nothing beside a reference: FastMCP might take that for the thing itself."""
    members = as_object(node)
    if isinstance(members.get("$ref"), str):
        for name in members.keys() - _REFERENCE_KEYS:
            del members[name]


def json_size(value: object) -> int:
    """Bytes of a value as JSON, of which each value and name in it counts for some: those of `[1,1,…]` are many."""
    encoded = to_json(value, fallback=str)
    return max(len(encoded), _BYTES_PER_VALUE * sum(map(encoded.count, VALUE_MARKS)))


def as_object(value: object) -> _Json:
    """A value that is an object of JSON; another one is empty."""
    return cast("_Json", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """A value that is a list of JSON; another one is empty."""
    return cast("list[object]", value) if isinstance(value, list) else []
