"""The lexer of the package `starlark`, with the escapes that it lacks: `\\uXXXX` and `\\UXXXXXXXX`."""

from __future__ import annotations

import re
from typing import Final

from starlark.syntax import Lexer
from starlark.syntax.errors import SyntaxError as StarlarkError
from starlark.syntax.tokens import Token, TokenKind

from codecall.sandbox.agentscript.parser.unicode import SURROGATE

_LACKED: Final = re.compile(r"invalid escape sequence: \\[uU]\.")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)", re.DOTALL)
_LAST: Final = 0x10FFFF
_DIGITS: Final = {"\\u": "four", "\\U": "eight"}


class ScriptLexer(Lexer):
    """A lexer for one script; every token has its place in the text as sent."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        super().__init__(text, file="")
        self._text = text

    def next_token(self) -> Token:
        """The next token."""
        known = len(self.errors)
        token = super().next_token()
        if token.kind is not TokenKind.STRING or not any(_LACKED.match(e.message) for e in self.errors[known:]):
            return token
        self.errors[known:] = [error for error in self.errors[known:] if not _LACKED.match(error.message)]

        def decoded(escape: re.Match[str]) -> str:
            digits = escape[1] or escape[2]
            if digits is None and escape[0] not in _DIGITS:
                return escape[0]
            number = int(digits, 16) if digits is not None else None
            problem = _problem(escape[0], number)
            if number is not None and problem is None:
                # A quote, a backslash or a line end would not be one of the text.
                return f"\\x{number:02x}" if number < 0x80 else chr(number)
            # Where the package reports its own: behind the backslash.
            place = self.locs.position(token.start + escape.start() + 1)
            self.errors.append(StarlarkError(place, f"invalid escape sequence: {escape[0]}{problem}"))
            return ""

        literal = _ESCAPE.sub(decoded, self._text[token.start : token.end])
        return Token(token.kind, token.start, token.end, Lexer(literal).next_token().value)


def _problem(escape: str, number: int | None) -> str | None:
    """Why an escape stands for no character."""
    if number is None:
        return f" takes {_DIGITS[escape]} hexadecimal digits"
    if number > _LAST:
        return f" is beyond the last character, \\U{_LAST:08X}"
    return " is a surrogate, half of a character" if SURROGATE.match(chr(number)) else None
