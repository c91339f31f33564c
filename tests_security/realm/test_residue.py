"""What one script leaves in its worker, the next does not find: one worker serves all, each script in a new engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from codecall.envelopes import ExecutionResult
from codecall.sandbox.enclave import Enclave

# Left by a script -> what the next one finds with the probe. Computed names keep the guard out of it.
RESIDUE = {
    "a property of a prototype": (
        "const p = ['proto', 'type'].join(''); const [A] = [Array]; try { A[p].left = 1 } catch { return 'refused' }",
        "return [].left ?? null",
    ),
    "a method that was replaced": (
        "const [J] = [JSON]; try { J['par' + String('se')] = () => 'left' } catch { return 'refused' }",
        "return JSON.parse('null')",
    ),
    "a property of a method": ("[].map.left = 1; return [].map.left", "return [].map.left ?? null"),
    "a prototype of its own kind": (
        "function F() {} const p = ['proto', 'type'].join(''); F[p].left = 1; return new F().left",
        "function F() {} return new F().left ?? null",
    ),
    "the last match of an expression": (
        "const [R] = [RegExp]; /(l)eft/.exec('left'); return R.lastMatch ?? R['$1'] ?? 'none'",
        "const [R] = [RegExp]; return R.lastMatch ?? R['$1'] ?? null",
    ),
    "where a global expression stopped": (
        "const r = /l/g; r.test('left'); return r.lastIndex",
        "const r = /l/g; return r.lastIndex || null",
    ),
    "the registry of symbols": (
        "const [S] = [Symbol]; return typeof S['f' + String('or')]",
        "const [S] = [Symbol]; const f = S['f' + String('or')]; return f ? f('left').description : null",
    ),
    "a variable": ("var left = 1; return left", "try { return (0, (() => left)()) } catch { return null }"),
    "a tool's metadata": (
        "const t = getTool('echo'); t.left = 1; t.inputSchema.left = 1; return 1",
        "return getTool('echo').left ?? getTool('echo').inputSchema.left ?? null",
    ),
    "the context": (
        "const [c] = [codecallContext]; try { c.left = 1 } catch { return 'refused' }",
        "return codecallContext.left ?? null",
    ),
    "a limit": ("for (;;) {}", "let n = 0; for (let i = 0; i < 4999; i++) n += 1; return n === 4999 ? null : n"),
    "steps": (
        "const f = (n) => (n ? f(n - 1) : 0); for (let i = 0; i < 900; i++) f(1000); return 1",
        "const f = (n) => (n ? f(n - 1) : 0); for (let i = 0; i < 900; i++) f(1000); return null",
    ),
    "console lines": (
        "for (let i = 0; i < 100; i++) console.log('left'); return 1",
        "for (let i = 0; i < 100; i++) console.log('mine'); return null",
    ),
}


@pytest.fixture(scope="module")
async def one_worker() -> AsyncIterator[Enclave]:
    """All its scripts run in the same process, one after the other."""
    async with Enclave("secure", pool={"min_workers": 1, "max_workers": 1}, worker_max_runs=1_000) as enclave:
        yield enclave


async def run(enclave: Enclave, script: str, context: dict[str, Any] | None = None) -> ExecutionResult:
    tools = [{"name": "echo", "description": "Echo", "inputSchema": {"type": "object"}}]
    return await enclave.execute(script, tool_handler=lambda name, value: value, tools=tools, context=context)


@pytest.mark.parametrize(("leave", "find"), RESIDUE.values(), ids=list(RESIDUE))
async def test_nothing_is_left(one_worker: Enclave, leave: str, find: str):
    left = await run(one_worker, leave, {"tenant": "t1"})
    assert left.error is None or left.error.code == "ITERATION_LIMIT", left.error
    found = await run(one_worker, find, {"tenant": "t2"})
    # An undeclared name does not even get past the guard.
    assert found.value is None, found.value
    assert found.error is None or found.error.code == "VALIDATION_ERROR", found.error


async def test_another_script_gets_other_chances(one_worker: Enclave):
    draw = "return Array.from({ length: 4 }, () => Math.random())"
    first, second = [(await run(one_worker, draw)).value for _ in range(2)]
    assert first != second


async def test_jobs_and_calls_left_behind_end_with_their_script(one_worker: Enclave):
    seen: list[object] = []
    leave = """
    const chain = async () => { for (let i = 0; i < 100; i++) await null; await callTool('late', { from: 'first' }) };
    chain();
    callTool('going', {}).then(() => callTool('after', { from: 'first' }));
    return 'left';
    """
    left = await one_worker.execute(leave, tool_handler=lambda name, value: seen.append(name))
    counted = len(seen)
    find = "const all = []; for (let i = 0; i < 20; i++) all.push(await callTool('own', { i })); return all.length"
    found = await one_worker.execute(find, tool_handler=lambda name, value: 1)
    assert (left.value, found.value) == ("left", 20)
    assert found.stats.tool_calls == 20
    assert len(seen) == counted, "a call of the first script was made while the second ran"


async def test_counters_start_at_zero(one_worker: Enclave):
    alone = "for (let i = 0; i < 10; i++) {} return callTool('echo', {})"
    first = await run(one_worker, alone)
    await run(one_worker, "for (let i = 0; i < 4000; i++) {} console.log('x'); return callTool('echo', {})")
    again = await run(one_worker, alone)
    assert (first.stats.steps, first.stats.tool_calls, list(first.logs)) == (10, 1, [])
    assert (again.stats.steps, again.stats.tool_calls, list(again.logs)) == (10, 1, [])


async def test_what_was_in_the_heap_of_one_is_not_held_against_the_next(one_worker: Enclave):
    """An exhausted heap is told by its size: that of the script before must not count."""
    most = "const a = []; for (let i = 0; i < 560; i++) a.push('x'.repeat(1e5) + i); return a.length"
    for _ in range(3):
        assert (await run(one_worker, most)).value == 560
        thrown = await run(one_worker, "try { throw null } catch (e) { return [e] }")
        stuck = await run(one_worker, "return await new Promise(() => {})")
        assert thrown.value == [None]
        assert stuck.error is not None
        assert stuck.error.code == "DEADLOCK"
