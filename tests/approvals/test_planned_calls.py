"""What a script's text says of its calls: one question for all of them, and what the forms of others propose."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client

from codecall import ApprovalRequest, Decision
from tests.approvals.conftest import (
    ALL,
    DENY,
    EACH,
    FIXED_IN_RUN,
    FIXED_IN_SESSION,
    ONCE,
    SEVERAL,
    STOP,
    Office,
    Person,
    run,
)

pytestmark = pytest.mark.anyio

FIRST: dict[str, Any] = {"rules": "writes", "ask_first": True}
ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
SCRIPT = """const letter = await callTool('read', {number: 7});
await callTool('send', {to: 'ann', amount: 2});
await callTool('send', {to: 'ann', amount: 2});
return callTool('wipe', {path: letter});
"""


@ERAS
async def test_one_question_covers_all_calls_that_the_script_names(mode: str) -> None:
    office, person = Office(FIRST), Person((ALL, {}))
    answer = await office.execute(SCRIPT, person, mode=mode)
    assert answer["result"] == "wiped letter 7"
    assert office.done == ["read 7", "send ann", "send ann", "wipe letter 7"]
    assert person.questions == [
        "A script asks for calls of tools. May they be made?\n\n"
        "Calls 1\n\nTool: send\nServer: office\nLines of the script: 2, 3\nNumber of calls: 2\n"
        'Arguments, others may be anything:\n\n    {\n      "amount": 2,\n      "to": "ann"\n    }\n\n'
        "Calls 2\n\nTool: wipe\nServer: office\nLines of the script: 4\nNumber of calls: 1\nInput: any\n"
    ]
    assert [person.forms[0][name]["default"] for name in ("calls-1", "calls-2")] == [2, 1]


@ERAS
@pytest.mark.parametrize(
    ("said", "code"), [(STOP, "APPROVAL_DENIED"), ("decline", "APPROVAL_DENIED"), ("cancel", "APPROVAL_REQUIRED")]
)
async def test_no_call_is_made_without_a_yes(mode: str, said: str, code: str) -> None:
    office = Office(FIRST)
    answer = await office.execute(SCRIPT, Person(said), mode=mode)
    assert (answer["status"], answer["error"]["code"]) == ("tool_error", code)
    assert office.done == []


async def test_calls_that_were_not_allowed_ahead_are_asked_for_one_by_one() -> None:
    office, person = Office(FIRST), Person((ALL, {"calls-1": 1, "calls-2": 0}), ONCE, DENY)
    answer = await office.execute(SCRIPT, person)
    assert answer["error"]["code"] == "APPROVAL_DENIED"
    assert office.done == ["read 7", "send ann", "send ann"]
    assert [question.split("\n")[0] for question in person.questions[1:]] == ["May this tool be called?"] * 2


async def test_each_call_may_be_asked_for_after_all() -> None:
    office, person = Office(FIRST), Person(EACH, ONCE)
    assert (await office.execute(SCRIPT, person))["status"] == "ok"
    assert len(person.questions) == 4


async def test_what_the_text_does_not_say_is_not_allowed_ahead() -> None:
    office, person = Office(FIRST), Person((ALL, {"calls-1": 5}), STOP)
    script = "for (const to of ['ann', 'ben']) await callTool('send', {to, amount: to === 'ann' ? 1 : 2, loud: true});"
    assert (await office.execute(f"{script} return 1", person))["status"] == "ok"
    assert "Number of calls: not known" in person.questions[0]
    assert person.forms[0]["calls-1"]["default"] == 10
    hidden = "const name = 'wi' + 'pe'; await callTool('send', {to: 'ann'}); return callTool(name, {path: '/'})"
    office.done.clear()
    person.answers = [ALL, STOP]
    assert (await office.execute(hidden, person))["error"]["code"] == "APPROVAL_DENIED"
    assert office.done == ["send ann"]


async def test_nothing_is_asked_ahead_that_no_rule_asks_for() -> None:
    rules = [{"tools": ["wipe"], "action": "deny"}, {"tools": ["send"], "action": "allow"}, {"action": "ask"}]
    office, person = Office({"rules": rules, "ask_first": True}), Person(ALL)
    assert (await office.execute("return callTool('send', {to: 'ann'})", person))["status"] == "ok"
    assert (await office.execute("return callTool('wipe', {path: '/'})", person))["error"]["code"] == "ACCESS_DENIED"
    assert (await office.execute("return callTool('nothing', {})", person))["error"]["code"] == "TOOL_NOT_FOUND"
    assert person.questions == []


async def test_a_rule_with_a_condition_is_asked_for_ahead_and_decides_when_the_call_is_made() -> None:
    rules = [{"tools": ["send"], "input": {"properties": {"to": {"const": "all"}}}, "action": "ask"}]
    office, person = Office({"rules": rules, "ask_first": True}), Person((ALL, {"calls-1": 1}), STOP)
    script = "for (const to of ['ann', 'all', 'all']) await callTool('send', {to}); return 1"
    assert (await office.execute(script, person))["error"]["code"] == "APPROVAL_DENIED"
    assert office.done == ["send ann", "send all"]


async def test_the_number_of_calls_that_is_proposed_is_what_the_script_is_certain_to_make() -> None:
    office, person = Office(), Person(ONCE, (SEVERAL, 2))
    script = "await callTool('send', {to: 'a'}); await callTool('send', {to: 'b'}); return callTool('send', {to: 'c'})"
    await office.execute(script, person)
    assert [form["calls"]["default"] for form in person.forms] == [3, 2]
    loop = "for (const to of ['a', 'b']) await callTool('send', {to}); return 1"
    person.answers = [ONCE]
    await office.execute(loop, person)
    assert [form["calls"]["default"] for form in person.forms[2:]] == [10, 10]


LOOP = "for (const to of ['ann', 'ben']) { await callTool('send', {to, amount: 5}) } return 'sent'"


@pytest.mark.parametrize("said", [FIXED_IN_RUN, FIXED_IN_SESSION])
async def test_calls_with_the_arguments_that_the_script_spells_out_are_allowed_together(said: str) -> None:
    office, person = Office(), Person(said, STOP)
    async with office.client(person) as client:
        assert (await run(client, LOOP))["result"] == "sent"
        (question,) = person.questions
        assert question.endswith('\n\nFixed arguments, which the script spells out:\n\n    {\n      "amount": 5\n    }')
        again = await run(client, LOOP.replace("'ann', 'ben'", "'eve'"))
        assert (again["status"] == "ok") is (said == FIXED_IN_SESSION)
        assert (await run(client, LOOP.replace("amount: 5", "amount: 6")))["status"] == "tool_error"
    assert "send eve" in office.done or said == FIXED_IN_RUN


async def test_fixed_arguments_are_offered_where_there_are_some_and_others() -> None:
    office, person = Office(), Person(ONCE)
    await office.execute("const to = codecallContext.to; return callTool('send', {to})", person, context={"to": "a"})
    await office.execute("return callTool('send', {to: 'ann', amount: 1})", person)
    assert [FIXED_IN_RUN in form["decision"]["enum"] for form in person.forms] == [False, False]
    person.answers = [FIXED_IN_RUN]
    answer = await office.execute(
        "try { return await callTool('send', {to: 'a'}) } catch (e) { return e.code }", person
    )
    assert answer["result"] == "APPROVAL_DENIED"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_approver_decides_before_what_was_allowed_ahead(mode: str) -> None:
    asked: list[Any] = []

    async def approver(request: ApprovalRequest) -> Decision | None:
        asked.append(request.arguments)
        if request.tool == "send":
            return Decision.once()
        return Decision.deny() if request.arguments["path"] == "/etc" else None

    office = Office({"rules": "writes", "ask_first": True, "approver": approver})
    person = Person((ALL, {"calls-1": 1, "calls-2": 1}), DENY)
    script = """
      const codes = [];
      for (const path of codecallContext.paths) {
        codes.push((await callTool('wipe', {path}, {throwOnError: false})).error?.code);
      }
      await callTool('send', {to: 'ann'});
      return codes"""
    answer = await office.execute(script, person, mode, context={"paths": ["/etc", "/a", "/b"]})
    assert answer["result"] == ["APPROVAL_DENIED", None, "APPROVAL_DENIED"]
    assert office.done == ["wipe /a", "send ann"]
    assert len(asked) == 4  # every call
    assert [by for by, _ in office.decisions()] == ["client", "client", "approver", "grant", "client", "approver"]


async def test_an_approver_may_fix_arguments_and_knows_what_is_foreseen() -> None:
    asked: list[int] = []

    async def approver(request: ApprovalRequest) -> Decision:
        asked.append(request.foreseen)
        return Decision.fixed_arguments("to")

    office = Office({"rules": "writes", "approver": approver})
    await office.execute("await callTool('send', {to: 'a', amount: 1}); return callTool('send', {to: 'a', amount: 2})")
    assert asked == [2]
    assert len(office.done) == 2
    with pytest.raises(ValueError, match="names"):
        Decision.fixed_arguments()


async def test_invoke_has_no_text_to_foresee_calls_from() -> None:
    office, person = Office(FIRST), Person(ONCE)
    async with Client(office.server, mode="legacy", elicitation_handler=person.answer) as client:
        await client.call_tool("codecall:invoke", {"tool": "send", "input": {"to": "ann"}})
    assert list(person.forms[0]) == ["decision"]
    assert office.done == ["send ann"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_starlark_script_is_asked_for_ahead_too(mode: str) -> None:
    office, person = Office(FIRST, starlark=True), Person((ALL, {"calls-1": 2}))
    async with office.client(person, mode=mode) as client:
        script = "send(to='ann')\nreturn send(to='ben')"
        result = await client.call_tool("execute_tool_script", {"script": script})
    assert not result.is_error
    assert office.done == ["send ann", "send ben"]
    assert "Lines of the script: 1, 2\nNumber of calls: not known\nInput: any\n" in person.questions[0]
