"""How long it takes to compare a URI with a URI template, before anybody compares them.

FastMCP makes a regular expression of a template: `{name}` is `[^/]+`, `{name*}` is `.+`, the rest stands for itself,
written as it is or percent-encoded. Where they do not fit, Python's `re` tries every way in which the variables could
share the text: with `{a}-{b}` in three segments and a thousand hyphens these are 4e10, and the event loop stands still
meanwhile. Here the ways are counted and not tried: at each place of the text, in how many ways the variables read so
far can end there. That takes time in proportion to the text and to the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote

_QUERY: Final = re.compile(r"\{\?[^}]+\}")
_VARIABLES: Final = re.compile(r"(\{[^}]+\})")
_CHARACTERS: Final = re.compile(r"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_RESERVED: Final = ":/?#[]@!$&'()*+,;="
"""What stands in a URI as it is (RFC 3986, 2.2), besides letters, digits and `-._~`."""

_Literal = tuple[tuple[str, ...], ...]
"""A text in pieces, each with its spellings."""


class _Part(NamedTuple):
    """A variable and the text behind it."""

    wide: bool
    """Whether it may hold slashes."""
    after: _Literal
    length: int
    """Characters of `after`."""


class _Template(NamedTuple):
    """A template taken apart."""

    head: _Literal
    """The text before the first variable: most URIs differ there already."""
    parts: tuple[_Part, ...]


def steps(uri: str, template: str, most: int) -> int:
    """Steps that `re` takes at worst to compare the two, of 4 to 12 ns each; 0 where the first text differs.

    Never fewer than it takes, but beyond `most` the counting ends. A `uri` of printable characters is expected.
    """
    path = (uri if "#" in template else uri.partition("#")[0]).partition("?")[0]
    head, parts = _taken_apart(template)
    reached = _past(head, path, {0: 1})
    taken = 0
    for place, part in enumerate(parts, 1):
        taken += sum(ways * (_reach(path, start, wide=part.wide) - start + 1) for start, ways in reached.items())
        if not reached or taken > most:
            break
        ends: Iterable[int]
        if part.after:
            first = {spelling[0] for spelling in part.after[0]}
            ends = [end for end, char in enumerate(path) if char in first]
        else:
            ends = (len(path),) if place == len(parts) else range(1, len(path) + 1)
        reached = _through(path, reached, ends, wide=part.wide)
        taken += part.length * sum(reached.values())
        reached = _past(part.after, path, reached)
    return taken


def _through(path: str, reached: Mapping[int, int], ends: Iterable[int], *, wide: bool) -> dict[int, int]:
    """In how many ways a variable that begins at a place `reached` may end at each of `ends`, which are in order."""
    found: dict[int, int] = {}
    starts = sorted(reached, reverse=True)
    ways = reach = 0
    for end in ends:
        while starts and starts[-1] < end:
            start = starts.pop()
            # Whoever began in a segment before this one has come to its end.
            if (here := _reach(path, start, wide=wide)) != reach:
                ways, reach = 0, here
            ways += reached[start]
        if ways and end <= reach:
            found[end] = ways
    return found


def _reach(path: str, start: int, *, wide: bool) -> int:
    """Where a variable that begins at `start` ends at the latest."""
    slash = -1 if wide else path.find("/", start)
    return len(path) if slash < 0 else slash


def _past(literal: _Literal, path: str, reached: dict[int, int]) -> dict[int, int]:
    """In how many ways each place behind `literal` is come to, from those before it."""
    for spellings in literal:
        found: dict[int, int] = {}
        for start, ways in reached.items():
            for spelling in spellings:
                end = start + len(spelling)
                if _alike(path[start:end], spelling):
                    found[end] = found.get(end, 0) + ways
        reached = found
    return reached


def _alike(text: str, spelling: str) -> bool:
    return text == spelling or (len(spelling) > 1 and spelling[0] == "%" and text.lower() == spelling)


@lru_cache(maxsize=4096)
def _taken_apart(template: str) -> _Template:
    head, *rest = _VARIABLES.split(_QUERY.sub("", template))
    parts = [
        _Part(variable.endswith("*}"), _literal(text), len(text))
        for variable, text in zip(rest[::2], rest[1::2], strict=True)
    ]
    return _Template(_literal(head), tuple(parts))


def _literal(text: str) -> _Literal:
    """`text` in pieces: runs that have one spelling, and between them characters that have two, or in any case."""
    pieces: list[tuple[str, ...]] = []
    plain = ""
    for char in _CHARACTERS.findall(text):
        coded = char if len(char) > 1 else quote(char, safe=_RESERVED, errors="surrogatepass")
        if coded == char and len(char) == 1:
            plain += char
            continue
        if plain:
            pieces.append((plain,))
        plain = ""
        pieces.append((coded.lower(),) if len(char) > 1 else (char, coded.lower()))
    return tuple([*pieces, (plain,)] if plain else pieces)
