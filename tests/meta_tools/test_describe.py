"""`codecall:describe` over a real server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp_types import ToolAnnotations

from codecall import tool_metadata
from codecall.meta_tools.definitions import MAX_DEFINITION_BYTES


async def test_all_of_a_tool(shop: Any) -> None:
    answer = await shop.ask("codecall:describe", toolNames=["users_list", "send_mail"])
    assert answer["notFound"] == []
    assert "suggestions" not in answer
    listed, mail = answer["tools"]
    assert (listed["name"], listed["appId"]) == ("users_list", "users")
    assert listed["description"] == "List all users of the shop."
    assert listed["inputSchema"]["properties"]["limit"]["type"] == "integer"
    assert listed["outputSchema"]["type"] == "array"
    assert listed["annotations"] == {"readOnlyHint": True}
    assert mail["appId"] == "shop"
    assert mail["outputSchema"] == {"type": "null"}
    assert mail["annotations"] == {}
    for tool in (listed, mail):
        assert 1 <= len(tool["usageExamples"]) <= 5
        for example in tool["usageExamples"]:
            assert example["description"]
            assert tool["name"] in example["code"]


async def test_a_tool_without_output_schema(shop: Any) -> None:
    shop.server.tool(lambda: 1, name="untyped", output_schema=None)
    (tool,) = (await shop.ask("codecall:describe", toolNames=["untyped"]))["tools"]
    assert tool["outputSchema"] is None


async def test_names_that_do_not_exist_come_with_near_ones(shop: Any) -> None:
    answer = await shop.ask("codecall:describe", toolNames=["user_list", "users_get", "qqqqqqqq"])
    assert [tool["name"] for tool in answer["tools"]] == ["users_get"]
    assert answer["notFound"] == ["user_list", "qqqqqqqq"]
    assert answer["suggestions"]["user_list"][0] == "users_list"
    assert "qqqqqqqq" not in answer["suggestions"]


@pytest.mark.parametrize("name", ["codecall:execute", "codecall_search", " CodeCall:Invoke ", "codecall:anything"])
async def test_meta_tools_are_never_described(shop: Any, name: str) -> None:
    assert await shop.ask("codecall:describe", toolNames=[name]) == {"tools": [], "notFound": [name]}


async def test_the_authors_examples_come_first(shop: Any) -> None:
    own = [{"description": f"own {n}", "code": f"return {n}"} for n in range(7)]
    shop.server.tool(lambda: 1, name="with_examples", meta=tool_metadata(examples=own))
    (tool,) = (await shop.ask("codecall:describe", toolNames=["with_examples"]))["tools"]
    assert tool["usageExamples"] == own[:5]


async def test_all_four_hints_and_nothing_else(shop: Any) -> None:
    shop.server.tool(
        lambda: 1,
        name="hinted",
        annotations=ToolAnnotations(
            title="t", read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
        ),
    )
    (tool,) = (await shop.ask("codecall:describe", toolNames=["hinted"]))["tools"]
    assert tool["annotations"] == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }


async def test_fifty_names_are_taken(shop: Any) -> None:
    answer = await shop.ask("codecall:describe", toolNames=["users_list", *(f"x{n}" for n in range(49))])
    assert len(answer["tools"]) == 1
    assert len(answer["notFound"]) == 49


async def test_changing_an_answer_does_not_change_the_tool(shop: Any) -> None:
    first = await shop.server.call_tool("codecall:describe", {"toolNames": ["send_mail"]})
    first.structured_content["tools"][0]["inputSchema"].clear()
    (tool,) = (await shop.ask("codecall:describe", toolNames=["send_mail"]))["tools"]
    assert tool["inputSchema"]["required"] == ["to", "text"]


async def test_near_names_are_looked_for_in_one_thread(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(300):
        shop.server.tool(lambda: 1, name=f"tool_{n}")
    threads = 0
    to_thread = asyncio.to_thread

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal threads
        threads += 1
        return to_thread(*args, **kwargs)

    monkeypatch.setattr(asyncio, "to_thread", counted)
    answer = await shop.ask("codecall:describe", toolNames=[f"tol_{n}" for n in range(50)])
    assert len(answer["suggestions"]) == 50
    assert answer["suggestions"]["tol_7"][0] == "tool_7"
    assert threads == 1


def add_large_tools(shop: Any) -> None:
    """Six tools, four of which have much to say."""
    for number in range(6):
        text = "Write a large report. " + "\ud800é" * (40_000 if number % 3 else 10)
        shop.server.tool(lambda size: size, name=f"report_{number}", description=text)


async def test_an_answer_holds_as_much_as_there_is_room_for_and_names_the_rest(shop: Any) -> None:
    add_large_tools(shop)
    answer = await shop.ask("codecall:describe", toolNames=[f"report_{number}" for number in range(6)])
    assert len(json.dumps(answer, ensure_ascii=False).encode()) < MAX_DEFINITION_BYTES * 1.01
    whole = [tool["name"] for tool in answer["tools"] if "inputSchema" in tool]
    assert whole == ["report_0", "report_1", "report_3"]
    for tool in answer["tools"]:
        assert tool["name"] in whole or (tool.keys() == {"name", "appId", "description"}), tool.keys()
        assert tool["name"] in whole or tool["description"].endswith("…")
    [warning] = answer["warnings"]
    assert "'report_2', 'report_4', 'report_5'" in warning
    (alone,) = (await shop.ask("codecall:describe", toolNames=["report_2"]))["tools"]
    assert len(alone["description"]) > 80_000
    assert "inputSchema" in alone


async def test_so_does_one_of_a_search(shop: Any) -> None:
    add_large_tools(shop)
    answer = await shop.ask("codecall:search", query="large report", detail="full", topK=6, excludeToolNames=["x"])
    assert len(json.dumps(answer, ensure_ascii=False).encode()) < MAX_DEFINITION_BYTES * 1.01
    assert len(answer["tools"]) == 6
    left_out = [tool for tool in answer["tools"] if "inputSchema" not in tool]
    assert len(left_out) == 3
    assert all(tool.keys() == {"name", "appId", "description", "score"} for tool in left_out)
    first, second = answer["warnings"]
    assert all(repr(tool["name"]) in first for tool in left_out)
    assert "excludeToolNames" in second
