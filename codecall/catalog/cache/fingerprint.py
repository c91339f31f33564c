"""Proof that a server would list the same tools again, for far less than listing them: see `Fingerprint`.

What `FastMCP.list_tools` (4.1) makes of a server follows from the table below, read from its source. A part of any
other kind, or one with a method of its own, has no fingerprint, and the server is asked on every request.

| a listing depends on | known kinds | compared |
|---|---|---|
| the server, and each server mounted on it | exactly `FastMCP` | the object, its name and instructions |
| their middleware | what sees no listings; `DereferenceRefsMiddleware`, which changes schemas alone | the objects |
| injected tools | exactly `ToolInjectionMiddleware` | as the tools |
| their providers | `LocalProvider`, `FastMCPProvider`, `AggregateProvider`, the wrapper; `StatesTools` | the objects |
| transforms of both | the plugin; exactly `Namespace`, `Visibility`, `VersionFilter` | the objects, their attributes |
| tools of a `LocalProvider` | `Tool` and kinds that copy and name themselves as it does | the objects, every field |
| their tags and `meta`, which may change in place | | a copy, by value |
| the caller: `auth` of a tool | none has any | that it is still so |
| the caller: visibility rules of the session | none in force | asked of every server, on every request |

The inside of a schema is not compared: a tool is changed by giving it another schema. The tests go through the table
line by line. The private names of FastMCP that this takes are in `fastmcp_internals.py`.
"""

from __future__ import annotations

import asyncio
import marshal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from operator import is_
from typing import Any, Final, NamedTuple, cast

import fastmcp
from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers import AggregateProvider, LocalProvider, Provider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.transforms import Namespace, Transform, VersionFilter, Visibility
from fastmcp.server.transforms.visibility import get_visibility_rules
from fastmcp.tools import Tool

from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.fastmcp_internals import (
    PROVIDER_METHODS,
    PROVIDER_WRAPPER,
    SERVER_METHODS,
    TRANSFORM_METHODS,
    StatesTools,
    can_bypass,
    inner_provider,
    states_tools,
    transform_state,
    untransformed_tools,
)

SUPPORTED_RELEASES = "4.1."
"""The releases of FastMCP whose listing the table describes. Any other is asked on every request."""

MAX_DEPTH = 20
"""Servers in servers, and wrappers around wrappers, beyond which there is no fingerprint: a circle has no end."""

SNAPSHOT_TOOLS = 1_000
"""Tools compared before other tasks of the event loop get their turn: about 0.5 ms, 5 ms where one is taken."""

_PROVIDERS: Final = frozenset({LocalProvider, FastMCPProvider, AggregateProvider, PROVIDER_WRAPPER})
_TRANSFORMS: Final = frozenset({Namespace, Visibility, VersionFilter})
_TOOL_METHODS: Final = ("__getattribute__", "__getattr__", "__copy__", "model_copy", "get_meta", "key")

_values = dict[str, object].values


class Fingerprint:
    """What a listing depends on, as it was at one moment.

    Where it `holds`, and no rules are in force for the session, FastMCP would list the tools that it listed then. It
    keeps alive what it compares, so that no new object can be taken for an old one.
    """

    def __init__(self, tree: _ServerTree, snapshots: list[_ToolSnapshot]) -> None:
        self._tree = tree
        self._snapshots = snapshots

    @classmethod
    async def from_server(cls, server: FastMCPServer, plugin_transform: Transform) -> Fingerprint | None:
        """Takes the fingerprint of `server`; returns None where a part of it is not in the table.

        Args:
            server: the server, whose listing is read beneath its middleware.
            plugin_transform: the transform of `server` that lets all tools pass while its listing is read.
        """
        if not fastmcp.__version__.startswith(SUPPORTED_RELEASES):
            return None
        try:
            tree = await _walk(server, plugin_transform)
            tools = [*tree.tools, *chain.from_iterable(filter(None, tree.stated_tools))]
            plain = None not in tree.stated_tools and all(map(_is_plain, set(map(type, tools))))
            if not plain or any(tool.auth is not None for tool in tools):
                return None
            snapshots: list[_ToolSnapshot] = []
            for group, field_names in _groups(tree.tools):
                if snapshots:
                    await asyncio.sleep(0)
                snapshots.append(_ToolSnapshot.from_tools(group, field_names))
        except _NotComparableError:
            return None
        return cls(tree, snapshots)

    async def holds(self, server: FastMCPServer, plugin_transform: Transform) -> bool:
        """Whether `server` is still as it was."""
        old = self._tree
        try:
            new = await _walk(server, plugin_transform)
            pairs = (new.objects, old.objects), (new.stated_tools, old.stated_tools), (new.tools, old.tools)
            if new.facts != old.facts or not all(_same_objects(*pair) for pair in pairs):
                return False
            for number, snapshot in enumerate(self._snapshots):
                if number:
                    await asyncio.sleep(0)
                if not snapshot.holds():
                    return False
        except _NotComparableError:
            return False
        return True

    async def applies_to_session(self, server: FastMCPServer) -> bool:
        """Whether no visibility rules are in force for the session whose request this is."""
        for each in (server, *self._tree.mounted):
            if await get_visibility_rules(Context(fastmcp=each)):
                return False
        return True


class _NotComparableError(Exception):
    """Something that cannot be compared."""


@dataclass(slots=True)
class _ServerTree:
    """The parts of a server, and of everything mounted on it, that its listing depends on."""

    mounted: list[FastMCPServer] = field(default_factory=list["FastMCPServer"])
    objects: list[object] = field(default_factory=list[object])
    """Compared by identity."""
    facts: list[object] = field(default_factory=list[object])
    """Compared by value."""
    tools: list[Tool] = field(default_factory=list[Tool])
    stated_tools: list[Sequence[Tool] | None] = field(default_factory=list[Sequence[Tool] | None])
    """What `StatesTools` providers state; compared by identity, each as a whole."""

    async def add_server(self, server: FastMCPServer, plugin_transform: Transform | None, depth: int = 0) -> None:
        """Adds a server; `plugin_transform` is the one transform that lets everything pass while CodeCall lists."""
        _require_known(server, {FastMCP}, SERVER_METHODS)
        if depth > MAX_DEPTH or not can_bypass(server.middleware):
            raise _NotComparableError
        if depth:  # the first would only keep itself alive
            self.mounted.append(server)
        self.objects += server.middleware
        for item in server.middleware:
            if isinstance(item, ToolInjectionMiddleware):
                _require_known(item, {ToolInjectionMiddleware}, frozenset({"injected_tools"}))
                self._add_tools(item.injected_tools)
        self.facts += [server.name, server.instructions, len(server.middleware)]
        await self._add_providers(server.providers, depth)
        self._add_transforms([transform for transform in server.transforms if transform is not plugin_transform])

    async def _add_providers(self, providers: Sequence[Provider], depth: int) -> None:
        self.facts.append(len(providers))
        for provider in map(self._unwrapped, providers):
            if states_tools(provider):
                self.stated_tools.append(cast("StatesTools", provider).codecall_tools)
            elif isinstance(provider, LocalProvider):
                self._add_tools(await untransformed_tools(provider))
            elif isinstance(provider, FastMCPProvider):
                self.objects.append(provider.server)
                await self.add_server(cast("FastMCPServer", provider.server), None, depth + 1)
            else:
                await self._add_providers(cast("AggregateProvider", provider).providers, depth)

    def _unwrapped(self, provider: Provider) -> Provider:
        for _ in range(MAX_DEPTH):
            _require_known(provider, {type(provider)} if states_tools(provider) else _PROVIDERS, PROVIDER_METHODS)
            self.objects.append(provider)
            self._add_transforms(provider.transforms)
            if type(provider) is not PROVIDER_WRAPPER:
                return provider
            provider = cast("Provider", inner_provider(provider))
        raise _NotComparableError

    def _add_transforms(self, transforms: Sequence[Transform]) -> None:
        self.facts.append(len(transforms))
        for transform in transforms:
            _require_known(transform, _TRANSFORMS, TRANSFORM_METHODS)
            self.objects.append(transform)
            self.facts.append(transform_state(transform))

    def _add_tools(self, tools: Sequence[Tool]) -> None:
        self.facts.append(len(tools))
        self.tools += tools


class _ToolSnapshot(NamedTuple):
    """Some tools with the same fields, and the values of these at one moment."""

    tools: list[Tool]
    field_names: tuple[str, ...]
    """The names of their fields, in the order in which each tool holds them."""
    values: list[object]
    """The fields of all tools, one after the other."""
    metas: list[dict[str, object] | None]
    tags: list[set[str]]
    exact_metas: list[tuple[Tool, bytes]]
    """The tools whose `meta` has numbers in it: 1 and True are equal and yet differ."""

    @classmethod
    def from_tools(cls, tools: list[Tool], field_names: tuple[str, ...]) -> _ToolSnapshot:
        """Takes a snapshot of tools that have these fields."""
        metas: list[dict[str, object] | None] = []
        exact_metas: list[tuple[Tool, bytes]] = []
        for tool in tools:
            if tool.meta is None:
                metas.append(None)
                continue
            serialized = _serialized(tool.meta)
            metas.append(marshal.loads(serialized))  # noqa: S302 - serialized in the line above
            if _has_numbers(metas[-1]):
                exact_metas.append((tool, serialized))
        return cls(tools, field_names, _field_values(tools), metas, [set(tool.tags) for tool in tools], exact_metas)

    def holds(self) -> bool:
        """Whether the values are unchanged. Lists compare their members by identity first, so this is quick."""
        values = _field_values(self.tools)
        return (
            values == self.values
            # Equal schemas may still differ, as 1 and True do.
            and _same_objects(self._column("parameters", values), self._column("parameters", self.values))
            and _same_objects(self._column("output_schema", values), self._column("output_schema", self.values))
            and self._column("meta", values) == self.metas
            and self._column("tags", values) == self.tags
            and all(_serialized(tool.meta) == serialized for tool, serialized in self.exact_metas)
        )

    def _column(self, name: str, values: list[object]) -> list[object]:
        return values[self.field_names.index(name) :: len(self.field_names)]


async def _walk(server: FastMCPServer, plugin_transform: Transform) -> _ServerTree:
    tree = _ServerTree()
    await tree.add_server(server, plugin_transform)
    return tree


def _require_known(part: object, kinds: set[type] | frozenset[type], methods: frozenset[str]) -> None:
    """Raises where `part` is of no known kind, or overrides one of these methods by an attribute of its own."""
    if type(part) not in kinds or not methods.isdisjoint(vars(part)):
        raise _NotComparableError


@lru_cache(maxsize=1_000)
def _is_plain(kind: type[Tool]) -> bool:
    """Whether the fields of a tool of this class are all there is to it."""
    names = chain.from_iterable(map(vars, kind.__mro__))
    return Tool.model_fields.keys().isdisjoint(names) and all(
        getattr(kind, name) is getattr(Tool, name) for name in _TOOL_METHODS
    )


def _groups(tools: list[Tool]) -> Iterator[tuple[list[Tool], tuple[str, ...]]]:
    """Groups of at most `SNAPSHOT_TOOLS` tools that have the same fields, and the names of these."""
    by_fields: dict[tuple[str, ...], list[Tool]] = {}
    for tool in tools:
        by_fields.setdefault(tuple(vars(tool)), []).append(tool)
    for field_names, group in by_fields.items():
        for start in range(0, len(group), SNAPSHOT_TOOLS):
            yield group[start : start + SNAPSHOT_TOOLS], field_names


def _field_values(tools: list[Tool]) -> list[object]:
    """The values of every field of every tool, one after the other."""
    return list(chain.from_iterable(map(_values, map(vars, tools))))


def _same_objects(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))


def _serialized(meta: dict[str, Any] | None) -> bytes:
    try:
        return marshal.dumps(meta, 2)  # 2: the last version whose output is decided by the content alone
    except ValueError:
        raise _NotComparableError from None


def _has_numbers(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_numbers, chain.from_iterable(cast("Mapping[object, object]", value).items())))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_has_numbers, cast("Sequence[object]", value)))
    return isinstance(value, (int, float, complex))
