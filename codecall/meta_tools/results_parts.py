"""Where the parts of a JSON text are: the items of an array, the members of an object.

    [ {"id": 1}, {"id": 2}, … ]          the text is an array: its items
    {"total": 2, "rows": [ … ]}          the text is an object: its members, and the items of those that are arrays

Found once, while a result is put away, so that a script can read some of it without anybody reading all of it. Nothing
is decoded. The texts are JSON already, and of any size: looking at one is a generator that yields after every piece of
work, a few milliseconds at most, and that gives up on what would take too long.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Generator
from typing import Final, TypeAlias

import msgspec

MAX_MEMBERS: Final = 100
"""Members of an object that are found; the first ones."""

MAX_NAME: Final = 200
"""Characters of the name of a member that is found, as JSON."""

STRIDE: Final = 16 * 1024
"""Characters after which the next item is marked: what may have to be read to find one."""

_WINDOW: Final = 64 * 1024
"""Characters that are looked at in one piece: under 2 ms."""

_RUN: Final = 32
"""Items that are tried at once."""

_DEEP: Final = 4
"""Containers within an item that are passed over at once."""

_MAX_STEPS: Final = 1_000_000
"""Brackets, items and members that are looked at one by one: about a second. A text with more has no parts."""

_REST: Final = 1_000
"""Of these, how many between two yields."""

_TEXT: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BLANK: Final = r"[ \t\r\n]*+"


def _inside(depth: int) -> str:
    """What stands between brackets, other brackets included as far as that depth. The text is JSON: they match."""
    deeper = rf"|[\[{{]{_inside(depth - 1)}[\]}}]" if depth else ""
    return rf'(?:{_TEXT}|[^"\[\]{{}}]++{deeper})*+'


_VALUE: Final = rf'(?:{_TEXT}|[^"\[\]{{}},\s]++|[\[{{]{_inside(_DEEP)}[\]}}])'
_ONE: Final = re.compile(_VALUE, re.DOTALL)
_MANY: Final = re.compile(rf"(?:{_VALUE}{_BLANK},{_BLANK}){{{_RUN}}}", re.DOTALL)
_CHARACTERS: Final = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_PLAIN: Final = re.compile(_inside(0), re.DOTALL)
_BRACKET: Final = re.compile(rf"{_inside(0)}([\[\]{{}}])", re.DOTALL)
_BLANKS: Final = re.compile(_BLANK)


class Items(msgspec.Struct, frozen=True, array_like=True):
    """The items of an array."""

    count: int
    marks: tuple[tuple[int, int], ...]
    """Some of them, the first included: number, and offset in the text."""
    end: int
    """Where the closing bracket stands."""

    def span(self, number: int) -> tuple[int, int, int]:
        """Where to look for an item: the number of one at or before it, where that begins, and where to stop."""
        index = bisect_right(self.marks, (number, self.end)) - 1
        known, start = self.marks[index]
        stop = self.marks[index + 1][1] if index + 1 < len(self.marks) else self.end
        # Only the last item before the next mark can be longer than that, and nothing behind it is looked for.
        return known, start, min(stop, start + STRIDE + 2 * _WINDOW)


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One member of an object: where its value stands, and its items if that is an array."""

    start: int
    end: int
    items: Items | None = None


class Parts(msgspec.Struct, frozen=True):
    """What is known of a text; both are None of one that is neither, or where finding out would take too long."""

    items: Items | None = None
    """Of an array."""
    members: dict[str, Member] | None = None
    """Of an object: the first ones, by name."""


class _TooMuch(Exception):  # noqa: N818 - internal signal, named for what happened
    """Looking takes too long."""


Work: TypeAlias = Generator[None, None, int]
"""Gives an offset, in the end."""


def find_parts(text: str) -> Generator[None, None, Parts]:
    """The parts of a JSON text."""
    look = _Look(text)
    start = look.pass_blanks(0)
    try:
        if text[start] == "[":
            return Parts(items=(yield from look.items(start)))
        if text[start] == "{":
            return Parts(members=(yield from look.members(start)))
    except _TooMuch:
        pass
    return Parts()


def pass_items(text: str, count: int) -> int:
    """The offset of item `count` in a text that begins with item 0."""
    look = _Look(text)
    at = 0
    for _ in range(count):
        if at >= len(text):  # not the text that was looked at
            break
        for end in _exhausted(look.value(at)):
            at = look.pass_blanks(look.pass_blanks(end) + 1)
    return at


def _exhausted(work: Work) -> Generator[int, None, None]:
    try:
        while True:
            next(work)
    except StopIteration as end:
        yield end.value


class _Look:
    """Looks at one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._steps = 0

    def pass_blanks(self, at: int) -> int:
        """The first character from there that is no blank."""
        found = _BLANKS.match(self._text, at)
        return found.end() if found else at

    def value(self, at: int) -> Work:
        """The end of the value that begins there."""
        text, stop = self._text, at + _WINDOW
        found = _ONE.match(text, at, stop)
        # What reaches the edge of the window may go on behind it.
        if found is not None and (found.end() < stop or stop >= len(text)):
            return found.end()
        return (yield from self._string(at) if text[at] == '"' else self._container(at))

    def items(self, at: int) -> Generator[None, None, Items]:
        """The items of the array that begins there."""
        text = self._text
        at = self.pass_blanks(at + 1)
        marks = [(0, at)]
        if text[at] == "]":
            return Items(0, tuple(marks), at)
        number = singly = 0
        while True:
            run = None if singly else _MANY.match(text, at, at + _WINDOW)
            if run is not None and text[run.end() : run.end() + 1]:
                at, number = run.end(), number + _RUN
            else:
                singly = (singly or _RUN) - 1
                at = self.pass_blanks((yield from self.value(at)))
                if text[at] == "]":
                    return Items(number + 1, tuple(marks), at)
                at, number = self.pass_blanks(at + 1), number + 1
            if at - marks[-1][1] >= STRIDE:
                marks.append((number, at))
                yield
            self._step()
            if self._steps % _REST == 0:
                yield

    def members(self, at: int) -> Generator[None, None, dict[str, Member]]:
        """The members of the object that begins there."""
        text, found = self._text, dict[str, Member]()
        at = self.pass_blanks(at + 1)
        while text[at] == '"' and len(found) < MAX_MEMBERS:
            key_end = yield from self._string(at)
            start = self.pass_blanks(self.pass_blanks(key_end) + 1)
            member = yield from self._member(start)
            if key_end - at <= MAX_NAME:
                found[str(json.loads(text[at:key_end]))] = member
            at = self.pass_blanks(member.end)
            if text[at] == ",":
                at = self.pass_blanks(at + 1)
        return found

    def _member(self, start: int) -> Generator[None, None, Member]:
        self._step()
        yield
        if self._text[start] == "[":
            items = yield from self.items(start)
            return Member(start, items.end + 1, items)
        return Member(start, (yield from self.value(start)))

    def _container(self, at: int) -> Work:
        """The end of a container that is large or deep, bracket by bracket."""
        text, depth, rested = self._text, 0, at
        while at < len(text):
            found = _BRACKET.match(text, at, at + _WINDOW)
            if found is None:
                plain = _PLAIN.match(text, at, at + _WINDOW)
                at = plain.end() if plain else at
                at = (yield from self._string(at)) if text[at : at + 1] == '"' else at
            else:
                at = found.end()
                depth += 1 if found[1] in "[{" else -1
                if not depth:
                    break
            self._step()
            if self._steps % _REST == 0 or at - rested > 2 * _WINDOW:
                rested = at
                yield
        return at

    def _string(self, at: int) -> Work:
        """The end of the string that begins there."""
        text, at = self._text, at + 1
        while at < len(text):
            found = _CHARACTERS.match(text, at, at + _WINDOW)
            at = found.end() if found else at
            if text[at : at + 1] == '"':
                break
            yield
        return at + 1

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _TooMuch
