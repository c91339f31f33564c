"""Content blocks beside structured content: which say something of their own, and which only repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from mcp_types import ContentBlock, TextContent

from codecall.concurrency import Pauses
from codecall.jsonio.decode import (
    BYTES_PER_CONTAINER,
    FEWEST_CONTAINERS,
    JsonBounds,
    NotJsonError,
    TooManyContainersError,
    decode_json,
    exceeds_chars,
)

_MAX_DEPTH: Final = 200
"""Nesting of a text that is compared with a structured value."""

_MAX_WRITTEN: Final = 4_000
"""Characters of a value that is written as Python writes it, to compare that."""


async def without_repetitions(
    content: Sequence[ContentBlock], structured: object, value_json: str
) -> list[ContentBlock]:
    """The blocks beside structured content that say something of their own.

    What only repeats it is left out: a text that is its JSON, or that of its only member, as of the value in FastMCP's
    wrapper, or how Python writes that; one that is a member of it; a list may be repeated in a text for each item.

    Args:
        content: the blocks.
        structured: the structured content.
        value_json: the JSON of the value that is taken from it.
    """
    values = [structured]
    members = list(cast("dict[str, object]", structured).values()) if isinstance(structured, dict) else []
    if len(members) == 1:
        values += members
    said = {member for member in members if isinstance(member, str)}
    texts = [block for block in content if isinstance(block, TextContent)]
    items = cast("list[object]", values[-1]) if isinstance(values[-1], list) else []
    repeats = {
        id(block)
        for number, block in enumerate(texts)
        if not block.text.strip()
        or block.text == value_json
        or block.text in said
        or await _repeats(block.text, [*values, items[number]] if len(items) == len(texts) else values)
    }
    return [block for block in content if id(block) not in repeats]


async def _repeats(text: str, values: Sequence[object]) -> bool:
    """Whether a text is one of these values as JSON, or as Python writes it."""
    if len(text) <= _MAX_WRITTEN and any(
        not exceeds_chars(value, _MAX_WRITTEN) and str(value) == text for value in values
    ):
        return True
    if text in [value for value in values if isinstance(value, str)]:
        return True
    bounds = JsonBounds(_MAX_DEPTH, FEWEST_CONTAINERS + len(text) // BYTES_PER_CONTAINER)
    try:
        decoded = await decode_json(text, bounds)
    except (NotJsonError, TooManyContainersError):
        return False
    for value in values:
        if await _is_equal(decoded, value):
            return True
    return False


async def _is_equal(one: object, other: object) -> bool:
    """Whether two pieces of JSON data are equal; lets others have their turn."""
    pending = [(one, other)]
    pauses = Pauses()
    while pending:
        left, right = pending.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            mine, theirs = cast("dict[str, object]", left), cast("dict[str, object]", right)
            if mine.keys() != theirs.keys():
                return False
            pending += [(mine[key], theirs[key]) for key in mine]
        elif isinstance(left, list) and isinstance(right, list):
            ours, others = cast("list[object]", left), cast("list[object]", right)
            if len(ours) != len(others):
                return False
            pending += zip(ours, others, strict=True)
        elif left != right:
            return False
        await pauses.count()
    return True
