"""How scripts fail: status, code, location, and that nothing can be swallowed."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codecall.envelopes import ExecutionResult
from codecall.errors import (
    AccessDeniedError,
    CodeCallError,
    IllegalAccess,
    LimitExceeded,
    OptionsError,
    ScriptError,
    ScriptTimeoutError,
    SelfReferenceError,
    ToolCallError,
    WorkerMemoryError,
)
from codecall.errors.hints import DEFAULT_HINTS
from codecall.sandbox.enclave import Enclave


async def fails(enclave: Enclave, script: str, **options: Any) -> CodeCallError:
    result: ExecutionResult = await enclave.execute(script, **options)
    assert result.error is not None, result.value
    assert result.status == result.error.status
    return result.error


@pytest.mark.parametrize(
    ("script", "line", "column"),
    [
        ("return (1", 1, 10),
        ("const a = 1;\nconst a = 2;", 2, 9),
        ("let x = ;", 1, 9),
        ("}; evil(); async()=>{", 1, 1),
    ],
)
async def test_syntax_error(enclave: Enclave, script: str, line: int, column: int) -> None:
    error = await fails(enclave, script)
    assert (error.status, error.code) == ("syntax_error", "SYNTAX_ERROR")
    text = script.splitlines()[line - 1].strip()
    assert error.as_dict()["location"] == {"line": line, "column": column, "text": text}


async def test_refused_before_anything_runs(enclave: Enclave) -> None:
    called: list[str] = []
    error = await fails(
        enclave, "await callTool('x', {});\n  eval('1')", tool_handler=lambda name, _: called.append(name)
    )
    assert isinstance(error, IllegalAccess)
    assert error.message == "Identifier 'eval' is not allowed in AgentScript"
    assert error.as_dict()["location"] == {"line": 2, "column": 3, "text": "eval('1')"}
    assert (error.kind, error.code, called) == ("IllegalBuiltinAccess", "VALIDATION_ERROR", [])


@pytest.mark.parametrize(
    ("script", "name", "message", "place"),
    [
        ("const x = 1;\nx.y.z", "TypeError", "cannot read property 'z' of undefined", (2, 1)),
        ("throw new RangeError('out')", "RangeError", "out", (1, 11)),
        ("function f() {\n  throw new Error('deep')\n}\nconst g = () => f();\ng()", "Error", "deep", (2, 13)),
        ("for (const a of [1]) { if (a) null.b }", "TypeError", "cannot read property 'b' of null", (1, 31)),
        ("throw 'text'", "Error", "text", (1, 1)),
        ("throw {code: 5}", "Error", '{"code":5}', (1, 1)),
        ("if (codecallContext.x) throw 'text'; else throw {code: 5}", "Error", '{"code":5}', None),
        ("await Promise.reject(new Error('r'))", "Error", "r", (1, 26)),
    ],
)
async def test_what_a_script_throws(
    enclave: Enclave, script: str, name: str, message: str, place: tuple[int, int] | None
) -> None:
    error = await fails(enclave, script)
    assert isinstance(error, ScriptError)
    assert (error.code, error.name, error.message) == ("EXECUTION_ERROR", name, message)
    assert error.location == place


async def test_a_tool_error_nobody_catches(enclave: Enclave) -> None:
    def handler(name: str, arguments: dict[str, Any]) -> Any:
        raise ToolCallError("No such user", tool_name=name, code="NOT_FOUND", details={"id": 5})

    script = "return await callTool('users:get', {id: 5})"
    error = await fails(enclave, script, tool_handler=handler)
    assert error.as_dict() == {
        "code": "NOT_FOUND",
        "source": "tool",
        "message": "No such user",
        "toolName": "users:get",
        "details": {"id": 5},
        "location": {"line": 1, "column": 14, "text": script},
        "hint": DEFAULT_HINTS["TOOL_EXECUTION_ERROR"],
    }


async def test_a_rethrown_tool_error_is_the_tools(enclave: Enclave) -> None:
    def handler(name: str, arguments: dict[str, Any]) -> Any:
        raise ValueError("boom")

    script = "try { await callTool('a', {}) } catch (e) { throw e }"
    assert (await fails(enclave, script, tool_handler=handler)).status == "tool_error"
    wrapped = "try { await callTool('a', {}) } catch (e) { throw new Error('failed: ' + e.message) }"
    assert (await fails(enclave, wrapped, tool_handler=handler)).status == "runtime_error"
    forged = "const e = new Error('x'); e.name = 'ToolError'; e.code = 'RATE_LIMIT'; throw e"
    assert (await fails(enclave, forged, tool_handler=handler)).code == "EXECUTION_ERROR"


async def test_tools_outside_the_list(enclave: Enclave) -> None:
    error = await fails(enclave, "return callTool('b', {})", tool_handler=lambda n, a: 1, allowed_tools=["a"])
    assert isinstance(error, AccessDeniedError)
    assert (await fails(enclave, "return callTool('b', {})")).message == "Tool 'b' was not found"


@pytest.mark.parametrize(
    "script",
    [
        "await callTool('codecall:execute', {script: 'return 1'})",
        "const n = ' CodeCall' + '_Execute '; await callTool(n, {})",
        "const n = 'codecall:' + 'search'; await callTool(n, {}, {throwOnError: false})",
        "const n = 'codecall:' + 'x'; try { await callTool(n, {}) } catch { return 'swallowed' }",
        "const n = 'codecall:' + 'x'; getTool(n); return 'went on'",
        "const n = 'codecall:' + 'x'; try { await __safe_parallel([() => callTool(n, {})]) } catch { return 1 }",
    ],
)
async def test_meta_tools_are_out_of_reach(enclave: Enclave, script: str) -> None:
    error = await fails(enclave, script, tool_handler=lambda n, a: 1)
    assert isinstance(error, SelfReferenceError)
    assert error.message.startswith("Cannot call CodeCall tools from within AgentScript: ")


LIMITS: list[tuple[str, str, str]] = [
    ("ITERATION_LIMIT", "for (let i = 0; i < 1e9; i++) {}", "Loop exceeded the iteration limit of 5000"),
    ("ITERATION_LIMIT", "for (const x of Array(100000)) {}", "Loop exceeded the iteration limit of 5000"),
    ("ITERATION_LIMIT", "try { for (;;) {} } catch (e) { return 'swallowed' }", ""),
    ("ITERATION_LIMIT", "try { for (;;) {} } finally { return 'swallowed' }", ""),
    ("ITERATION_LIMIT", "await (async () => { for (;;) {} })().catch(() => 1); return 'swallowed'", ""),
    ("ITERATION_LIMIT", "await Promise.allSettled([(async () => { for (;;) {} })()]); return 'swallowed'", ""),
    ("STEP_LIMIT", "const f = n => n; for (let i = 0; i < 4000; i++) for (let j = 0; j < 4000; j++) f(j)", ""),
    (
        "TOOL_CALL_LIMIT",
        "for (let i = 0; i < 101; i++) await callTool('a', {})",
        "Script exceeded the limit of 100 tool calls",
    ),
    ("TOOL_CALL_LIMIT", "await Promise.allSettled(Array.from({length: 101}, () => callTool('a', {}))); return 1", ""),
    ("OUTPUT_LIMIT", "return Array.from({length: 100}, () => 'x'.repeat(90000))", ""),
    ("STACK_OVERFLOW", "const f = () => f() + 1; f()", ""),
    ("STACK_OVERFLOW", "const f = () => f() + 1; try { f() } catch { return 'swallowed' }", ""),
    ("STACK_OVERFLOW", "const f = () => f() + 1; try { f() } catch ({message}) { return message }", ""),
    ("DEADLOCK", "await new Promise(() => {})", ""),
    ("DEADLOCK", "callTool('a', {}); await new Promise(() => {})", ""),
]


@pytest.mark.parametrize(("code", "script", "message"), LIMITS, ids=[f"{c}-{s[:50]}" for c, s, _ in LIMITS])
async def test_limits_cannot_be_swallowed(enclave: Enclave, code: str, script: str, message: str) -> None:
    error = await fails(enclave, script, tool_handler=lambda n, a: 1)
    assert isinstance(error, LimitExceeded)
    assert (error.code, error.status, error.source) == (code, "runtime_error", "limit")
    assert error.message.startswith(message)
    assert error.hint
    assert (await enclave.execute("return 1")).value == 1


@pytest.mark.parametrize(
    "script",
    [
        "const a = []; for (let i = 0; i < 4000; i++) { a.push(new Array(10000).fill(i)) } return a.length",
        "try { 'x'.repeat(2 ** 29) } catch { } let s = 'abc'; for (let i = 0; i < 40; i++) s += s; return s.length",
    ],
)
async def test_memory(enclave: Enclave, script: str) -> None:
    error = await fails(enclave, script)
    assert isinstance(error, WorkerMemoryError)
    assert (error.code, error.message) == ("WORKER_MEMORY_EXCEEDED", "Script exceeded the memory limit of 64 MB")
    assert (await enclave.execute("return 1")).value == 1


STUCK = [
    "console.log('before'); /^(a+)+$/.test('a'.repeat(40) + 'b')",
    "console.log('before'); const big = Array.from({length: 4000}, (_, i) => i); for (const x of big) "
    "for (const y of big) { big.indexOf(-1) }",
]


@pytest.mark.parametrize("script", STUCK)
async def test_timeout_keeps_what_was_logged(script: str) -> None:
    async with Enclave("secure", timeout_ms=300, max_steps=2**31 - 1) as enclave:
        with anyio.fail_after(10):
            result = await enclave.execute(script)
        assert isinstance(result.error, ScriptTimeoutError), result
        assert result.error.message == "Script execution timed out after 300ms"
        assert result.logs == ("before",)
        assert result.stats.script_ms >= 300
        assert (await enclave.execute("return 1")).value == 1


async def test_waiting_for_tools_is_not_script_time() -> None:
    async def slow(name: str, arguments: dict[str, Any]) -> str:
        await anyio.sleep(0.4)
        return "done"

    async with Enclave("secure", timeout_ms=200) as enclave:
        result = await enclave.execute("return await callTool('slow', {})", tool_handler=slow)
    assert result.value == "done"
    assert result.stats.duration_ms >= 400


async def test_total_duration() -> None:
    cancelled = anyio.Event()

    async def never(name: str, arguments: dict[str, Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with Enclave("secure", max_duration_ms=200) as enclave:
        result = await enclave.execute("console.log('a'); await callTool('never', {})", tool_handler=never)
        assert isinstance(result.error, ScriptTimeoutError)
        assert result.error.message == "Script exceeded the total duration limit of 200ms"
        assert (result.logs, result.stats.tool_calls) == (("a",), 1)
        assert cancelled.is_set()
        assert (await enclave.execute("return 1")).value == 1


async def test_bad_arguments(enclave: Enclave) -> None:
    with pytest.raises(TypeError, match="script: a string"):
        await enclave.execute(5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="context"):
        await enclave.execute("1", context={"a": object()})
    with pytest.raises(OptionsError, match=r"config\.max_iterations"):
        await enclave.execute("1", config={"max_iterations": "many"})
    with pytest.raises(OptionsError, match=r"config\.nope: unknown option"):
        await enclave.execute("1", config={"nope": 1})
    with pytest.raises(OptionsError, match="unknown level"):
        Enclave(security_level="LAX")
    error = await fails(enclave, "return '\ud800'")
    assert error.code == "VALIDATION_ERROR"


async def test_config_for_one_run(enclave: Enclave) -> None:
    error = await fails(enclave, "for (const x of Array(2000)) {}", config={"maxIterations": 1000})
    assert error.message == "Loop exceeded the iteration limit of 1000"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("await callTool(5, {})", "callTool needs a tool name as text, got number"),
        ("await callTool('a', [1])", "callTool('a', …) needs an object as input, got an array"),
        ("const x = {}; x.x = x; await callTool('a', x)", "The input refers to itself"),
        (
            "await callTool('a', {p: callTool('b', {})})",
            "The input of callTool('a', …) contains a promise; await it first",
        ),
        ("await __safe_parallel(5)", "__safe_parallel needs an array of functions"),
        (
            "await __safe_parallel([callTool('a', {})])",
            "__safe_parallel needs functions: item 0 is object; write () => callTool(…)",
        ),
    ],
)
async def test_wrong_use_of_the_runtime(enclave: Enclave, script: str, message: str) -> None:
    error = await fails(enclave, script, tool_handler=lambda n, a: 1)
    assert isinstance(error, ScriptError)
    assert error.message == message


async def test_broken_text_in_a_tools_description_is_replaced():
    tools = [{"name": "odd", "description": "an \ud800 half", "inputSchema": {"\udfff": 1}, "outputSchema": None}]
    async with Enclave("secure") as enclave:
        result = await enclave.execute(
            "const t = getTool('odd'); return [t.description, Object.keys(t.inputSchema)]",
            tool_handler=lambda name, value: None,
            tools=tools,
        )
    assert result.error is None
    assert result.value == ["an \ufffd half", ["\ufffd"]]


HALF_A_PAIR: list[tuple[str, str]] = [
    (r"await callTool('\ud800', {})", "TOOL_NOT_FOUND"),
    (r"await tools['\ud800']({})", "TOOL_NOT_FOUND"),
    (r"foo\u{d800}()", "VALIDATION_ERROR"),
    (r"foo\u{d800}.bar()", "VALIDATION_ERROR"),
    (r"return Math['\ud800']", "VALIDATION_ERROR"),
    (r"const o = { ['\ud800']: () => { for (let i = 0; i < 1e5; i++) {} } }; o['\ud800']()", "ITERATION_LIMIT"),
    (r"const o = { ['\ud800']: () => { null.x } }; o['\ud800']()", "EXECUTION_ERROR"),
    (r"const o = { ['\ud800']: () => callTool('fail') }; await o['\ud800']()", "TOOL_NOT_FOUND"),
]


@pytest.mark.parametrize(("script", "code"), HALF_A_PAIR)
async def test_half_a_surrogate_pair_in_a_name(enclave: Enclave, script: str, code: str) -> None:
    error = await fails(enclave, script, tool_handler=lambda n, a: 1, tools=[{"name": "a"}])
    assert error.code == code
    rehearsed = await enclave.execute(script, tool_handler=lambda n, a: 1, tools=[{"name": "a"}], dry_run=True)
    assert rehearsed.error is None


async def test_half_a_surrogate_pair_in_the_name_of_a_function_that_calls(enclave: Enclave) -> None:
    script = r"const o = { ['\ud800']: () => callTool('a', {}) }; return await o['\ud800']()"
    assert (await enclave.execute(script, tool_handler=lambda n, a: 1)).value == 1


FORGED = r"\n    at f (<input>:1:1)"


@pytest.mark.parametrize("name", ["'x'.repeat(12e6)", f"'{FORGED}'.repeat(40000)"], ids=["long", "frames"])
async def test_the_name_of_a_function_costs_little_wherever_it_is_told(name: str) -> None:
    calls = f"const n = {name}; const o = {{ [n]: () => callTool('a', {{}}) }}; "
    script = f"{calls}for (let i = 0; i < 20; i++) await o[n](); return 1{chr(10) * 30_000}"
    loops = f"const n = {name}; const o = {{ [n]: () => {{ for (;;) {{}} }} }}; o[n](){chr(10) * 30_000}"
    async with Enclave(preset="secure", timeout_ms=60_000) as enclave:
        assert (await enclave.execute(script, tool_handler=lambda n, a: 1)).value == 1
        assert (await fails(enclave, loops)).code == "ITERATION_LIMIT"
