"""Approvals of calls over real connections of the handshake era, by elicitation and by the operator's function."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from fastmcp import Client, Context, FastMCP
from key_value.aio.stores.memory import MemoryStore
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from codecall import ApprovalRequest, CodeCallPlugin, Decision
from tests.approvals.conftest import (
    DENY,
    ONCE,
    SAME_IN_RUN,
    SAME_IN_SESSION,
    SEVERAL,
    STOP,
    Office,
    Person,
    run,
)

pytestmark = pytest.mark.anyio

TWO_SENDS = "await callTool('send', {to: 'ann'}); return await callTool('send', {to: 'ben'})"
CATCHING = "try { return await callTool('send', {to: 'ann'}) } catch (error) { return [error.code, error.message] }"
SIDE_BY_SIDE = "return await Promise.all(['ann', 'ben', 'eve'].map(to => callTool('send', {to})))"


async def invoke(client: Client[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool("codecall:invoke", {"tool": tool, "input": arguments})
    assert result.structured_content is not None
    return result.structured_content


async def test_a_call_is_asked_for_and_made_when_the_person_allows_it() -> None:
    office, person = Office(), Person(ONCE)
    answer = await office.execute(
        "const text = await callTool('read', {});\nreturn callTool('send', {to: text})", person
    )
    assert answer["result"] == "sent to letter 1"
    assert office.done == ["read 1", "send letter 1"]
    assert person.questions == [
        "May this tool be called?\n\nTool: send\nServer: office\nLine of the script: 2\n"
        'Calls of this tool allowed in this run so far: 0\n\nInput:\n\n    {\n      "to": "letter 1"\n    }'
    ]


async def test_every_call_of_a_loop_is_asked_for() -> None:
    office, person = Office(), Person(ONCE)
    await office.execute(TWO_SENDS, person)
    assert office.done == ["send ann", "send ben"]
    assert [question.count("so far: 1") for question in person.questions] == [0, 1]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (DENY, "a person denied it"),
        ("decline", "a person denied it"),
        ("yes", "the answer was none of those offered"),
    ],
)
async def test_a_denied_call_is_an_error_that_the_script_can_catch(said: str, reason: str) -> None:
    office = Office()
    answer = await office.execute(CATCHING, Person(said))
    assert answer["result"] == ["APPROVAL_DENIED", f"Tool 'send' was not called: {reason}"]
    assert office.done == []


async def test_deny_and_stop_ends_the_run_whatever_the_script_catches() -> None:
    office = Office()
    answer = await office.execute(f"{CATCHING}\nreturn 1", Person(STOP))
    assert (answer["status"], answer["error"]["code"]) == ("tool_error", "APPROVAL_DENIED")
    assert answer["error"]["location"]["line"] == 1


@pytest.mark.parametrize("options", ["{throwOnError: false}", "{}"])
async def test_a_client_that_cannot_ask_ends_the_run_with_the_calls_in_question(options: str) -> None:
    office = Office()
    script = f"""
      await callTool('read', {{}});
      try {{
        return await Promise.all([callTool('send', {{to: 'ann'}}, {options}), callTool('wipe', {{path: '/'}})])
      }} catch (error) {{ return 'caught' }}"""
    answer = await office.execute(script)
    error = answer["error"]
    assert (answer["status"], error["code"]) == ("tool_error", "APPROVAL_REQUIRED")
    assert error["details"]["calls"] == [
        {"tool": "send", "server": "office", "input": {"to": "ann"}, "line": 4},
        {"tool": "wipe", "server": "office", "input": {"path": "/"}, "line": 4},
    ]
    assert office.done == ["read 1"]


async def test_a_dismissed_question_ends_the_run() -> None:
    answer = await Office().execute(CATCHING, Person("cancel"))
    assert answer["error"]["code"] == "APPROVAL_REQUIRED"
    assert "dismissed" in answer["error"]["message"]
    assert answer["error"]["hint"].startswith("A person at this client has to allow the calls in `details`: tell them")


async def test_a_run_that_nobody_allowed_goes_on_with_resume_from() -> None:
    office, person = Office(resume={"store": MemoryStore()}), Person("cancel", ONCE)
    script = f"await callTool('read', {{}}); {SIDE_BY_SIDE}"
    async with office.client(person) as client:
        first = await run(client, script)
        assert first["error"]["code"] == "APPROVAL_REQUIRED"
        second = await run(client, script, resumeFrom=first["runId"])
    assert second["result"] == ["sent to ann", "sent to ben", "sent to eve"]
    # Calls side by side are made in any order.
    assert (office.done[0], sorted(office.done[1:])) == ("read 1", ["send ann", "send ben", "send eve"])


async def test_invoke_is_asked_for_too() -> None:
    office, person = Office(), Person(ONCE, DENY)
    async with office.client(person) as client:
        assert (await invoke(client, "send", to="ann"))["result"] == "sent to ann"
        assert (await invoke(client, "send", to="ann"))["error"]["code"] == "APPROVAL_DENIED"
        assert (await invoke(client, "read"))["status"] == "ok"
    async with office.client() as client:
        assert (await invoke(client, "send", to="ann"))["error"]["code"] == "APPROVAL_REQUIRED"
    assert office.done == ["send ann", "read 1"]


async def test_nobody_is_asked_for_what_the_tool_is_certain_to_refuse() -> None:
    office, person = Office(), Person(ONCE)
    for said in ("{to: 'ann', amount: [1].map(n => [n])[0]}", "{...JSON.parse('{}')}", "{to: 'a', lound: 1}"):
        answer = await office.execute(f"const input = {said};\nreturn callTool('send', input)", person)
        assert answer["error"]["code"] == "INVALID_INPUT"
    async with office.client(person) as client:
        assert (await invoke(client, "send", amount=2))["error"]["code"] == "INVALID_INPUT"
        assert (await invoke(client, "send", to="ann", amount="2"))["status"] == "ok"
    assert len(person.questions) == 1
    assert office.done == ["send ann"]


async def test_a_run_of_one_call_offers_nothing_for_more_calls_of_it() -> None:
    office, person = Office(), Person("allow several calls of this tool in this run", "decline")
    async with office.client(person) as client:
        refused = await invoke(client, "send", to="ann")
        assert person.forms[0]["decision"]["enum"] == [
            "allow this call",
            "allow this input in this session",
            "deny",
        ]
        assert refused["error"]["message"].endswith("the answer was none of those offered")


async def test_a_masked_value_is_written_in_one_way() -> None:
    server, person = FastMCP[Any]("bank"), Person("cancel")
    server.tool(lambda password: password, name="login")
    CodeCallPlugin.init(approvals=[{"tools": ["login"], "action": "ask"}]).install(server)
    async with Client(server, elicitation_handler=person.answer) as client:
        answer = await run(client, "return await callTool('login', { password: 'a1b2c3d4e5f6' })")
    mark = "masked-credential-1 (12 characters)"
    assert f'"password": "{mark}"' in person.questions[0]
    assert answer["error"]["details"]["calls"][0]["input"] == {"password": mark}


async def test_calls_side_by_side_are_asked_one_after_the_other_in_their_order() -> None:
    office, person = Office(), Person(ONCE, DENY, ONCE)
    answer = await office.execute(SIDE_BY_SIDE.replace("all(", "allSettled("), person)
    assert [item["status"] for item in answer["result"]] == ["fulfilled", "rejected", "fulfilled"]
    assert [question.split('"to": ')[1].split('"')[1] for question in person.questions] == ["ann", "ben", "eve"]


async def test_one_answer_may_allow_all_that_wait() -> None:
    office, person = Office(), Person((SEVERAL, 3))
    await office.execute(SIDE_BY_SIDE, person)
    assert len(office.done) == 3
    assert len(person.questions) == 1
    assert office.decisions() == [("client", "allowed"), ("grant", "allowed"), ("grant", "allowed")]


async def test_other_calls_go_on_while_a_question_waits() -> None:
    office, person = Office(), Person(ONCE)
    person.may_answer.clear()

    def read() -> str:
        """Read a letter, and let the person answer."""
        person.may_answer.set()
        return "read"

    office.server.tool(read, name="look", annotations={"readOnlyHint": True})
    answer = await office.execute("return Promise.all([callTool('send', {to: 'ann'}), callTool('look', {})])", person)
    assert answer["result"] == ["sent to ann", "read"]


async def test_the_time_limits_of_a_run_stand_still_while_a_person_thinks() -> None:
    office, person = Office(vm={"preset": "secure", "max_duration_ms": 200, "tool_call_timeout_ms": 100}), Person(ONCE)
    person.may_answer.clear()
    async with office.client(person) as client:
        running = asyncio.create_task(run(client, TWO_SENDS))
        await person.asked.wait()
        asyncio.get_running_loop().call_later(0.5, person.may_answer.set)
        assert (await running)["status"] == "ok"


async def test_a_question_that_nobody_answers_ends_the_run() -> None:
    office, person = Office({"rules": "writes", "wait_s": 0.05}), Person(ONCE)
    person.may_answer.clear()
    answer = await office.execute(CATCHING, person)
    assert answer["error"]["code"] == "APPROVAL_REQUIRED"
    assert "nobody answered within 0.05 s" in answer["error"]["message"]


async def test_questions_of_one_run_are_counted() -> None:
    office, person = Office({"rules": "writes", "max_questions": 2}), Person(DENY)
    script = "for (let i = 0; i < 9; i++) { try { await callTool('send', {to: 'ann'}) } catch (error) {} } return 1"
    answer = await office.execute(script, person)
    assert answer["error"]["code"] == "APPROVAL_REQUIRED"
    assert len(person.questions) == 2


async def test_only_so_many_runs_wait() -> None:
    office, person = Office({"rules": "writes", "max_waiting": 1}), Person(ONCE)
    person.may_answer.clear()
    async with office.client(person) as first, office.client(person) as second:
        running = asyncio.create_task(run(first, CATCHING))
        await person.asked.wait()
        refused = await run(second, CATCHING)
        assert refused["error"]["message"].endswith("1 runs wait for an answer already")
        person.may_answer.set()
        assert (await running)["status"] == "ok"


async def test_progress_says_what_is_waited_for() -> None:
    office, person, heard = Office(progress={"heartbeat_s": 0.1}), Person(ONCE), list[str | None]()
    person.may_answer.clear()

    async def on_progress(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message)
        if message is not None and "send (0 of 1: waits for a person's approval)" in message:
            person.may_answer.set()

    async with office.client(person) as client:
        result = await client.call_tool("codecall:execute", {"script": CATCHING}, progress_handler=on_progress)
    assert result.structured_content is not None
    assert result.structured_content["status"] == "ok"


async def test_cancelling_the_request_cancels_the_question() -> None:
    office, person = Office(), Person(ONCE)
    person.may_answer.clear()
    async with office.client(person) as client:
        running = asyncio.create_task(run(client, CATCHING))
        await person.asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        person.may_answer.set()
        assert (await run(client, "return callTool('read', {})"))["result"] == "letter 1"
    assert office.done == ["read 1"]


async def test_the_approver_decides_before_the_client_is_asked() -> None:
    requests: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> Decision | None:
        requests.append(request)
        return (
            Decision.deny() if request.tool == "wipe" else None if request.arguments["to"] == "eve" else Decision.once()
        )

    office, person = Office({"rules": "writes", "approver": approver}), Person(ONCE)
    script = """const results = await Promise.allSettled([callTool('send', {to: 'ann'}), callTool('wipe', {path: '/'}),
      callTool('send', {to: 'eve'})]); return results.map(result => result.status)"""
    answer = await office.execute(script, person)
    assert answer["result"] == ["fulfilled", "rejected", "fulfilled"]
    assert [(request.tool, request.line, request.rule) for request in requests] == [
        ("send", 1, 1),
        ("wipe", 1, 1),
        ("send", 2, 1),
    ]
    assert len(person.questions) == 1


@pytest.mark.parametrize("said", [True, "yes", RuntimeError("no database")])
async def test_an_approver_that_fails_denies(said: object) -> None:
    async def approver(_request: ApprovalRequest) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    office = Office({"rules": "writes", "approver": approver})
    assert (await office.execute(CATCHING))["result"][0] == "APPROVAL_DENIED"


async def test_the_same_input_is_allowed_in_the_run_or_in_the_session() -> None:
    office, person = Office(), Person(SAME_IN_RUN, SAME_IN_SESSION, STOP)
    script = "for (let i = 0; i < 3; i++) await callTool('send', {to: 'ann', amount: 2}); return 'sent'"
    async with office.client(person) as client:
        assert (await run(client, script))["status"] == "ok"
        assert len(person.questions) == 1
        assert (await run(client, script))["status"] == "ok"
        assert (await run(client, script.replace("to: 'ann', amount: 2", "amount: 2, to: 'ann'")))["status"] == "ok"
        assert len(person.questions) == 2
        assert (await run(client, script.replace("amount: 2", "amount: 3")))["error"]["code"] == "APPROVAL_DENIED"
    async with office.client(person) as other:
        assert (await run(other, script))["error"]["code"] == "APPROVAL_DENIED"


async def test_grants_are_listed_and_revoked() -> None:
    office, person = Office(), Person(SAME_IN_SESSION, STOP)
    grants = office.plugin.grants
    assert grants is not None
    async with office.client(person) as client:
        await run(client, CATCHING)
        (grant,) = grants.list()
        assert (grant.tool, grant.lifetime, grant.calls_left) == ("send", "session", None)
        assert '"to": "ann"' in grant.shown
        assert grants.revoke(grant.id)
        assert not grants.revoke(grant.id)
        assert (await run(client, CATCHING))["error"]["code"] == "APPROVAL_DENIED"


async def test_what_was_allowed_for_a_run_ends_with_it() -> None:
    office, person = Office(), Person((SEVERAL, 10))
    grants = office.plugin.grants
    assert grants is not None
    await office.execute(TWO_SENDS, person)
    assert len(grants) == 0


async def test_without_the_option_nothing_is_asked_and_there_are_no_grants() -> None:
    office = Office(None)
    assert office.plugin.grants is None
    assert (await office.execute(TWO_SENDS))["status"] == "ok"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_questions_of_a_tool_reach_the_person_and_only_its_call_is_made_again(mode: str) -> None:
    office, asked = Office([]), list[str]()

    async def person(message: str, *_: object) -> dict[str, str]:
        asked.append(message)
        return {"name": "ann" if len(asked) == 1 else "ben"}

    @office.server.tool
    async def greet(ctx: Context) -> Any:
        """Ask twice, and greet both."""
        office.done.append("greet")
        answers = ctx.input_responses or {}
        said = cast("ElicitResult | None", answers.get("who"))
        names = [*json.loads(ctx.request_state or "[]"), *([(said.content or {})["name"]] if said is not None else [])]
        if len(names) == 2:
            return names
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        question = ElicitRequest(params=ElicitRequestFormParams(message="Who?\n\nTool: x", requested_schema=form))
        return InputRequiredResult(input_requests={"who": question}, request_state=json.dumps(names))

    script = "await callTool('read', {}); return callTool('greet', {})"
    async with Client(office.server, mode=cast("Any", mode), elicitation_handler=person) as client:
        assert (await run(client, script))["result"] == ["ann", "ben"]
    assert office.done == ["read 1", "greet", "greet", "greet"]
    text = "A tool asks a question.\n\nTool: greet\nServer: office\n\nQuestion:\n\n    Who?\n    \n    Tool: x"
    assert asked == [text, text]


async def test_a_question_of_a_tool_that_nobody_answers_is_an_error() -> None:
    office = Office([])

    @office.server.tool
    async def greet() -> Any:
        """Ask."""
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        question = ElicitRequest(params=ElicitRequestFormParams(message="Who?", requested_schema=form))
        return InputRequiredResult(input_requests={"who": question})

    script = "try { return await callTool('greet', {}) } catch (error) { return error.code }"
    assert (await office.execute(script))["result"] == "INPUT_REQUIRED"
    assert (await office.execute(script, Person("cancel")))["result"] == "INPUT_REQUIRED"
