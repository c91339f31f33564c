"""Patterns of JSON Schemas that an operator writes, searched in texts that callers send.

They mean what Python's `re` reads in them. But that backtracks while it holds the interpreter, so that an ordinary
pattern may stop a server for seconds: pydantic's engine, whose time grows with the text alone, is given the same in its
own words. What it has no words for is left to `re`, in short texts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

MAX_BACKTRACKED: Final = 4_096
"""Characters of the longest text in which `re` searches: some 50 ms for a pattern that takes quadratic time."""

MAX_REPEATED_WORDS: Final = 32
"""Counts of a pattern with `\\w`, multiplied: of more, the engine is slow where words are those of Unicode."""

_ASCII: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t-\r\x1c-\x20"}
_UNICODE: Final = {"d": r"\d", "w": r"\p{L}\p{N}_", "s": r"\s\x1c-\x1f"}
"""What the classes mean in Python, in ASCII texts and in others."""

_ATOM: Final = r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[nrtfva]|[^0-9A-Za-z])"
_MEMBER: Final = rf"\\[dDwWsS]|(?:{_ATOM}|[^\\\]])(?:-(?:{_ATOM}|[^\\\]]))?"
_TOKEN: Final = re.compile(
    rf"""(?P<flags>\A\(\?[is]+\))
      | (?P<open>\((?:\?:|\?P<[A-Za-z_][0-9A-Za-z_]*>|(?!\?)))
      | (?P<plain>[.^]|\\[bA])
      | (?P<repeat>(?:[*+?]|\{{(?!\}})(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}})\??(?!\+))
      | \[(?P<negated>\^?)(?P<members>(?:{_MEMBER})+)\]
      | \\(?P<class>[dDwWsS])
      | (?P<atom>{_ATOM}|[^\\\[(){{.^$|*+?]|\{{(?!(?!\}})\d*,?\d*\}}))
      | (?P<other>[)|$]|\\Z)""",
    re.VERBOSE | re.DOTALL,
)
"""A part of a pattern that both engines have; not what looks around or back, nor what gives nothing back (`a++`)."""
_MEMBERS: Final = re.compile(
    rf"\\(?P<class>[dDwWsS])|(?P<first>{_ATOM}|[^\\\]])(?:-(?P<last>{_ATOM}|[^\\\]]))?", re.DOTALL
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FOLDS: Final = re.compile(r"\(\?s?i")


class TextTooLongError(ValueError):
    """A text is too long to be searched for a pattern."""

    def __init__(self, pattern: str, size: int, most: int = MAX_BACKTRACKED) -> None:
        super().__init__(f"the pattern {pattern!r:.80} takes at most {most:,} characters, and a text has {size:,}")


def search(pattern: str, text: str) -> bool:
    """Whether a pattern matches somewhere in a text.

    Raises:
        TextTooLongError: that might take long.
    """
    is_ascii = text.isascii()
    if (matcher := _compile(pattern, ascii_only=is_ascii)) is None:
        if len(text) > MAX_BACKTRACKED:
            raise TextTooLongError(pattern, len(text))
        return re.search(pattern, text) is not None
    if not is_ascii:
        text = _SURROGATE.sub("\ufffd", text)  # the engine takes no text with one
        text = _with_plain_i(text) if _FOLDS.match(pattern) else text
    return matcher.isinstance_python(text)


@lru_cache(maxsize=512)
def _compile(pattern: str, *, ascii_only: bool) -> SchemaValidator | None:
    """What finds a pattern in linear time; None where the engine cannot."""
    written = _translate(pattern, _ASCII if ascii_only else _UNICODE)
    try:
        return None if written is None else SchemaValidator(core_schema.str_schema(pattern=written))
    except SchemaError:
        return None  # it is too large


def _translate(pattern: str, classes: dict[str, str]) -> str | None:
    """A pattern in the words of the other engine, if it has them."""
    parts: list[str] = []
    repeats, at = 1, 0
    if _FOLDS.match(pattern):
        pattern = _with_plain_i(pattern)
    ended = [[False, False]]
    """Of each open group, whether `$` ended this alternative, and whether it ended another."""
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        at, part = token.end(), token[0]
        if part == "|":
            ended[-1] = [False, any(ended[-1])]
        elif part == ")":
            closed = any(ended.pop())
            if not ended:
                return None
            ended[-1][0] |= closed
        elif ended[-1][0]:
            return None  # Python's `$` may stand before a line end, which this part might match
        elif part == "$":
            ended[-1][0] = True
        elif token["open"]:
            ended.append([False, False])
        if token["comma"] is not None:
            repeats *= max(int(token["least"] or 1), int(token["most"] or 1), 1)
        parts.append(_translate_token(token, classes))
    if classes is _UNICODE and repeats > MAX_REPEATED_WORDS and re.search(r"\\[wW]", pattern):
        return None
    return "".join(parts)


def _with_plain_i(text: str) -> str:
    """Those with a dot above or without one are an `i` of another case to Python alone."""
    return text.replace("\u0130", "i").replace("\u0131", "i")


def _translate_token(token: re.Match[str], classes: dict[str, str]) -> str:
    if token["comma"] is not None:
        return f"{{{token['least'] or 0}{token['comma']}{token['most']}}}"
    if token["members"]:
        members = (
            _class(member["class"], classes)
            if member["class"]
            else "-".join(_literal(atom) for atom in member.group("first", "last") if atom)
            for member in _MEMBERS.finditer(token["members"])
        )
        return f"[{token['negated']}{''.join(members)}]"
    if token["class"]:
        return _class(token["class"], classes)
    if token["atom"]:
        return _literal(token["atom"])
    return {"$": r"(?:\n?\z)", r"\Z": r"\z"}.get(token[0], token[0])


def _class(letter: str, classes: dict[str, str]) -> str:
    return f"[{'^' if letter.isupper() else ''}{classes[letter.lower()]}]"


def _literal(atom: str) -> str:
    """One character, so that no engine reads more in it."""
    if re.match(r"\\[0-9A-Za-z]", atom):
        return atom
    return atom[-1] if atom[-1].isalnum() else f"\\x{{{ord(atom[-1]):x}}}"
