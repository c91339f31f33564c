"""`EVENTS` lists every event, and every field that real runs record."""

from __future__ import annotations

from collections import defaultdict
from typing import get_args

import pytest
from fastmcp import Client, FastMCP

from codecall import ApprovalRequest, AuditEvent, CodeCallPlugin, Decision
from codecall.audit.events import EVENTS, EventName

SCRIPTS = (
    "console.log('x'); return await callTool('sum', { a: 1 });",
    "return eval('1');",
    "await callTool('fail');",
    "return await callTool('other');",
    "return await callTool('sum', { a: await callTool('sum', { a: 'ab'.repeat(9) }) });",
)


def test_every_event_is_listed_once():
    assert [event.name for event in EVENTS] == [*get_args(EventName)]


async def _allow(_request: ApprovalRequest) -> Decision:
    return Decision.several(2)


@pytest.mark.parametrize("with_values", [False, True])
async def test_the_fields_of_real_events_are_the_listed_ones(with_values: bool):
    recorded: dict[str, set[str]] = defaultdict(set)

    def record(event: AuditEvent) -> None:
        recorded[event.name].update(event.fields)

    server = FastMCP("events")
    server.tool(lambda a: a, name="sum")
    server.tool(lambda: 1 / 0, name="fail")
    server.tool(lambda: 1, name="other")
    audit = {"sinks": [record], "include_arguments": with_values, "include_results": with_values}
    asking = {"tools": ["fail"], "action": "ask"}
    approvals = {"rules": [asking, {"action": "allow"}], "approver": _allow}
    flows = [{"from": "sum", "to": "sum", "action": "deny"}]
    CodeCallPlugin.init(audit=audit, approvals=approvals, flows=flows).install(server)
    async with Client(server) as client:
        for script in SCRIPTS:
            arguments = {"script": script, "context": {"a": 1}, "allowedTools": ["sum", "fail"]}
            await client.call_tool("codecall:execute", arguments)
        await client.call_tool("codecall:invoke", {"tool": "sum", "input": {"a": 1}})
        await client.call_tool("codecall:invoke", {"tool": "__private", "input": {}})
    values = {"script", "context", "input", "result", "console", "warnings", "error"}
    needs_a_store = {"resumed_from"}
    for event in EVENTS[:-1]:  # the last is told of sinks that lose events
        listed = set(event.fields)
        assert recorded[event.name] <= listed
        left_out = listed - recorded[event.name] - needs_a_store
        assert left_out <= (set() if with_values else values), event.name
