"""Caches a server's tool listing and the entry of each tool between requests.

The cache never decides what a caller may see. A listing is reused only where its fingerprint proves that FastMCP would
list the same tools for this caller now; an entry is reused only for a tool that FastMCP has listed, and whose fields
are what they were when the entry was made.
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

from codecall.catalog.apps import AppOwners, AppResolver, ComponentOrigin, FastMCPServer
from codecall.catalog.cache.fingerprint import Fingerprint
from codecall.catalog.entries import META_KEY, CatalogEntry, Example, JsonObject, ToolMetadata
from codecall.catalog.visibility import VisibilityPolicy, is_reserved
from codecall.concurrency import CHUNK, iterate_cooperatively
from codecall.namespaces import Namespaces

MAX_SERVERS = 32
"""Servers of one plugin that have a cache; the one unused for longest is dropped first."""

MAX_VIEWS = 8
"""Different lists of entries of one catalog that are recognised when they come up again unchanged."""

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

_compared_fields = attrgetter("description", "title", "annotations", "parameters", "output_schema", "tags")

ListTools = Callable[[], Awaitable[Sequence[Tool]]]
"""Returns the tools that FastMCP would list for this caller, each name once, without CodeCall's own."""


@dataclass(slots=True, eq=False)
class ToolListing:
    """The tools that FastMCP lists for a caller, and the apps they belong to."""

    tools: Mapping[str, Tool]
    apps: AppResolver
    usable: tuple[tuple[Tool, CatalogEntry], ...] | None = None
    """The tools that CodeCall may use, `include_tools` aside; None until all entries are first needed."""
    entries: tuple[CatalogEntry, ...] = ()
    """The entries of `usable`."""
    fingerprinted: bool = False
    """Whether the listing has a fingerprint: then the tools are those that calls reach."""
    presented: dict[str, CatalogEntry | None] = field(default_factory=dict[str, "CatalogEntry | None"])
    """The entries that were looked up one by one, as callers see them; only of a listing with a fingerprint."""


class _FingerprintedListing(NamedTuple):
    fingerprint: Fingerprint
    listing: ToolListing


class _Record(NamedTuple):
    """The fields of a tool, and its entry; None where CodeCall may not use it."""

    tool: tuple[object, ...]
    tags: set[str]
    section: bytes
    origin: ComponentOrigin
    entry: CatalogEntry | None


@dataclass(slots=True)
class _SharedListing:
    """Lets the requests of one event loop that come at the same time share one listing, if it was begun after they
    came."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    started: int = 0
    completed: int = 0
    """The number of the last listing that was completed."""
    result: _FingerprintedListing | None = None


class CatalogCache:
    """The cache of one server for one plugin.

    Args:
        visibility: the plugin's rules about tools.
    """

    def __init__(self, visibility: VisibilityPolicy) -> None:
        self._visibility = visibility
        self._fingerprinted: _FingerprintedListing | None = None
        self._shared: WeakKeyDictionary[asyncio.AbstractEventLoop, _SharedListing] = WeakKeyDictionary()
        self._records: dict[tuple[str, str | None], _Record] = {}
        self._views: deque[tuple[CatalogEntry, ...]] = deque(maxlen=MAX_VIEWS)
        self._namespaces: deque[tuple[tuple[CatalogEntry, ...], AppOwners, Namespaces]] = deque(maxlen=MAX_VIEWS)

    async def listing(
        self, server: FastMCPServer, list_tools: ListTools, plugin_transform: Transform | None
    ) -> ToolListing:
        """Returns what FastMCP lists for this caller at this moment.

        Args:
            server: the server of this cache.
            list_tools: asks FastMCP.
            plugin_transform: the transform of `server` that lets all tools pass meanwhile; None where `list_tools` does
                more than list the tools beneath the server's middleware, and has to be called every time.
        """
        if plugin_transform is None:
            return await _read_listing(server, list_tools)
        shared = self._shared.setdefault(asyncio.get_running_loop(), _SharedListing())
        arrived = shared.started
        async with shared.lock:
            if shared.completed <= arrived:
                shared.started += 1
                number = shared.started
                shared.result = await self._fingerprinted_listing(server, list_tools, plugin_transform)
                shared.completed = number
            result = shared.result
        if result is None or not await result.fingerprint.applies_to_session(server):
            return await _read_listing(server, list_tools)
        return result.listing

    async def _fingerprinted_listing(
        self, server: FastMCPServer, list_tools: ListTools, plugin_transform: Transform
    ) -> _FingerprintedListing | None:
        """The listing of all sessions without rules of their own; None where the server has no fingerprint."""
        old = self._fingerprinted
        if old is not None and await old.fingerprint.holds(server, plugin_transform):
            return old
        self._fingerprinted = None
        fingerprint = await Fingerprint.from_server(server, plugin_transform)
        if fingerprint is None or not await fingerprint.applies_to_session(server):
            return None
        listing = await _read_listing(server, list_tools)
        # What changed while FastMCP was listing may be in the listing or not.
        if not (await fingerprint.holds(server, plugin_transform) and await fingerprint.applies_to_session(server)):
            return None
        listing.fingerprinted = True
        self._fingerprinted = _FingerprintedListing(fingerprint, listing)
        return self._fingerprinted

    def entry(self, listing: ToolListing, tool: Tool) -> CatalogEntry | None:
        """Makes an entry of one listed tool; None where CodeCall may not use it, whatever `include_tools` says."""
        return self._new_entry(tool, listing.apps.origin(tool))

    async def entries(
        self, listing: ToolListing, is_included: Callable[[Tool], bool] | None
    ) -> tuple[CatalogEntry, ...]:
        """Returns all entries that CodeCall may use of a listing, in its order; the same tuple where nothing has
        changed.

        Args:
            listing: a result of `listing`.
            is_included: called for each tool that passes every other rule; None includes all.
        """
        if listing.usable is None:
            offered = await self._usable(listing)
            listing.entries = self._same_tuple(tuple(entry for _, entry in offered))
            listing.usable = offered
        if is_included is None:
            return listing.entries
        included = [entry async for tool, entry in iterate_cooperatively(listing.usable) if is_included(tool)]
        return self._same_tuple(tuple(included))

    async def namespaces(self, entries: tuple[CatalogEntry, ...], owners: AppOwners) -> Namespaces:
        """Returns the namespaces of a result of `entries` on a server with these `owners`; they are read from the names
        once."""
        for view, known_owners, namespaces in self._namespaces:
            if view is entries and known_owners == owners:
                return namespaces
        namespaces = Namespaces(owners.names, owners.home)
        async for entry in iterate_cooperatively(entries):
            namespaces.add(entry.name, entry.app_id, entry.owner)
        self._namespaces.appendleft((entries, owners, namespaces))
        return namespaces

    async def _usable(self, listing: ToolListing) -> tuple[tuple[Tool, CatalogEntry], ...]:
        offered: list[tuple[Tool, CatalogEntry]] = []
        async for tool in iterate_cooperatively(listing.tools.values()):
            entry = self._cached_entry(tool, listing.apps.origin(tool))
            if entry is not None:
                offered.append((tool, entry))
        self._visibility.warn_of_unseen_apps()
        if len(self._records) > 2 * len(listing.tools) + CHUNK:
            listed = {(tool.name, tool.version) for tool in listing.tools.values()}
            self._records = {key: record for key, record in self._records.items() if key in listed}
        return tuple(offered)

    def _same_tuple(self, entries: tuple[CatalogEntry, ...]) -> tuple[CatalogEntry, ...]:
        for view in self._views:
            if len(view) == len(entries) and all(map(is_, view, entries)):
                return view
        self._views.appendleft(entries)
        return entries

    def _cached_entry(self, tool: Tool, origin: ComponentOrigin) -> CatalogEntry | None:
        """The entry that this tool had when it was last listed, if its fields are unchanged; else a new one."""
        try:
            section = marshal.dumps((tool.meta or {}).get(META_KEY), 2)
        except ValueError:
            return self._new_entry(tool, origin)  # `meta` is no plain data
        key = (tool.name, tool.version)
        old = self._records.get(key)
        if old is not None and section == old.section and origin == old.origin and _is_unchanged(tool, old):
            return old.entry
        entry = self._new_entry(tool, origin)
        self._records[key] = _Record(_compared_fields(tool), set(tool.tags), section, origin, entry)
        return entry

    def _new_entry(self, tool: Tool, origin: ComponentOrigin) -> CatalogEntry | None:
        metadata = self._visibility.metadata(tool.name, tool.meta)
        app_id = metadata.app_id or origin.app_id
        if not metadata.meta_tool:
            self._visibility.add_app(app_id)
        if is_reserved(origin.unprefixed_name) or not self._visibility.allows(tool.name, metadata, app_id):
            return None
        return entry_from_tool(tool, metadata, app_id, origin)


class CatalogCaches:
    """The caches of the servers that one plugin serves.

    Args:
        visibility: the plugin's rules about tools.
    """

    def __init__(self, visibility: VisibilityPolicy) -> None:
        self._visibility = visibility
        self._caches: WeakKeyDictionary[FastMCPServer, CatalogCache] = WeakKeyDictionary()

    def for_server(self, server: FastMCPServer) -> CatalogCache:
        """Returns the cache of `server`."""
        cache = self._caches.pop(server, None) or CatalogCache(self._visibility)
        self._caches[server] = cache
        if len(self._caches) > MAX_SERVERS:
            self._caches.pop(next(iter(self._caches)), None)
        return cache


async def _read_listing(server: FastMCPServer, list_tools: ListTools) -> ToolListing:
    apps = await AppResolver.from_server(server)
    return ToolListing({tool.name: tool for tool in await list_tools()}, apps)


def _is_unchanged(tool: Tool, old: _Record) -> bool:
    """Whether the fields of a tool are unchanged: the same objects, or copies such as the tools of a mounted server."""
    now = _compared_fields(tool)
    if not all(map(is_, now, old.tool)):
        *texts, parameters, output_schema, _ = now
        *old_texts, old_parameters, old_output_schema, _ = old.tool
        if not (
            texts == old_texts
            and _equal_schemas(parameters, old_parameters)
            and _equal_schemas(output_schema, old_output_schema)
        ):
            return False
    return tool.tags == old.tags


def _equal_schemas(one: object, other: object) -> bool:
    """Whether two schemas hold the very same objects, or serialize alike: equal ones may differ, as 1 and True do."""
    if one is other or not (isinstance(one, dict) and isinstance(other, dict)):
        return one is other
    mine, others = cast("JsonObject", one), cast("JsonObject", other)
    if list(mine) == list(others) and all(map(is_, mine.values(), others.values())):
        return True
    try:
        return marshal.dumps(mine, 2) == marshal.dumps(others, 2)
    except ValueError:
        return False


def entry_from_tool(tool: Tool, metadata: ToolMetadata, app_id: str, origin: ComponentOrigin) -> CatalogEntry:
    """The entry of a tool, of what FastMCP lists, its own metadata says, and where it comes from."""
    annotations: JsonObject = {}
    if tool.annotations is not None:
        hints = tool.annotations.model_dump(by_alias=True, exclude_none=True)
        annotations = {hint: hints[hint] for hint in _HINTS if hint in hints}
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
        owner=origin.owner,
        about=origin.about,
    )


def _value_schema(schema: JsonObject | None) -> JsonObject | None:
    """The schema of the value a script gets: without the wrapper that FastMCP puts around values that are no
    objects."""
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
