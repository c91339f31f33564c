"""The policy table as the prelude wants it: what to keep, what to take away, and the limits it counts itself."""

from __future__ import annotations

import msgspec

from codecall.sandbox.agentscript.policy import GLOBALS, META_TOOLS, NEVER_NAMES, RUNTIME_NAMES, Rules, allowed_members
from codecall.sandbox.wire import MAX_NAME_LENGTH, Limits

_CONFIGURATIONS: dict[Limits, str] = {}


def configuration(limits: Limits, overflow_message: str) -> str:
    """The prelude's configuration for these limits; a worker sees few different ones."""
    if (known := _CONFIGURATIONS.get(limits)) is None:
        rules = Rules.of(limits)
        kept = [name for name, row in GLOBALS.items() if rules.permit(row.verdict) and name not in RUNTIME_NAMES]
        members = {name: sorted(names) for name in kept if (names := allowed_members(name, rules)) is not None}
        folded = {name.lower().replace(":", separator): 1 for name in META_TOOLS for separator in ":_"}
        known = msgspec.json.encode(
            {
                "keep": kept,
                "members": members,
                "never": [name for name in NEVER_NAMES if name != "prototype"],
                "metaTools": folded,
                "overflowMessage": overflow_message,
                "clock": limits.allow_clock,
                "regex": limits.allow_regex,
                "console": limits.allow_console,
                "maxToolCalls": limits.max_tool_calls,
                "maxName": MAX_NAME_LENGTH,
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
        _CONFIGURATIONS[limits] = known
    return known
