"""Bodies of HTTP requests: what the application gets of them, and what it is spared."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import mcp_types
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from hypothesis import given
from hypothesis import strategies as st

from codecall.gateway.serve import bodies, pending, unsent
from codecall.gateway.serve.answers import has_long_answer
from codecall.gateway.serve.bodies import BoundedBodies
from codecall.gateway.serve.checks import MessageChecks
from codecall.gateway.serve.pending import CountCalls
from tests.gateway.backends import serve_over_http, wait_until
from tests.loop_time import LoopTime
from tests.loop_turns import assert_turns_below

BOMB = '{"a":[' + ",".join(["[]"] * 1_000_000) + "]}"
DIGITS = [7] * 300_000


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[str]:
    server = FastMCP("sums", **options)

    @server.tool
    def total(numbers: list[int], text: str = "") -> int:
        return sum(numbers) + len(text)

    @server.tool
    def repeat(text: str, times: int) -> str:
        return text * times

    async with serve_over_http(BoundedBodies(server.http_app(path="/mcp"))) as url:
        yield url


async def post(url: str, body: str, **headers: str) -> httpx.Response:
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(url, content=body, headers={**accept, **headers})


@pytest.mark.parametrize(
    ("message", "long"),
    [
        ({"method": "tools/call", "params": {"inputResponses": {"a": {"content": [1] * 2_000}}}}, True),
        ({"method": "tools/call", "params": {"inputResponses": {"a": {"content": [{"type": "text"}] * 1_000}}}}, True),
        ({"id": 1, "result": {"content": {"a": [1] * 2_000}}}, True),
        ({"id": 1, "error": {"data": [[]] * 2_000}}, True),
        ({"method": "tools/call", "params": {"arguments": {"a": [1] * 9_000}, "inputResponses": {"a": {}}}}, False),
        ({"id": 1, "result": {"content": {"a": [1] * 900}}}, False),
        ([1] * 3_000, False),
    ],
)
async def test_answers_to_questions_have_few_values(message: object, long: bool) -> None:
    assert await has_long_answer(json.dumps(message).encode(), 100_000) is long


async def test_a_long_answer_is_refused_before_the_sdk_compares_it() -> None:
    answers = {"a": {"role": "assistant", "model": "m", "content": [1] * 300_000}}
    params = {"name": "total", "arguments": {"numbers": [1]}, "inputResponses": answers}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "total"}
    async with served() as url:
        await assert_turns_below(100, lambda: post(url, body, **headers))  # compared by the SDK, 700
        refused = await post(url, body, **headers)
    assert (refused.status_code, "more than 2,000 values" in refused.text) == (413, True)


GENERAL = "it has more than 100,000 objects and arrays, or more than 600,000 values"
OPENING = "one that opens a session may have 64 KiB, 250 objects and arrays, and 1,000 values"


@pytest.mark.parametrize(
    ("era", "why", "brackets"),
    [
        ({}, OPENING, 60_000),
        ({"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}, GENERAL, 200_000),
        ({"mcp-protocol-version": "2025-06-18"}, OPENING, 60_000),
    ],
)
async def test_a_body_of_too_many_values_is_answered_and_holds_nobody_up(
    era: dict[str, str], why: str, brackets: int
) -> None:
    async with served() as url:
        await assert_turns_below(15, lambda: post(url, BOMB, **era))
        refused = await post(url, BOMB, **era)
        assert refused.status_code == 413
        assert refused.json()["error"]["message"] == f"The request was not read: {why}"
        assert (await post(url, "[" + "1," * 700_000 + "1]", **era)).status_code == 413
        assert (await post(url, '"' + "[" * brackets + '"', **era)).status_code == 400  # a text, but no message


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_large_inputs_of_tools_arrive(mode: str) -> None:
    async with served() as url, Client(url, mode=mode) as client:
        assert (await client.call_tool("total", {"numbers": DIGITS})).data == 7 * len(DIGITS)
        text = '[{"\\' * 300_000
        assert (await client.call_tool("total", {"numbers": [], "text": text})).data == len(text)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_large_answers_of_tools_arrive(mode: str) -> None:
    async with served() as url, Client(url, mode=mode) as client:
        assert (await client.call_tool("repeat", {"text": "word\n", "times": 60_000})).data == "word\n" * 60_000


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
        alice = {"authorization": "Bearer alice", "mcp-protocol-version": "2026-07-28"}
        assert (await post(url, large, **alice)).status_code == 400  # no message
        waiting = asyncio.create_task(post(url, large, **alice))
        await wait_until(lambda: any(payments.waiting for payments in bounded._payments.values()))
        refused = await post(url, large, **alice)
        assert refused.status_code == 429
        assert "1 large requests of this caller are waiting" in refused.text
        assert (await post(url, large, **alice | {"authorization": "Bearer bob"})).status_code == 400
        assert (await post(url, "[]", **alice)).status_code == 400
        waiting.cancel()


def test_only_so_many_callers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_MAX_CALLERS", 2)
    bounded = BoundedBodies(lambda *_: None)  # type: ignore[arg-type, return-value]
    first = bounded.payments_of("a")
    first.waiting = 1
    for caller in "bcd":
        bounded.payments_of(caller)
    assert list(bounded._payments) == ["a", "c", "d"]
    assert bounded.payments_of("a") is first


class Request:
    """A request to an application that reads its body and answers, and that has the body while it does."""

    def __init__(self, bounded: BoundedBodies, *messages: dict[str, Any], peer: str = "192.0.2.1") -> None:
        self.bounded = bounded
        self.scope = {"type": "http", "client": (peer, 1), "headers": [(b"mcp-session-id", b"1")]}
        self.coming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        for message in messages:
            self.coming.put_nowait({"type": "http.request", **message})

    async def answer(self) -> None:
        await self.bounded(self.scope, self.coming.get, self._send)

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None


async def reader(scope: Any, receive: Any, send: Any) -> None:
    scope["body"] = b""
    scope["more"] = True
    while scope["more"] and (message := await receive())["type"] == "http.request":
        scope["body"] += message["body"]
        scope["more"] = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
async def test_a_body_in_another_encoding_is_not_read(encoding: str) -> None:
    # U+0122 has a byte that is a quotation mark in ASCII: all that follows would count as a text.
    body = ('{"jsonrpc":"2.0","id":1,"method":"\u0122","params":[' + "[]," * 150_000 + "1]}").encode(encoding)
    async with served() as url, httpx.AsyncClient() as client:
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        refused = await client.post(url, content=body, headers={**headers, "mcp-protocol-version": "2026-07-28"})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "The request was not read: it is not encoded as UTF-8"


async def test_a_body_may_begin_with_the_mark_of_utf_8() -> None:
    request = Request(BoundedBodies(reader), {"body": b"\xef\xbb\xbf{}"})
    await request.answer()
    assert (request.status, request.scope["body"]) == (200, b"\xef\xbb\xbf{}")


async def test_a_body_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "SMALL", 0)
    time, bounded = LoopTime(monkeypatch), BoundedBodies(reader)
    request = Request(bounded, {"body": b"[1", "more_body": True})
    answering = asyncio.create_task(request.answer())
    await time.jump(0)  # it is asked for now
    await time.jump(bodies.MAX_BODY_S - 5)
    request.coming.put_nowait({"type": "http.request", "body": b",2", "more_body": True})
    await time.jump(1)
    assert (request.status, bounded.pending.bytes.by_caller) == (None, {"peer 192.0.2.1": 4})
    await time.jump(5)
    await answering
    assert (request.status, request.scope["body"]) == (408, b"")
    assert "it has not come as a whole within 60 s" in request.sent[1]["body"].decode()
    assert (b"connection", b"close") in request.sent[0]["headers"]
    assert_nothing_counts(bounded)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for one body of 60 bytes of a caller, and for two of all."""
    for name, value in {"MAX_HELD": 100, "MAX_HELD_BY_ALL": 150, "SMALL": 10, "MAX_PENDING": 3}.items():
        monkeypatch.setattr(pending, name, value)


def assert_nothing_counts(bounded: BoundedBodies) -> None:
    assert (bounded.pending.bytes.by_caller, bounded.pending.bytes.by_all, bounded.pending.requests) == ({}, 0, {})


async def begin(request: Request) -> asyncio.Task[None]:
    answering = asyncio.create_task(request.answer())
    for _ in range(20):
        await asyncio.sleep(0)
    return answering


HALF = {"body": b" " * 60, "more_body": True}


async def test_only_so_much_is_held_of_bodies_that_have_not_ended(little: None) -> None:
    bounded = BoundedBodies(reader)
    first, other = Request(bounded, HALF), Request(bounded, HALF, peer="192.0.2.2")
    ends = [await begin(first), await begin(other)]
    refused = Request(bounded, HALF, {"body": b" " * 60}, peer="192.0.2.3")  # they are too much for all together
    await refused.answer()
    assert refused.status == 429
    why = "large requests of this caller, or of all, that are not answered yet have too many bytes"
    assert why in refused.sent[1]["body"].decode()
    assert refused.coming.empty()  # a client that cannot send the rest does not read the refusal
    first.coming.put_nowait({"type": "http.request", "body": b"1"})
    other.coming.put_nowait({"type": "http.disconnect"})
    await asyncio.gather(*ends)
    assert (first.status, first.scope["body"]) == (200, b" " * 60 + b"1")
    assert_nothing_counts(bounded)


@pytest.mark.parametrize("end", ["answers", "raises", "is cancelled"])
async def test_a_body_counts_until_the_application_returns(little: None, end: str) -> None:
    leave = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await reader(scope, receive, send)
        await leave.wait()
        if end == "raises":
            raise LookupError

    bounded = BoundedBodies(app)
    alices = Request(bounded, {"body": b" " * 60})
    answering = await begin(alices)
    assert bounded.pending.bytes.by_caller == {"peer 192.0.2.1": 60}
    small, ping, another, too_large = (Request(bounded, {"body": b" " * size}) for size in (10, 0, 10, 41))
    tasks = [await begin(request) for request in (small, ping, too_large, another)]
    assert (small.status, ping.status, another.status, too_large.status) == (200, 200, 200, 429)
    tasks.append(await begin(fourth := Request(bounded, {"body": b"{}"})))
    assert fourth.status == 429
    assert "3 requests of this caller are not answered yet" in fourth.sent[1]["body"].decode()
    tasks.append(await begin(bobs := Request(bounded, {"body": b" " * 60}, peer="192.0.2.2")))
    assert bobs.status == 200
    if end == "is cancelled":
        for task in (answering, *tasks):
            task.cancel()
    leave.set()
    await asyncio.gather(answering, *tasks, return_exceptions=True)
    assert_nothing_counts(bounded)


@pytest.mark.parametrize("mode", ["2025-06-18", "2026-07-28"])
async def test_the_body_of_a_call_counts_until_the_call_has_ended_though_its_client_is_gone(mode: str) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    server = FastMCP("slow", middleware=[CountCalls()])

    @server.tool
    async def wait(text: str) -> None:
        entered.set()
        await leave.wait()

    app, returned = server.http_app(path="/mcp"), asyncio.Event()

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        if entered.is_set():
            returned.set()

    bounded = BoundedBodies(watched)
    about = {"clientInfo": {"name": "x", "version": "1"}, "capabilities": {}}
    async with serve_over_http(bounded) as url:
        headers = {"mcp-protocol-version": mode}
        meta: dict[str, Any] = {}
        if mode == "2025-06-18":
            first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": mode, **about}}
            begun = await post(url, json.dumps(first))
            headers["mcp-session-id"] = begun.headers["mcp-session-id"]
            await post(url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', **headers)
        else:
            headers |= {"mcp-method": "tools/call", "mcp-name": "wait"}
            meta = {mcp_types.PROTOCOL_VERSION_META_KEY: mode, mcp_types.CLIENT_CAPABILITIES_META_KEY: {}}
        params = {"name": "wait", "arguments": {"text": "x" * 100_000}, "_meta": meta}
        call = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        calling = asyncio.create_task(post(url, call, **headers))
        await entered.wait()
        assert bounded.pending.bytes.by_all == len(call)
        calling.cancel()
        if mode == "2025-06-18":  # the call goes on
            await returned.wait()
            assert bounded.pending.bytes.by_all == len(call)
            leave.set()
        await wait_until(lambda: not bounded.pending.requests)
        assert_nothing_counts(bounded)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["enter", "exit", "grow", "drop"])), max_size=60))
def test_whatever_happens_to_requests_exactly_those_that_are_used_count(steps: list[tuple[int, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending, "MAX_HELD", 60)
        patch.setattr(pending, "SMALL", 10)
        quota = pending.PendingQuota()
        requests = [pending.PendingRequest(quota, {}) for _ in range(3)]
        users, sizes = [0, 0, 0], [0, 0, 0]
        for which, step in steps:
            request = requests[which]
            if step == "enter":
                request.__enter__()
                users[which] += 1
            elif step == "exit" and users[which]:
                request.__exit__()
                users[which] -= 1
            elif step == "drop":
                request.drop()
                sizes[which] = 0
            elif step == "grow" and request.grow("a", sizes[which] + 8) is None:
                sizes[which] += 8
            used = [size for size, count in zip(sizes, users, strict=True) if count]
            assert quota.bytes.by_all == sum(size for size in used if size > 10)
            assert quota.requests["a"] == sum(size > 0 for size in used)


def opening(meta: object, **about: Any) -> str:
    client = {"clientInfo": {"name": "x", "version": "1"}, "capabilities": {}, "_meta": {"a": meta}}
    params = {"protocolVersion": "2025-06-18", **client, **about}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})


@pytest.mark.parametrize("meta", ["x" * 66_000, [[]] * 250, [1] * 1_000], ids=["bytes", "containers", "values"])
async def test_what_opens_a_session_and_stays_with_it_is_small(meta: Any) -> None:
    # Of several headers of one name the SDK reads the first.
    two = [("mcp-protocol-version", "2025-06-18"), ("mcp-protocol-version", "2026-07-28")]
    async with served() as url, httpx.AsyncClient(timeout=60) as client:
        for era in ([], two[:1], two):
            headers = [("accept", "application/json, text/event-stream"), ("content-type", "application/json"), *era]
            refused = await client.post(url, content=opening(meta), headers=headers)
            assert refused.status_code == 413
            assert OPENING in refused.json()["error"]["message"]
            assert "mcp-session-id" not in refused.headers
            assert (await client.post(url, content=opening(meta[:230]), headers=headers)).status_code == 200
        assert (await post(url, opening("[{," * 10_000))).status_code == 200  # what stands in a text does not count


async def test_a_session_is_opened_once() -> None:
    """The SDK would keep what a second `initialize` says, and only the first is small."""
    kept: list[Any] = []
    server = FastMCP("kept", middleware=[MessageChecks()])

    @server.tool
    def look(context: Context) -> None:
        kept.append(context.session.client_params)

    failing = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})
    async with serve_over_http(BoundedBodies(server.http_app(path="/mcp"))) as url:
        failed = await post(url, failing)
        session = {"mcp-session-id": failed.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        assert "This session is already initialized" in (await post(url, opening("y" * 300_000), **session)).text
        begun = await post(url, opening(None))
        session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        await post(url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', **session)
        assert "This session is already initialized" in (await post(url, opening("y" * 300_000), **session)).text
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "look", "arguments": {}}}
        assert '"isError":false' in (await post(url, json.dumps(call), **session)).text
    assert [params.meta for params in kept] == [{"a": None}]


@pytest.mark.parametrize("mode", ["2025-06-18", "2026-07-28"])
async def test_long_progress_tokens_are_refused(mode: str) -> None:
    server = FastMCP("steps", middleware=[MessageChecks()])

    @server.tool
    async def step(context: Context) -> str:
        await context.report_progress(1)
        return "done"

    async with serve_over_http(server) as url:
        headers, about = {"mcp-protocol-version": mode}, dict[str, object]()
        if mode == "2025-06-18":
            headers["mcp-session-id"] = (await post(url, opening(None))).headers["mcp-session-id"]
            await post(url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', **headers)
        else:
            headers |= {"mcp-method": "tools/call", "mcp-name": "step"}
            about = {mcp_types.PROTOCOL_VERSION_META_KEY: mode, mcp_types.CLIENT_CAPABILITIES_META_KEY: {}}
        answers = list[str]()
        for length in (1_024, 1_025):
            params = {"name": "step", "arguments": {}, "_meta": {**about, "progressToken": "x" * length}}
            call = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
            answers.append((await post(url, call, **headers)).text)
    assert "notifications/progress" in answers[0]
    assert "done" in answers[0]
    assert "progressToken may have 1,024 characters, or bits if it is a number" in answers[1]
    assert "notifications/progress" not in answers[1]


async def test_a_body_is_not_kept_while_it_is_answered() -> None:
    largest: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            largest.append(len(message["body"]))

    await Request(BoundedBodies(app), {"body": b" " * 1_000_000}).answer()
    assert (sum(largest), max(largest)) == (1_000_000, bodies._PIECE)


async def test_an_address_of_ipv6_stands_for_its_network() -> None:
    bounded, large = BoundedBodies(reader), {"body": b"[" + b"1," * 30_000 + b"1]"}
    for peer in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"):
        await Request(bounded, large, peer=peer).answer()
        bounded._payments[next(iter(bounded._payments))]._paid_until = 0
    assert list(bounded._payments) == ["peer 2001:db8::/64", "peer 2001:db8:0:1::/64"]


@pytest.mark.parametrize(
    ("body", "cost"),
    [
        (b"[" + b"1," * 19_000 + b"1]", None),
        (b'"' + b"a" * 64 * 20_001 + b'"', 20_001),
        (b"[" + b",".join([b"1" * 4_300] * 40) + b"]", 40 + 10 + 40 * 4_301 // 64 + 600 * 33 * 40),
        (b'"' + b"1" * 100_000 + b'"', None),
    ],
)
async def test_long_bodies_and_long_numbers_are_paid_for(body: bytes, cost: int | None) -> None:
    bounded = BoundedBodies(reader)
    request = Request(bounded, {"body": body})
    before = asyncio.get_running_loop().time()
    await request.answer()
    assert request.status == 200
    paid = [payments._paid_until for payments in bounded._payments.values()]
    assert len(paid) == (cost is not None)
    if cost is not None:
        assert paid[0] - before >= cost / bodies._COST_PER_S


async def test_many_long_numbers_are_not_read() -> None:
    request = Request(BoundedBodies(reader), {"body": b"[" + b",".join([b"1" * 4_300] * 940) + b"]"})
    await request.answer()
    assert request.status == 413
    assert "more than 524,288 digits in numbers of 128 digits or more" in request.sent[1]["body"].decode()


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


LARGE = 8 * 1024 * 1024
"""Bytes of an answer, more than the sockets of a connection take."""


@asynccontextmanager
async def answering(kind: str) -> AsyncIterator[tuple[str, BoundedBodies]]:
    """An application whose answers are large, with room for one of them that its caller does not take."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await receive()
            body = b"a" * (10 if scope["path"] == "/small" else LARGE)
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]})
            await send({"type": "http.response.body", "body": body})

    bounded = BoundedBodies(app)
    async with serve_over_http(bounded) as url:
        yield url, bounded


@asynccontextmanager
async def not_reading(url: str) -> AsyncIterator[asyncio.StreamReader]:
    """A client that takes nothing of its answer yet."""
    address = httpx.URL(url)
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=1024)
    writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    try:
        yield reader
    finally:
        writer.close()


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_answers_that_a_caller_does_not_take_have_a_bound(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(bodies, "MAX_UNSENT", LARGE)
    async with answering(kind) as (url, bounded), not_reading(url) as slow:
        await wait_until(lambda: bounded.unsent.by_all == LARGE)
        refused = await post(url, "")
        if kind == "application/json":
            assert refused.status_code == 429
            assert "do not take the large answers that wait for them" in refused.json()["error"]["message"]
        else:
            assert (refused.status_code, refused.content) == (200, b"")
        assert (await post(url.replace("/mcp", "/small"), "")).content == b"a" * 10
        taken = await slow.read()  # all of it, however late
        assert taken.count(b"a" * 1024) == LARGE // 1024
        await wait_until(lambda: bounded.unsent.by_caller == {})
        assert len((await post(url, "")).content) == LARGE


def test_whoever_has_none_may_have_one_large_answer() -> None:
    held = unsent.ByteQuota(10, 15)
    assert held.hold("a", 20, first=True)
    assert held.hold("b", 3, first=True)
    assert not held.hold("b", 3, first=True)
    assert not held.hold("c", 3)
    held.release("a", 20)
    assert held.hold("b", 3, first=True)
    assert (held.by_caller, held.by_all) == ({"b": 6}, 6)
