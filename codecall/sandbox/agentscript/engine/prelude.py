"""The JavaScript of the realm: `prelude.js` with the policy's tables and the limits it counts, as one text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

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

MAX_LIMITS: Final = 16
"""Sets of limits whose text is remembered; a worker sees few different ones."""

FindRemovals: TypeAlias = Callable[[str], str]

_FUNCTION_MEMBERS = frozenset({"length", "name", "prototype"})
"""Members that every function has; the validator keeps scripts from naming `prototype`."""

_ENGINE_MEMBERS = {"Promise": frozenset({"@@species"})}
"""Members no script can name, without which the engine's own methods do not work (`finally`)."""


@lru_cache(MAX_LIMITS)
def runtime_text(limits: Limits, overflow_message: str, find_removals: FindRemovals) -> str:
    """The text that builds the realm for these limits.

    Args:
        limits: the preset's numbers.
        overflow_message: the engine's message for an exhausted stack.
        find_removals: evaluates a text of this kind in a fresh engine, and gives what the operation `removals` of the
            result gives.

    What the policy does not list is deleted by name, since the same engine always has the same objects: the names are
    those that applying the tables has found, and a second engine checks that with them nothing is left to delete.
    """
    tables, config = _tables(limits), _configuration(limits, overflow_message)
    by_tables = _text(config, tables, None)
    removals = msgspec.json.decode(find_removals(by_tables))
    if removals is None:
        return by_tables
    find_removals(_text(config, tables, removals))
    return _text(config, None, removals)


def _text(config: object, tables: object, removals: object) -> str:
    values = (msgspec.json.encode(value).decode() for value in (config, tables, removals))
    # In a literal, unlike in JSON, `"__proto__": 1` would be the prototype.
    return f"{PRELUDE}({','.join(values)})".replace('"__proto__":', '["__proto__"]:')


def _tables(limits: Limits) -> dict[str, object]:
    """What the policy keeps, by object."""
    rules = Rules.from_limits(limits)
    names = [name for name, row in GLOBALS.items() if rules.permit(row.verdict) and name not in RUNTIME_NAMES]
    return {
        "globals": {name: _lookup_table(_members_to_keep(name, rules)) for name in names},
        "prototypes": {name: _lookup_table(names) for name, names in inherited(rules).items()},
    }


def _configuration(limits: Limits, overflow_message: str) -> dict[str, object]:
    """What the prelude has to know besides."""
    meta_tools = {name.lower().replace(":", separator): 1 for name in META_TOOLS for separator in ":_"}
    return {
        "metaTools": meta_tools,
        "neverMembers": _lookup_table(NEVER_MEMBERS),
        "overflowMessage": overflow_message,
        "clock": limits.allow_clock,
        "regex": limits.allow_regex,
        "console": limits.allow_console,
        "maxToolCalls": limits.max_tool_calls,
        "maxName": MAX_NAME_LENGTH,
        "maxUri": MAX_URI_LENGTH,
        "sanitize": {
            "depth": limits.sanitize_max_depth,
            "properties": limits.sanitize_max_properties,
            "string": limits.sanitize_max_string,
            "array": limits.sanitize_max_array,
        },
    }


def _members_to_keep(name: str, rules: Rules) -> frozenset[str]:
    """The members of a global itself that the realm keeps."""
    return _FUNCTION_MEMBERS.union(allowed_members(name, rules) or (), _ENGINE_MEMBERS.get(name, ()))


def _lookup_table(names: Iterable[str]) -> dict[str, int]:
    """A set of names as the prelude looks names up."""
    return dict.fromkeys(sorted(names), 1)
