"""What is remembered of a server's catalog between requests: its listing, and the entry of each tool.

Nothing of this decides what a caller may see. A listing is used again only where `fingerprint` proves that FastMCP
would list the same tools for this caller now; an entry only for a tool that FastMCP has listed, and that says what it
said when the entry was made.
"""

from __future__ import annotations

import asyncio
import marshal
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, is_
from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

from fastmcp.server.transforms import Transform
from fastmcp.tools import Tool

from codecall.catalog.apps import AppResolver, ComponentOrigin, FastMCPServer
from codecall.catalog.cache.fingerprint import Fingerprint
from codecall.catalog.entries import META_KEY, CatalogEntry, Example, JsonObject, ToolMetadata
from codecall.catalog.visibility import VisibilityPolicy, is_reserved
from codecall.concurrency import CHUNK, iterate_cooperatively
from codecall.namespaces import Namespaces

MAX_SERVERS = 32
"""Servers of one plugin whose catalogs are remembered; the one unused for longest goes first."""

MAX_VIEWS = 8
"""Different views of one catalog that are known again when they come up unchanged."""

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

_said = attrgetter("description", "title", "annotations", "parameters", "output_schema", "tags")

ListTools = Callable[[], Awaitable[Sequence[Tool]]]
"""Gives the tools FastMCP would list for this caller, each name once, CodeCall's own left out."""


@dataclass(slots=True, eq=False)
class ToolListing:
    """The tools that FastMCP lists for a caller, and the apps they belong to."""

    tools: Mapping[str, Tool]
    apps: AppResolver
    usable: tuple[tuple[Tool, CatalogEntry], ...] | None = None
    """Those that CodeCall may use, `include_tools` aside; once somebody has asked for all."""
    entries: tuple[CatalogEntry, ...] = ()
    """The same without the tools."""
    fingerprinted: bool = False
    """Whether it has a fingerprint: then the tools are those that calls reach."""
    presented: dict[str, CatalogEntry | None] = field(default_factory=dict[str, "CatalogEntry | None"])
    """Of a listing with a fingerprint, the entries that were asked for one by one, as they are shown."""


class _Proved(NamedTuple):
    fingerprint: Fingerprint
    listing: ToolListing


class _Record(NamedTuple):
    """A tool, and the entry it has; None where CodeCall may not use it."""

    tool: tuple[object, ...]
    tags: set[str]
    section: bytes
    origin: ComponentOrigin
    entry: CatalogEntry | None


@dataclass(slots=True)
class _Turns:
    """Requests of one event loop that ask at the same time share one answer, if it was looked for after they came."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    begun: int = 0
    ended: int = 0
    """The last look that found an answer."""
    proved: _Proved | None = None


class CatalogCache:
    """What is remembered of one server for one plugin.

    Args:
        reach: the plugin's rules about tools.
    """

    def __init__(self, visibility: VisibilityPolicy) -> None:
        self._reach = visibility
        self._proved: _Proved | None = None
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()
        self._records: dict[tuple[str, str | None], _Record] = {}
        self._views: deque[tuple[CatalogEntry, ...]] = deque(maxlen=MAX_VIEWS)
        self._spaces: deque[tuple[tuple[CatalogEntry, ...], Namespaces]] = deque(maxlen=MAX_VIEWS)

    async def listing(
        self, server: FastMCPServer, list_tools: ListTools, plugin_transform: Transform | None
    ) -> ToolListing:
        """What FastMCP lists for this caller at this moment.

        Args:
            server: the server of this catalog.
            read: asks FastMCP.
            own: the transform of `server` that lets all tools pass meanwhile; None where `read` does more than list
                the tools beneath the server's middleware, and has to be asked every time.
        """
        if plugin_transform is None:
            return await _listed(server, list_tools)
        turns = self._turns.setdefault(asyncio.get_running_loop(), _Turns())
        came = turns.begun
        async with turns.lock:
            if turns.ended <= came:
                turns.begun += 1
                number = turns.begun
                turns.proved = await self._prove(server, list_tools, plugin_transform)
                turns.ended = number
            proved = turns.proved
        if proved is None or not await proved.fingerprint.applies_to_session(server):
            return await _listed(server, list_tools)
        return proved.listing

    async def _prove(self, server: FastMCPServer, read: ListTools, own: Transform) -> _Proved | None:
        """The listing of every caller without rules of its own; None where there is no such thing."""
        old = self._proved
        if old is not None and await old.fingerprint.holds(server, own):
            return old
        self._proved = None
        fingerprint = await Fingerprint.from_server(server, own)
        if fingerprint is None or not await fingerprint.applies_to_session(server):
            return None
        listing = await _listed(server, read)
        # What changed while FastMCP was listing may be in the listing or not.
        if not (await fingerprint.holds(server, own) and await fingerprint.applies_to_session(server)):
            return None
        listing.fingerprinted = True
        self._proved = _Proved(fingerprint, listing)
        return self._proved

    def entry(self, listing: ToolListing, tool: Tool) -> CatalogEntry | None:
        """A fresh entry of one listed tool; None where CodeCall may not use it, whatever `include_tools` says."""
        return self._made(tool, listing.apps.origin(tool))

    async def entries(
        self, listing: ToolListing, is_included: Callable[[Tool], bool] | None
    ) -> tuple[CatalogEntry, ...]:
        """All that CodeCall may use of a listing, in its order; the same tuple as before where nothing has changed.

        Args:
            listing: what `listing` gave.
            included: asked for each tool that passes everything else.
        """
        if listing.usable is None:
            offered = await self._offered(listing)
            listing.entries = self._known(tuple(entry for _, entry in offered))
            listing.usable = offered
        if is_included is None:
            return listing.entries
        chosen = [entry async for tool, entry in iterate_cooperatively(listing.usable) if is_included(tool)]
        return self._known(tuple(chosen))

    async def namespaces(self, entries: tuple[CatalogEntry, ...]) -> Namespaces:
        """The namespaces of what `entries` gave; read from their names once."""
        for view, known in self._spaces:
            if view is entries:
                return known
        spaces = Namespaces()
        async for entry in iterate_cooperatively(entries):
            spaces.add(entry.name, entry.app_id)
        self._spaces.appendleft((entries, spaces))
        return spaces

    async def _offered(self, listing: ToolListing) -> tuple[tuple[Tool, CatalogEntry], ...]:
        offered: list[tuple[Tool, CatalogEntry]] = []
        async for tool in iterate_cooperatively(listing.tools.values()):
            entry = self._remembered(tool, listing.apps.origin(tool))
            if entry is not None:
                offered.append((tool, entry))
        if len(self._records) > 2 * len(listing.tools) + CHUNK:
            listed = {(tool.name, tool.version) for tool in listing.tools.values()}
            self._records = {key: record for key, record in self._records.items() if key in listed}
        return tuple(offered)

    def _known(self, entries: tuple[CatalogEntry, ...]) -> tuple[CatalogEntry, ...]:
        for view in self._views:
            if len(view) == len(entries) and all(map(is_, view, entries)):
                return view
        self._views.appendleft(entries)
        return entries

    def _remembered(self, tool: Tool, origin: ComponentOrigin) -> CatalogEntry | None:
        """The entry this tool had when it was last listed, if it says the same still."""
        try:
            section = marshal.dumps((tool.meta or {}).get(META_KEY), 2)
        except ValueError:
            return self._made(tool, origin)  # `meta` is no plain data
        key = (tool.name, tool.version)
        old = self._records.get(key)
        if old is not None and section == old.section and origin == old.origin and _says(tool, old):
            return old.entry
        entry = self._made(tool, origin)
        self._records[key] = _Record(_said(tool), set(tool.tags), section, origin, entry)
        return entry

    def _made(self, tool: Tool, origin: ComponentOrigin) -> CatalogEntry | None:
        metadata = self._reach.metadata(tool.name, tool.meta)
        app_id = metadata.app_id or origin.app_id
        if is_reserved(origin.unprefixed_name) or not self._reach.allows(tool.name, metadata, app_id):
            return None
        return _entry_of(tool, metadata, app_id)


class CatalogCaches:
    """The catalogs of the servers that one plugin serves.

    Args:
        reach: the plugin's rules about tools.
    """

    def __init__(self, visibility: VisibilityPolicy) -> None:
        self._reach = visibility
        self._of: WeakKeyDictionary[FastMCPServer, CatalogCache] = WeakKeyDictionary()

    def for_server(self, server: FastMCPServer) -> CatalogCache:
        """What is remembered of `server`."""
        found = self._of.pop(server, None) or CatalogCache(self._reach)
        self._of[server] = found
        if len(self._of) > MAX_SERVERS:
            self._of.pop(next(iter(self._of)), None)
        return found


async def _listed(server: FastMCPServer, read: ListTools) -> ToolListing:
    apps = await AppResolver.from_server(server)
    return ToolListing({tool.name: tool for tool in await read()}, apps)


def _says(tool: Tool, old: _Record) -> bool:
    """Whether a tool says what it said: the same objects, or copies of them such as a mounted server's tools are."""
    now = _said(tool)
    if not all(map(is_, now, old.tool)):
        *texts, parameters, output_schema, _ = now
        *old_texts, old_parameters, old_output_schema, _ = old.tool
        if not (texts == old_texts and _alike(parameters, old_parameters) and _alike(output_schema, old_output_schema)):
            return False
    return tool.tags == old.tags


def _alike(one: object, other: object) -> bool:
    """Whether two schemas hold the very same objects, or are written alike: equal ones may differ, as 1 and True do."""
    if one is other or not (isinstance(one, dict) and isinstance(other, dict)):
        return one is other
    mine, others = cast("JsonObject", one), cast("JsonObject", other)
    if list(mine) == list(others) and all(map(is_, mine.values(), others.values())):
        return True
    try:
        return marshal.dumps(mine, 2) == marshal.dumps(others, 2)
    except ValueError:
        return False


def _entry_of(tool: Tool, metadata: ToolMetadata, app_id: str) -> CatalogEntry:
    annotations: JsonObject = {}
    if tool.annotations is not None:
        said = tool.annotations.model_dump(by_alias=True, exclude_none=True)
        annotations = {hint: said[hint] for hint in _HINTS if hint in said}
    return CatalogEntry(
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
