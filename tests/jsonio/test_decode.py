"""JSON that a stranger wrote is read as JSON, within what a float can hold."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codecall.jsonio.decode import (
    FEWEST_CONTAINERS,
    QUICK_CONTAINERS,
    WHOLE_CHARS,
    JsonBounds,
    NotJsonError,
    child_values,
    count_containers_in_thread,
    count_values,
    decode_in_thread,
    decode_json,
    read_json,
)
from codecall.jsonio.incremental import PIECE, finish
from tests.loop_turns import count_loop_turns

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_what_json_writes_is_read_as_it_was(value: object) -> None:
    assert read_json(json.dumps(value)) == value


@given(JSON, st.integers(0, 2), st.booleans())
def test_a_thread_reads_in_pieces_what_is_read_at_once(value: object, blanks: int, in_pieces: bool) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=blanks)
    containers = count_containers_in_thread(text, -1)
    assert containers == _containers(value)
    assert count_containers_in_thread(text, len(text)) >= containers
    values = finish(count_values(text, -1))
    assert values == (1 if isinstance(value, str) else _values(value))
    assert finish(count_values(text, len(text))) >= values
    assert decode_in_thread(text, QUICK_CONTAINERS + 1 if in_pieces else containers, 256) == value


def _values(value: object) -> int:
    """How many values there are in one; an empty object or array counts as if it had one."""
    return 1 + (sum(map(_values, child_values(value))) or isinstance(value, (dict, list)))


def _containers(value: object) -> int:
    return isinstance(value, (dict, list)) + sum(map(_containers, child_values(value)))


@pytest.mark.parametrize("items", [1, QUICK_CONTAINERS])
def test_a_thread_refuses_what_is_too_deep_or_no_json(items: int) -> None:
    for text in (f"[{'[],' * items}[[[]]]]", f"[{'[],' * items}[[[]]]", f'[{"[]," * items}"\ud800"]'):
        with pytest.raises(NotJsonError):
            decode_in_thread(text, count_containers_in_thread(text, 0), 3)


@pytest.mark.parametrize("text", ["1e400", "-1e309", '{"a": [2e9999]}', "NaN", "Infinity", "[1,]", ""])
def test_what_no_float_holds_and_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        _ = read_json(text)


@pytest.mark.parametrize("text", ["1.7976931348623157e308", "5e-324", "-0.0"])
def test_the_ends_of_what_a_float_holds_are_read(text: str) -> None:
    assert repr(read_json(text)) == repr(float(text))


async def test_large_data_is_decoded_one_in_each_turn_of_the_loop() -> None:
    large = json.dumps([[]] * QUICK_CONTAINERS)
    ended: list[int] = []
    with count_loop_turns() as turns:

        async def decode() -> None:
            await decode_json(large, JsonBounds(3, QUICK_CONTAINERS + 1))
            ended.append(turns.count)

        await asyncio.gather(*[decode() for _ in range(10)])
    assert len(set(ended)) == 10


async def test_nesting_is_bounded_however_many_there_are() -> None:
    bounds = JsonBounds(3, 100_000)
    assert await decode_json(json.dumps([[[]] * 20_000]), bounds) == [[[]] * 20_000]
    with pytest.raises(NotJsonError):
        await decode_json(json.dumps([[[]] * 20_000 + [[[]]]]), bounds)


LARGE = {
    "keys": json.dumps({f"{number:x}": 0 for number in range(150_000)}),
    "rows": json.dumps([{"id": number, "name": f"n{number}"} for number in range(50_000)]),
    "lists": json.dumps([[]] * 6 * FEWEST_CONTAINERS, separators=(",", ":")),
}


@pytest.mark.parametrize("what", LARGE)
async def test_more_than_a_megabyte_or_many_containers_are_decoded_in_pieces(what: str) -> None:
    text = LARGE[what]
    with count_loop_turns() as turns:
        assert await decode_json(text, JsonBounds(3, 400_000)) == json.loads(text)
    assert turns.count > len(text) // (3 * PIECE)


@pytest.mark.parametrize("text", ["[" + "0," * WHOLE_CHARS + "]", '["' + "\\ud800" * WHOLE_CHARS + '"]'])
async def test_large_texts_are_refused_as_small_ones_are(text: str) -> None:
    with pytest.raises(NotJsonError):
        await decode_json(text, JsonBounds(3, 100))
