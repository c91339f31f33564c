"""The pytest plugin, in runs of pytest: what fails a test, what it says then, and what the plugin costs."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loaded_python import LoadedPython

pytest_plugins = ["pytester"]

QUIET = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:langsmith_plugin")
"""For runs within the run: neither what it writes nor what takes a second to load."""

REPOSITORY = Path(__file__).parent.parent.parent


def run_pytest(pytester: pytest.Pytester, python: LoadedPython, *arguments: str) -> pytest.RunResult:
    """A run in a process of its own."""
    already = ("-W", "ignore:Module already imported")  # by the loaded Python
    return pytester.run(python.executable, "-m", "pytest", *QUIET, *arguments, *already)


STRICT = """
import asyncio
import pytest

CALL = "return await callTool('users:list', { limit: 5 })"
CAUGHT = "try { await callTool('users:list', {}) } catch { return 'caught' }"


def test_undeclared(codecall_enclave):
    codecall_enclave.run(CALL)
    pytest.skip("not reached")

def test_undeclared_but_caught_by_the_script(codecall_enclave):
    codecall_enclave.run(CAUGHT)

def test_undeclared_and_swallowed_by_the_test(codecall_enclave):
    try:
        codecall_enclave.run(CAUGHT)
    except BaseException:
        pass

def test_undeclared_function(codecall_enclave):
    codecall_enclave.run("return await flaky({ id: 3 })")

@pytest.mark.parametrize("script", ["return flaky(id = 3)", "return call_tool('flaky', id = 3)"])
def test_undeclared_in_starlark(codecall_enclave, script):
    codecall_enclave.run(script, language="starlark")

def test_misspelt_function_of_the_script(codecall_enclave):
    codecall_enclave.run("const total = () => 1; return totl()")

def test_near(codecall_enclave, tool_stub):
    tool_stub("users:lists")
    codecall_enclave.run(CALL)

def test_exhausted(codecall_enclave, tool_stub):
    tool_stub("users:list", times=1)
    codecall_enclave.run("for (let i = 0; i < 2; i++) await callTool('users:list', {})")

def test_no_answer_left(codecall_enclave, tool_stub):
    tool_stub("users:list", side_effect=[1, 2])
    codecall_enclave.run("for (let i = 0; i < 3; i++) await callTool('users:list', {})")

def test_no_item_left(codecall_enclave, tool_stub):
    tool_stub("users:list", side_effect=iter([1]))
    codecall_enclave.run("for (let i = 0; i < 2; i++) await callTool('users:list', {})")

def test_used_up_and_others(codecall_enclave, tool_stub):
    tool_stub("users:list", times=1)
    tool_stub("users:list", when={"limit": 6}, optional=True)
    codecall_enclave.run("for (let i = 0; i < 2; i++) await callTool('users:list', {})")

def test_failed_unnoticed(codecall_enclave, tool_stub):
    tool_stub("users:list", returns=[])
    tool_stub("users:get")
    codecall_enclave.run("await callTool('users:list', {}); null.x; await callTool('users:get', {})")
    assert tool_stub.calls == [("users:list", {})]

def test_failed_unnoticed_in_a_coroutine(codecall_enclave):
    asyncio.run(codecall_enclave.execute("null.x"))

def test_looked_at_what_tells_nothing(codecall_enclave):
    result = codecall_enclave.run("console.log(1); null.x")
    assert (result.logs, result.calls, result.warnings, result.stats.tool_calls) == (["1"], [], [], 0)
    assert "EXECUTION_ERROR" in repr(result)

@pytest.mark.parametrize("name", ["status", "success", "error", "code", "execution"])
def test_failed_and_noticed(codecall_enclave, name):
    getattr(codecall_enclave.run("null.x"), name)

def test_failed_and_noticed_otherwise(codecall_enclave):
    codecall_enclave.run("null.x").envelope()
    with pytest.raises(Exception, match="null"):
        codecall_enclave.run("null.x").raise_for_status()

@pytest.mark.codecall(allow_failure=True)
def test_failure_allowed(codecall_enclave):
    codecall_enclave.run("null.x")

def test_failure_allowed_by_the_test(codecall_enclave, tool_stub):
    codecall_enclave.run("null.x")
    tool_stub.allow_failure()

def test_other_input(codecall_enclave, tool_stub):
    tool_stub("users:list", when={"limit": 6})
    codecall_enclave.run(CALL)

def test_invalid_input(codecall_enclave, tool_stub):
    tool_stub("users:list", input_schema={"properties": {"limit": {"type": "string", "if": {}}}})
    codecall_enclave.run(CALL)

def test_input_wrong_beforehand(codecall_enclave, tool_stub):
    schema = {"type": "object", "properties": {"offset": {"type": "integer"}}, "required": ["offset"]}
    tool_stub("users:list", input_schema=schema, optional=True)
    codecall_enclave.run("await callTool('users:list', {})")

def test_member_that_is_missing(codecall_enclave, tool_stub):
    tool_stub("users:list", optional=True)
    codecall_enclave.run("try { await users.lst({}) } catch {}")

def test_invalid_answer(codecall_enclave, tool_stub):
    tool_stub("users:list", side_effect=lambda _: 5, output_schema={"type": "array"})
    codecall_enclave.run(CALL)

def test_extracted_value_of_another_type(codecall_enclave, extract_stub):
    extract_stub(returns="seven")
    codecall_enclave.run("return await extract('x', 'number')")

def test_extract_without_a_stub(codecall_enclave):
    codecall_enclave.run("return await extract('x', 'number')")

def test_unused(tool_stub):
    tool_stub("users:list", returns=[])

def test_used_too_rarely(codecall_enclave, tool_stub):
    tool_stub("users:list", side_effect=[1, 2, 3])
    codecall_enclave.run(CALL)

def test_shadowed(codecall_enclave, tool_stub):
    tool_stub("users:list", returns=1)
    tool_stub("users:list", returns=2)
    codecall_enclave.run(CALL)

def test_an_assertion_in_a_function(codecall_enclave, tool_stub):
    def users(given):
        assert given["limit"] == 6
    tool_stub("users:list", side_effect=users)
    codecall_enclave.run(CAUGHT)
    codecall_enclave.run(CALL)

def test_a_broken_when(codecall_enclave, tool_stub):
    tool_stub("users:list", when=lambda given: given["offset"] > 1)
    codecall_enclave.run(CALL)

@pytest.mark.xfail(strict=True)
def test_expected_to_fail(tool_stub):
    tool_stub("users:list")

def test_skipped(tool_stub):
    tool_stub("users:list")
    pytest.skip("while stubs are unused")

@pytest.mark.codecall(allow_unused=True, allow_undeclared=True, allow_invalid_input=True)
class TestAllowed:
    def test_all(self, codecall_enclave, tool_stub):
        tool_stub("a")
        tool_stub("b", input_schema={"type": "object", "maxProperties": 0})
        assert codecall_enclave.run(CALL).code == "TOOL_NOT_FOUND"
        assert codecall_enclave.run("await flaky({ id: 3 })").code == "TOOL_NOT_FOUND"
        assert codecall_enclave.run("await callTool('b', { a: 1 })").code == "INVALID_INPUT"

    @pytest.mark.codecall(allow_unused=False)
    def test_but_one(self, tool_stub):
        tool_stub("a")
"""

SAID = {
    "test_undeclared": [
        ">       codecall_enclave.run(CALL)",
        "<script> called the tool 'users:list' with {\"limit\": 5}, which has no stub",
        '  Declare it: tool_stub("users:list", returns=…)',
        "  Or allow it: tool_stub.allow_undeclared(), or @pytest.mark.codecall(allow_undeclared=True); "
        "scripts then get TOOL_NOT_FOUND",
        "<script> ended with tool_error: TOOL_NOT_FOUND",
    ],
    "test_undeclared_but_caught_by_the_script": ["which has no stub", '<script> ended ok with "caught"'],
    "test_undeclared_and_swallowed_by_the_test": ["<script> called the tool 'users:list' with {}, which has no stub"],
    "test_undeclared_function": [
        "<script> called the tool 'flaky' with {\"id\": 3}, which has no stub",
        '  Declare it: tool_stub("flaky", returns=…)',
    ],
    "test_undeclared_in_starlark[return flaky(id = 3)]": ['  Declare it: tool_stub("flaky", returns=…)'],
    "test_undeclared_in_starlark[return call_tool('flaky', id = 3)]": ['  Declare it: tool_stub("flaky", returns=…)'],
    "test_misspelt_function_of_the_script": ["Unknown name 'totl'", "Did you mean `total`?"],
    "test_near": ["which has no stub; did it mean users:lists?"],
    "test_exhausted": [
        "with {}, which is declared for 1 call; this is one more",
        "  Expect more: times=2, or another answer in side_effect",
        "  hint: It was call 2 of 2. 1 tool call had completed and is not undone: users:list.",
    ],
    "test_no_answer_left": ["which is declared for 2 calls; this is one more", "  Expect more: times=3"],
    "test_no_item_left": ["with {}, but no answer is left of its", "  Expect more: another answer in side_effect"],
    "test_used_up_and_others": ["no stub of that name takes this input", "  Declare it: "],
    "test_failed_unnoticed": [
        "<script> failed, and the test did not look at its result\n<script> ended with runtime_error: EXECUTION_ERROR",
        "  Look at `result.code` if this is expected",
        "  Or allow it: tool_stub.allow_failure(), or @pytest.mark.codecall(allow_failure=True)",
    ],
    "test_failed_unnoticed_in_a_coroutine": ["the test did not look at its result"],
    "test_looked_at_what_tells_nothing": ["the test did not look at its result"],
    "test_other_input": ['no stub of that name takes this input or has an answer left: tool_stub("users:list", when={'],
    "test_invalid_input": ["which its input schema refuses: limit: 5 is not of type 'string'", "allow_invalid_input()"],
    "test_input_wrong_beforehand": [
        "calls the tool 'users:list' with what its input schema refuses: Invalid input for"
    ],
    "test_member_that_is_missing": ["called the tool 'users.lst' with {}, which has no stub; did it mean users:list?"],
    "test_invalid_answer": [
        "gave 5, which does not fit the output schema of the tool: value: 5 is not of type 'array'"
    ],
    "test_extracted_value_of_another_type": ["does not fit the type 'number': 'seven' is not of type 'number'"],
    "test_extract_without_a_stub": [
        '<script> extracted \'number\' with {"value": "x", "type": "number"}, which has no stub',
        '  Declare it: extract_stub("number", returns=…)',
    ],
    "test_unused": ['tool_stub("users:list") was never called (declared at test_strict.py:', "called: nothing"],
    "test_used_too_rarely": ['tool_stub("users:list") was called 1 of 3 times', "optional=True for this stub"],
    "test_shadowed": ["Another stub of that name answered: when=… or times=… tells stubs of one name apart"],
    "test_an_assertion_in_a_function": ['>       assert given["limit"] == 6', "assert 5 == 6"],
    "test_a_broken_when": ["KeyError: 'offset'"],
    "TestAllowed.test_but_one": ['tool_stub("a") was never called'],
}


def sections(output: str) -> dict[str, str]:
    """What pytest says of each failed test, without the marks of its lines."""
    matches: dict[str, list[str]] = {}
    current: list[str] = []
    for line in output.splitlines():
        if line.startswith("____") and line.endswith("____"):
            current = matches.setdefault(line.strip("_ "), [])
        elif line.startswith("===="):
            current = []
        current.append(line.removeprefix("E       "))
    return {name: "\n".join(lines) for name, lines in matches.items()}


def test_strict_by_default(pytester: pytest.Pytester):
    pytester.makepyfile(test_strict=STRICT)
    result = pytester.runpytest_inprocess(*QUIET)
    message = sections(result.stdout.str())
    for name, texts in SAID.items():
        for text in texts:
            assert text in message[name], f"{name}:\n{message[name]}"
    assert message.keys() == SAID.keys()
    assert not any("/anyio/" in text or "/codecall/" in text for text in message.values()), result.stdout.str()
    assert "codecall:search" not in result.stdout.str()
    assert "users:get" not in message["test_failed_unnoticed"].partition("Look at")[2], "no word of unused stubs"
    result.assert_outcomes(failed=len(SAID), xfailed=1, skipped=1, passed=9)


RESULTS = """
def test_value_of_a_failed_script(script):
    result = script("broken.js").run()
    assert result.value == 1

def test_status_of_a_failed_script(script):
    result = script("broken.js").run()
    assert result.status == "ok"

def test_calls(codecall_enclave, tool_stub):
    tool_stub("a")
    codecall_enclave.run("await callTool('a', { n: 1 })")
    assert tool_stub.calls == [("a", {"n": 2})]

def test_refused(codecall_enclave):
    assert codecall_enclave.run("return 1;\\n\\twhile (true) {}").success

def test_error_without_a_stub(codecall_enclave, tool_stub):
    tool_stub("a", raises={"code": "OWN", "message": "said", "details": {"why": "so"}})
    assert codecall_enclave.run("console.log('before'); await callTool('a')").success

def test_no_such_file(script):
    script("broke.js")

def test_a_text_as_a_file(script):
    script("return 1+1")

def test_a_long_text_as_a_file(script):
    script("return [" + "1, " * 2000 + "].length")

def test_another_name(codecall_enclave):
    assert codecall_enclave.run("return 1+1").result == 2

def test_a_mistyped_name(codecall_enclave):
    assert codecall_enclave.run("return 1+1").stat

def test_a_function_that_raises(codecall_enclave, tool_stub):
    def answer(given):
        return look_up(given["name"])
    def look_up(name):
        return {}[name]
    tool_stub("a", side_effect=answer)
    tool_stub("b", raises=KeyError("none of the test's functions"))
    assert codecall_enclave.run('''
        await callTool('b', {}, { throwOnError: false });
        await callTool('a', { name: 'x' });
    ''').success

def test_a_long_line(codecall_enclave):
    assert codecall_enclave.run(f"return ['{'x' * 90}', nothing, '{'y' * 90}']").success

def test_no_such_namespace(codecall_enclave, tool_stub):
    tool_stub("users:list", returns=1)
    assert codecall_enclave.run("return [await users.list(), await orders.list()]").success
"""


def test_failures_tell_of_the_script(pytester: pytest.Pytester):
    pytester.makepyfile(test_results=RESULTS)
    pytester.makefile(".js", broken="const a = null;\nreturn a.b;\n")
    result = pytester.runpytest_inprocess(*QUIET)
    result.assert_outcomes(failed=13)
    message = sections(result.stdout.str())
    raised = message["test_a_function_that_raises"]
    assert 'a({"name": "x"}) -> TOOL_EXECUTION_ERROR (KeyError: \'x\' at test_results.py:' in raised
    assert "b({}) -> TOOL_EXECUTION_ERROR\n" in raised
    text, mark = next(
        (line, following)
        for line, following in itertools.pairwise(message["test_a_long_line"].splitlines())
        if line.startswith("  1 | ")
    )
    assert (text[6], text[-1]) == ("…", "…")
    assert text[mark.index("^") :].startswith("nothing, 'yyy")
    value = message["test_value_of_a_failed_script"]
    assert ">       assert result.value == 1" in value
    assert "the script has no value, because it failed" in value
    assert "broken.js ended with runtime_error: EXECUTION_ERROR" in value
    assert "  at broken.js:2:" in value
    assert "  2 | return a.b;" in value
    assert "running.py" not in value
    assert value.count("broken.js ended with") == 1
    status = message["test_status_of_a_failed_script"]
    assert "Captured AgentScript call" in status
    assert status.count("broken.js ended with runtime_error: EXECUTION_ERROR") == 1
    assert '  - a({"n": 2})  (expected)\n' in message["test_calls"].replace("    -", "  -")
    refused = message["test_refused"]
    assert "<script> ended with illegal_access: VALIDATION_ERROR DisallowedLoop" in refused
    assert "  2 | \twhile (true) {}\n    | \t^" in refused
    details = message["test_error_without_a_stub"]
    for text in (
        "ended with tool_error: OWN",
        "  said",
        'details: {"why": "so"}',
        "  console:\n    before",
        "1 a({}) -> OWN",
    ):
        assert text in details
    assert (
        "if orders is a namespace of tools, declare one of them, such as orders:list"
        in message["test_no_such_namespace"]
    )
    assert "there is no script 'broke.js' in" in message["test_no_such_file"]
    assert "Did you mean broken.js?" in message["test_no_such_file"]
    for name in ("test_a_text_as_a_file", "test_a_long_text_as_a_file"):
        assert "To run a text, use the fixture `codecall_enclave`: codecall_enclave.run(…)" in message[name]
    assert "a ScriptResult has no `.result`; it is `.value`" in message["test_another_name"]
    assert "a ScriptResult has no `.stat`; it is `.stats`" in message["test_a_mistyped_name"]


def test_a_script_in_starlark_runs_against_stubs(pytester: pytest.Pytester, loaded_python: LoadedPython):
    (pytester.path / "report.star").write_text(
        'users = users_list(limit=n)\nprint(len(users))\nreturn [u["id"] for u in users]\n', encoding="utf-8"
    )
    (pytester.path / "test_it.py").write_text(
        """
def test_it(script, tool_stub):
    tool_stub("users:list", when={"limit": 2}, returns=[{"id": 1}, {"id": 2}])
    result = script("report.star").run(context={"n": 2})
    assert (result.value, result.logs) == ([1, 2], ["2"])
    assert tool_stub.calls == [("users:list", {"limit": 2})]

def test_inline(codecall_enclave, tool_stub):
    tool_stub("users:list", returns=[])
    assert codecall_enclave.run("return call_tool('users:list')", language="starlark").value == []

def test_undeclared(script):
    script("report.star").run(context={"n": 2})

def test_failed(script, tool_stub):
    tool_stub("users:list", returns=[{}])
    script("report.star").run(context={"n": 1})
""",
        encoding="utf-8",
    )
    result = run_pytest(pytester, loaded_python)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*users_list*"])
    result.stdout.fnmatch_lines(["*at report.star:3:9*"])


def test_where_scripts_are_looked_for(pytester: pytest.Pytester):
    pytester.makeini("[pytest]\ncodecall_scripts = scripts more\n")
    for folder in ("tests", "scripts", "more"):
        pytester.mkdir(folder)
        (pytester.path / folder / "here.js").write_text(f"return '{folder}'", encoding="utf-8")
    (pytester.path / "more" / "only.js").write_text("return 'only'", encoding="utf-8")
    (pytester.path / "root.js").write_bytes(b"return '\xc3\xa9'\r\n")
    (pytester.path / "tests" / "test_it.py").write_text(
        """
from pathlib import Path

def test_it(script):
    assert script("here.js").run().value == "tests"
    assert script("only.js").run().value == "only"
    assert script("more/here.js").run().value == "more"
    assert script(Path("root.js")).run().value == "é"
    assert script(Path(__file__).parent.parent / "root.js").name == "root.js"
    assert script("only.js").name == "more/only.js"
    assert script("root.js").source.endswith("\\r\\n")
    assert repr(script("only.js")) == "<script more/only.js>"
""",
        encoding="utf-8",
    )
    pytester.runpytest_inprocess(*QUIET).assert_outcomes(passed=1)


PRESETS = """
import pytest

def test_default(codecall_enclave, codecall_preset):
    assert (codecall_preset, codecall_enclave.preset.timeout_ms) == {default}

@pytest.mark.codecall("experimental", timeout_ms=77)
def test_marker(codecall_enclave, codecall_preset):
    assert (codecall_preset, codecall_enclave.preset.timeout_ms) == ("experimental", 77)
    assert codecall_enclave.run("return 1").success

@pytest.mark.parametrize("codecall_preset", ["locked_down"])
def test_parametrized(codecall_enclave):
    assert codecall_enclave.preset.timeout_ms == 2000
"""


@pytest.mark.parametrize(
    ("line", "ini", "variable", "default"),
    [
        (["--codecall-preset=locked_down"], "balanced", "experimental", ("locked_down", 2000)),
        ([], "balanced", "experimental", ("balanced", 5000)),
        ([], None, "experimental", (None, 10000)),
        ([], None, None, (None, 3500)),
    ],
)
def test_who_chooses_the_preset(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    line: list[str],
    ini: str | None,
    variable: str | None,
    default: tuple[str | None, int],
):
    monkeypatch.delenv("CODECALL_VM_PRESET", raising=False)
    if variable:
        monkeypatch.setenv("CODECALL_VM_PRESET", variable)
    if ini:
        pytester.makeini(f"[pytest]\ncodecall_preset = {ini}\n")
    pytester.makepyfile(PRESETS.replace("{default}", repr(default)))
    pytester.runpytest_inprocess(*QUIET, *line).assert_outcomes(passed=3)


def test_a_preset_file_is_below_the_root(pytester: pytest.Pytester):
    text = (REPOSITORY / "presets" / "secure.toml").read_text(encoding="utf-8").replace("= 3500", "= 3456")
    (pytester.path / "own.toml").write_text(text, encoding="utf-8")
    pytester.makeini("[pytest]\ncodecall_preset = own.toml\n")
    pytester.mkdir("sub")
    (pytester.path / "sub" / "test_it.py").write_text(
        "def test_it(codecall_enclave):\n    assert codecall_enclave.preset.timeout_ms == 3456\n", encoding="utf-8"
    )
    pytester.runpytest_inprocess(*QUIET, "sub").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ('"secure", "balanced"', "takes one preset and keywords, got ('secure', 'balanced')"),
        ("5", "preset is a name or a path, got 5"),
        ('"lax"', "what this test runs under is wrong: preset: unknown preset 'lax'; known: "),
        ('preset="lax"', "what this test runs under is wrong: preset: unknown preset 'lax'; known: "),
        (
            "alow_unused=True",
            "@pytest.mark.codecall takes no 'alow_unused'; did you mean allow_unused? Known: preset, recording, "
            "allow_unused, allow_undeclared, allow_invalid_input, allow_failure, timeout_ms, ",
        ),
        ("timeout=5", "@pytest.mark.codecall takes no 'timeout'; did you mean timeout_ms? Known: "),
        ("timeout_ms=-1", "timeout_ms"),
    ],
)
def test_markers_that_are_wrong(pytester: pytest.Pytester, marker: str, message: str):
    pytester.makepyfile(f"import pytest\n@pytest.mark.codecall({marker})\ndef test_it(codecall_enclave): pass\n")
    result = pytester.runpytest_inprocess(*QUIET)
    result.assert_outcomes(errors=1)
    assert message in result.stdout.str()
    assert not re.search(r"\.py:\d+: |During handling", result.stdout.str()), "no traceback"


def test_a_marker_is_read_whatever_a_test_uses(pytester: pytest.Pytester):
    pytester.makepyfile(
        "import pytest\n@pytest.mark.codecall(allow_unusd=True)\ndef test_it(tool_stub): pass\n"
        "@pytest.mark.codecall(timeoutMs=500)\ndef test_both_spellings(tool_stub): pass\n"
    )
    result = pytester.runpytest_inprocess(*QUIET)
    result.assert_outcomes(errors=1, passed=1)
    assert "did you mean allow_unused?" in result.stdout.str()


def test_a_preset_of_the_command_line_that_there_is_not(pytester: pytest.Pytester):
    result = pytester.runpytest_inprocess(*QUIET, "--codecall-preset=lax")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = result.stderr.str().splitlines()
    assert [line for line in message if line] == [
        "ERROR: --codecall-preset: unknown preset 'lax'; known: locked_down, secure, balanced, experimental, or the "
        "path of a .toml file"
    ]


def test_a_preset_of_the_configuration_that_there_is_not(pytester: pytest.Pytester):
    pytester.makeini("[pytest]\ncodecall_preset = lax\n")
    pytester.makefile(".script.js", a="--- one\nreturn 1\n")
    result = pytester.runpytest_inprocess(*QUIET)
    result.assert_outcomes(failed=1)
    assert "unknown preset 'lax'" in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    assert "options.py" not in result.stdout.str()


def test_a_limit_of_one_run_that_there_is_not(pytester: pytest.Pytester):
    pytester.makepyfile("def test_it(codecall_enclave): codecall_enclave.run('return 1', config={'timeoutms': 1})\n")
    result = pytester.runpytest_inprocess(*QUIET)
    result.assert_outcomes(failed=1)
    assert "config.timeoutms: unknown option; known here: timeout_ms, " in result.stdout.str()
    assert "options.py" not in result.stdout.str()


ANY_LOOP = """
import asyncio
import unittest

import anyio
import pytest


def test_plain(codecall_enclave):
    assert codecall_enclave.run("return 1").value == 1

def test_a_loop_of_its_own(codecall_enclave):
    async def main():
        return await codecall_enclave.execute("return 1"), codecall_enclave.run("return 2")
    for _ in range(2):
        assert [result.value for result in asyncio.run(main())] == [1, 2]

@pytest.mark.anyio
async def test_of_anyio(codecall_enclave):
    assert (await codecall_enclave.execute("return 1")).value == 1

@pytest.mark.anyio
async def test_time_limits(codecall_enclave, tool_stub):
    tool_stub("slow", delay_ms=60_000, optional=True)
    with anyio.move_on_after(0.05) as scope:
        await codecall_enclave.execute("await callTool('slow')")
    assert scope.cancelled_caught

@pytest.mark.anyio
async def test_an_assertion_in_a_coroutine(codecall_enclave, tool_stub):
    async def fails(given):
        pytest.fail("said in a coroutine")
    tool_stub("a", side_effect=fails)
    await codecall_enclave.execute("try { await callTool('a') } catch {}")

def test_interrupted(codecall_enclave, tool_stub):
    import signal
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("rang")))
    tool_stub("slow", delay_ms=60_000, optional=True)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(TimeoutError, match="rang"):
        codecall_enclave.run("await callTool('slow')")
    assert codecall_enclave.run("return 1").value == 1

@pytest.fixture
def anyio_backend():
    return "asyncio"


class TestOfUnittest(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _enclave(self, codecall_enclave, tool_stub):
        self.enclave, self.stub = codecall_enclave, tool_stub

    def test_it(self):
        self.stub("a", returns=1)
        assert self.enclave.run("return await callTool('a')").value == 1
"""


def test_whatever_loop_tests_have(pytester: pytest.Pytester, loaded_python: LoadedPython):
    pytester.makepyfile(ANY_LOOP)
    result = run_pytest(pytester, loaded_python, "-W", "error")
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["*Failed: said in a coroutine*"])


COUNTS = """
import os
import pytest

@pytest.mark.parametrize("n", range(6))
def test_it(codecall_enclave, n):
    result = codecall_enclave.run("return 1")
    assert result.value == 1
    with open("workers", "a") as file:
        print(os.getpid(), *codecall_enclave._enclaves.enclave(codecall_enclave._choice)[0].pool.pids(), file=file)
"""


def test_one_pool_for_all_tests_and_none_left_behind(pytester: pytest.Pytester, loaded_python: LoadedPython):
    pytester.makepyfile(COUNTS)
    run_pytest(pytester, loaded_python, "-W", "error").assert_outcomes(passed=6)
    lines = (pytester.path / "workers").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 6
    assert len({*lines}) == 1, "each test has the same worker"
    assert not any(Path("/proc", pid).exists() for line in lines for pid in line.split())


def test_with_several_processes(pytester: pytest.Pytester, loaded_python: LoadedPython):
    pytester.makepyfile(COUNTS)
    pytester.makefile(".script.js", a="--- one\nreturn 1\n//= 1\n--- two words\nreturn 1\n//= 2\n")
    result = run_pytest(pytester, loaded_python, "-n", "2")
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(["*a.script.js:4: two words", "FAILED a.script.js::two words*"])


def test_a_run_that_uses_nothing_loads_nothing(pytester: pytest.Pytester):
    pytester.makepyfile(
        test_it="""
        import json, sys, threading

        def test_it():
            names = [name for name in sys.modules if name.split(".")[0] in HEAVY]
            assert json.dumps(sorted(names)) == json.dumps(LOADED)
            assert threading.active_count() == 1

        TESTING = ("", ".plugin", ".recording", ".recording.fixtures")
        LOADED = ["codecall", *(f"codecall.testing{name}" for name in TESTING)]
        HEAVY = ("codecall", "fastmcp", "mcp", "pydantic", "pydantic_core", "sklearn", "numpy", "msgspec", "jsonschema")
        """
    )
    (pytester.path / "plain.script.js").write_text("return 1", encoding="utf-8")
    # Without other plugins, which may have threads of their own.
    command = [sys.executable, "-m", "pytest", "-p", "codecall", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    outcome = subprocess.run(
        command, cwd=pytester.path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert outcome.returncode == 0, outcome.stdout
    assert "1 passed" in outcome.stdout


def test_pytest_tells_of_the_plugin(pytester: pytest.Pytester):
    helped = pytester.runpytest_inprocess("--help", *QUIET).stdout.str()
    for text in ("CodeCall: tests of AgentScript", "--codecall-preset=PRESET", "codecall_scripts", "codecall_files"):
        assert text in helped
    assert (
        "@pytest.mark.codecall(preset=None, *, allow_unused=False"
        in pytester.runpytest_inprocess("--markers", *QUIET).stdout.str()
    )
    fixtures = pytester.runpytest_inprocess("--fixtures", *QUIET).stdout.str()
    for name in ("script", "tool_stub", "resource_stub", "prompt_stub", "codecall_enclave", "codecall_preset"):
        assert f"\n{name} -- " in fixtures


def test_the_names_of_the_package_are_documented():
    import codecall.testing as testing

    assert json.dumps(sorted(testing.__all__, key=str.lower)) == json.dumps(testing.__all__)
    for name in testing.__all__:
        assert getattr(testing, name).__doc__ or name == "Outcome"
    assert {*dir(testing)} >= {*testing.__all__}
    with pytest.raises(AttributeError, match=r"module 'codecall.testing' has no attribute 'Nothing'"):
        _ = testing.Nothing  # type: ignore[attr-defined]
