"""The schemas of operations: as a document says them, while they are few bytes.

A little document may say very many, because each operation has a copy of all that its schemas refer to. So what is too
much is replaced in the document, before FastMCP makes the copies, and what it has made is counted once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from codecall.gateway.upstream.interface import UNCHECKED_KEYWORD, unchecked_schema
from codecall.gateway.upstream.messages import shorten

MAX_INPUT_SCHEMA: Final = 64 * 1024
"""Largest schema of an operation's parameters that is published as it is, as JSON."""

MAX_INPUT_SCHEMAS: Final = 8 * 1024 * 1024
"""The same for all operations of a document."""

MAX_RESULT_SCHEMA: Final = 32 * 1024
"""Largest schema of an operation's results that is published, as JSON."""

MAX_RESULT_SCHEMAS: Final = 8 * 1024 * 1024
"""The same for all operations of a document."""

_MAX_DESCRIPTION: Final = 200
"""Characters of the description of a parameter whose schema is left out."""

_MAX_REFERENCES: Final = 10
"""References that are followed to what is no reference."""

_DEFINITION: Final = "#/components/schemas/"
_BYTES_PER_DEFINITION: Final = 50

_Json = dict[str, object]


def trim_schemas(document: dict[str, Any]) -> None:
    """Replace those schemas of a document's operations that are too much with all that they refer to."""
    definitions = _Definitions(document)
    input_left, result_left = MAX_INPUT_SCHEMAS, MAX_RESULT_SCHEMAS

    outlines: dict[tuple[object, int], tuple[_Json, int, _Json]] = {}
    """What a schema that operations may share is replaced by, its size, and the schema, whose identity is the key."""

    def trim(places: Iterator[_Json], most: int, left: int, outline: Callable[[_Json], _Json]) -> int:
        for place in places:
            size = definitions.size(place.get("schema"), min(most, left))
            if size > min(most, left):
                schema = definitions.resolve(place.get("schema"))
                if (known := (outline, id(schema))) not in outlines:
                    outlined = outline(schema)
                    outlines[known] = outlined, _size(outlined), schema
                place["schema"], size, _ = outlines[known]
                if size > left:
                    place["schema"], size = _kind(schema), 0
            left -= size
        return left

    for path in map(definitions.resolve, _values(document.get("paths"))):
        shared = _items(path.get("parameters"))
        for operation in _members(path):
            parameters = [definitions.resolve(each) for each in (*shared, *_items(operation.get("parameters")))]
            body = definitions.resolve(operation.get("requestBody"))
            inputs = (*_with_schema(parameters), *(place for each in (*parameters, body) for place in _content(each)))
            input_left = trim(iter(inputs), MAX_INPUT_SCHEMA, input_left, _outline)
            answers = [definitions.resolve(each) for each in _values(operation.get("responses"))]
            results = (place for answer in answers for place in _content(answer))
            result_left = trim(results, MAX_RESULT_SCHEMA, result_left, _kind)


class _Definitions:
    """What a document defines for reference."""

    def __init__(self, document: Mapping[str, object]) -> None:
        components = _object(document.get("components"))
        self._sections = {section: _object(components[section]) for section in components}
        self._schemas = self._sections.get("schemas", {})
        self._measured: dict[str, tuple[int, Sequence[str]]] = {}

    def resolve(self, node: object) -> _Json:
        """What a reference to a component leads to; empty: nowhere."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(reference := _object(node).get("$ref"), str):
                return _object(node)
            section, _, name = reference.removeprefix("#/components/").partition("/")
            node = self._sections.get(section, {}).get(name)
        return {}

    def size(self, schema: object, most: int) -> int:
        """Bytes of a schema with every definition that it needs, counted no further than `most`."""
        size, names = _measure(schema)
        seen: set[str] = set()
        pending = list(names)
        while pending and size <= most:
            name = pending.pop()
            if name in seen or name not in self._schemas:
                continue
            seen.add(name)
            if name not in self._measured:
                self._measured[name] = _measure(self._schemas[name])
            own, names = self._measured[name]
            size += own + _BYTES_PER_DEFINITION
            pending += names
        return size


def _measure(schema: object) -> tuple[int, Sequence[str]]:
    """The bytes of a schema, and the names of the definitions in it, be they references or in a discriminator."""
    names: dict[str, None] = {}
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, str) and "/" in node:
            names[node.rpartition("/")[2]] = None
        elif isinstance(node, dict):
            members = cast("_Json", node)
            names |= {value: None for value in _object(members.get("mapping")).values() if isinstance(value, str)}
            pending += members.values()
        elif isinstance(node, list):
            pending += cast("list[object]", node)
    return _size(schema), list(names)


def _object(value: object) -> _Json:
    return cast("_Json", value) if isinstance(value, dict) else {}


def _values(value: object) -> list[object]:
    return list(_object(value).values())


def _members(value: object) -> list[_Json]:
    return [_object(each) for each in _values(value)]


def _items(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _with_schema(places: Sequence[_Json]) -> list[_Json]:
    return [place for place in places if "schema" in place]


def _content(place: _Json) -> list[_Json]:
    """Where the schemas of a body stand."""
    return _with_schema(_members(place.get("content")))


class PublishedSchemas:
    """What the tools of one document publish, with the bytes that are left."""

    def __init__(self) -> None:
        self._input_left = MAX_INPUT_SCHEMAS
        self._result_left = MAX_RESULT_SCHEMAS

    def parameters(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """What a tool publishes of its parameters: where that is too much, only their names, types and descriptions;
        and where those are, nothing. What is refused does not depend on it."""
        for described in (_with_used_definitions(schema), _outline(schema)):
            size = _size(described)
            if size <= min(MAX_INPUT_SCHEMA, self._input_left):
                self._input_left -= size
                return described
        return {"type": "object", "additionalProperties": True}

    def result(self, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """What a tool publishes of its results.

        An API answers what it does, whatever its document says. So schemas are marked: nothing is refused by them.
        """
        if schema is None:
            return None
        described = {**_with_used_definitions(schema), UNCHECKED_KEYWORD: True}
        described.pop("x-fastmcp-top-level-schema", None)
        size = _size(described)
        if size > min(MAX_RESULT_SCHEMA, self._result_left):
            return unchecked_schema(described)
        self._result_left -= size
        return described


def _size(schema: object) -> int:
    return len(json.dumps(schema, default=str))


def _outline(schema: Mapping[str, Any]) -> _Json:
    """An input schema without what its parameters hold; where that is too much, without them."""
    kept = _kind(schema)
    if properties := _object(schema.get("properties")):
        kept["type"] = "object"
        kept["properties"] = {name: _parameter_outline(_object(each)) for name, each in properties.items()}
        kept |= {name: schema[name] for name in ("required", "additionalProperties") if name in schema}
    return kept if _size(kept) <= MAX_INPUT_SCHEMA else _kind(schema)


def _parameter_outline(schema: Mapping[str, object]) -> _Json:
    description = schema.get("description")
    outline = _kind(schema)
    if isinstance(description, str):
        outline["description"] = shorten(description, _MAX_DESCRIPTION)
    if schema.get("readOnly") is True:
        outline["readOnly"] = True
    return outline


def _kind(schema: Mapping[str, object]) -> _Json:
    """A schema that says no more than the type."""
    kind = schema.get("type")
    return {"type": kind} if isinstance(kind, str) else {}


def _with_used_definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with those of its definitions that something in it refers to."""
    definitions: Mapping[str, Any] = schema.get("$defs") or {}
    rest = {key: value for key, value in schema.items() if key != "$defs"}
    used: dict[str, Any] = {}
    pending: list[object] = list(rest.values())
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            members = cast("dict[str, object]", node)
            name = str(members.get("$ref", "")).removeprefix("#/$defs/")
            if name in definitions and name not in used:
                used[name] = definitions[name]
                pending.append(definitions[name])
            pending += members.values()
        elif isinstance(node, list):
            pending += cast("list[object]", node)
    return {**rest, **({"$defs": used} if used else {})}
