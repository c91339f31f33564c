"""The JavaScript of the realm, and its configuration: the policy table as `prelude.js` wants it, and the limits it
counts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from codecall.sandbox.agentscript.policy import (
    GLOBALS,
    META_TOOLS,
    NEVER_MEMBERS,
    RUNTIME_NAMES,
    Rules,
    allowed_members,
    inherited,
)
from codecall.sandbox.wire import MAX_NAME_LENGTH, MAX_URI_LENGTH, Limits

# The engine compiles it for every script: comments and indentation are taken out first. No text of it spans lines.
PRELUDE, LOCALE, REFERENCES = (
    re.sub(r"(?m)^\s*(?://.*)?\n?", "", (Path(__file__).parent / name).read_text(encoding="utf-8"))
    for name in ("prelude.js", "locale.js", "references.js")
)

NEEDS_LOCALE: Final = re.compile("toLocale|localeCompare")
"""Text of a script that needs `locale.js`. The validator ensures that names are written without escapes."""

_CONFIGURATIONS: dict[Limits, str] = {}

_FUNCTION_MEMBERS = frozenset({"length", "name", "prototype"})
"""Members that every function has; the validator keeps scripts from naming `prototype`."""

_ENGINE_MEMBERS = {"Promise": frozenset({"@@species"})}
"""Members no script can name, without which the engine's own methods do not work (`finally`)."""


def configuration(limits: Limits, overflow_message: str) -> str:
    """The prelude's configuration for these limits, as JSON text; a worker sees few different ones.

    Args:
        limits: the preset's numbers.
        overflow_message: the engine's message for an exhausted stack.
    """
    if (text := _CONFIGURATIONS.get(limits)) is None:
        rules = Rules.from_limits(limits)
        names = [name for name, row in GLOBALS.items() if rules.permit(row.verdict) and name not in RUNTIME_NAMES]
        meta_tools = {name.lower().replace(":", separator): 1 for name in META_TOOLS for separator in ":_"}
        text = msgspec.json.encode(
            {
                "globals": {name: _lookup_table(_members_to_keep(name, rules)) for name in names},
                "prototypes": {name: _lookup_table(names) for name, names in inherited(rules).items()},
                "metaTools": meta_tools,
                "neverMembers": _lookup_table(NEVER_MEMBERS),
                "overflowMessage": overflow_message,
                "clock": limits.allow_clock,
                "regex": limits.allow_regex,
                "console": limits.allow_console,
                "maxToolCalls": limits.max_tool_calls,
                "maxName": MAX_NAME_LENGTH,
                "maxUri": MAX_URI_LENGTH,
                "maxInput": limits.max_result_bytes,
                "sanitize": {
                    "depth": limits.sanitize_max_depth,
                    "properties": limits.sanitize_max_properties,
                    "string": limits.sanitize_max_string,
                    "array": limits.sanitize_max_array,
                },
            }
        ).decode()
        if len(_CONFIGURATIONS) > 16:
            _CONFIGURATIONS.clear()
        _CONFIGURATIONS[limits] = text
    return text


def _members_to_keep(name: str, rules: Rules) -> frozenset[str]:
    """The members of a global itself that the realm keeps."""
    return _FUNCTION_MEMBERS.union(allowed_members(name, rules) or (), _ENGINE_MEMBERS.get(name, ()))


def _lookup_table(names: Iterable[str]) -> dict[str, int]:
    """A set of names as the prelude looks names up."""
    return dict.fromkeys(sorted(names), 1)
