"""What a composite tool has read is followed though it does not run again: its answer is in a record, or a cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.server.middleware.caching import CallToolSettings, ResponseCachingMiddleware
from fastmcp_tasks import TasksExtension, ToolTask
from key_value.aio.stores.memory import MemoryStore

from codecall import CodeCallPlugin, CompositeTools, envelopes
from codecall.approvals import flows
from codecall.approvals.flows import FlowRules, Source
from codecall.approvals.folder import ApprovalFolder
from codecall.approvals.options import FlowRule
from codecall.resume.store import COLLECTION
from tests.approvals.conftest import DENY, Raw, run
from tests.approvals.test_flows import ASKED, DENIED, SECRET, Servers
from tests.meta_tools.test_tasks import Gate, begun

pytestmark = pytest.mark.anyio


def workflow(name: str, *tools: str, **more: Any) -> dict[str, Any]:
    """A composite tool that calls these tools side by side, and gives all that they return."""
    steps = [{"id": f"s{number}", "tool": tool, "arguments": {}} for number, tool in enumerate(tools)]
    texts = " ".join(f"{{{{json .steps.{step['id']}.output}}}}" for step in steps)
    output = {"properties": {"text": {"type": "string", "description": "All", "value": texts}}}
    return {"name": name, "description": name, "steps": steps, "output": output, **more}


SCRIPT_TOOL = """/*
---
name: told
description: Tells what a tool says.
parameters: {type: object, properties: {tool: {type: string}, uri: {type: string}}}
---
*/
const {tool, uri} = codecallContext;
return uri ? await readResource(uri) : await callTool(tool, {});
"""

SENDER = {
    "name": "sender",
    "description": "Reads and sends",
    "steps": [
        {"id": "m", "tool": "digest", "arguments": {}},
        {"id": "p", "tool": "http:post", "arguments": {"body": "{{json .steps.m.output}}"}, "dependsOn": ["m"]},
    ],
}
COMPOSITES = [
    workflow("digest", "mail:read"),
    workflow("outer", "digest"),
    workflow("both", "notes:list", "mail:read"),
    workflow("notes", "notes:list"),
    SENDER,
]
READS = {
    "a workflow": "callTool('digest', {})",
    "one in another": "callTool('outer', {})",
    "steps side by side": "callTool('both', {})",
    "a script": "callTool('told', {tool: 'mail:read'})",
    "a workflow in a script": "callTool('told', {tool: 'digest'})",
    "a resource in a script": "callTool('told', {uri: 'mail://inbox'})",
    "a reference": "callTool('digest', {}, {reference: true})",
    "calls side by side": "Promise.all([callTool('notes', {}), callTool('digest', {})])",
}


def servers(path: Path, rules: Any = DENIED, **options: Any) -> Servers:
    """Servers with composite tools that read letters."""
    path.mkdir(exist_ok=True)
    (path / "told.js").write_text(SCRIPT_TOOL, encoding="utf-8")
    defaults: dict[str, Any] = {
        "composite_tools": [*COMPOSITES, str(path / "told.js")],
        "vm": {"preset": "secure", "reference_min_bytes": 1},
        "resume": {"store": MemoryStore()},
    }
    served = Servers(rules, **defaults | options)
    served.server.tool(lambda: ["a note of no secrets at all"], name="notes:list")
    served.server.resource("mail://inbox")(lambda: SECRET)
    return served


def post(read: str) -> str:
    """A script that reads and posts."""
    return f"const body = await {read}; return await callTool('http:post', {{body}})"


def end(read: str) -> str:
    """A script that reads and fails."""
    return f"const body = await {read}; throw new Error('later')"


async def resumed(served: Servers, read: str) -> Any:
    """The code, or the value, of posting what has been read in an earlier run, and in one before that."""
    async with Client(served.server, sampling_handler=model) as client:
        first = await run(client, end(read))
        second = await run(client, end(read), resumeFrom=first["runId"])
        third = await run(client, post(read), resumeFrom=second["runId"])
        assert third["resumed"]["calls"], third
    return third.get("result") or third["error"]["code"]


async def model(*_: object) -> str:
    return '"Something short about Friday"'


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_a_resumed_run_knows_what_its_values_are_made_of(tmp_path: Path, read: str) -> None:
    served = servers(tmp_path)
    assert (await resumed(served, read), served.sent) == ("FLOW_DENIED", [])


@pytest.mark.parametrize("read", ["callTool('notes', {})", "callTool('told', {tool: 'notes'})"])
async def test_what_is_made_of_nothing_that_a_rule_is_about_may_be_sent(tmp_path: Path, read: str) -> None:
    assert await resumed(servers(tmp_path), read) == "posted"


async def test_asking_again_is_no_decision(tmp_path: Path) -> None:
    folder = tmp_path / "desk"
    served = servers(tmp_path / "c", ASKED, approvals={"rules": [], "folder": str(folder)}, resume=None)
    async with Client(served.server) as client:
        for _ in range(3):
            error = (await run(client, post("callTool('outer', {})")))["error"]
            assert (error["code"], served.sent) == ("APPROVAL_REQUIRED", [])
            assert error["details"]["calls"][0]["sources"] == ["mail:read"]
        # The same within a composite tool, whose step calls another one.
        for _ in range(3):
            answer = await client.call_tool_mcp("sender", {})
            assert answer.structured_content is not None
            assert (answer.structured_content["code"], served.sent) == ("APPROVAL_REQUIRED", [])
        desk = ApprovalFolder(folder)
        for call in desk.pending():
            assert desk.decide(call["id"], "once")
        assert (await run(client, post("callTool('outer', {})")))["result"] == "posted"
        assert len(served.sent) == 1


async def test_a_task_that_starts_again_knows_what_its_values_are_made_of(tmp_path: Path) -> None:
    gate = Gate()
    served = servers(tmp_path, tasks=True, shutdown={"grace_s": 0})
    served.server.tool(gate.__call__, name="wait")
    served.server.add_extension(TasksExtension(name=f"office-{uuid4()}", concurrency=2))
    script = post("callTool('outer', {})").replace(";", "; await callTool('wait', {});", 1)
    with anyio.fail_after(40):
        async with Client(served.server) as client:
            task = await begun(client, script)
            await gate.reached.wait()
            await served.plugin.drain()
            await gate.left.wait()
        gate.open.set()
        async with Client(served.server) as client:
            result = await ToolTask(client, "codecall:execute", task.create_result).result()
    assert result.structured_content["resumed"]["calls"] == [{"number": 1, "toolName": "outer"}]
    assert (result.structured_content["error"]["code"], served.sent) == ("FLOW_DENIED", [])


async def test_an_extracted_value_keeps_its_sources_though_the_script_reads_nothing_any_more(tmp_path: Path) -> None:
    """In the record a digest stands for a reference, and a text may look like one."""
    served = servers(tmp_path, extract=True)
    value = json.dumps(served.read(), separators=(",", ":")).encode()
    digest = f"sha256:{hashlib.sha256(value).hexdigest()}"
    read = "const letter = await callTool('mail:read', {}, {reference: true});"
    async with Client(served.server, sampling_handler=model) as client:
        failed = await run(client, f"{read} await extract([letter.$reference], 'string'); throw new Error('later')")
        assert failed["error"]["code"] == "EXECUTION_ERROR"
        again = await run(client, post(f"extract(['{digest}'], 'string')"), resumeFrom=failed["runId"])
    assert again["resumed"]["calls"], again
    assert (again["error"]["code"], served.sent) == ("FLOW_DENIED", [])


async def test_a_run_that_another_instance_goes_on_with_knows_what_its_values_are_made_of(tmp_path: Path) -> None:
    key = "a key that all instances have, of 32 characters and more"
    store = MemoryStore()
    one, two = (servers(tmp_path, ASKED, resume={"store": store}, state_key=key) for _ in range(2))

    async def person(*_: object) -> ElicitResult[Any]:
        raise AssertionError

    options: dict[str, Any] = {"mode": "2026-07-28", "elicitation_handler": person}
    async with Client(one.server, **options) as at_one, Client(two.server, **options) as at_two:
        failed = await run(at_one, end("callTool('outer', {})"))
        # No run within a call: that is in the record. So the run may move.
        arguments = {"script": post("callTool('outer', {})"), "resumeFrom": failed["runId"]}
        asked = await Raw(at_one).ask(arguments)
        (question,) = asked.input_requests.values()
        assert "It is given what these have returned: mail:read\n" in question.params.message
        answer = await Raw(at_two).go_on(asked, arguments, DENY)
        assert answer["error"]["code"] == "APPROVAL_DENIED"
    assert one.sent + two.sent == []


class Forgetful(MemoryStore):
    """A store whose entries say no longer what values are made of, as those of older versions."""

    async def put(self, key: str, value: Mapping[str, Any], **options: Any) -> None:
        entry = dict(value)
        if options.get("collection") == COLLECTION:
            entry.pop("made_of", None)
        await super().put(key, entry, **options)


@pytest.mark.parametrize("read", ["callTool('digest', {})", "callTool('notes', {})", "callTool('notes:list', {})"])
async def test_a_record_that_does_not_say_counts_as_made_of_everything(tmp_path: Path, read: str) -> None:
    rules = [{"from": "crm:*", "to": "http:*", "action": "allow"}, *DENIED]
    served = servers(tmp_path, rules, resume={"store": Forgetful()})
    assert (await resumed(served, read), served.sent) == ("FLOW_DENIED", [])


async def test_a_record_of_a_time_without_rules_counts_as_made_of_everything(tmp_path: Path) -> None:
    store = MemoryStore()
    before, now = (servers(tmp_path, rules, resume={"store": store}) for rules in ((), DENIED))
    async with Client(before.server) as client:
        failed = await run(client, end("callTool('digest', {})"))
    async with Client(now.server) as client:
        answer = await run(client, post("callTool('digest', {})"), resumeFrom=failed["runId"])
    assert (answer["error"]["code"], now.sent) == ("FLOW_DENIED", [])


async def test_other_rules_find_other_sources_in_a_record(tmp_path: Path) -> None:
    store = MemoryStore()
    other = [{"from": "crm:*", "to": "http:*", "action": "deny"}]
    before, now = (servers(tmp_path, rules, resume={"store": store}) for rules in (other, DENIED))
    async with Client(before.server) as client:
        failed = await run(client, f"await callTool('notes', {{}}); {end(READS['one in another'])}")
    async with Client(now.server) as client:
        script = "const note = await callTool('notes', {}); await callTool('http:post', {body: note});"
        answer = await run(client, script + post(READS["one in another"]), resumeFrom=failed["runId"])
    assert answer["error"]["message"] == "Tool 'http:post' may not be given what mail:read returned"
    assert len(now.sent) == 1


async def test_a_value_made_of_more_than_is_told_apart_counts_as_made_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelopes, "MAX_SOURCES", 1)
    served = servers(tmp_path, [{"from": "crm:*", "to": "http:*", "action": "deny"}])
    assert await resumed(served, "callTool('digest', {})") == "posted"
    assert await resumed(served, "callTool('both', {})") == "FLOW_DENIED"


async def test_sources_beyond_those_that_are_told_apart_count_as_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "MAX_FOLLOWED_SOURCES", 1)
    served = servers(tmp_path, [{"from": "notes:*", "to": "page:*", "action": "deny"}, *DENIED])
    script = "await callTool('notes:list', {}); " + post("callTool('mail:read', {})")
    answer = await served.execute(script)
    assert answer["error"]["message"] == "Tool 'http:post' may not be given what other tools returned"


def test_of_a_source_that_is_not_known_the_strictest_rule_decides() -> None:
    rules = FlowRules(
        FlowRule.model_validate({"from": source, "to": to, "action": action})
        for source, to, action in (("a", "x", "allow"), ("b", "x", "ask"), ("c", "x", "deny"), ("d", "y", "ask"))
    )
    assert rules.ruling([Source("a")], "x").action == "allow"
    assert rules.ruling([Source("a", is_known=False)], "x") == ("deny", 3, ("a",))
    assert rules.ruling([Source("a", is_known=False), Source("b")], "y") == ("ask", 4, ("a",))


@pytest.mark.parametrize("read", ["callTool('digest', {})", "callTool('outer', {})"])
@pytest.mark.parametrize("cached", ["digest", "outer", "mail:read"])
async def test_what_a_cache_answers_counts_as_made_of_everything(tmp_path: Path, read: str, cached: str) -> None:
    served = servers(tmp_path, resume=None)
    served.server.add_middleware(
        ResponseCachingMiddleware(call_tool_settings=CallToolSettings(included_tools=[cached]))
    )
    for _ in range(2):
        answer = await served.execute(post(read))
        assert (answer["error"]["code"], served.sent) == ("FLOW_DENIED", [])


SEND = workflow("send", "http:post", parameters={"properties": {"text": {"type": "string"}}})
SEND["steps"][0]["arguments"] = {"body": "{{.params.text}}"}
SENDS = "return callTool('send', {text: (await callTool('mail:read', {})).subject})"


@pytest.mark.parametrize("rules", [(), [{"from": "crm:*", "to": "http:*", "action": "deny"}]])
@pytest.mark.parametrize("script", [post("callTool('digest', {})"), SENDS])
async def test_rules_hold_in_the_composite_tools_of_a_provider(rules: Any, script: str) -> None:
    served = Servers(DENIED, mode="additive")
    served.server.add_provider(CompositeTools(COMPOSITES[0], SEND, flows=rules))
    answer = await served.execute(script)
    assert (answer["error"]["code"], served.sent) == ("FLOW_DENIED", [])


def mounted(path: Path, rules: Any, names: dict[str, str] | None = None) -> tuple[FastMCP[Any], Servers]:
    """A server on which another with composite tools is mounted."""
    inner, outer = servers(path, (), composite_tools=[*COMPOSITES, SEND, str(path / "told.js")]), FastMCP[Any]("outer")

    async def report(ctx: Context) -> Any:
        """What a script of the server says."""
        script = "return (await callTool('mail:read', {})).subject"
        answer = await ctx.fastmcp.call_tool("codecall:execute", {"script": script})
        return answer.structured_content

    inner.server.tool(report)
    outer.mount(inner.server, None if names else "ops", tool_names=names)
    options: dict[str, Any] = {"resume": {"store": MemoryStore()}, "mode": "additive", "pool": {"min_workers": 0}}
    CodeCallPlugin.init(flows=rules, **options).install(outer)
    return outer, inner


OPS = [{"from": ["ops_mail:*", "mail://ops/*"], "to": "ops_http:*", "action": "deny"}]


@pytest.mark.parametrize(
    "read",
    [
        "digest', {}",
        "outer', {}",
        "told', {tool: 'mail:read'}",
        "told', {tool: 'digest'}",
        "told', {uri: 'mail://inbox'}",
    ],
)
async def test_a_mounted_server_has_other_names_for_the_same_tools(tmp_path: Path, read: str) -> None:
    server, inner = mounted(tmp_path, OPS)
    async with Client(server) as client:
        script = post(f"callTool('ops_{read})").replace("http:post", "ops_http:post")
        assert (await run(client, script))["error"]["code"] == "FLOW_DENIED"
        failed = await run(client, end(f"callTool('ops_{read})"))
        assert (await run(client, script, resumeFrom=failed["runId"]))["error"]["code"] == "FLOW_DENIED"
        note = post("callTool('ops_notes', {})").replace("http:post", "ops_http:post")
        assert (await run(client, note))["result"] == "posted"
    assert len(inner.sent) == 1


async def test_a_mounted_composite_tool_is_given_nothing_for_a_tool_that_may_not_have_it(tmp_path: Path) -> None:
    server, inner = mounted(tmp_path, OPS)
    async with Client(server) as client:
        script = SENDS.replace("send'", "ops_send'").replace("mail:", "ops_mail:")
        assert (await run(client, script))["error"]["code"] == "FLOW_DENIED"
        assert (await run(client, "return callTool('ops_send', {text: 'Nothing of all that'})"))["status"] == "ok"
    assert inner.sent == ["Nothing of all that"]


@pytest.mark.parametrize("name", ["summary", "report"])
async def test_where_names_of_a_mounted_server_cannot_be_known_a_value_may_be_of_anything(
    tmp_path: Path, name: str
) -> None:
    rules = [{"from": "letters", "to": "http:*", "action": "deny"}]
    server, inner = mounted(tmp_path, rules, {"mail:read": "letters", "digest": "summary"})
    async with Client(server) as client:
        answer = await run(client, post(f"callTool('{name}', {{}})"))
    assert (answer["error"]["code"], inner.sent) == ("FLOW_DENIED", [])
