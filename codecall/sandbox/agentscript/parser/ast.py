"""Helpers for nodes of the syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from codecall.sandbox.agentscript.parser.esprima import Node

FUNCTIONS: Final = frozenset({"ArrowFunctionExpression", "FunctionExpression", "FunctionDeclaration"})
"""Node types of functions."""

LOOP_TYPES: Final = frozenset(
    {"DoWhileStatement", "ForAwaitStatement", "ForInStatement", "ForOfStatement", "ForStatement", "WhileStatement"}
)
"""Node types of loops."""


def span(node: Node) -> tuple[int, int]:
    """Start and end of a node in the parsed text."""
    start, end = node.range
    return start, end


def children(node: Node) -> Iterator[Node]:
    """The child nodes of a node."""
    for value in cast("dict[str, object]", vars(node)).values():
        for item in cast("list[Node]", value) if isinstance(value, list) else (cast("Node", value),):
            if getattr(item, "range", None) is not None and hasattr(item, "type"):
                yield item


def member_name(node: Node) -> str | int | None:
    """The name or index of a member expression; None when it is computed."""
    if not node.computed:
        return key_name(node.property)
    value = node.property.value if node.property.type == "Literal" else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def key_name(node: Node) -> str:
    """The name of a key that is not computed."""
    return node.name if node.type in {"Identifier", "PrivateIdentifier"} else str(node.value)


def declared_names(pattern: Node) -> Iterator[Node]:
    """Every identifier that a pattern declares."""
    pending = [pattern]
    while pending:
        node = pending.pop()
        if node.type == "Identifier":
            yield node
        elif node.type == "Property":
            pending.append(node.value)
        elif node.type == "AssignmentPattern":
            pending.append(node.left)
        else:
            pending.extend(children(node))
