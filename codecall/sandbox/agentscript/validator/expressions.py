"""What the walk does with expressions. Types of nodes that are only their children stand in `CHILDREN`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from codecall.sandbox.agentscript.checked import FunctionSite, Violation
from codecall.sandbox.agentscript.parser.ast import Scope
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.policy import (
    MAX_REGEX_LENGTH,
    METHOD_KINDS,
    NAMES_A_CALL,
    NEVER_NAMES,
    PATTERN_METHODS,
    PROPERTY_KINDS,
    SOURCE,
    VARIANTS,
    is_meta_tool,
)
from codecall.sandbox.agentscript.ruleset import refusal_message
from codecall.sandbox.agentscript.validator.names import forbidden_name, literal_key, literal_text, self_reference
from codecall.sandbox.agentscript.validator.walk import PREFIX_LENGTH, NodeHandler, Walk, path

CHILDREN: Final[Mapping[str, tuple[str, ...]]] = {
    "ArrayExpression": ("elements",),
    "AwaitExpression": ("argument",),
    "ChainExpression": ("expression",),
    "SequenceExpression": ("expressions",),
    "SpreadElement": ("argument",),
    "Super": (),
    "TemplateLiteral": ("expressions",),
    "YieldExpression": ("argument",),
}

_COMPARES: Final = frozenset({"===", "!==", "==", "!="})

# From the last parameter to the arrow there is nothing but blanks, comments, commas and a parenthesis
_TO_ARROW = re.compile(r"(?:[^/=]|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+=>")
_BLANKS = re.compile(r"(?:\s|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")


def _identifier(walk: Walk, node: Node, scope: Scope) -> None:
    walk.use(node, scope)


def _literal(walk: Walk, node: Node, scope: Scope) -> None:
    del scope
    if "regex" not in vars(node):
        return
    offset = node.range[0] - PREFIX_LENGTH
    walk.regexes.append(offset)
    if not walk.ruleset.rules.allow_regex:
        walk.refuse(VARIANTS["regular expression"], node)
    if len(node.regex.pattern) > MAX_REGEX_LENGTH:
        row = SOURCE["length of a regular expression"]
        message = f"Script has a regular expression longer than {MAX_REGEX_LENGTH} characters"
        walk.violations.append(Violation(offset, row.kind, message, row.instead))


def _private(walk: Walk, node: Node, scope: Scope) -> None:
    walk.key(node, computed=False, scope=scope)


def _this(walk: Walk, node: Node, scope: Scope) -> None:
    if not scope.this:
        row = VARIANTS["this"]
        walk.violations.append(
            Violation(node.range[0] - PREFIX_LENGTH, row.kind, refusal_message("Identifier", "this"), row.instead)
        )


def _member(walk: Walk, node: Node, scope: Scope) -> None:
    owner: Node = node.object
    name: Node = node.property
    if node.computed:
        walk.push(name, scope)
    text = literal_key(name, computed=node.computed)
    if text is not None and text in NEVER_NAMES:
        walk.violations.append(forbidden_name(text, name.range[0] - PREFIX_LENGTH, "Member", path(node)))
    elif owner.type == "Identifier":
        walk.member(owner.name, text, node)
    walk.owners.add(owner, text)
    walk.push(owner, scope)


def _call(walk: Walk, node: Node, scope: Scope) -> None:
    callee: Node = node.callee
    arguments: list[Node | None] = node.arguments
    walk.calls.append(node)
    if callee.type == "Identifier":
        if callee.name in NAMES_A_CALL and arguments:
            _tool_name(walk, arguments[0])
        elif callee.name == "Date" and not walk.ruleset.rules.allow_clock:
            walk.refuse(VARIANTS["Date()"], node)
    elif callee.type == "MemberExpression":
        walk.owners.called(callee, arguments)
        text = literal_key(callee.property, computed=callee.computed)
        if text in PATTERN_METHODS and not walk.ruleset.rules.allow_regex:
            walk.refuse(VARIANTS["pattern method"], callee.property, path(callee) or text)
    walk.push(callee, scope)
    walk.push_all(arguments, scope)


def _tool_name(walk: Walk, argument: Node) -> None:
    """A literal tool name: it may not be a meta-tool's. Computed ones meet the broker."""
    name = literal_text(argument)
    if name is not None and is_meta_tool(name):
        walk.violations.append(self_reference(name, argument.range[0] - PREFIX_LENGTH))


def _tagged(walk: Walk, node: Node, scope: Scope) -> None:
    tag: Node = node.tag
    if tag.type in {"Literal", "TemplateLiteral"}:
        walk.refuse(VARIANTS["called text"], node)
    walk.push(tag, scope)
    walk.push(node.quasi, scope)


def _new(walk: Walk, node: Node, scope: Scope) -> None:
    callee: Node = node.callee
    arguments: list[Node | None] = node.arguments
    if callee.type == "Identifier" and callee.name == "Date" and not arguments and not walk.ruleset.rules.allow_clock:
        walk.refuse(VARIANTS["new Date()"], node)
    walk.push(callee, scope)
    walk.push_all(arguments, scope)


def _unary(walk: Walk, node: Node, scope: Scope) -> None:
    walk.operator(node)
    argument: Node = node.argument
    if node.operator == "delete":
        target: Node = argument.expression if argument.type == "ChainExpression" else argument
        if target.type == "MemberExpression":
            walk.assign(target, scope)
            return
    elif node.operator == "!":
        walk.data(argument, tested=True)
    walk.push(argument, scope)


def _conditional(walk: Walk, node: Node, scope: Scope) -> None:
    walk.data(node.test, tested=True)
    walk.push_all([node.test, node.consequent, node.alternate], scope)


def _update(walk: Walk, node: Node, scope: Scope) -> None:
    walk.operator(node)
    walk.assign(node.argument, scope)


def _binary(walk: Walk, node: Node, scope: Scope) -> None:
    walk.operator(node)
    if node.operator in _COMPARES:
        walk.data(node.left, tested=True)
        walk.data(node.right, tested=True)
    elif node.operator == "in":
        walk.owners.asked(node.right)
    walk.push(node.left, scope)
    walk.push(node.right, scope)


def _assignment(walk: Walk, node: Node, scope: Scope) -> None:
    walk.operator(node)
    walk.visit_destructuring(node.left, node.right)
    walk.assign(node.left, scope)
    walk.push(node.right, scope)


def _object(walk: Walk, node: Node, scope: Scope) -> None:
    for item in node.properties:
        if item.type != "Property":
            walk.data(item.argument)
            walk.push(item, scope)
            continue
        if item.kind not in PROPERTY_KINDS:
            walk.refuse(VARIANTS["property kind"], item, item.kind)
        if not item.shorthand:
            walk.key(item.key, computed=item.computed, scope=scope)
        walk.push(item.value, scope)


def _arrow(walk: Walk, node: Node, scope: Scope) -> None:
    inner = scope.function(arrow=True)
    _parameters(walk, node.params, inner)
    body: Node = node.body
    if body.type == "BlockStatement":
        _body(walk, body, inner.body())
        return
    # The parser does not say where parentheses around the body begin
    params: list[Node] = node.params
    after = (params[-1].range[1] if params else node.range[0]) - PREFIX_LENGTH
    arrow = _TO_ARROW.match(walk.script, after)
    start: int = body.range[0] - PREFIX_LENGTH
    if arrow is not None and (blanks := _BLANKS.match(walk.script, arrow.end())) is not None:
        start = min(start, blanks.end())
    walk.functions.append(FunctionSite(start, node.range[1] - PREFIX_LENGTH, is_expression=True))
    walk.push(body, inner)


def _function(walk: Walk, node: Node, scope: Scope) -> None:
    if node.id is not None:
        scope = Scope(scope)
        walk.declare(node.id, scope, scope)
    function(walk, node, scope)


def function(walk: Walk, node: Node, scope: Scope) -> None:
    """The parameters and body of a function that is not an arrow function."""
    inner = scope.function(arrow=False)
    _parameters(walk, node.params, inner)
    _body(walk, node.body, inner.body())


def _parameters(walk: Walk, params: list[Node], scope: Scope) -> None:
    for param in params:
        walk.declare(param, scope, scope)


def _body(walk: Walk, body: Node, scope: Scope) -> None:
    walk.functions.append(
        FunctionSite(body.range[0] - PREFIX_LENGTH, body.range[1] - PREFIX_LENGTH, is_expression=False)
    )
    walk.push_all(body.body, scope)


def _class_expression(walk: Walk, node: Node, scope: Scope) -> None:
    class_parts(walk, node, Scope(scope))


def class_parts(walk: Walk, node: Node, scope: Scope) -> None:
    """What a class is made of; `scope` is where its name is declared."""
    if node.id is not None:
        declare_class(walk, node.id, scope)
    superclass: Node = node.superClass
    if superclass is not None:
        walk.superclasses.append((superclass, scope))
        walk.push(superclass, scope)
    for element in node.body.body:
        match element.type:
            case "StaticBlock":
                _body(walk, element.body, scope.class_part())
            case "MethodDefinition":
                if element.kind not in METHOD_KINDS:
                    walk.refuse(VARIANTS["property kind"], element, element.kind)
                if element.kind != "constructor":
                    walk.key(element.key, computed=element.computed, scope=scope)
                walk.push(element.value, scope)
            case "FieldDefinition":
                walk.key(element.key, computed=element.computed, scope=scope)
                _field(walk, element.value, scope.class_part())
            case _:
                walk.push(element, scope)


def _field(walk: Walk, value: Node | None, scope: Scope) -> None:
    """The value of a field: it runs at each `new`, as a function does that is called."""
    # A function or class runs nothing yet, and takes its name from the field
    if value is not None and value.type not in {"ArrowFunctionExpression", "FunctionExpression", "ClassExpression"}:
        walk.functions.append(
            FunctionSite(value.range[0] - PREFIX_LENGTH, value.range[1] - PREFIX_LENGTH, is_expression=True)
        )
    walk.push(value, scope)


def declare_class(walk: Walk, name: Node, scope: Scope) -> None:
    """Declare the name of a class."""
    walk.declare(name, scope, scope)
    if scope.classes is None:
        scope.classes = set()
    scope.classes.add(name.name)


HANDLERS: Final[Mapping[str, NodeHandler]] = {
    "ArrowFunctionExpression": _arrow,
    "AssignmentExpression": _assignment,
    "BinaryExpression": _binary,
    "CallExpression": _call,
    "ClassExpression": _class_expression,
    "ConditionalExpression": _conditional,
    "FunctionExpression": _function,
    "Identifier": _identifier,
    "Literal": _literal,
    "LogicalExpression": _binary,
    "MemberExpression": _member,
    "NewExpression": _new,
    "ObjectExpression": _object,
    "PrivateIdentifier": _private,
    "TaggedTemplateExpression": _tagged,
    "ThisExpression": _this,
    "UnaryExpression": _unary,
    "UpdateExpression": _update,
}
