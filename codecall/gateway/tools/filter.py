"""Which components of a server are hidden: by access rules, and by structural checks that no rule gets around.

A server may list what it likes, and is believed in nothing that concerns others. Bounded are the number of components,
the length of names and of definitions. A tool or prompt whose full name would be that of a meta-tool, or would read as
one of another server, is hidden, and so is a component that FastMCP cannot make. A tool whose name reads as one of
another server only where separators are taken for each other is not hidden, but is outside that server's namespace and
reported. Of what a tool's `meta` tells CodeCall only what a server may decide for itself is accepted: examples, tags,
that CodeCall is to keep away from a tool.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeVar, cast

import mcp_types
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.tools import Tool

from codecall.catalog.entries import META_KEY
from codecall.gateway.tools.access import AccessRules, HideCode, HideReason, UnmatchedPattern
from codecall.gateway.tools.components import (
    AccessCheck,
    CallGuard,
    GatewayPrompt,
    GatewayResource,
    GatewayTemplate,
    GatewayTool,
)
from codecall.gateway.upstream.interface import Upstream
from codecall.gateway.upstream.listing import Listing
from codecall.gateway.upstream.messages import find_excess
from codecall.globs import MAX_URI_CHARS, display_name
from codecall.namespaces import Namespaces
from codecall.telemetry.tokens import estimate_characters, estimate_tokens

logger = logging.getLogger("codecall")

MAX_NAME_CHARS: Final = 128
"""Longest name of a tool or a prompt, as MCP has it (SEP-986)."""

MAX_DEFINITION_BYTES: Final = 256 * 1024
"""Bytes of the largest definition of one component, as JSON."""

MAX_DEFINITION_VALUES: Final = 20_000
MAX_DEFINITION_LEVELS: Final = 10_000
"""Values and names in one definition, and levels of nesting, as `find_excess` counts them. Of 4,955 tools of published
servers (the catalog that search is measured with) the largest has 4,355 and 1,516."""

MAX_TOOLS: Final = 5_000
MAX_OTHERS: Final = 5_000
"""Resources and prompts of one server that are shown; of templates `MAX_TEMPLATES`."""

MAX_TEMPLATES: Final = 200
"""Each request for a resource is compared with all of them."""

_OWN_SETTINGS: Final = ("enabledInCodeCall", "tags", "examples")
"""Settings that a tool's `meta` may give here. Its app, which is its server, and whether it is listed it may not."""

Item = mcp_types.Tool | mcp_types.Resource | mcp_types.ResourceTemplate | mcp_types.Prompt
ItemT = TypeVar("ItemT", mcp_types.Tool, mcp_types.Resource, mcp_types.ResourceTemplate, mcp_types.Prompt)
ComponentT = TypeVar("ComponentT")

ComponentKind = Literal["tool", "resource", "template", "prompt"]
"""Kinds of components that servers list."""


class HiddenComponent(NamedTuple):
    """A component that a server lists and clients do not see."""

    server: str
    kind: ComponentKind
    name: str
    """As the server writes it, shortened where it is very long; the URI of a resource."""
    code: HideCode
    reason: str


class ReservedNames:
    """Full names that a tool or prompt of one of the gateway's servers may not have.

    Args:
        servers: the names of all servers.
        meta_tools: those of the meta-tools, in every spelling.
    """

    def __init__(self, servers: Iterable[str] = (), meta_tools: Iterable[str] = ()) -> None:
        self._servers = frozenset(servers)
        self._meta_tools = frozenset(meta_tools)
        self._namespaces = Namespaces(self._servers)

    def is_foreign(self, server: str, name: str) -> bool:
        """Whether a tool of that server reads as one of another server; scripts call it by its full name only."""
        return self._namespaces.is_foreign(f"{server}_{name}", server)

    def reason_to_hide(self, server: str, name: str) -> HideReason | None:
        """Why a tool or a prompt of that server cannot have its name."""
        full = f"{server}_{name}"
        if full in self._meta_tools:
            return HideReason("shadows", f"{full} is a tool of CodeCall; call the server something else")
        for other in self._servers:
            if len(other) > len(server) and full.startswith(f"{other}_"):
                return HideReason("shadows", f"{full} reads as one of the server {other}; rename one of the servers")
        return None


def component_id(item: Item) -> str:
    """What a component is requested by: its name, its URI or its template."""
    match item:
        case mcp_types.Resource():
            return str(item.uri)
        case mcp_types.ResourceTemplate():
            return item.uri_template
        case _:
            return item.name


def screen_components(
    items: tuple[ItemT, ...],
    *,
    large: bool,
    reason_to_hide: Callable[[ItemT], HideReason | None],
    make: Callable[[ItemT], ComponentT],
    hide: Callable[[str, HideReason], None],
) -> dict[str, ComponentT]:
    """Make components of those of `items` that can be shown, by name; report the others to `hide`.

    Args:
        items: of one kind, as a server lists them.
        large: whether the listing is so large that one of them may be too large.
        reason_to_hide: gives a further reason against one.
        make: makes the component. One for which it fails is hidden, whatever the failure.
        hide: gets the name, fit to be printed, and the reason.
    """
    accepted: dict[str, ComponentT] = {}
    for index, item in enumerate(items):
        limit = _max_items(item)
        name = component_id(item)
        if index >= limit:
            hide(
                display_name(name),
                HideReason("number", f"{len(items) - limit} more than {limit}; this is the first of them"),
            )
            break
        try:
            reason = (
                _name_problem(item, name, accepted) or (_size_problem(item) if large else None) or reason_to_hide(item)
            )
            if reason is None:
                accepted[name] = make(item)
        except Exception as failure:
            # A server may write what it likes: no oddity of one component may take the others along.
            logger.debug("Nothing can be made of %s", display_name(name), exc_info=True)
            reason = HideReason("unusable", f"nothing can be made of its definition ({type(failure).__name__})")
        if reason is not None:
            hide(display_name(name), reason)
    return accepted


def may_be_large(listing: Listing) -> bool:
    """Whether something in it may be larger than one definition may be."""
    return _excess(listing.encoded) != ""


def strip_reserved_meta(tool: mcp_types.Tool) -> mcp_types.Tool:
    """The tool without what its server may not decide."""
    declared = (tool.meta or {}).get(META_KEY)
    if declared is None:
        return tool
    meta = {key: value for key, value in (tool.meta or {}).items() if key != META_KEY}
    if isinstance(declared, dict):
        settings = cast("dict[str, object]", declared)
        meta[META_KEY] = {key: settings[key] for key in _OWN_SETTINGS if key in settings}
    return tool.model_copy(update={"meta": meta or None})


def _max_items(item: Item) -> int:
    if isinstance(item, mcp_types.Tool):
        return MAX_TOOLS
    return MAX_TEMPLATES if isinstance(item, mcp_types.ResourceTemplate) else MAX_OTHERS


def _name_problem(item: Item, name: str, accepted: Mapping[str, object]) -> HideReason | None:
    limit = MAX_NAME_CHARS if isinstance(item, (mcp_types.Tool, mcp_types.Prompt)) else MAX_URI_CHARS
    if not 0 < len(name) <= limit:
        return HideReason("name", f"its name has {len(name)} characters; 1 to {limit} are possible")
    if not name.isprintable():
        return HideReason("name", "its name has characters that nobody sees")
    if name in accepted:
        return HideReason("name", "its server lists another one of the same name before it")
    return None


def _size_problem(item: Item) -> HideReason | None:
    excess = _excess(item.model_dump_json(by_alias=True, exclude_unset=True).encode())
    return HideReason("size", f"its definition has {excess}") if excess else None


def _excess(encoded: bytes) -> str:
    """What a definition has too much of; empty: nothing."""
    if (size := len(encoded)) > MAX_DEFINITION_BYTES:
        return f"{size} bytes; at most {MAX_DEFINITION_BYTES} are shown"
    excess = find_excess(encoded, MAX_DEFINITION_VALUES, MAX_DEFINITION_LEVELS)
    return "" if excess is None else f"more than {excess}"


@dataclass(frozen=True, eq=False)
class VisibleComponents:
    """The components of one listing. It is never changed: another listing makes another one."""

    listing: Listing | None = None
    """What it was built from; None: the server has not been listed yet."""
    tools: tuple[Tool, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    tool_by_name: Mapping[str, Tool] = field(default_factory=lambda: MappingProxyType[str, Tool]({}))
    tools_with_approvals: tuple[Tool, ...] = ()
    """The tools for a client whose person can be asked: those above, and those that are asked for."""
    approval_tool_by_name: Mapping[str, Tool] = field(default_factory=lambda: MappingProxyType[str, Tool]({}))
    """The tools that are asked for."""
    resource_by_uri: Mapping[str, Resource] = field(default_factory=lambda: MappingProxyType[str, Resource]({}))
    prompt_by_name: Mapping[str, Prompt] = field(default_factory=lambda: MappingProxyType[str, Prompt]({}))
    hidden: tuple[HiddenComponent, ...] = ()
    foreign: tuple[str, ...] = ()
    """The tools that read as ones of another server: `ReservedNames.is_foreign`."""
    unmatched: tuple[UnmatchedPattern, ...] = ()
    """What access rules name and no tool is."""
    tokens: int = 0
    """About how many tokens the definitions of its tools cost a model that lists them, `_meta` included."""


def build_visible_components(
    upstream: Upstream,
    listing: Listing,
    access: AccessRules,
    names: ReservedNames,
    *,
    check_access: AccessCheck | None = None,
    asking: CallGuard | None = None,
    guard: CallGuard | None = None,
) -> VisibleComponents:
    """Build what clients see of `listing`. Takes some 20 µs for each tool: long ones are built in a thread.

    Args:
        upstream: the server whose listing it is.
        listing: what it lists.
        access: which of its tools may be used.
        names: which names its tools and prompts may not have.
        check_access: called before calls of a tool for which access rules rest on what the server says of it.
        asking: has a person allow calls of tools that are asked for; None: there is no way to ask.
        guard: holds calls of the others against rules; None: no rule is about any.
    """
    hidden: list[HiddenComponent] = []
    large = may_be_large(listing)
    access, unmatched = access.for_tools(upstream.name, [tool.name for tool in listing.tools])

    def hide(kind: ComponentKind) -> Callable[[str, HideReason], None]:
        return lambda name, refusal: hidden.append(HiddenComponent(upstream.name, kind, name, *refusal))

    asked: dict[str, Tool] = {}

    def reason_to_hide(tool: mcp_types.Tool) -> HideReason | None:
        reason = access.reason_to_hide(tool)
        if (reason is None or reason.code == "asked") and (reserved := reserved_name(tool)) is not None:
            return reserved
        if reason is not None and reason.code == "asked" and asking is not None:
            asked[tool.name] = GatewayTool.from_mcp(
                upstream, strip_reserved_meta(tool), check_access=check_access, asking=asking, asked=True
            )
        return reason

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
            asking=guard,
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
    with_asked = tuple(
        found for item in listing.tools if (found := tools.get(item.name) or asked.get(item.name)) is not None
    )
    return VisibleComponents(
        listing=listing,
        tools=tuple(tools.values()),
        tools_with_approvals=with_asked if asked else tuple(tools.values()),
        approval_tool_by_name=asked,
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
        foreign=tuple(name for name in (*tools, *asked) if names.is_foreign(upstream.name, name)),
        unmatched=unmatched,
        tokens=_tokens([*tools.values(), *asked.values()]),
    )


def _tokens(tools: Sequence[Tool]) -> int:
    meta = sum(len(json.dumps(tool.meta, separators=(",", ":"))) for tool in tools if tool.meta)
    return estimate_tokens(estimate_characters(tools) + meta)


def _no_rule(_: object) -> None:
    """No rule limits which resources may be used; their URIs contain their server's name."""
