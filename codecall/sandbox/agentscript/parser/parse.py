"""Parses a script: first checks its raw text (`prescan`), then gives its statements (`parse`). What every reader of
the tree needs stands below: kinds of nodes, `span`, `children`, names of members and of declarations.

The script is parsed as the body of an async arrow function in strict mode, which is how the realm runs it: top-level
`await` and `return` work. Every error refers to the script as sent.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final, cast

from codecall.sandbox.agentscript.checked import Violation, invalid_script
from codecall.sandbox.agentscript.foreign_words import line_hint, message_hint
from codecall.sandbox.agentscript.parser.esprima import Node, NotParseableError, QuickParser, parse_program
from codecall.sandbox.agentscript.parser.tokens import UnsafeTextError
from codecall.sandbox.agentscript.parser.unicode import BIDI, SEPARATOR, SURROGATE, code_point
from codecall.sandbox.agentscript.policy import MAX_LINE_LENGTH, SOURCE, TOO_LONG, excess_offset
from codecall.sandbox.lines import LineTable

PREFIX: Final = "async()=>{"
PREFIX_LENGTH: Final = len(PREFIX)
"""Where the script begins in the parsed text; ranges of nodes refer to that text."""
_SUFFIX: Final = "\n}"

_MAX_FRAMES: Final = 12_000
"""Stack frames the parser may use: it takes about 20 for each bracket, of which it reads 64 in each other, and the
rest is for nesting without brackets, such as long `else if` chains (some thousands)."""

_MAX_LINE: Final = 500
"""Characters of a line that are looked at for a hint."""

_CARRIAGE_RETURN = re.compile(r"\r(?!\n)")
_LINE = re.compile("[^\n\r]+")
_AWAIT = re.compile(r"\bawait\s+$")
# Text between quotes, and comments: they are not code
_TEXTS = re.compile(r"""(?P<quote>["'`])(?:(?!(?P=quote))[^\\\n]|\\.)*+(?P=quote)|//.*""")


def prescan(script: str) -> list[Violation]:
    """What is wrong with the text of `script`, in no order; empty for nearly every script. Linear time."""
    if (offset := excess_offset(script)) is not None:
        row = SOURCE["script length"]
        return [Violation(offset, row.kind, TOO_LONG, row.instead)]
    plain = script.isascii()
    if not plain:
        unpaired = SURROGATE.search(script)
        if unpaired is not None:
            what = f"the unpaired surrogate {code_point(unpaired[0])}"
            return [source_violation("unpaired surrogate", unpaired.start(), what)]

    violations: list[Violation] = []
    if "\0" in script:
        violations.append(source_violation("NUL character", script.index("\0"), "a NUL character"))
    if script.startswith("#!"):
        violations.append(source_violation("hashbang", 0, "a hashbang line"))
    if len(script) > MAX_LINE_LENGTH:
        violations.extend(_long_lines(script))
    if "\r" in script:
        violations.extend(
            source_violation("lone carriage return", match.start(), "a carriage return that is not part of a line end")
            for match in _CARRIAGE_RETURN.finditer(script)
        )
    if not plain:
        violations.extend(
            source_violation("line separator", match.start(), f"the line separator {code_point(match[0])}")
            for match in SEPARATOR.finditer(script)
        )
        violations.extend(
            source_violation(
                "bidirectional control", match.start(), f"the bidirectional control {code_point(match[0])}"
            )
            for match in BIDI.finditer(script)
        )
    return violations


def parse(script: str) -> tuple[list[Node], list[int]]:
    """The statements of `script`, and the offsets of names in it that are written with escapes.

    Ranges of the nodes count from the start of the wrapped text: subtract `PREFIX_LENGTH`.

    Raises:
        InvalidScriptError: not parseable (SYNTAX_ERROR), or with text that deceives or is nested beyond the parser's
            means (UnsafeSource).
    """
    wrapped = f"{PREFIX}{script}{_SUFFIX}"
    frames = sys.getrecursionlimit()
    sys.setrecursionlimit(max(frames, _MAX_FRAMES))
    try:
        program, escapes = parse_program(QuickParser, wrapped, PREFIX_LENGTH)
    except RecursionError:
        row = SOURCE["expression nesting"]
        raise invalid_script(script, [Violation(0, row.kind, "Script is nested too deeply", row.instead)]) from None
    except UnsafeTextError as unsafe:
        violations = [source_violation(row, offset - PREFIX_LENGTH, what) for row, offset, what in unsafe.spots]
        raise invalid_script(script, violations) from None
    except NotParseableError as error:
        offset = 0 if error.offset is None else error.offset - PREFIX_LENGTH
        raise invalid_script(script, [_syntax_error(script, offset, error.message)]) from None
    finally:
        sys.setrecursionlimit(frames)

    # The program is one function: a script that closes it before its end has been refused
    statements: list[Node] = program.body[0].expression.body.body
    return statements, [offset - PREFIX_LENGTH for offset in escapes]


def source_violation(row: str, offset: int, what: str) -> Violation:
    """The finding that row `row` of `SOURCE` describes: the script has `what` at `offset`."""
    return Violation(offset, SOURCE[row].kind, f"Script has {what}", SOURCE[row].instead)


def _long_lines(script: str) -> Iterator[Violation]:
    for line in _LINE.finditer(script):
        if line.end() - line.start() > MAX_LINE_LENGTH:
            place = line.start() + MAX_LINE_LENGTH
            yield source_violation("line length", place, f"a line longer than {MAX_LINE_LENGTH} characters")


def _syntax_error(script: str, offset: int, message: str) -> Violation:
    """A syntax error in words that fit the script as sent: the parser's own refer to the wrapped text."""
    offset = min(max(offset, 0), len(script))
    if offset == len(script) and message.startswith("Unexpected"):
        message = "Unexpected end of input"
    hint = _syntax_hint(script, offset, message)
    # The token may be a dot itself.
    message = message if message.startswith("Unexpected token") else message.rstrip(".")
    message = f"{message} at line {LineTable(script).line(offset)}"
    return Violation(offset, None, message, hint, "SYNTAX_ERROR")


def _syntax_hint(script: str, offset: int, message: str) -> str | None:
    """What to write instead: by the text at the place, by what the line looks like, by brackets left open, or by the
    message."""
    from codecall.sandbox.agentscript.parser.mistakes import bracket_hint, hint_at  # few scripts need it

    if _AWAIT.search(script, max(0, offset - 50), offset):
        return "`await` works at top level and in async functions: mark the function around it `async`."
    start, end = script.rfind("\n", 0, offset) + 1, script.find("\n", offset)
    line = _TEXTS.sub('""', script[start : end if end >= 0 else None][:_MAX_LINE])
    return (
        hint_at(script, offset, message)
        or line_hint(line)
        or bracket_hint(script, offset, message)
        or message_hint(message)
    )


FUNCTIONS: Final = frozenset({"ArrowFunctionExpression", "FunctionExpression", "FunctionDeclaration"})
"""Node types of functions."""

EQUALITY: Final = frozenset({"===", "!==", "==", "!="})
"""Operators that compare values for equality."""

LOOP_TYPES: Final = frozenset(
    {"DoWhileStatement", "ForAwaitStatement", "ForInStatement", "ForOfStatement", "ForStatement", "WhileStatement"}
)
"""Node types of loops."""


def span(node: Node) -> tuple[int, int]:
    """Start and end of a node in the parsed text."""
    start, end = node.range
    return start, end


def children(node: Node) -> Iterator[Node]:
    """The child nodes of a node."""
    for value in cast("dict[str, object]", vars(node)).values():
        for item in cast("list[Node]", value) if isinstance(value, list) else (cast("Node", value),):
            if getattr(item, "range", None) is not None and hasattr(item, "type"):
                yield item


def member_name(node: Node) -> str | int | None:
    """The name or index of a member expression; None when it is computed."""
    if not node.computed:
        return key_name(node.property)
    value = node.property.value if node.property.type == "Literal" else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def contains(outer: Node, inner: Node) -> bool:
    """Whether a node is another one, or holds it."""
    (start, end), (inner_start, inner_end) = span(outer), span(inner)
    return start <= inner_start and inner_end <= end


def key_name(node: Node) -> str:
    """The name of a key that is not computed."""
    return node.name if node.type in {"Identifier", "PrivateIdentifier"} else str(node.value)


def declared_names(pattern: Node) -> Iterator[Node]:
    """Every identifier that a pattern declares."""
    pending = [pattern]
    while pending:
        node = pending.pop()
        if node.type == "Identifier":
            yield node
        elif node.type == "Property":
            pending.append(node.value)
        elif node.type == "AssignmentPattern":
            pending.append(node.left)
        else:
            pending.extend(children(node))
