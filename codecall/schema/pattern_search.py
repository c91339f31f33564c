"""Patterns of JSON Schemas that an operator writes, searched in texts that callers send.

They mean what Python's `re` reads in them. But that backtracks while it holds the interpreter, so that an ordinary
pattern may stop a server for seconds: pydantic's engine, whose time grows with the text and the states of the pattern,
is given the same in its own words. What it has no words for is left to `re`, in short texts.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, NamedTuple

from pydantic_core import SchemaError, SchemaValidator, core_schema

MAX_BACKTRACKED: Final = 4_096
"""Characters of the longest text in which `re` searches: some 50 ms for a pattern that takes quadratic time."""

MAX_STEPS: Final = 1 << 25
"""States of a pattern times bytes of a text in one search, which holds the interpreter: some 0.2 s."""

MAX_TOTAL_STEPS: Final = 2 * MAX_STEPS
"""Those of all searches of one validation."""

MAX_STATES: Final = MAX_STEPS // MAX_BACKTRACKED
"""States of a pattern; with more, the engine would take no longer texts than `re`."""

_ASCII: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t-\r\x1c-\x20"}
_UNICODE: Final = {"d": r"\d", "w": r"\p{L}\p{N}_", "s": r"\s\x1c-\x1f"}
"""What the classes mean in Python, in ASCII texts and in others."""

_ATOM: Final = r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[nrtfva]|[^0-9A-Za-z])"
_TO: Final = rf"(?:-(?:{_ATOM}|[^\\\]]))?+"
_MEMBER: Final = rf"\\[dDwWsS]|(?:{_ATOM}|[^\\\]]){_TO}"
_TOKEN: Final = re.compile(
    rf"""(?P<flags>\A\(\?[is]+\))
      | (?P<open>\((?:\?:|\?P<[A-Za-z_][0-9A-Za-z_]*>|(?!\?)))
      | (?P<plain>[.^]|\\[bA])
      | (?P<repeat>(?:[*+?]|\{{(?!\}})(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}})\??(?!\+))
      | \[(?P<negated>\^?+)(?P<members>(?:\]{_TO})?+(?:{_MEMBER})*+)\]
      | \\(?P<class>[dDwWsS])
      | (?P<atom>{_ATOM}|[^\\\[(){{.^$|*+?]|\{{(?!(?!\}})\d*,?\d*\}}))
      | (?P<other>[)|$]|\\Z)""",
    re.VERBOSE | re.DOTALL,
)
"""A part of a pattern that both engines have; not what looks around or back, nor what gives nothing back (`a++`)."""
_MEMBERS: Final = re.compile(
    rf"\\(?P<class>[dDwWsS])|(?P<first>{_ATOM}|[^\\])(?:-(?P<last>{_ATOM}|[^\\\]]))?", re.DOTALL
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FOLDS: Final = re.compile(r"\(\?s?i")


class TextTooLongError(ValueError):
    """A text is too long to be searched for a pattern."""

    def __init__(self, pattern: str, size: int, most: int = MAX_BACKTRACKED, unit: str = "characters") -> None:
        super().__init__(f"the pattern {pattern!r:.80} takes at most {most:,} {unit}, and a text has {size:,}")


class TooManyValuesError(TextTooLongError):
    """An object or array has too many values for a keyword."""

    def __init__(self, keyword: str, size: int, most: int) -> None:
        ValueError.__init__(self, f"`{keyword}` takes at most {most:,} values, and there are {size:,}")


class _Validation:
    """What one validation has found, and the steps it has left."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], bool] = {}
        self.left = MAX_TOTAL_STEPS


_VALIDATION: Final[ContextVar[_Validation | None]] = ContextVar("codecall_pattern_search", default=None)


@contextmanager
def one_validation() -> Generator[None]:
    """Searches within this are one validation: a text is searched once for a pattern, and their steps are bounded."""
    token = _VALIDATION.set(_Validation())
    try:
        yield
    finally:
        _VALIDATION.reset(token)


def search(pattern: str, text: str) -> bool:
    """Whether a pattern matches somewhere in a text.

    Raises:
        TextTooLongError: that might take long.
    """
    validation = _VALIDATION.get() or _Validation()
    if (found := validation.found.get((pattern, text))) is None:
        found = validation.found[pattern, text] = _search(pattern, text, validation)
    return found


def _search(pattern: str, text: str, validation: _Validation) -> bool:
    is_ascii = text.isascii()
    if (engine := _compile(pattern, ascii_only=is_ascii)) is None:
        if len(text) > MAX_BACKTRACKED:
            raise TextTooLongError(pattern, len(text))
        return re.search(pattern, text) is not None
    size = len(text)
    if not is_ascii:
        text = _SURROGATE.sub("\uffff", text)  # the engine takes no text with one
        size = len(text.encode())
        text = _with_plain_i(text) if _FOLDS.match(pattern) else text
    if size > (most := min(MAX_STEPS, validation.left) // engine.states):
        raise TextTooLongError(pattern, size, most, "bytes" if validation.left >= MAX_STEPS else "bytes more")
    validation.left -= size * engine.states
    return engine.matcher.isinstance_python(text)


class _Engine(NamedTuple):
    """What finds a pattern in time that grows with the text."""

    matcher: SchemaValidator
    states: int


@lru_cache(maxsize=512)
def _compile(pattern: str, *, ascii_only: bool) -> _Engine | None:
    """What finds a pattern; None where only `re` does."""
    written = _translate(pattern, _ASCII if ascii_only else _UNICODE)
    if written is None or written.states > MAX_STATES:
        return None
    try:
        return _Engine(SchemaValidator(core_schema.str_schema(pattern=written.text)), written.states)
    except SchemaError:
        return None  # it is too large


class _Written(NamedTuple):
    """A pattern in the words of the other engine."""

    text: str
    states: int


class _Group:
    """A part of a pattern, or a group that is being read.

    Args:
        states: How many states of it are live at a time, about: one for each part, as often as counts repeat it. A
            plain character follows only one other, so it adds none unless a count repeats it.
        size: The same with all plain characters.
    """

    def __init__(self, states: int = 1, size: int = 1) -> None:
        self.states, self.size = states, size
        self.ended = False
        """Whether `$` ended this alternative."""
        self.other_ended = False
        """Whether it ended another."""

    def add(self, part: _Group) -> None:
        """Take in a part."""
        self.states, self.size = self.states + part.states, self.size + part.size


def _translate(pattern: str, classes: dict[str, str]) -> _Written | None:
    """A pattern in the words of the other engine, if it has them."""
    parts: list[str] = []
    at = 0
    if _FOLDS.match(pattern):
        pattern = _with_plain_i(pattern)
    groups, last = [_Group()], _Group()
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        at, text, group = token.end(), token[0], groups[-1]
        if text == "|":
            group.ended, group.other_ended = False, group.ended or group.other_ended
        elif text == ")":
            last = groups.pop()
            if not groups:
                return None
            group = groups[-1]
            group.ended |= last.ended or last.other_ended
        elif group.ended:
            return None  # Python's `$` may stand before a line end, which this part might match
        elif text == "$":
            group.ended = True
        if token["open"]:
            groups.append(_Group())
        elif token["repeat"]:
            times = max(int(token["least"] or 1), int(token["most"] or 1), 1)
            group.add(_Group(1 + (last.size * times - last.states if times > 1 else 0), 1 + last.size * (times - 1)))
        else:
            if text != ")":
                # Classes of Unicode take the engine twice as long.
                wide = 2 if classes is _UNICODE and re.search(r"\\[dDwWsS]", text) else 1
                last = _Group(0 if token["atom"] else wide, wide)
            group.add(last)
        parts.append(_translate_token(token, classes))
    return _Written("".join(parts), groups[0].states)


def _with_plain_i(text: str) -> str:
    """Those with a dot above or without one are an `i` of another case to Python alone."""
    return text.replace("\u0130", "i").replace("\u0131", "i")


def _translate_token(token: re.Match[str], classes: dict[str, str]) -> str:
    if token["comma"] is not None:
        return f"{{{token['least'] or 0}{token['comma']}{token['most']}}}"
    if token["members"]:
        members = (
            _class(member["class"], classes)
            if member["class"]
            else "-".join(_literal(atom) for atom in member.group("first", "last") if atom)
            for member in _MEMBERS.finditer(token["members"])
        )
        return f"[{token['negated']}{''.join(members)}]"
    if token["class"]:
        return _class(token["class"], classes)
    if token["atom"]:
        return _literal(token["atom"])
    return {"$": r"(?:\n?\z)", r"\Z": r"\z"}.get(token[0], token[0])


def _class(letter: str, classes: dict[str, str]) -> str:
    return f"[{'^' if letter.isupper() else ''}{classes[letter.lower()]}]"


def _literal(atom: str) -> str:
    """One character, so that no engine reads more in it."""
    if re.match(r"\\[0-9A-Za-z]", atom):
        return atom
    return atom[-1] if atom[-1].isalnum() else f"\\x{{{ord(atom[-1]):x}}}"
