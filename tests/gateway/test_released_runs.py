"""What a run held is free when its answer is sent, whatever it has started that goes on after it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.utilities.types import Image

from codecall.calls.blocks import BlockStore
from codecall.gateway.config.options import GatewayOptions
from codecall.gateway.gateway import Gateway
from tests.gateway.backends import serve_over_http, wait_until


class Upstream:
    """A server with pictures, and one tool that scripts see the stores of blocks with."""

    def __init__(self) -> None:
        self.server = FastMCP[Any]("up")
        self.server.tool(self.picture)
        self.server.tool(self.note)
        self.stores: list[weakref.ref[BlockStore]] = []

    def picture(self) -> Image:
        """A picture."""
        return Image(data=b"picture", format="png")

    def note(self) -> int:
        """Take note of the blocks that runs have now."""
        self.stores = [weakref.ref(each) for each in gc.get_objects() if isinstance(each, BlockStore)]
        return len(self.stores)


SCRIPT = "const [shown] = await callTool('up_picture'); emit(shown); return await callTool('up_note')"


@asynccontextmanager
async def gateway(url: str, folder: Path) -> AsyncGenerator[Gateway]:
    options = {"servers": {"up": {"url": url}}, "cache_dir": str(folder), "expose": {"mode": "always"}}
    async with Gateway(GatewayOptions.read(options, where="")) as it:
        yield it


async def test_a_run_that_starts_a_server_is_free_after_its_answer(tmp_path: Path) -> None:
    upstream = Upstream()
    async with serve_over_http(upstream.server) as url:
        async with gateway(url, tmp_path) as first, Client(first.server) as client:
            await client.list_tools()  # what the server lists is kept
        gc.collect()
        async with gateway(url, tmp_path) as it, Client(it.server) as client:
            answer = await client.call_tool_mcp("codecall_execute", {"script": SCRIPT})
            assert [block.type for block in answer.content] == ["text", "image"]
            assert upstream.stores

            def is_free() -> bool:
                gc.collect()
                return not any(kept() for kept in upstream.stores)

            await wait_until(is_free)
