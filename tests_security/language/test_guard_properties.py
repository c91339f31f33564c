"""What holds of the guard for any text: it never falls over, its work grows no faster than the text, and a name that is
refused is refused wherever it stands and however it is written."""

from __future__ import annotations

import contextlib
import gc
import random
import re
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codecall.sandbox.agentscript.checked import MAX_FINDINGS, Finding, InvalidScriptError
from codecall.sandbox.agentscript.parser.parse import PREFIX_LENGTH
from codecall.sandbox.agentscript.policy import GLOBALS, MAX_SCRIPT_BYTES, NEVER_NAMES, PREFIXES, Rules
from codecall.sandbox.agentscript.validate import validate_javascript
from tests_security.fuzz.agreement import nodes_of
from tests_security.fuzz.choices import Choices
from tests_security.fuzz.engines import ALL
from tests_security.fuzz.programs import hostile_programs, program
from tests_security.fuzz.tokens import HOSTILE

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
RULES = (Rules(), ALL)

# ---------------------------------------------------------------------------------------------------------------------
# Any text


def refusals(script: str, rules: Rules) -> list[Finding]:
    """Why a script is refused; empty when it is not."""
    try:
        validate_javascript(script, rules)
    except InvalidScriptError as error:
        return error.findings
    return []


def judge(script: str) -> None:
    """The guard ends in one of its two ways, whatever the rules, and every place it names is in the script."""
    lines = re.split(r"\r\n|\n|\r", script)
    for rules in RULES:
        findings = refusals(script, rules)
        assert len(findings) <= MAX_FINDINGS
        for finding in findings:
            assert finding.message
            assert 1 <= finding.line <= len(lines)
            assert 1 <= finding.column <= len(lines[finding.line - 1]) + 2


ALL_CHARACTERS = st.characters(codec=None, exclude_categories=())
LIKE_CODE = st.sampled_from([*HOSTILE, *(chr(code) for code in range(33, 127)), " ", "\n"])


@settings(max_examples=60, deadline=None)
@given(st.text(ALL_CHARACTERS, max_size=60))
def test_any_characters(text: str):
    judge(text)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(LIKE_CODE, ALL_CHARACTERS), max_size=40).map("".join))
def test_any_pieces_of_code(text: str):
    judge(text)


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(hostile_programs(), st.text(ALL_CHARACTERS, min_size=1, max_size=3), st.integers(0, 10_000))
def test_programs_with_any_characters_in_them(script: str, text: str, at: int):
    judge(script)
    judge(script[: at % (len(script) + 1)] + text + script[at % (len(script) + 1) :])


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(st.binary(max_size=200))
def test_bytes_read_as_text(data: bytes):
    judge(data.decode("utf-8", "surrogateescape"))
    judge(data.decode("latin-1"))


# ---------------------------------------------------------------------------------------------------------------------
# Linear work

PIECES: dict[str, Callable[[int], str]] = {
    "statements": lambda n: "x = 1;\n" * n,
    "unknown names": lambda n: "".join(f"name{i};\n" for i in range(n)),
    "known names": lambda n: "let a = 1;\n" + "a;\n" * n,
    "declarations": lambda n: "".join(f"let n{i} = {i};\n" for i in range(n)),
    "redeclared": lambda n: "var a;\n" * n,
    "members": lambda n: "a" + ".b\n" * n,
    "optional members": lambda n: "a" + "?.b\n" * n,
    "calls": lambda n: "a" + "()\n" * n,
    "arguments": lambda n: "f(" + "1,\n" * n + ")",
    "array": lambda n: "[" + "1,\n" * n + "]",
    "holes": lambda n: "[" + ",\n" * n + "]",
    "object": lambda n: "({" + "".join(f"k{i}: 1,\n" for i in range(n)) + "})",
    "pattern": lambda n: "const [" + "[],\n" * n + "] = x",
    "parameters": lambda n: "(" + ",\n".join(f"p{i}" for i in range(n)) + ") => 1",
    "arrow functions": lambda n: "(a => a);\n" * n,
    "methods": lambda n: "class A {" + "".join(f"m{i}() {{}}\n" for i in range(n)) + "}",
    "fields": lambda n: "class A {" + "x = 1;\n" * n + "}",
    "private fields": lambda n: "class A {" + "".join(f"#x{i} = 1;\n" for i in range(n)) + "}",
    "classes": lambda n: "(class {});\n" * n,
    "superclasses": lambda n: "class A0 {}\n" + "".join(f"class A{i + 1} extends A{i} {{}}\n" for i in range(n)),
    "sums": lambda n: "a" + "+\na" * n,
    "concatenation": lambda n: "x['a'" + "+\n'a'" * n + "]",
    "templates": lambda n: "`a${1}`;\n" * n,
    "one template": lambda n: "`" + "a${1}\n" * n + "`",
    "regular expressions": lambda n: "/[a-c]+/.y;\n" * n,
    "divisions": lambda n: "a" + " / a\n" * n,
    "comments": lambda n: "/* a */ // b\n" * n,
    "stars": lambda n: "/*" + "*\n" * n + "*/",
    "slashes": lambda n: "//\n" * n,
    "blanks": lambda n: " \t\n" * n,
    "strings": lambda n: "'a\\n';\n" * n,
    "escapes": lambda n: "'" + "\\u0061\\\n" * n + "'",
    "escaped names": lambda n: "\\u0061b;\n" * n,
    "invisible": lambda n: "a\u200b\n" * n,
    "mixed names": lambda n: "a\u0430\n" * n,
    "loops": lambda n: "for (;;) break\n" * n,
    "labels": lambda n: "a: ;\n" * n,
    "tries": lambda n: "try {} catch {}\n" * n,
    "cases": lambda n: "switch (a) {" + "case 1:\n" * n + "}",
    "conditions": lambda n: "if (a) b\n" * n,
    "openings": lambda n: "({[\n" * n,
    "closings": lambda n: ")}]\n" * n,
    "quotes": lambda n: "'\n" * n,
    "open templates": lambda n: "`${\n" * n,
    "number": lambda n: "1_0" * n,
    "refused": lambda n: "eval;\n" * n,
    "never": lambda n: "a.constructor;\n" * n,
    "tools": lambda n: "callTool('codecall:search');\n" * n,
}


def work(script: str) -> int:
    """How many Python functions are entered, and how many of the interpreter's own, while the guard judges `script`."""
    count = 0

    def counting(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(counting)
    try:
        with contextlib.suppress(InvalidScriptError):
            validate_javascript(script, ALL)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("family", PIECES)
def test_twice_the_text_is_twice_the_work(family: str):
    piece = PIECES[family]
    once, twice = work(piece(150)), work(piece(300))
    assert twice <= 2.3 * once + 500, f"{once} calls for one, {twice} for twice as much"


@pytest.mark.parametrize("family", PIECES)
def test_no_native_call_takes_more_than_its_share(family: str):
    # The count of calls does not see what one call costs; the clock does, so its factor is generous
    piece = PIECES[family]
    longest = 1
    while len(piece(longest * 2).encode()) <= MAX_SCRIPT_BYTES and longest < 2_000:
        longest *= 2
    part = seconds(piece(max(1, longest // 4)))
    full_script = piece(longest)
    took = seconds(full_script, once_below=10 * part + 0.05)
    # Quadratic would be 16 times
    assert took < 10 * part + 0.05, f"{part:.3f} s for a quarter, {took:.3f} s for all"


def seconds(script: str, once_below: float = 0.0) -> float:
    """The least processor time of this thread for judging `script`, of up to five times: a shared core only adds."""
    best = float("inf")
    gc.disable()  # what there is to collect is pytest's
    try:
        for _ in range(5):
            began = time.thread_time()
            with contextlib.suppress(InvalidScriptError):
                validate_javascript(script, ALL)
            best = min(best, time.thread_time() - began)
            if best < once_below:
                break
    finally:
        gc.enable()
    return best


# ---------------------------------------------------------------------------------------------------------------------
# Names that are refused

POSITIONS = [
    # As an expression, in every place an expression can stand
    "{0}",
    "x.{0}",
    "x?.{0}",
    "x?.{0}.y",
    "x.y?.{0}()",
    "x[{1}]",
    "x?.[{1}]",
    "x[{2}]",
    "x[({1})]",
    "x[`${{{1}}}`]",
    "x['' + {1}]",
    "x[`` + {1} + '']",
    "delete x.{0}",
    "delete x[{1}]",
    "delete x?.{0}",
    "typeof x.{0}",
    "x.{0} = 1",
    "x[{1}] = 1",
    "x.{0}++",
    "--x[{1}]",
    "x.{0} ??= 1",
    "x.{0}.{0}",
    "x.{0}`a`",
    "new x.{0}()",
    "x.{0}?.()",
    "for (x.{0} of []) {{}}",
    "for (x[{1}] of []) {{}}",
    "[x.{0}] = []",
    "({{ a: x.{0} }} = {{}})",
    "[...x[{1}]] = []",
    "({{ a: x.{0} = 1 }} = {{}})",
    "({{ ...x.{0} }} = {{}})",
    "await x.{0}",
    "`${{x.{0}}}`",
    "() => x.{0}",
    "[...x.{0}]",
    # As a key
    "({{ {0}: 1 }})",
    "({{ {1}: 1 }})",
    "({{ [{1}]: 1 }})",
    "({{ [{2}]: 1 }})",
    "({{ {0}() {{}} }})",
    "({{ [{1}]() {{}} }})",
    "({{ get {0}() {{ return 1 }} }})",
    "({{ set {1}(v) {{}} }})",
    "({{ get [{1}]() {{ return 1 }} }})",
    "({{ *{0}() {{}} }})",
    "({{ async {0}() {{}} }})",
    "({{ async *{1}() {{}} }})",
    "({{ {0} }})",
    "({{ {0}: x }} = x)",
    "({{ {1}: x }} = x)",
    "({{ [{1}]: x }} = x)",
    "const {{ {0}: y }} = x",
    "const {{ {1}: y }} = x",
    "const {{ [{1}]: y }} = x",
    "const {{ a: {{ {0}: y }} }} = x",
    "const [{{ {0}: y }}] = x",
    "(({{ {0}: y }}) => y)(x)",
    "function f({{ [{1}]: y }}) {{}}",
    "try {{}} catch ({{ {0}: y }}) {{}}",
    "for (const {{ {0}: y }} of []) {{}}",
    "({{ {0} = 1 }} = x)",
    "({{ a: {{ {1}: x }} }} = x)",
    "class A {{ {0} = 1 }}",
    "class A {{ static {0} = 1 }}",
    "class A {{ static [{1}] = 1 }}",
    "class A {{ [{1}]() {{}} }}",
    "class A {{ get {1}() {{ return 1 }} }}",
    "class A {{ static {1}() {{}} }}",
    "class A {{ async *[{1}]() {{}} }}",
    "class A {{ static set [{1}](v) {{}} }}",
    "class A {{ #{0} = 1 }}",
    "class A {{ #a; m() {{ return this.#{0} }} }}",
    "class A {{ m() {{ return super.{0} }} }}",
    "class A {{ m() {{ return super[{1}] }} }}",
    "class A {{ m() {{ this.{0} = 1 }} }}",
    "class A {{ static {{ this.{0} }} }}",
    "class A {{ x = this[{1}] }}",
    # As a name of its own
    "const {0} = 1",
    "let {0}",
    "var {0}",
    "const [{0}] = []",
    "const [...{0}] = []",
    "const {{ a: {0} }} = {{}}",
    "const {{ ...{0} }} = {{}}",
    "const [{0} = 1] = []",
    "function {0}() {{}}",
    "async function* {0}() {{}}",
    "class {0} {{}}",
    "(function {0}() {{}})",
    "(class {0} {{}})",
    "({0} => 1)",
    "(({0}) => 1)",
    "((a, {0} = 1) => 1)",
    "((...{0}) => 1)",
    "async ({0}) => 1",
    "function f({0}) {{}}",
    "try {{}} catch ({0}) {{}}",
    "for (const {0} of []) {{}}",
    "for (let {0};;) break",
    "{0}: for (;;) break {0}",
    "({0} = 1)",
    "[{0}] = []",
    "({{ a: {0} }} = {{}})",
    "for ({0} of []) {{}}",
    "{0}++",
    "[...{0}]",
    "function f() {{ return {0} }}",
    "class A extends {0} {{}}",
    "x({0})",
    "`${{{0}}}`",
    "{0}`a`",
    "switch (x) {{ case {0}: }}",
    "x ? {0} : 1",
    "x ?? {0}",
    "throw {0}",
    "if (x) {{ {0} }}",
    "(x, {0})",
    "class A {{ [{0}] = 1 }}",
    "class A {{ x = {0} }}",
]


def spellings(name: str) -> list[tuple[str, str, str]]:
    """How `name` can be written: bare, as a string, as a template."""
    first, rest = name[0], name[1:]
    by_code = "".join(f"\\x{ord(letter):02x}" for letter in name)
    return [
        (name, f"'{name}'", f"`{name}`"),
        (f"\\u{ord(first):04x}{rest}", f"'\\u{ord(first):04x}{rest}'", f"`\\u{{{ord(first):x}}}{rest}`"),
        (f"{first}\\u{{{ord(rest[0]):x}}}{rest[1:]}", f"'{by_code}'", f"`{by_code}`"),
        (name, f'"{first}\\\n{rest}"', f"`{first}\\\n{rest}`"),
        (name, f"('{first}' + '{rest}')", f"`{first}${{'{rest}'}}`"),
    ]


def named(script: str) -> set[str]:
    """Every text in a tree that is the name of something: found by looking at all fields, not by the guard's walk."""
    names: set[str] = set()
    for node in nodes_of(script):
        if node.type in {"Identifier", "PrivateIdentifier"}:
            names.add(node.name.removeprefix("#"))
        elif node.type == "Literal" and isinstance(node.value, str):
            names.add(node.value)
        elif node.type == "TemplateElement":
            names.add(str(node.value.cooked))
    return names


@pytest.mark.parametrize("position", POSITIONS)
def test_a_never_name_is_accepted_in_no_position(position: str):
    plain, *others = zip(*(spellings(name) for name in NEVER_NAMES), strict=True)
    # Each name as it is, and each other way of writing one with the names in turn
    rarer = [ways[(POSITIONS.index(position) + number) % len(ways)] for number, ways in enumerate(others)]
    for bare, string, template in [*plain, *rarer]:
        script = "let x = {};\n" + position.format(bare, string, template)
        try:
            validate_javascript(script, ALL)
        except InvalidScriptError:
            continue
        raise AssertionError(f"accepted: {script}")


@pytest.mark.parametrize("position", POSITIONS)
def test_the_positions_are_places_for_a_name(position: str):
    # With a harmless name each is accepted, or is refused for another reason than its syntax
    script = "let x = {};\n" + position.format("name", "'name'", "`name`")
    for finding in refusals(script, ALL)[:1]:
        assert finding.kind is not None, finding
        assert "'name'" in finding.message or "extends" in finding.message
    assert "name" in named(script) or "#name" in script


@cache
def programs_and_places() -> list[tuple[str, list[tuple[int, int]]]]:
    """Programs that are accepted, with the places of some expressions in each."""
    rng = random.Random("places")
    found: list[tuple[str, list[tuple[int, int]]]] = []
    while len(found) < 40:
        script = program(Choices(rng.randbytes(120)), odd=False)
        if refusals(script, ALL):
            continue
        nodes = (node for node in nodes_of(script) if node.type in {"Literal", "CallExpression", "TemplateLiteral"})
        found.append((script, [node.range for node in nodes]))
    return found


AS_VARIABLE = ["eval", "Function", "globalThis", "Proxy", "Reflect", "WebAssembly", "__ag_s", "__safe_x", "__codecall"]


@pytest.mark.parametrize("name", [*AS_VARIABLE, "this", "process", "require", "fetch", "setTimeout", "WeakRef"])
def test_a_refused_name_is_refused_wherever_an_expression_stands(name: str):
    """Expressions of generated programs, replaced by the name in parentheses: none is overlooked."""
    rng = random.Random(name)
    replaced = 0
    for script, places in rng.sample(programs_and_places(), 8):
        for start, end in rng.sample(places, min(10, len(places))):
            changed = f"{script[: start - PREFIX_LENGTH]}({name}){script[end - PREFIX_LENGTH :]}"
            if name == "this" and re.search(r"function|class|\{\s*(?:get|set|async|\*)|\)\s*\{", script):
                continue  # functions have one of their own
            if re.search(rf"(?:const|let|var|[({{,])\s*{name}\b(?!\))", changed):
                continue  # the program has a variable of this name
            try:
                validate_javascript(changed, ALL)
            except InvalidScriptError:
                replaced += 1
            else:
                raise AssertionError(f"accepted: {changed}")
    assert replaced > 12 or name == "this"


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(hostile_programs())
def test_no_accepted_program_names_what_is_refused(script: str):
    try:
        checked = validate_javascript(script, ALL)
    except InvalidScriptError:
        return
    for node in nodes_of(script):
        if node.type in {"Identifier", "PrivateIdentifier"}:
            name = node.name.removeprefix("#")
            assert name not in NEVER_NAMES or name == "constructor"
            assert not name.startswith(tuple(PREFIXES)) or name == "__safe_parallel"
        elif node.type == "MemberExpression" and not node.computed:
            assert node.property.name not in NEVER_NAMES
    assert checked.runtime_names <= set(GLOBALS)


def test_the_guard_may_run_in_any_thread():
    # The stack that it needs does not depend on being the main one
    ended: list[bool] = []

    def body() -> None:
        for script in ("((((1))))", "if (a) {} else " * 300 + "{}", "[" * 60 + "]" * 60):
            judge(script)
        ended.append(True)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert ended
