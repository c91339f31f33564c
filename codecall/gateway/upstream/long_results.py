"""Results of very many parts, read a few parts at a time: reading 20,000 content blocks at once takes half a second.

The MCP SDK reads a result in one go, on the event loop, and more than once. So a long list is read before the SDK sees
the result, in a thread that lets others run between the pieces, and put into what the SDK makes of the rest. No public
hook of the SDK does this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeVar, cast

import anyio
import mcp_types
from mcp import MCPError
from pydantic import TypeAdapter, ValidationError

from codecall.gateway.upstream.messages import unreadable_response

T = TypeVar("T")

MAX_PARTS_AT_ONCE: Final = 200
"""Parts of a result that are read in one go, which takes some 4 ms."""

MAX_NESTED_AT_ONCE: Final = 1_000
"""Values within parts, such as icons, that are read in one go, which takes some 5 ms. One part may not have more."""

_LISTS: Final[Mapping[str, Any]] = {
    "content": mcp_types.ContentBlock,
    "messages": mcp_types.PromptMessage,
    "contents": mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
}
"""The lists of results, by their names in JSON and in Python alike, and what is in them."""

_LISTINGS: Final = ("tools", "prompts", "resources", "resourceTemplates")
"""Lists that are left to the SDK, if no part of them has too much within."""

_NESTED: Final = ("content", "annotations", "audience", "icons", "sizes", "arguments")
"""What of a part the SDK reads value by value. The rest it ignores or, as `_meta`, passes on."""

_KEY: Final = "codecall/parts"


class _Parts(str):
    """What is put into a result, by its name there. Stands in the place of a text in `_meta`: the SDK passes texts on
    as they are, and a server can only send plain ones."""

    by_name: dict[str, Any]
    refusal: str | None = None
    """Why the result is refused, if it is."""


async def detach_parts(result: dict[str, Any]) -> None:
    """Take from a result what the SDK need not read: structured content, which may be any object, and long lists, whose
    parts are read here. Of a list with wrong parts some are left for the SDK to refuse; one with a part that has too
    much within is refused by `attach_parts`."""
    meta: object = result.get("_meta")
    if meta is not None and not isinstance(meta, dict):
        return
    by_name: dict[str, Any] = {}
    if isinstance(result.get("structuredContent"), dict):
        by_name["structured_content"] = result["structuredContent"]
        result["structuredContent"] = {}
    refusal: str | None = None
    for field in (*_LISTS, *_LISTINGS):
        raw = result.get(field)
        if not isinstance(raw, list) or _is_short(parts := cast("list[object]", raw)):
            continue
        if (refusal := await anyio.to_thread.run_sync(_excess, field, parts)) is not None:
            result[field] = []
            break
        if field in _LISTS:
            by_name[field], result[field] = await anyio.to_thread.run_sync(_read, field, parts)
    if by_name or refusal is not None:
        detached = _Parts()
        detached.by_name, detached.refusal = {**by_name, "meta": meta}, refusal
        result["_meta"] = {**cast("dict[str, object]", meta or {}), _KEY: detached}


def attach_parts(result: T) -> T:
    """The result that the SDK has read, with what was taken from it before.

    Raises:
        MCPError: a part of the result has too much within.
    """
    if isinstance(result, mcp_types.Result) and result.meta is not None:
        detached: object = result.meta.get(_KEY)
        if isinstance(detached, _Parts):
            if detached.refusal is not None:
                raise MCPError.from_jsonrpc_error(unreadable_response(0, detached.refusal))
            for name, value in detached.by_name.items():
                setattr(result, name, value)
    return result


def _is_short(parts: list[object]) -> bool:
    return len(parts) <= MAX_PARTS_AT_ONCE and _count_nested(parts) <= MAX_NESTED_AT_ONCE


def _count_nested(parts: list[object]) -> int:
    """How many values there are within these parts that the SDK reads; where they are too many, not all are counted."""
    count, pending = 0, list(parts)
    while pending and count <= MAX_NESTED_AT_ONCE:
        value, within = pending.pop(), list[object]()
        if isinstance(value, list):
            within = cast("list[object]", value)
        elif isinstance(value, dict):
            block = cast("dict[str, object]", value)
            within = [block[name] for name in _NESTED if name in block]
        count += len(within)
        if count <= MAX_NESTED_AT_ONCE:
            pending += within
    return count


def _excess(field: str, parts: list[object]) -> str | None:
    """Which part has too much within, if one has: `content[0] has more than 1,000 …`."""
    for index, part in enumerate(parts):
        if _count_nested([part]) > MAX_NESTED_AT_ONCE:
            return f"{field}[{index}] has more than {MAX_NESTED_AT_ONCE:,} values in its icons and other lists"
    return None


def _read(field: str, raw: list[object]) -> tuple[list[Any], list[object]]:
    """The parts that were read, and those that are none."""
    adapter, parts = _adapter(field), list[Any]()
    for piece in _pieces(raw):
        try:
            parts += adapter.validate_python(piece, by_name=False)
        except ValidationError:
            return [], piece
    return parts, []


def _pieces(parts: list[object]) -> Iterator[list[object]]:
    """The parts, as many at once as are read in one go."""
    start = nested = 0
    for index, part in enumerate(parts):
        nested += (within := _count_nested([part]))
        if index - start >= MAX_PARTS_AT_ONCE or (nested > MAX_NESTED_AT_ONCE and index > start):
            yield parts[start:index]
            start, nested = index, within
    yield parts[start:]


@cache
def _adapter(field: str) -> TypeAdapter[list[Any]]:
    return TypeAdapter(cast("Any", list)[_LISTS[field]])
