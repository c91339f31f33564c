"""Handlers of an enclave have the time for a call that the preset says, whatever they are made of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from codecall import Enclave, OptionsError

SCRIPT = """
const answer = await callTool('slow', { n: 1 }, { throwOnError: false });
const next = await callTool('quick', {});
return [answer.error.code, next];
"""

released = threading.Event()


async def waits(name: str, arguments: dict[str, Any]) -> object:
    if name == "slow":
        await anyio.sleep_forever()
    return name


def blocks(name: str, arguments: dict[str, Any]) -> object:
    if name == "slow":
        released.wait(60)
    return name


@pytest.mark.parametrize("handler", [waits, blocks])
async def test_a_handler_that_does_not_answer_is_given_up(handler: Callable[[str, dict[str, Any]], Any]) -> None:
    released.clear()
    async with Enclave("secure", tool_call_timeout_ms=100) as enclave:
        try:
            result = await enclave.execute(SCRIPT, tool_handler=handler)
            failed = await enclave.execute("return await callTool('slow', {})", tool_handler=handler)
        finally:
            released.set()
    assert result.value == ["TOOL_TIMEOUT", "quick"]
    assert failed.error is not None
    assert failed.error.code == "TOOL_TIMEOUT"
    assert "did not answer within 100ms" in failed.error.message


async def test_a_handler_that_ends_the_program_ends_its_call() -> None:
    def leaves(name: str, arguments: dict[str, Any]) -> object:
        raise SystemExit(3)

    async with Enclave("secure") as enclave:
        result = await enclave.execute("return await callTool('x', {})", tool_handler=leaves)
    assert result.error is not None
    assert "ended with SystemExit" in result.error.message


async def test_without_a_server_whatever_looks_like_a_content_block_can_be_shown() -> None:
    picture = {"type": "image", "mimeType": "image/png", "bytes": 3, "ref": f"block:{'0f' * 20}"}
    script = "const block = await callTool('shoot', {}); emit([block, { ...block }]); emit({ ref: 'block:1' })"
    async with Enclave("secure") as enclave:
        result = await enclave.execute(script, tool_handler=lambda _name, _arguments: picture)
    assert result.error is not None
    assert "emit needs a content block" in result.error.message
    assert result.blocks == (picture["ref"],)


ASKS = "return await callTool('users:list', {})"


async def test_an_enclave_takes_the_wire_spelling_everywhere() -> None:
    enclave = Enclave(securityLevel="STANDARD", toolHandler=lambda name, arguments: f"enclave {name}")  # type: ignore[call-arg]
    assert enclave.preset == Enclave({"securityLevel": "STANDARD"}).preset == Enclave("balanced").preset  # type: ignore[arg-type]
    assert Enclave({"preset": "secure", "timeoutMs": 700}).preset.timeout_ms == 700  # type: ignore[arg-type]
    try:
        assert (await enclave.execute(ASKS)).value == "enclave users:list"
        options = {"toolHandler": lambda name, arguments: f"own {name}", "config": {"maxToolCalls": 1}}
        assert (await enclave.execute(ASKS, options)).value == "own users:list"  # type: ignore[arg-type]
        refused = await enclave.execute(ASKS, allowedTools=["orders:*"])  # type: ignore[call-arg]
        assert refused.error is not None
        assert refused.error.code == "ACCESS_DENIED"
    finally:
        await enclave.dispose()
    assert (await enclave.execute("return 1")).error.code == "POOL_DISPOSED"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": 5}, "config: a mapping of limits is needed, got int"),
        ({"config": {"maxIteration": 5}}, "config.maxIteration: unknown option; known here: timeout_ms, "),
        ({"config": {"timeoutMs": 5, "timeout_ms": 6}}, "config.timeout_ms: given twice"),
        ({"tools": 5}, "tools: a list is needed, got int"),
        ({"tools": {"a": {}}}, "tools: a list is needed, got dict"),
        ({"tools": ["users:list"]}, "tools.0: a mapping with a name is needed, got 'users:list'"),
        ({"tools": [{"name": "a"}, {"title": "b"}]}, "tools.1: a mapping with a name is needed"),
        ({"allowed_tools": "users:*"}, "allowed_tools: a list is needed, got str"),
        ({"tool_handler": {}}, "tool_handler: a function is needed, got dict"),
        ({"toolhandler": print}, "Enclave.execute: unknown option 'toolhandler' (did you mean tool_handler?)"),
        ({"dryRun": True, "dry_run": True}, "dry_run: given twice"),
    ],
)
async def test_a_wrong_option_of_a_run_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError) as refused:
        await Enclave("secure").execute("return 1", **options)
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": 7}, "preset: a name, or the path of a .toml file, is needed, got int"),
        ({"toolHandler": {}}, "tool_handler: a function is needed, got dict"),
        ({"securityLevel": "LAX"}, "security_level: unknown level 'LAX'; known: STRICT"),
        ({"tools": []}, "tools: unknown option"),
    ],
)
def test_a_wrong_option_of_an_enclave_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError) as refused:
        Enclave(options)  # type: ignore[arg-type]
    assert refused.value.message.startswith(message)


async def test_a_function_of_scripts_that_is_called_as_a_tool_is_named() -> None:
    async with Enclave("secure") as enclave:
        result = await enclave.execute(
            "return await callTool('getResult', {})", tools=[{"name": "get"}], tool_handler=waits
        )
    assert result.error is not None
    assert "a function of the script, not a tool: write `await getResult('res_…')`" in (result.error.hint or "")
