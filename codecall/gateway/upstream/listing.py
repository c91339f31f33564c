"""What one server lists: reading it page by page, but no more than can be used, and listening for changes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import mcp_types
from mcp import ClientSession, MCPError
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    SubscriptionLost,
    ToolsListChanged,
    listen,
)
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, TypeAdapter

from codecall.gateway.upstream.errors import listing_too_large_error
from codecall.gateway.upstream.messages import count_levels, count_values, shorten

logger = logging.getLogger("codecall")

MAX_ITEMS: Final = 10_000
"""Tools, resources, templates and prompts of one server together."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of JSON of everything one server lists."""

MAX_VALUES: Final = 2_000_000
"""Values and names in all of that. 4,955 tools of hundreds of servers (the catalog that search is measured with) have
256,000 together, and the server with most has 30,000."""

MAX_LEVELS: Final = 500_000
"""Levels of nesting in all of that, as `MAX_MESSAGE_LEVELS` counts them: 107,000 and 11,000 in that catalog. A list is
written anew for each request."""

MAX_NESTED: Final = 20_000
"""Icons and arguments in all of that. FastMCP reads and writes each as an object, for each request of a list: as many
take 0.2 s."""

MAX_PAGES: Final = 1_000
"""Pages of one list."""

_LOGGED_CHARS: Final = 500
"""Characters of a name or a fault in the log."""

_MAX_RECONNECT_S: Final = 60.0
"""Seconds at most before a stream of changes that was lost is opened again."""

_CHANGES: Final[dict[type, str]] = {
    ToolsListChanged: "tools",
    ResourcesListChanged: "resources",
    PromptsListChanged: "prompts",
}

Item = TypeVar("Item", bound=BaseModel)
_Page = tuple[Sequence[Item], str | None]


@dataclass(frozen=True)
class Size:
    """How much a listing is, or a part of one."""

    items: int = 0
    bytes: int = 0
    values: int = 0
    levels: int = 0

    def __add__(self, more: Size) -> Size:
        return Size(
            self.items + more.items, self.bytes + more.bytes, self.values + more.values, self.levels + more.levels
        )

    def is_within(self, limit: Size) -> bool:
        """Whether it is no more than that in any way."""
        return (
            self.items <= limit.items
            and self.bytes <= limit.bytes
            and self.values <= limit.values
            and self.levels <= limit.levels
        )

    def excess(self) -> str | None:
        """How much of what one server may list, if this is more: `2,000,000 values`."""
        if self.items > MAX_ITEMS:
            return f"{MAX_ITEMS} tools, resources and prompts"
        if self.bytes > MAX_BYTES:
            return f"{MAX_BYTES // 2**20} MiB"
        if self.values > MAX_VALUES:
            return f"{MAX_VALUES:,} values"
        return f"{MAX_LEVELS:,} levels of nesting, added up" if self.levels > MAX_LEVELS else None


def measure(items: Sequence[bytes]) -> Size:
    """How much these items are, as JSON."""
    encoded = b"".join(items)
    return Size(len(items), len(encoded), count_values(encoded), count_levels(encoded, MAX_LEVELS))


def _measure_models(items: Sequence[BaseModel]) -> Size:
    return measure([item.model_dump_json(by_alias=True, exclude_unset=True).encode() for item in items])


@dataclass(frozen=True)
class Listing:
    """Everything one server lists. Neither it nor what it holds is ever changed."""

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
        """All of it as JSON, with only the fields that the server sent; `from_json` reads it."""
        return _JSON.dump_json(self, by_alias=True, exclude_unset=True)

    @cached_property
    def digest(self) -> str:
        """A digest that two listings share only if they are equal."""
        return blake2b(self.encoded, digest_size=16).hexdigest()

    @classmethod
    def from_json(cls, encoded: bytes) -> Listing:
        """Read a listing from what `encoded` gave.

        Raises:
            ValueError: it is no listing.
        """
        listing = _JSON.validate_json(encoded)
        vars(listing)["encoded"] = encoded  # known: it is not worked out again
        return listing


_JSON: Final = TypeAdapter(Listing)


def is_other_version(now: mcp_types.Implementation | None, then: mcp_types.Implementation | None) -> bool:
    """Whether a server that says of itself what `now` is has another name or version than one that said `then`."""
    return now is not None and then is not None and (now.name, now.version) != (then.name, then.version)


async def read_listing(session: ClientSession, server: str) -> Listing:
    """Read everything the server of `session` lists; lists that it does not have are empty.

    Raises:
        ServerUnavailableError: it lists more than is allowed.
        MCPError: it answered with another error than that it has no such list.
    """
    capabilities = session.server_capabilities or mcp_types.ServerCapabilities()
    reader = _BoundedReader(server)

    async def tools(params: mcp_types.PaginatedRequestParams) -> _Page[mcp_types.Tool]:
        page = await session.list_tools(params=params)
        return page.tools, page.next_cursor

    async def templates(params: mcp_types.PaginatedRequestParams) -> _Page[mcp_types.ResourceTemplate]:
        page = await session.list_resource_templates(params=params)
        return page.resource_templates, page.next_cursor

    async def prompts(params: mcp_types.PaginatedRequestParams) -> _Page[mcp_types.Prompt]:
        page = await session.list_prompts(params=params)
        return page.prompts, page.next_cursor

    return Listing(
        # Tools are asked for in any case: servers forget to say that they have some.
        tools=await _usable_tools(session, server, await reader.read_all(tools)),
        resources=await read_resources(session, server, reader),
        templates=await reader.read_all(templates) if capabilities.resources is not None else (),
        prompts=await reader.read_all(prompts) if capabilities.prompts is not None else (),
        server_info=session.server_info,
        instructions=session.instructions,
        capabilities=session.server_capabilities,
    )


async def _usable_tools(
    session: ClientSession, server: str, tools: tuple[mcp_types.Tool, ...]
) -> tuple[mcp_types.Tool, ...]:
    """Those that clients may use: MCP 2026-07-28 has them leave out tools whose `x-mcp-header` is invalid."""
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return tools
    faults = await anyio.to_thread.run_sync(lambda: [find_invalid_x_mcp_header(tool.input_schema) for tool in tools])
    left_out = [(tool.name, fault) for tool, fault in zip(tools, faults, strict=True) if fault is not None]
    if not left_out:
        return tools
    name, fault = left_out[0]
    logger.warning(
        "server %r: %d tools were left out for an invalid x-mcp-header, the first %s: %s",
        server,
        len(left_out),
        shorten(repr(name), _LOGGED_CHARS),
        shorten(fault, _LOGGED_CHARS),
    )
    return tuple(tool for tool, fault in zip(tools, faults, strict=True) if fault is None)


async def read_resources(
    session: ClientSession, server: str, reader: _BoundedReader | None = None
) -> tuple[mcp_types.Resource, ...]:
    """Read the resources that the server of `session` lists.

    Raises:
        ServerUnavailableError, MCPError: as `read_listing`.
    """

    async def page_at(params: mcp_types.PaginatedRequestParams) -> _Page[mcp_types.Resource]:
        page = await session.list_resources(params=params)
        return page.resources, page.next_cursor

    if session.server_capabilities is None or session.server_capabilities.resources is None:
        return ()
    return await (reader or _BoundedReader(server)).read_all(page_at)


async def listen_for_changes(session: ClientSession, on_change: Callable[[str], None], logger: logging.Logger) -> None:
    """Listen for changes of the lists of a server of MCP 2026-07-28, which reports them only to clients that ask.

    Ends when the server does not report such changes, or has reported all it will; servers of older versions notify
    unasked.

    Args:
        session: with the server.
        on_change: called with "tools", "resources" or "prompts".
        logger: of the server.
    """
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    tools, resources, prompts = _reported_changes(session)
    if not (tools or resources or prompts):
        return
    wait_s = 1.0
    while True:
        begun = anyio.current_time()
        try:
            async with listen(
                session, tools_list_changed=tools, resources_list_changed=resources, prompts_list_changed=prompts
            ) as events:
                async for event in events:
                    if (kind := _CHANGES.get(type(event))) is not None:
                        on_change(kind)
                return
        except MCPError as failure:
            if failure.error.code in (mcp_types.METHOD_NOT_FOUND, mcp_types.INVALID_PARAMS):
                return
            logger.debug("does not tell of changes (error %d)", failure.error.code)
        except SubscriptionLost:
            # What happened meanwhile is not reported again.
            for kind in _CHANGES.values():
                on_change(kind)
        if anyio.current_time() - begun > wait_s:  # not where it is acknowledged and dropped at once
            wait_s = 1.0
        logger.debug("is asked to tell of changes again in %g s", wait_s)
        await anyio.sleep(wait_s)
        wait_s = min(_MAX_RECONNECT_S, wait_s * 2)


def _reported_changes(session: ClientSession) -> tuple[bool, bool, bool]:
    """Whether the server says that it reports changes of tools, resources and prompts."""
    capabilities = session.server_capabilities or mcp_types.ServerCapabilities()
    return (
        capabilities.tools is not None and bool(capabilities.tools.list_changed),
        capabilities.resources is not None and bool(capabilities.resources.list_changed),
        capabilities.prompts is not None and bool(capabilities.prompts.list_changed),
    )


class _BoundedReader:
    """Reads lists page by page, and counts what has been read of one server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._nested = 0
        self._counted = Size()

    async def read_all(
        self, page_at: Callable[[mcp_types.PaginatedRequestParams], Awaitable[_Page[Item]]]
    ) -> tuple[Item, ...]:
        items_read: list[Item] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                items, cursor = await page_at(mcp_types.PaginatedRequestParams(cursor=cursor))
            except MCPError as failure:
                if failure.error.code == mcp_types.METHOD_NOT_FOUND:
                    return ()
                raise
            items_read += items
            await self._count(items)
            if cursor is None:
                return tuple(items_read)
        raise listing_too_large_error(self._server, f"{MAX_PAGES} pages")

    async def _count(self, items: Sequence[BaseModel]) -> None:
        self._nested += sum(len(getattr(item, name, None) or ()) for item in items for name in ("icons", "arguments"))
        if self._nested > MAX_NESTED:
            raise listing_too_large_error(self._server, f"{MAX_NESTED:,} icons and arguments")
        # Even few may be very large.
        self._counted += await anyio.to_thread.run_sync(_measure_models, items)
        if (excess := self._counted.excess()) is not None:
            raise listing_too_large_error(self._server, excess)
