"""Half a surrogate pair, wherever it comes from, never keeps an answer from its client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.loop_turns import assert_turns_below, longest_gap

HALF = "\ud800"


@pytest.fixture
def odd(shop: Any) -> Any:
    """The shop with tools that fail with, repeat, or describe themselves in such text."""

    def lost() -> None:
        raise ValueError("no file x\udc80.txt")

    def fail(text: str) -> None:
        raise ValueError(json.loads(text))

    def coded() -> None:
        raise ValueError('{"code": "BAD_NAME", "message": "x\udc80", "details": {"\udc80": ["\udc80"]}}')

    def echo(text: str) -> str:
        return text

    shop.server.tool(lost)
    shop.server.tool(fail)
    shop.server.tool(coded)
    shop.server.tool(echo)
    shop.server.tool(lambda: 1, name="described", description="odd \ud800 words", output_schema=None)
    return shop


async def both(shop: Any, tool: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    script = "return await callTool(codecallContext.tool, codecallContext.input)"
    executed = await shop.ask("codecall:execute", script=script, context={"tool": tool, "input": arguments})
    invoked = await shop.ask("codecall:invoke", tool=tool, input=arguments)
    return [executed["error"], invoked["error"]]


async def test_in_the_error_of_a_tool(odd: Any) -> None:
    for error in await both(odd, "lost", {}):
        assert (error["code"], error["message"]) == ("TOOL_EXECUTION_ERROR", "no file x\ufffd.txt")
    for error in await both(odd, "fail", {"text": '"got \\ud800"'}):
        assert error["message"] == "got \ufffd"
    for error in await both(odd, "coded", {}):
        assert (error["code"], error["message"], error["details"]) == ("BAD_NAME", "x\ufffd", {"\ufffd": ["\ufffd"]})


async def test_in_allowed_tools(odd: Any) -> None:
    script = "return await callTool('lost', {})"
    envelope = await odd.ask("codecall:execute", script=script, allowedTools=[HALF])
    assert envelope["error"]["code"] == "ACCESS_DENIED"
    assert envelope["error"]["hint"] == "No call was made. Allowed here: \ufffd."


async def test_in_the_name_of_a_tool(odd: Any) -> None:
    error = (await odd.ask("codecall:invoke", tool=HALF, input={}))["error"]
    assert (error["code"], error["toolName"]) == ("TOOL_NOT_FOUND", "\ufffd")
    assert await odd.ask("codecall:describe", toolNames=[HALF]) == {"tools": [], "notFound": ["\ufffd"]}


async def test_in_a_query(odd: Any) -> None:
    for query in (HALF, [HALF, f"list {HALF} users"]):
        assert "tools" in await odd.ask("codecall:search", query=query)
    answer = await odd.ask("codecall:search", query="users", excludeToolNames=[HALF], filter={"tags": [HALF]})
    assert len(answer["warnings"]) == 3


async def test_in_a_value_and_in_a_description(odd: Any) -> None:
    assert await odd.ask("codecall:invoke", tool="echo", input={"text": HALF}) == {"status": "ok", "result": "\ufffd"}
    (tool,) = (await odd.ask("codecall:describe", toolNames=["described"]))["tools"]
    assert tool["description"] == "odd \ufffd words"


async def test_in_a_context(odd: Any) -> None:
    refusal = await odd.refusal("codecall:execute", script="return 1", context={"a": HALF})
    assert refusal == "codecall:execute: context: holds text that is not valid Unicode"


LARGE = '["\\ud800",' + "[]," * 1_000_000 + "[]]"

READING = {
    "invoke": ("codecall:invoke", {"tool": "large", "input": {}}),
    "a script": ("codecall:execute", {"script": "return (await callTool('large', {}, {reference: true})).bytes"}),
    "a resource": (
        "codecall:execute",
        {"script": "return (await readResource('large://it', {reference: true})).bytes"},
    ),
}


@pytest.mark.parametrize("how", READING)
async def test_in_a_large_value_others_have_their_turn(shop: Any, how: str) -> None:
    shop.server.tool(lambda: LARGE, name="large", output_schema=None)
    shop.server.resource("large://it", mime_type="application/json")(lambda: LARGE)
    tool, arguments = READING[how]
    assert (await shop.ask(tool, **arguments))["status"] == "ok"
    await assert_turns_below(15, lambda: shop.result(tool, **arguments), longest_gap)
