"""Which number an entry has, and when it is given to another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.indexer import KEPT_VIEWS, SPARE_ENTRIES, Shelves
from tests.catalog.catalogue import CATALOGUE, tool


def many(first: int, count: int) -> list[CatalogEntry]:
    return [tool(f"t{n}", "A tool") for n in range(first, first + count)]


def copies(entries: list[CatalogEntry] | tuple[CatalogEntry, ...]) -> list[CatalogEntry]:
    return [replace(entry, input_schema=dict(entry.input_schema)) for entry in entries]


def test_an_entry_keeps_its_number_and_equal_ones_share_it() -> None:
    shelves = Shelves()
    view, _ = shelves.view(CATALOGUE)
    part, _ = shelves.view(CATALOGUE[3:6])
    equal, _ = shelves.view(copies(CATALOGUE))

    assert sorted(view.numbers.tolist()) == list(range(len(CATALOGUE)))
    assert part.numbers.tolist() == view.numbers[3:6].tolist()
    assert equal.numbers.tolist() == view.numbers.tolist()


def test_what_differs_in_anything_has_a_number_of_its_own() -> None:
    first = CATALOGUE[0]
    different = [
        first,
        replace(first, description="Other"),
        replace(first, title="Other"),
        replace(first, tags=frozenset({"other"})),
        replace(first, app_id="other"),
        replace(first, kind="prompt"),
        replace(first, version="2"),
        replace(first, annotations={"readOnlyHint": True}),
        replace(first, input_schema={}),
        replace(first, output_schema={}),
    ]
    view, _ = Shelves().view(different)

    assert len(set(view.numbers.tolist())) == len(different)


def test_the_very_same_entries_are_recognised() -> None:
    shelves = Shelves()
    assert shelves.same(CATALOGUE) is None
    view, _ = shelves.view(CATALOGUE)

    assert shelves.same(CATALOGUE) is view
    assert shelves.same(list(CATALOGUE)) is view
    assert shelves.same(CATALOGUE[::-1]) is None
    assert shelves.same(CATALOGUE[1:]) is None
    assert shelves.same(copies(CATALOGUE)) is None


def test_the_views_used_last_are_recognised() -> None:
    shelves = Shelves()
    sets = [CATALOGUE[: n + 1] for n in range(KEPT_VIEWS - 6)] + [CATALOGUE[n:] for n in range(1, 8)]
    for entries in sets[:KEPT_VIEWS]:
        shelves.view(entries)
    assert shelves.same(sets[0]) is not None

    shelves.view(sets[KEPT_VIEWS])

    assert shelves.same(sets[0]) is not None
    assert shelves.same(sets[1]) is None


def test_entries_made_anew_for_each_search_do_not_push_out_other_callers() -> None:
    shelves = Shelves()
    other, _ = shelves.view(CATALOGUE[:3])
    for _ in range(2 * KEPT_VIEWS):
        shelves.view(copies(CATALOGUE))

    assert shelves.same(CATALOGUE[:3]) is other


def test_what_nobody_sees_is_forgotten_once_it_is_much() -> None:
    shelves = Shelves()
    keep = CATALOGUE[:2]
    forgotten: list[int] = []
    for n in range(3 * SPARE_ENTRIES):
        _, unseen = shelves.view([*keep, tool("changing", f"Version {n}")])
        forgotten += unseen
        assert n - len(forgotten) <= SPARE_ENTRIES + KEPT_VIEWS
    view, _ = shelves.view(keep)

    assert len(forgotten) == len(set(forgotten)) > SPARE_ENTRIES
    assert not set(forgotten) & set(view.numbers.tolist())


def test_as_many_as_are_seen_are_kept_beside() -> None:
    shelves = Shelves()
    size = 2 * SPARE_ENTRIES
    shelves.view(many(0, size))
    for n in range(KEPT_VIEWS):
        _, unseen = shelves.view(many(size, size - n))
        assert unseen == []


def test_numbers_are_used_again_after_all_have_forgotten_them() -> None:
    shelves = Shelves()
    shelves.view(many(0, 1_000))
    unseen: list[int] = []
    for n in range(KEPT_VIEWS):
        unseen += shelves.view([tool("x", str(n))])[1]
    assert sorted(unseen) == list(range(1_000))
    done = shelves.freeing(unseen, 2)

    waiting, _ = shelves.view(many(2_000, 10))
    assert not set(waiting.numbers.tolist()) & set(unseen)
    done()
    waiting, _ = shelves.view(many(3_000, 10))
    assert not set(waiting.numbers.tolist()) & set(unseen)
    done()
    again, _ = shelves.view(many(4_000, 10))
    assert set(again.numbers.tolist()) <= set(unseen)


def test_what_is_held_is_not_forgotten() -> None:
    shelves = Shelves()
    held, _ = shelves.view(many(0, 1_000))
    unseen: list[int] = []
    for n in range(2 * KEPT_VIEWS):
        unseen += shelves.view([tool("x", str(n))])[1]
    assert unseen == []
    del held
    for n in range(2 * KEPT_VIEWS):
        unseen += shelves.view([tool("y", str(n))])[1]

    assert set(unseen) >= set(range(1_000))


def test_places_are_by_name_then_kind() -> None:
    prompt = replace(CATALOGUE[0], kind="prompt")
    view, _ = Shelves().view([CATALOGUE[6], CATALOGUE[0], prompt, CATALOGUE[3]])

    assert view.places.tolist() == [1, 3, 2, 0]


def test_schemas_that_cannot_be_compared_count_as_changed() -> None:
    def endless() -> CatalogEntry:
        schema: dict[str, object] = {}
        schema["properties"] = {"again": schema}
        return CatalogEntry("x", "a", "", schema)

    shelves = Shelves()
    first, second = endless(), endless()
    view, _ = shelves.view([first])
    other, _ = shelves.view([second])

    assert view.numbers.tolist() != other.numbers.tolist()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(0, 40), unique=True, max_size=20), min_size=2, max_size=12))
def test_callers_in_threads_agree_on_the_numbers(views: list[list[int]]) -> None:
    pool = [tool(f"t{n}", "A tool") for n in range(41)]
    shelves = Shelves()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda view: shelves.view(copies([pool[n] for n in view]))[0], views))
    number: dict[int, int] = {}
    for view, wanted in zip(found, views, strict=True):
        for n, given_number in zip(wanted, view.numbers.tolist(), strict=True):
            assert number.setdefault(n, given_number) == given_number

    assert len(set(number.values())) == len(number)
