"""From JSON Schema to TypeScript types, in any of its drafts and as it is really written.

Schemas come from servers we do not know. Nothing in here raises on a wrong one, runs its patterns, goes round in
circles or takes long: depth and number of the schemas that are read are bounded, and what is odd, unsaid or out of
bounds becomes `unknown`.

One thing is read as it is meant and not as it is written: `properties` or `items` without a `type` stand for an object
or an array, although they allow everything else too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, cast

from codecall.catalog.javascript import string_literal
from codecall.catalog.typescript.comments import schema_comment
from codecall.catalog.typescript.types import (
    ANY_OBJECT,
    BOOLEAN,
    FALSE,
    NEVER,
    NULL,
    NUMBER,
    STRING,
    TRUE,
    UNKNOWN,
    ArrayType,
    AtomicType,
    MappedType,
    ObjectType,
    PropertyType,
    TupleType,
    Type,
    TypeReference,
    intersection,
    union,
)
from codecall.schema.model import is_embedded_document, resolve_pointer

MAX_SCHEMAS = 3_000
"""Schemas read for one declaration, those within each other counted."""
MAX_DEFINITIONS = 200
"""Definitions read for one declaration."""
MAX_ALTERNATIVES = 60
"""Members of one `anyOf`, `oneOf` or `allOf`."""
MAX_ITEMS = 30
"""Items of one tuple."""

_PLAIN: Final = {
    "string": STRING,
    "number": NUMBER,
    "integer": NUMBER,
    "boolean": BOOLEAN,
    "null": NULL,
}
_OTHERS: Final = "additionalProperties"
_OF_OBJECTS: Final = ("properties", "required", _OTHERS, "patternProperties")
_OF_LISTS: Final = ("items", "prefixItems")
_INHERITED: Final = frozenset(
    {"constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"}
)
_LEFT_OUT: Final = AtomicType("unknown", "left out")

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
    "array": ArrayType(UNKNOWN),
    "object": ANY_OBJECT,
}

JsonObject = Mapping[str, object]

MAX_NAMES = 60
"""Names that properties may have, as far as they are listed in a type."""

_KINDS: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", tuple: "array"}
_ALONE: Final = ("draft-03", "draft-04", "draft-06", "draft-07")


@dataclass(frozen=True, slots=True)
class DetailLevel:
    """How much of a schema a declaration shows."""

    depth: int = 30
    """Levels of objects and arrays within each other; what lies deeper is `unknown`."""
    description: int = 200
    """Characters of a property's description; 0: no comments at all."""
    choices: int = 1_000
    """Characters that the values of one enumeration may take; more become the type they have in common."""


class SchemaReader:
    """Reads the schemas of one document: `type`, then `definitions`.

    Args:
        document: the schema; what `$ref` points into.
        detail: how much of it is wanted.
        asked: whether it says what a tool is given, rather than what it gives.
    """

    def __init__(self, document: object, detail: DetailLevel, *, asked: bool) -> None:
        self.definitions: dict[str, Type] = {}
        """The places that something refers to, by their JSON pointer."""
        self.notes: dict[str, str] = {}
        """What comments say of them."""
        self.left_out = 0
        """Schemas that were not read because a bound was reached."""
        self._document = document
        self._detail = detail
        self._asked = asked
        self._left = MAX_SCHEMAS
        self._waiting: deque[tuple[str, object]] = deque()
        self._old = is_old(document)

    def read(self) -> Type:
        """The type of the whole document; `definitions` then has all that it refers to."""
        found = self._type(self._document, 0, local=True, root=True)
        while self._waiting:
            place, schema = self._waiting.popleft()
            self.definitions[place] = self._type(schema, 0, local=True, root=not place)
            self.notes[place] = self._note(schema)
        return found

    def _type(self, schema: object, depth: int, *, local: bool, root: bool = False) -> Type:
        """The type of one schema.

        Args:
            schema: the schema.
            depth: levels above it.
            local: whether its references point into this document.
            root: whether it is the document itself.
        """
        if schema is False:
            return NEVER
        if not isinstance(schema, Mapping):
            return UNKNOWN
        if depth > self._detail.depth or self._left <= 0:
            self.left_out += 1
            return _LEFT_OUT
        self._left -= 1
        body = cast("JsonObject", schema)
        local = local and (root or not is_embedded_document(body))
        reference = body.get("$ref")
        parts: list[Type] = [] if reference is None else [self._referred(reference, local=local)]
        if not (self._old and reference is not None):  # before 2019, what stands beside a reference does not count
            parts += self._combined(body, depth, local=local)
            parts.append(self._own(body, parts, depth, local=local))
        found = intersection(parts)
        return union((found, NULL)) if body.get("nullable") is True else found

    def _referred(self, reference: object, *, local: bool) -> Type:
        target = resolve_pointer(reference, self._document) if local else None
        if target is None:
            return UNKNOWN
        place, schema = target
        if place not in self.definitions:
            if len(self.definitions) >= MAX_DEFINITIONS:
                self.left_out += 1
                return _LEFT_OUT
            self.definitions[place] = UNKNOWN  # until it is read
            self._waiting.append((place, schema))
        return TypeReference(place)

    def _combined(self, body: JsonObject, depth: int, *, local: bool) -> list[Type]:
        """What `anyOf`, `oneOf` and `allOf` say."""
        found: list[Type] = []
        for keyword in ("allOf", "anyOf", "oneOf"):
            members = body.get(keyword)
            if not isinstance(members, list) or not members:
                continue
            schemas = cast("list[object]", members)
            if keyword == "allOf":
                self.left_out += max(0, len(schemas) - MAX_ALTERNATIVES)
                found += [self._type(each, depth + 1, local=local) for each in schemas[:MAX_ALTERNATIVES]]
            elif len(schemas) > MAX_ALTERNATIVES and not all(map(is_const, schemas)):
                self.left_out += len(schemas)
                found.append(AtomicType("unknown", f"one of {len(schemas)}"))
            else:
                found.append(self._either(schemas, depth, local=local))
        return found

    def _either(self, schemas: Sequence[object], depth: int, *, local: bool) -> Type:
        if len(schemas) > 1 and all(map(is_const, schemas)):
            return choice([cast("JsonObject", each)["const"] for each in schemas], self._detail.choices)
        return union([self._type(each, depth + 1, local=local) for each in schemas])

    def _own(self, body: JsonObject, parts: Sequence[Type], depth: int, *, local: bool) -> Type:
        """What a schema says by itself."""
        named = body.get("type")
        kinds = cast("list[object]", named) if isinstance(named, list) else [] if named is None else [named]
        if not all(isinstance(kind, str) and (kind in _PLAIN or kind in {"object", "array"}) for kind in kinds):
            return UNKNOWN
        stated = self._stated(body)
        if stated is not None:
            return stated if not kinds or agree(body, cast("list[str]", kinds)) else UNKNOWN
        if not kinds:
            kinds = self._meant(body, parts)
        found: list[Type] = []
        for kind in dict.fromkeys(cast("list[str]", kinds)):
            if kind == "object":
                found.append(self._object(body, depth, local=local))
            elif kind == "array":
                found.append(self._list(body, depth, local=local))
            else:
                found.append(_PLAIN[kind])
        return union(found) if found else UNKNOWN

    def _stated(self, body: JsonObject) -> Type | None:
        if "const" in body:
            return const(body["const"], self._detail.choices)
        values = body.get("enum")
        if isinstance(values, list) and values:
            return choice(cast("list[object]", values), self._detail.choices)
        return None

    def _meant(self, body: JsonObject, parts: Sequence[Type]) -> list[object]:
        """The type of a schema that does not name it."""
        kind = "object" if has(body, _OF_OBJECTS) else "array" if has(body, _OF_LISTS) else None
        if kind is None:
            return []
        # Beside alternatives it is a condition on those that are of that type.
        return [kind] if all(self._is(part, kind) for part in parts) else []

    def _is(self, part: Type, kind: str) -> bool:
        match part:
            case ObjectType() | MappedType():
                return kind == "object"
            case ArrayType() | TupleType():
                return kind == "array"
            case TypeReference(place):
                target = resolve_pointer(f"#{place}", self._document)
                body = target[1] if target is not None else None
                return isinstance(body, Mapping) and cast("JsonObject", body).get("type") == kind
            case AtomicType(text):
                return text == "unknown"
            case _:
                return all(self._is(member, kind) for member in part.members)

    def _object(self, body: JsonObject, depth: int, *, local: bool) -> Type:
        given = body.get("properties")
        known = cast("Mapping[object, object]", given if isinstance(given, Mapping) else {})
        wanted = body.get("required")
        listed = cast("list[object]", wanted) if isinstance(wanted, list) else []
        required = dict.fromkeys(name for name in listed if isinstance(name, str))
        others = self._others(body, depth, local=local)
        names = names_of(body.get("propertyNames"))
        if names and not known and not required and others is not None:
            return MappedType(names, others)
        fields: list[PropertyType] = []
        for name, schema in known.items():
            if self._left <= 0:
                self.left_out += len(known) - len(fields)
                return ObjectType(tuple(fields), UNKNOWN)
            inner = self._type(schema, depth + 1, local=local)
            optional = name not in required
            # What an object lacks of these, it has from its prototype.
            inner = UNKNOWN if optional and name in _INHERITED else inner
            fields.append(PropertyType(str(name), inner, optional, self._note(schema)))
        fields += [PropertyType(name, others or UNKNOWN, optional=False) for name in required if name not in known]
        if others is None and "type" in body and not isinstance(given, Mapping) and body.get(_OTHERS) is not False:
            others = UNKNOWN
        return ObjectType(tuple(fields), others)

    def _others(self, body: JsonObject, depth: int, *, local: bool) -> Type | None:
        """What properties are that are not named, where it is said."""
        given = body.get(_OTHERS)
        patterns = body.get("patternProperties")
        found: list[Type] = []
        if isinstance(patterns, Mapping) and patterns:
            if given is None:
                return UNKNOWN
            schemas = cast("Mapping[object, object]", patterns).values()
            found = [self._type(schema, depth + 1, local=local) for schema in schemas]
        if given is not None and given is not False:
            found.append(self._type(given, depth + 1, local=local))
        return union(found) if found else None

    def _list(self, body: JsonObject, depth: int, *, local: bool) -> Type:
        items, first = body.get("items"), body.get("prefixItems")
        if isinstance(items, list):  # before 2020
            first, items = cast("object", items), body.get("additionalItems")
        if not isinstance(first, list) or not first:
            inner = UNKNOWN if items is None else self._type(items, depth + 1, local=local)
            return ArrayType(inner)
        least, most = count(body.get("minItems")) or 0, count(body.get("maxItems"))
        schemas = cast("list[object]", first)
        closed = items is False or (most is not None and most <= len(schemas))
        if len(schemas) > MAX_ITEMS:
            self.left_out += len(schemas) - MAX_ITEMS
            return ArrayType(_LEFT_OUT)
        if most is not None:
            schemas = schemas[:most]
        found = tuple(self._type(schema, depth + 1, local=local) for schema in schemas)
        rest = None if closed else UNKNOWN if items is None else self._type(items, depth + 1, local=local)
        return TupleType(found, min(least, len(found)), rest)

    def _note(self, schema: object) -> str:
        """What a comment says of a schema, and of the one that it refers to or makes optional."""
        if not isinstance(schema, Mapping):
            return ""
        body = cast("JsonObject", schema)
        return schema_comment(body, self._behind(body), limit=self._detail.description, asked=self._asked)

    def _behind(self, body: JsonObject) -> JsonObject:
        for keyword in ("anyOf", "oneOf", "allOf"):
            members = body.get(keyword)
            if isinstance(members, list):
                schemas = cast("list[object]", members)[:MAX_ALTERNATIVES]
                real = [each for each in schemas if each != {"type": "null"}]
                if len(real) == 1 and isinstance(real[0], Mapping):
                    return cast("JsonObject", real[0])
        return {}


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
    return union(found)


def is_old(document: object) -> bool:
    """Whether a document says that it is of a draft in which nothing beside `$ref` counts."""
    named = cast("JsonObject", document).get("$schema") if isinstance(document, Mapping) else None
    return isinstance(named, str) and any(draft in named for draft in _ALONE)


def is_const(schema: object) -> bool:
    """Whether a schema stands for one value."""
    return isinstance(schema, Mapping) and "const" in schema and "nullable" not in schema


def has(body: JsonObject, keywords: Sequence[str]) -> bool:
    """Whether one of these keywords is there, with something in it."""
    return any(isinstance(body.get(keyword), (Mapping, list)) for keyword in keywords)


def agree(body: JsonObject, kinds: Sequence[str]) -> bool:
    """Whether one at least of the values that `const` or `enum` states is of one of these types."""
    values = [body["const"]] if "const" in body else cast("list[object]", body["enum"])
    return any(kind in kinds or (kind == "integer" and "number" in kinds) for kind in map(kind_of, values))


def kind_of(value: object) -> str:
    """The JSON type of a value, whole numbers as `integer`."""
    if value is None:
        return "null"
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return next((kind for python, kind in _KINDS.items() if isinstance(value, python)), "object")


def names_of(schema: object) -> tuple[str, ...]:
    """The names that `propertyNames` lists."""
    names = cast("JsonObject", schema).get("enum") if isinstance(schema, Mapping) else None
    if not isinstance(names, list):
        return ()
    listed = cast("list[object]", names)
    return tuple(dict.fromkeys(str(name) for name in listed)) if len(listed) <= MAX_NAMES else ()


def count(value: object) -> int | None:
    """A number of items; None for what is none."""
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9 else None


def _literal(value: object, left: list[int], depth: int) -> Type:
    """The type of one value, whose characters are taken off what is `left`."""
    left[0] -= 4
    if left[0] < 0 or depth == 0:
        return UNKNOWN
    if isinstance(value, str):
        left[0] -= len(value)
        return STRING if left[0] < 0 else AtomicType(string_literal(value))
    if isinstance(value, (bool, int, float)):
        return _number(value)
    if isinstance(value, Mapping):
        return _object(cast("Mapping[object, object]", value), left, depth)
    if isinstance(value, (list, tuple)):
        return _list(cast("Sequence[object]", value), left, depth)
    return NULL if value is None else UNKNOWN


def _object(value: Mapping[object, object], left: list[int], depth: int) -> Type:
    fields: list[PropertyType] = []
    for name, item in value.items():
        left[0] -= len(str(name))
        if left[0] < 0:
            break
        fields.append(PropertyType(str(name), _literal(item, left, depth - 1), optional=False))
    return ObjectType(tuple(fields))


def _list(value: Sequence[object], left: list[int], depth: int) -> Type:
    items: list[Type] = []
    for item in value:
        if left[0] < 0:
            break
        items.append(_literal(item, left, depth - 1))
    return TupleType(tuple(items), len(items), None)


def _number(value: float) -> Type:
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return AtomicType(str(value)) if abs(value) < 10**MAX_DIGITS else NUMBER
    if not isfinite(value):
        return NUMBER
    if value.is_integer() and abs(value) < 10**MAX_DIGITS:
        return AtomicType(str(int(value)))
    return AtomicType(repr(value))


def _widened(values: Sequence[object]) -> Type:
    """What these values have in common."""
    kinds = dict.fromkeys(_BY_KIND[kind_of(value)] for value in values)
    if len(values) > 1:
        first = next(iter(kinds))
        remark = ", ".join((f"{len(values)} values", *_beginning(values), "…"))
        kinds = {
            AtomicType(kind.text, remark) if kind is first and isinstance(kind, AtomicType) else kind: None
            for kind in kinds
        }
    return union(kinds)


def _beginning(values: Sequence[object]) -> Iterator[str]:
    left = SHOWN
    for value in values:
        if isinstance(value, str):
            left -= len(value)
            if left < 0:
                return
            yield string_literal(value)
