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
_TRIED: Final = "1aA" + "".join(map(chr, range(33, 127))) + " "
"""Characters of which one stands for a class."""
_KNOWN_ESCAPES: Final = re.compile(r"\\[dwsDWSbBnrtfv.*+?^$|(){}\[\]\\/-]")
_ODD_IN_CLASS: Final = re.compile(r"(?<!\\)\[|-\\[dws]|&&|--|~~|\\[^dwsnrtfv.*+?^$|(){}\[\]\\/-]|^\^?\]|^\^?$")
"""What the engines read differently within brackets, or what is not read here."""


def certainly_differs(text: str, pattern: str) -> bool:
    """Whether a pattern is sure to match nowhere in a text, nor in it without the blanks around it."""
    matcher = _compile(pattern) if _is_compared(text) else None
    return matcher is not None and not _matches(matcher, text) and not _matches(matcher, text.strip())


def certainly_matches(text: str, pattern: str) -> bool:
    """Whether a pattern is sure to match somewhere in a text."""
    matcher = _compile(pattern) if _is_compared(text) else None
    return matcher is not None and _matches(matcher, text)


def matching_text(pattern: str, least: int = 0, most: int = MAX_TEXT_CHARS) -> str | None:
    """A text of `least` to `most` characters in which a pattern is sure to match; None where none is found: only what
    plain patterns say is tried, and of alternatives the first."""
    if len(pattern) > MAX_TEXT_CHARS or _compile(pattern) is None:
        return None
    for repeats in (1, least):
        text = _spell(pattern, repeats)
        if text is not None and least <= len(text) <= most and certainly_matches(text, pattern):
            return text
    return None


def _spell(pattern: str, repeats: int) -> str | None:
    """A text for a pattern that `_in_ascii` reads, not yet compared with it; what may be repeated without end is
    repeated `repeats` times."""
    groups: list[list[str]] = [[]]
    ended: list[bool] = [False]
    """Whether the first alternative of each open group has ended."""
    for token in _TOKEN.finditer(pattern):
        part = token[0]
        if part.startswith("("):
            groups.append([])
            ended.append(ended[-1])
        elif part == ")":
            if len(groups) == 1:
                return None
            text = "".join(groups.pop())
            ended.pop()
            groups[-1].append("" if ended[-1] else text)
        elif part == "|":
            ended[-1] = True
        elif ended[-1] or part in ("^", "$", r"\b", r"\B"):
            continue
        elif part in ("*", "+", "?") or token["count"]:
            if not groups[-1]:
                return None
            count = int(token["least"] or 0) if token["count"] else int(part == "+")
            if part in ("*", "+") or part.endswith(",}"):
                count = max(count, repeats)
            if len(groups[-1][-1]) * count > MAX_TEXT_CHARS:
                return None
            groups[-1][-1] *= count
        else:
            spelled = _token_in_ascii(token) or ""
            groups[-1].append(_member(spelled) if spelled.startswith("[") else "a" if part == "." else part[-1])
    return "".join(groups[0]) if len(groups) == 1 else None


def _member(characters: str) -> str:
    """The first of `_TRIED` that a class has; empty if it has none of them."""
    found = re.search(characters, _TRIED)
    return found[0] if found else ""


def _is_compared(text: str) -> bool:
    return len(text) <= MAX_TEXT_CHARS and text.isascii() and "\n" not in text and "\r" not in text


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
