"""What commands read in a script: its literals, which become parameters of it, and the servers whose tools it names."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from codecall.errors import CodeCallError
from codecall.sandbox.lines import LineTable
from codecall.wording import join_names

if TYPE_CHECKING:
    from codecall.gateway.config.options import GatewayOptions
    from codecall.sandbox.agentscript.parser.esprima import Node

_NAMING: Final = frozenset({"callTool", "getTool", "readResource", "getPrompt", "call_tool", "try_call"})
"""Functions whose first argument names what is called, and is no value."""


_PLACED: Final = re.compile(r"(?P<value>.*)@(?P<place>all|\d{1,9}(?::\d{1,9})?(?:,\d{1,9}(?::\d{1,9})?)*)", re.DOTALL)
"""A value of `--parameter` with the places that are meant: `50@3`, `50@3:17,9`, `50@all`."""

MAX_SHOWN: Final = 10
"""Places of one literal that an error shows; it says how many more there are."""


class Literal(NamedTuple):
    """A literal of a script, as JSON data, with its place in the text."""

    start: int
    end: int
    value: object
    argument: str = ""
    """The name of the argument that it is of what is called; empty: it is none."""


class Reading(NamedTuple):
    """What `--parameter` may mean: a value, and which of its places."""

    value: object
    place: str = ""
    """`all`, or lines with or without columns; empty: not specified."""


class ReplacedLiteral(NamedTuple):
    """A literal that became a parameter, with the places in the script, as `line:column`."""

    value: object
    replaced: tuple[str, ...]
    left: tuple[str, ...]
    """Where a literal of that value stays."""


def read_parameters(words: Iterable[str]) -> dict[str, list[Reading]]:
    """What each `--parameter` may mean, by the name of the parameter, the likelier first.

    Raises:
        CodeCallError: one is no `key=value`.
    """
    found: dict[str, list[Reading]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise CodeCallError(f"--parameter {word!r:.80}: key=value is needed", code="USAGE")
        placed = _PLACED.fullmatch(value)
        found[key] = [Reading(_data(value)), *([Reading(_data(placed["value"]), placed["place"])] if placed else [])]
    return found


def _data(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def with_parameters(
    script: str, wanted: Mapping[str, Sequence[Reading]], *, starlark: bool, first_line: int = 1
) -> tuple[str, dict[str, ReplacedLiteral]]:
    """The script with parameters in place of literals, and what was replaced.

    Args:
        script: Its text, with or without types.
        wanted: The literals that become parameters, by the names of these.
        starlark: Whether it is Starlark; else it is AgentScript.
        first_line: The number of its first line.

    Raises:
        CodeCallError: it has no literal of such a value, or several, and the place is not specified.
    """
    if not wanted:
        return script, {}
    found = sorted(_in_starlark(script) if starlark else _in_agentscript(script), key=lambda each: each[:2])
    lines = _Lines(script, first_line)
    texts: dict[tuple[int, int], str] = {}
    replacements: dict[str, ReplacedLiteral] = {}
    for name, readings in wanted.items():
        reading, places = _places(name, readings, found)
        chosen = _chosen(name, reading, places, lines)
        texts |= {(each.start, each.end): name if starlark else f"codecallContext.{name}" for each in chosen}
        left = tuple(lines.place(each) for each in places if each not in chosen)
        replacements[name] = ReplacedLiteral(reading.value, tuple(map(lines.place, chosen)), left)
    parts, at = list[str](), 0
    for start, end in sorted(texts, key=lambda place: (place[0], -place[1])):
        if start >= at:  # else it is inside of one that is replaced
            parts += [script[at:start], texts[start, end]]
            at = end
    return "".join([*parts, script[at:]]), replacements


def _places(name: str, readings: Sequence[Reading], found: Sequence[Literal]) -> tuple[Reading, list[Literal]]:
    """The reading of which the script has a literal, with all that there are."""
    for reading in readings:
        canonical = _canonical(reading.value)
        if places := [literal for literal in found if _canonical(literal.value) == canonical]:
            return reading, places
    literals = ", ".join(dict.fromkeys(_canonical(literal.value) for literal in found if literal.value != ""))
    raise CodeCallError(
        f"--parameter {name}: the script has no literal {_canonical(readings[-1].value):.80}",
        code="USAGE",
        hint=f"Its literals: {literals:.400}." if literals else "It has no literals.",
    )


def _chosen(name: str, reading: Reading, places: Sequence[Literal], lines: _Lines) -> Sequence[Literal]:
    """Those of several places that are meant: the named ones, or the one argument of the parameter's name."""
    if reading.place == "all":
        return places
    chosen: list[Literal] = []
    for word in reading.place.split(","):
        here = [each for each in places if not word or word in (lines.place(each), lines.place(each).partition(":")[0])]
        arguments = [each for each in here if each.argument == name]
        here = arguments if len(arguments) == 1 else here
        if len(here) != 1:
            raise _unclear(name, reading, word if not here else "", places, lines)
        chosen += [each for each in here if each not in chosen]
    return chosen


def _unclear(name: str, reading: Reading, missed: str, places: Sequence[Literal], lines: _Lines) -> CodeCallError:
    value = f"{_canonical(reading.value):.80}"
    listed = join_names(places, MAX_SHOWN, lambda each: f"{lines.place(each)} `{lines.excerpt(each)}`")
    what = f"is not at {missed}" if missed else f"is in {len(places)} places"
    example = f"{name}={value}@{lines.place(places[-1])}"
    return CodeCallError(
        f"--parameter {name}: the literal {value} {what} of the script (line:column): {listed}",
        code="USAGE",
        hint=f"Say which is meant: `--parameter {example}`, several with commas, or `@all`.",
    )


class _Lines:
    """Places of literals, as persons read them.

    Args:
        script: The text that they are in.
        first_line: The number of its first line.
    """

    def __init__(self, script: str, first_line: int) -> None:
        self._lines = LineTable(script)
        self._first = first_line

    def place(self, literal: Literal) -> str:
        """Line and column."""
        line, column = self._lines.position(literal.start)
        return f"{line - 1 + self._first}:{column}"

    def excerpt(self, literal: Literal) -> str:
        """What stands around it in its line."""
        line, column = self._lines.position(literal.start)
        start, length = max(column - 1 - 24, 0), literal.end - literal.start
        end = column - 1 + 24 if length < 24 else min(column - 1 + length, start + 60)
        return self._lines.text(line)[start:end].strip()


def _canonical(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def needed_servers(scripts: Iterable[tuple[str, str]], options: GatewayOptions) -> frozenset[str] | None:
    """The servers whose tools scripts may call; None where only running them tells. Each is a text and its language."""
    from codecall.cli.gateway import begins_with_server, servers_of
    from codecall.sandbox.agentscript.checked import InvalidScriptError

    spellings = ("composite_tools", "compositeTools")
    if options.composite_tools.paths or any(options.codecall.get(name) for name in spellings):
        return None  # they call tools of any server, and scripts call them by names of their own
    found: set[str] = set()
    for script, language in scripts:
        try:
            called, words = (_starlark_names if language == "starlark" else _agentscript_names)(script)
        except (InvalidScriptError, SyntaxError, ValueError):
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
    """Raises InvalidScriptError and _ComputedNameError."""
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
    """Raises InvalidScriptError."""
    from codecall.sandbox.agentscript.checked import InvalidScriptError
    from codecall.sandbox.agentscript.parser.parse import parse
    from codecall.sandbox.agentscript.typescript.strip import strip_types

    try:
        return parse(script)[0]
    except InvalidScriptError:
        stripped = strip_types(script)
        if stripped is None:
            raise
        return parse(stripped.text)[0]


def _in_agentscript(script: str) -> Iterator[Literal]:
    from codecall.sandbox.agentscript.parser.parse import PREFIX_LENGTH, children, span

    waiting = _statements(script)
    arguments: dict[int, str] = {}
    while waiting:
        node = waiting.pop()
        below = list(children(node))
        with suppress(_NoLiteralError):
            value = _value(node)
            start, end = span(node)
            yield Literal(start - PREFIX_LENGTH, end - PREFIX_LENGTH, value, arguments.get(id(node), ""))
            if node.type == "UnaryExpression":
                below = []  # 5 is no literal of its own in -5
        if node.type == "CallExpression":
            objects = [each for each in node.arguments if each.type == "ObjectExpression"]
            members = (each for one in objects for each in one.properties if each.type == "Property")
            arguments |= {id(each.value): str(each.key.name or each.key.value) for each in members if not each.computed}
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
    lines = LineTable(script)

    def offset(line: int, column: int) -> int:
        """`ast` counts columns in bytes."""
        return lines.offset(line, 1) + len(lines.text(line).encode()[:column].decode())

    names = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMING and node.args
    }
    arguments: dict[int, str] = {}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        arguments |= {id(each.value): each.arg for each in call.keywords if each.arg is not None}
        for dictionary in (each for each in call.args if isinstance(each, ast.Dict)):
            pairs = zip(dictionary.keys, dictionary.values, strict=True)
            arguments |= {id(value): str(key.value) for key, value in pairs if isinstance(key, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            names.add(id(node.operand))  # 5 is no literal of its own in -5
        if not isinstance(node, ast.expr) or id(node) in names or node.end_lineno is None:
            continue
        try:
            value = ast.literal_eval(node)
            json.dumps(value)
        except (ValueError, TypeError):
            continue
        end = offset(node.end_lineno, node.end_col_offset or 0)
        start = offset(node.lineno, node.col_offset)
        yield Literal(start, end, cast("object", value), arguments.get(id(node), ""))
