"""Halves of surrogate pairs, escaped in JSON: a text with them is JSON, and what is sent on has none."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codecall.jsonio.check import QUICK_CHARS, is_json, replace_lone_surrogates, well_formed_json
from codecall.jsonio.decode import refuse_constant
from codecall.redaction.clean import well_formed

HALVES = st.text(st.sampled_from('\ud83d\ude00\udbff\udc00\\"u/aé\x00😀'), max_size=12)
VALUES = st.recursive(
    st.none() | st.integers() | st.floats() | HALVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HALVES, inner, max_size=4),
    max_leaves=12,
)
PARTS = st.sampled_from(
    [
        *(r"\ud83d", r"\uDE00", r"\ud8", r"\u", "\\", "\\\\", '"', "u", "d8", "e5", "1", "-", ".", "0", "9" * 5_000),
        *("[", "]", "{", "}", ",", ":", " ", "\n", "\x0b", "\ufeff", "\ud83d", "é", "NaN", "-Infinity", "1e999", '"a"'),
    ]
)
NEARLY_JSON = st.lists(PARTS, max_size=12).map("".join)
CHANGED_JSON = st.builds(
    lambda text, at, part: text[:at] + part + text[at:], VALUES.map(json.dumps), st.integers(0, 60), PARTS
)


def is_json_to_python(text: str) -> bool:
    """What the decoder in `json` says of it; numbers may be as long as they like."""
    try:
        text.encode()
        json.loads(text, parse_int=len, parse_float=len, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


@settings(max_examples=400, deadline=None)
@given(NEARLY_JSON | VALUES.map(json.dumps) | CHANGED_JSON)
@example(r'"\\ud800"')
@example(r'"\\\ud800"')
@example(r'["\ud800", NaN]')
@example(r'{"\ud800": 1, "\ud800": 2}')
@example(r'"\ud800\u00g0"')
@example(r"\ud800")
@example(r"[\\]")
@example(r'"\ud80"')
@example('"' + r"\ud800" * QUICK_CHARS + '"')
@example('["\\ud800",' + "[" * 100_000 + "]" * 100_000 + "]")
async def test_the_same_texts_are_json_as_to_python(text: str) -> None:
    assert await is_json(text) == is_json_to_python(text)


@settings(max_examples=300, deadline=None)
@given(VALUES, st.booleans())
async def test_halves_are_replaced_and_nothing_else(value: object, spaced: bool) -> None:
    repaired = await well_formed_json(json.dumps(value, indent=1 if spaced else None))
    expected = json.loads(well_formed(json.dumps(value, ensure_ascii=False)))
    assert json.dumps(json.loads(repaired)) == json.dumps(expected)  # as texts: NaN is not NaN


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb'"\ud83d\ude00 \ud83d"', "\N{GRINNING FACE} \ufffd"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\N{GRINNING FACE}"),
        (rb'"\uDE00\\ud83d\\\ud83d"', "\ufffd\\ud83d\\\ufffd"),
        (rb'"\\\\ud83d"', "\\\\ud83d"),
    ],
)
def test_each_escape_is_told_from_what_looks_like_one(written: bytes, read: str) -> None:
    assert json.loads(replace_lone_surrogates(written)) == read


async def test_no_values_are_made_of_a_text_that_is_checked_or_repaired() -> None:
    text = '["\\ud800",' + "[]," * 100_000 + "[]]"
    for work in (is_json, well_formed_json):
        tracemalloc.start()
        try:
            assert await work(text)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # Some copies of the text; its values take twenty times as much.
        assert peak < 10 * len(text)
