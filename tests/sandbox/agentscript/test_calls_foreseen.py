"""What the guard tells of a script's calls: names, what is known of their input, and which failures are its own."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest

from codecall.sandbox.agentscript.guard import Refused, check
from codecall.sandbox.agentscript.literals import MAX_VALUES
from codecall.sandbox.agentscript.outlining import plan_of, report_of
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.sites import Outline
from codecall.sandbox.agentscript.spaces import Space
from codecall.sandbox.known import Gap, Known, Partial, Some
from codecall.sandbox.wire import MAX_LISTED, MAX_SITES, read_report

EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)


def spaces(names: Sequence[str]) -> dict[str, Space]:
    """Two namespaces."""
    known = {"users": Space(members={"list": "users:list"}), "github": Space(members={})}
    return {name: known[name] for name in names if name in known}


def outline(script: str) -> Outline:
    """What a script is made of, refused or not."""
    try:
        return check(script, EVERYTHING, spaces=spaces).outline
    except Refused as refused:
        if refused.outline is None:
            raise
        return refused.outline


def known(literal: str) -> object:
    """What is known of an input."""
    (site,) = outline(f"return await callTool('t', {literal})").calls
    return None if site.known is None else Known.read(json.loads(site.known)).value


VALUES: list[tuple[str, object]] = [
    ("{}", {}),
    ("undefined", {}),
    ("null", {}),
    ("{ a: 1, b: 'two', c: true, d: null, e: 1.5 }", {"a": 1, "b": "two", "c": True, "d": None, "e": 1.5}),
    ("{ a: -1, b: +2, c: 0x10, d: 1e3, e: -0 }", {"a": -1, "b": 2, "c": 16, "d": 1000, "e": 0}),
    ("{ a: 1e400, b: 2 ** 60, c: 9007199254740993 }", {"a": None, "b": Gap.PRESENT, "c": 9007199254740992}),
    ("{ a: 5n, b: /x/g, c: new Date(0), d: !x }", dict.fromkeys("abcd", Gap.PRESENT)),
    ("{ a: `t`, b: 'x' + 'y', c: `a${'b'}`, d: `a${x}` }", {"a": "t", "b": "xy", "c": "ab", "d": Gap.PRESENT}),
    ("{ a: undefined, b: () => 1, c() {}, d: function () {}, e: class {}, f: void 0 }", {}),
    ("{ a: x, x, b: x.y, c: f(), d: x ? 1 : 2, e: x ?? 1, f: await x }",
     dict.fromkeys(("a", "x", "b", "c", "d", "e", "f"), Gap.PERHAPS)),
    ("{ a: 1, ...x, b: 2 }", Partial(a=Gap.PERHAPS, b=2)),
    ("{ a: 1, [x]: 2, ['b']: 3 }", Partial(a=Gap.PERHAPS, b=3)),
    ("{ 'a-b': 1, 5: 2 }", Partial({"a-b": Gap.PERHAPS})),
    ("{ a: 1, a: undefined }", {}),
    ("{ a: [1, , undefined, () => 1, x, 'y'] }", {"a": [1, None, None, None, Gap.PRESENT, "y"]}),
    ("{ a: [1, ...x, 2] }", {"a": Some([1, 2])}),
    ("{ a: { b: [{ c: x }] } }", {"a": {"b": [{"c": Gap.PERHAPS}]}}),
    ("{ a: '\\ud800', b: '" + "x" * 10_001 + "' }", dict.fromkeys("ab", Gap.PRESENT)),
    ("{ '\\ud800': 1 }", Partial()),
    ("x", None),
    ("[]", None),
    ("'text'", None),
    ("new Map()", None),
    ("...x", None),
    ("{ a: [" + "1," * MAX_VALUES + "] }", None),
]  # fmt: skip


@pytest.mark.parametrize(("literal", "value"), VALUES, ids=[literal[:40] for literal, _ in VALUES])
def test_what_is_known_of_an_input(literal: str, value: object) -> None:
    found = known(literal)
    assert found == value
    assert type(found) is type(value)


SURE = [
    "return await callTool('t', {})",
    "await callTool('t', {}); return 1",
    "const a = await callTool('t', {}); return a",
    "return callTool('t', {})",
    "callTool('t', {})",
    "return await Promise.all([callTool('t', {}), 1])",
    "const [a] = await Promise.all([callTool('t', {})]); try { a.b() } catch { }",
    "return await Promise.all([1, 2].map((n) => callTool('t', { n })))",
    "for (const x of [1]) { await callTool('t', { x }) }",
    "async function main() { return await callTool('t', {}) }\nreturn main()",
    "const main = async () => callTool('t', {});\nreturn await main()",
    "async () => callTool('t', {})",
    "return callTool('t', {}).then((x) => x)",
    "return await __safe_parallel([() => callTool('t', {})])",
    "try { await x() } catch { }\nasync function x() {}\nreturn await callTool('t', {})",
    "const users = [];\nif (users.length) { return 1 }\nreturn await callTool('t', {})",
    "return await tools['t']({})",
    "return await tools.t({})",
]
"""Where a wrong input is the script's failure, if the call is made."""

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
]
"""Where the script deals with the failure, or decides whether to call."""


@pytest.mark.parametrize("script", SURE)
def test_a_wrong_input_is_the_failure_of_the_script(script: str) -> None:
    assert [site.sure for site in outline(script).calls] == [True]
    assert plan_of(outline(script)) is not None


@pytest.mark.parametrize("script", NOT_SURE)
def test_the_script_has_its_own_way(script: str) -> None:
    assert not any(site.sure for site in outline(script).calls)
    assert plan_of(outline(script)) is None


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
    found = outline(script)
    assert [(site.kind, site.name, site.space) for site in found.calls] == calls
    assert found.computed is computed


def test_places_are_those_of_the_script_as_sent() -> None:
    script = "const ü = '😀';\n  return await callTool('t', { ü, b: 1 })"
    (site,) = outline(script).calls
    assert script[site.start :].startswith("callTool")
    assert site.known is not None
    read = Known.read(json.loads(site.known))
    assert [script[offset] for offset in read.places.values()] == ["ü", "b"]


def test_only_so_many_calls_are_looked_at() -> None:
    script = "await callTool('t', { a: 1 });\n" * (MAX_SITES + 50)
    plan = plan_of(outline(script))
    assert plan is not None
    assert len(plan.sites) == MAX_SITES


def test_only_so_much_is_told_of_a_script() -> None:
    report = read_report(report_of(outline("callTool('t');" * (MAX_LISTED + 7) + "for (;;) {}")))
    assert (len(report.calls), report.more_calls, len(report.loops)) == (MAX_LISTED, 7, 1)


@pytest.mark.parametrize(
    "script",
    [
        "await callTool('t', {a:{b:[1,2,{c:3}]}});\n" * 1_500,
        "f(" * 20 + "callTool('t'),\n" * 4_000 + "1" + ")" * 20,
        "".join(f"callTool('t{n}',{{}}).then(x=>" for n in range(30)) + "1" + ")" * 30,
        "callTool('t', {" + "a:1,\n" * 12_000 + "})",
        "if(1){}else\n" * 2_500 + "callTool('t',{})",
    ],
)
def test_a_large_script_is_read_in_little_more_time(script: str) -> None:
    began = time.process_time()
    found = outline(script)
    took = time.process_time() - began
    assert found.calls
    began = time.process_time()
    plan_of(found, dry_run=True)
    report_of(found)
    assert time.process_time() - began < 0.5
    assert took < 8
