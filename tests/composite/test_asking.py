"""What a person is asked while a composite tool runs: the questions of its steps, for their approval, and those of the
tools that they call; in both protocol eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.transforms import Transform
from fastmcp.utilities.tests import asgi_server
from mcp import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from codecall import AuditEvent, CodeCallPlugin, CompositeTools
from tests.approvals.conftest import DENY, ONCE, STOP, Office, Person, Raw, run

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
MODERN = "2026-07-28"
FORM = {"type": "object", "properties": {"decision": {"type": "string"}}, "required": ["decision"]}

ASK = {"id": "ask", "type": "elicitation", "message": "To whom?", "schema": FORM}
"""A step that asks. Its field is the one that a `Person` fills in."""

TO = "{{.steps.ask.output.content.decision}}"

MAILING = {
    "name": "mailing",
    "description": "Read a letter, ask for whom it is, and send it",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer", "default": 1}}},
    "steps": [
        {"id": "letter", "tool": "read", "arguments": {"number": "{{.params.number}}"}},
        {**ASK, "dependsOn": ["letter"]},
        {"id": "send", "tool": "send", "arguments": {"to": TO}, "dependsOn": ["ask"]},
        {"id": "wipe", "tool": "wipe", "arguments": {"path": "/{{.workflow.id}}"}, "dependsOn": ["send"]},
    ],
}

CIRCULAR = {
    "name": "circular",
    "description": "Ask, and send to everybody, and read, all at once",
    "steps": [
        ASK,
        {
            "id": "all",
            "type": "forEach",
            "collection": '["ann", "ben", "eve"]',
            "maxParallel": 2,
            "step": {"tool": "send", "arguments": {"to": "{{.forEach.item}}"}},
        },
        {"id": "first", "tool": "read"},
        {"id": "second", "tool": "read", "arguments": {"number": 2}, "dependsOn": ["first"]},
        {"id": "again", "tool": "send", "arguments": {"to": TO}, "dependsOn": ["ask", "all"]},
    ],
}


def office(*tools: dict[str, Any], approvals: Any = "writes", **options: Any) -> Office:
    """An office with these composite tools."""
    return Office(approvals, composite_tools=list(tools) or [MAILING], **options)


@asynccontextmanager
async def connected(server: FastMCP[Any], transport: str, person: Person, mode: str) -> AsyncGenerator[Client[Any]]:
    """A client with this person at it."""
    if transport == "memory":
        async with Client(server, mode=mode, elicitation_handler=person.answer) as client:  # type: ignore[arg-type]
            yield client
        return
    async with (
        asgi_server(server) as served,
        served.client(mode=mode, elicitation_handler=person.answer) as client,
    ):
        yield client


@ERAS
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_the_calls_of_its_steps_are_asked_for(transport: str, mode: str) -> None:
    mail, person = office(), Person("ann", ONCE, DENY)
    async with connected(mail.server, transport, person, mode) as client:
        result = await client.call_tool("mailing", {"number": 4}, raise_on_error=False)
    assert result.structured_content is not None
    assert result.structured_content["code"] == "APPROVAL_DENIED"
    assert result.structured_content["steps"] == dict.fromkeys(("letter", "ask", "send"), "completed") | {
        "wipe": "failed"
    }
    assert mail.done == ["read 4", "send ann"]
    assert person.questions[0] == "To whom?"
    assert len(person.questions) == 3


async def test_all_that_is_open_is_one_list_once_nothing_else_goes_on() -> None:
    mail = office(CIRCULAR)
    async with mail.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client, "circular")
        asked = await raw.ask({})
        assert len(asked.input_requests) == 3  # the step's, and for two calls of the loop
        assert mail.done == ["read 1", "read 2"]
        asked = await raw.go_on(asked, {}, "kim", ONCE, ONCE)
        assert len(asked.input_requests) == 1
        asked = await raw.go_on(asked, {}, ONCE)
        answer = await raw.go_on(asked, {}, ONCE)
    assert answer == {"result": "sent to kim"}
    assert sorted(mail.done[2:]) == ["send ann", "send ben", "send eve", "send kim"]


async def test_up_to_2025_11_25_one_question_follows_another() -> None:
    mail, person = office(CIRCULAR), Person("kim", ONCE)
    async with mail.client(person) as client:
        assert (await client.call_tool("circular", {})).data == "sent to kim"
    assert len(person.questions) == 5


@ERAS
async def test_the_person_may_stop_the_run_whatever_its_steps_say(mode: str) -> None:
    steps: Any = MAILING["steps"]
    going_on = {**steps[2], "onError": {"action": "continue"}}
    mail, person = office({**MAILING, "steps": [*steps[:2], going_on, steps[3]]}), Person("ann", STOP)
    async with mail.client(person, mode=mode) as client:
        result = await client.call_tool("mailing", {}, raise_on_error=False)
    assert (result.structured_content or {})["code"] == "APPROVAL_DENIED"
    assert mail.done == ["read 1"]


SENDING = {
    "name": "sending",
    "description": "Send",
    "steps": [{"id": "send", "tool": "send", "arguments": {"to": "a"}}],
}
SENDING_SCRIPT = """/*
---
name: sending
description: Send
parameters: {}
allowedTools: [send]
---
*/
return await send({to: 'a'})
"""
AROUND = {
    "name": "around",
    "description": "Send, and read whatever happens",
    "steps": [
        {"id": "mail", "tool": "sending", "onError": {"action": "continue"}},
        {"id": "after", "tool": "read", "dependsOn": ["mail"]},
    ],
}


@ERAS
@pytest.mark.parametrize("answer", [STOP, "cancel"])
@pytest.mark.parametrize("is_script", [False, True], ids=["steps", "script"])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("around", {}),
        ("codecall:execute", {"script": "try { await sending({}) } catch (e) { await read({}) } return 1"}),
        (
            "codecall:execute",
            {"script": "const a = await callTool('sending', {}, {throwOnError: false}); return [a, await read()]"},
        ),
    ],
)
async def test_a_decision_ends_the_run_that_calls_it(
    tmp_path: Path, mode: str, answer: str, tool: str, arguments: dict[str, Any], *, is_script: bool
) -> None:
    (tmp_path / "sending.js").write_text(SENDING_SCRIPT, encoding="utf-8")
    sending: Any = str(tmp_path / "sending.js") if is_script else SENDING
    mail, person = office(sending, AROUND), Person(answer)
    async with mail.client(person, mode=mode) as client:
        result = (await client.call_tool(tool, arguments, raise_on_error=False)).structured_content or {}
    code = result.get("error", result)["code"]
    assert code == ("APPROVAL_DENIED" if answer == STOP else "APPROVAL_REQUIRED")
    assert mail.done == []


EACH = {
    "name": "each",
    "description": "Send to each",
    "steps": [
        {
            "id": "letters",
            "type": "forEach",
            "collection": '["ann", "ben", "eve"]',
            "maxParallel": 2,
            "step": {"tool": "slow", "arguments": {"to": "{{.forEach.item}}"}},
        }
    ],
}
LATE = {
    "name": "late",
    "description": "Give up a slow call, and send",
    "steps": [
        {"id": "slow", "tool": "slow", "timeout": "1s", "onError": {"action": "continue"}, "arguments": {"to": "ever"}},
        {"id": "send", "tool": "send", "arguments": {"to": "ben"}, "dependsOn": ["slow"]},
    ],
}
FEW: list[dict[str, Any]] = [
    {"tools": ["slow"], "action": "allow", "input": {"properties": {"to": {"enum": ["ann", "ever"]}}}},
    {"read_only": False, "action": "ask"},
]


def slow_office(definition: dict[str, Any]) -> tuple[Office, asyncio.Event]:
    """An office with this composite tool, and a tool that waits for the event unless it is for ever."""
    mail, go_on = office(definition, approvals=FEW), asyncio.Event()

    async def slow(to: str) -> str:
        """Send a letter slowly."""
        await (asyncio.Event() if to == "ever" else go_on).wait()
        mail.done.append(f"slow {to}")
        return to

    mail.server.tool(slow)
    return mail, go_on


async def test_an_allowed_iteration_ends_before_the_run_stops_for_another() -> None:
    mail, go_on = slow_office(EACH)

    async def release() -> None:
        while "unanswered" not in [said for _, said in mail.decisions()]:  # noqa: ASYNC110 - records set no event
            await asyncio.sleep(0.001)
        go_on.set()

    async with mail.client() as client:
        releasing = asyncio.create_task(release())
        call = client.call_tool("each", {}, raise_on_error=False)
        answer = (await call).structured_content or {}
        await releasing
    assert (answer["code"], mail.done) == ("APPROVAL_REQUIRED", ["slow ann"])
    assert answer["iterations"] == {"letters": {"count": 3, "completed": 1, "failed": 1}}


async def test_a_call_that_was_given_up_is_not_waited_for() -> None:
    mail, _ = slow_office(LATE)
    async with mail.client() as client:
        answer = (await client.call_tool("late", {}, raise_on_error=False)).structured_content or {}
    assert (answer["code"], answer["steps"]) == ("APPROVAL_REQUIRED", {"slow": "failed", "send": "failed"})
    assert mail.done == []


async def test_a_state_is_for_its_caller_its_arguments_and_one_use() -> None:
    verifier = StaticTokenVerifier(
        tokens={name: {"client_id": name, "sub": name, "scopes": []} for name in ("ann", "mallory")}
    )
    mail = office(auth=verifier)
    async with (
        asgi_server(mail.server) as served,
        served.client(auth="ann", mode=MODERN, elicitation_handler=Person(ONCE).answer) as at_ann,
        served.client(auth="mallory", mode=MODERN, elicitation_handler=Person(ONCE).answer) as at_mallory,
    ):
        ann, mallory = Raw(at_ann, "mailing"), Raw(at_mallory, "mailing")
        asked = await ann.ask({})
        for client, arguments, state in (
            (mallory, {}, asked.request_state),
            (ann, {"number": 2}, asked.request_state),
            (ann, {}, "x" * 43),
        ):
            try:
                refused = await client.ask(arguments, request_state=state)
            except MCPError as error:  # FastMCP's own seal of states
                refused = error.error.message
            assert "requestState" in refused
        assert mail.done == ["read 1"]
        asked_again = await ann.go_on(asked, {}, "ann")
        assert "no such call of yours waits" in await ann.go_on(asked, {}, "mallory")
        asked_last = await ann.go_on(asked_again, {}, ONCE)
        assert "no such call of yours waits" in await ann.go_on(asked_again, {}, ONCE)
        assert (await ann.go_on(asked_last, {}, ONCE))["result"].startswith("wiped /run_")
    assert [text.split("_")[0] for text in mail.done] == ["read 1", "send ann", "wipe /run"]


class Ended:
    """A sink of the record of runs that tells when one has ended."""

    def __init__(self) -> None:
        self._loop, self.ended = asyncio.get_running_loop(), asyncio.Event()

    def __call__(self, event: AuditEvent) -> None:
        """A part of the record."""
        if event.name == "codecall.execute.complete":
            self._loop.call_soon_threadsafe(self.ended.set)


@ERAS
async def test_a_question_waits_as_long_as_its_step_says(mode: str) -> None:
    ended = Ended()
    tool: dict[str, Any] = {**MAILING, "steps": [{**ASK, "timeout": "50ms"}]}
    mail, person = office(tool, audit={"sinks": [ended]}), Person(ONCE)
    async with mail.client(person, mode=mode) as client:
        if mode == MODERN:
            raw = Raw(client, "mailing")
            asked = await raw.ask({})
            await ended.ended.wait()
            answer = await raw.go_on(asked, {}, "ann")
        else:
            person.may_answer.clear()
            answer = (await client.call_tool("mailing", {}, raise_on_error=False)).structured_content
    assert answer["code"] == "TIMEOUT"


async def test_a_call_that_nobody_allows_in_time_ends_the_run() -> None:
    ended = Ended()
    mail = office(approvals={"rules": "writes", "wait_s": 0.05}, audit={"sinks": [ended]})
    async with mail.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client, "mailing")
        asked = await raw.go_on(await raw.ask({}), {}, "ann")
        await ended.ended.wait()
        assert (await raw.go_on(asked, {}, ONCE))["code"] == "APPROVAL_REQUIRED"
    assert mail.done == ["read 1"]


async def test_scripts_and_composite_tools_that_wait_share_one_bound() -> None:
    mail = office(approvals={"rules": "writes", "max_waiting": 2})
    async with mail.client(Person(ONCE), mode=MODERN) as client:
        raw = Raw(client, "mailing")
        await Raw(client).ask({"script": "return callTool('send', {to: 'ann'})"})
        asked = await raw.ask({})
        refused = await raw.ask({})
        assert refused["code"] == "INPUT_REQUIRED"
        assert "2 runs wait for an answer already" in refused["message"]
        assert isinstance(await raw.go_on(asked, {}, "ann"), InputRequiredResult)


@ERAS
async def test_a_tool_that_a_step_calls_may_ask(mode: str) -> None:
    mail = office({"name": "flow", "description": "Asks", "steps": [{"id": "call", "tool": "who"}]}, approvals=[])

    async def who(ctx: Context) -> Any:
        """Ask who it is."""
        if mode == "legacy":
            answer = await ctx.elicit("Who?", str)
            return f"hello {answer.data}"  # type: ignore[union-attr]
        if ctx.input_responses:
            return f"hello {ctx.input_responses['who'].content['decision']}"  # type: ignore[union-attr,index]
        form = ElicitRequestFormParams(message="Who?", requested_schema=FORM)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)}, request_state="kept")

    mail.server.tool(who, output_schema=None)
    person = Person(("Ann", {"value": "Ann"}))
    async with mail.client(person, mode=mode) as client:
        assert (await client.call_tool("flow", {})).data == "hello Ann"
    assert "Who?" in person.questions[0]


@ERAS
@pytest.mark.parametrize("approvals", ["writes", None])
async def test_a_script_that_calls_it_waits_for_its_questions(mode: str, approvals: Any) -> None:
    mail, person = office(approvals=approvals), Person("ann", ONCE)
    async with mail.client(person, mode=mode) as client:
        answer = await run(client, "return callTool('mailing', {number: 3})")
    # For its steps, and not for itself as well.
    assert len(person.questions) == (1 if approvals is None else 3)
    assert answer["result"].startswith("wiped /run_")
    assert [text.split("_")[0] for text in mail.done] == ["read 3", "send ann", "wipe /run"]


@ERAS
@pytest.mark.parametrize("field", [{"tools": ["mailing"]}, {"apps": ["composite"]}])
async def test_a_rule_that_names_a_composite_tool_asks_for_it(mode: str, field: Any) -> None:
    mail, person = office(approvals=[{**field, "action": "ask"}]), Person(ONCE, "ann")
    async with mail.client(person, mode=mode) as client:
        await run(client, "return callTool('mailing', {number: 3})")
    assert ["Tool: mailing" in question for question in person.questions] == [True, False]
    assert len(mail.done) == 3


async def test_a_rule_about_all_that_writes_denies_a_composite_tool_itself() -> None:
    mail = office(approvals=[{"read_only": False, "action": "deny"}])
    assert (await mail.execute("return callTool('mailing', {})"))["error"]["code"] == "ACCESS_DENIED"
    assert mail.done == []


async def test_one_question_beforehand_is_not_about_a_composite_tool() -> None:
    mail, person = office(approvals={"rules": "writes", "ask_first": True}), Person("allow these calls", "ann", ONCE)
    await mail.execute("await callTool('mailing', {}); return callTool('send', {to: 'eve'})", person)
    assert "Tool: send" in person.questions[0]
    assert "mailing" not in person.questions[0]


@ERAS
async def test_a_mounted_server_is_not_known_to_ask_for_the_steps(mode: str) -> None:
    mail, person, main = office(approvals=None), Person(ONCE, "ann"), FastMCP[Any]("main")
    main.mount(mail.server)
    CodeCallPlugin.init(pool={"min_workers": 0}, approvals="writes").install(main)
    async with Client(main, mode=mode, elicitation_handler=person.answer) as client:  # type: ignore[arg-type]
        await run(client, "return callTool('mailing', {number: 3})")
    assert ["Tool: mailing" in question for question in person.questions] == [True, False]


@pytest.mark.parametrize(("named", "sent"), [("mail_send", ["send all"]), ("mail_shout", [])])
async def test_rules_see_the_call_of_a_mounted_composite_tool_and_none_that_it_makes(
    named: str, sent: list[str]
) -> None:
    step = {"id": "send", "tool": "send", "arguments": {"to": "all"}}
    mail = office({"name": "shout", "description": "Send to all", "steps": [step]}, approvals=None)
    main = FastMCP[Any]("main")
    main.mount(mail.server, "mail")
    rules: Any = [{"tools": [named], "action": "deny"}]
    CodeCallPlugin.init(pool={"min_workers": 0}, approvals=rules).install(main)
    async with Client(main) as client:
        assert (await run(client, f"return callTool('{named}', {{to: 'ann'}})"))["error"]["code"] == "ACCESS_DENIED"
        await run(client, "return callTool('mail_shout', {})")
    assert mail.done == sent


@ERAS
async def test_a_script_of_a_server_that_asks_nothing_passes_on_what_a_mounted_one_asks(mode: str) -> None:
    mail, person = office(), Person("ann", ONCE)

    async def deliver(ctx: Context) -> Any:
        """Send, by a script of the server's own."""
        return await ctx.fastmcp.call_tool("codecall:execute", {"script": "return callTool('send', {to: 'eve'})"})

    mail.server.tool(deliver, output_schema=None)
    main = FastMCP[Any]("main")
    main.mount(mail.server, "mail")
    plugin = CodeCallPlugin.init(pool={"min_workers": 0})
    plugin.install(main)
    script = """
      const wiped = await callTool('mail_mailing', {number: 3});
      return [wiped, (await callTool('mail_deliver', {})).result]"""
    async with Client(main, mode=mode, elicitation_handler=person.answer) as client:  # type: ignore[arg-type]
        answer = await run(client, script)
        if mode == MODERN:
            raw = Raw(client)
            await raw.ask({"script": script})
            asking = plugin.asking.relay(Context(main))
            assert asking is not None
            assert len(asking.rounds) == 1
    assert answer["result"][0].startswith("wiped /run_")
    assert answer["result"][1] == "sent to eve"
    assert [text.split("_")[0] for text in mail.done[:4]] == ["read 3", "send ann", "wipe /run", "send eve"]
    assert len(person.questions) == 4
    assert plugin.grants is None
    if mode == MODERN:
        assert len(asking.rounds) == 0  # with the server ends what waits


class Marked(Transform):
    """Counts how often somebody looks whether what it belongs to may ask."""

    lookups = 0

    @property
    def asking(self) -> None:
        """Read by plugins of other servers."""
        self.lookups += 1


@pytest.mark.parametrize("tool", ["codecall:execute", "codecall:invoke"])
async def test_a_request_looks_once_whether_something_asks_that_is_mounted(tool: str) -> None:
    server, mounted, marked = FastMCP[Any]("outer"), FastMCP[Any]("inner"), Marked()
    mounted.tool(lambda: "read", name="read")
    mounted.add_transform(marked)
    server.mount(mounted)
    CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": 0}).install(server)
    arguments = {"script": "return 1"} if tool == "codecall:execute" else {"tool": "read", "input": {}}
    async with Client(server) as client:
        for requests in (1, 2):
            assert (await client.call_tool(tool, arguments)).structured_content["status"] == "ok"
            assert marked.lookups == requests


@ERAS
async def test_what_a_tool_returned_cannot_hide_in_a_question(mode: str) -> None:
    message = "⚠\ufe0f Send this?\u202d\n{{.steps.odd.output.result}}\n\n- to {{.steps.odd.status}}"
    ask = {**ASK, "message": message, "dependsOn": ["odd"]}
    mail = office({"name": "flow", "description": "Ask", "steps": [{"id": "odd", "tool": "odd"}, ask]})

    def odd() -> str:
        return "a\u202eb\u200bc\u00a0ä\nTool: send\n\n\u202dServer: office"

    mail.server.tool(odd, annotations={"readOnlyHint": True})
    person = Person("yes")
    async with mail.client(person, mode=mode) as client:
        await client.call_tool("flow", {})
    assert person.questions == [
        "⚠\ufe0f Send this?\\u202d\n    a\\u202eb\\u200bc\\u00a0ä\n    Tool: send\n"
        "\n    \\u202dServer: office\n\n- to completed"
    ]


@ERAS
@pytest.mark.parametrize("filled", [True, False])
async def test_a_question_that_is_too_long_to_be_read_is_not_asked(mode: str, filled: bool) -> None:
    message = "Send this? {{.steps.long.output.result}}" if filled else "x" * 16_384
    ask = {**ASK, "message": message, "dependsOn": ["long"]}
    mail = office({"name": "flow", "description": "Ask", "steps": [{"id": "long", "tool": "long"}, ask]})

    def long() -> str:
        return "x" * 16_384

    mail.server.tool(long, annotations={"readOnlyHint": True})
    person = Person("yes")
    async with mail.client(person, mode=mode) as client:
        answer = (await client.call_tool("flow", {}, raise_on_error=False)).structured_content
    assert answer is not None
    assert (answer["code"], answer["step"]) == ("INPUT_REQUIRED", "ask")
    assert "The question of step 'ask' has 16," in answer["message"]
    assert person.questions == []


@ERAS
async def test_a_composite_tool_that_calls_it_waits_for_its_questions(mode: str) -> None:
    outer: dict[str, Any] = {"name": "outer", "description": "Mail", "steps": [{"id": "mail", "tool": "mailing"}]}
    mail, person = office(MAILING, outer, approvals=None), Person("ann")
    async with mail.client(person, mode=mode) as client:
        assert (await client.call_tool("outer", {})).data.startswith("wiped /run_")
    assert person.questions == ["To whom?"]


@ERAS
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_a_provider_without_code_mode_asks_too(transport: str, mode: str) -> None:
    heard: list[str] = []
    steps: Any = MAILING["steps"]
    server = FastMCP[Any]("mail", providers=[CompositeTools({**MAILING, "steps": [ASK, steps[2]]})])

    @server.tool
    def send(to: str) -> str:
        heard.append(to)
        return "sent"

    async with connected(server, transport, Person("ann"), mode) as client:
        await client.call_tool("mailing", {})
    assert heard == ["ann"]


async def test_composite_tools_that_a_reload_brings_ask_and_end_with_the_server() -> None:
    mail = Office(None)
    async with mail.client(Person(ONCE), mode=MODERN) as client:
        await mail.plugin.reload(composite_tools=[MAILING])
        await Raw(client, "mailing").ask({})
        approvals = mail.plugin.asking.relay(mail.server)
        assert approvals is not None
        assert len(approvals.rounds) == 1
    assert len(approvals.rounds) == 0
