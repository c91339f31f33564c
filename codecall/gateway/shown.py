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
from codecall.gateway.components import GatewayPrompt, GatewayResource, GatewayTemplate, GatewayTool
from codecall.gateway.listing import Listing
from codecall.gateway.screening import Names, identity, may_be_large, own_words, screened
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


def show(behind: Behind, listing: Listing, access: Access, names: Names) -> Shown:
    """What is shown of `listing`. Takes some 20 µs for each tool: long ones are made in a thread."""
    hidden: list[Hidden] = []
    large = may_be_large(listing)

    def hide(kind: Kind) -> Callable[[str, Refusal], None]:
        return lambda name, refusal: hidden.append(Hidden(behind.name, kind, name, *refusal))

    def refused(tool: mcp_types.Tool) -> Refusal | None:
        return access.refusal(tool) or names.refusal(behind.name, tool.name)

    listed_tools = screened(listing.tools, large=large, refused=refused, hide=hide("tool"))
    listed_resources = screened(listing.resources, large=large, refused=_never, hide=hide("resource"))
    listed_templates = screened(listing.templates, large=large, refused=_never, hide=hide("template"))
    listed_prompts = screened(listing.prompts, large=large, refused=_never, hide=hide("prompt"))
    tools = [GatewayTool.of(behind, own_words(tool)) for tool in listed_tools]
    resources = [GatewayResource.of(behind, resource) for resource in listed_resources]
    prompts = [GatewayPrompt.of(behind, prompt) for prompt in listed_prompts]
    return Shown(
        listing=listing,
        tools=tuple(tools),
        resources=tuple(resources),
        templates=tuple(GatewayTemplate.of(behind, template) for template in listed_templates),
        prompts=tuple(prompts),
        tool_by_name={tool.name: tool for tool in tools},
        resource_by_uri={
            uri: made
            for said, made in zip(listed_resources, resources, strict=True)
            for uri in (identity(said), str(made.uri))  # which FastMCP may write in another way
        },
        prompt_by_name={prompt.name: prompt for prompt in prompts},
        hidden=tuple(hidden),
        tokens=tokens(characters_of(tools)),
    )


def _never(_: object) -> None:
    """No rule says what resources and prompts may be used."""
