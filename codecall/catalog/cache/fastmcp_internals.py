"""The private names of FastMCP that the catalog reads, behind functions: what a new release of FastMCP may break.

FastMCP 4.1 has no public way to tell where a listed component comes from, nor what its providers list before their
transforms. So this file, and no other of the catalog, reads:

- `_server`, and `_original_name`, `_original_uri` or `_original_uri_template`, of what stands for a component of a
  mounted server: that server, and the component's name there;
- `_prefix` of a `Namespace`: the namespace itself;
- `_inner` of the wrapper that a namespace puts around a provider: the provider. The wrapper's class has no public name;
- `_list_tools` of a `LocalProvider`, and of our own providers that state their tools: the tools before any transform;
- the names in `PROVIDER_METHODS`, `SERVER_METHODS`, `TRANSFORM_METHODS` and `MIDDLEWARE_METHODS`, which make a listing:
  only to notice an object or a class that overrides one;
- all attributes of a `Namespace`, `Visibility` or `VersionFilter`: only to notice that one has changed.

The tests hold us to each of these names: `tests/catalog/test_apps.py`, `tests/catalog/cache/test_fingerprint.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Final, Literal, Protocol, cast

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
from fastmcp.server.providers import LocalProvider, Provider
from fastmcp.server.providers.fastmcp_provider import (
    FastMCPProviderPrompt,
    FastMCPProviderResource,
    FastMCPProviderResourceTemplate,
    FastMCPProviderTool,
)
from fastmcp.server.transforms import Namespace, Transform
from fastmcp.tools import Tool

PROVIDER_METHODS: Final = frozenset({"list_tools", "_list_tools", "_collect_list_results"})
"""The methods that make a provider's listing. An attribute of that name on one object replaces its class's method."""

SERVER_METHODS: Final = PROVIDER_METHODS.union(
    ("_dispatch_component_middleware", "_run_middleware", "_injected_tools", "_rewrite_prefab_uris")
)
"""The methods that make a server's listing."""

TRANSFORM_METHODS: Final = frozenset({"list_tools", "_matches", "_mark_component", "_transform_name"})
"""The methods with which a transform changes a listing."""

MIDDLEWARE_METHODS: Final = ("__call__", "_dispatch_handler", "on_message", "on_request")
"""The methods through which a middleware sees every request; besides, it has one for each kind."""

PROVIDER_WRAPPER: Final = type(Provider().wrap_transform(Transform()))
"""The class of the wrapper that a namespace puts around a provider."""

_ORIGINAL_NAMES: Final = {
    FastMCPProviderTool: "_original_name",
    FastMCPProviderPrompt: "_original_name",
    FastMCPProviderResource: "_original_uri",
    FastMCPProviderResourceTemplate: "_original_uri_template",
}
"""The classes that stand for a component of a mounted server, and the attribute with the component's name there."""

_STATING_ATTRIBUTES: Final = ("codecall_tools", "_list_tools")


def sees_requests(item: Middleware, kind: Literal["on_list_tools", "on_call_tool"]) -> bool:
    """Whether a middleware sees the requests of a kind: listings of tools, or calls."""
    hooks = (*MIDDLEWARE_METHODS, kind)
    # An attribute of the object itself would be called just like a method of its class.
    return (
        not vars(item).keys().isdisjoint(hooks)
        or any(getattr(type(item), hook, None) is not _PASSING[hook] for hook in hooks)
        or type(item).__getattribute__ is not object.__getattribute__
    )


_PASSING: Final = {
    hook: cast("object", getattr(Middleware, hook)) for hook in (*MIDDLEWARE_METHODS, "on_list_tools", "on_call_tool")
}
"""The hooks of FastMCP's base class, which pass a request on, as they are when this module is imported."""


def can_bypass(middleware: Sequence[Middleware]) -> bool:
    """Whether a listing that bypasses this middleware shows the same tools as one through it, schemas aside."""
    return not any(_changes_listings(item) for item in middleware)


def dereferences_schemas(middleware: Sequence[Middleware]) -> bool:
    """Whether this middleware shows schemas without `$ref`."""
    return any(isinstance(item, DereferenceRefsMiddleware) for item in middleware)


def _changes_listings(item: Middleware) -> bool:
    if type(item) is DereferenceRefsMiddleware:  # it changes schemas alone
        return not vars(item).keys().isdisjoint((*MIDDLEWARE_METHODS, "on_list_tools"))
    return sees_requests(item, "on_list_tools")


class StatesTools(Protocol):
    """A provider that knows at each moment what it would list, as the gateway's do, so that it need not be asked.

    The class that has `codecall_tools` must have `_list_tools` too, so that no subclass lists anything else, and leave
    `list_tools` to FastMCP.
    """

    @property
    def codecall_tools(self) -> Sequence[Tool] | None:
        """The tools before any of its transforms: the same object, with nothing in it changed, for as long as it would
        list the same. None while that is not sure."""
        ...


def states_tools(provider: Provider) -> bool:
    """Whether a provider is a `StatesTools`."""
    return _class_states_tools(type(provider))


def mounted_origin(component: object) -> tuple[FastMCP[object], str | None] | None:
    """Returns the mounted server that a component comes from, and its name there, None where it has none.

    Returns None for a component of any other kind.
    """
    attribute = next((name for kind, name in _ORIGINAL_NAMES.items() if isinstance(component, kind)), None)
    if attribute is None:
        return None
    server = cast("FastMCP[object] | None", getattr(component, "_server", None))
    name: object = getattr(component, attribute, None)
    return None if server is None else (server, str(name) if name else None)


def namespaces_of(transforms: Sequence[Transform]) -> list[str]:
    """Returns the namespaces that a chain of transforms puts before a name, outermost first."""
    namespaces = [str(getattr(item, "_prefix", "")) for item in transforms if isinstance(item, Namespace)]
    return namespaces[::-1]


def inner_provider(provider: Provider) -> Provider | None:
    """Returns the provider inside a namespace's wrapper; None for any other provider."""
    return cast("Provider | None", getattr(provider, "_inner", None))


async def untransformed_tools(provider: LocalProvider) -> Sequence[Tool]:
    """Returns the tools of a provider before any transform."""
    list_tools = cast("Callable[[], Awaitable[Sequence[Tool]]]", getattr(provider, "_list_tools", None))
    return await list_tools()


def transform_state(transform: Transform) -> str:
    """Returns the attributes of a transform as a text that differs when one of them does."""
    return repr(vars(transform))


@lru_cache(maxsize=1_000)
def _class_states_tools(kind: type) -> bool:
    owners = [next((each for each in kind.__mro__ if name in vars(each)), None) for name in _STATING_ATTRIBUTES]
    return owners[0] is not None and owners[0] is owners[1] and getattr(kind, "list_tools", None) is Provider.list_tools
