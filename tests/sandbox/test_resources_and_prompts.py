"""`readResource` and `getPrompt` of an enclave without a server."""

from __future__ import annotations

from typing import Any

import anyio.lowlevel
import pytest

from codecall.envelopes import EXECUTE_SCHEMA
from codecall.errors import (
    AccessDeniedError,
    LimitExceeded,
    PromptNotFoundError,
    ResourceNotFoundError,
    SelfReferenceError,
    ToolCallError,
)
from codecall.errors.hints import DEFAULT_HINTS
from codecall.sandbox.enclave import Enclave


def read(uri: str) -> object:
    """Any resource but one."""
    if uri == "data://bad":
        raise ValueError("cannot read /srv/private/key.pem")
    return {"uri": uri}


async def render(name: str, arguments: dict[str, Any]) -> object:
    """Any prompt."""
    return {"messages": [{"role": "user", "content": f"{name} {sorted(arguments.items())}"}]}


async def test_values(enclave: Enclave) -> None:
    result = await enclave.execute(
        """
        const { messages } = await getPrompt('hello', { b: 1, a: 'x' });
        return [await readResource('data://a'), messages[0].content, await readResource('x', { throwOnError: false })];
        """,
        resource_handler=read,
        prompt_handler=render,
    )
    assert result.value == [
        {"uri": "data://a"},
        "hello [('a', 'x'), ('b', 1)]",
        {"success": True, "data": {"uri": "x"}},
    ]
    assert result.stats.tool_calls == 3


async def test_without_handlers_there_is_nothing(enclave: Enclave) -> None:
    for script, kind in (
        ("return await readResource('data://a')", ResourceNotFoundError),
        ("return await getPrompt('a')", PromptNotFoundError),
    ):
        result = await enclave.execute(script, tool_handler=lambda name, arguments: 1)
        assert type(result.error) is kind
        assert result.status == "tool_error"


async def test_a_failure_says_what_was_asked_for(enclave: Enclave) -> None:
    result = await enclave.execute("return await readResource('data://bad')", resource_handler=read)
    assert isinstance(result.error, ToolCallError)
    assert result.envelope()["error"] == {
        "code": "TOOL_EXECUTION_ERROR",
        "source": "tool",
        "message": "cannot read [path]",
        "toolName": "data://bad",
        "resource": "data://bad",
        "location": {"line": 1, "column": 14, "text": "return await readResource('data://bad')"},
        "hint": DEFAULT_HINTS["TOOL_EXECUTION_ERROR"],
    }
    assert {"resource", "prompt"} <= EXECUTE_SCHEMA["properties"]["error"]["properties"].keys()  # type: ignore[index]


async def test_allowed_names(enclave: Enclave) -> None:
    script = "return await readResource('data://b')"
    result = await enclave.execute(script, resource_handler=read, allowed_tools=["data://a*"])
    assert type(result.error) is AccessDeniedError
    assert result.error.message == "Resource 'data://b' is not among the allowed tools"
    result = await enclave.execute(script, resource_handler=read, allowed_tools=["data://*"])
    assert result.success


@pytest.mark.parametrize("script", ["readResource('codecall:execute')", "getPrompt(['codecall_', 'search'].join(''))"])
async def test_meta_tools_by_another_way(enclave: Enclave, script: str) -> None:
    result = await enclave.execute(f"return await {script}", resource_handler=read, prompt_handler=render)
    assert isinstance(result.error, SelfReferenceError)


async def test_they_count_as_calls_and_wait_their_turn(enclave: Enclave) -> None:
    together = 0
    most = 0

    async def counted(uri: str) -> int:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await anyio.lowlevel.checkpoint()
        together -= 1
        return 1

    script = "return (await Promise.all(Array.from({ length: 90 }, (_, i) => readResource(`data://${i}`)))).length"
    result = await enclave.execute(script, resource_handler=counted)
    assert result.value == 90
    assert 1 < most <= 20
    result = await enclave.execute(script, resource_handler=counted, config={"max_tool_calls": 30})
    assert isinstance(result.error, LimitExceeded)
    assert result.error.code == "TOOL_CALL_LIMIT"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("readResource()", "readResource needs a URI as text, got undefined"),
        ("readResource({ uri: 'data://a' })", "readResource needs a URI as text, got object"),
        ("readResource('x'.repeat(1025))", "readResource needs a URI of at most 1024 characters"),
        ("getPrompt(null)", "getPrompt needs a prompt name as text, got null"),
        ("getPrompt('x'.repeat(257))", "getPrompt needs a prompt name of at most 256 characters"),
        ("getPrompt('a', 'b')", "getPrompt('a', …) needs an object as input, got string"),
        ("getPrompt('a', { b: callTool('c') })", "The input of getPrompt('a', …) contains a promise; await it first"),
    ],
)
async def test_wrong_use(enclave: Enclave, script: str, message: str) -> None:
    result = await enclave.execute(f"return await {script}", tool_handler=lambda name, arguments: 1)
    assert result.error is not None
    assert result.error.message == message


async def test_what_cannot_be_text_is_replaced_before_it_is_sent(enclave: Enclave) -> None:
    result = await enclave.execute("return await readResource('data://\\ud800')", resource_handler=read)
    assert result.value == {"uri": "data://\ufffd"}
