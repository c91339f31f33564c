"""What one caller may see of the catalogue, read once per request.

A `CatalogView` belongs to one request. It reads FastMCP's listing for this caller (middleware, authorization and
versions applied) at the first question and never again; a script that calls no tool never reads it at all. What costs
something per tool (metadata, filters, entries) is done for the tools that are asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from operator import is_
from typing import TypeVar, cast
from weakref import WeakValueDictionary

from fastmcp.tools import Tool

from codecall.catalog.apps import Apps, Origin, Server
from codecall.catalog.entries import CatalogEntry, Example, JsonObject
from codecall.catalog.listing import inlined
from codecall.catalog.metadata import ToolMetadata
from codecall.catalog.reach import Reach, is_reserved

CHUNK = 200
"""Tools worked on before other tasks of the event loop get their turn: about 2 ms."""

T = TypeVar("T")

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


_known: WeakValueDictionary[tuple[str, str], CatalogEntry] = WeakValueDictionary()
"""By app and name, the entries that somebody keeps (the index does). An equal one is used again: thousands of fresh
objects with every search would set off the garbage collector, and an index knows its own entries at a glance."""


async def unhurried(items: Iterable[T]) -> AsyncGenerator[T]:
    """`items`, letting other tasks of the event loop run after every `CHUNK` of them."""
    for index, item in enumerate(items, 1):
        yield item
        if not index % CHUNK:
            await asyncio.sleep(0)


class CatalogView:
    """The tools of one caller in one request.

    Args:
        server: the server the request came to.
        read: gives the tools FastMCP would list for this caller, each name once, CodeCall's own left out.
        reach: which of them CodeCall may use.
        inline: whether `find` shows schemas without `$ref`, as the server's own listing does.
    """

    def __init__(
        self, server: Server, read: Callable[[], Awaitable[Sequence[Tool]]], reach: Reach, *, inline: bool = False
    ) -> None:
        self._server = server
        self._read = read
        self._reach = reach
        self._inline = inline
        self._reading = asyncio.Lock()
        self._listed: dict[str, Tool] | None = None
        self._apps: Apps | None = None
        self._entries: dict[str, CatalogEntry | None] = {}
        self._found: dict[str, CatalogEntry] = {}

    async def find(self, name: str) -> CatalogEntry | None:
        """The tool of exactly that name; None when there is none that this caller and CodeCall may use."""
        if name in self._found:
            return self._found[name]
        entry = self._find(await self._list(), name)
        if entry is not None:
            if self._inline:
                schemas = {"input_schema": inlined(entry.input_schema), "output_schema": inlined(entry.output_schema)}
                entry = replace(entry, **schemas)
            self._found[name] = entry
        return entry

    async def exists(self, name: str) -> bool:
        """Whether FastMCP lists a tool of that name for this caller, in CodeCall's reach or out of it."""
        return name in await self._list()

    async def entries(self) -> list[CatalogEntry]:
        """All tools that this caller and CodeCall may use, in FastMCP's order. Their schemas may hold `$ref`."""
        listed = await self._list()
        return [entry async for name in unhurried(listed) if (entry := self._find(listed, name)) is not None]

    async def near(self, name: str) -> list[str]:
        """Up to three names that look like `name`, among the tools this caller and CodeCall may use; best first."""
        return (await self.near_many([name]))[name]

    async def near_many(self, names: Sequence[str]) -> dict[str, list[str]]:
        """What `near` gives for each of `names`, looked for all at once."""
        if not names:
            return {}
        known = [entry.name for entry in await self.entries()]
        if len(known) * len(names) <= CHUNK:
            return _near(names, known)
        return await asyncio.to_thread(_near, names, known)

    async def describe(self, name: str) -> JsonObject | None:
        """What `getTool(name)` sees: name, description, inputSchema, outputSchema."""
        entry = await self.find(name)
        if entry is None:
            return None
        return {
            "name": entry.name,
            "description": entry.description,
            "inputSchema": entry.input_schema,
            "outputSchema": entry.output_schema,
        }

    async def _list(self) -> dict[str, Tool]:
        if self._listed is None:
            async with self._reading:
                if self._listed is None:
                    self._apps = await Apps.read(self._server)
                    self._listed = {tool.name: tool for tool in await self._read()}
        return self._listed

    def _find(self, listed: dict[str, Tool], name: str) -> CatalogEntry | None:
        if name not in self._entries:
            tool = listed.get(name)
            if tool is None:
                return None
            self._entries[name] = self._entry(tool)
        return self._entries[name]

    def _entry(self, tool: Tool) -> CatalogEntry | None:
        metadata = self._reach.metadata(tool.name, tool.meta)
        origin = self._apps.of(tool) if self._apps else Origin(self._server.name, tool.name)
        app_id = metadata.app_id or origin.app_id
        if is_reserved(origin.own_name) or not self._reach.allows(tool, tool.name, metadata, app_id):
            return None
        return _entry_of(tool, metadata, app_id)


def _near(names: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
    from codecall.catalog.near import near_names  # loaded when a name is wrong

    return {name: near_names(name, known, limit=3) for name in names}


def _entry_of(tool: Tool, metadata: ToolMetadata, app_id: str) -> CatalogEntry:
    annotations: JsonObject = {}
    if tool.annotations is not None:
        said = tool.annotations.model_dump(by_alias=True, exclude_none=True)
        annotations = {hint: said[hint] for hint in _HINTS if hint in said}
    entry = CatalogEntry(
        name=tool.name,
        app_id=app_id,
        description=tool.description or "",
        input_schema=tool.parameters,
        output_schema=_value_schema(tool.output_schema),
        annotations=annotations,
        tags=frozenset(tool.tags) | frozenset(metadata.tags),
        examples=tuple(Example(example.description, example.code) for example in metadata.examples),
        title=tool.title,
        version=tool.version,
    )
    known = _known.get((app_id, tool.name))
    if known is not None and _same_schemas(known, entry) and known == entry:
        return known
    _known[app_id, tool.name] = entry
    return entry


def _same_schemas(one: CatalogEntry, other: CatalogEntry) -> bool:
    """Whether the schemas hold the very same objects: equal ones may still differ, as 1 and True do."""
    pairs = ((one.input_schema, other.input_schema), (one.output_schema or {}, other.output_schema or {}))
    return all(list(a) == list(b) and all(map(is_, a.values(), b.values())) for a, b in pairs)


def _value_schema(schema: JsonObject | None) -> JsonObject | None:
    """The schema of what a script gets: without the wrapper FastMCP puts around what is not an object."""
    if schema is None or not schema.get("x-fastmcp-wrap-result"):
        return schema
    properties = schema.get("properties")
    inner = cast("JsonObject", properties).get("result") if isinstance(properties, dict) else None
    if not isinstance(inner, dict):
        return schema
    value = dict(cast("JsonObject", inner))
    for definitions in ("$defs", "definitions"):
        if definitions in schema:
            value[definitions] = schema[definitions]
    return value
