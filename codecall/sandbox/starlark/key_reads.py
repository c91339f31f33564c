"""What a script does with the keys that it reads: whether it is ready for one that is missing, and which it names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, TypeGuard

from starlark.syntax import ast
from starlark.syntax.tokens import TokenKind

from codecall.sandbox.agentscript.diagnosis.reads.needs import FLAGS, MANY
from codecall.sandbox.starlark.read import StarlarkProgram, inside, walk

_COMPARES: Final = frozenset({TokenKind.EQUALS_EQUALS, TokenKind.NOT_EQUALS})
_ASKS_WHETHER: Final = frozenset({"bool", "type"})
"""Built-in functions that are asked of a value which may be missing."""


class KeyReads:
    """The reads of keys in one script that are written out: `x["key"]` and `x.get("key")`.

    Args:
        program: The script.
    """

    def __init__(self, program: StarlarkProgram) -> None:
        nodes = [node for node, _ in walk(program.file.statements)]
        self._parents: dict[int, Any] = {id(child): node for node in nodes for child in inside(node)}
        self.texts = {node.value for node in nodes if isinstance(node, ast.StringLiteral)}
        """Every text in it."""
        self.before_lists = {start for node in nodes for start in _starts_before_list(node)}
        """Where the expressions begin in whose place it has an empty list."""
        self._gets: defaultdict[str, list[ast.CallExpression]] = defaultdict(list)
        self._reads: defaultdict[str, set[int]] = defaultdict(set)
        self._names: defaultdict[str, list[ast.Identifier]] = defaultdict(list)
        self._sought: set[str] = set()
        """Keys that it asks dicts for: `"key" in x`."""
        for node in nodes:
            self._add(node)

    def _add(self, node: Any) -> None:
        if isinstance(node, ast.Identifier):
            self._names[node.name].append(node)
        elif isinstance(node, ast.IndexExpression) and isinstance(node.index, ast.StringLiteral):
            self._reads[node.index.value].add(node.start)
        elif isinstance(node, ast.BinaryOperatorExpression) and isinstance(node.lhs, ast.StringLiteral):
            if node.op in {TokenKind.IN, TokenKind.NOT_IN}:
                self._sought.add(node.lhs.value)
        elif isinstance(node, ast.CallExpression) and isinstance(node.fn, ast.DotExpression):
            key = node.args[0].value if node.args and isinstance(node.args[0], ast.PositionalArgument) else None
            if node.fn.name.name == "get" and isinstance(key, ast.StringLiteral):
                self._gets[key.value].append(node)
                self._reads[key.value].add(node.start)

    def names(self, holder: str, key: str, offset: int | None) -> bool:
        """Whether the script names a key in the value of `holder` itself, besides what is read at `offset`."""
        return holder in self.texts and bool(self._reads[key] - {offset})

    def is_written(self, key: str, offset: int | None) -> bool:
        """Whether the `get` at `offset` names the key: what a variable holds is data, as a day or a state is."""
        return any(get.start == offset for get in self._gets[key])

    def is_ready(self, key: str, offset: int | None) -> bool:
        """Whether the script is ready for a key to be missing: something stands in its place, or it asks whether it is
        there."""
        gets = [get for get in self._gets[key] if get.start == offset]
        return self.is_asked_for(key) or any(_has_default(get) or self._is_before_or(get) for get in gets)

    def _is_before_or(self, get: ast.CallExpression) -> bool:
        return any(_is_or(parent := self._parents.get(id(spot))) and parent.lhs is spot for spot in self._spots(get))

    def is_asked_for(self, key: str) -> bool:
        """Whether it asks anywhere whether a key is there: `if x.get("key")`, `"key" in x`."""
        return key in self._sought or any(self._asks(spot) for get in self._gets[key] for spot in self._spots(get))

    def needs(self, key: str, offset: int | None, items: int) -> bool:
        """Whether what `get` at `offset` gives is meant to be a value: nothing stands in place of one that is missing,
        but the 0 of a sum, and the script does not ask whether it is there. So many `items` lack it."""
        get = next((get for get in self._gets[key] if get.start == offset), None)
        if get is None or self.is_asked_for(key):
            return False
        spots = [spot for found in self._gets[key] for spot in self._spots(found)]
        if items < MANY and any(map(self._is_condition, spots)):
            return False
        if any(map(self._is_before_or, self._gets[key])):
            whole = self._parents.get(id(get))
            return _is_or(whole) and _is_zero(whole.rhs) and self._is_summed(whole)
        return len(get.args) == 1 or (_is_zero(getattr(get.args[1], "value", None)) and self._is_summed(get))

    def _spots(self, get: ast.CallExpression) -> Iterator[Any]:
        """Where the value that `get` gives is used: there, and where the variable is that has it."""
        yield get
        parent = self._parents.get(id(get))
        if isinstance(parent, ast.AssignmentStatement) and isinstance(parent.lhs, ast.Identifier):
            yield from (name for name in self._names[parent.lhs.name] if name is not parent.lhs)

    def _asks(self, node: Any) -> bool:
        """Whether an expression stands where the script asks whether it has a value."""
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.PositionalArgument):
            called = getattr(self._parents.get(id(parent)), "fn", None)
            return isinstance(called, ast.Identifier) and called.name in _ASKS_WHETHER
        if isinstance(parent, ast.UnaryOperatorExpression):
            return parent.op is TokenKind.NOT
        if isinstance(parent, (ast.IfStatement, ast.ConditionalExpression)):
            return parent.cond is node
        if not isinstance(parent, ast.BinaryOperatorExpression):
            return False
        other = parent.rhs if parent.lhs is node else parent.lhs
        if parent.op in _COMPARES:
            rare = isinstance(other, ast.StringLiteral) and FLAGS.search(other.value) is not None
            return rare or (isinstance(other, ast.Identifier) and other.name in {"None", "False"})
        is_last = parent.rhs is node and parent.op in {TokenKind.AND, TokenKind.OR}
        return (parent.op is TokenKind.AND and parent.lhs is node) or (is_last and self._asks(parent))

    def _is_condition(self, node: Any) -> bool:
        """Whether items are kept or told apart by a value: `if x.get("active")` in a comprehension, `… == "lamp"`."""
        parent = self._parents.get(id(node))
        is_compared = isinstance(parent, ast.BinaryOperatorExpression) and parent.op in _COMPARES
        return is_compared or isinstance(parent, ast.ComprehensionClauseIf)

    def _is_summed(self, node: Any) -> bool:
        """Whether nothing else is added to a variable, or up by `sum`, with this value."""
        parent = self._parents.get(id(node))
        if isinstance(parent, ast.Comprehension):
            argument = self._parents.get(id(parent))
            call = self._parents.get(id(argument))
            return parent.body is node and isinstance(call, ast.CallExpression) and _is_named(call.fn, "sum")
        if isinstance(parent, ast.AssignmentStatement):
            return parent.op is TokenKind.PLUS
        if not isinstance(parent, ast.BinaryOperatorExpression):
            return False
        return parent.op is TokenKind.PLUS and parent.rhs is node and isinstance(parent.lhs, ast.Identifier)


def _starts_before_list(node: Any) -> Iterator[int]:
    """Where the operands begin in whose place an expression has a list: of `a or b or []` those of `a` and `b`."""
    if _is_or(node) and isinstance(node.rhs, ast.ListExpression):
        left: ast.Expression = node.lhs
        while _is_or(left):
            yield left.rhs.start
            left = left.lhs
        yield left.start


def _is_or(node: object) -> TypeGuard[ast.BinaryOperatorExpression]:
    return isinstance(node, ast.BinaryOperatorExpression) and node.op is TokenKind.OR


def _has_default(get: ast.CallExpression) -> bool:
    return len(get.args) > 1 and not _is_named(getattr(get.args[1], "value", None), "None")


def _is_named(node: object, name: str) -> bool:
    return isinstance(node, ast.Identifier) and node.name == name


def _is_zero(node: object) -> bool:
    return isinstance(node, (ast.IntLiteral, ast.FloatLiteral)) and node.value == 0
