"""What clients of the gateway see of one server: its listing as FastMCP's components, without what is hidden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import mcp_types
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.tools import Tool

from codecall.gateway.tools.components import (
    AccessCheck,
    GatewayPrompt,
    GatewayResource,
    GatewayTemplate,
    GatewayTool,
)
from codecall.gateway.tools.filter import (
    AccessRules,
    ComponentKind,
    HiddenComponent,
    HideReason,
    ReservedNames,
    may_be_large,
    screen_components,
    strip_reserved_meta,
)
from codecall.gateway.upstream.interface import Upstream
from codecall.gateway.upstream.listing import Listing
from codecall.telemetry.tokens import estimate_characters, estimate_tokens


@dataclass(frozen=True, eq=False)
class VisibleComponents:
    """The components of one listing. It is never changed: another listing makes another one."""

    listing: Listing | None = None
    """What it was resource of; None: the server has not been listed yet."""
    tools: tuple[Tool, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    tool_by_name: Mapping[str, Tool] = field(default_factory=lambda: MappingProxyType[str, Tool]({}))
    resource_by_uri: Mapping[str, Resource] = field(default_factory=lambda: MappingProxyType[str, Resource]({}))
    prompt_by_name: Mapping[str, Prompt] = field(default_factory=lambda: MappingProxyType[str, Prompt]({}))
    hidden: tuple[HiddenComponent, ...] = ()
    tokens: int = 0
    """About how many tokens the definitions of its tools cost a model that lists them."""


def build_visible_components(
    upstream: Upstream,
    listing: Listing,
    access: AccessRules,
    names: ReservedNames,
    check_access: AccessCheck | None = None,
) -> VisibleComponents:
    """Build what clients see of `listing`. Takes some 20 µs for each tool: long ones are built in a thread.

    Args:
        upstream: the server whose listing it is.
        listing: what it lists.
        access: which of its tools may be used.
        names: which names its tools and prompts may not have.
        check_access: called before calls of a tool for which access rules rest on what the server says of it.
    """
    hidden: list[HiddenComponent] = []
    large = may_be_large(listing)

    def hide(kind: ComponentKind) -> Callable[[str, HideReason], None]:
        return lambda name, refusal: hidden.append(HiddenComponent(upstream.name, kind, name, *refusal))

    def reason_to_hide(tool: mcp_types.Tool) -> HideReason | None:
        return access.reason_to_hide(tool) or reserved_name(tool)

    def reserved_name(item: mcp_types.Tool | mcp_types.Prompt) -> HideReason | None:
        return names.reason_to_hide(upstream.name, item.name)

    tools = screen_components(
        listing.tools,
        large=large,
        reason_to_hide=reason_to_hide,
        make=lambda tool: GatewayTool.from_mcp(
            upstream,
            strip_reserved_meta(tool),
            check_access=check_access if access.depends_on_hints(tool.name) else None,
        ),
        hide=hide("tool"),
    )
    resources = screen_components(
        listing.resources,
        large=large,
        reason_to_hide=_no_rule,
        make=lambda resource: GatewayResource.from_mcp(upstream, resource),
        hide=hide("resource"),
    )
    templates = screen_components(
        listing.templates,
        large=large,
        reason_to_hide=_no_rule,
        make=lambda template: GatewayTemplate.from_mcp(upstream, template),
        hide=hide("template"),
    )
    prompts = screen_components(
        listing.prompts,
        large=large,
        reason_to_hide=reserved_name,
        make=lambda prompt: GatewayPrompt.from_mcp(upstream, prompt),
        hide=hide("prompt"),
    )
    return VisibleComponents(
        listing=listing,
        tools=tuple(tools.values()),
        resources=tuple(resources.values()),
        templates=tuple(templates.values()),
        prompts=tuple(prompts.values()),
        tool_by_name=tools,
        resource_by_uri={
            uri: resource
            for listed_uri, resource in resources.items()
            for uri in (listed_uri, str(resource.uri))  # FastMCP may write a URI in another way
        },
        prompt_by_name=prompts,
        hidden=tuple(hidden),
        tokens=estimate_tokens(estimate_characters(list(tools.values()))),
    )


def _no_rule(_: object) -> None:
    """No rule limits which resources may be used; their URIs contain their server's name."""
