"""What a script and a tool together can make the server do, and that others are served meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from codecall.errors import ToolCallError
from codecall.sandbox.enclave import Enclave
from tests.work import thread_share


async def quote(name: str, arguments: dict[str, Any]) -> None:
    """Fails with an error that quotes its input, as many tools do."""
    raise ValueError(f"cannot take {arguments}")


async def detailed(name: str, arguments: dict[str, Any]) -> None:
    """Fails with details that do."""
    raise ToolCallError("cannot take it", tool_name=name, details={"received": arguments})


SLOW_TO_CLEAN = "'http://a:a'.repeat(800)"

SCRIPTS = {
    "many errors that are slow to clean": (
        f"const ps = []; for (let i = 0; i < 90; i++) ps.push(callTool('t', {{ o: {SLOW_TO_CLEAN} }}).catch(() => 1));"
        " return (await Promise.all(ps)).length",
        quote,
        90,
    ),
    "one error with many details that are": (
        f"try {{ await callTool('t', {{ o: Array(60).fill({SLOW_TO_CLEAN}) }}) }}"
        " catch (e) { return JSON.stringify(e.details).includes('truncated') }",
        detailed,
        True,
    ),
    "numbers that are slow to read": (
        "const a = []; for (let i = 0; i < 14; i++) a.push(Array(9000).fill(1e308)); return callTool('t', { a })",
        lambda name, arguments: len(arguments["a"]),
        14,
    ),
}


@pytest.mark.parametrize("title", SCRIPTS)
async def test_others_are_served_meanwhile(enclave: Enclave, title: str):
    script, handler, value = SCRIPTS[title]
    with thread_share() as loop:
        result = await enclave.execute(script, tool_handler=handler)
    assert result.value == value, result.error
    # Numbers are read where they arrive, a text in each turn of the loop.
    assert loop.share < 0.5 or handler not in (quote, detailed)


async def test_details_have_a_bound_in_characters(enclave: Enclave):
    script = "return callTool('t', { o: Array(100).fill('x'.repeat(1000)) }).catch((e) => e.details.received.o)"
    result = await enclave.execute(script, tool_handler=detailed)
    values = result.value
    assert isinstance(values, list)
    assert len(values) == 100
    assert values[0] == "x" * 1000
    assert values[-1] == "…[truncated 1000 characters]"
