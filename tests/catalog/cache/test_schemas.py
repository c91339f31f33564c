"""Which middleware a listing may be read beneath: only what certainly leaves listings alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.server.middleware.timing import TimingMiddleware
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.json_schema import dereference_refs
from pydantic import BaseModel

from codecall import CodeCallPlugin, RateLimitPlugin
from codecall.catalog.cache.fastmcp_internals import can_bypass, dereferences_schemas
from codecall.catalog.cache.schemas import (
    MAX_CACHED_BYTES,
    MAX_SCHEMA_DEPTH,
    presentable_schema,
)


class Listed(Tool):
    """A tool with a schema of the test's choice."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(structured_content={"done": True})


class OnCall(Middleware):
    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


class OnList(Middleware):
    """Hides every tool whose name begins with `hidden`."""

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        return [tool for tool in await call_next(context) if not tool.name.startswith("hidden")]


class OnMessage(Middleware):
    async def on_message(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


class OnRequest(OnCall):
    async def on_request(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


class Whole(Middleware):
    async def __call__(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


class Derived(DereferenceRefsMiddleware):
    """Not the class that is known, whatever it inherits."""


async def patched(context: Any, call_next: Any) -> Any:
    return []


def with_own_attribute() -> Middleware:
    item = OnCall()
    item.on_list_tools = patched  # type: ignore[method-assign]
    return item


def patched_default() -> Middleware:
    item = DereferenceRefsMiddleware()
    item.on_list_tools = patched  # type: ignore[method-assign]
    return item


@pytest.mark.parametrize(
    "item",
    [OnCall(), DereferenceRefsMiddleware(), RateLimitPlugin.init(rules=[{"tool": "x", "limit": 1, "window": 1}])],
)
def test_what_leaves_listings_alone(item: Middleware):
    assert can_bypass([DereferenceRefsMiddleware(), item])


@pytest.mark.parametrize(
    "item",
    [
        OnList(),
        OnMessage(),
        OnRequest(),
        Whole(),
        Derived(),
        TimingMiddleware(),
        with_own_attribute(),
        patched_default(),
        patched,
    ],
)
def test_what_may_change_a_listing(item: Any):
    assert not can_bypass([DereferenceRefsMiddleware(), item])


def test_schemas_are_inlined_as_the_server_does():
    assert dereferences_schemas([OnCall(), DereferenceRefsMiddleware()])
    assert not dereferences_schemas([OnCall()])
    plain = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert presentable_schema(plain, dereference=True) is plain
    assert presentable_schema(None, dereference=True) is None
    schema = {"$defs": {"A": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/A"}}}
    assert presentable_schema(schema, dereference=False) is schema
    assert presentable_schema(schema, dereference=True) == {"properties": {"a": {"type": "string"}}}


def test_a_schema_that_is_remembered_is_known_by_all_that_is_in_it():
    definition: dict[str, Any] = {"minimum": 1}
    schema = {"$defs": {"A": definition}, "properties": {"b": {"$ref": "#/$defs/A"}, "a": {"$ref": "#/$defs/A"}}}
    first = presentable_schema(schema, dereference=True)
    assert presentable_schema(schema, dereference=True) is first
    for minimum in (True, 1.0, 2, "x" * MAX_CACHED_BYTES, range(3)):
        definition["minimum"] = minimum
        shown = presentable_schema(schema, dereference=True)
        assert shown is not first
        assert repr(shown) == repr(dereference_refs(schema))


def nested(levels: int) -> dict[str, Any]:
    """A schema of so many objects and arrays within each other."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range((levels - 1) // 2):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def levels(value: Any) -> int:
    found, row = 0, [value]
    while row:
        found += 1
        row = [item for each in row for item in each.values() if isinstance(item, dict)]
    return found


@pytest.mark.parametrize("inline", [True, False])
def test_schemas_that_no_answer_could_hold_are_cut(inline: bool):
    fits = nested(MAX_SCHEMA_DEPTH - 1)
    assert presentable_schema(fits, dereference=inline) is fits
    deep = presentable_schema(nested(3_000), dereference=inline)
    assert levels(deep) == MAX_SCHEMA_DEPTH + 1
    assert "too large or nested too deeply" in json.dumps(deep)
    circular: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
    circular["properties"]["parent"] = circular
    assert presentable_schema(circular, dereference=inline) == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "parent": {"$comment": "left out: the schema contains itself here"},
        },
    }
    tangled: list[dict[str, Any]] = [{"properties": {}} for _ in range(12)]
    for one in tangled:
        one["properties"].update({f"p{n}": other for n, other in enumerate(tangled)})
    assert len(json.dumps(presentable_schema(tangled[0], dereference=inline))) < 10_000_000


@pytest.mark.parametrize("inline", [True, False])
async def test_one_odd_schema_does_not_spoil_the_answer_about_the_others(inline: bool):
    server: FastMCP = FastMCP("odd", dereference_schemas=inline)
    circular: dict[str, Any] = {"type": "object", "properties": {}}
    circular["properties"]["self"] = circular
    for name, schema in (("deep", nested(3_000)), ("long", nested(400)), ("round", circular), ("plain", nested(5))):
        server.add_tool(Listed(name=name, description=f"A {name} tool", parameters=schema, output_schema=None))
    CodeCallPlugin.init().install(server)
    names = ["deep", "long", "round", "plain"]
    async with Client(server) as client:
        for form in ("json", "typescript"):
            described = await client.call_tool("codecall:describe", {"toolNames": names, "format": form})
            assert [tool["name"] for tool in (described.structured_content or {})["tools"]] == names
        for detail in ("full", "typescript"):
            arguments = {"query": "tool", "minScore": 0, "detail": detail}
            found = await client.call_tool("codecall:search", arguments)
            assert {tool["name"] for tool in (found.structured_content or {})["tools"]} == set(names)
        script = "return [getTool('deep').name, getTool('round').name, await callTool('long', {})]"
        ran = await client.call_tool("codecall:execute", {"script": script})
        assert (ran.structured_content or {})["result"] == ["deep", "round", {"done": True}]


async def test_a_tool_hidden_by_middleware_is_out_of_reach():
    server: FastMCP = FastMCP("hiding", middleware=[OnList()])
    server.tool(lambda: 1, name="hidden_tool")
    server.tool(lambda: 2, name="shown_tool")
    CodeCallPlugin.init().install(server)
    async with Client(server) as client:
        script = "return await callTool('hidden_tool', {})"
        refused = await client.call_tool("codecall:execute", {"script": script})
        assert (refused.structured_content or {})["error"]["code"] == "TOOL_NOT_FOUND"
        found = await client.call_tool("codecall:describe", {"toolNames": ["hidden_tool", "shown_tool"]})
        assert (found.structured_content or {})["notFound"] == ["hidden_tool"]


class Inner(BaseModel):
    name: str


class Outer(BaseModel):
    inner: list[Inner]


@pytest.mark.parametrize("inline", [True, False])
async def test_described_schemas_look_like_listed_ones(inline: bool):
    server: FastMCP = FastMCP("shapes", dereference_schemas=inline)

    def shape(outer: Outer) -> Outer:
        return outer

    server.tool(shape)
    async with Client(server) as client:
        listed = (await client.list_tools())[0]
    CodeCallPlugin.init().install(server)
    async with Client(server) as client:
        described = await client.call_tool("codecall:describe", {"toolNames": ["shape"]})
        script = "return getTool('shape')"
        seen = await client.call_tool("codecall:execute", {"script": script})
    tool = (described.structured_content or {})["tools"][0]
    assert tool["inputSchema"] == listed.input_schema
    assert tool["outputSchema"] == listed.output_schema
    assert (seen.structured_content or {})["result"]["inputSchema"] == listed.input_schema
