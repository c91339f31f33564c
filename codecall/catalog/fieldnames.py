"""Which keys of an object look like names of fields, and which like data: an id, an address, a date, somebody's name.

Names of fields belong to a tool; data belongs to whoever asked. Nobody can tell the two apart by looking at one word,
so this refuses what is likely to be data and leaves the rest to others: `outlines` to the objects whose keys vary, and
`observed` to how many callers have seen a name.
"""

from __future__ import annotations

import re
from typing import Final

from codecall.sandbox.agentscript.policy import NEVER_NAMES

MAX_CHARS: Final = 48
"""Longest name of a field. Of the 4,300 names in the schemas of 5,000 published tools, none is longer."""

_BEGINNING: Final = re.compile(r"\$?[^\W\d]")
_JOINTS: Final = str.maketrans("-$", "__")
_DIGITS: Final = re.compile(r"\d+")
_HEXADECIMAL: Final = re.compile(r"(?<![^\W_])(?=[a-f]*\d)[\da-f]{8,}(?![^\W_])", re.IGNORECASE)
_ENDLESS: Final = re.compile(r"[^\W\d_A-Z]{25,}|[A-Z]{17,}")


def is_field_name(key: str) -> bool:
    """Whether `key` looks like the name of a field.

    Such a name begins like an identifier and has at most `MAX_CHARS` characters, one group of at most three digits
    (`sha256`, `line_2`), no word of eight or more hexadecimal digits and no run of letters too long for a word. It is
    none of the names that scripts may not use.
    """
    if len(key) > MAX_CHARS or _BEGINNING.match(key) is None or key in NEVER_NAMES:
        return False
    if not key.translate(_JOINTS).isidentifier():
        return False
    digits: list[str] = _DIGITS.findall(key)
    if len(digits) > 1 or (digits and len(digits[0]) > 3):
        return False
    return _ENDLESS.search(key) is None and _HEXADECIMAL.search(key) is None
