"""Results of very many parts, read a few parts at a time: reading 20,000 content blocks at once takes half a second.

The MCP SDK reads a result in one go, on the event loop, and more than once. So a long list is read before the SDK sees
the result, in a thread that lets others run between the pieces, and put into what the SDK makes of the rest. No public
hook of the SDK does this.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar, cast

import anyio
import mcp_types
from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

MAX_PARTS_AT_ONCE: Final = 200
"""Parts of a result that are read in one go, which takes some 4 ms."""

_LISTS: Final[Mapping[str, Any]] = {
    "content": mcp_types.ContentBlock,
    "messages": mcp_types.PromptMessage,
    "contents": mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
}
"""The lists of results, by their names in JSON and in Python alike, and what is in them."""

_KEY: Final = "codecall/parts"


class _Parts(str):
    """What is put into a result, by its name there. Stands in the place of a text in `_meta`: the SDK passes texts on
    as they are, and a server can only send plain ones."""

    by_name: dict[str, Any]


async def detach_parts(result: dict[str, Any]) -> None:
    """Take from a result what the SDK need not read: structured content, which may be any object, and long lists, whose
    parts are read here. Of a list with wrong parts some are left for the SDK to refuse."""
    meta: object = result.get("_meta")
    if meta is not None and not isinstance(meta, dict):
        return
    by_name: dict[str, Any] = {}
    if isinstance(result.get("structuredContent"), dict):
        by_name["structured_content"] = result["structuredContent"]
        result["structuredContent"] = {}
    for field in _LISTS:
        raw = result.get(field)
        if isinstance(raw, list) and len(cast("list[object]", raw)) > MAX_PARTS_AT_ONCE:
            by_name[field], result[field] = await anyio.to_thread.run_sync(_read, field, cast("list[object]", raw))
    if by_name:
        detached = _Parts()
        detached.by_name = {**by_name, "meta": meta}
        result["_meta"] = {**cast("dict[str, object]", meta or {}), _KEY: detached}


def attach_parts(result: T) -> T:
    """The result that the SDK has read, with what was taken from it before."""
    if isinstance(result, mcp_types.Result) and result.meta is not None:
        detached: object = result.meta.get(_KEY)
        if isinstance(detached, _Parts):
            for name, value in detached.by_name.items():
                setattr(result, name, value)
    return result


def _read(field: str, raw: list[object]) -> tuple[list[Any], list[object]]:
    """The parts that were read, and those that are none."""
    adapter, parts = _adapter(field), list[Any]()
    for start in range(0, len(raw), MAX_PARTS_AT_ONCE):
        piece = raw[start : start + MAX_PARTS_AT_ONCE]
        try:
            parts += adapter.validate_python(piece, by_name=False)
        except ValidationError:
            return [], piece
    return parts, []


@cache
def _adapter(field: str) -> TypeAdapter[list[Any]]:
    return TypeAdapter(cast("Any", list)[_LISTS[field]])
