"""Literals of a script that become parameters of it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.sandbox.agentscript.parser.esprima import Node

_NAMING: Final = frozenset({"callTool", "getTool", "readResource", "getPrompt", "call_tool", "try_call"})
"""Functions whose first argument names what is called, and is no value."""


class Literal(NamedTuple):
    """A literal of a script, as JSON data, with its place in the text."""

    start: int
    end: int
    value: object


def with_parameters(script: str, literals: Mapping[str, object], *, starlark: bool) -> str:
    """The script with parameters in place of literals.

    Args:
        script: Its text, with or without types.
        literals: The values that become parameters, by the names of these.
        starlark: Whether it is Starlark; else it is AgentScript.

    Raises:
        CodeCallError: it has no literal of such a value.
    """
    if not literals:
        return script
    found = list(_in_starlark(script) if starlark else _in_agentscript(script))
    replaced: dict[tuple[int, int], str] = {}
    for name, value in literals.items():
        wanted = _canonical(value)
        places = [literal for literal in found if _canonical(literal.value) == wanted]
        if not places:
            shown = ", ".join(dict.fromkeys(_canonical(literal.value) for literal in found if literal.value != ""))
            raise CodeCallError(
                f"--parameter {name}: the script has no literal {wanted:.80}",
                code="USAGE",
                hint=f"Its literals: {shown:.400}." if shown else "It has no literals.",
            )
        for place in places:
            replaced[place.start, place.end] = name if starlark else f"codecallContext.{name}"
    parts, at = list[str](), 0
    for start, end in sorted(replaced, key=lambda place: (place[0], -place[1])):
        if start >= at:  # else it is inside of one that is replaced
            parts += [script[at:start], replaced[start, end]]
            at = end
    return "".join([*parts, script[at:]])


def _canonical(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _in_agentscript(script: str) -> Iterator[Literal]:
    from codecall.sandbox.agentscript.checked import InvalidScript
    from codecall.sandbox.agentscript.parser.parse import PREFIX_LENGTH, children, parse, span
    from codecall.sandbox.agentscript.typescript.strip import strip_types

    try:
        statements, _ = parse(script)
    except InvalidScript:
        stripped = strip_types(script)
        if stripped is None:
            raise
        statements, _ = parse(stripped.text)
    waiting: list[Node] = list(statements)
    while waiting:
        node = waiting.pop()
        with suppress(_NoLiteralError):
            value = _value(node)
            start, end = span(node)
            yield Literal(start - PREFIX_LENGTH, end - PREFIX_LENGTH, value)
        below = list(children(node))
        if node.type == "Property" and not node.computed:
            below = [node.value]
        if node.type == "CallExpression" and getattr(node.callee, "name", None) in _NAMING:
            below = [node.callee, *node.arguments[1:]]
        waiting.extend(below)


class _NoLiteralError(ValueError):
    """A node is more than literals."""


def _value(node: Any) -> object:
    """The value of a node that is nothing but literals.

    Raises:
        _NoLiteralError: it is something else.
    """
    if node.type == "Literal" and isinstance(node.value, (str, bool, int, float)) and node.regex is None:
        return node.value
    if node.type == "TemplateLiteral" and not node.expressions:
        return node.quasis[0].value.cooked
    if node.type == "UnaryExpression" and node.operator == "-" and node.argument.type == "Literal":
        value = _value(node.argument)
        if isinstance(value, (int, float)):
            return -value
    if node.type == "ArrayExpression" and None not in node.elements:
        return [_value(item) for item in node.elements]
    if node.type == "ObjectExpression" and all(
        each.type == "Property" and not each.computed for each in node.properties
    ):
        return {str(each.key.name or each.key.value): _value(each.value) for each in node.properties}
    raise _NoLiteralError


def _in_starlark(script: str) -> Iterator[Literal]:
    # What Starlark shares with Python: its expressions.
    tree = ast.parse(script)
    starts = [0]
    for line in script.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = script.splitlines()

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    names = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMING and node.args
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or id(node) in names or node.end_lineno is None:
            continue
        try:
            value = ast.literal_eval(node)
            json.dumps(value)
        except (ValueError, TypeError):
            continue
        end = offset(node.end_lineno, node.end_col_offset or 0)
        yield Literal(offset(node.lineno, node.col_offset), end, cast("object", value))
