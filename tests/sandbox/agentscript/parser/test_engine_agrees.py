"""The guard and the engine read a script alike: no text is code to one of them and a comment or literal to the other.

Each program has numbered marks, `m(7)`, in places that could be code or text. What the guard takes for code it has in
its tree. What the engine takes for code shows when the mark is broken, `m(7 7)`: then the program no longer compiles.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, cast

import pytest
import quickjs  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.sandbox.agentscript.checked import InvalidScriptError
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.parser.parse import parse
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_javascript

ALL = Rules(allow_loops=True, allow_regex=True, allow_console=True, allow_clock=True)
PRELUDE = "let o, of, get, set, async, x, m;\n"
ENGINE = cast("Any", quickjs)  # it has no types
MARK = re.compile(r"m\((\d+)\)")


def new_engine() -> Any:
    return ENGINE.Context()


COMPILER = new_engine()
"""Compiles, and runs nothing."""


def refusal(script: str) -> str | None:
    """Why the guard refuses a script; None when it accepts it."""
    try:
        validate_javascript(script, ALL)
    except InvalidScriptError as refusal:
        return refusal.first.message
    return None


def code_in_tree(script: str) -> set[int]:
    """The marks that are code in the tree that the guard walks."""
    numbers: set[int] = set()
    stack: list[Any] = list(parse(script)[0])
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(cast("list[Any]", item))
        elif getattr(item, "type", None) == "Literal":
            if isinstance(item.value, int) and item.raw.isdigit():
                numbers.add(item.value)
        elif hasattr(item, "type"):
            stack.extend(
                value for name, value in cast("dict[str, Any]", vars(item)).items() if name not in {"type", "range"}
            )
    return numbers


def compiles(engine: Any, script: str) -> bool:
    try:
        engine.eval(f'(function(){{"use strict";return async()=>{{{script}\n}}}})')
    except ENGINE.JSException:
        return False
    return True


def read_alike(script: str) -> bool:
    """Whether the guard accepts the script and the engine compiles it; then both must read it alike."""
    # The engine is asked first: it takes a tenth of the guard's time
    if not compiles(COMPILER, script) or refusal(script) is not None:
        return False
    in_tree = code_in_tree(script)
    for mark in MARK.finditer(script):
        number = int(mark[1])
        broken = f"{script[: mark.start()]}m({number} {number}){script[mark.end() :]}"
        assert compiles(COMPILER, broken) == (number not in in_tree), ascii(script)
    return True


def words(text: str) -> list[str]:
    return text.split()


# Between two tokens
BLANKS = ["", " ", "\t", "\v", "\f", "\u00a0", "\u3000", "\u180e", "\ufeff", "\u200b", "\x1c", "\x85"]
LINE_ENDS = ["\n", "\r\n", "\r", "\u2028", "\u2029"]
GAPS = [
    *BLANKS,
    *LINE_ENDS,
    *(f"/*{end}*/" for end in LINE_ENDS),
    *(f"//{end}" for end in LINE_ENDS),
    *(f"// {end}m(#);\n" for end in LINE_ENDS),
    *(f"{end}--> m(#);\n" for end in LINE_ENDS),
    *(f"/*{end}*/ --> m(#);\n" for end in LINE_ENDS),
    "/* m(#) */",
    "/*/ m(#) /*/",
    "<!-- m(#)\n",
    "; <!-- m(#)\n",
    "// ' ` /* m(#)\n",
]
# A `/` after one of these divides, or begins a regular expression
BEFORE = [
    *words("of get set async x o.if o.of o?.return o.await m(#) (x) [x] {} `t` `${x}` 's' /r/ 1 1. .5 0x1 1n x++ ++x"),
    *words("++ --"),
    *words("typeof await yield this null return throw case void delete new in else do ; , => ... ! ? : = += ( [ {"),
    *["function(){}", "(function(){})", "class{}", "x=class{}", "()=>{}", "async()=>{}", "async function f(){}"],
    *["if(x)", "while(x)", "for(;;)", "for(x of [1])", "do;while(0)", "x=>", "l:", "'a\\\n'", "`\n`", "'\\\r\n'"],
    *["x\n++", "x\n++\nx", "return\n", "for (const v of", "x = y =>", "o = {", "[", "(", "f =", "async x=>{}"],
]
INSIDE = [
    "m(#)",
    " m(#) ",
    "1;m(#);1",
    "1,m(#),1",
    "[/]m(#)",
    "[m(#)",
    "\\/m(#)",
    "'",
    '"',
    "`",
    "`${",
    "}",
    "*m(#)",
    "m(#)\n",
]
AFTER = [
    "",
    " 2",
    "g",
    " -1",
    ".y",
    "]",
    ")",
    "}",
    "'",
    "`",
    ";",
    "g.test(x)",
    " in o",
    ";'",
    ";`",
    "; m(#)",
    ")}",
    "/ m(#)",
]
AROUND = [
    "§",
    "x = §",
    "m(§)",
    "`${§}`",
    "function f(a = §) {}",
    "function f() { § }",
    "function* g() { § }",
    "const f = () => §",
    "const f = async () => { § }",
    "const f = async (a = §) => a",
    "class A { f = § }",
    "class A { static f = §; m() {} }",
    "class A { static { § } }",
    "class A { [§] = 1 }",
    "o = { *m(a = §) {}, get p() { § } }",
    "if (x) §",
    "switch (x) { case §: ; }",
    "for (x of §) ;",
    "l: §",
    "async function* f() { for await (x of §) ; }",
]


def numbered(text: str) -> str:
    """Each `#` another number."""
    parts = text.split("#")
    return "".join(part + (str(index + 100) if index < len(parts) - 1 else "") for index, part in enumerate(parts))


SLASHED = st.tuples(
    st.sampled_from(BEFORE),
    st.sampled_from([" ", "", *GAPS]),
    st.just("/"),
    st.sampled_from(INSIDE),
    st.just("/"),
    st.sampled_from(AFTER),
).map("".join)
# Complete statements that a lexer without a grammar reads wrong
STATEMENTS = [
    *["of / 2;", "x. if (1) / 2;", "m(#) / 2; x = class {} / 2;", "x\n++\nx; of\n/ 2;", "x = {} / 2;", "x++ / 2;"],
    *["if (x) /'/.test(x);", "x = `${{}}` / 2;", "o?.return / 2;", "l: /`/;", "() => {}\n/'/.y;", "{} /'/.y;"],
    *["x = y => { } \n/m(#)/.y;", "x = function () {} / m(#) / 1;", "function f() {} /m(#)/.y;", "'m(#)'; `m(#)`;"],
]
# Comments that may end early, or begin unseen: they hide a mark from one reader
TRICKS = [gap for gap in GAPS if "#" in gap]
SOUND = st.tuples(st.sampled_from(STATEMENTS), st.sampled_from(["", " ", "\n"]), st.sampled_from(TRICKS)).map("".join)
PIECE = st.one_of(
    SLASHED,
    st.tuples(st.sampled_from(BEFORE), st.sampled_from(GAPS), st.sampled_from(["m(#)", "x", "/ 2"])).map("".join),
    st.sampled_from(GAPS).map(lambda gap: f"x{gap}m(#)"),
)
NESTED = st.recursive(
    PIECE,
    lambda inner: st.tuples(st.sampled_from(AROUND), inner).map(lambda both: both[0].replace("§", both[1])),
    max_leaves=3,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SOUND, min_size=1, max_size=3))
def test_no_comment_ends_for_one_reader_only(pieces: list[str]):
    read_alike(PRELUDE + numbered("\n".join([*pieces, "m(#)"])))


@settings(max_examples=300, deadline=None)
@given(st.lists(NESTED, min_size=1, max_size=2), st.sampled_from(["\n", ";", "\r\n"]))
def test_no_text_is_code_to_one_reader_only(pieces: list[str], glue: str):
    read_alike(PRELUDE + numbered(glue.join([*pieces, "m(#)"])))


@pytest.mark.parametrize("around", AROUND)
def test_what_a_slash_does_after_every_token(around: str):
    alike = 0
    for before in BEFORE:
        for text in (" /1;m(#);1/ 2", " /1,m(#),1/ -1", "\n/m(#)/g", " /'/ + /'m(#)/"):
            alike += read_alike(PRELUDE + numbered(around.replace("§", before + text)))
    assert alike > 0


@pytest.mark.parametrize("gap", [gap for gap in GAPS if gap], ids=ascii)
def test_where_a_line_ends(gap: str):
    # Each means something else when a line ends in the gap
    for form in (
        "x§++ /1;m(#);/1 .y",
        "x§++\n/1;m(#);/1",
        "const f = async§function () {} /1;m(#);/1",
        "const f = async§x => {}\n/m(#)/1",
        "function f() { return§/m(#)/ }",
        "function* g() { yield§/m(#)/ }",
        "l: for (;;) { break§l }",
        "x§-->m(#)",
        "'a\\\n'§/m(#)/ 1",
        "`\n`§/m(#)/ 1",
        "class A { static§f = 1; get§p() { m(#) } }",
        "class A { async§*f() { typeof await /m(#)/g } static async§*h() { typeof await /m(#)/g } }",
        "class A { async§#f() { typeof await /m(#)/g } static§async§#h() { typeof await /m(#)/g } }",
        "class A { async§[f] () { typeof await /m(#)/g } async§'h' () { typeof await /m(#)/g } }",
        "async§function f() {}\n/1; m(#); 1/g",
        "async function§f() {}\n/1; m(#); 1/g",
        "// §m(#)\nx",
        "/* § */ x",
    ):
        read_alike(PRELUDE + numbered(form.replace("§", gap)))


@pytest.mark.parametrize("kind", ["code", "string", "template", "comment"])
def test_no_character_ends_a_line_or_is_blank_to_one_reader_only(kind: str):
    form = {"code": "x{}+ m(1)", "string": "'{}' + m(1)", "template": "`{}` + m(1)", "comment": "// {}m(1)\nx"}[kind]
    # Of those that mean nothing yet a few: neither reader knows them
    odd = [chr(code) for code in range(1, 0x3100) if not chr(code).isprintable() or chr(code).isspace()]
    others = [one for number, one in enumerate(odd) if unicodedata.category(one) != "Cn" or number % 20 == 0]
    accepted = [
        one for one in [*others, "\u3164", "\ufeff", "\ufff0", "\uffa0"] if read_alike(PRELUDE + form.format(one))
    ]
    assert " " in accepted
    assert not set(accepted) & {"\r", "\u2028", "\u2029", "\u202e"}
    if kind == "code":
        # The engine, looking ahead for `async function`, overlooks the white space beyond ASCII
        assert {ord(one) for one in accepted} == {0x9, 0xA, 0xB, 0xC, 0x20}


HIDDEN = "throw new Error('unchecked')"
CONFUSERS = [
    "of / 2;",
    "let a = 1, b = 2; a\n++b\n; of\n/ 2;",
    "x. if (1) / 2;",
    "m(1) / 2; (class {}) / 2;",
    "o.of / 2",
]


@pytest.mark.parametrize("line", [f"//{end} {HIDDEN}" for end in ("\u2028", "\u2029", "\r")] + ["<!-- x", "--> x"])
@pytest.mark.parametrize("confuser", CONFUSERS)
def test_a_comment_one_reader_ends_early(confuser: str, line: str):
    assert (refusal(f"{PRELUDE}{confuser}\n{line}\nreturn 1") or "").startswith("Script has ")


@pytest.mark.parametrize(
    "script",
    [
        # A field awaits nothing: to the engine this is a division by the variable
        "async function f() { class A { x = await /1; static m() { return 'unchecked' } y = 1/ -1 } return A.m() }",
        "function f() { var await = 4; return async () => { class A { static x = await /m(1)/ -1 } } }",
        "async function f() { class A { static { await /m(1)/ -1 } } }",
        "function f(await) { return await /m(1)/ 1 }",
        "const f = await => 1",
        "function f() { await: for (;;) break await }",
        "async function f() { return { *m() { await /m(1)/ -1 } } }",
    ],
)
def test_await_is_an_operator_or_nothing(script: str):
    assert refusal(PRELUDE + script) is not None


def run(script: str) -> Any:
    """What the instrumented script gives."""
    program = instrument(script, validate_javascript(script, ALL), max_iterations=1000)
    engine = new_engine()
    engine.eval("var parts, settled = null")
    engine.eval(f"parts = {program.text}(steps => steps + 1e9, () => {{}}, () => {{}})")
    engine.eval(
        "parts[3]().then(value => { settled = JSON.stringify(value) }, e => { settled = JSON.stringify(String(e)) })"
    )
    while engine.execute_pending_job():
        pass
    return json.loads(engine.get("settled"))


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("try { throw 'a\\\nb' } catch (e) { return e }", "ab"),
        ("try { throw `a\nb` } catch (e) { return e }", "a\nb"),
        ("const f = () => { return 'a\\\r\nb' }; return f()", "ab"),
        ("let n = 0; const o = { '\\\n': n++ }; l: for (;;) { if (o['\\\n'] === 0) break l } return n", 1),
        ("let n = 3, k = 0; while (n --> 0) k++; return k", 3),
        ("return '<!--' + `\n--> ${'-->'}` + /<!--/.source // <!-- -->", "<!--\n--> --><!--"),
        ("const of = 8; return of / 2 / 2", 2),
        ("const x = { if: 8 }; return x.if / 2 / 2", 2),
        ("return [1,\r\n2].length // a\r\n", 2),
        ("return `a\r\nb`", "a\nb"),
    ],
)
def test_honest_scripts_of_these_forms_run(script: str, value: object):
    assert run(script) == value


@pytest.mark.parametrize("lead", ["1;\r\n", "/*\r\n*/\r\n", "`\r\n`;\n", "'\\\r\n';\r\n", "//\r\n", "/*\n\r\n*/\n"])
def test_lines_count_alike(lead: str):
    script = lead + "throw new Error()"
    program = instrument(script, validate_javascript(script, ALL), max_iterations=1000)
    engine = new_engine()
    engine.eval(f"var at = ''; var parts = {program.text}(steps => steps + 1e9)")
    engine.eval("parts[3]().catch(error => { at = error.stack })")
    while engine.execute_pending_job():
        pass
    match = re.search(r":(\d+):(\d+)\)", engine.get("at"))
    assert match is not None
    line = lead.count("\n") + 1
    assert program.original_position(int(match[1]), int(match[2])) in {(line, column) for column in range(1, 20)}
    eval_line = re.sub(r"throw .*", "eval", script)
    with pytest.raises(InvalidScriptError) as refusal:
        validate_javascript(eval_line, ALL)
    assert refusal.value.first.line == line
