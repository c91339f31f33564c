"""Estimates of sizes in bytes, characters and tokens, without reading all of what is large."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, Protocol, cast

CHARACTERS_PER_TOKEN: Final = 4
"""What models' tokenizers come to, about, with JSON and English."""

MAX_READ: Final = 64 * 1024
"""Characters that are looked at of a text that is not ASCII; its bytes are estimated from them."""

MAX_SAMPLED: Final = 32
"""Definitions that are measured of a longer list; the others count as much."""

MAX_NODES: Final = 20_000
"""Values that are looked at in all of them; what is beyond is not counted."""


class ToolDefinition(Protocol):
    """The part of a tool that a model reads in a list of tools."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def description(self) -> str | None:
        """What it does."""
        ...

    @property
    def parameters(self) -> dict[str, Any]:
        """Schema of its input."""
        ...


def utf8_size(text: str) -> int:
    """Bytes of `text` as UTF-8; an estimate for a long one that is not ASCII."""
    if text.isascii():
        return len(text)
    head = text[:MAX_READ]
    size = len(head.encode("utf-8", "surrogatepass"))
    return size if len(head) == len(text) else size * len(text) // len(head)


def estimate_tokens(characters: int) -> int:
    """About how many tokens that many characters are."""
    return characters // CHARACTERS_PER_TOKEN


def estimate_characters(tools: Sequence[ToolDefinition]) -> int:
    """About how many characters a list of these tools has."""
    if not tools:
        return 0
    step = max(1, -(-len(tools) // MAX_SAMPLED))
    sampled = tools[::step]
    left = [MAX_NODES]
    size = sum(
        30 + len(tool.name) + len(tool.description or "") + _json_size(tool.parameters, left) for tool in sampled
    )
    return size * len(tools) // len(sampled)


def _json_size(value: object, left: list[int]) -> int:
    """About how many characters `value` has as JSON; `left` is how many values may still be looked at."""
    size = 0
    pending = [value]
    while pending and left[0] > 0:
        left[0] -= 1
        match value := pending.pop():
            case str() as text:
                size += len(text) + 3
            case dict():
                for key, member in islice(cast("dict[str, object]", value).items(), left[0]):
                    size += len(key) + 4
                    pending.append(member)
            case list():
                items = cast("list[object]", value)[: left[0]]
                size += 3 * sum(isinstance(item, (dict, list)) for item in items)
                pending += items
            case _:
                size += 5
    return size
