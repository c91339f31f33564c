"""What the walk does with statements and declarations. Types that are only their children stand in `CHILDREN`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final, Literal, cast

from codecall.sandbox.agentscript.checked import CatchSite, CheckedScript, LoopSite, StatementSite
from codecall.sandbox.agentscript.parser.ast import Scope
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.policy import VARIABLE_KINDS, VARIANTS
from codecall.sandbox.agentscript.validator.expressions import class_parts, declare_class, function
from codecall.sandbox.agentscript.validator.walk import PREFIX_LENGTH, NodeHandler, Walk

# ----------------------------------------------------------------------------------------------------
# What the walk does with statements and declarations. Types that are only their children stand in `CHILDREN`.

CHILDREN: Final[Mapping[str, tuple[str, ...]]] = {
    "BreakStatement": (),
    "ContinueStatement": (),
    "EmptyStatement": (),
    "ExpressionStatement": ("expression",),
    "SwitchCase": ("test", "consequent"),
    "ThrowStatement": ("argument",),
    "WithStatement": ("object", "body"),
}

LOOP_TYPES: Final = frozenset(
    {"DoWhileStatement", "ForAwaitStatement", "ForInStatement", "ForOfStatement", "ForStatement", "WhileStatement"}
)


def _if(walk: Walk, node: Node, scope: Scope) -> None:
    walk.data(node.test, tested=True)
    walk.push_all([node.test, node.consequent, node.alternate], scope)


def _block(walk: Walk, node: Node, scope: Scope) -> None:
    walk.push_all(node.body, Scope(scope))


def _variables(walk: Walk, node: Node, scope: Scope) -> None:
    kind: str = node.kind
    if kind not in VARIABLE_KINDS:
        walk.refuse(VARIANTS["using" if kind == "using" else "variable kind"], node, kind)
    target = scope.variables if kind == "var" else scope
    for declarator in node.declarations:
        name: Node = declarator.id
        value: Node = declarator.init
        if value is None:
            walk.declare(name, target, scope)
            continue
        # A `var` may be declared again as something else
        if value.type == "ClassExpression" and name.type == "Identifier" and kind != "var":
            declare_class(walk, name, target)
        else:
            walk.declare(name, target, scope)
            walk.visit_destructuring(name, value)
        if kind != "var":
            _gives(name, value, target)
        walk.push(value, scope)


def _gives(pattern: Node, value: Node, scope: Scope) -> None:
    """The variables that `pattern` declares have no value before `value` is known."""
    start, end = value.range
    for name in _bound(pattern):
        scope.set_value_span(name, start - PREFIX_LENGTH, end - PREFIX_LENGTH)


def _bound(pattern: Node) -> Iterator[str]:
    """The names a pattern declares, those of patterns inside left out."""
    parts: list[Node | None] = [pattern]
    if pattern.type == "ObjectPattern":
        parts = [item.value if item.type == "Property" else item.argument for item in pattern.properties]
    elif pattern.type == "ArrayPattern":
        parts = pattern.elements
    for part in parts:
        name: Node = part.left if part is not None and part.type == "AssignmentPattern" else part
        if name is not None and name.type == "Identifier":
            yield name.name


def _function_declaration(walk: Walk, node: Node, scope: Scope) -> None:
    walk.declare(node.id, scope, scope)
    function(walk, node, scope)


def _labeled(walk: Walk, node: Node, scope: Scope) -> None:
    walk.label(node.label)
    body: Node = node.body
    if body.type in LOOP_TYPES or body.type == "LabeledStatement":
        walk.label_starts[id(body)] = walk.label_starts.pop(id(node), node.range[0])
    walk.push(body, scope)


def _site(walk: Walk, node: Node) -> None:
    start: int = walk.label_starts.pop(id(node), node.range[0])
    body: Node = node.body
    first, last = body.range
    is_block = body.type == "BlockStatement"
    walk.loops.append(
        LoopSite(
            start - PREFIX_LENGTH,
            node.range[1] - PREFIX_LENGTH,
            first - PREFIX_LENGTH,
            last - PREFIX_LENGTH,
            is_block,
            node.type,
        )
    )


def _for(walk: Walk, node: Node, scope: Scope) -> None:
    _site(walk, node)
    inner = Scope(scope)
    walk.push(node.init, inner)
    walk.push(node.test, inner)
    walk.push(node.update, inner)
    walk.push(node.body, inner)


def _for_each(walk: Walk, node: Node, scope: Scope) -> None:
    _site(walk, node)
    inner = Scope(scope)
    if node.left.type == "VariableDeclaration":
        walk.push(node.left, inner)
        if node.left.kind != "var":
            _gives(node.left.declarations[0].id, node.right, inner)
    else:
        walk.assign(node.left, inner)
    walk.push(node.right, inner)
    walk.push(node.body, inner)


def _while(walk: Walk, node: Node, scope: Scope) -> None:
    _site(walk, node)
    walk.push(node.test, scope)
    walk.push(node.body, scope)


def _return(walk: Walk, node: Node, scope: Scope) -> None:
    if scope.top:
        walk.returns = True
    walk.push(node.argument, scope)


def _switch(walk: Walk, node: Node, scope: Scope) -> None:
    walk.push(node.discriminant, scope)
    walk.push_all(node.cases, Scope(scope))


def _catch(walk: Walk, node: Node, scope: Scope) -> None:
    param: Node = node.param
    body: Node = node.body
    begin, (first, last) = node.range[0] - PREFIX_LENGTH, body.range
    if param is None:
        walk.catches.append(CatchSite("none", None, -1, -1, begin, first - PREFIX_LENGTH, last - PREFIX_LENGTH))
    else:
        scope = Scope(scope)
        walk.declare(param, scope, scope)
        named = param.type == "Identifier"
        start, end = param.range
        walk.catches.append(
            CatchSite(
                "name" if named else "pattern",
                param.name if named else None,
                start - PREFIX_LENGTH,
                end - PREFIX_LENGTH,
                begin,
                first - PREFIX_LENGTH,
                last - PREFIX_LENGTH,
            )
        )
    walk.push(body, scope)


def _try(walk: Walk, node: Node, scope: Scope) -> None:
    if node.handler is None:
        end = node.block.range[1] - PREFIX_LENGTH
        walk.catches.append(CatchSite("absent", None, -1, -1, end, end, end))
    walk.push(node.block, scope)
    walk.push(node.handler, scope)
    walk.push(node.finalizer, scope)


HANDLERS: Final[Mapping[str, NodeHandler]] = {
    "BlockStatement": _block,
    "CatchClause": _catch,
    "TryStatement": _try,
    "ClassDeclaration": class_parts,
    "DoWhileStatement": _while,
    "ForAwaitStatement": _for_each,
    "ForInStatement": _for_each,
    "ForOfStatement": _for_each,
    "ForStatement": _for,
    "IfStatement": _if,
    "FunctionDeclaration": _function_declaration,
    "LabeledStatement": _labeled,
    "ReturnStatement": _return,
    "SwitchStatement": _switch,
    "VariableDeclaration": _variables,
    "WhileStatement": _while,
}


# ----------------------------------------------------------------------------------------------------
# Which lines of a script can run: where its statements begin, for runs that say which lines ran.

_SILENT: Final = frozenset({"BlockStatement", "EmptyStatement", "FunctionDeclaration"})

_LISTS: Final = {"BlockStatement": "body", "SwitchCase": "consequent"}
"""By type of node: where it holds a list of statements. The bodies of functions and static blocks are blocks."""


def statement_sites(statements: list[Node], shift: int) -> list[StatementSite]:
    """Every statement at which a line can be seen to run, in no order; nodes' ranges begin `shift` characters early."""
    sites = [_statement_site(statement, "list", shift) for statement in statements if statement.type not in _SILENT]
    pending = list(statements)
    while pending:
        node = pending.pop()
        kind: str = node.type
        if kind in _LISTS:
            inside: list[Node] = getattr(node, _LISTS[kind])
            sites.extend(
                _statement_site(statement, "list", shift) for statement in inside if statement.type not in _SILENT
            )
        elif kind == "IfStatement":
            branches = [node.consequent] if node.alternate is None else [node.consequent, node.alternate]
            sites.extend(
                _branch(branch, shift, is_else=branch is node.alternate)
                for branch in branches
                if branch.type not in _SILENT
            )
        elif kind in LOOP_TYPES and node.body.type not in _SILENT:
            sites.append(_statement_site(node.body, "loop", shift))
        pending.extend(children(node))
    return sites


def _statement_site(statement: Node, place: Literal["list", "branch", "loop"], shift: int) -> StatementSite:
    start, end = statement.range
    return StatementSite(start - shift, end - shift, place)


def _branch(branch: Node, shift: int, *, is_else: bool) -> StatementSite:
    """A branch of an `if` without braces. A chain of `else if` must not nest: some are thousands long."""
    if is_else and branch.type == "IfStatement":
        return StatementSite(branch.range[0] - shift, branch.range[1] - shift, "test", branch.test.range[0] - shift)
    return _statement_site(branch, "branch", shift)


def children(node: Node) -> Iterator[Node]:
    """The nodes inside `node`, one level down."""
    for value in cast("dict[str, Node]", vars(node)).values():
        if isinstance(value, list):
            yield from (item for item in cast("list[Node]", value) if hasattr(item, "range"))
        elif hasattr(value, "range"):
            yield value


class LineTable:
    """From offsets in a script to its lines, which end as the parser and the engine agree: with a line feed."""

    def __init__(self, script: str) -> None:
        self._starts = [0]
        at = script.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = script.find("\n", at + 1)

    def line(self, offset: int) -> int:
        """The line, from 1, of the character at `offset`."""
        return bisect_right(self._starts, offset)


def runnable_lines(script: str, checked: CheckedScript) -> frozenset[int]:
    """The lines of a script that can run; `checked` is of a check that looked for statements."""
    lines = LineTable(script)
    bodies = (site.body_start for site in checked.functions if site.is_expression)
    return frozenset(map(lines.line, chain((site.start for site in checked.statements or ()), bodies)))
