"""Two rankings become one: what holds whatever their scores."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.search.fusion import best_cosines, fuse_scores, semantic_scores
from codecall.catalog.search.indexer import Scores

NAN = float("nan")

WORDS = st.one_of(st.just(0.0), st.floats(0, 1, width=32))
COSINES = st.one_of(st.just(NAN), st.floats(-1, 1, width=32))
PAIRS = st.lists(st.tuples(WORDS, COSINES), max_size=30)


def scores(*values: float) -> Scores:
    return np.array(values, np.float32)


def both(pairs: list[tuple[float, float]]) -> Scores:
    return fuse_scores(scores(*(word for word, _ in pairs)), scores(*(cosine for _, cosine in pairs)))


@settings(max_examples=80, deadline=None)
@given(PAIRS)
def test_scores_are_from_0_to_1_and_one_for_each(pairs: list[tuple[float, float]]) -> None:
    words, cosines = scores(*(word for word, _ in pairs)), scores(*(cosine for _, cosine in pairs))
    for shown in (fuse_scores(words, cosines), semantic_scores(cosines, words)):
        assert shown.shape == words.shape
        assert shown.dtype == np.float32
        assert ((shown >= 0) & (shown <= 1)).all()


@settings(max_examples=80, deadline=None)
@given(PAIRS)
def test_what_is_better_in_both_is_never_below(pairs: list[tuple[float, float]]) -> None:
    known = [(word, cosine) for word, cosine in pairs if not np.isnan(cosine)]
    shown = both(known)
    for (word, cosine), score in zip(known, shown, strict=True):
        for (other_word, other_cosine), other in zip(known, shown, strict=True):
            if word >= other_word and cosine >= other_cosine:
                assert score >= other


@settings(max_examples=80, deadline=None)
@given(PAIRS)
def test_without_vectors_the_words_alone_rank(pairs: list[tuple[float, float]]) -> None:
    words = scores(*(word for word, _ in pairs))
    none = np.full(len(pairs), np.nan, np.float32)

    assert fuse_scores(words, none).tolist() == words.tolist()
    assert semantic_scores(none, words).tolist() == words.tolist()


@settings(max_examples=80, deadline=None)
@given(st.lists(WORDS, min_size=2, max_size=10), st.lists(COSINES, max_size=10))
def test_those_without_a_vector_are_ranked_by_their_words(unknown: list[float], cosines: list[float]) -> None:
    pairs = [*((word, NAN) for word in sorted(unknown)), *((0.3, cosine) for cosine in cosines)]
    found = both(pairs)[: len(unknown)].tolist()

    assert found == sorted(found)


@pytest.mark.parametrize("size", [2, 30, 3_000])
def test_the_order_changes_no_score(size: int) -> None:
    chance = random.Random(size)
    pairs = [(chance.random() ** 3, chance.gauss(0.2, 0.2) if chance.random() < 0.8 else NAN) for _ in range(size)]
    straight = both(pairs)
    order = list(range(size))
    for _ in range(10):
        chance.shuffle(order)
        assert both([pairs[n] for n in order]).tolist() == straight[order].tolist()


def test_nothing_gives_nothing() -> None:
    assert both([]).tolist() == []
    assert semantic_scores(scores(), scores()).tolist() == []
    assert both([(0.0, 0.0), (0.0, 0.0)]).tolist() == [0.0, 0.0]
    assert both([(0.0, -1.0), (0.0, -0.5)]).tolist() == [0.0, 0.0]


def test_one_entry_that_fits_is_shown_and_one_that_does_not_is_not() -> None:
    assert both([(0.9, 0.8)])[0] > 0.8
    assert both([(0.0, 0.7)])[0] > 0.6
    assert both([(0.0, 0.05)])[0] < 0.3


def test_what_is_near_by_chance_alone_is_below_the_threshold() -> None:
    """Small talk: a word in common, and texts that are as near as any two are."""
    assert both([(0.2, 0.4), *((0.05, 0.3),) * 20]).max() < 0.3
    assert both([(0.0, 0.45)]).max() < 0.3
    assert both([(0.4, 0.45), *((0.05, 0.3),) * 20]).max() > 0.3


def test_equal_entries_get_equal_scores() -> None:
    shown = both([(0.6, 0.5)] * 20)

    assert len(set(shown.tolist())) == 1
    assert shown[0] > 0.5


def test_what_stands_out_in_both_comes_first() -> None:
    pairs = [(1.0, 0.1), (0.9, 0.6), (0.1, 0.62), *((0.1, 0.1),) * 20]

    assert int(both(pairs).argmax()) == 1


def test_what_both_rankings_like_comes_before_the_favourite_of_one() -> None:
    words, cosines = np.full(30, 0.02, np.float32), np.full(30, 0.1, np.float32)
    words[:3], cosines[:3] = (0.9, 0.57, 0.05), (0.15, 0.45, 0.55)

    by_words, both_like, by_meaning = fuse_scores(words, cosines)[:3]

    assert both_like > by_words
    assert both_like > by_meaning


def test_meaning_counts_less_the_more_things_are_asked_for() -> None:
    words, cosines = np.full(30, 0.02, np.float32), np.full(30, 0.1, np.float32)
    words[:2], cosines[:2] = (0.9, 0.1), (0.15, 0.6)

    found = [fuse_scores(words, cosines, texts)[:2] for texts in (1, 3, 4, 6)]
    one, two, three, five = (by_meaning / by_words for by_words, by_meaning in found)

    assert one > two > three == five


def test_the_nearest_part_of_a_request_counts() -> None:
    found = best_cosines([scores(0.1, 0.9, NAN), scores(0.4, 0.2, NAN)])

    assert found[:2].tolist() == pytest.approx([0.4, 0.9])
    assert np.isnan(found[2])
