"""From a script to its statements. The script is read as the body of an async arrow function in strict mode, which is
how the realm runs it: top-level `await` and `return` work. Whatever is wrong is told in terms of the script as sent."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

from codecall.sandbox.agentscript.checked import Violation, invalid_script
from codecall.sandbox.agentscript.foreign_words import syntax_hint
from codecall.sandbox.agentscript.parser.esprima import Node, NotParseable, parse_program
from codecall.sandbox.agentscript.parser.tokens import UnsafeText
from codecall.sandbox.agentscript.parser.unicode import BIDI, code_point
from codecall.sandbox.agentscript.policy import MAX_LINE_LENGTH, MAX_SCRIPT_BYTES, SOURCE

# ----------------------------------------------------------------------------------------------------
# What is wrong with a script as raw text, before it is parsed, wherever in it: no rule here asks what is code and

_SURROGATE = re.compile("[\ud800-\udfff]")
_SEPARATOR = re.compile("[\u2028\u2029]")
_CARRIAGE_RETURN = re.compile(r"\r(?!\n)")
_LINE = re.compile("[^\n\r]+")


def prescan(script: str) -> list[Violation]:
    """What is wrong with the text of `script`, in no order; empty for nearly every script. Linear time."""
    if len(script) > MAX_SCRIPT_BYTES:
        return [_size(script, offset=MAX_SCRIPT_BYTES)]
    plain = script.isascii()
    if not plain:
        unpaired = _SURROGATE.search(script)
        if unpaired is not None:
            what = f"the unpaired surrogate {code_point(unpaired[0])}"
            return [source_violation("unpaired surrogate", unpaired.start(), what)]
        encoded = script.encode()
        if len(encoded) > MAX_SCRIPT_BYTES:
            return [_size(script, offset=len(encoded[:MAX_SCRIPT_BYTES].decode(errors="ignore")))]

    marks: list[Violation] = []
    if "\0" in script:
        marks.append(source_violation("NUL character", script.index("\0"), "a NUL character"))
    if script.startswith("#!"):
        marks.append(source_violation("hashbang", 0, "a hashbang line"))
    if len(script) > MAX_LINE_LENGTH:
        marks.extend(_long_lines(script))
    if "\r" in script:
        marks.extend(
            source_violation("lone carriage return", found.start(), "a carriage return that is not part of a line end")
            for found in _CARRIAGE_RETURN.finditer(script)
        )
    if not plain:
        marks.extend(
            source_violation("line separator", found.start(), f"the line separator {code_point(found[0])}")
            for found in _SEPARATOR.finditer(script)
        )
        marks.extend(
            source_violation(
                "bidirectional control", found.start(), f"the bidirectional control {code_point(found[0])}"
            )
            for found in BIDI.finditer(script)
        )
    return marks


def source_violation(row: str, offset: int, what: str) -> Violation:
    """The finding that row `row` of `SOURCE` describes: the script has `what` at `offset`."""
    return Violation(offset, SOURCE[row].kind, f"Script has {what}", SOURCE[row].instead)


def _long_lines(script: str) -> Iterator[Violation]:
    for line in _LINE.finditer(script):
        if line.end() - line.start() > MAX_LINE_LENGTH:
            place = line.start() + MAX_LINE_LENGTH
            yield source_violation("line length", place, f"a line longer than {MAX_LINE_LENGTH} characters")


def _size(script: str, *, offset: int) -> Violation:
    return source_violation("script length", min(offset, len(script)), f"more than {MAX_SCRIPT_BYTES} bytes")


# ----------------------------------------------------------------------------------------------------
# From a script to its statements. The script is read as the body of an async arrow function in strict mode, which is

PREFIX: Final = "async()=>{"
_SUFFIX: Final = "\n}"

_MAX_FRAMES: Final = 12_000
"""Stack frames the parser may use: it takes about 20 for each bracket, of which it reads 64 in each other, and the
rest is for nesting without brackets, such as long `else if` chains (some thousands)."""

_AWAIT = re.compile(r"\bawait\s+$")

_MAX_LINE: Final = 500
"""Characters of a line that are looked at for a hint."""
# What stands between quotes, and comments: words of people
_TEXTS = re.compile(r"""(?P<quote>["'`])(?:(?!(?P=quote))[^\\\n]|\\.)*+(?P=quote)|//.*""")


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
        program, escapes = parse_program(wrapped, len(PREFIX))
    except RecursionError:
        row = SOURCE["expression nesting"]
        raise invalid_script(script, [Violation(0, row.kind, "Script is nested too deeply", row.instead)]) from None
    except UnsafeText as unsafe:
        marks = [source_violation(row, offset - len(PREFIX), what) for row, offset, what in unsafe.spots]
        raise invalid_script(script, marks) from None
    except NotParseable as error:
        offset = 0 if error.offset is None else error.offset - len(PREFIX)
        raise invalid_script(script, [_syntax_error(script, offset, error.message)]) from None
    finally:
        sys.setrecursionlimit(frames)

    # One function is all there is: whatever closes it before its end has been refused
    statements: list[Node] = program.body[0].expression.body.body
    return statements, [offset - len(PREFIX) for offset in escapes]


def _syntax_error(script: str, offset: int, message: str) -> Violation:
    """A syntax error in words that fit the script as sent: the parser's own speak of the wrapped text."""
    offset = min(max(offset, 0), len(script))
    if offset == len(script) and message.startswith("Unexpected"):
        message = "Unexpected end of input"
    line = script.count("\n", 0, offset) + 1
    hint = _syntax_hint(script, offset, message)
    return Violation(offset, None, f"{message.rstrip('.')} at line {line}", hint, "SYNTAX_ERROR")


def _syntax_hint(script: str, offset: int, message: str) -> str | None:
    """What to do about it, by what stands before the place, else by what the line looks like, else by the message."""
    if _AWAIT.search(script, max(0, offset - 50), offset):
        return "`await` works at top level and in async functions: mark the function around it `async`."
    start, end = script.rfind("\n", 0, offset) + 1, script.find("\n", offset)
    line = _TEXTS.sub('""', script[start : end if end >= 0 else None][:_MAX_LINE])
    return syntax_hint(message, line)
