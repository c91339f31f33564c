"""Of a large result only the beginning is read, and what was not read is never claimed."""

from __future__ import annotations

import json
import random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from codecall.catalog.inference import shapes as beginnings
from codecall.catalog.inference.output_schemas import schema_from_shape
from codecall.catalog.inference.shapes import (
    ARRAY,
    INTEGER,
    MAX_CHARS,
    MAX_ITEMS,
    OBJECT,
    STRING,
    InferredShape,
    ValueShape,
    infer_shape,
    join,
)
from tests.work import python_steps

MAX_PYTHON_STEPS = 60_000
"""Lines of Python for the worst of the texts here, twice over."""


def read(text: str) -> InferredShape:
    found = infer_shape(text, "me")
    assert found is not None
    return found


def names(shape: ValueShape | None) -> list[str]:
    assert shape is not None
    return list(shape.fields)


ROW = {"id": 1, "name": 'say "hi" [ok] {ok}, \\', "tags": ["a", "b"], "nested": {"x": None, "y": [1.5]}}


@given(st.integers(1, 20 * len(json.dumps(ROW))))
@settings(max_examples=300)
def test_every_beginning_of_a_text_can_be_read(length: int):
    rows = [ROW] * 20
    text = json.dumps({"total": 20, "rows": rows})
    closed, levels = beginnings._completed(
        text[:length]
    )  # the part that a limit of 8 KiB would seldom cut at such places
    if not closed:
        assert length < 2
        return
    value = json.loads(closed)
    assert 0 <= levels <= 5
    seen = value.get("rows", [])
    assert len(seen) <= 20
    for row in seen[:-1]:
        assert row == ROW
    assert all(row.keys() <= ROW.keys() for row in seen)


def test_a_long_array_is_read_in_part():
    text = json.dumps([ROW] * 10_000)
    found = read(text)
    assert found.partial
    assert found.shape.kinds == ARRAY
    assert names(found.shape.items) == list(ROW)
    assert not any(name.optional for name in found.shape.items.fields.values())  # type: ignore[union-attr]


def test_names_after_the_end_are_not_missing():
    whole = read(json.dumps({"rows": [1], "total": 1}))
    cut = read(json.dumps({"rows": [1] * MAX_CHARS, "total": 1}))
    assert (whole.shape.complete, whole.partial) == (True, False)
    assert (cut.shape.complete, cut.partial) == (False, True)
    both = join(cut.shape, whole.shape)
    assert not both.fields["total"].optional


def test_a_text_that_is_cut_is_a_text():
    body = "x" * (2 * MAX_CHARS)
    assert read(json.dumps(body)) == InferredShape(ValueShape(STRING), False)
    assert names(read(json.dumps({"path": "a", "content": body})).shape) == ["path", "content"]
    assert names(read(json.dumps({"path": "a", body: 1})).shape) == ["path"]
    assert read(json.dumps([body])).shape.items == ValueShape(STRING)
    assert read(json.dumps(["a", body])).shape.items == ValueShape(STRING)
    assert read(json.dumps({"content": "\\" * 2 * MAX_CHARS})).shape.fields["content"].shape == ValueShape(STRING)
    assert read(" \n" + json.dumps(body)).shape == ValueShape(STRING)


def test_numbers_without_end():
    assert infer_shape("1" * 2 * MAX_CHARS, "me") is None
    assert infer_shape("1" * 5_000, "me") is None
    assert read('{"a": ' + "1" * 5_000 + "}") == InferredShape(ValueShape(OBJECT), True)
    assert infer_shape(" " * 2 * MAX_CHARS, "me") is None


def test_items_beyond_the_first_are_not_looked_at():
    found = read(json.dumps([1] * MAX_ITEMS + ["x"]))
    assert found == InferredShape(ValueShape(ARRAY, ValueShape(INTEGER)), True)
    assert not read(json.dumps([1] * MAX_ITEMS)).partial


def test_a_dictionary_has_no_names_even_where_one_key_looks_like_it():
    for value in ({"ann@x.org": 1, "bob": 2}, {"1": 1}, {"2026-01-01": 1, "2026-01-02": 2, "total": 3}):
        shape = read(json.dumps(value)).shape
        assert (shape.dictionary, names(shape), shape.other_values) == (True, [], ValueShape(INTEGER)), value
    mostly = read(json.dumps({"id": 1, "name": 2, "strange key": "x"})).shape
    assert (mostly.dictionary, names(mostly), mostly.other_values) == (False, ["id", "name"], ValueShape(STRING))


DEEP = 1_000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps({f"key{i}": i for i in range(10_000)}), id="10,000 keys"),
        pytest.param("[" * DEEP + "]" * DEEP, id="arrays 1,000 deep"),
        pytest.param('{"a":' * DEEP + "1" + "}" * DEEP, id="objects 1,000 deep"),
        pytest.param('{"a":' * 20_000 + "1" + "}" * 20_000, id="objects 20,000 deep"),
        pytest.param("[" + ",".join(["[]"] * 10**6) + "]", id="a million arrays"),
        pytest.param(json.dumps([1] * 10**6), id="a million numbers"),
        pytest.param(json.dumps({"content": '\\"' * 4_000_000}), id="16 MB of escapes"),
        pytest.param('"' + "\\u0041" * 10**6 + '"', id="a million escapes"),
        pytest.param(json.dumps(["," * 10**6]), id="commas in a text"),
        pytest.param(json.dumps([{f"{chr(97 + i % 26)}{i % 7}x": {"a": i}} for i in range(20_000)]), id="20,000 rows"),
        pytest.param('{"__proto__": {"a": 1}, "constructor": 2, "b": 3, "c": 4, "d": 5}', id="never names"),
        pytest.param('{"\\ud800": "\\udfff", "ok": "\\ud800"}', id="half pairs"),
        pytest.param('{"": {"": {"": []}}}', id="empty names"),
    ],
)
def test_what_is_hostile_takes_few_steps(text: str):
    found = read(text)
    schema = schema_from_shape(found.shape, "me", results=1, partial=found.partial)
    written = json.dumps(schema)
    assert len(written) < 20_000
    assert "__proto__" not in written
    written.encode()
    assert python_steps(lambda: read(text)) < MAX_PYTHON_STEPS


def test_random_values_are_valid_when_they_were_read_whole():
    chance = random.Random(5)

    def value(depth: int) -> Any:
        kind = chance.randrange(6 if depth else 4)
        if kind == 4:
            return [value(depth - 1) for _ in range(chance.randrange(5))]
        if kind == 5:
            return {chance.choice(["id", "name", "x@y", "7"]): value(depth - 1) for _ in range(chance.randrange(5))}
        return [None, True, 1.5, "text"][kind]

    for _ in range(200):
        data = value(5)
        found = read(json.dumps(data))
        if not found.partial:
            schema = schema_from_shape(found.shape, "me", results=1, partial=False)
            Draft202012Validator(schema or {}).validate(data)
