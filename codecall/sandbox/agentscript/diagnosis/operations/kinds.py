"""Values that are of another kind than a script takes them for.

Values that are never equal, objects that are compared with numbers or stand for keys, texts that are looked for in
lists of objects, and objects that a text shows as `[object Object]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Final, cast

from codecall.sandbox.agentscript.diagnosis.calls import OBJECT as SHOWN_OBJECT
from codecall.sandbox.agentscript.diagnosis.context import Observation
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import returned_expression
from codecall.sandbox.agentscript.diagnosis.flow.paths import Step
from codecall.sandbox.agentscript.diagnosis.operations.operands import (
    KINDS,
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    Mistake,
    Operand,
    Operands,
)
from codecall.sandbox.agentscript.diagnosis.remedies import is_missing
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import member_name

_MAX_ITEMS: Final = 200
"""Items of one list that are looked at."""
_MAX_SOURCES: Final = 4
_WRITE_A_PROPERTY: Final = "Write one of its properties."
_SEEKS: Final = frozenset({"includes", "indexOf"})
_KEYED: Final = frozenset({"get", "set", "has", "add"})
_GROUPS: Final = frozenset({"Object.groupBy", "Map.groupBy"})


class KindMistakes:
    """Looks for values that are of another kind than the script takes them for.

    Args:
        operands: The operands of the script.
    """

    def __init__(self, operands: Operands) -> None:
        self._operands = operands
        self._dataflow = operands.dataflow

    def ordered(self, node: Node) -> Mistake | None:
        """An object is compared with a number or a text, or a list with a number: `answer.total > 0` of an object."""
        for side, other in ((node.left, node.right), (node.right, node.left)):
            value = other.value if other.type == "Literal" else None
            if not isinstance(value, int | float | str) or isinstance(value, bool):
                continue
            found = self._operands.operand(side)
            if found is None or found.observation is None:
                continue
            what = self._operands.text(side)
            if found.kind == OBJECT:
                says = f"is always false: `{what}` is an object. {_WRITE_A_PROPERTY}"
                return Mistake(node, found.observation, says)
            if found.kind == LIST and not isinstance(value, str):
                says = f"compares a list with a number: write `{what}.length`."
                return Mistake(node, found.observation, says)
        return None

    def counted(self, node: Node) -> Mistake | None:
        """An object is computed with: `b.reactions - a.reactions` of `{reactions: {total: 2}}`."""
        for side in (node.left, node.right):
            found = self._operands.operand(side)
            if found is not None and found.observation is not None and found.kind == OBJECT:
                says = f"is never a number: `{self._operands.text(side)}` is an object. {_WRITE_A_PROPERTY}"
                return Mistake(node, found.observation, says)
        return None

    def sought(self, call: Node) -> Mistake | None:
        """A value is looked for in a list of values of another kind: `order.lines.includes('sku')` of objects,
        `['1', '2'].includes(order.id)` of a number."""
        sought = self._operands.operand(call.arguments[0])
        if sought is None:
            return None
        if sought.observation is not None and sought.is_sure and (literals := self._literals(call.callee.object)):
            kind, says = KINDS[type(literals[0])], self._not_found(call)
            if kind == sought.kind or any(KINDS[type(value)] != kind for value in literals):
                return None
            what, items = self._operands.text(sought.node), self._operands.text(call.callee.object)
            made = f" Write `{_TO[kind]}({what})`." if {kind, sought.kind} == {TEXT, NUMBER} else ""
            made = f" {_WRITE_A_PROPERTY}" if sought.kind == OBJECT else made
            plural = kind.partition(" ")[2]
            return Mistake(
                call,
                sought.observation,
                f"{says}: `{what}` is {sought.kind}, and the items of `{items}` are {plural}s.{made}",
            )
        return self._sought_in_objects(call) if sought.kind in {TEXT, NUMBER} else None

    def _sought_in_objects(self, call: Node) -> Mistake | None:
        where: Node = call.callee.object
        if member_name(call.callee) not in _SEEKS:
            return None
        for observation in self._operands.observations(where):
            values = [value for value in observation.values if not is_missing(value)]
            lists = [cast("list[object]", value) for value in values if isinstance(value, list)]
            items = [item for value in lists for item in islice(value, _MAX_ITEMS)]
            if not items or len(lists) < len(values) or not all(isinstance(item, dict) for item in items):
                return None
            what = self._operands.text(where)
            says = f"{self._not_found(call)}: the items of `{what}` are objects. "
            return Mistake(call, observation, f"{says}Write `{what}.some((item) => …)` with a property.")
        return None

    def _not_found(self, call: Node) -> str:
        return "is always -1" if member_name(call.callee) == "indexOf" else "is always false"

    def _literals(self, node: Node) -> list[str | int | float]:
        """The literals that a list or a set of the script has as its only items."""
        for source in islice(self._operands.sources(node), _MAX_SOURCES):
            made = source
            if source.type == "NewExpression" and getattr(source.callee, "name", None) == "Set" and source.arguments:
                made = next(iter(self._operands.sources(source.arguments[0])))
            if made.type != "ArrayExpression":
                continue
            values: list[object] = [item.value for item in made.elements if item is not None and item.type == "Literal"]
            if len(values) == len(made.elements) and all(type(value) in {str, int, float} for value in values):
                return cast("list[str | int | float]", values)
        return []

    # Objects as keys and as texts

    def keyed(self, node: Node) -> Mistake | None:
        """An object is the key of a table or an item of a set, where one of its properties is meant:
        `team[issue.user]`, `Object.groupBy(issues, (issue) => issue.user)`, `new Set(issues.map((i) => i.user))`."""
        for key, is_text in self._keys(node):
            found = self._objects(key) if key.type == "MemberExpression" else None
            if found is not None:
                says = f"is the key `{SHOWN_OBJECT}`" if is_text else "is an object, and no two are the same"
                return Mistake(key, found, f"{says}: write one of its properties.")
        return None

    def _keys(self, node: Node) -> Iterator[tuple[Node, bool]]:
        """What is taken for a key, and whether as a text."""
        if node.type == "MemberExpression":
            yield node.property, True
        elif node.type == "NewExpression":
            for source in self._operands.sources(node.arguments[0]):
                is_map = source.type == "CallExpression" and source.callee.type == "MemberExpression"
                if is_map and member_name(source.callee) == "map" and source.arguments:
                    value = returned_expression(source.arguments[0])
                    yield from () if value is None else [(value, False)]
        elif self._dataflow.text(node.callee) in _GROUPS:
            value = returned_expression(node.arguments[-1])
            yield from () if value is None else [(value, self._dataflow.text(node.callee).startswith("Object"))]
        elif member_name(node.callee) in _KEYED:
            yield node.arguments[0], False

    def _objects(self, node: Node) -> Observation | None:
        """What an expression was, where it is a property of several items that has objects."""
        found = self._operands.operand(node)
        observation = None if found is None or found.kind != OBJECT or found.values < 2 else found.observation
        return observation if observation is not None and isinstance(observation.path[-1:][0], str) else None

    def shown(self, node: Node) -> Mistake | None:
        """An object is shown in a text, `Patient: ${patient}`, or a list of them, or taken for a key,
        `by[order.customer]`."""
        match node.type:
            case "TemplateLiteral":
                parts: list[Node] = node.expressions
            case "MemberExpression":
                parts = [node.property]
            case "BinaryExpression" | "AssignmentExpression":
                parts = [node.left, node.right] if node.operator in {"+", "+="} else []
            case "CallExpression":
                is_join = node.callee.type == "MemberExpression" and member_name(node.callee) == "join"
                is_text = getattr(node.callee, "name", None) == "String"
                parts = [node.callee.object] if is_join else node.arguments[:1] if is_text else []
            case _:
                parts = []
        for part in parts:
            what = self._operands.text(part)
            for observation in self._operands.observations(part):
                if any(isinstance(value, dict) for value in observation.values):
                    says = f"is shown as `{SHOWN_OBJECT}`: write one of its properties, or `JSON.stringify({what})`."
                    return Mistake(part, observation, says)
            for observation in self._operands.observations(part, (Step.EACH,)):
                if any(isinstance(value, dict) for value in observation.values):
                    says = f"is shown as `{SHOWN_OBJECT}`: write `{what}.map((item) => …)` with a property of each."
                    return Mistake(part, observation, says)
        return None

    # Comparisons

    def compared(self, node: Node) -> Mistake | None:
        """Values of different kinds are compared: `loan.book === book.id` of a number and a text, `order.customer ===
        'C1'` of an object. Only objects and the values of several items are looked at: a single text or number may be
        of another kind next time."""
        if id(node) in self._alternatives:
            return None
        sides = [self._operands.operand(side) for side in (node.left, node.right)]
        known = [side for side in sides if side is not None]
        kinds = {side.kind for side in known}
        items = [side for side in known if side.observation is not None and side.is_sure]
        if kinds == {OBJECT}:
            return self._compared_objects(node)
        if len(known) < 2 or len(kinds) < 2 or not items or (len(node.operator) < 3 and OBJECT not in kinds):
            return None
        side = items[0]
        other: Operand = next(found for found in known if found is not side)
        always = "true" if node.operator.startswith("!") else "false"
        what, also = self._operands.text(side.node), self._operands.text(other.node)
        if f"typeof {what}" in self._dataflow.script or f"isArray({what})" in self._dataflow.script:
            return None
        says = f"is always {always}: `{what}` is {side.kind}, and `{also}` {other.kind}."
        if kinds == {NUMBER, TEXT} and other.observation is not None:
            says = f"{says[:-1]}. Write `String({what}) {node.operator} String({also})`."
        return None if side.observation is None else Mistake(node, side.observation, says)

    def _compared_objects(self, node: Node) -> Mistake | None:
        """Objects that two tools returned are compared with one another."""
        first, second = (next(iter(self._operands.observations(side)), None) for side in (node.left, node.right))
        if first is None or second is None or first.tool == second.tool:
            return None
        always = "true" if node.operator.startswith("!") else "false"
        says = f"is always {always}: two objects are never the same. Compare one of their properties."
        return Mistake(node, first, says)

    @cached_property
    def _alternatives(self) -> set[int]:
        """The identities of conditions for which another one will do as well."""
        choices = [node for node in self._dataflow.nodes if node.type == "LogicalExpression" and node.operator == "||"]
        return {id(side) for choice in choices for side in (choice.left, choice.right)}


_TO: Final = {TEXT: "String", NUMBER: "Number"}
"""By kind: the function that makes a value of it."""
