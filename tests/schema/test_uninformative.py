"""Which output schemas leave the form of a value open."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import FastMCP

from codecall.schema.model import is_uninformative


def open_dict() -> dict[str, Any]:
    return {}


def open_list() -> list[dict[str, Any]]:
    return []


def counts() -> dict[str, int]:
    return {}


def names() -> list[str]:
    return []


@pytest.mark.parametrize("function", [open_dict, open_list])
async def test_what_python_functions_leave_open(function: Any) -> None:
    assert is_uninformative(await declared(function))


@pytest.mark.parametrize("function", [counts, names])
async def test_what_they_say(function: Any) -> None:
    assert not is_uninformative(await declared(function))


async def declared(function: Any) -> Any:
    """The output schema that FastMCP makes of a function, without its wrapper for lists."""
    server = FastMCP("server")
    server.tool(function)
    tool = await server.get_tool(function.__name__)
    assert tool is not None
    assert tool.output_schema is not None
    wrapped = tool.output_schema.get("x-fastmcp-wrap-result")
    return tool.output_schema["properties"]["result"] if wrapped else tool.output_schema


@pytest.mark.parametrize(
    ("schema", "open_"),
    [
        (None, True),
        ({}, True),
        ({"type": "object", "properties": {}}, True),
        ({"type": "object", "title": "T", "description": "d", "additionalProperties": {}}, True),
        ({"type": "array"}, True),
        ({"type": "object", "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {}}}, False),
        ({"type": "object", "required": ["a"]}, False),
        ({"type": "array", "items": {"type": "string"}}, False),
        ({"type": "array", "maxItems": 3}, False),
        ({"type": "string"}, False),
        ({"type": ["object", "null"]}, False),
        ({"$ref": "#/$defs/A"}, False),
        ({"anyOf": [{}]}, False),
    ],
)
def test_forms(schema: Any, open_: bool) -> None:
    assert is_uninformative(schema) is open_


def test_lists_of_lists_end() -> None:
    schema: dict[str, Any] = {}
    for _ in range(10_000):
        schema = {"type": "array", "items": schema}
    assert not is_uninformative(schema)
