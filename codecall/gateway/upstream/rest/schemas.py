"""The schemas of operations: as a document says them, while they are few bytes.

A little document may say very many, because each operation has a copy of all that its schemas refer to. So what is too
much is replaced in the document, before FastMCP makes the copies, and what it has made is counted once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from codecall.gateway.upstream.interface import UNCHECKED_KEYWORD, unchecked_schema
from codecall.gateway.upstream.listing import MAX_ITEMS
from codecall.gateway.upstream.messages import shorten
from codecall.gateway.upstream.rest.work import (
    Budget,
    Measure,
    References,
    TooMuchWorkError,
    as_list,
    as_object,
    json_size,
    keep_reference,
)

MAX_INPUT_SCHEMA: Final = 64 * 1024
"""Largest schema of an operation's parameters that is published as it is, as JSON."""

MAX_INPUT_SCHEMAS: Final = 8 * 1024 * 1024
"""The same for all operations of a document."""

MAX_RESULT_SCHEMA: Final = 32 * 1024
"""Largest schema of an operation's results that is published, as JSON."""

MAX_RESULT_SCHEMAS: Final = 8 * 1024 * 1024
"""The same for all operations of a document."""

MAX_PATH: Final = 2_048
"""Characters of the path of an operation, as of the URL of its API: FastMCP looks through it for each parameter."""

_MAX_DESCRIPTION: Final = 200
"""Characters of the description of a parameter whose schema is left out."""

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
"""The members of a path that FastMCP makes operations of."""

_Json = dict[str, object]


def trim_schemas(document: dict[str, Any]) -> None:
    """Replace those schemas of a document's operations that are too much with all that they refer to.

    Raises:
        TooMuchWorkError: FastMCP's work with the document would be, or there are more tools than a server may list.
    """
    budget = Budget()
    for _ in budget.walk(document):
        pass
    references = References(document, budget)
    inputs = _Trimmed(references, budget, MAX_INPUT_SCHEMA, MAX_INPUT_SCHEMAS, _outline, merges=True)
    results = _Trimmed(references, budget, MAX_RESULT_SCHEMA, MAX_RESULT_SCHEMAS, _kind)
    count = 0
    for path, item in as_object(document.get("paths")).items():
        members = as_object(item)
        operations = [as_object(members[method]) for method in _METHODS if isinstance(members.get(method), dict)]
        count += len(operations)
        if count > MAX_ITEMS:
            raise TooMuchWorkError(f"it has more than {MAX_ITEMS:,} operations")
        if operations:
            if len(path) > MAX_PATH:
                raise TooMuchWorkError(f"it has a path of more than {MAX_PATH:,} characters")
            for parameter in as_list(members.get("parameters")):
                inputs.use(parameter, len(operations))
        for operation in operations:
            for node in (*as_list(operation.get("parameters")), operation.get("requestBody")):
                inputs.use(node)
            for node in as_object(operation.get("responses")).values():
                results.use(node)


class _Trimmed:
    """The schemas of inputs or of results, while there are bytes left for them.

    Args:
        most: bytes of one schema.
        left: bytes of all of them.
        outline: what replaces a schema that is more.
        merges: whether FastMCP merges the schemas that a discriminator names.
    """

    def __init__(
        self,
        references: References,
        budget: Budget,
        most: int,
        left: int,
        outline: Callable[[_Json], _Json],
        *,
        merges: bool = False,
    ) -> None:
        self._references = references
        self._budget = budget
        self._most = most
        self._left = left
        self._outline = outline
        self._merges = merges
        self._used: dict[int, tuple[_Json, int, int]] = {}
        """By identity: what was used, the bytes of its schemas, and the work of a use."""
        self._outlines: dict[int, tuple[_Json, _Json]] = {}
        """By the identity of a schema that operations may share: it, and what replaces it."""

    def use(self, node: object, times: int = 1) -> None:
        """Count a parameter, a body or a response that so many operations use, and trim its schemas."""
        keep_reference(node)
        target, steps = self._references.follow(node)
        used = as_object(target)
        known = self._used.get(id(used))
        if known is None or known[1] * times > self._left:
            known = self._used[id(used)] = used, *self._trim(used, self._left // times)
        self._left -= known[1] * times
        self._budget.spend((steps + known[2]) * times)

    def _trim(self, used: _Json, left: int) -> tuple[int, int]:
        sizes = work = 0
        for place in (used, *map(as_object, as_object(used.get("content")).values())):
            if "schema" not in place:
                continue
            most = min(self._most, left)
            needs = self._references.closure(place["schema"], most)
            if needs.size > most:
                needs = self._replace(place, left)
            left -= needs.size
            sizes += needs.size
            # Each schema that a discriminator names is merged with all that it is made of.
            work += needs.work * (1 + needs.variants * self._merges)
        return sizes, work + self._references.measure_anew(used).work

    def _replace(self, place: _Json, left: int) -> Measure:
        schema = as_object(self._references.follow(place["schema"])[0])
        if id(schema) not in self._outlines:
            self._outlines[id(schema)] = schema, self._outline(schema)
        _, place["schema"] = self._outlines[id(schema)]
        outlined = self._references.measure(place["schema"])
        if outlined.size <= left:
            return outlined
        place["schema"] = _kind(schema)
        return Measure(0, 1)


class PublishedSchemas:
    """What the tools of one document publish, with the bytes that are left."""

    def __init__(self) -> None:
        self._input_left = MAX_INPUT_SCHEMAS
        self._result_left = MAX_RESULT_SCHEMAS

    def parameters(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """What a tool publishes of its parameters: where that is too much, only their names, types and descriptions;
        and where those are, nothing. What is refused does not depend on it."""
        for described in (_with_used_definitions(schema), _outline(schema)):
            size = json_size(described)
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
        size = json_size(described)
        if size > min(MAX_RESULT_SCHEMA, self._result_left):
            return unchecked_schema(described)
        self._result_left -= size
        return described


def _outline(schema: Mapping[str, Any]) -> _Json:
    """An input schema without what its parameters hold; where that is too much, without them."""
    kept = _kind(schema)
    if properties := as_object(schema.get("properties")):
        kept["type"] = "object"
        kept["properties"] = {name: _parameter_outline(as_object(each)) for name, each in properties.items()}
        kept |= {name: schema[name] for name in ("required", "additionalProperties") if name in schema}
    return kept if json_size(kept) <= MAX_INPUT_SCHEMA else _kind(schema)


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
