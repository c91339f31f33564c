"""Names that `getTool` has not found, and the tools that were meant."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from codecall.sandbox.agentscript.ruleset import closest_name
from codecall.sandbox.agentscript.validator.names import AskHost, NamespaceInfo

MAX_UNKNOWN_TOOLS: Final = 3
"""Names of one script that are remembered."""

_MAX_COMPARED: Final = 60
"""Most characters of such a name."""

_decode = msgspec.json.Decoder(NamespaceInfo).decode


def meant_tool(names: Collection[str], ask: AskHost, name: str | None) -> str | None:
    """The tool that has a similar name; None where there is none.

    Args:
        names: The names that were not found.
        ask: Asks the host.
        name: One of them; None: the only one.
    """
    if name is None and len(names) == 1:
        (name,) = names
    found = ask(name, "space", "") if name is not None and len(name) <= _MAX_COMPARED else None
    return closest_name(name, _decode(found).tools) if name is not None and found is not None else None


def unknown_tool_warnings(names: Collection[str], ask: AskHost, script: str) -> Iterator[str]:
    """Warnings about the names that were not found, where a similar one is meant. A script that has both takes the one
    or the other."""
    for name in names:
        near = meant_tool(names, ask, name)
        if near is not None and not any(f"{quote}{near}{quote}" in script for quote in ("'", '"', "`")):
            asked, meant = json.dumps(name), json.dumps(near)
            yield f"`getTool({asked})` is undefined: no tool is called so. Did you mean {meant}?"
