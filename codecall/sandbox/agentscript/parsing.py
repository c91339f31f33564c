"""From a script to its statements. The script is read as the body of an async arrow function in strict mode, which is
how the realm runs it: top-level `await` and `return` work. Whatever is wrong is told in terms of the script as sent."""

from __future__ import annotations

import re
import sys
from typing import Final

from codecall.sandbox.agentscript.findings import Mark, refusal
from codecall.sandbox.agentscript.grammar import Node, NotParseable, tree
from codecall.sandbox.agentscript.policy import SOURCE
from codecall.sandbox.agentscript.prescan import source_mark
from codecall.sandbox.agentscript.unsafe import UnsafeText

PREFIX: Final = "async()=>{"
_SUFFIX: Final = "\n}"

_MAX_FRAMES: Final = 12_000
"""Stack frames the parser may use: it takes about 20 for each bracket, of which it reads 64 in each other, and the
rest is for nesting without brackets, such as long `else if` chains (some thousands)."""

_AWAIT = re.compile(r"\bawait\s+$")
_AFTER_NAME = re.compile(r"[\w)]\s*$")


def parse(script: str) -> tuple[list[Node], list[int]]:
    """The statements of `script`, and the offsets of names in it that are written with escapes.

    Ranges of the nodes count from the start of the wrapped text: take `len(PREFIX)` off.

    Raises:
        Refused: not parseable (SYNTAX_ERROR), or with text that deceives or is nested beyond the parser's means
            (UnsafeSource).
    """
    wrapped = f"{PREFIX}{script}{_SUFFIX}"
    frames = sys.getrecursionlimit()
    sys.setrecursionlimit(max(frames, _MAX_FRAMES))
    try:
        program, escapes = tree(wrapped, len(PREFIX))
    except RecursionError:
        row = SOURCE["expression nesting"]
        raise refusal(script, [Mark(0, row.kind, "Script is nested too deeply", row.instead)]) from None
    except UnsafeText as unsafe:
        marks = [source_mark(row, offset - len(PREFIX), what) for row, offset, what in unsafe.found]
        raise refusal(script, marks) from None
    except NotParseable as error:
        offset = 0 if error.offset is None else error.offset - len(PREFIX)
        raise refusal(script, [_syntax_error(script, offset, error.message)]) from None
    finally:
        sys.setrecursionlimit(frames)

    # One function is all there is: whatever closes it before its end has been refused
    statements: list[Node] = program.body[0].expression.body.body
    return statements, [offset - len(PREFIX) for offset in escapes]


def _syntax_error(script: str, offset: int, message: str) -> Mark:
    """A syntax error in words that fit the script as sent: the parser's own speak of the wrapped text."""
    hint = None
    offset = min(max(offset, 0), len(script))
    if offset == len(script) and message.startswith("Unexpected"):
        message = "Unexpected end of input"
        hint = "Something is left open: close every bracket, string and template."
    elif _AWAIT.search(script, max(0, offset - 50), offset):
        hint = "`await` works at top level and in async functions: mark the function around it `async`."
    elif script.startswith(":", offset) and _AFTER_NAME.search(script, max(0, offset - 50), offset):
        hint = "Write plain JavaScript, without types."
    line = script.count("\n", 0, offset) + 1
    return Mark(offset, None, f"{message.rstrip('.')} at line {line}", hint, "SYNTAX_ERROR")
