"""What the guard tells of a script's calls: names, what is known of their input, and which failures are its own."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from codecall.sandbox.agentscript.analysis.calls import build_plan, build_report
from codecall.sandbox.agentscript.checked import InvalidScriptError, ScriptOutline
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript
from codecall.sandbox.agentscript.validator.names import NamespaceInfo
from codecall.sandbox.wire import MAX_LISTED, MAX_SITES, read_report
from codecall.schema.partial import MAX_VALUES, PartialArray, PartialInput, PartialInputError, PartialObject, Unknown
from tests.work import python_steps

EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)


def find_namespaces(names: Sequence[str]) -> dict[str, NamespaceInfo]:
    """Two namespaces."""
    namespaces = {"users": NamespaceInfo(members={"list": "users:list"}), "github": NamespaceInfo(members={})}
    return {name: namespaces[name] for name in names if name in namespaces}


def outline(script: str) -> ScriptOutline:
    """What a script is made of, refused or not."""
    try:
        return validate_javascript(script, EVERYTHING, find_namespaces=find_namespaces).outline
    except InvalidScriptError as error:
        if error.outline is None:
            raise
        return error.outline


def partial_input(literal: str) -> object:
    """What is known of an input."""
    (site,) = outline(f"return await callTool('t', {literal})").calls
    return None if site.partial_input is None else PartialInput.from_json(json.loads(site.partial_input)).value


VALUES: list[tuple[str, object]] = [
    ("{}", {}),
    ("undefined", {}),
    ("null", {}),
    ("{ a: 1, b: 'two', c: true, d: null, e: 1.5 }", {"a": 1, "b": "two", "c": True, "d": None, "e": 1.5}),
    ("{ a: -1, b: +2, c: 0x10, d: 1e3, e: -0 }", {"a": -1, "b": 2, "c": 16, "d": 1000, "e": 0}),
    ("{ a: 1e400, b: 2 ** 60, c: 9007199254740993 }", {"a": None, "b": Unknown.PRESENT, "c": Unknown.PRESENT}),
    ("{ a: 5n, b: /x/g, c: new Date(0), d: !x }", dict.fromkeys("abcd", Unknown.PRESENT)),
    ("{ a: `t`, b: 'x' + 'y', c: `a${'b'}`, d: `a${x}` }", {"a": "t", "b": "xy", "c": "ab", "d": Unknown.PRESENT}),
    ("{ a: undefined, b: () => 1, c() {}, d: function () {}, e: class {}, f: void 0 }", {}),
    ("{ a: x, x, b: x.y, c: f(), d: x ? 1 : 2, e: x ?? 1, f: await x }",
     dict.fromkeys(("a", "x", "b", "c", "d", "e", "f"), Unknown.MAYBE_ABSENT)),
    ("{ a: 1, ...x, b: 2 }", PartialObject(a=Unknown.MAYBE_ABSENT, b=2)),
    ("{ a: 1, [x]: 2, ['b']: 3 }", PartialObject(a=Unknown.MAYBE_ABSENT, b=3)),
    ("{ 'a-b': 1, 5: 2 }", PartialObject({"a-b": Unknown.MAYBE_ABSENT})),
    ("{ a: 1, a: undefined }", {}),
    ("{ a: [1, , undefined, () => 1, x, 'y'] }", {"a": [1, None, None, None, Unknown.PRESENT, "y"]}),
    ("{ a: [1, ...x, 2] }", {"a": PartialArray([1, 2])}),
    ("{ a: { b: [{ c: x }] } }", {"a": {"b": [{"c": Unknown.MAYBE_ABSENT}]}}),
    ("{ a: '\\ud800', b: '" + "x" * 10_001 + "' }", dict.fromkeys("ab", Unknown.PRESENT)),
    ("{ '\\ud800': 1 }", PartialObject()),
    ("x", None),
    ("[]", None),
    ("'text'", None),
    ("new Map()", None),
    ("...x", None),
    ("{ a: [" + "1," * MAX_VALUES + "] }", None),
    ("{ a: [" + "," * MAX_VALUES + "] }", None),
    ("{ " + "get a() { return 1 },\n" * MAX_VALUES + " b: 1 }", None),
]  # fmt: skip


@pytest.mark.parametrize(("literal", "value"), VALUES, ids=[literal[:40] for literal, _ in VALUES])
def test_what_is_known_of_an_input(literal: str, value: object) -> None:
    result = partial_input(literal)
    assert result == value
    assert type(result) is type(value)


def test_a_worker_knows_no_more_than_a_script_says() -> None:
    gaps: list[list[int]] = [[]]
    many: list[list[object]] = [[3, [0] * MAX_VALUES], [3, gaps * MAX_VALUES]]
    for full in many:
        with pytest.raises(PartialInputError):
            PartialInput.from_json([1, {"a": [0, full]}])
    assert PartialInput.from_json([1, {"a": [0, [3, [0] * (MAX_VALUES - 1)]]}])


SURE = [
    "return await callTool('t', {})",
    "await callTool('t', {}); return 1",
    "const a = await callTool('t', {}); return a",
    "return callTool('t', {})",
    "callTool('t', {})",
    "return await Promise.all([callTool('t', {}), 1])",
    "const [a] = await Promise.all([callTool('t', {})]); try { a.b() } catch { }",
    "async function main() { return await callTool('t', {}) }\nreturn main()",
    "const main = async () => callTool('t', {});\nreturn await main()",
    "async () => callTool('t', {})",
    "try { await x() } catch { }\nasync function x() {}\nreturn await callTool('t', {})",
    "return await tools['t']({})",
    "return await tools.t({})",
    "const { a } = await callTool('t', {});\nif (a) { return 1 }\nreturn 2",
    "return (await callTool('t', {})).items.map((item) => item.id)",
    "const a = (await callTool('t', {}))?.a ?? [];\nreturn a",
    "let a;\na = await callTool('t', {});\nreturn a",
    "const a = { b: [await callTool('t', {})], ...rest };\nreturn a",
    "for (const item of await callTool('t', {})) { console.log(item) }",
    "if (await callTool('t', {})) { return 1 }",
    "{ await callTool('t', {}) }\nreturn 1",
    "return (async () => { await callTool('t', {}) })()",
    "(async () => { return await callTool('t', {}) })()",
    (
        "async function get() { return callTool('t', {}) }\n"
        "async function main() { const a = await get(); return a }\nmain()"
    ),
    "const helper = (x) => { if (x) { return 1 } throw new Error('no') };\nreturn await callTool('t', {})",
    "return await Promise.all([main(), 1]);\nasync function main() { await callTool('t', {}) }",
    "return codecallContext.f(await callTool('t', {}))",
]
"""Where every run gets to the call, and a wrong input is its failure."""

NOT_SURE = [
    "try { return await callTool('t', {}) } catch { return 1 }",
    "try { return await callTool('t', {}) } finally { console.log(1) }",
    "try { return 1 } catch { return await callTool('t', {}) }",
    "return await callTool('t', {}, { throwOnError: false })",
    "return await callTool('t', {}, undefined)",
    "return await callTool(...['t', {}])",
    "return await callTool('t', {}).catch(() => 1)",
    "return await callTool('t', {}).then((x) => x, () => 1)",
    "return await callTool('t', {})['catch'](() => 1)",
    "return await Promise.allSettled([callTool('t', {})])",
    "return await Promise.any([callTool('t', {}), 1])",
    "return await Promise.race([callTool('t', {}), 1])",
    "const p = callTool('t', {});\ntry { await p } catch { }",
    "async function main() { return callTool('t', {}) }\ntry { return await main() } catch { return 1 }",
    "async function main() { return callTool('t', {}) }\nreturn main().catch(() => 1)",
    "const how = 'catch';\nreturn callTool('t', {})[how](() => 1)",
    "if (codecallContext.a) { await callTool('t', {}) }",
    "if (codecallContext.a) { return 1 } else { return callTool('t', {}) }",
    "return codecallContext.a ? callTool('t', {}) : 1",
    "return codecallContext.a && (await callTool('t', {}))",
    "return codecallContext.a ?? (await callTool('t', {}))",
    "let a; a ??= await callTool('t', {}); return a",
    "switch (1) { case 2: await callTool('t', {}) }",
    "const { a = await callTool('t', {}) } = { a: 1 }; return a",
    "const f = null; f?.(await callTool('t', {}))",
    "return 1; callTool('t', {})",
    "async function idle() { return callTool('t', {}) }\nreturn 1",
    "const idle = async () => callTool('t', {});\nreturn 1",
    "const idle = callTool('t', {});\nreturn 1",
    "callTool('t', {}); return 1",
    "void callTool('t', {}); return 1",
    "callTool('t', {}).then((x) => x); return 1",
    "[1].forEach(async () => { await callTool('t', {}) }); return 1",
    "const schema = getTool('t');\nreturn await callTool('t', {})",
    "if ('t' in tools) { await tools.t({}) }",
    "const users = [];\nif (users.length) { return 1 }\nreturn await callTool('t', {})",
    "return await __safe_parallel([() => callTool('t', {})])",
    "return callTool('t', {}).then((x) => x)",
    "for (const x of [1]) { await callTool('t', { x }) }",
    "return await Promise.all([1, 2].map((n) => callTool('t', { n })))",
    "class A { async m(){ return callTool('t', {}) } async n(){ return 3 } }; return await new A().n()",
    "function* g(){ yield callTool('t', {}) } const it=g(); return 1",
    "async function f(a, b=async()=>callTool('t', {})){ return 1 } return f()",
    "const p = callTool('t', {}); console.log(typeof p); return 1",
    "const p = callTool('t', {}); return typeof p",
    "const p = [callTool('t', {})]; return p.length",
    "let p; p = callTool('t', {}); return 1",
    "const o={p:callTool('t', {})}; return Object.keys(o)",
    "switch (1) { case 2: { await callTool('t', {}) } } return 1",
    "a: { break a; } b: { if (true) break b; await callTool('t', {}) } return 1",
    "const f=(callTool)=>callTool('t', {}); return f(()=>3)",
    "return await Promise.all([callTool('t', {})]).then(x=>x, e=>1)",
    "return await callTool('t', {}).then(x=>x).finally(()=>1)",
    "const f = async () => { await callTool('t', {}) }; f(); return 1",
    "const f = async () => { await callTool('t', {}) }; return typeof f",
    "async function main(){ await callTool('t', {}) } main(); return 1",
    "async function main(){ await callTool('t', {}); return 1 } return Promise.race([main(), 1])",
    (
        "async function main(){ await callTool('t', {}); return 1 } const r=await "
        "__safe_parallel([main]).then(x=>x); return r"
    ),
    "return [1].includes(callTool('t', {}))",
    "!callTool('t', {}); return 1",
    "callTool('t', {}), 1; return 1",
    "for (const x of [callTool('t', {})]) { break } return 1",
    "const m=new Map(); m.set('a', callTool('t', {})); return m.size",
    "const items=[]; items.push(callTool('t', {})); return items.length",
    "async function* g(){ yield await callTool('t', {}) } for await (const x of g()) { } return 1",
    "const f=async(n)=>{ if(n) return 1; return callTool('t', {}) }; return f(1)",
    "class A { static x = 1; y = callTool('t', {}) } return A.x",
    (
        "const a = await other(); async function other() { return 1 } function idle() { return "
        "callTool('t', {}) } return a"
    ),
    "if (codecallContext.a) { return 1 }\nawait callTool('t', {})",
    "if (codecallContext.a) throw new Error('no');\nreturn await callTool('t', {})",
    "for (const x of codecallContext.a) { if (x) { return x } }\nreturn await callTool('t', {})",
    "{ if (codecallContext.a) { return 1 } }\nreturn await callTool('t', {})",
    "{ if (codecallContext.a) { return 1 }\nawait callTool('t', {}) }",
    "try { if (codecallContext.a) return 1 } catch { }\nreturn await callTool('t', {})",
    (
        "async function main() { if (codecallContext.a) { return 1 }\nreturn await callTool('t', {}) }\n"
        "return await main()"
    ),
    "const main = async () => { for (const x of codecallContext.a) { await callTool('t', {}) } };\nawait main()",
    (
        "async function main() { return await callTool('t', {}) }\n"
        "async function outer() { const main = async () => 1; return await main() }\nreturn await outer()"
    ),
    "let main = async () => callTool('t', {});\nmain = async () => 1;\nreturn await main()",
    "async function main() { return callTool('t', {}) }\nmain = async () => 1;\nreturn await main()",
    "async function main() { return callTool('t', {}) }\nvar main = async () => 1;\nreturn await main()",
    "async function main() { return 1 }\nasync function main() { return callTool('t', {}) }\nreturn await main()",
    "const more = await codecallContext.a?.(await callTool('t', {}))",
    "const main = async () => callTool('t', {});\nawait main?.()",
    "await codecallContext.f(() => callTool('t', {}))",
    "const Promise2 = { all: () => 1 };\nreturn await Promise2.all([callTool('t', {})])",
    "return [callTool('t', {})]",
    "const a = callTool('t', {});\nreturn await a",
    "async function* main() { await callTool('t', {}) }\nreturn await main()",
    "return 1;\nasync function main() { return callTool('t', {}) }",
    "'use strict';\nconst a = 1;\nasync () => callTool('t', {})",
    "for (;;) { break }\nawait callTool('t', {})",
    "while (codecallContext.a) { await callTool('t', {}) }",
    "await Promise.all([() => callTool('t', {})])",
    "(async () => { await callTool('t', {}) })();\nreturn 1",
]
"""Where the script deals with the failure or does not wait for it, or decides whether to call."""


@pytest.mark.parametrize("script", SURE)
def test_a_wrong_input_is_the_failure_of_the_script(script: str) -> None:
    assert [site.certain for site in outline(script).calls] == [True]
    assert build_plan(outline(script)) is not None


@pytest.mark.parametrize("script", NOT_SURE)
def test_the_script_has_its_own_way(script: str) -> None:
    assert not any(site.certain for site in outline(script).calls)
    assert build_plan(outline(script)) is None


NAMES: list[tuple[str, list[tuple[str, str, str | None]], bool]] = [
    ("callTool('a'); readResource('b://c'); getPrompt('d')",
     [("tool", "a", None), ("resource", "b://c", None), ("prompt", "d", None)], False),
    ("callTool('a' + 'b'); callTool(`c`)", [("tool", "ab", None), ("tool", "c", None)], False),
    ("callTool(codecallContext.name)", [], True),
    ("const call = callTool; call('a')", [], True),
    ("['a'].map((name) => callTool(name))", [], True),
    ("[{}].map(callTool)", [], True),
    ("callTool()", [], True),
    ("users.list(); users.get(); github.issues.create()",
     [("tool", "users:list", None), ("tool", "get", "users"), ("tool", "create", "github.issues")], False),
    ("tools['a b'](); tools.c(); tools.users.list()",
     [("tool", "a b", ""), ("tool", "c", ""), ("tool", "list", "users")], False),
    ("const f = users.list; f(); users[codecallContext.a]()", [], True),
    ("const users = { list: () => 1 }; users.list()", [], False),
    ("const tools = { a: () => 1 }; tools.a()", [], False),
    ("Math.max(1); 'a'.at(0)", [], False),
    ("eval('x'); callTool('a')", [("tool", "a", None)], False),
]  # fmt: skip


@pytest.mark.parametrize(("script", "calls", "computed"), NAMES, ids=[script for script, _, _ in NAMES])
def test_what_is_called(script: str, calls: list[tuple[str, str, str | None]], computed: bool) -> None:
    result = outline(script)
    assert [(site.kind, site.name, site.namespace) for site in result.calls] == calls
    assert result.has_computed_names is computed


def test_places_are_those_of_the_script_as_sent() -> None:
    script = "const ü = '😀';\n  return await callTool('t', { ü, b: 1 })"
    (site,) = outline(script).calls
    assert script[site.start :].startswith("callTool")
    assert site.partial_input is not None
    read = PartialInput.from_json(json.loads(site.partial_input))
    assert [script[offset] for offset in read.offsets.values()] == ["ü", "b"]


def test_only_so_many_calls_are_looked_at() -> None:
    script = "await callTool('t', { a: 1 });\n" * (MAX_SITES + 50)
    plan = build_plan(outline(script))
    assert plan is not None
    assert len(plan.sites) == MAX_SITES


def test_only_so_much_is_told_of_a_script() -> None:
    report = read_report(build_report(outline("callTool('t');" * (MAX_LISTED + 7) + "for (;;) {}")))
    assert (len(report.calls), report.more_calls, len(report.loops)) == (MAX_LISTED, 7, 1)


@pytest.mark.parametrize(
    "script",
    [
        "await callTool('t', {a:{b:[1,2,{c:3}]}});\n" * 125,
        "f(" * 20 + "callTool('t'),\n" * 325 + "1" + ")" * 20,
        "".join(f"callTool('t{n}',{{}}).then(x=>" for n in range(30)) + "1" + ")" * 30,
        "callTool('t', {" + "a:1,\n" * 1_000 + "})",
        "if(1){}else\n" * 625 + "callTool('t',{})",
    ],
)
def test_a_large_script_is_read_in_little_more_time(script: str) -> None:
    result = outline(script)
    assert result.calls
    reading = python_steps(lambda: outline(script))
    assert python_steps(lambda: (build_plan(result, dry_run=True), build_report(result))) < reading
