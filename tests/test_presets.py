"""The preset files: whole, ordered, shipped, and as the contract's table states them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from codecall.errors import OptionsError
from codecall.meta_tools.runs import max_value_bytes
from codecall.presets import (
    PRESET_ENVIRONMENT_VARIABLE,
    PRESET_NAMES,
    SECURITY_LEVELS,
    Preset,
    load_preset,
    presets_folder,
    resolve_preset,
)

REPOSITORY = Path(__file__).parent.parent
FIELDS = sorted(Preset.model_fields)

# The contract's table (section 5), in the order of PRESET_NAMES.
CONTRACT: dict[str, tuple[object, ...]] = {
    "timeout_ms": (2_000, 3_500, 5_000, 10_000),
    "max_duration_ms": (30_000, 60_000, 60_000, 300_000),
    "tool_call_timeout_ms": (10_000, 30_000, 30_000, 60_000),
    "max_iterations": (2_000, 5_000, 10_000, 20_000),
    "max_steps": (100_000, 1_000_000, 5_000_000, 20_000_000),
    "max_tool_calls": (25, 100, 200, 1_000),
    "max_tool_input_bytes": (256 << 10, 1 << 20, 4 << 20, 16 << 20),
    "memory_mb": (16, 64, 128, 256),
    "max_result_bytes": (256 << 10, 1 << 20, 4 << 20, 16 << 20),
    "allow_console": (False, True, True, True),
    "max_console_calls": (0, 100, 500, 1_000),
    "max_console_bytes": (0, 64 << 10, 256 << 10, 1 << 20),
    "allow_loops": (False, False, True, True),
    "allow_regex": (False, True, True, True),
    "allow_clock": (False, True, True, True),
    "sanitize_max_depth": (10, 50, 50, 100),
    "sanitize_max_properties": (1_000, 10_000, 20_000, 100_000),
    "sanitize_max_string": (10_000, 100_000, 1 << 20, 4 << 20),
    "sanitize_max_array": (1_000, 10_000, 50_000, 200_000),
    "reference_min_bytes": (1 << 10, 1 << 10, 1 << 10, 1 << 10),
    "reference_max_bytes": (4 << 20, 32 << 20, 32 << 20, 64 << 20),
    "reference_total_bytes": (8 << 20, 64 << 20, 128 << 20, 256 << 20),
    "reference_resolved_bytes": (4 << 20, 32 << 20, 32 << 20, 64 << 20),
    "reference_passed_bytes": (32 << 20, 256 << 20, 512 << 20, 1 << 30),
    "reference_composites": (False, False, True, True),
    "max_content_blocks": (8, 100, 200, 1_000),
    "max_content_bytes": (4 << 20, 16 << 20, 32 << 20, 64 << 20),
    "worker_max_runs": (1, 200, 1_000, 1_000),
    "require_jail": ("on_linux", False, False, False),
}


@pytest.fixture(autouse=True)
def no_preset_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests say themselves which preset they mean."""
    monkeypatch.delenv(PRESET_ENVIRONMENT_VARIABLE, raising=False)


def stated(name: str) -> dict[str, object]:
    """What a preset's file says."""
    return tomllib.loads((presets_folder() / f"{name}.toml").read_text(encoding="utf-8"))


def own_preset(folder: Path, **changes: object) -> Path:
    """A preset file of the operator's own: `secure` with changes; None leaves a field out."""
    values = {key: value for key, value in (stated("secure") | changes).items() if value is not None}
    file = folder / "own.toml"
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
    return file


def test_the_shipped_files_are_the_named_presets():
    assert sorted(file.stem for file in presets_folder().glob("*.toml")) == sorted(PRESET_NAMES)


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_preset_is_a_whole_file(name: str):
    assert sorted(stated(name)) == FIELDS


def test_no_field_has_a_default_hidden_in_code():
    assert [name for name, field in Preset.model_fields.items() if not field.is_required()] == []


@pytest.mark.parametrize("field", FIELDS)
def test_the_values_are_those_of_the_contract(field: str):
    assert tuple(getattr(load_preset(name), field) for name in PRESET_NAMES) == CONTRACT[field]


@pytest.mark.parametrize("field", FIELDS)
def test_presets_are_ordered_from_strict_to_generous(field: str):
    values = [getattr(load_preset(name), field) for name in PRESET_NAMES]
    if field == "require_jail":
        values = [[True, "on_linux", False].index(value) for value in values]
    assert all(lower <= higher for lower, higher in pairwise(values)), values


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_the_limits_of_a_preset_fit_together(name: str):
    preset = load_preset(name)
    assert preset.timeout_ms <= preset.max_duration_ms
    assert preset.tool_call_timeout_ms <= preset.max_duration_ms
    assert preset.max_iterations <= preset.max_steps
    assert preset.max_result_bytes < preset.memory_mb << 20
    assert preset.reference_min_bytes < preset.reference_max_bytes <= preset.reference_resolved_bytes
    assert preset.reference_max_bytes <= preset.reference_total_bytes <= preset.reference_passed_bytes
    assert max_value_bytes(preset) <= preset.reference_max_bytes
    assert preset.allow_console == (preset.max_console_calls > 0) == (preset.max_console_bytes > 0)


def test_security_levels_name_the_same_presets_in_order():
    assert tuple(SECURITY_LEVELS) == ("STRICT", "SECURE", "STANDARD", "PERMISSIVE")
    assert tuple(SECURITY_LEVELS.values()) == PRESET_NAMES


def test_secure_is_the_default():
    assert resolve_preset() == load_preset("secure")


def test_the_environment_sets_the_preset_where_the_code_names_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(PRESET_ENVIRONMENT_VARIABLE, "balanced")
    assert resolve_preset() == load_preset("balanced")
    assert resolve_preset("locked_down") == load_preset("locked_down")
    monkeypatch.setenv(PRESET_ENVIRONMENT_VARIABLE, "")
    assert resolve_preset() == load_preset("secure")
    monkeypatch.setenv(PRESET_ENVIRONMENT_VARIABLE, "lax")
    with pytest.raises(OptionsError, match="unknown preset 'lax'"):
        resolve_preset()


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_can_be_overridden_in_both_spellings(field: str):
    value = CONTRACT[field][3]
    expected = load_preset("secure").model_copy(update={field: value})
    assert resolve_preset("secure", {field: value}) == expected
    assert resolve_preset("secure", {to_camel(field): value}) == expected


def test_an_override_leaves_the_shipped_preset_alone():
    resolve_preset("secure", {"timeout_ms": 1})
    assert load_preset("secure").timeout_ms == CONTRACT["timeout_ms"][1]


def test_presets_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        load_preset("secure").timeout_ms = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"timeout_ms": 0}, "vm.timeout_ms: "),
        ({"timeout_ms": "3500"}, "vm.timeout_ms: "),
        ({"timeout_ms": 3500.0}, "vm.timeout_ms: "),
        ({"timeout_ms": True}, "vm.timeout_ms: "),
        ({"timeoutMs": None}, "vm.timeout_ms: "),
        ({"allow_loops": 1}, "vm.allow_loops: "),
        ({"allow_loops": "yes"}, "vm.allow_loops: "),
        ({"memory_mb": 3}, "vm.memory_mb: "),
        ({"max_tool_calls": -1}, "vm.max_tool_calls: "),
        ({"timeout": 3500}, "vm.timeout: unknown option; known here: timeout_ms, "),
        ({"timeout_ms": 1, "timeoutMs": 2}, "vm.timeout_ms: given twice"),
    ],
)
def test_a_wrong_override_is_refused_by_name(overrides: dict[str, object], message: str):
    with pytest.raises(OptionsError) as refused:
        resolve_preset("secure", overrides)
    assert refused.value.message.startswith(message)
    assert refused.value.code == "INVALID_OPTIONS"


def test_every_wrong_override_is_named_at_once():
    with pytest.raises(OptionsError) as refused:
        resolve_preset("secure", {"timeout_ms": 0, "memory_mb": 0, "speed": 1})
    assert all(name in refused.value.message for name in ("vm.timeout_ms", "vm.memory_mb", "vm.speed"))


def test_a_preset_file_of_ones_own(tmp_path: Path):
    file = own_preset(tmp_path, timeout_ms=1234)
    expected = load_preset("secure").model_copy(update={"timeout_ms": 1234})
    assert load_preset(file) == load_preset(str(file)) == expected
    assert resolve_preset(file, {"memory_mb": 32}).memory_mb == 32


def test_a_preset_file_is_read_anew_each_time(tmp_path: Path):
    assert load_preset(own_preset(tmp_path, timeout_ms=1)).timeout_ms == 1
    assert load_preset(own_preset(tmp_path, timeout_ms=2)).timeout_ms == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timeout_ms": None}, "preset own.toml.timeoutMs: missing"),
        ({"speed": 1}, "preset own.toml.speed: unknown option"),
        ({"memory_mb": "64"}, "preset own.toml.memory_mb: "),
    ],
)
def test_a_preset_file_that_is_not_whole_is_refused(tmp_path: Path, changes: dict[str, object], message: str):
    with pytest.raises(OptionsError) as refused:
        load_preset(own_preset(tmp_path, **changes))
    assert refused.value.message.startswith(message)


def test_a_preset_file_from_before_a_limit_was_added_is_told_the_lines_to_add(tmp_path: Path):
    older = own_preset(tmp_path, max_tool_input_bytes=None, max_content_blocks=None, require_jail=None)
    with pytest.raises(OptionsError) as refused:
        load_preset(older)
    hint, *lines = (refused.value.hint or "").split("\n")
    assert "every limit" in hint
    assert lines == ["max_tool_input_bytes = 1048576", "max_content_blocks = 100", "require_jail = false"]
    assert str(refused.value).endswith(lines[-1])
    older.write_text(f"{older.read_text()}{chr(10).join(lines)}\n")
    assert load_preset(older) == load_preset("secure")


def test_a_preset_file_that_is_not_there_or_not_toml_is_refused(tmp_path: Path):
    with pytest.raises(OptionsError, match=r"cannot read the preset file '.*none\.toml': No such file"):
        load_preset(tmp_path / "none.toml")
    with pytest.raises(OptionsError, match="cannot read the preset file"):
        load_preset(f"{tmp_path}{os.sep}")
    for content in (b"timeout_ms = ", b"\xff\xfe"):
        broken = tmp_path / "broken.toml"
        broken.write_bytes(content)
        with pytest.raises(OptionsError, match=r"'.*broken\.toml' is not valid TOML"):
            load_preset(broken)


@pytest.mark.parametrize("name", ["lax", "", "SECURE", "secure "])
def test_an_unknown_preset_is_refused_with_the_known_names(name: str):
    with pytest.raises(OptionsError) as refused:
        resolve_preset(name)
    assert f"unknown preset {name!r}" in refused.value.message
    assert all(known in refused.value.message for known in PRESET_NAMES)


def test_the_wheel_ships_the_presets_and_the_prelude(tmp_path: Path):
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for name in PRESET_NAMES:
            assert archive.read(f"codecall/presets/{name}.toml") == (presets_folder() / f"{name}.toml").read_bytes()
        unpacked = tmp_path / "site"
        archive.extractall(unpacked)
    ours = {str(file.relative_to(REPOSITORY)) for file in (REPOSITORY / "codecall").rglob("*") if is_source(file)}
    assert ours <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "examples", "benchmarks"))]
    script = "import codecall.presets as o; assert o.resolve_preset().timeout_ms == 3500; print(o.presets_folder())"
    installed = subprocess.run(
        [sys.executable, "-c", script],
        cwd=unpacked,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert installed.stdout.strip() == str(unpacked / "codecall" / "presets")


def is_source(file: Path) -> bool:
    """Whether the file belongs into a wheel."""
    return file.is_file() and "__pycache__" not in file.parts and file.suffix != ".pyc"
