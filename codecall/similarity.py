"""Did you mean: the names nearest to a word that is none of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

MIN_SIMILARITY = 0.6
"""Candidates less similar than this (0 to 1) are not near: `difflib`'s own default."""


def nearest(
    word: str, candidates: Iterable[str], *, limit: int = 1, min_similarity: float = MIN_SIMILARITY
) -> list[str]:
    """Returns up to `limit` candidates similar to `word`, the most similar first; empty when none is similar enough.

    It compares with every candidate: bound their number where strangers choose it.
    """
    return get_close_matches(word, list(candidates), n=limit, cutoff=min_similarity)


def similarity(one: str, other: str) -> float:
    """Returns how similar two texts are, letter by letter, 0 to 1."""
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
