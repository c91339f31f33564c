"""Limits that depend on numbers: an exhausted heap of any size is told from a thrown `null`, and honest work has room.

The tricks to swallow a limit stand in `limits.script.js`.
"""

from __future__ import annotations

from typing import Any

import pytest

from codecall.presets import PRESET_NAMES
from codecall.sandbox.enclave import Enclave
from tests_security.attacking import as_far_as_there_is_a_jail

# Each fills the heap in another way, and has let go of it when the clause runs
EXHAUSTING = {
    "long texts": "const a = []; for (let i = 0; i < 4900; i++) a.push('x'.repeat(1e5) + i);",
    "small objects": "const a = []; for (let i = 0; i < 4900; i++) a.push(Array.from('x'.repeat(2000), (x) => [x]));",
    "a native loop": "Array.from({ length: 1e8 }, String);",
    "one array": "let a = [1]; for (let i = 0; i < 40; i++) a = a.concat(a);",
}
ALLOWANCE: dict[str, Any] = {"timeout_ms": 20_000, "max_duration_ms": 60_000, "max_steps": 1_000_000_000}


@pytest.mark.parametrize("memory_mb", [4, 16, 64])
async def test_an_exhausted_heap_is_told_from_null(memory_mb: int):
    async with Enclave("secure", memory_mb=memory_mb, pool={"max_workers": 1}, **ALLOWANCE) as enclave:
        for way, fill in EXHAUSTING.items():
            thrown = await enclave.execute("try { throw null } catch (e) { return [e] }")
            caught = await enclave.execute(f"const fill = () => {{ {fill} }}; try {{ fill() }} catch {{ return 's' }}")
            stuck = await enclave.execute("return await new Promise(() => {})")
            assert thrown.value == [None], way
            assert caught.error is not None, way
            assert caught.error.code == "WORKER_MEMORY_EXCEEDED", way
            assert stuck.error is not None, way
            assert stuck.error.code == "DEADLOCK", way


async def test_the_largest_heap_is_told_too():
    async with Enclave("experimental", pool={"max_workers": 1}) as enclave:
        half = "const a = []; for (let i = 0; i < 1200; i++) a.push('x'.repeat(1e5) + i);"
        full = "const f = () => { const a = []; for (let i = 0; i < 4900; i++) a.push('x'.repeat(1e5) + i) };"
        assert (await enclave.execute(half + " try { throw null } catch (e) { return e }")).error is None
        caught = await enclave.execute(full + " try { f() } catch { return 's' }")
        assert caught.error is not None
        assert caught.error.code == "WORKER_MEMORY_EXCEEDED"


@pytest.mark.parametrize("preset", PRESET_NAMES)
async def test_null_is_a_value_like_any_other(preset: str):
    async with Enclave(preset, pool={"max_workers": 1}, **as_far_as_there_is_a_jail()) as enclave:
        caught = await enclave.execute("try { throw null } catch (e) { return [e] }")
        thrown = await enclave.execute("throw null")
        rejected = await enclave.execute("return await Promise.reject(null).catch((e) => [e])")
    assert caught.value == [None]
    assert (thrown.error and thrown.error.code, thrown.error and thrown.error.message) == ("EXECUTION_ERROR", "null")
    assert rejected.value == [None]


@pytest.mark.parametrize("size", [3_000_000, 5_000_000])
async def test_an_answer_or_a_context_larger_than_the_heap_is_a_limit(size: int):
    def big(name: str, arguments: dict[str, Any]) -> str:
        return "x" * size

    async with Enclave("secure", memory_mb=4, max_result_bytes=16_000_000, pool={"max_workers": 1}) as enclave:
        answered = await enclave.execute("return (await callTool('big', {})).length", tool_handler=big)
        given = await enclave.execute("return codecallContext.text.length", context={"text": "x" * size})
        after = await enclave.execute("return 1")
    for result in (answered, given):
        assert result.error is not None
        assert result.error.code == "WORKER_MEMORY_EXCEEDED"
    assert after.value == 1


async def test_honest_recursion_has_room(enclave: Enclave):
    result = await enclave.execute("const depth = (n) => (n === 0 ? 0 : 1 + depth(n - 1)); return depth(2000)")
    assert result.value == 2000


async def test_a_map_that_holds_itself_as_key(enclave: Enclave):
    result = await enclave.execute("const m = new Map(); m.set(m, 1); m.set({ a: 1 }, 2); m.set('k', 3); return m")
    assert result.value == {"[Object 1]": 1, "[Object 2]": 2, "k": 3}


async def test_frozen_built_ins_do_not_break_promises(enclave: Enclave):
    script = """
    const log = [];
    await Promise.resolve(1).then((v) => log.push(v)).finally(() => log.push('f'));
    await Promise.reject(new Error('x')).catch((e) => log.push(e.message));
    await Promise.reject(new Error('y')).then(null, (e) => log.push(e.message));
    await Promise.resolve(2).then(undefined, undefined).then((v) => log.push(v));
    return log;
    """
    assert (await enclave.execute(script)).value == [1, "f", "x", "y", 2]


async def test_what_a_limit_ended_leaves_the_worker_fit(enclave: Enclave):
    for script in ("for (;;) {}", "const f = () => f() + 1; f()", "const a = 'x'.repeat(1e9)"):
        assert (await enclave.execute(script)).error is not None
        assert (await enclave.execute("return 1")).value == 1
