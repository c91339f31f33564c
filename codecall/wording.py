"""What messages say of names and texts: the names that may be meant, names in one line, texts that are cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

MIN_SIMILARITY = 0.6
"""Candidates less similar than this (0 to 1) are not near: `difflib`'s own default."""


def cut(text: str, limit: int) -> str:
    """`text` if it has at most `limit` characters, else its beginning and a mark, which together have so many."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def join_names(names: Collection[T], limit: int, show: Callable[[T], str] = str) -> str:
    """At most `limit` names in one line, and how many more there are: `a, b and 3 more`.

    Args:
        names: The names, or what `show` makes them of.
        limit: How many are named.
        show: The text of one name.
    """
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(map(show, islice(names, limit)))}{more}"


def plain_number(number: float) -> float:
    """A number as a message shows it: a whole one without `.0`, which reads as if fractions were meant."""
    return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 2**53 else number


def nearest(
    word: str, candidates: Iterable[str], *, limit: int = 1, min_similarity: float = MIN_SIMILARITY
) -> list[str]:
    """Returns up to `limit` candidates similar to `word`, the most similar first; empty when none is similar enough.

    It compares with every candidate: bound their number where strangers choose it.
    """
    from difflib import get_close_matches  # loaded when somebody has mistaken a name

    return get_close_matches(word, list(candidates), n=limit, cutoff=min_similarity)


def similarity(one: str, other: str) -> float:
    """Returns how similar two texts are, letter by letter, 0 to 1."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, one, other, autojunk=False).ratio()
