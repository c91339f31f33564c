"""Rules about what tools have returned: which later calls of the same run may be given it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from mcp.server.request_state import RequestStateSecurity

from codecall import AuditEvent, CodeCallPlugin
from codecall.approvals.fingerprints import BLOCK
from tests.approvals.conftest import DENY, ONCE, SAME_IN_RUN, SEVERAL, Office, Person, run

pytestmark = pytest.mark.anyio

SECRET = "The merger is announced on Friday"
DENIED = [{"from": "mail:*", "to": "http:*", "action": "deny"}]
ASKED = [{"from": "mail:*", "to": ["http:*", "page:*"], "action": "ask"}]


class Servers:
    """A mailbox and a way out of the house, with rules about what goes from one to the other."""

    def __init__(self, flows: Any, *, state_key: str = "", **options: Any) -> None:
        security = RequestStateSecurity(keys=[state_key]) if state_key else None
        self.server = FastMCP[Any]("office", request_state_security=security)
        self.events: list[AuditEvent] = []
        defaults: dict[str, Any] = {
            "vm": {"preset": "secure"},
            "pool": {"min_workers": 0},
            "audit": {"sinks": [self.events.append]},
        }
        self.plugin = CodeCallPlugin.init(**defaults | options, flows=flows)
        self.sent: list[Any] = []
        self.server.tool(self.read, name="mail:read")
        self.server.tool(self.count, name="mail:count")
        self.server.tool(self.post, name="http:post")
        self.server.tool(self.keep, name="notes:keep")
        self.server.resource("page://{path}")(self.page)
        self.server.prompt(self.write, name="http:write")
        self.plugin.install(self.server)

    def read(self, number: int = 1) -> dict[str, Any]:
        """Read a letter."""
        return {"subject": SECRET, "to": ["ann", "ben", "eve", "joe"], "number": number, "card": 4111111111111111}

    def count(self) -> int:
        """Count letters."""
        return 12

    def post(self, body: Any, title: str = "") -> str:
        """Post a text."""
        self.sent.append(body)
        return "posted"

    def keep(self, body: Any) -> Any:
        """Keep a note."""
        return body

    def page(self, path: str) -> str:
        """A page of the web."""
        self.sent.append(path)
        return path

    def write(self, topic: str) -> str:
        """A prompt of another server."""
        self.sent.append(topic)
        return topic

    async def execute(self, script: str, person: Person | None = None, mode: str = "legacy") -> dict[str, Any]:
        """The envelope of one script."""
        handler = person.answer if person is not None else None
        async with Client(self.server, mode=mode, elicitation_handler=handler) as client:
            return await run(client, script)

    async def posted(self, expression: str) -> Any:
        """The code of the error, or the value, of posting what `expression` makes of the letter `mail`."""
        script = f"""
          const mail = await callTool('mail:read', {{}});
          const answer = await callTool('http:post', {{body: {expression}}}, {{throwOnError: false}});
          return answer.success ? answer.data : answer.error.code"""
        return (await self.execute(script))["result"]


@pytest.mark.parametrize(
    "expression",
    [
        "mail.subject",
        "`Did you know? ${mail.subject}. Yes!`",
        "mail.subject.slice(2, 30)",
        "mail.subject.toUpperCase()",
        "mail.subject.split(' ').join('\\n')",
        "[{deep: {er: mail.subject}}]",
        "({[mail.subject]: 1})",
        "JSON.stringify(mail)",
        "'Items [12\"]: ' + JSON.stringify(mail.to)",
        '`<a b="[">${JSON.stringify(mail.to, null, 1)}</a>`',
        "mail.to",
        "({people: mail.to})",
        "mail",
        "({number: mail.number, card: 0, to: mail.to, subject: ''})",
        "mail.card",
        "String(mail.card)",
    ],
)
async def test_what_a_tool_returned_is_found_in_the_input_of_another(expression: str) -> None:
    servers = Servers(DENIED)
    assert await servers.posted(expression) == "FLOW_DENIED"
    assert servers.sent == []


@pytest.mark.parametrize(
    "expression",
    [
        "mail.number",
        "mail.to.length",
        "mail.to[0]",
        "'Something that no letter says'",
        f"'{SECRET}'",
        "mail.to.slice(1)",
    ],
)
async def test_what_is_short_or_the_scripts_own_is_not(expression: str) -> None:
    servers = Servers(DENIED)
    assert await servers.posted(expression) == "posted"


async def test_a_tool_that_no_rule_is_about_gives_and_takes_anything() -> None:
    servers = Servers(DENIED)
    script = """
      const mail = await callTool('mail:read', {});
      const kept = await callTool('notes:keep', {body: mail.subject});
      return callTool('http:post', {body: kept.length})"""
    assert (await servers.execute(script))["result"] == "posted"
    assert not [event for event in servers.events if event.name == "codecall.approval"]


async def test_a_value_that_went_through_another_tool_is_still_found() -> None:
    servers = Servers(DENIED)
    script = """
      const mail = await callTool('mail:read', {});
      return callTool('http:post', {body: await callTool('notes:keep', {body: mail.subject})})"""
    assert (await servers.execute(script))["error"]["code"] == "FLOW_DENIED"


async def test_a_value_passed_by_reference_is_found() -> None:
    servers = Servers(DENIED, vm={"preset": "secure", "reference_min_bytes": 1})
    script = """
      const mail = await callTool('mail:read', {}, {reference: true});
      return callTool('http:post', {body: mail})"""
    answer = await servers.execute(script)
    assert answer["error"]["code"] == "FLOW_DENIED"
    assert answer["error"]["message"] == "Tool 'http:post' may not be given what mail:read returned"


async def test_a_uri_and_a_prompt_carry_values_too() -> None:
    servers = Servers([{"from": "mail:*", "to": ["page:*", "http:*"], "action": "deny"}])
    script = """
      const {subject} = await callTool('mail:read', {});
      const codes = [];
      for (const attempt of [
        () => readResource(`page://${encodeURIComponent(subject)}`),
        () => getPrompt('http:write', {topic: subject}),
        () => readResource('page://news'),
      ]) {
        try { codes.push(typeof await attempt()) } catch (error) { codes.push(error.code) }
      }
      return codes"""
    assert (await servers.execute(script))["result"] == ["FLOW_DENIED", "FLOW_DENIED", "string"]
    assert servers.sent == ["news"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_person_is_asked_and_told_where_the_value_is_from(mode: str) -> None:
    servers, person = Servers(ASKED), Person(ONCE, DENY)
    script = """
      const mail = await callTool('mail:read', {});
      const first = await callTool('http:post', {body: mail.subject});
      await callTool('http:post', {body: 'nothing'});
      const uri = `page://${encodeURIComponent(mail.subject)}`;
      try { await readResource(uri) } catch (error) { return [first, error.code] }"""
    assert (await servers.execute(script, person, mode))["result"] == ["posted", "APPROVAL_DENIED"]
    assert "It is given what these have returned: mail:read\n" in person.questions[0]
    assert person.questions[1].startswith("May this resource be asked for?\n\nResource: page://The%20merger")
    assert len(person.questions) == 2
    noted: list[Any] = [event.fields for event in servers.events if event.name == "codecall.approval"]
    assert [(fields["decision"], list(fields["sources"])) for fields in noted] == [
        ("allowed", ["mail:read"]),
        ("denied", ["mail:read"]),
    ]


async def test_without_anybody_to_ask_the_run_ends() -> None:
    servers = Servers(ASKED)
    script = "return callTool('http:post', {body: (await callTool('mail:read', {})).subject})"
    error = (await servers.execute(script))["error"]
    assert error["code"] == "APPROVAL_REQUIRED"
    assert error["details"]["calls"][0]["sources"] == ["mail:read"]


@pytest.mark.parametrize("answer", [(SEVERAL, 9), SAME_IN_RUN])
async def test_what_was_allowed_for_a_call_is_not_allowed_for_one_that_carries_more(answer: Any) -> None:
    office, person = Office(flows=[{"from": "read", "to": "send", "action": "ask"}]), Person(answer, DENY)
    office.server.tool(lambda: "send this to nobody at all", name="letter")
    script = """
      const to = 'letter 1 which is the longest';
      await callTool('send', {to});
      const read = await callTool('read', {number: 1234567});
      try { await callTool('send', {to: read}) } catch (error) { return error.code }"""
    assert (await office.execute(script, person))["result"] == "APPROVAL_DENIED"
    assert office.done == ["send letter 1 which is the longest", "read 1234567"]


async def test_the_first_rule_decides_for_each_source_and_the_strictest_source_for_the_call() -> None:
    rules = [
        {"from": "mail:count", "to": "*", "action": "deny"},
        {"from": "mail:*", "to": "notes:*", "action": "allow"},
        {"from": "*", "to": "*", "action": "deny"},
    ]
    servers = Servers(rules)
    script = """
      const mail = await callTool('mail:read', {});
      await callTool('notes:keep', {body: mail});
      try { await callTool('http:post', {body: mail}) } catch (error) { return error.code }"""
    assert (await servers.execute(script))["result"] == "FLOW_DENIED"


async def test_runs_know_nothing_of_each_other() -> None:
    servers = Servers(DENIED)
    async with Client(servers.server) as client:
        await run(client, "return callTool('mail:read', {})")
        assert (await run(client, f"return callTool('http:post', {{body: {json.dumps(SECRET)}}})"))["status"] == "ok"


STEPS: dict[str, Any] = {
    "name": "forward",
    "description": "Forward a letter.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string", "default": "none"}}},
    "steps": [
        {"id": "mail", "tool": "mail:read", "arguments": {}},
        {
            "id": "post",
            "tool": "http:post",
            "dependsOn": ["mail"],
            "arguments": {"body": "{{.steps.mail.output.subject}} {{.params.text}}"},
        },
    ],
}
FETCH: dict[str, Any] = {"name": "fetch", "description": "Fetch a letter.", "steps": [STEPS["steps"][0]]}
PUBLISH: dict[str, Any] = {
    **STEPS,
    "name": "publish",
    "description": "Publish a text.",
    "steps": [{"id": "post", "tool": "http:post", "arguments": {"body": "News: {{.params.text}}"}}],
}


async def test_the_steps_of_a_composite_tool_are_followed_too() -> None:
    servers = Servers(DENIED, composite_tools=[STEPS])
    async with Client(servers.server) as client:
        result = await client.call_tool("forward", {}, raise_on_error=False)
    assert "may not be given what mail:read returned" in str(result.content)
    assert servers.sent == []


async def test_a_value_is_followed_out_of_a_composite_tool_and_into_one() -> None:
    servers = Servers(DENIED, composite_tools=[FETCH, PUBLISH])
    outward = "const {output} = await callTool('fetch', {}); return callTool('http:post', {body: output})"
    inward = "const mail = await callTool('mail:read', {}); return callTool('publish', {text: mail.subject})"
    for script in (outward.replace("{output}", "value").replace("output", "value"), inward):
        answer = await servers.execute(script)
        assert "may not be given what mail:read returned" in answer["error"]["message"]
    assert servers.sent == []


async def test_starlark_is_followed_too() -> None:
    servers = Servers(DENIED, starlark=True)
    script = "mail = call_tool('mail:read')\nreturn call_tool('http:post', body = mail['subject'])"
    async with Client(servers.server) as client:
        result = await client.call_tool("execute_tool_script", {"script": script}, raise_on_error=False)
    assert "may not be given" in str(result.content)
    assert servers.sent == []


def test_the_shortest_text_that_is_followed() -> None:
    assert BLOCK == 12
