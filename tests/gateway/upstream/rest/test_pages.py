"""The pages in which the server of an API lists its operations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from fastmcp import Client, FastMCP
from mcp import MCPError

from codecall.errors import OptionsError
from codecall.gateway.config.options import OpenApiServer
from codecall.gateway.upstream import listing
from codecall.gateway.upstream.listing import MAX_PAGES, Size
from codecall.gateway.upstream.rest import pages
from codecall.gateway.upstream.rest.openapi import build_openapi_server
from codecall.gateway.upstream.rest.pages import PAGE
from tests.loop_turns import assert_turns_below

PARAMETERS = [
    {"name": "n", "in": "query", "schema": {"enum": [1, 2]}},
    {"name": "m", "in": "query", "schema": {"type": "string", "description": "An é"}},
]
ANSWER = {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object", "title": "A"}}}}}


async def server_of(tmp_path: Path, operations: int, **more: object) -> FastMCP[Any]:
    """The server of an API with so many operations."""
    operation = {"parameters": PARAMETERS, "responses": ANSWER, "tags": ["b", "a"], **more}
    paths = {f"/o{number}": {"get": {"operationId": f"o{number}", **operation}} for number in range(operations)}
    path = tmp_path / "api.json"
    path.write_text(json.dumps({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths}))
    return await build_openapi_server("a", OpenApiServer(openapi=str(path), base_url="https://a.test"))


async def pages_of(server: FastMCP[Any]) -> list[list[mcp_types.Tool]]:
    """What a client gets, page by page."""
    async with Client(server) as client:
        page = await client.list_tools_mcp()
        listed = [page.tools]
        while page.next_cursor is not None:
            page = await client.list_tools_mcp(cursor=page.next_cursor)
            listed.append(page.tools)
    return listed


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        (PAGE, [7]),
        (Size(3, 10**6, 10**6, 10**6), [3, 3, 1]),
        (Size(9, 1_000, 10**6, 10**6), [2, 2, 2, 1]),
        (Size(9, 10**6, 130, 10**6), [2, 2, 2, 1]),
        (Size(9, 10**6, 10**6, 1), [1] * 7),
    ],
)
async def test_a_page_has_so_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Size, sizes: list[int]):
    monkeypatch.setattr(pages, "PAGE", limit)
    server = await server_of(tmp_path, 7)
    listed = await pages_of(server)
    assert [len(page) for page in listed] == sizes
    # As FastMCP would list them.
    expected = [tool.to_mcp_tool() for tool in await server.list_tools()]
    dumped = [tool.model_dump(by_alias=True, exclude_none=True) for page in listed for tool in page]
    assert dumped == [tool.model_dump(by_alias=True, exclude_none=True) for tool in expected]


async def test_an_api_without_operations_lists_none(tmp_path: Path):
    assert await pages_of(await server_of(tmp_path, 0)) == [[]]


@pytest.mark.parametrize("cursor", ["1", "-1", "x", "1" * 5_000])
async def test_another_cursor_is_refused(tmp_path: Path, cursor: str):
    async with Client(await server_of(tmp_path, 1)) as client:
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_tools_mcp(cursor=cursor)


async def test_many_operations_are_listed_in_short_turns(tmp_path: Path):
    server = await server_of(tmp_path, 2_000)
    async with Client(server) as client:

        async def list_all() -> None:
            assert len(await client.list_tools()) == 2_000

        await assert_turns_below(6, list_all)


async def test_what_no_server_may_list_is_refused_before_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(OptionsError, match="too much: one of its operations has more than 50,000 values"):
        await server_of(tmp_path, 1, tags=[str(number) for number in range(60_000)])
    monkeypatch.setattr(listing, "MAX_VALUES", 500)
    with pytest.raises(OptionsError, match="too much: its operations are more than 500 values"):
        await server_of(tmp_path, 20)


def test_a_listing_that_is_allowed_has_no_more_pages_than_are_read():
    # Two pages that follow each other are together more than one may be, in some way.
    most = Size(listing.MAX_ITEMS, listing.MAX_BYTES, listing.MAX_VALUES, listing.MAX_LEVELS)
    parts = (most.items / PAGE.items, most.bytes / PAGE.bytes, most.values / PAGE.values, most.levels / PAGE.levels)
    assert 2 * sum(parts) < MAX_PAGES
