"""Rules that allow: they do where every value that the tool may get of an argument meets the condition."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from fastmcp import Client, FastMCP
from pydantic import BaseModel, Field

from codecall import CodeCallPlugin
from codecall.approvals.options import ApprovalRule
from codecall.approvals.rules import RuleSet
from codecall.catalog.entries import CatalogEntry

pytestmark = pytest.mark.anyio


class Label(BaseModel):
    """A model as a parameter."""

    copies: int = 1
    country: str = "DE"


class Circle(BaseModel):
    """One of two models that a text tells apart."""

    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    """The other."""

    kind: Literal["square"]
    side: float
    label: str = ""


class Tree(BaseModel):
    """A model within itself."""

    size: int
    below: list[Tree] = []


FEW: dict[str, Any] = {"type": "integer", "maximum": 2}
NORDIC: dict[str, Any] = {"type": "string", "enum": ["NO", "SE"]}
TEXT: dict[str, Any] = {"type": "string"}
LIGHT: dict[str, Any] = {"type": "number", "maximum": 5}
LABEL: dict[str, Any] = {"type": "object", "properties": {"copies": FEW, "country": NORDIC}, "required": ["copies"]}
SMALL: dict[str, Any] = {"properties": {"radius": LIGHT, "side": LIGHT}, "required": ["kind"]}

ALLOWED: list[tuple[Any, dict[str, Any], list[Any], list[Any]]] = [
    (int, FEW, [0, 1, 2, 1.0], [3, "1", True, "3"]),
    (int, {"type": "integer", "enum": [1, 2]}, [1, 2], [0, 3]),
    (int, {"const": 1}, [1], [2, True]),
    (Literal[0, 1, 5], {"enum": [0, 1]}, [0, 1], [5, True]),
    (float, LIGHT, [0, 1, 1.0, 0.5, 2], [9, "1", True]),
    (Decimal, LIGHT, [0, 1, 1.0, 0.5, 2], [9, "1"]),
    (int | None, {"type": ["integer", "null"], "maximum": 2}, [0, 1, None], [3]),
    (int | str, {"type": ["integer", "string"], "maximum": 2}, [0, 1, "NO", "on", "[1]", '{"a": 1}'], [3, "3"]),
    (bool, {"type": "boolean", "const": False}, [False], [True, 0, "no", "yes", 1]),
    (bool | None, {"type": ["boolean", "null"]}, [False, True, None], [1]),
    (str, NORDIC, ["NO", "SE"], ["DE", "no"]),
    (str, {"type": "string", "pattern": "^[A-Z]{2}$"}, ["NO", "SE"], ["12"]),
    (str, TEXT, ["P1", "12345", "1", "on", "null", "true", " 1 ", "[1]", '{"a": 1}', '"x"', "1e5"], []),
    (str | None, {"type": ["string", "null"]}, ["12345", "NO", None, "null", "[1]"], []),
    (Literal["NO", "SE", "1"], TEXT, ["NO", "SE", "1"], []),
    (list[str], {"type": "array", "items": TEXT}, [["1", "NO", "12345"], []], ['["NO"]']),
    (list[int], {"type": "array", "items": FEW}, [[0, 1, 2], [1] * 50], [[0, 3], "[1]"]),
    (list[int] | list[str], {"type": "array", "items": NORDIC}, [["NO"], ["SE", "NO"]], [["DE"], [1]]),
    (dict[str, str], {"type": "object", "additionalProperties": TEXT}, [{"a": "1", "b": "NO"}], ['{"a": "1"}']),
    (Label, LABEL, [{"copies": 1, "country": "NO"}, {"copies": 0, "country": "SE"}], [{"copies": 3}, {"copies": 1}]),
    (Label | None, {"anyOf": [{"type": "null"}, LABEL]}, [{"copies": 1, "country": "NO"}, None], [{"copies": 3}]),
    (Circle | Square, SMALL, [{"kind": "circle", "radius": 1}, {"kind": "square", "side": 1}],
     [{"kind": "circle", "radius": 9}]),
    (Annotated[Circle | Square, Field(discriminator="kind")], SMALL, [{"kind": "circle", "radius": 0}],
     [{"kind": "square", "side": 9}]),
]  # fmt: skip
"""The type of a parameter, a condition on it, values that meet it in every way, and others."""


@pytest.mark.parametrize(("kind", "about", "met", "others"), ALLOWED, ids=str)
async def test_a_rule_allows_what_meets_it_however_the_tool_reads_it(
    kind: Any, about: dict[str, Any], met: list[Any], others: list[Any]
) -> None:
    server = FastMCP[Any]("labels")

    def print_label(value: Any) -> str:
        return "printed"

    print_label.__annotations__["value"] = kind
    server.tool(print_label)
    condition = {"properties": {"value": about}, "required": ["value"]}
    plugin = CodeCallPlugin.init(
        approvals=[{"action": "allow", "input": condition}, {"action": "deny"}], pool={"min_workers": 0}
    )
    async with Client(plugin.install(server)) as client:

        async def invoke(value: object) -> str:
            call = {"tool": "print_label", "input": {"value": value}}
            found: Any = (await client.call_tool("codecall:invoke", call)).structured_content
            return found["status"] if found["status"] == "ok" else found["error"]["code"]

        assert {json.dumps(value): await invoke(value) for value in met} == {json.dumps(value): "ok" for value in met}
        assert {json.dumps(value): await invoke(value) for value in others} == {
            json.dumps(value): "ACCESS_DENIED" for value in others
        }


async def action(schema: dict[str, Any], about: dict[str, Any], does: str, value: object, **more: object) -> str:
    condition = {"properties": {"value": about}, "required": ["value"]}
    rules = [ApprovalRule.read({"action": does, "input": condition}, where="")]
    if does == "allow":
        rules.append(ApprovalRule.read({"action": "ask"}, where=""))
    entry = CatalogEntry("tool", "app", "", {"type": "object", "properties": {"value": schema}, **more})
    return (await RuleSet(rules).ruling(entry, {"value": value})).action


DEFINED = {"$defs": {"Few": {"type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Few"},
        {"$ref": "#/$defs/Few", "description": "how many"},
        {"allOf": [{"$ref": "#/$defs/Few"}, {"minimum": 0}]},
        {"allOf": [{"type": "number"}, {"type": "integer"}]},
        {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 2}]},
        {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        {"type": ["integer", "null"], "oneOf": [{"type": "integer"}, {"type": "null"}]},
        {"enum": [0, 1, 2]},
        {"oneOf": [{"const": 0}, {"const": 1}]},
    ],
)
async def test_what_a_schema_says_in_its_parts_counts_too(schema: dict[str, Any]) -> None:
    assert await action(schema, FEW, "allow", 1, **DEFINED) == "allow"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "any"},
        {"description": "how many"},
        {"$ref": "#/$defs/Lost"},
        {"$ref": "#/$defs/Loop"},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#/$defs/Lost", "type": "integer"},
        {"type": "integer", "enum": [False, True]},
        {"$dynamicRef": "#few", "type": "integer"},
        {"anyOf": [{"type": "integer"}, {}]},
        {"anyOf": [{"type": "integer"}, True]},
        {"type": "integer", "if": {"minimum": 1}, "then": {"type": "boolean"}},
        {"allOf": [{"type": "integer"}, {"if": {}, "then": {"type": "boolean"}}]},
        {"allOf": [{"type": "integer"}, {"type": "boolean"}]},
        {"allOf": [{"type": "boolean"}, {"type": "integer"}]},
        {"$ref": "#/$defs/Few", "type": "boolean"},
        {"type": "boolean", "anyOf": [{"type": "integer"}]},
        {"not": {"type": "string"}},
    ],
)
async def test_where_it_cannot_be_said_every_reading_counts(schema: dict[str, Any]) -> None:
    assert await action(schema, FEW, "allow", 1, **DEFINED) == "ask"
    assert await action(schema, {"const": True}, "deny", 1, **DEFINED) == "deny"


async def test_so_does_what_a_text_holds() -> None:
    for also in (
        {"allOf": [{"type": "null"}]},
        {"then": {"type": "integer"}},
        {"enum": [True, False]},
        {"$ref": "#/lost"},
    ):
        assert await action({"type": "string", **also}, {"contains": {"const": 1}}, "deny", "[1]") == "deny"


@pytest.mark.parametrize(
    "more",
    [
        {"patternProperties": {"^v": {"type": "boolean"}}, "additionalProperties": {"type": "integer"}},
        {
            "dependentSchemas": {"n": {"properties": {"n": {"type": "boolean"}}}},
            "properties": {"n": {"type": "integer"}},
        },
        {"properties": {"n": {"type": "integer"}}, "allOf": [{"properties": {"n": {"type": "boolean"}}}]},
        {"properties": {"n": {"type": "integer"}}, "$dynamicRef": "#more"},
        {"properties": {"n": {"type": "boolean"}}, "allOf": [{"properties": {"n": {"type": "integer"}}}]},
        {"additionalProperties": {"type": "integer"}, "allOf": [{"additionalProperties": {"type": "boolean"}}]},
        {"additionalProperties": {"type": "boolean"}, "allOf": [{"additionalProperties": {"type": "integer"}}]},
        {"anyOf": [{"properties": {"n": {"type": "integer"}}}, {"properties": {"n": {"type": "boolean"}}}]},
    ],
)
async def test_so_they_do_within_an_object(more: dict[str, Any]) -> None:
    for yes in (1, "yes"):
        assert await action(more, {"properties": {"n": {"const": True}}}, "deny", {"n": yes}) == "deny"
    assert await action(more, {"properties": {"n": FEW}}, "allow", {"n": 1}) == "ask"


async def test_a_text_of_a_format_that_says_number_is_one_too() -> None:
    large = {"type": "number", "minimum": 100}
    assert await action({"type": "string", "format": "int64"}, large, "deny", "500") == "deny"
    assert await action({"type": "string", "format": "phone"}, TEXT, "allow", "+4712345678") == "allow"


@pytest.mark.parametrize("schema", [{"type": ["string", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}])
async def test_a_text_of_null_is_null_where_that_may_be(schema: dict[str, Any]) -> None:
    # Python's SDK reads JSON in texts, but for those of a parameter that is a text and nothing else.
    assert await action(schema, {"type": "null"}, "deny", " null ") == "deny"
    assert await action({"type": "string"}, {"type": "null"}, "deny", "null") == "allow"


async def test_a_value_that_another_type_than_the_first_may_hold_is_read_as_that() -> None:
    union = {"anyOf": [{"type": "array", "items": {"type": "boolean"}}, {"type": "array", "items": {"type": "string"}}]}
    assert await action(union, {"type": "array", "items": TEXT}, "allow", ["x"]) == "allow"
    assert await action(union, {"contains": {"const": True}}, "deny", ["yes"]) == "deny"
    assert await action(union, {"contains": {"const": "x"}}, "deny", [["x"]]) == "deny"  # of none of them
    dated = {"anyOf": [{"items": {"type": "string", "format": "date"}}, {"items": {"type": "integer"}}]}
    assert await action(dated, {"contains": {"const": "2027-01-01"}}, "deny", [1798761600]) == "deny"


@pytest.mark.parametrize(("kind", "does"), [("circle", "allow"), ("square", "ask"), (" Square", "ask"), ("x", "ask")])
async def test_of_a_union_only_models_of_another_constant_do_not_count(kind: str, does: str) -> None:
    models = [
        {"type": "object", "properties": {"kind": {"const": name}, "loud": {"type": loud}}}
        for name, loud in (("circle", "string"), ("square", "boolean"))
    ]
    loud = {"properties": {"loud": TEXT}}
    assert await action({"anyOf": models}, loud, "allow", {"kind": kind, "loud": "yes"}) == does


async def test_a_default_is_read_as_it_is_too() -> None:
    schema = {"type": "object", "properties": {"loud": {"type": "boolean", "default": 1}, "n": {"type": "integer"}}}
    for loud in (1, True):
        rule = {"properties": {"loud": {"const": loud}, "n": {"const": 5}}, "required": ["loud", "n"]}
        assert await action(schema, rule, "deny", {"n": "5"}) == "deny"


async def test_a_model_within_itself_is_read_as_far_as_it_goes() -> None:
    schema = Tree.model_json_schema()
    sizes = {"type": "object", "properties": {"size": FEW, "below": {"items": {"properties": {"size": FEW}}}}}
    tree = {"size": 1, "below": [{"size": 0, "below": [{"size": 1}]}]}
    assert await action({"$ref": "#/$defs/Tree"}, sizes, "allow", tree, **schema) == "allow"
    tree["below"] = [{"size": 3}]
    assert await action({"$ref": "#/$defs/Tree"}, sizes, "allow", tree, **schema) == "ask"
