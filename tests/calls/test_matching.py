"""Which call of an earlier run is the one that a script makes now."""

from __future__ import annotations

from typing import Literal

import pytest

from codecall.calls.kept_runs import Call, Damaged, joined
from codecall.calls.matching import Earlier, Match

State = Literal["ok", "failed", "lost", "unknown"]


def call(
    given: str, start: int, end: int | None, state: State = "ok", name: str = "send", **more: int | bool
) -> Call:
    """One call of an earlier run, with what it was given as its digest and its value."""
    if state == "unknown":
        return Call(start=start)
    value = f'"{given}"' if state == "ok" else None
    return Call("tool", name, given, state, value, start, end, **more)  # type: ignore[arg-type]


def in_turn(*given: str, state: State = "ok", name: str = "send") -> list[Call]:
    """Calls one after the other."""
    return [call(text, 2 * at, 2 * at + 1, state, name) for at, text in enumerate(given, 1)]


def answers(earlier: Earlier, *given: str, name: str = "send") -> list[str | None]:
    """What the calls are answered with, without being made."""
    return [earlier.match("tool", name, text).value for text in given]


def test_the_same_calls_in_the_same_order_are_answered():
    assert answers(Earlier(in_turn("a", "b", "c")), "a", "b", "c", "d") == ['"a"', '"b"', '"c"', None]


def test_each_is_answered_once():
    assert answers(Earlier(in_turn("a", "a")), "a", "a", "a") == ['"a"', '"a"', None]


@pytest.mark.parametrize("made", [("b", "a", "c"), ("x", "a", "b"), ("a", "c", "b")])
def test_from_the_first_that_differs_nothing_is_answered(made: tuple[str, ...]):
    earlier = Earlier(in_turn("a", "b", "c"))
    got = answers(earlier, *made)
    assert got == ['"a"' if made[0] == "a" else None, None, None]
    assert earlier.match("tool", "send", "c") == Match(parted=True)


def test_order_is_kept_for_each_tool_by_itself():
    earlier = Earlier([*in_turn("a", "b"), *in_turn("a", "b", name="read")])
    assert answers(earlier, "b", name="send") == [None]
    assert answers(earlier, "a", "b", name="read") == ['"a"', '"b"']
    assert earlier.match("prompt", "read", "a").value is None


def test_calls_that_overlapped_have_no_order():
    at_once = [call("a", 1, 6), call("b", 2, 4), call("c", 3, 5)]
    assert answers(Earlier([*at_once, call("d", 7, 8)]), "c", "a", "b", "d") == ['"c"', '"a"', '"b"', '"d"']
    # What had begun when the others had ended comes after them.
    assert answers(Earlier([*at_once, call("d", 7, 8)]), "c", "d", "a") == ['"c"', None, None]


def test_a_failed_call_is_made_again_and_ends_nothing():
    earlier = [call("a", 1, 2), call("b", 3, 4, "failed"), call("c", 5, 6)]
    assert answers(Earlier(earlier), "a", "b", "c") == ['"a"', None, '"c"']
    # Mended: another input in its place; left out; tried twice.
    assert answers(Earlier(earlier), "a", "B", "c") == ['"a"', None, '"c"']
    assert answers(Earlier(earlier), "a", "c") == ['"a"', '"c"']
    assert answers(Earlier(earlier), "a", "b", "b", "c") == ['"a"', None, None, None]


def test_a_call_that_was_tried_until_it_went_well_is_answered_at_once():
    earlier = Earlier([call("a", 1, 2, "failed"), call("a", 3, 4)])
    assert answers(earlier, "a") == ['"a"']


def test_a_place_is_not_taken_before_its_time():
    earlier = Earlier([call("a", 1, 2), call("b", 3, 4, "failed")])
    assert earlier.match("tool", "send", "b") == Match(parted=True)


@pytest.mark.parametrize("state", ["lost", "unknown"])
def test_of_what_no_value_is_known_is_made_again(state: State):
    earlier = Earlier([call("a", 1, 2), call("b", 3, 4, state), call("c", 5, 6)])
    assert answers(earlier, "a", "b", "c") == ['"a"', None, '"c"']


def test_a_run_that_took_up_another_is_taken_up_with_what_is_left_of_that():
    given = dict(enumerate(in_turn("a", "b", "c", "d"), 1))
    # It was answered a, made the mended B in the place of nothing, and ended.
    made = {1: Call(state="reused", inherits=1, start=11, end=12)}
    assert answers(Earlier(joined(given, made)), "a", "b", "c", "d") == ['"a"', '"b"', '"c"', '"d"']


def test_what_was_parted_from_is_not_there_any_more():
    given = dict(enumerate([*in_turn("a", "b", "c"), *in_turn("x", name="read")], 1))
    made = {1: Call(state="reused", inherits=1, start=11, end=12), 2: call("B", 13, 14, parted=True)}
    earlier = Earlier(joined(given, made))
    assert answers(earlier, "a", "B", "b") == ['"a"', '"B"', None]
    assert answers(earlier, "x", name="read") == ['"x"']


def test_what_took_a_place_is_in_that_place():
    given = dict(enumerate([call("a", 1, 2, "failed"), call("b", 3, 4)], 1))
    made = {1: call("A", 11, 12, inherits=1)}
    assert answers(Earlier(joined(given, made)), "A", "b") == ['"A"', '"b"']


def test_a_gap_in_the_record_is_a_call_of_which_nothing_is_known():
    made = {1: call("a", 1, 2), 3: call("c", 4, 5)}
    assert answers(Earlier(joined({}, made)), "a", "b", "c") == ['"a"', None, '"c"']


def test_a_record_that_refers_to_nothing_is_damaged():
    with pytest.raises(Damaged):
        joined({}, {1: Call(state="reused", inherits=3)})
