"""Texts that messages share: names in one line, texts that are cut."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


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
