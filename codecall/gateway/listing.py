"""What one server lists: its tools, resources, templates and prompts, and what it says about itself.

It is what the server said, unchecked: `screening` and `access` decide what of it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import mcp_types
from pydantic import ConfigDict, TypeAdapter


@dataclass(frozen=True)
class Listing:
    """What one server lists. Nobody changes it, or what it holds."""

    __pydantic_config__ = ConfigDict(extra="forbid")

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
        return _JSON.dump_json(self, by_alias=True, exclude_unset=True)

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
        listing = _JSON.validate_json(encoded)
        vars(listing)["encoded"] = encoded  # known: it is not worked out again
        return listing


_JSON = TypeAdapter(Listing)
