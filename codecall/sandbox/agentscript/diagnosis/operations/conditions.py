"""Conditions that are always true, whatever the answers are: `if (order.state = 'paid')`, `a === 'paid' || 'sent'`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from codecall.sandbox.agentscript.diagnosis.flow.dataflow import returned_expression
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import EQUALITY, member_name

_PREDICATES: Final = frozenset({"filter", "find", "findIndex", "findLast", "findLastIndex", "some", "every"})
_MAKE_LISTS: Final = frozenset({"filter", "map", "flatMap"})
_TESTS: Final = frozenset({"IfStatement", "ConditionalExpression"})


def conditions_of(node: Node) -> Iterator[Node]:
    """The conditions that a node asks, each operand of `&&` and `||` for itself; none that is negated."""
    pending: list[Node] = []
    if node.type in _TESTS:
        pending.append(node.test)
    elif node.type == "CallExpression" and node.callee.type == "MemberExpression" and node.arguments:
        value = returned_expression(node.arguments[0]) if member_name(node.callee) in _PREDICATES else None
        pending += [] if value is None else [value]
    while pending:
        condition = pending.pop()
        yield condition
        if condition.type == "LogicalExpression" and condition.operator != "??":
            pending += [condition.left, condition.right]


def always_true(condition: Node, has_value: Callable[[Node], bool]) -> str | None:
    """Why a condition is always true, and what to write; None where it may be false.

    Args:
        condition: What is asked.
        has_value: Whether an expression had a value in an answer: a new property is given one on purpose.
    """
    if condition.type == "AssignmentExpression" and condition.operator == "=" and _is_true(condition.right):
        return "is always true: one `=` gives a value. Write `===`." if has_value(condition.left) else None
    if condition.type == "CallExpression" and condition.callee.type == "MemberExpression":
        makes_list = member_name(condition.callee) in _MAKE_LISTS and len(condition.arguments) > 0
        return "is always true: a list is, an empty one, too. Write `.length > 0`." if makes_list else None
    if condition.type != "LogicalExpression" or condition.operator != "||" or not _is_true(condition.right):
        return None
    left: Node = condition.left
    while left.type == "LogicalExpression":
        left = left.left if left.operator == "||" else left.right
    if left.type != "BinaryExpression" or left.operator not in EQUALITY:
        return None
    return "is always true: what stands behind `||` is compared with nothing. Write a comparison on both sides."


def _is_true(node: Node) -> bool:
    return node.type == "Literal" and isinstance(node.value, str | int | float) and bool(node.value)
