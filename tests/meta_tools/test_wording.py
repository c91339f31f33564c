"""The descriptions a model reads must be short and true under every preset."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import msgspec
import pytest
from fastmcp import Client, FastMCP
from key_value.aio.stores.memory import MemoryStore

from codecall import CodeCallPlugin
from codecall.presets import PRESET_NAMES, load_preset
from codecall.sandbox.agentscript.policy import RUNTIME_NAMES
from codecall.telemetry.tokens import estimate_characters, estimate_tokens

MAX_TOKENS = 1_210
"""What a model reads of all four: name, description and input schema of each, counted as everywhere else."""

OPTIONAL: dict[str, tuple[dict[str, Any], int]] = {
    "resuming a run": ({"resume": {"store": MemoryStore()}}, 85),
    "keeping no results": ({"results": False}, 0),
    "no direct calls": ({"direct_calls": False}, 0),
    "direct calls of some tools": ({"direct_calls": ["users_*"]}, 0),
    "reading values into types": ({"extract": True}, 40),
}
"""Options that change what is said, and the tokens that each may add."""


def descriptions(**options: Any) -> dict[str, str]:
    return {tool.name: tool.description or "" for tool in CodeCallPlugin.init(**options).meta_tools}


@pytest.mark.parametrize("preset", PRESET_NAMES)
@pytest.mark.parametrize("separator", [":", "_"])
def test_what_a_model_reads_first_is_short(preset: str, separator: str) -> None:
    tools = CodeCallPlugin.init(vm={"preset": preset}, tool_name_separator=separator).meta_tools
    assert estimate_tokens(estimate_characters(tools)) <= MAX_TOKENS
    as_json = [{"name": tool.name, "description": tool.description, "inputSchema": tool.parameters} for tool in tools]
    assert len(msgspec.json.encode(as_json)) / 4 == pytest.approx(estimate_tokens(estimate_characters(tools)), rel=0.02)


@pytest.mark.parametrize("chosen", [(name,) for name in OPTIONAL] + [("resuming a run", "keeping no results")])
def test_what_an_option_adds_is_bounded(chosen: tuple[str, ...]) -> None:
    options = {key: value for name in chosen for key, value in OPTIONAL[name][0].items()}
    more = sum(OPTIONAL[name][1] for name in chosen)
    for preset in PRESET_NAMES:
        tools = CodeCallPlugin.init(vm={"preset": preset}, **options).meta_tools
        assert estimate_tokens(estimate_characters(tools)) <= MAX_TOKENS + more
    plain = estimate_characters(CodeCallPlugin.init().meta_tools)
    assert estimate_tokens(estimate_characters(CodeCallPlugin.init(**options).meta_tools) - plain) <= more


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
    text = descriptions(vm={"preset": preset}, extract=True)["codecall:execute"]
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


def test_what_a_script_may_rely_on_is_said() -> None:
    """Each of these has cost a model a call that it need not have made."""
    text = descriptions()["codecall:execute"]
    for said in (
        "{throwOnError: false} gives {success, data | error: {code, message, toolName}}",
        "so do users_list(input), tools['any name'](input)",
        "values in order, or throws one Error that names all failures",
        "turns of a loop (not callbacks)",
        "steps (turns and callbacks)",
    ):
        assert said in text


async def test_what_is_said_of_scripts_is_true() -> None:
    server = FastMCP("crm")
    users = FastMCP("users")
    users.tool(lambda n=1: n, name="list")
    server.mount(users, namespace="users")
    server.tool(lambda n=1: n, name="orders:get")
    server.tool(lambda n=1: n / 0, name="users_fail")
    CodeCallPlugin.init(vm={"preset": "secure", "max_iterations": 10}, pool={"min_workers": 0}).install(server)
    script = """
    const failed = await users_fail({}, { throwOnError: false });
    const told = await __safe_parallel([() => users_fail({}), () => users.list({}), () => users_fail({})])
      .catch((error) => [error instanceof Error, error.message.split('\\n  [').length]);
    const values = await __safe_parallel([
      () => users.list({ n: 2 }), () => users_list({ n: 3 }), () => tools['users_list']({ n: 3 }),
      () => orders.get({ n: 4 }),
    ]);
    let turns = 0;
    Array.from({ length: 50 }).forEach(() => { turns += 1; });
    return { failed: [failed.success, Object.keys(failed.error).slice(0, 3)], told, values, turns };
    """
    async with Client(server) as client:
        answer = (await client.call_tool("codecall:execute", {"script": script})).structured_content
    assert answer is not None
    assert answer.get("result") == {
        "failed": [False, ["code", "message", "toolName"]],
        "told": [True, 3],
        "values": [2, 3, 3, 4],
        "turns": 50,
    }, answer


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
