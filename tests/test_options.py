"""The options of the plugin: both spellings, short forms, and refusals that name the field."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from types import MappingProxyType

import pytest
from key_value.aio.stores.memory import MemoryStore
from pydantic.alias_generators import to_camel

from codecall import options as option_types
from codecall.approvals.options import ApprovalOptions, ApprovalRule, FlowRule
from codecall.errors import OptionsError
from codecall.extraction.options import ExtractOptions
from codecall.meta_tools.starlark.options import ToolFilesOptions
from codecall.option_base import Options
from codecall.options import (
    AuditOptions,
    CodeModeOptions,
    DirectCalls,
    ObservedOutputOptions,
    PluginOptions,
    PoolOptions,
    ProgressOptions,
    ResultsOptions,
    ResumeOptions,
    SanitizationOptions,
    SearchOptions,
    ShutdownOptions,
    StarlarkOptions,
)
from codecall.plugin import CodeCallPlugin
from codecall.presets import PRESET_ENVIRONMENT_VARIABLE, Preset, load_preset, presets_folder


@pytest.fixture(autouse=True)
def no_preset_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests say themselves which preset they mean."""
    monkeypatch.delenv(PRESET_ENVIRONMENT_VARIABLE, raising=False)


def refusal(**options: object) -> str:
    """The message with which the options are refused."""
    with pytest.raises(OptionsError) as refused:
        PluginOptions.build(**options)
    assert isinstance(refused.value, ValueError)
    assert refused.value.code == "INVALID_OPTIONS"
    return refused.value.message


def test_defaults():
    options = PluginOptions.build()
    assert options.mode == "codecall_only"
    assert options.app_ids is None
    assert options.include_tools is None
    assert options.direct_calls == DirectCalls(enabled=True, allowed_tools=None)
    assert options.tool_name_separator == "auto"
    assert options.top_k == 5
    assert options.mark_errors is False
    assert options.inline_result_bytes == 65_536
    assert options.preset == load_preset("secure")
    assert options.preset_name == "secure"
    assert options.embedding == SearchOptions(strategy="tfidf", similarity_threshold=0.3)
    assert options.observed_output == ObservedOutputOptions(enabled=True, per_caller=False, store=None)
    assert options.sanitization == SanitizationOptions(remove_stack_traces=True, remove_file_paths=True)
    assert options.pool == PoolOptions()
    assert options.audit == AuditOptions(sinks=None, include_arguments=False, include_results=False)
    assert options.resume is None
    assert options.results == ResultsOptions(enabled=True, store=None)
    assert options.progress == ProgressOptions(enabled=True, heartbeat_s=10)
    assert options.shutdown == ShutdownOptions(on_sigterm=False)
    assert options.tasks is False


STORE = MemoryStore()

GIVEN: dict[str, tuple[object, object]] = {
    "mode": ("metadata_driven", "metadata_driven"),
    "app_ids": (["crm"], ("crm",)),
    "include_tools": (callable, callable),
    "direct_calls": (False, DirectCalls(enabled=False)),
    "tool_name_separator": ("_", "_"),
    "top_k": (50, 50),
    "inline_result_bytes": (8192, 8192),
    "mark_errors": (True, True),
    "embedding": ({"similarityThreshold": 0.5}, SearchOptions(similarity_threshold=0.5)),
    "observed_output": ({"perCaller": True}, ObservedOutputOptions(per_caller=True)),
    "sanitization": ({"removeFilePaths": False}, SanitizationOptions(remove_file_paths=False)),
    "pool": ({"maxWorkers": 2}, PoolOptions(max_workers=2)),
    "audit": ({"includeArguments": True}, AuditOptions(include_arguments=True)),
    "resume": ({"store": STORE, "ttlS": 60}, ResumeOptions(store=STORE, ttl_s=60)),
    "results": ({"maxCallerBytes": 4096}, ResultsOptions(max_caller_bytes=4096)),
    "approvals": ("writes", ApprovalOptions(rules=(ApprovalRule(action="ask", read_only=False),))),
    "flows": (
        [{"from": "mail:*", "to": ["http:*"], "action": "ask"}],
        (FlowRule.model_validate({"from": ("mail:*",), "to": ("http:*",), "action": "ask"}),),
    ),
    "extract": ({"maxRequests": 3}, ExtractOptions(max_requests=3)),
    "progress": ({"heartbeatS": 2.5}, ProgressOptions(heartbeat_s=2.5)),
    "shutdown": ({"graceS": 0.0}, ShutdownOptions(grace_s=0)),
    "composite_tools": (["workflows"], ("workflows",)),
    "telemetry": (False, False),
    "tasks": (True, True),
    "starlark": ({"codeMode": {"stepLimit": 5}}, StarlarkOptions(code_mode=CodeModeOptions(step_limit=5))),
    "tool_files": ({"bindingLevel": "tool"}, ToolFilesOptions(binding_level="tool")),
}


def test_the_table_above_leaves_no_option_out():
    assert {*GIVEN, "vm"} == set(PluginOptions.names())


@pytest.mark.parametrize("name", GIVEN)
def test_every_option_is_accepted_in_both_spellings(name: str):
    value, expected = GIVEN[name]
    assert getattr(PluginOptions.build(**{name: value}), name) == expected
    assert getattr(PluginOptions.build(**{to_camel(name): value}), name) == expected


@pytest.mark.parametrize("model", [SearchOptions, SanitizationOptions, PoolOptions, DirectCalls, ObservedOutputOptions])
def test_nested_options_accept_both_spellings(model: type[Options]):
    defaults = model()
    for name in model.names():
        value = getattr(defaults, name)
        assert model.read({name: value}, where="x") == defaults
        assert model.read({to_camel(name): value}, where="x") == defaults


@pytest.mark.parametrize("model", [SearchOptions, SanitizationOptions, PoolOptions, DirectCalls, ObservedOutputOptions])
def test_options_are_frozen(model: type[Options]):
    with pytest.raises(ValueError, match="frozen"):
        setattr(model(), model.names()[0], None)


def test_the_readable_form_names_what_is_set():
    assert repr(SearchOptions(strategy="hybrid")).startswith("SearchOptions(strategy='hybrid', ")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, DirectCalls()),
        (["users:*", "orders:get"], DirectCalls(allowed_tools=("users:*", "orders:get"))),
        (("users:*",), DirectCalls(allowed_tools=("users:*",))),
        ([], DirectCalls(allowed_tools=())),
        ({"enabled": False}, DirectCalls(enabled=False)),
        ({"allowedTools": ["a"]}, DirectCalls(allowed_tools=("a",))),
        (DirectCalls(enabled=False), DirectCalls(enabled=False)),
    ],
)
def test_direct_calls_has_short_forms(value: object, expected: DirectCalls):
    assert PluginOptions.build(direct_calls=value).direct_calls == expected
    assert PluginOptions.build(directCalls=value).direct_calls == expected


def test_vm_takes_a_preset_and_overrides(tmp_path: Path):
    options = PluginOptions.build(vm={"preset": "balanced", "timeoutMs": 8000, "max_tool_calls": 7})
    assert options.preset == load_preset("balanced").model_copy(update={"timeout_ms": 8000, "max_tool_calls": 7})
    assert options.preset_name == "balanced"
    file = presets_folder() / "locked_down.toml"
    for path in (file, str(file)):
        by_path = PluginOptions.build(vm={"preset": path})
        assert by_path.preset == load_preset("locked_down")
        assert by_path.preset_name == os.fspath(path)


EMPTY: list[object] = [None, {}, MappingProxyType({}), {"preset": None}]


@pytest.mark.parametrize("vm", EMPTY)
def test_vm_may_be_empty(vm: object):
    assert PluginOptions.build(vm=vm).preset == load_preset("secure")


def test_a_misspelt_preset_is_told():
    with pytest.raises(OptionsError, match=r"vm.presset: unknown option \(did you mean preset\?\)"):
        PluginOptions.build(vm={"presset": "balanced"})


def test_vm_is_left_as_it_was():
    vm = {"preset": "balanced", "timeout_ms": 8000}
    PluginOptions.build(vm=vm)
    assert vm == {"preset": "balanced", "timeout_ms": 8000}


def test_the_environment_names_the_preset(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(PRESET_ENVIRONMENT_VARIABLE, "locked_down")
    options = PluginOptions.build()
    assert options.preset == load_preset("locked_down")
    assert options.preset_name == "locked_down"
    assert PluginOptions.build(vm={"preset": "balanced"}).preset_name == "balanced"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topk": 5}, "topk: unknown option; known here: vm, mode, app_ids, "),
        ({"top_k": "5"}, "top_k: a whole number is needed (got '5'): write it without quotes"),
        ({"top_k": 0}, "top_k: "),
        ({"topK": 51}, "topK: "),
        ({"top_k": 5, "topK": 5}, "top_k: given twice"),
        ({"top_k": True}, "top_k: "),
        ({"mode": "all"}, "mode: "),
        ({"mark_errors": "yes"}, "mark_errors: "),
        ({"include_tools": ["a"]}, "include_tools: "),
        ({"app_ids": "crm"}, "app_ids: "),
        ({"app_ids": ["crm", 3]}, "app_ids.1: "),
        ({"tool_name_separator": "-"}, "tool_name_separator: "),
        ({"direct_calls": "users:*"}, "direct_calls: "),
        ({"direct_calls": 3}, "direct_calls: "),
        ({"direct_calls": ["a", 3]}, "direct_calls.allowed_tools.1: "),
        ({"direct_calls": {"enabled": "no"}}, "direct_calls.enabled: "),
        ({"embedding": "tfidf"}, "embedding: "),
        ({"embedding": {"strategy": "magic"}}, "embedding.strategy: "),
        ({"embedding": {"similarity_threshold": 1.5}}, "embedding.similarity"),
        ({"embedding": {"backend": "openvino"}}, "embedding.backend: "),
        ({"embedding": {"threads": 0}}, "embedding.threads: "),
        ({"embedding": {"model_name": ""}}, "embedding.model"),
        ({"embedding": {"cache_dir": True}}, "embedding.cache_dir: "),
        ({"starlark": {"stepLimit": 3}}, "starlark.stepLimit: unknown option; known here: code_mode, optimizer, "),
        ({"embedding": {"download": "yes"}}, "embedding.download: "),
        ({"embedding": {"model": "x"}}, "embedding.model: unknown option; known here: strategy, similarity_threshold"),
        ({"sanitization": {"remove_paths": True}}, "sanitization.remove_paths: unknown option; known here: remove_"),
        ({"pool": {"max_workers": 0}}, "pool.max"),
        ({"pool": {"min_workers": 9, "max_workers": 2}}, "pool: "),
        ({"preset": "secure"}, "preset: set it as vm="),
        ({"preset_name": "secure"}, "preset_name: set it as vm="),
        ({"presetName": "secure"}, "presetName: set it as vm="),
        ({"vm": "secure"}, "vm: a mapping is needed, got str"),
        ({"vm": [("preset", "secure")]}, "vm: a mapping is needed, got list"),
        ({"vm": {"preset": 3}}, "vm.preset: a name or a path is needed, got int"),
        ({"vm": {"preset": "lax"}}, "vm.preset: unknown preset 'lax'; known: locked_down, "),
        ({"vm": {"preset": "secure", "timeout": 3}}, "vm.timeout: unknown option; known here: timeout_ms, "),
        ({"vm": {3: 3}}, "vm.3: "),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, object], message: str):
    assert refusal(**options).startswith(message)


def test_an_option_of_a_group_is_sent_to_it():
    assert refusal(starlark={"stepLimit": 3}).endswith("(did you mean code_mode.step_limit?)")
    assert refusal(star_lark=True).endswith("(did you mean starlark?)")


def test_all_wrong_options_are_named_at_once():
    message = refusal(mode="all", top_k=0, speed=1)
    assert all(part in message for part in ("mode: ", "top_k: ", "speed: unknown option"))


def test_a_long_value_is_shown_in_short():
    assert len(refusal(mode="x" * 100_000)) < 300


@pytest.mark.parametrize("place", ["~/vectors", Path("/var/cache/vectors"), False, None])
def test_the_place_of_the_vectors(place: object):
    assert PluginOptions.build(embedding={"cacheDir": place}).embedding.cache_dir == place


PARAMETERS = {
    name: parameter
    for name, parameter in inspect.signature(CodeCallPlugin.init).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
}


def test_the_signature_of_init_names_every_option():
    assert tuple(PARAMETERS) == PluginOptions.names()


def test_the_keywords_that_others_pass_on_are_those_of_init():
    annotations = {name: parameter.annotation for name, parameter in PARAMETERS.items() if name != "vm"}
    passed_on = {name: each.__forward_arg__ for name, each in option_types.PluginKeywords.__annotations__.items()}
    assert passed_on == annotations


@pytest.mark.parametrize("name", [name for name in PluginOptions.names() if name != "vm"])
def test_a_default_in_the_signature_of_init_is_that_of_the_model(name: str):
    default = PARAMETERS[name].default
    field = PluginOptions.model_fields[name].default
    if default is None and isinstance(field, Options):  # a group: all its defaults
        assert field == type(field)()
    else:
        assert getattr(PluginOptions.build(**{name: default}), name) == field


@pytest.mark.parametrize("name", PluginOptions.names())
def test_the_docstring_of_init_says_what_each_option_is(name: str):
    documentation = inspect.getdoc(CodeCallPlugin.init) or ""
    assert re.search(rf"^    {name}: \S", documentation, re.MULTILINE)


def test_options_of_init_may_be_given_in_either_spelling():
    assert CodeCallPlugin.init(toolNameSeparator="_", top_k=7).options.tool_name_separator == "_"
    assert CodeCallPlugin.init(directCalls=False).options.direct_calls.enabled is False
    with pytest.raises(OptionsError, match="did you mean top_k"):
        CodeCallPlugin.init(topk=7)


@pytest.mark.parametrize(
    ("keys", "model"),
    [
        (option_types.VmOptions, Preset),
        (option_types.DirectCallsDict, DirectCalls),
        (option_types.SearchDict, SearchOptions),
        (option_types.ObservedOutputDict, ObservedOutputOptions),
        (option_types.SanitizationDict, SanitizationOptions),
        (option_types.PoolDict, PoolOptions),
        (option_types.AuditDict, AuditOptions),
        (option_types.ResumeDict, ResumeOptions),
        (option_types.ResultsDict, ResultsOptions),
        (option_types.ProgressDict, ProgressOptions),
        (option_types.ShutdownDict, ShutdownOptions),
    ],
)
def test_the_keys_that_editors_complete_are_the_options_of_the_group(keys: type, model: type[Options]):
    known = {name for name in keys.__annotations__ if name != "preset" or model is not Preset}
    assert known == set(model.names())
