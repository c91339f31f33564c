"""Types become blanks in place; a type that cannot be erased is refused. The meaning: test_strip_keeps_meaning.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import tree_sitter
import tree_sitter_typescript
from hypothesis import given, settings
from hypothesis import strategies as st

from codecall.sandbox.agentscript.policy import TYPE_PLACES, TYPESCRIPT, WORDS_OF_JAVASCRIPT
from codecall.sandbox.agentscript.typescript import parser as typescript
from codecall.sandbox.agentscript.typescript.parser import MAX_BROKEN_LENGTH, parse
from codecall.sandbox.agentscript.typescript.strip import StrippedScript, strip_types
from codecall.testing import read_programs
from tests.sandbox.agentscript.typescript.typed_programs import TypedPrograms
from tests.work import python_steps

HERE = Path(__file__).parents[1]
HONEST = [*HERE.glob("honest.script.js"), *(HERE.parents[2] / "tests_security" / "honest").glob("*.script.js")]


def strip(script: str) -> StrippedScript:
    """`script` without its types, of which it has some, and which can be erased."""
    result = strip_types(script)
    assert result is not None
    assert result.complete
    assert result.violations == []
    in_place(script, result.text)
    return result


def in_place(script: str, text: str) -> None:
    """Nothing has moved: each character is what it was, or a blank, or one of the signs that may stand for a type."""
    assert len(text) == len(script)
    for before, after in zip(script, text, strict=True):
        assert after == before or (after in " ;()" and before not in "\r\n")


# ---------------------------------------------------------------------------------------------------------------------
# What is erased

ERASED = {
    "const a: number = 1": "const a         = 1",
    "let a!: string": "let a         ",
    "a as string": "a          ",
    "a as const": "a         ",
    "f(a satisfies B)": "f(a            )",
    "a!.b": "a .b",
    "<any>a": "     a",
    "f<A, B[]>(c)": "f        (c)",
    "1 + f<A>(b) + f<C>(d)": "1 + f   (b) + f   (d)",
    "2 * await f<string[]>(a)": "2 * await f          (a)",
    "-f<{\n a: B }>(c)": "-f  \n        (c)",
    "typeof a < b<C.D | E>(f)": "typeof a < b         (f)",
    "f(a < b<A, B>(1))": "f(a < b      (1))",
    "1 + f<A>`b`": "1 + f   `b`",
    "new Set<string>(a)": "new Set        (a)",
    "const g = f<A>;": "const g = f   ;",
    "function f<T>(a: T, b?: T): T { return a }": "function f   (a   , b    )    { return a }",
    "function f(this: A, b) {}": "function f(         b) {}",
    "function f(this: A) {}": "function f(       ) {}",
    "(a: A): a is B => a": "(a   )         => a",
    "async <T,>(a: T) => a": "async     (a   ) => a",
    "({ m<T>(a: T): T { return a } })": "({ m   (a   )    { return a } })",
    "try {} catch (e: unknown) {}": "try {} catch (e         ) {}",
    "for (const a of b as C[]) {}": "for (const a of b       ) {}",
    "`a${b as C}`": "`a${b     }`",
    "interface A { b: string }": ";                        ",
    "type A<T> = T | null;": ";                    ",
    "export interface A {}": ";                    ",
    "export type A = 1": ";                ",
    "import type { A } from 'b'": ";                         ",
    "declare const a: string": ";                      ",
    "namespace A { interface B {} /**/ export type C = B }": ";" + " " * 52,
    "declare global { interface A {} }": ";                                ",
    "function f(): void;\nfunction f() {}": ";                  \nfunction f() {}",
    "abstract class A extends B<C> implements D {}": "         class A extends B                 {}",
    "class A { private b: string = 'c' }": "class A { ;       b         = 'c' }",
    "class A { b: string }": "class A { b;        }",
    "class A { b?: string; c!: number }": "class A { b ;       ; c ;        }",
    "class A { static readonly b = 1 }": "class A { static          b = 1 }",
    "class A { declare b: string }": "class A { ;                 }",
    "class A { abstract b(): void }": "class A { ;                  }",
    "class A { [b: string]: any }": "class A { ;                }",
    "class A { b?(): void; b() {} }": "class A { ;         ; b() {} }",
    "class A { public static async *b<T>(): any {} }": "class A { ;      static async *b   ()      {} }",
    "class A { override b() {} }": "class A { ;        b() {} }",
    "a\ninterface B {}\n(c)": "a\n;             \n(c)",
    "a = b as C\n;[d]": "a = b     \n;[d]",
    "const a = (b):\n C => d": "const a = (b  \n ) => d",
    "const a = async <\nB>(c) => c": "const a = async (\n   c) => c",
    "type A = {\r\n  b: 1\r\n}\r\nc": ";         \r\n      \r\n \r\nc",
    "const a: '😀' = '😀' as any": "const a      = '😀'       ",
}


@pytest.mark.parametrize(("script", "left"), ERASED.items(), ids=ERASED)
def test_types_become_blanks(script: str, left: str):
    assert strip(script).text == left


@pytest.mark.parametrize("file", HONEST, ids=lambda file: file.stem)
def test_javascript_has_nothing_to_erase(file: Path):
    for program in read_programs(file):
        assert strip_types(program.source) is None, program.title


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**64))
def test_nothing_ever_moves(seed: int):
    script = TypedPrograms(Random(seed)).program()
    result = strip_types(script)
    if result is not None:
        in_place(script, result.text)
        # What is erased is gone: there is nothing left to erase
        assert not result.complete or result.violations or strip_types(result.text) is None


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*"ab<>(){}[]:;,.=?!|&`'\"/ \n*$#@é😀", "as ", "type ", "interface ", "class ", "=>"])))
def test_any_text_has_an_answer(tokens: list[str]):
    script = "".join(tokens)
    result = strip_types(script)
    if result is not None:
        in_place(script, result.text)


# ---------------------------------------------------------------------------------------------------------------------
# What is refused

IN_THE_WAY, AT_THE_END = TYPE_PLACES["type in the way"], TYPE_PLACES["type at the end of a line"]
REFUSED = {
    "const f = (a) => <any>{ b: a }": IN_THE_WAY,
    "function f() { return <any>\n 1 }": IN_THE_WAY,
    "1 + a as number * 2": IN_THE_WAY,
    "1 + await a as number * 2": IN_THE_WAY,
    "class A { abstract\n b = 1; c: string }": AT_THE_END,
    "class A { abstract\n b() {} }": AT_THE_END,
    "const a = 1 + b<C\n[D]>(e)": AT_THE_END,
    "f(" + ", ".join(f"a < b<A{number}, B>(1)" for number in range(70)) + ")": TYPE_PLACES["type arguments in the way"],
    "a = b as C\n[d].e()": AT_THE_END,
    "a = b as C\n(d)": AT_THE_END,
    "a = await b as C\n(d)": AT_THE_END,
    "a = b as typeof c\n(d)": AT_THE_END,
    "enum A { b }": TYPESCRIPT["enum_declaration"],
    "const enum A { b }": TYPESCRIPT["enum_declaration"],
    "namespace A { const b = 1 }": TYPESCRIPT["internal_module"],
    "namespace A { interface B {} b() }": TYPESCRIPT["internal_module"],
    "namespace A { interface B {} export declare const c: B }": TYPESCRIPT["internal_module"],
    "module A {}": TYPESCRIPT["module"],
    "class A { @b c: string }": TYPESCRIPT["decorator"],
    "class A { constructor(readonly b: string) {} }": TYPESCRIPT["required_parameter.readonly"],
    "class A { constructor(public b?: string) {} }": TYPESCRIPT["optional_parameter.accessibility_modifier"],
    "class A { accessor b: string }": TYPESCRIPT["public_field_definition.accessor"],
    "import a = require('b')": TYPESCRIPT["import_statement"],
    "export = a": TYPESCRIPT["export_statement"],
}


@pytest.mark.parametrize(("script", "row"), REFUSED.items(), ids=REFUSED)
def test_what_cannot_be_erased_is_refused(script: str, row: object):
    result = strip_types(script)
    assert result is not None
    assert {(mark.kind, mark.hint) for mark in result.violations} == {(row.kind, row.instead)}  # type: ignore[attr-defined]


@pytest.mark.parametrize("hidden", ["\u200b", "\u2060", "\u00a0", "\ufeff"])
def test_nothing_hides_in_types(hidden: str):
    result = strip_types(f"const a: Ab{hidden}c = 1")
    assert result is not None
    assert [mark.offset for mark in result.violations] == [11]
    assert result.violations[0].kind == "UnsafeSource"


# ---------------------------------------------------------------------------------------------------------------------
# The parser


def node_kinds() -> Iterator[tuple[str, bool]]:
    """Every kind of node that the parser can emit, and whether it is named rather than a word or sign."""
    language = tree_sitter.Language(tree_sitter_typescript.language_typescript())
    for number in range(language.node_kind_count):
        kind = language.node_kind_for_id(number)
        if kind is not None and language.node_kind_is_visible(number):
            yield kind, language.node_kind_is_named(number)


def test_every_kind_of_node_of_the_grammar_has_a_row():
    named = {kind for kind, is_name in node_kinds() if is_name}
    assert len(named) > 150
    assert {name for name in TYPESCRIPT if "." not in name} == named


def test_every_word_and_sign_of_the_grammar_has_a_verdict():
    words = {kind for kind, is_name in node_kinds() if not is_name}
    assert words >= WORDS_OF_JAVASCRIPT
    # The rest is refused, but in the places that have a row
    of_types = {
        *("!", "?", "abstract", "accessor", "declare", "export", "override", "private", "protected"),
        *("public", "readonly", "type"),
        *("+?:", "-?:", "?:", "any", "assert", "asserts", "boolean", "enum", "from", "global", "implements", "infer"),
        *("interface", "is", "keyof", "module", "namespace", "never", "number", "object", "require", "satisfies"),
        *("string", "symbol", "unique symbol", "unknown", "{|", "|}"),
    }
    assert words - WORDS_OF_JAVASCRIPT == of_types


def test_rows_for_parts_name_nodes_and_their_parts():
    kinds_and_words = {kind for kind, _ in node_kinds()}
    for name in TYPESCRIPT:
        assert set(name.split(".", 1)) <= kinds_and_words, name


# Its slowest: the time and the memory grow with the square of the length, and more
HOSTILE = {
    "f<a,": "f<a," * 16_384,
    "async let<a,": "async " + "let<a," * 11_000,
    "awaitof@assertsa<a": "awaitof@assertsa<a" * 3_600,
    "(;~": "(" + ";~\n" * 21_000,
    "& let = ": "(" + "& let = " * 2_700 + '" > " - async' * 1_600,
    "<a><a>": "async " + "<a>" * 21_000,
    "a!a!": "a!" * 32_000,
    "((((": "(" * 65_000,
    "f<a>(": "f<a>(" * 13_000,
    "nested types": "let a: " + "A<" * 2_000 + "B" + ">" * 2_000,
    "nested functions": "let a: " + "(b: " * 2_000 + "C" + ") => D" * 2_000,
    "1+f<T>(1)": "x=" + "1+f<T>(1)+" * 6_000 + "1",
    "short": "!~*" * 682 + "any<a,${as~" * 186,
}


@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_costs_little(script: str, monkeypatch: pytest.MonkeyPatch):
    # A clock that goes on by a millisecond whenever it is read
    clock = (milliseconds / 1000 for milliseconds in count())
    monkeypatch.setattr(typescript, "time", SimpleNamespace(thread_time=lambda: next(clock)))
    results: list[StrippedScript | None] = []
    steps = python_steps(lambda: results.append(strip_types(script[: 64 * 1024])))
    assert steps < 3_000_000
    for result in results:
        if result is not None:
            in_place(script[: 64 * 1024], result.text)


def test_a_long_script_is_given_up_where_it_is_broken():
    line = "const a: number[] = [1, 2, 3].map((b: number): number => b < 2 ? b : -b) as number[];\n"
    script = line * 700
    assert len(script) < 64 * 1024
    reading = parse(script)
    assert reading is not None
    assert reading.complete
    assert parse(script.replace("= [", "= = [", 1)) is None
    short = line * (MAX_BROKEN_LENGTH // len(line))
    reading = parse(short.replace("= [", "= = [", 1))
    assert reading is not None
    assert not reading.complete


def test_places_are_counted_in_characters():
    script = "'é😀\U0001f468'; interface A {}\nconst b = '\u4e2d' as any"
    assert re.sub(" +$", "", strip(script).text) == "'é😀\U0001f468'; ;             \nconst b = '\u4e2d'"
