"""What the server of an API lists: made and counted once, and answered in pages, each of which is little work.

FastMCP makes the whole list for each request, and cuts it by the number of tools, whatever is in them. The SDK checks
and writes a page in calls that hold the event loop to their end: of 10,000 tools at once that took two seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import mcp_types
from fastmcp import FastMCP
from mcp import MCPError
from pydantic import TypeAdapter

from codecall.gateway.upstream.listing import Size, measure
from codecall.gateway.upstream.rest.work import TooMuchWorkError
from codecall.gateway.upstream.session import handle_requests

MAX_TOOL_VALUES: Final = 50_000
"""Values and names of one tool, which is in one page. Its schemas have a fifth of them at most: the rest are tags."""

_TOOLS: Final = TypeAdapter(list[mcp_types.Tool])

PAGE: Final = Size(items=200, bytes=512 * 1024, values=10_000, levels=100_000)
"""What a page of several tools has at most, which takes some 40 ms. No listing that is allowed is 1,000 such pages."""


def in_pages(tools: Iterable[mcp_types.Tool]) -> list[bytes]:
    """The tools as JSON, in pages: a list of each. As objects they would be a part of each garbage collection.

    Raises:
        TooMuchWorkError: they are more than a server may list.
    """
    pages: list[list[bytes]] = [[]]
    page = total = Size()
    for tool in tools:
        encoded = tool.model_dump_json(by_alias=True, exclude_none=True).encode()
        size = measure([encoded])
        if size.values > MAX_TOOL_VALUES:
            raise TooMuchWorkError(f"one of its operations has more than {MAX_TOOL_VALUES:,} values")
        total += size
        if (excess := total.excess()) is not None:
            raise TooMuchWorkError(f"its operations are more than {excess}")
        page += size
        if pages[-1] and not page.is_within(PAGE):
            pages.append([])
            page = size
        pages[-1].append(encoded)
    return [b"[%b]" % b",".join(page) for page in pages]


def list_in_pages(server: FastMCP[Any], pages: Sequence[bytes]) -> None:
    """Have a server list these tools, and no others."""

    async def list_tools(
        _context: object, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        cursor = (params and params.cursor) or "0"
        number = int(cursor) if cursor.isdecimal() and len(cursor) < 5 else len(pages)
        if number >= len(pages):
            raise MCPError(code=mcp_types.INVALID_PARAMS, message="Invalid cursor")
        following = str(number + 1) if number + 1 < len(pages) else None
        return mcp_types.ListToolsResult(tools=_TOOLS.validate_json(pages[number]), next_cursor=following)

    handle_requests(server, "tools/list", mcp_types.PaginatedRequestParams, list_tools)
