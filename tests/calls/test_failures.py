"""What was wrong with an input."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from codecall.calls.pydantic_errors import MAX_READ_ERRORS, problems_from_pydantic
from codecall.schema.validation import (
    MAX_CHOICES,
    MAX_FIELDS,
    MAX_PARAMETERS,
    describe_parameters,
    invalid_input_message,
    parameter_names,
    shallow_problems,
)
from tests.work import python_steps

SCHEMA: dict[str, Any] = {
    "properties": {
        "stage": {"$ref": "#/$defs/Stage"},
        "owner": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "version": {"const": 2},
        "either": {"type": ["string", "null"]},
    },
    "required": ["stage"],
    "additionalProperties": False,
    "$defs": {"Stage": {"enum": ["open", "won"], "type": "string"}},
}


def failing(model: type[BaseModel], **values: object) -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        model.model_validate(values)
    return raised.value


def test_parameters_show_required_and_choices() -> None:
    assert describe_parameters(SCHEMA) == (
        "Valid parameters (* = required): stage* ('open' | 'won'), owner (integer), tags (string[]), "
        "note (string | null), version (2), either (string | null)."
    )
    assert describe_parameters({}) == "It takes no parameters."
    assert parameter_names(SCHEMA)[:2] == ["stage", "owner"]


def test_parameters_are_bounded_and_say_so() -> None:
    many: dict[str, Any] = {"properties": {f"p{n}": {"enum": list(range(50))} for n in range(60)}}
    said = describe_parameters(many)
    assert f"and {60 - MAX_PARAMETERS} more." in said
    assert f"… {50 - MAX_CHOICES} more)" in said


def test_pydantic_problems_name_path_message_and_expectation() -> None:
    class Deal(BaseModel):
        stage: str
        owner: int
        tags: list[str]
        note: str | None

    failure = failing(Deal, stage=1, owner="x", tags=["a", 2], note="")
    problems = {item["field"]: item for item in problems_from_pydantic(failure, None, SCHEMA)}
    assert problems["stage"]["expected"] == "one of 'open', 'won'"
    assert problems["owner"]["expected"] == "integer"
    assert problems["tags.1"] == {
        "field": "tags.1",
        "message": "Input should be a valid string",
        "expected": "string",
    }
    assert "expected" not in problems_from_pydantic(failing(Deal), None, {})[0]


def test_many_problems_are_counted() -> None:
    class Deal(BaseModel):
        tags: list[int]

    problems = problems_from_pydantic(failing(Deal, tags=["x"] * 50), None, SCHEMA)
    assert len(problems) == MAX_FIELDS + 1
    assert problems[-1]["message"] == f"and {50 - MAX_FIELDS} more bad fields"


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"stage": "open"}, []),
        ({"stage": "open", "owner": 3, "tags": [], "note": None, "version": 2, "either": None}, []),
        ({"stage": "open", "owner": 3.0}, []),
        ({}, ["stage"]),
        ({"stage": "lost"}, ["stage"]),
        ({"stage": "open", "owner": "3"}, ["owner"]),
        ({"stage": "open", "owner": 3.5}, ["owner"]),
        ({"stage": "open", "owner": True}, ["owner"]),
        ({"stage": "open", "tags": {}}, ["tags"]),
        ({"stage": "open", "version": 3}, ["version"]),
        ({"stage": "open", "limt": 1}, ["limt"]),
    ],
)
def test_mismatches(arguments: dict[str, object], fields: list[str]) -> None:
    assert [problem["field"] for problem in shallow_problems(arguments, SCHEMA)] == fields


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": "?", "required": "?"},
        {"properties": {"a": 3}, "required": [1]},
        {"properties": {"a": {"type": 3, "enum": "x", "$ref": "#/nowhere/at/all"}}},
        {"properties": {"a": {"$ref": "#"}}},
    ],
)
def test_odd_schemas_are_survived(schema: dict[str, Any]) -> None:
    shallow_problems({"a": 1}, schema)
    assert invalid_input_message("t", shallow_problems({"a": 1}, schema), schema).startswith("Invalid input for 't'")


def test_very_many_errors_are_counted_not_read() -> None:
    class Numbers(BaseModel):
        values: list[int]

    few = problems_from_pydantic(failing(Numbers, values=["x"] * MAX_READ_ERRORS), None, {})
    assert few[-1] == {"field": "…", "message": f"and {MAX_READ_ERRORS - MAX_FIELDS} more bad fields"}
    failure = failing(Numbers, values=["x"] * 50_000)
    assert python_steps(lambda: problems_from_pydantic(failure, None, {})) < 100
    many = problems_from_pydantic(failure, None, {})
    assert many == [{"field": "input", "message": "50,000 values are not valid"}]


NULLABLE: dict[str, Any] = {
    "properties": {
        "stage": {"anyOf": [{"$ref": "#/$defs/Stage"}, {"type": "null"}]},
        "open": {"anyOf": [{"enum": ["a"]}, {"type": "string"}]},
        "created_since": {"type": "string"},
        "flag": {"enum": [True, None, 1.5]},
    },
    "$defs": {"Stage": {"enum": ["open", "won"]}},
}


def test_choices_are_seen_in_alternatives() -> None:
    assert describe_parameters(NULLABLE).endswith(
        "stage ('open' | 'won' | null), open (string), created_since (string), flag (true | null | 1.5)."
    )
    (problem,) = shallow_problems({"stage": "lost", "open": "b"}, NULLABLE)
    assert problem == {
        "field": "stage",
        "message": "Not one of the allowed values",
        "expected": "one of 'open', 'won', null",
    }


@pytest.mark.parametrize(
    ("name", "meant"), [("createdSince", "created_since"), ("creatd_since", "created_since"), ("limit", None)]
)
def test_a_parameter_that_is_none_may_be_another_one(name: str, meant: str | None) -> None:
    (problem,) = shallow_problems({name: "x"}, {**NULLABLE, "additionalProperties": False})
    assert problem["message"] == "Unknown parameter" + (f"; did you mean '{meant}'?" if meant else "")
    ended = f"did you mean '{meant}'? Valid" if meant else "Unknown parameter. Valid"
    assert ended in invalid_input_message("list", [problem], NULLABLE)
