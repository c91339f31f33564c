"""Resolves which app a tool, a resource or a prompt belongs to.

The app is what the component's metadata says, else the namespace its server is mounted under, else its server's name.

The namespace is the one on the server that CodeCall is installed on: what a mounted server mounts in turn is that
server's own affair, and all of it counts as one app. A server mounted without a namespace gives its own name.

A name alone does not decide: with `users` mounted, `users_list` may still be a tool of the server itself. So a tool
that comes from a mounted server is recognised by that server, and the prefix of a name decides only among the other
providers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.providers import AggregateProvider, Provider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import TransformedTool

from codecall.catalog.cache.fastmcp_internals import inner_provider, mounted_origin, namespaces_of

FastMCPServer = FastMCP[object]

Component = Tool | Resource | ResourceTemplate | Prompt
"""A component that a server may list."""


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


class AppResolver:
    """Resolves the apps of what one server lists, from its providers at this moment."""

    def __init__(
        self, server: FastMCPServer, mounts: Sequence[MountedProvider], own: frozenset[tuple[str, str]]
    ) -> None:
        self._server_name = server.name
        self._own = own
        self._by_server: dict[int, list[MountedProvider]] = {}
        self._by_prefix: list[MountedProvider] = []
        for mount in mounts:
            if isinstance(mount.provider, FastMCPProvider):
                self._by_server.setdefault(id(mount.provider.server), []).append(mount)
            elif mount.namespace:
                self._by_prefix.append(mount)
        self._by_prefix.sort(key=lambda mount: len(mount.prefix), reverse=True)

    @classmethod
    async def from_server(cls, server: FastMCPServer) -> AppResolver:
        """Reads the providers of `server`. Its own components are listed only where a name could mislead."""
        outer = namespaces_of(server.transforms)
        mounts = [mount for provider in server.providers for mount in _mounts(provider, outer)]
        if any(mount.namespace and not isinstance(mount.provider, FastMCPProvider) for mount in mounts):
            before = "".join(f"{namespace}_" for namespace in outer)
            local = server.local_provider
            listed: list[Component] = [*await local.list_tools(), *await local.list_resources()]
            listed += [*await local.list_resource_templates(), *await local.list_prompts()]
            own = frozenset((item.KEY_PREFIX, before + _prefixed(item)) for item in listed)
        else:
            own = frozenset[tuple[str, str]]()
        return cls(server, mounts, own)

    def origin(self, component: Component) -> ComponentOrigin:
        """Returns the origin of a listed component."""
        prefixed = _prefixed(component)
        mounted = _mounted(component)
        if mounted is not None:
            owner, own_name = mounted
            mounts = self._by_server.get(id(owner), ())
            for mount in mounts:
                if mount.namespace and _has_prefix_of(component, mount):
                    return ComponentOrigin(mount.namespace, own_name)
            # A renamed tool no longer shows its prefix; with one mount there is no doubt.
            return ComponentOrigin(
                mounts[0].namespace if len(mounts) == 1 and mounts[0].namespace else owner.name, own_name
            )
        if (component.KEY_PREFIX, prefixed) not in self._own:
            for mount in self._by_prefix:
                if _has_prefix_of(component, mount):
                    return ComponentOrigin(mount.namespace, prefixed[len(mount.prefix) :])
        return ComponentOrigin(self._server_name, component.name)


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
    while isinstance(component, TransformedTool):
        component = component.parent_tool
    origin = mounted_origin(component)
    return None if origin is None else (origin[0], origin[1] or component.name)


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
