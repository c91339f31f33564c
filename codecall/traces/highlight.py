"""Colours for the script of a page: comments, texts, numbers and keywords, found by their look alone.

Nothing but colours depends on it, so it need not parse: a regular expression may look like a comment.
Each character of the script is kept, and read once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from codecall.traces.escape import escape_html

CLASSES: Final = ("comment", "text", "number", "keyword")
"""Classes of the elements that the page colours."""

_KEYWORDS: Final = [
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "else",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "get",
    "if",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "of",
    "return",
    "set",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "type",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "yield",
]

_STARLARK_KEYWORDS: Final = (
    *("and", "break", "continue", "def", "elif", "else", "False", "for", "if", "in", "lambda", "None", "not", "or"),
    *("pass", "return", "True"),
)


def _tokens(comment: str, text: str, keyword: str) -> re.Pattern[str]:
    number = r"\b[0-9][\w.]*"
    parts = rf"(?P<comment>{comment})|(?P<text>{text})|(?P<number>{number})|(?P<keyword>{keyword})|[\w$]+"
    return re.compile(parts, re.DOTALL)


_QUOTED: Final = r"\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?"
_JAVASCRIPT: Final = _tokens(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)", rf"{_QUOTED}|`(?:[^`\\]|\\.)*`?", rf"\b(?:{'|'.join(_KEYWORDS)})\b(?!\s*:)"
)
_STARLARK: Final = _tokens(
    r"#[^\n]*", rf"\"\"\".*?(?:\"\"\"|\Z)|'\'\'.*?(?:'\'\'|\Z)|{_QUOTED}", rf"\b(?:{'|'.join(_STARLARK_KEYWORDS)})\b"
)


def highlight_lines(lines: Sequence[str], language: str = "javascript") -> list[str]:
    """The lines of a script as HTML, each with whole elements: what spans lines is coloured in each of them."""
    script, at = "\n".join(lines), 0
    parts: list[str] = []
    for token in (_STARLARK if language == "starlark" else _JAVASCRIPT).finditer(script):
        if token.lastgroup is None:
            continue
        parts.append(escape_html(script[at : token.start()]))
        parts.append("\n".join(_coloured(part, token.lastgroup) for part in token[0].split("\n")))
        at = token.end()
    parts.append(escape_html(script[at:]))
    return "".join(parts).split("\n")


def _coloured(text: str, name: str) -> str:
    return f'<span class="{name}">{escape_html(text)}</span>' if text else ""
