"""Resolves which app a tool, a resource or a prompt belongs to.

The app is what the component's metadata says, else the namespace its server is mounted under, else its server's name.

The namespace is the one on the server that CodeCall is installed on: what a mounted server mounts in turn is that
server's own affair, and all of it counts as one app. A server mounted without a namespace gives its own name.

A name alone does not decide: with `users` mounted, `users_list` may still be a tool of the server itself. So a tool
that comes from a mounted server is recognised by that server, and the prefix of a name decides only among the other
providers. Where their prefixes leave a doubt (`my_` and `my_bank_`), they are asked for their tools.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.providers import AggregateProvider, Provider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import TransformedTool

from codecall.catalog.cache.fastmcp_internals import inner_provider, mounted_origin, namespaces_of

logger = logging.getLogger("codecall")

FastMCPServer = FastMCP[object]

_PROXY_MODULE: Final = "fastmcp.server.providers.proxy"
"""FastMCP's proxies, which load its client: 470 modules that most servers do without."""

MAX_ABOUT_CHARS: Final = 600
"""Characters that search reads of a server's description, from the beginning: a server is not found more often
for saying more."""

Component = Tool | Resource | ResourceTemplate | Prompt
"""A component that a server may list."""


@runtime_checkable
class DescribesServer(Protocol):
    """A provider of another server's components that has the server's description, as the gateway's do."""

    @property
    def codecall_about(self) -> str:
        """Descriptions and instructions; empty while they are not known."""
        ...


class MountedProvider(NamedTuple):
    """One provider of a server, and the namespace it is mounted under."""

    provider: Provider
    namespace: str
    """The namespace; empty where the provider was added without one."""
    prefix: str
    """The prefix of its tools' names in the server's listing."""
    path: str
    """The prefix of its resources' paths, as URIs have them."""


class ComponentOrigin(NamedTuple):
    """Where a tool, a resource or a prompt comes from."""

    app_id: str
    """The app of the component, as long as its metadata names no other."""
    unprefixed_name: str
    """The name of the component on its own server, without the prefix that mounting adds."""
    owner: str
    """The server it is of, as the one that lists it calls it; empty for a remote one that has no name there."""
    about: str = ""
    """That server's instructions and descriptions, `MAX_ABOUT_CHARS` at most."""


class AppOwners(NamedTuple):
    """The servers that may own what one server lists."""

    names: frozenset[str]
    """Namespaces of mounts and names of servers that have none, whether they list anything or not."""
    home: str
    """The server that lists."""


class AppResolver:
    """Resolves the apps of what one server lists, from its providers at this moment."""

    def __init__(
        self,
        server: FastMCPServer,
        mounts: Sequence[MountedProvider],
        known: Mapping[tuple[str, str], MountedProvider | None],
    ) -> None:
        self._server_name = server.name
        self._about = {id(server): _about(server)}
        """Descriptions, by server or provider."""
        self._known = known
        """The providers of components whose names could mislead; None is the server itself."""
        self._by_server: dict[int, list[MountedProvider]] = {}
        self._by_prefix: list[MountedProvider] = []
        self._home = id(server)
        names: set[str] = {server.name}
        for mount in mounts:
            source = mount.provider.server if isinstance(mount.provider, FastMCPProvider) else mount.provider
            self._about[id(source)] = _about(source)
            if isinstance(mount.provider, FastMCPProvider):
                self._by_server.setdefault(id(mount.provider.server), []).append(mount)
                names.add(mount.namespace or mount.provider.server.name)
            elif mount.namespace:
                self._by_prefix.append(mount)
                names.add(mount.namespace)
        self._by_prefix.sort(key=lambda mount: len(mount.prefix), reverse=True)
        self.owners: Final = AppOwners(frozenset(names), server.name)
        """The servers that may own what is listed."""

    @classmethod
    async def from_server(cls, server: FastMCPServer) -> AppResolver:
        """Reads the providers of `server`. Their components are listed only where a name could mislead."""
        outer = namespaces_of(server.transforms)
        mounts = [mount for provider in server.providers for mount in _mounts(provider, outer)]
        plain = [mount for mount in mounts if not isinstance(mount.provider, FastMCPProvider)]
        known: dict[tuple[str, str], MountedProvider | None] = {}
        for mount in plain:
            if mount.provider is server.local_provider or not any(_is_inside(other, mount) for other in plain):
                continue
            for tool in await _tools_of(mount.provider):
                name = tool.name if tool.name.startswith(mount.prefix) else mount.prefix + tool.name
                known[tool.KEY_PREFIX, name] = mount
        if any(mount.namespace for mount in plain):
            before = "".join(f"{namespace}_" for namespace in outer)
            local = server.local_provider
            listed: list[Component] = [*await local.list_tools(), *await local.list_resources()]
            listed += [*await local.list_resource_templates(), *await local.list_prompts()]
            known |= dict.fromkeys(((item.KEY_PREFIX, before + _prefixed(item)) for item in listed), None)
        return cls(server, mounts, known)

    def origin(self, component: Component) -> ComponentOrigin:
        """Returns the origin of a listed component."""
        prefixed = _prefixed(component)
        mounted = _mounted(component)
        if mounted is not None:
            owner, own_name = mounted
            mounts = self._by_server.get(id(owner), ())
            about = self._about.get(id(owner), "")
            for mount in mounts:
                if mount.namespace and _has_prefix_of(component, mount):
                    return ComponentOrigin(mount.namespace, own_name, mount.namespace, about)
            # A renamed tool no longer shows its prefix; with one mount there is no doubt.
            app = mounts[0].namespace if len(mounts) == 1 and mounts[0].namespace else owner.name
            return ComponentOrigin(app, own_name, app, about)
        key = (component.KEY_PREFIX, prefixed)
        if key in self._known:
            known = self._known[key]
            mount = known if known is not None and known.namespace else None
        else:
            mount = next((mount for mount in self._by_prefix if _has_prefix_of(component, mount)), None)
        if mount is not None:
            about = self._about[id(mount.provider)]
            return ComponentOrigin(mount.namespace, prefixed[len(mount.prefix) :], mount.namespace, about)
        if _is_of_proxy(_original(component)):
            return ComponentOrigin(self._server_name, component.name, "")
        return ComponentOrigin(self._server_name, component.name, self._server_name, self._about[self._home])


def _about(source: object) -> str:
    """The description of a server, or of a remote one from the provider of its components."""
    if isinstance(source, FastMCP):
        return _shorten(source.instructions)
    return _shorten(source.codecall_about) if isinstance(source, DescribesServer) else ""


def _shorten(text: str | None) -> str:
    """The beginning of a server's description, with single blanks between words."""
    return " ".join((text or "")[: 2 * MAX_ABOUT_CHARS].split())[:MAX_ABOUT_CHARS]


def _prefixed(component: Component) -> str:
    """The name that mounting prefixes with a namespace; for the URI `data://crm/users` it is `crm_users`."""
    if isinstance(component, (Tool, Prompt)):
        return component.name
    return _path(component).replace("/", "_")


def _path(component: Resource | ResourceTemplate) -> str:
    uri = str(component.uri) if isinstance(component, Resource) else component.uri_template
    return uri.partition("://")[2]


def _has_prefix_of(component: Component, mount: MountedProvider) -> bool:
    """Whether a component is named as this mount names components. Whole segments of URIs are compared: `x://a/b/c` is
    not in `a_b`."""
    if isinstance(component, (Tool, Prompt)):
        return component.name.startswith(mount.prefix)
    return _path(component).startswith(mount.path)


def _mounted(component: Component) -> tuple[FastMCPServer, str] | None:
    """The mounted server a component comes from and its name there; None for one of any other kind."""
    component = _original(component)
    origin = mounted_origin(component)
    return None if origin is None else (origin[0], origin[1] or component.name)


def _original(component: Component) -> Component:
    """The tool that a transformed one is made of."""
    while isinstance(component, TransformedTool):
        component = component.parent_tool
    return component


def _is_inside(mount: MountedProvider, other: MountedProvider) -> bool:
    """Whether a tool of `other` may be named as those of `mount` are."""
    return mount is not other and bool(mount.namespace) and mount.prefix.startswith(other.prefix)


async def _tools_of(provider: Provider) -> Sequence[Tool]:
    try:
        return await provider.list_tools()
    except Exception:
        logger.debug("a provider cannot list its tools, and FastMCP leaves them out", exc_info=True)
        return ()


def _mounts(provider: Provider, outer: list[str], enclosing: tuple[str, ...] = ()) -> Iterator[MountedProvider]:
    namespaces = (*enclosing, *namespaces_of(provider.transforms))
    inner = inner_provider(provider)
    if inner is not None:
        yield from _mounts(inner, outer, namespaces)
    elif isinstance(provider, AggregateProvider):
        for member in provider.providers:
            yield from _mounts(member, outer, namespaces)
    else:
        every = (*outer, *namespaces)
        prefix, path = ("".join(f"{part}{mark}" for part in every) for mark in "_/")
        yield MountedProvider(provider, "_".join(namespaces), prefix, path)


def _is_of_proxy(component: object) -> bool:
    """Whether a component is a tool of a remote server. There is none before the module of proxies is loaded."""
    proxies = sys.modules.get(_PROXY_MODULE)
    return proxies is not None and isinstance(component, proxies.ProxyTool)
