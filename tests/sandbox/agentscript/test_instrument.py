"""Counting is invisible: an instrumented program gives what the plain one gives, and places map back exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest
import quickjs
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.sandbox.agentscript.instrument import FIRST_LINE, InstrumentedScript, instrument, runnable_lines
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript

ALL = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
MANY = 2**31 - 1


def instrumented(script: str, *, coverage: bool = False) -> InstrumentedScript:
    return instrument(script, validate_javascript(script, ALL, coverage=coverage), max_iterations=MANY)


def finish(engine: Any) -> Any:
    while engine.execute_pending_job():
        pass
    settled = engine.get("settled")
    return None if settled is None else json.loads(settled)


SETTLE = (
    ".then(v => { settled = JSON.stringify(['ok', v ?? null]) }, e => { settled = JSON.stringify(['no', String(e)]) })"
)


def run_plain(script: str) -> Any:
    engine = quickjs.Context()
    engine.eval("var settled = null")
    engine.eval(f'"use strict";(async()=>{{{script}\n}})(){SETTLE}')
    return finish(engine)


def run_counted(script: str, *, coverage: bool = False) -> tuple[Any, int]:
    engine = quickjs.Context()
    engine.eval("var settled = null; var parts")
    engine.eval("tick = s => s + 10; limit = () => { throw new Error('limit') }; caught = () => {}")
    engine.eval("lines = []; ran = line => { lines.push(line) }")
    program = instrumented(script, coverage=coverage)
    engine.eval(f"parts = {program.text}(tick, limit, caught, x => x, x => x, ran); parts[3](){SETTLE}")
    return finish(engine), engine.eval("parts[0]()")


def lines_that_ran(script: str) -> list[int]:
    engine = quickjs.Context()
    engine.eval("var settled = null; lines = []; tick = s => s + 10; caught = () => {}")
    program = instrumented(script, coverage=True)
    engine.eval("same = x => x; ran = line => { lines.push(line) }")
    engine.eval(f"parts = {program.text}(tick, tick, caught, same, same, ran); parts[3](){SETTLE}")
    finish(engine)
    return json.loads(engine.eval("JSON.stringify(lines)"))


PROGRAMS = [
    "const t = {a: () => 1}; const k = 'a', n = 'b'; return [`x${t[k]?.()}`, `x${t[n]?.()}`, String(t[n]?.())]",
    "const m = new Map([['a', () => ({x: 1})]]); const k = 'a'; return `v ${m.get(k)?.().x}`",
    # Lookups that find nothing: what is inserted for them neither goes on with the line before nor reads a table again.
    "const byId = {a: 1}\nconst k = 'b'\nlet x = k\nbyId[k] + 'abc'\nreturn [x]",
    "const byId = {a: 1}\nconst f = v => 'called'\nlet x = f\nbyId['b' + ''] + 'abc'\nreturn typeof x",
    "let n = 0; const o = {get t() { n++; return {a: 1} }}; const k = 'x'; const s = `v ${o.t[k]}`; return [n, s]",
    "const out = []; for (let i = 0; i < 3; i++) out.push(i); return out",
    "const o = []; for (const a of [1, 2]) for (const b of [3, 4]) if (a + b > 4) o.push([a, b]); else ; return o",
    "let n = 0; a: for (;;) { b: for (;;) { if (++n > 5) break a; continue a } } return n",
    "let n = 0; do n++; while (n < 4); if (n) do n--; while (n > 2); else n = 9; return n",
    "let n = 0; while (n < 3) { n++ } return n",
    "const f = x => y => ({x, y}); return f(1)(2)",
    "const f = x => (x, 5); const g = x => (x) + (1); const h = (x) => [x]; return [f(1), g(2), h(3)]",
    "const f = async x => await x; const g = async (x) => { return x }; return [await f(1), await g(2)]",
    "const f = x => x ? y => y : z => -z; return [f(1)(2), f(0)(3)]",
    "const t = [1, 2].map(x => x * 2).filter((x) => x > 2); return t",
    "class A { constructor(x) { this.x = x } get y() { return this.x } static z() { return 1 } m = () => this.x } "
    "class B extends A { constructor() { super(4) } } const b = new B(); return [b.y, A.z(), b.m()]",
    "class S { static n = 1; static { S.n = 2 } } return S.n",
    "function* g() { for (let i = 0; i < 3; i++) yield i } return [...g()]",
    "const o = { m() { return 1 }, get p() { return 2 }, ['q']: () => 3 }; return [o.m(), o.p, o.q()]",
    "try { throw new Error('a') } catch (e) { return e.message }",
    "try { throw new Error('a') } catch { return 1 } finally { }",
    "function f() { try { return 1 } finally { n++ } } let n = 0; return [f(), n]",
    "try { try { throw new Error('inner') } finally { } } catch (e) { return e.message }",
    "try { throw {a: [1, 2]} } catch ({a: [x, y], b = 3}) { return [x, y, b] }",
    "function f() { 'use strict'; return 1 }\nreturn f()",
    "switch (1) { case 1: for (const x of [1]) return x; default: }",
    "const s = `a${[1].map(x => `${x}`)}b`; return s",
    "const f = ({a = () => 1} = {}, [b] = [2]) => a() + b; return f()",
    "const t = {a: 'b'}; const f = k => t[k]; "
    "const g = (k) => { return t?.[k] }; return `${f('a')} ${g('x')} ${t[`a`]}`",
    "const m = new Map([[1, {n: 2, f() { return this.n }}]]); const k = 1; "
    "return ['' + m.get(k)?.f() + m.get((k))?.n, `${m.get(k + 1)?.n.x}`, `${await m.get(k)?.f()}`]",
    "const t = {a: {b: null}}, o = {}; let k = 'a'; o[t[k]?.c?.d] = 2; (o[t[(k)].b] ??= []).push?.(3); "
    "const n = t[k = 'z']; o[n] = 4; return [k, o, {[t[k]]: 5}, Object.fromEntries([1].map(i => [t[i], i]))]",
    "const id = x => x; const t = {}; const m = new Map(); m.set(t[id('a')], 1); class A { b = {}; c(k) { "
    "return `${this.b[k]}` } } return [[...m], new A().c('d'), 'x' + t[[1].map(i => i)[0]] + 'y']",
    # Declarations with patterns get a place of their own, wherever one may stand.
    "let x = 1\nconst {a} = {a: x}\nlet f = () => a\nconst [b] = [f]\nreturn [a, b()]",
    "function f() { 'use strict'\nlet {a} = {a: 2}\nreturn a }\nreturn f()",
    "if (1) var {a} = {a: 1}; else var [a] = [2]\nfor (const x of [3]) var {b, ...c} = {b: x, d: x}\nreturn [a, b, c]",
    "one: var [a] = [1]; do var {b} = {b: 2}; while (0) const {c} = {c: 3}; return [a, b, c]",
    "let n = 0; for (let {i} = {i: 0}, [m] = [2]; i < m; i++) n += i; for (const {k} of [{k: 5}]) n += k; return n",
    "switch (1) { case 1: const {a} = {a: 7}; return a; default: const [b] = [8]; return b }",
    "const {a, b: [c = a], ...d} = {a: 1, b: [], e: 2}, f = ([x]) => { const {y} = x; return y }; "
    "return [c, d, f([{y: 3}])]",
    "class A { static { const {a} = {a: 1}; A.n = a } m() { var [b] = [2]; return b } } return [A.n, new A().m()]",
    "1; 'last'",
    "const x = 5\nx + 1",
    "[1, 2].map(x => x + 1)",
    "({a: 1})",
    "if (1) { for (const x of [1]); }\n7",
    "let i = 0\nfor (; i < 2; i++)\n  for (const q of [1])\n    i += 0\ni",
]


@pytest.mark.parametrize("coverage", [False, True], ids=["counted", "covered"])
@pytest.mark.parametrize("script", PROGRAMS)
def test_same_result(script: str, coverage: bool) -> None:
    form = validate_javascript(script, ALL).form
    plain = script if form == "statements" else script[: _last(script)] + "return " + script[_last(script) :]
    counted, steps = run_counted(script, coverage=coverage)
    assert counted == run_plain(plain)
    assert counted[0] == "ok"
    assert steps >= 0


def _last(script: str) -> int:
    start = validate_javascript(script, ALL).last_start
    assert start is not None
    return start


STATEMENTS = st.recursive(
    st.sampled_from(
        [
            "out.push(1);",
            "n++;",
            "if (n > 3) n = 0;",
            "out.push(n);",
            "f(n);",
            "out.push((x => x + n)(2));",
            "var {length} = out;",
            "{ const [x] = [n], {y} = {y: x}; out.push(y) }",
            "out.push([1, 2].map(x => (x, x * 2)).length);",
            ";",
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda body: "{" + " ".join(body) + "}"),
        inner.map(lambda body: f"for (let i = 0; i < 2; i++) {body}"),
        inner.map(lambda body: f"for (const q of [1, 2]) {body}"),
        inner.map(lambda body: f"if (n % 2) {body}"),
        st.tuples(inner, inner).map(lambda pair: f"if (n % 2) {pair[0]} else {pair[1]}"),
        inner.map(lambda body: f"try {{ {body} if (n > 2) throw n }} catch (e) {{ {body} }}"),
        inner.map(lambda body: f"try {{ {body} throw 1 }} catch {{ {body} }} finally {{ n++ }}"),
        inner.map(lambda body: f"{{ let k = 0; do {{ {body} }} while (k++ < 1) }}"),
        inner.map(
            lambda body: f"(() => {{ here: for (const z of [1, 2]) {{ {body} if (z) continue here; n-- }} }})();"
        ),
        inner.map(lambda body: f"(function () {{ {body} }})();"),
        inner.map(lambda body: f"(() => {{ {body} }})();"),
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STATEMENTS, max_size=4), st.booleans())
def test_same_result_for_any_program(body: list[str], coverage: bool) -> None:
    script = "let n = 0; const out = []; function f(x) { return x }\n" + "\n".join(body) + "\nreturn [n, out]"
    counted, _ = run_counted(script, coverage=coverage)
    assert counted == run_plain(script)


@settings(max_examples=100, deadline=None)
@given(st.lists(STATEMENTS, max_size=4), st.sampled_from(["", "/* é😀 */ ", "\t"]), st.booleans())
def test_every_place_maps_back(body: list[str], lead: str, coverage: bool) -> None:
    script = lead + "let n = 0; const out = []; function f(x) { return x }\n" + "\n".join(body) + "\nreturn [n, out]"
    program = instrumented(script, coverage=coverage)
    engine_lines = program.text.split("\n")[FIRST_LINE - 1 :]
    for number, line in enumerate(script.split("\n"), start=1):
        at = 0
        for column, character in enumerate(line, start=1):
            # The characters of a line stand in the counted line in the same order, with calls between them.
            place = FIRST_LINE - 1 + number
            engine_line = engine_lines[number - 1]
            while program.original_position(place, at + 1) != (number, column) or engine_line[at] != character:
                at += 1
                assert at < len(engine_line), (line, column)
            at += 1


def test_a_place_outside_the_script_is_none() -> None:
    program = instrumented("return 1")
    assert program.original_position(FIRST_LINE - 1, 1) is None
    assert program.original_position(FIRST_LINE + 1, 1) is None


def test_loops_count_anew_each_time_they_are_entered() -> None:
    script = "let n = 0; for (let i = 0; i < 4; i++) { for (let j = 0; j < 4; j++) { n++ } } return n"
    engine = quickjs.Context()
    engine.eval("var settled = null; var parts; tick = s => s + 10; limit = () => { throw new Error('limit') }")
    program = instrument(script, validate_javascript(script, ALL), max_iterations=4)
    engine.eval(f"parts = {program.text}(tick, limit); parts[3](){SETTLE}")
    assert finish(engine) == ["ok", 16]
    program = instrument(script, validate_javascript(script, ALL), max_iterations=3)
    engine.eval(f"parts = {program.text}(tick, limit); parts[3](){SETTLE}")
    assert finish(engine) == ["no", "Error: limit"]


def test_nothing_tells_lines_where_nobody_asks() -> None:
    for script in PROGRAMS:
        assert "__ag_r" not in instrumented(script).text
        assert "__ag_v" not in instrumented(script).text


COVERED = """
const list = [1, 2];                        // ran
let n = 0;                                  // ran
function never() {
  n = 100;                                  // can
}
function once(x) {
  return x;                                 // ran
}
for (const item of list)                    // ran
  if (item > 1)                             // ran
    n += once(item);                        // ran
  else if (item > 5)                        // ran
    n = 5;                                  // can
  else n += 0;                              // ran
here: while (true) {                        // ran
  if (n) break here;                        // ran
  n = 7;                                    // can
}
const late = () =>                          // ran
  n + 1;                                    // can
const now = [1].map((x) => {                // ran
  const y = x;                              // ran
  return y;                                 // ran
});
try {                                       // ran
  throw new Error("x");                     // ran
  n = 8;                                    // can
} catch {
  n++;                                      // ran
} finally {
  n++;                                      // ran
}
switch (n) {                                // ran
  case 4: n = 5; break;                     // ran
  case 5:
    n = 6;                                  // can
  default:
    n = 9;                                  // can
}
class A {                                   // ran
  x =
    n;                                      // ran
  m() {
    return 1;                               // can
  }
  static {
    n = 10;                                 // ran
  }
}
do n++; while (n < 12);                     // ran
;
{
  n++;                                      // ran
}
var v;                                      // ran
return new A();                             // ran
n = 11;                                     // can
"""


def test_lines_that_can_run_and_lines_that_ran() -> None:
    lines = COVERED.split("\n")
    expected = {number for number, line in enumerate(lines, 1) if line.endswith("// ran")}
    can = {number for number, line in enumerate(lines, 1) if line.endswith("// can")}
    reported = lines_that_ran(COVERED)
    assert sorted(reported) == sorted(expected)
    assert runnable_lines(COVERED, validate_javascript(COVERED, ALL, coverage=True)) == expected | can


@settings(max_examples=100, deadline=None)
@given(st.lists(STATEMENTS, max_size=4))
def test_each_line_that_ran_can_run_and_is_told_once(body: list[str]) -> None:
    script = "let n = 0; const out = []; function f(x) { return x }\n" + "\n".join(body) + "\nreturn [n, out]"
    reported = lines_that_ran(script)
    assert len(set(reported)) == len(reported)
    assert set(reported) <= runnable_lines(script, validate_javascript(script, ALL, coverage=True))
    assert {1, script.count("\n") + 1} <= set(reported)


def test_a_long_chain_of_else_if_does_not_nest() -> None:
    script = (
        "let n = 0;\n" + "else ".join(f"if (n === -{number})\n n = 1;\n" for number in range(1, 2_001)) + "return n"
    )
    assert len(lines_that_ran(script)) == 2_002
