"""The decoders of what a worker says, on any bytes: a message of the protocol, a named refusal, nothing else, soon."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable
from datetime import UTC
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codecall.jsonio.decode import (
    BYTES_PER_CONTAINER,
    FEWEST_CONTAINERS,
    JsonBounds,
    NotJsonError,
    TooManyContainersError,
    decode_json,
    utf8_length,
)
from codecall.presets import PRESET_NAMES, load_preset
from codecall.sandbox import wire

MESSAGES = (wire.Ready, wire.Ask, wire.Calls, wire.Done)

encode = msgspec.msgpack.encode

LAYER: dict[str, object] = {
    field.name: {str: "text", bool: True}[field.type] for field in msgspec.structs.fields(wire.Layer)
}

VALID: list[wire.WorkerMessage] = [
    wire.Ready([msgspec.convert(LAYER, wire.Layer)]),
    wire.Ready([], failure="landlock"),
    wire.Ask("users:list"),
    wire.Ask("users", "member", "list"),
    wire.Calls([], [], 0, 0.0),
    wire.Calls([], [], 0, 0.0, plan=wire.Plan([wire.Site("users:list", '[1,{"limit":[30,5]}]', 7)])),
    wire.Calls([wire.Call(1, "a", "{}"), wire.Call(2, "é", '{"a":[1,2]}')], ["one", "two"], 17, 1.25),
    wire.Calls([wire.Call(1, "data://é", "{}", "resource"), wire.Call(2, "p", "{}", "prompt")], [], 1, 0.5),
    wire.Done([], 0, 0.0, value="[1,2,3]"),
    wire.Done(["line"], 2**53, 1e9, value="null", warnings=["short"], reusable=False),
    wire.Done([], 1, 1.0, failure=wire.Failure("runtime_error", "EXECUTION_ERROR", "no", name="E", line=1, column=9)),
    wire.Done([], 1, 1.0, failure=wire.Failure("tool_error", "TOOL", call=3)),
    wire.Done([], 1, 1.0, failure=wire.Failure("illegal_access", "VALIDATION_ERROR", kind="UnsafeSource", hint="h")),
]

FIELDS = sorted(
    {name for message in (*MESSAGES, wire.Plan, wire.Failure, wire.Layer) for name in message.__struct_fields__}
)


def decoded(body: bytes) -> wire.WorkerMessage | None:
    """The message, or None for a refusal; what else is raised fails the test."""
    try:
        return wire.decode_worker_message(body)
    except wire.InvalidMessage:
        return None


@pytest.mark.parametrize("message", VALID, ids=lambda message: type(message).__name__)
def test_messages_arrive_as_they_were_sent(message: wire.WorkerMessage) -> None:
    assert decoded(wire.pack(message)[wire.HEADER.size :]) == message


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
@example(b"")
@example(b"\x82\xa4type\xa3ask\xa4name\xa2\xff\xfe")
@example(b"\x81\xa4type" + b"\x91" * 5000)
@example(b"\x85\xa4type\xa4done\xa4logs" + b"\xdd\xff\xff\xff\xff")
def test_any_bytes(body: bytes) -> None:
    message = decoded(body)
    assert message is None or isinstance(message, MESSAGES)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(VALID), st.data())
def test_any_mutation(message: wire.WorkerMessage, data: st.DataObject) -> None:
    body = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        match data.draw(st.sampled_from(["replace", "insert", "remove", "repeat", "cut"])):
            case "replace":
                body[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
            case "insert":
                body[at:at] = data.draw(st.binary(min_size=1, max_size=8))
            case "remove":
                del body[at : at + data.draw(st.integers(1, 8))]
            case "repeat":
                body[at:at] = body[at : at + 20]
            case _:
                del body[at:]
    outcome = decoded(bytes(body))
    assert outcome is None or isinstance(outcome, MESSAGES)
    if outcome is not None:
        # What gets through is a message: it can be sent again.
        assert decoded(encode(outcome)) == outcome


LINES = b"\xdd\x00\x00\x40\x00" + b"\xa0" * 0x4000
REPEATED = {
    "logs": b"\x86"
    + encode({"type": "done", "steps": 0, "script_ms": 0.0, "value": "1"})[1:]
    + (b"\xa4logs" + LINES) * 2,
    "of the failure": b"\x85"
    + encode({"type": "done", "logs": [], "steps": 0, "script_ms": 0.0})[1:]
    + b"\xa7failure\x8f"
    + encode({"status": "timeout", "code": "TIMEOUT"})[1:]
    + (b"\xa7message" + encode("x" * 2_000)) * 13,
    "of the failure, very often": b"\x85"
    + encode({"type": "done", "logs": [], "steps": 0, "script_ms": 0.0})[1:]
    + b"\xa7failure\xdf\x00\x01\x00\x02"
    + encode({"status": "timeout", "code": "TIMEOUT"})[1:]
    + b"\xa4name\xc0" * 0x10000,
    "of the plan": b"\x86"
    + encode({"type": "calls", "calls": [], "logs": [], "steps": 0, "script_ms": 0.0})[1:]
    + b"\xa4plan\xde\x10\x00"
    + b"\xa5sites\x90" * 0x1000,
}


@pytest.mark.parametrize("body", REPEATED.values(), ids=REPEATED)
def test_no_field_stands_twice(body: bytes) -> None:
    assert decoded(body) is None


@pytest.mark.parametrize("message", VALID, ids=lambda message: type(message).__name__)
def test_large_messages_arrive_as_they_were_sent(message: wire.WorkerMessage) -> None:
    if isinstance(message, wire.Calls | wire.Done):
        large = msgspec.structs.replace(message, logs=["line"] * 20_000)
        assert decoded(wire.pack(large)[wire.HEADER.size :]) == large


def anything() -> st.SearchStrategy[Any]:
    """Any data MessagePack has a form for."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats()
        | st.text(max_size=20)
        | st.binary(max_size=20)
        | st.datetimes(timezones=st.just(UTC))
    )
    return st.recursive(
        leaves, lambda items: st.lists(items, max_size=4) | st.dictionaries(st.text(max_size=8), items, max_size=4)
    )


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(["ready", "ask", "calls", "done", "start", "answers", "x"]),
    st.dictionaries(st.sampled_from([*FIELDS, "x"]), anything(), max_size=8),
)
def test_any_fields(tag: str, fields: dict[str, Any]) -> None:
    message = decoded(encode({"type": tag} | fields))
    if message is not None:
        for name, value in fields.items():
            assert name in message.__struct_fields__, "an unknown field was let through"
            assert name != "steps" or 0 <= value <= 2**53


def lines(count: int) -> bytes:
    """A list of so many empty strings."""
    return b"\xdd" + struct.pack(">I", count) + b"\xa0" * count


BOMBS: list[Callable[[], bytes]] = [
    lambda: b"\x82\xa4type\xa4done\xa4logs" + lines(8_000_000),
    lambda: b"\x82\xa4type\xa4done\xa8warnings" + lines(8_000_000),
    lambda: (
        b"\x82\xa4type\xa5calls\xa5calls" + b"\xdd" + struct.pack(">I", 2_000_000) + b"\x93\x01\xa0\xa0" * 2_000_000
    ),
    lambda: b"\x82\xa4type\xa5ready\xa6layers" + lines(8_000_000),
    lambda: b"\x82\xa1x" + lines(8_000_000) + b"\xa4type\xa3ask",
    lambda: b"\x82\xa4type\xa3ask\xa1x" + lines(8_000_000),
    lambda: b"\xdf\x00\x80\x00\x00" + b"\xa0\xa0" * 0x800000,
    lambda: b"\x82\xa4type\xa3ask\xa4name" + b"\x91" * 8_000_000,
    lambda: b"\x82\xa4type\xa5calls\xa5calls\x91" + lines(8_000_000),
]


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_unread(bomb: Callable[[], bytes]) -> None:
    body = bomb()
    tracemalloc.start()
    try:
        with pytest.raises(wire.InvalidMessage):
            wire.decode_worker_message(body)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(body) / 10


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_what_a_preset_allows_fits_into_its_longest_frame(preset: str) -> None:
    values = load_preset(preset)
    limits = wire.Limits(**{name: getattr(values, name) for name in wire.PRESET_FIELDS})
    longest = wire.longest_frame(limits)
    logs = ["x"] * limits.max_console_calls
    if logs:
        logs[0] = "x" * (limits.max_console_bytes - limits.max_console_calls)
    done = wire.Done(
        logs, 1, 1.0, value="x" * limits.max_result_bytes, warnings=["w" * 600] * (limits.max_tool_calls + 20)
    )
    single = wire.Calls([wire.Call(1, "n" * 256, "x" * limits.max_tool_input_bytes)], logs, 1, 1.0)
    many = [wire.Call(i, "€" * 256, "x" * (wire.CALLS_BUDGET // 1000)) for i in range(1, 1001)]
    # What a worker puts into one frame: names count, too.
    most = wire.CALLS_BUDGET // (3 * wire.MAX_URI_LENGTH)
    reads = [wire.Call(i, "€" * wire.MAX_URI_LENGTH, "{}", "resource") for i in range(1, most)]
    for message in (done, single, wire.Calls(many, logs, 1, 1.0), wire.Calls(reads, logs, 1, 1.0)):
        assert len(encode(message)) <= longest
        assert wire.decode_worker_message(encode(message)) == message


# --------------------------------------------------------------------------------------------------------- JSON text


def nesting(value: object) -> int:
    """Levels of objects and arrays."""
    if isinstance(value, dict):
        return 1 + max(map(nesting, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(nesting, value), default=0)
    return 0


def containers(value: object) -> int:
    """Objects and arrays."""
    if isinstance(value, dict):
        return 1 + sum(map(containers, value.values()))
    return 1 + sum(map(containers, value)) if isinstance(value, list) else 0


def json_data() -> st.SearchStrategy[Any]:
    """JSON data with strings that look like structure."""
    text = st.text(alphabet='[]{}",:\\aé\n', max_size=6)
    leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text
    return st.recursive(leaves, lambda items: st.lists(items, max_size=4) | st.dictionaries(text, items, max_size=4))


@settings(max_examples=100, deadline=None)
@given(json_data(), st.integers(1, 6), st.integers(0, 8))
async def test_bounds_are_exact(data: Any, depth: int, most: int) -> None:
    text = json.dumps(data)
    try:
        outcome = await decode_json(text, JsonBounds(depth, most))
    except TooManyContainersError as failure:
        outcome = failure.count
    except NotJsonError:
        outcome = NotJsonError
    if containers(data) > most:
        assert outcome == containers(data)
    elif nesting(data) > depth:
        assert outcome is NotJsonError
    else:
        assert outcome == data


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='[]{}",:\\u0d8e1.-ntf\x00\ud800é ', max_size=40))
@example("[" * 3000)
@example('"\\ud800"')
@example("1" * 10_000)
async def test_any_text(text: str) -> None:
    try:
        outcome = await decode_json(text, JsonBounds(5, 10))
    except (NotJsonError, TooManyContainersError):
        return
    assert outcome == json.loads(text)


async def test_the_bounds_of_the_presets() -> None:
    for preset in PRESET_NAMES:
        values = load_preset(preset)
        limits = wire.Limits(**{name: getattr(values, name) for name in wire.PRESET_FIELDS})
        bounds = JsonBounds.from_limits(limits)
        assert bounds.containers == FEWEST_CONTAINERS + values.max_result_bytes // BYTES_PER_CONTAINER
        # What a preset lets a script return is taken: rows as wide as they are in practice, and the deepest nesting.
        rows = [{"id": i, "name": f"user {i}", "tags": []} for i in range(min(10_000, values.max_result_bytes // 60))]
        assert await decode_json(json.dumps(rows), bounds) == rows
        deepest = "[" * values.sanitize_max_depth + '{"__truncated":{"depth":1}}' + "]" * values.sanitize_max_depth
        assert await decode_json(deepest, bounds)


@given(st.text(max_size=50).filter(lambda text: text.isprintable()))
def test_lengths_in_bytes(text: str) -> None:
    assert utf8_length(text) == len(text.encode())
