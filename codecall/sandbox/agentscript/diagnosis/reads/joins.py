"""Answers that a script joins by a property that one of them does not have: `books.find((book) => book.isbn ===
loan.book)`, or by way of a table of the script's own, `byIsbn[loan.book]`; or with values that it spells out, or has
from the request: `loan.reader === codecallContext.reader`.

One tool's answers that are joined with themselves are not looked at: as tasks and their parents, where none may have
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Final, TypeAlias

from codecall.sandbox.agentscript.diagnosis.context import FailureContext, Observation
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow, returned_expression
from codecall.sandbox.agentscript.diagnosis.flow.paths import Step, ValuePath
from codecall.sandbox.agentscript.diagnosis.flow.values import CONTEXT
from codecall.sandbox.agentscript.diagnosis.reads.needs import FLAGS
from codecall.sandbox.agentscript.diagnosis.reads.uses import AnswerUses
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import EQUALITY, FUNCTIONS, PREFIX_LENGTH, contains, member_name, span

_MAX_OBSERVATIONS: Final = 32
"""Answers in which one counterpart is looked up."""
_MAX_COUNTERPARTS: Final = 50
"""Places of one table that are looked at."""
_BY_KEY: Final = frozenset({"get", "has", "set", "add", "includes", "indexOf"})
"""Methods of tables, sets and lists whose first argument is a key or an item."""
_OF_PAIRS: Final = frozenset({"Map", "Object.fromEntries"})
_OF_GROUPS: Final = frozenset({"Object.groupBy", "Map.groupBy"})
_BY_NAME = re.compile(r"\.\s*(\w++)\s*(?:\]|\)|===?|,)|===?\s*(?:\w++\s*\.\s*)++(\w++)|=>\s*\w++\.(\w++)")

Place: TypeAlias = tuple[Node, ValuePath]
"""An expression, and the way from its value to those that are meant."""


def names(script: str) -> set[str]:
    """The properties by which a script may join answers, found without parsing it."""
    return {name for found in _BY_NAME.findall(script) for name in found if name}


class Joins:
    """The joins of answers in one script.

    Args:
        dataflow: The script.
        context: Its answers.
        uses: Its uses of them.
    """

    def __init__(self, dataflow: DataFlow, context: FailureContext, uses: AnswerUses) -> None:
        self._dataflow = dataflow
        self._context = context
        self._uses = uses

    def is_joined(self, read: Node, name: str, observation: Observation) -> bool:
        """Whether a property of several items, which none of them has, is held against values of another tool, or given
        ones."""
        if len(observation.values) < 2 or FLAGS.search(name):
            return False
        spots = [read] if read.type == "AssignmentPattern" else list(self._uses.spots(read))
        if any(map(self._uses.is_guarded, spots)):
            return False
        return any(
            self._is_given(place) or self._is_of_another(place, path, observation.tool)
            for spot in spots
            for place, path in islice(self._counterparts(spot), _MAX_COUNTERPARTS)
        )

    def _is_of_another(self, place: Node, path: ValuePath, tool: str) -> bool:
        """Whether another tool has given values of an expression."""
        return any(
            other.tool != tool and any(isinstance(value, str | int | float) for value in other.values)
            for other in islice(self._context.observations(place, path), _MAX_OBSERVATIONS)
        )

    def _is_given(self, place: Node) -> bool:
        """Whether an expression is, or holds, a value that the script spells out, or that the request has brought; a
        literal in the place itself is looked at by `Needs`."""
        if place.type == "Literal":
            return False
        for source in self._context.sources(place):
            match source.type:
                case "Literal":
                    given = isinstance(source.value, str | int | float) and not isinstance(source.value, bool)
                case "ArrayExpression":
                    given = any(element is not None and element.type == "Literal" for element in source.elements)
                case _:
                    given = self._dataflow.text(source).partition(".")[0] == CONTEXT
            if given:
                return True
        bindings = self._dataflow.bindings_of(place) if place.type == "Identifier" else ()
        return any(binding.path and self._dataflow.text(binding.value) == CONTEXT for binding in bindings)

    def _counterparts(self, spot: Node) -> Iterator[Place]:
        """What the value at a place is held against."""
        parent = self._uses.parent(spot)
        if parent is None:
            return
        if parent.type == "BinaryExpression":
            if parent.operator in EQUALITY and not parent.operator.startswith("!") and not self._is_choice(parent):
                yield from ((side, ()) for side in (parent.left, parent.right) if not contains(side, spot))
            return
        if (key := self._key_of(parent)) is not None and contains(key[1], spot):
            yield from self._keys_of(key[0])
        elif (table := self._table_made_of(spot, parent)) is not None:
            yield from self._keys_of(table)

    def _is_choice(self, comparison: Node) -> bool:
        """Whether another condition will do as well: `book.isbn === loan.book || book.isbn === loan.isbn`."""
        parent = self._uses.parent(comparison)
        return parent is not None and parent.type == "LogicalExpression" and parent.operator != "&&"

    def _key_of(self, node: Node) -> tuple[Node, Node] | None:
        """The table or list, and the key or item of it, that an expression uses: `books[loan.book]`, `ids.has(id)`."""
        if node.type == "MemberExpression" and node.computed:
            return node.object, node.property
        if node.type == "CallExpression" and node.callee.type == "MemberExpression" and node.arguments:
            return (node.callee.object, node.arguments[0]) if member_name(node.callee) in _BY_KEY else None
        return None

    def _table_made_of(self, spot: Node, parent: Node) -> Node | None:
        """The variable of the table whose keys a callback gives: `new Map(books.map((book) => [book.isbn, book]))`."""
        if parent.type == "ArrayExpression" and (not parent.elements or not contains(parent.elements[0], spot)):
            return None
        if parent.type not in FUNCTIONS | {"ArrayExpression", "ReturnStatement"}:
            return None
        for made in self._dataflow.enclosing(span(spot)[0] - PREFIX_LENGTH, "VariableDeclarator"):
            if made.id.type == "Identifier" and made.init is not None and self._makes_table(made.init) is not None:
                return made.id
        return None

    def _makes_table(self, node: Node) -> str | None:
        """The name of what an expression makes a table or a set with; None: it makes none."""
        if node.type not in {"NewExpression", "CallExpression"} or not node.arguments:
            return None
        called = self._dataflow.text(node.callee)
        return called if called in _OF_PAIRS | _OF_GROUPS | {"Set"} else None

    def _keys_of(self, table: Node) -> Iterator[Place]:
        """The keys of a table, or the items of a list or a set: those that it has, and those that are looked for."""
        for source in self._context.sources(table):
            called = self._makes_table(source)
            if called is None:
                yield source, (Step.EACH,)
            elif called in _OF_GROUPS:
                value = returned_expression(source.arguments[-1])
                yield from () if value is None else [(value, ())]
            else:
                yield source.arguments[0], (Step.EACH, 0) if called in _OF_PAIRS else (Step.EACH,)
        if table.type == "Identifier":
            yield from ((key, ()) for key in self._keys_of_variables.get(self._dataflow.variable(table), ()))

    @cached_property
    def _keys_of_variables(self) -> dict[object, list[Node]]:
        """The keys with which the script uses each table that is a variable."""
        keys: dict[object, list[Node]] = {}
        for table, key in filter(None, map(self._key_of, self._dataflow.nodes)):
            if table.type == "Identifier":
                keys.setdefault(self._dataflow.variable(table), []).append(key)
        return keys
