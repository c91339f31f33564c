"""Which calls a run is certain to get to and to fail by, should they fail: no run of the script can do better.

The script is read from its top, statement by statement, as far as nothing may leave early:

    the run gets to it        the statements of the top level and of blocks among them; in an expression, the parts that
                              are evaluated whatever the values are; the body of a function of the script that is itself
                              called so: `await main()`, `return main()`, `(async () => { … })()`
    the run fails by it       the call's promise is awaited or returned right there, by itself or as an item of an array
                              for `Promise.all`; or it is the script's last expression, its value

Nothing is certain in loops, branches, `try`, callbacks, classes and generators, nor behind a statement with `return`,
`throw`, `break` or `continue` anywhere in it, other than in functions of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, cast

from codecall.sandbox.agentscript.parser.ast import FUNCTIONS, lone_function
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.validator.names import plain_key
from codecall.sandbox.agentscript.validator.walk import PREFIX_LENGTH, Walk

_LEAVING: Final = frozenset({"ReturnStatement", "ThrowStatement", "BreakStatement", "ContinueStatement"})

_STATEMENTS: Final = ("body", "consequent", "alternate", "block", "handler", "finalizer", "cases")
"""Fields of statements and clauses that have statements."""

_EVALUATED: Final[Mapping[str, tuple[str, ...]]] = {
    "AssignmentExpression": ("right",),
    "BinaryExpression": ("left", "right"),
    "CallExpression": ("callee", "arguments"),
    "ConditionalExpression": ("test",),
    "LogicalExpression": ("left",),
    "MemberExpression": ("object", "property"),
    "NewExpression": ("arguments",),
    "ObjectExpression": ("properties",),
    "Property": ("key", "value"),
    "SequenceExpression": ("expressions",),
    "SpreadElement": ("argument",),
    "TemplateLiteral": ("expressions",),
    "UnaryExpression": ("argument",),
    "ArrayExpression": ("elements",),
    "ExpressionStatement": ("expression",),
    "ForOfStatement": ("right",),
    "IfStatement": ("test",),
    "SwitchStatement": ("discriminant",),
    "VariableDeclaration": ("declarations",),
    "VariableDeclarator": ("init",),
}
"""By type of node: its parts that are evaluated whenever it is, whatever the values are."""

_PERHAPS: Final = frozenset({"&&=", "||=", "??="})
"""Assignments that may not evaluate what is assigned."""

_VAR: Final = re.compile(r"\bvar\b")


class _Evaluated(NamedTuple):
    """A node that is evaluated for certain."""

    node: Node
    fails: bool = False
    """Whether the run fails with the promise that it may be."""


def certain_calls(statements: list[Node], walk: Walk, calls: Mapping[int, Node]) -> set[int]:
    """Those of `calls` that a run gets to and fails by, each by where it begins in the parsed text.

    Args:
        statements: the script's.
        walk: over them.
        calls: of tools, resources and prompts, by where they begin.
    """
    return _Reading(statements, walk, calls).certain() if calls else set()


class _Reading:
    """Reads one script."""

    def __init__(self, statements: list[Node], walk: Walk, calls: Mapping[int, Node]) -> None:
        self._statements = [statement for statement in statements if statement.type != "EmptyStatement"]
        self._returns = walk.returns
        self._calls = calls
        self._functions = _functions(statements, walk)
        self._own: dict[int, str] = {}
        """Where names of the script's top level are used."""
        self._promises: set[int] = set()
        """Where the built-in of that name is used."""
        for use in walk.uses:
            home = use.scope.declaring_scope(use.name)
            if home is None and use.name == "Promise":
                self._promises.add(use.offset + PREFIX_LENGTH)
            elif home is not None and home.depth == 0 and use.name in self._functions:
                self._own[use.offset + PREFIX_LENGTH] = use.name
        self._certain: set[int] = set()
        self._entered: set[int] = set()
        self._pending: list[_Evaluated] = []

    def certain(self) -> set[int]:
        """The calls, by where they begin."""
        self._pending.extend(_straight(self._statements))
        last = self._statements[-1]
        if (function := lone_function(self._statements)) is not None:
            self._enter(function)
        elif last.type == "ExpressionStatement" and not self._returns and not any(map(_may_leave, self._statements)):
            self._pending.append(_Evaluated(last.expression, fails=True))
        while self._pending:
            self._read(*self._pending.pop())
        return self._certain

    def _read(self, node: Node, fails: bool) -> None:
        kind: str = node.type
        if kind == "AwaitExpression":
            self._pending.append(_Evaluated(node.argument, fails=True))
        elif kind in {"ReturnStatement", "ThrowStatement"}:
            if node.argument is not None:
                self._pending.append(_Evaluated(node.argument, kind == "ReturnStatement"))
        elif kind == "ChainExpression" or _field(node, "optional"):
            self._pending.append(_Evaluated(_head(node)))
        elif kind == "CallExpression" and fails and self._fails_with(node):
            return
        elif kind == "SequenceExpression":
            *before, last = node.expressions
            self._pending.extend(map(_Evaluated, before))
            self._pending.append(_Evaluated(last, fails))
        elif kind != "AssignmentExpression" or node.operator not in _PERHAPS:
            self._pending.extend(_Evaluated(part) for field in _EVALUATED.get(kind, ()) for part in _parts(node, field))

    def _fails_with(self, call: Node) -> bool:
        """Look at a call whose promise is awaited; whether its arguments have been seen to."""
        start: int = call.range[0]
        callee: Node = call.callee
        if self._calls.get(start) is call:
            self._certain.add(start)
        elif callee.type in FUNCTIONS:
            self._enter(callee)
        elif callee.type == "Identifier" and callee.range[0] in self._own:
            self._enter(self._functions[self._own[callee.range[0]]])
        elif self._is_all(callee) and len(call.arguments) == 1 and call.arguments[0].type == "ArrayExpression":
            self._pending.extend(_Evaluated(item, fails=True) for item in _parts(call.arguments[0], "elements"))
            return True
        return False

    def _is_all(self, callee: Node) -> bool:
        return (
            callee.type == "MemberExpression"
            and not callee.computed
            and plain_key(callee.property) == "all"
            and callee.object.range[0] in self._promises
        )

    def _enter(self, function: Node) -> None:
        """The function is called, and the run fails with the promise it gives."""
        start: int = function.range[0]
        if function.generator or start in self._entered:
            return
        self._entered.add(start)
        body: Node = function.body
        if body.type == "BlockStatement":
            self._pending.extend(_straight(body.body))
        else:
            self._pending.append(_Evaluated(body, fails=True))


def _functions(statements: list[Node], walk: Walk) -> dict[str, Node]:
    """The functions of the top level whose names stand for nothing else, ever."""
    found: dict[str, Node] = {}
    changed = {use.name for use in walk.uses if use.assigned}
    # A `var` may give a function's name another value, from anywhere
    firm = _VAR.search(walk.script) is None
    for statement in statements:
        if statement.type == "FunctionDeclaration":
            name: str = statement.id.name
            if name in found:
                changed.add(name)
            elif firm:
                found[name] = statement
        elif statement.type == "VariableDeclaration" and statement.kind == "const":
            named = [item for item in statement.declarations if item.id.type == "Identifier" and item.init is not None]
            found |= {item.id.name: item.init for item in named if item.init.type in FUNCTIONS}
    return {name: node for name, node in found.items() if name not in changed}


def _straight(statements: list[Node]) -> Iterator[_Evaluated]:
    """The statements of a list that are got to, and of the blocks in it."""
    for statement in statements:
        if statement.type == "BlockStatement":
            yield from _straight(statement.body)
        elif statement.type not in FUNCTIONS:
            yield _Evaluated(statement)
        if _may_leave(statement):
            return


def _may_leave(statement: Node) -> bool:
    """Whether a statement may keep a run from the next one, other than by a failure of what it evaluates."""
    pending = [statement]
    while pending:
        node = pending.pop()
        if node.type in _LEAVING:
            return True
        if node.type not in FUNCTIONS and node.type != "ClassDeclaration":
            pending.extend(part for field in _STATEMENTS for part in _parts(node, field))
    return False


def _parts(node: Node, field: str) -> list[Node]:
    """The nodes in one field of a node; none where it has no such field."""
    value = _field(node, field)
    items = cast("list[Node | None]", value) if isinstance(value, list) else [cast("Node | None", value)]
    return [item for item in items if item is not None]


def _field(node: Node, name: str) -> object:
    return cast("dict[str, object]", vars(node)).get(name)


def _head(chain: Node) -> Node:
    """What `a?.b.c` is evaluated from: `a`."""
    node: Node = chain.expression if chain.type == "ChainExpression" else chain
    while node.type in {"MemberExpression", "CallExpression"}:
        node = node.object if node.type == "MemberExpression" else node.callee
    return node
