"""What a catalogue lists, as CodeCall shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

JsonObject = dict[str, object]

Kind = Literal["tool", "resource", "template", "prompt"]


@dataclass(frozen=True, slots=True)
class Example:
    """A usage example of a tool."""

    description: str
    """What the script does, in one line."""
    code: str
    """An AgentScript program."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CatalogEntry:
    """One tool as CodeCall's meta-tools show it; or a resource, a template of resources or a prompt."""

    name: str
    app_id: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    """Schema of the value a script gets: FastMCP's `{"result": x}` wrapper is taken off, as it is off the value."""
    annotations: JsonObject = field(default_factory=dict[str, object])
    tags: frozenset[str] = frozenset()
    examples: tuple[Example, ...] = ()
    """The author's own, from the tool's metadata."""
    title: str | None = None
    version: str | None = None
    kind: Kind = "tool"
    """What it is. The `name` of a resource is its URI, that of a template its URI template; the `input_schema` of a
    template or a prompt has its arguments."""
