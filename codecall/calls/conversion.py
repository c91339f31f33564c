"""Converts results of tools, resources and prompts to the JSON text of the value a script gets.

The value of a tool is the first of these that exists: structured content (FastMCP's `{"result": x}` wrapper taken off),
the one text block as JSON if it is JSON, that text as a string, the list of content blocks; of nothing at all the empty
list where the tool is known to return lists, else null. A text that is only
a number or a string is JSON where that value is written so: `3.10` may be a version and `1e5` an id, and stay text.
Binary blocks arrive as `{type, mimeType, bytes, ref}`: base64 never reaches a script, and `ref` stands for it
(`blocks.py`).

The event loop never waits for JSON. A text that is JSON is checked and passed on as it is, which takes a hundredth of
the time of reading and writing it; large data is written in pieces in a thread, because one call of the encoder holds
the interpreter lock to its end.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, cast

import anyio.to_thread
import msgspec
from fastmcp.prompts import PromptResult
from fastmcp.resources import ResourceContent, ResourceResult
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from codecall.calls.texts import PIECE_CHARS, is_value
from codecall.catalog.entries import JsonObject
from codecall.jsonio.check import is_json
from codecall.jsonio.decode import encode_exactly, exceeds_chars

MAX_INLINE_CONTENTS: Final = 200
"""Contents or messages that are converted on the event loop, in some 2 ms; more are converted in a thread."""

_PIECE_ITEMS: Final = 256
"""Items of an array that are encoded as one piece, unless they are too large."""

_SPLIT_DEPTH: Final = 8
"""Depth down to which containers are split; results that are large further down are rare, and measuring costs time."""

_DEFAULT_MIME_TYPE: Final = "text/plain"
_DEFAULT_BINARY_TYPE: Final = "application/octet-stream"

_BASE64_BYTES: Final = 3 * 64 * 1024
"""Bytes that are encoded in one call, which holds the interpreter: a multiple of three."""


class McpToolResult(Protocol):
    """The part of FastMCP's ToolResult that this module reads."""

    content: list[ContentBlock]
    structured_content: dict[str, Any] | None
    meta: dict[str, Any] | None


class Blocks(Protocol):
    """Keeps the content blocks of results, see `blocks.py`."""

    async def keep(self, blocks: Sequence[ContentBlock]) -> list[str | None]:
        """Keep the blocks that are the value of a result; their references."""
        ...


class ValueTooLargeError(Exception):
    """A value has more bytes than allowed; `size` is their number."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def is_wrapped(result: McpToolResult) -> bool:
    """Whether FastMCP marked the structured content as its `{"result": x}` wrapper around what is no object."""
    mark: object = (result.meta or {}).get("fastmcp")
    return isinstance(mark, Mapping) and bool(cast("Mapping[str, object]", mark).get("wrap_result"))


def looks_wrapped(result: McpToolResult) -> bool:
    """Whether the structured content has the wrapper's shape without the mark: only the tool's schema can tell."""
    content = result.structured_content
    return content is not None and content.keys() == {"result"} and not is_wrapped(result)


async def to_json(
    result: McpToolResult, *, wrapped: bool, max_bytes: int, blocks: Blocks | None = None, empty: str = "null"
) -> str:
    """The value of a successful result as JSON text.

    Args:
        result: the result of FastMCP's `call_tool`.
        wrapped: whether the structured content is FastMCP's `{"result": x}` wrapper.
        max_bytes: UTF-8 bytes the text may have.
        blocks: keeps the content blocks of a result that has others than texts, and no structured content.
        empty: the value of a result without any content; see `empty_value`.

    Raises:
        ValueTooLargeError: the text would have more.
        ValueError: the value is not JSON, or nested too deeply.
    """
    structured, content = result.structured_content, result.content
    if structured is not None:
        return await encode(
            structured["result"] if wrapped and structured.keys() == {"result"} else structured, max_bytes
        )
    if not content:
        return empty
    if len(content) > 1 or not isinstance(content[0], TextContent):
        return await encode(await _blocks_json(content, blocks), max_bytes)
    text = content[0].text
    if len(text) > max_bytes:
        raise ValueTooLargeError(_utf8_size(text))
    return check_size(text, max_bytes) if await is_value(text) else await encode(text, max_bytes)


def empty_value(*schemas: JsonObject | None) -> str:
    """The value of a result without any content, as JSON text: FastMCP makes no content of an empty list.

    Args:
        schemas: what is known of the tool's results, declared or learned.
    """
    kinds = [schema.get("type") for schema in schemas if schema is not None]
    return "[]" if any(kind in ("array", ["array", "null"]) for kind in kinds) else "null"


async def resource_json(result: ResourceResult, uri: str, max_bytes: int, blocks: Blocks | None = None) -> str:
    """The value of a resource as JSON text. Contents that are bytes are content blocks, as those of a tool.

    Args:
        result: the result of FastMCP's `read_resource`.
        uri: the URI of the resource.
        max_bytes: UTF-8 bytes the text may have.
        blocks: keeps contents that are bytes.

    Raises:
        ValueTooLargeError: the text would have more.
        ValueError: the value is not JSON.
    """
    contents = result.contents
    size = sum(len(item.content) for item in contents)
    if (texts := sum(len(item.content) for item in contents if isinstance(item.content, str))) > max_bytes:
        raise ValueTooLargeError(texts)
    if not contents:
        return "null"
    only = contents[0]
    if len(contents) == 1 and isinstance(only.content, str):
        text = only.content
        is_content = await _is_json_content(text, only.mime_type)
        return check_size(text, max_bytes) if is_content else await encode(text, max_bytes)
    if size > PIECE_CHARS or len(contents) > MAX_INLINE_CONTENTS:
        converted = await anyio.to_thread.run_sync(_resource_blocks, contents, uri)
    else:
        converted = _resource_blocks(contents, uri)
    values = await _blocks_json(converted, blocks)
    return await encode(values[0] if len(values) == 1 else values, max_bytes)


async def prompt_json(result: PromptResult, max_bytes: int, blocks: Blocks | None = None) -> str:
    """The value of a prompt as JSON text. `blocks`: as for `to_json`.

    Raises:
        ValueTooLargeError: the text would have more than `max_bytes`.
        ValueError: the value is not JSON.
    """
    many = len(result.messages) > MAX_INLINE_CONTENTS
    messages = await anyio.to_thread.run_sync(_prompt_messages, result) if many else _prompt_messages(result)
    content = [message.content for message in result.messages]
    if blocks is not None and has_others_than_texts(content):
        for message, reference in zip(messages, await blocks.keep(content), strict=True):
            if reference is not None and isinstance(message["content"], dict):
                message["content"]["ref"] = reference
    return await encode({"description": result.description, "messages": messages}, max_bytes)


async def encode(value: object, max_bytes: int) -> str:
    """`value` as JSON text. NaN and the infinities become null, unpaired surrogates stay as `\\ud800` escapes.

    Raises:
        ValueTooLargeError: the text would have more than `max_bytes`.
        ValueError: the value is not JSON, or nested too deeply.
    """
    if exceeds_chars(value, PIECE_CHARS):
        return await anyio.to_thread.run_sync(_encode, value, max_bytes, _pieces)
    return _encode(value, max_bytes, _one_piece)


def check_size(text: str, max_bytes: int) -> str:
    """Return `text`, which is JSON, if it has at most `max_bytes`.

    Raises:
        ValueTooLargeError: the text has more.
    """
    size = _utf8_size(text)
    if size > max_bytes:
        raise ValueTooLargeError(size)
    return text


def has_others_than_texts(content: Sequence[ContentBlock]) -> bool:
    """Whether some of these blocks are pictures, sounds, files or links."""
    return any(not isinstance(block, TextContent) for block in content)


def is_repeated_by(content: Sequence[ContentBlock], value_json: str) -> bool:
    """Whether these blocks are nothing, or one text that is this JSON, as nearly always beside structured content."""
    only = content[0] if len(content) == 1 else None
    return not content or (isinstance(only, TextContent) and only.text == value_json)


def block_to_json(block: ContentBlock) -> JsonObject:
    """The value of a content block for a script."""
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text}
    if isinstance(block, (ImageContent, AudioContent)):
        return {"type": block.type, "mimeType": block.mime_type, "bytes": decoded_size(block.data)}
    if isinstance(block, ResourceLink):
        return _without_none(type=block.type, uri=str(block.uri), name=block.name, mimeType=block.mime_type)
    return _embedded_json(block)


async def _blocks_json(content: Sequence[ContentBlock], blocks: Blocks | None) -> list[JsonObject]:
    """The values of content blocks, with their references where they are kept."""
    values: list[JsonObject] = []
    for number, block in enumerate(content):
        if number % 100 == 99:
            await asyncio.sleep(0)
        values.append(block_to_json(block))
    if blocks is not None and has_others_than_texts(content):
        for value, reference in zip(values, await blocks.keep(content), strict=True):
            if reference is not None:
                value["ref"] = reference
    return values


def decoded_size(encoded: str) -> int:
    """Bytes that a base64 text encodes, counted without decoding it; line breaks are allowed."""
    characters = len(encoded) - sum(encoded.count(blank) for blank in "\r\n\t ")
    padding = encoded.count("=", max(0, len(encoded) - 8))
    return max(0, (characters - padding) * 3 // 4)


def _resource_blocks(contents: Sequence[ResourceContent], uri: str) -> list[ContentBlock]:
    """The contents of a resource as content blocks: pictures, sounds, other files and texts."""
    return [_content_block(item, uri) for item in contents]


def _content_block(item: ResourceContent, uri: str) -> ContentBlock:
    if isinstance(item.content, str):
        text = TextResourceContents(uri=uri, mime_type=item.mime_type, text=item.content)
        return EmbeddedResource(type="resource", resource=text)
    mime_type = item.mime_type or _DEFAULT_BINARY_TYPE
    data = "".join(
        base64.b64encode(item.content[start : start + _BASE64_BYTES]).decode()
        for start in range(0, len(item.content), _BASE64_BYTES)
    )
    kind = mime_type.partition("/")[0]
    if kind == "image":
        return ImageContent(type="image", data=data, mime_type=mime_type)
    if kind == "audio":
        return AudioContent(type="audio", data=data, mime_type=mime_type)
    return EmbeddedResource(type="resource", resource=BlobResourceContents(uri=uri, mime_type=mime_type, blob=data))


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _embedded_json(block: EmbeddedResource) -> JsonObject:
    resource = block.resource
    if isinstance(resource, BlobResourceContents):
        size = decoded_size(resource.blob)
        return _without_none(type=block.type, uri=str(resource.uri), mimeType=resource.mime_type, bytes=size)
    return _without_none(type=block.type, uri=str(resource.uri), mimeType=resource.mime_type, text=resource.text)


def _without_none(**fields: object) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


async def _is_json_content(text: str, mime_type: str | None) -> bool:
    kind = (mime_type or _DEFAULT_MIME_TYPE).partition(";")[0].strip().casefold()
    if kind == _DEFAULT_MIME_TYPE:
        return text.lstrip()[:1] in ("{", "[") and await is_json(text)
    return (kind.endswith("/json") or kind.endswith("+json")) and await is_json(text)


def _prompt_messages(result: PromptResult) -> list[JsonObject]:
    return [
        {
            "role": message.role,
            "content": message.content.text
            if isinstance(message.content, TextContent)
            else block_to_json(message.content),
        }
        for message in result.messages
    ]


def _encode(value: object, max_bytes: int, split: Callable[[object], Iterable[bytes]]) -> str:
    try:
        pieces: list[bytes] = []
        size = 0
        for piece in split(value):
            size += len(piece)
            if size <= max_bytes:
                pieces.append(piece)
            else:
                pieces.clear()  # only counted from here on
        if size > max_bytes:
            raise ValueTooLargeError(size)
        return b"".join(pieces).decode()
    except (TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as failure:
        raise ValueError(type(failure).__name__) from failure


def _encode_piece(value: object) -> bytes:
    try:
        return encode_exactly(value)
    except UnicodeEncodeError:
        return json.dumps(_finite(value), separators=(",", ":")).encode()


def _one_piece(value: object) -> tuple[bytes]:
    """The JSON of `value` in one piece."""
    return (_encode_piece(value),)


def _pieces(value: object, depth: int = 0) -> Iterator[bytes]:
    """The JSON of `value`: large containers item by item down to `_SPLIT_DEPTH`, anything else in one piece."""
    if depth == _SPLIT_DEPTH or not exceeds_chars(value, PIECE_CHARS):
        yield _encode_piece(value)
    elif isinstance(value, Mapping):
        separator = b"{"
        for key, item in cast("Mapping[object, object]", value).items():
            yield separator + _encode_piece(str(key)) + b":"
            yield from _pieces(item, depth + 1)
            separator = b","
        yield b"}"
    elif isinstance(value, (list, tuple)):
        sequence = cast("Sequence[object]", value)
        separator = b"["
        for start in range(0, len(sequence), _PIECE_ITEMS):
            for piece in _items(sequence[start : start + _PIECE_ITEMS], depth):
                yield separator
                yield from piece
                separator = b","
        yield b"]"
    else:
        yield _encode_piece(value)


def _items(items: Sequence[object], depth: int) -> Iterator[Iterator[bytes]]:
    """The JSON of an array's items without its brackets: all at once, or one by one if they are too large for that."""
    if exceeds_chars(items, PIECE_CHARS):
        yield from (_pieces(item, depth + 1) for item in items)
    else:
        yield iter((_encode_piece(items)[1:-1],))


def _finite(value: object) -> object:
    """JSON data with null in place of the numbers that JSON cannot express."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("Sequence[object]", value)]
    return value
