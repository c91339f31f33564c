"""Bodies of servers' responses."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import AsyncIterator

import httpx2
import pytest

from codecall.gateway.upstream.messages import IN_THREAD_BYTES, TooLargeError
from codecall.gateway.upstream.responses import BoundedBody, in_thread_if_large, unread
from tests.gateway.backends import wait_until

SIZE = 200_000


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in pieces of two bytes, each an object of its own as the transport makes them."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for number in range(SIZE // 2):
            yield number.to_bytes(2, "big", signed=False) if number < 2**16 else bytes(2)


@pytest.mark.parametrize("limit", [SIZE, SIZE - 2])
async def test_a_body_in_small_pieces_takes_no_more_memory_than_in_large_ones(limit: int) -> None:
    body = BoundedBody(httpx2.Response(200, stream=Pieces()), limit, bytes)
    tracemalloc.start()
    try:
        if limit < SIZE:
            with pytest.raises(httpx2.StreamError, match="it has more than"):
                [piece async for piece in body]
        else:
            assert [len(piece) async for piece in body] == [SIZE]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * SIZE


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
