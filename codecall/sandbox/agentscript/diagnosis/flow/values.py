"""Values of a script's expressions as far as they follow from `codecallContext`, which the request has brought: so it
is known which of two operands or branches was never reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from codecall.sandbox.agentscript.diagnosis.flow.bindings import Binding
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import DataFlow
from codecall.sandbox.agentscript.diagnosis.flow.paths import UNDEFINED
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import FUNCTIONS, LOOP_TYPES, children, member_name, span
from codecall.sandbox.agentscript.policy import PROTOTYPES

CONTEXT: Final = "codecallContext"
"""The variable that has what the request brought."""

_MAX_DEPTH: Final = 32
"""Expressions inside of one another that are looked at."""
_ORDERS: Final = frozenset({"<", ">", "<=", ">="})
_ENDS: Final = frozenset({"ReturnStatement", "ThrowStatement", "BreakStatement", "ContinueStatement"})
_DYNAMIC: Final = LOOP_TYPES | FUNCTIONS
"""What may run a statement again, or at another time."""
_PLAIN: Final = (str, int, float, bool, type(None), type(UNDEFINED))


class _Unknown:
    """A value that is not known."""


UNKNOWN: Final = _Unknown()


class KnownValues:
    """The values in one script that follow from its context.

    Args:
        dataflow: The script.
        brought: `codecallContext`.
    """

    def __init__(self, dataflow: DataFlow, brought: Mapping[str, object]) -> None:
        self._dataflow = dataflow
        self._brought = brought
        self._parents: dict[int, Node] = {}
        self._initial = set[int]()
        """The identities of the expressions that variables begin with."""
        self._changed = set[str]()
        """Names that `++`, `+=` and their kin change."""
        self._known: dict[int, object] = {}
        self._last: dict[int, int] = {}
        """By list of statements: the number of the first after which none is reached."""
        for node in dataflow.nodes:
            self._parents.update((id(child), node) for child in children(node))
            if node.type == "VariableDeclarator" and node.init is not None:
                self._initial.add(id(node.init))
            elif node.type in {"UpdateExpression", "AssignmentExpression"}:
                target: Node = node.argument if node.type == "UpdateExpression" else node.left
                if target.type == "Identifier" and node.operator != "=":
                    self._changed.add(target.name)

    def path_of(self, node: Node, depth: int = 0) -> tuple[str, ...] | None:
        """Where in the context an expression has its value from; None where that is not known."""
        if depth > _MAX_DEPTH:
            return None
        match node.type:
            case "ChainExpression":
                return self.path_of(node.expression, depth + 1)
            case "MemberExpression":
                owner, name = self.path_of(node.object, depth + 1), member_name(node)
                return None if owner is None or not isinstance(name, str) else (*owner, name)
            case "Identifier" if node.name == CONTEXT and not self._dataflow.declares(CONTEXT):
                return ()
            case "Identifier" if (first := self._first_binding(node)) is not None:
                owner, steps = self.path_of(first.value, depth + 1), [step for step in first.path if type(step) is str]
                return None if owner is None or len(steps) < len(first.path) else (*owner, *steps)
            case _:
                return None

    def _first_binding(self, name: Node) -> Binding | None:
        """How a variable has got the value that it has at a place; None where that may be several ones."""
        bindings = self._dataflow.bindings_of(name)
        before = [binding for binding in bindings if span(binding.value)[0] < span(name)[0]]
        if len(before) != 1 or id(before[0].value) not in self._initial or name.name in self._changed:
            return None
        # What a later assignment gives is not there yet, unless the place is reached again.
        is_first = len(bindings) == 1 or self._enclosing(name, _DYNAMIC) is None
        return before[0] if is_first else None

    def at(self, path: Sequence[str]) -> object:
        """The value at a place in the context; `UNKNOWN` for what every object or text has."""
        value: object = dict(self._brought)
        for step in path:
            if not _is_nothing(value):
                value = _member(value, step)
        return value

    def is_reached(self, node: Node) -> bool:
        """Whether an expression may have been reached: whether no condition that is known stands before it."""
        while (parent := self._parents.get(id(node))) is not None:
            match parent.type:
                case "LogicalExpression" if parent.right is node:
                    if self._is_decided(parent):
                        return False
                case "ConditionalExpression" | "IfStatement" if parent.test is not node:
                    truth = self._truth(parent.test)
                    if truth is not None and truth is not (parent.consequent is node):
                        return False
                case "BlockStatement":
                    if not self._is_before_end(node, parent.body):
                        return False
                case _:
                    pass
            node = parent
        return self._is_before_end(node, self._dataflow.statements)

    def _is_before_end(self, statement: Node, statements: Sequence[Node]) -> bool:
        """Whether no earlier one of these statements is known to end them; functions are declared before them all."""
        if statement.type == "FunctionDeclaration":
            return True
        if id(statements) not in self._last:
            self._last[id(statements)] = next(
                (span(earlier)[0] for earlier in statements if self._ends(earlier)), span(statements[-1])[1]
            )
        return span(statement)[0] <= self._last[id(statements)]

    def _ends(self, statement: Node) -> bool:
        """Whether what stands behind a statement is not reached: `if (!codecallContext.id) return 'none';`."""
        if statement.type == "IfStatement":
            truth = self._truth(statement.test)
            taken = None if truth is None else statement.consequent if truth else statement.alternate
            return taken is not None and self._ends(taken)
        if statement.type == "BlockStatement":
            return any(inner.type in _ENDS for inner in statement.body)
        return statement.type in _ENDS

    def _is_decided(self, choice: Node) -> bool:
        """Whether the left operand of `??`, `||` or `&&` is known to be the value."""
        left = self._value(choice.left)
        if left is UNKNOWN:
            return False
        if choice.operator == "??":
            return not _is_nothing(left)
        return _is_true(left) is (choice.operator == "||")

    def _truth(self, node: Node) -> bool | None:
        value = self._value(node)
        return None if value is UNKNOWN else _is_true(value)

    def _value(self, node: Node, depth: int = 0) -> object:
        if id(node) not in self._known:
            self._known[id(node)] = UNKNOWN
            if depth <= _MAX_DEPTH:
                self._known[id(node)] = self._compute(node, depth + 1)
        return self._known[id(node)]

    def _compute(self, node: Node, depth: int) -> object:
        value: object = UNKNOWN
        match node.type:
            case "UnaryExpression":
                argument = self._value(node.argument, depth)
                if argument is not UNKNOWN and str(node.operator) in {"!", "typeof"}:
                    value = not _is_true(argument) if str(node.operator) == "!" else _type_of(argument)
            case "Literal":
                # `1n` is no number.
                is_plain = isinstance(node.value, str | int | float) and not node.raw.endswith("n")
                value = node.value if is_plain else None if node.raw == "null" else UNKNOWN
            case "Identifier" | "MemberExpression" | "ChainExpression":
                value = self._read(node, depth)
            case "LogicalExpression":
                left = self._value(node.left, depth)
                value = left if left is UNKNOWN or self._is_decided(node) else self._value(node.right, depth)
            case "ConditionalExpression":
                test = self._value(node.test, depth)
                taken = node.consequent if _is_true(test) else node.alternate
                value = UNKNOWN if test is UNKNOWN else self._value(taken, depth)
            case "BinaryExpression":
                value = _compared(str(node.operator), self._value(node.left, depth), self._value(node.right, depth))
            case "CallExpression" if len(node.arguments) == 1:
                argument = self._value(node.arguments[0], depth)
                called = self._dataflow.text(node.callee)
                if argument is not UNKNOWN and called in {"Array.isArray", "Boolean"}:
                    value = isinstance(argument, list) if called == "Array.isArray" else _is_true(argument)
            case _:
                pass
        return value

    def _read(self, node: Node, depth: int) -> object:
        """The value of a variable or a property."""
        if (path := self.path_of(node)) is not None:
            return self.at(path)
        if node.type != "Identifier" or node.name == "undefined":
            return UNDEFINED if node.type == "Identifier" else UNKNOWN
        first = self._first_binding(node)
        return UNKNOWN if first is None or first.path else self._value(first.value, depth)

    def _enclosing(self, node: Node, types: frozenset[str]) -> Node | None:
        """The innermost node of these types around an expression."""
        parent = self._parents.get(id(node))
        while parent is not None and parent.type not in types:
            parent = self._parents.get(id(parent))
        return parent


def _member(value: object, name: str) -> object:
    if isinstance(value, dict) and name not in PROTOTYPES["Object.prototype"].allowed:
        return cast("dict[str, object]", value).get(name, UNDEFINED)
    is_length = name == "length" and isinstance(value, str | list)
    return len(cast("str | list[object]", value)) if is_length else UNKNOWN


def _compared(operator: str, left: object, right: object) -> object:
    """What a comparison of plain values gives; `UNKNOWN` for all else."""
    if operator == "in" and isinstance(left, str) and isinstance(right, dict):
        return left in right or left in PROTOTYPES["Object.prototype"].allowed
    if not isinstance(left, _PLAIN) or not isinstance(right, _PLAIN):
        return UNKNOWN
    if operator in {"===", "!=="}:
        return (_kind(left) == _kind(right) and left == right) is (operator == "===")
    if operator in {"==", "!="} and (_is_nothing(left) or _is_nothing(right)):
        return (_is_nothing(left) and _is_nothing(right)) is (operator == "==")
    if operator in _ORDERS and _kind(left) == _kind(right) == "number":
        first, second = cast("tuple[float, float]", (left, right))
        return {"<": first < second, ">": first > second, "<=": first <= second, ">=": first >= second}[operator]
    return UNKNOWN


def _is_nothing(value: object) -> bool:
    return value is None or value is UNDEFINED


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _type_of(value: object) -> str:
    return {"boolean": "boolean", "number": "number", "str": "string", "Undefined": "undefined"}.get(
        _kind(value), "object"
    )


def _is_true(value: object) -> bool:
    return isinstance(value, dict | list) or (value is not UNDEFINED and bool(value))
