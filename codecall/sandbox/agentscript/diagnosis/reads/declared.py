"""What a tool says of its answers: whether what a path leads to may have a property of a name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import msgspec

from codecall.sandbox.agentscript.diagnosis.flow.paths import AnyStep, CopyWithout, Step, ValuePath
from codecall.sandbox.agentscript.policy import OBSERVED

_WRAPPED: Final = "x-fastmcp-wrap-result"
"""Marks a schema whose only property, `result`, is what a script gets."""
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
"""Keywords of a schema under which the parts stand that others refer to."""
_CHOICES: Final = ("anyOf", "oneOf", "allOf")
_OF_ITEMS: Final = ("items", "prefixItems", "additionalItems")
_OF_MEMBERS: Final = ("properties", "patternProperties")
_MAX_SCHEMAS: Final = 1_000
"""Schemas that one path is followed through."""


def declares(described: str | None, path: ValuePath, name: str) -> bool:
    """Whether a tool says that its answers may have a property of a name at the end of a path.

    Args:
        described: What `getTool` gives of it, and what was seen of its answers, as JSON text; None where there is no
            such tool.
        path: From the answer to what would have the property.
        name: The name of the property.
    """
    if described is None:
        return False
    tool = cast("dict[str, object]", msgspec.json.decode(described))
    return any(_has_property(tool.get(key), path, name) for key in ("outputSchema", OBSERVED))


def _has_property(root: object, path: ValuePath, name: str) -> bool:
    schemas = [root]
    for step in ("result", *path) if _WRAPPED in _mapping(root) else path:
        if not isinstance(step, CopyWithout):
            schemas = [below for schema in _resolved(root, schemas) for below in _below(schema, step)]
    return any(name in _mapping(schema.get("properties")) for schema in _resolved(root, schemas))


def _below(schema: dict[str, object], step: AnyStep) -> Iterator[object]:
    """The schemas of what one step leads to from a value of this one."""
    if isinstance(step, str):
        named = _mapping(schema.get("properties"))
        if step in named:
            yield named[step]
            return
        yield from (*_mapping(schema.get("patternProperties")).values(), schema.get("additionalProperties"))
    else:
        for keyword in _OF_MEMBERS:
            yield from _mapping(schema.get(keyword)).values()
        yield schema.get("additionalProperties")
    if not isinstance(step, str) or step.isdecimal():
        yield from (schema.get(keyword) for keyword in _OF_ITEMS)
    if step is Step.FLAT:
        yield schema


def _resolved(root: object, schemas: list[object]) -> Iterator[dict[str, object]]:
    """Schemas, and those that they refer to or choose from."""
    pending, referred, count = list(schemas), set[object](), 0
    while pending and count < _MAX_SCHEMAS:
        schema = pending.pop()
        count += 1
        if isinstance(schema, list):
            pending += cast("list[object]", schema)
        if not isinstance(schema, dict):
            continue
        keywords = cast("dict[str, object]", schema)
        yield keywords
        pending += [keywords.get(keyword) for keyword in _CHOICES]
        reference = keywords.get("$ref")
        if isinstance(reference, str) and reference not in referred:
            referred.add(reference)
            pending.append(_referred(root, reference))


def _referred(root: object, reference: str) -> object:
    """What `#/$defs/Name` stands for; None where it is not there."""
    _, _, path = reference.partition("#/")
    where, _, key = path.partition("/")
    return _mapping(_mapping(root).get(where)).get(key) if where in _DEFINITIONS else None


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
