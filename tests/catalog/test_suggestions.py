"""Near names for hints."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.suggestions import similar_names
from tests.work import python_steps

NAMES = [
    "users:list",
    "users:get",
    "users:getProfile",
    "orders:list",
    "orders:delete",
    "auth:whoami",
    "companies:search",
    "create_pull_request",
]


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("users_list", "users:list"),
        ("users.list", "users:list"),
        ("UsersList", "users:list"),
        ("USERS:LIST", "users:list"),
        (" users:list ", "users:list"),
        ("users:lsit", "users:list"),
        ("user:list", "users:list"),
        ("list_users", "users:list"),
        ("crm_users_list", "users:list"),
        ("whoami", "auth:whoami"),
        ("profile", "users:getProfile"),
        ("get_profile", "users:getProfile"),
        ("company_search", "companies:search"),
        ("orders:remove", "orders:delete"),
        ("fetchOrders", "orders:list"),
        ("removeOrder", "orders:delete"),
        ("makePullRequest", "create_pull_request"),
        ("create-pull-reqest", "create_pull_request"),
        ("createPullRequests", "create_pull_request"),
    ],
)
def test_the_name_that_was_meant_comes_first(wrong: str, meant: str) -> None:
    assert similar_names(wrong, NAMES)[0] == meant


@pytest.mark.parametrize("wrong", ["", "   ", "_", "zzz", "bake_cake", "weather", "x" * 100_000])
def test_nothing_is_better_than_a_wrong_hint(wrong: str) -> None:
    assert similar_names(wrong, NAMES) == []


def test_a_missing_prefix_offers_every_owner_up_to_the_limit() -> None:
    assert similar_names("list", NAMES) == ["orders:list", "users:list"]
    assert similar_names("list", NAMES, limit=1) == ["orders:list"]
    assert similar_names("list", NAMES, limit=0) == []


def test_the_name_itself_is_no_hint() -> None:
    assert "users:list" not in similar_names("users:list", NAMES)


def test_each_of_ten_thousand_names_takes_a_few_steps() -> None:
    many = [f"service{n % 97}:{verb}Thing{n}" for n in range(2_500) for verb in ("get", "list", "delete", "update")]
    assert similar_names("service5_getThng5", many)[0] == "service5:getThing5"
    assert python_steps(lambda: similar_names("service5_getThng5", many)) < 30 * len(many)


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=60), st.lists(st.text(max_size=40), max_size=20))
def test_hints_are_some_of_the_names_whatever_their_order(name: str, names: list[str]) -> None:
    found = similar_names(name, names)

    assert len(found) == len(set(found)) <= 3
    assert set(found) <= set(names) - {name}
    assert similar_names(name, names[::-1]) == found
