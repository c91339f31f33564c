"""What the walk does with each type of node: a handler, or only its children.

`HANDLERS` has the types that need more than a walk over their children, `CHILDREN` all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from codecall.sandbox.agentscript.checked import (
    AsyncCallback,
    CatchSite,
    DestructuringSite,
    FunctionSite,
    LoopSite,
    MistakenCallback,
    Violation,
)
from codecall.sandbox.agentscript.parser.esprima import Node
from codecall.sandbox.agentscript.parser.parse import LOOP_TYPES, PREFIX_LENGTH
from codecall.sandbox.agentscript.policy import (
    MAX_REGEX_LENGTH,
    METHOD_KINDS,
    NAMES_A_CALL,
    NEVER_NAMES,
    PATTERN_METHODS,
    PROPERTY_KINDS,
    SOURCE,
    VARIABLE_KINDS,
    VARIANTS,
    is_meta_tool,
)
from codecall.sandbox.agentscript.ruleset import refused_name, shorten_name
from codecall.sandbox.agentscript.validator.names import (
    Scope,
    forbidden_name,
    literal_key,
    literal_text,
    self_reference,
)
from codecall.sandbox.agentscript.validator.walk import NodeHandler, Walk, dotted_path
from codecall.sandbox.wire import MAX_SAFE_INTEGER

CHILDREN: Final[Mapping[str, tuple[str, ...]]] = {
    "ArrayExpression": ("elements",),
    "AwaitExpression": ("argument",),
    "BreakStatement": (),
    "ChainExpression": ("expression",),
    "ContinueStatement": (),
    "EmptyStatement": (),
    "ExpressionStatement": ("expression",),
    "SequenceExpression": ("expressions",),
    "SpreadElement": ("argument",),
    "Super": (),
    "SwitchCase": ("test", "consequent"),
    "TemplateLiteral": ("expressions",),
    "ThrowStatement": ("argument",),
    "WithStatement": ("object", "body"),
    "YieldExpression": ("argument",),
}
"""By type of node: the fields with nodes that are walked."""

_COMPARES: Final = frozenset({"===", "!==", "==", "!="})

# From the last parameter to the arrow there is nothing but blanks, comments, commas and a parenthesis
_TO_ARROW = re.compile(r"(?:[^/=]|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+=>")
_INTEGER = re.compile(r"0[xXbBoO][\da-fA-F_]+|[\d_]{1,1000}")
_RETURN = re.compile(r"\breturn\b")

_ASKS_CALLBACK: Final = frozenset(
    {"filter", "find", "findIndex", "findLast", "findLastIndex", "some", "every", "reduce", "reduceRight"}
    | {"sort", "toSorted"}
)
"""Methods of lists that are of no use without the values of their callback."""

_SORTS: Final = frozenset({"sort", "toSorted"})
_ORDERS: Final = frozenset({"<", ">", "<=", ">="})
NEVER_WAITS: Final = frozenset({"forEach", "filter", "find", "findIndex", "findLast", "findLastIndex", "some", "every"})
"""Methods that take the promise of an `async` callback for nothing, or for true. (`sort` and `reduce` fail on one.)"""

_BLANKS = re.compile(r"(?:\s|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")


# Expressions


def _identifier(walk: Walk, node: Node, scope: Scope) -> None:
    walk.add_use(node, scope)


def _literal(walk: Walk, node: Node, scope: Scope) -> None:
    del scope
    if "regex" not in vars(node):
        if isinstance(node.value, int | float) and abs(node.value) > MAX_SAFE_INTEGER and _INTEGER.fullmatch(node.raw):
            walk.integers.append(node)
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
    walk.visit_key(node, computed=False, scope=scope)


def _this(walk: Walk, node: Node, scope: Scope) -> None:
    if not scope.this:
        row = VARIANTS["this"]
        walk.violations.append(refused_name("Identifier", "this", row, node.range[0] - PREFIX_LENGTH))


def _member(walk: Walk, node: Node, scope: Scope) -> None:
    owner: Node = node.object
    name: Node = node.property
    if node.computed:
        walk.push(name, scope)
    text = literal_key(name, computed=node.computed)
    if text is not None and text in NEVER_NAMES:
        walk.violations.append(forbidden_name(text, name.range[0] - PREFIX_LENGTH, "Member", dotted_path(node)))
    elif owner.type == "Identifier":
        walk.check_member(owner.name, text, node)
    if text is not None:
        walk.reads[text] = None
    walk.owners.add(owner, text)
    walk.push(owner, scope)


def _call(walk: Walk, node: Node, scope: Scope) -> None:
    callee: Node = node.callee
    arguments: list[Node | None] = node.arguments
    walk.calls.append(node)
    if callee.type == "Identifier":
        walk.owners.called.add(callee.name)
        if callee.name in NAMES_A_CALL and arguments:
            _tool_name(walk, arguments[0])
        elif callee.name == "Date" and not walk.ruleset.rules.allow_clock:
            walk.refuse(VARIANTS["Date()"], node)
    elif callee.type == "MemberExpression":
        walk.owners.add_call(callee, arguments)
        text = literal_key(callee.property, computed=callee.computed)
        if text in PATTERN_METHODS and not walk.ruleset.rules.allow_regex:
            walk.refuse(VARIANTS["pattern method"], callee.property, dotted_path(callee) or text)
        first: Node = arguments[0] if arguments else None
        if text is not None and text in NEVER_WAITS and getattr(first, "isAsync", False):
            start, end = first.range
            walk.async_callbacks.append(AsyncCallback(text, start - PREFIX_LENGTH, end - PREFIX_LENGTH))
        callback: Node | None = arguments[0] if text in _ASKS_CALLBACK and arguments else None
        if text is not None and callback is not None and _is_silent(walk, callback):
            walk.mistaken_callbacks.append(MistakenCallback(text, callback.range[0] - PREFIX_LENGTH))
        body: Node = getattr(first, "body", None)
        if text in _SORTS and getattr(body, "operator", None) in _ORDERS:
            walk.mistaken_callbacks.append(MistakenCallback(str(text), first.range[0] - PREFIX_LENGTH, compares=True))
    for argument in arguments:
        if argument is not None and argument.type == "AssignmentExpression" and argument.left.type == "Identifier":
            walk.owners.keywords[argument.left.range[0] - PREFIX_LENGTH] = _call_start(walk, callee, arguments[0])
    walk.push(callee, scope)
    walk.push_all(arguments, scope)


def _call_start(walk: Walk, callee: Node, first: Node | None) -> str:
    """A call up to its input, as a hint shows it: `users.list(`, `callTool('users:list', `."""
    path = shorten_name(dotted_path(callee) or "tool")
    if path not in NAMES_A_CALL or first is None or first.type == "AssignmentExpression":
        return f"{path}("
    start, end = first.range
    return f"{path}({shorten_name(walk.script[start - PREFIX_LENGTH : end - PREFIX_LENGTH])}, "


def _is_silent(walk: Walk, callback: Node) -> bool:
    """Whether this is a function that is certain to return nothing."""
    if callback.type not in {"ArrowFunctionExpression", "FunctionExpression"}:
        return False
    start, end = callback.body.range
    return (
        callback.body.type == "BlockStatement"
        and _RETURN.search(walk.script, start - PREFIX_LENGTH, end - PREFIX_LENGTH) is None
    )


def _tool_name(walk: Walk, argument: Node) -> None:
    """Check a literal tool name: it may not be a meta-tool's. The broker checks computed ones."""
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
    walk.check_operator(node)
    argument: Node = node.argument
    if node.operator == "delete":
        target: Node = argument.expression if argument.type == "ChainExpression" else argument
        if target.type == "MemberExpression":
            walk.assign(target, scope)
            return
    elif node.operator == "!":
        walk.add_data_site(argument, "tested")
    walk.push(argument, scope)


def _conditional(walk: Walk, node: Node, scope: Scope) -> None:
    walk.add_data_site(node.test, "tested")
    walk.push_all([node.test, node.consequent, node.alternate], scope)


def _update(walk: Walk, node: Node, scope: Scope) -> None:
    walk.check_operator(node)
    walk.assign(node.argument, scope)


def _binary(walk: Walk, node: Node, scope: Scope) -> None:
    walk.check_operator(node)
    if node.operator in _COMPARES:
        walk.add_data_site(node.left, "tested")
        walk.add_data_site(node.right, "tested")
    elif node.operator == "in":
        walk.owners.add_enumerated(node.right)
    walk.push(node.left, scope)
    walk.push(node.right, scope)


def _assignment(walk: Walk, node: Node, scope: Scope) -> None:
    walk.check_operator(node)
    walk.visit_destructuring(node.left, node.right)
    walk.assign(node.left, scope)
    walk.push(node.right, scope)


def _object(walk: Walk, node: Node, scope: Scope) -> None:
    for item in node.properties:
        if item.type != "Property":
            walk.add_data_site(item.argument, "spread")
            walk.push(item, scope)
            continue
        if item.kind not in PROPERTY_KINDS:
            walk.refuse(VARIANTS["property kind"], item, item.kind)
        if not item.shorthand:
            walk.visit_key(item.key, computed=item.computed, scope=scope)
            if item.key.type == "Identifier" and item.value.type != "MemberExpression":
                walk.writes.add(item.key.name)
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
    _function_parts(walk, node, scope)


def _function_parts(walk: Walk, node: Node, scope: Scope) -> None:
    """Walk the parameters and body of a function that is not an arrow function."""
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
    _class_parts(walk, node, Scope(scope))


def _class_parts(walk: Walk, node: Node, scope: Scope) -> None:
    """Walk the parts of a class; `scope` is where its name is declared."""
    if node.id is not None:
        _declare_class(walk, node.id, scope)
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
                    walk.visit_key(element.key, computed=element.computed, scope=scope)
                walk.push(element.value, scope)
            case "FieldDefinition":
                walk.visit_key(element.key, computed=element.computed, scope=scope)
                _field(walk, element.value, scope.class_part())
            case _:
                walk.push(element, scope)


def _field(walk: Walk, value: Node | None, scope: Scope) -> None:
    """Walk the value of a field: it runs at each `new`, as a called function does."""
    # A function or class runs nothing yet, and takes its name from the field
    if value is not None and value.type not in {"ArrowFunctionExpression", "FunctionExpression", "ClassExpression"}:
        walk.functions.append(
            FunctionSite(value.range[0] - PREFIX_LENGTH, value.range[1] - PREFIX_LENGTH, is_expression=True)
        )
    walk.push(value, scope)


def _declare_class(walk: Walk, name: Node, scope: Scope) -> None:
    """Declare the name of a class."""
    walk.declare(name, scope, scope)
    if scope.classes is None:
        scope.classes = set()
    scope.classes.add(name.name)


# Statements


def _if(walk: Walk, node: Node, scope: Scope) -> None:
    walk.add_data_site(node.test, "tested")
    walk.push_all([node.test, node.consequent, node.alternate], scope)


def _block(walk: Walk, node: Node, scope: Scope) -> None:
    walk.push_all(node.body, Scope(scope))


def _variables(walk: Walk, node: Node, scope: Scope) -> None:
    if any(declarator.id.type != "Identifier" for declarator in node.declarations):
        start, end = node.range
        walk.destructuring_sites.append(
            DestructuringSite(start - PREFIX_LENGTH, end - PREFIX_LENGTH, is_var=node.kind == "var")
        )
    _declare_variables(walk, node, scope)


def _declare_variables(walk: Walk, node: Node, scope: Scope) -> None:
    kind: str = node.kind
    if kind not in VARIABLE_KINDS:
        walk.refuse(VARIANTS["using" if kind == "using" else "variable kind"], node, kind)
    target = scope.variables if kind == "var" else scope
    for declarator in node.declarations:
        name: Node = declarator.id
        value: Node = declarator.init
        if value is None:
            walk.declare(name, target, scope, constant=kind == "const")
            continue
        # A `var` may be declared again as something else
        if value.type == "ClassExpression" and name.type == "Identifier" and kind != "var":
            _declare_class(walk, name, target)
        else:
            walk.declare(name, target, scope, constant=kind == "const")
            walk.visit_destructuring(name, value)
        if kind != "var":
            _set_value_spans(name, value, target)
        walk.push(value, scope)


def _set_value_spans(pattern: Node, value: Node, scope: Scope) -> None:
    """Record that the variables which `pattern` declares have no value before `value` is evaluated."""
    start, end = value.range
    for name in _names_of_pattern(pattern):
        scope.set_value_span(name, start - PREFIX_LENGTH, end - PREFIX_LENGTH)


def _names_of_pattern(pattern: Node) -> Iterator[str]:
    """The names a pattern declares, without those of nested patterns."""
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
    _function_parts(walk, node, scope)


def _labeled(walk: Walk, node: Node, scope: Scope) -> None:
    walk.check_label(node.label)
    body: Node = node.body
    if body.type in LOOP_TYPES or body.type == "LabeledStatement":
        walk.label_starts[id(body)] = walk.label_starts.pop(id(node), node.range[0])
    walk.push(body, scope)


def _add_loop(walk: Walk, node: Node) -> None:
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
    _add_loop(walk, node)
    inner = Scope(scope)
    if node.init is not None and node.init.type == "VariableDeclaration":
        _declare_variables(walk, node.init, inner)
    else:
        walk.push(node.init, inner)
    walk.push(node.test, inner)
    walk.push(node.update, inner)
    walk.push(node.body, inner)


def _for_each(walk: Walk, node: Node, scope: Scope) -> None:
    _add_loop(walk, node)
    inner = Scope(scope)
    if node.left.type == "VariableDeclaration":
        _declare_variables(walk, node.left, inner)
        if node.left.kind != "var":
            _set_value_spans(node.left.declarations[0].id, node.right, inner)
    else:
        walk.assign(node.left, inner)
    walk.push(node.right, inner)
    walk.push(node.body, inner)


def _while(walk: Walk, node: Node, scope: Scope) -> None:
    _add_loop(walk, node)
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
    first, last = body.range
    if param is None:
        walk.catches.append(CatchSite("none", None, -1, -1, first - PREFIX_LENGTH, last - PREFIX_LENGTH))
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
                first - PREFIX_LENGTH,
                last - PREFIX_LENGTH,
            )
        )
    walk.push(body, scope)


def _try(walk: Walk, node: Node, scope: Scope) -> None:
    if node.handler is None:
        end = node.block.range[1] - PREFIX_LENGTH
        walk.catches.append(CatchSite("absent", None, -1, -1, end, end))
    walk.push(node.block, scope)
    walk.push(node.handler, scope)
    walk.push(node.finalizer, scope)


HANDLERS: Final[Mapping[str, NodeHandler]] = {
    "ArrowFunctionExpression": _arrow,
    "AssignmentExpression": _assignment,
    "BinaryExpression": _binary,
    "BlockStatement": _block,
    "CallExpression": _call,
    "CatchClause": _catch,
    "ClassDeclaration": _class_parts,
    "ClassExpression": _class_expression,
    "ConditionalExpression": _conditional,
    "DoWhileStatement": _while,
    "ForAwaitStatement": _for_each,
    "ForInStatement": _for_each,
    "ForOfStatement": _for_each,
    "ForStatement": _for,
    "FunctionDeclaration": _function_declaration,
    "FunctionExpression": _function,
    "Identifier": _identifier,
    "IfStatement": _if,
    "LabeledStatement": _labeled,
    "Literal": _literal,
    "LogicalExpression": _binary,
    "MemberExpression": _member,
    "NewExpression": _new,
    "ObjectExpression": _object,
    "PrivateIdentifier": _private,
    "ReturnStatement": _return,
    "SwitchStatement": _switch,
    "TaggedTemplateExpression": _tagged,
    "ThisExpression": _this,
    "TryStatement": _try,
    "UnaryExpression": _unary,
    "UpdateExpression": _update,
    "VariableDeclaration": _variables,
    "WhileStatement": _while,
}
"""By type of node."""
