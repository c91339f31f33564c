"""The components of a server besides tools, as one caller may see them: resources, resource templates and prompts.

    components = component_view(context, options)
    await components.entries({"resource", "prompt"})

A `ComponentView` belongs to one request. Each kind is read once, when it is first needed, from FastMCP's own listing
for the caller, with its middleware. Components that hosts keep from the model are left out: pages of apps (`ui:`), and
those that declare another audience. Of the rest CodeCall may use what the mode, `app_ids` and `include_tools` admit, by
the same rules as for tools.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast
from weakref import WeakValueDictionary

from fastmcp import Context
from fastmcp.apps.config import is_model_visible
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.providers import AggregateProvider, Provider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.utilities.mime import UI_MIME_TYPE
from fastmcp.utilities.versions import dedupe_with_versions

from codecall.catalog.apps import AppResolver, FastMCPServer
from codecall.catalog.cache.fastmcp_internals import inner_provider
from codecall.catalog.entries import CatalogEntry, Example, JsonObject, Kind
from codecall.catalog.uris import (
    HIDDEN,
    DeclaredUris,
    HiddenComponent,
    ResolvedUri,
    UriComponent,
    declared_uris,
    is_app_page,
    resolve_uri,
)
from codecall.catalog.visibility import VisibilityPolicy, is_reserved
from codecall.concurrency import CHUNK, iterate_cooperatively
from codecall.options import PluginOptions
from codecall.sandbox.agentscript.policy import is_meta_tool

COMPONENT_KINDS: Final[tuple[Kind, ...]] = ("resource", "template", "prompt")
"""The kinds of components besides tools, in the order in which they are listed."""

_VARIABLE: Final = re.compile(r"\{(\??)([^{}]+)\}")

_entries_in_use: WeakValueDictionary[tuple[Kind, str, str], CatalogEntry] = WeakValueDictionary()
"""Entries in use, by kind, app and name; an equal one is reused, so that search recognises it by identity."""


class ComponentView:
    """The components besides tools that one caller may use in one request.

    Args:
        server: the server that the request is for.
        visibility: the plugin's rules, which hold for components as for tools.
    """

    def __init__(self, server: FastMCPServer, visibility: VisibilityPolicy) -> None:
        self._server = server
        self._visibility = visibility
        self._reading_lock = asyncio.Lock()
        self._apps: AppResolver | None = None
        self._listed: dict[Kind, dict[str, UriComponent]] = {}
        self._declared_uris: DeclaredUris | None = None
        self._entries: dict[tuple[Kind, str], CatalogEntry | None] = {}

    def fresh_copy(self) -> ComponentView:
        """Returns the same view before it has read anything: it shows what there is from now on."""
        return ComponentView(self._server, self._visibility)

    async def entries(self, kinds: Collection[Kind]) -> list[CatalogEntry]:
        """Returns all entries of these kinds that may be used: by kind as in `COMPONENT_KINDS`, then in FastMCP's
        order."""
        entries: list[CatalogEntry] = []
        for kind in COMPONENT_KINDS:
            if kind in kinds:
                listed = await self.list_components(kind)
                entries += [
                    entry async for name in iterate_cooperatively(listed) if (entry := self._entry(kind, name, listed))
                ]
        return entries

    async def find(self, kind: Kind, name: str) -> CatalogEntry | HiddenComponent | None:
        """Finds the component of exactly that URI, URI template or name; None where this caller does not see one."""
        listed = await self.list_components(kind)
        return (self._entry(kind, name, listed) or HIDDEN) if name in listed else None

    async def suggest(self, name: str, kinds: Collection[Kind] = COMPONENT_KINDS) -> list[str]:
        """Suggests up to three names similar to `name`, among those of these kinds that may be used; best first."""
        names = [entry.name for entry in await self.entries(kinds)]
        if len(names) <= CHUNK:
            return _suggestions(name, names)
        return await asyncio.to_thread(_suggestions, name, names)

    async def resolve(self, uri: str) -> ResolvedUri | HiddenComponent | None:
        """Resolves what FastMCP would read at `uri`, if this caller sees it in a listing; see `catalog/uris.py`."""
        return await resolve_uri(uri, self._server, self)

    async def list_components(self, kind: Kind) -> Mapping[str, UriComponent]:
        """Returns what FastMCP lists of one kind for this caller, by name; without what hosts keep from models."""
        if kind not in self._listed:
            async with self._reading_lock:
                if kind not in self._listed:
                    if self._apps is None:
                        self._apps = await AppResolver.from_server(self._server)
                    components = dedupe_with_versions(await self._read(kind), _name)
                    self._listed[kind] = {_name(item): item for item in components if _is_for_models(item)}
        return self._listed[kind]

    async def declared_uris(self) -> DeclaredUris:
        """Returns all URIs and URI templates of the server, whether or not this caller sees them."""
        if self._declared_uris is None:
            async with self._reading_lock:
                if self._declared_uris is None:
                    self._declared_uris = await declared_uris(self._server)
        return self._declared_uris

    async def _read(self, kind: Kind) -> Sequence[UriComponent]:
        match kind:
            case "resource":
                return await self._server.list_resources()
            case "template":
                return await self._server.list_resource_templates()
            case "prompt":
                return await self._server.list_prompts()
            case "tool":
                return ()

    def _entry(self, kind: Kind, name: str, listed: Mapping[str, UriComponent]) -> CatalogEntry | None:
        key = kind, name
        if key not in self._entries:
            component = listed.get(name)
            if component is None:
                return None
            self._entries[key] = self._usable(kind, component)
        return self._entries[key]

    def _usable(self, kind: Kind, component: UriComponent) -> CatalogEntry | None:
        name = _name(component)
        metadata = self._visibility.metadata(name, component.meta)
        origin = self._apps.origin(component) if self._apps else None
        app_id = metadata.app_id or (origin.app_id if origin else self._server.name)
        names = (component.name, origin.unprefixed_name if origin else name)
        if any(map(is_reserved, names)) or is_meta_tool(name):
            return None
        if not (self._visibility.allows(name, metadata, app_id) and self._visibility.includes(component, name)):
            return None
        entry = CatalogEntry(
            name=name,
            app_id=app_id,
            description=component.description or "",
            input_schema=_input_schema(component),
            annotations={} if isinstance(component, Prompt) else {"mimeType": component.mime_type},
            tags=frozenset(component.tags) | frozenset(metadata.tags),
            examples=tuple(Example(example.description, example.code) for example in metadata.examples),
            title=component.title or (component.name if component.name != name else None),
            version=component.version,
            kind=kind,
            owner=origin.owner if origin else None,
            about=origin.about if origin else "",
        )
        in_use = _entries_in_use.get((kind, app_id, name))
        # Equal schemas may still differ, as 1 and True do.
        if in_use is not None and in_use == entry and repr(in_use.input_schema) == repr(entry.input_schema):
            return in_use
        _entries_in_use[kind, app_id, name] = entry
        return entry


class _OptionsKey:
    """A key of a cache that compares options by identity."""

    def __init__(self, options: PluginOptions) -> None:
        self.options = options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OptionsKey) and other.options is self.options

    def __hash__(self) -> int:
        return id(self.options)


@lru_cache(maxsize=64)
def _policy_from_options(options: _OptionsKey) -> VisibilityPolicy:
    return VisibilityPolicy(options.options)


def component_view(context: Context, options: PluginOptions) -> ComponentView:
    """Returns the view of the caller of this request; it lists nothing yet."""
    return ComponentView(cast("FastMCPServer", context.fastmcp), _policy_from_options(_OptionsKey(options)))


def _name(component: UriComponent) -> str:
    if isinstance(component, Resource):
        return str(component.uri)
    return component.uri_template if isinstance(component, ResourceTemplate) else component.name


def _is_for_models(component: UriComponent) -> bool:
    if not is_model_visible(component):
        return False
    return isinstance(component, Prompt) or not (is_app_page(_name(component)) or component.mime_type == UI_MIME_TYPE)


def _input_schema(component: UriComponent) -> JsonObject:
    if isinstance(component, Resource):
        return {"type": "object", "properties": {}}
    if isinstance(component, ResourceTemplate):
        return component.parameters or _schema_from_template(component.uri_template)
    arguments = component.arguments or []
    properties: JsonObject = {}
    for argument in arguments:
        description = {} if argument.description is None else {"description": argument.description}
        properties[argument.name] = {"type": "string", **description}
    required = [argument.name for argument in arguments if argument.required]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _schema_from_template(template: str) -> JsonObject:
    """The input schema of another server's template, of which only the text is known."""
    optional: dict[str, bool] = {}
    for mark, names in _VARIABLE.findall(template):
        for name in names.split(","):
            optional[name.strip().removesuffix("*").replace("-", "_")] = bool(mark)
    required = [name for name, left_out in optional.items() if not left_out]
    return {"type": "object", "properties": {name: {"type": "string"} for name in optional}, "required": required}


def _suggestions(name: str, names: Sequence[str]) -> list[str]:
    from codecall.catalog.suggestions import similar_names  # loaded when a name is wrong

    return similar_names(name, names, limit=3)


def providers_and_transforms(server: FastMCPServer) -> Iterator[object]:
    """Yields a server, its providers and its transforms, and those of each server that is mounted on it."""
    waiting: list[Provider] = [server]
    seen: set[int] = set()
    while waiting:
        provider = waiting.pop()
        if id(provider) in seen:
            continue
        seen.add(id(provider))
        yield provider
        yield from provider.transforms
        inner = provider.server if isinstance(provider, FastMCPProvider) else inner_provider(provider)
        if inner is not None:
            waiting.append(inner)
        elif isinstance(provider, AggregateProvider):
            waiting.extend(provider.providers)
