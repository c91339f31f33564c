"""Approvals on connections of 2026-07-28: the request is answered with questions, and made again with their answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastmcp import Client, Context
from fastmcp.utilities.types import Image
from key_value.aio.stores.memory import MemoryStore
from mcp import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ToolAnnotations

from codecall import AuditEvent
from codecall.errors import OptionsError
from tests.approvals.conftest import DENY, ONCE, SAME_IN_RUN, SEVERAL, STOP, Office, Person, Raw, run
from tests.server.test_disconnect import serving

pytestmark = pytest.mark.anyio

MODERN = "2026-07-28"
SEND = {"script": "return callTool('send', {to: 'ann'})"}


async def test_a_call_is_asked_for_and_the_run_goes_on_where_it_stood() -> None:
    office, person = Office(), Person(ONCE, (SEVERAL, 2), DENY)
    script = """
      const letter = await callTool('read', {});
      const sent = await callTool('send', {to: letter});
      await callTool('wipe', {path: '/a'}); await callTool('wipe', {path: '/b'});
      try { await callTool('wipe', {path: '/c'}) } catch (error) { return [sent, error.code] }"""
    answer = await office.execute(script, person, mode=MODERN)
    assert answer["result"] == ["sent to letter 1", "APPROVAL_DENIED"]
    assert office.done == ["read 1", "send letter 1", "wipe /a", "wipe /b"]
    assert len(person.questions) == 3
    assert "Line of the script: 3\n" in person.questions[0]


async def test_invoke_is_asked_for_too() -> None:
    office, person = Office(), Person(ONCE, DENY)
    async with office.client(person, mode=MODERN) as client:
        answers = [
            (await client.call_tool("codecall:invoke", {"tool": "send", "input": {"to": to}})).structured_content
            for to in ("ann", "ben")
        ]
    assert [answer and answer["status"] for answer in answers] == ["ok", "error"]
    assert office.done == ["send ann"]


async def test_questions_that_are_open_together_are_one_list() -> None:
    office = Office()
    script = {"script": "return Promise.allSettled(['ann', 'ben', 'eve'].map(to => callTool('send', {to})))"}
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        asked = await raw.ask(script)
        assert len(asked.input_requests) == 3
        again = await raw.go_on(asked, script, ONCE, DENY)
        assert len(again.input_requests) == 1
        assert "eve" in next(iter(again.input_requests.values())).params.message
        answer = await raw.go_on(again, script, ONCE)
    assert [item["status"] for item in answer["result"]] == ["fulfilled", "rejected", "fulfilled"]
    assert office.done == ["send ann", "send eve"]


async def test_other_calls_go_on_while_a_question_waits() -> None:
    office, looked = Office(), asyncio.Event()

    async def look() -> str:
        """Look."""
        looked.set()
        return "seen"

    office.server.tool(look, annotations={"readOnlyHint": True})
    script = {"script": "return Promise.all([callTool('send', {to: 'ann'}), callTool('look', {})])"}
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        asked = await raw.ask(script)
        await looked.wait()
        assert (await raw.go_on(asked, script, ONCE))["result"] == ["sent to ann", "seen"]


async def test_a_state_holds_nothing_and_works_once_with_the_same_arguments() -> None:
    office = Office()
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        one, two = await raw.ask(SEND), await raw.ask(SEND)
        assert one.request_state != two.request_state
        other = {"script": "return callTool('send', {to: 'mallory'})"}
        for arguments, state in ((SEND, "x" * 43), (other, one.request_state)):
            with pytest.raises(MCPError, match="requestState"):
                await raw.ask(arguments, request_state=state)
        assert (await raw.go_on(one, SEND, ONCE))["status"] == "ok"
        assert "no such call of yours waits" in await raw.go_on(one, SEND, ONCE)
        assert (await raw.go_on(two, SEND, STOP))["error"]["code"] == "APPROVAL_DENIED"
    assert office.done == ["send ann"]


async def test_a_question_that_nobody_answers_ends_the_run() -> None:
    loop, expired = asyncio.get_running_loop(), asyncio.Event()

    def sink(event: AuditEvent) -> None:
        if event.fields.get("decision") == "unanswered":
            loop.call_soon_threadsafe(expired.set)

    office = Office({"rules": "writes", "wait_s": 0.05}, audit={"sinks": [sink]})
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        asked = await raw.ask(SEND)
        await expired.wait()
        answer = await raw.go_on(asked, SEND, ONCE)
    assert answer["error"]["code"] == "APPROVAL_REQUIRED"
    assert office.done == []


async def test_a_client_without_elicitation_is_not_asked() -> None:
    office = Office()
    answer = await office.execute(SEND["script"], mode=MODERN)
    assert answer["error"]["code"] == "APPROVAL_REQUIRED"


async def test_cancelling_a_request_cancels_its_run() -> None:
    office = Office()
    script = {"script": "await callTool('send', {to: 'ann'}); return callTool('hang', {})"}
    hanging, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        """Hang."""
        hanging.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    office.server.tool(hang, annotations={"readOnlyHint": True})
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        running = asyncio.create_task(raw.go_on(await raw.ask(script), script, ONCE))
        await hanging.wait()
        running.cancel()
        await cancelled.wait()


async def test_a_run_that_waits_leaves_its_place_to_others() -> None:
    office = Office(pool={"min_workers": 0, "max_workers": 1, "queue_timeout_ms": 5_000})
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        first, second = await raw.ask(SEND), await raw.ask(SEND)
        assert (await raw.ask({"script": "return 1"}))["result"] == 1
        assert (await raw.go_on(first, SEND, ONCE))["status"] == "ok"
        assert (await raw.go_on(second, SEND, ONCE))["status"] == "ok"
        assert len(office.plugin.worker_pids) == 1
    assert office.done == ["send ann"] * 2


async def test_a_run_that_waits_for_long_gives_up_its_worker_and_goes_on_from_its_record() -> None:
    office = Office({"rules": "writes", "release_s": 0.01}, resume={"store": MemoryStore()}, pool={"min_workers": 0})
    approvals = office.plugin._now.runtime.approvals
    assert approvals is not None
    script = {
        "script": """
          const letter = await callTool('read', {});
          const sent = [];
          for (const to of ['ann', 'ben']) sent.push(await callTool('send', {to}));
          return [letter, ...sent]"""
    }
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        asked = await raw.ask(script)
        for _ in range(2):
            while len(approvals.rounds):  # noqa: ASYNC110 - until a timer has run out
                await asyncio.sleep(0)
            with pytest.raises(MCPError, match="requestState"):
                await raw.go_on(asked, SEND, ONCE)
            asked = await raw.go_on(asked, script, ONCE)
        assert asked["result"] == ["letter 1", "sent to ann", "sent to ben"]
    assert office.done == ["read 1", "send ann", "send ben"]


@pytest.mark.parametrize(
    ("first", "releases"),
    [
        ("const first = await callTool('read', {})", True),
        ("const first = await callTool('fail', {}).catch(() => 'letter 1')", False),  # it would be made again
        ("const first = (await callTool('picture', {}))[0].type && 'letter 1'", False),  # its value is not kept
        ("const first = Date.now() > 0 ? 'letter 1' : ''", False),  # another path may follow
    ],
)
async def test_by_default_a_run_gives_up_its_worker_only_if_it_then_repeats_nothing(
    monkeypatch: pytest.MonkeyPatch, first: str, releases: bool
) -> None:
    office = Office("writes", resume={"store": MemoryStore()}, vm={"preset": "experimental"}, pool={"min_workers": 0})
    approvals = office.plugin._now.runtime.approvals
    assert approvals is not None
    assert approvals.options.release_s == 30.0
    approvals.rounds._release_s = 0.01
    failed: list[int] = []

    @office.server.tool(annotations={"readOnlyHint": True})
    def fail() -> str:
        failed.append(1)
        raise ValueError

    @office.server.tool(annotations={"readOnlyHint": True})
    def picture() -> Image:
        return Image(data=b"png", format="png")

    script = {"script": f"{first}; return [first, await callTool('send', {{to: 'ann'}})]"}
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        asked = await raw.ask(script)
        call = next(iter(approvals.rounds._waiting.values()))
        assert call.channel.may_release is releases
        while releases and len(approvals.rounds):  # noqa: ASYNC110 - until a timer has run out
            await asyncio.sleep(0)
        assert (await raw.go_on(asked, script, ONCE))["result"] == ["letter 1", "sent to ann"]
    assert [text for text in office.done if text.startswith("send")] == ["send ann"]
    assert len(failed) <= 1


async def test_a_run_that_gives_up_its_worker_asks_no_more_questions_than_others() -> None:
    approving = {"rules": "writes", "release_s": 0.01, "max_questions": 3}
    office = Office(approving, resume={"store": MemoryStore()}, pool={"min_workers": 0})
    approvals = office.plugin._now.runtime.approvals
    assert approvals is not None
    script = {
        "script": """
          for (const to of ['a', 'b', 'c', 'd']) await callTool('send', {to});
          return 'sent'"""
    }
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        asked = await raw.ask(script)
        for _ in range(3):
            while len(approvals.rounds):  # noqa: ASYNC110 - until a timer has run out
                await asyncio.sleep(0)
            asked = await raw.go_on(asked, script, ONCE)
    assert "asked 3 questions already" in asked["error"]["message"]
    assert office.done == ["send a", "send b", "send c"]


@pytest.mark.parametrize("released", [False, True], ids=["in place", "released"])
async def test_the_run_ends_with_its_own_answer_before_the_client_gives_up(released: bool) -> None:
    """FastMCP's client gives up after ten rounds of questions."""
    options: dict[str, Any] = {"resume": {"store": MemoryStore()}} if released else {}
    office = Office({"rules": "writes", **({"release_s": 0.01} if released else {})}, **options)
    approvals = office.plugin._now.runtime.approvals
    assert approvals is not None

    class Slow(Person):
        async def answer(self, *asked: Any) -> Any:
            while released and len(approvals.rounds):  # noqa: ASYNC110 - until a timer has run out
                await asyncio.sleep(0)
            return await super().answer(*asked)

    person = Slow(ONCE)
    script = """
      const sent = [];
      try { for (let i = 0; i < 12; i++) sent.push(await callTool('send', {to: 'n' + i})) } catch (error) {}
      return sent"""
    answer = await office.execute(script, person, mode=MODERN)
    assert (len(person.questions), len(office.done)) == (10, 10)
    error = answer["error"]
    assert error["code"] == "APPROVAL_REQUIRED"
    assert "one request asks 10 times at most, since clients give up then" in error["message"]
    assert "side by side" in error["hint"]
    assert "10 tool calls had completed" in error["hint"]
    assert [call["input"] for call in error["details"]["calls"]] == [{"to": "n10"}]
    assert [call["outcome"] for call in answer["calls"]].count("ok") == 10


async def test_questions_asked_together_are_one_round() -> None:
    office, person = Office({"rules": "writes", "max_rounds": 2}), Person(ONCE)
    script = """
      for (const group of [['a', 'b', 'c'], ['d', 'e']]) await Promise.all(group.map(to => callTool('send', {to})));
      return 'sent'"""
    assert (await office.execute(script, person, mode=MODERN))["result"] == "sent"
    assert len(person.questions) == 5


async def test_a_client_that_allows_more_rounds_is_asked_more_often() -> None:
    office, person = Office({"rules": "writes", "max_rounds": 12}), Person(ONCE)
    script = "for (let i = 0; i < 12; i++) await callTool('send', {to: 'n' + i}); return 'sent'"
    async with office.client(person, mode=MODERN, input_required_max_rounds=12) as client:
        assert (await run(client, script))["result"] == "sent"
    assert len(person.questions) == 12


async def test_what_a_request_leaves_unanswered_is_not_asked_for_ever() -> None:
    office = Office({"rules": "writes", "max_rounds": 2})
    script = {"script": "return Promise.all(['a', 'b'].map(to => callTool('send', {to})))"}
    async with office.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client)
        asked = await raw.go_on(await raw.ask(script), script)
        answer = await raw.go_on(asked, script, ONCE)
    assert answer["error"]["code"] == "APPROVAL_REQUIRED"
    assert [call["input"] for call in answer["error"]["details"]["calls"]] == [{"to": "b"}]
    assert office.done == ["send a"]


def form(message: str) -> ElicitRequest:
    schema = {"type": "object", "properties": {"decision": {"type": "string"}}}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


async def test_the_questions_of_tools_count_as_rounds_too_and_those_of_one_answer_as_one() -> None:
    office, person = Office({"rules": [], "max_rounds": 2}), Person("blue")

    @office.server.tool
    async def survey(ctx: Context) -> Any:
        """Ask three things at once."""
        if ctx.input_responses:
            return sorted(ctx.input_responses)
        return InputRequiredResult(input_requests={name: form(name) for name in ("a", "b", "c")})

    script = """
      const said = [await callTool('survey', {}), await callTool('survey', {})];
      try { await callTool('survey', {}) } catch (error) { return [said, error.code, error.message] }"""
    answer = await office.execute(script, person, mode=MODERN)
    said, code, message = answer["result"]
    assert said == [["a", "b", "c"]] * 2
    assert code == "INPUT_REQUIRED"
    assert "asks for input, and one request asks 2 times at most" in message
    assert len(person.questions) == 6


async def test_a_tool_that_asks_for_time_is_called_again_and_costs_no_round() -> None:
    office, calls = Office({"rules": "writes", "max_rounds": 1}), list[str | None]()

    @office.server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def build(ctx: Context) -> Any:
        """Build, which takes a while."""
        calls.append(ctx.request_state)
        return "built" if len(calls) == 3 else InputRequiredResult(request_state="building")

    script = "return [await callTool('build', {}), await callTool('send', {to: 'ann'})]"
    answer = await office.execute(script, Person(ONCE), mode=MODERN)
    assert answer["result"] == ["built", "sent to ann"]
    assert calls == [None, "building", "building"]


def test_a_run_that_has_no_record_cannot_give_up_its_worker() -> None:
    with pytest.raises(OptionsError, match=r"approvals\.release_s needs resume"):
        Office({"rules": "writes", "release_s": 1.0})


async def test_the_end_of_the_server_ends_what_waits() -> None:
    office = Office()
    approvals = office.plugin._now.runtime.approvals
    assert approvals is not None
    async with office.client(Person(ONCE), mode=MODERN) as client:
        await Raw(client).ask(SEND)
        await client.session.call_tool(
            "codecall:invoke", {"tool": "send", "input": {"to": "x"}}, allow_input_required=True
        )
        assert len(approvals.rounds) == 2
    assert len(approvals.rounds) == 0
    assert office.done == []


@pytest.mark.parametrize("json_response", [False, True])
async def test_the_run_goes_on_over_http(json_response: bool) -> None:
    office, person = Office(), Person(ONCE, SAME_IN_RUN)
    script = "for (let i = 0; i < 3; i++) await callTool('send', {to: 'ann'}); return 'sent'"
    heard: list[str | None] = []

    async def on_progress(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message)

    async with (
        serving(office.server.http_app(json_response=json_response)) as (_, _, url),
        Client(url, mode=MODERN, elicitation_handler=person.answer) as client,
    ):
        result = await client.call_tool("codecall:execute", {"script": script}, progress_handler=on_progress)
    assert result.structured_content is not None
    assert result.structured_content["result"] == "sent"
    assert len(person.questions) == 2
    assert len(office.done) == 3
