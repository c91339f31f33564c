"""What is sure to be wrong with an input by a JSON Schema alone."""

from __future__ import annotations

from typing import Any

import pytest

from codecall.schema.comparison import MAX_STEPS, RULES, find_missing, find_violations, violation_problems
from codecall.schema.partial import PartialArray, PartialObject, Unknown
from codecall.schema.validation import describe_parameters

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "stage": {"$ref": "#/$defs/Stage"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "filter": {"type": "object", "properties": {"min": {"type": "number"}}, "required": ["min"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "limit": {"type": "integer", "default": 5},
        "level": {"enum": [1, 2.5, None]},
        "odd": {"type": "string", "if": {}},
        "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "state": {"anyOf": [{"enum": ["open", "won"], "type": "string"}, {"type": "null"}]},
        "isbn": {"type": "string", "pattern": r"^978-\d{5}$"},
        "maybe": {"anyOf": [{"type": "string", "pattern": "^[A-Z]+$"}, {"type": "null"}]},
        "name": {"type": "string", "minLength": 1, "maxLength": 4},
        "day": {"type": "string", "format": "date", "pattern": "^2", "minLength": 10},
        "pair": {"type": "array", "minItems": 1, "maxItems": 2},
        "set": {"type": "array", "maxItems": 2, "uniqueItems": True},
        "step": {"type": "number", "multipleOf": 5},
        "either": {"anyOf": [{"type": "object", "required": ["b"], "properties": {"a": {}}}, {"type": "null"}]},
    },
    "required": ["id", "limit"],
    "additionalProperties": False,
    "$defs": {"Stage": {"enum": ["open", "won"], "type": "string"}},
}

WRONG: list[tuple[str, dict[str, object], list[tuple[str, str]]]] = [
    ("missing", {}, [("id", "Field required")]),
    ("unknown", {"id": 1, "idd": 2}, [("idd", "Unknown parameter")]),
    ("unknown", {"id": 1, "idd": Unknown.PRESENT}, [("idd", "Unknown parameter")]),
    ("type", {"id": {}}, [("id", "Wrong type")]),
    ("type", {"id": []}, [("id", "Wrong type")]),
    ("type", {"id": 1, "tags": 5}, [("tags", "Wrong type")]),
    ("type", {"id": 1, "tags": ["a", {}]}, [("tags.1", "Wrong type")]),
    ("type", {"id": 1, "filter": True}, [("filter", "Wrong type")]),
    ("type", {"id": 1, "note": []}, [("note", "Fits none of the forms this may have")]),
    ("missing", {"id": 1, "filter": {}}, [("filter.min", "Field required")]),
    ("choice", {"id": 1, "stage": "lost"}, [("stage", "Not one of the allowed values")]),
    ("choice", {"id": 1, "level": 3}, [("level", "Not one of the allowed values")]),
    ("choice", {"id": 1, "state": "opn"}, [("state", "Not one of the allowed values")]),
    ("type", {"id": "five"}, [("id", "Wrong type")]),
    (
        "type",
        {"id": 1, "tags": ["a", {}], "either": {"a": 1}},
        [("tags.1", "Wrong type"), ("either.b", "Field required")],
    ),
    ("bound", {"id": 1, "share": 1.5}, [("share", "Must be at most 1")]),
    ("bound", {"id": 1, "share": 0}, [("share", "Must be more than 0")]),
    ("bound", {"id": 1, "step": 7}, [("step", "Must be a multiple of 5")]),
    ("type", {"id": 1.5}, [("id", "Wrong type")]),
    ("type", {"id": 1, "isbn": 1}, [("isbn", "Wrong type")]),
    ("type", {"id": 1, "isbn": True}, [("isbn", "Wrong type")]),
    ("type", {"id": 1, "maybe": 1}, [("maybe", "Fits none of the forms this may have")]),
    ("text", {"id": 1, "isbn": "978-1"}, [("isbn", r"Must match the pattern ^978-\d{5}$")]),
    ("text", {"id": 1, "maybe": "978-1"}, [("maybe", "Must match the pattern ^[A-Z]+$")]),
    ("text", {"id": 1, "name": ""}, [("name", "Must have at least 1 character")]),
    ("text", {"id": 1, "name": "abcde"}, [("name", "Must have at most 4 characters")]),
    ("count", {"id": 1, "pair": []}, [("pair", "Must have at least 1 item")]),
    ("count", {"id": 1, "pair": [1, Unknown.MAYBE_ABSENT, 3]}, [("pair", "Must have at most 2 items")]),
]
"""The rule, the input, the places and what is said."""


@pytest.mark.parametrize(("rule", "given", "said"), WRONG, ids=[str(given) for _, given, _ in WRONG])
def test_what_is_wrong(rule: str, given: dict[str, object], said: list[tuple[str, str]]) -> None:
    assert rule in RULES
    assert [(".".join(map(str, path)), message) for path, message in find_violations(given, SCHEMA)] == said


def test_every_rule_has_an_example() -> None:
    assert {rule for rule, _, _ in WRONG} == set(RULES)


OPEN: list[dict[str, object]] = [
    {"id": 1},
    {"id": "5"},
    {"id": None},
    {"id": True},
    {"id": Unknown.MAYBE_ABSENT},
    {"id": 1, "idd": Unknown.MAYBE_ABSENT},
    PartialObject(),
    PartialObject(stage="won"),
    {"id": 1, "stage": " WON "},
    {"id": 1, "tags": '["a"]'},
    {"id": 1, "tags": {"0": "a"}},
    {"id": 1, "tags": PartialArray([Unknown.PRESENT])},
    {"id": 1, "filter": PartialObject()},
    {"id": 1, "filter": []},
    {"id": 1, "level": "2.5"},
    {"id": 1, "level": 1},
    {"id": 1, "odd": {}},
    {"id": " -Infinity "},
    {"id": ""},
    {"id": 1, "share": "1.5"},
    {"id": 1, "share": True},
    {"id": 1, "isbn": " 978-00001 "},
    {"id": 1, "isbn": None},
    {"id": 1, "isbn": Unknown.PRESENT},
    {"id": 1, "maybe": "978-\u0661"},
    {"id": 1, "name": "  abcd  "},
    {"id": 1, "day": 1},
    {"id": 1, "day": "1"},
    {"id": 1, "pair": PartialArray()},
    {"id": 1, "pair": PartialArray([1, 2, 3])},
    {"id": 1, "set": [1, 1, 1]},
    {"id": 1, "step": 0.5},
    {"id": 1, "step": "7"},
    {"id": 1.0},
]
"""What some tool takes."""


@pytest.mark.parametrize("given", OPEN, ids=str)
def test_what_may_be_right(given: dict[str, object]) -> None:
    assert find_violations(given, SCHEMA) == []


def test_whole_numbers_of_a_schema_are_shown_as_such() -> None:
    places = {"share": {"type": "number", "maximum": 50.0}, "name": {"type": "string", "maxLength": 2.0}}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {**places, "level": {"type": "number", "enum": [1.0, 2.5]}},
    }
    said = violation_problems(find_violations({"share": 60, "name": "abc", "level": 3}, schema), schema)
    assert [problem["message"] for problem in said] == [
        "Must be at most 50",
        "Must have at most 2 characters",
        "Not one of the allowed values",
    ]
    assert said[2]["expected"] == "one of 1, 2.5"


def test_an_unknown_parameter_may_be_the_missing_one() -> None:
    schema = {**SCHEMA, "additionalProperties": True}
    assert find_violations({"idd": 1}, schema) == []
    assert find_missing({"idd": 1}, SCHEMA) == []
    assert [path for path, _ in find_missing({"stage": "lost"}, SCHEMA)] == [("id",)]
    assert find_missing({}, {**SCHEMA, "allOf": []}) == []
    assert find_missing(PartialObject(), SCHEMA) == []
    assert find_missing({}, {"required": ["a"]}) == []


def test_a_problem_says_what_is_expected() -> None:
    assert violation_problems(find_violations({"stage": "lost"}, SCHEMA), SCHEMA) == [
        {"field": "id", "message": "Field required", "expected": "integer"},
        {"field": "stage", "message": "Not one of the allowed values", "expected": "one of 'open', 'won'"},
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"$ref": "#"}]},
        {"$ref": "#"},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {"a": {"$ref": "https://example.com/a"}}},
        {"properties": {"a": 5}, "required": "a", "type": 5, "anyOf": 5},
        {"properties": {"a": {"anyOf": []}}},
        {"type": ["object", 5]},
    ],
)
def test_schemas_without_sense_say_nothing(schema: dict[str, Any]) -> None:
    assert find_violations({"a": [{}] * 10}, schema) == []


def test_only_so_much_is_looked_at() -> None:
    schema = {"properties": {"a": {"items": {"type": "string"}}}}
    assert find_violations({"a": [{}] * 10}, schema)
    assert find_violations({"a": [{}] * MAX_STEPS}, schema) == []


@pytest.mark.parametrize("value", ["open", " Won ", None, "", "null"])
def test_what_may_be_nothing_may_be_written_as_nothing(value: object) -> None:
    assert find_violations({"id": 1, "state": value}, SCHEMA) == []


def test_parameters_say_how_dates_and_lists_are_written() -> None:
    properties = {
        "start": {"type": "string", "format": "date"},
        "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        "mail": {"type": "string", "format": "email"},
        "who": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array"},
    }
    assert describe_parameters({"type": "object", "properties": properties, "required": ["start"]}) == (
        "Valid parameters (* = required): start* (date, YYYY-MM-DD), "
        "at (date and time, YYYY-MM-DDThh:mm:ssZ | null), mail (string), who (string[]), rows (array)."
    )
