"""What two pieces of JSON data have in common, whatever stands around it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codecall.approvals.fingerprints import JsonContent
from tests.work import python_steps

MARKS = [
    *"[]{}\"'\\:, \n\t",
    '\\"',
    "\\\\",
    '"]',
    '["',
    '",',
    '5" screen',
    'Items [12"]:',
    "it's",
    "10",
    "null",
    "\\u005b",
]
PROSE = st.lists(st.sampled_from(MARKS) | st.text(max_size=3), max_size=30).map("".join)
ROW = st.fixed_dictionaries({"pin": st.integers(10**9), "name": PROSE}, optional={"tags": st.lists(PROSE, max_size=3)})
ROWS = st.lists(ROW, min_size=2, max_size=4)
FEW = [{"pin": 1000 + number, "name": f"Ann {number}"} for number in range(2)]
WRITTEN: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "on one line": {},
    "indented": {"indent": 2},
}


def containers(value: object, *, is_input: bool = True) -> set[int]:
    return {*JsonContent(value, is_input=is_input, max_chars=10**6).containers}


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@given(rows=ROWS, before=PROSE, after=PROSE)
@example(rows=FEW, before='Items [12"]: ', after="")
@example(rows=FEW, before='{ 5" screen: ', after="")
@example(rows=FEW, before='["', after='"]')
@example(rows=FEW, before='<a b="[">', after="</a>")
@example(rows=FEW, before='[\\"', after="\\")
@example(rows=FEW, before='{"\\\\"[\\', after='"')
def test_json_is_found_in_any_text(written: dict[str, Any], layers: int, rows: Any, before: str, after: str) -> None:
    text = rows
    for _ in range(layers):
        text = json.dumps(text, **written)
    expected = containers(rows, is_input=False)
    assert len(expected) >= 1
    assert containers(f"{before}{text}{after}") >= expected


@given(before=PROSE, whole=st.integers(0, 3))
def test_what_is_whole_is_found_in_json_that_is_cut_off(before: str, whole: int) -> None:
    rows = [{"pin": 1000 + number, "name": f'Anna "{number}"'} for number in range(4)]
    cut = ", ".join(map(json.dumps, rows[:whole])) + json.dumps(rows[whole])[:-1]
    expected = [fingerprint for row in rows for fingerprint in containers(row, is_input=False)]
    found = containers(f"{before}[{cut}")
    assert [fingerprint in found for fingerprint in expected] == [number < whole for number in range(4)]


HOSTILE = ['"', '\\"', '["', '[\\"', '{"a"', '"[', "\\", "[", "{}", "[1,", '"a",', '["[",', '"{\\"', '[[[]"', '"],[":{']


@pytest.mark.parametrize("part", HOSTILE)
def test_the_work_is_linear_in_the_length_of_a_text(part: str) -> None:
    def steps(chars: int) -> int:
        text = f'["{part * (chars // len(part))}'
        return python_steps(lambda: JsonContent(text, is_input=True, max_chars=10**9))

    assert steps(2**15) < 8.5 * steps(2**12)
