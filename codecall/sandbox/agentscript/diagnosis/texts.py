"""Texts of answers that a script takes for numbers or dates: a text is compared with a `Date`, which is always false;
texts of numbers are joined where they should be added up, or compared as texts, "10" before "9". And values that are
never equal since they are of different kinds, objects that are compared with numbers, texts that are looked for in
lists of objects, and objects that a text shows as `[object Object]`.

The values are looked up in the answers; a script is parsed again only where they have such texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from itertools import islice
from time import monotonic
from typing import Final, NamedTuple, cast

from codecall.sandbox.agentscript.diagnosis.calls import OBJECT
from codecall.sandbox.agentscript.diagnosis.context import FailureContext, Observation
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow
from codecall.sandbox.agentscript.diagnosis.remedies import is_missing
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import EQUALITY, FUNCTIONS, member_name

MAX_MISTAKEN: Final = 3
"""Expressions that are warned of in one run."""

_MAX_LOOKED_AT: Final = 200
"""Comparisons and additions that are looked at."""
_MAX_OBSERVATIONS: Final = 8
_MAX_ITEMS: Final = 200
"""Items of one list that are looked at."""
_SHARE_OF_ROOM: Final = 4
_MAX_DEPTH: Final = 4
"""Variables and operands between a comparison and the date in it."""

_NUMBER: Final = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_ORDERS: Final = frozenset({"<", ">", "<=", ">="})
_ARITHMETIC: Final = frozenset({"-", "*", "/", "%", "-=", "*=", "/=", "%="})
_OPERATORS: Final = _ORDERS | EQUALITY | _ARITHMETIC | {"+", "+="}
_SECONDS: Final = range(10**9, 4 * 10**9)
"""Seconds since 1970 from 2001 to 2096; as milliseconds they are days of early 1970."""
_KINDS: Final[Mapping[type, str]] = {
    **{str: "a text", bool: "a boolean", int: "a number", float: "a number"},
    **{dict: "an object", list: "a list"},
}
_SEEKS: Final = frozenset({"includes", "indexOf"})
_DATES: Final = frozenset({"Date", "Date.parse", "Date.now", "Date.UTC"})
_TIMES: Final = frozenset({"getTime", "valueOf", "setDate", "setTime", "setHours", "setMonth", "setFullYear"})


class MistakenText(NamedTuple):
    """An expression that takes a text for something else."""

    expression: Node
    text: Node
    """What is a text."""
    observation: Observation
    says: str
    """What is wrong, and what to write."""


class TextSearch:
    """Looks in one script for texts that are taken for numbers or dates.

    Args:
        dataflow: The script.
        context: Its answers.
        writes: Names of properties that objects of its own have: their values are not those of the answers.
    """

    def __init__(self, dataflow: DataFlow, context: FailureContext, writes: Set[str]) -> None:
        self._dataflow = dataflow
        self._context = context
        self._writes = writes

    def find(self, room_ms: float, *, shows_objects: bool) -> Iterator[MistakenText]:
        """The expressions to warn of, found in a part of the milliseconds that are left. `shows_objects`: a text in the
        value, or in an input, has `[object Object]`."""
        until = monotonic() + room_ms / _SHARE_OF_ROOM / 1000
        count = 0
        for node in islice(filter(_is_looked_at, self._dataflow.nodes), _MAX_LOOKED_AT):
            found = self._shown(node) if shows_objects else None
            found = found or self._mistaken(node)
            if found is not None:
                yield found
                count += 1
            if count == MAX_MISTAKEN or monotonic() > until:
                return

    def _mistaken(self, node: Node) -> MistakenText | None:
        match node.type:
            case "CallExpression":
                return self._sought(node)
            case "NewExpression":
                return self._date_of_seconds(node)
            case "TemplateLiteral" | "MemberExpression":
                return None
            case _:
                return self._operation(node)

    def _operation(self, node: Node) -> MistakenText | None:
        if node.operator in {"+", "+="}:
            return self._joined(node)
        if node.operator in _ARITHMETIC:
            return self._counted_object(node)
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if self._is_date(other):
                return self._compared_with_date(node, side, other)
        if node.operator not in _ORDERS:
            return self._compared_kinds(node)
        return self._compared_texts(node) or self._ordered_objects(node)

    def _ordered_objects(self, node: Node) -> MistakenText | None:
        """An object or a list is compared with a number: `answer.total > 0` of `{total: {value: 2}}`."""
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if not _is_number(other) or (found := self._kind_of(side)) is None or found[1] is None:
                continue
            what = self._context.text(side)
            if found[2] == "an object":
                says = f"is always false: `{what}` is an object. Write one of its properties."
                return MistakenText(node, side, found[1], says)
            if found[2] == "a list":
                says = f"compares a list with a number: write `{what}.length`."
                return MistakenText(node, side, found[1], says)
        return None

    def _counted_object(self, node: Node) -> MistakenText | None:
        """An object is computed with: `b.reactions - a.reactions` of `{reactions: {total: 2}}`."""
        for side in (node.left, node.right):
            found = self._kind_of(side)
            if found is not None and found[1] is not None and found[2] == "an object":
                says = f"is never a number: `{self._context.text(side)}` is an object. Write one of its properties."
                return MistakenText(node, side, found[1], says)
        return None

    def _date_of_seconds(self, node: Node) -> MistakenText | None:
        """A date is made of seconds: `new Date(charge.created)`."""
        (seconds,) = node.arguments
        for observation in islice(self._context.observations(seconds), _MAX_OBSERVATIONS):
            if observation.path[-1:] and observation.path[-1] in self._writes:
                return None
            if not all(type(value) is int and value in _SECONDS for value in observation.values):
                return None
            what = self._context.text(seconds)
            says = f"is a day of 1970: `{what}` is in seconds. Write `new Date({what} * 1000)`."
            return MistakenText(node, seconds, observation, says) if observation.values else None
        return None

    def _sought(self, call: Node) -> MistakenText | None:
        """A text or a number is looked for in a list of objects: `order.lines.includes('sku')`."""
        callee: Node = call.callee
        sought = self._kind_of(call.arguments[0])
        if sought is None or sought[2] not in {"a text", "a number"}:
            return None
        for observation in islice(self._context.observations(callee.object), _MAX_OBSERVATIONS):
            lists = [cast("list[object]", value) for value in observation.values if isinstance(value, list)]
            items = [item for value in lists for item in islice(value, _MAX_ITEMS)]
            if not items or len(lists) < len(observation.values) or not all(isinstance(item, dict) for item in items):
                return None
            what, method = self._context.text(callee.object), member_name(callee)
            finds = "is always false" if method == "includes" else "is always -1"
            says = f"{finds}: the items of `{what}` are objects. Write `{what}.some((item) => …)` with a property."
            return MistakenText(call, callee.object, observation, says)
        return None

    def _shown(self, node: Node) -> MistakenText | None:
        """An object is shown in a text, `Patient: ${patient}`, or taken for a key, `by[order.customer]`."""
        match node.type:
            case "TemplateLiteral":
                parts: list[Node] = node.expressions
            case "MemberExpression":
                parts = [node.property]
            case "BinaryExpression" | "AssignmentExpression":
                parts = [node.left, node.right] if node.operator in {"+", "+="} else []
            case _:
                parts = []
        for part in parts:
            for observation in islice(self._context.observations(part), _MAX_OBSERVATIONS):
                if any(isinstance(value, dict) for value in observation.values):
                    made = f"JSON.stringify({self._context.text(part)})"
                    says = f"is shown as `{OBJECT}`: write one of its properties, or `{made}`."
                    return MistakenText(part, part, observation, says)
        return None

    def _compared_with_date(self, node: Node, side: Node, date: Node) -> MistakenText | None:
        """A text is compared with a date: `item.when > new Date('2026-01-05')`."""
        observation = self._observed(side)
        if observation is None or any(_NUMBER.fullmatch(text) for text in observation[1]):
            return None
        always = "true" if node.operator in {"!==", "!="} else "false"
        what = self._context.text(side)
        made = f"new Date({what})"
        if node.operator in EQUALITY:
            made = f"{made}.getTime()"
        also = f" and compare it with a number, `{_with_time(self._context.text(date), date)}`"
        says = f"is always {always}: `{what}` is a text, and the other side a date. Write `{made}`"
        return MistakenText(node, side, observation[0], f"{says}{also if node.operator in EQUALITY else ''}.")

    def _compared_texts(self, node: Node) -> MistakenText | None:
        """Texts of numbers are compared with one another, and would come in another order as numbers."""
        observed = [self._observed(side) for side in (node.left, node.right)]
        texts = {text for found in observed if found is not None for text in found[1]}
        if None in observed or observed[0] is None or not all(map(_NUMBER.fullmatch, texts)):
            return None
        if sorted(texts) == sorted(texts, key=lambda text: (float(text), text)):
            return None
        left, right = map(self._context.text, (node.left, node.right))
        says = f"compares texts, such as 10 before 9: write `Number({left}) {node.operator} Number({right})`."
        return MistakenText(node, node.left, observed[0][0], says)

    def _compared_kinds(self, node: Node) -> MistakenText | None:
        """Values of different kinds are compared: `loan.book === book.id` of a number and a text, `order.customer ===
        'C1'` of an object. Only objects and the values of several items are looked at: a single text or number may be
        of another kind next time."""
        if id(node) in self._alternatives:
            return None
        sides = [self._kind_of(side) for side in (node.left, node.right)]
        kinds = {kind for _, _, kind in filter(None, sides)}
        items = [
            found for found in sides if found is not None and found[1] is not None and _is_sure(found[1], found[2])
        ]
        if kinds == {"an object"}:
            return self._compared_objects(node)
        if None in sides or len(kinds) < 2 or not items or (len(node.operator) < 3 and "an object" not in kinds):
            return None
        side, observation, kind = items[0]
        other = next(found for found in sides if found is not None and found[0] is not side)
        always = "true" if node.operator.startswith("!") else "false"
        what, also = self._context.text(side), self._context.text(other[0])
        if f"typeof {what}" in self._dataflow.script or f"isArray({what})" in self._dataflow.script:
            return None
        says = f"is always {always}: `{what}` is {kind}, and `{also}` {other[2]}."
        if kinds == {"a number", "a text"} and other[1] is not None:
            says = f"{says[:-1]}. Write `String({what}) {node.operator} String({also})`."
        return None if observation is None else MistakenText(node, side, observation, says)

    def _compared_objects(self, node: Node) -> MistakenText | None:
        """Objects that two tools returned are compared with one another."""
        observed = [next(iter(self._context.observations(side)), None) for side in (node.left, node.right)]
        first, second = observed
        if first is None or second is None or first.tool == second.tool:
            return None
        always = "true" if node.operator.startswith("!") else "false"
        says = f"is always {always}: two objects are never the same. Compare one of their properties."
        return MistakenText(node, node.left, first, says)

    @cached_property
    def _alternatives(self) -> set[int]:
        """The identities of conditions for which another one will do as well."""
        choices = [node for node in self._dataflow.nodes if node.type == "LogicalExpression" and node.operator == "||"]
        return {id(side) for choice in choices for side in (choice.left, choice.right)}

    def _kind_of(self, node: Node) -> tuple[Node, Observation | None, str] | None:
        """What an expression is: a literal, or a value that all answers have of one kind, where they have one."""
        if node.type == "Literal":
            value: object = node.value
            return None if (kind := _KINDS.get(type(value))) is None else (node, None, kind)
        if node.type == "Identifier" and not self._dataflow.is_bound_once(node):
            return None
        kinds = set[str | None]()
        first: Observation | None = None
        for observation in islice(self._context.observations(node), _MAX_OBSERVATIONS):
            if observation.path[-1:] and observation.path[-1] in self._writes:
                return None
            kinds |= {_KINDS.get(type(value)) for value in observation.values if not is_missing(value)}
            if first is None or len(observation.values) > len(first.values):
                first = observation
        kind = kinds.pop() if len(kinds) == 1 else None
        return None if kind is None else (node, first, kind)

    def _joined(self, node: Node) -> MistakenText | None:
        """A text of a number is added to a sum, which begins as a number: `sum + item.price`."""
        if node.left.type != "Identifier" or not self._is_sum(node):
            return None
        observation = self._observed(node.right)
        if observation is None or not all(map(_NUMBER.fullmatch, observation[1])):
            return None
        total, what = self._context.text(node.left), self._context.text(node.right)
        says = f"joins texts: `{what}` is a text. Write `{total} {node.operator} Number({what})`."
        return MistakenText(node, node.right, observation[0], says)

    def _is_sum(self, addition: Node) -> bool:
        """Whether an addition adds to a number: `n += x`, `n = n + x`, or what the callback of `reduce` gives."""
        name: Node = addition.left
        if addition.operator == "+" and self._dataflow.variable(name) in self._sums:
            return True
        values = self._dataflow.values_of(name)
        return (addition.operator == "+=" or any(value is addition for value in values)) and any(
            map(_is_number, values)
        )

    @cached_property
    def _sums(self) -> set[object]:
        """The parameters that are the sum so far of a `reduce` that begins with a number, or with the first item."""
        sums = set[object]()
        for node in self._dataflow.nodes:
            if node.type == "CallExpression" and node.arguments and node.callee.type == "MemberExpression":
                function, *start = node.arguments
                names: list[Node] = function.params[:1] if function.type in FUNCTIONS else []
                if member_name(node.callee) in {"reduce", "reduceRight"} and all(map(_is_number, start)):
                    sums |= {self._dataflow.variable(name) for name in names if name.type == "Identifier"}
        return sums

    def _observed(self, node: Node) -> tuple[Observation, list[str]] | None:
        """What an expression was, and its values where all of them are texts."""
        if node.type == "Identifier" and not self._dataflow.is_bound_once(node):
            return None
        texts: list[str] = []
        first: Observation | None = None
        for observation in islice(self._context.observations(node), _MAX_OBSERVATIONS):
            first = first or observation
            texts += [value for value in observation.values if isinstance(value, str)]
            if observation.path[-1:] and observation.path[-1] in self._writes:
                return None
            if not all(isinstance(value, str) for value in observation.values):
                return None
        return (first, texts) if first is not None and texts else None

    def _is_date(self, node: Node, depth: int = 0) -> bool:
        """Whether an expression is a date, or the milliseconds of one."""
        if depth > _MAX_DEPTH:
            return False
        match node.type:
            case "NewExpression" | "CallExpression":
                is_time = node.callee.type == "MemberExpression" and member_name(node.callee) in _TIMES
                return is_time or (self._dataflow.text(node.callee) in _DATES and self._is_made(node))
            case "UnaryExpression":
                return str(node.operator) == "+" and self._is_date(node.argument, depth + 1)
            case "BinaryExpression":
                # A Date and `+` give a text.
                is_number = node.operator == "-" or (node.operator == "+" and node.left.type == "CallExpression")
                return is_number and self._is_date(node.left, depth + 1)
            case "Identifier":
                values = self._dataflow.values_of(node)
                return 0 < len(values) <= _MAX_DEPTH and all(self._is_date(value, depth + 1) for value in values)
            case _:
                return False

    def _is_made(self, node: Node) -> bool:
        """Whether a call makes a date: `Date()` without `new` is a text."""
        return node.type == "NewExpression" or self._dataflow.text(node.callee) != "Date"


def _is_looked_at(node: Node) -> bool:
    if node.type in {"BinaryExpression", "AssignmentExpression"}:
        return node.operator in _OPERATORS
    if node.type == "MemberExpression":
        return node.computed and node.property.type != "Literal"
    if node.type == "NewExpression":
        return getattr(node.callee, "name", None) == "Date" and len(node.arguments) == 1
    if node.type == "CallExpression":
        is_method = node.callee.type == "MemberExpression" and member_name(node.callee) in _SEEKS
        return is_method and len(node.arguments) == 1
    return node.type == "TemplateLiteral"


def _is_sure(observation: Observation, kind: str) -> bool:
    """Whether a value would be of that kind the next time, too: one of several items, or an object in an answer."""
    return len(observation.values) > 1 or (kind == "an object" and len(observation.path) > 0)


def _is_number(node: Node) -> bool:
    return node.type == "Literal" and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _with_time(text: str, date: Node) -> str:
    return f"{text}.getTime()" if date.type in {"NewExpression", "Identifier"} else text
