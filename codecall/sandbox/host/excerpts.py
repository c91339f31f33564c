"""The line of a script that an error is about: taken from the script as it was sent, never from what a worker says."""

from __future__ import annotations

import re
from typing import Final

from codecall.errors import Location

MAX_EXCERPT: Final = 160
"""Most characters of a line that are shown, marks not counted. Longer lines are cut around the place."""

_MARK: Final = "…"
_LINE_END = re.compile(r"\r\n|\n|\r")


def excerpt(script: str, location: Location) -> str | None:
    """The line of `script` at `location` without the blanks around it; None when there is no such line, or nothing in
    it. What nobody would see is written as an escape."""
    line = _line(script, location.line)
    if line is None or not (text := line.strip()):
        return None
    # Of a line that is too long: what is before the place, and twice as much of what is behind it.
    place = max(0, location.column - 1 - (len(line) - len(line.lstrip())))
    start = max(0, min(place - MAX_EXCERPT // 3, len(text) - MAX_EXCERPT))
    end = start + MAX_EXCERPT
    shown = "".join(map(_visible, text[start:end]))
    before = _MARK if start > 0 else ""
    return f"{before}{shown}{_MARK if end < len(text) else ''}"


def _line(script: str, number: int) -> str | None:
    start = 0
    for _ in range(number - 1):
        found = _LINE_END.search(script, start)
        if found is None:
            return None
        start = found.end()
    last = _LINE_END.search(script, start)
    return script[start : last.start() if last else len(script)]


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character == "\t" else f"\\u{{{ord(character):X}}}"
