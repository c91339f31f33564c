# pyright: basic, reportMissingTypeStubs=false
"""The scanner of the scripts: esprima's, but that all text between two tokens is read by one rule."""

from __future__ import annotations

from typing import Any

from esprima.scanner import Scanner
from esprima.token import Token

from codecall.sandbox.agentscript.characters import suspicious
from codecall.sandbox.agentscript.unsafe import (
    Unsafe,
    UnsafeText,
    token_start,
    unsafe_at,
    unsafe_between,
    unsafe_token,
)


class _ExactScanner(Scanner):
    """Esprima's scanner, but that what stands between tokens is read by one rule, and looked at; so are the tokens.
    It remembers where names are written with escapes, and what a look ahead undoes."""

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

    def scanPrivateIdentifier(self):  # noqa: N802
        # Esprima takes an escape right behind the # for the letters it is written with
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
            self.found.extend(unsafe_between(text, start, end))
        if text.startswith("/*", end):
            self.index = self.length
            self.throwUnexpectedToken()  # a comment without an end
        unsafe = unsafe_at(text, end, fresh_line=lines > 0 or start == self.begin) if end < self.length else None
        if unsafe is not None:
            raise UnsafeText([*self.found, unsafe])
        return ()

    def look_at(self, token):
        """Look at the characters of a token that is neither a string nor a template."""
        if self.suspicious:
            is_name = token.type in (Token.Identifier, Token.PrivateIdentifier)
            self.found.extend(unsafe_token(self.source, token.start, token.end, is_name=is_name))


def exact_scanner(text: str, handler: Any, begin: int) -> Any:
    """A scanner of `text` that reports errors to `handler`. The script begins at `begin`.

    Beyond esprima's, it has `found`, what it met that is refused; `escapes`, the offsets of names written with
    escapes; and `look_at(token)`, for tokens that are neither strings nor templates. Scanning raises `UnsafeText`
    where it cannot go on behind what is refused.
    """
    return _ExactScanner(text, handler, begin)
