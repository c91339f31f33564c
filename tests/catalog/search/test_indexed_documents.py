"""What is read of an entry, and how little of one that means harm."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.catalog.entries import CatalogEntry, Example
from codecall.catalog.search.analysis import (
    DEFAULT_FIELD_WEIGHTS,
    MAX_CHOICES,
    MAX_TEXT_CHARS,
    FieldWeights,
    document_from_entry,
)
from codecall.catalog.search.lexical import LexicalRanker
from tests.work import python_steps


def entry(**fields: object) -> CatalogEntry:
    plain: dict[str, object] = {"name": "x:y", "app_id": "a", "description": "", "input_schema": {}}
    return CatalogEntry(**(plain | fields))  # type: ignore[arg-type]


def test_words_count_by_where_they_stand() -> None:
    document = document_from_entry(
        entry(
            name="users:list",
            description="List users",
            input_schema={"properties": {"order": {"enum": ["newest", 5, None], "description": "How they are sorted"}}},
        )
    )

    assert document.words == {
        "user": DEFAULT_FIELD_WEIGHTS.name + DEFAULT_FIELD_WEIGHTS.text,
        "list": DEFAULT_FIELD_WEIGHTS.name + DEFAULT_FIELD_WEIGHTS.text,
        "order": DEFAULT_FIELD_WEIGHTS.text,
        "sort": DEFAULT_FIELD_WEIGHTS.text,
        "newest": DEFAULT_FIELD_WEIGHTS.choices,
    }
    assert document.name_words == {"user", "list"}
    assert document.spelling == {"users": 4, "list": 4, "a": 1}


@pytest.mark.parametrize("as_list", [False, True], ids=["an object", "a list"])
def test_what_a_result_holds_is_read(as_list: bool) -> None:
    schema: dict[str, object] = {
        "description": "A walnut",
        "properties": {"kumquat": {"description": "Its sweetness", "enum": ["tart"]}},
    }
    words = document_from_entry(entry(output_schema={"items": schema} if as_list else schema)).words

    expected = {"kumquat": DEFAULT_FIELD_WEIGHTS.results, "sweetness": DEFAULT_FIELD_WEIGHTS.results}
    if not as_list:
        expected["walnut"] = DEFAULT_FIELD_WEIGHTS.results
    assert {word: words.get(word) for word in ("walnut", "kumquat", "sweetness", "tart")} == {
        "walnut": None,
        "tart": None,
    } | expected


def test_choices_can_be_left_out() -> None:
    schema = {"properties": {"size": {"enum": ["tiny"]}}}

    assert "tini" not in document_from_entry(entry(input_schema=schema), FieldWeights(choices=0)).words


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": "kumquat"},
        {"properties": {"a": None, "b": True, "c": 5, "d": []}},
        {"properties": {5: {}, None: {}, ("a",): {}}},
        {"properties": {"a": {"items": []}, "b": {"items": {"properties": 3}}}},
        {"properties": {"a": {"enum": {"b": 1}}, "b": {"enum": "xyz"}, "c": {"enum": [["d"], {"e": 1}]}}},
        {"properties": {"a": {"description": ["x"]}, "b": {"description": 5}}},
        {"properties": {"\ud800": {"description": "\udfff half a pair \ud800"}}},
        {"properties": {"": {"description": ""}}},
    ],
)
def test_a_schema_that_makes_no_sense_is_read_as_far_as_it_does(schema: dict[str, object]) -> None:
    assert (
        document_from_entry(entry(description="Strange thing", input_schema=schema)).words["strang"]
        == DEFAULT_FIELD_WEIGHTS.text
    )


def endless() -> dict[str, object]:
    circle: dict[str, object] = {}
    circle["properties"] = {f"p{n}": circle for n in range(20)}
    return circle


def deep() -> dict[str, object]:
    schema: dict[str, object] = {}
    for n in range(5_000):
        schema = {"properties": {f"level{n}": schema}}
    return schema


HARMFUL = [
    pytest.param({"description": "w" * 1_000_000}, id="one word a million letters long"),
    pytest.param({"description": "aB" * 1_000_000}, id="humps"),
    pytest.param({"description": "搜" * 1_000_000}, id="one million characters without a blank"),
    pytest.param({"description": "ab cd " * 300_000}, id="many words"),
    pytest.param({"name": "n" * 1_000_000, "app_id": "a" * 1_000_000, "title": "t" * 1_000_000}, id="long names"),
    pytest.param(
        {"input_schema": {"properties": {f"p{n}": {"description": "some words"} for n in range(20_000)}}},
        id="many parameters",
    ),
    pytest.param({"input_schema": {"properties": {"p": {"enum": list(map(str, range(100_000)))}}}}, id="many choices"),
    pytest.param({"input_schema": {"properties": {"p": {"enum": ["x" * 100_000] * 50}}}}, id="long choices"),
    pytest.param({"examples": (Example("e" * 1_000, ""),) * 10_000}, id="many examples"),
    pytest.param({"input_schema": endless()}, id="in circles"),
    pytest.param({"output_schema": endless()}, id="a result in circles"),
    pytest.param({"input_schema": deep()}, id="deeply nested"),
]


@pytest.mark.parametrize("fields", HARMFUL)
def test_no_entry_takes_long(fields: dict[str, object]) -> None:
    harmful = entry(**fields)
    ranker = LexicalRanker()
    ranker.add([0], [entry()])  # what is done once is done

    assert python_steps(lambda: ranker.add([1], [harmful])) < 800_000


def test_the_rest_of_a_long_entry_is_not_read() -> None:
    words = document_from_entry(
        entry(
            description="a first word" + " x" * MAX_TEXT_CHARS,
            input_schema={"properties": {"kumquat": {}}},
            examples=(Example("walnut", ""),),
        )
    ).words

    assert "word" in words
    assert not {"kumquat", "walnut"} & set(words)


def test_some_choices_of_many_are_read() -> None:
    schema = {"properties": {"p": {"enum": [f"choice {n}" for n in range(1_000)]}}}

    assert document_from_entry(entry(input_schema=schema)).words["choic"] == pytest.approx(
        DEFAULT_FIELD_WEIGHTS.choices * MAX_CHOICES
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["properties", "items", "enum", "description", "a"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(["properties", "items", "enum", "a"]), JSON, max_size=4), st.text(max_size=40))
def test_any_json_can_be_read(schema: dict[str, object], text: str) -> None:
    odd = entry(name=text, app_id=text, title=text, description=text, tags=frozenset({text}), input_schema=schema)

    assert all(word and count > 0 for word, count in document_from_entry(odd).words.items())
