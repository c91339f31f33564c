# pyright: basic, reportMissingTypeStubs=false
# esprima has no types; see grammar.py
"""The scanner of the scripts: esprima's, with white space and comments read here, and its tokens looked at.

What a character means depends on whether it stands in code, in a comment or in a literal, and only the parser knows:
a `/` divides or begins a regular expression. So nothing guesses. Every rule about such characters holds for exactly
the tokens, and the text between them, of the parse whose tree the guard walks.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from esprima.scanner import Scanner

from codecall.sandbox.agentscript.characters import (
    UNSEEN_IN_CODE,
    UNSEEN_IN_COMMENT,
    code_point,
    mixes_alphabets,
    suspicious,
)

# White space as the language has it now, but for U+FEFF, which is refused; lines end with \n (see prescan.py)
_BETWEEN_TOKENS = re.compile(
    r"(?:[\t\v\f\r\n \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]++"
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


class UnsafeText(Exception):  # noqa: N818 - reads as the verdict it is
    """The text has something that is refused: `found`, at least one."""

    def __init__(self, found: list[Unsafe]) -> None:
        super().__init__(found[0].what)
        self.found = found


class ExactScanner(Scanner):
    """Esprima's scanner, which also remembers where names are written with escapes, and what a look ahead undoes."""

    def __init__(self, text: str, handler: Any, begin: int) -> None:
        super().__init__(text, handler)
        self.begin = begin
        """Where the script begins in the text."""
        self.escapes: list[int] = []
        self.found: list[Unsafe] = []
        """What is refused although scanning can go on behind it."""
        self.suspicious = suspicious(text)

    def getComplexIdentifier(self):  # noqa: N802 - esprima's name, and so below
        self.escapes.append(self.index)
        return super().getComplexIdentifier()

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
        between = _BETWEEN_TOKENS.match(text, start, self.length)
        end = start if between is None else between.end()
        lines = 0
        if end != start:
            self.index = end
            lines = text.count("\n", start, end)
            if lines:
                self.lineNumber += lines
                self.lineStart = text.rindex("\n", start, end) + 1
            if self.suspicious:
                self._look(UNSEEN_IN_COMMENT, start, end)
        self._refuse_at(end, fresh_line=lines > 0 or start == self.begin)
        return ()

    def look_at(self, token) -> None:
        """Look at the characters of a token that is neither a string nor a template."""
        if not self.suspicious:
            return
        start, end = token.start, token.end
        self._look(UNSEEN_IN_CODE, start, end)
        name = self.source[start:end]
        if name[0] not in "/." and not name[0].isdigit() and mixes_alphabets(name):
            self.found.append(Unsafe("mixed alphabets", start, f"a name of mixed alphabets: {name[:60]}"))

    def _look(self, unseen: re.Pattern[str], start: int, end: int) -> None:
        self.found.extend(
            Unsafe("invisible character", found.start(), f"the invisible character {code_point(found[0])}")
            for found in unseen.finditer(self.source, start, end)
        )

    def _refuse_at(self, index: int, *, fresh_line: bool) -> None:
        """Refuse what no token can begin with, and what the engine takes for a comment."""
        text = self.source
        character = text[index]
        if character == "/" and text.startswith("/*", index):
            self.index = self.length
            self.throwUnexpectedToken()  # a comment without an end
        elif character == "<" and text.startswith("<!--", index):
            self._refuse("HTML-like comment", index, "the HTML-like comment <!--")
        elif character == "-" and fresh_line and text.startswith("-->", index):
            self._refuse("HTML-like comment", index, "the HTML-like comment -->")
        elif self.suspicious and UNSEEN_IN_CODE.match(character):
            self._refuse("invisible character", index, f"the invisible character {code_point(character)}")

    def _refuse(self, row: str, offset: int, what: str) -> None:
        raise UnsafeText([*self.found, Unsafe(row, offset, what)])
