"""Durations as Go writes them: `30s`, `1h30m`, `500ms`."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|ms|s|m|h)"
_PART_PATTERN: Final = re.compile(_PART)

DURATION: Final = f"({_PART})+"
"""How a duration is written, as a regular expression."""


def parse_duration(text: str) -> float | None:
    """The seconds of a duration as Go writes them (`90s`, `1h30m`); None where the text is none, or none above zero."""
    total, end = 0.0, 0
    while end < len(text):
        part = _PART_PATTERN.match(text, end)
        if part is None:
            return None
        total += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    return total or None


def format_duration(seconds: float) -> str:
    """Seconds as Go would write them, for messages."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = (f"{hours}h" * bool(hours), f"{minutes}m" * bool(minutes), f"{rest:g}s" * bool(rest))
    return "".join(parts)
