"""What is code and what is text: just enough of a lexer to read a script that may not be parseable, in linear time.

It gives the pieces of a script in order. Where only a parser could tell (is this `/` a division or a regular
expression?) it goes by the token before; where a literal has no end it stops, and leaves the rest to the parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

PieceKind = Literal["blank", "comment", "string", "template", "regex", "word", "sign", "open", "close"]


class Piece(NamedTuple):
    """A stretch of a script."""

    kind: PieceKind
    """`blank` is white space; `word` an identifier, keyword or number; `sign` an operator or a stray character;
    `open` and `close` one bracket each, `${` and its `}` included; a template comes in the parts between those."""
    start: int
    end: int


# One alternative for each first character, possessive throughout: nothing is read twice
_NEXT = re.compile(
    r"""
    (?P<blank>\s++)
  | (?P<comment>//[^\n\r\u2028\u2029]*+)
  | (?P<block>/\*)
  | (?P<word>[\w$\\#\u200c\u200d]++)
  | (?P<quote>["'])
  | (?P<template>`)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<slash>/)
  | (?P<sign>\+\+|--|=>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK = re.compile(r"/\*(?:[^*]|\*(?!/))*+\*/")
_STRINGS = {
    '"': re.compile(r'"(?:[^"\\\n\r]|\\(?:\r\n|.))*+"', re.DOTALL),
    "'": re.compile(r"'(?:[^'\\\n\r]|\\(?:\r\n|.))*+'", re.DOTALL),
}
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*+(?P<end>`|\$\{)", re.DOTALL)
_REGEX = re.compile(r"/(?:[^/\\\[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*+\])++/\w*+")

# After these words a `/` begins a regular expression and a `{` an object
_OPERATOR_WORDS = frozenset(
    {"await", "case", "delete", "in", "instanceof", "new", "of", "return", "throw", "typeof", "void", "yield"}
)
_STATEMENT_WORDS = frozenset({"do", "else"})
_HEADS = frozenset({"if", "while", "for", "with"})


def pieces(script: str) -> Iterator[Piece]:  # noqa: PLR0912, PLR0915 - one branch for each kind of token
    """The pieces of `script`, in order and without gaps, up to its end or to a literal that has none."""
    # For each open bracket: whether a `/` after its closing one begins a regular expression; None marks `${`
    brackets: list[bool | None] = []
    value_next = True  # a value is expected here, so `/` begins a regular expression and `{` an object
    head = False  # the last word was `if` or the like
    block_next = True  # a `{` here begins a block although a value could stand here as well
    at, size = 0, len(script)
    while at < size:
        found = _NEXT.match(script, at)
        if found is None:  # never: its last alternative takes any character
            return
        kind = found.lastgroup
        end = found.end()
        match kind:
            case "blank" | "comment":
                yield Piece(kind, at, end)
                at = end
                continue
            case "block":
                whole = _BLOCK.match(script, at)
                if whole is None:
                    return
                yield Piece("comment", at, whole.end())
                at = whole.end()
                continue
            case "word":
                word = found[0]
                after_dot = at > 0 and script[at - 1] == "."
                yield Piece("word", at, end)
                value_next = not after_dot and (word in _OPERATOR_WORDS or word in _STATEMENT_WORDS)
                block_next = word not in _OPERATOR_WORDS
                head = not after_dot and word in _HEADS
                at = end
                continue
            case "quote":
                whole = _STRINGS[found[0]].match(script, at)
                if whole is None:
                    return
                end = whole.end()
                yield Piece("string", at, end)
                value_next = block_next = False
            case "open":
                yield Piece("open", at, end)
                bracket = found[0]
                if bracket == "(":
                    brackets.append(head)
                else:
                    brackets.append(bracket == "{" and (block_next or not value_next))
                value_next = True
                block_next = bracket == "{"
            case "close":
                yield Piece("close", at, end)
                opened = brackets.pop() if brackets else False
                value_next = bool(opened)
                block_next = True
                if opened is None and found[0] == "}":
                    part = _TEMPLATE.match(script, end)
                    if part is None:
                        return
                    yield from _template_part(part, end)
                    end = part.end()
                    value_next = _enter(part, brackets)
                    block_next = False
            case "template":
                part = _TEMPLATE.match(script, end)
                if part is None:
                    return
                yield from _template_part(part, at)
                end = part.end()
                value_next = _enter(part, brackets)
                block_next = False
            case "slash" if value_next:
                whole = _REGEX.match(script, at)
                if whole is None:
                    return
                end = whole.end()
                yield Piece("regex", at, end)
                value_next = block_next = False
            case _:
                yield Piece("sign", at, end)
                sign = found[0]
                value_next = sign not in ("++", "--")
                block_next = sign in ("=>", ";")
        head = False
        at = end


def _template_part(part: re.Match[str], start: int) -> Iterator[Piece]:
    """The text of one part of a template that begins at `start`, and the `${` that ends it, if one does."""
    if part["end"] == "`":
        yield Piece("template", start, part.end())
    else:
        yield Piece("template", start, part.end() - 2)
        yield Piece("open", part.end() - 2, part.end())


def _enter(part: re.Match[str], brackets: list[bool | None]) -> bool:
    """Go into the `${` that ends a part of a template, if one does; whether a value is expected next."""
    if part["end"] == "`":
        return False
    brackets.append(None)
    return True
