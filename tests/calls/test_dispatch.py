"""A script's call passes whatever a server has put before its tools, and nothing where there is nothing."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.middleware import Middleware

from codecall import CodeCallPlugin
from codecall.calls.fastmcp_internals import observes_calls

SCRIPT = "return await callTool('double', { number: 21 })"

seen: list[str] = []


class OnCall(Middleware):
    async def on_call_tool(self, context: Any, call_next: Any) -> Any:
        seen.append(context.message.name)
        return await call_next(context)


class OnRequest(Middleware):
    async def on_request(self, context: Any, call_next: Any) -> Any:
        seen.append(getattr(context.message, "name", ""))
        return await call_next(context)


class OnMessage(Middleware):
    async def on_message(self, context: Any, call_next: Any) -> Any:
        seen.append(getattr(context.message, "name", ""))
        return await call_next(context)


class Whole(Middleware):
    async def __call__(self, context: Any, call_next: Any) -> Any:
        seen.append(getattr(context.message, "name", ""))
        return await call_next(context)


class OnList(Middleware):
    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        return await call_next(context)


def by_attribute() -> Middleware:
    """A middleware whose hook is an attribute of the object."""
    item = OnList()
    item.on_call_tool = OnCall().on_call_tool  # type: ignore[method-assign]
    return item


def server_with(*middleware: Middleware) -> FastMCP[Any]:
    """A server with one tool."""
    server = FastMCP[Any]("numbers", middleware=list(middleware))
    server.tool(lambda number: {"result": 2 * number}, name="double")
    return server


async def run(server: FastMCP[Any]) -> Any:
    """The result of SCRIPT on that server."""
    seen.clear()
    CodeCallPlugin.init().install(server)
    async with Client(server) as client:
        envelope = (await client.call_tool("codecall:execute", {"script": SCRIPT})).structured_content
    assert envelope is not None
    return envelope["result"]


@pytest.mark.parametrize("make", [OnCall, OnRequest, OnMessage, Whole, by_attribute])
async def test_middleware_sees_the_calls_of_a_script(make: Any) -> None:
    server = server_with(OnList(), make())
    assert await run(server) == {"result": 42}
    assert observes_calls(server)
    assert "double" in seen


async def test_middleware_that_comes_while_a_script_runs_sees_its_next_call() -> None:
    server = server_with()

    @server.tool
    def add_observer() -> None:
        server.add_middleware(OnCall())

    seen.clear()
    CodeCallPlugin.init().install(server)
    async with Client(server) as client:
        script = "await callTool('add_observer'); await callTool('double', { number: 1 })"
        await client.call_tool("codecall:execute", {"script": script})
    assert seen == ["double"]


async def test_an_extension_sees_the_calls_of_a_script() -> None:
    class Interceptor(ServerExtension):
        identifier = "example.com/interceptor"

        async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
            seen.append(params.name)
            return await call_next()

    server = server_with()
    server.add_extension(Interceptor())
    assert await run(server) == {"result": 42}
    assert "double" in seen


async def test_an_interceptor_on_the_extension_itself_sees_the_calls_of_a_script() -> None:
    class Quiet(ServerExtension):
        identifier = "example.com/quiet"

    async def intercept(params: Any, context: Any, call_next: Any) -> Any:
        seen.append(params.name)
        return await call_next()

    extension = Quiet()
    extension.intercept_tool_call = intercept  # type: ignore[method-assign]
    server = server_with()
    server.add_extension(extension)
    assert await run(server) == {"result": 42}
    assert "double" in seen


async def test_an_extension_of_a_mounted_server_sees_what_its_caller_has_not() -> None:
    class Interceptor(ServerExtension):
        identifier = "example.com/interceptor"
        auto_register = True

        async def intercept_tool_call(self, params: Any, context: Any, call_next: Any) -> Any:
            seen.append(params.name)
            return await call_next()

    seen.clear()
    gateway, plugin, child = FastMCP[Any]("gateway"), FastMCP[Any]("plugin"), server_with()
    CodeCallPlugin.init(tool_name_separator="_").install(plugin)
    plugin.mount(child)
    gateway.mount(plugin, "p")
    child.add_extension(Interceptor())
    gateway.add_extension(Interceptor())
    async with Client(gateway) as client:
        envelope = (await client.call_tool("p_codecall_execute", {"script": SCRIPT})).structured_content
    assert envelope is not None
    assert envelope["result"] == {"result": 42}
    assert seen == ["p_codecall_execute", "double"]


@pytest.mark.parametrize("name", ["_run_middleware", "_dispatch_component_middleware"])
async def test_a_method_that_is_replaced_in_the_class_is_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_with()
    assert not observes_calls(server)
    monkeypatch.setattr(FastMCP, name, lambda *_: None)
    assert observes_calls(server)


async def test_a_hook_that_is_put_into_the_base_class_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_with(OnList())
    assert not observes_calls(server)
    monkeypatch.setattr(Middleware, "on_call_tool", OnCall.on_call_tool)
    assert observes_calls(server)


async def test_a_server_with_a_way_of_its_own_is_called_by_it() -> None:
    class Own(FastMCP[Any]):
        async def call_tool(self, name: str, *arguments: Any, **options: Any) -> Any:
            seen.append(name)
            return await super().call_tool(name, *arguments, **options)

    server = Own("own")
    server.tool(lambda number: {"result": 2 * number}, name="double")
    assert await run(server) == {"result": 42}
    assert "double" in seen


async def test_where_nothing_sees_calls_the_walk_is_left_out() -> None:
    server = server_with(OnList())
    assert await run(server) == {"result": 42}
    assert not observes_calls(server)
