"""What commands read in a script: its literals, which become parameters of it, and the servers whose tools it names."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from codecall.errors import CodeCallError

if TYPE_CHECKING:
    from codecall.gateway.config.options import GatewayOptions
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


def needed_servers(scripts: Iterable[tuple[str, str]], options: GatewayOptions) -> frozenset[str] | None:
    """The servers whose tools scripts may call; None where only running them tells. Each is a text and its language."""
    from codecall.cli.gateway import begins_with_server, servers_of
    from codecall.sandbox.agentscript.checked import InvalidScript

    spellings = ("composite_tools", "compositeTools")
    if options.composite_tools.paths or any(options.codecall.get(name) for name in spellings):
        return None  # they call tools of any server, and scripts call them by names of their own
    found: set[str] = set()
    for script, language in scripts:
        try:
            called, words = (_starlark_names if language == "starlark" else _agentscript_names)(script)
        except (InvalidScript, SyntaxError, ValueError):
            continue  # it will not run
        except _ComputedNameError:
            return None
        of_called = servers_of(called, options.servers)
        if of_called is None:
            return None
        found |= of_called
        found.update(name for name in options.servers if any(begins_with_server(word, name) for word in words))
    return frozenset(found)


class _ComputedNameError(Exception):
    """A script computes the name of what it calls."""


class _Names(NamedTuple):
    called: set[str]
    """What it gives to functions that take the name of what is called."""
    words: set[str]
    """All other names and texts."""


def _agentscript_names(script: str) -> _Names:
    """Raises InvalidScript and _ComputedNameError."""
    from codecall.sandbox.agentscript.parser.parse import children

    names = _Names(set(), set())
    waiting = list(_statements(script))
    while waiting:
        node = waiting.pop()
        below: Sequence[Node] = list(children(node))
        match node.type:
            case "CallExpression" if getattr(node.callee, "name", None) in _NAMING:
                names.called.add(_text(node.arguments[0] if node.arguments else None))
                below = node.arguments[1:]
            case "MemberExpression" if getattr(node.object, "name", None) == "tools":
                names.words.add(_text(node.property) if node.computed else str(node.property.name))
                below = ()
            case "MemberExpression" if not node.computed:
                below = [node.object]
            case "Identifier" if node.name in _NAMING or node.name in ("tools", "readResource"):
                raise _ComputedNameError
            case "Identifier":
                names.words.add(str(node.name))
            case "Literal" if isinstance(node.value, str):
                names.words.add(node.value)
            case _:
                pass
        waiting.extend(below)
    return names


def _text(node: Node | None) -> str:
    with suppress(_NoLiteralError):
        if node is not None and isinstance(text := _value(node), str) and "://" not in text:
            return text
    raise _ComputedNameError


def _starlark_names(script: str) -> _Names:
    """Raises SyntaxError and _ComputedNameError."""
    names = _Names(set(), set())
    nodes = list(ast.walk(ast.parse(script)))
    naming = {
        id(node.func): node
        for node in nodes
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in _NAMING
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.words.add(node.value)
        elif isinstance(node, ast.Name) and node.id not in _NAMING:
            names.words.add(node.id)
        elif isinstance(node, ast.Name):
            first = naming[id(node)].args[:1] if id(node) in naming else []
            if not (first and isinstance(first[0], ast.Constant) and isinstance(first[0].value, str)):
                raise _ComputedNameError
            names.called.add(first[0].value)
    return names


def _statements(script: str) -> list[Node]:
    """Raises InvalidScript."""
    from codecall.sandbox.agentscript.checked import InvalidScript
    from codecall.sandbox.agentscript.parser.parse import parse
    from codecall.sandbox.agentscript.typescript.strip import strip_types

    try:
        return parse(script)[0]
    except InvalidScript:
        stripped = strip_types(script)
        if stripped is None:
            raise
        return parse(stripped.text)[0]


def _in_agentscript(script: str) -> Iterator[Literal]:
    from codecall.sandbox.agentscript.parser.parse import PREFIX_LENGTH, children, span

    waiting = _statements(script)
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
