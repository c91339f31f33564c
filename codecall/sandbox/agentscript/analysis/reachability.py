"""Reachability: which calls every run makes, and fails by if they fail.

The script is read from its top, statement by statement, as long as no statement may leave early:

    the run reaches it        the statements of the top level and of blocks among them; in an expression, the parts that
                              are evaluated whatever the values are; the body of a function of the script that is itself
                              called so: `await main()`, `return main()`, `(async () => { … })()`
    the run fails by it       the call's promise is awaited or returned right there, by itself or as an item of an array
                              for `Promise.all`; or it is the script's last expression, its value

Nothing is certain in loops, branches, `try`, callbacks, classes and generators, nor after a statement that contains
`return`, `throw`, `break` or `continue` outside of functions of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import FUNCTIONS, PREFIX_LENGTH
from codecall.sandbox.agentscript.validator.names import plain_key
from codecall.sandbox.agentscript.validator.walk import Walk

_LEAVING: Final = frozenset({"ReturnStatement", "ThrowStatement", "BreakStatement", "ContinueStatement"})

_STATEMENTS: Final = ("body", "consequent", "alternate", "block", "handler", "finalizer", "cases")
"""Fields of statements and clauses that hold statements."""

_EVALUATED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
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
"""By type of node: the fields that are evaluated whenever the node is, whatever the values are."""

_CONDITIONAL_ASSIGNMENTS: Final = frozenset({"&&=", "||=", "??="})
"""Assignments that may not evaluate their right side."""

_VAR: Final = re.compile(r"\bvar\b")


class _Evaluated(NamedTuple):
    """A node that is certain to be evaluated."""

    node: Node
    fails: bool = False
    """Whether the run fails with the promise that its value may be."""


def certain_calls(statements: list[Node], walk: Walk, calls: Mapping[int, Node]) -> set[int]:
    """Those of `calls` that every run reaches and fails by, by where they begin in the parsed text.

    Args:
        statements: the script's statements.
        walk: the finished walk over them.
        calls: calls of tools, resources and prompts, by where they begin.
    """
    return _CertainCalls(statements, walk, calls).find() if calls else set()


def sole_function(statements: Sequence[Node]) -> Node | None:
    """The function that a script consists of, apart from directives: the realm calls it. None for a generator."""
    *before, last = [statement for statement in statements if statement.type != "EmptyStatement"] or [None]
    if last is None or not all(getattr(statement, "directive", None) is not None for statement in before):
        return None
    node: Node = last.expression if last.type == "ExpressionStatement" else last
    return node if node.type in FUNCTIONS and not node.generator else None


class _CertainCalls:
    """Follows one script from its top."""

    def __init__(self, statements: list[Node], walk: Walk, calls: Mapping[int, Node]) -> None:
        self._statements = [statement for statement in statements if statement.type != "EmptyStatement"]
        self._returns = walk.returns
        self._calls = calls
        self._functions = _constant_functions(statements, walk)
        self._function_uses: dict[int, str] = {}
        """By offset in the parsed text: uses of the names of top-level functions."""
        self._promise_uses: set[int] = set()
        """Offsets in the parsed text where the built-in `Promise` is used."""
        for use in walk.uses:
            home = use.scope.declaring_scope(use.name)
            if home is None and use.name == "Promise":
                self._promise_uses.add(use.offset + PREFIX_LENGTH)
            elif home is not None and home.depth == 0 and use.name in self._functions:
                self._function_uses[use.offset + PREFIX_LENGTH] = use.name
        self._certain: set[int] = set()
        self._entered: set[int] = set()
        self._pending: list[_Evaluated] = []

    def find(self) -> set[int]:
        """The certain calls, by where they begin."""
        self._pending.extend(_reached(self._statements))
        last = self._statements[-1]
        if (function := sole_function(self._statements)) is not None:
            self._enter(function)
        elif last.type == "ExpressionStatement" and not self._returns and not any(map(_may_leave, self._statements)):
            self._pending.append(_Evaluated(last.expression, fails=True))
        while self._pending:
            self._visit(*self._pending.pop())
        return self._certain

    def _visit(self, node: Node, fails: bool) -> None:
        kind: str = node.type
        if kind == "AwaitExpression":
            self._pending.append(_Evaluated(node.argument, fails=True))
        elif kind in {"ReturnStatement", "ThrowStatement"}:
            if node.argument is not None:
                self._pending.append(_Evaluated(node.argument, kind == "ReturnStatement"))
        elif kind == "ChainExpression" or _field(node, "optional"):
            self._pending.append(_Evaluated(_head(node)))
        elif kind == "CallExpression" and fails and self._visit_awaited_call(node):
            return
        elif kind == "SequenceExpression":
            *before, last = node.expressions
            self._pending.extend(map(_Evaluated, before))
            self._pending.append(_Evaluated(last, fails))
        elif kind != "AssignmentExpression" or node.operator not in _CONDITIONAL_ASSIGNMENTS:
            self._pending.extend(
                _Evaluated(part) for field in _EVALUATED_FIELDS.get(kind, ()) for part in _parts(node, field)
            )

    def _visit_awaited_call(self, call: Node) -> bool:
        """Visit a call whose promise is awaited; whether its arguments have been visited too."""
        start: int = call.range[0]
        callee: Node = call.callee
        if self._calls.get(start) is call:
            self._certain.add(start)
        elif callee.type in FUNCTIONS:
            self._enter(callee)
        elif callee.type == "Identifier" and callee.range[0] in self._function_uses:
            self._enter(self._functions[self._function_uses[callee.range[0]]])
        elif self._is_promise_all(callee) and len(call.arguments) == 1 and call.arguments[0].type == "ArrayExpression":
            self._pending.extend(_Evaluated(item, fails=True) for item in _parts(call.arguments[0], "elements"))
            return True
        return False

    def _is_promise_all(self, callee: Node) -> bool:
        return (
            callee.type == "MemberExpression"
            and not callee.computed
            and plain_key(callee.property) == "all"
            and callee.object.range[0] in self._promise_uses
        )

    def _enter(self, function: Node) -> None:
        """Visit the body of a function that is called, and with whose promise the run fails."""
        start: int = function.range[0]
        if function.generator or start in self._entered:
            return
        self._entered.add(start)
        body: Node = function.body
        if body.type == "BlockStatement":
            self._pending.extend(_reached(body.body))
        else:
            self._pending.append(_Evaluated(body, fails=True))


def _constant_functions(statements: list[Node], walk: Walk) -> dict[str, Node]:
    """The top-level functions whose names are never given another value."""
    functions: dict[str, Node] = {}
    reassigned = {use.name for use in walk.uses if use.assigned}
    # A `var` may give a function's name another value, from anywhere
    no_var = _VAR.search(walk.script) is None
    for statement in statements:
        if statement.type == "FunctionDeclaration":
            name: str = statement.id.name
            if name in functions:
                reassigned.add(name)
            elif no_var:
                functions[name] = statement
        elif statement.type == "VariableDeclaration" and statement.kind == "const":
            named = [item for item in statement.declarations if item.id.type == "Identifier" and item.init is not None]
            functions |= {item.id.name: item.init for item in named if item.init.type in FUNCTIONS}
    return {name: node for name, node in functions.items() if name not in reassigned}


def _reached(statements: list[Node]) -> Iterator[_Evaluated]:
    """The statements of a list, and of blocks in it, that every run reaches."""
    for statement in statements:
        if statement.type == "BlockStatement":
            yield from _reached(statement.body)
        elif statement.type not in FUNCTIONS:
            yield _Evaluated(statement)
        if _may_leave(statement):
            return


def _may_leave(statement: Node) -> bool:
    """Whether a statement may leave before the next one, other than by a failure of what it evaluates."""
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
    """The expression that a chain begins with: `a` of `a?.b.c`."""
    node: Node = chain.expression if chain.type == "ChainExpression" else chain
    while node.type in {"MemberExpression", "CallExpression"}:
        node = node.object if node.type == "MemberExpression" else node.callee
    return node
