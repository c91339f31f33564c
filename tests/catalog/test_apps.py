"""Which app a tool belongs to. Also holds us to the private names of FastMCP that `apps.py` reads."""

from __future__ import annotations

from typing import cast

from fastmcp import FastMCP
from fastmcp.resources import TextResource
from fastmcp.server.providers import AggregateProvider, LocalProvider
from fastmcp.server.transforms import Namespace
from fastmcp.tools import Tool
from pydantic import AnyUrl

from codecall.catalog.apps import AppResolver, FastMCPServer


def server(name: str, *tools: str) -> FastMCPServer:
    made = FastMCP(name)
    for tool in tools:
        made.add_tool(Tool.from_function(lambda: 1, name=tool))
    return cast("FastMCPServer", made)


async def origins(of: FastMCPServer) -> dict[str, str]:
    apps = await AppResolver.from_server(of)
    return {tool.name: apps.origin(tool).app_id for tool in await of.list_tools()}


async def test_a_tool_of_the_server_belongs_to_the_server() -> None:
    assert await origins(server("crm", "users_list")) == {"users_list": "crm"}


async def test_a_mounted_server_is_known_by_its_namespace() -> None:
    main = server("main", "users_count", "health")
    main.mount(server("Users", "list", "count_all"), namespace="users")
    main.mount(server("More", "list"), namespace="users_more")
    assert await origins(main) == {
        "users_count": "main",
        "health": "main",
        "users_list": "users",
        "users_count_all": "users",
        "users_more_list": "users_more",
    }


async def test_a_server_mounted_without_namespace_is_known_by_its_name() -> None:
    main = server("main", "a")
    main.mount(server("plain", "b"))
    main.mount(server("spaced", "c"), namespace="b")
    assert await origins(main) == {"a": "main", "b": "plain", "b_c": "b"}


async def test_what_a_mounted_server_mounts_is_of_the_same_app() -> None:
    inner = server("inner", "x")
    middle = server("middle", "y")
    middle.mount(inner, namespace="deep")
    main = server("main")
    main.mount(middle, namespace="outer")
    assert await origins(main) == {"outer_y": "outer", "outer_deep_x": "outer"}


async def test_one_server_mounted_twice() -> None:
    child = server("child", "x")
    main = server("main")
    main.mount(child, namespace="one")
    main.mount(child, namespace="two")
    assert await origins(main) == {"one_x": "one", "two_x": "two"}


async def test_renamed_tools_of_a_mount_keep_their_app() -> None:
    main = server("main")
    main.mount(server("child", "x"), namespace="ns", tool_names={"x": "renamed"})
    assert await origins(main) == {"ns_renamed": "ns"}


async def test_a_provider_with_a_namespace_and_a_misleading_tool_of_the_server() -> None:
    provider = LocalProvider()
    provider.add_tool(Tool.from_function(lambda: 1, name="list"))
    main = server("main", "users_list_all")
    main.add_provider(provider, namespace="users")
    assert await origins(main) == {"users_list_all": "main", "users_list": "users"}


async def test_providers_inside_an_aggregate_and_namespaces_in_layers() -> None:
    aggregate = AggregateProvider()
    aggregate.add_provider(server("child", "x"), namespace="inner")
    main = server("main")
    main.add_provider(aggregate, namespace="outer")
    assert await origins(main) == {"outer_inner_x": "outer_inner"}


async def test_a_namespace_on_the_server_itself_is_no_app() -> None:
    provider = LocalProvider()
    provider.add_tool(Tool.from_function(lambda: 1, name="list"))
    main = server("main", "users_own")
    main.add_provider(provider, namespace="users")
    main.add_transform(Namespace("api"))
    assert await origins(main) == {"api_users_own": "main", "api_users_list": "users"}


async def test_the_name_a_tool_has_on_its_own_server() -> None:
    main = server("main")
    main.mount(server("ops", "system:reboot"), namespace="ops")
    apps = await AppResolver.from_server(main)
    assert [apps.origin(tool).unprefixed_name for tool in await main.list_tools()] == ["system:reboot"]


async def test_of_uris_whole_segments_count() -> None:
    main = server("main")
    for name, uri in (("git", "x://hub/secret"), ("git_hub", "x://doc")):
        provider = LocalProvider()
        provider.add_resource(TextResource(uri=cast("AnyUrl", uri), name="r", text=""))
        main.add_provider(provider, namespace=name)
    apps = await AppResolver.from_server(main)
    found = {str(each.uri): apps.origin(each) for each in await main.list_resources()}
    assert {uri: origin.app_id for uri, origin in found.items()} == {
        "x://git/hub/secret": "git",
        "x://git_hub/doc": "git_hub",
    }
