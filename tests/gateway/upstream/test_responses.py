"""Bodies of servers' responses."""

from __future__ import annotations

import gc
import json
import tracemalloc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp_types import RequestId

from codecall.gateway.upstream import responses
from codecall.gateway.upstream.messages import IN_THREAD_BYTES, Throttle, TooLargeError
from codecall.gateway.upstream.responses import BoundedBody, ErrorBody, EventStream, in_thread_if_large, unread
from tests.gateway.backends import wait_until
from tests.loop_turns import count_loop_turns

SIZE = 200_000


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in pieces of two bytes, each an object of its own as the transport makes them."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for number in range(SIZE // 2):
            yield number.to_bytes(2, "big", signed=False) if number < 2**16 else bytes(2)


@pytest.mark.parametrize(
    ("limit", "refusal"), [(SIZE * 32, ""), (SIZE * 32 - 1, "in too many small chunks"), (SIZE - 2, "has more than")]
)
async def test_a_body_in_small_pieces_takes_no_more_memory_than_in_large_ones(
    monkeypatch: pytest.MonkeyPatch, limit: int, refusal: str
) -> None:
    monkeypatch.setattr(responses, "_SMALL_CHUNKS_PER_S", 10**9)
    if limit < SIZE:
        monkeypatch.setattr(responses, "_BYTES_PER_CHUNK", 1)
    body = BoundedBody(httpx2.Response(200, stream=Pieces()), limit, bytes)
    tracemalloc.start()
    try:
        if refusal:
            with pytest.raises(httpx2.StreamError, match=refusal):
                [piece async for piece in body]
        else:
            assert [len(piece) async for piece in body] == [SIZE]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * SIZE


class Chunks(httpx2.AsyncByteStream):
    """What is in the transport's buffer, in chunks of one size: it comes without a turn of the event loop."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b" " * self._size


@pytest.mark.parametrize(("size", "small"), [(1, 1_000), (1_024, 0)])
@pytest.mark.parametrize("kind", ["whole", "events", "error"])
async def test_others_have_turns_while_many_chunks_are_read(
    monkeypatch: pytest.MonkeyPatch, size: int, small: int, kind: str
) -> None:
    counted: list[int] = []
    wait = Throttle.wait

    async def counting(throttle: Throttle, amount: int = 1) -> bool:
        counted.append(amount)
        return await wait(throttle, amount)

    monkeypatch.setattr(Throttle, "wait", counting)
    response = httpx2.Response(200, stream=Chunks(size), request=httpx2.Request("GET", "http://far"))
    body = {
        "whole": lambda: BoundedBody(response, 2**20, bytes),
        "events": lambda: EventStream(response, lambda _: False),
        "error": lambda: ErrorBody(response, 2**20),
    }[kind]()
    with count_loop_turns() as turns:
        [part async for part in body]
    assert turns.count >= 8
    assert (len(counted), sum(counted)) == (1_000, small)  # of which so many are let through in a second


class Check:
    """Refuses what it reads."""

    def __init__(self, refusal: Exception) -> None:
        self.refusal = type(refusal), refusal.args

    def __call__(self, data: bytes) -> bytes:
        kind, words = self.refusal
        raise kind(*words)


@pytest.mark.parametrize("refusal", [TooLargeError("200,000 values"), unread("it has too many lines")])
async def test_what_was_refused_in_a_thread_is_let_go(refusal: Exception) -> None:
    check = Check(refusal)
    kept = weakref.ref(check)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(type(refusal)):
            await in_thread_if_large(check, bytes(IN_THREAD_BYTES + 1))
        del check
        await wait_until(lambda: kept() is None)
    finally:
        gc.enable()


def test_a_server_cannot_have_streams_opened_again_at_once() -> None:
    for retry in (b"0", b"-1", b"00999", b"1e3", b"9" * 5_000, b""):
        assert passed_on(b"id: 1\nretry: " + retry + b"\n\n") == [b"id: 1\nretry: 1000\n\n"]
    assert passed_on(b"retry: 1500\n\n") == [b"retry: 1500\n\n"]


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def checked_events(block: bytes) -> list[responses._Event]:
    return responses._checked_events(block, [blank.span() for blank in responses._EVENT_END.finditer(block)])


def passed_on(block: bytes) -> list[bytes]:
    return [event.text for event in checked_events(block)]


@pytest.mark.parametrize(
    ("event", "passed"),
    [
        (b"data: " + PING, b"data: " + PING),
        (b"event: message\r\ndata:" + PING + b"\r\nid: 5", b"event: message\ndata:" + PING + b"\nid: 5"),
        (b"data: " + PING[:16] + b"\ndata:" + PING[16:], b"data: " + PING[:16] + b"\ndata:" + PING[16:]),
        (b'data: {"x":1}', b""),
        (b"data: [" + PING + b"]", b""),
        (b'data: {"jsonrpc":"2.0","method":5}', b""),
        # A blank line for whoever takes every carriage return for an end.
        (b"data: " + PING + b"\n\rdata: 1", b""),
        (b"event: endpoint\ndata: /messages", b"event: endpoint\ndata: /messages"),
        (b": a comment\ndata: " + PING + b"\n:", b"data: " + PING),
        (b": a comment", b""),
        (b"id: " + b"7" * 1_023 + b"\nid\nretry: 2000", b"id: " + b"7" * 1_023 + b"\nid\nretry: 2000"),
        (b"id: " + b"7" * 1_024 + b"\nretry: 2000", b"retry: 2000"),
        (b"id: x\t\nretry: 2000\nevent: other", b"retry: 2000"),
        (b"id: \xc3\xbc\ndata: " + PING, b"data: " + PING),
        (b"event: other\ndata: 1\nid: 7\nretry: 2000\nx: y", b"id: 7\nretry: 2000"),
    ],
)
def test_messages_are_passed_on_and_what_is_none_is_left_out(event: bytes, passed: bytes) -> None:
    assert passed_on(event + b"\n\n") == [passed and passed + b"\n\n"]


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
async def test_it_does_not_matter_where_a_stream_is_cut(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(responses, "MAX_MESSAGE_BYTES", 100)
    ends = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\n\n")
    block = b"".join(b"id: %d\ndata: %b%b" % (number, PING, end) for number, end in enumerate(ends * 3))

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(block), size):
            yield block[start : start + size]

    response = httpx2.Response(200, content=chunks(), request=httpx2.Request("GET", "http://far"))
    passed = b"".join([part async for part in EventStream(response, lambda _: False)])
    assert passed == b"".join(b"id: %d\ndata: %b\n\n" % (number, PING) for number in range(12))


@pytest.mark.parametrize("end", [b"", b"\n\n"])
async def test_an_event_beyond_the_limit_is_an_error_and_ends_the_stream(
    monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(responses, "MAX_MESSAGE_BYTES", 1_000)
    answer = b'data: {"jsonrpc":"2.0","id":7,"result":{"a":1}}\n'
    block = answer + (b":" + b"x" * 99 + b"\n") * 20 + end

    async def chunks() -> AsyncIterator[bytes]:
        while True:
            yield block

    response = httpx2.Response(200, content=chunks(), request=httpx2.Request("GET", "http://far"))
    (error,) = [part async for part in EventStream(response, lambda _: False)]
    assert b'"id":7' in error
    assert b"The server's answer was not read: it has more than 0 MiB" in error


def test_lines_of_events_cost_what_it_takes_to_read_them() -> None:
    (event,) = checked_events(b"x\n" * 19_000 + b"data: {}\n\n")
    assert (event.has_message, event.cost > 19_000) == (False, True)


def test_a_request_or_notification_of_many_values_is_not_read() -> None:
    many = b",".join([b"[]"] * 30_000)
    (event,) = checked_events(b'data: {"jsonrpc":"2.0","method":"x","params":{"a":[' + many + b"]}}\n\n")
    assert b"more than 50,000 values that is no answer" in event.text
    (event,) = checked_events(b'data: {"jsonrpc":"2.0","id":7,"result":{"a":[' + many + b"]}}\n\n")
    assert (event.answers, event.text.count(b"[]")) == (7, 30_000)


RESULT: dict[str, Any] = {"content": [{"type": "text", "text": "x" * IN_THREAD_BYTES}]}
LARGE = b"id: 5\nretry: 2000\ndata: " + json.dumps({"jsonrpc": "2.0", "id": "7", "result": RESULT}).encode() + b"\n\n"
ABOUT_STREAM = b"id: 5\nretry: 2000\n"


@pytest.mark.parametrize("request_id", [3, "three", None])
async def test_a_large_result_goes_round_the_reader_of_events(request_id: int | str | None) -> None:
    """It is kept for the request whose answer the stream is, or, where it is of none, for the one that it names."""
    own = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": {"id": 9}}
    request = httpx2.Request("POST", "http://far", **({} if request_id is None else {"json": own}))
    answers = "7" if request_id is None else request_id
    kept: list[tuple[RequestId, dict[str, Any]]] = []

    def keep(request_id: RequestId, result: dict[str, Any]) -> bool:
        kept.append((request_id, result))
        return True

    response = httpx2.Response(200, content=LARGE, request=request)
    passed = [part async for part in EventStream(response, lambda _: True, keep=keep)]
    assert kept == [(answers, RESULT)]
    without = json.dumps({"jsonrpc": "2.0", "id": answers, "result": {}}, separators=(",", ":")).encode()
    assert passed == [ABOUT_STREAM + b"event: message\ndata: " + without + b"\n\n"]


async def test_a_large_result_that_nobody_waits_for_is_not_passed_on() -> None:
    response = httpx2.Response(200, content=LARGE, request=httpx2.Request("GET", "http://far"))
    (passed,) = [part async for part in EventStream(response, lambda _: False)]
    assert passed.startswith(ABOUT_STREAM + b"event: message\ndata: ")
    assert b"was not read: it is large, and no request waits for it" in passed
