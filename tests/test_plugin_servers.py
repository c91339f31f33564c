"""CodeCall on servers of every kind: mounted, proxied, from OpenAPI, with versions, middleware and authorization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.apps.config import AppConfig
from fastmcp.exceptions import ToolError
from fastmcp.server import create_proxy
from fastmcp.server.auth import require_scopes
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.middleware import Middleware
from fastmcp.tools import Tool
from fastmcp.utilities.tests import asgi_client

from codecall import CodeCallPlugin, tool_metadata

Answer = dict[str, Any]


async def ask(client: Client[Any], name: str, **arguments: Any) -> Answer:
    result = await client.call_tool(name, arguments)
    assert result.structured_content is not None
    return result.structured_content


async def execute(client: Client[Any], script: str) -> Any:
    envelope = await ask(client, "codecall:execute", script=script)
    assert envelope["status"] == "ok", envelope
    return envelope["result"]


async def overview(client: Client[Any]) -> dict[str, str]:
    """Every reachable tool and its app."""
    found = await ask(client, "codecall:search", query="", topK=50)
    assert found["totalIndexed"] == len(found["tools"])
    return {tool["name"]: tool["appId"] for tool in found["tools"]}


async def reach(client: Client[Any], name: str) -> tuple[bool, ...]:
    """Whether search, describe, getTool, callTool and invoke know a tool that takes no input."""
    described = await ask(client, "codecall:describe", toolNames=[name])
    script = f"""
        const {{ success }} = await callTool('{name}', {{}}, {{ throwOnError: false }});
        return [getTool('{name}') !== undefined, success];
    """
    invoked = await ask(client, "codecall:invoke", tool=name, input={})
    return (
        name in await overview(client),
        name not in described["notFound"],
        *await execute(client, script),
        invoked["status"] == "ok",
    )


YES, NO = (True,) * 5, (False,) * 5


def users() -> FastMCP:
    server = FastMCP("user service")

    @server.tool
    def list_all(limit: int = 2) -> list[dict[str, int]]:
        """List users."""
        return [{"id": number} for number in range(limit)]

    return server


def install(server: FastMCP, **options: Any) -> FastMCP:
    return CodeCallPlugin.init(pool={"min_workers": 0}, **options).install(server)


async def test_mounted_servers() -> None:
    main = FastMCP("main")
    main.mount(users(), namespace="users")
    main.tool(lambda: "own", name="users_own")
    async with Client(install(main)) as client:
        assert await overview(client) == {"users_list_all": "users", "users_own": "main"}
        assert await execute(client, "return (await callTool('users_list_all', { limit: 3 })).length") == 3
        assert await execute(client, "return await callTool('users_own', {})") == "own"


async def test_a_server_with_codecall_mounted_on_a_plain_one() -> None:
    child = install(users())
    child.tool(lambda: 7, name="seven")
    main = FastMCP("main")
    main.mount(child, namespace="sub")
    main.tool(lambda: 1, name="outside")
    async with Client(main) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert names == [
            "outside",
            "sub_codecall:search",
            "sub_codecall:describe",
            "sub_codecall:invoke",
            "sub_codecall:execute",
        ]
        ran = await ask(client, "sub_codecall:execute", script="return await callTool('seven', {})")
        assert ran["result"] == 7
        denied = await ask(client, "sub_codecall:execute", script="return await callTool('outside', {})")
        assert denied["error"]["code"] == "TOOL_NOT_FOUND"


@pytest.mark.parametrize("namespace", ["sub", None])
async def test_tools_that_a_mounted_plugin_hides_are_reached_by_scripts_of_both(namespace: str | None) -> None:
    child, main = FastMCP("child"), FastMCP("main")
    child.tool(lambda: 7, name="seven")
    child.tool(lambda: 8, name="eight", meta=tool_metadata(enabled_in_codecall=False))
    child.tool(lambda: 9, name="nine")
    install(child, mode="codecall_only", include_tools=lambda tool: tool.name != "nine")
    main.mount(child, namespace=namespace)
    main.tool(lambda: 1, name="outside")
    prefix = f"{namespace}_" if namespace else ""
    async with Client(install(main, mode="codecall_only")) as client:
        for _ in range(2):
            assert len(await client.list_tools()) == 4
            assert await overview(client) == {f"{prefix}seven": namespace or "child", "outside": "main"}
            assert await execute(client, f"return await callTool('{prefix}seven', {{}})") == 7
    async with Client(child) as client:
        assert len(await client.list_tools()) == 4
        assert await execute(client, "return await callTool('seven', {})") == 7


@pytest.mark.parametrize("namespace", ["sub", None])
async def test_a_server_with_codecall_mounted_on_one_with_codecall(namespace: str | None) -> None:
    child = install(FastMCP("child"))
    child.tool(lambda: 7, name="seven", meta=tool_metadata(visible_in_list_tools=True))
    main = FastMCP("main")
    main.mount(child, namespace=namespace)
    prefix = f"{namespace}_" if namespace else ""
    async with Client(install(main, mode="codecall_only")) as client:
        assert len(await client.list_tools()) == 5
        assert await overview(client) == {f"{prefix}seven": namespace or "child"}
        assert await execute(client, f"return await callTool('{prefix}seven', {{}})") == 7
        inner = await ask(client, "codecall:describe", toolNames=[f"{prefix}codecall:execute"])
        assert inner["tools"] == []
        nested = "return await callTool(codecallContext.name, { script: 'return 1' })"
        envelope = await ask(client, "codecall:execute", script=nested, context={"name": f"{prefix}codecall:execute"})
        assert envelope["status"] != "ok"


async def test_proxied_servers() -> None:
    main = FastMCP("main")
    main.mount(create_proxy(users(), name="remote users"), namespace="remote")
    async with Client(install(main)) as client:
        assert await overview(client) == {"remote_list_all": "remote"}
        assert await execute(client, "return await callTool('remote_list_all', {})") == [{"id": 0}, {"id": 1}]
        (tool,) = (await ask(client, "codecall:describe", toolNames=["remote_list_all"]))["tools"]
        assert tool["outputSchema"]["type"] == "array"


async def test_a_proxy_with_codecall_in_front() -> None:
    proxy = create_proxy(users(), name="front")
    async with Client(install(proxy)) as client:
        assert [tool.name for tool in await client.list_tools()][-1] == "codecall:execute"
        assert await overview(client) == {"list_all": "front"}
        assert await execute(client, "return (await callTool('list_all', {})).length") == 2


async def test_metadata_of_a_proxied_tool_counts() -> None:
    backend = FastMCP("backend")
    backend.tool(lambda: 1, name="crm", meta=tool_metadata(app_id="crm", tags=["x"]))
    backend.tool(lambda: 1, name="kept", meta=tool_metadata(enabled_in_codecall=False))
    async with Client(install(create_proxy(backend))) as client:
        assert await overview(client) == {"crm": "crm"}
        assert (await ask(client, "codecall:search", query="crm", filter={"tags": ["x"]}))["tools"]


async def test_tools_from_openapi() -> None:
    spec = {
        "openapi": "3.1.0",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": "http://pets.test"}],
        "paths": {
            "/pets/{id}": {
                "get": {
                    "operationId": "get_pet",
                    "summary": "Get a pet",
                    "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                    "responses": {
                        "200": {
                            "description": "The pet",
                            "content": {
                                "application/json": {
                                    "schema": {"type": "object", "properties": {"id": {"type": "integer"}}}
                                }
                            },
                        }
                    },
                }
            }
        },
    }

    def answer(request: httpx2.Request) -> httpx2.Response:
        number = int(request.url.path.rsplit("/", 1)[1])
        return httpx2.Response(200, json={"id": number}) if number < 10 else httpx2.Response(404, text="no such pet")

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer), base_url="http://pets.test")
    async with http, Client(install(FastMCP.from_openapi(spec, client=http, name="pets"))) as client:
        assert await overview(client) == {"get_pet": "pets"}
        assert await execute(client, "return (await callTool('get_pet', { id: 3 })).id") == 3
        failed = await ask(client, "codecall:execute", script="return await callTool('get_pet', { id: 30 })")
        assert (failed["status"], failed["error"]["code"]) == ("tool_error", "TOOL_EXECUTION_ERROR")


async def test_the_highest_version_is_shown_and_called() -> None:
    server = FastMCP("versions")
    server.tool(lambda: "old", name="which", version="1.0", description="The old one")
    server.tool(lambda: "new", name="which", version="1.10", description="The new one")
    server.tool(lambda: "mid", name="which", version="1.9", description="The one between")
    async with Client(install(server)) as client:
        (tool,) = (await ask(client, "codecall:describe", toolNames=["which"]))["tools"]
        assert tool["description"] == "The new one"
        assert (await ask(client, "codecall:search", query=""))["totalIndexed"] == 1
        assert await execute(client, "return await callTool('which', {})") == "new"
        assert (await ask(client, "codecall:invoke", tool="which", input={}))["result"] == "new"


async def test_tools_added_and_removed_while_the_server_runs() -> None:
    server = install(FastMCP("changing"))
    async with Client(server) as client:
        assert await reach(client, "late") == NO
        server.tool(lambda: 1, name="late")
        assert await reach(client, "late") == YES
        server.disable(names={"late"})
        assert await reach(client, "late") == NO
        server.enable(names={"late"})
        assert await reach(client, "late") == YES
        server.local_provider.remove_tool("late")
        assert await reach(client, "late") == NO


async def test_a_tool_added_by_a_script_is_there_for_the_next_script() -> None:
    server = install(FastMCP("growing"))

    @server.tool
    async def grow(ctx: Context) -> str:
        server.tool(lambda: "grown", name="grown")
        await ctx.send_notification(notification())
        return "done"

    def notification() -> Any:
        from mcp_types import ToolListChangedNotification

        return ToolListChangedNotification()

    changed: list[str] = []

    async def on_message(message: Any) -> None:
        changed.append(str(getattr(message, "method", getattr(message, "root", message))))

    async with Client(server, message_handler=on_message) as client:
        assert await execute(client, "return await callTool('grow', {})") == "done"
        assert await execute(client, "return await callTool('grown', {})") == "grown"
    assert any("list_changed" in message for message in changed)


async def test_tools_a_session_has_switched_off() -> None:
    server = install(FastMCP("sessions"))
    server.tool(lambda: 1, name="optional")

    @server.tool
    async def less(ctx: Context) -> None:
        await ctx.disable_components(names={"optional"})

    async with Client(server) as client:
        assert await reach(client, "optional") == YES
        await client.call_tool("less", {})
        assert await reach(client, "optional") == NO


async def test_what_middleware_hides_from_the_list_is_out_of_reach() -> None:
    class Hide(Middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> Sequence[Tool]:
            return [tool for tool in await call_next(context) if tool.name != "secret"]

    server = install(FastMCP("hiding", middleware=[Hide()]))
    server.tool(lambda: 1, name="secret")
    server.tool(lambda: 1, name="open")
    async with Client(server) as client:
        assert await reach(client, "open") == YES
        assert await reach(client, "secret") == NO


async def test_calls_of_a_script_pass_through_middleware() -> None:
    seen: list[str] = []

    class Gate(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            seen.append(context.message.name)
            if context.message.name == "blocked":
                raise ToolError("the gate is shut")
            return await call_next(context)

    server = install(FastMCP("gate", middleware=[Gate()]))
    server.tool(lambda: 1, name="free")
    server.tool(lambda: 1, name="blocked")
    async with Client(server) as client:
        assert await execute(client, "return await callTool('free', {})") == 1
        failed = await ask(client, "codecall:execute", script="return await callTool('blocked', {})")
        assert "the gate is shut" in failed["error"]["message"]
    assert seen == ["codecall:execute", "free", "codecall:execute", "blocked"]


async def test_tools_meant_for_apps_only_are_not_for_models() -> None:
    server = install(FastMCP("apps"))
    server.tool(lambda: 1, name="button", app=AppConfig(visibility=["app"]))
    server.tool(lambda: 1, name="both", app=AppConfig(visibility=["app", "model"]))
    async with Client(server) as client:
        assert await reach(client, "both") == YES
        assert await reach(client, "button") == NO


def guarded() -> FastMCP:
    tokens = {
        "reader": {"client_id": "reader", "scopes": ["read"]},
        "admin": {"client_id": "admin", "scopes": ["read", "admin"]},
    }
    server = FastMCP("guarded", auth=StaticTokenVerifier(tokens=tokens))
    server.tool(lambda: "public", name="public")
    server.tool(lambda: "wiped", name="wipe", description="Wipe the database", auth=require_scopes("admin"))
    child = FastMCP("child")
    child.tool(lambda: "inner", name="inner", auth=require_scopes("admin"))
    server.mount(child, namespace="sub")
    return install(server)


@pytest.mark.parametrize(("token", "expected"), [("reader", NO), ("admin", YES)])
async def test_authorization_over_http_never_widens(token: str, expected: tuple[bool, ...]) -> None:
    async with asgi_client(guarded(), auth=token) as client:
        assert await reach(client, "public") == YES
        assert await reach(client, "wipe") == expected
        assert await reach(client, "sub_inner") == expected
        found = await ask(client, "codecall:search", query="wipe the database")
        assert ("wipe" in {tool["name"] for tool in found["tools"]}) == expected[0]
        if expected is NO:
            # What may not be seen is not told apart from what does not exist, nor suggested.
            refused = await ask(client, "codecall:invoke", tool="wipe", input={})
            absent = await ask(client, "codecall:invoke", tool="wipf", input={})
            assert refused["error"]["code"] == absent["error"]["code"] == "TOOL_NOT_FOUND"
            assert "'wipe'" not in str(absent)
            described = await ask(client, "codecall:describe", toolNames=["wipf"])
            assert "wipe" not in str(described.get("suggestions"))


async def test_two_callers_of_one_server_share_no_catalog() -> None:
    server = guarded()
    async with asgi_client(server, auth="admin") as admin:
        assert set(await overview(admin)) == {"public", "wipe", "sub_inner"}
    async with asgi_client(server, auth="reader") as reader:
        assert set(await overview(reader)) == {"public"}
        assert await reach(reader, "wipe") == NO


async def test_authorization_in_memory_means_no_token() -> None:
    async with Client(guarded()) as client:
        assert set(await overview(client)) == {"public"}
        assert await reach(client, "wipe") == NO
