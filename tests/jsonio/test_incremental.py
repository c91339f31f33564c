"""JSON of many megabytes, read a piece at a time: the same as in one go, whatever is in it."""

from __future__ import annotations

import asyncio
import json
import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codecall.jsonio import incremental
from codecall.jsonio.decode import NotJsonError
from tests.loop_turns import assert_turns_below, count_loop_turns

TEXTS = st.text(max_size=12) | st.sampled_from(
    ['},{"a":1', '","', "],[", "\\", '"', "é", "😀", "\x00\n", '{"a":', "\\u00e9"]
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=60,
)


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so small that everything is cut."""
    monkeypatch.setattr(incremental, "PIECE", 16)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ascii_only", [True, False])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_what_is_read_in_pieces_is_what_is_read_at_once(
    small: None, indent: int | None, ascii_only: bool, value: Any
) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assert asyncio.run(incremental.read(data, 100)) == value
    expected = len(value) if isinstance(value, list) else utf16(value) if isinstance(value, str) else None
    assert asyncio.run(incremental.length(data)) == expected


BIG: dict[str, Any] = {
    "rows": [{"id": n, "name": f"user, {n}", "tags": [{"a": n}, {"a": "},{"}]} for n in range(6_000)],
    "members of an object": {f"k{n}": [n, str(n)] for n in range(20_000)},
    "one big member": {"items": [{"id": n} for n in range(30_000)], "total": 30_000},
    "numbers": [n / 7 for n in range(30_000)],
    "one long text": 'a line, "quoted"\n' * 20_000,
    "escapes only": "é😀" * 60_000,
    "texts that look like rows": ['},{"id":' * 20_000, "],[" * 60_000] * 2,
    "long and short": ["x" * 200_000, 1, None, {"y": ["z" * 200_000]}] * 3,
    "texts full of commas": ["a,b,c"] * 60_000,
}


@pytest.mark.parametrize("what", BIG)
async def test_the_event_loop_has_its_turn_in_between(what: str) -> None:
    value = BIG[what]
    data = json.dumps(value).encode()
    assert len(data) > 2 * incremental.PIECE
    with count_loop_turns() as turns:
        assert await incremental.read(data, 50) == value
    # A piece may be twice as long where items are.
    assert turns.count >= len(data) // (3 * incremental.PIECE)


@pytest.mark.parametrize("depth", [1, 2, 3, 40])
@pytest.mark.parametrize("piece", [16, 128 * 1024])
async def test_nesting_is_bounded(monkeypatch: pytest.MonkeyPatch, depth: int, piece: int) -> None:
    monkeypatch.setattr(incremental, "PIECE", piece)
    for start, end in ((b"[", b"]"), (b'{"a":', b"}")):
        within = start * depth + b'"' + b"x" * 40 + b'"' + end * depth
        await incremental.read(within, depth)
        with pytest.raises(NotJsonError):
            await incremental.read(within, depth - 1)
        with pytest.raises(NotJsonError):
            await incremental.read(b"[1," + within + b"]", depth)


@pytest.mark.parametrize("piece", [16, 128 * 1024])
@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1,2", b'"a', b"[" * 100_000, b"[1," + b"2 3," * 20 + b"4]", b'{"a":1 "b":2}', b'"\xff"' * 9]
)
async def test_what_is_no_json_is_refused(monkeypatch: pytest.MonkeyPatch, piece: int, data: bytes) -> None:
    monkeypatch.setattr(incremental, "PIECE", piece)
    with pytest.raises(NotJsonError):
        await incremental.read(data, 50)


HOLDING = {
    "texts of commas, then numbers": b'["' + b"x," * 70_000 + b'",' + b"0," * 400_000 + b"0]",
    "members": b"{" + b",".join(b'"%x":0' % n for n in range(100_000)) + b"}",
    "deep": b"[" + b",".join([b"[[[[[[[[1]]]]]]]]"] * 12_000) + b"]",
    "deep in members": b"{" + b",".join(b'"%x" : [[[[[[[[1]]]]]]]] ' % n for n in range(8_000)) + b"}",
    "long in the middle": b'[1,{"a":"' + b"[" * 300_000 + b'"} ,' + b"[[[[[[[]]]]]]]," * 10_000 + b"2]",
}


@pytest.mark.parametrize("what", HOLDING)
async def test_nothing_is_decoded_in_one_go_that_has_many_parts(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every decoder that makes objects gets a piece at a time, but for a single long item."""
    data = HOLDING[what]
    longest = 0

    def noting(decode: Any) -> Any:
        def decoded(given: Any) -> Any:
            nonlocal longest
            value = decode(given)
            if not isinstance(value, dict | list) or len(value) > 1:  # pyright: ignore[reportUnknownArgumentType]
                longest = max(longest, len(given))
            return value

        return decoded

    for name in ("_decode_items", "read_json"):
        monkeypatch.setattr(incremental, name, noting(getattr(incremental, name)))
    assert await incremental.read(data, 50) == json.loads(data)
    await incremental.length(data)
    assert longest <= incremental.PIECE + 2


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a": ', b" }")])
async def test_what_is_nested_deeply_is_passed_over_level_by_level(brackets: tuple[bytes, bytes]) -> None:
    opening, closing = brackets
    data = opening * 60 + b"[" + b"123456789," * 100_000 + b"0]" + closing * 60

    async def read() -> None:
        await incremental.read(data, 100)

    await assert_turns_below(3, read)
    tracemalloc.start()
    try:
        await read()
        assert tracemalloc.get_traced_memory()[1] < 10 * len(data)
    finally:
        tracemalloc.stop()


async def test_items_are_counted_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental, "MAX_COUNTED", 1_000)
    assert await incremental.length(b"[%b0]" % (b"0," * 999)) == 1_000
    assert await incremental.length(b"[%b0]" % (b"0," * 1_000)) is None


@pytest.mark.parametrize("data", [b"[[[[[[[[1]]]]]]],", b'{"a":1,', b"[1,"])
async def test_a_comma_before_the_end_is_no_json(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(incremental, "PIECE", 16)
    inside, close = data[1:], b"}" if data[:1] == b"{" else b"]"
    with pytest.raises(NotJsonError):
        await incremental.read(data[:1] + inside * 9 + close, 50)


async def test_numbers_at_the_ends_of_what_a_float_holds() -> None:
    assert await incremental.read(b"[1e308,-1.7976931348623157e308,5e-324]", 2) == [
        1e308,
        -math.ldexp(1 - 2**-53, 1024),
        5e-324,
    ]
