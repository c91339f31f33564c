"""What an app as a whole has of a text: by rare words, wherever they are, and whatever its size."""

from __future__ import annotations

import numpy as np
import pytest

from codecall.catalog.search.evidence import AppGroups, TermScores, app_shares, word_rarity


def shares(apps: list[int], *words: list[int]) -> list[float]:
    """By app, the share of words that these documents have."""
    _, group_of, sizes = np.unique(apps, return_inverse=True, return_counts=True)
    terms = [TermScores(1.0, 1.0, np.isin(np.arange(len(apps)), having).astype(np.float32)) for having in words]
    found = app_shares(terms, np.arange(len(apps), dtype=np.int32), AppGroups(group_of, sizes))
    return [float(found[apps.index(app)]) for app in sorted(set(apps))]


def test_words_of_different_documents_of_an_app_add_up() -> None:
    assert shares([1, 1, 2, 2], [0, 2], [1]) == [1, pytest.approx(0.25, abs=0.15)]
    assert shares([1, 1, 2, 2], [0, 2], [0]) == shares([1, 1, 2, 2], [0, 2], [1])


def test_a_word_that_few_apps_have_says_more() -> None:
    rare, common = shares([1, 2, 3, 4], [0], [1, 2, 3])[:2]

    assert rare == 1
    assert common < 0.5


def test_a_large_app_needs_more() -> None:
    small, large = shares([1, *[2] * 16], [0, 5])

    assert small == 1
    assert large == pytest.approx(0.5)


def test_documents_without_an_app_count_as_one() -> None:
    assert shares([0, 0, 1, 1], [0], [1], [2])[0] == 1


def test_nothing_found_is_nothing() -> None:
    assert shares([1, 2], []) == [0, 0]


def test_a_word_that_all_have_still_says_something() -> None:
    assert 0 < word_rarity(10, 10) < word_rarity(1, 10)
