"""What a call was refused for is gone once the call has failed, with the error still there and no garbage collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.tools.base import ToolResult
from mcp_types import TextContent

from codecall import CodeCallPlugin
from codecall.errors import ToolCallError
from codecall.sandbox.enclave import Enclave
from tests.calls.conftest import Caller
from tests.gateway.backends import wait_until

LARGE = 1_200_000
"""Characters, more than one value may have under these limits; they are encoded in a thread."""
LIMITS = {"memory_mb": 4, "max_result_bytes": 64 * 1024}

Kept = list["weakref.ref[Any]"]


class Value:
    """Something that a tool works on."""


def text() -> ToolResult:
    return ToolResult(content=[TextContent(type="text", text="a" * LARGE)])


def no_utf8() -> ToolResult:
    return ToolResult(content=[TextContent(type="text", text="\ud800" + "a" * LARGE)])


def structured() -> ToolResult:
    return ToolResult(content=[], structured_content={"a": "a" * LARGE})


def failed() -> ToolResult:
    return ToolResult(content=[TextContent(type="text", text="no" * LARGE)], is_error=True)


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def add_tools(server: FastMCP[Any]) -> Kept:
    """Tools whose calls fail; a reference to each value that they have worked on."""
    kept: Kept = []

    def add(name: str, make: Callable[[], ToolResult]) -> None:
        @server.tool(name=name)
        def tool() -> ToolResult:
            kept.append(weakref.ref(result := make()))
            return result

    for make in (text, no_utf8, structured, failed):
        add(make.__name__, make)

    @server.tool
    async def raising() -> str:
        value = Value()
        kept.append(weakref.ref(value))
        raise ToolError(f"no {type(value).__name__}")

    @server.resource("data://large")
    def large() -> ResourceResult:
        kept.append(weakref.ref(result := ResourceResult(contents=[ResourceContent("a" * LARGE)])))
        return result

    return kept


async def assert_gone(kept: Kept, count: int) -> None:
    """So many values were there, and none is any more. A thread lets go of one just after its result is known."""
    assert len(kept) == count
    await wait_until(lambda: all(ref() is None for ref in kept))


TOOLS = ["text", "no_utf8", "structured", "failed", "raising"]


@pytest.mark.parametrize("name", TOOLS)
async def test_an_error_does_not_hold_what_a_tool_returned_or_worked_on(
    mcp: FastMCP[Any], caller: Caller, name: str
) -> None:
    kept = add_tools(mcp)
    caller.settings.max_value_bytes = LARGE // 2
    error = await caller.call(name)
    assert isinstance(error, ToolCallError)
    await assert_gone(kept, 1)


@pytest.mark.parametrize("name", TOOLS)
async def test_nothing_of_a_failed_call_outlives_the_answer_of_a_meta_tool(name: str) -> None:
    server: FastMCP[Any] = FastMCP("shop")
    kept = add_tools(server)
    CodeCallPlugin.init(vm=LIMITS).install(server)
    script = (
        f"const call = () => callTool('{name}', {{}}, {{ throwOnError: false }});"
        " return (await Promise.all([call(), call()])).map((x) => x.success)"
    )
    async with Client(server) as client:
        answer = await client.call_tool("codecall:execute", {"script": script})
        assert (answer.structured_content or {}).get("result") == [False, False], answer.structured_content
        answer = await client.call_tool("codecall:invoke", {"tool": name, "input": {}})
        assert (answer.structured_content or {})["status"] == "error"
        await assert_gone(kept, 3)


async def test_a_resource_that_is_too_large_is_gone_too() -> None:
    server: FastMCP[Any] = FastMCP("shop")
    kept = add_tools(server)
    CodeCallPlugin.init(vm=LIMITS).install(server)
    async with Client(server) as client:
        script = "return await readResource('data://large').catch((e) => e.code)"
        answer = await client.call_tool("codecall:execute", {"script": script})
        assert (answer.structured_content or {}).get("result") == "MESSAGE_TOO_LARGE", answer.structured_content
        await assert_gone(kept, 1)


async def test_a_handler_that_fails_leaves_nothing() -> None:
    kept: Kept = []

    async def handler(name: str, arguments: dict[str, Any]) -> None:
        value = Value()
        kept.append(weakref.ref(value))
        raise ToolCallError(type(value).__name__, tool_name=name)

    async with Enclave() as enclave:
        result = await enclave.execute("return callTool('t', {}).catch((e) => e.message)", tool_handler=handler)
        assert result.value == "Value", result.error
        await assert_gone(kept, 1)
