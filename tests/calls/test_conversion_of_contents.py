"""From the contents of a resource, or the messages of a prompt, to the value a script sees."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from fastmcp.prompts import Message, PromptResult
from fastmcp.resources import ResourceContent, ResourceResult
from mcp_types import EmbeddedResource, ImageContent, TextResourceContents

from codecall.calls.blocks import BlockLimits, BlockStore
from codecall.calls.conversion import ValueTooLargeError, prompt_json, resource_json

MIB = 1024 * 1024


async def value(*contents: ResourceContent, most: int = MIB) -> Any:
    return json.loads(await resource_json(ResourceResult(list(contents)), "data://x", most))


@pytest.mark.parametrize(
    ("text", "mime_type", "seen"),
    [
        ('{"a": 1}', "application/json", {"a": 1}),
        ("1.10", "application/json", 1.1),
        ("[1]", "Application/JSON; charset=utf-8", [1]),
        ('{"a": 1}', "application/problem+json", {"a": 1}),
        ('{"a": 1}', "text/json", {"a": 1}),
        ("{broken", "application/json", "{broken"),
        ("", "application/json", ""),
        # FastMCP's default for whatever a function returns says nothing
        ('{"a": 1}', None, {"a": 1}),
        (" [1, 2]\n", "text/plain", [1, 2]),
        ("[not json]", "text/plain", "[not json]"),
        ("1.10", "text/plain", "1.10"),
        ("true", "text/plain", "true"),
        ('"quoted"', "text/plain", '"quoted"'),
        ("", "text/plain", ""),
        # any other type is what it says
        ("[1]", "text/markdown", "[1]"),
        ('{"a": 1}', "text/x-python", '{"a": 1}'),
        ("line\u2028 \U0001f600", "text/plain", "line\u2028 \U0001f600"),
    ],
)
async def test_one_text(text: str, mime_type: str | None, seen: object) -> None:
    assert await value(ResourceContent(text, mime_type=mime_type)) == seen


async def test_bytes() -> None:
    data = bytes(range(256))
    seen = await value(ResourceContent(data, mime_type="image/png"))
    assert seen == {"type": "image", "mimeType": "image/png", "bytes": 256}
    assert await value(ResourceContent(data, mime_type="audio/wav")) == {
        "type": "audio",
        "mimeType": "audio/wav",
        "bytes": 256,
    }
    assert await value(ResourceContent(b"")) == {
        "type": "resource",
        "uri": "data://x",
        "mimeType": "application/octet-stream",
        "bytes": 0,
    }


async def test_several_contents_stay_as_they_are() -> None:
    seen = await value(ResourceContent({"a": 1}), ResourceContent(b"x"), ResourceContent("[1]"))
    assert seen == [
        {"type": "resource", "uri": "data://x", "mimeType": "application/json", "text": '{"a":1}'},
        {"type": "resource", "uri": "data://x", "mimeType": "application/octet-stream", "bytes": 1},
        {"type": "resource", "uri": "data://x", "mimeType": "text/plain", "text": "[1]"},
    ]


async def test_no_contents() -> None:
    assert await value() is None


@pytest.mark.parametrize(
    "contents",
    [
        (ResourceContent("x" * 1000),),
        (ResourceContent("é" * 600),),
        (ResourceContent('{"a": "' + "é" * 600 + '"}'),),
        (ResourceContent("x" * 600), ResourceContent("y" * 600)),
    ],
)
async def test_what_is_too_large(contents: tuple[ResourceContent, ...]) -> None:
    with pytest.raises(ValueTooLargeError) as raised:
        await value(*contents, most=1000)
    assert raised.value.size >= 1000


@pytest.mark.parametrize("size", [1, 3 * 64 * 1024 - 1, 3 * MIB + 1])
async def test_bytes_are_kept_whole_whatever_the_script_may_take(size: int) -> None:
    data, store = bytes(range(251)) * (size // 251 + 1), BlockStore(BlockLimits(1, 8 * MIB, 8 * MIB), "ann")
    result = ResourceResult([ResourceContent(data[:size], mime_type="image/png")])
    seen = json.loads(await resource_json(result, "data://x", 1000, store))
    reference = seen.pop("ref")
    assert seen == {"type": "image", "mimeType": "image/png", "bytes": size}
    (block,) = store.content([reference])
    assert isinstance(block, ImageContent)
    assert base64.b64decode(block.data) == data[:size]


async def test_a_prompt() -> None:
    result = PromptResult(
        [
            Message("Hello"),
            Message({"a": 1}, role="assistant"),
            Message(ImageContent(type="image", data="QUJD", mime_type="image/png")),
            Message(EmbeddedResource(type="resource", resource=TextResourceContents(uri="data://x", text="t"))),
        ],
        description="Says hello",
    )
    assert json.loads(await prompt_json(result, MIB)) == {
        "description": "Says hello",
        "messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": '{"a":1}'},
            {"role": "user", "content": {"type": "image", "mimeType": "image/png", "bytes": 3}},
            {"role": "user", "content": {"type": "resource", "uri": "data://x", "text": "t"}},
        ],
    }
    assert json.loads(await prompt_json(PromptResult([]), MIB)) == {"description": None, "messages": []}
    with pytest.raises(ValueTooLargeError):
        await prompt_json(PromptResult("x" * 1000), 1000)
