"""Every Starlark program of the tables, one test each: it ends as it says, and neither a secret nor the evaluator's
inside comes out. Under another preset (`CODECALL_VM_PRESET`) the rules of `test_attacks.py` hold."""

from __future__ import annotations

import gc
import json
import re
from collections import Counter
from typing import Any

import anyio
import pytest
from greenlet import greenlet

from codecall.envelopes import ExecutionResult
from codecall.errors import ScriptRefused
from codecall.presets import PRESET_NAMES, load_preset
from codecall.sandbox import wire
from codecall.sandbox.enclave import Enclave, LimitsCache
from codecall.sandbox.starlark.dialect import Starlark
from tests_security.attacking import Canaries, attacked
from tests_security.starlark.attacks import ATTACKS
from tests_security.starlark.honest import HONEST
from tests_security.starlark.programs import LIMITS, Program
from tests_security.test_attacks import FORCED, STOPPED

INSIDE = re.compile(
    r"site-packages|/tmp/|\.py\b|Traceback|object at 0x|0x[0-9a-f]{8}|starlark\.eval|greenlet|codecall\.sandbox"
    r"|StarlarkList|BuiltinFunction|_JsonModule|int_max_str|(Type|Value|Attribute|Recursion|Runtime|Overflow)Error"
)
"""Of the worker's Python and its folders."""

ROWS = [(f"{theme}-{number}", row) for theme, rows in ATTACKS.items() for number, row in enumerate(rows)]
HONEST_ROWS = [(f"honest-{number}", row) for number, row in enumerate(HONEST)]


def objection(program: Program, result: ExecutionResult) -> str | None:
    """What is wrong with how it ended."""
    distance = PRESET_NAMES.index(FORCED or "secure") - PRESET_NAMES.index("secure")
    error = result.error
    if distance < 0 and isinstance(error, (ScriptRefused, *STOPPED)):
        return None
    if distance and (set(program.codes) & set(LIMITS) or program.says == "larger than"):
        return None  # other limits, another end
    if error is None:
        return None if not program.codes and result.value == program.value else f"it returned {result.value!r:.500}"
    right = error.code in program.codes and re.search(program.says, error.message)
    return None if right else f"it ended with {error.code}: {error.message:.500}"


async def run(enclave: Enclave, program: Program, canaries: Canaries, *, follows: bool) -> ExecutionResult:
    bomb = bool(set(program.codes) & {"TIMEOUT", "STEP_LIMIT"})
    limits = {"timeout_ms": 200, "max_steps": 100_000} if bomb else None
    return await attacked(enclave, program.script, canaries, limits=limits, follows=follows, language="starlark")


@pytest.mark.parametrize("program", [row for _, row in ROWS], ids=[name for name, _ in ROWS])
async def test_attack(program: Program, starlark: Enclave, canaries: Canaries):
    result = await run(starlark, program, canaries, follows=True)
    assert canaries.leaked(result) == []
    seen = json.dumps([result.envelope(), result.warnings, result.error and result.error.message], default=repr)
    assert INSIDE.search(seen) is None
    wrong = objection(program, result)
    assert wrong is None, wrong


@pytest.mark.parametrize("program", [row for _, row in HONEST_ROWS], ids=[name for name, _ in HONEST_ROWS])
async def test_honest_program(program: Program, starlark: Enclave, canaries: Canaries):
    result = await run(starlark, program, canaries, follows=False)
    wrong = objection(program, result)
    assert wrong is None, wrong


async def test_a_dry_run_of_any_of_them_is_a_report(starlark: Enclave):
    reports = [
        await starlark.execute(row.script, dry_run=True, language="starlark") for _, row in (*ROWS, *HONEST_ROWS)
    ]
    assert [report.error for report in reports if report.error is not None] == []
    assert all(report.value["valid"] == (not report.value["findings"]) for report in reports)


def test_there_are_enough_programs_and_each_is_another():
    assert len(ROWS) >= 120
    assert len(HONEST) >= 60
    again = Counter(row.script for _, row in (*ROWS, *HONEST_ROWS))
    assert [script for script, times in again.items() if times > 1] == []


@pytest.mark.parametrize(
    "data",
    [{"x": 10**5_000}, {"x": json.loads("[" * 400 + "]" * 400)}, {"x": "\ud800"}, {"x": {"__class__": [1e308, -0.0]}}],
    ids=["digits", "depth", "surrogate", "names"],
)
async def test_no_data_ends_a_worker(data: dict[str, Any], starlark: Enclave):
    try:
        result = await starlark.execute("return len(str(x))", context=data, language="starlark")
    except (TypeError, ValueError):
        return  # it is refused before a worker has it
    assert result.error is None or result.error.code == "EXECUTION_ERROR"


@pytest.mark.parametrize(
    ("limits", "code"),
    [({"max_duration_ms": 200}, "TIMEOUT"), ({"tool_call_timeout_ms": 100}, "EXECUTION_ERROR")],
    ids=["duration", "call"],
)
async def test_tools_that_never_answer_end_the_tasks_that_wait(limits: dict[str, object], code: str, starlark: Enclave):
    async def never(name: str, arguments: dict[str, Any]) -> None:
        await anyio.sleep_forever()

    script = 'return parallel([lambda: parallel([lambda: call_tool("t")] * 3)] * 3)'
    result = await starlark.execute(script, tool_handler=never, language="starlark", config=limits)
    assert result.error is not None
    assert result.error.code == code
    again = await starlark.execute("return 1", language="starlark")
    assert again.value == 1


def test_tasks_that_wait_for_good_are_let_go_with_their_script():
    limits = LimitsCache(0).limits(load_preset("secure"))
    script = 'secret = "x" * 10\ndef work():\n  return call_tool(secret)\nparallel([work] * 8)'

    def suspended() -> int:
        gc.collect()
        return sum(isinstance(item, greenlet) and item.gr_frame is not None for item in gc.get_objects())

    before = suspended()
    dialect = Starlark(lambda name, about="tool", member="": None, lambda: 0.0)
    start = wire.Start(script, limits, starlark=wire.StarlarkTerms(parallel=8))
    engine = dialect.engine(limits)
    dialect.read(engine, start).start()
    assert suspended() == before + 9
    dialect.release(engine)
    assert suspended() == before
