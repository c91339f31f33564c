"""The guard's tree as a program again: each grouping in parentheses, each literal from its value, each statement ended.

What the engine runs of a script is the script's text; what the guard judged is a tree. Printed and run in the same
engine, the tree must do what the text does: then the two have read the same program. Nothing of the script's own text
survives the printing but regular expressions, numbers and the raw texts of templates.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

Node = Any


def printed(statements: list[Node]) -> str:
    """The program with these statements."""
    return "\n".join(map(_statement, statements))


def _text(value: str) -> str:
    # Line separators too: what stands in a string must not depend on where lines end
    return json.dumps(value)


def _expression(node: Node | None) -> str:
    """`node` in parentheses where it is more than one token."""
    if node is None:
        return ""
    return _EXPRESSIONS[node.type](node)


def _literal(node: Node) -> str:
    if "regex" in vars(node):
        return f"/{node.regex.pattern}/{node.regex.flags}"
    if isinstance(node.value, str):
        return _text(node.value)
    return {None: "null", True: "true", False: "false"}.get(node.raw, node.raw)


def _template(node: Node) -> str:
    parts = [f"`{node.quasis[0].value.raw}"]
    for expression, quasi in zip(node.expressions, node.quasis[1:], strict=True):
        parts.append("${" + _expression(expression) + "}" + quasi.value.raw)
    return "".join(parts) + "`"


def _plain_template(node: Node) -> str:
    """A template without a tag: from the cooked texts, which are what the guard judges."""
    parts = [_text(node.quasis[0].value.cooked)]
    for expression, quasi in zip(node.expressions, node.quasis[1:], strict=True):
        # A template makes a text of each value before it works out the next
        parts += ["`${" + _expression(expression) + "}`", _text(quasi.value.cooked)]
    return "(" + " + ".join(parts) + ")"


def _key(node: Node, *, computed: bool) -> str:
    if computed:
        return f"[{_expression(node)}]"
    if node.type == "PrivateIdentifier":
        return node.name
    if node.type == "Identifier":
        return _text(node.name)
    return _expression(node)


def _member(node: Node) -> str:
    dot = "?." if node.optional else ""
    owner = "super" if node.object.type == "Super" else _inside_chain(node.object)
    if node.computed:
        return f"{owner}{dot}[{_expression(node.property)}]"
    if node.property.type == "PrivateIdentifier":
        return f"{owner}{dot or '.'}{node.property.name}"
    return f"{owner}{dot}[{_text(node.property.name)}]"


def _inside_chain(node: Node) -> str:
    """The owner or callee of a link of a chain: the links before it stay one chain with it."""
    return _LINKS[node.type](node) if node.type in _LINKS else f"({_expression(node)})"


def _call(node: Node) -> str:
    callee = "super" if node.callee.type == "Super" else _inside_chain(node.callee)
    return f"{callee}{'?.' if node.optional else ''}({_list(node.arguments)})"


def _list(nodes: list[Node | None]) -> str:
    return ", ".join(map(_expression, nodes))


def _array(node: Node) -> str:
    # A hole at the end needs its comma
    return "[" + "".join(f"{_expression(item)}, " for item in node.elements) + "]"


def _array_pattern(node: Node) -> str:
    rest = bool(node.elements) and node.elements[-1] is not None and node.elements[-1].type == "RestElement"
    return f"[{_list(node.elements)}]" if rest else _array(node)


def _object(node: Node) -> str:
    return "{" + ", ".join(map(_property, node.properties)) + "}"


def _property(node: Node) -> str:
    if node.type != "Property":
        return _expression(node)
    # A short form of `__proto__` would not be what the long form is; the guard refuses both
    key = _key(node.key, computed=node.computed)
    if node.kind in {"get", "set"}:
        return f"{node.kind} {key}{_parameters_and_body(node.value)}"
    if node.method:
        return _method(key, node.value)
    return f"{key}: {_expression(node.value)}"


def _method(key: str, function: Node) -> str:
    lead = ("async " if function.isAsync else "") + ("*" if function.generator else "")
    return f"{lead}{key}{_parameters_and_body(function)}"


def _parameters_and_body(function: Node) -> str:
    return f"({_list(function.params)}) {_statement(function.body)}"


def _function(node: Node) -> str:
    lead = ("async " if node.isAsync else "") + "function" + ("*" if node.generator else "")
    return f"{lead} {node.id.name if node.id else ''}{_parameters_and_body(node)}"


def _arrow(node: Node) -> str:
    lead = "async " if node.isAsync else ""
    body = _statement(node.body) if node.body.type == "BlockStatement" else f"({_expression(node.body)})"
    return f"{lead}({_list(node.params)}) => {body}"


def _class(node: Node) -> str:
    name = f" {node.id.name}" if node.id else ""
    parent = f" extends ({_expression(node.superClass)})" if node.superClass else ""
    return f"class{name}{parent} {{ {' '.join(map(_class_member, node.body.body))} }}"


def _class_member(node: Node) -> str:
    if node.type == "StaticBlock":
        return f"static {_statement(node.body)}"
    key = _key(node.key, computed=node.computed)
    lead = "static " if node.static else ""
    if node.type == "FieldDefinition":
        return f"{lead}{key}{'' if node.value is None else f' = ({_expression(node.value)})'};"
    if node.kind in {"get", "set"}:
        return f"{lead}{node.kind} {key}{_parameters_and_body(node.value)}"
    if node.kind == "constructor":
        return f"constructor{_parameters_and_body(node.value)}"
    return lead + _method(key, node.value)


def _binary(node: Node) -> str:
    left = node.left.name if node.left.type == "PrivateIdentifier" else f"({_expression(node.left)})"
    return f"({left} {node.operator} ({_expression(node.right)}))"


def _unary(node: Node) -> str:
    argument = _expression(node.argument)
    return f"({node.operator} {argument if node.operator == 'delete' else f'({argument})'})"


def _update(node: Node) -> str:
    argument = _expression(node.argument)
    return f"({node.operator} {argument})" if node.prefix else f"({argument} {node.operator})"


def _assignment(node: Node) -> str:
    return f"({_expression(node.left)} {node.operator} {_named(node.left, node.right)})"


def _named(target: Node, value: Node) -> str:
    # A function or class without a name takes that of what it is given to, unless it stands in parentheses
    return _expression(value) if target.type == "Identifier" else f"({_expression(value)})"


def _yield(node: Node) -> str:
    return f"(yield{'*' if node.delegate else ''} {'' if node.argument is None else f'({_expression(node.argument)})'})"


_LINKS: Final[dict[str, Callable[[Node], str]]] = {"MemberExpression": _member, "CallExpression": _call}
_EXPRESSIONS: Final[dict[str, Callable[[Node], str]]] = {
    "ArrayExpression": _array,
    "ArrayPattern": _array_pattern,
    "ArrowFunctionExpression": lambda node: f"({_arrow(node)})",
    "AssignmentExpression": _assignment,
    "AssignmentPattern": lambda node: f"{_expression(node.left)} = {_named(node.left, node.right)}",
    "AwaitExpression": lambda node: f"(await ({_expression(node.argument)}))",
    "BinaryExpression": _binary,
    "CallExpression": _call,
    "ChainExpression": lambda node: f"({_expression(node.expression)})",
    "ClassExpression": lambda node: f"{_class(node)}",
    "ConditionalExpression": lambda node: (
        f"(({_expression(node.test)}) ? ({_expression(node.consequent)}) : ({_expression(node.alternate)}))"
    ),
    "FunctionExpression": _function,
    "Identifier": lambda node: node.name,
    "Literal": _literal,
    "LogicalExpression": _binary,
    "MemberExpression": _member,
    "NewExpression": lambda node: f"(new ({_expression(node.callee)})({_list(node.arguments)}))",
    "ObjectExpression": _object,
    "ObjectPattern": _object,
    "RestElement": lambda node: f"...{_expression(node.argument)}",
    "SequenceExpression": lambda node: "(" + ", ".join(f"({_expression(item)})" for item in node.expressions) + ")",
    "SpreadElement": lambda node: f"...({_expression(node.argument)})",
    "TaggedTemplateExpression": lambda node: f"{_inside_chain(node.tag)}{_template(node.quasi)}",
    "TemplateLiteral": _plain_template,
    "ThisExpression": lambda _: "this",
    "UnaryExpression": _unary,
    "UpdateExpression": _update,
    "YieldExpression": _yield,
}


def _statement(node: Node) -> str:
    return _STATEMENTS[node.type](node)


def _body(node: Node) -> str:
    """The body of a loop or of a branch: in braces, which end what it belongs to."""
    return _statement(node) if node.type == "BlockStatement" else f"{{ {_statement(node)} }}"


def _variables(node: Node) -> str:
    return f"{node.kind} " + ", ".join(
        _expression(item.id) + ("" if item.init is None else f" = {_named(item.id, item.init)}")
        for item in node.declarations
    )


def _if(node: Node) -> str:
    otherwise = "" if node.alternate is None else f" else {_body(node.alternate)}"
    return f"if ({_expression(node.test)}) {_body(node.consequent)}{otherwise}"


def _head(node: Node | None) -> str:
    if node is None:
        return ""
    return _variables(node) if node.type == "VariableDeclaration" else f"{_expression(node)}"


def _for(node: Node) -> str:
    return f"for ({_head(node.init)}; {_expression(node.test)}; {_expression(node.update)}) {_body(node.body)}"


def _for_of(node: Node) -> str:
    word = "for await" if node.type == "ForAwaitStatement" else "for"
    return f"{word} ({_head(node.left)} of ({_expression(node.right)})) {_body(node.body)}"


def _switch(node: Node) -> str:
    cases = (
        ("default" if case.test is None else f"case ({_expression(case.test)})") + ": " + printed(case.consequent)
        for case in node.cases
    )
    return f"switch ({_expression(node.discriminant)}) {{ {' '.join(cases)} }}"


def _try(node: Node) -> str:
    text = f"try {_statement(node.block)}"
    if node.handler is not None:
        head = "" if node.handler.param is None else f" ({_expression(node.handler.param)})"
        text += f" catch{head} {_statement(node.handler.body)}"
    return text + ("" if node.finalizer is None else f" finally {_statement(node.finalizer)}")


def _jump(word: str, label: Node | None) -> str:
    return f"{word}{'' if label is None else f' {label.name}'};"


_STATEMENTS: Final[dict[str, Callable[[Node], str]]] = {
    "BlockStatement": lambda node: f"{{ {printed(node.body)} }}",
    "BreakStatement": lambda node: _jump("break", node.label),
    "ClassDeclaration": _class,
    "ContinueStatement": lambda node: _jump("continue", node.label),
    "DoWhileStatement": lambda node: f"do {_body(node.body)} while ({_expression(node.test)});",
    "EmptyStatement": lambda _: ";",
    "ExpressionStatement": lambda node: f"({_expression(node.expression)});",
    "ForAwaitStatement": _for_of,
    "ForOfStatement": _for_of,
    "ForStatement": _for,
    "FunctionDeclaration": _function,
    "IfStatement": _if,
    "LabeledStatement": lambda node: f"{node.label.name}: {_statement(node.body)}",
    "ReturnStatement": lambda node: f"return{'' if node.argument is None else f' ({_expression(node.argument)})'};",
    "SwitchStatement": _switch,
    "ThrowStatement": lambda node: f"throw ({_expression(node.argument)});",
    "TryStatement": _try,
    "VariableDeclaration": lambda node: f"{_variables(node)};",
    "WhileStatement": lambda node: f"while ({_expression(node.test)}) {_body(node.body)}",
}
