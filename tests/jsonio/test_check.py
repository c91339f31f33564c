"""Whether a text is JSON, checked a piece at a time: the same answer as from the decoder, which sees little at once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codecall.jsonio import check
from codecall.jsonio.decode import NotJsonError

PIECE = 128
decode = msgspec.json.Decoder(msgspec.Raw).decode


def small_values() -> st.SearchStrategy[Any]:
    """Data that is shorter than a piece, with strings that look like structure."""
    text = st.text(alphabet='[]{}",:\\aé\n😀', max_size=8)
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
    nested = st.recursive(leaves, lambda items: st.lists(items, max_size=3) | st.dictionaries(text, items, max_size=3))
    return nested.filter(lambda value: len(json.dumps(value)) < PIECE // 2)


def texts() -> st.SearchStrategy[str]:
    """JSON of many pieces."""
    long = st.text(alphabet='",[\\aé\n😀\t', max_size=600)
    items = st.lists(small_values() | long, max_size=40)
    value = items | st.dictionaries(st.text(max_size=8), items | long, max_size=4) | long
    return st.builds(lambda data, ascii_only: json.dumps(data, ensure_ascii=ascii_only), value, st.booleans())


def is_json(text: str) -> bool:
    """What the decoder says of it in one call."""
    try:
        decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return False
    return True


async def is_checked(text: str, piece: int = PIECE) -> bool:
    """What the check says of it with pieces of that size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "PIECE", piece)
        try:
            await check.check_json(text)
        except NotJsonError:
            return False
    return True


@settings(max_examples=150, deadline=None)
@given(texts())
async def test_json_is_json_in_pieces(text: str) -> None:
    assert await is_checked(text)


@settings(max_examples=400, deadline=None)
@given(texts(), st.integers(0, 10**6), st.integers(0, 2), st.text(alphabet='[]{}",:\\ 1ud8é', max_size=2))
@example("[1," + "1," * 100 + "]", 0, 0, "")
@example("[" + "1," * 100 + ",1]", 0, 0, "")
@example('{"a":[' + "1," * 100 + "1}]", 0, 0, "")
@example("[" + "1," * 100 + "1],[" + "1," * 100 + "1]", 0, 0, "")
@example('["' + "a" * 300 + '\\ud83d"]', 0, 0, "")
@example('["' + "a" * 300, 0, 0, "")
@example("1" * 300 + "x", 0, 0, "")
async def test_what_is_no_json_is_none_in_pieces(text: str, place: int, removed: int, added: str) -> None:
    at = place % (len(text) + 1)
    changed = f"{text[:at]}{added}{text[at + removed :]}"
    assert is_json(changed) or not await is_checked(changed)


@pytest.mark.parametrize("depth", [check.MAX_DEPTH - 1, check.MAX_DEPTH + 1])
async def test_nesting_is_bounded(depth: int) -> None:
    text = "[" * depth + "1," * 200 + "1" + "]" * depth
    assert await is_checked(text, 300) is (depth < check.MAX_DEPTH)


@pytest.mark.parametrize(
    "value",
    [
        [{"id": number, "name": f"user {number}", "tags": ["a", "b"]} for number in range(50_000)],
        {"total": 2, "rows": {"all": list(range(400_000)), "some": [[[]]] * 100_000}},
        "é\n😀,[" * 300_000,
        ["a" * 400_000, {"b" * 400_000: "c" * 400_000}],
    ],
    ids=["rows", "object", "text", "long strings"],
)
def test_the_decoder_sees_little_at_once(value: object) -> None:
    text = json.dumps(value)
    seen = [len(piece) for piece in check.pieces(text)]
    assert max(seen) <= 4 * check.PIECE
    assert sum(seen) < 1.1 * len(text) + 4 * check.PIECE
    assert len(seen) >= len(text) // check.PIECE
