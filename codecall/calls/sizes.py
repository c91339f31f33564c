"""What is said of a value that is too large."""

from __future__ import annotations

from typing import Final

from codecall.calls.names import called, label
from codecall.catalog.entries import CatalogEntry
from codecall.errors import ToolCallError
from codecall.inputs import parameter_names

_NARROWING: Final = (
    "limit",
    "page",
    "per_page",
    "page_size",
    "pagesize",
    "fields",
    "columns",
    "cursor",
    "offset",
    "top",
    "max",
)
"""Parameter names by which tools let callers ask for less."""


def too_large(entry: CatalogEntry, size: int, longest: int) -> ToolCallError:
    """The error of a call whose value has `size` bytes, where `longest` may be."""
    narrowing = [name for name in parameter_names(entry.input_schema) if name.lower() in _NARROWING]
    advice = f" with {', '.join(narrowing)}" if narrowing else ": fewer rows, fewer fields, or a narrower question"
    return ToolCallError(
        f"{label(entry)} returned {size} bytes; one value may have {longest}",
        tool_name=entry.name,
        called=called(entry),
        code="MESSAGE_TOO_LARGE",
        details={"bytes": size, "maxBytes": longest},
        hint=f"Ask for less{advice}.",
    )
