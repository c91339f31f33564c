"""The texts of results: which are JSON of the value that they stand for."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Final

import anyio.to_thread

from codecall.jsonio.check import is_json

PIECE_CHARS: Final = 128 * 1024
"""Approximate characters of JSON that one call of the encoder writes: under 2 ms. Larger data goes to a thread."""

_JSON_BLANKS: Final = " \t\r\n"

_MAX_NUMBER_CHARS: Final = 1_000
"""Digits of an integer that a script gets as it is."""


async def is_value(text: str) -> bool:
    """Whether the one text of a result is the JSON of its value. A number or a string has to be written as JSON writes
    it, blanks around it aside."""
    if not await is_json(text):
        return False
    scalar = text.strip(_JSON_BLANKS)
    if scalar[0] in "{[tfn":
        return True
    if len(scalar) > PIECE_CHARS:
        return await anyio.to_thread.run_sync(_is_rewritten_alike, scalar)
    return _is_rewritten_alike(scalar)


def _is_rewritten_alike(scalar: str) -> bool:
    """Whether the value of a JSON number or string, written again, is the same text."""
    if scalar[0] == '"':
        value = json.loads(scalar)
        return scalar in (json.dumps(value, ensure_ascii=False), json.dumps(value))
    if len(scalar) > _MAX_NUMBER_CHARS:
        return False
    number: int | float = json.loads(scalar)
    if isinstance(number, int):
        return str(number) == scalar
    return format(Decimal(repr(number)), "f") == scalar and not scalar.endswith(".0")
