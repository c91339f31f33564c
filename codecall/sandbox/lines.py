"""The lines of a text: from offsets to lines and columns and back, and the text of a line.

A line ends at a line feed, a carriage return, or both: not at the other characters at which `str.splitlines` splits.
The engine and the parser end lines at line feeds; they refuse a lone carriage return, which ends one here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Final

MAX_EXCERPT: Final = 160
"""Most characters of a line in an excerpt, marks not counted. Longer lines are cut around the place."""

_MARK: Final = "…"

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class LineTable:
    """The lines of a text. There is at least one; the last is what follows the last line end.

    Args:
        source: The text. It is searched for line ends when they are first needed.
    """

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        """Where each line end begins, and where it ends."""
        return [end.span() for end in _LINE_END.finditer(self.source)]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end for _, end in self._ends)]

    def __len__(self) -> int:
        """The number of lines."""
        return len(self._starts)

    def line(self, offset: int) -> int:
        """The line, from 1, of the character at `offset`."""
        return bisect_right(self._starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of the character at `offset`, both from 1. A column counts characters (code points)."""
        line = self.line(offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset of a position."""
        return self._starts[line - 1] + column - 1

    def end(self, line: int) -> int:
        """The offset of the last character of the end of a line, or of the end of the text."""
        return self._starts[line] - 1 if line < len(self) else len(self.source)

    def text(self, line: int) -> str:
        """The line of that number, from 1, without its end; empty if there is none."""
        if not 1 <= line <= len(self):
            return ""
        return self.source[self._starts[line - 1] : self._ends[line - 1][0] if line < len(self) else None]

    def texts(self) -> Iterator[str]:
        """All lines, in order, without their ends."""
        return map(self.text, range(1, len(self) + 1))

    def excerpt(self, line: int, column: int) -> str | None:
        """The line of a position without the blanks around it; None when there is no such line, or nothing in it."""
        text = self.text(line)
        if not (stripped := text.strip()):
            return None
        # Of a line that is too long: what is before the place, and twice as much of what is behind it.
        place = max(0, column - 1 - (len(text) - len(text.lstrip())))
        start = max(0, min(place - MAX_EXCERPT // 3, len(stripped) - MAX_EXCERPT))
        end = start + MAX_EXCERPT
        before, after = _MARK if start > 0 else "", _MARK if end < len(stripped) else ""
        return f"{before}{stripped[start:end]}{after}"
