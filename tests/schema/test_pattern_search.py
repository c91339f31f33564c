"""Patterns mean what Python's `re` reads in them, and no text makes one slow."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codecall.approvals.options import ApprovalRule
from codecall.approvals.rules import RuleSet
from codecall.catalog.entries import CatalogEntry
from codecall.composite.arguments import argument_problems
from codecall.schema.pattern_search import (
    MAX_BACKTRACKED,
    MAX_STEPS,
    MAX_TOTAL_STEPS,
    TextTooLongError,
    one_validation,
    search,
)
from codecall.schema.validator import MAX_UNEVALUATED_NAME, create_validator

pytestmark = pytest.mark.filterwarnings("ignore:Possible:FutureWarning")

ORDINARY = [
    r"@(.*\.)?evil\.com$",
    r"\w+@corp\.com",
    r"\s+$",
    r"^\s*$",
    r"^[\w.+-]+@([\w-]+\.)+[a-z]{2,}$",
    r"^(?:\d{1,3}\.){3}\d{1,3}\Z",
    r"^https?:\/\/[^/]*(/|$)",
    r"(?i)drop\s+table",
    r"(?s)^a.b$",
    r"^prod($|[-_])",
    r"[^\W\d_]{2}",
    r"[\x00-\x1f\x7f]",
    r"\Aa{,2}b{}c{2,}?",
    r"[[&~|-]",
    r"^[+--]\-\@\"$",
    r"^é|[à-ü]$|\u0041",
    r"\D\S\W",
    r"^(?P<a>a)|(?P<b_2>b)$",
    r"^[^]a-z]+$",
    r"[]\s]$",
    r"[]-a][^][]",
]
PARTS = st.sampled_from(
    [*"aé-.^$|()+?*{}[]~&@\n", "a", "(?:", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\.", r"\Z", r"\n", r"\x0a",
     "[a-c]", "[^a]", r"[\w-]", r"[^\W_]", r"[\s.]", "{2}", "{,1}", "{1,}", "a$", "(a|b$)", "a++", "(?=a)"]
)  # fmt: skip
TEXTS = st.text("abé²٣\u0301漢_-.@ \t\n\r\x1c\x85\ud800{}", max_size=8) | st.text(max_size=8)


CLASS_PARTS = st.sampled_from(
    [*"]^[-az09:|&~ {}$(*", "&&", "--", "~~", "||", "[:alpha:]", "a-z", "0-9", "]-a", "+--", r"\]", r"\^", r"\-", r"\[",
     r"\\", r"\d", r"\w", r"\s", r"\W", r"\n", r"\b", r"\x41-\x5a", r"\u00e0-\u00fc", "é", "漢"]
)  # fmt: skip
CLASSES = st.builds(
    "[{}{}{}]{}".format,
    st.sampled_from(["", "^"]),
    st.sampled_from(["", "]", "]-a"]),
    st.lists(CLASS_PARTS, max_size=4).map("".join),
    st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "*?", "{1,2}?"]),
)
CLASS_PATTERNS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "(?i)", "(?s)"]),
    st.sampled_from(["", "^"]),
    st.lists(CLASSES, min_size=1, max_size=2).map("".join),
    st.sampled_from(["", "$", "x", "|a", r"\Z"]),
)
CLASS_TEXTS = st.text("]^[-az09:|&~ {}$(*AZ_\\\x08\n\xe0bcpé漢", max_size=4)


def assert_means_the_same(pattern: str, text: str) -> None:
    assert search(pattern, text) is (re.search(pattern, text) is not None), (pattern, text)


def is_known(text: str) -> bool:
    return not any(unicodedata.category(character) == "Cn" for character in text)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(ORDINARY), TEXTS.filter(is_known))
def test_an_ordinary_pattern_means_what_it_does_in_python(pattern: str, text: str) -> None:
    assert_means_the_same(pattern, text)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_text_that_fits_in_python_fits(data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from(ORDINARY))
    assert search(pattern, data.draw(st.from_regex(pattern).filter(is_known)))


@settings(max_examples=1_500, deadline=None)
@given(st.lists(PARTS, max_size=6).map("".join), TEXTS.filter(is_known))
@example("a$", "a\n")
@example(r"a$\n", "a\n")
@example(r"(a$|b)\s", "a\n")
@example("(?:a$)?\n", "a\n")
@example("a\\Z", "a\n")
@example(r"^\s$", "\x1c")
@example(r"^\w$", "²")
@example(r"^\w$", "\u0301")
@example("a", "\ud800a")
@example(".b", "\ud800b")
@example("a++a", "aa")
@example("a{2}+a", "aaa")
@example("[[a]b]", "[b]")
@example("(?i)^limit$", "Lımİt")
@example("(?i)^lİmıt$", "limit")
@example("(?si)^[a-z]$", "ı")
def test_whatever_python_reads_means_the_same(pattern: str, text: str) -> None:
    try:
        re.compile(pattern)
    except re.error:
        return
    assert_means_the_same(pattern, text)


@settings(max_examples=1_500, deadline=None)
@given(CLASS_PATTERNS, CLASS_TEXTS)
@example("[^]a-z]", "a;")
@example("^[^]A-Z]", "^A-Z]")
@example("[]a]", "]")
def test_a_class_of_any_characters_means_the_same(pattern: str, text: str) -> None:
    try:
        re.compile(pattern)
    except re.error:
        return
    assert_means_the_same(pattern, text)


def test_a_class_that_never_ends_is_read_at_once() -> None:
    with pytest.raises(re.error):
        search("[" + "a-" * 200 + "\\", "a")


def test_a_lone_surrogate_is_no_replacement_character() -> None:
    assert_means_the_same("\ufffd", "\ud800")


@given(st.sampled_from([r"\ba\b", r"-\b", r"\b\w+\b.\b"]), st.text("ab-_ \n1", max_size=8))
def test_words_of_ascii_end_where_they_do_in_python(pattern: str, text: str) -> None:
    assert_means_the_same(pattern, text)


def test_an_accent_belongs_to_its_word() -> None:
    assert not search(r"\bcafe\b", "cafe\u0301")
    assert search(r"\bcafé\b", "un café.")


SLOW = "(a|a)+$"
"""A pattern for which `re` would take longer on `LONG` than anyone waits."""
LONG = "a" * 100_000 + "!"
LOOKS_AHEAD = r"^(?!prod)\w+$"


@pytest.mark.parametrize("pattern", [SLOW, r"^(\w+\s?)*$", r"^(.*)*x$", "(a+)+b", "(?i)(a|A)+x"])
@pytest.mark.parametrize("text", [LONG, LONG + "é"])
def test_no_text_is_searched_backwards(pattern: str, text: str) -> None:
    assert not search(pattern, text)


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"pattern": SLOW}, True),  # for what is no text
        ({"patternProperties": {SLOW: False}}, True),
        ({"patternProperties": {SLOW: {}}, "additionalProperties": False}, False),
        ({"propertyNames": {"pattern": SLOW}}, False),
        ({"properties": {LONG: {"pattern": SLOW}}}, False),
        ({"properties": {LONG: {"items": {"not": {"pattern": SLOW}}}}}, True),
    ],
)
def test_no_keyword_does(schema: dict[str, Any], fits: bool) -> None:
    assert create_validator(schema).is_valid({LONG: LONG}) is fits


def test_additional_properties_are_those_that_no_pattern_names() -> None:
    validator = create_validator(
        {"properties": {"c": {}}, "patternProperties": {"^a": {}, "b$": {}}, "additionalProperties": {"type": "null"}}
    )
    assert validator.is_valid({"ab": 1, "bb": 1, "c": 1, "d": None})
    assert not validator.is_valid({"ab": 1, "d": 1})
    (problem,) = argument_problems({"ab": 1, "d": 1}, {"patternProperties": {"^a": {}}, "additionalProperties": False})
    assert problem["message"] == "Additional properties are not allowed ('d' was unexpected)"


def test_unevaluated_properties_have_short_names() -> None:
    validator = create_validator({"patternProperties": {"^a+$": {}}, "unevaluatedProperties": False})
    assert validator.is_valid({"a" * MAX_UNEVALUATED_NAME: 1})
    assert not validator.is_valid({"b": 1})
    with pytest.raises(TextTooLongError):
        validator.is_valid({"a" * MAX_UNEVALUATED_NAME + "b": 1})


@pytest.mark.parametrize(
    "pattern", [LOOKS_AHEAD, r"^(.)\1*$", "^a++$", r"(?<!b)a\b", "(?:a$)?", r"a\B", "^(a{1000}){1000}"]
)
def test_what_only_python_has_is_searched_in_short_texts(pattern: str) -> None:
    assert search(pattern, "a" * MAX_BACKTRACKED) is (re.search(pattern, "a" * MAX_BACKTRACKED) is not None)
    with pytest.raises(TextTooLongError):
        search(pattern, "a" * (MAX_BACKTRACKED + 1))


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        (r"\$\(.{0,300}\)x?;", 300),
        (r"(?i)<script.{0,1000}</script>", 1_000),
        ("(?:a.{0,30}b){0,30}c", 900),
        ("(?:ab){100}", 200),
        ("." * 100 + "x", 100),
        (r"(?:a|[bc]{2}){50}\d{,50}", 200),
    ],
)
@pytest.mark.parametrize("end", ["", "é"])
def test_counts_make_texts_shorter(pattern: str, states: int, end: str) -> None:
    size = MAX_STEPS // states
    assert not search(pattern, "!" * (size // 4) + end)
    with pytest.raises(TextTooLongError, match="bytes"):
        search(pattern, "!" * size + end)


@pytest.mark.parametrize("pattern", [*ORDINARY, "|".join(f"word{number}" for number in range(20))])
@pytest.mark.parametrize("end", ["", "é"])
def test_ordinary_patterns_take_long_texts(pattern: str, end: str) -> None:
    assert search(pattern, "\n" * (500_000 if end else 1_000_000) + end) in {True, False}


def test_a_text_has_bytes() -> None:
    size = MAX_STEPS // 1_000 // 2
    assert not search(".{1000}x", "a" * size)
    with pytest.raises(TextTooLongError):
        search(".{1000}x", "漢" * size)


def test_searches_of_one_validation_have_one_limit() -> None:
    texts = [f"{number:0{MAX_STEPS // 4_000}}" for number in range(3 * MAX_TOTAL_STEPS // MAX_STEPS)]
    pattern = ".{2000}x"
    assert not any(search(pattern, text) for text in texts)
    with one_validation():
        assert not any(search(pattern, texts[0]) for _ in texts)  # it is searched once
        with pytest.raises(TextTooLongError, match="bytes more"):
            all(not search(pattern, text) for text in texts)
    assert not search(pattern, texts[0])


MANY = {"n" * 500 + str(number): "v" * 500 + str(number) for number in range(1_000)}
"""Texts that are short, but many."""


@pytest.mark.anyio
@pytest.mark.parametrize(
    "about",
    [
        {"additionalProperties": {"not": {"pattern": "n.{0,1000}x"}}},
        {"propertyNames": {"not": {"pattern": "n.{0,1000}x"}}},
        {"patternProperties": {"n.{0,1000}x": {"type": "null"}}},
    ],
)
async def test_many_texts_count_against_the_call(about: dict[str, object]) -> None:
    schema: dict[str, object] = {"type": "object", "additionalProperties": {"type": "string"}}
    tool = CatalogEntry("t", "app", "", {"properties": {"of": schema}, "required": ["of"]})
    condition: dict[str, object] = {"properties": {"of": {**about, "type": "object"}}, "required": ["of"]}
    rules = RuleSet([ApprovalRule.read({"action": "allow", "input": condition}, where=""), ApprovalRule(action="deny")])
    assert (await rules.ruling(tool, {"of": dict(list(MANY.items())[:10])})).action == "allow"
    assert (await rules.ruling(tool, {"of": MANY})).action == "deny"
    assert argument_problems({"of": dict(list(MANY.items())[:10])}, condition) == []
    (problem,) = argument_problems({"of": MANY}, condition)
    assert problem["message"].startswith("cannot be checked: the pattern 'n.{0,1000}x' takes at most")


def test_counted_words_are_searched_in_long_texts() -> None:
    assert not search(r"\w{1,64}@", LONG)
    assert search(r"\w{1,64}@", "é@")
    assert not search(r"\w{1,64}@", LONG + "é")


TOOL = CatalogEntry("t", "app", "", {"properties": {"to": {"type": "string"}}, "required": ["to"]})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("pattern", "fitting", "other", "too_long"),
    [(SLOW, "b" + LONG[:-1], LONG, None), (LOOKS_AHEAD, "test", "prod", "a" * (MAX_BACKTRACKED + 1))],
)
async def test_a_text_that_is_too_long_counts_against_the_call(
    pattern: str, fitting: str, other: str, too_long: str | None
) -> None:
    async def action(does: str, to: str, *, negated: bool = False) -> str:
        about: dict[str, object] = {"not": {"pattern": pattern}} if negated else {"pattern": pattern}
        condition = {"properties": {"to": about}, "required": ["to"]}
        rules = [{"action": does, "input": condition}, {"action": "ask" if does == "allow" else "allow"}]
        return (await RuleSet([ApprovalRule.read(rule, where="") for rule in rules]).ruling(TOOL, {"to": to})).action

    assert [await action("deny", to) for to in (fitting, other)] == ["deny", "allow"]
    assert [await action("allow", to) for to in (fitting, other)] == ["allow", "ask"]
    for negated in (True, False) if too_long is not None else ():
        assert await action("deny", str(too_long), negated=negated) == "deny"
        assert await action("allow", str(too_long), negated=negated) == "ask"


def test_a_parameter_that_is_too_long_is_refused() -> None:
    schema: dict[str, object] = {"properties": {"to": {"type": "string", "pattern": LOOKS_AHEAD}}}
    assert argument_problems({"to": "a" * MAX_BACKTRACKED}, schema) == []
    (problem,) = argument_problems({"to": "a" * (MAX_BACKTRACKED + 1)}, schema)
    assert problem["message"] == (
        f"cannot be checked: the pattern {LOOKS_AHEAD!r} takes at most 4,096 characters, and a text has 4,097"
    )
