"""Looks a tool up by its name as FastMCP does, without a task for each provider.

FastMCP (4.1) asks all providers of a server at once, each in a task of its own, which takes longer than the answers of
those that need not wait: of a call that a script makes, a tenth. Where every provider is such a one, they are asked in
turn instead. Whatever is out of the ordinary is left to FastMCP, what it would refuse included.
"""

from __future__ import annotations

from types import CellType
from typing import Final, cast

import fastmcp
from fastmcp import FastMCP
from fastmcp.server.providers import LocalProvider, Provider, base
from fastmcp.server.transforms import GetToolNext
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec, version_sort_key

from codecall.catalog.apps import Server
from codecall.catalog.fingerprint import READ

_BOTTOM: Final = "Provider.get_tool.<locals>.base"
"""What the innermost transform of a provider is given to go on with."""

_OWN: Final = frozenset({"get_tool", "_get_tool", "_get_highest_version_result"})
"""Attributes of one object that would be used in place of what its class has."""

# Set while FastMCP looks for a tool by the hash of its identity: then not every name means what it says.
_sought_by_hash: Final = getattr(base, "hashed_lookup_target", None)


async def look_up(name: str, call_next: GetToolNext, version: VersionSpec | None) -> Tool | None:
    """The tool that `call_next` would give."""
    if (server := _beneath(call_next)) is not None:
        try:
            found = [tool for each in server.providers if (tool := await _asked(each, name, version)) is not None]
            tool = max(found, key=version_sort_key, default=None)
        except Exception:
            tool = None  # what a failure comes to depends on the server
        if tool is not None and tool.auth is None:
            return tool
    return await call_next(name, version=version)


async def _asked(provider: Provider, name: str, version: VersionSpec | None) -> Tool | None:
    """What the provider has of that name."""
    if version is None:
        # It would look through all it has. A name has no version, or nothing but versions (`_check_version_mixing`).
        kept: object = getattr(provider, "_components", None)
        tool = cast("dict[str, object]", kept).get(f"tool:{name}@") if isinstance(kept, dict) else None
        if isinstance(tool, Tool) and tool.name == name and tool.version is None:
            return tool
    return await provider.get_tool(name, version)


def _beneath(call_next: GetToolNext) -> Server | None:
    """The server whose providers alone are left to be asked; None where that is not sure, or may take long."""
    if getattr(call_next, "__qualname__", "") != _BOTTOM or not fastmcp.__version__.startswith(READ):
        return None
    cells = cast("tuple[CellType, ...]", getattr(call_next, "__closure__", None) or ())
    server: object = cells[0].cell_contents if len(cells) == 1 else None
    if type(server) is not FastMCP or not _OWN.isdisjoint(vars(server)):
        return None
    if _sought_by_hash is None or _sought_by_hash(server) is not None:
        return None
    return cast("Server", server) if all(map(_answers_at_once, server.providers)) else None


def _answers_at_once(provider: Provider) -> bool:
    return type(provider) is LocalProvider and _OWN.isdisjoint(vars(provider)) and not provider.transforms
