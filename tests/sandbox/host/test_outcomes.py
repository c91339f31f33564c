"""From offsets to places in a script, and the line that an error is about."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.errors import Location
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host.outcomes import excerpt_at
from codecall.sandbox.lines import MAX_EXCERPT, LineTable


@pytest.mark.parametrize(
    ("script", "place", "text"),
    [
        ("return x", (1, 8), "return x"),
        ("a\n  b();  \nc", (2, 3), "b();"),
        ("a\r\nb\r\n", (2, 1), "b"),
        ("a\rb", (2, 1), "b"),
        ("", (1, 1), None),
        ("a\n\nb", (2, 1), None),
        ("a", (2, 1), None),
        ("a", (10**9, 1), None),
        ("\tif (x)\t{", (1, 2), "if (x) {"),
        ("a\u202eb", (1, 2), "a\\u{202E}b"),
        ("a\0b\ud800", (1, 2), "a\\u{0}b\\u{D800}"),
        ("x" * 500, (1, 1), "x" * MAX_EXCERPT + "…"),
        ("a" * 300 + "!" + "b" * 300, (1, 301), f"…{'a' * 53}!{'b' * 106}…"),
        ("a" * 300 + "!", (1, 301), f"…{'a' * 159}!"),
    ],
)
def test_excerpt(script: str, place: tuple[int, int], text: str | None) -> None:
    assert excerpt_at(Location(*place), LineTable(script)) == text


@given(st.text(max_size=400), st.integers(1, 12), st.integers(1, 500))
def test_an_excerpt_is_a_part_of_that_line_and_short(script: str, line: int, column: int) -> None:
    excerpt = excerpt_at(Location(line, column), LineTable(script))
    if excerpt is not None:
        plain = excerpt.strip("…")
        assert len(plain) <= MAX_EXCERPT * len("\\u{10FFFF}")
        if "\\" not in plain and "\t" not in script:
            assert plain in script


PLACES = [
    ("let x = ;", "SYNTAX_ERROR"),
    ("eval('1')", "VALIDATION_ERROR"),
    ("await callTool('codecall:execute', {})", "SELF_REFERENCE_BLOCKED"),
    ("throw new Error('x')", "EXECUTION_ERROR"),
    ("for (;;) {}", "ITERATION_LIMIT"),
    ("const f = () => f() + 1; f()", "STACK_OVERFLOW"),
    ("await new Promise(() => {})", "DEADLOCK"),
    ("await callTool('bad')", "TOOL_EXECUTION_ERROR"),
    ("const s = (n) => n; for (let i = 0; i < 5000; i++) for (let j = 0; j < 5000; j++) s(j)", "STEP_LIMIT"),
]


@pytest.mark.parametrize(("line", "code"), PLACES, ids=[code for _, code in PLACES])
async def test_every_failure_that_has_a_place_shows_its_line(line: str, code: str, enclave: Enclave) -> None:
    def handler(name: str, value: dict[str, Any]) -> None:
        raise ValueError("no")

    result = await enclave.execute(f"const first = 1;\n  {line}\n", tool_handler=handler)
    assert result.error is not None
    error = result.error.as_dict()
    assert error["code"] == code
    assert error["location"] == {**error["location"], "line": 2, "text": line}  # type: ignore[dict-item]
    assert error["hint"]


async def test_a_line_of_the_script_is_the_one_that_was_sent(enclave: Enclave) -> None:
    result = await enclave.execute("throw new Error('see /home/ann/.ssh/id_rsa')")
    assert result.error is not None
    assert result.error.excerpt == "throw new Error('see /home/ann/.ssh/id_rsa')"
    assert result.error.message == "see [path]"
