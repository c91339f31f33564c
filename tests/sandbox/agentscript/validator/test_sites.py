"""What `check` tells the realm about a script: its form, and where it loops, calls and catches."""

from __future__ import annotations

from pathlib import Path

import pytest
import quickjs

from codecall.sandbox.agentscript.checked import CheckedScript
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript
from codecall.testing import read_programs

EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
HONEST = [program.source for program in read_programs(Path(__file__).parents[1] / "honest.script.js")]


@pytest.mark.parametrize(
    ("script", "form", "value"),
    [
        ("", "statements", None),
        ("// nothing", "statements", None),
        ("const a = 1", "statements", None),
        ("return 1", "statements", None),
        ("if (1) { 2 }", "statements", None),
        ("1", "expression", "1"),
        ("'text'", "expression", "'text'"),
        ("const a = 1;\na + 1", "expression", "a + 1"),
        ("const a = 1; a;;", "expression", "a;;"),
        ("function f() { return 1 }\nf()", "expression", "f()"),
        ("[1].map(x => { return x })", "expression", "[1].map(x => { return x })"),
        ("class A { m() { return 1 } get g() { return 2 } }\nnew A()", "expression", "new A()"),
        ("if (1) { return 2 }\n3", "statements", None),
        ("for (const x of []) { if (x) return x }\n3", "statements", None),
        ("try { return 1 } finally { }\n3", "statements", None),
        ("l: { switch (1) { case 1: return 2 } }\n3", "statements", None),
        ("async () => { return 1 }", "function", "async () => { return 1 }"),
        ("  () => 1;", "function", "() => 1;"),
        ("(async () => 1)", "function", "(async () => 1)"),
        ("'use strict'; async x => x", "function", "async x => x"),
        ("(async () => 1)()", "expression", "(async () => 1)()"),
        ("const a = 1; () => a", "expression", "() => a"),
        ("async function main() { return 1 }", "function", "async function main() { return 1 }"),
        ("'use strict'; function main() { return 1 };", "function", "function main() { return 1 };"),
        ("function main() { return 1 }\nconst a = 1", "statements", None),
        ("function* main() { yield 1 }", "statements", None),
        ("(function () { return 1 })", "function", "(function () { return 1 })"),
    ],
)
def test_form(script: str, form: str, value: str | None):
    checked = validate_javascript(script, EVERYTHING)
    assert checked.form == form
    assert (None if checked.last_start is None else script[checked.last_start :]) == value


@pytest.mark.parametrize(
    ("script", "loop", "body", "is_block"),
    [
        ("for (;;) { break }", "for (;;) { break }", "{ break }", True),
        ("for (const x of []) x; 1", "for (const x of []) x;", "x;", False),
        ("for (const x of []) x\n1", "for (const x of []) x", "x", False),
        ("{ for (const x of []) x }", "for (const x of []) x ", "x ", False),
        ("for (let i = 0; i < 1; i++);", "for (let i = 0; i < 1; i++);", ";", False),
        ("1; a: b: for (;;) break a; 2", "a: b: for (;;) break a;", "break a;", False),
        ("while (0) { }", "while (0) { }", "{ }", True),
        ("do 1; while (0); 2", "do 1; while (0);", "1;", False),
        ("é: do { } while (0)", "é: do { } while (0)", "{ }", True),
        ("for await (const x of []) { }", "for await (const x of []) { }", "{ }", True),
        (
            "for (const x of []) if (x) { } else 1;",
            "for (const x of []) if (x) { } else 1;",
            "if (x) { } else 1;",
            False,
        ),
    ],
)
def test_loops(script: str, loop: str, body: str, is_block: bool):
    [site] = validate_javascript(script, EVERYTHING).loops
    assert script[site.start : site.end] == loop
    assert script[site.body_start : site.body_end] == body
    assert site.body_is_block == is_block


@pytest.mark.parametrize(
    ("script", "body", "is_expression"),
    [
        ("() => 1", "1", True),
        ("x => (x)", "(x)", True),
        ("x => ({ a: 1 })", "({ a: 1 })", True),
        ("(a, b = ((1)), /* => */ ) => // =>\n ((a, b))\n", "((a, b))", True),
        ("async(/* => */) =>(1)", "(1)", True),
        ("async x => (x).y", "(x).y", True),
        ("() => { }", "{ }", False),
        ("(a = (1)) => { a }", "{ a }", False),
        ("function f(a = {}) { return a }", "{ return a }", False),
        ("(async function () { })", "{ }", False),
        ("({ m(a) { return a } })", "{ return a }", False),
        ("({ get g() { return 1 } })", "{ return 1 }", False),
        ("class A { constructor() { this.a = 1 } }", "{ this.a = 1 }", False),
        ("class A { static { 1 } }", "{ 1 }", False),
        ("class A { async *#m() { yield } }", "{ yield }", False),
    ],
)
def test_functions(script: str, body: str, is_expression: bool):
    [site] = validate_javascript(script, EVERYTHING).functions
    assert script[site.body_start : site.body_end] == body
    assert site.is_expression == is_expression


@pytest.mark.parametrize(
    ("script", "param", "name", "text", "clause"),
    [
        ("try { } catch (e) { 1 }", "name", "e", "e", "catch (e) { 1 }"),
        ("try { } catch { 1 } finally { }", "none", None, "", "catch { 1 }"),
        ("try { } catch ( { a, b = 1 } ) { }", "pattern", None, "{ a, b = 1 }", "catch ( { a, b = 1 } ) { }"),
        ("try { } catch ([a]) { }", "pattern", None, "[a]", "catch ([a]) { }"),
    ],
)
def test_catches(script: str, param: str, name: str | None, text: str, clause: str):
    [site] = validate_javascript(script, EVERYTHING).catches
    assert (site.param, site.name) == (param, name)
    assert script[: site.body_end].endswith(clause)
    assert script[site.body_start] == "{"
    if param == "none":
        assert (site.param_start, site.param_end) == (-1, -1)
    else:
        assert script[site.param_start : site.param_end] == text


def test_the_runtime_names_a_script_uses():
    assert validate_javascript("1", EVERYTHING).runtime_names == frozenset()
    assert validate_javascript("x => x.callTool", EVERYTHING).runtime_names == frozenset()
    script = "callTool('a'); [getTool]; __safe_parallel; codecallContext?.x; console.log(1)"
    names = {"callTool", "getTool", "__safe_parallel", "codecallContext", "console"}
    assert validate_javascript(script, EVERYTHING).runtime_names == names


def with_something_at_every_site(script: str, checked: CheckedScript) -> str:
    """The script with harmless code at each of its sites."""
    inserts: list[tuple[int, int, int, str]] = []
    for loop in checked.loops:
        inserts += [(loop.start, 1, -loop.end, "{"), (loop.end, 0, -loop.start, "}")]
        if loop.body_is_block:
            inserts.append((loop.body_start + 1, 1, -(2**60), ";"))
        else:
            inserts += [(loop.body_start, 1, -loop.body_end, "{;"), (loop.body_end, 0, -loop.body_start, "}")]
    for site in checked.functions:
        if site.is_expression:
            inserts += [(site.body_start, 1, -site.body_end, "(0,"), (site.body_end, 0, -site.body_start, ")")]
        else:
            inserts.append((site.body_start + 1, 1, -(2**60), ";"))
    for clause in checked.catches:
        inserts.append((clause.body_start + 1, 1, -(2**60), ";"))
        if clause.param == "none":
            inserts.append((clause.body_start, 1, -(2**60), "(error)"))
    pieces: list[str] = []
    at = 0
    for offset, _, _, text in sorted(inserts):
        pieces += [script[at:offset], text]
        at = offset
    return "".join([*pieces, script[at:]])


@pytest.mark.parametrize("script", HONEST, ids=range(len(HONEST)))
def test_code_at_the_sites_of_honest_scripts_is_still_javascript(script: str):
    changed = with_something_at_every_site(script, validate_javascript(script, EVERYTHING))
    for program in (script, changed):
        quickjs.Context().eval(f'"use strict";(async()=>{{{program}\n}})')
