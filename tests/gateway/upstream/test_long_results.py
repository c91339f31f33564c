"""Results of very many parts: each arrives as it was sent, and no turn of the event loop takes them all."""

from __future__ import annotations

import json
from typing import Any

import mcp_types
import pytest
from mcp import MCPError
from pydantic import ValidationError

from codecall.gateway.upstream.long_results import MAX_NESTED_AT_ONCE, MAX_PARTS_AT_ONCE, attach_parts, detach_parts
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import RAW
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
            with pytest.raises((MCPError, ValidationError)):
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
            with pytest.raises(MCPError, match=r"content\[1\] has more than 1,000 values in its icons"):
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
