"""Scripts stuck in the engine's own loops, where nothing counts: the watchdog ends each, and the next script runs.

The programs are those of `stuck.programs.js`. They run under the preset's rules with a short time limit, since each of
them uses all of it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from codecall.presets import load_preset
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.worker.watchdog import NAP_S
from codecall.testing import Program, mismatch, read_programs
from tests_security.attacking import Canaries, attacked

PROGRAMS = read_programs(Path(__file__).parent / "stuck.programs.js")

TIMEOUT_MS = 50
"""Time for each script; on its own each would take seconds to years."""


@pytest.fixture(scope="module")
async def impatient(canaries: Canaries) -> AsyncIterator[Enclave]:
    """An enclave under the default preset with little time."""
    del canaries
    async with Enclave("secure", timeout_ms=TIMEOUT_MS, pool={"min_workers": 1, "max_workers": 1}) as enclave:
        yield enclave


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.title)
async def test_the_watchdog_ends_it(impatient: Enclave, canaries: Canaries, program: Program):
    result = await attacked(impatient, program.source, canaries)
    assert result.status == "timeout", result.error
    # On a machine with much else to do the worker's own watchdog may come late: then the server's ends the process.
    if result.error is not None and result.error.code != "WORKER_TIMEOUT":
        wrong = mismatch(program, result)
        assert wrong is None, wrong
        assert result.error.message == f"Script execution timed out after {TIMEOUT_MS}ms"
        assert result.stats.script_ms >= TIMEOUT_MS
    assert canaries.leaked(result) == []
    assert (await impatient.execute("return 1 + 1", config={"timeout_ms": 2_000})).value == 2


async def test_a_regular_expression_that_tries_without_end_is_named_as_a_cause(impatient: Enclave):
    result = await impatient.execute("return /^(a+)+$/.test('a'.repeat(60) + '!')")
    assert result.error is not None
    assert result.error.code == "WORKER_TIMEOUT" or "a regular expression with a repetition" in (
        result.error.hint or ""
    )


def test_each_of_them_ends_by_the_time_limit():
    assert {str(program.outcome) for program in PROGRAMS} == {"TIMEOUT"}
    assert load_preset("secure").timeout_ms > TIMEOUT_MS


async def test_what_it_said_before_it_was_stuck_is_reported(impatient: Enclave):
    script = "console.log('before'); await callTool('a', {}); console.log('then'); new Array(2 ** 32 - 1).join('')"
    result = await impatient.execute(script, tool_handler=lambda name, arguments: None)
    assert (result.status, result.logs, result.stats.tool_calls) == ("timeout", ("before", "then"), 1)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel says there how often a thread has woken up")
async def test_a_script_that_gets_stuck_after_a_long_wait_is_ended_too(impatient: Enclave):
    def wake_ups() -> list[str]:
        (worker,) = impatient.pool.busy_workers()
        threads = Path(f"/proc/{worker.pid}/task").glob("*/status")
        return [line for file in threads for line in file.read_text().splitlines() if line.startswith("voluntary")]

    async def wait(_name: str, _arguments: object) -> None:
        """Until nothing of the worker wakes up any more: a script that waits takes no processor time."""
        before: list[str] = []
        with anyio.fail_after(60):
            while (now := wake_ups()) != before:
                before = now
                await anyio.sleep(5 * NAP_S)

    script = "await callTool('wait', {}); new Array(2 ** 32 - 1).join('')"
    assert (await impatient.execute(script, tool_handler=wait)).status == "timeout"
