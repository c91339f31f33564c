"""What is indexed of one server is bounded, and its tools are found all the same."""

from __future__ import annotations

import pytest

from codecall.catalog.search import text_quota
from codecall.catalog.search.lexical import LexicalRanker
from tests.catalog.catalog import tool
from tests.catalog.search.test_lexical import view_of

LONG = "Measures the weather. " + "More about clouds. " * 40 + "Also predicts earthquakes."


def best(ranker: LexicalRanker, numbers: list[int], query: str) -> list[int]:
    """The documents with the best score, or within a tenth of it."""
    scores = ranker.scores(view_of(numbers), query)
    return [number for number, score in zip(numbers, scores, strict=True) if score > 0.9 * max(scores)]


def test_a_server_with_much_text_is_read_briefly(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(text_quota, "MAX_SERVER_CHARS", 2 * len(LONG))
    ranker = LexicalRanker()
    large = [tool(f"large_{number}", LONG, "large") for number in range(5)]
    ranker.add(range(5), large)
    ranker.add([5], [tool("small_1", LONG, "small")])
    numbers = [*range(6)]
    assert best(ranker, numbers, "weather") == numbers
    assert best(ranker, numbers, "earthquakes") == [0, 1, 5]  # every server has a quota of its own
    assert best(ranker, numbers, "large_4") == [4]
    assert [record.getMessage().split(" describe")[0] for record in caplog.records] == ["The tools of 'large'"]


def test_tools_that_are_gone_count_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_quota, "MAX_SERVER_CHARS", len(LONG))
    ranker = LexicalRanker()
    ranker.add([0, 1], [tool("one", LONG, "large"), tool("two", LONG, "large")])
    ranker.remove([0, 1, 7])
    ranker.add([0], [tool("three", LONG, "large")])
    assert ranker.scores(view_of([0]), "earthquakes")[0] > 0
