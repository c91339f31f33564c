"""Halves of surrogate pairs that are escaped in JSON, as by programs that cut a text in the middle of an emoji: JSON
allows them, and the decoders of msgspec and pydantic do not.

Escaped backslashes are blanked out first, in a copy of the same length. Each escape in it is one.
"""

from __future__ import annotations

import re
from typing import Final

import anyio.to_thread

_SURROGATE: Final = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|([89a-fA-F][0-9a-fA-F]{2}))"
)
"""A pair, or half of one in the group."""

QUICK_CHARS: Final = 64 * 1024
"""Characters that are repaired on the event loop: a few milliseconds at worst."""


def without_surrogates(text: str) -> str:
    """A text that is JSON to msgspec if and only if `text` is JSON: other escapes are in place of surrogates."""
    if not _may_have_surrogates(text):
        return text
    return text.replace(r"\\", "xx").replace(r"\ud", r"\u0").replace(r"\uD", r"\u0")


def replace_lone_surrogates(data: bytes) -> bytes:
    """JSON, or events of it, with U+FFFD in place of halves of characters that are escaped alone.

    It is quick where there are few; with millions of them it takes seconds, in which a thread lets others run.
    """
    if rb"\ud" not in data and rb"\uD" not in data:
        return data
    repaired = bytearray(data)
    for match in _SURROGATE.finditer(data.replace(rb"\\", b"xx")):
        if match[1]:
            repaired[match.start() + 2 : match.end()] = b"fffd"
    return bytes(repaired)


async def well_formed_json(text: str) -> str:
    """JSON with U+FFFD in place of halves of surrogate pairs, which no Unicode text has."""
    if not _may_have_surrogates(text):
        return text
    return _repaired(text) if len(text) <= QUICK_CHARS else await anyio.to_thread.run_sync(_repaired, text)


def _repaired(text: str) -> str:
    return replace_lone_surrogates(text.encode()).decode()


def _may_have_surrogates(text: str) -> bool:
    return r"\ud" in text or r"\uD" in text
