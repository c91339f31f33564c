"""How names and sentences become terms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.catalog.text import STOP_WORDS, name_parts, name_words, stem, terms


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


@given(st.text(max_size=200))
def test_any_text_has_terms_of_bounded_length(text: str) -> None:
    assert all(0 < len(term) <= 64 and term == term.lower() for term in terms(text))
