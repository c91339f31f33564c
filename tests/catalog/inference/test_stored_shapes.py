"""Shapes come back from a store as they went in; what somebody else has written there does not come in."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from codecall.catalog.inference.shapes import (
    ANY_ARRAY,
    ANY_OBJECT,
    MAX_DEPTH,
    MAX_FIELDS,
    FieldShape,
    ValueShape,
    join,
    limit_size,
)
from codecall.catalog.inference.shapes import MAX_NAME_CHARS as MAX_CHARS
from codecall.catalog.inference.store import STALE_DAYS, StoredShape, stored_shape_from_json, stored_shape_to_json
from tests.catalog.inference.test_shapes import SHAPES, shape_of


@given(SHAPES, SHAPES)
@settings(max_examples=100)
def test_what_was_kept_comes_back(one: ValueShape, two: ValueShape):
    kept = StoredShape(limit_size(join(one, two)), 7, True)
    assert stored_shape_from_json(json.loads(json.dumps(stored_shape_to_json(kept)))) == kept


def test_the_largest_shape_comes_back_and_is_small():
    letters = "abcdefghijklmnop"
    name = "n_" * (MAX_CHARS // 2 - 1)
    names = {
        f"{name}{letters[i // 16]}{letters[i % 16]}": FieldShape(ANY_ARRAY, False, "o" * 16) for i in range(MAX_FIELDS)
    }
    inner = ValueShape(64, fields=names, complete=True, max_fields=MAX_FIELDS)
    shape = limit_size(
        ValueShape(
            96, items=inner, fields={"a": FieldShape(inner, True, None), "b": FieldShape(ANY_OBJECT, True, None)}
        )
    )
    data = json.dumps(stored_shape_to_json(StoredShape(shape, 10**9, False)))
    assert len(data) < 64 * 1024
    assert stored_shape_from_json(json.loads(data)) == StoredShape(shape, 10**6, False)


def test_age():
    data: dict[str, Any] = dict(stored_shape_to_json(StoredShape(shape_of([1]), 1, False)))
    assert not stored_shape_from_json(data).stale
    data["day"] -= STALE_DAYS + 1
    assert stored_shape_from_json(data).stale


def deep(shape: dict[str, Any]) -> None:
    for _ in range(MAX_DEPTH + 1):
        shape["items"] = {"kinds": 32}
        shape = shape["items"]


def many(shape: dict[str, Any]) -> None:
    for _ in range(MAX_DEPTH):
        names = [f"a{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(120)]
        shape["names"] = [[name, {"kinds": 64}, False, None] for name in names]
        shape = shape["names"][0][1]
        shape["kinds"] = 64


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "no layout": lambda data: data.pop("layout"),
    "another layout": lambda data: data.update(layout=2),
    "no day": lambda data: data.pop("day"),
    "a day to come": lambda data: data.update(day=10**9),
    "a day before time": lambda data: data.update(day=-1),
    "a switch as results": lambda data: data.update(results=True),
    "too many results": lambda data: data.update(results=10**7),
    "a number as partial": lambda data: data.update(partial=1),
    "no shape": lambda data: data.pop("shape"),
    "a text as shape": lambda data: data.update(shape="x"),
    "no kinds": lambda data: data["shape"].pop("kinds"),
    "kinds below all": lambda data: data["shape"].update(kinds=-1),
    "kinds beyond all": lambda data: data["shape"].update(kinds=256),
    "a broken number": lambda data: data["shape"].update(kinds=1.0),
    "names by name": lambda data: data["shape"].update(names={"id": [{"kinds": 1}, False, None]}),
    "too many names": lambda data: data["shape"].update(names=[["a", {"kinds": 1}, False, None]] * (MAX_FIELDS + 1)),
    "a name that is data": lambda data: data["shape"]["names"].append(["ann@x.org", {"kinds": 1}, False, None]),
    "a never name": lambda data: data["shape"]["names"].append(["__proto__", {"kinds": 1}, False, None]),
    "a number as name": lambda data: data["shape"]["names"].append([1, {"kinds": 1}, False, None]),
    "a short field": lambda data: data["shape"]["names"].append(["x", {"kinds": 1}, False]),
    "a text as field": lambda data: data["shape"]["names"].append("abcd"),
    "missing is no switch": lambda data: data["shape"]["names"].append(["x", {"kinds": 1}, 0, None]),
    "a long owner": lambda data: data["shape"]["names"].append(["x", {"kinds": 1}, False, "x" * 17]),
    "a number as owner": lambda data: data["shape"]["names"].append(["x", {"kinds": 1}, False, 1]),
    "items that are none": lambda data: data["shape"].update(items=None),
    "a wide number": lambda data: data["shape"].update(widest=MAX_FIELDS + 1),
    "whole is no switch": lambda data: data["shape"].update(whole="yes"),
    "dictionary is no switch": lambda data: data["shape"].update(dictionary=None),
    "too deep": lambda data: deep(data["shape"]),
    "too much": lambda data: many(data["shape"]),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_could_not_have_been_written_is_not_read(change: Callable[[dict[str, Any]], object]):
    data: dict[str, Any] = copy.deepcopy(
        dict(stored_shape_to_json(StoredShape(shape_of({"id": 1, "tags": ["a"]}), 1, False)))
    )
    stored_shape_from_json(data)
    change(data)
    with pytest.raises((ValueError, TypeError, KeyError)):
        stored_shape_from_json(data)


@pytest.mark.parametrize("data", [None, [], "x", 1, {}, {"layout": 1}])
def test_what_is_no_entry_at_all(data: object):
    with pytest.raises((ValueError, TypeError, KeyError)):
        stored_shape_from_json(data)
