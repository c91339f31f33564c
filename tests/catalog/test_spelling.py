"""Words somebody may have meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.spelling import MAX_WORDS, READ_WHOLE, spellings
from tests.catalog.catalogue import CATALOGUE, tool


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("companeis", "companies"),  # two letters swapped
        ("calender", "calendar"),  # another letter
        ("piplines", "pipeline"),  # a letter missing and one too many
        ("pipelinne", "pipeline"),  # a letter too many
        ("invitaton", "invitation"),  # a letter missing
        ("FORCAST", "forecast"),
    ],
)
def test_a_mistyped_word_leads_to_the_one_that_is_meant(query: str, meant: str) -> None:
    assert spellings(CATALOGUE, f"please {query} now") == [meant]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "zzzz qqqq",
        "hello there",
        "list users",
        "listing the companies",
        "remove",
        "what is the meaning of life",
        "顧客",
    ],
)
def test_nothing_is_suggested_for_words_that_are_right_or_lead_nowhere(query: str) -> None:
    assert spellings(CATALOGUE, query) == []


def test_words_of_any_alphabet() -> None:
    entries = [tool("kunden", "Rechnungen schreiben"), tool("счета", "Показать клиентов")]
    assert spellings(entries, "rechnugnen клиенто") == ["rechnungen", "клиентов"]


def test_the_commoner_word_is_suggested() -> None:
    entries = [tool("a", "parcel parsel"), tool("b", "parcel"), tool("c", "parsel"), tool("d", "parcel")]
    assert spellings(entries, "parzel") == ["parcel"]


def test_large_catalogues_are_read_by_names_and_tags_only() -> None:
    filler = [tool(f"t{n}", "walrus") for n in range(READ_WHOLE)]
    tagged = CatalogEntry("x", "y", "", {}, tags=frozenset({"penguin"}))
    assert spellings(filler, "wallrus") == ["walrus"]
    assert spellings([*filler, tagged], "wallrus pengiun") == ["penguin"]


def test_long_texts_are_read_from_the_beginning() -> None:
    filler = " ".join(f"qqqqq{'w' * n}" for n in range(MAX_WORDS))
    assert spellings(CATALOGUE, f"companeis {filler}") == ["companies"]
    assert spellings(CATALOGUE, f"{filler} companeis") == []


@given(st.text(max_size=200), st.permutations(CATALOGUE))
def test_only_words_of_the_catalogue_whatever_its_order(query: str, shuffled: list[CatalogEntry]) -> None:
    found = spellings(shuffled, query)
    assert found == spellings(CATALOGUE, query)
    assert len(found) == len(set(found)) <= MAX_WORDS
    text = " ".join(f"{entry.name} {entry.description}" for entry in CATALOGUE).lower()
    assert all(word in text for word in found)
