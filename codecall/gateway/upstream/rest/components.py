"""What of a document its operations use: FastMCP reads all of it, and takes 2 KB for each object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from codecall.gateway.upstream.rest.work import as_object, inner_values

_SHARED: Final = {"components": 3, "webhooks": 2}
"""The members of a document whose parts nothing needs that does not refer to them, and how many names such a reference
has. Extensions (`x-…`) are one part."""

_Part = tuple[str, ...]


def drop_unreached(document: dict[str, Any]) -> None:
    """Remove from a document the components, webhooks and extensions that nothing else in it leads to.

    Discriminators may name schemas without a path, and FastMCP follows more than references: so a component is kept for
    any text that refers to it, and a schema for any text that ends with its name.
    """
    left = {part: (within, name) for part, within, name in _parts(document)}
    pending: list[object] = [value for name, value in document.items() if name not in _SHARED and (name,) not in left]
    while pending:
        value = pending.pop()
        if not isinstance(value, str):
            pending += inner_values(value)
            continue
        for part in _named(value):
            if part in left:
                within, name = left.pop(part)
                pending.append(within[name])
    for within, name in left.values():
        del within[name]


def _parts(document: dict[str, Any]) -> Iterable[tuple[_Part, dict[str, Any], str]]:
    """The parts that a reference may lead to, each with what it is a member of, and by which name."""
    for name in document:
        if name.startswith("x-"):
            yield (name,), document, name
    webhooks = as_object(document.get("webhooks"))
    for name in webhooks:
        yield ("webhooks", name), webhooks, name
    for kind, components in as_object(document.get("components")).items():
        for name in as_object(components):
            yield ("components", kind, name), as_object(components), name


def _named(text: str) -> Iterable[_Part]:
    """The parts that a text may name."""
    yield "components", "schemas", text.rpartition("/")[2]
    if text.startswith("#/"):
        names = text.strip("#/").split("/", 3)
        yield tuple(names[: _SHARED.get(names[0], 1)])
