"""Types that `extract` takes: texts of TypeScript as JSON Schema, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from codecall.extraction.types import MAX_TYPE_CHARS, WrongType, read_type

NUMBER = {"type": "number"}
TEXT = {"type": "string"}


def items(schema: object) -> dict[str, Any]:
    """A list of these."""
    return {"type": "array", "items": schema}


def fields(required: list[str], **properties: Any) -> dict[str, Any]:
    """An object of these."""
    body = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**body, "required": required} if required else body


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("number", NUMBER),
        (" string ; ", TEXT),
        ("'a' | \"b\"", {"enum": ["a", "b"]}),
        ("-1 | true", {"enum": [-1, True]}),
        ("string | null", {"anyOf": [TEXT, {"type": "null"}]}),
        ("number[][]", items(items(NUMBER))),
        ("Array<string | 1>", items({"anyOf": [TEXT, {"const": 1}]})),
        ("readonly string[]", items(TEXT)),
        ("readonly " * 1_000 + "string", TEXT),
        ("(string | null)[]", items({"anyOf": [TEXT, {"type": "null"}]})),
        ("{}", fields([])),
        ("{ a: number; b?: string }", fields(["a"], a=NUMBER, b=TEXT)),
        (
            "{\n  /* x */ 'a b': number, // y\n  readonly readonly: string\n}",
            fields(["a b", "readonly"], **{"a b": NUMBER, "readonly": TEXT}),
        ),
        ("Record<string, number>", {"type": "object", "additionalProperties": NUMBER}),
        ("[string, number]", {"type": "array", "prefixItems": [TEXT, NUMBER], "minItems": 2, "maxItems": 2}),
        ("{ when: Date }", fields(["when"], when={"type": "string", "format": "date-time"})),
        ("{ [name: string]: number }", {**fields([]), "additionalProperties": NUMBER}),
        ("'it\\'s'", {"const": "it's"}),
    ],
)
def test_a_type_of_typescript_is_a_schema(text: str, schema: dict[str, Any]) -> None:
    assert read_type(text) == schema


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "the type ends where more of the type is needed"),
        ("{ a: }", "a type is needed at character 6 of the type, not '}'"),
        ("{ a number }", "':' is needed at character 5 of the type, not 'number'"),
        ("string string", "the end of the type is needed"),
        ("Partial<X>", "'Partial': write the type out"),
        ("a => b", "cannot be read at character 3"),
        ("[" * 99, "nested too deeply"),
        ("(" * 99, "nested too deeply"),
        ("string" + "[]" * 99, "nested too deeply"),
        ("readonly " * 1_100, "the type ends where"),
        ("007", "007: no number that JSON has"),
        ("9" * 9_000, "no number that JSON has"),
        ("x" * (MAX_TYPE_CHARS + 1), "10,001 characters"),
        (7, "a JSON Schema or the text of a TypeScript type is needed"),
        (None, "a JSON Schema or the text"),
        ({"$ref": "#"}, "$ref: this keyword of JSON Schema is not taken here"),
        ({"properties": {"a": {"pattern": "(a+)+$"}}}, "properties.a.pattern: this keyword"),
        ({"items": {"anyOf": [{"uniqueItems": True}]}}, "items.anyOf[0].uniqueItems: this keyword"),
        ({"anyOf": 1}, "anyOf: a list is needed"),
        ({"properties": []}, "properties: an object is needed"),
        ({"items": 1}, "items.: no schema"),
        ({"description": "x" * MAX_TYPE_CHARS}, "more than 10,000 characters"),
    ],
)
def test_anything_else_is_refused_with_the_reason(given: object, why: str) -> None:
    with pytest.raises(WrongType) as refused:
        read_type(given)
    assert why in str(refused.value)
