"""From a tool's MCP result to the JSON text of the value a script sees.

In this order: structured content (FastMCP's `{"result": x}` wrapper taken off), the one text block as JSON if it is
JSON, that text as a string, the list of content blocks, null. Binary blocks arrive as `{type, mimeType, bytes}`: base64
never reaches a script.

The event loop never waits for JSON. A text that is JSON is checked and passed on as it is, which takes a hundredth of
the time of reading and writing it; large data is written in pieces in a thread, because one call of the encoder holds
the interpreter lock to its end.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol, cast

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
)

from codecall.catalog.entries import JsonObject

PIECE_CHARS: Final = 128 * 1024
"""Characters of JSON, about, that one call of the encoder writes: under 2 ms. Larger data goes to a thread."""

_PIECE_ITEMS: Final = 256
"""Items of an array that are tried as one piece."""

_SPLIT_DEPTH: Final = 8
"""How deep containers are taken apart; results that are large further down are rare, and looking costs time."""

_NODE_CHARS: Final = 8
"""What one value counts in an estimate besides its characters."""

_FLAT: Final = frozenset({int, float, bool, type(None)})
"""Types of values that count nothing besides."""

_check = msgspec.json.Decoder(msgspec.Raw).decode
_type_of: Final = cast("Callable[[object], type]", type)
"""`type`; of what is unknown, the type checker takes that for something else."""


class McpToolResult(Protocol):
    """The part of FastMCP's ToolResult that is read here."""

    content: list[ContentBlock]
    structured_content: dict[str, Any] | None
    meta: dict[str, Any] | None


class ValueTooLarge(Exception):  # noqa: N818 - internal signal, named for what happened
    """A value has more bytes than it may; `size` says how many."""

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


async def to_json(result: McpToolResult, *, wrapped: bool, max_bytes: int) -> str:
    """The value of a successful result as JSON text.

    Args:
        result: what FastMCP's `call_tool` gave.
        wrapped: the structured content is FastMCP's `{"result": x}` wrapper.
        max_bytes: UTF-8 bytes the text may have.

    Raises:
        ValueTooLarge: it would have more.
        ValueError: not JSON, or nested too deeply.
    """
    structured, content = result.structured_content, result.content
    if structured is not None:
        return await encode(
            structured["result"] if wrapped and structured.keys() == {"result"} else structured, max_bytes
        )
    if not content:
        return "null"
    if len(content) > 1 or not isinstance(content[0], TextContent):
        return await encode([block_to_json(block) for block in content], max_bytes)
    text = content[0].text
    if len(text) > max_bytes:
        raise ValueTooLarge(_bytes(text))
    return check_size(text, max_bytes) if is_json(text) else await encode(text, max_bytes)


async def encode(value: object, max_bytes: int) -> str:
    """`value` as JSON text. NaN and the infinities become null, unpaired surrogates stay as `\\ud800` escapes.

    Raises:
        ValueTooLarge: more than `max_bytes`.
        ValueError: not JSON, or nested too deeply.
    """
    if exceeds_chars(value, PIECE_CHARS):
        return await anyio.to_thread.run_sync(_encode, value, max_bytes, _pieces)
    return _encode(value, max_bytes, _whole)


def is_json(text: str) -> bool:
    """Whether `text` is a JSON text that can be sent as it is."""
    try:
        _check(text)
    except (RecursionError, UnicodeEncodeError):
        return False
    except msgspec.MsgspecError:
        # msgspec refuses one thing that is JSON: escaped unpaired surrogates.
        return "\\u" in text and _is_python_json(text)
    return True


def _is_python_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def check_size(text: str, max_bytes: int) -> str:
    """`text`, which is JSON, if it has no more than `max_bytes`.

    Raises:
        ValueTooLarge: it has more.
    """
    size = _bytes(text)
    if size > max_bytes:
        raise ValueTooLarge(size)
    return text


def block_to_json(block: ContentBlock) -> JsonObject:
    """A content block as a script sees it."""
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


def exceeds_chars(value: object, limit: int) -> bool:
    """Whether `value` is larger than about `limit` characters of JSON; stops counting as soon as it is."""
    left = limit - _NODE_CHARS
    waiting: list[Iterable[Any]] = [(value,)]
    item: Any
    while waiting:
        # No more items than there are characters left: a container whose items are too many is not waiting here.
        for item in waiting.pop():
            kind = _type_of(item)
            if kind is str:
                left -= len(item)
            elif kind in _FLAT:
                continue
            elif kind is dict or issubclass(kind, Mapping):
                left -= len(item) * 2 * _NODE_CHARS
                waiting.append(item.values())
            elif issubclass(kind, (list, tuple)):
                left -= len(item) * (_NODE_CHARS + 1)
                waiting.append(item)
            elif issubclass(kind, str):
                left -= len(item)
            if left < 0:
                return True
    return left < 0


def _encode(value: object, max_bytes: int, taken_apart: Callable[[object], Iterable[bytes]]) -> str:
    try:
        pieces: list[bytes] = []
        size = 0
        for piece in taken_apart(value):
            size += len(piece)
            if size <= max_bytes:
                pieces.append(piece)
            else:
                pieces.clear()  # only counted from here on
        if size > max_bytes:
            raise ValueTooLarge(size)
        return b"".join(pieces).decode()
    except UnicodeEncodeError:
        return check_size(json.dumps(_finite(value), ensure_ascii=True, separators=(",", ":")), max_bytes)
    except (TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as failure:
        raise ValueError(type(failure).__name__) from failure


def _whole(value: object) -> tuple[bytes]:
    """The JSON of `value` in one piece."""
    return (msgspec.json.encode(value),)


def _pieces(value: object, depth: int = 0) -> Iterator[bytes]:
    """The JSON of `value`: large containers item by item down to `_SPLIT_DEPTH`, anything else in one piece."""
    if depth == _SPLIT_DEPTH or not exceeds_chars(value, PIECE_CHARS):
        yield msgspec.json.encode(value)
    elif isinstance(value, Mapping):
        before = b"{"
        for key, item in cast("Mapping[object, object]", value).items():
            yield before + msgspec.json.encode(str(key)) + b":"
            yield from _pieces(item, depth + 1)
            before = b","
        yield b"}"
    elif isinstance(value, (list, tuple)):
        sequence = cast("Sequence[object]", value)
        before = b"["
        for start in range(0, len(sequence), _PIECE_ITEMS):
            for piece in _items(sequence[start : start + _PIECE_ITEMS], depth):
                yield before
                yield from piece
                before = b","
        yield b"]"
    else:
        yield msgspec.json.encode(value)


def _items(items: Sequence[object], depth: int) -> Iterator[Iterator[bytes]]:
    """The items of an array without its brackets: all at once, or one by one when that is too much."""
    if exceeds_chars(items, PIECE_CHARS):
        yield from (_pieces(item, depth + 1) for item in items)
    else:
        yield iter((msgspec.json.encode(items)[1:-1],))


def _finite(value: object) -> object:
    """JSON data with null for the numbers JSON has no text for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("Sequence[object]", value)]
    return value


MAX_INLINE_CONTENTS: Final = 200
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
        return check_size(text, max_bytes) if _holds_json(text, only.mime_type) else await encode(text, max_bytes)
    if size > PIECE_CHARS or len(contents) > MAX_INLINE_CONTENTS:
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
    many = len(result.messages) > MAX_INLINE_CONTENTS
    messages = await anyio.to_thread.run_sync(_messages, result) if many else _messages(result)
    return await encode({"description": result.description, "messages": messages}, max_bytes)


def _messages(result: PromptResult) -> list[JsonObject]:
    return [
        {
            "role": message.role,
            "content": message.content.text
            if isinstance(message.content, TextContent)
            else block_to_json(message.content),
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
