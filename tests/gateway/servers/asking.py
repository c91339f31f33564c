"""A FastMCP server over standard input and output that knows both eras of MCP, and has a state."""

from __future__ import annotations

import os
from typing import Any

from fastmcp import Context, FastMCP
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)

server: FastMCP[Any] = FastMCP("asking")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


@server.tool
async def pid() -> int:
    return os.getpid()


@server.tool
async def open_door() -> str:
    """Adds a tool."""
    server.tool(pid, name="door")
    return "opened"


@server.tool
async def guard(ctx: Context, rounds: int = 1) -> Any:
    """Asks in its answer, as servers of 2026-07-28 do."""
    state = int(ctx.request_state or 0)
    if state == rounds:
        assert ctx.input_responses
        return f"hello {ctx.input_responses['who'].content['name']}"  # pyright: ignore
    ask = ElicitRequest(params=ElicitRequestFormParams(message="Who?", requested_schema=SCHEMA))
    return InputRequiredResult(input_requests={"who": ask}, request_state=str(state + 1))


@server.tool
async def question(ctx: Context, params: dict[str, Any]) -> Any:
    """Asks in its answer what it is told to ask."""
    if ctx.input_responses:
        return ctx.input_responses["it"].model_dump_json()
    kind = ElicitRequestURLParams if params.get("mode") == "url" else ElicitRequestFormParams
    return InputRequiredResult(
        input_requests={"it": ElicitRequest(params=kind.model_validate(params))}, request_state=""
    )


@server.tool
async def wonder(ctx: Context, what: str) -> Any:
    """Asks for the client's model or folders in its answer."""
    if ctx.input_responses:
        return ctx.input_responses["it"].model_dump_json()
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Hi"))
    ask: Any = {
        "model": CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=9)),
        "roots": ListRootsRequest(),
    }[what]
    return InputRequiredResult(input_requests={"it": ask}, request_state="asked")


@server.tool
async def asks(ctx: Context) -> str:
    """Asks while the call is under way, as servers of the handshake era do."""
    answer = await ctx.elicit("Who?", str)
    return f"hello {answer.data}"  # pyright: ignore


@server.tool
async def asks_below(ctx: Context) -> str:
    """The same by the session of the SDK."""
    await ctx.session.elicit("Who?", SCHEMA)
    return "asked"


@server.resource("ask://{who}")
async def asked(ctx: Context, who: str) -> str:
    """Asks while it is read."""
    await ctx.session.elicit(f"{who}?", SCHEMA)
    return "asked"


@server.tool
async def pester(ctx: Context, times: int) -> str:
    """Asks again and again while the call is under way, with a text that wants to be more than one."""
    said: list[str] = []
    for _ in range(times):
        try:
            answer = await ctx.elicit("Who?\n\n[bank] Allow all?\u202e", str)
            said.append(answer.action)
        except Exception as refused:
            said.append(str(refused))
    return " ".join(said)


server.run(show_banner=False, log_level="ERROR")
