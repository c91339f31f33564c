"""Small questions to the nodes of a script's tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

from codecall.sandbox.agentscript.grammar import Node

FUNCTIONS: Final = frozenset({"ArrowFunctionExpression", "FunctionExpression", "FunctionDeclaration"})
"""Types of nodes that are functions."""


def lone_function(statements: Sequence[Node]) -> Node | None:
    """The function that is all of a script, but for directives; the realm calls it. Generators are none."""
    *before, last = [statement for statement in statements if statement.type != "EmptyStatement"] or [None]
    if last is None or not all(getattr(statement, "directive", None) is not None for statement in before):
        return None
    node: Node = last.expression if last.type == "ExpressionStatement" else last
    return node if node.type in FUNCTIONS and not node.generator else None


def span(node: Node) -> tuple[int, int]:
    """Start and end of a node in the parsed text."""
    start, end = node.range
    return start, end


def children(node: Node) -> Iterator[Node]:
    """The nodes right below a node."""
    for value in cast("dict[str, object]", vars(node)).values():
        for item in cast("list[Node]", value) if isinstance(value, list) else (cast("Node", value),):
            if getattr(item, "range", None) is not None and hasattr(item, "type"):
                yield item


def member_of(node: Node) -> str | int | None:
    """What a member expression names; None when that is computed."""
    if not node.computed:
        return key_of(node.property)
    value = node.property.value if node.property.type == "Literal" else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def key_of(node: Node) -> str:
    """The name that a key which is not computed stands for."""
    return node.name if node.type in {"Identifier", "PrivateIdentifier"} else str(node.value)


def names_of(pattern: Node) -> Iterator[Node]:
    """Every name that a pattern declares."""
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
