"""Runs that wait lend the places of their workers, and never more of them than there are slots for runs that wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.utilities.tests import asgi_server
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

from codecall import CodeCallPlugin, ExtractionRequest
from codecall.quota import RunSlots
from codecall.sandbox.clock import RunClock
from tests.approvals.conftest import run
from tests.loop_time import LoopTime

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.anyio

WORKERS = 2
TOKENS: dict[str, dict[str, Any]] = {name: {"client_id": name, "sub": name, "scopes": []} for name in ("ann", "ben")}
ASKS = "return await ask({})"


class Office:
    """A server whose tools ask their client, and the client, which answers once it may."""

    def __init__(self, *, auth: bool = False, max_waiting: int = 3, **options: Any) -> None:
        self.server = FastMCP[Any]("office", auth=StaticTokenVerifier(tokens=TOKENS) if auth else None)
        self.server.tool(self.ask)
        self.server.tool(self.think)
        self.server.tool(self.folders)
        self.server.tool(self.outer)
        defaults: dict[str, Any] = {
            "vm": {"preset": "secure", "tool_call_timeout_ms": 30_000},
            "pool": {"min_workers": 0, "max_workers": WORKERS, "queue_timeout_ms": 600_000},
            "approvals": {"rules": [], "max_waiting": max_waiting},
        }
        self.plugin = CodeCallPlugin.init(**defaults | options)
        self.plugin.install(self.server)
        self.open = 0
        """Questions that wait for an answer."""
        self.may_answer = asyncio.Event()

    async def ask(self, ctx: Context) -> str:
        """Ask a person."""
        answer = await ctx.elicit("Who?", str)
        return str(answer.data)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

    async def think(self, ctx: Context) -> str:
        """Ask a model."""
        message = SamplingMessage(role="user", content=TextContent(type="text", text="Who?"))
        request = CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=9))
        return (await ctx.session.send_request(request, CreateMessageResult)).role

    async def folders(self, ctx: Context) -> int:
        """Ask for the folders."""
        return len((await ctx.session.send_request(ListRootsRequest(), ListRootsResult)).roots)

    async def outer(self, ctx: Context) -> Any:
        """Run a script that asks."""
        return (await ctx.fastmcp.call_tool("codecall:execute", {"script": ASKS})).structured_content

    async def answer(self, *_: Any) -> None:
        """Answer a question, once the client may."""
        self.open += 1
        try:
            await self.may_answer.wait()
        finally:
            self.open -= 1

    async def elicited(self, _message: str, _type: Any, params: Any, _context: Any) -> Any:
        """FastMCP's `elicitation_handler`."""
        await self.answer()
        return ElicitResult(action="accept", content=dict.fromkeys(params.requested_schema["properties"], "Ann"))

    async def sampled(self, *_: Any) -> str:
        """FastMCP's `sampling_handler`."""
        await self.answer()
        return "Ann"

    async def rooted(self, *_: Any) -> list[Any]:
        """FastMCP's `roots`."""
        await self.answer()
        return []

    @property
    def handlers(self) -> dict[str, Any]:
        """What a client of the handshake era answers with."""
        handlers = {"elicitation_handler": self.elicited, "sampling_handler": self.sampled, "roots": self.rooted}
        return handlers | {"mode": "legacy"}

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client[Any]]:
        """A client in this process."""
        async with Client(self.server, **self.handlers) as client:
            yield client

    @property
    def pool(self) -> Any:
        """The pool of its workers."""
        (pool,) = self._pools()
        return pool

    def _pools(self) -> Any:
        return self.plugin._lifetime.pools()  # pyright: ignore[reportPrivateUsage]

    async def wait_or_queue(self, *runs: asyncio.Task[Any], questions: int = 1) -> None:
        """Return once each of these runs waits for answers to so many questions, or for a worker."""
        while not self._pools() or self.open + questions * self.pool.waiting < questions * len(runs):
            await asyncio.sleep(0)
            assert [each.result() for each in runs if each.done()] == []


@pytest.mark.parametrize("tool", ["ask", "think", "folders"])
async def test_a_tool_that_asks_starts_no_more_workers_than_there_are_slots(tool: str) -> None:
    office = Office()
    async with office.client() as client:
        runs = [asyncio.create_task(run(client, f"return await {tool}({{}})")) for _ in range(8)]
        await office.wait_or_queue(*runs)
        assert (office.open, len(office.plugin.worker_pids)) == (WORKERS + 3, WORKERS + 3)
        office.may_answer.set()
        assert [answer["status"] for answer in await asyncio.gather(*runs)] == ["ok"] * 8
        assert office.pool.limit == WORKERS
        assert len(office.plugin.worker_pids) <= WORKERS


async def test_questions_side_by_side_take_one_slot() -> None:
    office = Office(max_waiting=2)
    async with office.client() as client:
        both = "return await Promise.all([ask({}), ask({})])"
        runs = [asyncio.create_task(run(client, both)) for _ in range(2)]
        await office.wait_or_queue(*runs, questions=2)
        assert office.pool.limit == WORKERS + 2
        assert (await run(client, "return 1"))["result"] == 1
        office.may_answer.set()
        assert [answer["result"] for answer in await asyncio.gather(*runs)] == [["Ann", "Ann"]] * 2
        assert office.pool.limit == WORKERS


@pytest.mark.parametrize("max_waiting", [1, 2])
async def test_a_script_within_another_lends_its_place_in_a_slot_of_its_own(max_waiting: int, time: LoopTime) -> None:
    office = Office(max_waiting=max_waiting)
    async with office.client() as client:
        running = asyncio.create_task(run(client, "return await outer({})"))
        await office.wait_or_queue(running)
        # Where there are too few, none is lent, and the time of the calls goes on.
        assert office.pool.limit == WORKERS + (2 if max_waiting == 2 else 0)
        await time.jump(31)
        office.may_answer.set()
        answer = await running
        assert answer["status"] == ("ok" if max_waiting == 2 else "tool_error")
        assert office.pool.limit == WORKERS


async def test_one_caller_leaves_slots_and_workers_to_others(time: LoopTime) -> None:
    office = Office(auth=True, max_waiting=4)
    async with (
        asgi_server(office.server) as served,
        served.client(auth="ann", **office.handlers) as ann,
        served.client(auth="ben") as ben,
    ):
        runs = [asyncio.create_task(run(ann, ASKS)) for _ in range(5)]
        await office.wait_or_queue(*runs)
        assert (office.open, len(office.plugin.worker_pids)) == (WORKERS + 2, WORKERS + 2)
        other = asyncio.create_task(run(ben, "return 1"))
        while office.pool.waiting < 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        await time.jump(31)  # what has a slot waits on, the rest is as slow tools are
        assert (await other)["result"] == 1
        while sum(each.done() for each in runs) < 2:  # noqa: ASYNC110 - their answers come when they come
            await asyncio.sleep(0)
        await office.wait_or_queue(*(each for each in runs if not each.done()))
        office.may_answer.set()
        ended = Counter(answer["status"] for answer in await asyncio.gather(*runs))
    assert ended == {"ok": 3, "tool_error": 2}


@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize("end", ["cancel", "disconnect"])
async def test_a_slot_is_free_again_when_its_run_ends(end: str, *, over_http: bool) -> None:
    office = Office(auth=over_http, max_waiting=1)
    async with asgi_server(office.server) as served:

        def connect() -> Any:
            return served.client(auth="ann", **office.handlers) if over_http else office.client()

        async with connect() as staying:
            for _ in range(2):
                async with connect() as client:
                    running = asyncio.create_task(run(client, ASKS))
                    await office.wait_or_queue(running)
                    assert office.pool.limit == WORKERS + 1
                    if end == "cancel":
                        running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                while office.open or office.pool.limit > WORKERS:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0)
                assert (await run(staying, "return 1"))["result"] == 1


async def test_an_extractor_of_the_server_keeps_the_place_of_its_run() -> None:
    office: Office

    async def extractor(_: ExtractionRequest) -> object:
        await office.answer()
        return 7

    office = Office(extract={"extractor": extractor})
    async with office.client() as client:
        runs = [asyncio.create_task(run(client, "return await extract('7', 'number')")) for _ in range(5)]
        await office.wait_or_queue(*runs)
        assert (office.open, len(office.plugin.worker_pids)) == (WORKERS, WORKERS)
        office.may_answer.set()
        assert [answer["result"] for answer in await asyncio.gather(*runs)] == [7] * 5


@given(
    size=st.integers(1, 4),
    steps=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["waits", "stopped", "asks", "ends"])), max_size=60),
)
async def test_whatever_runs_do_a_place_is_lent_in_a_slot(size: int, steps: list[tuple[int, str]]) -> None:
    slots, lent = RunSlots(size), Counter[int]()
    clocks: list[RunClock] = []
    for number in range(6):
        clock = RunClock(partial(slots.hold, str(number), "ann", alone=True))
        clock.lend = partial(_count, lent, number)
        clocks.append(clock)
    opened: list[list[AbstractContextManager[Any]]] = [[] for _ in clocks]
    for number, step in steps:
        if step == "ends":
            if opened[number]:
                opened[number].pop(0).__exit__(None, None, None)
        else:
            clock = clocks[number]
            context = {"waits": clock.waiting, "stopped": clock.stopped, "asks": clock.slot}[step]()
            context.__enter__()
            opened[number].append(context)
        assert set(lent.values()) <= {0, 1}
        assert sum(lent.values()) <= size
        assert all(opened[number] for number, places in lent.items() if places)
    for contexts in opened:
        for context in contexts:
            context.__exit__(None, None, None)
    assert sum(lent.values()) == 0
    for number in range(size):
        slot = slots.hold(f"new {number}", "ann", alone=True)
        assert slot.__enter__() == ""
        opened[0].append(slot)


def _count(lent: Counter[int], number: int, change: int) -> None:
    lent[number] += change


async def test_a_run_without_slots_lends_nothing() -> None:
    clock, lent = RunClock(), Counter[int]()
    clock.lend = partial(_count, lent, 0)
    with clock.waiting():
        assert not lent


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> LoopTime:
    return LoopTime(monkeypatch)
