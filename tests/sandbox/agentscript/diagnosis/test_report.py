"""The failure report of a script that has ended, and how little time it takes."""

from __future__ import annotations

import json

import msgspec
import pytest

from codecall.presets import load_preset
from codecall.sandbox.agentscript.diagnosis.calls import MAX_ANSWER_CHARS, MAX_SITES, CallEntry, CallHistory
from codecall.sandbox.agentscript.diagnosis.flow import dataflow
from codecall.sandbox.agentscript.diagnosis.flow.dataflow import CHARS_PER_MS
from codecall.sandbox.agentscript.diagnosis.report import FailureReport, ScriptProgress, ThrownError
from codecall.sandbox.agentscript.instrument import FIRST_LINE, instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript
from codecall.sandbox.wire import PRESET_FIELDS, Answer, Limits
from tests.work import python_steps

MAX_PYTHON_STEPS = 5_000_000
"""Lines of Python for the worst of the scripts here, twice over: reading 16 KB takes most of them."""

PRESET = load_preset("secure")
LIMITS = Limits(**{name: getattr(PRESET, name) for name in PRESET_FIELDS})


def call_entry(name: str = "users", stack: str = "") -> CallEntry:
    return CallEntry(name, stack, wrapped=False)


def failure_report(script: str, history: CallHistory | None = None, room_ms: float = 1e9) -> FailureReport:
    program = instrument(script, validate_javascript(script, Rules(allow_regex=True)), max_iterations=10)
    return FailureReport(program, LIMITS, history or CallHistory(), room_ms)


def frame(line: int, column: int) -> str:
    """A frame of a stack in the script, on any line but the first."""
    return f"    at <anonymous> (<input>:{FIRST_LINE - 1 + line}:{column})\n"


SCRIPT = "const r = await callTool('users');\nreturn r.items.length"
READ = ThrownError("script", "TypeError", "cannot read property 'length' of undefined", frame(2, 8))


def test_a_script_is_parsed_again_only_when_there_is_time_for_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dataflow, "monotonic", lambda: 0.0)  # nor does a slow machine take the time that there is
    enough = len(SCRIPT) / CHARS_PER_MS
    assert (failure_report(SCRIPT, room_ms=enough).thrown_failure(READ).hint or "").startswith("`r.items` is undefined")
    failure = failure_report(SCRIPT, room_ms=enough * 0.9).thrown_failure(READ)
    assert (failure.hint or "").startswith("What stands before `.length` is undefined")
    assert (failure.line, failure.column) == (2, 8)


def test_an_answer_that_cannot_be_read_costs_no_more_than_the_hint():
    history = CallHistory()
    history.add_call(1, call_entry(stack=frame(1, 150)), "{}")
    history.add_answer(Answer(1, ok=True, payload="[" * 400_000))
    failure = failure_report("\n" + SCRIPT, history).thrown_failure(msgspec.structs.replace(READ, stack=frame(3, 8)))
    assert (failure.code, failure.message, failure.line) == ("EXECUTION_ERROR", READ.message, 3)
    assert failure.hint


def test_positions_are_those_of_the_script_alone():
    stack = "    at throw (<input>:12:3)\n    at f (<input>:99999:1)\n    at (evil (<input>:1:1)) (native)\n"
    failure = failure_report(SCRIPT).thrown_failure(msgspec.structs.replace(READ, stack=stack + frame(2, 9)))
    assert (failure.line, failure.column) == (2, 9)
    assert failure_report(SCRIPT).thrown_failure(msgspec.structs.replace(READ, stack=stack)).line is None


def test_the_history_keeps_the_last_answer_of_each_place():
    history = CallHistory()
    for number in range(1, 3 * MAX_SITES):
        history.add_call(number, call_entry(stack=f"place {number % (MAX_SITES + 4)}"), "{}")
        history.add_answer(Answer(number, ok=True, payload=str(number)))
    assert len(history.last_answers) == MAX_SITES
    assert [call.number for call in history.last_answers.values()] == list(range(2 * MAX_SITES, 3 * MAX_SITES))
    assert history.chars == sum(len(call.payload or "") for call in history.last_answers.values())
    assert history.open_calls == {}


def test_the_history_is_bounded_in_characters():
    history = CallHistory()
    for number in range(1, 9):
        history.add_call(number, call_entry(stack=f"place {number}"), "{}")
        history.add_answer(Answer(number, ok=True, payload="x" * (MAX_ANSWER_CHARS // 3)))
        assert history.chars <= MAX_ANSWER_CHARS
    assert len(history.last_answers) == 3
    history.add_call(9, call_entry(stack="place 8"), "{}")
    history.add_answer(Answer(9, ok=True, payload="x" * (MAX_ANSWER_CHARS + 1)))
    assert [call.number for call in history.last_answers.values()] == [6, 7]


def test_a_stack_is_read_up_to_a_number_of_frames():
    # What a script calls its functions stands in the stack: here something that looks like frames, of another's line.
    forged = "\n    at f (<input>:1:1)"
    many = failure_report(SCRIPT + "\n" * 30_000)
    error = msgspec.structs.replace(READ, stack=f"    at {forged * 40_000} (<input>:1:1)\n{frame(2, 8)}")
    assert python_steps(lambda: many.thrown_failure(error)) < MAX_PYTHON_STEPS
    assert many.thrown_failure(error).line is None
    few = failure_report(SCRIPT).thrown_failure(
        msgspec.structs.replace(READ, stack=f"    at {forged * 20}\n{frame(2, 8)}")
    )
    assert few.line == 2


def test_a_call_that_failed_stays_with_its_place():
    history = CallHistory()
    history.add_call(1, call_entry("gone", frame(2, 14)), "{}")
    history.add_answer(Answer(1, ok=False, payload='{"code": "X", "message": "no"}'))
    failure = failure_report("\nawait callTool('gone')", history).thrown_failure(
        ThrownError("tool", "ToolError", "no", "", call=1)
    )
    assert (failure.code, failure.call, failure.line) == ("TOOL", 1, 2)


HOSTILE = {
    "two names in circles": "let r, b;\n" + "r = b; b = r;\n" * 8,
    "assignments in circles": "let r, b, c;\n" + "r = b; b = c; c = r;\n" * 200,
    "a chain of calls": "const r = [1]" + ".map((x) => x)\n" * 2_000 + ";",
    "patterns": "const " + "{ a: " * 30 + "r" + " }" * 30 + " = await callTool('users');",
    "functions in functions": "const f = (x) => g(x); const g = (x) => f(x); const r = f(1);",
}


@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE)
def test_no_script_makes_its_hint_expensive(script: str):
    full_script = f"{script}\nreturn r.items.length"
    lines = full_script.count("\n") + 1
    history = CallHistory()
    history.add_call(1, call_entry(stack=frame(1, 1)), "{}")
    history.add_answer(Answer(1, ok=True, payload=json.dumps({f"{'k' * 90}{key}": [] for key in range(4_000)})))
    report = failure_report(full_script, history)
    failure = report.thrown_failure(msgspec.structs.replace(READ, stack=frame(lines, 8)))
    assert failure.hint
    assert report.limit_failure("DEADLOCK", ScriptProgress(1)).hint
    assert python_steps(lambda: report.limit_failure("DEADLOCK", ScriptProgress(1))) < MAX_PYTHON_STEPS
