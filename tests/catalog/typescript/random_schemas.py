"""JSON Schemas as hypothesis makes them, and values that are valid under them: `jsonschema` is the judge.

Not made: an alternative that requires a property of which nothing else speaks beside `additionalProperties` with a
schema. The declared type is right; the compiler only fails to read the literal by it.
"""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
from hypothesis import strategies as st

Schema = Any

NAMES = st.sampled_from(
    ["a", "b", "kind", "user-id", "1st", "x y", "class", "toString", "ключ", 'quo"te', "back\\slash"]
)
WORDS = st.sampled_from(["", "red", "green", "bl\nue", 'quo"te', "*/", "`${x}`", "Ω", "1", "true"])
SCALARS = st.one_of(WORDS, st.integers(-3, 10**17), st.booleans(), st.none(), st.floats(-1e3, 1e30, allow_nan=False))
TEXTS = st.sampled_from(
    ["Short", "Ends */ here", "@ts-expect-error", "two\nlines\u2028three", "x" * 500, "\u202eright"]
)
TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")

PLAIN = st.one_of(
    st.just({"type": "string", "minLength": 0}),
    st.just({"type": "string", "format": "date-time", "pattern": "."}),
    st.just({"type": "integer", "minimum": 0, "exclusiveMaximum": 10}),
    st.just({"type": "number", "maximum": 1.5, "default": 0.5}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True).map(lambda kinds: {"type": kinds}),
    st.lists(SCALARS, min_size=1, max_size=4).map(lambda values: {"enum": values}),
    st.lists(WORDS, min_size=1, max_size=3).map(lambda values: {"type": "string", "enum": values}),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2)).map(
        lambda value: {"const": value}
    ),
    st.sampled_from([True, {}, {"description": "anything"}, {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]),
    st.sampled_from([{"$ref": "#/$defs/none"}, {"$ref": "#/$defs/A", "description": "beside it"}]),
    st.just({"type": "string", "enum": [f"value {number}" for number in range(300)]}),
)


def objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    """Schemas of objects whose properties are `inner`."""

    @st.composite
    def made(draw: st.DrawFn) -> Schema:
        schema: Schema = {"type": "object"}
        if draw(st.integers(0, 5)):
            schema["properties"] = draw(st.dictionaries(NAMES, inner, max_size=4))
        names = [*schema.get("properties", {}), "undeclared"]
        if draw(st.booleans()):
            schema["required"] = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
        if not draw(st.integers(0, 2)):
            schema["additionalProperties"] = draw(st.one_of(st.booleans(), inner))
        if not draw(st.integers(0, 6)):
            schema["patternProperties"] = {"^x": draw(inner)}
        if not draw(st.integers(0, 8)):
            schema["propertyNames"] = {"enum": ["a", "b", "x1"]}
        return schema

    return made()


def lists(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    """Schemas of arrays whose items are `inner`."""
    many = st.builds(
        lambda items, least: {"type": "array", "items": items, "minItems": least}, inner, st.integers(0, 2)
    )

    @st.composite
    def row(draw: st.DrawFn) -> Schema:
        schema: Schema = {"type": "array", "prefixItems": draw(st.lists(inner, min_size=1, max_size=3))}
        for keyword, values in (("minItems", st.integers(0, 4)), ("maxItems", st.integers(0, 4))):
            if draw(st.booleans()):
                schema[keyword] = draw(values)
        if draw(st.booleans()):
            schema["items"] = draw(st.one_of(st.just(False), inner))
        return schema

    return many | row() | st.just({"type": "array"})


def combined(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    """Schemas that combine `inner`."""
    several = st.lists(inner, min_size=1, max_size=3)

    @st.composite
    def beside(draw: st.DrawFn) -> Schema:
        base = draw(objects(inner))
        if names := [*base.get("properties", {})]:
            base[draw(st.sampled_from(["anyOf", "oneOf"]))] = [{"required": [name]} for name in names[:3]]
        return base

    return st.one_of(
        several.map(lambda schemas: {"anyOf": schemas}),
        several.map(lambda schemas: {"oneOf": schemas}),
        several.map(lambda schemas: {"allOf": schemas}),
        inner.map(lambda schema: {"anyOf": [schema, {"type": "null"}], "default": None}),
        inner.map(lambda schema: {"type": ["object", "string", "null"], "anyOf": [schema, {"type": "string"}]}),
        st.builds(lambda one, other: {"if": one, "then": other, "not": {"const": 7}}, inner, inner),
        beside(),
    )


def deeper(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    """Schemas made of `inner`, some with a description."""
    made = st.one_of(objects(inner), objects(inner), lists(inner), combined(inner))
    return st.builds(lambda schema, text: {**schema, "description": text} if text else schema, made, st.none() | TEXTS)


SCHEMAS = st.recursive(PLAIN, deeper, max_leaves=12)


KEYWORDS = (
    "type", "enum", "const", "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
    "items", "prefixItems", "additionalItems", "minItems", "maxItems", "anyOf", "oneOf", "allOf", "not", "if", "$ref",
    "$defs", "definitions", "$id", "$schema", "nullable", "default", "format", "description", "title", "minimum",
    "exclusiveMinimum", "maxLength", "pattern", "multipleOf", "deprecated", "uniqueItems",
)  # fmt: skip
RUBBISH = st.recursive(
    SCALARS | st.sampled_from([*TYPES, "#", "#/", "#/properties", "#/properties/type", "#/%", "~", "draft-07"]) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=5),
    max_leaves=30,
)
"""What has the words of a schema without being one."""


@st.composite
def documents(draw: st.DrawFn) -> Schema:
    """A schema with the definitions that its references point to: one is used, one refers to itself."""
    schema = draw(SCHEMAS)
    itself = {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/B"}}}
    definitions = {"A": draw(SCHEMAS.filter(lambda found: "#/$defs/A" not in json.dumps(found))), "B": itself}
    if isinstance(schema, bool):
        schema = {}
    return {**schema, "$defs": definitions}


def closed(schema: Schema, *, part: bool = False) -> Schema:
    """A schema whose objects have no properties but those it speaks of.

    The compiler refuses a literal that has others, and an object that shares no property at all with a type; although
    it may be of that type, as it may be valid under the schema.
    """
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        keyword: value
        if keyword in ("const", "enum", "default", "required", "type")
        else {name: closed(each) for name, each in value.items()}
        if keyword in ("properties", "patternProperties", "$defs")
        else [closed(each, part=True) for each in value]
        if keyword == "allOf"
        else closed(value)
        for keyword, value in schema.items()
    }
    if "properties" in made and not part:
        required = dict.fromkeys(made.get("required", []), True)
        made = {"additionalProperties": False, **made, "properties": {**required, **made["properties"]}}
    return made


def values_of(document: Schema, seed: int, wanted: int = 4) -> list[Any]:
    """Some values that are valid under `document`, and under what is `closed` of it."""
    dice, shut = random.Random(seed), closed(document)
    judge = jsonschema.Draft202012Validator({"allOf": [document, shut], "$defs": shut["$defs"]})
    found: dict[str, Any] = {}
    for _ in range(12):
        value = _value(document, document, dice, 5)
        try:
            fits = judge.is_valid(value)
        except Exception:  # a reference into nowhere: nobody can say what is valid
            return []
        if fits:
            found[json.dumps(value)] = value
    return list(found.values())[:wanted]


def _value(schema: Schema, root: Schema, dice: random.Random, depth: int) -> Any:
    if not isinstance(schema, dict) or depth < 0:
        return dice.choice(["text", 1, None, True])
    reference = schema.get("$ref")
    if reference is not None:
        target = root["$defs"].get(reference.rpartition("/")[2], {})
        return _value(target, root, dice, depth - 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema and "properties" not in schema:
            return _value(dice.choice(schema[keyword]), root, dice, depth - 1)
    if "allOf" in schema:
        parts = [_value(part, root, dice, depth - 1) for part in schema["allOf"]]
        if all(isinstance(part, dict) for part in parts):
            return {name: item for part in parts for name, item in part.items()}
        return dice.choice(parts)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return dice.choice(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = dice.choice(kind)
    match kind:
        case "object":
            return _object(schema, root, dice, depth)
        case "array":
            return _list(schema, root, dice, depth)
        case "string":
            return dice.choice(["2025-01-31T09:00:00Z", "text", "Ω */"])
        case "integer":
            return dice.choice([0, 3, 9])
        case "number":
            return dice.choice([-2.5, 0, 1])
        case "boolean":
            return dice.choice([True, False])
        case "null":
            return None
        case _:
            return dice.choice(["text", 1, None, True, [], {}])


def _object(schema: Schema, root: Schema, dice: random.Random, depth: int) -> Any:
    known = schema.get("properties", {})
    required = schema.get("required", [])
    made: dict[str, Any] = {}
    for name, inner in known.items():
        if name in required or (depth > 0 and dice.random() < 0.6):
            made[name] = _value(inner, root, dice, depth - 1)
    others = schema.get("additionalProperties", True)
    for name in required:
        if name not in known:
            made[name] = _value(others, root, dice, depth - 1)
    for pattern, inner in schema.get("patternProperties", {}).items():
        if dice.random() < 0.5:
            made[f"{pattern[1:]}1"] = _value(inner, root, dice, depth - 1)
    if "additionalProperties" in schema and others is not False and dice.random() < 0.6:
        made[dice.choice(["a", "other", "b"])] = _value(others, root, dice, depth - 1)
    return made


def _list(schema: Schema, root: Schema, dice: random.Random, depth: int) -> Any:
    first, items = schema.get("prefixItems", []), schema.get("items", True)
    least = schema.get("minItems", 0)
    size = dice.randint(least, max(least, schema.get("maxItems", len(first) + 2)))
    if items is False:
        size = min(size, len(first))
    return [_value(first[place] if place < len(first) else items, root, dice, depth - 1) for place in range(size)]
