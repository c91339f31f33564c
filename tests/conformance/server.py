"""The server that the official conformance suite expects, written with FastMCP.

    python server.py                  over standard input and output, for the gateway
    python server.py http PORT        over HTTP, by itself: what FastMCP alone passes

The suite's names begin with `test_`, which the gateway makes of the name of the server; alone it is mounted as `test`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.prompts import Message
from fastmcp.tools import ToolResult
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    AudioContent,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = base64.b64encode(b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0").decode()

server: FastMCP[Any] = FastMCP("conformance")


def text(value: str) -> TextContent:
    return TextContent(type="text", text=value)


def resource(uri: str, value: str, mime_type: str = "text/plain") -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=value)
    return EmbeddedResource(type="resource", resource=contents)


@server.tool
def simple_text() -> ToolResult:
    """Answers with text."""
    return ToolResult(content=[text("This is a simple text response for testing.")])


@server.tool
def image_content() -> ToolResult:
    """Answers with a picture."""
    return ToolResult(content=[ImageContent(type="image", data=PNG, mime_type="image/png")])


@server.tool
def audio_content() -> ToolResult:
    """Answers with a sound."""
    return ToolResult(content=[AudioContent(type="audio", data=WAV, mime_type="audio/wav")])


@server.tool
def embedded_resource() -> ToolResult:
    """Answers with a resource."""
    return ToolResult(content=[resource("test://embedded-resource", "This is an embedded resource content.")])


@server.tool
def multiple_content_types() -> ToolResult:
    """Answers with three blocks."""
    data = json.dumps({"test": "data", "value": 123})
    return ToolResult(
        content=[
            text("Multiple content types test:"),
            ImageContent(type="image", data=PNG, mime_type="image/png"),
            resource("test://mixed-content-resource", data, "application/json"),
        ]
    )


@server.tool
async def tool_with_logging(ctx: Context) -> str:
    """Logs three lines."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(line)
        await asyncio.sleep(0.05)
    return "Logged"


@server.tool
async def tool_with_progress(ctx: Context) -> str:
    """Reports progress."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return "Done"


@server.tool
def error_handling() -> None:
    """Fails."""
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool
async def sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    messages = [SamplingMessage(role="user", content=text(prompt))]
    request = CreateMessageRequest(params=CreateMessageRequestParams(messages=messages, max_tokens=100))
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    answer = await ctx.session.send_request(request, CreateMessageResult, metadata=related)
    return f"LLM response: {answer.content}"


async def ask(ctx: Context, message: str, schema: dict[str, Any]) -> ElicitResult:
    request = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    return await ctx.session.send_request(request, ElicitResult, metadata=related)


@server.tool
async def elicitation(message: str, ctx: Context) -> str:
    """Asks a person."""
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    answer = await ask(ctx, message, schema)
    return f"User response: action={answer.action}, content={json.dumps(answer.content)}"


@server.tool
async def elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with defaults."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answer = await ask(ctx, "Defaults", {"type": "object", "properties": properties})
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


@server.tool
async def elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks with choices."""
    values, named = ["option1", "option2", "option3"], ["First", "Second", "Third"]
    titled = [{"const": f"value{n}", "title": f"{name} Option"} for n, name in enumerate(named, 1)]
    properties = {
        "untitledSingle": {"type": "string", "enum": values},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": values}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = await ask(ctx, "Choices", {"type": "object", "properties": properties})
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture."""
    return base64.b64decode(PNG)


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:  # noqa: A002 - the suite's name
    """Data of an id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.prompt
def simple_prompt() -> str:
    """A prompt."""
    return "This is a simple prompt for testing."


@server.prompt
def prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803 - the suite's name
    """A prompt with a resource."""
    return [
        Message(content=resource(resourceUri, "Embedded resource content for testing.")),
        Message("Please process the embedded resource above."),
    ]


@server.prompt
def prompt_with_image() -> list[Message]:
    """A prompt with a picture."""
    return [
        Message(content=ImageContent(type="image", data=PNG, mime_type="image/png")),
        Message("Please analyze the image above."),
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        alone: FastMCP[Any] = FastMCP("alone")
        alone.mount(server, namespace="test")
        alone.run("http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="CRITICAL")
    else:
        server.run(show_banner=False, log_level="CRITICAL")
