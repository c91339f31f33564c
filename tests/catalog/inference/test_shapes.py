"""Shapes join in any order to the same one, hold what was seen, and never more than their bounds."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from codecall.catalog.inference.output_schemas import schema_from_shape
from codecall.catalog.inference.shapes import (
    ANY_KIND,
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_SHAPES,
    NO_VALUES,
    OBJECT,
    FieldShape,
    ValueShape,
    count_shapes,
    infer_shape,
    join,
    limit_size,
)

NAMES = st.sampled_from(
    ["id", "name", "email", "tags", "address", "total_count", "ann@example.org", "2026-01-01", "17"]
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)
OWNERS = st.sampled_from(["ann", "bob"])


def shape_of(value: Any, owner: str = "ann") -> ValueShape:
    read = infer_shape(json.dumps(value), owner)
    assert read is not None
    assert not read.partial
    return read.shape


def joined(*shapes: ValueShape) -> ValueShape:
    return reduce(join, shapes, NO_VALUES)


def normal(schema: Any) -> Any:
    """A schema with its lists in order."""
    if isinstance(schema, dict):
        return {key: normal(value) for key, value in schema.items()}
    return sorted(schema) if isinstance(schema, list) else schema


SHAPES = st.builds(shape_of, VALUES, OWNERS)


@given(SHAPES, SHAPES, SHAPES)
@settings(max_examples=150)
def test_joining_is_commutative_associative_and_idempotent(one: ValueShape, two: ValueShape, three: ValueShape):
    assert join(one, two) == join(two, one)
    assert join(join(one, two), three) == join(one, join(two, three))
    both = join(one, two)
    assert join(both, one) is both
    assert join(both, two) is both
    assert join(NO_VALUES, one) == one
    assert join(one, NO_VALUES) is one


@given(st.lists(VALUES, min_size=1, max_size=5), st.randoms())
@settings(max_examples=150)
def test_every_result_seen_is_valid_whatever_the_order(values: list[Any], random: Any):
    schema = schema_from_shape(joined(*map(shape_of, values)), "ann", results=len(values), partial=False)
    assert schema is not None
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for value in values:
        validator.validate(value)
    random.shuffle(values)
    again = schema_from_shape(joined(*map(shape_of, values)), "ann", results=len(values), partial=False)
    assert normal(again) == normal(schema)


@given(st.lists(st.tuples(VALUES, OWNERS), min_size=1, max_size=5))
@settings(max_examples=100)
def test_it_is_valid_for_those_who_see_less(seen: list[tuple[Any, str]]):
    shape = joined(*(shape_of(value, owner) for value, owner in seen))
    for viewer in ("ann", "bob", "somebody"):
        schema = schema_from_shape(shape, viewer, results=1, partial=False)
        assert schema is not None
        for value, _ in seen:
            Draft202012Validator(schema).validate(value)


LONG = st.text(alphabet="qwxyz", min_size=12, max_size=16)


@given(
    st.recursive(
        LONG | st.integers(10**9, 10**12),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | LONG.map(lambda key: f"{key}@"), inner),
        max_leaves=10,
    )
)
@settings(max_examples=100)
def test_no_value_is_ever_in_it(value: Any):
    texts: list[str] = []

    def collect(item: Any) -> None:
        if isinstance(item, dict):
            texts.extend(key for key in item if key.endswith("@"))
            for inner in item.values():
                collect(inner)
        elif isinstance(item, list):
            for inner in item:
                collect(inner)
        else:
            texts.append(str(item))

    collect(value)
    shape = shape_of(value)
    written = json.dumps(schema_from_shape(shape, "ann", results=1, partial=False)) + repr(shape)
    assert not [text for text in texts if text in written]


def test_too_many_names_make_a_dictionary_in_any_order():
    def numbered(first: int, last: int) -> list[ValueShape]:
        letters = "abcdefghijklmnop"
        return [shape_of({f"n{letters[i // 16]}{letters[i % 16]}": 1, "always": "x"}) for i in range(first, last)]

    few = joined(*numbered(0, MAX_FIELDS - 1))
    assert len(few.fields) == MAX_FIELDS
    many = joined(few, *numbered(MAX_FIELDS - 1, MAX_FIELDS))
    assert (many.dictionary, many.fields) == (True, {})
    assert many.other_values == joined(shape_of(1), shape_of("x"))
    backwards = joined(*reversed(numbered(0, MAX_FIELDS)))
    assert backwards == many
    assert join(many, few) is many


def test_what_is_too_much_loses_its_depths_first():
    broad = shape_of({f"f{a}": {f"g{b}": {"deep": 1} for b in "abcdefghijkl"} for a in "abcdefghijkl"})
    assert count_shapes(broad) > MAX_SHAPES
    less = limit_size(broad)
    assert count_shapes(less) <= MAX_SHAPES
    assert less.fields.keys() == broad.fields.keys()
    assert less.fields["fa"].shape.fields.keys() == broad.fields["fa"].shape.fields.keys()
    assert less.fields["fa"].shape.fields["ga"].shape == ValueShape(
        OBJECT, other_values=ValueShape(ANY_KIND), dictionary=True
    )
    assert limit_size(less) is less
    # What was cut does not come back, and so never looks complete.
    assert limit_size(join(less, broad)) == less


def test_levels_are_counted():
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = {"a": [value]}
    shape, depth = shape_of(value), 0
    while not shape.kinds & ANY_KIND:
        depth += 1
        inner = shape.items or shape.other_values or next(iter(shape.fields.values())).shape
        shape = inner
    assert depth == MAX_DEPTH + 1


def test_a_name_is_somebodys_until_another_caller_has_it():
    ann, bob = shape_of({"x": 1}, "ann"), shape_of({"x": 1}, "bob")
    assert ann.fields["x"].owner == "ann"
    both = join(ann, bob)
    assert both.fields["x"] == FieldShape(shape_of(1), optional=False, owner=None)
    assert join(both, ann) is both
