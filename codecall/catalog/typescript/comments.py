"""Comments in TypeScript declarations: short, on one line, and unable to end the comment they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import cast

from codecall.catalog.javascript import literal

JsonObject = Mapping[str, object]

MAX_READ = 20_000
"""Characters of a description that are read."""
MAX_DEFAULT = 40
"""Characters of a default value that is shown."""
MAX_PATTERN = 40
"""Characters of a regular expression that is shown."""

_RANGES = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minProperties", "maxProperties", " properties"),
)
_INEXPRESSIBLE = ("not", "if", "dependencies", "dependentRequired", "dependentSchemas", "contains", "propertyNames")
"""Keywords that TypeScript cannot express, or not briefly."""


def shorten(text: str, limit: int) -> str:
    """Puts `text` on one line; cuts it at a word, with `…`, where it has more than `limit` characters."""
    line = " ".join(text[:MAX_READ].split())
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    return (head.rsplit(" ", 1)[0] if " " in head else head).rstrip(" ,;:") + "…"


def block_comment(text: str) -> str:
    """Writes a comment with `text`, which cannot end the comment whatever it contains."""
    return f"/* {_escaped(text)} */"


def doc_comment(text: str) -> str:
    """Writes a doc comment with `text`, which cannot end the comment whatever it contains."""
    return f"/** {_escaped(text)} */"


def _escaped(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        # Without controls, and marks that are invisible or reorder text.
        text = "".join(filter(str.isprintable, text))
    # A compiler takes a comment that begins with `@ts-…` for an instruction.
    return re.sub(r"@(?=ts-)", "", text.replace("*/", "*\\/"))


def schema_comment(body: JsonObject, inner: JsonObject, *, limit: int, is_input: bool) -> str:
    """Returns the comment on a schema: its description, then what its type cannot express; empty without either.

    Args:
        body: the schema.
        inner: the one schema that it refers to or wraps, for keywords that `body` does not have.
        limit: the most characters of the description; 0 for no comment at all.
        is_input: whether the schema is part of a tool's input: bounds and defaults of an output are not useful.
    """
    if limit <= 0:
        return ""
    raw = body.get("description") or inner.get("description")
    description = shorten(raw, limit) if isinstance(raw, str) else ""
    facts = ", ".join(_facts({**inner, **body}, description.lower(), is_input=is_input))
    if not facts:
        return description
    return f"{description} ({facts})" if description else facts


def _facts(body: JsonObject, description: str, *, is_input: bool) -> Iterator[str]:
    form = body.get("format")
    if isinstance(form, str) and form and form.lower() not in description:
        yield shorten(form, MAX_PATTERN)
    if body.get("deprecated") is True and "deprecated" not in description:
        yield "deprecated"
    if not is_input:
        return
    if body.get("type") == "integer" and "integer" not in description:
        yield "integer"
    for low, high, unit in _RANGES:
        yield from _range(body, low, high, unit)
    step = _number(body.get("multipleOf"))
    if step is not None and step != "1":
        yield f"multiple of {step}"
    pattern = body.get("pattern")
    if isinstance(pattern, str) and 0 < len(pattern) <= MAX_PATTERN and pattern not in description:
        yield f"pattern {pattern}"
    if body.get("uniqueItems") is True:
        yield "each once"
    if body.get("required") is True:
        yield "required"
    if any(keyword in body for keyword in _INEXPRESSIBLE):
        yield "further conditions"
    default = _default(body.get("default"))
    if default and "default" not in description:
        yield f"default {default}"


def _range(body: JsonObject, low: str, high: str, unit: str) -> Iterator[str]:
    least, most = _number(body.get(low)), _number(body.get(high))
    if not unit:
        # Draft 4 says with true that the bound itself is left out; later drafts give the bound here.
        above, below = (_number(body.get(f"exclusive{name}")) for name in ("Minimum", "Maximum"))
        if body.get("exclusiveMinimum") is True:
            least, above = None, least
        if body.get("exclusiveMaximum") is True:
            most, below = None, most
        if above is not None:
            yield f"above {above}"
        if below is not None:
            yield f"below {below}"
    if least is not None and most is not None:
        yield f"{least}{unit}" if least == most else f"{least} to {most}{unit}"
    elif least is not None and not (unit and least == "0"):
        yield f"at least {least}{unit}"
    elif most is not None:
        yield f"at most {most}{unit}"


def _number(value: object) -> str | None:
    """A bound as text; None where it says nothing, as the limits of what a number can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not isfinite(value):
        return None
    if abs(value) >= 2**53 - 1:
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


def _default(value: object) -> str:
    """A default as a literal, if it is short and not empty."""
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    if not items or len(items) > MAX_DEFAULT // 4 or not all(map(_is_short_scalar, items)):
        return ""
    text = literal(cast("object", value))
    return text if len(text) <= MAX_DEFAULT else ""


def _is_short_scalar(value: object) -> bool:
    """Whether a value is a scalar with a short literal."""
    if isinstance(value, str):
        return 0 < len(value) <= MAX_DEFAULT
    return isinstance(value, (bool, int, float)) and abs(value) <= 2**53
