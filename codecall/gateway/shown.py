"""What clients of the gateway see of one server: its listing without what is hidden, as components of FastMCP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import mcp_types
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.tools import Tool

from codecall.gateway.access import Access, Hidden, Kind, Refusal
from codecall.gateway.behind import Behind
from codecall.gateway.components import GatewayPrompt, GatewayResource, GatewayTemplate, GatewayTool, Judge
from codecall.gateway.listing import Listing
from codecall.gateway.screening import Names, may_be_large, own_words, screened
from codecall.telemetry.sizes import characters_of, tokens


@dataclass(frozen=True, eq=False)
class Shown:
    """Never changed: another listing makes another one."""

    listing: Listing | None = None
    """What it was made of; None: the server has not been listed yet."""
    tools: tuple[Tool, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    tool_by_name: Mapping[str, Tool] = field(default_factory=lambda: MappingProxyType[str, Tool]({}))
    resource_by_uri: Mapping[str, Resource] = field(default_factory=lambda: MappingProxyType[str, Resource]({}))
    prompt_by_name: Mapping[str, Prompt] = field(default_factory=lambda: MappingProxyType[str, Prompt]({}))
    hidden: tuple[Hidden, ...] = ()
    tokens: int = 0
    """What the definitions of its tools cost a model that lists them, about."""


def show(behind: Behind, listing: Listing, access: Access, names: Names, judge: Judge | None = None) -> Shown:
    """What is shown of `listing`. Takes some 20 µs for each tool: long ones are made in a thread.

    Args:
        behind: the server that says it.
        listing: what it says.
        access: which of its tools may be used.
        names: which names its tools and prompts may not have.
        judge: asked before a tool is called for which it counts what the server says about it.
    """
    hidden: list[Hidden] = []
    large = may_be_large(listing)

    def hide(kind: Kind) -> Callable[[str, Refusal], None]:
        return lambda name, refusal: hidden.append(Hidden(behind.name, kind, name, *refusal))

    def refused(tool: mcp_types.Tool) -> Refusal | None:
        return access.refusal(tool) or shadows(tool)

    def shadows(item: mcp_types.Tool | mcp_types.Prompt) -> Refusal | None:
        return names.refusal(behind.name, item.name)

    tools = screened(
        listing.tools,
        large=large,
        refused=refused,
        make=lambda tool: GatewayTool.of(
            behind, own_words(tool), judge=judge if access.rests_on_hints(tool.name) else None
        ),
        hide=hide("tool"),
    )
    resources = screened(
        listing.resources,
        large=large,
        refused=_never,
        make=lambda resource: GatewayResource.of(behind, resource),
        hide=hide("resource"),
    )
    templates = screened(
        listing.templates,
        large=large,
        refused=_never,
        make=lambda template: GatewayTemplate.of(behind, template),
        hide=hide("template"),
    )
    prompts = screened(
        listing.prompts,
        large=large,
        refused=shadows,
        make=lambda prompt: GatewayPrompt.of(behind, prompt),
        hide=hide("prompt"),
    )
    return Shown(
        listing=listing,
        tools=tuple(tools.values()),
        resources=tuple(resources.values()),
        templates=tuple(templates.values()),
        prompts=tuple(prompts.values()),
        tool_by_name=tools,
        resource_by_uri={
            uri: made
            for said, made in resources.items()
            for uri in (said, str(made.uri))  # which FastMCP may write in another way
        },
        prompt_by_name=prompts,
        hidden=tuple(hidden),
        tokens=tokens(characters_of(list(tools.values()))),
    )


def _never(_: object) -> None:
    """No rule says what resources may be used; their URIs begin with their server's name."""
