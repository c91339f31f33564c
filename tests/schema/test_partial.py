"""What is known of an input, as it comes from a worker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.schema.partial import (
    MAX_NESTING,
    PartialArray,
    PartialInput,
    PartialInputError,
    PartialObject,
    Unknown,
    has_unknowns,
)


def test_all_of_it() -> None:
    data = [1, {"a": [4, 5], "b": [9, [2, {"c": [12, []]}]], "d": [20, [3, [1, [0], [4, ["x"]]]]]}]
    partial = PartialInput.from_json(data)
    assert partial.value == {
        "a": 5,
        "b": PartialObject(c=Unknown.MAYBE_ABSENT),
        "d": [1, Unknown.PRESENT, PartialArray(["x"])],
    }
    assert isinstance(partial.value["b"], PartialObject)
    assert dict(partial.offsets) == {("a",): 4, ("b",): 9, ("b", "c"): 12, ("d",): 20}


def test_places() -> None:
    partial = PartialInput.from_json([1, {"a": [4, [1, {"b": [6, 1]}]], "c": [9, [3, [1, 2]]]}])
    assert partial.offset_of([("a", "b")]) == 6
    assert partial.offset_of([("x",), ("c",)]) == 9
    assert partial.offset_of([("c", 1, "z")]) == 9
    assert partial.offset_of([("a", "y", "z")]) == 4
    assert partial.offset_of([("x",)]) is None
    assert partial.offset_of([()]) is None
    assert partial.offset_of([]) is None


WRONG: list[object] = [
    None, 5, "a", {}, {"a": 1}, [], [0], [1], [5, {}], [3, []], [1, []], [3, {}], [1, {"a": 1}], [1, {"a": [1]}],
    [1, {"a": [-1, 1]}], [1, {"a": ["1", 1]}], [1, {"a": [True, 1]}], [1, {"a": [1, {}]}], [1, {"a": [1, [7]]}],
    [1, {"a": [1, [3, {"b": 1}]]}], [1, {}, 1], [True, {}, {}],
]  # fmt: skip


@pytest.mark.parametrize("data", WRONG, ids=str)
def test_what_no_worker_sends(data: object) -> None:
    with pytest.raises(PartialInputError):
        PartialInput.from_json(data)


def test_nesting_is_bounded() -> None:
    data: object = 1
    for _ in range(MAX_NESTING + 5):
        data = [3, [data]]
    with pytest.raises(PartialInputError):
        PartialInput.from_json([1, {"a": [0, data]}])


SOME_JSON = st.recursive(
    st.none() | st.integers(-1, 5) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
)


@given(SOME_JSON)
def test_anything_is_read_or_refused(data: object) -> None:
    try:
        partial = PartialInput.from_json(data)
    except PartialInputError:
        return
    assert isinstance(partial.value, dict)


@pytest.mark.parametrize(
    ("value", "gaps"),
    [
        ({"a": [1, {"b": None}]}, False),
        ({"a": [1, {"b": Unknown.PRESENT}]}, True),
        ([PartialObject()], True),
        ({"a": PartialArray()}, True),
        (Unknown.MAYBE_ABSENT, True),
    ],
    ids=str,
)
def test_gaps(value: object, gaps: bool) -> None:
    assert has_unknowns(value) is gaps
