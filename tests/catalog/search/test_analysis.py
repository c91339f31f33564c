"""How names and sentences become terms."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.search.analysis import (
    MAX_TEXT_CHARS,
    STOP_WORDS,
    family_root,
    name_parts,
    name_words,
    split_compound,
    split_request,
    stem,
    terms,
)
from tests.work import python_steps


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("users:listAll", ["users", "list", "all"]),
        ("get_user-profile.v2/raw", ["get", "user", "profile", "v", "2", "raw"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("ls", ["ls"]),
        ("__", []),
        ("ﬁnd：users", ["find", "users"]),
    ],
)
def test_a_name_splits_at_separators_and_humps(name: str, parts: list[str]) -> None:
    assert name_parts(name) == parts


def test_a_word_written_in_humps_is_also_kept_whole() -> None:
    assert name_words("getGitHubUser") == ["get", "git", "hub", "user", "getgithubuser"]
    assert set(terms("open a GitHub issue")) >= set(terms("github"))


@pytest.mark.parametrize(
    "forms",
    [
        ["user", "users"],
        ["create", "creates", "created", "creating", "creation"],
        ["delete", "deletes", "deleted", "deleting", "deletion"],
        ["list", "lists", "listed", "listing"],
        ["company", "companies"],
        ["search", "searches", "searched", "searching"],
        ["plan", "plans", "planned", "planning"],
        ["branch", "branches"],
    ],
)
def test_forms_of_a_word_share_a_stem(forms: list[str]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize("pair", [("status", "stat"), ("process", "proce"), ("analysis", "analysi"), ("bus", "bu")])
def test_words_that_only_look_inflected_stay_apart(pair: tuple[str, str]) -> None:
    assert stem(pair[0]) == pair[0]


def test_verbs_of_command_are_no_stop_words() -> None:
    assert not STOP_WORDS & {"get", "list", "show", "find", "make", "create", "delete", "set", "run", "open"}
    assert terms("please could you list all of my users") == terms("list users")


def test_scripts_without_blanks_give_pairs_of_characters() -> None:
    assert terms("搜索网页内容") == ["搜索", "索网", "网页", "页内", "内容"]
    assert terms("用PDF") == ["用", "pdf"]
    assert len(terms("搜" * 500)) == 499


@pytest.mark.parametrize("word", ["ग्राहक", "naı̈ve", "हिन्दी", "שָׁלוֹם"])
def test_vowel_signs_and_accents_are_part_of_their_word(word: str) -> None:
    assert name_words(f"({word})") == terms(word) == [unicodedata.normalize("NFKC", word)]


def test_thai_keeps_its_vowels() -> None:
    assert terms("ลูกค้า") == ["ลู", "ูก", "กค", "ค้", "้า"]


def test_texts_are_read_from_their_beginning() -> None:
    assert len(terms("ab " * MAX_TEXT_CHARS)) == -(-MAX_TEXT_CHARS // 3)
    assert terms("w" * 1_000_000) == ["w" * 64]


@pytest.mark.parametrize("text", ["aB" * 10_000, "A" * 20_000, "é\u0301" * 10_000, "a1" * 10_000, "_" * 20_000])
def test_no_text_takes_long(text: str) -> None:
    assert python_steps(lambda: terms(text)) < 200_000


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("list the users", []),
        ("List the users. Delete the order!", ["List the users.", "Delete the order!"]),
        ("list users and then delete orders", ["list users", "delete orders"]),
        (
            "list users, and delete orders\nshow deals as well as big companies",
            ["list users", "delete orders", "show deals", "big companies"],
        ),
        ("查找用户。删除订单", ["查找用户。", "删除订单"]),
        ("Users. Orders. Deals.", []),
        ("list users. ok.", []),
    ],
)
def test_a_request_for_several_things_falls_into_its_parts(text: str, parts: list[str]) -> None:
    assert split_request(text, 10) == parts


def test_only_the_first_parts_are_taken() -> None:
    assert split_request("find it now. " * 50, 3) == ["find it now."] * 3


@settings(max_examples=80, deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_a_text_of_ascii_is_read_as_one_with_other_letters(text: str) -> None:
    assert name_words(f"{text} é") == [*name_words(text), "é"]


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_terms_of_bounded_length(text: str) -> None:
    assert all(0 < len(term) <= 64 and term == term.lower() for term in terms(text))


@pytest.mark.parametrize(
    ("word", "relative"),
    [
        ("fail", "failures"),
        ("deploys", "deployment"),
        ("cancel", "cancellation"),
        ("transform", "transformations"),
        ("perform", "performance"),
        ("retrieving", "retrieval"),
    ],
)
def test_words_of_one_family_share_a_root(word: str, relative: str) -> None:
    assert family_root(stem(word)) == family_root(stem(relative))


@pytest.mark.parametrize(("word", "other"), [("real", "reality"), ("part", "party"), ("user", "us")])
def test_other_words_do_not(word: str, other: str) -> None:
    assert family_root(stem(word)) != family_root(stem(other))


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("getchannelinfo", ["get", "channel", "info"]),
        ("timezone", ["timezone"]),
        ("timezones", []),
        ("channelx", []),
        ("informal", []),
        ("getgetget", ["get", "get", "get"]),
    ],
)
def test_a_compound_is_split_into_the_fewest_known_words(word: str, parts: list[str]) -> None:
    known = {"get", "channel", "info", "time", "zone", "timezone"}

    assert split_compound(word, known) == ([] if word in known else parts)
