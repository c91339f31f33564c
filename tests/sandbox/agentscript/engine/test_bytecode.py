"""The runtime loaded as bytecode, with what the policy deletes written out, is the runtime compiled from its text."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import _quickjs as quickjs  # pyright: ignore[reportMissingTypeStubs]
import msgspec
import pytest

from codecall.presets import PRESET_NAMES, load_preset
from codecall.sandbox import wire
from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.engine import bytecode, realm
from codecall.sandbox.agentscript.engine.prelude import LOCALE, PRELUDE, REFERENCES, runtime_text
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import ValidatedScript, validate_script
from codecall.sandbox.agentscript.validator.names import no_host
from codecall.sandbox.enclave import LimitsCache
from codecall.testing import Failure, Program, parse_programs

REPOSITORY = Path(__file__).parents[4]
FILES = sorted(
    file
    for folder in ("tests_security/honest", "tests_security/realm", "tests_security/published")
    for file in (REPOSITORY / folder).glob("*.script.js")
    if file.stem != "limits.script"  # those need a watchdog
)
TURNS = 50
"""Answers to calls that one script gets at most."""


def limits_of(preset: str) -> wire.Limits:
    return LimitsCache(0).limits(load_preset(preset))


def answer(call: wire.Call) -> wire.Answer:
    """An answer that shows what was called."""
    return wire.Answer(call.call, ok=call.name != "fail", payload=json.dumps({"message": call.name, "code": "X"}))


def is_endless(program: Program) -> bool:
    """Whether only the clock ends the program."""
    return isinstance(program.outcome, Failure) and program.outcome.code == "TIMEOUT"


def judged(script: str, limits: wire.Limits) -> ValidatedScript | None:
    """The script as it may run, if it may."""
    try:
        return validate_script(script, Rules.from_limits(limits))
    except InvalidScriptError:
        return None


def outcome(script: ValidatedScript | None, limits: wire.Limits) -> object:
    """How the script ends, with all that the host sees of it; None for one that may not run."""
    if script is None:
        return None
    text, checked = script
    looks = itertools.count()
    engine = realm.Realm(limits, no_host, lambda: float(next(looks)))  # each look at the clock takes a millisecond
    program = instrument(text, checked, max_iterations=limits.max_iterations)
    engine.start(program, context='{"a": 1}', namespaces=checked.namespaces)
    calls: list[object] = []
    for _ in range(TURNS):
        if not (engine.pending_calls and engine.outcome is None):
            break
        taken = engine.drain_calls(wire.CALLS_BUDGET)
        calls += [(call.name, call.input, call.line, call.column) for call in taken]
        engine.resume([answer(call) for call in taken])
    ended, steps = engine.outcome, engine.count_steps()
    engine.close()
    if ended is not None and ended.failure is not None and ended.failure.code == "WORKER_MEMORY_EXCEEDED":
        # Texts of the runtime take room of their own, so that the heap is full some steps sooner.
        return ended.failure.code, ended.failure.line, calls, engine.console.lines
    return ended, calls, engine.console.lines, steps


def from_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every engine compile the texts, and apply the tables of the policy."""
    monkeypatch.setattr(bytecode, "_library", lambda: None)
    monkeypatch.setattr(realm, "_find_removals", lambda _text: "null")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_scripts_end_alike(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = limits_of("experimental" if "published" in file.parts else "secure")
    # Programs without an end show no more at the end of larger limits.
    limits = msgspec.structs.replace(limits, timeout_ms=600, max_steps=20_000, memory_mb=16)
    soon = msgspec.structs.replace(limits, timeout_ms=100)
    # Random numbers and the time are not alike in any two engines.
    programs = [
        (judged(program.source, limits), soon if is_endless(program) else limits)
        for program in parse_programs(file.read_text(encoding="utf-8"), file.name)
        if not any(word in program.source for word in ("random", "Date", "now"))
    ]
    loaded = [outcome(*program) for program in programs]
    from_source(monkeypatch)
    assert [outcome(*program) for program in programs] == loaded
    assert any(loaded)


def test_bytecode_is_used_where_the_engine_is_as_expected() -> None:
    assert bytecode._library() is not None
    engine: Any = quickjs.Context()
    assert bytecode.load(engine, "(a) => a + 1")(41) == 42
    assert engine.eval("typeof $loaded") == "undefined"


def test_text_that_throws_throws_and_leaves_nothing() -> None:
    engine: Any = quickjs.Context()
    with pytest.raises(quickjs.JSException, match="not here"):
        bytecode.load(engine, "(() => { throw new Error('not here') })()")
    with pytest.raises(quickjs.JSException, match="SyntaxError"):
        bytecode.load(engine, "(")
    assert engine.eval("typeof $loaded") == "undefined"


def test_an_engine_without_memory_says_so() -> None:
    engine: Any = quickjs.Context()
    engine.set_memory_limit(60_000)
    with pytest.raises(quickjs.JSException):
        bytecode.load(engine, PRELUDE)


@pytest.mark.parametrize("text", [LOCALE, REFERENCES], ids=["locale", "references"])
def test_an_engine_of_another_kind_compiles_the_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "_library", lambda: None)
    engine: Any = quickjs.Context()
    assert callable(bytecode.load(engine, text))
    bytecode.defer_collection(engine)


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_what_is_deleted_is_checked_against_the_tables(preset: str) -> None:
    limits = limits_of(preset)

    def forgetful(text: str) -> str:
        """What an engine deletes, but for the first name."""
        found = json.loads(realm._find_removals(text))
        found["world"] = found["world"][1:]
        return json.dumps(found)

    with pytest.raises(quickjs.JSException, match="kept"):
        runtime_text(limits, "", forgetful)


def test_text_of_scripts_is_never_loaded() -> None:
    """Only three texts of CodeCall's own get to the loader, however many scripts run."""
    bytecode._compiled.cache_clear()
    limits = limits_of("secure")
    for number in range(5):
        script = f"return [({number}).toLocaleString(), await callTool('a', {{}}, {{ reference: false }})]"
        outcome(judged(script, limits), limits)
    assert bytecode._compiled.cache_info().currsize == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_TAG_EXCEPTION", 5),
        ("_TAG_EXCEPTION", 7),
        ("_STRIP_SOURCE", 0),
        ("_COMPILE_ONLY", 0),
        ("_WRITE_BYTECODE", 0),
        ("_READ_BYTECODE", 0),
    ],
)
def test_bytecode_is_not_used_where_a_constant_means_something_else(
    name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bytecode._library.__wrapped__() is not None
    monkeypatch.setattr(bytecode, name, value)
    assert bytecode._library.__wrapped__() is None
