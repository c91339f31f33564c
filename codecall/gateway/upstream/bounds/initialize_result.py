"""What a server says of itself in its first answer, bounded before the MCP SDK reads it.

All of it is kept as long as the server is known, and the limits of listings count nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import mcp_types
from pydantic_core import to_json

from codecall.gateway.upstream.messages import is_within_value_limit, shorten

INITIALIZE_METHODS: Final = ("initialize", "server/discover")
"""The requests that a server is_initialize itself in answer to."""

MAX_TEXT_CHARS: Final = 16_000
"""Characters of its instructions and of each text of `serverInfo`: ten times what is passed on of instructions
(`downstream.MAX_CHARS_EACH`), and more than search reads."""

MAX_ICONS: Final = 100
"""Icons of a server, which nobody looks at, and sizes of them all."""

MAX_VALUES: Final = 10_000
MAX_BYTES: Final = 1024 * 1024
"""What is left may have so many values and bytes: capabilities, and versions of the protocol."""

_INFO_TEXTS: Final = ("name", "title", "version", "description", "websiteUrl")


def cut_initialize_result(result: dict[str, Any]) -> list[str]:
    """Cut the texts of such a result that are too long, with the mark that says how much is left out, and leave out
    icons where they are too many; what was left out, for the log."""
    left_out = _cut_texts(result, ("instructions",), "")
    for info in _infos(result):
        left_out += _cut_texts(info, _INFO_TEXTS, "serverInfo.")
        if (icons := _count_icons(info)) > MAX_ICONS:
            del info["icons"]
            left_out.append(f"serverInfo.icons ({icons:,} of them and their sizes)")
    return left_out


def find_initialize_excess(result: dict[str, Any]) -> str | None:
    """How much of what such a result may have, if it has more once it was cut: `10,000 values …`."""
    data = to_json(result)
    if len(data) > MAX_BYTES:
        return f"{MAX_BYTES // 2**20} MiB about itself"
    return None if is_within_value_limit(data, MAX_VALUES) else f"{MAX_VALUES:,} values about itself"


def _infos(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the server is called, where each version of MCP has it."""
    meta = result.get("_meta")
    stamp = cast("dict[str, Any]", meta).get(mcp_types.SERVER_INFO_META_KEY) if isinstance(meta, dict) else None
    for info in (result.get("serverInfo"), stamp):
        if isinstance(info, dict):
            yield cast("dict[str, Any]", info)


def _cut_texts(holder: dict[str, Any], names: tuple[str, ...], prefix: str) -> list[str]:
    left_out = list[str]()
    for name in names:
        if isinstance(text := holder.get(name), str) and len(text) > MAX_TEXT_CHARS:
            holder[name] = shorten(text, MAX_TEXT_CHARS)
            left_out.append(f"{prefix}{name} ({len(text) - MAX_TEXT_CHARS:,} characters)")
    return left_out


def _count_icons(info: dict[str, Any]) -> int:
    """How many icons there are, and sizes of them."""
    icons = info.get("icons")
    if not isinstance(icons, list):
        return 0
    listed = cast("list[object]", icons)
    sizes = [cast("dict[str, object]", icon).get("sizes") for icon in listed if isinstance(icon, dict)]
    return len(listed) + sum(len(cast("list[object]", each)) for each in sizes if isinstance(each, list))
