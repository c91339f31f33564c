"""The descriptions a model reads must be short and true under every preset."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest

from codecall import CodeCallPlugin
from codecall.presets import PRESET_NAMES, load_preset
from codecall.sandbox.agentscript.policy import RUNTIME_NAMES

MAX_CHARACTERS = 350 * 4
"""350 tokens at four characters each, which is what English and code come to."""


def descriptions(**options: Any) -> dict[str, str]:
    return {tool.name: tool.description or "" for tool in CodeCallPlugin.init(**options).meta_tools}


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_descriptions_are_short(preset: str) -> None:
    for name, text in descriptions(vm={"preset": preset}).items():
        assert 0 < len(text) <= MAX_CHARACTERS, name


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_the_limits_described_are_those_in_force(preset: str) -> None:
    text = descriptions(vm={"preset": preset})["codecall:execute"]
    limits = load_preset(preset)
    for limit in (
        f"{limits.timeout_ms / 1000:g} s of script time",
        f"{limits.max_duration_ms / 1000:g} s in all",
        f"{limits.tool_call_timeout_ms / 1000:g} s a tool call",
        f"{limits.max_tool_calls:,} tool calls",
        f"{limits.max_iterations:,} turns of a loop",
        f"{limits.max_steps:,} steps",
        "largeResult {handle, preview, shape} if over 64 KiB",
    ):
        assert limit in text
    mib = limits.max_result_bytes / 1024 / 1024
    unkept = descriptions(vm={"preset": preset}, results=False)
    assert (f"result {mib:g} MiB" if mib >= 1 else f"result {limits.max_result_bytes // 1024} KiB") in unkept[
        "codecall:execute"
    ]
    assert "largeResult" not in "".join(unkept.values())


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_every_name_of_the_runtime_is_described(preset: str) -> None:
    text = descriptions(vm={"preset": preset})["codecall:execute"]
    for name in RUNTIME_NAMES - ({"console"} if not load_preset(preset).allow_console else set()):
        assert name in text, name


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_the_language_described_is_the_one_allowed(preset: str) -> None:
    limits = load_preset(preset)
    text = descriptions(vm={"preset": preset})["codecall:execute"]
    allowed, refused = text.split("Not available:")
    refused = refused.split("Limits:")[0]
    assert ("console" in allowed, "console" in refused) == (limits.allow_console, not limits.allow_console)
    assert ("RegExp" in allowed, "regular expressions" in refused) == (limits.allow_regex, not limits.allow_regex)
    assert ("while (" in refused) is not limits.allow_loops
    assert ("Date.now" in refused) is not limits.allow_clock


def test_overridden_limits_are_described() -> None:
    text = descriptions(vm={"preset": "secure", "timeout_ms": 1_250, "max_result_bytes": 1_000})["codecall:execute"]
    assert "1.25 s of script time" in text
    assert "if over 1,000 bytes" in text
    invoke = descriptions(inline_result_bytes=2_000)["codecall:invoke"]
    assert "A result over 2,000 bytes is kept: largeResult {handle, preview, shape}" in invoke


def test_tools_are_named_as_they_are_advertised() -> None:
    texts = descriptions(tool_name_separator="_")
    assert set(texts) == {"codecall_search", "codecall_describe", "codecall_invoke", "codecall_execute"}
    assert not any(re.search("codecall:", text) for text in texts.values())


def test_no_description_names_a_tool_that_is_switched_off() -> None:
    texts = descriptions(direct_calls=False)
    assert set(texts) == {"codecall:search", "codecall:describe", "codecall:execute"}
    assert not any("invoke" in text for text in texts.values())


def test_hints_are_honest_and_schemas_are_schemas() -> None:
    hints: dict[str, tuple[Any, ...]] = {}
    for tool in CodeCallPlugin.init().meta_tools:
        declared = tool.annotations
        assert declared is not None
        assert tool.title
        assert tool.output_schema is not None
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.output_schema["type"] == "object"
        hints[tool.name] = (
            declared.read_only_hint,
            declared.destructive_hint,
            declared.idempotent_hint,
            declared.open_world_hint,
        )
    assert hints == {
        "codecall:search": (True, False, True, False),
        "codecall:describe": (True, False, True, False),
        "codecall:invoke": (False, True, False, True),
        "codecall:execute": (False, True, False, True),
    }


def test_defaults_in_the_schema_are_those_of_the_plugin() -> None:
    plugin = CodeCallPlugin.init(top_k=9, embedding={"similarity_threshold": 0.6})
    properties = next(tool for tool in plugin.meta_tools if tool.name == "codecall:search").parameters["properties"]
    assert properties["topK"]["default"] == 9
    assert properties["minScore"]["default"] == 0.6
