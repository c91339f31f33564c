"""Validators fetch nothing, and need no more than a few looks at each item."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing.exceptions import Unresolvable

from codecall.composite.arguments import argument_problems, types_of
from codecall.schema.pattern_search import TextTooLongError
from codecall.schema.validator import MAX_BRANCH_ERRORS, InvalidSchemaError, check_schema, create_validator
from tests.work import python_steps

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.text("01a", max_size=2)
VALUES = st.recursive(
    SCALARS, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inside)
)
UNIQUE = {"uniqueItems": True}


@given(st.lists(VALUES, max_size=6))
def test_items_are_as_unique_as_to_the_library(items: list[object]) -> None:
    assert create_validator(UNIQUE).is_valid(items) == jsonschema.Draft202012Validator(UNIQUE).is_valid(items)


@pytest.mark.parametrize("unique", [True, False])
def test_what_is_no_array_is_as_unique_as_can_be(unique: bool) -> None:
    validator = create_validator({"uniqueItems": unique})
    assert validator.is_valid("aa")
    assert validator.is_valid([1, 1]) is not unique


def test_items_of_several_types_are_not_compared_with_each_other() -> None:
    items = [item for number in range(3_500) for item in (number, str(number))]
    assert python_steps(lambda: create_validator(UNIQUE).is_valid(items)) < 100_000


@pytest.mark.parametrize(
    ("step", "multiples", "others"),
    [
        (0.01, [19.99, -0.07, 3, 1e300, 10**400, 0], [19.995, 1e-300]),
        (0.1, [1.1, 0.3], [0.25]),
        (2, [4, 4.0, -6], [3, 7.5]),
        (10**400, [0, 2 * 10**400], [1.5, 3]),
        (1e-300, [1e300], [1e-301]),
    ],
)
def test_multiples_are_counted_as_json_writes_them(step: float, multiples: list[float], others: list[float]) -> None:
    validator = create_validator({"multipleOf": step})
    assert [number for number in multiples + others if validator.is_valid(number)] == multiples
    assert validator.is_valid("no number")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a{99999999999}", "a pattern has a count that is too large"),
        (f"{'(' * 2_000}a{')' * 2_000}", "it is nested too deeply"),
        ("(", "is not a 'regex'"),
    ],
)
def test_what_no_engine_reads_is_no_schema(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidSchemaError, match=reason):
        check_schema({"properties": {"a": {"pattern": pattern}}})


@given(st.lists(SCALARS, max_size=4) | SCALARS)
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_branches_are_as_to_the_library(keyword: str, value: object) -> None:
    branches: list[dict[str, Any]] = [
        {"type": "array", "items": {"type": "string"}},
        {"type": "string"},
        {"maxItems": 2},
    ]
    schema = {keyword: branches}
    assert create_validator(schema).is_valid(value) == jsonschema.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_a_branch_keeps_few_errors_and_no_long_text(keyword: str) -> None:
    branches = [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]
    validator = create_validator({keyword: branches})
    (error,) = validator.iter_errors([0] * 10_000)
    assert len(error.context or ()) == MAX_BRANCH_ERRORS + 1
    assert len(error.message) < 300


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"unevaluatedProperties": False, "patternProperties": {"a": True}}, {f"a{n}": 1 for n in range(4_001)}),
        ({"unevaluatedItems": False, "contains": {"type": "integer"}}, list(range(4_001))),
    ],
)
def test_few_values_are_looked_at_that_other_keywords_may_have_seen(schema: dict[str, Any], value: Any) -> None:
    with pytest.raises(TextTooLongError, match="takes at most 4,000 values, and there are 4,001"):
        create_validator(schema).is_valid(value)
    (problem,) = argument_problems({"v": value}, {"properties": {"v": schema}})
    assert "cannot be checked: `unevaluated" in problem["message"]


@pytest.fixture
def requests() -> Iterator[tuple[str, list[str]]]:
    """The address of a server of HTTP, and the paths that it is asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/schema.json", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("key", ["$ref", "$dynamicRef"])
def test_a_reference_to_another_document_is_not_fetched(key: str, requests: tuple[str, list[str]]) -> None:
    address, asked = requests
    schema: dict[str, Any] = {"properties": {"name": {key: address}}}
    with pytest.raises(Unresolvable):
        create_validator(schema).is_valid({"name": "Ann"})
    (problem,) = argument_problems({"name": "Ann"}, schema)
    assert problem["message"] == f"cannot be checked, since its schema refers to '{address}'"
    assert asked == []


def test_a_schema_that_refers_to_itself_checks_nothing() -> None:
    schema: dict[str, Any] = {"properties": {"name": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
    (problem,) = argument_problems({"name": "Ann"}, schema)
    assert problem["message"] == "cannot be checked, since its schema refers to itself"


def test_of_very_many_bad_fields_some_are_named() -> None:
    schema = {"properties": {"tags": {"items": {"type": "string"}}}}
    tags = {"tags": [0] * 120_000}
    problems = argument_problems(tags, schema)
    assert len(problems) == 21
    assert problems[-1]["message"] == "and more bad fields"
    assert python_steps(lambda: argument_problems(tags, schema)) < 10_000


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf"])
def test_alternatives_without_end_say_nothing_of_types(key: str) -> None:
    schema = {"$defs": {"d": {key: [{"$ref": "#/$defs/d"}] * 9}}, "$ref": "#/$defs/d"}
    found: list[set[str]] = []
    assert python_steps(lambda: found.append(types_of(schema, schema))) < 200_000
    assert found == [set()]
