"""Converts JSON Schema to TypeScript types: any of its drafts, and as schemas are really written.

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
    INTEGER,
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

MAX_CHARACTERS = 12_000
"""Characters of the longest declaration."""
FIELD_CHARACTERS = 5
"""Least characters of a field besides its name: separators and the shortest type."""
MAX_LITERALS = 6_000
"""Values of `const` and `enum` read for one declaration; those of further ones become what they have in common."""
MAX_SCHEMAS = 3_000
"""Schemas, and required fields without one, read for one declaration, those within each other counted."""
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
"""Levels of an object or array in `const` or `enum`; deeper ones are `unknown`."""
MAX_DIGITS = 20
"""Digits of a whole number in `const` or `enum`; longer ones are `number`."""
SHOWN = 45
"""Characters of the values that a remark names where an enumeration is too long."""

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
"""Names of properties that a mapped type may list."""

_KINDS: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
}
_REF_ONLY_DRAFTS: Final = ("draft-03", "draft-04", "draft-06", "draft-07")


@dataclass(frozen=True, slots=True)
class DetailLevel:
    """How much of a schema a declaration shows."""

    depth: int = 30
    """Levels of nested objects and arrays; deeper ones are `unknown`."""
    description: int = 200
    """Characters of a property's description; 0: no comments at all."""
    choices: int = 1_000
    """Characters that the values of one enumeration may take; with more they become the type they have in common."""
    fields: int = MAX_CHARACTERS
    """Characters that the names of one object's fields may take; with more it is an object of any fields."""


class SchemaReader:
    """Reads the schemas of one document: `type`, then `definitions`.

    Args:
        document: the schema, into which `$ref` points.
        detail: how much of it to read.
        is_input: whether it is the schema of an input, rather than of an output.
        integers: whether `integer` is a type of its own, which it is not in TypeScript.
    """

    def __init__(self, document: object, detail: DetailLevel, *, is_input: bool, integers: bool = False) -> None:
        self.definitions: dict[str, Type] = {}
        """The types of schemas that a `$ref` points to, by their JSON pointer."""
        self.notes: dict[str, str] = {}
        """The comments on the definitions."""
        self.left_out = 0
        """How many schemas were not read because a bound was reached."""
        self._document = document
        self._detail = detail
        self._is_input = is_input
        self._plain = {**_PLAIN, "integer": INTEGER} if integers else _PLAIN
        self._remaining = MAX_SCHEMAS
        self._literals = MAX_LITERALS
        self._pending: deque[tuple[str, object]] = deque()
        self._old = is_old(document)

    def read(self) -> Type:
        """Returns the type of the document; `definitions` then has all that it refers to."""
        root_type = self._type(self._document, 0, local=True, root=True)
        while self._pending:
            place, schema = self._pending.popleft()
            self.definitions[place] = self._type(schema, 0, local=True, root=not place)
            self.notes[place] = self._note(schema)
        return root_type

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
        if depth > self._detail.depth or self._remaining <= 0:
            self.left_out += 1
            return _LEFT_OUT
        self._remaining -= 1
        body = cast("JsonObject", schema)
        local = local and (root or not is_embedded_document(body))
        reference = body.get("$ref")
        parts: list[Type] = [] if reference is None else [self._reference_type(reference, local=local)]
        if not (self._old and reference is not None):  # before 2019, what stands beside a reference does not count
            parts += self._combined_types(body, depth, local=local)
            parts.append(self._own_type(body, parts, depth, local=local))
        combined = intersection(parts)
        return union((combined, NULL)) if body.get("nullable") is True else combined

    def _reference_type(self, reference: object, *, local: bool) -> Type:
        target = resolve_pointer(reference, self._document) if local else None
        if target is None:
            return UNKNOWN
        place, schema = target
        if place not in self.definitions:
            if len(self.definitions) >= MAX_DEFINITIONS:
                self.left_out += 1
                return _LEFT_OUT
            self.definitions[place] = UNKNOWN  # until it is read
            self._pending.append((place, schema))
        return TypeReference(place)

    def _combined_types(self, body: JsonObject, depth: int, *, local: bool) -> list[Type]:
        """The types of `anyOf`, `oneOf` and `allOf`."""
        types: list[Type] = []
        for keyword in ("allOf", "anyOf", "oneOf"):
            members = body.get(keyword)
            if not isinstance(members, list) or not members:
                continue
            schemas = cast("list[object]", members)
            if keyword == "allOf":
                self.left_out += max(0, len(schemas) - MAX_ALTERNATIVES)
                types += [self._type(each, depth + 1, local=local) for each in schemas[:MAX_ALTERNATIVES]]
            elif len(schemas) > MAX_ALTERNATIVES and not all(map(is_const, schemas)):
                self.left_out += len(schemas)
                types.append(AtomicType("unknown", f"one of {len(schemas)}"))
            else:
                types.append(self._either(schemas, depth, local=local))
        return types

    def _either(self, schemas: Sequence[object], depth: int, *, local: bool) -> Type:
        if len(schemas) > 1 and all(map(is_const, schemas)):
            return self._choice([cast("JsonObject", each)["const"] for each in schemas])
        return union([self._type(each, depth + 1, local=local) for each in schemas])

    def _own_type(self, body: JsonObject, parts: Sequence[Type], depth: int, *, local: bool) -> Type:
        """The type of a schema, its references and combinations aside."""
        named = body.get("type")
        kinds = cast("list[object]", named) if isinstance(named, list) else [] if named is None else [named]
        if not all(isinstance(kind, str) and (kind in _PLAIN or kind in {"object", "array"}) for kind in kinds):
            return UNKNOWN
        enum_type = self._enum_type(body)
        if enum_type is not None:
            return enum_type if not kinds or agree(body, cast("list[str]", kinds)) else UNKNOWN
        if not kinds:
            kinds = self._implied_types(body, parts)
        types: list[Type] = []
        for kind in dict.fromkeys(cast("list[str]", kinds)):
            if kind == "object":
                types.append(self._object(body, depth, local=local))
            elif kind == "array":
                types.append(self._list(body, depth, local=local))
            else:
                types.append(self._plain[kind])
        return union(types) if types else UNKNOWN

    def _enum_type(self, body: JsonObject) -> Type | None:
        if "const" in body:
            return self._choice([body["const"]])
        values = body.get("enum")
        return self._choice(cast("list[object]", values)) if isinstance(values, list) and values else None

    def _choice(self, values: Sequence[object]) -> Type:
        limit = self._detail.choices if len(values) <= self._literals else 0
        self._literals -= min(len(values), limit // 4)
        return choice(values, limit)

    def _implied_types(self, body: JsonObject, parts: Sequence[Type]) -> list[object]:
        """The JSON type of a schema without `type`."""
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
        properties = body.get("properties")
        named = cast("Mapping[object, object]", properties if isinstance(properties, Mapping) else {})
        wanted = body.get("required")
        listed = cast("list[object]", wanted) if isinstance(wanted, list) else []
        required = dict.fromkeys(name for name in listed if isinstance(name, str))
        others = self._others(body, depth, local=local)
        names = names_of(body.get("propertyNames"))
        if names and not named and not required and others is not None:
            return MappedType(names, others)
        unnamed = [name for name in required if name not in named]
        if sum(FIELD_CHARACTERS + len(str(name)) for name in (*named, *unnamed)) > self._detail.fields:
            self.left_out += len(named) + len(unnamed)
            return ANY_OBJECT
        self.left_out += max(0, len(unnamed) - self._remaining)
        unnamed = unnamed[: self._remaining]
        self._remaining -= len(unnamed)
        fields: list[PropertyType] = []
        for name, schema in named.items():
            if self._remaining <= 0:
                self.left_out += len(named) - len(fields)
                return ObjectType(tuple(fields), UNKNOWN)
            inner = self._type(schema, depth + 1, local=local)
            optional = name not in required
            # What an object lacks of these, it has from its prototype.
            inner = UNKNOWN if optional and name in _INHERITED else inner
            fields.append(PropertyType(str(name), inner, optional, self._note(schema)))
        fields += [PropertyType(name, others or UNKNOWN, optional=False) for name in unnamed]
        if others is None and "type" in body and not isinstance(properties, Mapping) and body.get(_OTHERS) is not False:
            others = UNKNOWN
        return ObjectType(tuple(fields), others)

    def _others(self, body: JsonObject, depth: int, *, local: bool) -> Type | None:
        """The type of properties that are not named, where the schema states one."""
        additional = body.get(_OTHERS)
        patterns = body.get("patternProperties")
        types: list[Type] = []
        if isinstance(patterns, Mapping) and patterns:
            if additional is None:
                return UNKNOWN
            schemas = cast("Mapping[object, object]", patterns).values()
            types = [self._type(schema, depth + 1, local=local) for schema in schemas]
        if additional is not None and additional is not False:
            types.append(self._type(additional, depth + 1, local=local))
        return union(types) if types else None

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
        item_types = tuple(self._type(schema, depth + 1, local=local) for schema in schemas)
        rest = None if closed else UNKNOWN if items is None else self._type(items, depth + 1, local=local)
        return TupleType(item_types, min(least, len(item_types)), rest)

    def _note(self, schema: object) -> str:
        """The comment on a schema, and on the one that it refers to or makes optional."""
        if not isinstance(schema, Mapping):
            return ""
        body = cast("JsonObject", schema)
        if self._plain is not _PLAIN:
            body = {**body, "type": None}  # which says already that it is an integer
        return schema_comment(body, self._wrapped_schema(body), limit=self._detail.description, is_input=self._is_input)

    def _wrapped_schema(self, body: JsonObject) -> JsonObject:
        for keyword in ("anyOf", "oneOf", "allOf"):
            members = body.get(keyword)
            if isinstance(members, list):
                schemas = cast("list[object]", members)[:MAX_ALTERNATIVES]
                real = [each for each in schemas if each != {"type": "null"}]
                if len(real) == 1 and isinstance(real[0], Mapping):
                    return cast("JsonObject", real[0])
        return {}


def choice(values: Sequence[object], limit: int) -> Type:
    """Returns the type of exactly these values; of their kinds, with a remark, where that is over `limit`
    characters."""
    types: dict[Type, None] = {}
    budget = [limit]
    for value in values:
        types[_literal(value, budget, MAX_DEPTH)] = None
        if budget[0] < 0:
            return _widened(values)
    return union(types)


def is_old(document: object) -> bool:
    """Whether a document declares a draft in which keywords beside `$ref` do not count."""
    named = cast("JsonObject", document).get("$schema") if isinstance(document, Mapping) else None
    return isinstance(named, str) and any(draft in named for draft in _REF_ONLY_DRAFTS)


def is_const(schema: object) -> bool:
    """Whether a schema allows exactly one value."""
    return isinstance(schema, Mapping) and "const" in schema and "nullable" not in schema


def has(body: JsonObject, keywords: Sequence[str]) -> bool:
    """Whether a schema has one of these keywords, with an object or an array as its value."""
    return any(isinstance(body.get(keyword), (Mapping, list)) for keyword in keywords)


def agree(body: JsonObject, kinds: Sequence[str]) -> bool:
    """Whether at least one of the values of `const` or `enum` has one of these JSON types."""
    values = [body["const"]] if "const" in body else cast("list[object]", body["enum"])
    return any(kind in kinds or (kind == "integer" and "number" in kinds) for kind in map(kind_of, values))


def kind_of(value: object) -> str:
    """Returns the JSON type of a value; whole numbers are `integer`."""
    if value is None:
        return "null"
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _KINDS.get(type(value), "object")


def names_of(schema: object) -> tuple[str, ...]:
    """Returns the names that `propertyNames` lists."""
    names = cast("JsonObject", schema).get("enum") if isinstance(schema, Mapping) else None
    if not isinstance(names, list):
        return ()
    listed = cast("list[object]", names)
    return tuple(dict.fromkeys(str(name) for name in listed)) if len(listed) <= MAX_NAMES else ()


def count(value: object) -> int | None:
    """Returns a number of items; None for any other value."""
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9 else None


def _literal(value: object, budget: list[int], depth: int) -> Type:
    """The type of one value; its characters are deducted from the budget."""
    budget[0] -= 4
    if budget[0] < 0 or depth == 0:
        return UNKNOWN
    if isinstance(value, str):
        budget[0] -= len(value)
        return STRING if budget[0] < 0 else AtomicType(string_literal(value))
    if isinstance(value, (bool, int, float)):
        return _number(value)
    if isinstance(value, Mapping):
        return _object(cast("Mapping[object, object]", value), budget, depth)
    if isinstance(value, (list, tuple)):
        return _list(cast("Sequence[object]", value), budget, depth)
    return NULL if value is None else UNKNOWN


def _object(value: Mapping[object, object], budget: list[int], depth: int) -> Type:
    fields: list[PropertyType] = []
    for name, item in value.items():
        budget[0] -= len(str(name))
        if budget[0] < 0:
            break
        fields.append(PropertyType(str(name), _literal(item, budget, depth - 1), optional=False))
    return ObjectType(tuple(fields))


def _list(value: Sequence[object], budget: list[int], depth: int) -> Type:
    items: list[Type] = []
    for item in value:
        if budget[0] < 0:
            break
        items.append(_literal(item, budget, depth - 1))
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
    """The type that these values have in common."""
    kinds = dict.fromkeys(_BY_KIND[kind_of(value)] for value in values)
    if len(values) > 1:
        first = next(iter(kinds))
        remark = ", ".join((f"{len(values)} values", *_first_values(values), "…"))
        kinds = {
            AtomicType(kind.text, remark) if kind is first and isinstance(kind, AtomicType) else kind: None
            for kind in kinds
        }
    return union(kinds)


def _first_values(values: Sequence[object]) -> Iterator[str]:
    remaining = SHOWN
    for value in values:
        if isinstance(value, str):
            remaining -= len(value)
            if remaining < 0:
                return
            yield string_literal(value)
