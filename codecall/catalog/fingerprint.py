"""Proof that a server would list the same tools again, for far less than listing them: see `Fingerprint`.

What `FastMCP.list_tools` (4.1) makes of a server follows from the table below, read from its source. A part of any
other kind, or one with a method of its own, has no fingerprint, and the server is asked on every request.

| a listing depends on | known kinds | compared |
|---|---|---|
| the server, and each server mounted on it | exactly `FastMCP` | the object, its name |
| their middleware | what sees no listings; `DereferenceRefsMiddleware`, which changes schemas alone | the objects |
| injected tools | exactly `ToolInjectionMiddleware` | as the tools |
| their providers | `LocalProvider`, `FastMCPProvider`, `AggregateProvider`, the wrapper; `stating.py`'s | the objects |
| transforms of both | the plugin; exactly `Namespace`, `Visibility`, `VersionFilter` | the objects, what they hold |
| the tools at the bottom | `Tool` and kinds that copy and name themselves as it does | the objects, every field |
| their tags and `meta`, which may change in place | | a copy, by value |
| the caller: `auth` of a tool | none has any | that it is still so |
| the caller: visibility rules of the session | none in force | asked of every server, on every request |

What stands inside a schema is not looked at: a tool is changed by giving it another schema. The tests go through the
table line by line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import cast

import fastmcp
from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers import AggregateProvider, LocalProvider, Provider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.transforms import Namespace, Transform, VersionFilter, Visibility
from fastmcp.server.transforms.visibility import get_visibility_rules
from fastmcp.tools import Tool

from codecall.catalog.apps import Server
from codecall.catalog.listing import reads_beneath
from codecall.catalog.stating import SaysItsTools, says_its_tools
from codecall.catalog.tool_pages import Page, UnknownError, pages_of, same

READ = "4.1."
"""The releases of FastMCP whose listing the table describes. Any other is asked on every request."""

MAX_DEPTH = 20
"""Servers in servers, and wrappers around wrappers, beyond which there is no fingerprint: a circle has no end."""

# The wrapper that a namespace puts around a provider has no public name.
_WRAPPER = type(Provider().wrap_transform(Transform()))

_PROVIDERS = frozenset({LocalProvider, FastMCPProvider, AggregateProvider, _WRAPPER})
_TRANSFORMS = frozenset({Namespace, Visibility, VersionFilter})

# An attribute of one object of that name would be used in place of what its class has.
_OF_PROVIDERS = frozenset({"list_tools", "_list_tools", "_collect_list_results"})
_OF_SERVERS = _OF_PROVIDERS.union(
    ("_dispatch_component_middleware", "_run_middleware", "_injected_tools", "_rewrite_prefab_uris")
)
_OF_TRANSFORMS = frozenset({"list_tools", "_matches", "_mark_component", "_transform_name"})
_OF_INJECTION = frozenset({"injected_tools"})
_OF_TOOLS = ("__getattribute__", "__getattr__", "__copy__", "model_copy", "get_meta", "key")


@dataclass(slots=True)
class _Tree:
    """What a walk over a server and everything mounted on it finds."""

    mounted: list[Server] = field(default_factory=list["Server"])
    objects: list[object] = field(default_factory=list[object])
    """Compared by identity."""
    facts: list[object] = field(default_factory=list[object])
    """Compared by value."""
    tools: list[Tool] = field(default_factory=list[Tool])
    stated: list[Sequence[Tool] | None] = field(default_factory=list[Sequence[Tool] | None])
    """By providers themselves; compared by identity, each as a whole."""

    async def server(self, server: Server, own: Transform | None, depth: int = 0) -> None:
        """Add a server; `own` is the one transform that lets everything pass while CodeCall lists."""
        _known(server, {FastMCP}, _OF_SERVERS)
        if depth > MAX_DEPTH or not reads_beneath(server.middleware):
            raise UnknownError
        if depth:  # the first would only keep itself alive
            self.mounted.append(server)
        self.objects += server.middleware
        for item in server.middleware:
            if isinstance(item, ToolInjectionMiddleware):
                _known(item, {ToolInjectionMiddleware}, _OF_INJECTION)
                self._add(item.injected_tools)
        self.facts += [server.name, len(server.middleware)]
        await self._providers(server.providers, depth)
        self._transforms([transform for transform in server.transforms if transform is not own])

    async def _providers(self, providers: Sequence[Provider], depth: int) -> None:
        self.facts.append(len(providers))
        for provider in map(self._unwrapped, providers):
            if says_its_tools(provider):
                self.stated.append(cast("SaysItsTools", provider).codecall_tools)
            elif isinstance(provider, LocalProvider):
                self._add(await _at_the_bottom(provider))
            elif isinstance(provider, FastMCPProvider):
                self.objects.append(provider.server)
                await self.server(cast("Server", provider.server), None, depth + 1)
            else:
                await self._providers(cast("AggregateProvider", provider).providers, depth)

    def _unwrapped(self, provider: Provider) -> Provider:
        for _ in range(MAX_DEPTH):
            _known(provider, {type(provider)} if says_its_tools(provider) else _PROVIDERS, _OF_PROVIDERS)
            self.objects.append(provider)
            self._transforms(provider.transforms)
            if type(provider) is not _WRAPPER:
                return provider
            provider = cast("Provider", getattr(provider, "_inner", None))
        raise UnknownError

    def _transforms(self, transforms: Sequence[Transform]) -> None:
        self.facts.append(len(transforms))
        for transform in transforms:
            _known(transform, _TRANSFORMS, _OF_TRANSFORMS)
            self.objects.append(transform)
            self.facts.append(repr(vars(transform)))

    def _add(self, tools: Sequence[Tool]) -> None:
        self.facts.append(len(tools))
        self.tools += tools


class Fingerprint:
    """What a listing depends on, as it was at one moment.

    Where it `holds`, and no rules are in force for the session, FastMCP would list the tools that it listed then. It
    keeps alive what it compares, so that no new object can be taken for an old one.
    """

    def __init__(self, tree: _Tree, pages: list[Page]) -> None:
        self._tree = tree
        self._pages = pages

    @classmethod
    async def take(cls, server: Server, own: Transform) -> Fingerprint | None:
        """The fingerprint of `server`; None where something is there that the table does not have.

        Args:
            server: the server, whose listing is read beneath its middleware.
            own: the transform of `server` that lets all tools pass while its listing is read.
        """
        if not fastmcp.__version__.startswith(READ):
            return None
        try:
            tree = await _walk(server, own)
            found = [*tree.tools, *chain.from_iterable(filter(None, tree.stated))]
            plain = None not in tree.stated and all(map(_is_plain, set(map(type, found))))
            if not plain or any(tool.auth is not None for tool in found):
                return None
            pages: list[Page] = []
            for tools, names in pages_of(tree.tools):
                if pages:
                    await asyncio.sleep(0)
                pages.append(Page.of(tools, names))
        except UnknownError:
            return None
        return cls(tree, pages)

    async def holds(self, server: Server, own: Transform) -> bool:
        """Whether `server` is still as it was."""
        old = self._tree
        try:
            new = await _walk(server, own)
            pairs = (new.objects, old.objects), (new.stated, old.stated), (new.tools, old.tools)
            if new.facts != old.facts or not all(same(*pair) for pair in pairs):
                return False
            for number, page in enumerate(self._pages):
                if number:
                    await asyncio.sleep(0)
                if not page.holds():
                    return False
        except UnknownError:
            return False
        return True

    async def is_everyones(self, server: Server) -> bool:
        """Whether no visibility rules are in force for the session whose request this is."""
        for each in (server, *self._tree.mounted):
            if await get_visibility_rules(Context(fastmcp=each)):
                return False
        return True


async def _at_the_bottom(provider: LocalProvider) -> Sequence[Tool]:
    """Its tools before any transform. FastMCP lets subclasses override the method, but has no public one."""
    listed = cast("Callable[[], Awaitable[Sequence[Tool]]]", getattr(provider, "_list_tools", None))
    return await listed()


async def _walk(server: Server, own: Transform) -> _Tree:
    tree = _Tree()
    await tree.server(server, own)
    return tree


def _known(part: object, kinds: set[type] | frozenset[type], methods: frozenset[str]) -> None:
    if type(part) not in kinds or not methods.isdisjoint(vars(part)):
        raise UnknownError


@lru_cache(maxsize=1_000)
def _is_plain(kind: type[Tool]) -> bool:
    """Whether tools of this class are what their fields say."""
    own = chain.from_iterable(map(vars, kind.__mro__))
    return Tool.model_fields.keys().isdisjoint(own) and all(
        getattr(kind, name) is getattr(Tool, name) for name in _OF_TOOLS
    )
