"""The script as text: what is refused before and while it is parsed, and that text inside literals is left alone."""

from __future__ import annotations

import pytest

from codecall.sandbox.agentscript.checked import Finding, InvalidScriptError
from codecall.sandbox.agentscript.parser.parse import parse, prescan
from codecall.sandbox.agentscript.policy import MAX_LINE_LENGTH, MAX_NESTING, MAX_SCRIPT_BYTES


def finding_offset(script: str, finding: Finding) -> int:
    """The offset of a finding of the parser."""
    assert finding.kind == "UnsafeSource", finding
    assert finding.hint
    lines = script.split("\n")
    return sum(len(line) + 1 for line in lines[: finding.line - 1]) + finding.column - 1


def unsafe_text(script: str) -> list[tuple[int, str]]:
    """Offsets and messages, in order. The script must be one that parses but for them."""
    violations = prescan(script)
    assert all(violation.kind == "UnsafeSource" and violation.hint for violation in violations)
    if violations:
        return sorted((violation.offset, violation.message.removeprefix("Script has ")) for violation in violations)
    try:
        parse(script)
    except InvalidScriptError as error:
        return [(finding_offset(script, item), item.message.removeprefix("Script has ")) for item in error.findings]
    return []


def test_length_counts_bytes():
    assert unsafe_text("x" * 100) == []
    lines = "\n" * MAX_SCRIPT_BYTES
    assert unsafe_text(lines) == []
    assert unsafe_text(lines + "a") == [(MAX_SCRIPT_BYTES, f"more than {MAX_SCRIPT_BYTES} bytes")]
    wide = "//é\n" * (MAX_SCRIPT_BYTES // 5)
    assert unsafe_text(wide) == []
    assert unsafe_text(wide + "éé") == [(len(wide), f"more than {MAX_SCRIPT_BYTES} bytes")]


def test_line_length():
    assert unsafe_text("x" * MAX_LINE_LENGTH + "\r\n" + "y" * MAX_LINE_LENGTH) == []
    assert unsafe_text("\n" + "x" * (MAX_LINE_LENGTH + 1)) == [
        (MAX_LINE_LENGTH + 1, f"a line longer than {MAX_LINE_LENGTH} characters")
    ]


@pytest.mark.parametrize("where", ["{0}", "'{0}'", "`{0}`", "// {0}", "/{0}/", "/* {0} */"])
def test_characters_refused_everywhere(where: str):
    at = where.index("{0}")
    assert unsafe_text(where.format("\0")) == [(at, "a NUL character")]
    assert unsafe_text(where.format("\ud800")) == [(at, "the unpaired surrogate U+D800")]
    for control in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
        assert unsafe_text(where.format(control)) == [(at, f"the bidirectional control U+{ord(control):04X}")]


INVISIBLE = "\u200b\u200c\u200d\u2060\u00ad\ufeff\u115f\u3164\uffa0\u180e\u034f\ufe00\x01\x1b\x7f\x85\U000e0041\u2064"


@pytest.mark.parametrize("character", INVISIBLE, ids=ascii)
def test_invisible_characters_are_refused_in_code_only(character: str):
    message = f"the invisible character U+{ord(character):04X}"
    for script in (
        f"a{character}b",
        f"a {character}= 1",
        f"/a{character}/",
        f"`${{a{character}}}`",
        f"({character}a)",
        f"/* {character} */",
        f"a /{character} a / a",
        f"// a{character}b",
    ):
        assert unsafe_text(script) == [(script.index(character), message)], ascii(script)
    for script in (f"'{character}'", f'"a{character}"', f"`{character}${{1}}{character}`", f"'\\'{character}'"):
        assert unsafe_text(script) == [], ascii(script)
    assert unsafe_text(character + "return 1") == [(0, message)]


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\r"], ids=ascii)
@pytest.mark.parametrize(
    "where", ["1{0}2", "'{0}'", "`{0}`", "// {0}", "/{0}/", "/* {0} */", "of / 2\n// {0} x", "({0}"]
)
def test_line_ends_of_one_reader_are_refused_everywhere(end: str, where: str):
    script = where.format(end)
    what = "a carriage return that is not part of a line end" if end == "\r" else f"the line separator U+{ord(end):04X}"
    assert unsafe_text(script) == [(where.index("{0}"), what)]
    assert unsafe_text("'\\u2028\\u2029\\r'\r\n") == []


def test_comments_keep_their_emoji():
    assert unsafe_text("// ⚠️ 👩‍💻 ❤️‍🔥\n/* 1️⃣ ✔︎ */ return 1") == []
    assert unsafe_text("// a\u200db") != []


def test_white_space_is_plain():
    assert unsafe_text("return\t1\v+\f2") == []
    assert unsafe_text("return 1\u3000+\u20022") == [(8, "the unusual white space U+3000")]
    assert unsafe_text("'\u00a0' + `\u3000` // \u2002") == []


def declaration(name: str) -> str:
    """A script that has a name of this form."""
    if name.startswith("#"):
        return f"class A {{ {name} = 1 }}"
    return f"{name} = 1" if "." in name else f"let {name} = 1"


@pytest.mark.parametrize("name", ["pаy", "раypal", "Οbj", "users_ν", "x.\u0441all", "αdmin", "idх", "#pаy"])
def test_names_of_mixed_alphabets(name: str):
    assert [message.partition(":")[0] for _, message in unsafe_text(declaration(name))] == ["a name of mixed alphabets"]
    assert unsafe_text(f"'{name}' + `{name}` // {name}") == []


@pytest.mark.parametrize("name", ["привет", "имя_1", "Δt", "λx", "größe", "名前a", "σ", "αβγ", "μs", "θ1", "naïve"])
def test_names_of_one_alphabet_and_plain_symbols(name: str):
    assert unsafe_text(f"let {name} = 1") == []


def test_html_like_comments():
    assert unsafe_text("x <!-- y") == [(2, "the HTML-like comment <!--")]
    assert unsafe_text("--> x") == [(0, "the HTML-like comment -->")]
    assert unsafe_text("a\n /* b */ --> x") == [(11, "the HTML-like comment -->")]
    # The engine takes this for a comment, and other readers for `a-- > x`
    assert unsafe_text("a /*\n*/ --> x") == [(8, "the HTML-like comment -->")]
    assert unsafe_text("const of = 1; of / 2;\n<!-- x") == [(22, "the HTML-like comment <!--")]
    assert unsafe_text("x. if (1) / 2;\n<!-- x") == [(15, "the HTML-like comment <!--")]
    assert unsafe_text("a\n++\na; of\n/ 2;\n<!-- x") == [(16, "the HTML-like comment <!--")]
    assert unsafe_text("f() / 2; x = class {} / 2;\n<!-- x") == [(27, "the HTML-like comment <!--")]
    assert unsafe_text("`${a <!-- b\n}`") == [(5, "the HTML-like comment <!--")]
    assert unsafe_text("for (let n = 3; n --> 0;) {}") == []
    assert unsafe_text("'<!--' + `\n--> ${'-->'}\n-->`; // <!-- -->\n/<!--/.test('<!--')") == []


def test_hashbang():
    assert unsafe_text("#!/usr/bin/node\n1") == [(0, "a hashbang line")]
    assert unsafe_text("class A { #a = 1 }") == []


def test_nesting():
    message = f"brackets nested deeper than {MAX_NESTING}"

    def nest(depth: int, opening: str = "(", closing: str = ")") -> str:
        return opening * depth + "1" + closing * depth

    assert unsafe_text(nest(MAX_NESTING)) == []
    assert unsafe_text(nest(MAX_NESTING + 1)) == [(MAX_NESTING, message)]
    assert unsafe_text("(" * 19_000) == [(MAX_NESTING, message)]
    assert unsafe_text(nest(21, "([{a:", "}])")) == []
    assert unsafe_text(nest(22, "([{a:", "}])")) == [(21 * 5 + 1, message)]
    assert unsafe_text("f();\n" * 1000 + "[{}];\n" * 1000) == []
    assert unsafe_text("'" + "(" * 100 + "'") == []
    assert unsafe_text("/[(" + "(" * 100 + "]/") == []
    assert unsafe_text("// " + "(" * 100) == []
    assert unsafe_text("`" + "(" * 100 + "`") == []
    assert unsafe_text(nest(MAX_NESTING, "`${", "}`")) == []
    assert unsafe_text(nest(MAX_NESTING + 1, "`${", "}`")) == [(MAX_NESTING * 3 + 1, message)]
    # What may be before a division does not matter
    assert unsafe_text("of / 2;\n" + nest(MAX_NESTING + 1)) == [(8 + MAX_NESTING, message)]
    assert unsafe_text(f"`${{{{a: `{'{' * 100}`}}.a}}` + {nest(MAX_NESTING)}") == []
