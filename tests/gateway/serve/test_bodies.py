"""Bodies of HTTP requests: what the application gets of them, and what it is spared."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from hypothesis import given
from hypothesis import strategies as st

from codecall.gateway.serve import bodies
from codecall.gateway.serve.bodies import BoundedBodies
from tests.gateway.backends import serve_over_http, wait_until
from tests.loop_time import LoopTime
from tests.loop_turns import longest_turn

BOMB = '{"a":[' + ",".join(["[]"] * 1_000_000) + "]}"
DIGITS = [7] * 300_000


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[str]:
    server = FastMCP("sums", **options)

    @server.tool
    def total(numbers: list[int], text: str = "") -> int:
        return sum(numbers) + len(text)

    async with serve_over_http(BoundedBodies(server.http_app(path="/mcp"))) as url:
        yield url


async def post(url: str, body: str, **headers: str) -> httpx.Response:
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(url, content=body, headers={**accept, **headers})


@pytest.mark.parametrize(
    "era",
    [{}, {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}, {"mcp-protocol-version": "2025-06-18"}],
)
async def test_a_body_of_too_many_values_is_answered_and_holds_nobody_up(era: dict[str, str]) -> None:
    async with served() as url:
        with longest_turn() as turn:
            refused = await post(url, BOMB, **era)
        assert turn.work < 15
        assert refused.status_code == 413
        assert refused.json()["error"]["message"] == (
            "The request was not read: it has more than 100,000 objects and arrays, or more than 600,000 values"
        )
        assert (await post(url, "[" + "1," * 700_000 + "1]", **era)).status_code == 413
        assert (await post(url, '"' + "[" * 200_000 + '"', **era)).status_code == 400  # a text, but no message


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_large_inputs_of_tools_arrive(mode: str) -> None:
    async with served() as url, Client(url, mode=mode) as client:
        assert (await client.call_tool("total", {"numbers": DIGITS})).data == 7 * len(DIGITS)
        text = '[{"\\' * 300_000
        assert (await client.call_tool("total", {"numbers": [], "text": text})).data == len(text)


async def test_what_is_larger_than_the_sdk_takes_is_refused_by_the_sdk() -> None:
    async with served() as url:
        refused = await post(url, " " * 5 * 2**20)
    assert (refused.status_code, refused.text) == (413, "Request body too large")


async def test_nobody_is_read_who_has_not_signed_in() -> None:
    async with served(auth=StaticTokenVerifier({"alice": {"client_id": "alice", "scopes": []}})) as url:
        assert (await post(url, BOMB)).status_code == 401
        assert (await post(url, BOMB, authorization="Bearer alice")).status_code == 413


async def test_large_bodies_of_one_caller_wait_for_those_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    time = LoopTime(monkeypatch)
    payments = bodies._Payments()
    await payments.pay(2_000_000)
    second, third = (asyncio.create_task(payments.pay(2_000_000)) for _ in range(2))
    await time.jump(0.5)
    assert (second.done(), payments.waiting) == (False, 2)
    await time.jump(0.6)
    assert (second.done(), third.done()) == (True, False)
    await time.jump(1)
    assert (third.done(), payments.waiting) == (True, 0)


async def test_only_so_many_large_bodies_of_one_caller_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_MAX_WAITING", 1)
    monkeypatch.setattr(bodies, "_COST_PER_S", 10_000)
    tokens = {name: {"client_id": name, "scopes": []} for name in ("alice", "bob")}
    large = json.dumps(DIGITS[:20_001])
    server = FastMCP("strict", auth=StaticTokenVerifier(tokens))
    bounded = BoundedBodies(server.http_app(path="/mcp"))
    async with serve_over_http(bounded) as url:
        alice = {"authorization": "Bearer alice"}
        assert (await post(url, large, **alice)).status_code == 400  # no message
        waiting = asyncio.create_task(post(url, large, **alice))
        await wait_until(lambda: any(payments.waiting for payments in bounded._payments.values()))
        refused = await post(url, large, **alice)
        assert refused.status_code == 429
        assert "1 large requests of this caller are waiting" in refused.text
        assert (await post(url, large, authorization="Bearer bob")).status_code == 400
        assert (await post(url, "[]", **alice)).status_code == 400
        waiting.cancel()


def test_only_so_many_callers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_MAX_CALLERS", 2)
    bounded = BoundedBodies(lambda *_: None)  # type: ignore[arg-type, return-value]
    first = bounded._payments_of("a")
    first.waiting = 1
    for caller in "bcd":
        bounded._payments_of(caller)
    assert list(bounded._payments) == ["a", "c", "d"]
    assert bounded._payments_of("a") is first


@given(
    st.recursive(
        st.one_of(st.integers(), st.text(alphabet='a"\\[{,:', max_size=12)),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text('"\\:{', max_size=5), inner)),
    ),
    st.integers(1, 9),
)
def test_texts_count_nothing_wherever_pieces_are_cut(value: object, piece: int) -> None:
    body = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "_PIECE", piece)
        plain = b"".join(bodies._outside_texts(body))
    assert plain == re.sub(rb'"(?:[^"\\]|\\.)*"', b"", body)
