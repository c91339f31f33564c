"""From an expression in a script to the call whose answer it was taken from, and the way from one to the other.

Reads the syntax tree of a script that has failed, and nothing else: what it says is a guess until somebody has gone the
same way in the answer. Followed are variables, destructuring, members, loops over lists, parameters of the usual
callbacks, and `Promise.all` of calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, cast

from codecall.sandbox.agentscript.grammar import Node
from codecall.sandbox.agentscript.nodes import FUNCTIONS, children, key_of, member_of, names_of, span
from codecall.sandbox.agentscript.parsing import PREFIX, parse

SHIFT: Final = len(PREFIX)

MAX_DEPTH: Final = 16
"""Steps from an expression back to its call; what is further away is not found."""

MAX_STEPS: Final = 500
"""Expressions that are looked at on the way: variables may be assigned to one another without end."""

MAX_TEXT: Final = 400
"""Characters of an expression's source that are looked at."""

_SCOPES: Final = FUNCTIONS | {"BlockStatement", "ForStatement", "ForOfStatement", "CatchClause", "SwitchStatement"}

_SAME: Final = frozenset(
    {"filter", "slice", "sort", "reverse", "toSorted", "toReversed", "toSpliced", "concat", "splice"}
)
"""Methods of a list that give a list of the same things."""
_ONE: Final = frozenset({"find", "findLast", "at", "pop", "shift"})
"""Methods of a list that give one of its things."""
_FIRST_PARAMETER: Final = frozenset(
    {"map", "forEach", "filter", "find", "findLast", "findIndex", "findLastIndex", "some", "every", "flatMap", "sort"}
    | {"toSorted"}
)
"""Methods of a list whose function gets one of its things first."""
_SECOND_PARAMETER: Final = frozenset({"reduce", "reduceRight"})


class Step(Enum):
    """A step that is no name."""

    EACH = "each"
    """To some item of a list."""
    FOUND = "found"
    """To some item of a list, or to nothing."""
    GATHERED = "gathered"
    """From the answers of several calls that were made at one place to one of them."""


Path: TypeAlias = tuple[str | int | Step, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from."""

    call: Node
    """The call in the script."""
    path: Path
    """From the call's answer to the value."""

    def then(self, *steps: str | int | Step) -> Origin:
        """Some steps further on."""
        return Origin(self.call, self.path + steps)


@dataclass(frozen=True, slots=True)
class _Binding:
    """One way by which a name gets its value."""

    scope: tuple[int, int]
    value: Node
    """The expression whose value is taken apart."""
    path: Path
    """The way that the pattern goes in it."""


class Reading:
    """A script, read again.

    Args:
        script: What was checked.
    """

    def __init__(self, script: str) -> None:
        self.script = script
        self._left = MAX_STEPS
        self.nodes: list[Node] = []
        self._bindings: dict[str, list[_Binding]] = {}
        self._declared: dict[str, list[tuple[int, int]]] = {}
        """The scopes in which a name is declared."""
        statements, _ = parse(script)
        whole = (SHIFT, SHIFT + len(script))
        pending: list[tuple[Node, tuple[int, int]]] = [(statement, whole) for statement in reversed(statements)]
        while pending:
            node, scope = pending.pop()
            self.nodes.append(node)
            self._bind(node, scope)
            inner = span(node) if node.type in _SCOPES else scope
            pending.extend((child, inner) for child in reversed(list(children(node))))

    def text(self, node: Node) -> str:
        """The source of `node` in one line, or its beginning."""
        start, end = span(node)
        return " ".join(self.script[start - SHIFT : min(end, start + MAX_TEXT) - SHIFT].split())

    def declares(self, name: str) -> bool:
        """Whether the script has a variable or function of that name anywhere."""
        return name in self._declared

    def around(self, offset: int, *types: str) -> list[Node]:
        """The nodes of these types that reach over `offset`, the innermost first."""
        place = offset + SHIFT
        found = [node for node in self.nodes if node.type in types and span(node)[0] <= place < span(node)[1]]
        return sorted(found, key=lambda node: span(node)[1] - span(node)[0])

    def origins(self, node: Node | None, depth: int = 0) -> Iterator[Origin]:
        """The calls that the value of an expression may come from."""
        self._left = self._left - 1 if depth else MAX_STEPS
        if node is None or depth > MAX_DEPTH or self._left < 0:
            return
        depth += 1
        match node.type:
            case "AwaitExpression":
                yield from self.origins(node.argument, depth)
            case "ChainExpression":
                yield from self.origins(node.expression, depth)
            case "Identifier":
                for binding in self._bound(node):
                    for origin in self.origins(binding.value, depth):
                        yield origin.then(*binding.path)
            case "MemberExpression":
                step = member_of(node)
                for origin in self.origins(node.object, depth):
                    yield origin.then(Step.EACH if step is None else step)
            case "CallExpression":
                yield from self._of_call(node, depth)
            case _:
                return

    def _of_call(self, node: Node, depth: int) -> Iterator[Origin]:
        callee: Node = node.callee
        method = member_of(callee) if callee.type == "MemberExpression" else None
        if callee.type == "Identifier" and (bodies := [_result(binding.value) for binding in self._bound(callee)]):
            # A function of the script's own
            for body in bodies:
                yield from self.origins(body, depth)
        elif method == "all" and callee.object.type == "Identifier" and callee.object.name == "Promise":
            yield from self._gathered(node.arguments[0] if node.arguments else None, depth)
        elif method in _SAME:
            yield from self.origins(callee.object, depth)
        elif method in _ONE:
            for origin in self.origins(callee.object, depth):
                yield origin.then(Step.FOUND)
        else:
            yield Origin(node, ())

    def _gathered(self, promises: Node | None, depth: int) -> Iterator[Origin]:
        """The answers of all calls in a list: `[a(), b()]`, or `items.map((item) => a(item))`."""
        if promises is None:
            return
        if promises.type == "ArrayExpression":
            for index, element in enumerate(cast("list[Node | None]", promises.elements)):
                yield from self._in_list(element, index, depth)
        elif promises.type == "CallExpression" and promises.arguments:
            yield from self._in_list(_result(promises.arguments[0]), Step.EACH, depth)

    def _in_list(self, promise: Node | None, place: int | Step, depth: int) -> Iterator[Origin]:
        for origin in self.origins(promise, depth):
            if not origin.path:
                yield Origin(origin.call, (Step.GATHERED, place))

    # ---------------------------------------------------------------------------------------------- variables

    def _bound(self, name: Node) -> list[_Binding]:
        """How the variable that `name` stands for gets its values."""
        home = self._home(name)
        return [binding for binding in self._bindings.get(name.name, ()) if binding.scope == home]

    def _home(self, name: Node) -> tuple[int, int] | None:
        """The scope of the variable that `name` stands for."""
        place = span(name)[0]
        return max((scope for scope in self._declared.get(name.name, ()) if scope[0] <= place < scope[1]), default=None)

    def _bind(self, node: Node, scope: tuple[int, int]) -> None:
        if node.type in FUNCTIONS:
            for param in node.params:
                self._declare(param, span(node))
        match node.type:
            case "VariableDeclarator":
                self._declare(node.id, scope)
                if node.init is not None:
                    self._take_apart(node.id, node.init, (), scope)
            case "FunctionDeclaration" | "ClassDeclaration":
                self._declare(node.id, scope)
                self._take_apart(node.id, node, (), scope)
            case "AssignmentExpression" if node.operator == "=":
                self._take_apart(node.left, node.right, (), None)
            case "ForOfStatement" if node.left.type == "VariableDeclaration":
                self._declare(node.left.declarations[0].id, span(node))
                self._take_apart(node.left.declarations[0].id, node.right, (Step.EACH,), span(node))
            case "CallExpression" if node.callee.type == "MemberExpression" and node.arguments:
                self._bind_parameters(node)
            case _:
                return

    def _bind_parameters(self, call: Node) -> None:
        """`items.map((item) => …)`: the parameter is one of the items; `then((value) => …)`: it is the value."""
        method, function = member_of(call.callee), call.arguments[0]
        if function.type not in FUNCTIONS:
            return
        params: list[Node] = function.params
        if method == "then":
            taken, way = params[:1], ()
        elif method in _FIRST_PARAMETER:
            taken, way = params[: 2 if method in {"sort", "toSorted"} else 1], (Step.EACH,)
        elif method in _SECOND_PARAMETER:
            taken, way = params[1:2], (Step.EACH,)
        else:
            return
        for param in taken:
            self._take_apart(param, call.callee.object, way, span(function))

    def _declare(self, pattern: Node, scope: tuple[int, int]) -> None:
        for target in names_of(pattern):
            self._declared.setdefault(target.name, []).append(scope)

    def _take_apart(self, pattern: Node, value: Node, path: Path, scope: tuple[int, int] | None) -> None:
        """The names in a pattern get their values in `scope`; None: where each is declared."""
        for target, way in taken_apart(pattern, path):
            if target.type == "Identifier" and (home := scope or self._home(target)) is not None:
                self._bindings.setdefault(target.name, []).append(_Binding(home, value, way))


def taken_apart(pattern: Node, path: Path = ()) -> Iterator[tuple[Node, Path]]:
    """Every part of a pattern, itself first, with the way to its value; but what has a default, and the rest."""
    pending: list[tuple[Node, Path]] = [(pattern, path)]
    while pending:
        node, way = pending.pop()
        yield node, way
        if node.type == "ObjectPattern":
            plain = [item for item in node.properties if item.type == "Property" and not item.computed]
            pending.extend((item.value, (*way, key_of(item.key))) for item in plain)
        elif node.type == "ArrayPattern":
            pending.extend((item, (*way, index)) for index, item in enumerate(node.elements) if item is not None)


def _result(function: Node) -> Node | None:
    """The expression whose value a short function gives; None when that is not plain, or it is no function."""
    if function.type not in FUNCTIONS:
        return None
    body: Node = function.body
    if body.type != "BlockStatement":
        return body
    returned = [statement for statement in body.body if statement.type == "ReturnStatement"]
    return returned[-1].argument if returned else None
