"""Script files as tests, in runs of pytest: which are collected, how they are selected, and what failures say."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

QUIET = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:langsmith_plugin")

FILE = """\
// Users and what they pay.
//@ tool: users:list [{"id": 1}]
//@ context: {"limit": 2}

--- counts
const users = await callTool('users:list', codecallContext);
return users.length;
//= 1

--- counts wrong
const users = await callTool('users:list', {});
return users.length;
//= 2

--- calls what has no stub
return await callTool('orders:list', {});

--- says that there is no such tool
return await callTool('orders:list', {});
//~ TOOL_NOT_FOUND 'orders:list' was not found

--- answers in turn
//@ tool: next 1
//@ tool: next !TOOL_TIMEOUT
//@ tool: next {"last": true} -> 3
const one = await callTool('next');
const two = await callTool('next', {}, { throwOnError: false });
return [one, two.error.code, await callTool('next', { last: true, more: 1 })];
//= [1, "TOOL_TIMEOUT", 3]

--- declares too much
//@ tool: pay null
//@ tool?: refund null
return 1;

--- breaks
const a = 1;
throw new Error('no');
//~ EXECUTION_ERROR yes

--- is refused
const f = eval('1'); //! IllegalBuiltinAccess
require('x');

--- may call little
//@ allowed: users:*
return await callTool('orders:list', {});
//~ ACCESS_DENIED

--- loops under its preset
//@ preset: balanced
let n = 0;
while (n < 3) n++;
return n;
//= 3

--- reads
//@ resource: shop://* {"dishes": []}
//@ prompt: greet "Hello"
//@ result: res_1 {"from": 1} -> [2]
const rows = await getResult('res_1', { from: 1 });
return [await readResource('shop://menu'), (await getPrompt('greet', {})).messages[0].content, rows];
//= [{"dishes": []}, "Hello", [2]]

--- extracts
//@ extract: * {"value": "seven"} -> 7
return await extract('seven', 'number');
//= 7
"""

REPORTS = {
    "counts wrong": """\
users.script.js:10: counts wrong
  expected: ok with 2
  ended:    ok with 1
  calls:
    1 users:list({}) -> [{"id": 1}]""",
    "calls what has no stub": """\
users.script.js:15: calls what has no stub
  expected: ok
  ended:    tool_error; TOOL_NOT_FOUND Tool 'orders:list' was not found
  users.script.js called the tool 'orders:list' with {}, which has no stub; there are stubs of users:list
    Declare it: //@ tool: orders:list VALUE
    Or allow it: state the outcome `//~ TOOL_NOT_FOUND`
""",
    "declares too much": """\
users.script.js:31: declares too much
  //@ tool: pay was never called (declared at users.script.js:32)
    The scripts called: nothing
    If that is fine: `//@ tool?:` instead of `//@ tool:`""",
    "breaks": """\
users.script.js:36: breaks
  expected: EXECUTION_ERROR yes
  ended:    runtime_error; EXECUTION_ERROR no
  at users.script.js:38:""",
    "is refused": """\
users.script.js:41: is refused
  unexpected: line 43: IllegalBuiltinAccess Identifier 'require' is not allowed in AgentScript
""",
}


def sections(output: str) -> dict[str, str]:
    """What pytest says of each failed test."""
    matches: dict[str, list[str]] = {}
    current: list[str] = []
    for line in output.splitlines():
        if line.startswith("____") and line.endswith("____"):
            current = matches.setdefault(line.strip("_ "), [])
        elif line.startswith("===="):
            current = []
        else:
            current.append(line)
    return {name: "\n".join(lines) + "\n" for name, lines in matches.items()}


def test_programs_are_tests(pytester: pytest.Pytester):
    pytester.makefile(".script.js", users=FILE)
    result = pytester.runpytest_inprocess(*QUIET)
    text = sections(result.stdout.str())
    assert text.keys() == REPORTS.keys()
    for name, report in REPORTS.items():
        assert text[name].startswith(report), text[name]
        assert "Traceback" not in text[name]
        assert ".py" not in text[name]
    result.assert_outcomes(passed=7, failed=5)


def test_they_are_selected_like_other_tests(pytester: pytest.Pytester):
    pytester.makefile(".script.js", users=FILE)
    result = pytester.runpytest_inprocess(*QUIET, "--collect-only", "-q")
    assert result.stdout.lines[0] == "users.script.js::counts"
    assert result.stdout.str().count("users.script.js::") == 12
    tree = pytester.runpytest_inprocess(*QUIET, "--collect-only", "-k", "counts").stdout.str()
    assert "<ScriptFile users.script.js>" in tree
    assert "<ScriptItem counts wrong>" in tree
    pytester.runpytest_inprocess(*QUIET, "-k", "counts and not wrong").assert_outcomes(passed=1, deselected=11)
    pytester.runpytest_inprocess(*QUIET, "-x").assert_outcomes(passed=1, failed=1)
    pytester.runpytest_inprocess(*QUIET, "users.script.js::may call little").assert_outcomes(passed=1)
    verbose = pytester.runpytest_inprocess(*QUIET, "-v", "-k", "reads").stdout.str()
    assert "users.script.js::reads PASSED" in verbose


def test_which_files_are_collected(pytester: pytest.Pytester):
    program = "--- one\nreturn 1\n"
    pytester.makefile(".script.js", a=program, plain="return 1 // a script, not a file of programs")
    pytester.makefile(".programs.js", b=program)
    pytester.runpytest_inprocess(*QUIET).assert_outcomes(passed=1)
    named = pytester.runpytest_inprocess(*QUIET, "plain.script.js")
    named.assert_outcomes(errors=1)
    named.stdout.fnmatch_lines(["plain.script.js:1: before the first `--- title` there are only `//` comments"])
    pytester.makeini("[pytest]\ncodecall_files = *.script.js *.programs.js\n")
    pytester.runpytest_inprocess(*QUIET).assert_outcomes(passed=2)
    pytester.makeini("[pytest]\ncodecall_files =\n")
    assert pytester.runpytest_inprocess(*QUIET).ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_file_that_is_malformed(pytester: pytest.Pytester):
    pytester.makefile(".script.js", a="--- one\n//@ colour: red\nreturn 1\n", b="--- one\nreturn 1\n")
    result = pytester.runpytest_inprocess(*QUIET)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["a.script.js:2: `//@` takes `preset:`, *, not 'colour: red'"])
    assert "Traceback" not in result.stdout.str()


def test_the_preset_of_programs_that_ask_for_none(pytester: pytest.Pytester):
    pytester.makefile(".script.js", a="--- one\nlet n = 0;\nwhile (n < 3) n++;\nreturn n;\n//= 3\n")
    pytester.runpytest_inprocess(*QUIET).assert_outcomes(failed=1)
    pytester.runpytest_inprocess(*QUIET, "--codecall-preset=balanced").assert_outcomes(passed=1)


def test_lines_end_as_the_file_says(pytester: pytest.Pytester):
    (pytester.path / "a.script.js").write_bytes(b"--- one\r\nconst a = '\xc3\xa9';\r\nthrow new Error(a);\r\n//= 1\r\n")
    result = pytester.runpytest_inprocess(*QUIET)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*at a.script.js:3:*", "*3 | throw new Error(a);"])


def test_what_is_wrong_with_a_stub_of_a_file_is_told_where_it_stands(pytester: pytest.Pytester):
    pytester.makefile(".script.js", a="--- one\n//@ tool: a !NO_SUCH_CODE\nreturn 1\n")
    pytester.runpytest_inprocess(*QUIET).stdout.fnmatch_lines(["a.script.js:2: `//@ tool:` after `!` stands one of *"])
