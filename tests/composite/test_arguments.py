"""Texts that callers write for values of other types."""

from __future__ import annotations

import json

import pytest

from codecall.composite.arguments import coerce
from codecall.jsonio.decode import FEWEST_CONTAINERS

ARRAY: dict[str, object] = {"type": "array"}


@pytest.mark.parametrize("value", [[], [1, 2.5, "x", None], [[1] * 100] * 2_000, ["x" * 300_000]])
def test_a_json_text_is_read(value: list[object]) -> None:
    assert coerce(f" {json.dumps(value)}\n", ARRAY, ARRAY) == value


@pytest.mark.parametrize("text", ["[[" * 5_000, "[" * 5_000 + "]" * 5_000, "[1", "{}", "x"])
def test_what_is_no_array_stays_a_text(text: str) -> None:
    assert coerce(text, ARRAY, ARRAY) == text


def test_a_text_of_very_many_containers_stays_a_text() -> None:
    """Each takes sixty-four bytes of the server's memory."""
    text = "[" + "[]," * (3 * FEWEST_CONTAINERS) + "[]]"
    assert coerce(text, ARRAY, ARRAY) == text
