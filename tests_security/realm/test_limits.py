"""Limits that a script tries to swallow, and faults it tries to pass off as limits."""

from __future__ import annotations

import pytest

from codecall.sandbox.enclave import Enclave

OVERFLOW = "async function f() { return f() }"
HEAP = "async function f() { const a = []; for (let i = 0; i < 4000; i++) a.push('x'.repeat(1e5) + i) }"

SWALLOWED = [
    ("STACK_OVERFLOW", "function f() { try { return f() } catch { return 1 } } return f()"),
    ("STACK_OVERFLOW", "function f() { try { return f() } finally { return 1 } } return f()"),
    ("STACK_OVERFLOW", f"{OVERFLOW} return await f().catch(() => 's')"),
    ("STACK_OVERFLOW", f"{OVERFLOW} return await f().then(0, () => 's')"),
    ("STACK_OVERFLOW", f"{OVERFLOW} return (await Promise.allSettled([f()])).length"),
    ("STACK_OVERFLOW", f"{OVERFLOW} return await Promise.any([f(), 5])"),
    ("STACK_OVERFLOW", "const g = () => g() + 1; return await new Promise(() => g()).catch(() => 's')"),
    ("STACK_OVERFLOW", "const g = () => g() + 1; return await __safe_parallel([g]).catch(() => 's')"),
    ("WORKER_MEMORY_EXCEEDED", f"{HEAP} return await f().catch(() => 's')"),
    ("WORKER_MEMORY_EXCEEDED", f"{HEAP} try {{ await f() }} catch {{ return 's' }}"),
    (
        "WORKER_MEMORY_EXCEEDED",
        HEAP.replace("async ", "") + " function g() { try { f() } finally { return 's' } } return g()",
    ),
    ("ITERATION_LIMIT", "const o = { get x() { for (;;) {} } }; try { return o.x } catch { return 's' }"),
    ("ITERATION_LIMIT", "class A { x = (() => { for (;;) {} })() } try { new A() } catch { return 's' }"),
    ("ITERATION_LIMIT", "function* g() { try { for (;;) yield 1 } finally { return 2 } } return [...g()].length"),
    ("ITERATION_LIMIT", "const t = { toString() { for (;;) {} } }; try { return `${t}` } catch { return 's' }"),
    ("ITERATION_LIMIT", "try { const { a = (() => { for (;;) {} })() } = {} } catch { return 's' }"),
    ("TOOL_CALL_LIMIT", "for (let i = 0; i < 101; i++) callTool('a', {}).catch(() => 1); return 's'"),
]


@pytest.mark.parametrize(("code", "script"), SWALLOWED, ids=[f"{code}-{script[:60]}" for code, script in SWALLOWED])
async def test_a_limit_cannot_be_swallowed(enclave: Enclave, code: str, script: str):
    result = await enclave.execute(script, tool_handler=lambda name, arguments: 1)
    assert result.error is not None, result.value
    assert result.error.code == code
    assert (await enclave.execute("return 1")).value == 1


@pytest.mark.parametrize("preset", ["locked_down", "secure"])
async def test_null_is_a_value_like_any_other(preset: str):
    async with Enclave(preset) as enclave:
        caught = await enclave.execute("try { throw null } catch (e) { return [e] }")
        thrown = await enclave.execute("throw null")
        rejected = await enclave.execute("return await Promise.reject(null).catch((e) => [e])")
    assert caught.value == [None]
    assert (thrown.error and thrown.error.code, thrown.error and thrown.error.message) == ("EXECUTION_ERROR", "null")
    assert rejected.value == [None]


async def test_honest_recursion_has_room(enclave: Enclave):
    result = await enclave.execute("const depth = (n) => (n === 0 ? 0 : 1 + depth(n - 1)); return depth(2000)")
    assert result.value == 2000


async def test_the_runtime_does_not_show_its_source(enclave: Enclave):
    result = await enclave.execute("return [String(callTool), `${__safe_parallel}`, String(Promise.resolve().then)]")
    assert set(result.value) == {"function () { [native code] }"}  # type: ignore[call-overload]


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
