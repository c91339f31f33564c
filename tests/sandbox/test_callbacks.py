"""Handlers of an enclave have the time for a call that the preset says, whatever they are made of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from codecall import Enclave

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
