"""Script files: what the reader makes of them, what it refuses, and the comparison with how programs end."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.envelopes import ExecutionResult
from codecall.errors import IllegalAccess, Location, ScriptError, ScriptSyntaxError, SelfReferenceError
from codecall.sandbox.agentscript.checked import Finding, InvalidScriptError
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript
from codecall.testing import (
    ExpectedFinding,
    Failure,
    Program,
    ProgramStub,
    Refusal,
    ScriptFileError,
    Value,
    findings_mismatch,
    mismatch,
    parse_programs,
    read_programs,
)

FILE = """\
// What they have in common,
// on two lines.

--- adds
return 1 + 1;
//= 2
--- is refused twice on one line
//@ preset: balanced
//@ hint: why it is here
const a = eval; //! IllegalBuiltinAccess Identifier 'eval'
//! ^ DisallowedSyntax
b("//! x"); //! SYNTAX_ERROR

--- fails
throw new Error('no');
//~ EXECUTION_ERROR no

---
console.log(1)
"""


def one(text: str) -> Program:
    (program,) = parse_programs(f"--- t\n{dedent(text)}")
    return program


def test_a_file_of_programs():
    adds, refused, fails, bare = parse_programs(FILE, "some.script.js")
    assert adds == Program("some.script.js", 4, "adds", "return 1 + 1;\n//= 2", Value(2))
    assert (refused.preset, refused.hint, refused.line) == ("balanced", "why it is here", 7)
    assert refused.outcome == Refusal(
        (
            ExpectedFinding(3, "IllegalBuiltinAccess", "Identifier 'eval'"),
            ExpectedFinding(3, "DisallowedSyntax", ""),
            ExpectedFinding(5, "SYNTAX_ERROR", ""),
        )
    )
    assert refused.source.startswith("//@ preset: balanced\n")
    assert refused.source.endswith("//! SYNTAX_ERROR")
    assert fails.outcome == Failure("EXECUTION_ERROR", "no")
    assert (bare.title, bare.source, bare.outcome) == ("line 18", "console.log(1)", None)


def test_lines_of_a_program_are_lines_of_the_file():
    lines = FILE.split("\n")
    for program in parse_programs(FILE):
        for number, line in enumerate(program.source.split("\n"), 1):
            assert lines[program.line + number - 1] == line


def test_a_file_on_disk(tmp_path: Path):
    file = tmp_path / "a.script.js"
    file.write_bytes(b"--- t\r\n'\xc3\xa9\r'\r\n//= \"\xc3\xa9\"\r\n")
    (program,) = read_programs(file)
    assert (program.path, program.source) == (str(file), "'é\r'\r\n//= \"é\"")
    assert program.outcome == Value("é")
    file.write_bytes(b"--- t\nok\n\n'\xff'")
    with pytest.raises(ScriptFileError, match=r"a\.script\.js:4: not UTF-8"):
        read_programs(file)
    with pytest.raises(FileNotFoundError):
        read_programs(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "no program"),
        ("// only a comment", 1, "no program"),
        ("// a\nreturn 1\n--- t\n1", 2, "before the first"),
        ("--- t\n1\n--- t\n2", 3, "the title 't' is taken by line 1"),
        ("--- t\n\n--- u\n2", 1, "the program is empty"),
        ("--- t\n1 //! Nonsense x", 2, "names no kind of finding: 'Nonsense'"),
        ("--- t\n1 //! VALIDATION_ERROR\n//= 1", 1, "is refused"),
        ("--- t\n//! ^ VALIDATION_ERROR", 2, "has no line above"),
        ("--- t\n//@ preset: secure\n//! ^ VALIDATION_ERROR", 3, "has no line above"),
        ("--- t\n1\n//=2", 3, "is followed by a blank"),
        ("--- t\n1\n//~", 3, "is followed by a blank"),
        ("--- t\n1\n//= {a: 1}", 3, "is followed by JSON"),
        ("--- t\n1\n//= NaN", 3, "NaN is not JSON"),
        ("--- t\n1\n//= " + "[" * 100_000, 3, "is followed by JSON"),
        ("--- t\n1\n//= 1\n2", 4, "come last"),
        ("--- t\n1\n//= 1\n//= 1", 4, "come last"),
        ("--- t\n1\n//~ TIMEOUT\n2 //! SYNTAX_ERROR", 4, "come last"),
        ("--- t\n1\n//@ preset: secure", 3, "comes first"),
        ("--- t\n//@ colour: red\n1", 2, "takes `preset:`, `hint:`, `context:`"),
        ("--- t\n//@ hint: a\n//@ hint: b\n1", 3, "given twice"),
        ("--- t\n//@ hint?: a\n1", 2, "takes `preset:`"),
        ("--- t\n//@ context: 1\n1", 2, "followed by a JSON object"),
        ("--- t\n//@ context: {\n1", 2, "`//@ context:` is followed by JSON"),
        ("--- t\n//@ tool: a\n1", 2, "followed by a name and what it answers"),
        ("--- t\n//@ tool: a b\n1", 2, "no JSON after the name"),
        ("--- t\n//@ tool: a 1 2\n1", 2, "after the JSON stands nothing more: '2'"),
        ("--- t\n//@ tool: a 1 -> 2\n1", 2, "before `->` stands the input"),
        ("--- t\n//@ resource: a {} -> 2\n1", 2, "resources have none"),
        ("--- t\n//@ tool: a {} -> b\n1", 2, "no JSON after `->`"),
        ("--- t\n//@ tool: a {} ->\n1", 2, "no JSON after `->`"),
        ("--- t\n//@ tool: a NaN\n1", 2, "NaN is not JSON"),
        ("--- t\n//@ tool: a " + "[" * 100_000 + "\n1", 2, "no JSON after the name"),
        ("--- t\n//@ tool: a {} -> " + "[" * 100_000 + "\n1", 2, "nested too deeply"),
        ("--- t\n//@ tool: a !NO_SUCH_CODE\n1", 2, "one of TOOL_EXECUTION_ERROR"),
        ("--- t\n//@ tool: a !\n1", 2, "after `!` stands one of"),
        ("--- t\n//@ tool: a !? x\n1", 2, "after `!` stands one of"),
        ("//@ tool: a\n--- t\n1", 1, "followed by a name and what it answers"),
        ("//@ preset: lax\n--- t\n1", 1, "unknown preset 'lax'"),
        ("--- t\n//@ preset: lax\n1", 2, "unknown preset 'lax'; known: locked_down, secure"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, line: int, problem: str):
    with pytest.raises(ScriptFileError) as caught:
        parse_programs(text, "f")
    assert caught.value.line == line
    assert str(caught.value).startswith(f"f:{line}: ")
    assert problem in str(caught.value)


@settings(max_examples=150, deadline=None)
@given(st.text("-/=~@!^ \n\ra1", max_size=60))
def test_any_text_is_read_or_refused(text: str):
    try:
        programs = parse_programs(f"--- t\n{text}")
    except ScriptFileError:
        return
    assert len({program.title for program in programs}) == len(programs)


def test_what_answers_the_calls_of_a_program():
    program = one(
        """\
        //@ tool: users:list [{"id": "->"}]
        //@ tool: users:get {"id": 1} -> "Ann"
        //@ tool: users:get {"id": 2} -> !TOOL_TIMEOUT
        //@ tool?: pay !CARD_DECLINED No funds left
        //@ tool: pay ! it broke
        //@ resource: shop://menu {"dishes": []}
        //@ prompt: greeting {"name": "Ann"} -> "Hello"
        //@ context: {"limit": 1}
        //@ allowed: users:*, pay
        return 1
        """
    )
    assert program.stubs == (
        ProgramStub("tool", "users:list", 2, value=[{"id": "->"}]),
        ProgramStub("tool", "users:get", 3, {"id": 1}, "Ann"),
        ProgramStub("tool", "users:get", 4, {"id": 2}, failure="TOOL_TIMEOUT"),
        ProgramStub("tool", "pay", 5, failure={"code": "CARD_DECLINED", "message": "No funds left"}, optional=True),
        ProgramStub("tool", "pay", 6, failure="it broke"),
        ProgramStub("resource", "shop://menu", 7, value={"dishes": []}),
        ProgramStub("prompt", "greeting", 8, {"name": "Ann"}, "Hello"),
    )
    assert (program.context, program.allowed) == ({"limit": 1}, ("users:*", "pay"))


def test_what_stands_above_the_first_program_holds_for_all():
    first, second = parse_programs(
        "// All.\n//@ preset: balanced\n//@ tool: a 1\n//@ context: {}\n\n"
        '--- first\n//@ tool: a 2\n1\n--- second\n//@ preset: secure\n//@ context: {"a": 1}\n1\n'
    )
    shared = ProgramStub("tool", "a", 3, value=1, optional=True)
    assert first.stubs == (ProgramStub("tool", "a", 7, value=2), shared)
    assert second.stubs == (shared,)
    assert (first.preset, first.context, second.preset, second.context) == ("balanced", {}, "secure", {"a": 1})


OK = ExecutionResult("ok", value={"a": [1, True]})


@pytest.mark.parametrize(
    ("stated", "fits"),
    [
        ("{}", True),
        ("{}\n//= {\"a\": [1, true]}", True),
        ("{}\n//= {\"a\": [1.0, true]}", True),
        ("{}\n//= {\"a\": [true, true]}", False),
        ("{}\n//= {\"a\": [1, 1]}", False),
        ("{}\n//= {\"a\": [1]}", False),
        ("{}\n//= {\"b\": [1, true]}", False),
        ("{}\n//= null", False),
        ("{}\n//~ EXECUTION_ERROR", False),
        ("{} //! SYNTAX_ERROR", False),
    ],
)  # fmt: skip
def test_a_value(stated: str, fits: bool):
    assert (mismatch(one(stated), OK) is None) is fits


@pytest.mark.parametrize(
    ("stated", "fits"),
    [
        ("x\n//~ EXECUTION_ERROR", True),
        ("x\n//~ EXECUTION_ERROR it bro", True),
        ("x\n//~ EXECUTION_ERROR it failed", False),
        ("x\n//~ TIMEOUT", False),
        ("x\n//= null", False),
        ("x", False),
        ("x //! VALIDATION_ERROR", False),
    ],
)
def test_a_failure(stated: str, fits: bool):
    result = ExecutionResult("runtime_error", error=ScriptError("here it broke"))
    assert (mismatch(one(stated), result) is None) is fits


REFUSED = IllegalAccess("Loop 'while' is not allowed", kind="DisallowedLoop", location=Location(2, 1))


@pytest.mark.parametrize(
    ("stated", "fits"),
    [
        ("1\nwhile //! DisallowedLoop", True),
        ("1\nwhile //! DisallowedLoop Loop 'while'", True),
        ("1\nwhile //! VALIDATION_ERROR Loop", True),
        ("1\nwhile //! DisallowedLoop Loop\n2 //! SYNTAX_ERROR", True),
        ("1\nwhile //! DisallowedLoop while", False),
        ("1\nwhile //! SYNTAX_ERROR", False),
        ("while //! DisallowedLoop", False),
        ("1 //! SYNTAX_ERROR\nwhile //! DisallowedLoop", False),
        ("1\nwhile\n//~ VALIDATION_ERROR", True),
        ("1\nwhile\n//= 1", False),
        ("1\nwhile", False),
    ],
)
def test_a_refusal(stated: str, fits: bool):
    result = ExecutionResult("illegal_access", error=REFUSED)
    assert (mismatch(one(stated), result) is None) is fits


def test_a_refusal_while_it_runs_has_no_place_and_is_a_failure():
    result = ExecutionResult("illegal_access", error=SelfReferenceError("codecall:execute"))
    assert mismatch(one("x\n//~ SELF_REFERENCE_BLOCKED codecall:execute"), result) is None
    assert mismatch(one("x //! SELF_REFERENCE_BLOCKED"), result) is not None


def test_a_mismatch_can_be_read():
    program = one("while //! DisallowedLoop Loop\n//! ^ SYNTAX_ERROR")
    syntax = ExecutionResult("syntax_error", error=ScriptSyntaxError("Unexpected token", location=Location(2, 3)))
    assert mismatch(program, syntax) == (
        "<programs>:1: t\n"
        "  expected: refused; line 2: DisallowedLoop Loop; line 2: SYNTAX_ERROR\n"
        "  ended:    syntax_error; line 3: SYNTAX_ERROR Unexpected token"
    )
    illegal = str(mismatch(one("1\n//= [1]"), ExecutionResult("illegal_access", error=REFUSED)))
    assert "expected: ok with [1]" in illegal
    assert "ended:    illegal_access; line 3: VALIDATION_ERROR DisallowedLoop Loop 'while' is not allowed" in illegal
    assert "expected: ok\n" in str(mismatch(one("1"), syntax))
    long = str(mismatch(one("1\n//= 1"), ExecutionResult("ok", value="é" * 9_999)))
    assert 'ended:    ok with "éé' in long
    assert long.endswith("é… (10001 characters)")


def matches(script: str) -> list[Finding]:
    with pytest.raises(InvalidScriptError) as caught:
        validate_javascript(script, Rules())
    return caught.value.findings


def test_all_findings_are_compared():
    program = one(
        """\
        eval; //! IllegalBuiltinAccess
        //! ^ IllegalBuiltinAccess Identifier 'require'
        require; eval; //! VALIDATION_ERROR Identifier 'fetch'
        """
    )
    assert findings_mismatch(program, matches("eval; require;\n\nfetch")) is None
    assert findings_mismatch(program, matches("eval;\nrequire; eval;")) == (
        "<programs>:1: t\n"
        "  missing:    line 2: IllegalBuiltinAccess Identifier 'require'\n"
        "  missing:    line 4: VALIDATION_ERROR Identifier 'fetch'\n"
        "  unexpected: line 3: IllegalBuiltinAccess Identifier 'require' is not allowed in AgentScript\n"
        "  unexpected: line 3: IllegalBuiltinAccess Identifier 'eval' is not allowed in AgentScript"
    )
