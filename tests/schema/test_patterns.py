"""Patterns of strangers: what all engines read alike is compared, in linear time; of others nothing is said."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.schema.patterns import MAX_PATTERN_SIZE, MAX_TEXT_CHARS, certainly_differs
from tests.work import python_steps


@pytest.mark.parametrize(
    ("pattern", "other"),
    [
        (r"^978-\d{5}$", "978-1"),
        (r"^[\w.-]+@[\w-]+\.\w{2,}$", "nobody"),
        (r"^(?:open|won)$", "lost"),
        (r"^[^\s/]+/[^\s/]+$", "owner"),
        (r"\S", "  "),
        (r"^\D\W$", "1a"),
        (r"^a{2,3}?$", "a"),
        (r"^\/x\.$", "x"),
        (r"\bcat\b", "concat"),
    ],
)
def test_what_is_sure_to_differ(pattern: str, other: str) -> None:
    assert certainly_differs(other, pattern)
    assert re.search(pattern, other.strip()) is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(?=a)b", "x"),
        (r"^(?<!a)b", "x"),
        (r"^(a)\1$", "x"),
        (r"^(?i)a$", "x"),
        (r"^(?P<n>a)$", "x"),
        (r"^[[:alpha:]]$", "1"),
        (r"^[a&&b]$", "c"),
        (r"^[!-\d]$", "x"),
        (r"^[^\W]$", "-"),
        (r"^\p{L}$", "1"),
        (r"\<a", "x"),
        (r"^\Aa\Z", "x"),
        (r"a{,3}b", "x"),
        (r"(", "x"),
        (r"[", "x"),
        (r"[]a]", "x"),
        (r"\\"[:1], "x"),
        (r"^\d$", "\u0661"),
        (r"^a$", "a\n"),
        (r"^a$", " a "),
        (r"^a$", "b" * (MAX_TEXT_CHARS + 1)),
        ("^(a{99}){99}$", "x"),
        ("a" * (MAX_PATTERN_SIZE + 1), "x"),
    ],
)
def test_what_is_left_open(pattern: str, text: str) -> None:
    assert not certainly_differs(text, pattern)


PARTS = st.sampled_from(
    ["a", "-", ".", r"\d", r"\w", r"\s", r"\W", "[a-c]", r"[\w-.]", r"[\d-]", "[^a]", r"[^\s-]", "b{1,2}",
     "x*", "y?", "(?:", "(", ")",
     "|", "^", "$", r"\.", r"\b", "+", "}", "]", "[", "{2}"]
)  # fmt: skip


@settings(max_examples=400, deadline=None, database=None)
@given(st.lists(PARTS, max_size=6).map("".join), st.text("abcxy_-. 1\t", max_size=6))
def test_it_says_nothing_that_another_engine_denies(pattern: str, text: str) -> None:
    if certainly_differs(text, pattern):
        with contextlib.suppress(re.error):
            assert re.search(pattern, text, re.ASCII) is None


def test_patterns_that_backtrack_take_no_time() -> None:
    assert python_steps(lambda: certainly_differs("a" * 900 + "!", "^(a|a)*(a+)+$")) < 5_000
    assert certainly_differs("a" * 900 + "!", "^(a|a)*(a+)+$")
