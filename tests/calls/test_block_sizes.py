"""A content block counts with all that it carries, and is handed on without being written for each place."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import pytest
from fastmcp import Client, FastMCP
from fastmcp.tools.base import ToolResult
from mcp_types import (
    Annotations,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from codecall import CodeCallPlugin
from codecall.calls.blocks import BYTES_PER_VALUE, MAX_INLINE_BYTES, BlockLimits, BlockStore

LIMIT = 100_000
VALUES = LIMIT // BYTES_PER_VALUE
LIMITS = BlockLimits(max_content_blocks=10, max_content_bytes=10_000_000, passed_bytes=10_000_000)


def picture(**more: Any) -> ImageContent:
    return ImageContent(type="image", data="AAAA", mime_type="image/png", **more)


LARGE: dict[str, ContentBlock] = {
    "a text": picture(_meta={"x": "y" * LIMIT}),
    "a name": picture(_meta={"y" * LIMIT: 1}),
    "objects": picture(_meta={"x": [{}] * VALUES}),
    "numbers": picture(_meta={"x": list(range(VALUES))}),
    "members": picture(_meta={str(number): None for number in range(VALUES)}),
    "annotations": picture(annotations=Annotations(last_modified="y" * LIMIT)),
    "its type": ImageContent(type="image", data="AAAA", mime_type="y" * LIMIT),
    "a file": EmbeddedResource(
        type="resource", resource=TextResourceContents(uri="note://1", text="", _meta={"x": [[]] * VALUES})
    ),
}


def server_of(block: ContentBlock, **vm: Any) -> FastMCP[Any]:
    """A server whose tools return a block, and take many."""
    server = FastMCP[Any]("blocks")
    CodeCallPlugin.init(vm={"preset": "secure", "max_content_bytes": LIMIT} | vm, pool={"min_workers": 0}).install(
        server
    )

    @server.tool
    def get() -> ToolResult:
        """A block."""
        return ToolResult(content=[block])

    @server.tool
    def get_beside() -> ToolResult:
        """The same beside a value."""
        return ToolResult(content=[block], structured_content={"n": 1})

    @server.tool
    def take(x: Any) -> int:
        """Take blocks."""
        return len(x)

    return server


async def envelope_of(server: FastMCP[Any], name: str, **arguments: Any) -> dict[str, Any]:
    async with Client(server) as client:
        answer = await client.call_tool_mcp(f"codecall_{name}", arguments)
    assert answer.structured_content is not None, answer.content
    return answer.structured_content


@pytest.mark.parametrize("block", LARGE.values(), ids=LARGE)
async def test_all_that_a_block_carries_counts(block: ContentBlock) -> None:
    server = server_of(block)
    invoked = await envelope_of(server, "invoke", tool="get", input={})
    beside = await envelope_of(server, "invoke", tool="get_beside", input={})
    for envelope in (invoked, beside):
        assert envelope["error"]["code"] == "MESSAGE_TOO_LARGE"
        assert "with all that it carries; all together may have 100000, of which 0" in envelope["error"]["message"]
    if not isinstance(block, EmbeddedResource):  # a text is all there for a script without being kept
        ran = await envelope_of(server, "execute", script="return await callTool('get')")
        assert ran["error"]["code"] == "MESSAGE_TOO_LARGE"


async def test_what_scripts_see_all_of_is_not_kept_if_it_carries_too_much() -> None:
    icons = [Icon(src="y" * LIMIT)]
    for block in (LARGE["a file"], ResourceLink(type="resource_link", uri="data://1", name="1", icons=icons)):
        ran = await envelope_of(server_of(block), "execute", script="return await callTool('get')")
        assert "ref" not in ran["result"][0]


async def test_a_block_counts_with_all_of_it_in_each_place_of_an_input() -> None:
    server = server_of(picture(_meta={"x": [{}] * (VALUES // 10)}))
    script = "const [block] = await callTool('get'); return await callTool('take', { x: Array(%d).fill(block) })"
    assert (await envelope_of(server, "execute", script=script % 3))["result"] == 3
    refused = await envelope_of(server, "execute", script=script % 100)
    assert refused["error"]["code"] == "INVALID_INPUT"
    assert f"content blocks of more than {LIMIT} bytes" in refused["error"]["message"]
    server = server_of(picture(_meta={"x": [{}] * (VALUES // 10)}), reference_passed_bytes=LIMIT // 2)
    refused = await envelope_of(server, "execute", script=script % 8)
    assert "all calls of a script together may have 50000" in refused["error"]["message"]


class Watched(ImageContent):
    """A picture that knows where it was written."""

    threads: ClassVar[list[threading.Thread]] = []

    def model_dump(self, **options: Any) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.threads.append(threading.current_thread())
        return super().model_dump(**options)


async def test_a_block_is_written_once_for_all_places() -> None:
    store = BlockStore(LIMITS, "ann")
    block = Watched(type="image", data="AAAA", mime_type="image/png", _meta={"x": {"y": 1}})
    (reference,) = await store.keep([block])
    handle = {"type": "image", "ref": reference}
    Watched.threads.clear()
    resolved = await store.resolve({"x": [handle] * 50, "y": {"z": handle}}, {"type": "object"})
    assert len(Watched.threads) == 1
    *many, one = [*resolved.arguments["x"], resolved.arguments["y"]["z"]]  # type: ignore[index]
    assert many == [one] * 50
    assert one == {"type": "image", "data": "AAAA", "mimeType": "image/png", "_meta": {"x": {"y": 1}}}
    shown = resolved.displayed["x"][0]  # type: ignore[index]
    assert shown == one | {"data": shown["data"]}
    assert shown["data"].startswith("image/png, 3 bytes, SHA-256")
    # A tool that writes into one does not write into the others.
    many[0]["data"] = "changed"
    assert many[1] == one


async def test_a_file_is_written_once_too() -> None:
    store = BlockStore(LIMITS, "ann")
    contents = BlobResourceContents(uri="file:///a", blob="AAAA", mime_type="a/b")
    block = EmbeddedResource(type="resource", resource=contents)
    (reference,) = await store.keep([block])
    resolved = await store.resolve({"x": {"ref": reference}}, {"type": "object"})
    assert resolved.arguments["x"] == block.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert resolved.displayed["x"]["resource"]["blob"].startswith("a/b, 3 bytes")  # type: ignore[index]


@pytest.mark.parametrize("meta", [{"x": "y" * MAX_INLINE_BYTES}, {"x": [{}] * (MAX_INLINE_BYTES // 64)}])
async def test_a_large_block_is_not_written_on_the_event_loop(meta: dict[str, Any]) -> None:
    store = BlockStore(LIMITS, "ann")
    Watched.threads.clear()
    (reference,) = await store.keep([Watched(type="image", data="AAAA", mime_type="image/png", _meta=meta)])
    await store.resolve({"x": {"ref": reference}}, {"type": "object"})
    assert len(Watched.threads) == 2
    assert threading.current_thread() not in Watched.threads


async def test_one_that_has_no_room_is_not_written_at_all() -> None:
    store = BlockStore(LIMITS._replace(max_content_bytes=LIMIT), "ann")
    Watched.threads.clear()
    block = Watched(type="image", data="AAAA", mime_type="image/png", _meta={"x": [{}] * VALUES})
    link = TextContent(type="text", text="", _meta={"x": [{}] * VALUES})
    with pytest.raises(Exception, match="with all that it carries"):
        await store.keep([block])
    assert await store.keep([link]) == [None]
    assert Watched.threads == []
