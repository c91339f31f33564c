"""What the walk does with statements and declarations. Types that are only their children stand in `CHILDREN`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from codecall.sandbox.agentscript.expressions import class_parts, declare_class, function
from codecall.sandbox.agentscript.grammar import Node
from codecall.sandbox.agentscript.policy import VARIABLE_KINDS, VARIANTS
from codecall.sandbox.agentscript.scopes import Scope
from codecall.sandbox.agentscript.sites import CatchSite, LoopSite
from codecall.sandbox.agentscript.walk import SHIFT, Handler, Walk

CHILDREN: Final[Mapping[str, tuple[str, ...]]] = {
    "BreakStatement": (),
    "ContinueStatement": (),
    "EmptyStatement": (),
    "ExpressionStatement": ("expression",),
    "SwitchCase": ("test", "consequent"),
    "ThrowStatement": ("argument",),
    "WithStatement": ("object", "body"),
}

LOOPS: Final = frozenset(
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
            walk.taken_apart(name, value)
        if kind != "var":
            _gives(name, value, target)
        walk.push(value, scope)


def _gives(pattern: Node, value: Node, scope: Scope) -> None:
    """The variables that `pattern` declares have no value before `value` is known."""
    start, end = value.range
    for name in _bound(pattern):
        scope.gives(name, start - SHIFT, end - SHIFT)


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
    if body.type in LOOPS or body.type == "LabeledStatement":
        walk.label_starts[id(body)] = walk.label_starts.pop(id(node), node.range[0])
    walk.push(body, scope)


def _site(walk: Walk, node: Node) -> None:
    start: int = walk.label_starts.pop(id(node), node.range[0])
    body: Node = node.body
    first, last = body.range
    is_block = body.type == "BlockStatement"
    walk.loops.append(LoopSite(start - SHIFT, node.range[1] - SHIFT, first - SHIFT, last - SHIFT, is_block, node.type))


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
    begin, (first, last) = node.range[0] - SHIFT, body.range
    if param is None:
        walk.catches.append(CatchSite("none", None, -1, -1, begin, first - SHIFT, last - SHIFT))
    else:
        scope = Scope(scope)
        walk.declare(param, scope, scope)
        named = param.type == "Identifier"
        start, end = param.range
        walk.catches.append(
            CatchSite(
                "name" if named else "pattern",
                param.name if named else None,
                start - SHIFT,
                end - SHIFT,
                begin,
                first - SHIFT,
                last - SHIFT,
            )
        )
    walk.push(body, scope)


def _try(walk: Walk, node: Node, scope: Scope) -> None:
    if node.handler is None:
        end = node.block.range[1] - SHIFT
        walk.catches.append(CatchSite("absent", None, -1, -1, end, end, end))
    walk.push(node.block, scope)
    walk.push(node.handler, scope)
    walk.push(node.finalizer, scope)


HANDLERS: Final[Mapping[str, Handler]] = {
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
