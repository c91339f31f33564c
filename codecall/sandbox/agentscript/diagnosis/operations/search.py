"""Warnings about what a script does with values of answers that are of another kind than it takes them for.

The values are looked up in the answers; a script is parsed again only where `prefilter.may_mistake` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from time import monotonic
from typing import Final

from codecall.sandbox.agentscript.diagnosis.operations.conditions import always_true, conditions_of
from codecall.sandbox.agentscript.diagnosis.operations.kinds import KindMistakes
from codecall.sandbox.agentscript.diagnosis.operations.operands import Mistake, Operands
from codecall.sandbox.agentscript.diagnosis.operations.texts import TextMistakes
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import EQUALITY, member_name

MAX_MISTAKEN: Final = 3
"""Expressions that are warned of in one run."""

_MAX_LOOKED_AT: Final = 200
"""Expressions that are looked at."""
_SHARE_OF_ROOM: Final = 4

_ORDERS: Final = frozenset({"<", ">", "<=", ">="})
_ARITHMETIC: Final = frozenset({"-", "*", "/", "%", "-=", "*=", "/=", "%="})
_OPERATORS: Final = _ORDERS | EQUALITY | _ARITHMETIC | {"+", "+="}
_SEEKS: Final = frozenset({"includes", "indexOf", "has", "get"})
_KEYED: Final = frozenset({"get", "set", "has", "add", "groupBy"})
_MAKES: Final = frozenset({"Date", "Set"})


def find_mistakes(operands: Operands, room_ms: float, *, shows_objects: bool) -> Iterator[Mistake]:
    """The expressions of a script to warn of, found in a part of the milliseconds that are left.

    Args:
        operands: Its operands.
        room_ms: Milliseconds of its own time that the script has left.
        shows_objects: Whether a text in its value, or in an input, has `[object Object]`.
    """
    until = monotonic() + room_ms / _SHARE_OF_ROOM / 1000
    search = _MistakeSearch(operands, shows_objects=shows_objects)
    count = 0
    for node in islice(filter(_is_looked_at, operands.dataflow.nodes), _MAX_LOOKED_AT):
        for found in search.of_node(node):
            yield found
            count += 1
        if count >= MAX_MISTAKEN or monotonic() > until:
            return


class _MistakeSearch:
    """Looks at one node of a script after the other."""

    def __init__(self, operands: Operands, *, shows_objects: bool) -> None:
        self._operands = operands
        self._texts = TextMistakes(operands)
        self._kinds = KindMistakes(operands)
        self._shows_objects = shows_objects

    def of_node(self, node: Node) -> Iterator[Mistake]:
        """The mistakes of one node."""
        found = self._kinds.shown(node) if self._shows_objects else None
        if (found := found or self._of_node(node)) is not None:
            yield found
        for condition in conditions_of(node):
            if (says := always_true(condition, self._operands.has_value)) is not None:
                yield Mistake(condition, None, says)
            elif (asked := self._texts.asked(condition)) is not None:
                yield asked

    def _of_node(self, node: Node) -> Mistake | None:
        match str(node.type):
            case "CallExpression" if node.callee.type == "MemberExpression" and node.arguments:
                method = member_name(node.callee)
                if method == "parse" and getattr(node.callee.object, "name", None) == "Date":
                    return self._texts.date(node)
                found = self._kinds.sought(node) if method in _SEEKS and len(node.arguments) == 1 else None
                return found or (self._kinds.keyed(node) if method in _KEYED else None)
            case "NewExpression" if len(node.arguments) == 1:
                made = getattr(node.callee, "name", None)
                return self._texts.date(node) if made == "Date" else self._kinds.keyed(node)
            case "MemberExpression":
                return self._kinds.keyed(node)
            case "BinaryExpression" | "AssignmentExpression" if node.operator in _OPERATORS:
                return self._operation(node)
            case _:
                return None

    def _operation(self, node: Node) -> Mistake | None:
        if node.operator in {"+", "+="}:
            return self._texts.joined(node)
        if node.operator in _ARITHMETIC:
            return self._kinds.counted(node) or self._texts.subtracted(node)
        if (found := self._texts.compared_with_date(node)) is not None:
            return found
        if node.operator not in _ORDERS:
            return self._kinds.compared(node)
        return self._texts.ordered(node) or self._kinds.ordered(node)


def _is_looked_at(node: Node) -> bool:
    match str(node.type):
        case "BinaryExpression" | "AssignmentExpression":
            return node.operator in _OPERATORS
        case "MemberExpression":
            return node.computed and node.property.type != "Literal"
        case "NewExpression":
            return getattr(node.callee, "name", None) in _MAKES
        case kind:
            return kind in {"CallExpression", "TemplateLiteral", "IfStatement", "ConditionalExpression"}
