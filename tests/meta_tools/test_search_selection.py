"""Which hits are shown: filtered, fair to each query, best first."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.search.index import Hit
from codecall.meta_tools.search.selection import NEAREST, Criteria, Selection, select

ENTRIES = [
    CatalogEntry(f"t{n:02}", f"app{n % 3}", "", {}, tags=frozenset({f"tag{n % 4}"} if n % 4 else ())) for n in range(30)
]
Searched = list[tuple[str, list[Hit]]]


def by_score(scores: dict[int, float]) -> list[Hit]:
    return sorted((Hit(ENTRIES[n], score) for n, score in scores.items()), key=lambda hit: (-hit.score, hit.entry.name))


SEARCHED = st.lists(
    st.dictionaries(st.integers(0, 29), st.integers(10, 100).map(lambda n: n / 100), max_size=30),
    min_size=1,
    max_size=10,
).map(lambda queries: [(f"query {n}", by_score(scores)) for n, scores in enumerate(queries)])
CRITERIA = st.builds(
    Criteria,
    apps=st.none() | st.frozensets(st.sampled_from(["app0", "app1", "app2", "app9"])),
    tags=st.none() | st.frozensets(st.sampled_from(["tag1", "tag2", "tag9"])),
    excluded=st.frozensets(st.sampled_from([entry.name for entry in ENTRIES]), max_size=10),
    min_score=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
PLACES = st.integers(1, 12)


def names(selection: Selection) -> list[str]:
    return [item.entry.name for item in selection.matches]


def fitting(hits: list[Hit], criteria: Criteria) -> list[Hit]:
    """What may be shown, worked out the long way."""
    return [
        hit
        for hit in hits
        if hit.score >= criteria.min_score
        and hit.entry.name not in criteria.excluded
        and (criteria.apps is None or hit.entry.app_id in criteria.apps)
        and (criteria.tags is None or criteria.tags & hit.entry.tags)
    ]


def test_queries_take_turns() -> None:
    searched: Searched = [
        ("common", by_score({n: 0.9 - n / 100 for n in range(10)})),
        ("rare", by_score({20: 0.4, 21: 0.35, 22: 0.3})),
    ]
    assert names(select(searched, Criteria(), 4, default=False)) == ["t00", "t01", "t20", "t21"]


def test_an_entry_that_fits_several_queries_takes_one_place_and_its_best_score() -> None:
    searched: Searched = [("a", by_score({1: 0.5, 2: 0.4})), ("b", by_score({1: 0.8, 3: 0.3}))]
    first, *others = select(searched, Criteria(), 3, default=False).matches
    assert (first.entry.name, first.score, first.queries) == ("t01", 0.8, {"a": 0.5, "b": 0.8})
    assert [(item.entry.name, [*item.queries]) for item in others] == [("t02", ["a"]), ("t03", ["b"])]


def test_an_answer_names_the_queries_that_an_entry_fits_as_well_as_its_best_or_better_than_others_do() -> None:
    searched: Searched = [
        ("a", by_score({1: 0.8, 2: 0.3})),
        ("b", by_score({1: 0.75, 2: 0.6})),
        ("c", by_score({1: 0.4, 2: 0.35})),
        ("d", by_score({2: 0.9, 1: 0.5})),
    ]
    selection = select(searched, Criteria(), 2, default=False)
    assert [(item.entry.name, item.strong_queries) for item in selection.matches] == [
        ("t02", ["d"]),
        ("t01", ["a", "b", "c"]),
    ]


def test_the_usual_number_of_places_grows_with_the_queries_that_have_hits() -> None:
    searched: Searched = [*((f"q{n}", by_score({n: 0.5})) for n in range(4)), ("none", [])]
    assert len(select(searched, Criteria(), 2, default=True).matches) == 4
    few = select(searched, Criteria(), 2, default=False)
    assert (names(few), few.without_place) == (["t00", "t01"], ["q2", "q3"])


def test_what_came_near_is_kept() -> None:
    hits = by_score({0: 0.9, 3: 0.8, 1: 0.4, 4: 0.3, 7: 0.2, 10: 0.1})
    criteria = Criteria(apps=frozenset({"app1"}), excluded=frozenset({"t03"}), min_score=0.5)
    (missed,) = select([("q", hits)], criteria, 5, default=False).unmatched
    assert [hit.entry.name for hit in missed.below_score] == ["t01", "t04", "t07"]
    assert [hit.entry.name for hit in missed.outside_filter] == ["t00"]


def test_a_tool_and_a_resource_may_share_a_name() -> None:
    both = [Hit(CatalogEntry("x", "a", "", {}, kind=kind), 0.5) for kind in ("resource", "tool")]  # type: ignore[arg-type]
    matches_of_both = select([("q", both)], Criteria(), 5, default=False).matches
    assert [(item.entry.name, item.entry.kind) for item in matches_of_both] == [("x", "resource"), ("x", "tool")]


@given(SEARCHED, CRITERIA, PLACES, st.booleans())
def test_what_is_shown_may_be_shown_and_is_in_order(
    searched: Searched, criteria: Criteria, places: int, default: bool
) -> None:
    selection = select(searched, criteria, places, default)
    allowed = {query: {hit.entry.name: hit.score for hit in fitting(hits, criteria)} for query, hits in searched}
    selected = names(selection)
    assert len(selected) == len(set(selected))
    assert selected == [item.entry.name for item in sorted(selection.matches, key=lambda f: (-f.score, f.entry.name))]
    for item in selection.matches:
        fits = {query: scores[item.entry.name] for query, scores in allowed.items() if item.entry.name in scores}
        assert item.score == max(fits.values())
        if len(searched) > 1:
            assert item.queries == fits
            assert set(item.strong_queries) <= set(fits)
    different = len(set(chain.from_iterable(allowed.values())))
    matching = sum(map(bool, allowed.values()))
    assert len(selected) == min(different, max(places, matching) if default else places)


@given(SEARCHED, CRITERIA, PLACES, st.booleans())
def test_no_query_goes_without_a_word(searched: Searched, criteria: Criteria, places: int, default: bool) -> None:
    selection = select(searched, criteria, places, default)
    answered = set(chain.from_iterable(item.strong_queries for item in selection.matches))
    missed = {miss.query for miss in selection.unmatched}
    assert answered | missed | set(selection.without_place) == {query for query, _ in searched}
    assert not answered & (missed | set(selection.without_place))
    assert missed == {query for query, hits in searched if not fitting(hits, criteria)}
    if default or places >= len(searched):
        assert selection.without_place == []
    for miss in selection.unmatched:
        assert len(miss.below_score) <= NEAREST
        assert all(hit.score < criteria.min_score and criteria.fits(hit.entry) for hit in miss.below_score)
        assert all(
            hit.score >= criteria.min_score and not criteria.passes_filter(hit.entry) for hit in miss.outside_filter
        )


@given(SEARCHED.map(lambda searched: searched[:1]), CRITERIA, PLACES)
def test_the_best_of_one_query_comes_first(searched: Searched, criteria: Criteria, places: int) -> None:
    best = fitting(searched[0][1], criteria)[:1]
    assert names(select(searched, criteria, places, default=False))[:1] == [hit.entry.name for hit in best]
