"""From a tool's MCP result to the value a script sees, and from there to JSON text.

In this order: structured content (FastMCP's `{"result": x}` wrapper taken off), the one text block parsed as JSON, that
text as it is, the list of content blocks, null. Binary blocks arrive as `{type, mimeType, bytes}`: base64 never reaches
a script. What is large is worked on in a thread, so that the event loop never waits for JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol, cast

import anyio.to_thread
import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from codecall.catalog.view import JsonObject

THREAD_ABOVE_CHARS: Final = 128 * 1024
"""Results larger than this are parsed and encoded in a thread; below it takes under 2 ms on the event loop."""

_NODE_CHARS: Final = 8
"""What one value counts in an estimate besides its characters."""


class Result(Protocol):
    """The part of FastMCP's ToolResult that is read here."""

    content: list[ContentBlock]
    structured_content: dict[str, Any] | None
    meta: dict[str, Any] | None


def is_wrapped(result: Result) -> bool:
    """Whether FastMCP marked the structured content as its `{"result": x}` wrapper around what is no object."""
    mark: object = (result.meta or {}).get("fastmcp")
    return isinstance(mark, Mapping) and bool(cast("Mapping[str, object]", mark).get("wrap_result"))


def looks_wrapped(result: Result) -> bool:
    """Whether the structured content has the wrapper's shape without the mark: only the tool's schema can tell."""
    content = result.structured_content
    return content is not None and len(content) == 1 and "result" in content and not is_wrapped(result)


async def read_value(result: Result, *, wrapped: bool) -> object:
    """The value of a successful result.

    Args:
        result: what FastMCP's `call_tool` gave.
        wrapped: the structured content is FastMCP's `{"result": x}` wrapper.
    """
    if result.structured_content is None and _text_chars(result.content) > THREAD_ABOVE_CHARS:
        return await anyio.to_thread.run_sync(_value, result, wrapped)
    return _value(result, wrapped)


async def encode(value: object) -> bytes:
    """`value` as JSON. NaN and the infinities become null, unpaired surrogates stay as `\\ud800` escapes.

    Raises:
        ValueError: not JSON, or nested too deeply for the encoder.
    """
    if _exceeds(value, THREAD_ABOVE_CHARS):
        return await anyio.to_thread.run_sync(_encode, value)
    return _encode(value)


def _value(result: Result, wrapped: bool) -> object:
    structured = result.structured_content
    if structured is not None:
        return structured["result"] if wrapped and structured.keys() == {"result"} else structured
    if not result.content:
        return None
    if len(result.content) == 1 and isinstance(result.content[0], TextContent):
        return parse_json(result.content[0].text)
    return [_block(block) for block in result.content]


def parse_json(text: str) -> object:
    """The value `text` stands for if it is JSON, else `text`."""
    try:
        return cast("object", msgspec.json.decode(text))
    except RecursionError:
        return text
    except (msgspec.MsgspecError, UnicodeEncodeError):
        # msgspec refuses two things that are JSON: escaped unpaired surrogates, and numbers too large for a double.
        if "\\u" not in text and "e" not in text and "E" not in text:
            return text
    try:
        return cast("object", json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _block(block: ContentBlock) -> JsonObject:
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text}
    if isinstance(block, (ImageContent, AudioContent)):
        return {"type": block.type, "mimeType": block.mime_type, "bytes": decoded_size(block.data)}
    if isinstance(block, ResourceLink):
        return _present(type=block.type, uri=str(block.uri), name=block.name, mimeType=block.mime_type)
    return _embedded(block)


def _embedded(block: EmbeddedResource) -> JsonObject:
    resource = block.resource
    if isinstance(resource, BlobResourceContents):
        size = decoded_size(resource.blob)
        return _present(type=block.type, uri=str(resource.uri), mimeType=resource.mime_type, bytes=size)
    return _present(type=block.type, uri=str(resource.uri), mimeType=resource.mime_type, text=resource.text)


def _present(**fields: object) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def decoded_size(base64: str) -> int:
    """Bytes that `base64` stands for, counted without decoding it; line breaks are allowed."""
    characters = len(base64) - sum(base64.count(blank) for blank in "\r\n\t ")
    padding = base64.count("=", max(0, len(base64) - 8))
    return max(0, (characters - padding) * 3 // 4)


def _text_chars(content: Sequence[ContentBlock]) -> int:
    return sum(len(block.text) for block in content if isinstance(block, TextContent))


def _exceeds(value: object, limit: int) -> bool:
    """Whether `value` is larger than about `limit` characters of JSON; stops counting as soon as it is."""
    left = limit
    waiting = [value]
    while waiting:
        item = waiting.pop()
        left -= _NODE_CHARS
        if isinstance(item, str):
            left -= len(item)
        elif isinstance(item, Mapping):
            mapping = cast("Mapping[object, object]", item)
            left -= len(mapping) * _NODE_CHARS
            if left >= 0:
                waiting.extend(mapping.values())
        elif isinstance(item, (list, tuple)):
            sequence = cast("Sequence[object]", item)
            left -= len(sequence)
            if left >= 0:
                waiting.extend(sequence)
        if left < 0:
            return True
    return False


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(_finite(value), ensure_ascii=True, separators=(",", ":")).encode("ascii")
    except (TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as failure:
        raise ValueError(type(failure).__name__) from failure


def _finite(value: object) -> object:
    """JSON data with null for the numbers JSON has no text for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("Sequence[object]", value)]
    return value
