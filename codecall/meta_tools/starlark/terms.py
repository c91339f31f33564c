"""What a Starlark script of a request runs with: the tools of its caller as functions, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from anyio import to_thread

from codecall.catalog.entries import CatalogEntry
from codecall.catalog.javascript import string_literal
from codecall.catalog.view import CatalogView
from codecall.option_base import parse_duration
from codecall.options import CodeModeOptions, PluginOptions
from codecall.presets import Preset
from codecall.sandbox.languages import check_variables, starlark_terms, words
from codecall.sandbox.starlark.policy import function_name, function_names, signature
from codecall.sandbox.wire import StarlarkTerms

MAX_DURATION_MS: Final = 60_000
"""Longest run in all, tools included."""

_DEFAULTS: Final = CodeModeOptions()

MAX_PRESETS: Final = 32
"""Limits of scripts that are kept ready."""

_presets: dict[tuple[Preset, CodeModeOptions], Preset] = {}


def call_form(entry: CatalogEntry, functions: Mapping[str, str]) -> str:
    """How a Starlark script calls a tool; `functions` are the tools of its caller by the names of their functions."""
    name = function_name(entry.name)
    if functions.get(name) == entry.name:
        return signature(name, entry.input_schema)
    return f"call_tool({string_literal(entry.name)}, …)"


async def function_tools(view: CatalogView) -> dict[str, CatalogEntry]:
    """The tools of a caller that functions may stand for, by name: none that reads as another server's, or a script
    that was written for that server's tool would call this one."""
    namespaces = await view.namespaces()
    foreign = await to_thread.run_sync(lambda: namespaces.foreign)
    return {entry.name: entry for entry in await view.entries() if entry.name not in foreign}


async def add_call_forms(documents: Sequence[dict[str, Any]], view: CatalogView) -> None:
    """Say in what search and describe answer with how a Starlark script calls each tool."""
    entries = {entry.name: entry for entry in await view.entries()}
    functions = function_names(await function_tools(view))
    for document in documents:
        entry = entries.get(document["name"]) if document.get("kind", "tool") == "tool" else None
        if entry is not None:
            document["starlark"] = call_form(entry, functions)


async def terms_for(
    script: str, data: Mapping[str, object], view: CatalogView, options: PluginOptions
) -> StarlarkTerms:
    """What a Starlark script runs with.

    Args:
        script: Its text.
        data: Its variables.
        view: The tools of its caller.
        options: Those of the plugin.

    Raises:
        OptionsError: a key of `data` cannot be a variable.
    """
    tools: dict[str, CatalogEntry] = {}
    if data or words(script):  # one that names nothing lists no tools
        tools = await function_tools(view)
    check_variables(data, tools)
    schemas = {name: {"inputSchema": entry.input_schema} for name, entry in tools.items()}
    code_mode = options.starlark.code_mode if options.starlark is not None else _DEFAULTS
    parallel = code_mode.parallel_max_concurrency or _DEFAULTS.parallel_max_concurrency
    return starlark_terms(
        script, schemas, parallel=parallel, extracts=options.extract is not None, results=options.results.enabled
    )


def script_preset(preset: Preset, code_mode: CodeModeOptions) -> Preset:
    """The limits of Starlark scripts: those of `code_mode`, and nowhere more than the preset allows."""
    key = (preset, code_mode)
    if (made := _presets.get(key)) is None:
        if len(_presets) >= MAX_PRESETS:
            _presets.clear()
        made = _presets[key] = _script_preset(preset, code_mode)
    return made


def _script_preset(preset: Preset, code_mode: CodeModeOptions) -> Preset:
    timeout_ms = int((parse_duration(code_mode.tool_call_timeout) or 0) * 1000)
    limits = {
        "max_steps": code_mode.step_limit or _DEFAULTS.step_limit,
        "tool_call_timeout_ms": max(1, timeout_ms),
        "max_duration_ms": MAX_DURATION_MS,
    }
    return preset.model_copy(update={name: min(getattr(preset, name), limit) for name, limit in limits.items()})
