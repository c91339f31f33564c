"""One caller's tools: read at most once, at the first question, and only as far as asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, cast

import pytest
from fastmcp import FastMCP
from fastmcp.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import BaseModel

from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.cache import CatalogCache
from codecall.catalog.entries import tool_metadata
from codecall.catalog.view import CatalogView
from codecall.catalog.visibility import VisibilityPolicy
from codecall.concurrency import CHUNK
from codecall.options import PluginOptions


class Row(BaseModel):
    id: int


class Listed:
    """A server, and a count of how often its tools were listed."""

    def __init__(self, **options: Any) -> None:
        self.server: FastMCPServer = cast("FastMCPServer", FastMCP("main"))
        self.reads = 0
        reach = VisibilityPolicy(PluginOptions.build(**options))
        self.view = CatalogView(self.server, self._read, reach, CatalogCache(reach))

    async def _read(self) -> Sequence[Tool]:
        self.reads += 1
        return await self.server.list_tools()


async def test_nothing_is_read_before_the_first_question_and_nothing_twice() -> None:
    catalog = Listed()
    catalog.server.tool(lambda: 1, name="one")
    view = catalog.view
    assert catalog.reads == 0
    assert (await view.find("one")) is not None
    assert await view.find("two") is None
    assert await view.exists("one")
    assert len(await view.entries()) == 1
    assert (await view.describe("one") or {})["name"] == "one"
    assert await view.suggest("onne") == ["one"]
    assert catalog.reads == 1


async def test_concurrent_first_questions_share_one_read() -> None:
    catalog = Listed()
    for number in range(20):
        catalog.server.tool(lambda: 1, name=f"tool_{number}")
    found = await asyncio.gather(*(catalog.view.find(f"tool_{number}") for number in range(20)))
    assert all(found)
    assert catalog.reads == 1


async def test_a_cancelled_first_question_leaves_the_next_one_to_read() -> None:
    catalog = Listed()
    catalog.server.tool(lambda: 1, name="one")
    first = asyncio.create_task(catalog.view.find("one"))
    await asyncio.sleep(0)
    first.cancel()
    assert await catalog.view.find("one") is not None


async def test_entries_are_made_only_for_the_tools_asked_for() -> None:
    asked: list[str] = []

    def include(tool: Tool) -> bool:
        asked.append(tool.name)
        return True

    catalog = Listed(include_tools=include)
    for number in range(50):
        catalog.server.tool(lambda: 1, name=f"tool_{number}")
    first = await catalog.view.find("tool_7")
    assert first is await catalog.view.find("tool_7")
    assert asked == ["tool_7"]


async def test_exists_tells_what_is_visible_though_out_of_reach() -> None:
    catalog = Listed(include_tools=lambda tool: tool.name != "kept")
    catalog.server.tool(lambda: 1, name="kept")
    assert await catalog.view.find("kept") is None
    assert await catalog.view.describe("kept") is None
    assert await catalog.view.exists("kept")
    assert not await catalog.view.exists("absent")
    assert await catalog.view.suggest("kep") == []


async def test_all_of_an_entry() -> None:
    catalog = Listed()

    @catalog.server.tool(
        name="rows",
        title="All rows",
        version="2",
        tags={"own"},
        annotations=ToolAnnotations(read_only_hint=True, title="x"),
        meta=tool_metadata(app_id="data", tags=["more"], examples=[{"description": "d", "code": "return 1"}]),
    )
    def rows(limit: Annotated[int, "how many"] = 3) -> Row:
        """Give rows."""
        return Row(id=limit)

    entry = await catalog.view.find("rows")
    assert entry is not None
    assert (entry.name, entry.app_id, entry.description, entry.title) == ("rows", "data", "Give rows.", "All rows")
    assert entry.version == "2"
    assert entry.tags == {"own", "more"}
    assert entry.annotations == {"readOnlyHint": True}
    assert [example.code for example in entry.examples] == ["return 1"]
    assert entry.input_schema["properties"] == {"limit": {"default": 3, "type": "integer", "description": "how many"}}
    assert entry.output_schema is not None
    assert entry.output_schema["properties"] == {"id": {"type": "integer"}}


@pytest.mark.parametrize("kind", [int, list[str], str | None])
async def test_the_output_schema_is_that_of_the_value_without_the_wrapper(kind: Any) -> None:
    async def tool() -> Any: ...

    tool.__annotations__["return"] = kind
    catalog = Listed()
    catalog.server.tool(tool)
    entry = await catalog.view.find("tool")
    assert entry is not None
    assert entry.output_schema in (
        {"type": "integer"},
        {"type": "array", "items": {"type": "string"}},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    )


async def test_the_definitions_a_wrapped_schema_refers_to_stay() -> None:
    catalog = Listed()
    schema = {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
        "x-fastmcp-wrap-result": True,
        "$defs": {"Row": {"type": "object"}},
    }
    made = Tool.from_function(lambda: [], name="rows")
    catalog.server.add_tool(made.model_copy(update={"output_schema": schema}))
    reach = VisibilityPolicy(PluginOptions.build())
    view = CatalogView(catalog.server, catalog.server.local_provider.list_tools, reach, CatalogCache(reach))
    entry = await view.find("rows")
    assert entry is not None
    assert entry.output_schema == {
        "type": "array",
        "items": {"$ref": "#/$defs/Row"},
        "$defs": {"Row": {"type": "object"}},
    }


async def test_a_reserved_tool_of_a_mounted_server_stays_reserved() -> None:
    child = FastMCP("ops")
    child.tool(lambda: 1, name="system:reboot")
    child.tool(lambda: 1, name="uptime")
    catalog = Listed()
    catalog.server.mount(cast("FastMCPServer", child), namespace="ops")
    assert [entry.name for entry in await catalog.view.entries()] == ["ops_uptime"]


async def test_a_large_catalog_leaves_the_event_loop_its_turns() -> None:
    catalog = Listed()
    base = Tool.from_function(lambda: 1, name="tool")
    tools = [base.model_copy(update={"name": f"tool_{number}"}) for number in range(CHUNK * 5)]

    async def read() -> Sequence[Tool]:
        return tools

    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    reach = VisibilityPolicy(PluginOptions.build())
    view = CatalogView(catalog.server, read, reach, CatalogCache(reach))
    counting = asyncio.create_task(count())
    assert len(await view.entries()) == len(tools)
    counting.cancel()
    assert turns >= 4
    assert (await view.suggest("tol_7"))[0] == "tool_7"


@pytest.mark.parametrize(
    "change",
    [
        {"description": "another"},
        {"tags": {"another"}},
        {"parameters": {"type": "object", "properties": {"n": {"default": True}}}},
        {"output_schema": {"type": "object", "properties": {"n": {"default": True}}}},
    ],
)
async def test_a_changed_tool_gives_a_fresh_entry(change: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"n": {"default": 1}}}
    tool = Tool.from_function(lambda: {}, name="one", description="one").model_copy(
        update={"parameters": schema, "output_schema": schema}
    )
    shown = tool
    reach = VisibilityPolicy(PluginOptions.build())

    async def read() -> list[Tool]:
        return [shown]

    server = cast("FastMCPServer", FastMCP("main"))
    catalog = CatalogCache(reach)
    kept = await CatalogView(server, read, reach, catalog).entries()
    shown = tool.model_copy(update=change)
    (entry,) = await CatalogView(server, read, reach, catalog).entries()

    assert entry is not kept[0]
    # 1 == True, so the schemas are compared as they are written.
    for name, value in change.items():
        assert repr(getattr(entry, {"parameters": "input_schema"}.get(name, name))) in (
            repr(value),
            "frozenset({'another'})",
        )
