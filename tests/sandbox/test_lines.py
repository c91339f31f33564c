"""Offsets, lines and columns of a text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codecall.sandbox.lines import LineTable


@given(st.text(alphabet="a\n\r\u2028", max_size=40))
def test_every_offset_of_a_script_has_a_place(script: str) -> None:
    lines = LineTable(script)
    for offset in range(len(script) + 1):
        before = (
            script[:offset].replace("\r\n", "\n") if script[offset - 1 : offset + 1] != "\r\n" else script[: offset - 1]
        )
        rows = before.replace("\r", "\n").split("\n")
        place = lines.position(offset)
        if script[offset - 1 : offset + 1] != "\r\n":
            assert place == (len(rows), len(rows[-1]) + 1)
            assert lines.text(place[0]).startswith(rows[-1])
            assert lines.offset(*place) == offset
    assert "".join(lines.texts()) == script.replace("\r", "").replace("\n", "")


def test_a_number_that_no_line_has_has_no_text():
    lines = LineTable("a\u2028\r\nb\x85\r\fc\n")
    assert len(lines) == 4
    assert [*lines.texts()] == ["a\u2028", "b\x85", "\fc", ""]
    assert lines.text(0) == lines.text(5) == ""
    assert [lines.end(line) for line in (1, 2, 4)] == [3, 6, 10]
