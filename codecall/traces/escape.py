"""Untrusted text as HTML: nothing in it is markup, and nothing in it is hidden. Also numbers and values for people."""

from __future__ import annotations

import html
import json
import math
import re
from typing import Final

from codecall.traces.model import TraceValue

MAX_VALUE: Final = 20_000
"""Most characters of one value on a page."""

MAX_VALUES: Final = 3_000_000
"""Most characters of all values on a page."""

MAX_NAME: Final = 400
"""Most characters of a name on a page."""

_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Characters that nobody sees, that reorder the letters around them, or that are no characters."""


def escape_html(text: str) -> str:
    """Escape text for HTML. Invisible characters are spelled out as code points."""
    return _INVISIBLE.sub(lambda match: f'<span class="odd">U+{ord(match[0]):04X}</span>', html.escape(text))


def escape_attribute(text: str) -> str:
    """Escape text for places that take no markup: attributes and titles."""
    return (
        _INVISIBLE.sub(lambda match: f"[U+{ord(match[0]):04X}]", html.escape(text))
        .replace("\n", " ")
        .replace("\t", " ")
    )


def truncate(text: str, max_chars: int) -> str:
    """Cut text to `max_chars` characters, and say how many more there were."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}…[{len(text) - max_chars:,} more characters]"


def format_duration(ms: float | None) -> str:
    """Milliseconds for people to read; a dash for None."""
    if ms is None:
        return "—"
    if ms < 1_000:
        return f"{ms:.1f} ms" if ms < 100 else f"{ms:.0f} ms"
    return f"{ms / 1000:.2f} s" if ms < 100_000 else f"{ms / 1000:,.0f} s"


def format_amount(value: float, unit: str) -> str:
    """A number with its unit, for people to read."""
    if unit == "ms":
        return format_duration(value)
    if unit != "bytes":
        return f"{value:,.0f}"
    for name, size in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if value >= size:
            return f"{value / size:.4g} {name}"
    return f"{value:,.0f} bytes"


def percent(part: float, whole: float) -> str:
    """A share as SVG takes it, from 0% to 100%."""
    share = 100 * part / whole if whole > 0 else 0.0
    return f"{min(100.0, max(0.0, share if math.isfinite(share) else 0.0)):.3f}%"


class ValueBudget:
    """Renders values, and limits the characters that all values of a page take together."""

    def __init__(self) -> None:
        self._remaining = MAX_VALUES
        self.truncated = 0
        """How many values were cut or left out."""

    def render(self, value: TraceValue) -> str:
        """Render a value as HTML, cut to what is left of the budget."""
        if not value.available:
            size = "" if value.chars is None else f"{value.chars:,} characters of JSON, "
            return f'<p class="quiet">{size}not on record</p>'
        text = _as_text(value.data)
        limit = min(MAX_VALUE, self._remaining)
        part = text[:limit]
        self._remaining -= len(part)
        rendered = f'<pre tabindex="0">{escape_html(part)}</pre>' if part else ""
        if len(part) < len(text):
            self.truncated += 1
            reason = "" if limit == MAX_VALUE else ", since all values of this page together are too much"
            rendered += f'<p class="cut">{len(text) - len(part):,} more characters are not on this page{reason}.</p>'
        return rendered


def _as_text(data: object) -> str:
    """Data for people to read: text as it is, everything else as JSON."""
    if isinstance(data, str):
        return data or '""'
    try:
        return json.dumps(data, indent=2, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "…[nested too deeply]"
