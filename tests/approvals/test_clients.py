"""Approvals with each kind of client: FastMCP's and the MCP SDK's own session, of both eras, over each transport."""

from __future__ import annotations

import runpy
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import PythonStdioTransport
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import ElicitRequestFormParams, ElicitResult, InputRequiredResult

from tests.approvals.conftest import DENY, ONCE, SAME_IN_RUN, Person, filled_in
from tests.loaded_python import LoadedPython
from tests.server.test_disconnect import serving

pytestmark = pytest.mark.anyio

PROGRAM = """
from pathlib import Path
from fastmcp import FastMCP
from codecall import CodeCallPlugin

server = FastMCP("office")

@server.tool(annotations={"readOnlyHint": True})
def read() -> str:
    return "a letter"

@server.tool
def send(to: str) -> str:
    with (Path(__file__).parent / "sent").open("a") as file:
        file.write(to + " ")
    return "sent to " + to

CodeCallPlugin.init(approvals="writes", pool={"min_workers": 0}).install(server)
if __name__ == "__main__":
    server.run(show_banner=False)
"""
SCRIPT = """
const letter = await callTool('read', {});
const sent = [];
for (const to of ['ann', 'ben', 'eve', 'eve']) {
  sent.push((await callTool('send', {to}, {throwOnError: false})).error?.code ?? to);
}
return [letter, sent];
"""
ANSWERS = (ONCE, DENY, SAME_IN_RUN)
Execute = Callable[[str], Awaitable[dict[str, Any]]]


@asynccontextmanager
async def fastmcp_client(
    python: LoadedPython, program: Path, over: str, mode: Any, person: Person
) -> AsyncGenerator[Execute]:
    """FastMCP's client, which answers questions of both eras by itself."""
    async with address(program, over) as target:
        stdio = PythonStdioTransport(program, python_cmd=python.executable, keep_alive=False)
        where = stdio if over == "stdio" else cast("Any", target)
        async with Client(where, mode=mode, elicitation_handler=person.answer) as client:

            async def execute(script: str) -> dict[str, Any]:
                result = await client.call_tool("codecall:execute", {"script": script})
                return result.structured_content or {}

            yield execute


@asynccontextmanager
async def sdk_session(
    python: LoadedPython, program: Path, over: str, mode: str, person: Person
) -> AsyncGenerator[Execute]:
    """The SDK's session on bare streams: what the server asks by answering is answered here."""

    async def elicit(context: Any, params: Any) -> ElicitResult:
        del context
        assert mode == "legacy", "a server of 2026-07-28 sends no requests"
        return await answer(person, params)

    async with (
        address(program, over) as target,
        streams(python, program, over, target) as (reading, writing),
        ClientSession(reading, writing, elicitation_callback=elicit) as session,
    ):
        await (session.initialize() if mode == "legacy" else session.discover())

        async def execute(script: str) -> dict[str, Any]:
            again: dict[str, Any] = {}
            while True:
                arguments = {"script": script}
                result: Any = await session.call_tool("codecall:execute", arguments, allow_input_required=True, **again)
                if not isinstance(result, InputRequiredResult):
                    return result.structured_content or {}
                questions = result.input_requests or {}
                said = {name: await answer(person, question.params) for name, question in questions.items()}
                again = {"input_responses": said, "request_state": result.request_state}

        yield execute


async def answer(person: Person, params: Any) -> ElicitResult:
    """What the person says to one form."""
    assert isinstance(params, ElicitRequestFormParams)
    person.questions.append(params.message)
    said = person.answers.pop(0) if len(person.answers) > 1 else person.answers[0]
    return ElicitResult(action="accept", content=filled_in(said))


@asynccontextmanager
async def address(program: Path, over: str) -> AsyncGenerator[FastMCP[Any] | str | None]:
    """Where the server is: an object in this process, or a URL; None for a process of its own."""
    server = None if over == "stdio" else cast("FastMCP[Any]", runpy.run_path(str(program))["server"])
    if server is None or over == "memory":
        yield server
        return
    async with serving(server.http_app()) as (_, _, url):
        yield url


@asynccontextmanager
async def streams(python: LoadedPython, program: Path, over: str, target: object) -> AsyncGenerator[tuple[Any, Any]]:
    """The two ends of a connection, as the SDK has them."""
    if over == "stdio":
        async with stdio_client(StdioServerParameters(command=python.executable, args=[str(program)])) as both:
            yield both[0], both[1]
    elif over == "http":
        async with streamable_http_client(str(target)) as both:
            yield both[0], both[1]
    else:
        server = cast("Any", target)
        async with (
            create_client_server_memory_streams() as (client_ends, server_ends),
            server._lifespan_manager(),
            anyio.create_task_group() as tasks,
        ):
            lowlevel = server._mcp_server
            tasks.start_soon(lowlevel.run, *server_ends, lowlevel.create_initialization_options())
            yield client_ends
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("over", ["memory", "stdio", "http"])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("connected", [fastmcp_client, sdk_session])
async def test_each_call_is_asked_for_once_and_the_run_goes_on(
    loaded_python: LoadedPython, connected: Any, mode: str, over: str, tmp_path: Path
) -> None:
    program = tmp_path / "office.py"
    program.write_text(PROGRAM, encoding="utf-8")
    person = Person(*ANSWERS)
    async with connected(loaded_python, program, over, mode, person) as execute:
        envelope = await execute(SCRIPT)
    assert envelope["result"] == ["a letter", ["ann", "APPROVAL_DENIED", "eve", "eve"]]
    assert (tmp_path / "sent").read_text(encoding="utf-8").split() == ["ann", "eve", "eve"]
    assert len(person.questions) == 3
    assert all("Tool: send\nServer: office\n" in question for question in person.questions)
