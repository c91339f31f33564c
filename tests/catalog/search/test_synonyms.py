"""The table of words that stand for each other."""

from __future__ import annotations

from codecall.catalog.search.analysis import STOP_WORDS, stem
from codecall.catalog.search.synonyms import ABBREVIATIONS, ACTIONS, FILLER_WORDS, THINGS, synonyms_by_stem


def test_relations_go_both_ways_and_never_to_the_word_itself() -> None:
    found = synonyms_by_stem([["Bespoke", "tailored"]])

    assert found["bespok"] == ("tailor",)
    for word, others in found.items():
        assert word not in others
        assert others == tuple(sorted(set(others)))
        assert all(word in found[other] for other in others)


def test_groups_are_not_joined() -> None:
    found = synonyms_by_stem([["first", "both"], ["both", "second"]])

    assert set(found["both"]) >= {"first", "second"}
    assert "second" not in found["first"]


def test_every_word_of_the_table_can_be_met() -> None:
    # A stop word is no term, so nothing would ever find it; words in capitals or with hyphens are never terms.
    words = {word for group in (*ABBREVIATIONS, *ACTIONS, *THINGS) for word in group.split()}

    assert not words & STOP_WORDS
    assert all(word.isalnum() and word.islower() for word in words)
    assert all(len(group.split()) > 1 for group in (*ABBREVIATIONS, *ACTIONS, *THINGS))
    assert not FILLER_WORDS & {stem(word) for word in ("create", "delete", "update", "list", "order")}
