"""Whatever a worker that has been taken over says: the right code, soon, and the worker gone; the next script runs."""

from __future__ import annotations

import os
from typing import Any

import anyio
import pytest

from codecall.envelopes import ExecutionResult
from codecall.errors import WorkerError
from codecall.errors.hints import MAX_HINT
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host import pipe, preflight
from tests.loop_turns import LongestTurn, longest_turn
from tests_security.wire.conftest import ReplaceWorker
from tests_security.wire.hostile import PLAIN, WELL_BEHAVED
from tests_security.wire.violations import VIOLATIONS, Violation

SCRIPT = "return 1"

STATUSES = {"SYNTAX_ERROR": "syntax_error", "TIMEOUT": "timeout", "WORKER_TIMEOUT": "timeout"}

MOST_WORK = 60
"""Work of one turn of the event loop, see `LongestTurn`: some 0.3 seconds."""


PATIENT: dict[str, Any] = {"timeout_ms": 3_000, "pool": PLAIN | {"startup_timeout_ms": 5_000}}


def has_ended(pid: int) -> bool:
    """Whether no such process is left, not even as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def tool(name: str, arguments: dict[str, Any]) -> object:
    """`big` gives 100 kB, more than an unread pipe takes after a few; everything else 1."""
    return "x" * 100_000 if name == "big" else 1


async def run_attack(
    program: str, replace_worker: ReplaceWorker, *, follows: bool = True, **options: Any
) -> tuple[ExecutionResult, LongestTurn]:
    """The result of a script given to a worker that runs `program`; nothing of which is left behind.

    Where no script `follows`, the pool has no worker that broke the protocol to give to one.
    """
    replace_worker(program)
    limits = {"timeout_ms": 250, "pool": PLAIN | {"startup_timeout_ms": 600}} | options
    async with Enclave("secure", **limits) as enclave:
        with anyio.fail_after(60), longest_turn() as turn:
            # The context fills more than a pipe's buffer, which shows who does not read.
            result = await enclave.execute(SCRIPT, tool_handler=tool, context={"filling": "x" * 300_000})
        if broken(result):
            assert not enclave.pool.pids()
        replace_worker(WELL_BEHAVED)
        if follows:
            after = await enclave.execute(SCRIPT)
            if not broken(result):
                # It has not been found out, so that it has got the next script too.
                after = await enclave.execute(SCRIPT)
            assert after.value == 1, after
    assert replace_worker.started
    assert all(has_ended(pid) for pid in replace_worker.started)
    return result, turn


def broken(result: ExecutionResult) -> bool:
    """Whether the worker was found to have broken the protocol."""
    return isinstance(result.error, WorkerError) and result.error.code != "WORKER_MEMORY_EXCEEDED"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "UNREAD_MS", 200)
    monkeypatch.setattr(preflight, "MAX_QUESTIONS", 500)


def patience(violation: Violation, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Where it is not about time, a slow machine has some."""
    if violation.code in ("TIMEOUT", "WORKER_TIMEOUT", "WORKER_STARTUP_FAILED"):
        return {}
    monkeypatch.setattr(pipe, "UNREAD_MS", 20_000)
    return PATIENT


@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda violation: violation.title)
async def test_a_worker_that_has_been_taken_over(
    replace_worker: ReplaceWorker, violation: Violation, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = patience(violation, monkeypatch)
    result, turn = await run_attack(violation.program, replace_worker, follows=False, **patient)
    assert result.error is not None, result
    assert result.error.code == violation.code, result
    status = STATUSES.get(result.error.code, "runtime_error")
    assert result.status == status
    assert result.logs == ()
    assert len(str(result.error.as_dict())) < 40_000
    assert turn.work < MOST_WORK


FIRST_OF_CODE = {violation.code: violation for violation in reversed(VIOLATIONS)}
"""For each code the first violation that ends in it."""


@pytest.mark.parametrize("violation", FIRST_OF_CODE.values(), ids=FIRST_OF_CODE)
async def test_the_next_script_runs(
    replace_worker: ReplaceWorker, violation: Violation, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = await run_attack(violation.program, replace_worker, **patience(violation, monkeypatch))
    assert result.error is not None, result
    assert result.error.code == violation.code, result


def test_titles_are_unique() -> None:
    assert len({violation.title for violation in VIOLATIONS}) == len(VIOLATIONS)
    assert len({violation.program for violation in VIOLATIONS}) == len(VIOLATIONS)


async def test_a_flood_on_stderr_is_nobodys_business(replace_worker: ReplaceWorker) -> None:
    flood = (
        "begin()\nfor i in range(300): os.write(2, b'x' * 65536); os.write(1, b'x' * 65536)\ndone(value='1'); wait()"
    )
    result, _ = await run_attack(flood, replace_worker)
    assert result.value == 1


async def test_what_was_said_before_the_flood_survives_it(replace_worker: ReplaceWorker) -> None:
    result, _ = await run_attack(
        "begin(); calls([1, 'a', '{}'], logs=['kept']); receive(); done(value='1', logs=['x'] * 100)", replace_worker
    )
    assert result.error is not None
    assert result.error.code == "MESSAGE_FLOOD"
    assert result.logs == ("kept",)


async def test_long_texts_are_cut_with_a_mark(replace_worker: ReplaceWorker) -> None:
    program = "begin(); failed('EXECUTION_ERROR', message='m ' * 50000, name='N' * 900, hint='h' * 100000)"
    error = (await run_attack(program, replace_worker))[0].error
    assert error is not None
    body = error.as_dict()
    assert "truncated" in str(body["message"])
    assert "truncated 700 characters" in str(body["name"])
    assert str(body["hint"]).endswith("h…")
    assert len(str(body["hint"])) <= MAX_HINT + 1


async def test_warnings_are_cut_with_a_mark(replace_worker: ReplaceWorker) -> None:
    result, _ = await run_attack("begin(); done(value='1', warnings=['w'] * 1200)", replace_worker)
    assert len(result.warnings) == 51
    assert result.warnings[-1] == "1150 more warnings were left out"


async def test_the_time_it_reports_is_not_more_than_there_was(replace_worker: ReplaceWorker) -> None:
    result, _ = await run_attack("begin(); done(value='1', script_ms=9e9)", replace_worker)
    assert result.value == 1
    assert result.stats.script_ms <= result.stats.duration_ms


async def test_fields_said_twice_count_once(replace_worker: ReplaceWorker) -> None:
    program = (
        "begin(); b = pack(message('done', value='1'))\n"
        "more = pack('logs') + pack(['x'] * 90) + pack('logs') + pack(['y'] * 90)\n"
        "s.sendall(frame(bytes([b[0] + 2]) + b[1:] + more)); wait()"
    )
    result, _ = await run_attack(program, replace_worker)
    assert result.value == 1
    assert result.logs == ("y",) * 90


async def test_speech_after_the_end_costs_a_worker_its_place(replace_worker: ReplaceWorker) -> None:
    replace_worker("ready()\nwhile True: receive(); f = frame(pack(message('done', value='1'))); s.sendall(f + f)")
    async with Enclave("secure", pool=PLAIN) as enclave:
        pids: list[int] = []
        for _ in range(3):
            result = await enclave.execute(SCRIPT)
            assert result.value == 1
            pids += enclave.pool.pids()
    assert len(pids) == len(set(pids))


async def test_the_turns_of_a_slow_worker_add_up(replace_worker: ReplaceWorker) -> None:
    """It claims to have used no time at all."""
    program = "begin()\nfor i in range(100): calls([i + 1, 'a', '{}']); receive(); time.sleep(0.22)"
    result, _ = await run_attack(program, replace_worker)
    assert result.error is not None
    assert result.error.code == "WORKER_TIMEOUT"
    # 250 ms of its own, and of each turn what the server allows for its own delays.
    assert result.stats.tool_calls <= 6
