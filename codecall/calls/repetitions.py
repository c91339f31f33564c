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

_VALUES_PER_TEXT: Final = 50
_CHARS_PER_VALUE: Final = 32
"""What a text counts for pauses, besides its values: its decoding takes some 10 µs, and longer with its characters."""


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
    known = {member for member in members if isinstance(member, str)}
    known |= {value_json, *(text for value in values for text in _written(value))}
    texts = [block for block in content if isinstance(block, TextContent)]
    items = cast("list[object]", values[-1]) if isinstance(values[-1], list) else []
    has_texts_of_items = len(items) == len(texts)
    repeats: set[int] = set()
    # One for all texts: each may be too short for a pause of its own.
    pauses = Pauses()
    for number, block in enumerate(texts):
        text = block.text
        await pauses.count(_VALUES_PER_TEXT + len(text) // _CHARS_PER_VALUE)
        of_item = [items[number]] if has_texts_of_items else []
        if (
            not text.strip()
            or text in known
            or any(text in _written(item) for item in of_item)
            or await _is_json_of(text, [*values, *of_item], pauses)
        ):
            repeats.add(id(block))
    return [block for block in content if id(block) not in repeats]


def _written(value: object) -> tuple[str, ...]:
    """A value as Python writes it; none of a long value, which takes too long to write."""
    if isinstance(value, str):
        return (value,)
    return () if exceeds_chars(value, _MAX_WRITTEN) else (str(value),)


async def _is_json_of(text: str, values: Sequence[object], pauses: Pauses) -> bool:
    """Whether a text is one of these values as JSON."""
    bounds = JsonBounds(_MAX_DEPTH, FEWEST_CONTAINERS + len(text) // BYTES_PER_CONTAINER)
    try:
        decoded = await decode_json(text, bounds)
    except (NotJsonError, TooManyContainersError):
        return False
    for value in values:
        if await _is_equal(decoded, value, pauses):
            return True
    return False


async def _is_equal(one: object, other: object, pauses: Pauses) -> bool:
    """Whether two pieces of JSON data are equal; lets others have their turn."""
    pending = [(one, other)]
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
