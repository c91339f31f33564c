"""From an offset in a script to its line and column."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from codecall.errors import Location

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class Places:
    """The lines of one script, read when they are asked for."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._starts: list[int] = []

    def at(self, offset: int) -> Location | None:
        """The place of the character at `offset`, from 0; None for one outside the script."""
        if not 0 <= offset <= len(self._script):
            return None
        if not self._starts:
            self._starts = [0, *(end.end() for end in _LINE_END.finditer(self._script))]
        line = bisect_right(self._starts, offset)
        return Location(line, offset - self._starts[line - 1] + 1)
