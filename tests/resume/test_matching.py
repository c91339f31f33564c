"""Which call of an earlier run is the one that a script makes now."""

from __future__ import annotations

from itertools import count
from typing import Any, Literal

import pytest

from codecall.resume.matching import Match, PreviousCalls
from codecall.resume.store import DamagedRecordError, StoredCall, merge_calls

State = Literal["ok", "failed", "lost", "unknown"]


def call(given: str, epoch: int, state: State = "ok", name: str = "send", run: int = 0, **more: Any) -> StoredCall:
    """One call of an earlier run, with what it was given as its digest and its value."""
    if state == "unknown":
        return StoredCall()
    value = f'"{given}"' if state == "ok" else None
    return StoredCall("", "tool", name, given, state, value, ((run, epoch),), **more)


def reused(number: int, epoch: int = 1, run: int = 1) -> StoredCall:
    """One that was answered from an earlier run."""
    return StoredCall(state="reused", inherits=number, epochs=((run, epoch),))


def in_turn(*given: str, name: str = "send") -> list[StoredCall]:
    """Calls one after the other."""
    return [call(text, at, name=name) for at, text in enumerate(given, 1)]


def numbered(*calls: StoredCall) -> dict[int, StoredCall]:
    return dict(enumerate(calls, 1))


def answers(earlier: PreviousCalls, *given: str, name: str = "send", since: int = 1) -> list[str | None]:
    """What the calls are answered with, without being made: made one after the other."""
    return [earlier.match("tool", name, text, epoch).value for epoch, text in zip(count(since), given, strict=False)]


def at_once(earlier: PreviousCalls, *given: str, epoch: int = 1) -> list[str | None]:
    """The same, of calls made side by side."""
    return [earlier.match("tool", "send", text, epoch).value for text in given]


def test_the_same_calls_in_the_same_order_are_answered():
    assert answers(PreviousCalls(in_turn("a", "b", "c")), "a", "b", "c", "d") == ['"a"', '"b"', '"c"', None]


def test_each_is_answered_once():
    assert answers(PreviousCalls(in_turn("a", "a")), "a", "a", "a") == ['"a"', '"a"', None]


@pytest.mark.parametrize("made", [("b", "a", "c"), ("x", "a", "b"), ("a", "c", "b"), ("a", "x", "b", "c")])
def test_from_the_first_that_differs_nothing_is_answered(made: tuple[str, ...]):
    first, *rest = answers(PreviousCalls(in_turn("a", "b", "c")), *made)
    assert first == ('"a"' if made[0] == "a" else None)
    assert {*rest} == {None}


def test_order_is_kept_for_each_tool_by_itself():
    earlier = PreviousCalls([*in_turn("a", "b"), *in_turn("a", "b", name="read")])
    assert answers(earlier, "b", name="send") == [None]
    assert answers(earlier, "a", "b", name="read") == ['"a"', '"b"']
    assert earlier.match("prompt", "read", "a", 1).value is None


def test_calls_that_ran_side_by_side_have_no_order():
    beside = [call("a", 1), call("b", 1), call("c", 1)]
    assert answers(PreviousCalls([*beside, call("d", 2)]), "c", "a", "b", "d") == ['"c"', '"a"', '"b"', '"d"']
    # What was made when all of them had ended comes after them.
    assert answers(PreviousCalls([*beside, call("d", 2)]), "c", "d", "a") == ['"c"', None, None]


def test_a_new_call_beside_others_ends_nothing_before_all_of_them_are_waited_for():
    calls = [call("a", 1), call("b", 1), call("c", 2)]
    earlier = PreviousCalls(calls)
    assert at_once(earlier, "x", "b", "a") == [None, '"b"', '"a"']
    assert answers(earlier, "c", since=2) == [None]
    assert answers(PreviousCalls(calls), "x", "b") == [None, None]


def test_a_failed_call_is_made_again_and_ends_nothing():
    earlier = [call("a", 1), call("b", 2, "failed"), call("c", 3)]
    assert answers(PreviousCalls(earlier), "a", "b", "c") == ['"a"', None, '"c"']
    # Mended: another input in its place; left out; tried twice.
    assert answers(PreviousCalls(earlier), "a", "B", "c") == ['"a"', None, '"c"']
    assert answers(PreviousCalls(earlier), "a", "c") == ['"a"', '"c"']
    assert answers(PreviousCalls(earlier), "a", "b", "b", "c") == ['"a"', None, None, None]


def test_a_call_that_was_tried_until_it_went_well_is_answered_at_once():
    assert answers(PreviousCalls([call("a", 1, "failed"), call("a", 2)]), "a") == ['"a"']


def test_a_place_is_not_taken_before_its_time():
    earlier = PreviousCalls([call("a", 1), call("b", 2, "failed")])
    assert earlier.match("tool", "send", "b", 1) == Match(diverged=True)


@pytest.mark.parametrize("state", ["lost", "unknown"])
def test_of_what_no_value_is_known_is_made_again(state: State):
    earlier = PreviousCalls([call("a", 1), call("b", 2, state), call("c", 3)])
    assert answers(earlier, "a", "b", "c") == ['"a"', None, '"c"']


# ---------------------------------------------------------------------------------------------------------- chains


def test_a_run_that_took_up_another_is_taken_up_with_what_is_left_of_that():
    given = numbered(*in_turn("a", "b", "c", "d"))
    again = PreviousCalls(merge_calls(given, {1: reused(1)}, 1))
    assert answers(again, "a", "b", "c", "d") == ['"a"', '"b"', '"c"', '"d"']


def test_what_was_parted_from_is_not_there_any_more():
    given = numbered(*in_turn("a", "b", "c"), *in_turn("x", name="read"))
    new = call("B", 2, run=1, diverged=True)
    # It ended with that call: what would have come next is not known.
    earlier = PreviousCalls(merge_calls(given, numbered(reused(1), new), 2))
    assert answers(earlier, "a", "B", "b") == ['"a"', '"B"', None]
    # It went on.
    earlier = PreviousCalls(merge_calls(given, numbered(reused(1), new, call("c", 3, run=1)), 3))
    assert answers(earlier, "a", "B", "c", "b") == ['"a"', '"B"', '"c"', None]
    assert answers(earlier, "x", name="read") == ['"x"']


def test_a_new_call_beside_others_is_beside_them_the_next_time_too():
    given = numbered(call("a", 1), call("b", 1), call("c", 2))
    made = numbered(call("x", 1, run=1, diverged=True), reused(2))
    assert at_once(PreviousCalls(merge_calls(given, made, 2)), "b", "x", "a") == ['"b"', '"x"', '"a"']
    assert answers(PreviousCalls(merge_calls(given, made, 2)), "x", "a") == ['"x"', None]
    # A fourth run resumes the third: what diverged before diverges again.
    third = merge_calls(given, made, 2)
    place = next(number for number, old in enumerate(third, 1) if old.digest == "x")
    fourth = PreviousCalls(merge_calls(numbered(*third), numbered(reused(place, run=2), call("y", 2, run=2)), 2))
    assert answers(fourth, "x", "y", "a") == ['"x"', '"y"', None]


def test_what_ran_side_by_side_in_one_run_of_a_chain_has_no_order():
    given = numbered(call("a", 1), call("b", 1), call("c", 2))
    # Answered at once, they seemed to come one after the other.
    third = merge_calls(given, numbered(reused(1, 1), reused(2, 2), reused(3, 3)), 3)
    assert answers(PreviousCalls(third), "b", "a", "c") == ['"b"', '"a"', '"c"']
    assert answers(PreviousCalls(third), "c", "a") == [None, None]
    # Nor have those that no run had both of.
    mixed = merge_calls(given, numbered(reused(1), call("x", 1, run=1)), 2)
    assert at_once(PreviousCalls(mixed), "x", "b", "a", "c") == ['"x"', '"b"', '"a"', '"c"']


def test_what_took_a_place_is_there_instead():
    given = numbered(call("a", 1, "failed"), call("b", 2))
    again = merge_calls(given, {1: call("A", 1, run=1, inherits=1)}, 1)
    assert answers(PreviousCalls(again), "A", "b") == ['"A"', '"b"']
    assert answers(PreviousCalls(again), "a", "A", "b") == [None, None, None]


def test_a_gap_in_the_record_is_a_call_of_which_nothing_is_known():
    made = {1: call("a", 1), 3: call("c", 2), 5: call("e", 2)}
    earlier = PreviousCalls(merge_calls({}, made, 5))
    assert [*answers(earlier, "a"), *at_once(earlier, "b", "e", "c", epoch=2)] == ['"a"', None, '"e"', '"c"']


def test_a_record_that_refers_to_nothing_is_damaged():
    with pytest.raises(DamagedRecordError):
        merge_calls({}, {1: reused(3)}, 1)
