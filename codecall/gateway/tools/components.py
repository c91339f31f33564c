"""A server's tools, resources, templates and prompts as FastMCP components, which pass calls on and results back as
they are."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias, cast

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

from codecall.gateway.upstream.errors import (
    CONNECTION_META_KEYS,
    forwarded_meta,
    is_modern,
    raise_server_errors_as,
    unreadable_answer_error,
)
from codecall.gateway.upstream.interface import UNCHECKED_KEYWORD, Upstream, unchecked_schema
from codecall.gateway.upstream.session import set_header_parameters

MAX_PARTS: Final = 2_000
"""Messages of a prompt, and contents of a resource. FastMCP makes objects of all at once, of each more than once."""

_NO_TASKS: Final = TaskConfig(mode="forbidden")

AccessCheck: TypeAlias = Callable[[str, bool], Awaitable[bool]]
"""Whether the tool of that name may be used, by what its server says now; and whether also if a person allows each call
of it. Called while the server is connected."""


class CallGuard(Protocol):
    """Holds calls of tools against rules, and has a person allow those that the rules ask for."""

    def can_ask(self) -> bool:
        """Whether the person behind the request that is being answered can be asked."""
        ...

    async def call(
        self, tool: Tool, server: str, arguments: dict[str, Any], make: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Make a call once it has been allowed.

        Args:
            tool: The tool, as clients know it.
            server: Name of its server.
            arguments: Its input.
            make: Makes the call.

        Raises:
            ToolCallError: it has not been allowed.
        """
        ...


class _ToolSource(NamedTuple):
    """Where a tool comes from; one attribute, since each private one of a model takes long to read."""

    upstream: Upstream
    name: str
    check_access: AccessCheck | None
    asking: CallGuard | None
    """Has each call allowed; None: no rule is about any."""
    asked: bool
    """Whether it may be called only because each call is allowed."""


class GatewayTool(Tool):
    """A tool of a server upstream the gateway."""

    task_config: TaskConfig = _NO_TASKS
    _source: _ToolSource = PrivateAttr()

    @classmethod
    def from_mcp(
        cls,
        upstream: Upstream,
        tool: mcp_types.Tool,
        *,
        check_access: AccessCheck | None = None,
        asking: CallGuard | None = None,
        asked: bool = False,
    ) -> Self:
        """Make the tool that `upstream` lists as `tool`; before each call `asking` has it allowed, and `check_access`
        is called, with what `asked` says."""
        # Every part was checked when the listing was read; hundreds are made when the gateway starts.
        component = cls.model_construct(
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
        component._source = _ToolSource(upstream, tool.name, check_access, asking, asked)
        return component

    async def run(self, arguments: dict[str, Any], context: Context | None = None) -> ToolResult:
        """Call the tool on its server.

        Raises:
            ToolError: the server is down or too slow, which `__cause__` says; or `check_access` is against the call.
            ToolCallError: a rule denies the call, or no person has allowed it.
            MCPError: the server answered with an error.
        """
        if (asking := self._source.asking) is not None:
            return await asking.call(
                self, self._source.upstream.name, arguments, lambda: self._call(arguments, context)
            )
        return await self._call(arguments, context)

    def to_mcp_tool(self, **overrides: Any) -> mcp_types.Tool:
        """As clients see it: they refuse results by its schema, which one that is only described must not make them."""
        if (schema := self.output_schema) is not None and schema.get(UNCHECKED_KEYWORD):
            overrides.setdefault("outputSchema", unchecked_schema(schema))
        return super().to_mcp_tool(**overrides)

    async def _call(self, arguments: dict[str, Any], context: Context | None) -> ToolResult:
        context = context or get_context()
        upstream, name, check_access, _, asked = self._source
        with raise_server_errors_as(ToolError):
            async with upstream.use(context) as call:
                if check_access is not None and not await check_access(name, asked):
                    raise ToolError(
                        f"Server '{upstream.name}' does not list this tool any more, "
                        "or access rules hide it by what the server says of it now"
                    )
                session = call.session
                if is_modern(session):
                    # What the SDK's own listing over this very connection would have set.
                    set_header_parameters(session, name, x_mcp_header_map(self.parameters))
                result = await call.run(
                    lambda answers, state: session.call_tool(
                        name,
                        arguments,
                        meta=forwarded_meta(context),
                        progress_callback=call.progress,
                        input_responses=answers,
                        request_state=state,
                        allow_input_required=True,
                    )
                )
        if isinstance(result, mcp_types.InputRequiredResult):
            return InputRequiredToolResult(result)
        # The result was read from JSON a moment ago, and is not shared: it is neither checked nor copied again.
        return ToolResult.model_construct(
            content=result.content,
            structured_content=result.structured_content,
            meta=result.meta,
            is_error=result.is_error,
        )

    def get_span_attributes(self) -> dict[str, Any]:
        """The attributes of FastMCP's span of the call, and the server it goes to."""
        return super().get_span_attributes() | {"codecall.gateway.server": self._source.upstream.name}


class GatewayResource(Resource):
    """A resource of a server upstream the gateway."""

    task_config: TaskConfig = _NO_TASKS
    _upstream: Upstream = PrivateAttr()
    _uri: str = PrivateAttr()
    _contents: ResourceResult | None = PrivateAttr(default=None)

    @classmethod
    def from_mcp(cls, upstream: Upstream, resource: mcp_types.Resource) -> Self:
        """Make the resource that `upstream` lists as `resource`."""
        component = cls(
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
        component._upstream, component._uri = upstream, str(resource.uri)
        return component

    @classmethod
    def from_contents(cls, template: ResourceTemplate, upstream: Upstream, uri: str, contents: ResourceResult) -> Self:
        """Make the resource that `template` names as `uri`, whose `contents` have been read."""
        types = [item.mime_type for item in contents.contents]
        component = cls(
            uri=cast("Any", uri),
            name=template.name,
            title=template.title,
            description=template.description,
            mime_type=(types[0] if types else None) or template.mime_type or "text/plain",
            icons=template.icons,
            meta=template.meta,
            tags=template.tags,
        )
        component._upstream, component._uri, component._contents = upstream, uri, contents
        return component

    async def read(self) -> ResourceResult:
        """Read the resource from its server.

        Raises:
            ResourceError: the server is down or too slow; `__cause__` says which.
            MCPError: the server answered with an error.
        """
        return self._contents if self._contents is not None else await _read(self._upstream, self._uri, get_context())


class GatewayTemplate(ResourceTemplate):
    """A template of resources of a server upstream the gateway."""

    task_config: TaskConfig = _NO_TASKS
    _upstream: Upstream = PrivateAttr()
    _template: str = PrivateAttr()

    @classmethod
    def from_mcp(cls, upstream: Upstream, template: mcp_types.ResourceTemplate) -> Self:
        """Make the template that `upstream` lists as `template`."""
        component = cls(
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
        component._upstream, component._template = upstream, template.uri_template
        return component

    async def create_resource(
        self, uri: str, params: dict[str, Any], context: Context | None = None
    ) -> GatewayResource:
        """Read the resource that `uri` names, and make it.

        Raises:
            ResourceError, MCPError: as when a resource is read.
        """
        resolved_uri = forward_uri(self._template, params, uri)
        result = await _read(self._upstream, resolved_uri, context or get_context())
        return GatewayResource.from_contents(self, self._upstream, resolved_uri, result)

    async def complete(
        self, argument: mcp_types.CompletionArgument, context: mcp_types.CompletionContext | None
    ) -> mcp_types.Completion:
        """Ask the server for values of a parameter.

        Raises:
            ResourceError: the server is down or too slow; `__cause__` says which.
            MCPError: the server answered with an error.
        """
        reference = mcp_types.ResourceTemplateReference(type="ref/resource", uri=self._template)
        with raise_server_errors_as(ResourceError):
            return await _complete(self._upstream, reference, argument, context)


class GatewayPrompt(Prompt):
    """A prompt of a server upstream the gateway."""

    task_config: TaskConfig = _NO_TASKS
    _upstream: Upstream = PrivateAttr()
    _name: str = PrivateAttr()

    @classmethod
    def from_mcp(cls, upstream: Upstream, prompt: mcp_types.Prompt) -> Self:
        """Make the prompt that `upstream` lists as `prompt`."""
        component = cls(
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
        component._upstream, component._name = upstream, prompt.name
        return component

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Render the prompt on its server.

        Raises:
            PromptError: the server is down or too slow; `__cause__` says which.
            MCPError: the server answered with an error.
        """
        context = get_context()
        with raise_server_errors_as(PromptError):
            async with self._upstream.use(context) as call:
                result = await call.run(
                    lambda answers, state: call.session.get_prompt(
                        self._name,
                        arguments,
                        meta=forwarded_meta(context),
                        input_responses=answers,
                        request_state=state,
                        allow_input_required=True,
                    )
                )
        if isinstance(result, mcp_types.InputRequiredResult):
            return InputRequiredPromptResult(result)
        if (count := len(result.messages)) > MAX_PARTS:
            raise PromptError(_too_many(self._upstream, f"{count:,} messages"))
        messages = [Message(content=message.content, role=message.role) for message in result.messages]
        return PromptResult(messages=messages, description=result.description, meta=result.meta)

    async def complete(
        self, argument: mcp_types.CompletionArgument, context: mcp_types.CompletionContext | None
    ) -> mcp_types.Completion:
        """Ask the server for values of an argument.

        Raises:
            PromptError: the server is down or too slow; `__cause__` says which.
            MCPError: the server answered with an error.
        """
        reference = mcp_types.PromptReference(type="ref/prompt", name=self._name)
        with raise_server_errors_as(PromptError):
            return await _complete(self._upstream, reference, argument, context)


async def _complete(
    upstream: Upstream,
    reference: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
    argument: mcp_types.CompletionArgument,
    context: mcp_types.CompletionContext | None,
) -> mcp_types.Completion:
    """The values of an argument, with those of other arguments that the client has already."""
    known = context.arguments if context is not None else None
    async with upstream.use(get_context()) as call:
        result = await call.session.complete(reference, {"name": argument.name, "value": argument.value}, known)
    return result.completion


async def _read(upstream: Upstream, uri: str, context: Context) -> ResourceResult:
    with raise_server_errors_as(ResourceError):
        async with upstream.use(context) as call:
            result = await call.run(
                lambda answers, state: call.session.read_resource(
                    uri,
                    meta=forwarded_meta(context),
                    input_responses=answers,
                    request_state=state,
                    allow_input_required=True,
                )
            )
    if isinstance(result, mcp_types.InputRequiredResult):
        return InputRequiredResourceResult(result)
    if not result.contents:
        raise ResourceError(f"Server '{upstream.name}' has nothing at this URI")
    if (count := len(result.contents)) > MAX_PARTS:
        raise ResourceError(_too_many(upstream, f"{count:,} contents"))
    with raise_server_errors_as(ResourceError):
        contents = [_content(upstream.name, item) for item in result.contents]
    meta = {key: value for key, value in (result.meta or {}).items() if key not in CONNECTION_META_KEYS}
    return ResourceResult(contents=contents, meta=meta or None)


def _content(server: str, item: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> ResourceContent:
    try:
        content = item.text if isinstance(item, mcp_types.TextResourceContents) else base64.b64decode(item.blob)
    except ValueError as fault:
        raise unreadable_answer_error(server, f"contents.blob: {fault}") from None
    return ResourceContent(content=content, mime_type=item.mime_type, meta=item.meta)


def _too_many(upstream: Upstream, what: str) -> str:
    return f"Server '{upstream.name}' answered with {what}; at most {MAX_PARTS:,} are passed on"


def _tags(meta: dict[str, Any] | None) -> set[str]:
    """The tags that are strings; whatever else a server gives as tags is ignored."""
    tags: object = get_fastmcp_metadata(meta).get("tags")
    return {tag for tag in cast("list[object]", tags) if isinstance(tag, str)} if isinstance(tags, list) else set()
