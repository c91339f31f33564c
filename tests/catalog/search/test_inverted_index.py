"""The store: however documents come and go, what it holds is the same."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.search.analysis import document_from_entry
from codecall.catalog.search.inverted_index import IndexSnapshot, InvertedIndex
from tests.catalog.catalog import tool


def contents(shelf: IndexSnapshot) -> dict[int, tuple[dict[str, float], set[str], float, int]]:
    """By document: its words, the words of its name, its length, and how many n-grams it has."""
    spelt = {number: word for word, number in shelf.word_ids.items()}
    found: dict[int, tuple[dict[str, float], set[str], float, int]] = {}
    for segment in shelf.segments:
        for number in segment.ids.tolist():
            assert number not in found
            found[number] = ({}, set(), float(shelf.lengths[number]), 0)
        for kind, postings in enumerate((segment.words, segment.names)):
            for column in range(len(postings.starts) - 1):
                part = postings.column(column)
                for row, value in zip(postings.rows[part].tolist(), postings.values[part].tolist(), strict=True):
                    words, name, _, _ = found[int(segment.ids[row])]
                    if kind:
                        name.add(spelt[column])
                    else:
                        words[spelt[column]] = value
        for row in segment.grams.rows.tolist():
            number = int(segment.ids[row])
            found[number] = (*found[number][:3], found[number][3] + 1)  # type: ignore[assignment]
    return found


def document(text: str) -> object:
    return document_from_entry(tool(text.replace(" ", "_"), text))


STEPS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(["pear fig", "fig", "plum", "sloe berry", "rose hip", "x"]), min_size=1, max_size=6),
        st.sets(st.integers(0, 12), max_size=6),
    ),
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_the_store_holds_what_was_added_and_not_forgotten(steps: list[list[str] | set[int]]) -> None:
    store, held = InvertedIndex(), dict[int, str]()
    for step in steps:
        if isinstance(step, list):
            free = [number for number in range(100) if number not in held][: len(step)]
            held |= dict(zip(free, step, strict=True))
            store.add(free, [document(text) for text in step])  # type: ignore[misc]
        else:
            held = {number: text for number, text in held.items() if number not in step}
            store.remove(step)
    fresh = InvertedIndex()
    fresh.add(list(held), [document(text) for text in held.values()])  # type: ignore[misc]

    assert contents(store.snapshot) == contents(fresh.snapshot)


def test_a_document_is_spelt_the_same_to_the_last_digit_whatever_it_is_added_with() -> None:
    chance = random.Random(3)
    words = ["".join(chance.choices("abcdefghij", k=chance.randint(3, 9))) for _ in range(300)]
    documents = [document(" ".join(chance.choices(words, k=120))) for _ in range(20)]

    def spelt(together: list[int]) -> dict[int, list[float]]:
        store = InvertedIndex()
        store.add(together, [documents[number] for number in together])  # type: ignore[misc]
        (segment,) = store.snapshot.segments
        rows = segment.grams.rows
        return {n: segment.grams.values[rows == row].tolist() for row, n in enumerate(segment.ids.tolist())}

    alone = {number: spelt([number])[number] for number in range(len(documents))}
    assert spelt(list(range(len(documents)))) == alone
    assert spelt(list(range(len(documents)))[::-1]) == alone


def test_segments_stay_few() -> None:
    store = InvertedIndex()
    for number in range(200):
        store.add([number], [document(f"tool{number}")])  # type: ignore[list-item]

    assert len(store.snapshot.segments) <= 8  # the logarithm of 200
    assert sum(len(segment.ids) for segment in store.snapshot.segments) == 200


def test_a_shelf_stays_what_it_was() -> None:
    store = InvertedIndex()
    store.add([0, 1], [document("pear"), document("fig")])  # type: ignore[list-item]
    shelf = store.snapshot
    before = contents(shelf)
    store.remove([0])
    store.add([0], [document("plum")])  # type: ignore[list-item]

    assert contents(shelf) == before


def test_words_go_with_the_last_document_that_has_them() -> None:
    store = InvertedIndex()
    for number in range(0, 300, 3):
        store.add([number, number + 1], [document(f"only{number}"), document(f"common {number}")])  # type: ignore[list-item]
        store.remove([number])

    assert set(store.snapshot.word_ids) == {"common", "crm", *(str(number) for number in range(0, 300, 3))}


def test_what_servers_say_goes_with_their_last_document() -> None:
    store = InvertedIndex()
    entries = [replace(tool(f"t{number}", "Does it"), about=f"server {number // 2}") for number in range(6)]
    store.add(range(6), [document_from_entry(entry) for entry in entries])
    store.remove([0, 2, 3])
    store.add([0], [document_from_entry(tool("t6", "Does it"))])
    said = [set(store.snapshot.about_words[store.snapshot.abouts[number]]) for number in (0, 1, 4, 5)]
    assert said == [set(), {"server", "0"}, {"server", "2"}, {"server", "2"}]
    assert len(store.snapshot.about_words) == 3


def test_nothing_to_add_or_to_forget_is_no_work() -> None:
    store = InvertedIndex()
    store.add([], [])
    store.remove([5])

    assert store.snapshot.segments == ()
    store.add([5], [document_from_entry(tool("…", "", ""))])
    store.remove([5])
    assert store.snapshot.segments == ()
