"""Names of tools, prompts and resources: how long they may be, how a message repeats one, and which globs fit it.

A glob is `*` (any text), `?` (any character), `[seq]` or `[!seq]` (one character of these, or none of these; ranges as
in `a-z`); letter case counts. It is matched in one pass over the glob: the places in the name that the part read so far
can reach are the bits of one integer, so `*` costs what any other character costs and nothing is ever tried twice.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

from codecall.redaction.clean import escape_invisible, well_formed

MAX_NAME_CHARS: Final = 256
"""Longest name that is looked up; a tool of a longer name cannot be called. MCP allows a name 128 (SEP-986)."""

MAX_URI_CHARS: Final = 1_024
"""Longest URI that is looked up; `sandbox/wire.py` says why."""

MAX_GLOB_CHARS: Final = 256
"""Longest glob a call or a rule may give."""

MAX_DISPLAY_NAME: Final = 128
"""Characters of a name that a message repeats."""

_TOKENS: Final = re.compile(r"\[!?+\]?+[^\]]*+\]|.", re.DOTALL)
_SPECIAL: Final = re.compile(r"[*?\[]")
_ESCAPED: Final = re.compile(r"\[([*?\[])\]")
_ESCAPED_NAME: Final = re.compile(rf"(?:[^*?\[]|{_ESCAPED.pattern})*+")


class _Glob(NamedTuple):
    """A glob taken apart."""

    head: str
    """The text before the first special character: most names differ there already."""
    rest: Sequence[str]
    """One item for each character, a whole `[seq]` counting as one."""


class _CharacterPositions:
    """Where each character stands in one name: an integer with bit `i` for place `i`."""

    def __init__(self, name: str) -> None:
        self.end = 1 << len(name)
        self.of: dict[str, int] = {}
        for place, character in enumerate(name):
            self.of[character] = self.of.get(character, 0) | 1 << place
        self._letters = sorted(self.of)
        # No two letters share a place, so the sum of their places is the union.
        self._up_to = [0, *accumulate(self.of[letter] for letter in self._letters)]

    def of_set(self, token: str) -> int:
        """The places of the characters that `[seq]` stands for."""
        negated = token[1] == "!"
        members = token[2:-1] if negated else token[1:-1]
        found = at = 0
        while at < len(members):
            if members[at + 1 : at + 2] == "-" and at + 2 < len(members):
                found |= self._between(members[at], members[at + 2])
                at += 3
            else:
                found |= self.of.get(members[at], 0)
                at += 1
        return (self.end - 1) & ~found if negated else found

    def _between(self, first: str, last: str) -> int:
        if first > last:
            return 0
        return self._up_to[bisect_right(self._letters, last)] & ~self._up_to[bisect_left(self._letters, first)]


_positions = lru_cache(maxsize=64)(_CharacterPositions)


class Patterns:
    """Names and globs, taken apart once to be compared with many names.

    A pattern is also the name it spells: `a[1]` covers a tool of exactly that name; but `escape_glob(name)` covers
    that name alone. One name of `MAX_NAME_CHARS`
    against 1,000 globs of 16 characters takes about 2 ms at worst (`tests/test_globs.py` holds the limit).
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        names = {pattern: literal_name(pattern) for pattern in patterns}
        self._exact = frozenset(pattern if name is None else name for pattern, name in names.items())
        self._globs = [_parse_glob(pattern) for pattern, name in names.items() if name is None]

    def matches(self, name: str) -> bool:
        """Whether `name` is one of the patterns, or fits one that is a glob."""
        return name in self._exact or any(_glob_matches(name, glob) for glob in self._globs)


def is_glob(pattern: str) -> bool:
    """Whether `pattern` may stand for more than the name it spells."""
    return _SPECIAL.search(pattern) is not None


def escape_glob(name: str) -> str:
    """The pattern that covers this name and no other."""
    return _SPECIAL.sub(r"[\g<0>]", name)


def literal_name(pattern: str) -> str | None:
    """The one name that a pattern covers; None if it may cover several."""
    return _ESCAPED.sub(r"\1", pattern) if _ESCAPED_NAME.fullmatch(pattern) is not None else None


def literal_head(pattern: str) -> str:
    """The text of `pattern` before the first special character."""
    special = _SPECIAL.search(pattern)
    return pattern[: special.start()] if special else pattern


def display_name(name: str) -> str:
    """`name` as a message repeats it: a script may ask for a name of any length, and of any characters.

    Line ends, controls and characters nobody sees are written as escapes, so that no name breaks out of its message.
    """
    text = escape_invisible(well_formed(name[:MAX_DISPLAY_NAME]), escape=_escape)
    rest = len(name) - MAX_DISPLAY_NAME
    return f"{text}…[truncated {rest} characters]" if rest > 0 else text


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\u{{{code:x}}}"


def _parse_glob(pattern: str) -> _Glob:
    head = literal_head(pattern)
    rest = pattern[len(head) :]
    return _Glob(head, _TOKENS.findall(rest) if "[" in rest else rest)


def _glob_matches(name: str, glob: _Glob) -> bool:
    if not name.startswith(glob.head):
        return False
    positions = _positions(name)
    of, end = positions.of, positions.end
    everywhere = end * 2 - 1
    reached = 1 << len(glob.head)
    for item in glob.rest:
        if item == "*":
            reached = everywhere & -(reached & -reached)  # from the first place reached to the end
        elif item == "?":
            reached = (reached & ~end) << 1
        elif len(item) == 1:
            reached = (reached & of.get(item, 0)) << 1
        else:
            reached = (reached & positions.of_set(item)) << 1
        if not reached:
            return False
    return bool(reached & end)
