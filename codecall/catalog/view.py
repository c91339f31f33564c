"""What one caller may see of the catalogue, read once per request.

A `CatalogView` belongs to one request. It reads FastMCP's listing for this caller (middleware, authorization and
versions applied) at the first question and never again; a script that calls no tool never reads it at all. `remembered`
saves most of the work where a listing or a tool is the same as in an earlier request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from fastmcp.server.transforms import Transform
from fastmcp.tools import Tool

from codecall.catalog.apps import Server
from codecall.catalog.entries import CatalogEntry, JsonObject
from codecall.catalog.listing import inlined
from codecall.catalog.reach import Reach
from codecall.catalog.remembered import Catalogue, Listing, Read
from codecall.catalog.unhurried import CHUNK


class CatalogView:
    """The tools of one caller in one request.

    Args:
        server: the server the request came to.
        read: gives the tools FastMCP would list for this caller, each name once, CodeCall's own left out.
        reach: which of them CodeCall may use.
        catalogue: what is remembered of the server, under the same `reach`.
        own: the plugin itself where `read` lists the tools beneath the server's middleware; None where it does more,
            and FastMCP has to be asked in every request.
        inline: whether `find` shows schemas without `$ref`, as the server's own listing does.
    """

    def __init__(
        self,
        server: Server,
        read: Read,
        reach: Reach,
        catalogue: Catalogue,
        *,
        own: Transform | None = None,
        inline: bool = False,
    ) -> None:
        self._server = server
        self._read = read
        self._reach = reach
        self._catalogue = catalogue
        self._own = own
        self._inline = inline
        self._reading = asyncio.Lock()
        self._listing: Listing | None = None
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

    async def exists(self, name: str) -> bool:
        """Whether FastMCP lists a tool of that name for this caller, in CodeCall's reach or out of it."""
        return name in (await self._list()).tools

    async def entries(self) -> tuple[CatalogEntry, ...]:
        """All tools that this caller and CodeCall may use, in FastMCP's order. Their schemas may hold `$ref`.

        Where nothing has changed it is the same tuple of the same entries as in the request before.
        """
        return await self._catalogue.entries(await self._list(), self._includes if self._reach.filters else None)

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

    async def _list(self) -> Listing:
        if self._listing is None:
            async with self._reading:
                if self._listing is None:
                    self._listing = await self._catalogue.listing(self._server, self._read, self._own)
        return self._listing

    def _find(self, listing: Listing, tool: Tool) -> CatalogEntry | None:
        entry = self._catalogue.entry(listing, tool)
        if entry is None or not self._includes(tool):
            return None
        if self._inline:
            schemas = {"input_schema": inlined(entry.input_schema), "output_schema": inlined(entry.output_schema)}
            entry = replace(entry, **schemas)
        return entry

    def _includes(self, tool: Tool) -> bool:
        if tool.name not in self._included:
            self._included[tool.name] = self._reach.includes(tool, tool.name)
        return self._included[tool.name]


def _near(names: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
    from codecall.catalog.near import near_names  # loaded when a name is wrong

    return {name: near_names(name, known, limit=3) for name in names}
