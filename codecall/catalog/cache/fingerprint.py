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
import marshal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from operator import is_
from types import CellType
from typing import Any, Final, NamedTuple, Protocol, cast

import fastmcp
from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers import AggregateProvider, LocalProvider, Provider, base
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.transforms import GetToolNext, Namespace, Transform, VersionFilter, Visibility
from fastmcp.server.transforms.visibility import get_visibility_rules
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec, version_sort_key

from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.middleware import can_bypass

# ----------------------------------------------------------------------------------------------------
# What tools held at one moment, to be compared with what they hold now: many at once, and quickly.

PAGE = 1_000
"""Tools compared before other tasks of the event loop get their turn: about 0.5 ms, 5 ms where one is taken."""

_values = dict[str, object].values


class UnknownError(Exception):
    """Something that cannot be compared."""


class Page(NamedTuple):
    """Some tools with the same fields, and what they held at one moment."""

    tools: list[Tool]
    names: tuple[str, ...]
    """Of their fields, in the order in which each tool holds them."""
    fields: list[object]
    """Of all tools, one after the other."""
    metas: list[dict[str, object] | None]
    tags: list[set[str]]
    exact: list[tuple[Tool, bytes]]
    """Those whose `meta` has numbers in it: 1 and True are equal and yet differ."""

    @classmethod
    def of(cls, tools: list[Tool], names: tuple[str, ...]) -> Page:
        """What these tools hold now."""
        metas: list[dict[str, object] | None] = []
        exact: list[tuple[Tool, bytes]] = []
        for tool in tools:
            if tool.meta is None:
                metas.append(None)
                continue
            written = _written(tool.meta)
            metas.append(marshal.loads(written))  # noqa: S302 - written in the line above
            if _has_numbers(metas[-1]):
                exact.append((tool, written))
        return cls(tools, names, _fields(tools), metas, [set(tool.tags) for tool in tools], exact)

    def holds(self) -> bool:
        """Whether they hold it still. Lists compare their members by identity first, so this is quick."""
        fields = _fields(self.tools)
        return (
            fields == self.fields
            # Equal schemas may still differ, as 1 and True do.
            and same(self._column("parameters", fields), self._column("parameters", self.fields))
            and same(self._column("output_schema", fields), self._column("output_schema", self.fields))
            and self._column("meta", fields) == self.metas
            and self._column("tags", fields) == self.tags
            and all(_written(tool.meta) == written for tool, written in self.exact)
        )

    def _column(self, name: str, fields: list[object]) -> list[object]:
        return fields[self.names.index(name) :: len(self.names)]


def pages_of(tools: list[Tool]) -> Iterator[tuple[list[Tool], tuple[str, ...]]]:
    """Tools that have the same fields, so many at a time, and the names of these."""
    alike: dict[tuple[str, ...], list[Tool]] = {}
    for tool in tools:
        alike.setdefault(tuple(vars(tool)), []).append(tool)
    for names, group in alike.items():
        for start in range(0, len(group), PAGE):
            yield group[start : start + PAGE], names


def _fields(tools: list[Tool]) -> list[object]:
    """Every field of every tool, one after the other."""
    return list(chain.from_iterable(map(_values, map(vars, tools))))


def same(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether both hold the very same objects."""
    return len(one) == len(other) and all(map(is_, one, other))


def _written(meta: dict[str, Any] | None) -> bytes:
    try:
        return marshal.dumps(meta, 2)  # 2: the last version whose output is decided by the content alone
    except ValueError:
        raise UnknownError from None


def _has_numbers(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_numbers, chain.from_iterable(cast("Mapping[object, object]", value).items())))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_has_numbers, cast("Sequence[object]", value)))
    return isinstance(value, (int, float, complex))


# ----------------------------------------------------------------------------------------------------
# Providers that know at each moment what they would list, as the gateway's do: `fingerprint` need not ask them.

_BOTH: Final = ("codecall_tools", "_list_tools")


class SaysItsTools(Protocol):
    """Such a provider. The class that has this attribute must have `_list_tools` too, so that no subclass lists
    anything else, and leave `list_tools` to FastMCP."""

    @property
    def codecall_tools(self) -> Sequence[Tool] | None:
        """The tools before any of its transforms: the same object, with nothing in it changed, for as long as it would
        list the same. None while that is not sure."""
        ...


def says_its_tools(provider: Provider) -> bool:
    """Whether this is such a provider."""
    return _says(type(provider))


@lru_cache(maxsize=1_000)
def _says(kind: type) -> bool:
    owners = [next((each for each in kind.__mro__ if name in vars(each)), None) for name in _BOTH]
    return owners[0] is not None and owners[0] is owners[1] and getattr(kind, "list_tools", None) is Provider.list_tools


# ----------------------------------------------------------------------------------------------------
# Proof that a server would list the same tools again, for far less than listing them: see `Fingerprint`.

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

    mounted: list[FastMCPServer] = field(default_factory=list["FastMCPServer"])
    objects: list[object] = field(default_factory=list[object])
    """Compared by identity."""
    facts: list[object] = field(default_factory=list[object])
    """Compared by value."""
    tools: list[Tool] = field(default_factory=list[Tool])
    stated: list[Sequence[Tool] | None] = field(default_factory=list[Sequence[Tool] | None])
    """By providers themselves; compared by identity, each as a whole."""

    async def server(self, server: FastMCPServer, own: Transform | None, depth: int = 0) -> None:
        """Add a server; `own` is the one transform that lets everything pass while CodeCall lists."""
        _known(server, {FastMCP}, _OF_SERVERS)
        if depth > MAX_DEPTH or not can_bypass(server.middleware):
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
                await self.server(cast("FastMCPServer", provider.server), None, depth + 1)
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
    async def from_server(cls, server: FastMCPServer, own: Transform) -> Fingerprint | None:
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

    async def holds(self, server: FastMCPServer, own: Transform) -> bool:
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

    async def applies_to_session(self, server: FastMCPServer) -> bool:
        """Whether no visibility rules are in force for the session whose request this is."""
        for each in (server, *self._tree.mounted):
            if await get_visibility_rules(Context(fastmcp=each)):
                return False
        return True


async def _at_the_bottom(provider: LocalProvider) -> Sequence[Tool]:
    """Its tools before any transform. FastMCP lets subclasses override the method, but has no public one."""
    listed = cast("Callable[[], Awaitable[Sequence[Tool]]]", getattr(provider, "_list_tools", None))
    return await listed()


async def _walk(server: FastMCPServer, own: Transform) -> _Tree:
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


# ----------------------------------------------------------------------------------------------------
# Looks a tool up by its name as FastMCP does, without a task for each provider.

_BOTTOM: Final = "Provider.get_tool.<locals>.base"
"""What the innermost transform of a provider is given to go on with."""

_OWN: Final = frozenset({"get_tool", "_get_tool", "_get_highest_version_result"})
"""Attributes of one object that would be used in place of what its class has."""

# Set while FastMCP looks for a tool by the hash of its identity: then not every name means what it says.
_sought_by_hash: Final = getattr(base, "hashed_lookup_target", None)


async def look_up(name: str, call_next: GetToolNext, version: VersionSpec | None) -> Tool | None:
    """The tool that `call_next` would give."""
    if (server := _beneath(call_next)) is not None:
        try:
            found = [tool for each in server.providers if (tool := await _asked(each, name, version)) is not None]
            tool = max(found, key=version_sort_key, default=None)
        except Exception:
            tool = None  # what a failure comes to depends on the server
        if tool is not None and tool.auth is None:
            return tool
    return await call_next(name, version=version)


async def _asked(provider: Provider, name: str, version: VersionSpec | None) -> Tool | None:
    """What the provider has of that name."""
    if version is None:
        # It would look through all it has. A name has no version, or nothing but versions (`_check_version_mixing`).
        kept: object = getattr(provider, "_components", None)
        tool = cast("dict[str, object]", kept).get(f"tool:{name}@") if isinstance(kept, dict) else None
        if isinstance(tool, Tool) and tool.name == name and tool.version is None:
            return tool
    return await provider.get_tool(name, version)


def _beneath(call_next: GetToolNext) -> FastMCPServer | None:
    """The server whose providers alone are left to be asked; None where that is not sure, or may take long."""
    if getattr(call_next, "__qualname__", "") != _BOTTOM or not fastmcp.__version__.startswith(READ):
        return None
    cells = cast("tuple[CellType, ...]", getattr(call_next, "__closure__", None) or ())
    server: object = cells[0].cell_contents if len(cells) == 1 else None
    if type(server) is not FastMCP or not _OWN.isdisjoint(vars(server)):
        return None
    if _sought_by_hash is None or _sought_by_hash(server) is not None:
        return None
    return cast("FastMCPServer", server) if all(map(_answers_at_once, server.providers)) else None


def _answers_at_once(provider: Provider) -> bool:
    return type(provider) is LocalProvider and _OWN.isdisjoint(vars(provider)) and not provider.transforms
