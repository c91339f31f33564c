"""Words somebody may have meant."""

from __future__ import annotations

import gc
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search import spelling
from codecall.catalog.search.analysis import name_words
from codecall.catalog.search.spelling import MAX_ENTRY_CHARS, MAX_TOTAL_CHARS, MAX_WORDS, MIN_ENTRY_CHARS, correct_words
from tests.catalog.catalog import CATALOG, tool


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
    assert correct_words(CATALOG, f"please {query} now") == [meant]


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
    assert correct_words(CATALOG, query) == []


def test_words_of_any_alphabet() -> None:
    entries = [tool("kunden", "Rechnungen schreiben"), tool("счета", "Показать клиентов")]
    assert correct_words(entries, "rechnugnen клиенто") == ["rechnungen", "клиентов"]


def test_the_commoner_word_is_suggested() -> None:
    entries = [tool("a", "parcel parsel"), tool("b", "parcel"), tool("c", "parsel"), tool("d", "parcel")]
    assert correct_words(entries, "parzel") == ["parcel"]


def test_of_a_long_description_the_beginning_is_read() -> None:
    blanks = " " * (MAX_ENTRY_CHARS - 30)
    assert correct_words([tool("x", f"walrus {blanks} penguin")], "wallrus pengiun") == ["walrus", "penguin"]
    assert correct_words([tool("x", f"walrus {blanks}{' ' * 30} penguin")], "wallrus pengiun") == ["walrus"]


def test_no_word_is_cut() -> None:
    text = "x" + " " * (MAX_ENTRY_CHARS - 1 - len("walr"))
    assert correct_words([tool("", f"{text}walrusses")], "walrr walr") == []


def test_the_entries_of_a_large_catalog_share_what_is_read() -> None:
    many = 2 * MAX_TOTAL_CHARS // MIN_ENTRY_CHARS
    for count, most in ((MAX_TOTAL_CHARS // 1_000, 1_000), (many, MIN_ENTRY_CHARS)):
        filler = [tool(f"t{n}", "") for n in range(count - 1)]
        early = CatalogEntry("y" * 120, "z", "-" * (most - 140) + " penguin", {}, tags=frozenset({"walrus"}))
        late = CatalogEntry("x", "z", "-" * most + " ostrich", {})
        assert correct_words([*filler, early], "wallrus pengiun") == ["walrus", "penguin"]
        assert correct_words([*filler[1:], early, late], "wallrus ostritch") == ["walrus"]


def test_a_catalog_is_read_once_while_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> list[str]:
        read.append(text)
        return name_words(text)

    monkeypatch.setattr(spelling, "name_words", counted)
    entries = tuple(tool(f"t{n}", "walrus") for n in range(50))
    assert correct_words(entries, "wallrus") == ["walrus"]
    assert len(read) == 51
    read.clear()
    assert correct_words(entries, "wallrus") == correct_words(list(entries), "walruss") == ["walrus"]
    assert read == ["wallrus", "walruss"]
    assert correct_words([*entries[1:], tool("t", "penguin")], "wallrus pengiun") == ["walrus", "penguin"]
    assert correct_words(entries[1:], "wallrus pengiun") == ["walrus"]


def test_nothing_is_held_by_what_is_kept() -> None:
    entry = tool("t", "walrus")
    gone = ref(entry)
    assert correct_words([entry], "wallrus") == ["walrus"]
    del entry
    gc.collect()
    assert gone() is None
    assert correct_words([tool("t", "penguin")], "wallrus pengiun") == ["penguin"]


def test_long_texts_are_read_from_the_beginning() -> None:
    filler = " ".join(f"qqqqq{'w' * n}" for n in range(MAX_WORDS))
    assert correct_words(CATALOG, f"companeis {filler}") == ["companies"]
    assert correct_words(CATALOG, f"{filler} companeis") == []


@given(st.text(max_size=200), st.permutations(CATALOG))
def test_only_words_of_the_catalog_whatever_its_order(query: str, shuffled: list[CatalogEntry]) -> None:
    found = correct_words(shuffled, query)
    assert found == correct_words(CATALOG, query)
    assert len(found) == len(set(found)) <= MAX_WORDS
    text = " ".join(f"{entry.name} {entry.description}" for entry in CATALOG).lower()
    assert all(word in text for word in found)
