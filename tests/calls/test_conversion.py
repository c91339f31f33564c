"""From content blocks to values, and from values to JSON."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import mcp_types
import pytest
from fastmcp.tools.base import ToolResult
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codecall.calls.conversion import (
    PIECE_CHARS,
    ValueTooLargeError,
    decoded_size,
    empty_value,
    encode,
    is_wrapped,
    looks_wrapped,
    to_json,
)
from codecall.jsonio.check import is_json
from tests.loop_turns import count_loop_turns

PLENTY = 64 * 1024 * 1024
MARK = {"fastmcp": {"wrap_result": True}}


def text(said: str) -> mcp_types.TextContent:
    return mcp_types.TextContent(type="text", text=said)


async def value_of(result: ToolResult) -> object:
    return json.loads(await to_json(result, wrapped=is_wrapped(result), max_bytes=PLENTY))


async def test_structured_content_comes_first() -> None:
    assert await value_of(ToolResult(content=[text("seen by people")], structured_content={"a": 1})) == {"a": 1}
    assert await value_of(ToolResult(content=[text("x")], structured_content={})) == {}


async def test_the_wrapper_goes_only_when_it_is_fastmcps() -> None:
    assert await value_of(ToolResult(content=[], structured_content={"result": [1]}, meta=MARK)) == [1]
    assert await value_of(ToolResult(content=[], structured_content={"result": [1]})) == {"result": [1]}
    for meta in ({}, {"fastmcp": None}, {"fastmcp": {"wrap_result": False}}, {"fastmcp": "yes"}):
        assert not is_wrapped(ToolResult(content=[], structured_content={"result": 1}, meta=meta))
    both = ToolResult(content=[], structured_content={"result": 1, "next": 2}, meta=MARK)
    assert await value_of(both) == {"result": 1, "next": 2}


def test_a_shape_without_a_mark_is_told_apart() -> None:
    assert looks_wrapped(ToolResult(content=[], structured_content={"result": 1}))
    assert not looks_wrapped(ToolResult(content=[], structured_content={"result": 1}, meta=MARK))
    assert not looks_wrapped(ToolResult(content=[], structured_content={"result": 1, "x": 2}))
    assert not looks_wrapped(ToolResult(content=[]))


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ('{"a": [1, 2.5, null, true, "x"]}', {"a": [1, 2.5, None, True, "x"]}),
        ("123", 123),
        ("null", None),
        (' "quoted" ', "quoted"),
        ("plain words", "plain words"),
        ("", ""),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("{not json", "{not json"),
        ("12 monkeys", "12 monkeys"),
        ("[" * 100_000, "[" * 100_000),
        ('{"a": "\\ud800"}', {"a": "\ud800"}),
        ("1e999", "1e999"),
        ("3.1", 3.1),
        ("-41", -41),
        ("0.00001", 0.00001),
        ("42\n", 42),
        ("12345678901234567890", 12345678901234567890),
        ('"caf\\u00e9"', "café"),
        # Versions, ids, phone numbers
        ("3.10", "3.10"),
        ("1.0", "1.0"),
        ("-0", "-0"),
        ("1e5", "1e5"),
        ("12345678901234567890.5", "12345678901234567890.5"),
        ("+4915112345", "+4915112345"),
        ("0049", "0049"),
        ("9" * 5_000, "9" * 5_000),
        ('"\\u0041"', '"\\u0041"'),
        ("[NaN, 1e5]", "[NaN, 1e5]"),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_one_text_block(said: str, value: object) -> None:
    assert await value_of(ToolResult(content=[text(said)])) == value


async def test_nothing_is_null() -> None:
    assert await value_of(ToolResult(content=[])) is None


@pytest.mark.parametrize(
    ("schemas", "value"),
    [
        ([None, None], "null"),
        ([{"type": "array"}, None], "[]"),
        ([None, {"type": "array"}], "[]"),
        ([None, {"type": ["array", "null"]}], "[]"),
        ([None, {"type": ["array", "object"]}], "null"),
        ([{"type": "object"}, None], "null"),
    ],
)
async def test_nothing_is_an_empty_list_where_lists_are_known(schemas: list[Any], value: str) -> None:
    assert empty_value(*schemas) == value


async def test_several_blocks_are_a_list_and_binary_a_summary() -> None:
    image = base64.b64encode(b"\x89PNG" * 1000).decode()
    uri: Any = "file:///a"
    blocks = [
        text("123"),
        mcp_types.ImageContent(type="image", data=image, mime_type="image/png"),
        mcp_types.AudioContent(type="audio", data=image, mime_type="audio/wav"),
        mcp_types.ResourceLink(type="resource_link", uri=uri, name="a", mime_type="text/csv"),
        mcp_types.EmbeddedResource(
            type="resource", resource=mcp_types.TextResourceContents(uri=uri, text="1,2", mime_type="text/csv")
        ),
        mcp_types.EmbeddedResource(type="resource", resource=mcp_types.BlobResourceContents(uri=uri, blob=image)),
    ]
    value = await value_of(ToolResult(content=blocks))
    assert value == [
        {"type": "text", "text": "123"},
        {"type": "image", "mimeType": "image/png", "bytes": 4000},
        {"type": "audio", "mimeType": "audio/wav", "bytes": 4000},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/csv"},
        {"type": "resource", "uri": "file:///a", "mimeType": "text/csv", "text": "1,2"},
        {"type": "resource", "uri": "file:///a", "bytes": 4000},
    ]
    assert image[:20] not in json.dumps(value)


async def test_a_single_binary_block_is_a_list_of_one() -> None:
    block = mcp_types.ImageContent(type="image", data="AAAA", mime_type="image/png")
    assert await value_of(ToolResult(content=[block])) == [{"type": "image", "mimeType": "image/png", "bytes": 3}]


async def test_large_texts_give_the_same_values() -> None:
    rows = [{"id": n, "name": "x" * 20} for n in range(PIECE_CHARS // 20)]
    assert await value_of(ToolResult(content=[text(json.dumps(rows))])) == rows
    assert json.loads(await encode(rows, PLENTY)) == rows
    long = "word " * PIECE_CHARS
    assert await value_of(ToolResult(content=[text(long)])) == long
    assert json.loads(await encode(long, PLENTY)) == long


async def test_what_json_cannot_say_becomes_null() -> None:
    value = {"a": [math.nan, math.inf, -math.inf, 1.5], "lone": "\ud800"}
    assert json.loads(await encode(value, PLENTY)) == {"a": [None, None, None, 1.5], "lone": "\ud800"}
    assert await encode(math.nan, PLENTY) == "null"


async def test_what_is_not_json_is_refused() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    for value in (object(), deep, {"x": {1, object()}}):
        with pytest.raises(ValueError, match="Error"):
            await encode(value, PLENTY)
    while isinstance(deep, list):  # taken apart from the outside: freeing it recursively would take as many frames
        deep = deep[0]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_sizes_are_those_of_the_decoded_bytes(data: bytes, broken: bool) -> None:
    encoded = base64.encodebytes(data) if broken else base64.b64encode(data)
    assert decoded_size(encoded.decode()) == len(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=150, deadline=None)
@given(JSON)
async def test_json_survives_the_way_through(value: object) -> None:
    encoded = await encode(value, PLENTY)
    assert json.loads(encoded) == value
    assert await is_json(encoded)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
@example("0E0")
@example("3.10")
async def test_any_text_is_a_value(said: str) -> None:
    try:
        expected: object = json.loads(said, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        expected = said
    if isinstance(expected, int | float | str) and json.dumps(expected, ensure_ascii=False) != said.strip():
        expected = said  # a version, or an id
    assert await value_of(ToolResult(content=[text(said)])) == expected


async def test_json_text_is_passed_on_as_it_is() -> None:
    said = '{ "id": 12345678901234567890, "x": 1.0 }'
    assert await to_json(ToolResult(content=[text(said)]), wrapped=False, max_bytes=PLENTY) == said


SHAPES: dict[str, Any] = {
    "rows in an object": {"total": 3, "rows": [{"id": n, "name": "x" * 20} for n in range(20_000)]},
    "large items": [["y" * PIECE_CHARS, {"deep": ["z" * PIECE_CHARS, n]}] for n in range(3)],
    "many keys": {str(n): n for n in range(50_000)},
    "keys that are numbers": {n: n for n in range(50_000)},
    "a tuple": tuple(range(100_000)),
    "one string": "é" * (PIECE_CHARS + 1),
    "small": {"a": [1, {}], "b": []},
    "empty": [],
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_pieces_make_the_same_json(shape: str) -> None:
    value = SHAPES[shape]
    assert json.loads(await encode(value, PLENTY)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_limit_is_a_number_of_bytes(shape: str) -> None:
    value = SHAPES[shape]
    size = len((await encode(value, PLENTY)).encode())
    assert len((await encode(value, size)).encode()) == size
    with pytest.raises(ValueTooLargeError) as raised:
        await encode(value, size - 1)
    assert raised.value.size == size


async def test_texts_have_the_same_limit() -> None:
    for said, size in [("[1,2]", 5), ('"é"', 4), ("plain", 7), ("[" + "1," * 999 + "1]", 2001)]:
        result = ToolResult(content=[text(said)])
        assert len((await to_json(result, wrapped=False, max_bytes=size)).encode()) == size
        with pytest.raises(ValueTooLargeError):
            await to_json(result, wrapped=False, max_bytes=size - 1)
        with pytest.raises(ValueTooLargeError):
            await to_json(result, wrapped=False, max_bytes=1)


async def test_a_large_value_does_not_hold_up_the_event_loop() -> None:
    """Six megabytes take one encoder call 40 ms and more; in pieces, others get their turn between them."""
    value = {"rows": [{"id": n, "name": "x" * 20, "score": n * 1.5} for n in range(100_000)]}
    with count_loop_turns() as turns:
        assert len(await encode(value, PLENTY)) > 5_000_000
    assert turns.count > 10


async def test_long_integers_do_not_hold_up_the_event_loop() -> None:
    value = {"numbers": [10**4_000] * 2_000}
    with count_loop_turns() as turns:
        assert len(await encode(value, PLENTY)) > 8_000_000
    assert turns.count > 10


async def test_half_a_surrogate_pair_is_escaped_where_it_is_and_the_rest_is_written_as_ever() -> None:
    value = {"lone \ud800": ["\ud800", *["é"] * PIECE_CHARS]}
    encoded = await encode(value, PLENTY)
    assert json.loads(encoded) == value
    assert encoded.count("é") > PIECE_CHARS // 2
