"""Names in one line, and texts that are cut."""

from __future__ import annotations

from codecall.wording import cut, join_names


def test_a_cut_text_has_as_many_characters_as_it_may():
    assert [cut("abcdef", limit) for limit in (1, 5, 6, 7)] == ["…", "abcd…", "abcdef", "abcdef"]


def test_names_beyond_the_limit_are_counted():
    assert join_names([], 2) == ""
    assert join_names(["a", "b"], 2) == "a, b"
    assert join_names(range(5), 2, lambda number: f"<{number}>") == "<0>, <1> and 3 more"
