"""The rule that keeps one app from filling an answer alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from codecall.catalog.search.fusion import MAX_SCORE_GAP, diversify


class Ranked(NamedTuple):
    """Something found."""

    place: int
    app: str
    score: float


def ranking(*found: tuple[str, float]) -> list[Ranked]:
    return [Ranked(place, app, score) for place, (app, score) in enumerate(found)]


def shown(ranked: list[Ranked], top: int, close: float = MAX_SCORE_GAP) -> list[Ranked]:
    return diversify(ranked, top, app_of=lambda item: item.app, score_of=lambda item: item.score, max_gap=close)


RANKINGS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(10, 100).map(lambda n: n / 100)), max_size=40).map(
    lambda found: ranking(*sorted(found, key=lambda item: -item[1]))
)
TOPS = st.integers(0, 20)


def test_the_best_of_another_app_takes_the_last_place_when_it_is_close() -> None:
    found = ranking(("a", 0.9), ("a", 0.8), ("a", 0.7), ("a", 0.69), ("b", 0.66), ("c", 0.65))
    assert shown(found, 3) == [found[0], found[1], found[4]]


def test_it_does_not_when_it_is_clearly_worse() -> None:
    found = ranking(("a", 0.9), ("a", 0.8), ("a", 0.7), ("b", 0.55))
    assert shown(found, 3) == found[:3]


def test_an_answer_of_several_apps_stays_as_it_is() -> None:
    found = ranking(("a", 0.9), ("b", 0.8), ("a", 0.7), ("c", 0.7))
    assert shown(found, 3) == found[:3]


def test_the_only_place_goes_to_the_best() -> None:
    found = ranking(("a", 0.9), ("b", 0.9))
    assert shown(found, 1) == found[:1]


def test_a_longer_answer_has_room_for_more_apps() -> None:
    found = ranking(*[("a", 0.5)] * 10, ("b", 0.49), ("b", 0.48), ("c", 0.47), ("d", 0.46))
    assert [item.app for item in shown(found, 10)] == [*"aaaaaaaa", "b", "c"]


def test_what_is_not_needed_is_not_read() -> None:
    read: list[float] = []

    def hits() -> Iterator[Ranked]:
        for place in range(1_000):
            read.append(1 - place / 100)
            yield Ranked(place, "a", 1 - place / 100)

    diversify(hits(), 5, app_of=lambda item: item.app, score_of=lambda item: item.score)
    assert read[-1] > 1 - 0.04 - MAX_SCORE_GAP - 0.02


@given(RANKINGS, TOPS)
def test_the_first_stays_and_the_order_falls(found: list[Ranked], top: int) -> None:
    answer = shown(found, top)
    assert len(answer) == min(top, len(found))
    assert answer[:1] == found[: min(top, 1)]
    assert answer == sorted(answer)


@given(RANKINGS, TOPS)
def test_nothing_gives_way_to_what_is_clearly_worse(found: list[Ranked], top: int) -> None:
    answer = shown(found, top)
    gone = [item for item in found[:top] if item not in answer]
    came = [item for item in answer if item not in found[:top]]
    assert len(gone) == len(came) <= max(1, top // 5)
    assert all(out.score - into.score <= MAX_SCORE_GAP for out, into in zip(reversed(gone), came, strict=True))
    assert {item.app for item in answer} >= {item.app for item in found[:top]}


@given(RANKINGS, TOPS)
def test_nobody_is_crowded_out(found: list[Ranked], top: int) -> None:
    answer = shown(found, top)
    others = [item for item in found if item.app != found[0].app]
    if top > 1 and others and len({item.app for item in answer}) == 1:
        assert answer[-1].score - others[0].score > MAX_SCORE_GAP


@given(RANKINGS, TOPS)
def test_doing_it_twice_changes_nothing(found: list[Ranked], top: int) -> None:
    answer = shown(found, top)
    rest = [item for item in found if item not in answer]
    assert shown(answer + rest, top) == answer


@given(RANKINGS, TOPS)
def test_one_app_alone_is_left_alone(found: list[Ranked], top: int) -> None:
    alone = [item._replace(app="a") for item in found]
    assert shown(alone, top) == alone[:top]
