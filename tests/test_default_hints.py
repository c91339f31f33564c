"""Every failure has a hint: its own, or the advice for its code."""

from __future__ import annotations

import pytest

from codecall.errors import CodeCallError, SelfReferenceError, ToolCallError, ToolTimeoutError, WorkerCrashedError
from codecall.errors.hints import DEFAULT_HINTS, MAX_HINT, add_default_hint
from codecall.sandbox.agentscript.diagnosis.report import LIMIT_MESSAGES
from tests.test_errors import CONTRACT


@pytest.mark.parametrize("code", CONTRACT)
def test_every_code_has_a_way_out(code: str):
    own = {SelfReferenceError.code} | {code for code, stop in LIMIT_MESSAGES.items() if stop.failure.hint}
    assert code in DEFAULT_HINTS or code in own


def test_no_advice_is_for_nothing():
    assert DEFAULT_HINTS.keys() <= CONTRACT.keys()
    assert all(len(hint) < MAX_HINT / 2 for hint in DEFAULT_HINTS.values())


def test_what_is_nearer_comes_first():
    error = ToolTimeoutError("m", tool_name="t", hint="Ask for one page.")
    add_default_hint(error)
    assert error.hint == "Ask for one page."
    add_default_hint(error, "1 tool call had completed and is not undone: a.")
    assert error.hint == "Ask for one page. 1 tool call had completed and is not undone: a."


def test_a_code_of_a_tools_own_is_a_failed_call():
    error = ToolCallError("m", tool_name="t", code="MINE")
    add_default_hint(error)
    assert error.hint == DEFAULT_HINTS["TOOL_EXECUTION_ERROR"]


def test_an_error_without_advice_stays_without():
    error = CodeCallError("m", code="X")
    add_default_hint(error)
    assert error.hint is None
    add_default_hint(error, "calls")
    assert error.hint == "calls"


@pytest.mark.parametrize("calls", ["", "c" * 300])
def test_a_hint_is_bounded_and_the_calls_are_kept(calls: str):
    error = WorkerCrashedError("m", hint="h" * 2_000)
    add_default_hint(error, calls)
    assert error.hint is not None
    assert len(error.hint) == MAX_HINT
    assert error.hint.endswith(calls or "…")
    once = error.hint
    add_default_hint(error)
    assert error.hint == once
