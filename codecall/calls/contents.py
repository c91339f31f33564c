"""From the contents of a resource, or the messages of a prompt, to the JSON text of the value a script sees.

A resource with one text is that text; or the data in it, where the MIME type says that it is JSON, or says nothing
(`text/plain`, FastMCP's default) and the text is a JSON object or array. Bytes are `{mimeType, blob}` in base64, and
several contents a list of `{uri, mimeType, text | blob}` as they are. A prompt is `{description, messages: [{role,
content}]}`; the content is the text, else the block as the one of a tool would be.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

import anyio.to_thread
from fastmcp.prompts import PromptResult
from fastmcp.resources import ResourceContent, ResourceResult
from mcp_types import TextContent

from codecall.calls.unwrap import PIECE_CHARS, ValueTooLarge, as_block, bounded, encode, is_json
from codecall.catalog.entries import JsonObject

MANY: Final = 200
"""Contents or messages from which on they are put together in a thread: some 2 ms."""

_SAYS_NOTHING: Final = "text/plain"


async def resource_json(result: ResourceResult, uri: str, max_bytes: int) -> str:
    """The value of a resource as JSON text.

    Args:
        result: what FastMCP's `read_resource` gave.
        uri: the URI that was read.
        max_bytes: UTF-8 bytes the text may have.

    Raises:
        ValueTooLarge: it would have more.
        ValueError: not JSON.
    """
    contents = result.contents
    size = sum(len(item.content) for item in contents)
    if size > max_bytes:
        raise ValueTooLarge(size)
    if not contents:
        return "null"
    only = contents[0]
    if len(contents) == 1 and isinstance(only.content, str):
        text = only.content
        return bounded(text, max_bytes) if _holds_json(text, only.mime_type) else await encode(text, max_bytes)
    if size > PIECE_CHARS or len(contents) > MANY:
        value = await anyio.to_thread.run_sync(_value, contents, uri)
    else:
        value = _value(contents, uri)
    return await encode(value, max_bytes)


async def prompt_json(result: PromptResult, max_bytes: int) -> str:
    """The value of a prompt as JSON text.

    Raises:
        ValueTooLarge: it would have more than `max_bytes`.
        ValueError: not JSON.
    """
    many = len(result.messages) > MANY
    messages = await anyio.to_thread.run_sync(_messages, result) if many else _messages(result)
    return await encode({"description": result.description, "messages": messages}, max_bytes)


def _messages(result: PromptResult) -> list[JsonObject]:
    return [
        {
            "role": message.role,
            "content": message.content.text if isinstance(message.content, TextContent) else as_block(message.content),
        }
        for message in result.messages
    ]


def _value(contents: Sequence[ResourceContent], uri: str) -> object:
    if len(contents) == 1:
        return _shown(contents[0])
    return [{"uri": uri, **_shown(item)} for item in contents]


def _shown(item: ResourceContent) -> JsonObject:
    if isinstance(item.content, str):
        return {"mimeType": item.mime_type, "text": item.content}
    return {"mimeType": item.mime_type, "blob": base64.b64encode(item.content).decode()}


def _holds_json(text: str, mime_type: str | None) -> bool:
    kind = (mime_type or _SAYS_NOTHING).partition(";")[0].strip().casefold()
    if kind == _SAYS_NOTHING:
        return text.lstrip()[:1] in ("{", "[") and is_json(text)
    return (kind.endswith("/json") or kind.endswith("+json")) and is_json(text)
