"""Results that are not of the protocol: the server is named, not the caller's input, and nothing is said to be safe."""

from __future__ import annotations

import re
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from mcp import MCPError

from tests.gateway.listing_servers import Listed, gateway, tool

HINT = "The call may have taken effect: check before you repeat it. Of an answer that is too large, ask for less."
ANSWERS: dict[str, tuple[Any, str]] = {
    "block": ({"content": [{"type": "zzz", "text": "order 7"}]}, "content[0].TextContent.type: Input should be 'text'"),
    "none": ({"structuredContent": {"order": 7}}, "content: Field required"),
    "list": ({"content": [], "structuredContent": [1]}, "structuredContent: Input should be a valid dictionary"),
    "long": (
        {"content": [*[{"type": "text", "text": "x"}] * 300, {"type": "zzz"}]},
        "content[300].TextContent.type: Input should be 'text'",
    ),
    "text": ("x", "it is no valid message"),
    "questions": (
        {"content": "x", "inputRequests": {"\u202e" + "x" * 5_000: "https://secret.example"}},
        "content: Input should be a valid list",
    ),
}


def server(folder: Path) -> Listed:
    """A server whose answers cannot be read."""
    listed = Listed(folder, "far")
    unreadable: dict[str, object] = {name: result for name, (result, _) in ANSWERS.items()}
    unreadable |= {"x://r": {}, "x://blob": {"contents": [{"uri": "x://blob", "blob": "a"}]}}
    unreadable |= {"p": {"messages": [{"role": "system", "content": {"type": "text", "text": "hi"}}]}}
    unreadable["completion/complete"] = {"completion": {"values": [1, 2]}}
    listed.say(
        *(tool(name) for name in ANSWERS),
        resources=[{"uri": "x://r", "name": "r"}, {"uri": "x://blob", "name": "blob"}],
        prompts=[{"name": "p", "arguments": [{"name": "a"}]}],
        capabilities={"completions": {}},
        answers=unreadable,
    )
    return listed


def said(reason: str) -> str:
    return f"Server 'far' gave an answer that cannot be read: {reason}"


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_result_that_is_not_of_the_protocol_is_the_servers_fault(tmp_path: Path, name: str) -> None:
    far, reason = server(tmp_path), ANSWERS[name][1]
    async with gateway(tmp_path, far) as gate, Client(gate.server) as client:
        direct = await client.call_tool(f"far_{name}", {}, raise_on_error=False)
        assert isinstance(direct.content[0], mcp_types.TextContent)
        assert direct.content[0].text.endswith(f"SERVER_UNAVAILABLE: {said(reason)}. {HINT}")
        ran = await client.call_tool("codecall_execute", {"script": f"return far.{name}({{}})"})
        error = ran.structured_content["error"]
        assert (error["code"], error["message"], error["hint"]) == ("SERVER_UNAVAILABLE", said(reason), HINT)
    assert far.asked.count("tools/call") == 2


async def test_so_it_is_of_resources_prompts_and_completions(tmp_path: Path) -> None:
    far = server(tmp_path)
    async with gateway(tmp_path, far) as gate, Client(gate.server) as client:

        async def refused(request: Awaitable[object], reason: str) -> None:
            with pytest.raises(MCPError, match=re.escape(said(reason))) as failure:
                await request
            assert HINT in str(failure.value)
            assert "pydantic" not in str(failure.value)

        for name, reason in {"r": "contents: Field required", "blob": "contents.blob: Invalid base64-encoded"}.items():
            (uri,) = [each.uri for each in await client.list_resources() if each.name == name]
            await refused(client.read_resource(uri), reason)
        prompt = mcp_types.PromptReference(type="ref/prompt", name="far_p")
        await refused(client.get_prompt("far_p"), "messages[0].role: Input should be 'assistant' or 'user'")
        await refused(
            client.complete(prompt, {"name": "a", "value": ""}),
            "completion.values[0]: Input should be a valid string",
        )
