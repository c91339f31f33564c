"""Runs that wait on one instance and go on on another, through a Redis that both share."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, SupportsFloat, TypeVar

import pytest
from fastmcp import Client
from fastmcp.client.transports import PythonStdioTransport
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.utilities.tests import asgi_server
from key_value.aio.stores.redis import RedisStore
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, InputRequiredResult
from mcp_types import ElicitResult as Said

from codecall.approvals import handover, rounds
from codecall.resume.store import COLLECTION
from tests.approvals.conftest import ALL, DENY, ONCE, SEVERAL, Office, Person, Raw, filled_in
from tests.loaded_python import LoadedPython
from tests.redis_server import RedisServer
from tests.server.test_disconnect import serving

pytestmark = pytest.mark.anyio

T = TypeVar("T")

KEY = "a key that all instances have, of 32 characters and more"
MODERN = "2026-07-28"
FORM = {"type": "object", "properties": {"decision": {"type": "string"}}, "required": ["decision"]}
SCRIPT = {
    "script": """
const letter = await callTool('read', {number: 3});
const [first, second] = await Promise.all([
  callTool('send', {to: letter}),
  callTool('read', {number: 4}).then(number => callTool('wipe', {path: number})),
]);
return [first, second, await callTool('read', {number: 5})];
"""
}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    server = RedisServer(Path(tmp_path_factory.mktemp("redis")))
    server.start()
    yield server
    server.stop()


class Faulty(RedisStore):
    """A store whose writes can be made to fail: before they take effect, or after."""

    def __init__(self, redis: RedisServer) -> None:
        super().__init__(url=redis.url)
        self.fails: Callable[[str], bool] = lambda _: False
        """Whether a write of this collection fails."""
        self.fails_late = False
        self.deletes = asyncio.Event()
        """Set once something is deleted, which then waits for `may_delete`."""
        self.may_delete = asyncio.Event()
        self.may_delete.set()
        self.written: list[tuple[str, str, float]] = []
        """The collections, keys and lifetimes of what was put."""

    async def _write(self, collection: str | None, write: Callable[[], Awaitable[T]]) -> T:
        fails = self.fails(str(collection))
        if fails and not self.fails_late:
            raise ConnectionError
        done = await write()
        if fails:
            raise ConnectionError
        return done

    async def put(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: str, value: Mapping[str, Any], *, collection: str | None = None, ttl: SupportsFloat | None = None
    ) -> None:
        self.written.append((str(collection), key, float(ttl or 0)))
        put = super().put
        await self._write(collection, lambda: put(key=key, value=value, collection=collection, ttl=ttl))

    async def delete(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: str, *, collection: str | None = None
    ) -> bool:
        delete = super().delete
        self.deletes.set()
        await self.may_delete.wait()
        return await self._write(collection, lambda: delete(key=key, collection=collection))


class Pair:
    """Two instances, and a client of each."""

    def __init__(self, offices: list[Office], clients: list[Raw], stores: list[Faulty]) -> None:
        self.one, self.two = offices
        self.at_one, self.at_two = clients
        self.store_of_one, self.store_of_two = stores

    @property
    def done(self) -> list[str]:
        """What all calls have done, of the first instance first."""
        return [*self.one.done, *self.two.done]


@asynccontextmanager
async def pair(
    redis: RedisServer, approvals: Any = "writes", resume: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[Pair]:
    async with AsyncExitStack() as stack:
        offices: list[Office] = []
        clients: list[Raw] = []
        stores: list[Faulty] = []
        for _ in range(2):
            store = Faulty(redis)
            stack.push_async_callback(store.close)
            verifier = StaticTokenVerifier(tokens={"ann": {"client_id": "ann", "sub": "ann", "scopes": []}})
            recorded = {"store": store} | (resume or {})
            office = Office(approvals, auth=verifier, state_key=KEY, resume=recorded, **options)
            served = await stack.enter_async_context(asgi_server(office.server))
            handler = Person(ONCE).answer
            client = await stack.enter_async_context(
                served.client(auth="ann", mode=MODERN, elicitation_handler=handler)
            )
            offices.append(office)
            clients.append(Raw(client))
            stores.append(store)
        yield Pair(offices, clients, stores)


async def test_the_run_goes_on_elsewhere_and_repeats_no_call(redis: RedisServer) -> None:
    async with pair(redis) as both:
        asked = await both.at_one.ask(SCRIPT)
        assert len(asked.input_requests) == 2  # all branches wait
        assert both.one.done == ["read 3", "read 4"]
        answer = await both.at_two.go_on(asked, SCRIPT, ONCE, ONCE)
        assert answer["result"] == ["sent to letter 3", "wiped letter 4", "letter 5"]
        assert sorted(both.two.done) == ["read 5", "send letter 3", "wipe letter 4"]
        assert [call["toolName"] for call in answer["resumed"]["calls"]] == ["read", "read"]
        assert "no such call of yours" in await both.at_one.go_on(asked, SCRIPT, ONCE, ONCE)
        assert both.one.done == ["read 3", "read 4"]


async def test_the_run_goes_on_to_and_fro(redis: RedisServer) -> None:
    script = {"script": "for (const to of ['a', 'b', 'c', 'd']) await callTool('send', {to}); return 'sent'"}
    async with pair(redis) as both:
        asked = await both.at_one.ask(script)
        for client in (both.at_two, both.at_two, both.at_one):
            asked = await client.go_on(asked, script, ONCE)
        assert (await both.at_two.go_on(asked, script, ONCE))["result"] == "sent"
        assert sorted(both.done) == ["send a", "send b", "send c", "send d"]


async def test_where_it_waits_and_elsewhere_at_once_one_goes_on(redis: RedisServer) -> None:
    async with pair(redis) as both:
        asked = await both.at_one.ask(SCRIPT)
        answers = await asyncio.gather(
            *(client.go_on(asked, SCRIPT, ONCE, ONCE) for client in (both.at_one, both.at_two) for _ in range(3))
        )
        assert sum(isinstance(answer, dict) for answer in answers) == 1
        assert len([text for text in both.done if text.startswith("send")]) == 1


async def test_what_was_denied_or_allowed_in_advance_is_not_asked_for_again(redis: RedisServer) -> None:
    script = {
        "script": """
          const codes = [];
          for (const path of ['/a', '/b']) {
            try { await callTool('wipe', {path}) } catch (error) { codes.push(error.code) }
          }
          for (let i = 0; i < 3; i++) await callTool('send', {to: `${i}`});
          await callTool('wipe', {path: '/c'});
          return [codes, await callTool('send', {to: 'last'})];"""
    }
    async with pair(redis) as both:
        asked = await both.at_one.ask(script)
        for _ in range(2):
            asked = await both.at_one.go_on(asked, script, DENY)
        asked = await both.at_one.go_on(asked, script, (SEVERAL, 4))
        assert both.one.done == ["send 0", "send 1", "send 2"]
        answer = await both.at_two.go_on(asked, script, ONCE)
        assert answer["result"] == [["APPROVAL_DENIED", "APPROVAL_DENIED"], "sent to last"]
        assert both.two.done == ["wipe /c", "send last"]


async def test_the_question_ahead_moves_too(redis: RedisServer) -> None:
    script: dict[str, Any] = {
        "script": "await callTool('send', {to: 'a'}); return callTool('wipe', {path: codecallContext.path})",
        "context": {"path": "/a"},
    }
    async with pair(redis, {"rules": "writes", "ask_first": True}) as both:
        asked = await both.at_one.ask(script)
        again = await both.at_two.go_on(asked, script, (ALL, {"calls-1": 1, "calls-2": 0}))
        assert both.done == ["send a"]
        assert (await both.at_one.go_on(again, script, ONCE))["result"] == "wiped /a"
        assert both.one.done == ["wipe /a"]


@pytest.mark.parametrize(
    ("script", "made", "expected"),
    [
        # Another call than before, which is not made.
        ("await callTool('read', {number: N}); return callTool('send', {to: 'ann'})", "read", ["read"]),
        # A call is left out.
        ("if (N === 1) await callTool('read', {number: 9}); return callTool('send', {to: 'ann'})", None, ["read"]),
        # It waits for something else.
        ("return callTool(N === 1 ? 'send' : 'wipe', N === 1 ? {to: 'ann'} : {path: '/'})", "wipe", []),
    ],
)
async def test_a_script_that_takes_another_path_stops_with_the_difference(
    redis: RedisServer, script: str, made: str | None, expected: list[str]
) -> None:
    ask = {"script": f"let N = 2; try {{ await callTool('look', {{}}) }} catch (error) {{ N = 1 }}\n{script}"}
    async with pair(redis) as both:

        def broken() -> str:
            """Look."""
            raise LookupError

        def works() -> str:
            """Look."""
            return "seen"

        # A call that failed is made again.
        both.one.server.tool(broken, name="look", annotations={"readOnlyHint": True})
        both.two.server.tool(works, name="look", annotations={"readOnlyHint": True})
        asked = await both.at_one.ask(ask)
        before = list(both.done)
        error = (await both.at_two.go_on(asked, ask, ONCE))["error"]
        assert error["code"] == "RUN_DIVERGED"
        details = error["details"]
        assert (details["made"] and details["made"]["name"], details["expected"]) == (made, expected)
        assert both.done == before


async def test_a_composite_tool_moves_with_what_it_was_told(redis: RedisServer) -> None:
    ask = {"type": "elicitation", "schema": FORM}
    flow = {
        "name": "flow",
        "description": "Ask and send",
        "steps": [
            {"id": "who", **ask, "message": "To whom?"},
            {"id": "no", **ask, "message": "Shall it end?", "onDecline": "continue"},
            {
                "id": "send",
                "tool": "send",
                "arguments": {"to": "{{.steps.who.output.content.decision}} {{.workflow.id}} {{.workflow.start}}"},
                "dependsOn": ["who", "no"],
            },
            {"id": "path", **ask, "message": "Which?", "dependsOn": ["send"]},
            {
                "id": "wipe",
                "tool": "wipe",
                "arguments": {
                    "path": "{{.steps.path.output.content.decision}} {{.steps.no.output.action}} {{.workflow.id}}"
                },
                "dependsOn": ["path"],
            },
        ],
    }
    async with pair(redis, composite_tools=[flow]) as both:
        one, two = (Raw(at.client, "flow") for at in (both.at_one, both.at_two))
        asked = await one.ask({})
        answers = dict(
            zip(
                asked.input_requests,
                (Said(action="accept", content=filled_in("ann")), Said(action="decline")),
                strict=True,
            )
        )
        asked = await one.ask({}, input_responses=answers, request_state=asked.request_state)
        asked = await two.go_on(asked, {}, ONCE)
        asked = await one.go_on(asked, {}, "/a")
        answer = await two.go_on(asked, {}, ONCE)
        sent, wiped = both.two.done
        run_id = wiped.split()[-1]
        assert (sent.split()[:3], wiped) == (["send", "ann", run_id], f"wipe /a decline {run_id}")
        assert answer == {"result": f"wiped /a decline {run_id}"}
        assert both.one.done == []


async def test_a_composite_tool_has_no_more_time_elsewhere_than_it_had_left(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = {"id": "who", "type": "elicitation", "schema": FORM, "message": "To whom?", "dependsOn": ["letter"]}
    steps = [
        {"id": "letter", "tool": "read_slowly", "timeout": "1h"},
        ask,
        {"id": "work", "tool": "work", "timeout": "1h", "dependsOn": ["who"]},
    ]
    flow = {"name": "flow", "description": "Ask and work", "timeout": "1h", "steps": steps}
    async with pair(redis, composite_tools=[flow]) as both:
        loop, read, passed = asyncio.get_running_loop(), both.one.read, 0.0
        time = loop.time

        def slow_read(number: int = 1) -> str:
            nonlocal passed
            passed += 3_000
            return read(number)

        async def work() -> str:
            nonlocal passed
            passed += 1_000
            for _ in range(10):  # until timers have run out
                await asyncio.sleep(0)
            return "done"

        both.one.server.tool(slow_read, name="read_slowly", annotations={"readOnlyHint": True})
        both.two.server.tool(read, name="read_slowly", annotations={"readOnlyHint": True})
        for office in (both.one, both.two):
            office.server.tool(work, annotations={"readOnlyHint": True})
        one, two = (Raw(at.client, "flow") for at in (both.at_one, both.at_two))
        monkeypatch.setattr(loop, "time", lambda: time() + passed)
        answer = await two.go_on(await one.ask({}), {}, "ann")
    assert (answer["code"], passed) == ("TIMEOUT", 4_000), answer


async def test_a_store_that_fails_lets_nobody_go_on_twice(redis: RedisServer) -> None:
    async with pair(redis) as both:
        asked = await both.at_one.ask(SCRIPT)
        redis.freeze()
        try:
            for client in (both.at_one, both.at_two):
                assert "does not answer" in await client.go_on(asked, SCRIPT, ONCE, ONCE)
        finally:
            redis.thaw()
        assert (await both.at_one.go_on(asked, SCRIPT, ONCE, ONCE))["status"] == "ok"


@pytest.mark.parametrize("gone", ["", ".0.3"])
async def test_a_run_whose_record_is_not_all_there_makes_no_call_elsewhere(redis: RedisServer, gone: str) -> None:
    async with pair(redis) as both:
        asked = await both.at_one.ask(SCRIPT)
        run_id = both.store_of_one.written[0][1]
        assert await both.store_of_one.delete(f"{run_id}{gone}", collection=COLLECTION)
        assert "is incomplete" in await both.at_two.go_on(asked, SCRIPT, ONCE, ONCE)
        assert both.two.done == []


@pytest.mark.parametrize("missing", ["failed", "quota", "lost"])
async def test_a_run_that_is_not_recorded_waits_in_place(redis: RedisServer, missing: str) -> None:
    few: dict[str, Any] = {"max_caller_chars": 1_024, "max_run_chars": 1_024, "max_value_chars": 1_024}
    resume = {"quota": few, "lost": {"max_run_chars": 1}}.get(missing)
    async with pair(redis, {"rules": "writes", "release_s": 0.01}, resume) as both:
        both.store_of_one.fails = lambda collection: missing == "failed" and collection == COLLECTION
        if missing == "quota":
            await both.at_one.ask({"script": "return callTool('read', {})"})
            both.one.done.clear()
        asked = await both.at_one.ask(SCRIPT)
        assert "no such call of yours" in await both.at_two.go_on(asked, SCRIPT, ONCE, ONCE)
        assert (await both.at_one.go_on(asked, SCRIPT, ONCE, ONCE))["status"] == "ok"
        assert (len(both.one.done), both.two.done) == (5, [])


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("number", range(1, 6))
async def test_whatever_write_fails_no_call_is_made_twice(redis: RedisServer, number: int, is_late: bool) -> None:
    async with pair(redis) as both:
        writes: list[str] = []

        def fails(collection: str) -> bool:
            writes.append(collection)
            return len(writes) == number

        for store in (both.store_of_one, both.store_of_two):
            store.fails, store.fails_late = fails, is_late
        asked = await both.at_one.ask(SCRIPT)
        answers = [await client.go_on(asked, SCRIPT, ONCE, ONCE) for client in (both.at_two, both.at_one, both.at_two)]
        assert sum(isinstance(answer, dict) and answer["status"] == "ok" for answer in answers) <= 1
        assert len(both.done) == len(set(both.done)), (writes, answers)
        assert len(writes) >= number


async def test_the_record_of_a_run_lasts_for_as_long_as_its_questions(redis: RedisServer) -> None:
    async with pair(redis, {"rules": "writes", "wait_s": 7_200}, {"ttl_s": 1}) as both:
        asked = await both.at_one.ask(SCRIPT)
        approvals = both.one.plugin._now.runtime.approvals
        assert approvals is not None
        await approvals.rounds.flush()  # its server ends
        assert min(ttl for collection, _, ttl in both.store_of_one.written if collection == COLLECTION) > 7_200
        assert (await both.at_two.go_on(asked, SCRIPT, ONCE, ONCE))["status"] == "ok"


ORDER: dict[str, Any] = {
    "name": "order",
    "description": "Ask, and read what follows",
    "steps": [
        {
            "id": "ask",
            "type": "elicitation",
            "schema": FORM,
            "message": "Ship it?",
            "timeout": "10m",
            "onError": {"action": "continue"},
            "defaultResults": {"action": "none"},
        },
        *(
            {
                "id": name,
                "tool": "read",
                "arguments": {"number": number},
                "condition": f'{{{{{test} .steps.ask.output.action "accept"}}}}',
                "dependsOn": ["ask"],
                "defaultResults": {},
            }
            for name, number, test in (("ship", 1, "eq"), ("refund", 2, "ne"))
        ),
    ],
}
"""What is shipped if a person says so in time, and else refunded."""


class Clocks:
    """The time of the event loop, and of the entries of runs that wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._passed = 0.0
        loop = asyncio.get_running_loop()
        monotonic, wall = loop.time, time.time
        monkeypatch.setattr(loop, "time", lambda: monotonic() + self._passed)
        monkeypatch.setattr(handover, "now", lambda: wall() + self._passed)
        monkeypatch.setattr(handover, "LOOK_S", 1e9)

    def advance(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self._passed += seconds


def waiting_call(office: Office) -> rounds.WaitingCall:
    approvals = office.plugin._now.runtime.approvals
    assert approvals is not None
    (call,) = approvals.rounds._waiting.values()
    return call


async def test_of_an_answer_and_the_end_of_its_time_one_goes_on(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(redis, composite_tools=[ORDER]) as both:
        one, two = (Raw(at.client, "order") for at in (both.at_one, both.at_two))
        clocks = Clocks(monkeypatch)
        asked = await one.ask({})
        await two.go_on(asked, {}, "yes")
        call = waiting_call(both.one)
        clocks.advance(600)
        await asyncio.wait({call.task})
        assert (both.one.done, both.two.done, call.task.cancelled()) == ([], ["read 1"], True)
        assert "no such call of yours" in await one.go_on(asked, {}, "yes")


@pytest.mark.parametrize("has_ended", [False, True])
async def test_an_answer_after_the_time_of_its_question_counts_nowhere(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    async with pair(redis, composite_tools=[ORDER]) as both:
        one, two = (Raw(at.client, "order") for at in (both.at_one, both.at_two))
        clocks = Clocks(monkeypatch)
        asked = await one.ask({})
        call = waiting_call(both.one)
        if has_ended:
            approvals = both.one.plugin._now.runtime.approvals
            assert approvals is not None
            await approvals.rounds.flush()
        clocks.advance(600)
        await asyncio.wait({call.task})
        assert "no such call of yours" in await two.go_on(asked, {}, "yes")
        assert (both.one.done, both.two.done) == ([] if has_ended else ["read 2"], [])
        if not has_ended:
            assert await one.go_on(asked, {}, "yes") == {"result": "letter 2"}
            assert both.done == ["read 2"]


async def test_a_question_has_no_more_time_elsewhere_than_it_had_left(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(redis, composite_tools=[ORDER]) as both:
        one, two = (Raw(at.client, "order") for at in (both.at_one, both.at_two))
        clocks = Clocks(monkeypatch)
        asked = await one.ask({})
        clocks.advance(500)
        asked = await two.go_on(asked, {})
        call = waiting_call(both.two)
        clocks.advance(200)
        await asyncio.wait({call.task})
        assert both.two.done == ["read 2"]
        assert "no such call of yours" in await one.go_on(asked, {}, "yes")


async def test_an_answer_at_the_very_end_of_its_time_lets_the_run_go_on_once(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "REQUEST_TIMEOUT_S", 1e9)
    async with pair(redis, composite_tools=[ORDER]) as both:
        one = Raw(both.at_one.client, "order")
        clocks = Clocks(monkeypatch)
        asked = await one.ask({})
        both.store_of_one.deletes, may_delete = asyncio.Event(), both.store_of_one.may_delete
        may_delete.clear()
        answer = asyncio.create_task(one.go_on(asked, {}, "yes"))
        await both.store_of_one.deletes.wait()
        clocks.advance(600)
        for _ in range(10):  # until timers have run out
            await asyncio.sleep(0)
        assert both.done == []
        may_delete.set()
        assert await answer == {"result": "letter 2"}
        assert both.done == ["read 2"]


@pytest.mark.parametrize("fails_late", [False, True])
async def test_a_run_whose_question_ends_while_the_store_fails_does_not_go_on(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch, fails_late: bool
) -> None:
    async with pair(redis, composite_tools=[ORDER]) as both:
        one, two = (Raw(at.client, "order") for at in (both.at_one, both.at_two))
        clocks = Clocks(monkeypatch)
        asked = await one.ask({})
        call = waiting_call(both.one)
        both.store_of_one.fails, both.store_of_one.fails_late = lambda _: True, fails_late
        clocks.advance(600)
        await asyncio.wait({call.task})
        for client in (one, two):
            assert "no such call of yours" in await client.go_on(asked, {}, "yes")
        assert both.done == []


async def test_a_request_that_is_cancelled_while_it_claims_its_run_leaves_it_to_the_next(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(redis) as both:
        asked = await both.at_one.ask(SCRIPT)
        store = both.store_of_one
        monkeypatch.setattr(handover, "LOOK_S", 0.001)
        store.deletes = asyncio.Event()
        store.may_delete.clear()
        answer = asyncio.create_task(both.at_one.go_on(asked, SCRIPT, ONCE, ONCE))
        await store.deletes.wait()
        answer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answer
        store.may_delete.set()
        assert "no such call of yours" in await both.at_two.go_on(asked, SCRIPT, ONCE, ONCE)
        assert (await both.at_one.go_on(asked, SCRIPT, ONCE, ONCE))["status"] == "ok"
        assert (len(both.one.done), both.two.done) == (5, [])


async def test_an_instance_lets_go_of_a_run_that_another_goes_on_with(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "LOOK_S", 0.05)
    async with pair(redis) as both:
        approvals = both.one.plugin._now.runtime.approvals
        assert approvals is not None
        asked = await both.at_one.ask(SCRIPT)
        (waiting,) = approvals.rounds._waiting.values()
        assert (await both.at_two.go_on(asked, SCRIPT, ONCE, ONCE))["status"] == "ok"
        with pytest.raises(asyncio.CancelledError):
            await waiting.task
        assert len(approvals.rounds) == 0


async def test_a_state_of_another_caller_or_of_other_arguments_is_not_used_up(redis: RedisServer) -> None:
    async with pair(redis) as both:
        asked = await both.at_one.ask(SCRIPT)
        with pytest.raises(MCPError, match="requestState"):
            await both.at_two.go_on(asked, {"script": "return 1"}, ONCE)
        assert (await both.at_two.go_on(asked, SCRIPT, ONCE, ONCE))["status"] == "ok"


async def test_a_session_of_the_sdk_goes_on_elsewhere(redis: RedisServer) -> None:
    offices = [Office(state_key=KEY, resume={"store": RedisStore(url=redis.url)}) for _ in range(2)]
    async with AsyncExitStack() as stack:
        sessions: list[ClientSession] = []
        for office in offices:
            _, _, url = await stack.enter_async_context(serving(office.server.http_app()))
            ends = await stack.enter_async_context(streamable_http_client(url))
            session = ClientSession(*ends, elicitation_callback=_not_called)
            sessions.append(await stack.enter_async_context(session))
            await session.discover()
        asked = await sessions[0].call_tool("codecall:execute", SCRIPT, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        said = ElicitResult(action="accept", content={"decision": ONCE})
        answer: Any = await sessions[1].call_tool(
            "codecall:execute",
            SCRIPT,
            input_responses=dict.fromkeys(asked.input_requests or {}, said),
            request_state=asked.request_state,
            allow_input_required=True,
        )
    assert answer.structured_content["result"] == ["sent to letter 3", "wiped letter 4", "letter 5"]
    assert [len(office.done) for office in offices] == [2, 3]


async def _not_called(context: Any, params: Any) -> ElicitResult:
    raise AssertionError((context, params))


SERVER = """
import os
from pathlib import Path
from fastmcp import FastMCP
from key_value.aio.stores.redis import RedisStore
from mcp.server.request_state import RequestStateSecurity
from codecall import CodeCallPlugin

mcp = FastMCP("office", request_state_security=RequestStateSecurity(keys=[os.environ["STATE_KEY"]]))

@mcp.tool
def send(to: str) -> int:
    with (Path(__file__).parent / "sent").open("a") as file:
        file.write(to + " ")
    return os.getpid()

CodeCallPlugin.init(
    approvals="writes", resume={"store": RedisStore(url=os.environ["REDIS_URL"])}, pool={"min_workers": 0}
).install(mcp)
mcp.run(show_banner=False)
"""


async def test_the_run_of_a_process_that_was_killed_goes_on_in_another_over_stdio(
    redis: RedisServer, loaded_python: LoadedPython, tmp_path: Path
) -> None:
    program = tmp_path / "server.py"
    program.write_text(SERVER, encoding="utf-8")
    environment = {**os.environ, "REDIS_URL": redis.url, "STATE_KEY": KEY}
    script = {"script": "const pids = []; for (const to of ['a', 'b', 'c']) pids.push(await callTool('send', {to}));"}
    script["script"] += "return pids"

    def transport() -> PythonStdioTransport:
        return PythonStdioTransport(program, python_cmd=loaded_python.executable, keep_alive=False, env=environment)

    handler = Person(ONCE).answer
    async with Client(transport(), mode=MODERN, elicitation_handler=handler) as client:
        first = Raw(client)
        asked = await first.ask(script)
        asked = await first.go_on(asked, script, ONCE)
        pid = (await client.call_tool("send", {"to": "x"})).data
        os.kill(pid, signal.SIGKILL)
    async with Client(transport(), mode=MODERN, elicitation_handler=handler) as client:
        second = Raw(client)
        asked = await second.go_on(asked, script, ONCE)
        answer = await second.go_on(asked, script, ONCE)
    assert (tmp_path / "sent").read_text().split() == ["a", "x", "b", "c"]
    assert answer["result"][0] == pid
    assert pid not in answer["result"][1:]
