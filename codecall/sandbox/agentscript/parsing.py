"""From a script to its statements. The script is read as the body of an async arrow function in strict mode, which is
how the realm runs it: top-level `await` and `return` work. Whatever is wrong is told in terms of the script as sent."""

from __future__ import annotations

import re
import sys
from typing import Final, cast

from codecall.sandbox.agentscript.findings import Mark, refusal
from codecall.sandbox.agentscript.grammar import Node, NotParseable, tree
from codecall.sandbox.agentscript.lexing import pieces
from codecall.sandbox.agentscript.policy import SOURCE

PREFIX: Final = "async()=>{"
_SUFFIX: Final = "\n}"

_MAX_FRAMES: Final = 12_000
"""Stack frames the parser may use: it takes about 20 for each bracket, of which the pre-scan lets 64 through, and the
rest is for nesting without brackets, such as long `else if` chains (some thousands)."""

_SEPARATORS = str.maketrans("\u2028\u2029", "\u2027\u2027")
_AWAIT = re.compile(r"\bawait\s+$")
_AFTER_NAME = re.compile(r"[\w)]\s*$")


def parse(script: str) -> tuple[list[Node], list[int]]:
    """The statements of `script`, and the offsets of names in it that are written with escapes.

    Ranges of the nodes count from the start of the wrapped text: take `len(PREFIX)` off.

    Raises:
        Refused: not parseable (SYNTAX_ERROR), or nested beyond the parser's means (UnsafeSource).
    """
    # The separators may stand in strings, where esprima still follows the older rule; offsets stay what they are
    body = script if script.isascii() else script.translate(_SEPARATORS)
    wrapped = f"{PREFIX}{body}{_SUFFIX}"
    frames = sys.getrecursionlimit()
    sys.setrecursionlimit(max(frames, _MAX_FRAMES))
    try:
        program, escapes = tree(wrapped)
    except RecursionError:
        row = SOURCE["expression nesting"]
        raise refusal(script, [Mark(0, row.kind, "Script is nested too deeply", row.instead)]) from None
    except NotParseable as error:
        offset = 0 if error.offset is None else error.offset - len(PREFIX)
        raise refusal(script, [_syntax_error(script, offset, error.message)]) from None
    finally:
        sys.setrecursionlimit(frames)

    function = _only_function(program)
    if function is None or function.body.range[1] != len(wrapped):
        offset = _early_end(program) - len(PREFIX)
        raise refusal(script, [_syntax_error(script, offset, "Unexpected token }")])
    statements: list[Node] = function.body.body
    return statements, [offset - len(PREFIX) for offset in escapes]


def _only_function(program: Node) -> Node | None:
    """The arrow function that is all of the program; None when the script closed it and went on."""
    statements: list[Node] = program.body
    expression: Node = statements[0].expression if len(statements) == 1 else None
    return expression if expression is not None and expression.type == "ArrowFunctionExpression" else None


def _early_end(program: Node) -> int:
    """Where the script closed the function around it: the place of that brace."""
    node: Node = program.body[0]
    while node.type != "ArrowFunctionExpression":
        start: int = node.range[0]
        children = (getattr(node, name) for name in ("expression", "expressions", "left", "callee", "object", "test"))
        flat = (cast("list[Node]", child)[0] if isinstance(child, list) else child for child in children)
        node = next((child for child in flat if child is not None and child.range and child.range[0] == start), None)
        if node is None:
            return len(PREFIX)
    end: int = node.body.range[1]
    return end - 1


def _syntax_error(script: str, offset: int, message: str) -> Mark:
    """A syntax error in words that fit the script as sent: the parser's own speak of the wrapped text."""
    hint = None
    offset = min(max(offset, 0), len(script))
    stray = _stray_bracket(script, offset)
    if stray is not None:
        offset, message = stray, f"Unexpected token {script[stray]}"
    elif offset == len(script) and message.startswith("Unexpected"):
        message = "Unexpected end of input"
        hint = "Something is left open: close every bracket, string and template."
    elif _AWAIT.search(script, max(0, offset - 50), offset):
        hint = "`await` works at top level and in async functions: mark the function around it `async`."
    elif script.startswith(":", offset) and _AFTER_NAME.search(script, max(0, offset - 50), offset):
        hint = "Write plain JavaScript, without types."
    line = script.count("\n", 0, offset) + 1
    return Mark(offset, None, f"{message.rstrip('.')} at line {line}", hint, "SYNTAX_ERROR")


def _stray_bracket(script: str, end: int) -> int | None:
    """The first closing bracket before `end` that closes nothing in the script."""
    depth = 0
    for piece in pieces(script):
        if piece.start > end:
            break
        if piece.kind == "open":
            depth += 1
        elif piece.kind == "close":
            depth -= 1
            if depth < 0:
                return piece.start
    return None
