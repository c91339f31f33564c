"""Looking ahead tells a caller nothing of what others see, and holds up nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from fastmcp import Client, FastMCP
from pydantic import BaseModel, ConfigDict

from codecall import CodeCallPlugin
from tests.loop_turns import assert_turns_below
from tests_security.calls.conftest import Asked

MOST_WORK = 60
"""Work of one turn of the event loop, see `LongestTurn`: some 0.3 seconds."""


class Leaf(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["leaf"]
    value: int


class Branch(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["branch"]
    parts: list[Leaf | Branch | dict[str, Leaf | Branch]]


def secret(key: int, mode: Literal["a", "b"]) -> int:
    """A tool of somebody else."""
    return key


def asked_of(server: FastMCP[Any], **options: Any) -> Client[Any]:
    """A client of the server, which has CodeCall."""
    CodeCallPlugin.init(**options).install(server)
    return Client(server)


INPUTS = ["{}", "{ key: [] }", "{ kei: 1 }", "{ key: 1, mode: 'c' }", "{ key: 1, mode: 'a' }", "{ ...codecallContext }"]


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_hidden_tool_looks_like_none(given: str, dry_run: bool) -> None:
    """The same answer, but for its name and what took how long, whether the tool is hidden or absent."""
    told: list[object] = []
    for hidden in (True, False):
        server = FastMCP[Any]("crm")
        server.tool(_number, name="other")
        if hidden:
            server.tool(secret, auth=lambda context: False)
        async with asked_of(server) as client:
            answer = await Asked(client).run(f"return await callTool('secret', {given})", dryRun=dry_run)
        for name in ("stats", "runId"):
            answer.pop(name, None)
        for made in answer.get("calls", ()):
            del made["durationMs"]
        told.append(answer)
    assert told[0] == told[1]
    assert "TOOL_NOT_FOUND" in str(told[0])


SCRIPTS = {
    "many calls": "await callTool('tree', { root: { kind: 'branch', parts: [] }, more: 1 });\n" * 800,
    "many tools": "".join(f"await callTool('t{n % 300}', {{ a: 'x' }});\n" for n in range(900)),
    "a deep one": "await callTool('tree', { root: " + "{ kind: 'branch', parts: [" * 25 + "1" + "] }" * 25 + " });",
    "a wide one": "await callTool('tree', { root: { kind: 'branch', parts: [\n"
    + "{ kind: 'leaf' },\n" * 1_900
    + "] } });",
    "long names": f"await callTool('tree', {{ '{'x' * 19_000}': 1 }});",
    "a long text": f"await callTool('tree', {{ root: '{'x' * 19_000}' }});",
    "many names": "await callTool('tree', {\n" + "".join(f"k{n}: 1,\n" for n in range(1_900)) + "});",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("dry_run", [False, True])
async def test_the_event_loop_is_not_held_up(script: str, dry_run: bool) -> None:
    server = FastMCP[Any]("crm")
    ran: list[object] = []

    @server.tool
    def tree(root: Leaf | Branch | dict[str, Branch]) -> str:
        ran.append(root)
        return "ok"

    def another() -> Callable[[int], str]:
        """A function of its own: what is known of one is kept."""

        def tool(a: int) -> str:
            ran.append(a)
            return "ok"

        return tool

    for number in range(300 if "'t299'" in script else 0):
        server.tool(another(), name=f"t{number}")
    async with asked_of(server, vm={"preset": "experimental"}) as client:
        asked = Asked(client)
        await asked.run("return 1")
        answer = await asked.run(script, dryRun=dry_run)
        await assert_turns_below(MOST_WORK, lambda: asked.run(script, dryRun=dry_run))
    assert answer["status"] in ("ok", "tool_error"), answer
    assert len(str(answer)) < 2_000_000
    assert ran == []


def _number(a: int) -> int:
    return a
