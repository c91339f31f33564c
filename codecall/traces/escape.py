"""Texts of strangers as HTML: nothing in them is markup, and nothing in them is hidden."""

from __future__ import annotations

import html
import json
import math
import re
from typing import Final

from codecall.traces.model import TraceValue

MAX_VALUE: Final = 20_000
"""Characters of one value on a page."""

MAX_VALUES: Final = 3_000_000
"""Characters of all values on a page."""

MAX_NAME: Final = 400
"""Characters of a name on a page."""

_ODD: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""What nobody sees, what changes the order of the letters around it, and what is no character."""


def escape_html(text: str) -> str:
    """A text as HTML; what nobody would see of it is spelled out."""
    return _ODD.sub(lambda found: f'<span class="odd">U+{ord(found[0]):04X}</span>', html.escape(text))


def escape_attribute(text: str) -> str:
    """The same where no markup can be: in an attribute, in a title."""
    return _ODD.sub(lambda found: f"[U+{ord(found[0]):04X}]", html.escape(text)).replace("\n", " ").replace("\t", " ")


def truncate(text: str, most: int) -> str:
    """A text, or as much as `most` characters of it, and how many more there were."""
    return text if len(text) <= most else f"{text[:most]}…[{len(text) - most:,} more characters]"


def format_duration(ms: float | None) -> str:
    """Milliseconds for people."""
    if ms is None:
        return "—"
    if ms < 1_000:
        return f"{ms:.1f} ms" if ms < 100 else f"{ms:.0f} ms"
    return f"{ms / 1000:.2f} s" if ms < 100_000 else f"{ms / 1000:,.0f} s"


def format_amount(value: float, unit: str) -> str:
    """A number with its unit for people."""
    if unit == "ms":
        return format_duration(value)
    if unit != "bytes":
        return f"{value:,.0f}"
    for name, size in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if value >= size:
            return f"{value / size:.4g} {name}"
    return f"{value:,.0f} bytes"


def percent(part: float, whole: float) -> str:
    """A share as SVG takes it: from 0% to 100%."""
    share = 100 * part / whole if whole > 0 else 0.0
    return f"{min(100.0, max(0.0, share if math.isfinite(share) else 0.0)):.3f}%"


class ValueBudget:
    """What is left of the room that a page has for values."""

    def __init__(self) -> None:
        self._left = MAX_VALUES
        self.left_out = 0
        """Values that are cut or left out."""

    def render(self, value: TraceValue) -> str:
        """A value as HTML."""
        if not value.known:
            size = "" if value.chars is None else f"{value.chars:,} characters of JSON, "
            return f'<p class="quiet">{size}not on record</p>'
        text = _written(value.data)
        most = min(MAX_VALUE, self._left)
        part = text[:most]
        self._left -= len(part)
        told = f'<pre tabindex="0">{escape_html(part)}</pre>' if part else ""
        if len(part) < len(text):
            self.left_out += 1
            why = "" if most == MAX_VALUE else ", since all values of this page together are too much"
            told += f'<p class="cut">{len(text) - len(part):,} more characters are not on this page{why}.</p>'
        return told


def _written(data: object) -> str:
    """Data for people: a text as it is, all else as JSON."""
    if isinstance(data, str):
        return data or '""'
    try:
        return json.dumps(data, indent=2, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "…[nested too deeply]"
