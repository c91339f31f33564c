"""The calls of a script: what they compare to, who ran beside whom, and how they read."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.testing import Call, Calls
from codecall.testing.calls import abbreviate, compare_calls
from codecall.testing.report import CallHistory


def made(*spans: tuple[str, int, int | None]) -> Calls:
    """Calls by name, beginning and end."""
    calls = [
        Call(number, "tool", name, {"n": number}, started, ended, "pending" if ended is None else "ok", number)
        for number, (name, started, ended) in enumerate(spans, 1)
    ]
    return Calls(tuple(calls))


TWO_BESIDE = made(("a", 1, 4), ("b", 2, 3), ("a", 5, 6))


def test_calls_compare_as_plain_data():
    assert TWO_BESIDE == [("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": 3})]
    assert made(("a", 7, 8), ("b", 9, 9), ("a", 5, None)) == TWO_BESIDE
    assert TWO_BESIDE != [("a", {"n": 1})]
    assert TWO_BESIDE != [("a", {"n": 1}), ("b", {"n": 2}), ("b", {"n": 3})]
    assert TWO_BESIDE != "a"
    assert TWO_BESIDE[0] == ("a", {"n": 1})
    assert TWO_BESIDE[0] != ("a", {})
    assert TWO_BESIDE[0] != TWO_BESIDE[2]
    assert TWO_BESIDE.names == ["a", "b", "a"]
    assert TWO_BESIDE.inputs == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert TWO_BESIDE.outcomes == ["ok", "ok", "ok"]
    assert TWO_BESIDE[1:].names == ["b", "a"]
    assert [call.name for call in TWO_BESIDE] == TWO_BESIDE.names


def test_calls_of_a_name():
    calls = made(("users:list", 1, 2), ("users:get", 3, 4), ("shop://a[1]", 5, 6))
    assert calls.of("users:get").names == ["users:get"]
    assert calls.of("users:*").names == ["users:list", "users:get"]
    assert calls.of("shop://a[1]").names == ["shop://a[1]"]
    assert calls.of("none") == []


def test_who_ran_beside_whom():
    first, second, third = TWO_BESIDE
    assert first.overlaps(second)
    assert second.overlaps(first)
    assert not first.overlaps(first)
    assert not first.overlaps(third)
    assert TWO_BESIDE.overlaps == [(first, second)]
    assert TWO_BESIDE.max_concurrent == 2
    assert [call.number for call in TWO_BESIDE.by_end] == [2, 1, 3]
    assert made().max_concurrent == 0
    assert TWO_BESIDE.of("b").max_concurrent == 1


def test_a_call_that_has_not_ended_runs_on():
    calls = made(("a", 1, None), ("b", 2, 3), ("c", 4, None))
    assert calls.max_concurrent == 2
    assert [(left.name, right.name) for left, right in calls.overlaps] == [("a", "b"), ("a", "c")]
    assert calls.by_end.names == ["b", "a", "c"]


@given(st.lists(st.booleans(), max_size=30))
def test_the_ledger_counts_as_the_calls_say(steps: list[bool]):
    ledger = CallHistory()
    running: list[Call] = []
    most = 0
    for begin in steps:
        if begin:
            running.append(ledger.begin("tool", "a", {}))
        elif running:
            ledger.end(running.pop(0), "ok")
        most = max(most, len(running))
    assert ledger.calls.max_concurrent == most
    assert [call.number for call in ledger.calls] == [*range(1, len(ledger.calls) + 1)]


def test_called_once():
    calls = made(("a", 1, 2))
    calls.assert_called_once_with({"n": 1})
    calls.assert_called_once_with(n=1)
    with pytest.raises(AssertionError, match=r'expected: \{"n": 2\}\n     got: \{"n": 1\}'):
        calls.assert_called_once_with(n=2)
    with pytest.raises(AssertionError, match=r"one call with \{\} was expected; there are no calls"):
        made().assert_called_once_with()
    with pytest.raises(AssertionError, match="there are 3 calls"):
        TWO_BESIDE.assert_called_once_with(n=1)


def test_calls_can_be_read():
    assert repr(TWO_BESIDE) == (
        '3 calls:\n  1 a({"n": 1}) -> 1  (beside 2)\n  2 b({"n": 2}) -> 2  (beside 1)\n  3 a({"n": 3}) -> 3'
    )
    assert repr(made(("a", 1, None))) == '1 call:\n  1 a({"n": 1}) -> pending'
    assert (
        repr(Call(1, "resource", "shop://menu", {}, 1, 2, "RESOURCE_NOT_FOUND"))
        == "shop://menu() -> RESOURCE_NOT_FOUND"
    )
    assert abbreviate("é" * 300) == f'"{"é" * 199}… (302 characters)'


def test_many_calls_are_cut_and_said_so():
    lines = repr(made(*(("a", 1, 1000) for _ in range(60)))).splitlines()
    assert lines[0] == "60 calls:"
    assert lines[1].endswith("(beside 2, 3, 4, 5, 6 and 54 more)")
    assert len(lines) == 52
    assert lines[-1] == "  … 10 more"


def test_a_comparison_that_fails_is_shown_call_by_call():
    lines = compare_calls(TWO_BESIDE, [("a", {"n": 1}), ("c", {"n": 2}), "what", ("d", {})])
    assert lines == [
        "the calls are others than expected",
        '    a({"n": 1})',
        '  - c({"n": 2})  (expected)',
        '  + b({"n": 2})  (made)',
        "  - 'what'  (expected)",
        '  + a({"n": 3})  (made)',
        "  - d({})  (expected)",
    ]
    assert cast("list[str]", compare_calls(TWO_BESIDE, []))[-1] == '  + a({"n": 3})  (made)'
    assert compare_calls(TWO_BESIDE, 5) is None
