"""What a server offers besides tools, as one caller may see it: resources, templates of resources, and prompts.

    offers = offers_of(context, options)
    await offers.entries({"resource", "prompt"})

A `ComponentView` belongs to one request. Each kind is read from FastMCP's own listing for the caller, with its
middleware, when it is first asked for, and never again. What a host keeps from the model stays out: pages of apps
(`ui:`), and what
declares another audience. Of the rest CodeCall may use what the mode, `app_ids` and `include_tools` leave it, by the
same rules as for tools.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast
from weakref import WeakValueDictionary

from fastmcp import Context
from fastmcp.apps.config import is_model_visible
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.utilities.mime import UI_MIME_TYPE
from fastmcp.utilities.versions import dedupe_with_versions

from codecall.catalog.apps import AppResolver, FastMCPServer
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
"""The kinds of entries here, in the order in which they are listed."""

_VARIABLE: Final = re.compile(r"\{(\??)([^{}]+)\}")

_known: WeakValueDictionary[tuple[Kind, str, str], CatalogEntry] = WeakValueDictionary()
"""By kind, app and name, the entries that somebody keeps; an equal one is used again, as in `catalog/view.py`."""


class ComponentView:
    """What one caller may use of a server in one request, tools aside.

    Args:
        server: the server the request came to.
        reach: what of it CodeCall may use.
    """

    def __init__(self, server: FastMCPServer, visibility: VisibilityPolicy) -> None:
        self._server = server
        self._reach = visibility
        self._reading = asyncio.Lock()
        self._apps: AppResolver | None = None
        self._listed: dict[Kind, dict[str, UriComponent]] = {}
        self._held: DeclaredUris | None = None
        self._entries: dict[tuple[Kind, str], CatalogEntry | None] = {}

    async def entries(self, kinds: Collection[Kind]) -> list[CatalogEntry]:
        """All of these kinds that this caller and CodeCall may use: by kind as in `KINDS`, then in FastMCP's order."""
        found: list[CatalogEntry] = []
        for kind in COMPONENT_KINDS:
            if kind in kinds:
                listed = await self.list_components(kind)
                found += [
                    entry async for name in iterate_cooperatively(listed) if (entry := self._entry(kind, name, listed))
                ]
        return found

    async def find(self, kind: Kind, name: str) -> CatalogEntry | HiddenComponent | None:
        """The one of exactly that URI, URI template or name; None for what this caller does not see."""
        listed = await self.list_components(kind)
        return (self._entry(kind, name, listed) or HIDDEN) if name in listed else None

    async def suggest(self, name: str, kinds: Collection[Kind] = COMPONENT_KINDS) -> list[str]:
        """Up to three names that look like `name`, among those of these kinds that may be used; best first."""
        names = [entry.name for entry in await self.entries(kinds)]
        if len(names) <= CHUNK:
            return _near(name, names)
        return await asyncio.to_thread(_near, name, names)

    async def resolve(self, uri: str) -> ResolvedUri | HiddenComponent | None:
        """What FastMCP would read at `uri`, if this caller sees it in a listing; `catalog/uris.py` says how."""
        return await resolve_uri(uri, self._server, self)

    async def list_components(self, kind: Kind) -> Mapping[str, UriComponent]:
        """What FastMCP lists of that kind for this caller, by name; without what hosts keep from models."""
        if kind not in self._listed:
            async with self._reading:
                if kind not in self._listed:
                    if self._apps is None:
                        self._apps = await AppResolver.from_server(self._server)
                    components = dedupe_with_versions(await self._read(kind), _name)
                    self._listed[kind] = {_name(item): item for item in components if _for_models(item)}
        return self._listed[kind]

    async def declared_uris(self) -> DeclaredUris:
        """All that the server has a URI for, whether or not this caller sees it."""
        if self._held is None:
            async with self._reading:
                if self._held is None:
                    self._held = await declared_uris(self._server)
        return self._held

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
        metadata = self._reach.metadata(name, component.meta)
        origin = self._apps.origin(component) if self._apps else None
        app_id = metadata.app_id or (origin.app_id if origin else self._server.name)
        own = (component.name, origin.unprefixed_name if origin else name)
        if any(map(is_reserved, own)) or is_meta_tool(name):
            return None
        if not (self._reach.allows(name, metadata, app_id) and self._reach.includes(component, name)):
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
        )
        known = _known.get((kind, app_id, name))
        # Equal schemas may still differ, as 1 and True do.
        if known is not None and known == entry and repr(known.input_schema) == repr(entry.input_schema):
            return known
        _known[kind, app_id, name] = entry
        return entry


class _Same:
    """Options as a key: the very same object."""

    def __init__(self, options: PluginOptions) -> None:
        self.options = options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.options is self.options

    def __hash__(self) -> int:
        return id(self.options)


@lru_cache(maxsize=64)
def _reach_of(options: _Same) -> VisibilityPolicy:
    return VisibilityPolicy(options.options)


def component_view(context: Context, options: PluginOptions) -> ComponentView:
    """What the caller of this request may use besides tools; lists nothing yet."""
    return ComponentView(cast("FastMCPServer", context.fastmcp), _reach_of(_Same(options)))


def _name(component: UriComponent) -> str:
    if isinstance(component, Resource):
        return str(component.uri)
    return component.uri_template if isinstance(component, ResourceTemplate) else component.name


def _for_models(component: UriComponent) -> bool:
    if not is_model_visible(component):
        return False
    return isinstance(component, Prompt) or not (is_app_page(_name(component)) or component.mime_type == UI_MIME_TYPE)


def _input_schema(component: UriComponent) -> JsonObject:
    if isinstance(component, Resource):
        return {"type": "object", "properties": {}}
    if isinstance(component, ResourceTemplate):
        return component.parameters or _variables(component.uri_template)
    arguments = component.arguments or []
    properties: JsonObject = {}
    for argument in arguments:
        described = {} if argument.description is None else {"description": argument.description}
        properties[argument.name] = {"type": "string", **described}
    required = [argument.name for argument in arguments if argument.required]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _variables(template: str) -> JsonObject:
    """The parameters of another server's template, of which only the text is known."""
    optional: dict[str, bool] = {}
    for mark, names in _VARIABLE.findall(template):
        for name in names.split(","):
            optional[name.strip().removesuffix("*").replace("-", "_")] = bool(mark)
    required = [name for name, left_out in optional.items() if not left_out]
    return {"type": "object", "properties": {name: {"type": "string"} for name in optional}, "required": required}


def _near(name: str, names: Sequence[str]) -> list[str]:
    from codecall.catalog.suggestions import similar_names  # loaded when a name is wrong

    return similar_names(name, names, limit=3)
