"""A proxied server whose results are not of the protocol: its trouble, not the caller's input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult
from pydantic import BaseModel

from codecall.errors import InvalidInputError, ToolCallError
from codecall.fastmcp_errors import UNREADABLE_HINT
from tests.calls.test_resources_and_prompts import Reader
from tests.gateway.listing_servers import PROGRAM, Listed, tool


@pytest.fixture(autouse=True)
def far(tmp_path: Path, mcp: FastMCP[Any]) -> Listed:
    """A server behind a proxy that is mounted."""
    listed = Listed(tmp_path, "far")
    listed.say(
        tool("order"),
        resources=[{"uri": "x://r", "name": "r"}],
        prompts=[{"name": "p"}],
        answers={
            "order": {"structuredContent": {"order": 7}},
            "x://r": {"contents": [{"uri": "x://r", "text": 5}]},
            "p": {"messages": [{"role": "system", "content": {"type": "text", "text": "hi"}}]},
        },
    )
    transport = StdioTransport(sys.executable, [str(PROGRAM), str(listed.file)])
    mcp.mount(create_proxy(Client(transport)), "far")
    return listed


async def test_a_proxied_tools_result_that_cannot_be_read_is_no_invalid_input(far: Listed, caller: Any) -> None:
    error = await caller.call("far_order", {})
    assert type(error) is ToolCallError
    assert (error.code, error.hint) == ("TOOL_EXECUTION_ERROR", UNREADABLE_HINT)
    assert error.message == "Tool 'far_order' gave an answer that cannot be read: content: Field required"
    assert far.asked.count("tools/call") == 1


@pytest.mark.parametrize(
    ("kind", "name", "fault"),
    [
        ("read", "x://far/r", "contents[0].TextResourceContents.text: Input should be a valid string"),
        ("prompt", "far_p", "messages[0].role: Input should be 'assistant' or 'user'"),
    ],
)
async def test_so_it_is_of_resources_and_prompts(
    far: Listed, mcp: FastMCP[Any], kind: str, name: str, fault: str
) -> None:
    error = await getattr(Reader(mcp), kind)(name)
    assert type(error) is ToolCallError
    assert error.message.endswith(f" gave an answer that cannot be read: {fault}")
    assert error.hint == UNREADABLE_HINT


async def test_a_tool_that_validates_its_own_arguments_still_says_which_are_wrong(
    mcp: FastMCP[Any], caller: Any
) -> None:
    class Arguments(BaseModel):
        count: int

    class Own(Tool):
        async def run(self, arguments: dict[str, Any], context: Any = None) -> ToolResult:
            return ToolResult(content=str(Arguments.model_validate(arguments).count))

    mcp.add_tool(Own(name="own", parameters={"type": "object"}))
    error = await caller.call("own", {"count": "many"})
    assert isinstance(error, InvalidInputError)
    assert error.details[0]["field"] == "count"
