"""Schemas as servers really write them, from the plain to the impossible, with the type that each becomes."""

from __future__ import annotations

from typing import Any

Schema = Any
TEXT = {"type": "string"}
COUNT = {"type": "integer"}
USER = {"type": "object", "properties": {"id": TEXT, "email": {"type": ["string", "null"]}}, "required": ["id"]}


def obj(required: list[str] | None = None, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties] if required is None else required}


def nested(levels: int) -> Schema:
    schema: Schema = TEXT
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


LIST = [f"value {number}" for number in range(300)]
TREE = {"type": "object", "properties": {"name": TEXT, "children": {"type": "array", "items": {"$ref": "#"}}}}
LOOP = {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}, TEXT]}, "B": {"$ref": "#/$defs/A"}}}
WIDE = obj(**{f"p{number}": {"anyOf": [{**USER, "title": str(n)} for n in range(9)]} for number in range(900)})
CROSS = {"allOf": [{"anyOf": [obj(**{f"p{row}{n}": TEXT}) for n in range(5)]} for row in range(12)]}
ROUND: Schema = {"type": "object", "properties": {"name": TEXT}}
ROUND["properties"]["again"] = ROUND

CHAIN = {
    "$ref": "#/$defs/0",
    "$defs": {f"{n}": {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}, obj(**{f"p{n}": TEXT})]} for n in range(500)},
}
DENSE = {
    **obj(a={"$ref": "#/$defs/0"}),
    "$defs": {f"{n}": obj([], **{f"p{m}": {"$ref": f"#/$defs/{m}"} for m in range(60)}) for n in range(60)},
}
CROSSED = {
    "allOf": [{"$ref": f"#/$defs/{n}"} for n in range(6)],
    "$defs": {f"{n}": {"anyOf": [obj(**{f"p{n}{m}": {"$ref": f"#/$defs/{n}"}}) for m in range(30)]} for n in range(6)},
}

ODDITIES: list[tuple[Schema, str | None]] = [
    # what schemas usually are
    (TEXT, "string"),
    (COUNT, "number"),
    ({"type": "number"}, "number"),
    ({"type": "boolean"}, "boolean"),
    ({"type": "null"}, "null"),
    (USER, "{ id: string; email?: string | null }"),
    ({"type": "array", "items": USER}, "{ id: string; email?: string | null }[]"),
    ({"type": "array", "items": {"type": ["string", "integer"]}}, "(string | number)[]"),
    ({"type": "array"}, "unknown[]"),
    ({"type": "object"}, "Record<string, unknown>"),
    (obj(), "{}"),
    ({"type": "object", "additionalProperties": False}, "{}"),
    ({"enum": ["open", "closed", None]}, '"open" | "closed" | null'),
    ({"type": "boolean", "enum": [True]}, "true"),
    ({"enum": [True, False, 1.0, 0.5, -3]}, "boolean | 1 | 0.5 | -3"),
    ({"const": {"a": [1, "x"], "b": {}}}, '{ a: [1, "x"]; b: {} }'),
    ({"anyOf": [TEXT, {"type": "null"}], "default": None}, "string | null"),
    ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}, '"a" | "b"'),
    ({"allOf": [obj(a=TEXT), obj(b=COUNT)]}, "{ a: string } & { b: number }"),
    ({"anyOf": [{"type": "null"}, USER, TEXT]}, "{ id: string; email?: string | null } | string | null"),
    ({"type": "string", "nullable": True}, "string | null"),
    ({"type": "string", "format": "date-time"}, "string"),
    # tuples
    ({"type": "array", "prefixItems": [TEXT, COUNT], "minItems": 2, "maxItems": 2}, "[string, number]"),
    ({"type": "array", "prefixItems": [TEXT, COUNT], "items": False, "minItems": 1}, "[string, number?]"),
    ({"type": "array", "prefixItems": [TEXT]}, "[string?, ...unknown[]]"),
    ({"items": [{"type": ["string", "null"]}], "additionalItems": COUNT}, "[(string | null)?, ...number[]]"),
    ({"type": "array", "items": False}, "never[]"),
    # dictionaries
    ({"type": "object", "additionalProperties": COUNT}, "Record<string, number>"),
    ({"type": "object", "patternProperties": {"^x": COUNT}, "additionalProperties": False}, "Record<string, number>"),
    ({"type": "object", "patternProperties": {"^x": COUNT}}, "Record<string, unknown>"),
    ({**USER, "additionalProperties": COUNT}, None),
    ({**obj([], a=TEXT), "additionalProperties": True}, "{ a?: string; [key: string]: unknown }"),
    ({**obj([], a=TEXT), "additionalProperties": COUNT}, "{ a?: string; [key: string]: number | string | undefined }"),
    (
        {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": COUNT},
        '{ [K in "a" | "b"]?: number }',
    ),
    ({"type": "object", "required": ["a"]}, "{ a: unknown; [key: string]: unknown }"),
    # references
    ({"$ref": "#/$defs/U", "$defs": {"U": USER}}, "{ id: string; email?: string | null }"),
    ({"type": "array", "items": {"$ref": "#/definitions/a~1b%20c"}, "definitions": {"a/b c": USER}}, None),
    ({**obj(a={"$ref": "#/$defs/S"}, b={"$ref": "#/$defs/S"}), "$defs": {"S": TEXT}}, "{ a: string; b: string }"),
    ({"$ref": "#/$defs/U", "required": ["email"], "$defs": {"U": USER}}, None),
    (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **obj(a={"$ref": "#/$defs/S", "type": "null"}),
            "$defs": {"S": TEXT},
        },
        "{ a: string }",
    ),
    (obj(a={"$ref": "#/properties/b"}, b={"type": "array", "items": {"$ref": "#/properties/c"}}, c=USER), None),
    (obj(a={"$ref": "https://example.com/s.json"}), "{ a: unknown }"),
    (
        obj(a={"$ref": "other.json#/a"}, b={"$ref": "#anchor"}, c={"$ref": "#/$defs/no"}, d={"$ref": 7}),
        "{ a: unknown; b: unknown; c: unknown; d: unknown }",
    ),
    (
        obj(a={"$id": "https://example.com/a", "type": "array", "items": {"$ref": "#/properties/b"}}, b=TEXT),
        "{ a: unknown[]; b: string }",
    ),
    (TREE, None),
    (LOOP, "unknown"),
    ({"$ref": "#/$defs/D", "$defs": {"D": {"type": "object", "additionalProperties": {"$ref": "#/$defs/D"}}}}, None),
    ({"$ref": "#"}, "unknown"),
    # combinations
    (
        {**obj([], a=TEXT, b=COUNT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "({ a: unknown } | { b: unknown }) & { a?: string; b?: number }",
    ),
    ({"type": "string", "anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]}, "string"),
    ({"type": "object", "oneOf": [obj(a=TEXT), obj(b=TEXT)]}, "{ a: string } | { b: string }"),
    ({"properties": {"a": TEXT}, "anyOf": [TEXT, {"type": "object"}]}, "string | Record<string, unknown>"),
    ({"if": obj(a=TEXT), "then": obj(b=TEXT), "else": False, "type": "object"}, "Record<string, unknown>"),
    ({"not": TEXT}, "unknown"),
    (obj([], a=False, b=True, c={}), "{ a?: never; b?: unknown; c?: unknown }"),
    ({"anyOf": [{"not": {}}, TEXT]}, "unknown"),
    ({"anyOf": [False, TEXT]}, "string"),
    (CROSS, None),
    # what says nothing, or nothing that could be meant
    (True, "unknown"),
    ({}, "unknown"),
    ({"minimum": 3}, "unknown"),
    ({"type": "any"}, "unknown"),
    ({"type": "STRING"}, "unknown"),
    ({"type": ["string", "file"]}, "unknown"),
    ({"type": ["string", {"type": "object"}]}, "unknown"),
    ({"type": 7}, "unknown"),
    ({"type": [], "enum": []}, "unknown"),
    ({"type": "integer", "enum": ["1", "2"]}, "unknown"),
    ({"type": "number", "enum": [1, 2]}, "1 | 2"),
    ({"enum": "open"}, "unknown"),
    ({"enum": [float("nan"), float("inf"), 10**400]}, "number"),
    ({"type": "object", "properties": [TEXT], "required": "all"}, "Record<string, unknown>"),
    (obj(a=7, b=None, c=[TEXT]), "{ a: unknown; b: unknown; c: unknown }"),
    ({"type": "object", "properties": {"a": {**TEXT, "required": True}}}, "{ a?: string }"),
    ({"type": "array", "items": "string", "minItems": -1, "maxItems": "many"}, "unknown[]"),
    ({"anyOf": TEXT, "allOf": 7, "oneOf": [7], "$ref": None}, "unknown"),
    ({"properties": {"a": TEXT}}, "{ a?: string }"),
    ({"items": TEXT}, "string[]"),
    (obj(toString=TEXT), "{ toString: string }"),
    (obj([], toString=TEXT), "{ toString?: unknown }"),
    # names and texts
    (obj(**{"user-id": TEXT, "1st": TEXT, "class": TEXT, "": TEXT, "a\nb": TEXT}), None),
    (obj(**{"__proto__": TEXT, 'say "hi"': TEXT, "\ud800": TEXT, "é": TEXT}), None),
    ({"enum": ['say "hi"', "back\\slash", "two\nlines", "*/", "\u2028", "\ud800"]}, None),
    # too much
    (
        {"enum": LIST},
        'string /* 300 values, "value 0", "value 1", "value 2", "value 3", "value 4", "value 5", … */',
    ),
    ({"enum": [*LIST, 7, None]}, None),
    ({"type": "array", "prefixItems": [TEXT] * 500}, "unknown /* left out */[]"),
    ({"anyOf": [obj(**{f"p{number}": TEXT}) for number in range(200)]}, "unknown /* one of 200 */"),
    (nested(3_000), None),
    (WIDE, None),
    (ROUND, None),
    (CHAIN, None),
    (DENSE, None),
    (CROSSED, None),
]
"""Schemas with the type that each becomes; None where only the compiler is asked."""
