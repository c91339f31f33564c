"""JSON Schema as far as examples and declarations need it: local references, merged alternatives, types, properties,
limits.

Schemas come from servers we do not know: nothing in here raises on a wrong one, loops on a recursive one, or runs a
pattern of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, cast
from urllib.parse import unquote

from codecall.sandbox.agentscript.policy import NEVER_NAMES, PREFIXES

MAX_STEPS = 64
"""Steps of a JSON pointer that are followed."""

_MISSING: Final = object()
_KEYWORDS: Final = frozenset({"properties", "items", "additionalProperties", "anyOf", "oneOf", "allOf", "prefixItems"})


def resolve_pointer(reference: object, root: object) -> tuple[str, object] | None:
    """The place that `reference` names and what is there; None for anything else than a place within `root`.

    Names of equal places are equal, however they are spelled. Anchors and other documents are not looked up.
    """
    if not isinstance(reference, str) or re.match(r"#(/|\Z)", unquote(reference)) is None:
        return None
    place = unquote(reference[1:])
    steps = [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]]
    target: object = root
    for step in steps[:MAX_STEPS]:
        target = _step(target, step)
        if target is _MISSING:
            return None
    return (place, target) if len(steps) <= MAX_STEPS else None


def _step(target: object, step: str) -> object:
    """What is below `target` under a name or a number, if it is of the same document."""
    found: object = _MISSING
    if isinstance(target, Mapping):
        found = cast("Mapping[object, object]", target).get(step, _MISSING)
    elif isinstance(target, list) and re.fullmatch(r"0|[1-9][0-9]{0,8}", step):
        items = cast("Sequence[object]", target)
        found = items[int(step)] if int(step) < len(items) else _MISSING
    if isinstance(found, Mapping) and is_embedded_document(cast("Mapping[str, object]", found)):
        return _MISSING
    return cast("object", found)


def is_embedded_document(schema: Mapping[str, object]) -> bool:
    """Whether a schema within another is a document of its own, whose references start at itself."""
    return any(isinstance(name := schema.get(key), str) and not name.startswith("#") for key in ("$id", "id"))


def definition_title(place: str) -> str:
    """What to call the definition at a place: the last step that is a name."""
    steps = [step for step in place.split("/") if step and not step.isdigit() and step not in _KEYWORDS]
    return steps[-1] if steps else "Root"


JsonObject = Mapping[str, object]

MAX_REFERENCES = 16
"""`$ref`, `allOf`, `anyOf` and `oneOf` followed for one value."""
MAX_PROPERTIES = 40
"""Required properties of one object that are read."""


class SchemaNode:
    """One JSON Schema with its document, so that local references resolve."""

    __slots__ = ("body", "root")

    def __init__(self, body: JsonObject, root: JsonObject | None = None) -> None:
        self.root: JsonObject = body if root is None else root
        self.body = _resolve(body, self.root)

    def at(self, body: object) -> SchemaNode:
        """A part of this schema's document; what is no schema object allows everything."""
        return SchemaNode(cast(JsonObject, body) if isinstance(body, Mapping) else {}, self.root)

    @property
    def kind(self) -> str:
        """The JSON type, the first that is not null; guessed from other keywords; empty when anything goes."""
        declared = self.body.get("type")
        kinds = cast(Sequence[object], declared) if isinstance(declared, list) else [declared]
        for kind in kinds:
            if isinstance(kind, str) and kind != "null":
                return kind
        if "null" in kinds:
            return "null"
        if "properties" in self.body:
            return "object"
        return "array" if "items" in self.body or "prefixItems" in self.body else ""

    @property
    def properties(self) -> dict[str, SchemaNode]:
        """The properties of an object that a script may name, in their order."""
        found = self.body.get("properties")
        if not isinstance(found, Mapping):
            return {}
        properties = cast(Mapping[object, object], found)
        return {name: self.at(body) for name, body in properties.items() if isinstance(name, str) and is_nameable(name)}

    @property
    def required(self) -> list[str]:
        """The required properties that a script may name, without repetition."""
        found = self.body.get("required")
        if not isinstance(found, list):
            return []
        names = (name for name in cast(list[object], found) if isinstance(name, str) and is_nameable(name))
        return list(dict.fromkeys(names))[:MAX_PROPERTIES]

    @property
    def items(self) -> SchemaNode:
        """The schema of an array's items."""
        return self.at(self.body.get("items"))

    @property
    def choices(self) -> list[object]:
        """The values of `enum`, null left out."""
        found = self.body.get("enum")
        return [value for value in cast(list[object], found) if value is not None] if isinstance(found, list) else []

    def number(self, keyword: str) -> float | None:
        """A numeric keyword, if it is one."""
        value = self.body.get(keyword)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if isfinite(number) else None


def is_nameable(name: str) -> bool:
    """Whether a script may use `name` as a property name."""
    return name not in NEVER_NAMES and not name.startswith(tuple(PREFIXES))


def _resolve(body: JsonObject, root: JsonObject) -> JsonObject:
    """`body` with its references followed, `allOf` merged in, and the first alternative that is not null taken."""
    for _ in range(MAX_REFERENCES):
        reference = body.get("$ref")
        if isinstance(reference, str):
            rest = {key: value for key, value in body.items() if key != "$ref"}
            body = {**_referenced_schema(reference, root), **rest}
            continue
        parts = body.get("allOf")
        if isinstance(parts, list):
            body = _merge(
                body, [cast(JsonObject, p) for p in cast(list[object], parts) if isinstance(p, Mapping)], root
            )
            continue
        alternatives = body.get("anyOf") or body.get("oneOf")
        if not isinstance(alternatives, list):
            return body
        rest = {key: value for key, value in body.items() if key not in {"anyOf", "oneOf"}}
        body = {**rest, **_first_alternative(cast(list[object], alternatives))}
    return {}


def _referenced_schema(reference: str, root: JsonObject) -> JsonObject:
    found = resolve_pointer(reference, root)
    return cast(JsonObject, found[1]) if found is not None and isinstance(found[1], Mapping) else {}


def _merge(body: JsonObject, parts: list[JsonObject], root: JsonObject) -> JsonObject:
    merged = {key: value for key, value in body.items() if key != "allOf"}
    properties: dict[str, object] = {}
    required: list[object] = []
    for part in [*parts[:MAX_REFERENCES], dict(merged)]:
        reference = part.get("$ref")
        known: JsonObject = {**_referenced_schema(reference, root), **part} if isinstance(reference, str) else part
        for key, value in known.items():
            if key == "properties" and isinstance(value, Mapping):
                properties.update(cast(JsonObject, value))
            elif key == "required" and isinstance(value, list):
                required += cast(list[object], value)
            elif key != "$ref":
                merged.setdefault(key, value)
    if properties:
        merged["properties"] = properties
    if required:
        merged["required"] = required
    return merged


def _first_alternative(alternatives: list[object]) -> JsonObject:
    for each in alternatives:
        if isinstance(each, Mapping) and cast(JsonObject, each).get("type") != "null":
            return cast(JsonObject, each)
    return {"type": "null"}


_ANNOTATIONS = frozenset({"$schema", "title", "description", "default", "x-fastmcp-wrap-result"})
"""Keywords that say nothing of a value's form."""


def is_uninformative(schema: JsonObject | None, depth: int = 3) -> bool:
    """Whether a tool's output schema leaves its form open: there is none, or it allows any object, or a list of such.

    That is what a Python function declares that returns `dict` or `list[dict]`. Nested further than `depth` counts as
    said.
    """
    if schema is None:
        return True
    rest = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
    kind = rest.pop("type", None)
    if kind == "object":
        return rest.pop("additionalProperties", True) in (True, {}) and rest.pop("properties", {}) == {} and not rest
    if kind == "array":
        items = rest.pop("items", {})
        inner = isinstance(items, Mapping) and depth > 0 and is_uninformative(cast(JsonObject, items), depth - 1)
        return inner and not rest
    return kind is None and not rest


def resolve(field: dict[str, object], schema: dict[str, object]) -> dict[str, object]:
    """`field`, or what its `$ref` into the schema's own definitions names."""
    reference = field.get("$ref")
    if not isinstance(reference, str):
        return field
    place: object = schema
    for part in reference.removeprefix("#/").split("/"):
        place = _object(place).get(part)
    return _object(place)


def property_schemas(schema: JsonObject) -> dict[str, object]:
    """The schemas of an object's properties, by name."""
    return _object(schema.get("properties"))


def property_defaults(schema: JsonObject) -> dict[str, object]:
    """The defaults that a schema gives for an object's properties, by name."""
    fields = property_schemas(schema).items()
    return {name: _object(field)["default"] for name, field in fields if "default" in _object(field)}


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
