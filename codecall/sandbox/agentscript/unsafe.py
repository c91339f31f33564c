"""What the parser's scanner looks at while it reads: the text between two tokens, and the characters of a token.

What a character means depends on whether it stands in code, in a comment or in a literal, and only the parser knows:
a `/` divides or begins a regular expression. So nothing guesses. Every rule about such characters holds for exactly
the tokens, and the text between them, of the parse whose tree the guard walks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from codecall.sandbox.agentscript.characters import (
    ODD_SPACE,
    UNSEEN_IN_CODE,
    UNSEEN_IN_COMMENT,
    code_point,
    mixes_alphabets,
)

_MAX_SHOWN: Final = 60
"""Most characters of a name that a message shows."""

# Of the language's white space, that of ASCII: the engine, looking ahead for `async function`, overlooks the rest.
# Lines end with \n (see prescan.py)
_BETWEEN_TOKENS = re.compile(
    r"(?:[\t\v\f\r\n ]++"
    r"|//[^\n]*+"
    r"|/\*(?:[^*]++|\*(?!/))*+\*/)*+"
)


class Unsafe(NamedTuple):
    """Something in the text that is refused."""

    row: str
    """Its row of `policy.SOURCE`."""
    offset: int
    """Into the parsed text."""
    what: str
    """What the text has there, in words for a message."""


class UnsafeText(Exception):  # noqa: N818 - reads as the verdict it is
    """The text has something that is refused: `found`, at least one."""

    def __init__(self, found: list[Unsafe]) -> None:
        super().__init__(found[0].what)
        self.found = found


def token_start(text: str, start: int, end: int) -> int:
    """Where the next token begins: behind the white space and comments from `start` on, at most at `end`.

    A comment without an end is left where it is.
    """
    between = _BETWEEN_TOKENS.match(text, start, end)
    return start if between is None else between.end()


def unsafe_between(text: str, start: int, end: int) -> Iterator[Unsafe]:
    """What is refused in white space and comments."""
    return _unseen(UNSEEN_IN_COMMENT, text, start, end)


def unsafe_at(text: str, index: int, *, fresh_line: bool) -> Unsafe | None:
    """What is refused at the start of a token: the engine takes it for a comment, or it shows nothing.

    `fresh_line` says that only white space and comments stand before it on its line, comments over several lines
    included.
    """
    character = text[index]
    if character == "<" and text.startswith("<!--", index):
        return Unsafe("HTML-like comment", index, "the HTML-like comment <!--")
    if character == "-" and fresh_line and text.startswith("-->", index):
        return Unsafe("HTML-like comment", index, "the HTML-like comment -->")
    if ODD_SPACE.match(character):
        return Unsafe("unusual white space", index, f"the unusual white space {code_point(character)}")
    if UNSEEN_IN_CODE.match(character):
        return Unsafe("invisible character", index, f"the invisible character {code_point(character)}")
    return None


def unsafe_token(text: str, start: int, end: int, *, is_name: bool) -> Iterator[Unsafe]:
    """What is refused in a token that is neither a string nor a template."""
    yield from _unseen(UNSEEN_IN_CODE, text, start, end)
    name = text[start:end]
    if is_name and mixes_alphabets(name):
        yield Unsafe("mixed alphabets", start, f"a name of mixed alphabets: {name[:_MAX_SHOWN]}")


def _unseen(unseen: re.Pattern[str], text: str, start: int, end: int) -> Iterator[Unsafe]:
    for found in unseen.finditer(text, start, end):
        yield Unsafe("invisible character", found.start(), f"the invisible character {code_point(found[0])}")
