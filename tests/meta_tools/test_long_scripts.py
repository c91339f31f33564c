"""A script that is too long costs the server next to nothing, whichever tool it is given to."""

from __future__ import annotations

import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin
from codecall.audit.events import AuditEvent
from codecall.sandbox.agentscript.policy import MAX_SCRIPT_BYTES
from tests.loop_turns import assert_turns_below

LINES = "\n" * 1_000_000
MOST_WORK = 25.0
"""Of one turn of the event loop: what parsing and checking a message of a megabyte takes; reading lines takes more."""


def server() -> tuple[FastMCP, list[AuditEvent]]:
    events: list[AuditEvent] = []
    mcp = FastMCP("shop")
    CodeCallPlugin.init(starlark=True, tool_files=True, audit={"sinks": [events.append]}).install(mcp)
    return mcp, events


TOOLS = {
    "codecall:execute": {"script": f"return 1{LINES}"},
    "execute_tool_script": {"script": f"x = 1{LINES}"},
    "executeToolCode": {"code": f"result = 1{LINES}"},
}


@pytest.mark.parametrize(("tool", "arguments"), TOOLS.items(), ids=TOOLS)
async def test_it_is_refused_without_being_read(tool: str, arguments: dict[str, str]) -> None:
    pytest.importorskip("starlark")
    mcp, events = server()
    async with Client(mcp) as client:
        await client.call_tool("codecall:execute", {"script": "return 1"})
        await client.call_tool(tool, dict.fromkeys(arguments, "x"), raise_on_error=False)
        await assert_turns_below(MOST_WORK, lambda: client.call_tool(tool, arguments, raise_on_error=False))
        result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert f"more than {MAX_SCRIPT_BYTES} bytes" in str(result.content[0])
    blocked = [event for event in events if event.name == "codecall.execute.blocked" and "line" not in event.fields]
    assert [dict(event.fields) for event in blocked][-1:] == [
        {"what": "script", "code": "VALIDATION_ERROR", "kind": "UnsafeSource"}
    ]


async def test_the_envelope_is_that_of_any_script_that_is_refused() -> None:
    pytest.importorskip("starlark")
    mcp, _ = server()
    async with Client(mcp) as client:
        answer = await client.call_tool("codecall:execute", {"script": "x = 1\n" * 20_000})
    envelope = answer.structured_content
    assert envelope is not None
    assert envelope.pop("runId").startswith("run_")
    assert envelope == {
        "status": "illegal_access",
        "error": {
            "code": "VALIDATION_ERROR",
            "message": "Script has more than 65536 bytes",
            "kind": "UnsafeSource",
            "location": {"line": 10_923, "column": 5, "text": "x = 1"},
            "hint": "Shorten the script to 65536 bytes; pass data through the context or a tool.",
        },
    }
