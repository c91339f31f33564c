"""What a script sees, SPEC section 3: each program runs in a real worker."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codecall.sandbox.enclave import Enclave


def answer(name: str, arguments: dict[str, Any]) -> Any:
    """The tools of these tests."""
    match name:
        case "echo":
            return arguments
        case "users:list":
            limit = arguments.get("limit", 3)
            return {"users": [{"id": index, "name": f"user {index}", "role": "admin"} for index in range(limit)]}
        case "text":
            return "just text"
        case "nothing":
            return None
        case "fails":
            raise ValueError("upstream is down")
        case _:
            raise LookupError(f"no tool {name}")


PROGRAMS: list[tuple[str, object]] = [
    # The value of a script
    ("return 1 + 1", 2),
    ("1 + 1", 2),
    ("const x = 4;\nx * 2", 8),
    ("const x = 4;", None),
    ("", None),
    ("return", None),
    ("if (true) { return 'early' }\n'late'", "early"),
    ("function f() { return 1 }\nf() + 1", 2),
    ("async () => 5", 5),
    ("() => { return 6 }", 6),
    ("async () => { const r = await callTool('echo', {a: 1}); return r.a }", 1),
    ("async () => 7;", 7),
    ("(async () => { return 8 })()", 8),
    ("async function main() { return 9 }\nmain()", 9),
    ("async function main() { return await callTool('text', {}) }\nreturn main();", "just text"),
    ("'use strict'; 5", 5),
    # Spreading
    ("return { ...'ab' }", {"0": "a", "1": "b"}),
    ("const p = { venue: 'é' }; return { ok: 1, ...p.venue, ...'n' }", {"ok": 1, "0": "n"}),
    ("const { length, ...rest } = 'ab'; return [length, rest]", [2, {"0": "a", "1": "b"}]),
    ("let rest; const text = ({ ...rest } = 'a'); return [typeof text, rest]", ["string", {"0": "a"}]),
    ("return { ...5, ...true, ...null, ...undefined, ...5n, ...'' }", {}),
    ("return { a: 1, ...[7] }", {"0": 7, "a": 1}),
    # Tools
    ("return await callTool('echo', {a: [1, {b: null}]})", {"a": [1, {"b": None}]}),
    ("return await callTool('echo')", {}),
    ("return await callTool('nothing', {})", None),
    ("const {users} = await callTool('users:list', {limit: 2}); return users.map(u => u.name)", ["user 0", "user 1"]),
    (
        "const r = await Promise.all([callTool('echo', {n: 1}), callTool('echo', {n: 2})]); return r.map(x => x.n)",
        [1, 2],
    ),
    ("const r = await Promise.race([callTool('text', {})]); return r", "just text"),
    (
        "const r = await Promise.allSettled([callTool('text', {}), callTool('fails', {})]);return r.map(x => x.status)",
        ["fulfilled", "rejected"],
    ),
    ("return await Promise.any([callTool('fails', {}), callTool('text', {})])", "just text"),
    (
        "try { await callTool('fails', {}); } "
        "catch (e) { return [e instanceof Error, e.name, e.code, e.toolName, e.message] }",
        [True, "ToolError", "TOOL_EXECUTION_ERROR", "fails", "upstream is down"],
    ),
    (
        "return await callTool('fails', {}, {throwOnError: false})",
        {
            "success": False,
            "error": {"code": "TOOL_EXECUTION_ERROR", "message": "upstream is down", "toolName": "fails"},
        },
    ),
    ("return await callTool('echo', {a: 1}, {throwOnError: false})", {"success": True, "data": {"a": 1}}),
    (
        "const out = [];\nfor (const id of [1, 2, 3]) { out.push((await callTool('echo', {id})).id * 10) }\nreturn out",
        [10, 20, 30],
    ),
    # Parallel
    ("return await __safe_parallel([1, 2, 3].map(n => async () => n * 2), {maxConcurrency: 2})", [2, 4, 6]),
    ("return await __safe_parallel([])", []),
    ("return await __safe_parallel([() => callTool('echo', {n: 1}), () => 5])", [{"n": 1}, 5]),
    (
        "try { await __safe_parallel([() => 1, () => callTool('fails', {}), () => { throw new Error('b') }]) }"
        "catch (e) { return e.message }",
        "2 of 3 parallel operations failed:\n  [1]: upstream is down\n  [2]: b",
    ),
    (
        "try { await __safe_parallel(Array.from({length: 101}, () => () => 1)) } catch (e) { return e.message }",
        "Cannot execute more than 100 operations in parallel",
    ),
    (
        "let now = 0, most = 0; await __safe_parallel(Array.from({length: 60}, () => async () => {"
        "now++; most = Math.max(most, now); await callTool('text', {}); now--; }), {maxConcurrency: 500}); return most",
        20,
    ),
    # The context
    ("return codecallContext.user.id", 7),
    ("try { codecallContext.user.id = 8 } catch (e) { return e.name }", "TypeError"),
    ("try { codecallContext.extra = 8 } catch (e) { return e.name }", "TypeError"),
    # The language
    ("const {a, ...rest} = {a: 1, b: 2, c: 3}; return [a, rest, [...'héy']]", [1, {"b": 2, "c": 3}, ["h", "é", "y"]]),
    ("let x = null; x ??= 5; return [x?.y, x ?? 1, `v=${x}`]", [None, 5, "v=5"]),
    ("class A { #n = 1; get n() { return this.#n } } class B extends A {} return new B().n", 1),
    (
        "class MyError extends Error { constructor(m) { super(m); this.name = 'MyError' } }"
        "try { throw new MyError('x') } catch (e) { return [e.name, e instanceof MyError, String(e)] }",
        ["MyError", True, "MyError: x"],
    ),
    ("return [3, 1, 2].toSorted().at(-1) + [1, 2].findLast(x => x < 2)", 4),
    ("return Object.groupBy([1, 2, 3], n => n % 2 ? 'odd' : 'even')", {"odd": [1, 3], "even": [2]}),
    ("return 'a-b-c'.replace(/-/g, '+')", "a+b+c"),
    ("function* g() { yield 1; yield 2 } return [...g()]", [1, 2]),
    ("const out = []; for await (const x of [Promise.resolve(1), 2]) out.push(x); return out", [1, 2]),
    (
        "outer: for (const a of [1, 2]) { for (const b of [1, 2]) { if (b === 2) continue outer; } } return 'done'",
        "done",
    ),
    ("for (let i = 0; ; i++) if (i > 3) return i", 4),
    ("switch (2) { case 1: return 'a'; case 2: return 'b' }", "b"),
    ("try { null.x } catch { return 'caught' } finally { }", "caught"),
    ("try { throw {code: 5} } catch ({code}) { return code }", 5),
    ("const o = {}; o.toString = () => 'mine'; return `${o}`", "mine"),
    (
        "return structuredClone({a: [new Date(0)], m: new Map([[1, 2]])})",
        {"a": ["1970-01-01T00:00:00.000Z"], "m": {"1": 2}},
    ),
    ("return new Date(0).toISOString().slice(0, 10)", "1970-01-01"),
    ("return typeof Math.random() + typeof Date.now()", "numbernumber"),
    ("return [1n + 2n, typeof 1n]", ["3", "bigint"]),
    # A forgotten await inside the result is awaited, not lost
    (
        "return {user: callTool('echo', {id: 1}), all: [callTool('text', {})]}",
        {"user": {"id": 1}, "all": ["just text"]},
    ),
    ("return [1, 2].map(async n => n + 1)", [2, 3]),
    # Calls nobody awaits are made all the same
    ("callTool('echo', {}); return 'sent'", "sent"),
    # Sanitizing
    (
        "return [new Date(5), /a/g, new Map([['k', 1]]), new Set([1]), 10n, undefined, () => 1, NaN, Infinity, -0]",
        ["1970-01-01T00:00:00.005Z", "/a/g", {"k": 1}, [1], "10", None, None, None, None, 0],
    ),
    ("return {f: () => 1, s: Symbol.iterator, u: undefined, n: null}", {"n": None}),
    ("const e = new TypeError('bad'); e.code = 'X'; return e", {"name": "TypeError", "message": "bad", "code": "X"}),
    ("const a = {}; a.self = a; return a", {"self": "[Circular]"}),
    ("const a = {n: 1}; return [a, a]", [{"n": 1}, {"n": 1}]),
    ('return JSON.parse(\'{"__proto__": 1, "ok": 2}\')', {"ok": 2}),
    ("return 'a\\u0000b'", "a\x00b"),
    ("return 'x\\ud800y'", "x\ufffdy"),
    ("class P { x = 1; get y() { return 2 } } return new P()", {"x": 1}),
    ("return {toJSON() { return 'said' }, a: 1}", "said"),
    (
        "class V { #v = 9.5; n = 1; toJSON() { return {value: this.#v} } }"
        "return [await callTool('echo', {v: new V()}), new V(), JSON.parse(JSON.stringify(new V()))]",
        [{"v": {"value": 9.5}}, {"value": 9.5}, {"value": 9.5}],
    ),
]


@pytest.mark.parametrize(("script", "expected"), PROGRAMS, ids=[script[:60] for script, _ in PROGRAMS])
async def test_program(enclave: Enclave, script: str, expected: object) -> None:
    result = await enclave.execute(script, tool_handler=answer, context={"user": {"id": 7}})
    assert result.error is None, result.error and result.error.as_dict()
    assert result.value == expected


async def test_get_tool_sees_what_may_be_called(enclave: Enclave) -> None:
    tools = [
        {"name": "users:list", "description": "Lists users", "inputSchema": {"type": "object"}, "outputSchema": None},
        {"name": "users:drop", "description": "Drops users"},
    ]
    result = await enclave.execute(
        "const n = ['users', 'list'].join(':');"
        "return [getTool(n), getTool('users:drop'), getTool('nope') === undefined]",
        tool_handler=answer,
        tools=tools,
        allowed_tools=["users:l*"],
    )
    assert result.value == [tools[0], None, True]


@pytest.mark.parametrize("value", ["{ toJSON() {} }", "{ toJSON: () => () => 1 }"])
async def test_a_to_json_that_gives_nothing_is_told(enclave: Enclave, value: str) -> None:
    why = "without a value: its toJSON gives none"
    result = await enclave.execute(f"console.log({value}); return {value}")
    assert (result.value, result.logs) == (None, ("undefined",))
    assert result.warnings == (f"JSON has no form for what is null, or left out, in the result: the result is {why}",)
    refused = await enclave.execute(f"await callTool('echo', {value})", tool_handler=answer)
    assert refused.error is not None
    assert refused.error.message == f"The input of callTool('echo', …) has what JSON cannot hold: it is {why}"


async def test_console_lines_arrive_in_order(enclave: Enclave) -> None:
    result = await enclave.execute(
        "console.log('a', {b: 1}, [2], null, undefined); await callTool('text', {}); console.warn('w');"
        "console.error(new RangeError('e')); return 1",
        tool_handler=answer,
    )
    assert result.logs == ('a {"b":1} [2] null undefined', "[warn] w", "[error] RangeError: e")


FLOODS: list[tuple[dict[str, int], str, list[str]]] = [
    (
        {"max_console_calls": 3},
        "for (let i = 0; i < 3; i++) console.log(i)",
        ["0", "1", "2"],
    ),
    (
        {"max_console_calls": 3},
        "console.log(0); await callTool('text', {}); for (let i = 1; i < 100; i++) console.error(i)",
        [
            "0",
            "[error] 1",
            "[error] 2",
            "[lines that are not here: 97; a script has room for 3 lines and 65,536 bytes]",
        ],
    ),
    (
        {"max_console_bytes": 64},
        "console.log('\u00e4'.repeat(12)); console.warn('\u00e4'.repeat(20)); console.log(1)",
        [
            "\u00e4" * 12,
            "[warn] \u00e4\u00e4… [a line of 47 bytes, cut]",
            "[lines that are not here: 1; a script has room for 100 lines and 64 bytes]",
        ],
    ),
    (
        {"max_console_bytes": 10},
        "console.log('x'.repeat(11)); [1, 2, 3].forEach(console.log)",
        ["[lines that are not here: 4; a script has room for 100 lines and 10 bytes]"],
    ),
]


@pytest.mark.parametrize(("limits", "script", "logs"), FLOODS, ids=[script for _, script, _ in FLOODS])
async def test_a_full_console_ends_no_script_and_says_what_is_missing(
    limits: dict[str, int], script: str, logs: list[str]
) -> None:
    async with Enclave("secure", **limits) as enclave:
        for ending, status in (("return 1", "ok"), ("throw new Error('no')", "runtime_error")):
            result = await enclave.execute(f"{script};\n{ending}", tool_handler=answer)
            assert (result.status, list(result.logs)) == (status, logs)


async def test_only_depth_and_cycles_are_replaced_in_a_result() -> None:
    async with Enclave("secure", sanitize_max_array=3, sanitize_max_string=20, sanitize_max_depth=3) as enclave:
        result = await enclave.execute(
            "const own = {}; own.self = own;"
            "const map = new Map([1, 2, 3, 4, 5].map((n) => [`k${n}`, n]));"
            "return {list: [1, 2, 3, 4, 5], text: 'x'.repeat(50), map, own, deep: {a: {b: {c: 1}}}}"
        )
    assert result.value == {
        "list": [1, 2, 3, 4, 5],
        "text": "x" * 50,
        "map": {f"k{n}": n for n in range(1, 6)},
        "own": {"self": "[Circular]"},
        "deep": {"a": {"b": {"__truncated": {"depth": 3}}}},
    }
    assert result.warnings == (
        "A mark stands in the result for a value that contains itself",
        "A mark stands in the result for nesting deeper than 3 levels",
    )


async def test_what_a_console_line_shows_of_a_large_value_is_shortened() -> None:
    limits = {"sanitize_max_array": 3, "sanitize_max_string": 20, "sanitize_max_properties": 2}
    async with Enclave("secure", **limits) as enclave:
        result = await enclave.execute("console.log([1, 2, 3, 4, 5], { text: 'x'.repeat(50), b: 1, c: 2 })")
    text = "x" * 20 + "…[truncated 30 characters]"
    assert result.logs == (
        '[1,2,3,{"__truncated":{"items":2}}] {"text":"' + text + '","b":1,"__truncated":{"properties":1}}',
    )


async def test_an_unawaited_call_that_fails_is_reported(enclave: Enclave) -> None:
    result = await enclave.execute("callTool('fails', {}); return 1", tool_handler=answer)
    assert result.value == 1
    assert any("upstream is down" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("script", "code", "steps"),
    [
        ("for (let i = 0; i < 30; i++) {}\nthrow new Error('x')", "EXECUTION_ERROR", 30),
        ("for (let i = 0; i < 1e9; i++) {}", "ITERATION_LIMIT", 5_001),
        ("for (let i = 0; i < 30; i++) {}\nawait new Promise(() => {})", "DEADLOCK", 31),
        ("for (let i = 0; i < 101; i++) await callTool('text', {})", "TOOL_CALL_LIMIT", 101),
        ("for (let i = 0; i < 30; i++) {}\nreturn Array(99).fill('x'.repeat(90_000))", "OUTPUT_LIMIT", 30),
    ],
)
async def test_the_steps_of_a_script_that_failed_are_all_counted(
    enclave: Enclave, script: str, code: str, steps: int
) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert result.error is not None
    assert (result.error.code, result.stats.steps) == (code, steps)


@pytest.mark.parametrize(
    "options",
    [
        "{ maxConcurency: 3 }",
        "{ maxConcurrency: 0 }",
        "{ maxConcurrency: -1 }",
        "{ maxConcurrency: '3' }",
        "{ maxConcurrency: 1.5 }",
        "3",
    ],
)
async def test_options_of_safe_parallel_that_mean_nothing_are_refused(enclave: Enclave, options: str) -> None:
    result = await enclave.execute(f"return __safe_parallel([() => 1], {options})", tool_handler=answer)
    assert result.error is not None
    assert "maxConcurrency" in result.error.message


@pytest.mark.parametrize("how", ["race", "any"])
async def test_a_call_that_lost_a_race_is_not_warned_of(how: str) -> None:
    async def tool(name: str, arguments: dict[str, Any]) -> str:
        await anyio.sleep_forever() if name == "slow" else None
        return name

    script = f"return Promise.{how}([callTool('slow', {{}}), callTool('quick', {{}})])"
    async with Enclave("secure", tool_call_timeout_ms=1_000) as enclave:
        result = await enclave.execute(script, tool_handler=tool)
        other = await enclave.execute(f"callTool('slow', {{}}); {script}", tool_handler=tool)
    assert (result.value, result.warnings) == ("quick", ())
    without, failed = other.warnings
    assert without.startswith("The script ended without the values of slow (line 1): not awaited")
    assert failed.startswith("slow (line 1) was not awaited, and failed")


NUMBERS = "const a = Array.from({ length: 12_000 }, (_, i) => i / 2); a[3] = NaN; a[4] = -0;"


@pytest.mark.parametrize("script", ["return a", "return { toJSON: () => a }", "a.toJSON = () => a; return a"])
async def test_a_long_list_of_numbers_is_the_list_it_was(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(f"{NUMBERS} {script}")
    numbers = [number / 2 for number in range(12_000)]
    numbers[4] = 0
    assert isinstance(result.value, list), result.error
    assert result.value[3] is None
    assert [*result.value[:3], 1.5, *result.value[4:]] == numbers


@pytest.mark.parametrize(
    ("input_", "problem"),
    [
        ("{ price: row.price * 1.1 }", "price is NaN"),
        ("{ rows: [{ n: 1 }, { n: 1 / 0 }] }", "rows[1].n is Infinity"),
        ("{ a: { each: () => 1, s: Symbol.iterator } }", "a.each is a function, a.s is a symbol"),
        ("{ due: new Date('someday') }", "due is an invalid date"),
        (
            "{ list: [[NaN]], m: new Map([['k', NaN]]), s: new Set([NaN]) }",
            "list[0][0] is NaN, m.k is NaN, s[0] is NaN",
        ),
        ("{ a: Array(8).fill(NaN) }", "a[0] is NaN, a[1] is NaN, a[2] is NaN, a[3] is NaN, a[4] is NaN and 3 more"),
    ],
)
async def test_an_input_that_json_cannot_hold_is_refused(enclave: Enclave, input_: str, problem: str) -> None:
    result = await enclave.execute(f"const row = {{}}; return await callTool('echo', {input_})", tool_handler=answer)
    assert result.error is not None
    assert result.error.message == f"The input of callTool('echo', …) has what JSON cannot hold: {problem}"
    assert result.calls == ()


@pytest.mark.parametrize(
    ("script", "value", "lost"),
    [
        ("return { n: NaN, f: () => 1, u: undefined }", {"n": None}, "n is NaN, f is a function"),
        ("return NaN", None, "the result is NaN"),
        ("return [1, () => 1]", [1, None], "[1] is a function"),
        ("return [() => 1]", [None], "[0] is a function"),
        ("return { a: [{ due: new Date('someday') }] }", {"a": [{"due": None}]}, "a[0].due is an invalid date"),
        (
            "const e = new Error('x'); e.code = NaN; return { e }",
            {"e": {"name": "Error", "message": "x", "code": None}},
            "e.code is NaN",
        ),
        ("return { a: undefined, b: 1, c: -0, d: 1e308 }", {"b": 1, "c": 0, "d": 1e308}, None),
    ],
)
async def test_what_json_cannot_hold_in_a_result_is_named(
    enclave: Enclave, script: str, value: object, lost: str | None
) -> None:
    result = await enclave.execute(script)
    assert result.value == value
    expected = [] if lost is None else [f"JSON has no form for what is null, or left out, in the result: {lost}"]
    assert list(result.warnings) == expected


async def test_numbers_that_are_none_in_a_long_list_are_named(enclave: Enclave) -> None:
    result = await enclave.execute(f"{NUMBERS} return {{ a }}")
    assert result.warnings == ("JSON has no form for what is null, or left out, in the result: a[3] is NaN",)


@pytest.mark.parametrize("change", ["a.push(a)", "a[0] = 1n", "a[0] = {}", "a.toJSON = () => 1"])
async def test_a_list_that_changes_while_the_result_is_read(enclave: Enclave, change: str) -> None:
    result = await enclave.execute(f"{NUMBERS} return {{ a, get b() {{ {change}; return 1 }} }}")
    assert result.error is not None
    assert (result.error.code, result.error.message) == (
        "EXECUTION_ERROR",
        "A list in the result changed while the result was read",
    )


async def test_as_many_numbers_leave_as_there_are_bytes_for() -> None:
    """The heap holds no copy of them beside the text."""
    limits = {"timeout_ms": 60_000, "max_steps": 10**8, "max_result_bytes": 16 * 2**20}
    async with Enclave("secure", **limits, pool={"max_workers": 1}) as own:
        result = await own.execute("return Array.from({ length: 2_000_000 }, (_, i) => 1_000_000 + i)")
    assert isinstance(result.value, list), result.error
    assert (len(result.value), result.value[-1]) == (2_000_000, 2_999_999)


@pytest.mark.parametrize(
    ("entries", "value", "why"),
    [("[[1, 'a'], ['1', 'b']]", {"1": "b"}, "the same as texts"), ("[[{}, 2]]", {"[Object 1]": 2}, "objects")],
)
async def test_keys_of_a_map_that_json_cannot_hold_are_told(
    enclave: Enclave, entries: str, value: object, why: str
) -> None:
    result = await enclave.execute(f"return {{ m: new Map({entries}) }}", tool_handler=answer)
    assert result.value == {"m": value}
    assert result.warnings[0].endswith(f"in the result: m is a Map with keys that are {why}")
    refused = await enclave.execute(f"await callTool('echo', {{ m: new Map({entries}) }})", tool_handler=answer)
    assert refused.error is not None
    assert f"has what JSON cannot hold: m is a Map with keys that are {why}" in refused.error.message


ITERATORS = [
    ("return new Map([['a', 1], ['b', 2]]).keys()", ["a", "b"]),
    ("return { e: new Map([['a', 1]]).entries() }", {"e": [["a", 1]]}),
    ("return new Set([3]).values()", [3]),
    ("return [[7, 8].entries(), 'ab'[Symbol.iterator]()]", [[[0, 7], [1, 8]], ["a", "b"]]),
    ("function* g() { yield 1; yield* [2, undefined]; return 9 } return g()", [1, 2, None]),
    (
        "const v = new Map([['a', callTool('echo', { n: 1 })]]).values(); return { v, w: v }",
        {"v": [{"n": 1}], "w": [{"n": 1}]},
    ),
    ("const v = [1, 2, 3].values(); v.next(); return v", [2, 3]),
    (
        "const m = new Map([['a', 1]]); return await callTool('echo', { rows: [{ keys: m.keys() }] })",
        {"rows": [{"keys": ["a"]}]},
    ),
    ("return [new Number(5), new Boolean(false), new String('ab')]", [5, False, "ab"]),
]


@pytest.mark.parametrize(("script", "value"), ITERATORS, ids=[script[:60] for script, _ in ITERATORS])
async def test_an_iterator_leaves_a_script_as_the_list_of_its_values(
    enclave: Enclave, script: str, value: object
) -> None:
    result = await enclave.execute(script, tool_handler=answer)
    assert (result.error, result.value, result.warnings) == (None, value, ())


async def test_printing_an_iterator_takes_nothing_from_it(enclave: Enclave) -> None:
    result = await enclave.execute("const v = new Map([['a', 1]]).values(); console.log(v); return [...v]")
    assert (result.value, result.logs) == ([1], ('"[an iterator: write [...x] for its values]"',))


LOST = [
    ("(async function* () { yield 1; })()", "an async generator: collect its values with `for await"),
    ("Object.assign([], { total: 1 })", "an array without items, but with properties: begin with `{}`"),
    ("Object.assign(new Map([['a', 1]]), { b: 2 })", "a Map with properties, which are not in it: write `.set(…)`"),
    ("Object.assign(new Set(), { b: 2 })", "a Set with properties, which are not in it: write `.add(…)`"),
]


@pytest.mark.parametrize(("value", "why"), LOST, ids=[value for value, _ in LOST])
async def test_what_a_value_loses_on_its_way_out_is_told(enclave: Enclave, value: str, why: str) -> None:
    result = await enclave.execute(f"return {{ rows: {value} }}", tool_handler=answer)
    assert len(result.warnings) == 1
    assert f"in the result: rows is {why}" in result.warnings[0]
    refused = await enclave.execute(f"await callTool('echo', {{ rows: {value} }})", tool_handler=answer)
    assert refused.error is not None
    assert f"has what JSON cannot hold: rows is {why}" in refused.error.message


async def test_the_groups_of_a_match_are_no_loss(enclave: Enclave) -> None:
    result = await enclave.execute("return 'a1'.matchAll(/(?<digit>\\d)/g)")
    assert (result.value, result.warnings) == ([["1", "1"]], ())


SORTED = [
    ("return [3, 10, 9].sort()", "Numbers were sorted as texts"),
    ("return [3, 10, 9].toSorted()[0]", "Numbers were sorted as texts"),
    ("return [3, 10, 9].sort((a, b) => a > b)", "`.sort()` on line 1 gives true or false, which does not sort"),
    ("return [3, 10, 9].toSorted((a, b) => b < a)", "`.toSorted()` on line 1 gives true or false"),
]


@pytest.mark.parametrize(("script", "warning"), SORTED)
async def test_what_does_not_sort_is_told(enclave: Enclave, script: str, warning: str) -> None:
    result = await enclave.execute(script)
    assert len(result.warnings) == 1
    assert warning in result.warnings[0]


@pytest.mark.parametrize(
    "script",
    [
        "return [1, 3, 2].sort()",
        "return ['b', 'a', '10', '9'].sort()",
        "return [10, 'a', 9].sort()",
        "return [3, 10, 9].sort((a, b) => a - b)",
        "return ['b', 'a'].sort((a, b) => (a > b ? 1 : -1))",
        "return [3, 10].sort((a, b) => (a > b) - (a < b))",
        "return [].sort()",
    ],
)
async def test_what_sorts_is_not_warned_of(enclave: Enclave, script: str) -> None:
    assert (await enclave.execute(script)).warnings == ()
