"""What stands at the place of a failure: members, patterns, and what is iterated over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from codecall.sandbox.agentscript.diagnosis.context import FailureContext
from codecall.sandbox.agentscript.diagnosis.flow.bindings import PATTERNS, pattern_parts
from codecall.sandbox.agentscript.diagnosis.flow.paths import ValuePath
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import FUNCTIONS, PREFIX_LENGTH, member_name, span

CALLS: Final = ("CallExpression", "NewExpression")
_ITERATES: Final = frozenset({"all", "allSettled", "any", "race", "from", "fromEntries", "Map", "Set"})


def member_nodes(context: FailureContext, member: str) -> list[Node]:
    """The member expressions at the place of the failure that may name `member`, the innermost first."""
    nodes = context.enclosing("MemberExpression")
    return [node for node in nodes if may_be_named(node, member)]


def may_be_named(member: Node, name: str) -> bool:
    """Whether a member expression may read the property `name`."""
    return str(member_name(member)) == name or (member.computed and member_name(member) is None)


def patterns(context: FailureContext) -> Iterator[tuple[Node, Node, ValuePath]]:
    """Every pattern at the place, those inside of others too: the destructured value, the pattern, and the path to
    what it takes apart."""
    if context.dataflow is None:
        return
    for target in _targets(context):
        for part, _ in pattern_parts(target):
            if part.type in PATTERNS:
                for binding in context.dataflow.bindings_of(part):
                    yield binding.value, part, binding.path


def _targets(context: FailureContext) -> list[Node]:
    """What the innermost declaration, assignment, loop or function at the place gives a value, if there is a pattern
    among it."""
    for node in context.enclosing("VariableDeclaration", "ExpressionStatement", "ForOfStatement", *FUNCTIONS):
        body: Node | None = None
        match node.type:
            case "VariableDeclaration":
                targets = [declarator.id for declarator in node.declarations]
            case "ExpressionStatement":
                targets = [node.expression.left] if node.expression.type == "AssignmentExpression" else []
            case "ForOfStatement":
                is_declared = node.left.type == "VariableDeclaration"
                targets, body = [node.left.declarations[0].id if is_declared else node.left], node.body
            case _:
                targets = [param.left if param.type == "AssignmentPattern" else param for param in node.params]
                body = node.body
        is_in_body = body is not None and context.offset is not None and context.offset >= span(body)[0] - PREFIX_LENGTH
        if is_in_body and node.type in FUNCTIONS:
            return []
        if not is_in_body and any(target.type in PATTERNS for target in targets):
            return targets
    return []


def iterated_nodes(context: FailureContext) -> Iterator[Node]:
    """The expressions at the place that are iterated over, the innermost first."""
    for node in context.enclosing("ForOfStatement", "SpreadElement", "YieldExpression", *CALLS):
        if node.type == "ForOfStatement":
            yield node.right
        elif node.type in CALLS:
            if node.arguments and callee_name(node) in _ITERATES:
                yield node.arguments[0]
        elif node.argument is not None:
            yield node.argument
    for value, pattern, path in patterns(context):
        if pattern.type == "ArrayPattern" and not path:
            yield value


def callee_name(call: Node) -> str | None:
    """The last name of the called expression."""
    callee: Node = call.callee
    return str(member_name(callee)) if callee.type == "MemberExpression" else getattr(callee, "name", None)
