"""Reading everything a server lists, page by page, but no more than anybody can use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final, TypeVar

import anyio.to_thread
import mcp_types
from mcp import ClientSession, MCPError
from pydantic import BaseModel, ConfigDict, TypeAdapter

from codecall.gateway.upstream.errors import listing_too_large_error

# ----------------------------------------------------------------------------------------------------
# What one server lists: its tools, resources, templates and prompts, and what it says about itself.


@dataclass(frozen=True)
class Listing:
    """What one server lists. Nobody changes it, or what it holds."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    tools: tuple[mcp_types.Tool, ...] = ()
    resources: tuple[mcp_types.Resource, ...] = ()
    templates: tuple[mcp_types.ResourceTemplate, ...] = ()
    prompts: tuple[mcp_types.Prompt, ...] = ()
    server_info: mcp_types.Implementation | None = None
    """Name and version, as it gave them when it was connected."""
    instructions: str | None = None
    capabilities: mcp_types.ServerCapabilities | None = None

    @cached_property
    def encoded(self) -> bytes:
        """All of it as JSON, with only what the server said; `decoded` reads it."""
        return _JSON.dump_json(self, by_alias=True, exclude_unset=True)

    @cached_property
    def digest(self) -> str:
        """The same for two listings only if they say the same."""
        return blake2b(self.encoded, digest_size=16).hexdigest()

    @classmethod
    def from_json(cls, encoded: bytes) -> Listing:
        """The listing that `encoded` is of.

        Raises:
            ValueError: it is of none.
        """
        listing = _JSON.validate_json(encoded)
        vars(listing)["encoded"] = encoded  # known: it is not worked out again
        return listing


_JSON = TypeAdapter(Listing)


# ----------------------------------------------------------------------------------------------------
# Reading everything a server lists, page by page, but no more than anybody can use.

MAX_ITEMS: Final = 10_000
"""Tools, resources, templates and prompts of one server together."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of JSON of everything one server lists."""

MAX_PAGES: Final = 1_000
"""Pages of one list."""

_IN_THREAD_ITEMS: Final = 200

Item = TypeVar("Item", bound=BaseModel)
_Page = tuple[Sequence[Item], str | None]


async def read_listing(session: ClientSession, server: str) -> Listing:
    """Everything the server of `session` lists; what it does not have is empty.

    Raises:
        ServerUnavailableError: it lists more than may be.
        MCPError: it answered with another error than that it has no such list.
    """
    able = session.server_capabilities or mcp_types.ServerCapabilities()
    reading = _Reading(server)

    async def tools(params: mcp_types.PaginatedRequestParams) -> _Page[mcp_types.Tool]:
        page = await session.list_tools(params=params)
        return page.tools, page.next_cursor

    async def resources(params: mcp_types.PaginatedRequestParams) -> _Page[mcp_types.Resource]:
        page = await session.list_resources(params=params)
        return page.resources, page.next_cursor

    async def templates(params: mcp_types.PaginatedRequestParams) -> _Page[mcp_types.ResourceTemplate]:
        page = await session.list_resource_templates(params=params)
        return page.resource_templates, page.next_cursor

    async def prompts(params: mcp_types.PaginatedRequestParams) -> _Page[mcp_types.Prompt]:
        page = await session.list_prompts(params=params)
        return page.prompts, page.next_cursor

    return Listing(
        # Tools are asked for in any case: servers forget to say that they have some.
        tools=await reading.all_of(tools),
        resources=await reading.all_of(resources) if able.resources is not None else (),
        templates=await reading.all_of(templates) if able.resources is not None else (),
        prompts=await reading.all_of(prompts) if able.prompts is not None else (),
        server_info=session.server_info,
        instructions=session.instructions,
        capabilities=session.server_capabilities,
    )


class _Reading:
    """Counts what has been read."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._items = 0
        self._bytes = 0

    async def all_of(
        self, page_at: Callable[[mcp_types.PaginatedRequestParams], Awaitable[_Page[Item]]]
    ) -> tuple[Item, ...]:
        found: list[Item] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                items, cursor = await page_at(mcp_types.PaginatedRequestParams(cursor=cursor))
            except MCPError as failure:
                if failure.error.code == mcp_types.METHOD_NOT_FOUND:
                    return ()
                raise
            found += items
            await self._count(items)
            if cursor is None:
                return tuple(found)
        raise listing_too_large_error(self._server, f"{MAX_PAGES} pages")

    async def _count(self, items: Sequence[BaseModel]) -> None:
        self._items += len(items)
        if self._items > MAX_ITEMS:
            raise listing_too_large_error(self._server, f"{MAX_ITEMS} tools, resources and prompts")
        large = len(items) > _IN_THREAD_ITEMS
        self._bytes += await anyio.to_thread.run_sync(_size, items) if large else _size(items)
        if self._bytes > MAX_BYTES:
            raise listing_too_large_error(self._server, f"{MAX_BYTES // 2**20} MiB")


def _size(items: Sequence[BaseModel]) -> int:
    return sum(len(item.model_dump_json(by_alias=True, exclude_unset=True)) for item in items)
