"""Results of very many parts, read a few parts at a time: reading 20,000 content blocks at once takes half a second.

The MCP SDK reads a result in one go, on the event loop, and more than once. So a long list is read before the SDK sees
the result, in a thread that lets others run between the pieces, and put into what the SDK makes of the rest. No public
hook of the SDK does this. A long list is refused at its first wrong parts: an error about each of 195,000 of them takes
a second, and 40 MB to print.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, cast

import anyio
import mcp_types
from mcp import MCPError
from mcp_types.methods import validate_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import TypeAdapter, ValidationError

from codecall.fastmcp_errors import first_fault
from codecall.gateway.upstream.messages import unreadable_response

T = TypeVar("T")

MAX_PARTS_AT_ONCE: Final = 200
"""Parts of a result that are read in one go, which takes some 4 ms."""

MAX_NESTED_AT_ONCE: Final = 1_000
"""Values within parts, such as icons, that are read in one go, which takes some 5 ms. One part may not have more."""

MAX_COMPLETIONS: Final = 1_000
"""Values of a completion; MCP allows 100."""

_LISTS: Final[Mapping[str, Any]] = {
    "content": mcp_types.ContentBlock,
    "messages": mcp_types.PromptMessage,
    "contents": mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
    "tools": mcp_types.Tool,
    "prompts": mcp_types.Prompt,
    "resources": mcp_types.Resource,
    "resourceTemplates": mcp_types.ResourceTemplate,
}
"""The lists of results, by their names in JSON, and what is in them."""

_LISTINGS: Final[Mapping[str, str]] = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
"""Lists whose parts are held against the negotiated version of MCP, too, and the method that each answers."""

_PAGE: Final[Mapping[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What else a page of a listing has in the newest version."""

_NAMES: Final[Mapping[str, str]] = {"resourceTemplates": "resource_templates"}
"""Names in Python, where they are others."""

_NESTED: Final = (
    *("content", "annotations", "audience", "icons", "sizes", "arguments"),
    *("inputSchema", "outputSchema", "required"),
)
"""What of a part the SDK reads value by value. The rest it ignores or, as `_meta`, passes on; and of `properties` it
reads those that are no schemas."""

_KEY: Final = "codecall/parts"


class _Parts(str):
    """What is put into a result, by its name there. Stands in the place of a text in `_meta`: the SDK passes texts on
    as they are, and a server can only send plain ones."""

    by_name: dict[str, Any]
    refusal: str | None = None
    """Why the result is refused, if it is."""


class UnreadableResultError(MCPError):
    """A result, or a part of one, is not what MCP says, or has too much within.

    Args:
        reason: which, and why.
    """

    def __init__(self, reason: str) -> None:
        error = unreadable_response(0, reason).error
        super().__init__(code=error.code, message=error.message)
        self.reason = reason


async def detach_parts(result: dict[str, Any], version: str | None = None) -> None:
    """Take from a result what the SDK need not read: structured content, which may be any object, and long lists, whose
    parts are read here. A list with a wrong part, or with one that has too much within, is refused by `attach_parts`.

    Args:
        result: of any request.
        version: of MCP, as it was negotiated.
    """
    meta: object = result.get("_meta")
    if meta is not None and not isinstance(meta, dict):
        return
    by_name: dict[str, Any] = {}
    if isinstance(result.get("structuredContent"), dict):
        by_name["structured_content"] = result["structuredContent"]
        result["structuredContent"] = {}
    refusal = _cut_completion(result)
    for field in _LISTS:
        raw = result.get(field)
        if refusal is None and isinstance(raw, list) and not _is_short(parts := cast("list[object]", raw)):
            read = await anyio.to_thread.run_sync(_read, field, parts, version or LATEST_HANDSHAKE_VERSION)
            by_name[_NAMES.get(field, field)], refusal = read.parts, read.refusal
            result[field] = []
    if by_name or refusal is not None:
        detached = _Parts()
        detached.by_name, detached.refusal = {**by_name, "meta": meta}, refusal
        result["_meta"] = {**cast("dict[str, object]", meta or {}), _KEY: detached}


def attach_parts(result: T) -> T:
    """The result that the SDK has read, with what was taken from it before.

    Raises:
        UnreadableResultError: it is refused.
    """
    if isinstance(result, mcp_types.Result) and result.meta is not None:
        detached: object = result.meta.get(_KEY)
        if isinstance(detached, _Parts):
            if detached.refusal is not None:
                raise UnreadableResultError(detached.refusal)
            for name, value in detached.by_name.items():
                setattr(result, name, value)
    return result


def _cut_completion(result: dict[str, Any]) -> str | None:
    """Take the values of a completion away where they are too many; why it is refused then."""
    completion = result.get("completion")
    values = cast("dict[str, object]", completion).get("values") if isinstance(completion, dict) else None
    if not isinstance(values, list) or len(cast("list[object]", values)) <= MAX_COMPLETIONS:
        return None
    result["completion"] = {"values": []}
    return f"its completion has more than {MAX_COMPLETIONS:,} values"


def _is_short(parts: list[object]) -> bool:
    """Whether the SDK may read a list: few parts, and as few values within them all, of which each may be wrong."""
    return len(parts) <= MAX_PARTS_AT_ONCE and _count_nested(parts, MAX_PARTS_AT_ONCE) <= MAX_PARTS_AT_ONCE


def _count_nested(parts: list[object], limit: int = MAX_NESTED_AT_ONCE) -> int:
    """How many values there are within these parts that the SDK reads; where they are too many, not all are counted."""
    count, pending = 0, list(parts)
    while pending and count <= limit:
        value, within = pending.pop(), list[object]()
        if isinstance(value, list):
            within = cast("list[object]", value)
        elif isinstance(value, dict):
            block = cast("dict[str, object]", value)
            within = [block[name] for name in _NESTED if name in block]
            if isinstance(properties := block.get("properties"), dict):
                schemas = cast("dict[str, object]", properties).values()
                within += [schema for schema in schemas if not isinstance(schema, dict | bool)]
        count += len(within)
        if count <= limit:
            pending += within
    return count


class _Read(NamedTuple):
    """What was read of a list."""

    parts: list[Any]
    refusal: str | None = None
    """Why the list is refused, if it is."""


def _read(field: str, raw: list[object], version: str) -> _Read:
    """Read the parts of a list, as far as it is not refused."""
    for index, part in enumerate(raw):
        if not isinstance(part, dict):
            return _Read([], f"{field}[{index}] is no object")
        if _count_nested([cast("object", part)]) > MAX_NESTED_AT_ONCE:
            excess = f"more than {MAX_NESTED_AT_ONCE:,} values in its icons and other lists"
            return _Read([], f"{field}[{index}] has {excess}")
    parts = list[Any]()
    for piece in _pieces(raw):
        try:
            if field in _LISTINGS:
                _check_version(_LISTINGS[field], field, piece, version)
            parts += _adapter(field).validate_python(piece, by_name=False)
        except ValidationError as failure:
            return _Read([], first_fault(failure, field, len(parts)))
    return _Read(parts)


def _check_version(method: str, field: str, piece: list[object], version: str) -> None:
    """Hold parts of a listing against what a version of MCP says of them, as the SDK does."""
    try:
        validate_server_result(method, version, {**_PAGE, field: piece})
    except KeyError:  # the method is not of that version: the SDK checks nothing
        return


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
