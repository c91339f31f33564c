"""The script as text: what is refused before parsing, and that text inside literals and comments is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.sandbox.agentscript.lexing import pieces
from codecall.sandbox.agentscript.policy import MAX_LINE_LENGTH, MAX_NESTING, MAX_SCRIPT_BYTES
from codecall.sandbox.agentscript.prescan import prescan


def found(script: str) -> list[tuple[int, str]]:
    """Offsets and messages, in order."""
    marks = prescan(script)
    assert all(mark.kind == "UnsafeSource" and mark.hint for mark in marks)
    return sorted((mark.offset, mark.message.removeprefix("Script has ")) for mark in marks)


def test_length_counts_bytes():
    assert found("x" * 100) == []
    lines = "a\n" * (MAX_SCRIPT_BYTES // 2)
    assert found(lines) == []
    assert found(lines + "a") == [(MAX_SCRIPT_BYTES, f"more than {MAX_SCRIPT_BYTES} bytes")]
    wide = "é\n" * (MAX_SCRIPT_BYTES // 3)
    assert found(wide) == []
    assert found(wide + "éé") == [(len(wide), f"more than {MAX_SCRIPT_BYTES} bytes")]


def test_line_length():
    assert found("x" * MAX_LINE_LENGTH + "\r\n" + "y" * MAX_LINE_LENGTH) == []
    assert found("\n" + "x" * (MAX_LINE_LENGTH + 1)) == [
        (MAX_LINE_LENGTH + 1, f"a line longer than {MAX_LINE_LENGTH} characters")
    ]


@pytest.mark.parametrize("where", ["{0}", "'{0}'", "`{0}`", "// {0}", "/{0}/", "/* {0} */"])
def test_characters_refused_everywhere(where: str):
    at = where.index("{0}")
    assert found(where.format("\0")) == [(at, "a NUL character")]
    assert found(where.format("\ud800")) == [(at, "the unpaired surrogate U+D800")]
    for control in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
        assert found(where.format(control)) == [(at, f"the bidirectional control U+{ord(control):04X}")]


INVISIBLE = (
    "\u200b\u200c\u200d\u2060\u00ad\ufeff\u115f\u3164\uffa0\u180e\u034f\ufe00\u2028\x01\x1b\x7f\x85\U000e0041\u2064"
)


@pytest.mark.parametrize("character", INVISIBLE, ids=ascii)
def test_invisible_characters_are_refused_in_code_only(character: str):
    message = f"the invisible character U+{ord(character):04X}"
    for script in (
        f"a{character}b",
        f"a {character}= 1",
        f"/a{character}/",
        f"`${{a{character}}}`",
        f"// a{character}b",
    ):
        assert found(script) == [(script.index(character), message)], ascii(script)
    for script in (f"'{character}'", f'"a{character}"', f"`{character}${{1}}{character}`", f"'\\'{character}'"):
        assert found(script) == [], ascii(script)
    assert found(character + "return 1") == [(0, message)]


def test_comments_keep_their_emoji():
    assert found("// ⚠️ 👩‍💻 ❤️‍🔥\n/* 1️⃣ ✔︎ */ return 1") == []
    assert found("// a\u200db") != []


def test_white_space_with_a_width_is_white_space():
    assert found("return\u00a01\u3000+\u20022") == []


@pytest.mark.parametrize("name", ["pаy", "раypal", "Οbj", "users_ν", "x.\u0441all", "αdmin", "idх", "#pаy"])
def test_names_of_mixed_alphabets(name: str):
    assert [message.partition(":")[0] for _, message in found(f"let {name} = 1")] == ["a name of mixed alphabets"]
    assert found(f"'{name}' + `{name}` // {name}") == []


@pytest.mark.parametrize("name", ["привет", "имя_1", "Δt", "λx", "größe", "名前a", "σ", "αβγ", "μs", "θ1", "naïve"])
def test_names_of_one_alphabet_and_plain_symbols(name: str):
    assert found(f"let {name} = 1") == []


def test_html_like_comments():
    assert found("x <!-- y") == [(2, "the HTML-like comment <!--")]
    assert found("--> x") == [(0, "the HTML-like comment -->")]
    assert found("a\n /* b */ --> x") == [(11, "the HTML-like comment -->")]
    assert found("for (let n = 3; n --> 0;) {}") == []
    assert found("'<!--' + `\n--> ${'-->'}\n-->`; // <!-- -->\n/<!--/.test('<!--')") == []


def test_hashbang():
    assert found("#!/usr/bin/node\n1") == [(0, "a hashbang line")]
    assert found("class A { #a = 1 }") == []


def test_nesting():
    deep, deeper = "([{" * 21 + "(", "([{" * 21 + "(("
    message = f"brackets nested deeper than {MAX_NESTING}"
    assert found(deep) == []
    assert found(deeper) == [(MAX_NESTING, message)]
    assert found("()" * 1000 + "[{}]" * 1000) == []
    assert found("'" + "(" * 100 + "'") == []
    assert found("/[(" + "(" * 100 + "]/") == []
    assert found("// " + "(" * 100) == []
    assert found("`" + "(" * 100 + "`") == []
    assert [text for _, text in found("`${" * (MAX_NESTING + 1))] == [message]


def kinds(script: str) -> list[tuple[str, str]]:
    """The pieces of a script but for blanks."""
    return [(kind, script[start:end]) for kind, start, end in pieces(script) if kind != "blank"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a / b / c", ""),
        ("a = /b'/ / c", "/b'/"),
        ("f(/a/g, [/b/], { c: /d/ })", "/a/g /b/ /d/"),
        ("if (x) /'/.test(y)", "/'/"),
        ("(x) / 2 / y", ""),
        ("x[0] / 2 / y", ""),
        ("return /a/", "/a/"),
        ("x.return / 2 / y", ""),
        ("i++ / 2 / y", ""),
        ("() => { }\n/a/.test(b)", "/a/"),
        ("x = { a: 1 } / 2 / y", ""),
        ("`${a / b / c}` / d / e", ""),
        ("`${/}`/.test(a)}`", "/}`/"),
        ("/[/\\]'\"]/ + 1", "/[/\\]'\"]/"),
        ("a ? /b/ : /c/", "/b/ /c/"),
        ("typeof /a/ && !/b/", "/a/ /b/"),
    ],
)
def test_regular_expressions_and_divisions_are_told_apart(script: str, expected: str):
    assert " ".join(text for kind, text in kinds(script) if kind == "regex") == expected


def test_pieces_of_literals():
    assert kinds(r"""a('\'"', "\
b", `c${ {d:`e`} }f`) // g""") == [
        ("word", "a"), ("open", "("), ("string", r"""'\'"'"""), ("sign", ","), ("string", '"\\\nb"'), ("sign", ","),
        ("template", "`c"), ("open", "${"), ("open", "{"), ("word", "d"), ("sign", ":"), ("template", "`e`"),
        ("close", "}"), ("close", "}"), ("template", "f`"), ("close", ")"), ("comment", "// g"),
    ]  # fmt: skip


@given(st.text(alphabet="ab1 \n'\"`${}()[]/*\\=+-.<>!é\u200b", max_size=60))
def test_pieces_follow_each_other(script: str):
    at = 0
    for piece in pieces(script):
        assert piece.start == at
        assert piece.end > piece.start
        at = piece.end
    assert at <= len(script)
