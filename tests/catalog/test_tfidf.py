"""The lexical index finds the right tool, and scores mean something."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry, Example
from codecall.catalog.tfidf import TfidfIndex
from codecall.options import SearchOptions
from tests.catalog.catalogue import CATALOGUE, tool

THRESHOLD = SearchOptions().similarity_threshold
INDEX = TfidfIndex(CATALOGUE)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("list users", "users:list"),
        ("get user profile information", "users:getProfile"),
        ("delete an order", "orders:delete"),
        ("please could you show me the commit history?", "git_log"),
        ("what is the weather in Paris", "weather_forecast"),
        ("searching for a company", "companies:search"),
        ("schedule a meeting", "calendar:createEvent"),
        ("move deal to next stage", "deals:moveStage"),
        ("refund a customer's order", "orders:refund"),
        ("users.list", "users:list"),
        ("usersList", "users:list"),
        ("customer_id", "orders:create"),
        ("invite a colleague by email", "users:invite"),
        ("who am I", "who_am_i"),
    ],
)
def test_a_plain_request_finds_its_tool_above_the_default_threshold(query: str, name: str) -> None:
    best = INDEX.search(query)[0]

    assert best.name == name
    assert best.score > THRESHOLD + 0.1


@pytest.mark.parametrize(
    ("query", "name"),
    [("delte ordr", "orders:delete"), ("comit histroy", "git_log"), ("wheather forcast", "weather_forecast")],
)
def test_typing_errors_are_forgiven(query: str, name: str) -> None:
    best = INDEX.search(query)[0]

    assert best.name == name
    assert best.score > THRESHOLD


@pytest.mark.parametrize(
    "query", ["bake a chocolate cake", "lorem ipsum dolor sit amet", "zzqx", "sing me a lullaby", "", "  ", "?!", "the"]
)
def test_a_hopeless_query_stays_below_the_default_threshold(query: str) -> None:
    assert [hit for hit in INDEX.search(query) if hit.score >= THRESHOLD] == []


def test_the_name_counts_more_than_the_description() -> None:
    index = TfidfIndex(
        (
            tool("reports:export", "Write invoices as a file"),
            tool("invoices:export", "Write a file"),
            tool("notes:add", "Add"),
        )
    )

    assert [hit.name for hit in index.search("export invoices")] == ["invoices:export", "reports:export"]


@pytest.mark.parametrize(
    "field",
    [
        {"title": "Kumquat"},
        {"description": "the kumquat"},
        {"app_id": "kumquat"},
        {"tags": frozenset({"kumquat"})},
        {"input_schema": {"properties": {"kumquatId": {}}}},
        {"input_schema": {"properties": {"x": {"description": "a kumquat"}}}},
        {"input_schema": {"properties": {"x": {"type": "array", "items": {"properties": {"kumquat": {}}}}}}},
        {"examples": (Example("peel a kumquat", "return 1"),)},
    ],
)
def test_every_field_is_searched(field: dict[str, object]) -> None:
    plain: dict[str, object] = {"name": "x:y", "app_id": "a", "description": "", "input_schema": {}}
    entry = CatalogEntry(**(plain | field))  # type: ignore[arg-type]

    assert [hit.name for hit in TfidfIndex((*CATALOGUE, entry)).search("kumquat")] == ["x:y"]


def test_equal_scores_are_ordered_by_name_and_equal_input_gives_equal_output() -> None:
    entries = [tool(f"copy_{letter}", "Duplicate a page") for letter in "dbca"]

    first, second = TfidfIndex(entries), TfidfIndex(entries[::-1])

    assert [hit.name for hit in first.search("duplicate page")] == ["copy_a", "copy_b", "copy_c", "copy_d"]
    assert first.search("duplicate page") == second.search("duplicate page")


def test_a_threshold_means_the_same_in_a_large_catalogue() -> None:
    crowd = [tool(f"misc:task{number}", f"Carry out chore {number} of the household") for number in range(2_000)]
    large = TfidfIndex((*CATALOGUE, *crowd))

    for query in ("list users", "delete an order", "bake a chocolate cake"):
        small_hits, large_hits = INDEX.search(query), large.search(query)
        assert [hit.name for hit in small_hits[:1]] == [hit.name for hit in large_hits[:1]]
        assert abs(sum(h.score for h in small_hits[:1]) - sum(h.score for h in large_hits[:1])) < 0.15


@pytest.mark.parametrize("entries", [(), (tool("…", ""),), (tool("only:one", "The only tool there is"),)])
def test_tiny_catalogues_can_be_searched(entries: tuple[CatalogEntry, ...]) -> None:
    index = TfidfIndex(entries)

    assert index.size == len(entries)
    assert [hit.name for hit in index.search("only tool")] == [e.name for e in entries if "only" in e.name]


def test_texts_without_blanks_between_words_are_found() -> None:
    index = TfidfIndex((*CATALOGUE, tool("bing_search", "使用必应搜索指定的关键词")))

    assert index.search("搜索关键词")[0].name == "bing_search"


def test_a_schema_that_makes_no_sense_is_indexed_without_it() -> None:
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"properties": {"inner": deep}}
    odd = [{"properties": []}, {"properties": {"a": None, "b": True}}, {"properties": {"a": {"items": []}}}, deep]
    entries = [CatalogEntry(f"odd:{i}", "a", "Strange thing", schema) for i, schema in enumerate(odd)]  # type: ignore[arg-type]

    assert len(TfidfIndex(entries).search("strange thing")) == len(odd)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_any_query_gives_ordered_scores_between_0_and_1(query: str) -> None:
    hits = INDEX.search(query)

    assert all(0 < hit.score <= 1 for hit in hits)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.name))
    assert len({hit.name for hit in hits}) == len(hits)
