"""Which app a tool, a resource or a prompt belongs to.

Its metadata says, else it is the namespace its server is mounted under, else its server's name.

The namespace is the one on the server that CodeCall is installed on: what a mounted server mounts in turn is that
server's own affair, and all of it counts as one app. A server mounted without a namespace gives its own name.

A name alone does not tell: with `users` mounted, `users_list` may still be a tool of the server itself. So a tool that
comes from a mounted server is known by that server, and a name decides only among the other providers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server.providers import AggregateProvider, Provider
from fastmcp.server.providers.fastmcp_provider import (
    FastMCPProvider,
    FastMCPProviderPrompt,
    FastMCPProviderResource,
    FastMCPProviderResourceTemplate,
    FastMCPProviderTool,
)
from fastmcp.server.transforms import Namespace, Transform
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import TransformedTool

FastMCPServer = FastMCP[object]

Component = Tool | Resource | ResourceTemplate | Prompt
"""What a server may list."""

_ORIGINALS = {
    FastMCPProviderTool: "_original_name",
    FastMCPProviderPrompt: "_original_name",
    FastMCPProviderResource: "_original_uri",
    FastMCPProviderResourceTemplate: "_original_uri_template",
}
"""What stands for a component of a mounted server, and where it keeps the name that the component has there. FastMCP
keeps these private; test_apps holds us to the names."""


class MountedProvider(NamedTuple):
    """One provider of a server."""

    provider: Provider
    namespace: str
    """Empty when it was added without one."""
    prefix: str
    """What its tools' names begin with in the server's listing."""
    path: str
    """What the paths of its resources' URIs begin with."""


class ComponentOrigin(NamedTuple):
    """Where a tool, a resource or a prompt comes from."""

    app_id: str
    """Its app, as long as its metadata names no other."""
    unprefixed_name: str
    """Its name there, without what mounting put before it."""


class AppResolver:
    """The apps of what one server lists, as its providers are at this moment."""

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
        """The apps of `server`; what is its own is listed only where a name could mislead."""
        outer = _namespaces(server.transforms)
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
        """Where something that is listed comes from."""
        prefixed = _prefixed(component)
        found = _mounted(component)
        if found is not None:
            owner, own_name = found
            mounts = self._by_server.get(id(owner), ())
            for mount in mounts:
                if mount.namespace and _is_of(component, mount):
                    return ComponentOrigin(mount.namespace, own_name)
            # A renamed tool no longer shows its prefix; with one mount there is no doubt.
            return ComponentOrigin(
                mounts[0].namespace if len(mounts) == 1 and mounts[0].namespace else owner.name, own_name
            )
        if (component.KEY_PREFIX, prefixed) not in self._own:
            for mount in self._by_prefix:
                if _is_of(component, mount):
                    return ComponentOrigin(mount.namespace, prefixed[len(mount.prefix) :])
        return ComponentOrigin(self._server_name, component.name)


def _prefixed(component: Component) -> str:
    """The name that mounting puts a namespace before; of a URI `data://crm/users` it is `crm_users`."""
    if isinstance(component, (Tool, Prompt)):
        return component.name
    return _path(component).replace("/", "_")


def _path(component: Resource | ResourceTemplate) -> str:
    uri = str(component.uri) if isinstance(component, Resource) else component.uri_template
    return uri.partition("://")[2]


def _is_of(component: Component, mount: MountedProvider) -> bool:
    """Whether it is named as this mount names things. Of URIs whole segments count: `x://a/b/c` is not of `a_b`."""
    if isinstance(component, (Tool, Prompt)):
        return component.name.startswith(mount.prefix)
    return _path(component).startswith(mount.path)


def _mounted(component: Component) -> tuple[FastMCPServer, str] | None:
    """The mounted server a component comes from and its name there; None for one of any other kind."""
    while isinstance(component, TransformedTool):
        component = component.parent_tool
    original = next((name for kind, name in _ORIGINALS.items() if isinstance(component, kind)), None)
    server = cast("FastMCPServer | None", getattr(component, "_server", None)) if original else None
    return None if server is None else (server, str(getattr(component, original or "", None) or component.name))


def _namespaces(transforms: Sequence[Transform]) -> list[str]:
    """The namespaces that a chain of transforms puts before a name, outermost first."""
    # Private in FastMCP; test_apps holds us to the name.
    found = [str(getattr(t, "_prefix", "")) for t in transforms if isinstance(t, Namespace)]
    return found[::-1]


def _mounts(provider: Provider, outer: list[str], inside: tuple[str, ...] = ()) -> Iterator[MountedProvider]:
    namespaces = (*inside, *_namespaces(provider.transforms))
    inner = cast("Provider | None", getattr(provider, "_inner", None))
    if inner is not None:
        yield from _mounts(inner, outer, namespaces)
    elif isinstance(provider, AggregateProvider):
        for member in provider.providers:
            yield from _mounts(member, outer, namespaces)
    else:
        every = (*outer, *namespaces)
        prefix, path = ("".join(f"{part}{mark}" for part in every) for mark in "_/")
        yield MountedProvider(provider, "_".join(namespaces), prefix, path)
