"""Programs whose size is the attack: thousands of repetitions, written here as what is repeated."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from codecall.sandbox.enclave import Enclave

TOO_DEEP = "Script is nested too deeply"


class Row(NamedTuple):
    """One program and how it ends: its value, or what the error says."""

    title: str
    script: str
    value: object = None
    code: str | None = None
    message: str = ""


def refused_row(title: str, script: str, message: str = TOO_DEEP) -> Row:
    return Row(title, script, None, "VALIDATION_ERROR", message)


def ends(title: str, script: str, code: str, message: str) -> Row:
    return Row(title, script, None, code, message)


ALIKE = "".join(chr(0x4E00 + number * 7919 % 97) for number in range(5_000))
"""A name of 5,000 characters."""

ROWS = [
    refused_row("arrow functions nested without brackets", "return " + "a=>\n" * 2_000 + "1;"),
    refused_row("loops nested without brackets", "for(;;)\n" * 3_500 + "b" + "+b" * 9_000),
    Row("nesting of 190 loops is no attack", "for(;;)\n" * 190 + "return 1;", 1),
    refused_row("unary operators nested without brackets", "return " + "!\n" * 6_000 + "1;"),
    Row("else-if nested without brackets", "if(1);else\n" * 3_000 + ";"),
    refused_row("conditions nested without brackets", "return " + "1?1:\n" * 6_000 + "1;"),
    refused_row("assignments nested without brackets", "let a; return " + "a=\n" * 6_000 + "1;"),
    Row("labels nested without brackets", "".join(f"l{number}:\n" for number in range(3_000)) + ";"),
    refused_row("powers nested without brackets", "return " + "2**\n" * 6_000 + "1;"),
    refused_row("new nested without brackets", "return " + "new\n" * 6_000 + "Map;"),
    refused_row("awaits nested without brackets", "return " + "await\n" * 6_000 + "1;"),
    Row("nesting of 500 operators is no attack", "return " + "!!\n" * 250 + "1;", True),
    refused_row("51 regular expressions", "/a/;" * 51, "Script has more than 50 regular expressions"),
    refused_row(
        "a regular expression of 1,001 characters",
        f"return /{'a' * 1_001}/.test('a')",
        "Script has a regular expression longer than 1000 characters",
    ),
    ends(
        "a regular expression that is all groups",
        f"return /{'(' * 400 + ')' * 400}/.test('a');",
        "SYNTAX_ERROR",
        "too many captures",
    ),
    refused_row(
        "a line of 20,001 characters", f"return '{'a' * 20_001}'", "Script has a line longer than 20000 characters"
    ),
    Row("long names that nearly agree", f"let {ALIKE} = 1;\nlet {ALIKE}x = 2;\nreturn {ALIKE}x\n- {ALIKE}", 1),
    Row("a number with 5,000 digits", f"return {'9' * 5_000} === Infinity;", True),
    Row("a bigint with 5,000 digits", f"return String(0x{'f' * 5_000}n).length;", 6_021),
    Row("fields named async, line after line", "class A {" + "static async\n" * 3_000 + "}\nreturn 1;", 1),
    Row("concatenations that the guard need not fold", "return ''[" + "'a'+\n" * 3_000 + "'b'] ?? 1;", 1),
    Row("many scopes and many names", "let b = 1; const f = " + "a=>\n" * 100 + "b+\n" * 3_000 + "b;\nreturn 1;", 1),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.title for row in ROWS])
async def test_size(row: Row, enclave: Enclave):
    result = await enclave.execute(row.script)
    if row.code is None:
        assert result.error is None
        assert result.value == row.value
    else:
        assert result.error is not None, result.value
        assert result.error.code == row.code
        assert row.message in result.error.message
