"""Results of very many parts: each arrives as it was sent, and no turn of the event loop takes them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import MCPError

from codecall.errors import ServerUnavailableError
from codecall.gateway.upstream.bounds.long_results import (
    MAX_COMPLETIONS,
    MAX_NESTED_AT_ONCE,
    MAX_PARTS_AT_ONCE,
    UnreadableResultError,
    attach_parts,
    detach_parts,
)
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import RAW
from tests.gateway.listing_servers import Listed, gateway
from tests.loop_turns import assert_turns_below

MANY = 20_000
TEXTS = [{"type": "text", "text": f"row {index}"} for index in range(MANY)]
PICTURES = [{"type": "image", "data": "AAAA", "mimeType": "image/png"} for _ in range(MANY)]
LINK: dict[str, Any] = {"type": "resource_link", "uri": "a:b", "name": "b"}
ICONS = [{"src": "data:,"}] * 60_000
LINKS = [{**LINK, "icons": ICONS[:400]} for _ in range(MAX_PARTS_AT_ONCE - 50)]
NESTED: dict[str, Any] = {"rows": [{"id": index, "tags": [[], {}]} for index in range(MANY)]}


async def answer(backend: Backend, result: dict[str, Any]) -> Any:
    """The result of a call that a server answers with this."""
    line = '{"jsonrpc":"2.0","id":%ID%,"result":' + json.dumps(result) + "}"
    async with backend.use(None) as call:
        return await call.session.call_tool("write", {"lines": [[line, 1]]})


@pytest.mark.parametrize(
    "result",
    [
        {"content": TEXTS},
        {"content": LINKS},
        {"content": PICTURES, "_meta": {"of": "the server"}},
        {"content": [], "structuredContent": NESTED},
        {"content": TEXTS[: MAX_PARTS_AT_ONCE + 1], "structuredContent": {"result": 1}, "isError": True},
    ],
    ids=["texts", "links", "pictures", "structured", "both"],
)
async def test_all_of_a_long_result_arrives_and_holds_nobody_up(result: dict[str, Any]) -> None:
    async with Backend("raw", RAW) as backend:
        await answer(backend, {"content": []})
        await assert_turns_below(4, lambda: answer(backend, result))
        read = await answer(backend, result)
        assert read.model_dump(mode="json", by_alias=True, exclude_none=True) == {
            "isError": False,
            "resultType": "complete",
            **result,
        }


async def test_a_part_that_is_none_is_an_error_and_not_left_out() -> None:
    wrong = [*TEXTS, {"type": "text"}]
    async with Backend("raw", RAW) as backend:

        async def read() -> None:
            with pytest.raises(ServerUnavailableError, match=r"content\[20000\]"):
                await answer(backend, {"content": wrong})

        await assert_turns_below(4, read)
        assert (await answer(backend, {"content": TEXTS[:2]})).content[1].text == "row 1"


async def test_a_server_puts_nothing_in_a_result_by_its_meta() -> None:
    meta = {"codecall/parts": {"by_name": {"is_error": True}}}
    async with Backend("raw", RAW) as backend:
        read = await answer(backend, {"content": TEXTS[:1], "_meta": meta})
    assert (read.meta, read.is_error) == (meta, False)


@pytest.mark.parametrize(
    ("kind", "field", "part"),
    [
        (mcp_types.GetPromptResult, "messages", {"role": "user", "content": {"type": "text", "text": "hello"}}),
        (mcp_types.ReadResourceResult, "contents", {"uri": "a://b", "text": "hello"}),
    ],
)
async def test_prompts_and_resources_are_read_so_too(kind: type[Any], field: str, part: dict[str, Any]) -> None:
    result = {field: [part] * (MAX_PARTS_AT_ONCE * 2 + 1)}
    detached = dict(result)
    await detach_parts(detached)
    assert detached[field] == []
    assert attach_parts(kind.model_validate(detached)).model_dump() == kind.model_validate(result).model_dump()


@pytest.mark.parametrize(
    "part",
    [
        {**LINK, "icons": ICONS},
        {**LINK, "icons": [1] * len(ICONS)},
        {**LINK, "icons": [{"src": "data:,", "sizes": ["any"] * (MAX_NESTED_AT_ONCE + 1)}]},
        {"type": "text", "text": "", "annotations": {"audience": [1] * len(ICONS)}},
    ],
    ids=["icons", "wrong icons", "sizes", "audience"],
)
async def test_a_part_with_too_much_within_is_refused_and_holds_nobody_up(part: dict[str, Any]) -> None:
    async with Backend("raw", RAW) as backend:

        async def read() -> None:
            with pytest.raises(ServerUnavailableError, match=r"content\[1\] has more than 1,000 values in its icons"):
                await answer(backend, {"content": [LINK, part]})

        await assert_turns_below(4, read)
        assert (await answer(backend, {"content": TEXTS[:2]})).content[1].text == "row 1"


@pytest.mark.parametrize(
    ("kind", "field", "part"),
    [
        (mcp_types.GetPromptResult, "messages", {"role": "user", "content": {**LINK, "icons": ICONS}}),
        (mcp_types.ListToolsResult, "tools", {"name": "a", "inputSchema": {"type": "object"}, "icons": ICONS}),
        (mcp_types.ListPromptsResult, "prompts", {"name": "a", "arguments": [{"name": "b"}] * 60_000}),
    ],
)
async def test_prompts_and_listings_are_refused_so_too(kind: type[Any], field: str, part: dict[str, Any]) -> None:
    result = {field: [part]}
    await detach_parts(result)
    with pytest.raises(MCPError, match=rf"{field}\[0\] has more than"):
        attach_parts(kind.model_validate(result))


TOOL: dict[str, Any] = {"name": "a", "inputSchema": {"type": "object"}}
OBJECT: dict[str, Any] = {"type": "object"}
NO_SCHEMAS = dict.fromkeys(map(str, range(2_000)), "x")
PAGES: dict[str, type[mcp_types.Result]] = {
    "tools": mcp_types.ListToolsResult,
    "prompts": mcp_types.ListPromptsResult,
    "resources": mcp_types.ListResourcesResult,
    "resourceTemplates": mcp_types.ListResourceTemplatesResult,
}


WRONG_LISTINGS: list[tuple[str, list[Any], str]] = [
    ("tools", [TOOL] * 300 + [1] * 60_000, r"tools\[300\] is no object"),
    ("tools", [{}] * 60_000, r"tools\[0\]\.inputSchema: Field required"),
    (
        "tools",
        [*[TOOL] * 300, {"name": "b", "inputSchema": {}}],
        r"tools\[300\]\.inputSchema\.type: Field required",
    ),
    ("tools", [{**TOOL, "inputSchema": {**OBJECT, "required": [1] * 60_000}}], r"tools\[0\] has more than 1,000"),
    (
        "tools",
        [{**TOOL, "inputSchema": {**OBJECT, "properties": dict.fromkeys(map(str, range(2_000)), "x")}}],
        "1,000",
    ),
    ("prompts", [{"name": 1}] * 60_000, r"prompts\[0\]\.name: Input should be a valid string"),
    ("resources", [{"uri": "a:b"}] * 60_000, r"resources\[0\]\.name: Field required"),
    ("resourceTemplates", [[]] * 60_000, r"resourceTemplates\[0\] is no object"),
]


@pytest.mark.parametrize(("field", "parts", "fault"), WRONG_LISTINGS)
async def test_a_listing_is_refused_at_its_first_wrong_item(field: str, parts: list[Any], fault: str) -> None:
    result: dict[str, Any] = {field: parts}
    await detach_parts(result)
    assert result[field] == []
    with pytest.raises(UnreadableResultError, match=fault) as refused:
        attach_parts(PAGES[field].model_validate({"ttlMs": 0, "cacheScope": "private", **result}))
    assert len(str(refused.value)) < 200


async def test_a_long_listing_is_read_and_held_against_the_version() -> None:
    tools = [{**TOOL, "name": f"t{number}", "_meta": {"n": number}} for number in range(1_000)]
    read = await listed(tools, "2025-06-18")
    assert [tool.model_dump(by_alias=True, exclude_unset=True) for tool in read] == tools
    of_newest = [*tools, {"name": "b", "inputSchema": OBJECT, "outputSchema": {"type": "array"}}]
    assert len(await listed(of_newest, "2026-07-28")) == 1_001
    with pytest.raises(UnreadableResultError, match=r"tools\[1000\]\.outputSchema\.type: Input should be 'object'"):
        await listed(of_newest, "2025-06-18")


async def listed(tools: list[dict[str, Any]], version: str) -> list[mcp_types.Tool]:
    """The tools of a page, as a session of that version reads it."""
    result: dict[str, Any] = {"tools": tools, "ttlMs": 0, "cacheScope": "private"}
    await detach_parts(result, version)
    return attach_parts(mcp_types.ListToolsResult.model_validate(result)).tools


async def test_values_of_a_completion_have_a_bound() -> None:
    few: dict[str, Any] = {"completion": {"values": ["a"] * MAX_COMPLETIONS, "hasMore": True}}
    await detach_parts(few)
    assert len(attach_parts(mcp_types.CompleteResult.model_validate(few)).completion.values) == MAX_COMPLETIONS
    many: dict[str, Any] = {"completion": {"values": [1] * (MAX_COMPLETIONS + 1)}}
    await detach_parts(many)
    with pytest.raises(UnreadableResultError, match="completion has more than 1,000 values"):
        attach_parts(mcp_types.CompleteResult.model_validate(many))


@pytest.mark.parametrize(("item", "count"), [(1, 195_000), ({}, 95_000)], ids=["numbers", "objects"])
async def test_a_listing_of_wrong_items_holds_nobody_up_and_fills_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, item: Any, count: int
) -> None:
    server = Listed(tmp_path, "wrong")
    server.say(*[item] * count)
    async with gateway(tmp_path, server) as running:

        async def refused() -> None:
            failure = (await running.refresh())["wrong"]
            assert failure.message.startswith("Server 'wrong' lists what cannot be used: tools[0]")
            assert (failure.__cause__, failure.__context__) == (None, None)

        await assert_turns_below(6, refused)
    assert len(caplog.text) < 10_000


async def test_of_a_few_wrong_items_the_first_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Listed(tmp_path, "wrong")
    wrong: list[dict[str, object]] = [{"name": number} for number in range(150)]
    server.say(*wrong)
    async with gateway(tmp_path, server) as running:
        failure = (await running.refresh())["wrong"]
    assert failure.message == "Server 'wrong' lists what cannot be used: tools[0].inputSchema: Field required"
    assert all(len(record.getMessage()) < 1_000 and not record.exc_info for record in caplog.records)
