"""Presets: complete sets of limits and language rules, from the TOML files in `presets/` or from another file."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal, cast

from pydantic import Field
from pydantic.alias_generators import to_camel, to_snake

from codecall.errors import OptionsError
from codecall.option_base import Millis, OptionProblems, Options, reject_double_spelling
from codecall.wording import nearest

PRESET_NAMES = ("locked_down", "secure", "balanced", "experimental")
"""The shipped presets, from strictest to most generous."""

SECURITY_LEVELS = {"STRICT": "locked_down", "SECURE": "secure", "STANDARD": "balanced", "PERMISSIVE": "experimental"}
"""The same four presets in the vocabulary of `Enclave(security_level=…)`."""

PRESET_ENVIRONMENT_VARIABLE = "CODECALL_VM_PRESET"
"""Sets the preset where the code names none, so that a test run can be repeated under another one."""


class Preset(Options):
    """One complete set of limits and language rules, as a file in `presets/` states it."""

    timeout_ms: Millis
    """The script's own time in milliseconds; waiting for tools is not counted."""
    max_duration_ms: Millis
    """Milliseconds for the whole run, waiting included."""
    tool_call_timeout_ms: Millis
    """Milliseconds that one tool call may take."""
    max_iterations: int = Field(ge=1, le=2**31 - 1)
    """Most iterations of any one loop, counted anew each time the loop is entered."""
    max_steps: int = Field(ge=1, le=2**31 - 1)
    """Most loop iterations and function entries in all."""
    max_tool_calls: int = Field(ge=0, le=1_000_000)
    """Most tool calls of one script."""
    max_tool_input_bytes: int = Field(ge=64, le=32 * 1024 * 1024)
    """Most bytes of JSON that a script may give to one call. A larger input fails that call with MESSAGE_TOO_LARGE."""
    memory_mb: int = Field(ge=4, le=4096)
    """The size of the engine's heap in MiB."""
    max_result_bytes: int = Field(ge=64, le=256 * 1024 * 1024)
    """Most bytes of JSON of a result in an answer. The option `inline_result_bytes` may allow fewer. What is larger is
    kept, or fails with OUTPUT_LIMIT where nothing is."""
    allow_console: bool
    """Whether scripts have `console`."""
    max_console_calls: int = Field(ge=0, le=100_000)
    """Most console calls of one script."""
    max_console_bytes: int = Field(ge=0, le=64 * 1024 * 1024)
    """Most UTF-8 bytes of console text of one script."""
    allow_loops: bool
    """Whether `while` and `do…while` are allowed; `for` and `for…of` always are."""
    allow_regex: bool
    """Whether regular expressions are allowed."""
    allow_clock: bool
    """Whether `Date.now`, `new Date()` without arguments and `Math.random` are allowed."""
    sanitize_max_depth: int = Field(ge=1, le=150)
    """Most levels of nesting in a result; a mark replaces deeper parts. MCP itself refuses to send more than 255."""
    sanitize_max_properties: int = Field(ge=1, le=10_000_000)
    """Most properties that a console line or a message shows of any one object; results are not cut."""
    sanitize_max_string: int = Field(ge=16, le=64 * 1024 * 1024)
    """Most characters that a console line or a message shows of any one string in an object; results are not cut."""
    sanitize_max_array: int = Field(ge=1, le=10_000_000)
    """Most items that a console line or a message shows of any one array; results are not cut."""
    reference_min_bytes: int = Field(ge=0, le=64 * 1024 * 1024)
    """Bytes of JSON up to which a script receives the value itself where it requests a reference."""
    reference_max_bytes: int = Field(ge=0, le=256 * 1024 * 1024)
    """Most bytes of one value that stays outside the engine as a reference; 0 allows no references."""
    reference_total_bytes: int = Field(ge=0, le=2**31 - 1)
    """Most bytes of all values that one run holds outside the engine."""
    reference_resolved_bytes: int = Field(ge=0, le=256 * 1024 * 1024)
    """Most bytes of the values that replace references in the input of one call or in the result; also of all calls
    that run at the same time."""
    reference_passed_bytes: int = Field(ge=0, le=2**40)
    """Most bytes of the values that replace references in the inputs of all calls of one run."""
    reference_composites: bool
    """Whether a reference may be part of a longer text, where its value replaces it."""
    max_content_blocks: int = Field(ge=0, le=100_000)
    """Most content blocks (pictures, sounds, files, links) that one run holds, and that one answer shows."""
    max_content_bytes: int = Field(ge=0, le=1024 * 1024 * 1024)
    """Most bytes of all of them with all that they carry, as base64 and text, and 64 for each value and name of a
    `_meta`; also of those that the input of one call gets, each as often as it stands there."""
    worker_max_runs: int = Field(ge=1, le=1_000_000)
    """Scripts that a worker serves before it is replaced; 1 starts a fresh process for every script."""
    require_jail: bool | Literal["on_linux"]
    """Whether scripts are refused (WORKER_STARTUP_FAILED, naming the layer) unless every layer of the worker's jail
    holds. `on_linux`: they are refused on Linux only, where the layers exist. False: they run with the layers that
    hold, and the others are reported."""

    def replaced(self, overrides: Mapping[str, object], *, where: str = "vm") -> Preset:
        """Returns this preset with some values replaced; accepts both spellings of a field. `where` is the option that
        has them, for the message.

        Raises:
            OptionsError: a field is unknown, or its value is of the wrong type or out of range.
        """
        reject_double_spelling(Preset, overrides, where)
        aliases = {to_camel(field): field for field in Preset.model_fields}
        merged = self.model_dump() | {aliases.get(key, key): value for key, value in overrides.items()}
        return Preset.read(merged, where=where)


def presets_folder() -> Path:
    """Returns the folder of the shipped preset files: in the installed package, or beside it in a checkout."""
    installed = Path(__file__).parent / "presets"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "presets"


@cache
def _shipped(name: str) -> Preset:
    return _from_file(presets_folder() / f"{name}.toml")


def _from_file(path: Path) -> Preset:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as failure:
        raise OptionsError(f"vm.preset: cannot read the preset file {str(path)!r}: {failure.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failure:
        raise OptionsError(f"vm.preset: {str(path)!r} is not valid TOML: {failure}") from None
    try:
        return Preset.read(values, where=f"preset {path.name}")
    except OptionsError as failure:
        stated = {to_snake(key) for key in values}
        if missing := [name for name in Preset.model_fields if name not in stated]:
            # A file of an operator's own is short of the limits that a later version has added.
            secure = load_preset("secure")
            lines = "\n".join(f"{name} = {json.dumps(getattr(secure, name))}" for name in missing)
            failure.hint = f"A preset file states every limit. These lines of `secure` complete it:\n{lines}"
        raise


def load_preset(name: str | os.PathLike[str]) -> Preset:
    """Returns the preset of that name, or the one in the TOML file at that path.

    Raises:
        OptionsError: there is no such preset or file, or the file does not state every field.
    """
    if not isinstance(name, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionsError(f"preset: a name, or the path of a .toml file, is needed, got {type(name).__name__}")
    text = os.fspath(name)
    if text in PRESET_NAMES:
        return _shipped(text)
    if text.endswith(".toml") or os.sep in text:
        return _from_file(Path(text))
    raise OptionsError(
        f"vm.preset: unknown preset {text!r}; known: {', '.join(PRESET_NAMES)}, or the path of a .toml file"
    )


def preset_of_level(
    level: str | None, preset: str | os.PathLike[str] | Preset | None
) -> str | os.PathLike[str] | Preset | None:
    """Returns the preset that `level` names in the other vocabulary; without it `preset`.

    Raises:
        OptionsError: the level is unknown, or both are given.
    """
    if level is None:
        return preset
    if preset is not None:
        raise OptionsError("security_level: give either preset or security_level, not both")
    if level not in SECURITY_LEVELS:
        raise OptionsError(f"security_level: unknown level {level!r}; known: {', '.join(SECURITY_LEVELS)}")
    return SECURITY_LEVELS[level]


def resolve_preset(
    preset: str | os.PathLike[str] | Preset | None = None, overrides: object = None, *, where: str = "vm"
) -> Preset:
    """Returns the preset to run under: `preset`, else `CODECALL_VM_PRESET`, else `secure`; with `overrides` applied.

    Raises:
        OptionsError: the preset or an override is unknown, or a value is of the wrong type or out of range; the message
            names it under `where`.
    """
    if not isinstance(preset, Preset):
        preset = load_preset(preset if preset is not None else os.environ.get(PRESET_ENVIRONMENT_VARIABLE) or "secure")
    if overrides is None:
        return preset
    if not isinstance(overrides, Mapping):
        hint = f"Write {where}={{'timeout_ms': 8000}}, with the names of limits."
        raise OptionsError(f"{where}: a mapping of limits is needed, got {type(overrides).__name__}", hint=hint)
    return preset.replaced(cast("Mapping[str, object]", overrides), where=where) if overrides else preset


def read_vm(vm: object) -> tuple[Preset, str]:
    """The limits of the plugin's `vm` option, `{"preset": …, <override>: …}`, and the name of their preset.

    Raises:
        OptionsError: as for `resolve_preset`.
    """
    if vm is not None and not isinstance(vm, Mapping):
        name = vm if isinstance(vm, str) else "secure"
        raise OptionsError(
            f"vm: a mapping is needed, got {type(vm).__name__}", hint=f"For a preset: {preset_example(name)}."
        )
    limits = dict(cast("Mapping[str, object]", vm or {}))
    preset_value = limits.pop("preset", None)
    if preset_value is not None and not isinstance(preset_value, (str, os.PathLike)):
        raise OptionsError(f"vm.preset: a name or a path is needed, got {type(preset_value).__name__}")
    chosen = cast("str | os.PathLike[str] | None", preset_value)
    named = chosen if chosen is not None else os.environ.get(PRESET_ENVIRONMENT_VARIABLE) or "secure"
    problems = OptionProblems()
    for key, value in limits.items():
        if nearest(str(key), ("preset",)):
            raise OptionsError(f"vm.{key}: unknown option (did you mean preset?)", hint=f"{preset_example(value)}.")
    with problems.collecting():
        load_preset(named)
    with problems.collecting():
        preset = resolve_preset("secure" if problems.found else named, limits)
        if not problems.found:
            return preset, os.fspath(named)
    raise problems.as_error()


def preset_example(name: object) -> str:
    """How a preset is given: in Python, and in the gateway's file."""
    label = f"{name:.80}" if isinstance(name, str) else "secure"
    return f"vm={{'preset': {label!r}}}, in TOML vm = {{ preset = {json.dumps(label, ensure_ascii=False)} }}"
