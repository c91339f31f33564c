"""What a worker that has been taken over can do with a look ahead: end its own script, and learn nothing."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from codecall.envelopes import ExecutionResult
from codecall.sandbox.enclave import Enclave
from tests_security.wire.conftest import ReplaceWorker
from tests_security.wire.hostile import PLAIN

SCRIPT = "return await callTool('known', { id: 1 })"

TOOLS = [
    {
        "name": "known",
        "inputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    }
]

BAD = "planned(['known', '[1,{}]', 13])"
"""A first call with a plan that the server refuses."""

performed: list[str] = []


def tool(name: str, arguments: dict[str, Any]) -> object:
    """Notes that it ran."""
    performed.append(name)
    return arguments


async def run(program: str, replace_worker: ReplaceWorker, **settings: Any) -> ExecutionResult:
    """The result of SCRIPT in a worker that says what it likes."""
    performed.clear()
    replace_worker(program)
    async with Enclave("secure", timeout_ms=250, pool=PLAIN | {"startup_timeout_ms": 600}) as enclave:
        with anyio.fail_after(10):
            return await enclave.execute(SCRIPT, tool_handler=tool, tools=TOOLS, **settings)


@pytest.mark.parametrize(
    "then",
    [
        "done(value='1')",
        "done()",
        "failed('EXECUTION_ERROR', message='not so')",
        "failed('TIMEOUT')",
        "failed('TOOL', status='tool_error', call=1)",
        "done(value='[' * 100)",
    ],
)
async def test_the_server_tells_what_it_has_found_whatever_the_worker_says(
    replace_worker: ReplaceWorker, then: str
) -> None:
    result = await run(f"begin(); {BAD}; receive(); {then}", replace_worker)
    assert result.error is not None
    assert result.error.code == "INVALID_INPUT"
    assert "id: Field required" in result.error.message
    assert result.error.as_dict()["location"] == {"line": 1, "column": 14, "text": SCRIPT}
    assert result.value is None
    assert performed == []


@pytest.mark.parametrize("then", ["calls([1, 'known', '{}'])", "calls([1, 'known', '{\"id\":1}'])", "calls()"])
async def test_a_script_that_may_not_run_makes_no_calls(replace_worker: ReplaceWorker, then: str) -> None:
    result = await run(f"begin(); {BAD}; receive(); {then}", replace_worker)
    assert result.error is not None
    assert result.error.code == "MESSAGE_INVALID"
    assert performed == []


@pytest.mark.parametrize("end", ["value='1'", "failure={'status': 'runtime_error', 'code': 'EXECUTION_ERROR'}"])
async def test_a_plan_with_the_last_message_is_looked_at(replace_worker: ReplaceWorker, end: str) -> None:
    result = await run(f"begin(); done({end}, plan={{'sites': [['known', '[1,{{}}]', 13]]}})", replace_worker)
    assert result.error is not None
    assert result.error.code == "INVALID_INPUT"


async def test_a_limit_is_not_hidden_by_a_plan(replace_worker: ReplaceWorker) -> None:
    end = "failure={'status': 'runtime_error', 'code': 'STEP_LIMIT'}"
    result = await run(f"begin(); done({end}, plan={{'sites': [['known', '[1,{{}}]', 13]]}})", replace_worker)
    assert result.error is not None
    assert result.error.code == "STEP_LIMIT"


async def test_a_worker_that_waits_is_given_up(replace_worker: ReplaceWorker) -> None:
    result = await run(f"begin(); {BAD}; receive(); wait()", replace_worker)
    assert result.error is not None
    assert result.error.code == "WORKER_TIMEOUT"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("known", None),
        ("codecall:execute", None),
        ("unknown", "TOOL_NOT_FOUND"),
        ("", "TOOL_NOT_FOUND"),
        ("\\0", "TOOL_NOT_FOUND"),
    ],
)
async def test_only_a_plan_that_fits_lets_the_script_run(
    replace_worker: ReplaceWorker, name: str, code: str | None
) -> None:
    plan = f"begin(); planned(['{name}', '[1,{{\"id\":[31,1]}}]', 13]); receive(); done(value='1')"
    result = await run(plan, replace_worker)
    assert (result.error and result.error.code, performed) == (code, [] if code else ["known"])


async def test_no_plan_is_no_offence(replace_worker: ReplaceWorker) -> None:
    result = await run("begin(); calls([1, 'known', '{}']); receive(); done(value='1')", replace_worker)
    assert (result.value, performed) == (1, ["known"])


REPORT = {"findings": [], "calls": [], "loops": [], "computed": False, "parsed": True}


def report(**changes: Any) -> str:
    """The program of a worker that ends a dry run with this report, in which BIG stands for 100,000 characters."""
    return f"begin(); done(value={json.dumps({**REPORT, **changes})!r}.replace('BIG', 'x' * 100000))"


FOUND = ["VALIDATION_ERROR", "UnsafeSource", "no", 1, 1, None]

LIES: list[tuple[str, str]] = [
    ("no report", "begin(); done(value='1')"),
    ("no JSON", "begin(); done(value='{')"),
    ("nothing", "begin(); done()"),
    ("calls", "begin(); calls([1, 'known', '{\"id\":1}'])"),
    ("an unknown field", report(valid=True)),
    ("half of it", "begin(); done(value='{\"findings\":[]}')"),
    ("a code of the server", report(findings=[["INVALID_INPUT", None, "no", 1, 1, None]])),
    ("a kind that is none", report(findings=[["VALIDATION_ERROR", "Trust", "no", 1, 1, None]])),
    ("a refusal without a kind", report(findings=[["VALIDATION_ERROR", None, "no", 1, 1, None]])),
    ("a line behind the script", report(findings=[["SYNTAX_ERROR", None, "no", 1_000, 1, None]])),
    ("201 findings", report(findings=[FOUND] * 201)),
    ("1001 calls", report(calls=[["tool", "a", 0]] * 1_001)),
    ("a call behind the script", report(calls=[["tool", "a", 1_000]])),
    ("a kind of call that is none", report(calls=[["file", "a", 1]])),
    ("names longer than any script", report(calls=[["tool", "a" * 1_000, 0]] * 70)),
    ("a URI of 1025 characters", report(calls=[["resource", "a" * 1_025, 0]])),
    ("a loop of no kind", report(loops=[["goto", 0]])),
    ("a loop behind the script", report(loops=[["for", 1_000]])),
    ("more than the preset allows", report(findings=[[*FOUND[:2], "BIG", 1, 1, None]] * 11)),
    ("fewer than nothing", report(more_calls=-1)),
    ("calls with a plan", "begin(); planned()"),
]  # fmt: skip


@pytest.mark.parametrize("program", [program for _, program in LIES], ids=[title for title, _ in LIES])
async def test_a_dry_run_that_tells_what_cannot_be(replace_worker: ReplaceWorker, program: str) -> None:
    result = await run(program, replace_worker, dry_run=True)
    assert result.error is not None, result
    assert result.error.code == "MESSAGE_INVALID"
    assert performed == []


async def test_what_a_dry_run_tells_is_cleaned_and_bounded(replace_worker: ReplaceWorker) -> None:
    text = "\u202e/home/ann/.ssh/id_rsa BIG"
    findings = [["VALIDATION_ERROR", "UnsafeSource", text, 1, 1, text]] * 3
    result = await run(report(findings=findings), replace_worker, dry_run=True)
    answer = json.dumps(result.value)
    assert len(answer) < 30_000
    assert "/home/ann" not in answer
    assert "\\u202e" not in answer
    assert not result.value["valid"]  # type: ignore[index]


async def test_a_dry_run_may_fail_like_any_other(replace_worker: ReplaceWorker) -> None:
    result = await run("begin(); failed('TIMEOUT', status='timeout')", replace_worker, dry_run=True)
    assert result.error is not None
    assert result.error.code == "TIMEOUT"


async def test_names_are_looked_up_as_often_as_the_server_likes(replace_worker: ReplaceWorker) -> None:
    result = await run(report(calls=[["tool", f"t{n}", 0, ""] for n in range(1_000)]), replace_worker, dry_run=True)
    assert len(result.value["findings"]) == 100  # type: ignore[index]
