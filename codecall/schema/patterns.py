"""Patterns of JSON Schemas that strangers may have written, compared in linear time.

A pattern means what ECMAScript, Python and Rust agree on, or nothing is said about it: the engine is that of pydantic,
which knows no backtracking, and only ASCII texts of one line are compared, on which the three differ least.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

MAX_TEXT_CHARS: Final = 1_000
"""Characters of the longest text that is compared."""

MAX_PATTERN_SIZE: Final = 8_192
"""Characters of a pattern, multiplied by its repetitions: what is larger takes milliseconds to read."""

_CLASSES: Final = {r"\d": "0-9", r"\w": "_0-9A-Za-z", r"\s": r" \t-\r"}
"""What the classes mean in ECMAScript; with all of Unicode they are large. Each ends with a range, so that a hyphen
behind it is none."""

_TOKEN: Final = re.compile(
    r"""(?P<class>\[(?:\\.|[^\\\]])+\])    # within brackets
      | (?P<escape>\\.)
      | (?P<count>\{(?P<least>\d+)(?:,(?P<most>\d*))?\})
      | \((?:\?:|(?!\?))
      | [^\\\[{}(]""",
    re.VERBOSE | re.DOTALL,
)
_KNOWN_ESCAPES: Final = re.compile(r"\\[dwsDWSbBnrtfv.*+?^$|(){}\[\]\\/-]")
_ODD_IN_CLASS: Final = re.compile(r"(?<!\\)\[|-\\[dws]|&&|--|~~|\\[^dwsnrtfv.*+?^$|(){}\[\]\\/-]|^\^?\]|^\^?$")
"""What the engines read differently within brackets, or what is not read here."""


def certainly_differs(text: str, pattern: str) -> bool:
    """Whether a pattern is sure to match nowhere in a text, nor in it without the blanks around it."""
    if len(text) > MAX_TEXT_CHARS or not text.isascii() or "\n" in text or "\r" in text:
        return False
    matcher = _compile(pattern)
    return matcher is not None and not _matches(matcher, text) and not _matches(matcher, text.strip())


def _matches(matcher: SchemaValidator, text: str) -> bool:
    try:
        matcher.validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _compile(pattern: str) -> SchemaValidator | None:
    """What compares texts with a pattern; None where nothing is certain."""
    written = _in_ascii(pattern)
    try:
        return None if written is None else SchemaValidator(core_schema.str_schema(pattern=written))
    except SchemaError:
        return None


def _in_ascii(pattern: str) -> str | None:
    """A pattern with its classes spelled out; None for one that the engines may read differently, or that is large."""
    parts: list[str] = []
    size, at = len(pattern), 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        part = _token_in_ascii(found) if found is not None else None
        if found is None or part is None:
            return None
        if found["count"]:
            size *= max(int(found["least"]), int(found["most"] or 0), 1)
        if size > MAX_PATTERN_SIZE:
            return None
        parts.append(part)
        at = found.end()
    return "".join(parts)


def _token_in_ascii(token: re.Match[str]) -> str | None:
    part = token[0]
    if token["class"]:
        odd = _ODD_IN_CLASS.search(part[1:-1])
        return None if odd else re.sub(r"\\.", lambda escape: _CLASSES.get(escape[0], escape[0]), part)
    if not token["escape"]:
        return part
    if (members := _CLASSES.get(part.lower())) is not None:
        return f"[{'^' if part[1].isupper() else ''}{members}]"
    return part if _KNOWN_ESCAPES.fullmatch(part) else None
