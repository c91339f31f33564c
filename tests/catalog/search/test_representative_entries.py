"""The entries that stand for their app."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.fusion import MAX_COMPARED, representative_entries
from tests.catalog.catalog import CATALOG, tool
from tests.work import python_steps

SHOP = [
    tool("orders:list", "List orders of a customer", "shop"),
    tool("orders:create", "Create an order for a customer", "shop"),
    tool("orders:refund", "Refund an order of a customer", "shop"),
    tool("shop:ping", "Measure latency", "shop"),
]


def names(found: dict[str, list[CatalogEntry]]) -> dict[str, list[str]]:
    return {app: [entry.name for entry in entries] for app, entries in found.items()}


def test_what_shares_its_words_with_the_others_comes_before_what_does_not() -> None:
    found = representative_entries(SHOP, 3)["shop"]

    assert {entry.name for entry in found} == {"orders:list", "orders:create", "orders:refund"}


def test_every_app_has_its_own_and_no_more_than_asked_for() -> None:
    found = representative_entries([*CATALOG, *SHOP], 2)

    assert found.keys() == {entry.app_id for entry in CATALOG}
    assert all(0 < len(entries) <= 2 for entries in found.values())
    assert all(entry.app_id == app for app, entries in found.items() for entry in entries)


def test_only_the_apps_that_are_named() -> None:
    assert representative_entries(CATALOG, 2, ["git", "none such"]).keys() == {"git"}
    assert representative_entries(CATALOG, 2, []) == {}
    assert representative_entries([], 2) == {}


def test_few_are_all_shown_by_name() -> None:
    assert names(representative_entries(SHOP[::-1], 4)) == {
        "shop": ["orders:create", "orders:list", "orders:refund", "shop:ping"]
    }


def test_entries_without_a_word_have_their_place_too() -> None:
    assert len(representative_entries([tool("…", ""), tool("!", ""), tool("?", "")], 2)["crm"]) == 2


@settings(max_examples=30, deadline=None)
@given(st.permutations([*CATALOG, *SHOP[1:]]), st.integers(1, 4))
def test_the_order_of_the_entries_does_not_matter(shuffled: list[CatalogEntry], most: int) -> None:
    assert names(representative_entries(shuffled, most)) == names(representative_entries([*CATALOG, *SHOP[1:]], most))


def test_others_apps_change_nothing() -> None:
    alone = representative_entries(SHOP, 2)["shop"]

    assert representative_entries([*CATALOG[:6], *SHOP, *CATALOG[10:]], 2)["shop"] == alone


@pytest.mark.parametrize("count", [MAX_COMPARED, MAX_COMPARED + 1, 10 * MAX_COMPARED])
def test_a_large_app_is_looked_at_here_and_there(count: int) -> None:
    app = [tool(f"t{n:05}", f"Handle the record {n} of the archive") for n in range(count)]

    assert len(representative_entries(app, 5)["crm"]) == 5
    assert python_steps(lambda: representative_entries(app, 5)) < 50_000


def test_huge_descriptions_are_read_from_their_beginning() -> None:
    app = [tool(f"t{n}", "words and more " * 100_000) for n in range(6)]

    assert python_steps(lambda: representative_entries(app, 2)) < 200_000
