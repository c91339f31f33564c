"""The policy table as the prelude wants it: what to keep, what to take away, and the limits it counts itself."""

from __future__ import annotations

from collections.abc import Iterable

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

_CONFIGURATIONS: dict[Limits, str] = {}

_OF_FUNCTIONS = frozenset({"length", "name", "prototype"})
"""What every function has of its own; the guard keeps scripts from naming `prototype`."""

_FOR_THE_ENGINE = {"Promise": frozenset({"@@species"})}
"""What no script can name and the engine's own methods do not work without (`finally`)."""


def _kept_of(name: str, rules: Rules) -> frozenset[str]:
    """What the realm leaves of a global itself."""
    return _OF_FUNCTIONS.union(allowed_members(name, rules) or (), _FOR_THE_ENGINE.get(name, ()))


def _set(names: Iterable[str]) -> dict[str, int]:
    """A set of names as the prelude looks things up."""
    return dict.fromkeys(sorted(names), 1)


def configuration(limits: Limits, overflow_message: str) -> str:
    """The prelude's configuration for these limits; a worker sees few different ones."""
    if (known := _CONFIGURATIONS.get(limits)) is None:
        rules = Rules.of(limits)
        kept = [name for name, row in GLOBALS.items() if rules.permit(row.verdict) and name not in RUNTIME_NAMES]
        folded = {name.lower().replace(":", separator): 1 for name in META_TOOLS for separator in ":_"}
        known = msgspec.json.encode(
            {
                "globals": {name: _set(_kept_of(name, rules)) for name in kept},
                "prototypes": {name: _set(names) for name, names in inherited(rules).items()},
                "metaTools": folded,
                "neverMembers": _set(NEVER_MEMBERS),
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
        _CONFIGURATIONS[limits] = known
    return known
