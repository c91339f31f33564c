"""What one server lists: its tools, resources, templates and prompts, and what it says about itself.

It is what the server said, unchecked: `screening` and `access` decide what of it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import mcp_types
from pydantic import BaseModel, ConfigDict


class _Content(BaseModel):
    """A listing as JSON: what the server sent, in MCP's own words."""

    model_config = ConfigDict(extra="forbid")

    tools: tuple[mcp_types.Tool, ...] = ()
    resources: tuple[mcp_types.Resource, ...] = ()
    templates: tuple[mcp_types.ResourceTemplate, ...] = ()
    prompts: tuple[mcp_types.Prompt, ...] = ()
    server_info: mcp_types.Implementation | None = None
    instructions: str | None = None
    capabilities: mcp_types.ServerCapabilities | None = None


@dataclass(frozen=True)
class Listing:
    """What one server lists. Nobody changes it, or what it holds."""

    tools: tuple[mcp_types.Tool, ...] = ()
    resources: tuple[mcp_types.Resource, ...] = ()
    templates: tuple[mcp_types.ResourceTemplate, ...] = ()
    prompts: tuple[mcp_types.Prompt, ...] = ()
    server_info: mcp_types.Implementation | None = None
    """Name and version, as it gave them when it was connected."""
    instructions: str | None = None
    capabilities: mcp_types.ServerCapabilities | None = None

    @cached_property
    def encoded(self) -> bytes:
        """All of it as JSON, with only what the server said; `decoded` reads it."""
        content = _Content.model_construct(_fields_set={*_Content.model_fields}, **_fields(self))
        return content.model_dump_json(by_alias=True, exclude_unset=True).encode()

    @cached_property
    def digest(self) -> str:
        """The same for two listings only if they say the same."""
        return blake2b(self.encoded, digest_size=16).hexdigest()

    @classmethod
    def decoded(cls, encoded: bytes) -> Listing:
        """The listing that `encoded` is of.

        Raises:
            ValueError: it is of none.
        """
        content = _Content.model_validate_json(encoded)
        listing = cls(
            tools=content.tools,
            resources=content.resources,
            templates=content.templates,
            prompts=content.prompts,
            server_info=content.server_info,
            instructions=content.instructions,
            capabilities=content.capabilities,
        )
        vars(listing)["encoded"] = encoded  # known: it is not worked out again
        return listing


def _fields(of: Listing) -> dict[str, object]:
    return {name: getattr(of, name) for name in _Content.model_fields}
