"""What two pieces of JSON data have in common, whatever stands around it; and what is known of data as base64."""

from __future__ import annotations

import base64
import json
import textwrap
import zlib
from collections.abc import Callable
from itertools import chain, permutations
from struct import pack
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codecall.approvals.fingerprints import BLOCK, JsonContent, blocks, content_of, windows
from tests.work import python_steps

MARKS = [
    *"[]{}\"'\\:, \n\t",
    '\\"',
    "\\\\",
    '"]',
    '["',
    '",',
    '5" screen',
    'Items [12"]:',
    "it's",
    "10",
    "null",
    "\\u005b",
]
PROSE = st.lists(st.sampled_from(MARKS) | st.text(max_size=3), max_size=30).map("".join)
ROW = st.fixed_dictionaries({"pin": st.integers(10**9), "name": PROSE}, optional={"tags": st.lists(PROSE, max_size=3)})
ROWS = st.lists(ROW, min_size=2, max_size=4)
FEW = [{"pin": 1000 + number, "name": f"Ann {number}"} for number in range(2)]
WRITTEN: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "on one line": {},
    "indented": {"indent": 2},
}


def containers(value: object, *, is_input: bool = True) -> set[int]:
    return {*JsonContent(value, is_input=is_input, max_chars=10**6).containers}


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@given(rows=ROWS, before=PROSE, after=PROSE)
@example(rows=FEW, before='Items [12"]: ', after="")
@example(rows=FEW, before='{ 5" screen: ', after="")
@example(rows=FEW, before='["', after='"]')
@example(rows=FEW, before='<a b="[">', after="</a>")
@example(rows=FEW, before='[\\"', after="\\")
@example(rows=FEW, before='{"\\\\"[\\', after='"')
def test_json_is_found_in_any_text(written: dict[str, Any], layers: int, rows: Any, before: str, after: str) -> None:
    text = rows
    for _ in range(layers):
        text = json.dumps(text, **written)
    expected = containers(rows, is_input=False)
    assert len(expected) >= 1
    assert containers(f"{before}{text}{after}") >= expected


@given(before=PROSE, whole=st.integers(0, 3))
def test_what_is_whole_is_found_in_json_that_is_cut_off(before: str, whole: int) -> None:
    rows = [{"pin": 1000 + number, "name": f'Anna "{number}"'} for number in range(4)]
    cut = ", ".join(map(json.dumps, rows[:whole])) + json.dumps(rows[whole])[:-1]
    expected = [fingerprint for row in rows for fingerprint in containers(row, is_input=False)]
    found = containers(f"{before}[{cut}")
    assert [fingerprint in found for fingerprint in expected] == [number < whole for number in range(4)]


HOSTILE = ['"', '\\"', '["', '[\\"', '{"a"', '"[', "\\", "[", "{}", "[1,", '"a",', '["[",', '"{\\"', '[[[]"', '"],[":{']


@pytest.mark.parametrize("part", HOSTILE)
def test_the_work_is_linear_in_the_length_of_a_text(part: str) -> None:
    def steps(chars: int) -> int:
        text = f'["{part * (chars // len(part))}'
        return python_steps(lambda: JsonContent(text, is_input=True, max_chars=10**9))

    assert steps(2**15) < 8.5 * steps(2**12)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "another alphabet": lambda text: text.replace("+", "-").replace("/", "_"),
    "no padding": lambda text: text.rstrip("="),
    "lines": lambda text: "\r\n".join(textwrap.wrap(text, 76)),
    "an indented block": lambda text: textwrap.indent("\n".join(textwrap.wrap(text, 64)), "    "),
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
@given(data=st.binary(max_size=2_000), before=PROSE, after=PROSE)
@example(data=bytes(range(256)), before="/", after="A")
@example(data=bytes(range(256)) * 1_000, before="", after="")
@example(data=b"\0\0>" + bytes(14), before="", after="")
def test_data_is_the_same_in_every_spelling(
    spelled: Callable[[str], str], data: bytes, before: str, after: str
) -> None:
    content, text = content_of(encoded(data)), spelled(encoded(data))
    assert content_of(text).fingerprint == content.fingerprint
    assert bool(content.marks) == (len(encoded(data).rstrip("=")) >= BLOCK)
    if spelled is not SPELLINGS["another alphabet"] or data[:256] == bytes(range(256)):  # letters and digits enough
        assert content.marks <= {*chain.from_iterable(windows(before + text + after))}
    if len(encoded(data).rstrip("=")) >= 2 * BLOCK - 1:
        cut = {*blocks(before + encoded(data) + after)}
        assert all(cut.intersection(sample) for sample in content.cuts)


def blank(width: int, height: int, color: int) -> bytes:
    """A picture of one color."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + name + data + pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + bytes([color]) * width * 3) * height
    header = chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_pictures_that_are_much_alike_are_told_apart() -> None:
    sizes = ((1, 1, 0), (1, 1, 255), (100, 100, 0), (100, 200, 0), (500, 500, 255), (500, 501, 255), (1000, 1000, 0))
    pictures = [encoded(blank(*size)) for size in sizes]
    for one, other in permutations(pictures, 2):
        assert not content_of(one).marks <= {*chain.from_iterable(windows(other))}
        assert not all({*blocks(other)}.intersection(cut) for cut in content_of(one).cuts)
