"""Names and globs."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codecall.globs import (
    MAX_DISPLAY_NAME,
    MAX_GLOB_CHARS,
    MAX_NAME_CHARS,
    Patterns,
    display_name,
    escape_glob,
    is_glob,
    literal_name,
)
from codecall.meta_tools.execute import MAX_ALL_GLOBS_CHARS
from tests.work import python_steps

names = st.text("ab-:[!]*?\u00e9\n", max_size=12)


@settings(max_examples=1_000, deadline=None)
@given(names, names)
@example("a", "[!]")
@example("]", "[]]")
@example("[]", "[]")
@example("b", "[a-c]")
@example("b", "[c-a]")
@example("b", "[!c-a]")
@example("-", "[a-]")
@example("", "**")
@example("ab", "a*b*")
def test_a_glob_means_what_it_means_to_fnmatch(name: str, glob: str) -> None:
    spells_itself = name == glob and literal_name(glob) in (None, glob)
    assert Patterns([glob]).matches(name) == (spells_itself or fnmatch.fnmatchcase(name, glob))


@settings(max_examples=1_000)
@given(names, names)
@example("*", "[*]")
@example("[*]", "*")
@example("[*]", "[[]*]")
@example("[", "[[]")
def test_an_escaped_name_is_that_name_alone(name: str, other: str) -> None:
    pattern = escape_glob(name)
    assert literal_name(pattern) == name
    assert Patterns([pattern]).matches(name)
    assert fnmatch.fnmatchcase(name, pattern)
    for each in (other, pattern, f"{name}a", name[1:]):
        assert Patterns([pattern]).matches(each) == (each == name)


@given(st.text(max_size=40))
def test_a_name_always_matches_itself(name: str) -> None:
    assert Patterns([escape_glob(name)]).matches(name)
    assert not Patterns([]).matches(name)
    assert Patterns(["x*", "*"]).matches(name)


def test_what_is_a_glob() -> None:
    assert [is_glob(pattern) for pattern in ("users:list", "a*", "?", "a[1]", "a]", "!")] == [
        False,
        *[True] * 3,
        *[False] * 2,
    ]


LETTERS = "".join(chr(code) for code in range(0x61, 0x61 + MAX_NAME_CHARS))
HOSTILE = {
    "many stars": ("a" * MAX_NAME_CHARS, [f"*a*a*a*b*c{n}" for n in range(1_000)]),
    "question marks": ("a" * MAX_NAME_CHARS, [f"*a*a*a?????a{n:03}" for n in range(1_000)]),
    "long pieces": ("a" * MAX_NAME_CHARS, [f"*{'a' * 12}{n:03}" for n in range(1_000)]),
    "longest globs": ("a" * MAX_NAME_CHARS, ["*a" * 126 + f"{n:03}" for n in range(64)]),
    "sets": (LETTERS, [f"*{'[!a-c]' * 41}{n:03}" for n in range(65)]),
    "open brackets": ("[" * MAX_NAME_CHARS, ["*" + "[" * 250 + f"{n:03}" for n in range(64)]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_no_globs_of_a_call_hold_the_event_loop(case: str) -> None:
    """All the globs one call may give, against the longest name: some 5 ms at most; taking them apart no more."""
    name, globs = HOSTILE[case]
    assert sum(map(len, globs)) <= MAX_ALL_GLOBS_CHARS
    assert max(map(len, globs)) <= MAX_GLOB_CHARS
    patterns = Patterns([])
    steps_apart = python_steps(lambda: patterns.__init__(globs))  # type: ignore[misc]
    matches: list[bool] = []
    steps = python_steps(lambda: matches.append(patterns.matches(name)))
    assert matches == [False]
    assert max(steps_apart, steps) < 130_000


def test_long_names_are_shortened_with_a_mark() -> None:
    assert display_name("x" * MAX_DISPLAY_NAME) == "x" * MAX_DISPLAY_NAME
    assert display_name("x" * 200) == "x" * MAX_DISPLAY_NAME + f"…[truncated {200 - MAX_DISPLAY_NAME} characters]"


def test_a_name_is_shown_as_text_that_can_be_sent() -> None:
    assert display_name("a\ud800") == "a\ufffd"
    assert display_name("\ud83d" * 200).encode()
