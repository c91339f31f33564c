"""Whether what a script does with the value of a property is never meant of an undefined one: it counts with it,
compares it, shows it in a text, or makes a list of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from typing import Final

from codecall.sandbox.agentscript.diagnosis.context import Observation
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow, returned_expression
from codecall.sandbox.agentscript.diagnosis.flow.paths import Step
from codecall.sandbox.agentscript.diagnosis.reads.uses import AnswerUses, is_nothing
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import EQUALITY, FUNCTIONS, children, contains, key_name, member_name

_NUMERIC: Final = frozenset({"+", "-", "*", "/", "%", "**", "<", ">", "<=", ">="})
_OF_NUMBERS: Final = frozenset({"Number", "parseFloat", "parseInt", "Date"})
_OF_ITEMS: Final = frozenset({Step.EACH, Step.FLAT, Step.FOUND})
_MEMBERS: Final = frozenset({"MemberExpression", "ChainExpression"})
_MAPS: Final = frozenset({"map", "flatMap"})
_PREDICATES: Final = frozenset({"filter", "find", "findIndex", "findLast", "some", "every"})
_SAME: Final = frozenset({"sort", "toSorted", "reverse", "toReversed", "slice", "flat"})
_ASKS: Final = re.compile(r"null|undefined|typeof|\bBoolean\b|[?!|]")
"""What stands in a callback that is ready for missing values."""
_MAX_PARTS: Final = 40
"""Nodes of one test that are looked at."""
MANY: Final = 3
"""Items that all lack what a condition asks for: few may lack it because of what they are."""
FLAGS: Final = re.compile(r"(?i)err|fail|warn|delet|archiv|hidden|disabl|unavail|cancel|is_?null|invalid|reject|reason")
"""Names of what is commonly there only where something is special: a condition that asks for one means that."""
OF_FEW: Final = re.compile(r"(?i)discount|refund|fee|tax|tip|bonus|extra|adjust|credit|penalt|overdue|shipping|rebate")
"""Names of amounts that only some items have, and often none."""


class Needs:
    """What the values of properties are needed for in one script.

    Args:
        dataflow: The script.
        uses: Its uses of answers.
        missing: Keys that are left out of its value.
        shows_undefined: Whether a text in its value has the word `undefined`.
    """

    def __init__(self, dataflow: DataFlow, uses: AnswerUses, missing: Sequence[str], *, shows_undefined: bool) -> None:
        self._dataflow = dataflow
        self._uses = uses
        self._missing = missing
        self._shows_undefined = shows_undefined

    def is_needed(self, read: Node, name: str, observation: Observation) -> bool:
        """Whether what becomes of the value that `read` reads is never meant of an undefined one."""
        of_item = any(step in _OF_ITEMS or isinstance(step, int) for step in observation.path)
        if of_item and (self._uses.is_key(read) or self._is_summed(read, name)):
            return True
        if read.type == "AssignmentPattern":
            return False
        spots = list(self._uses.spots(read))
        if self._shows_undefined and self._is_shown(read):
            return True
        if any(map(self._uses.is_guarded, spots)):
            return False
        is_list = of_item and len(observation.values) > 1 and OF_FEW.search(name) is None
        items = len(observation.values) if of_item else 0
        return any(
            self._is_needed_at(spot, name, items=items) or (is_list and self._is_mapped(spot, name)) for spot in spots
        )

    def _is_shown(self, read: Node) -> bool:
        """Whether a text shows what is read of the value in turn: `${order.customer?.name}`."""
        node, parent = read, self._uses.parent(read)
        while parent is not None and parent.type == "MemberExpression" and not parent.computed:
            node, parent = parent, self._uses.parent(parent)
        return node is not read and parent is not None and parent.type == "TemplateLiteral"

    def _is_needed_at(self, node: Node, name: str, *, items: int) -> bool:
        """The same at one place; `items`: how many items lack the property, 0 where it is none of an item."""
        of_item = items > 0
        parent = self._uses.parent(node)
        kind = "" if parent is None else str(parent.type)
        if parent is None or kind == "TemplateLiteral":
            return parent is not None and self._shows_undefined
        if kind in {"BinaryExpression", "UnaryExpression", "AssignmentExpression"}:
            operator: str = parent.operator
            is_asked = of_item and operator in EQUALITY and self._is_asked_for(parent, name)
            return is_asked or operator in _NUMERIC or operator.removesuffix("=") in _NUMERIC
        if kind in {"CallExpression", "NewExpression"}:
            called = self._dataflow.text(parent.callee)
            return called in _OF_NUMBERS or called.startswith(("Math.", "Number."))
        if kind == "Property":
            return key_name(parent.key) in self._missing and (of_item or self._is_empty(parent, name))
        is_asked = kind == "SwitchStatement" or self._is_condition(parent, node)
        return of_item and is_asked and items >= MANY and not FLAGS.search(name)

    def _is_mapped(self, node: Node, name: str) -> bool:
        """Whether a list is made of nothing but this property of each item, `items.map((item) => item.name)`, and what
        is done with it is not ready for missing ones."""
        parent = self._uses.parent(node)
        if parent is not None and parent.type == "ReturnStatement":
            node = self._uses.parent(parent) or parent
            parent = self._uses.parent(node)
        if parent is None or parent.type not in FUNCTIONS or parent.body is not node or FLAGS.search(name):
            return False
        call = self._uses.parent(parent)
        if call is None or not _is_method(call, _MAPS) or call.arguments[:1] != [parent]:
            return False
        return not self._is_sifted(call)

    def _is_sifted(self, made: Node) -> bool:
        """Whether a callback looks for missing items of a list: `names.filter((name) => name !== undefined)`."""
        pending, seen = [made], set[int]()
        while pending:
            items = pending.pop()
            if id(items) in seen:
                continue
            seen.add(id(items))
            for spot in self._uses.spots(items):
                parent = self._uses.parent(spot)
                call = parent if parent is None or parent.type != "MemberExpression" else self._uses.parent(parent)
                if call is None:
                    continue
                if call is not parent and _is_method(call, _PREDICATES | _MAPS) and call.arguments:
                    if self._looks_for_missing(call.arguments[0]):
                        return True
                elif self._has_same_items(call, parent):
                    pending.append(call)
        return False

    def _looks_for_missing(self, callback: Node) -> bool:
        """Whether a callback is ready for missing values, or tells them from others: `Boolean`, `(name) => name`."""
        value, names = returned_expression(callback), getattr(callback, "params", [])
        if value is not None and value.type == "Identifier":
            return len(names) > 0 and getattr(names[0], "name", None) == value.name
        return _ASKS.search(self._dataflow.text(callback)) is not None

    def _has_same_items(self, node: Node, parent: Node | None) -> bool:
        """Whether an expression is a list of the same items: `names.sort()`, `new Set(names)`, `[...names]`."""
        if node.type in {"SpreadElement", "ArrayExpression"}:
            return True
        if node.type == "NewExpression":
            return self._dataflow.text(node.callee) == "Set"
        if node.type != "CallExpression":
            return False
        return self._dataflow.text(node.callee) == "Array.from" or (node.callee is parent and _is_method(node, _SAME))

    def _is_summed(self, node: Node, name: str) -> bool:
        """Whether a property of items is all that is added up, 0 where it is missing: `sum + (item.total ?? 0)`."""
        if OF_FEW.search(name) or FLAGS.search(name):
            return False
        if node.type == "AssignmentPattern":
            return _is_zero(node.right) and any(map(self._is_added, self._uses.spots(node)))
        whole = self._uses.parent(node)
        if whole is None or whole.type != "LogicalExpression" or not _is_zero(whole.right) or whole.operator == "&&":
            return False
        return self._is_added(whole)

    def _is_added(self, node: Node) -> bool:
        """Whether nothing else is added to a plain variable with this value."""
        addition = self._uses.parent(node)
        if addition is None or addition.type not in {"BinaryExpression", "AssignmentExpression"}:
            return False
        return addition.operator in {"+", "+="} and addition.right is node and addition.left.type == "Identifier"

    def _is_empty(self, prop: Node, name: str) -> bool:
        """Whether an object in the value takes this property and others from answers, and all were left out of it."""
        owner = self._uses.parent(prop)
        items: list[Node] = [] if owner is None or owner.type != "ObjectExpression" else owner.properties
        keys = [key_name(item.key) for item in items if item.type == "Property" and item.value.type in _MEMBERS]
        lacks_all = len(keys) == len(items) > 1 and all(key in self._missing for key in keys)
        return lacks_all and not FLAGS.search(name)

    def is_ready(self, node: Node, name: str) -> bool:
        """Whether a condition is ready for the property to be missing: it asks for what is there only where something
        has gone wrong, as `answer.error`, `answer.ok ?? true` and `answer.success === false` do."""
        if FLAGS.search(name):
            return True
        parent = self._uses.parent(node)
        if parent is not None and parent.type == "LogicalExpression":
            return getattr(parent.right, "value", None) is True
        if parent is None or parent.type != "BinaryExpression" or parent.operator not in EQUALITY:
            return False
        return any(
            is_nothing(side) or (side.type == "Literal" and (side.value is False or FLAGS.search(str(side.value))))
            for side in (parent.left, parent.right)
        )

    def is_discriminated(self, read: Node) -> bool:
        """Whether a property is read only where another one of its owner has passed a test, as `job.reason` is in `if
        (job.state === 'failed') …`."""
        if read.type != "MemberExpression":
            return False
        owner, name = self._dataflow.text(read.object), member_name(read)
        parent = self._uses.parent(read)
        while parent is not None:
            is_and = parent.type == "LogicalExpression" and parent.operator == "&&"
            test: Node | None = parent.left if is_and else getattr(parent, "test", None)
            for part in _parts(test) if test is not None and not contains(test, read) else ():
                is_member = part.type == "MemberExpression" and member_name(part) != name
                if is_member and self._dataflow.text(part.object) == owner:
                    return True
            parent = self._uses.parent(parent)
        return False

    def _is_asked_for(self, comparison: Node, name: str) -> bool:
        """Whether items are kept, dropped or told apart by comparing a property with a literal: `items.filter((item) =>
        item.kind === 'lamp')`, `if (item.kind === 'lamp')`."""
        literal = next((side for side in (comparison.left, comparison.right) if side.type == "Literal"), None)
        value = None if literal is None else literal.value
        if not isinstance(value, str | int) or isinstance(value, bool) or FLAGS.search(f"{name} {value}"):
            return False
        if str(comparison.operator).startswith("!"):
            # Where the property is missing, it is not this value either.
            return False
        node = comparison
        while (parent := self._uses.parent(node)) is not None and parent.type == "LogicalExpression":
            if parent.operator != "&&":
                return False
            node = parent
        if parent is not None and parent.type == "ReturnStatement":
            node = self._uses.parent(parent) or parent
            parent = self._uses.parent(node)
            if parent is None or parent.type not in FUNCTIONS:
                # The script itself returns it.
                return True
        if parent is not None and parent.type in {"IfStatement", "ConditionalExpression"}:
            return parent.test is node
        return parent is not None and self._is_condition(parent, node)

    def is_predicate(self, read: Node) -> bool:
        """Whether items are kept where they have a property: `items.filter((item) => item.active)`."""
        parent = self._uses.parent(read)
        return parent is not None and self._is_condition(parent, read)

    def _is_condition(self, function: Node, node: Node) -> bool:
        """Whether `node` is all that a callback asks of an item: `items.filter((item) => item.active)`."""
        call = self._uses.parent(function)
        is_body = function.type in FUNCTIONS and function.body is node
        return is_body and call is not None and _is_method(call, _PREDICATES)


def _parts(node: Node) -> Iterator[Node]:
    """The first nodes of an expression, itself among them."""
    pending, count = [node], 0
    while pending and count < _MAX_PARTS:
        part = pending.pop()
        count += 1
        yield part
        pending += children(part)


def _is_method(call: Node, names: Set[str]) -> bool:
    """Whether `call` calls a method of one of these names."""
    is_call = call.type == "CallExpression" and call.callee.type == "MemberExpression"
    return is_call and member_name(call.callee) in names


def _is_zero(node: Node) -> bool:
    return node.type == "Literal" and node.value == 0 and node.raw == "0"
