"""Values that are of another kind than a script takes them for.

Values that are never equal, objects that are compared with numbers or stand for keys, texts that are looked for in
lists of objects, and objects that a text shows as `[object Object]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
from codecall.sandbox.agentscript.parser.parse import EQUALITY, member_name

_MAX_ITEMS: Final = 200
"""Items of one list that are looked at."""
_MAX_SOURCES: Final = 4
_WRITE_A_PROPERTY: Final = "Write one of its properties."
_SEEKS: Final = frozenset({"includes", "indexOf"})
_KEYED: Final = frozenset({"get", "set", "has", "add"})
_TABLES: Final = frozenset({"Map", "Set"})
_NUMERIC: Final = re.compile(r"\s*-?\d+(?:\.\d+)?\s*")
_BOOLEAN: Final = re.compile(r"(?i)true|false|yes|no|0|1")
_MAX_COMPARED: Final = 50
"""Objects that are compared with one another."""
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
            found, against = self._operands.operand(side), self._operands.operand(other)
            if found is None or found.observation is None or against is None or not self._operands.sees_all(found):
                continue
            what = self._operands.text(side)
            is_literal = against.observation is None
            is_ordered = is_literal and against.kind in {TEXT, NUMBER}
            if found.kind == OBJECT and (is_ordered or (found.is_sure and against.kind == OBJECT)):
                says = f"is always false: `{what}` is an object. {_WRITE_A_PROPERTY}"
                return Mistake(node, found.observation, says)
            if found.kind == LIST and is_literal and against.kind == NUMBER:
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
        """A value is looked for in a list, a set or a map of values of another kind: `order.lines.includes('sku')` of
        objects, `['1', '2'].includes(order.id)` of a number."""
        sought = self._operands.operand(call.arguments[0])
        if sought is None or id(call) in self._alternatives:
            return None
        items = self._items(call.callee.object)
        is_number = items is not None and {items.kind, sought.kind} == {TEXT, NUMBER}
        is_certain = items is not None and (items.observation is None or (is_number and items.values > 1))
        if items is None or not is_certain or items.kind == sought.kind or not self._operands.sees_all(sought, items):
            return self._sought_in_objects(call) if sought.kind in {TEXT, NUMBER} else None
        if items.observation is None and not _is_meant(sought, items):
            return None
        what, where = self._operands.text(sought.node), self._operands.text(call.callee.object)
        write = "one of its properties" if sought.kind == OBJECT else ""
        write = f"`{_TO[items.kind]}({what})`" if is_number else write
        says = f"{_not_found(call)}: `{what}` is {sought.kind}, and the {_held(call)} of `{where}` are "
        says += f"{items.kind.partition(' ')[2]}s.{f' Write {write}.' if write else ''}"
        return Mistake(call, sought.observation or items.observation, says)

    def _items(self, where: Node) -> Operand | None:
        """What all items of a list or a set are, or all keys of a map, where they are of one kind."""
        for source in islice(self._operands.sources(where), _MAX_SOURCES):
            made = getattr(source.callee, "name", None) if source.type == "NewExpression" and source.arguments else None
            held: Node = source.arguments[0] if made in _TABLES else source
            if made == "Map":
                return self._operands.operand(held, (Step.EACH, 0))
            for items in islice(self._operands.sources(held), _MAX_SOURCES):
                if items.type == "ArrayExpression" and items.elements:
                    return _literal_kind(items)
            if made is not None or self._operands.observations(held):
                return self._operands.operand(held, (Step.EACH,))
        return None

    def _sought_in_objects(self, call: Node) -> Mistake | None:
        where: Node = call.callee.object
        if member_name(call.callee) not in _SEEKS:
            return None
        for observation in self._operands.observations(where):
            if not self._operands.sees_answers(observation.tool):
                return None
            values = [value for value in observation.values if not is_missing(value)]
            lists = [cast("list[object]", value) for value in values if isinstance(value, list)]
            items = [item for value in lists for item in islice(value, _MAX_ITEMS)]
            if not items or len(lists) < len(values) or not all(isinstance(item, dict) for item in items):
                return None
            what = self._operands.text(where)
            says = f"{_not_found(call)}: the items of `{what}` are objects. "
            return Mistake(call, observation, f"{says}Write `{what}.some((item) => …)` with a property.")
        return None

    # Objects as keys and as texts

    def keyed(self, node: Node) -> Mistake | None:
        """An object is the key of a table or an item of a set, where one of its properties is meant:
        `team[issue.user]`, `Object.groupBy(issues, (issue) => issue.user)`, `new Set(issues.map((i) => i.user))`."""
        for key, is_text in self._keys(node):
            found = self._objects(key) if key.type == "MemberExpression" else None
            if found is not None and (is_text or _has_equal(found.values)):
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
        elif member_name(node.callee) in _KEYED and any(map(_makes_table, self._operands.sources(node.callee.object))):
            yield node.arguments[0], False

    def _objects(self, node: Node) -> Observation | None:
        """What an expression was, where it is a property of several items that has objects."""
        found = self._operands.operand(node)
        observation = None if found is None or found.kind != OBJECT or found.values < 2 else found.observation
        last = None if observation is None else next(reversed(observation.path), None)
        return observation if isinstance(last, str) else None

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
        of another kind next time. Or a text is never spelled so: `issue.state === 'OPEN'`."""
        if id(node) in self._alternatives:
            return None
        known = [side for each in (node.left, node.right) if (side := self._operands.operand(each)) is not None]
        kinds = {side.kind for side in known}
        items = [side for side in known if side.observation is not None and side.is_sure]
        if len(known) == 2 and kinds == {OBJECT}:
            return self._compared_objects(node)
        if len(known) < 2 or not items or not self._operands.sees_all(*known):
            return None
        if len(kinds) == 1:
            return self._spelled_otherwise(node, items[0])
        converts = len(node.operator) < 3 and OBJECT not in kinds and not _is_never_number(known)
        if converts or self._is_ready(node, known):
            return None
        side = items[0]
        other: Operand = next(found for found in known if found is not side)
        always = "true" if node.operator.startswith("!") else "false"
        what, also = self._operands.text(side.node), self._operands.text(other.node)
        says = f"is always {always}: `{what}` is {side.kind}, and `{also}` {other.kind}."
        if kinds == {NUMBER, TEXT} and other.observation is not None:
            says = f"{says[:-1]}. Write `String({what}) {node.operator} String({also})`."
        return Mistake(node, side.observation, says)

    def _is_ready(self, node: Node, sides: list[Operand]) -> bool:
        """Whether the script is ready for both kinds: it asks for the kind, or compares with literals of several."""
        script = self._dataflow.script
        for side, other in (sides, reversed(sides)):
            what = self._operands.text(side.node)
            reads_members = side.kind == OBJECT and (f"{what}." in script or f"{what}?." in script)
            asks = f"typeof {what}" in script or f"isArray({what})" in script or reads_members
            if side.observation is None or not (asks or len(self._compared_with.get(what, ())) > 1):
                is_default = side.observation is not None and other.node.type == "Literal"
                if not is_default or not _stands_for_nothing(other.node.value, side.kind, node.operator):
                    continue
            return True
        return False

    @cached_property
    def _compared_with(self) -> dict[str, set[str | None]]:
        """By expression: of which kinds the literals are that the script compares it with."""
        found: dict[str, set[str | None]] = {}
        for node in self._dataflow.nodes:
            if node.type == "BinaryExpression" and node.operator in EQUALITY:
                for side, other in ((node.left, node.right), (node.right, node.left)):
                    if other.type == "Literal" and other.value is not None:
                        found.setdefault(self._operands.text(side), set()).add(_kind(other.value))
        return found

    def _spelled_otherwise(self, node: Node, side: Operand) -> Mistake | None:
        """A text is compared with one that its values are only without regard to case: `issue.state === 'OPEN'`."""
        literal: object = next((each.value for each in (node.left, node.right) if each.type == "Literal"), None)
        found = self._operands.texts(side.node) if isinstance(literal, str) and literal else None
        if found is None or literal in found[1]:
            return None
        same = sorted({text for text in found[1] if text.casefold() == str(literal).casefold()})
        if len(same) != 1:
            return None
        always = "true" if node.operator.startswith("!") else "false"
        says = f"is always {always}: it is written in other letters. Write `'{same[0]}'`."
        return Mistake(node, found[0], says)

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
        choices = [node for node in self._dataflow.nodes if node.type == "LogicalExpression" and node.operator != "&&"]
        return {id(side) for choice in choices for side in (choice.left, choice.right)}


def _is_never_number(sides: Sequence[Operand]) -> bool:
    """Whether these are a number and a text that `==` converts to none, such as `T1`."""
    if {side.kind for side in sides} != {NUMBER, TEXT}:
        return False
    text = next(side for side in sides if side.kind == TEXT)
    values: Sequence[object] = [text.node.value] if text.observation is None else text.observation.values
    filled = [value for value in values if not is_missing(value)]
    return all(isinstance(value, str) and value.strip()[:1].isalpha() for value in filled)


def _literal_kind(items: Node) -> Operand | None:
    """What the items of a list are, where all are literals of one kind."""
    literals = [item for item in items.elements if item is not None and item.type == "Literal"]
    kinds = {_kind(literal.value) for literal in literals}
    if len(literals) < len(items.elements) or len(kinds) != 1 or (kind := kinds.pop()) is None:
        return None
    return Operand(items, kind, None, len(items.elements))


def _is_meant(sought: Operand, literals: Operand) -> bool:
    """Whether values of an answer are looked for among literals as what they are: numbers not among texts of which none
    is a number, but stands for a missing one, as `N/A` does."""
    if sought.observation is None or not sought.is_sure:
        return False
    return sought.kind != NUMBER or any(_NUMERIC.fullmatch(str(item.value)) for item in literals.node.elements)


def _kind(value: object) -> str | None:
    return KINDS.get(type(value))


def _makes_table(source: Node) -> bool:
    return source.type == "NewExpression" and getattr(source.callee, "name", None) in _TABLES


def _not_found(call: Node) -> str:
    method = member_name(call.callee)
    return {"indexOf": "is always -1", "get": "is always undefined"}.get(str(method), "is always false")


def _held(call: Node) -> str:
    return "keys" if member_name(call.callee) == "get" else "items"


def _stands_for_nothing(value: object, kind: str, operator: str) -> bool:
    """Whether a literal is compared with values of a kind since it may stand in place of one: `''`, `N/A`, 0."""
    if kind == TEXT:
        return value == 0 and operator.startswith("!")
    pattern = {NUMBER: _NUMERIC, "a boolean": _BOOLEAN}.get(kind)
    return isinstance(value, str) and pattern is not None and pattern.fullmatch(value) is None


def _has_equal(values: Sequence[object]) -> bool:
    """Whether two objects have the same properties with the same values: to a set they are two all the same."""
    seen: list[object] = []
    for value in values[:_MAX_COMPARED]:
        if value in seen:
            return True
        seen.append(value)
    return False


_TO: Final = {TEXT: "String", NUMBER: "Number"}
"""By kind: the function that makes a value of it."""
