"""What a gateway keeps of sessions."""

from __future__ import annotations

from fastmcp import Client, FastMCP
from fastmcp.server.context import Context

from codecall.gateway.downstream import SessionState


async def test_what_is_put_in_is_there() -> None:
    state = SessionState()
    assert await state.get("key", collection="c") is None
    await state.put("key", {"value": 1}, collection="c")
    assert await state.get("key", collection="c") == {"value": 1}
    assert await state.get("other", collection="c") is None


async def test_many_at_once_are_there_too() -> None:
    state = SessionState()
    await state.put_many(["a", "b"], [{"value": 1}, {"value": 2}])
    assert await state.get("b") == {"value": 2}
    assert await state.delete("b")
    assert await state.get("b") is None


async def test_a_session_keeps_what_it_hides_and_other_sessions_see_it() -> None:
    server = FastMCP("s", session_state_store=SessionState())

    @server.tool
    async def hide(context: Context) -> None:
        await context.disable_components(names={"seen"})

    @server.tool
    async def seen() -> None: ...

    async with Client(server, mode="legacy") as one, Client(server, mode="legacy") as other:
        await one.call_tool("hide")
        assert [tool.name for tool in await one.list_tools()] == ["hide"]
        assert [tool.name for tool in await other.list_tools()] == ["hide", "seen"]
