# pyright: basic, reportMissingTypeStubs=false
"""Tokens of a script: esprima's scanner and token reader, corrected to read exactly as the engine does.

They count nested brackets, and collect what is refused in white space, comments and the characters of a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from esprima import parser
from esprima.scanner import Scanner
from esprima.token import Token

from codecall.sandbox.agentscript.parser.unicode import (
    ODD_SPACE,
    UNSEEN_IN_CODE,
    UNSEEN_IN_COMMENT,
    code_point,
    mixes_alphabets,
    suspicious,
)
from codecall.sandbox.agentscript.policy import MAX_NESTING

_MAX_SHOWN: Final = 60
"""Most characters of a name that a message shows."""

# Only the ASCII white space of the language: the engine, looking ahead for `async function`, overlooks the rest.
# Lines end with \n (see `parse.prescan`)
_BETWEEN_TOKENS = re.compile(
    r"(?:[\t\v\f\r\n ]++"
    r"|//[^\n]*+"
    r"|/\*(?:[^*]++|\*(?!/))*+\*/)*+"
)


class UnsafeSpot(NamedTuple):
    """Something in the text that is refused."""

    row: str
    """Name of its row in `policy.SOURCE`."""
    offset: int
    """Where it is in the parsed text."""
    what: str
    """A description for a message."""


class UnsafeTextError(Exception):
    """The text has something that is refused: `spots`, at least one."""

    def __init__(self, spots: list[UnsafeSpot]) -> None:
        super().__init__(spots[0].what)
        self.spots = spots


def token_start(text: str, start: int, end: int) -> int:
    """Where the next token begins: after the white space and comments from `start` on, at most at `end`.

    A comment without an end is not skipped.
    """
    between = _BETWEEN_TOKENS.match(text, start, end)
    return start if between is None else between.end()


def unsafe_between(text: str, start: int, end: int) -> Iterator[UnsafeSpot]:
    """What is refused in white space and comments."""
    return _unseen(UNSEEN_IN_COMMENT, text, start, end)


def unsafe_at(text: str, index: int, *, fresh_line: bool) -> UnsafeSpot | None:
    """What is refused at the start of a token: an HTML-like comment to the engine, or an invisible character.

    `fresh_line` says that only white space and comments stand before it on its line, comments over several lines
    included.
    """
    character = text[index]
    if character == "<" and text.startswith("<!--", index):
        return UnsafeSpot("HTML-like comment", index, "the HTML-like comment <!--")
    if character == "-" and fresh_line and text.startswith("-->", index):
        return UnsafeSpot("HTML-like comment", index, "the HTML-like comment -->")
    if ODD_SPACE.match(character):
        return UnsafeSpot("unusual white space", index, f"the unusual white space {code_point(character)}")
    if UNSEEN_IN_CODE.match(character):
        return UnsafeSpot("invisible character", index, f"the invisible character {code_point(character)}")
    return None


def unsafe_token(text: str, start: int, end: int, *, is_name: bool) -> Iterator[UnsafeSpot]:
    """What is refused in a token that is neither a string nor a template."""
    yield from _unseen(UNSEEN_IN_CODE, text, start, end)
    name = text[start:end]
    if is_name and mixes_alphabets(name):
        yield UnsafeSpot("mixed alphabets", start, f"a name of mixed alphabets: {name[:_MAX_SHOWN]}")


def _unseen(unseen: re.Pattern[str], text: str, start: int, end: int) -> Iterator[UnsafeSpot]:
    for match in unseen.finditer(text, start, end):
        yield UnsafeSpot("invisible character", match.start(), f"the invisible character {code_point(match[0])}")


class _ExactScanner(Scanner):
    """Esprima's scanner, which reads all text between tokens by one rule and checks it, and the tokens too. It records
    where names are written with escapes, and restores all of its state after a look ahead."""

    def __init__(self, text: str, handler: Any, begin: int) -> None:
        super().__init__(text, handler)
        self.begin = begin
        """Where the script begins in the text."""
        self.escapes: list[int] = []
        self.spots: list[UnsafeSpot] = []
        """What is refused although scanning can continue after it."""
        self.suspicious = suspicious(text)

    def getComplexIdentifier(self):  # noqa: N802 - esprima's name, and so below
        self.escapes.append(self.index)
        return super().getComplexIdentifier()

    def scanPrivateIdentifier(self):  # noqa: N802
        # Esprima takes an escape right after the # for the letters it is written with
        if self.source.startswith("\\", self.index + 1):
            self.escapes.append(self.index + 1)
        return super().scanPrivateIdentifier()

    def testRegExp(self, pattern, flags):  # noqa: N802
        # Esprima's own asks Python's `re`, which knows other expressions; the engine judges them, before anything runs
        del pattern, flags

    def saveState(self):  # noqa: N802
        # A look ahead that reads `{` pushes it; unless that is undone, a template around it ends in the wrong place
        state: Any = super().saveState()
        state.curlyStack = list(self.curlyStack)
        return state

    def restoreState(self, state):  # noqa: N802
        super().restoreState(state)
        self.curlyStack = state.curlyStack

    def scanComments(self):  # noqa: N802
        # Esprima's own knows HTML-like comments, by another rule than the engine's, and white space of older times
        text, start = self.source, self.index
        self.index = end = token_start(text, start, self.length)
        lines = text.count("\n", start, end)
        if lines:
            self.lineNumber += lines
            self.lineStart = text.rindex("\n", start, end) + 1
        if self.suspicious:
            self.spots.extend(unsafe_between(text, start, end))
        if text.startswith("/*", end):
            self.index = self.length
            self.throwUnexpectedToken()  # a comment without an end
        unsafe = unsafe_at(text, end, fresh_line=lines > 0 or start == self.begin) if end < self.length else None
        if unsafe is not None:
            raise UnsafeTextError([*self.spots, unsafe])
        return ()

    def check_token(self, token):
        """Check the characters of a token that is neither a string nor a template."""
        if self.suspicious:
            is_name = token.type in (Token.Identifier, Token.PrivateIdentifier)
            self.spots.extend(unsafe_token(self.source, token.start, token.end, is_name=is_name))


# Type checkers do not finish with what its methods return
_Parser: Any = parser.Parser


class TokenReader(_Parser):
    """Esprima's parser, reading tokens exactly as the engine does."""

    def __init__(self, text: str, begin: int) -> None:
        self.nesting = 0
        """Open brackets of all kinds, those before the script included."""
        self.closed: int | None = None
        """Where the script first closes what it did not open."""
        self.async_arguments = 0
        """Where the arguments begin that were last read as possible parameters of an async arrow function."""
        super().__init__("", options={"range": True, "classProperties": True})
        self.context.strict = True
        self.begin = begin
        self.outside = text.count("{", 0, begin)
        self.scanner: Any = _ExactScanner(text, self.errorHandler, begin)
        self.nextToken()
        self.lastMarker = parser.Marker(self.scanner.index, self.scanner.lineNumber, self.scanner.index)

    def nextToken(self):  # noqa: N802
        """Read and check the next token, and count brackets.

        Esprima's own compares the lines of two tokens to find line ends; strings and templates count by their last
        line.
        """
        token, scanner, last, start = self.lookahead, self.scanner, self.lastMarker, self.startMarker
        last.index, last.line = scanner.index, scanner.lineNumber
        last.column = last.index - scanner.lineStart
        scanner.scanComments()
        start.index, start.line = scanner.index, scanner.lineNumber
        start.column = start.index - scanner.lineStart
        following = scanner.lex()
        self.hasLineTerminator = last.line != start.line
        kind = following.type
        if kind is Token.Punctuator:
            if following.value in ("(", "[", "{"):
                self._open(following)
            elif following.value in (")", "]", "}"):
                self._close(following)
        elif kind is Token.Template:
            if following.head and not following.tail:
                self._open(following)
            elif following.tail and not following.head:
                self._close(following)
        elif kind is not Token.StringLiteral and kind is not Token.EOF:
            if kind is Token.Identifier and scanner.isStrictModeReservedWord(following.value) and self.context.strict:
                following.type = Token.Keyword
            scanner.check_token(following)
        self.lookahead = following
        return token

    def nextRegexToken(self):  # noqa: N802
        """Read and check the regular expression that begins at the next token."""
        token = super().nextRegexToken()
        self.scanner.check_token(token)
        return token

    def _open(self, token):
        self.nesting += 1
        if self.nesting - self.outside > MAX_NESTING:
            what = f"brackets nested deeper than {MAX_NESTING}"
            # Of a template the bracket is its `${`
            offset = token.end - 2 if token.type is Token.Template else token.start
            raise UnsafeTextError([*self.scanner.spots, UnsafeSpot("bracket nesting", offset, what)])

    def _close(self, token):
        self.nesting -= 1
        if self.closed is None and self.nesting < self.outside and self.begin <= token.start < self.scanner.length - 1:
            self.closed = token.start

    def _lex_ahead(self):
        self.scanner.scanComments()
        return self.scanner.lex()

    def parseTemplateElement(self):  # noqa: N802
        """Read part of a template. Esprima's own scans again where a template does not continue: another reading of the
        same text."""
        if self.lookahead.type is not Token.Template:
            self.throwUnexpectedToken(self.lookahead)
        return super().parseTemplateElement()
