# pyright: basic, reportMissingTypeStubs=false
"""Reads the tokens of a script for the parser: where lines end, how deep brackets nest, what each token is made of."""

from __future__ import annotations

from typing import Any

from esprima import parser
from esprima.token import Token

from codecall.sandbox.agentscript.grammar.scanner import exact_scanner
from codecall.sandbox.agentscript.policy import MAX_NESTING
from codecall.sandbox.agentscript.unsafe import Unsafe, UnsafeText

# Type checkers do not come to an end with what its methods give
_Parser: Any = parser.Parser


class TokenReader(_Parser):
    """Esprima's parser, reading tokens exactly as the engine does."""

    def __init__(self, text: str, begin: int) -> None:
        self.nesting = 0
        """Open brackets of all kinds, those before the script included."""
        self.closed: int | None = None
        """Where the script first closes what it did not open."""
        self.async_arguments = 0
        """Where the arguments begin that were last read as what may be parameters of an async arrow function."""
        super().__init__("", options={"range": True, "classProperties": True})
        self.context.strict = True
        self.begin = begin
        self.outside = text.count("{", 0, begin)
        self.scanner: Any = exact_scanner(text, self.errorHandler, begin)
        self.nextToken()
        self.lastMarker = parser.Marker(self.scanner.index, self.scanner.lineNumber, self.scanner.index)

    def nextToken(self):  # noqa: N802
        """The next token, looked at, with brackets counted.

        Esprima's own compares the lines of two tokens to tell where lines end; those of strings and templates are
        where they end.
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
            scanner.look_at(following)
        self.lookahead = following
        return token

    def nextRegexToken(self):  # noqa: N802
        """The regular expression that begins at the next token, looked at."""
        token = super().nextRegexToken()
        self.scanner.look_at(token)
        return token

    def _open(self, token):
        self.nesting += 1
        if self.nesting - self.outside > MAX_NESTING:
            what = f"brackets nested deeper than {MAX_NESTING}"
            # Of a template the bracket is its `${`
            offset = token.end - 2 if token.type is Token.Template else token.start
            raise UnsafeText([*self.scanner.found, Unsafe("bracket nesting", offset, what)])

    def _close(self, token):
        self.nesting -= 1
        if self.closed is None and self.nesting < self.outside and self.begin <= token.start < self.scanner.length - 1:
            self.closed = token.start

    def _lex_ahead(self):
        self.scanner.scanComments()
        return self.scanner.lex()

    def parseTemplateElement(self):  # noqa: N802
        """Esprima scans again where a template does not go on; that would be another reading of the same text."""
        if self.lookahead.type is not Token.Template:
            self.throwUnexpectedToken(self.lookahead)
        return super().parseTemplateElement()
