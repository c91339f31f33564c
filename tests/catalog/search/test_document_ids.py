"""Which number an entry has, and when it is given to another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.indexer import MAX_DOCUMENT_SETS, SPARE_ENTRIES, DocumentIds
from tests.catalog.catalog import CATALOG, tool


def many(first: int, count: int) -> list[CatalogEntry]:
    return [tool(f"t{n}", "A tool") for n in range(first, first + count)]


def copies(entries: list[CatalogEntry] | tuple[CatalogEntry, ...]) -> list[CatalogEntry]:
    return [replace(entry, input_schema=dict(entry.input_schema)) for entry in entries]


def test_an_entry_keeps_its_number_and_equal_ones_share_it() -> None:
    shelves = DocumentIds()
    view, _ = shelves.assign(CATALOG)
    part, _ = shelves.assign(CATALOG[3:6])
    equal, _ = shelves.assign(copies(CATALOG))

    assert sorted(view.ids.tolist()) == list(range(len(CATALOG)))
    assert part.ids.tolist() == view.ids[3:6].tolist()
    assert equal.ids.tolist() == view.ids.tolist()


def test_what_differs_in_anything_has_a_number_of_its_own() -> None:
    first = CATALOG[0]
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
    view, _ = DocumentIds().assign(different)

    assert len(set(view.ids.tolist())) == len(different)


def test_the_very_same_entries_are_recognised() -> None:
    shelves = DocumentIds()
    assert shelves.recent(CATALOG) is None
    view, _ = shelves.assign(CATALOG)

    assert shelves.recent(CATALOG) is view
    assert shelves.recent(list(CATALOG)) is view
    assert shelves.recent(CATALOG[::-1]) is None
    assert shelves.recent(CATALOG[1:]) is None
    assert shelves.recent(copies(CATALOG)) is None


def test_the_views_used_last_are_recognised() -> None:
    shelves = DocumentIds()
    sets = [CATALOG[: n + 1] for n in range(MAX_DOCUMENT_SETS - 6)] + [CATALOG[n:] for n in range(1, 8)]
    for entries in sets[:MAX_DOCUMENT_SETS]:
        shelves.assign(entries)
    assert shelves.recent(sets[0]) is not None

    shelves.assign(sets[MAX_DOCUMENT_SETS])

    assert shelves.recent(sets[0]) is not None
    assert shelves.recent(sets[1]) is None


def test_entries_made_anew_for_each_search_do_not_push_out_other_callers() -> None:
    shelves = DocumentIds()
    other, _ = shelves.assign(CATALOG[:3])
    for _ in range(2 * MAX_DOCUMENT_SETS):
        shelves.assign(copies(CATALOG))

    assert shelves.recent(CATALOG[:3]) is other


def test_what_nobody_sees_is_forgotten_once_it_is_much() -> None:
    shelves = DocumentIds()
    keep = CATALOG[:2]
    forgotten: list[int] = []
    for n in range(3 * SPARE_ENTRIES):
        _, unseen = shelves.assign([*keep, tool("changing", f"Version {n}")])
        forgotten += unseen
        assert n - len(forgotten) <= SPARE_ENTRIES + MAX_DOCUMENT_SETS
    view, _ = shelves.assign(keep)

    assert len(forgotten) == len(set(forgotten)) > SPARE_ENTRIES
    assert not set(forgotten) & set(view.ids.tolist())


def test_as_many_as_are_seen_are_kept_beside() -> None:
    shelves = DocumentIds()
    size = 2 * SPARE_ENTRIES
    shelves.assign(many(0, size))
    for n in range(MAX_DOCUMENT_SETS):
        _, unseen = shelves.assign(many(size, size - n))
        assert unseen == []


def test_numbers_are_used_again_after_all_have_forgotten_them() -> None:
    shelves = DocumentIds()
    shelves.assign(many(0, 1_000))
    unseen: list[int] = []
    for n in range(MAX_DOCUMENT_SETS):
        unseen += shelves.assign([tool("x", str(n))])[1]
    assert sorted(unseen) == list(range(1_000))
    done = shelves.release_after(unseen, 2)

    waiting, _ = shelves.assign(many(2_000, 10))
    assert not set(waiting.ids.tolist()) & set(unseen)
    done()
    waiting, _ = shelves.assign(many(3_000, 10))
    assert not set(waiting.ids.tolist()) & set(unseen)
    done()
    again, _ = shelves.assign(many(4_000, 10))
    assert set(again.ids.tolist()) <= set(unseen)


def test_what_is_held_is_not_forgotten() -> None:
    shelves = DocumentIds()
    held, _ = shelves.assign(many(0, 1_000))
    unseen: list[int] = []
    for n in range(2 * MAX_DOCUMENT_SETS):
        unseen += shelves.assign([tool("x", str(n))])[1]
    assert unseen == []
    del held
    for n in range(2 * MAX_DOCUMENT_SETS):
        unseen += shelves.assign([tool("y", str(n))])[1]

    assert set(unseen) >= set(range(1_000))


def test_places_are_by_name_then_kind() -> None:
    prompt = replace(CATALOG[0], kind="prompt")
    view, _ = DocumentIds().assign([CATALOG[6], CATALOG[0], prompt, CATALOG[3]])

    assert view.name_ranks.tolist() == [1, 3, 2, 0]


def test_schemas_that_cannot_be_compared_count_as_changed() -> None:
    def endless() -> CatalogEntry:
        schema: dict[str, object] = {}
        schema["properties"] = {"again": schema}
        return CatalogEntry("x", "a", "", schema)

    shelves = DocumentIds()
    first, second = endless(), endless()
    view, _ = shelves.assign([first])
    other, _ = shelves.assign([second])

    assert view.ids.tolist() != other.ids.tolist()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(0, 40), unique=True, max_size=20), min_size=2, max_size=12))
def test_callers_in_threads_agree_on_the_numbers(views: list[list[int]]) -> None:
    pool = [tool(f"t{n}", "A tool") for n in range(41)]
    shelves = DocumentIds()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda view: shelves.assign(copies([pool[n] for n in view]))[0], views))
    number: dict[int, int] = {}
    for view, wanted in zip(found, views, strict=True):
        for n, given_number in zip(wanted, view.ids.tolist(), strict=True):
            assert number.setdefault(n, given_number) == given_number

    assert len(set(number.values())) == len(number)
