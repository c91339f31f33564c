"""Characters nobody sees, written as escapes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.redaction.clean import escape_invisible, json_escape


@pytest.mark.parametrize(
    ("text", "keep", "expected"),
    [
        ("plain text", "", "plain text"),
        ("a\u202eb\u200bc", "", "a\\u{202E}b\\u{200B}c"),
        ("a\tb\nc", "", "a b\\u{A}c"),
        ("a\tb\nc", "\n", "a b\nc"),
        ("\U000e0001\ud800", "", "\\u{E0001}\\u{D800}"),
        ("é漢😀", "", "é漢😀"),
    ],
)
def test_characters_that_do_not_print_become_escapes(text: str, keep: str, expected: str) -> None:
    assert escape_invisible(text, keep=keep) == expected


@given(st.text())
def test_what_is_left_prints(text: str) -> None:
    assert escape_invisible(text).isprintable()


@given(st.characters())
def test_a_json_escape_is_read_as_the_character(character: str) -> None:
    assert json.loads(f'"{json_escape(character)}"') == character
