"""Texts of answers that a script takes for numbers, dates or booleans.

A text is compared with a `Date`, which is always false; texts of numbers are joined where they should be added up, or
compared as texts, "10" before "9". And numbers that are seconds where milliseconds are meant.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

from codecall.sandbox.agentscript.diagnosis.context import Observation
from codecall.sandbox.agentscript.diagnosis.operations.operands import OBJECT, TEXT, Mistake, Operands
from codecall.sandbox.agentscript.diagnosis.remedies import is_missing
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import EQUALITY, FUNCTIONS, key_name, member_name

_MAX_DEPTH: Final = 4
"""Variables and operands between a comparison and the date in it."""

_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?")
"""A text of a number: a code such as `0042` is none."""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d.{0,40}")
_SECONDS: Final = range(10**9, 4 * 10**9)
"""Seconds since 1970 from 2001 to 2096; as milliseconds they are days of early 1970."""
_IDENTIFIER: Final = re.compile(r"(?:^|[._])(?:id|key|code|no|nr|sku|zip|phone|version)$|(?:Id|Key|Code)$")
"""Names of what is compared only to have some order."""
_DATES: Final = frozenset({"Date", "Date.parse", "Date.now", "Date.UTC"})
_TIMES: Final = frozenset({"getTime", "valueOf", "setDate", "setTime", "setHours", "setMonth", "setFullYear"})
_CHOICES: Final = frozenset({"||", "??"})
_STARTS: Final = frozenset({"=", "||=", "??="})
"""Operators by which a property gets the number that a sum begins with."""


class TextMistakes:
    """Looks for texts that are taken for something else.

    Args:
        operands: The operands of the script.
    """

    def __init__(self, operands: Operands) -> None:
        self._operands = operands
        self._dataflow = operands.dataflow

    def subtracted(self, node: Node) -> Mistake | None:
        """Texts that are no numbers are computed with: `a.start - b.start` of days."""
        if "isNaN" in self._dataflow.script or node.operator not in {"-", "-="}:
            return None
        for side in (node.left, node.right):
            if (found := self._operands.texts(side)) is None or any(map(_NUMBER.fullmatch, found[1])):
                continue
            days = all(map(_DAY.fullmatch, found[1]))
            left, right = (self._as_time(each) if days else "" for each in (node.left, node.right))
            write = f" Write `{left} {node.operator} {right}`." if days else ""
            says = f"is never a number: `{self._operands.text(side)}` is a text.{write}"
            # A single text may be a number the next time.
            return Mistake(node, found[0], says) if days or len(found[1]) > 1 else None
        return None

    def _as_time(self, side: Node) -> str:
        """An operand with the milliseconds of a day in place of its text."""
        text = self._operands.text(side)
        return text if self._operands.texts(side) is None else f"Date.parse({text})"

    def date(self, node: Node) -> Mistake | None:
        """A date is made of seconds, `new Date(charge.created)`, or of an object."""
        made = self._operands.operand(node.arguments[0])
        if made is not None and made.kind == OBJECT:
            what = self._operands.text(made.node)
            says = f"is no date: `{what}` is an object. Write one of its properties."
            return Mistake(node, made.observation, says) if made.is_sure else None
        seconds = _as_number(node.arguments[0])
        if (found := self._seconds(seconds)) is None:
            return None
        what = self._operands.text(seconds)
        return Mistake(node, found, f"is a day of 1970: `{what}` is in seconds. Write `new Date({what} * 1000)`.")

    def _seconds(self, node: Node) -> Observation | None:
        """What an expression was, where all its values are seconds since 1970."""
        found = self._operands.observations(node)
        values: list[object] = [value for item in found for value in item.values if not is_missing(value)]
        return found[0] if values and all(map(_is_seconds, values)) else None

    def compared_with_date(self, node: Node) -> Mistake | None:
        """A text, or a number of seconds, is compared with a date: `item.when > new Date('2026-01-05')`."""
        for side, date in ((node.left, node.right), (node.right, node.left)):
            if self._is_date(date):
                return self._of_date(node, side, date)
        return None

    def _of_date(self, node: Node, side: Node, date: Node) -> Mistake | None:
        what = self._operands.text(side)
        texts = self._operands.texts(side)
        if texts is None and not self._is_day(side):
            seconds = self._seconds(_as_number(side))
            says = f"compares seconds with milliseconds: write `{what} * 1000`."
            changes = f"{self._operands.text(date)} /=" in self._dataflow.script
            return None if seconds is None or changes else Mistake(node, seconds, says)
        if texts is not None and any(map(_NUMBER.fullmatch, texts[1])):
            return None
        always = "true" if node.operator in {"!==", "!="} else "false"
        made = f"new Date({what})"
        if node.operator in EQUALITY:
            made = f"{made}.getTime()"
        also = f" and compare it with a number, `{_with_time(self._operands.text(date), date)}`"
        says = f"is always {always}: `{what}` is a text, and the other side a date. Write `{made}`"
        return Mistake(node, texts and texts[0], f"{says}{also if node.operator in EQUALITY else ''}.")

    def ordered(self, node: Node) -> Mistake | None:
        """Texts of numbers are compared with one another, and would come in another order as numbers."""
        first, second = (self._operands.texts(side) for side in (node.left, node.right))
        if first is None or second is None:
            return None
        texts = {*first[1], *second[1]}
        if any(_IDENTIFIER.search(self._operands.text(side)) for side in (node.left, node.right)):
            return None
        if not all(map(_NUMBER.fullmatch, texts)):
            return None
        if sorted(texts) == sorted(texts, key=lambda text: (float(text), text)):
            return None
        left, right = map(self._operands.text, (node.left, node.right))
        says = f"compares texts, such as 10 before 9: write `Number({left}) {node.operator} Number({right})`."
        return Mistake(node, first[0], says)

    def asked(self, condition: Node) -> Mistake | None:
        """A text of a boolean is a condition, which it is always: `if (item.active)` of `{active: 'false'}`."""
        found = self._operands.texts(condition) if condition.type in {"Identifier", "MemberExpression"} else None
        if found is None or {text.casefold() for text in found[1]} - {"true"} != {"false"}:
            return None
        what, operand = self._operands.text(condition), self._operands.operand(condition)
        if operand is None or operand.values > len(found[1]) or not self._operands.sees_all(operand):
            return None
        # The condition may ask whether there is a text, which is looked at elsewhere.
        name = re.escape(what)
        uses = rf"\b(?!if\b|while\b)\w+\({name}\)|typeof {name}|{name}\s*(?:[!=]=|\??\.)"
        if re.search(uses, self._dataflow.script) is not None:
            return None
        says = f"is always true: it is {TEXT}, `true` or `false`. Write `{what} === '{found[1][0]}'`."
        return Mistake(condition, found[0], says)

    # Sums

    def joined(self, node: Node) -> Mistake | None:
        """A text of a number is added to a number or to a sum that begins as one: `v.price + 5`, `sum + v.price`."""
        to_literal = self._adds_literal(node, node.right, node.left)
        if not to_literal and not self._adds_literal(node, node.left, node.right) and not self._is_sum(node):
            return None
        added: Node = node.left if to_literal else node.right
        if added.type == "LogicalExpression" and added.operator in _CHOICES and _is_number(added.right):
            added = added.left
        found = self._operands.observations(added)
        values = [value for item in found for value in item.values if not is_missing(value)]
        texts = [value for value in values if isinstance(value, str) and value]
        others = [value for value in values if not isinstance(value, str) and type(value) not in {int, float}]
        if others or not texts or not all(map(_NUMBER.fullmatch, texts)):
            return None
        left, right = self._operands.text(node.left), self._operands.text(node.right)
        left = f"({left})" if node.left.type == "LogicalExpression" else left
        left, right = (f"Number({left})", right) if to_literal else (left, f"Number({right})")
        says = f"joins texts: `{self._operands.text(added)}` is {TEXT}. Write `{left} {node.operator} {right}`."
        return Mistake(node, found[0], says)

    def _adds_literal(self, addition: Node, literal: Node, other: Node) -> bool:
        """Whether one side of an addition is a number, and the other one is no identifier of something."""
        is_number = addition.operator == "+" and _is_number(literal)
        return is_number and _IDENTIFIER.search(self._operands.text(other)) is None

    def _is_sum(self, addition: Node) -> bool:
        """Whether an addition adds to a number: `n += x`, `n = n + x`, what the callback of `reduce` gives, `by[key] =
        (by[key] || 0) + x`."""
        name: Node = addition.left
        if name.type == "LogicalExpression":
            return name.operator in _CHOICES and _is_number(name.right)
        if name.type == "MemberExpression":
            named = not name.computed and member_name(name) in self._counted
            return addition.operator == "+=" and (named or self._operands.text(name) in self._started)
        if name.type != "Identifier":
            return False
        if addition.operator == "+" and self._dataflow.variable(name) in self._sums:
            return True
        values = self._dataflow.values_of(name)
        if not any(map(_is_number, values)) or any(isinstance(getattr(value, "value", None), str) for value in values):
            return False
        return addition.operator == "+=" or any(value is addition for value in values)

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

    @cached_property
    def _started(self) -> set[str]:
        """The properties of the script's own objects that it gives a number, as it writes them: `by[key] ??= 0`."""
        given = [node for node in self._dataflow.nodes if node.type == "AssignmentExpression"]
        return {self._operands.text(node.left) for node in given if node.operator in _STARTS and _is_number(node.right)}

    @cached_property
    def _counted(self) -> set[str]:
        """The names of properties that the script only gives numbers where it makes objects: `{ sum: 0 }`."""
        made = [node for node in self._dataflow.nodes if node.type == "Property" and node.value.type == "Literal"]
        return {key_name(node.key) for node in made if _is_number(node.value)} - {
            key_name(node.key) for node in made if not _is_number(node.value)
        }

    # Dates

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

    def _is_day(self, node: Node) -> bool:
        """Whether an expression is a text of a day that the script writes out, or a variable that is one."""
        values = self._dataflow.values_of(node) if node.type == "Identifier" else [node]
        texts = [value.value if value.type == "Literal" else None for value in values]
        return bool(texts) and all(isinstance(text, str) and _DAY.fullmatch(text) is not None for text in texts)

    def _is_made(self, node: Node) -> bool:
        """Whether a call makes a date: `Date()` without `new` is a text."""
        return node.type == "NewExpression" or self._dataflow.text(node.callee) != "Date"


def _as_number(node: Node) -> Node:
    """What an expression makes a number of, `Number(x)` or `+x`; other ones as they are."""
    if node.type == "UnaryExpression" and str(node.operator) == "+":
        return node.argument
    is_call = node.type == "CallExpression" and getattr(node.callee, "name", None) in {"Number", "parseInt"}
    return node.arguments[0] if is_call and node.arguments else node


def _is_seconds(value: object) -> bool:
    is_text = isinstance(value, str) and value.isdecimal() and len(value) == 10
    number = int(str(value)) if is_text else value
    return type(number) is int and number in _SECONDS


def _is_number(node: Node) -> bool:
    return node.type == "Literal" and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _with_time(text: str, date: Node) -> str:
    return f"{text}.getTime()" if date.type in {"NewExpression", "Identifier"} else text
