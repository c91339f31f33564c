"""What one caller may see of the catalog, read once per request.

A `CatalogView` belongs to one request. It reads FastMCP's listing for this caller (middleware, authorization and
versions applied) at the first question and never again; a script that calls no tool never reads it at all. `remembered`
saves most of the work where a listing or a tool is the same as in an earlier request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fastmcp.server.transforms import Transform
from fastmcp.tools import Tool

from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.cache import CatalogCache, ListTools, ToolListing
from codecall.catalog.cache.middleware import presentable_schema
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.catalog.visibility import VisibilityPolicy
from codecall.concurrency import CHUNK
from codecall.namespaces import Namespaces

if TYPE_CHECKING:
    from codecall.catalog.search.index import SearchIndex


INDEX_WAIT_S = 0.3
"""Seconds a hint waits for tools that are being indexed."""

MIN_HINT_SCORE = 0.3
"""Tools that a search finds with a lower score (0 to 1) are not offered for a name that does not exist: the threshold
of search itself, where nobody has set another."""

MAX_QUERY_CHARS = 128
"""Characters of a name that is searched for; MCP allows 128."""


class CatalogView:
    """The tools of one caller in one request.

    Args:
        server: the server the request came to.
        read: gives the tools FastMCP would list for this caller, each name once, CodeCall's own left out.
        reach: which of them CodeCall may use.
        catalog: what is remembered of the server, under the same `reach`.
        own: the plugin itself where `read` lists the tools beneath the server's middleware; None where it does more,
            and FastMCP has to be asked in every request.
        inline: whether `find` shows schemas without `$ref`, as the server's own listing does.
        library: finds tools by what they do; without it near names are those that look alike.
    """

    def __init__(
        self,
        server: FastMCPServer,
        list_tools: ListTools,
        visibility: VisibilityPolicy,
        cache: CatalogCache,
        *,
        plugin_transform: Transform | None = None,
        dereference: bool = False,
        index: SearchIndex | None = None,
    ) -> None:
        self._server = server
        self._read = list_tools
        self._reach = visibility
        self._catalog = cache
        self._own = plugin_transform
        self._inline = dereference
        self._library = index
        self._reading = asyncio.Lock()
        self._listing: ToolListing | None = None
        self._included: dict[str, bool] = {}
        self._found: dict[str, CatalogEntry | None] = {}

    async def find(self, name: str) -> CatalogEntry | None:
        """The tool of exactly that name; None when there is none that this caller and CodeCall may use."""
        if name not in self._found:
            listing = await self._list()
            tool = listing.tools.get(name)
            if tool is None:
                return None  # and not kept: a script may ask for any number of names
            self._found[name] = self._find(listing, tool)
        return self._found[name]

    async def server_tool(self, name: str) -> Tool | None:
        """What FastMCP calls under that name, where the listing is sure to show it; None where it has to be asked."""
        listing = await self._list()
        return listing.tools.get(name) if listing.fingerprinted else None

    async def exists(self, name: str) -> bool:
        """Whether FastMCP lists a tool of that name for this caller, in CodeCall's reach or out of it."""
        return name in (await self._list()).tools

    async def entries(self) -> tuple[CatalogEntry, ...]:
        """All tools that this caller and CodeCall may use, in FastMCP's order. Their schemas may hold `$ref`.

        Where nothing has changed it is the same tuple of the same entries as in the request before.
        """
        return await self._catalog.entries(await self._list(), self._includes if self._reach.has_filter else None)

    async def suggest(self, name: str) -> list[str]:
        """Up to three names that look like `name`, or else of tools that do what it says, among those this caller and
        CodeCall may use; best first."""
        return (await self.suggest_many([name]))[name] or await self._by_words(name)

    async def _by_words(self, name: str) -> list[str]:
        if self._library is None:
            return []
        from codecall.catalog.search.analysis import name_parts  # loaded when a name is wrong

        words = " ".join(name_parts(name[:MAX_QUERY_CHARS]))
        try:
            searched = await self._library.search(await self.entries(), [words], timeout_s=INDEX_WAIT_S)
        except Exception:
            # What stops the index from being made is told to those who search; a hint does without.
            return []
        return [hit.entry.name for hit in searched.hits[0][:3] if hit.score >= MIN_HINT_SCORE]

    async def suggest_many(self, names: Sequence[str]) -> dict[str, list[str]]:
        """What `near` gives for each of `names`, looked for all at once."""
        if not names:
            return {}
        known = [entry.name for entry in await self.entries()]
        if len(known) * len(names) <= CHUNK:
            return _near(names, known)
        return await asyncio.to_thread(_near, names, known)

    async def namespaces(self) -> Namespaces:
        """The namespaces of the tools this caller and CodeCall may use."""
        return await self._catalog.namespaces(await self.entries())

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

    async def _list(self) -> ToolListing:
        if self._listing is None:
            async with self._reading:
                if self._listing is None:
                    self._listing = await self._catalog.listing(self._server, self._read, self._own)
        return self._listing

    def _find(self, listing: ToolListing, tool: Tool) -> CatalogEntry | None:
        if listing.fingerprinted and tool.name in listing.presented:
            entry = listing.presented[tool.name]
        else:
            entry = self._shown(listing, tool)
            if listing.fingerprinted:
                listing.presented[tool.name] = entry
        return entry if entry is not None and self._includes(tool) else None

    def _shown(self, listing: ToolListing, tool: Tool) -> CatalogEntry | None:
        entry = self._catalog.entry(listing, tool)
        if entry is None:
            return None
        given = presentable_schema(entry.input_schema, dereference=self._inline)
        gives = presentable_schema(entry.output_schema, dereference=self._inline)
        if given is entry.input_schema and gives is entry.output_schema:
            return entry
        return replace(entry, input_schema=given or {}, output_schema=gives)

    def _includes(self, tool: Tool) -> bool:
        if tool.name not in self._included:
            self._included[tool.name] = self._reach.includes(tool, tool.name)
        return self._included[tool.name]


def _near(names: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
    from codecall.catalog.suggestions import similar_names  # loaded when a name is wrong

    return {name: similar_names(name, known, limit=3) for name in names}
