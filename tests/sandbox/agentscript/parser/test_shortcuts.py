"""The shortcuts through the parser come to the same tree, or to the same error, as the long way: on every script of all
corpora, and on random changes of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codecall.sandbox.agentscript.parser.esprima import ModernParser, NotParseableError, QuickParser, parse_program
from codecall.sandbox.agentscript.parser.parse import PREFIX, PREFIX_LENGTH
from codecall.sandbox.agentscript.parser.tokens import UnsafeTextError
from codecall.testing import parse_programs

REPOSITORY = Path(__file__).parents[4]

WORDS = """
=> == === ++ -- ** ?. ?? ... && || ??= >>> </ /* */ // <!-- --> async await yield let of in static get set new this null
true function class return typeof delete void if else for const x 1 0x1f 1n 1_0 1.5 '' "a" `a${b}c` /a/g a\\u0062
"""
PIECES = [
    *"(){}[];,.:?=<>!+-*/%&|^~#@`'\"\\ \n\t$0179aé\u200b\u2028",
    *WORDS.split(),
    *("9" * 15, "9" * 16, "9" * 400, "0", "00", "08"),
    *("() => 1", "async x => x", "({a, b = 1})", "[a, ...b]", "}\n{", "\r\n"),
]  # fmt: skip


@cache
def corpus() -> list[str]:
    """Every script of the tests and of the documentation."""
    scripts: dict[str, None] = {}
    for file in sorted(REPOSITORY.glob("tests*/**/*.script.js")):
        scripts.update(dict.fromkeys(program.source for program in parse_programs(file.read_text("utf-8"), file.name)))
    return list(scripts)


def dump(node: Any) -> object:
    """A node as plain data, ranges included."""
    if isinstance(node, list):
        return [dump(item) for item in node]
    fields = getattr(node, "__dict__", None)
    if fields is None:
        return repr(node)
    return {"": type(node).__name__, **{name: dump(value) for name, value in fields.items()}}


def outcome(kind: type[ModernParser], script: str) -> object:
    """What a parser makes of a script: its tree, or the error."""
    try:
        program, escapes = parse_program(kind, f"{PREFIX}{script}\n}}", PREFIX_LENGTH)
    except NotParseableError as error:
        return error.message, error.offset
    except UnsafeTextError as error:
        return error.spots
    except RecursionError:
        return "nested too deeply"
    return dump(program), escapes


def assert_same(script: str) -> None:
    """Both ways come to the same."""
    assert outcome(QuickParser, script) == outcome(ModernParser, script), script


def test_every_script_of_the_corpora_is_read_alike() -> None:
    assert len(corpus()) > 2_000
    for script in corpus():
        assert_same(script)


@pytest.mark.parametrize("before", PIECES)
def test_every_two_pieces_are_read_alike(before: str) -> None:
    for after in PIECES:
        for frame in ("f(a {}{} b)", "`${{a {}\n{}}}`"):
            assert_same(frame.format(before, after))


changes = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 6), st.sampled_from(["", "", *PIECES])), min_size=1, max_size=4
)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 10_000), changes)
@example(0, [(0.0, 0, "\ufeff")])
def test_changed_scripts_are_read_alike(number: int, changed: list[tuple[float, int, str]]) -> None:
    script = corpus()[number % len(corpus())][:2_000]
    for place, length, piece in changed:
        at = int(place * len(script))
        script = script[:at] + piece + script[at + length :]
    assert_same(script)
