"""The languages of scripts as their callers know them, and the tools and data that a Starlark script starts with."""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias, cast

from codecall.errors import OptionsError
from codecall.sandbox import wire
from codecall.sandbox.agentscript.policy import MAX_SCRIPT_BYTES
from codecall.sandbox.starlark.policy import (
    BUILTIN_NAMES,
    EXTRACT,
    FOREIGN_NAMES,
    GET_RESULT,
    NAME,
    function_names,
    lower_case_names,
    signature,
)

Language: TypeAlias = Literal["javascript", "starlark"]

SCRIPT_LANGUAGES: Final[Mapping[str, Language]] = {
    ".js": "javascript",
    ".mjs": "javascript",
    ".ts": "javascript",
    ".star": "starlark",
    ".starlark": "starlark",
}
"""The languages of scripts by the suffixes of their files, in lower case."""

MAX_FUNCTIONS: Final = 1_000
"""Most tools that one script can name as functions."""

_KEYWORDS: Final = frozenset({*keyword.kwlist, "load"} - BUILTIN_NAMES)
RESERVED: Final = BUILTIN_NAMES | _KEYWORDS
"""What no variable of a script can be called, and no server."""
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALLED: Final = re.compile(r"(?<![.\w])([A-Za-z_][A-Za-z0-9_]*)\s*\(")


def language_of(file: str | PurePath) -> Language:
    """The language of the script in a file of that name; JavaScript where the suffix tells nothing."""
    return SCRIPT_LANGUAGES.get(PurePath(file).suffix.lower(), "javascript")


def require_starlark() -> None:
    """Raise OptionsError where the packages for Starlark are not installed."""
    missing = [name for name in ("starlark", "greenlet") if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionsError(
            f"starlark: {' and '.join(missing)} is not installed", hint="Install it: pip install 'codecall[starlark]'"
        )


def words(script: str) -> set[str]:
    """The words of a script that may be names of tools; one that is too long to run has none."""
    if len(script) > MAX_SCRIPT_BYTES:
        return set()
    return set(_WORD.findall(script)) - BUILTIN_NAMES - _KEYWORDS


def starlark_terms(
    script: str,
    tools: Mapping[str, Mapping[str, Any]] | None,
    *,
    parallel: int = 10,
    extracts: bool = False,
    results: bool = False,
) -> wire.StarlarkTerms:
    """What a Starlark script runs with.

    Args:
        script: its text; only the tools whose function names occur in it are handed on.
        tools: what it may call, by name, with `inputSchema`. None: nobody knows, so each function that it calls and
            that is of no other language may be a tool.
        parallel: most functions of one `parallel` that run at the same time.
        extracts: whether it has `extract`, where no tool is called so.
        results: whether it has `get_result`, where no tool is called so.
    """
    if tools is None:
        foreign = {row.name for row in FOREIGN_NAMES}
        foreign |= {EXTRACT} if extracts else set()
        called = _CALLED.findall(script[: MAX_SCRIPT_BYTES + 1])
        tools = {name: {} for name in dict.fromkeys(called) if name not in foreign}
    used, functions = words(script), function_names(tools)
    found = sorted(used & functions.keys())[:MAX_FUNCTIONS]
    return wire.StarlarkTerms(
        functions=[_function(name, functions[name], tools[functions[name]].get("inputSchema")) for name in found],
        parallel=parallel,
        extracts=extracts and EXTRACT not in found,
        results=results and GET_RESULT not in found,
    )


def server_terms(
    script: str,
    servers: Mapping[str, Mapping[str, tuple[str, Mapping[str, Any]]]],
    *,
    value: str,
    parallel: int = 10,
    extracts: bool = False,
    results: bool = False,
) -> wire.StarlarkTerms:
    """What a Starlark script runs with in which tools are members of servers.

    Args:
        script: its text; only the servers whose names occur in it are handed on, as they are or in lower case.
        servers: the tools of each server by their names in code: the tool's own name, and its input schema.
        value: the variable whose value at the end is the script's.
        parallel: most functions of one `parallel` that run at the same time.
        extracts: whether it has `extract`, where no server is called so.
        results: whether it has `get_result`, where no server is called so.
    """
    used = words(script)
    server_names = lower_case_names(servers) | {name: name for name in servers}
    names = sorted(used & server_names.keys())
    tools = [(name, tool) for name in names for tool in servers[server_names[name]]]
    # Those that the script may reach by computed names come last, of whatever server they are.
    tools.sort(key=lambda found: found[1] not in used and found[1].lower() not in used)
    found = {name: wire.ServerTools(name, []) for name in names}
    for name, tool in tools[:MAX_FUNCTIONS]:
        found[name].tools.append(_function_of(name, tool, servers[server_names[name]][tool]))
    return wire.StarlarkTerms(
        servers=list(found.values()),
        value=value,
        parallel=parallel,
        extracts=extracts and EXTRACT not in found,
        results=results and GET_RESULT not in found,
    )


def _function_of(server: str, name: str, tool: tuple[str, Mapping[str, Any]]) -> wire.ToolFunction:
    return wire.ToolFunction(name, tool[0], signature(f"{server}.{name}", tool[1], as_call=True))


def _function(name: str, tool: str, schema: object) -> wire.ToolFunction:
    known = cast("Mapping[str, object]", schema if isinstance(schema, Mapping) else {})
    return wire.ToolFunction(name, tool, signature(name, known, as_call=True))


def check_variables(data: Mapping[str, object], tools: Iterable[str]) -> None:
    """Check that the keys of `data` can be variables of a Starlark script.

    Raises:
        OptionsError: one of them is no name, or is taken.
    """
    if not data:
        return
    taken = BUILTIN_NAMES | function_names(tools).keys()
    for key in data:
        if key in taken:
            raise OptionsError(
                f'data argument "{key:.80}" conflicts with a builtin or tool name', hint="Give it another name."
            )
        if NAME.fullmatch(key) is None or key in _KEYWORDS:
            raise OptionsError(
                f'data argument "{key:.80}" is not a name that a variable can have',
                hint='Give the dict another name around it: {"values": {"a key": 1}} is read as values["a key"].',
            )
