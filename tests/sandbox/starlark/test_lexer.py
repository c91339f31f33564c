"""The escapes of texts: what Python reads in a literal, a script reads."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.sandbox.agentscript.checked import Finding, InvalidScriptError
from codecall.sandbox.agentscript.parser.parse import prescan
from tests.sandbox.starlark.test_engine import Host, value

CODE_POINTS = st.characters(exclude_categories=["Cs"]).map(ord)
PIECES = st.one_of(
    CODE_POINTS.filter(lambda point: point < 0x10000).map(lambda point: f"\\u{point:04x}"),
    CODE_POINTS.map(lambda point: f"\\U{point:08X}"),
    st.integers(0, 0xFF).map(lambda point: f"\\x{point:02x}"),
    st.integers(0, 0o377).map(lambda point: f"\\{point:03o}"),
    st.sampled_from([r"\\", r"\n", r"\"", r"\'", r"\t", "\\\n", "u0041", "U0001F600", "x41", " "]),
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\"'\\").filter(lambda char: not prescan(char)),
)


def refused(script: str) -> Finding:
    with pytest.raises(InvalidScriptError) as caught:
        Host().run(script)
    return caught.value.findings[0]


@given(st.lists(PIECES).map("".join), st.sampled_from(['"', "'", '"""', "'''"]), st.sampled_from(["", "r"]))
def test_a_literal_has_the_text_that_it_has_in_python(body: str, quote: str, prefix: str):
    literal = f"{prefix}{quote}{body}{quote}"
    assert value(Host().run(f"return {literal}")) == ast.literal_eval(literal)


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u202e", "\u200e", "\0"])
def test_the_escape_that_the_hint_names_is_taken(character: str):
    raw = refused(f'return "a{character}b"')
    assert "write it as an escape" in (raw.hint or "")
    assert value(Host().run(f'return "a\\u{ord(character):04x}b"')) == f"a{character}b"


@pytest.mark.parametrize(
    ("escape", "message"),
    [
        (r"\ud83d\ude00", r"\ud83d is a surrogate, half of a character"),
        (r"\U0000DFFF", r"\U0000DFFF is a surrogate, half of a character"),
        (r"\U00110000", r"\U00110000 is beyond the last character, \U0010FFFF"),
        (r"\u12", r"\u takes four hexadecimal digits"),
        (r"\U0001F60", r"\U takes eight hexadecimal digits"),
    ],
)
def test_an_escape_of_no_character_is_refused_where_it_stands(escape: str, message: str):
    found = refused(f'x = "\\u00e9"\nreturn "\\u00e9 with {escape}" + 1')
    assert found.message == f"invalid escape sequence: {message}"
    assert (found.line, found.column) == (2, 22)
    assert "U0001f600" in (found.hint or "")


@pytest.mark.parametrize("text", [r"\d+\.\d", r"C:\class", r"\*", r"\`", r"\N{DEGREE SIGN}", r"\x4", r"\777"])
def test_the_hint_of_another_escape_is_about_backslashes(text: str):
    assert (refused(f'return "{text}"').hint or "").startswith(r'A backslash itself is "\\"')


def test_places_behind_an_escape_are_those_of_the_text_as_sent():
    found = refused('x = "\\u00e9\\U0001F600" + """\n\\u00e9"""; return y')
    assert (found.message, found.line, found.column) == ("'y' is not defined", 2, 19)
