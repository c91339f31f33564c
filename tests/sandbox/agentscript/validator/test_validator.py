"""The guard as a whole: what it accepts, what it refuses, where it says so, and that nothing makes it fall over."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.sandbox.agentscript.checked import MAX_FINDINGS, Finding, InvalidScriptError
from codecall.sandbox.agentscript.policy import GLOBALS, NEVER_NAMES, Rules
from codecall.sandbox.agentscript.validate import validate_javascript
from codecall.testing import Program, findings_mismatch, read_programs

SECURE = Rules(allow_loops=False, allow_regex=True, allow_console=True, allow_clock=True)
EVERYTHING = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)


FOLDER = Path(__file__).parents[1]
HONEST = ["", *(program.source for program in read_programs(FOLDER / "honest.script.js"))]
DISHONEST = read_programs(FOLDER / "refused.script.js")


def findings(script: str, rules: Rules = SECURE) -> list[Finding]:
    """Why a script is refused; empty when it is not."""
    try:
        validate_javascript(script, rules)
    except InvalidScriptError as error:
        return error.findings
    return []


@pytest.mark.parametrize("script", HONEST, ids=range(len(HONEST)))
def test_honest_scripts_pass(script: str):
    assert findings(script, SECURE) == []
    assert findings(script, EVERYTHING) == []


def test_there_are_enough_honest_scripts():
    assert len(HONEST) >= 80


@pytest.mark.parametrize("program", DISHONEST, ids=lambda program: program.title)
def test_refusals_are_where_the_script_expects_them(program: Program):
    result = findings(program.source)
    wrong = findings_mismatch(program, result)
    assert wrong is None, wrong
    for finding in result:
        assert finding.hint
        assert finding.code == ("SELF_REFERENCE_BLOCKED" if finding.kind == "SelfReference" else "VALIDATION_ERROR")


@pytest.mark.parametrize("name", sorted(name for name, row in GLOBALS.items() if row.verdict == "refused"))
def test_a_refused_identifier_is_refused_everywhere(name: str):
    fixed = f"Identifier '{name}' is not allowed in AgentScript"
    for script in (
        f"{name}",
        f"x => {name}.y",
        f"({{ a: [{name}] }})",
        f"({{ {name} }})",
        f"`${{{name}}}`",
        f"{name}()",
    ):
        assert [finding.message for finding in findings(script, EVERYTHING)] == [fixed], script


NEVER_POSITIONS = [
    "x.{0}", "x?.{0}", "x['{0}']", "x[`{0}`]", "x['' + '{0}']", "x.{0}.y = 1", "delete x.{0}", "({{ {0}: 1 }})",
    "({{ '{0}': 1 }})", "({{ ['{0}']: 1 }})", "({{ {0}() {{}} }})", "({{ get {0}() {{ return 1 }} }})",
    "({{ {0}: x }} = x)", "const {{ {0}: y }} = x", "(({{ {0}: y }}) => y)(x)", "const {0} = 1", "{0}", "({{ {0} }})",
    "function {0}() {{}}", "({0} => 1)", "class A {{ static {0}() {{}} }}", "class A {{ static '{0}' = 1 }}",
    "{0}: for (;;) break {0}", "try {{}} catch ({0}) {{}}", "({0} = 1)", "for ({0} of []) {{}}", "[...{0}]",
]  # fmt: skip


@pytest.mark.parametrize("form", NEVER_POSITIONS)
@pytest.mark.parametrize("name", NEVER_NAMES)
def test_a_never_name_is_refused_in_every_position(name: str, form: str):
    result = findings("let x = {};\n" + form.format(name), EVERYTHING)
    first = result[0]
    assert name in first.message
    assert first.line == 2
    if form.startswith("class A") and name in {"constructor", "prototype"} and first.kind is None:
        return  # the language itself has no such member
    assert first.kind == "DisallowedMember"


@pytest.mark.parametrize(
    ("script", "line", "column"),
    [
        ("eval", 1, 1),
        ("\teval", 1, 2),
        ("'é👩‍💻'; eval", 1, 9),
        ("\n\n  eval", 3, 3),
        ("a\r\n  eval", 2, 3),
        ("`\n\n${eval}`", 3, 3),
        ("/* \n */ eval", 2, 5),
        ("'\\\n' + eval", 2, 5),
        ("x\n  .y\n  .constructor", 3, 4),
        ("'\\u2028' + eval", 1, 12),
        ("return [\n  1,\n  Math.foo\n]", 3, 3),
        ("x => {\n  while (1) {}\n}", 2, 3),
    ],
)
def test_places_are_exact(script: str, line: int, column: int):
    place = next(item for item in findings(script) if item.kind != "DisallowedGlobal")
    assert (place.line, place.column) == (line, column)


@pytest.mark.parametrize(
    ("script", "line", "column", "message"),
    [
        ("let x = ;", 1, 9, "Unexpected token ; at line 1"),
        ("const a = 1;\nconst = 2", 2, 7, "Unexpected token = at line 2"),
        ("return (1", 1, 10, "Unexpected end of input at line 1"),
        ("if (x) {\n  y()\n", 3, 1, "Unexpected end of input at line 3"),
        ("`a ${b", 1, 7, "Unexpected end of input at line 1"),
        ("/* open", 1, 8, "Unexpected end of input at line 1"),
        ("'open", 1, 1, "Unexpected token ILLEGAL at line 1"),
        ("}; evil(); async()=>{", 1, 1, "Unexpected token } at line 1"),
        ("1 }, async () => { 2", 1, 3, "Unexpected token } at line 1"),
        ("1\n}(), async () => { 2", 2, 1, "Unexpected token } at line 2"),
        ("f(1))", 1, 5, "Unexpected token ) at line 1"),
        ("}\nasync () => {", 1, 1, "Unexpected token } at line 1"),
        ("}", 1, 1, "Unexpected token } at line 1"),
        ("return 1 } //", 1, 10, "Unexpected token } at line 1"),
        ("xs.map(x => await f(x))", 1, 19, "Unexpected identifier at line 1"),
        ("010", 1, 1, "Octal literals are not allowed in strict mode at line 1"),
        ("f(')') + `${')'}` + /[)]/ + g)", 1, 30, "Unexpected token ) at line 1"),
        ("`a\nb` 1", 2, 4, "Unexpected number at line 2"),
        ("'a\\\nb' 1", 2, 4, "Unexpected number at line 2"),
        ("delete x", 1, 9, "Delete of an unqualified identifier in strict mode at line 1"),
    ],
)
def test_syntax_errors(script: str, line: int, column: int, message: str):
    result = findings(script)
    assert [item.code for item in result] == ["SYNTAX_ERROR"]
    assert result[0].kind is None
    assert (result[0].line, result[0].column, result[0].message) == (line, column, message)


def test_syntax_errors_have_hints_where_the_cause_is_plain():
    assert "async" in (findings("xs.map(x => await f(x))")[0].hint or "")
    assert "is not closed" in (findings("f(")[0].hint or "")


def test_hints_name_what_is_near():
    assert "`callTool`" in (findings("calltool('x', {})")[0].hint or "")
    assert "`customers`" in (findings("const customers = 1; return custommers")[0].hint or "")
    assert "`Math.floor`" in (findings("Math.flor(1)")[0].hint or "")
    assert findings("JSON.nope")[0].hint == "`JSON` has: parse, stringify."
    assert "Object.keys" in (findings("for (const k in {}) {}")[0].hint or "")
    assert "callTool" in (findings("fetch('x')")[0].hint or "")


def test_findings_are_collected_in_order_and_bounded():
    result = findings("eval;\n" * 500)
    assert len(result) == MAX_FINDINGS
    assert [item.line for item in result] == list(range(1, MAX_FINDINGS + 1))
    error = InvalidScriptError(result)
    assert error.first is result[0]
    assert str(error) == result[0].message


def test_the_rules_of_a_preset():
    assert findings("while (1) break", EVERYTHING) == []
    assert findings("do break; while (1)", EVERYTHING) == []
    small = {
        "console.log(1)": "Identifier 'console' is not allowed in AgentScript",
        "/a/.test('a')": "Syntax 'regular expression' is not allowed in AgentScript",
        "new RegExp('a')": "Identifier 'RegExp' is not allowed in AgentScript",
        "'a'.match('a')": "Member 'match' is not allowed in AgentScript",
        "x => x['matchAll']('a')": "Member 'x.matchAll' is not allowed in AgentScript",
        "x => x?.search('a')": "Member 'x.search' is not allowed in AgentScript",
        "Date.now()": "Member 'Date.now' is not allowed in AgentScript",
        "new Date()": "Syntax 'new Date() without arguments' is not allowed in AgentScript",
        "new Date": "Syntax 'new Date() without arguments' is not allowed in AgentScript",
        "Date(1)": "Syntax 'Date() without new' is not allowed in AgentScript",
        "Math.random()": "Member 'Math.random' is not allowed in AgentScript",
        "const { random } = Math": "Member 'Math.random' is not allowed in AgentScript",
    }
    for script, message in small.items():
        assert [item.message for item in findings(script, Rules())] == [message], script
        assert findings(script, EVERYTHING) == [], script
    for script in ("new Date(0)", "x => x.match", "Date.UTC(2024)", "'a'.split('b').includes('c')", "for (;;) break"):
        assert findings(script, Rules()) == [], script


def test_regex_limits():
    assert findings("/a/;\n" * 50) == []
    result = findings("/a/;\n" * 51)
    assert [(item.kind, item.line) for item in result] == [("UnsafeSource", 51)]
    assert findings(f"/{'a' * 1000}/") == []
    assert [item.kind for item in findings(f"/{'a' * 1001}/")] == ["UnsafeSource"]


# As long as any fault of depth needs; that the work grows no faster than the text shows
# tests_security/language/test_guard_properties.py
HOSTILE = {
    "bangs": "!\n" * 32_000 + "1",
    "parens": "(" * 32_000 + ")" * 32_000,
    "lines of parens": ("(" * 60 + "1" + ")" * 60 + ";\n") * 120,
    "templates": "`${\n" * 16_000,
    "arrows": "a=>\n" * 16_000 + "1",
    "assignments": "a=\n" * 20_000 + "1",
    "conditions": "a?b:\n" * 13_000 + "c",
    "sums": "a+\n" * 5_000 + "1",
    "powers": "a**\n" * 16_000 + "1",
    "else if": "if(a){}else \n" * 5_000 + "{}",
    "labels": "".join(f"l{n}:\n" for n in range(9_000)) + ";",
    "quotes": "'\\" * 9_000 + "\n" + "'\\" * 9_000,
    "open regexes": ("=/[" * 6_000 + "\n") * 3,
    "open comments": "/*" * 32_000,
    "closing comments": "*/" * 32_000,
    "slashes": ("/ " * 2_200 + "\n") * 3,
    "dollars": "`" + "$" * 65_000,
    "backslashes": ("\\" * 19_000 + "\n") * 3,
    "members": "a" + ".b\n" * 5_000,
    "calls": "a" + "()\n" * 5_000,
    "indexes": "a" + "[0]\n" * 4_000,
    "concatenation": "x['a'" + "+'a'\n" * 3_200 + "]",
    "unknown names": "".join(f"name{n};\n" for n in range(1_500)),
    "declarations": "".join(f"let n{n};\n" for n in range(1_200)),
    "parameters": "(" + ",\n".join(f"p{n}" for n in range(2_000)) + ") => 1",
    "pattern": "const [" + "[],\n" * 3_700 + "] = x",
    "number": "1" * 19_000,
    "bigint": "0x" + "f" * 19_000 + "n",
    "decimal bigint": "9" * 19_000 + "n",
    "classes": "class A { x = 1 }\n" * 750,
    "marks": "\u200b" * 20_000,
    "near names": "".join(f"let {chr(20000 + n) * 60}{'ab' * 4000};\n" for n in range(2)) + "ba" * 4000,
    "fields named async": "class A {" + "static async\n" * 1_000 + "}",
    "deep scopes": "let b;\n" + "a=>\n" * 500 + "b+\n" * 20_000 + "b",
    "mixed names": "aа\n" * 4_000,
    "regex alternatives": "/" + "|".join(["(?<a>x)"] * 2_000) + "/",
}


@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_scripts_end(script: str):
    assert len(script.encode()) <= 64 * 1024
    limit = sys.getrecursionlimit()
    for finding in findings(script):
        assert finding.line >= 1
        assert finding.column >= 1
    assert sys.getrecursionlimit() == limit


def test_deep_nesting_is_a_finding():
    result = findings("!\n" * 20_000 + "1")
    assert [(item.kind, item.message) for item in result] == [("UnsafeSource", "Script is nested too deeply")]
    chain = "if (x === 1) { y = 1 } else " * 300 + "{ y = 2 }"
    assert findings(f"let x = 1, y;\n{chain}") == []


def judged(script: str) -> None:
    """The guard ends in one of its two ways, and its places lie in the script."""
    for rules in (Rules(), EVERYTHING):
        try:
            validate_javascript(script, rules)
        except InvalidScriptError as error:
            lines = re.split(r"\r\n|\n|\r", script)
            for finding in error.findings:
                assert finding.message
                assert 1 <= finding.line <= len(lines)
                assert 1 <= finding.column <= len(lines[finding.line - 1]) + 2


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_any_text(text: str):
    judged(text)


WORDS = """
a b c eval Map callTool constructor __proto__ async await function class extends super this new delete typeof in of
instanceof let const var if else for while do switch case default break continue return throw try catch finally yield
static get set import export with debugger using null true 1 2n 0x1 .5 'x' "y" `t` `a${ }b` /r/g ( ) [ ] { } ( ) { }
=> ... . ?. ?? = += ??= == === + - * / % ** ++ -- ! ~ & | ^ && || < > << , ; : ? # @ \\ \\u0061 // /* */ <!-- --> #x
"""
TOKENS = [*WORDS.split(), "\n", " ", "\t", "\u200b", "\u2028", "а", "👩‍💻", "\ud800"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=25), st.sampled_from([" ", ""]))
def test_token_soup(tokens: list[str], glue: str):
    judged(glue.join(tokens))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_honest_scripts_with_a_piece_changed(data: st.DataObject):
    script = data.draw(st.sampled_from(HONEST))
    at = data.draw(st.integers(0, len(script)))
    cut = data.draw(st.integers(0, 5))
    judged(script[:at] + data.draw(st.sampled_from(["", *TOKENS])) + script[at + cut :])
