"""A server's tools, resources, templates and prompts as FastMCP's, which pass calls on and results back as they are."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self, TypeAlias, cast

import mcp_types
from fastmcp import Context
from fastmcp.exceptions import PromptError, ResourceError, ToolError
from fastmcp.prompts import Message, Prompt, PromptResult
from fastmcp.prompts.base import InputRequiredPromptResult, PromptArgument
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.resources.base import InputRequiredResourceResult, ResourceContent, ResourceResult
from fastmcp.resources.template import forward_uri
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from fastmcp.utilities.components import get_fastmcp_metadata
from fastmcp.utilities.tasks import TaskConfig
from mcp.shared.inbound import x_mcp_header_map
from pydantic import PrivateAttr

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
from codecall.gateway.upstream.errors import CONNECTION_META_KEYS, forwarded_meta, is_modern, raise_server_errors_as
from codecall.gateway.upstream.interface import Upstream
from codecall.gateway.upstream.listing import Listing
from codecall.gateway.upstream.session import set_header_parameters
from codecall.telemetry.tokens import estimate_characters, estimate_tokens

# ----------------------------------------------------------------------------------------------------
# A server's tools, resources, templates and prompts as FastMCP's, which pass calls on and results back as they are.

_NO_TASKS: Final = TaskConfig(mode="forbidden")

AccessCheck: TypeAlias = Callable[[str], Awaitable[bool]]
"""Whether the tool of that name may be used, by what its server says now; asked while it is connected."""


class _Origin(NamedTuple):
    """Where a tool comes from; one attribute, since each private one of a model takes long to read."""

    behind: Upstream
    name: str
    judge: AccessCheck | None


class GatewayTool(Tool):
    """A tool of a server behind the gateway."""

    task_config: TaskConfig = _NO_TASKS
    _origin: _Origin = PrivateAttr()

    @classmethod
    def from_mcp(cls, upstream: Upstream, tool: mcp_types.Tool, *, check_access: AccessCheck | None = None) -> Self:
        """The tool that `behind` lists as `tool`; `judge` is asked before each call."""
        # Every part was checked when the listing was read; hundreds are made when the gateway starts.
        made = cls.model_construct(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            parameters=tool.input_schema,
            annotations=tool.annotations,
            output_schema=tool.output_schema,
            icons=tool.icons,
            meta=tool.meta,
            tags=_tags(tool.meta),
            execution=tool.execution,
        )
        made._origin = _Origin(upstream, tool.name, check_access)
        return made

    async def run(self, arguments: dict[str, Any], context: Context | None = None) -> ToolResult:
        """Call it.

        Raises:
            ToolError: the server is down or too slow; `__cause__` says which. Or `judge` is against it.
            MCPError: the server's own.
        """
        context = context or get_context()
        behind, name, judge = self._origin
        with raise_server_errors_as(ToolError):
            async with behind.use(context) as line:
                if judge is not None and not await judge(name):
                    raise ToolError(
                        f"Server '{behind.name}' does not list this tool any more, "
                        "or access rules hide it by what the server says of it now"
                    )
                session = line.session
                asks = is_modern(session)
                if asks and (headers := x_mcp_header_map(self.parameters)):
                    # What a listing over this very connection would have set.
                    set_header_parameters(session, name, headers)
                result = await session.call_tool(
                    name,
                    arguments,
                    meta=forwarded_meta(context),
                    progress_callback=line.progress,
                    input_responses=context.input_responses if asks else None,
                    request_state=context.request_state if asks else None,
                    allow_input_required=True,
                )
        if isinstance(result, mcp_types.InputRequiredResult):
            return InputRequiredToolResult(result)
        # The result was read from JSON a moment ago, and nobody else has it: it is neither checked nor copied again.
        return ToolResult.model_construct(
            content=result.content,
            structured_content=result.structured_content,
            meta=result.meta,
            is_error=result.is_error,
        )

    def get_span_attributes(self) -> dict[str, Any]:
        """What FastMCP's span of the call says, and which server it goes to."""
        return super().get_span_attributes() | {"codecall.gateway.server": self._origin.behind.name}


class GatewayResource(Resource):
    """A resource of a server behind the gateway."""

    task_config: TaskConfig = _NO_TASKS
    _behind: Upstream = PrivateAttr()
    _uri: str = PrivateAttr()
    _contents: ResourceResult | None = PrivateAttr(default=None)

    @classmethod
    def from_mcp(cls, upstream: Upstream, resource: mcp_types.Resource) -> Self:
        """The resource that `behind` lists as `resource`."""
        made = cls(
            uri=cast("Any", resource.uri),
            name=resource.name,
            title=resource.title,
            description=resource.description,
            mime_type=resource.mime_type or "text/plain",
            icons=resource.icons,
            annotations=resource.annotations,
            meta=resource.meta,
            tags=_tags(resource.meta),
        )
        made._behind, made._uri = upstream, str(resource.uri)
        return made

    @classmethod
    def from_contents(cls, template: ResourceTemplate, upstream: Upstream, uri: str, contents: ResourceResult) -> Self:
        """The resource that `template` names as `uri`, of which `contents` have been read."""
        types = [item.mime_type for item in contents.contents]
        made = cls(
            uri=cast("Any", uri),
            name=template.name,
            title=template.title,
            description=template.description,
            mime_type=(types[0] if types else None) or template.mime_type or "text/plain",
            icons=template.icons,
            meta=template.meta,
            tags=template.tags,
        )
        made._behind, made._uri, made._contents = upstream, uri, contents
        return made

    async def read(self) -> ResourceResult:
        """Read it.

        Raises:
            ResourceError: the server is down or too slow; `__cause__` says which.
            MCPError: the server's own.
        """
        return self._contents if self._contents is not None else await _read(self._behind, self._uri, get_context())


class GatewayTemplate(ResourceTemplate):
    """A template of resources of a server behind the gateway."""

    task_config: TaskConfig = _NO_TASKS
    _behind: Upstream = PrivateAttr()
    _template: str = PrivateAttr()

    @classmethod
    def from_mcp(cls, upstream: Upstream, template: mcp_types.ResourceTemplate) -> Self:
        """The template that `behind` lists as `template`."""
        made = cls(
            uri_template=template.uri_template,
            name=template.name,
            title=template.title,
            description=template.description,
            mime_type=template.mime_type or "text/plain",
            icons=template.icons,
            annotations=template.annotations,
            parameters={},
            meta=template.meta,
            tags=_tags(template.meta),
        )
        made._behind, made._template = upstream, template.uri_template
        return made

    async def create_resource(
        self, uri: str, params: dict[str, Any], context: Context | None = None
    ) -> GatewayResource:
        """The resource that `uri` names, which is read for it.

        Raises:
            ResourceError, MCPError: as when a resource is read.
        """
        asked = forward_uri(self._template, params, uri)
        result = await _read(self._behind, asked, context or get_context())
        return GatewayResource.from_contents(self, self._behind, asked, result)


class GatewayPrompt(Prompt):
    """A prompt of a server behind the gateway."""

    task_config: TaskConfig = _NO_TASKS
    _behind: Upstream = PrivateAttr()
    _name: str = PrivateAttr()

    @classmethod
    def from_mcp(cls, upstream: Upstream, prompt: mcp_types.Prompt) -> Self:
        """The prompt that `behind` lists as `prompt`."""
        made = cls(
            name=prompt.name,
            title=prompt.title,
            description=prompt.description,
            arguments=[
                PromptArgument(
                    name=argument.name, description=argument.description, required=argument.required or False
                )
                for argument in prompt.arguments or []
            ],
            icons=prompt.icons,
            meta=prompt.meta,
            tags=_tags(prompt.meta),
        )
        made._behind, made._name = upstream, prompt.name
        return made

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Render it.

        Raises:
            PromptError: the server is down or too slow; `__cause__` says which.
            MCPError: the server's own.
        """
        context = get_context()
        with raise_server_errors_as(PromptError):
            async with self._behind.use(context) as line:
                asks = is_modern(line.session)
                result = await line.session.get_prompt(
                    self._name,
                    arguments,
                    meta=forwarded_meta(context),
                    input_responses=context.input_responses if asks else None,
                    request_state=context.request_state if asks else None,
                    allow_input_required=True,
                )
        if isinstance(result, mcp_types.InputRequiredResult):
            return InputRequiredPromptResult(result)
        messages = [Message(content=message.content, role=message.role) for message in result.messages]
        return PromptResult(messages=messages, description=result.description, meta=result.meta)


async def _read(behind: Upstream, uri: str, context: Context) -> ResourceResult:
    with raise_server_errors_as(ResourceError):
        async with behind.use(context) as line:
            asks = is_modern(line.session)
            result = await line.session.read_resource(
                uri,
                meta=forwarded_meta(context),
                input_responses=context.input_responses if asks else None,
                request_state=context.request_state if asks else None,
                allow_input_required=True,
            )
    if isinstance(result, mcp_types.InputRequiredResult):
        return InputRequiredResourceResult(result)
    if not result.contents:
        raise ResourceError(f"Server '{behind.name}' has nothing at this URI")
    contents = [
        ResourceContent(
            content=item.text if isinstance(item, mcp_types.TextResourceContents) else base64.b64decode(item.blob),
            mime_type=item.mime_type,
            meta=item.meta,
        )
        for item in result.contents
    ]
    meta = {key: value for key, value in (result.meta or {}).items() if key not in CONNECTION_META_KEYS}
    return ResourceResult(contents=contents, meta=meta or None)


def _tags(meta: dict[str, Any] | None) -> set[str]:
    """Those that are texts; whatever else a server calls tags is none."""
    said: object = get_fastmcp_metadata(meta).get("tags")
    return {tag for tag in cast("list[object]", said) if isinstance(tag, str)} if isinstance(said, list) else set()


# ----------------------------------------------------------------------------------------------------
# What clients of the gateway see of one server: its listing without what is hidden, as components of FastMCP.


@dataclass(frozen=True, eq=False)
class VisibleComponents:
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
    hidden: tuple[HiddenComponent, ...] = ()
    tokens: int = 0
    """What the definitions of its tools cost a model that lists them, about."""


def build_visible_components(
    upstream: Upstream,
    listing: Listing,
    access: AccessRules,
    names: ReservedNames,
    check_access: AccessCheck | None = None,
) -> VisibleComponents:
    """What is shown of `listing`. Takes some 20 µs for each tool: long ones are made in a thread.

    Args:
        behind: the server that says it.
        listing: what it says.
        access: which of its tools may be used.
        names: which names its tools and prompts may not have.
        judge: asked before a tool is called for which it counts what the server says about it.
    """
    hidden: list[HiddenComponent] = []
    large = may_be_large(listing)

    def hide(kind: ComponentKind) -> Callable[[str, HideReason], None]:
        return lambda name, refusal: hidden.append(HiddenComponent(upstream.name, kind, name, *refusal))

    def refused(tool: mcp_types.Tool) -> HideReason | None:
        return access.reason_to_hide(tool) or shadows(tool)

    def shadows(item: mcp_types.Tool | mcp_types.Prompt) -> HideReason | None:
        return names.reason_to_hide(upstream.name, item.name)

    tools = screen_components(
        listing.tools,
        large=large,
        refused=refused,
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
        refused=_never,
        make=lambda resource: GatewayResource.from_mcp(upstream, resource),
        hide=hide("resource"),
    )
    templates = screen_components(
        listing.templates,
        large=large,
        refused=_never,
        make=lambda template: GatewayTemplate.from_mcp(upstream, template),
        hide=hide("template"),
    )
    prompts = screen_components(
        listing.prompts,
        large=large,
        refused=shadows,
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
            uri: made
            for said, made in resources.items()
            for uri in (said, str(made.uri))  # which FastMCP may write in another way
        },
        prompt_by_name=prompts,
        hidden=tuple(hidden),
        tokens=estimate_tokens(estimate_characters(list(tools.values()))),
    )


def _never(_: object) -> None:
    """No rule says what resources may be used; their URIs begin with their server's name."""
