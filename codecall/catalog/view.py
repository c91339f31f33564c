"""The tools that one caller may see, read once per request.

A `CatalogView` belongs to one request. It reads FastMCP's listing for this caller (middleware, authorization and
versions applied) when it is first needed and never again; a script that calls no tool never reads it at all. The
catalog cache saves most of the work where a listing or a tool is the same as in an earlier request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Protocol

from fastmcp.server.transforms import Transform
from fastmcp.tools import Tool

from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.cache import CatalogCache, ListTools, ToolListing
from codecall.catalog.cache.schemas import presentable_schema
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.catalog.search.lazy import LazySearchIndex
from codecall.catalog.visibility import VisibilityPolicy
from codecall.concurrency import CHUNK
from codecall.namespaces import Namespaces

INDEX_WAIT_S = 0.3
"""Seconds a hint waits for tools that are being indexed."""

MIN_HINT_SCORE = 0.3
"""Tools that a search finds with a lower score (0 to 1) are not suggested for a name that does not exist: the default
threshold of search itself."""

MAX_QUERY_CHARS = 128
"""Characters of an unknown name that are searched for; MCP allows 128."""


class ToolSources(Protocol):
    """Where tools come from that a server does not have itself."""

    async def retry_lookup(self, name: str) -> bool:
        """Whether there is a tool of that name after all."""
        ...

    def unlisted(self, name: str | None = None) -> list[str]:
        """A sentence for each source whose tools are not known; with a name only those that may have the tool."""
        ...


class CatalogView:
    """The tools of one caller in one request.

    Args:
        server: the server that the request is for.
        list_tools: returns the tools FastMCP would list for this caller, each name once, without CodeCall's own.
        visibility: the policy that decides which of them CodeCall may use.
        cache: the cache of the server, under the same policy.
        plugin_transform: the plugin itself where `list_tools` lists the tools beneath the server's middleware; None
            where it does more, and FastMCP has to be asked in every request.
        dereference: whether `find` returns schemas without `$ref`, as the server's own listing does.
        index: finds tools by what they do; without it only names that look alike are suggested.
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
        index: LazySearchIndex | None = None,
    ) -> None:
        self._server = server
        self._list_tools = list_tools
        self._visibility = visibility
        self._cache = cache
        self._plugin_transform = plugin_transform
        self._dereference = dereference
        self._index = index
        self._reading_lock = asyncio.Lock()
        self._listing: ToolListing | None = None
        self._included: dict[str, bool] = {}
        self._found_entries: dict[str, CatalogEntry | None] = {}
        self._only: frozenset[str] | None = None
        """The names of the tools that it has at most; None: it is not narrowed."""
        self.sources: ToolSources | None = None
        """Asked for tools that are missing."""

    def only(self, names: frozenset[str]) -> CatalogView:
        """Returns the same view with no tools but these: any other reads as one that does not exist, and tools that
        come later are none of its own."""
        view = copy(self)
        view._only, view._included, view._found_entries = names, {}, {}
        return view

    def fresh_copy(self) -> CatalogView:
        """Returns the same view before it has read anything: it shows what there is from now on."""
        view = copy(self)
        view._reading_lock, view._listing = asyncio.Lock(), None
        view._included, view._found_entries = {}, {}
        return view

    async def find(self, name: str) -> CatalogEntry | None:
        """Finds the tool of exactly that name; None when there is none that this caller and CodeCall may use."""
        if name not in self._found_entries:
            listing = await self._read_listing()
            tool = listing.tools.get(name)
            if tool is None and await self.retry_lookup(name):
                listing = await self._read_listing()
                tool = listing.tools.get(name)
            if tool is None:
                return None  # and not kept: a script may ask for any number of names
            self._found_entries[name] = self._cached_entry(listing, tool)
        return self._found_entries[name]

    async def retry_lookup(self, name: str) -> bool:
        """Look for a tool that is missing where it may come from; whether this view has others now."""
        if self.sources is None or self._only is not None or not await self.sources.retry_lookup(name):
            return False
        self._listing = None
        return True

    def unlisted(self, name: str | None = None) -> list[str]:
        """Why tools may be missing: a sentence for each source that has not told its own."""
        return self.sources.unlisted(name) if self.sources is not None else []

    async def server_tool(self, name: str) -> Tool | None:
        """Returns the tool that FastMCP calls under that name; None where only FastMCP itself can tell."""
        listing = await self._read_listing()
        return listing.tools.get(name) if listing.fingerprinted else None

    async def exists(self, name: str) -> bool:
        """Whether FastMCP lists a tool of that name for this caller, usable by CodeCall or not."""
        return name in (await self._read_listing()).tools and (self._only is None or name in self._only)

    async def entries(self) -> tuple[CatalogEntry, ...]:
        """Returns all tools that this caller and CodeCall may use, in FastMCP's order. Their schemas may hold `$ref`.

        Where nothing has changed it returns the same tuple of the same entries as in the request before.
        """
        is_filtered = self._visibility.has_filter or self._only is not None
        return await self._cache.entries(await self._read_listing(), self._includes if is_filtered else None)

    async def suggest(self, name: str) -> list[str]:
        """Suggests up to three usable tools: those with names similar to `name`, else those that do what it says."""
        found = (await self.suggest_many([name]))[name] or await self._by_words(name)
        return [other for other in found if other != name]

    async def _by_words(self, name: str) -> list[str]:
        if self._index is None:
            return []
        try:
            index = await self._index.get()
            from codecall.catalog.search.analysis import name_parts  # loaded with the index

            words = " ".join(name_parts(name[:MAX_QUERY_CHARS]))
            searched = await index.search(await self.entries(), [words], timeout_s=INDEX_WAIT_S)
        except Exception:
            # What stops the index from being made is reported by a search; a hint does without.
            return []
        return [hit.entry.name for hit in searched.hits[0][:3] if hit.score >= MIN_HINT_SCORE]

    async def suggest_many(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Suggests tools with similar names for each of `names`, in one go; not by what they do."""
        if not names:
            return {}
        existing = [entry.name for entry in await self.entries()]
        if len(existing) * len(names) <= CHUNK:
            return _suggestions(names, existing)
        return await asyncio.to_thread(_suggestions, names, existing)

    async def namespaces(self) -> Namespaces:
        """Returns the namespaces of the tools that this caller and CodeCall may use."""
        entries = await self.entries()
        return await self._cache.namespaces(entries, (await self._read_listing()).apps.owners)

    async def describe(self, name: str) -> JsonObject | None:
        """Returns what `getTool(name)` returns: name, description, inputSchema and outputSchema."""
        entry = await self.find(name)
        if entry is None:
            return None
        return {
            "name": entry.name,
            "description": entry.description,
            "inputSchema": entry.input_schema,
            "outputSchema": entry.output_schema,
        }

    async def _read_listing(self) -> ToolListing:
        if self._listing is None:
            async with self._reading_lock:
                if self._listing is None:
                    self._listing = await self._cache.listing(self._server, self._list_tools, self._plugin_transform)
        return self._listing

    def _cached_entry(self, listing: ToolListing, tool: Tool) -> CatalogEntry | None:
        if listing.fingerprinted and tool.name in listing.presented:
            entry = listing.presented[tool.name]
        else:
            entry = self._presented_entry(listing, tool)
            if listing.fingerprinted:
                listing.presented[tool.name] = entry
        return entry if entry is not None and self._includes(tool) else None

    def _presented_entry(self, listing: ToolListing, tool: Tool) -> CatalogEntry | None:
        entry = self._cache.entry(listing, tool)
        if entry is None:
            return None
        input_schema = presentable_schema(entry.input_schema, dereference=self._dereference)
        output_schema = presentable_schema(entry.output_schema, dereference=self._dereference)
        if input_schema is entry.input_schema and output_schema is entry.output_schema:
            return entry
        return replace(entry, input_schema=input_schema or {}, output_schema=output_schema)

    def _includes(self, tool: Tool) -> bool:
        if self._only is not None and tool.name not in self._only:
            return False
        if tool.name not in self._included:
            self._included[tool.name] = self._visibility.includes(tool, tool.name)
        return self._included[tool.name]


def _suggestions(names: Sequence[str], existing: Sequence[str]) -> dict[str, list[str]]:
    from codecall.catalog.suggestions import similar_names  # loaded when a name is wrong

    return {name: similar_names(name, existing, limit=3) for name in names}
