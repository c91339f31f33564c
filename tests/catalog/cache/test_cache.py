"""Whatever happens to a tree of servers, CodeCall shows what FastMCP lists; and what did not change is the same object.

The first half changes a tree at random. After each step the view must hold exactly the tools of a fresh listing, taken
by FastMCP through all of its middleware.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import hypothesis.strategies as st
import pytest
from fastmcp import Context, FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.transforms import Namespace, ToolTransform, VersionFilter
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ToolTransformConfig
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from codecall import CodeCallPlugin
from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.cache import CatalogCache, CatalogCaches
from codecall.catalog.entries import CatalogEntry, tool_metadata
from codecall.catalog.view import CatalogView
from codecall.catalog.visibility import VisibilityPolicy
from codecall.options import PluginOptions

NAMES = ("a", "b", "c")
WORDS = ("x", "y")
MOUNTED = 3


class Hides(Middleware):
    """Hides the tools of one name."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        return [tool for tool in await call_next(context) if not tool.name.endswith(self.name)]


def shown(item: Tool | CatalogEntry) -> tuple[object, ...]:
    schema = item.parameters if isinstance(item, Tool) else item.input_schema
    return item.name, item.description or "", item.version, repr(schema), set(item.tags)


servers = st.integers(0, MOUNTED)
names = st.sampled_from(NAMES)
words = st.sampled_from(WORDS)


class Tree(RuleBasedStateMachine):
    """A server with CodeCall, others mounted on it and on each other, and everything that may happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.servers: list[FastMCP] = [FastMCP(f"server{number}", on_duplicate="replace") for number in range(4)]
        self.codecall = CodeCallPlugin.init()
        self.codecall.install(self.servers[0])
        self.servers[0].mount(self.servers[1], namespace="one")
        self.servers[1].mount(self.servers[2])
        self.mounted = {3: False}

    def teardown(self) -> None:
        self.loop.close()

    def tools(self, at: int) -> list[Tool]:
        components = self.loop.run(cast("Any", self.servers[at].local_provider.list_tools()))
        return list(components)

    def one(self, at: int, name: str) -> Tool | None:
        found = [c for c in self.servers[at].local_provider._components.values() if c.name == name]
        return cast("Tool", found[0]) if found else None

    @rule(at=servers, name=names, text=words, tags=st.sets(words), version=st.sampled_from([None, None, "1", "2"]))
    def add(self, at: int, name: str, text: str, tags: set[str], version: str | None) -> None:
        other = self.one(at, name)
        if other is not None and (other.version is None) != (version is None):
            self.servers[at].local_provider.remove_tool(name)
        made = Tool.from_function(lambda: 1, name=name, description=text, tags=tags, version=version)
        self.servers[at].add_tool(made)

    @rule(at=servers, name=names)
    def remove(self, at: int, name: str) -> None:
        if self.one(at, name) is not None:
            self.servers[at].local_provider.remove_tool(name)

    @rule(at=servers, name=names, text=words)
    def describe(self, at: int, name: str, text: str) -> None:
        tool = self.one(at, name)
        if tool is not None:
            tool.description = text

    @rule(at=servers, name=names, default=st.sampled_from([1, True, 1.0, "1"]))
    def reshape(self, at: int, name: str, default: object) -> None:
        tool = self.one(at, name)
        if tool is not None:
            tool.parameters = {"type": "object", "properties": {"n": {"default": default}}}

    @rule(at=servers, name=names, tag=words, add=st.booleans())
    def tag_in_place(self, at: int, name: str, tag: str, add: bool) -> None:
        tool = self.one(at, name)
        if tool is not None:
            (tool.tags.add if add else tool.tags.discard)(tag)

    @rule(at=servers, name=names, audience=st.sampled_from([["app"], ["app", "model"], ["model"]]))
    def for_apps(self, at: int, name: str, audience: list[str]) -> None:
        tool = self.one(at, name)
        if tool is not None and tool.meta is not None and "ui" in tool.meta:
            cast("dict[str, Any]", tool.meta["ui"])["visibility"] = audience
        elif tool is not None:
            tool.meta = {**(tool.meta or {}), "ui": {"visibility": audience}}

    @rule(at=servers, name=names, allowed=st.sampled_from([None, True, False]))
    def guard(self, at: int, name: str, allowed: bool | None) -> None:
        tool = self.one(at, name)
        if tool is not None:
            tool.auth = None if allowed is None else (lambda context: allowed)

    @rule(at=servers, tag=words, enable=st.booleans())
    def switch_tag(self, at: int, tag: str, enable: bool) -> None:
        (self.servers[at].enable if enable else self.servers[at].disable)(tags={tag})

    @rule(at=servers, name=names, enable=st.booleans(), local=st.booleans())
    def switch_name(self, at: int, name: str, enable: bool, local: bool) -> None:
        part = self.servers[at].local_provider if local else self.servers[at]
        (part.enable if enable else part.disable)(names={name, f"one_{name}"})

    @rule(at=servers, kind=st.sampled_from(["namespace", "version", "rename"]), name=names)
    def transform(self, at: int, kind: str, name: str) -> None:
        provider = self.servers[at].local_provider
        if kind == "namespace":
            provider.add_transform(Namespace("n"))
        elif kind == "version":
            provider.add_transform(VersionFilter(version_lt="2"))
        else:
            provider.add_transform(ToolTransform({name: ToolTransformConfig(name=f"{name}_renamed")}))

    @rule(at=servers)
    def untransform(self, at: int) -> None:
        self.servers[at].local_provider._transforms.clear()

    @rule(at=servers, name=names)
    def hide(self, at: int, name: str) -> None:
        self.servers[at].add_middleware(Hides(name))

    @rule(at=servers, name=names)
    def inject(self, at: int, name: str) -> None:
        self.servers[at].add_middleware(ToolInjectionMiddleware([Tool.from_function(lambda: 1, name=name)]))

    @rule(at=servers)
    def without_middleware(self, at: int) -> None:
        del self.servers[at].middleware[1:]

    @rule(at=st.integers(0, MOUNTED - 1), namespace=st.sampled_from(["", "n"]))
    def mount(self, at: int, namespace: str) -> None:
        if not self.mounted[3]:
            self.mounted[3] = True
            self.servers[at].mount(self.servers[3], namespace=namespace)

    @rule()
    def unmount(self) -> None:
        for server in self.servers:
            if (
                self.mounted[3]
                and server.providers
                and "server3" in repr(getattr(server.providers[-1], "__dict__", ""))
            ):
                server.providers.pop()
                self.mounted[3] = False

    @invariant()
    def shows_what_fastmcp_lists(self) -> None:
        self.loop.run(self._compare())

    async def _compare(self) -> None:
        async with Context(fastmcp=self.servers[0]) as context:
            view = self.codecall.view(context)
            entries = await view.entries()
            listed = await self.codecall.get_tool_catalog(context)
            assert [shown(entry) for entry in entries] == [shown(tool) for tool in listed]
            assert [await view.exists(tool.name) for tool in listed] == [True] * len(listed)
            for entry in entries:
                found = await view.find(entry.name)
                assert found is not None
                assert shown(found) == shown(entry)
            assert await self.codecall.view(context).entries() is entries


TestTree = Tree.TestCase
TestTree.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


# --- entries ---------------------------------------------------------------------------------------------------------


class Requests:
    """Requests to one server, each of which has its tools listed anew: nothing is proved about it."""

    def __init__(self, server: FastMCP, **options: Any) -> None:
        self.server = cast("FastMCPServer", server)
        self.reach = VisibilityPolicy(PluginOptions.build(**options))
        self.catalog = CatalogCache(self.reach)

    async def entries(self, tools: Sequence[Tool] | None = None) -> tuple[CatalogEntry, ...]:
        async def read() -> Sequence[Tool]:
            return await self.server.list_tools() if tools is None else tools

        return await CatalogView(self.server, read, self.reach, self.catalog).entries()


async def test_tools_of_mounted_servers_are_copied_for_each_listing_and_have_one_entry() -> None:
    server: FastMCP = FastMCP("main")
    child: FastMCP = FastMCP("child")
    server.tool(lambda: 1, name="own", tags={"a"}, meta=tool_metadata(app_id="data", tags=["b"]))
    child.tool(lambda: 1, name="count", tags={"a"}, meta=tool_metadata(tags=["b"]))
    server.mount(child, namespace="users")
    requests = Requests(server)
    first = await requests.entries()
    assert [entry.name for entry in first] == ["own", "users_count"]
    assert await requests.entries() is first


async def test_callers_with_different_rights_each_get_their_tuple_again() -> None:
    requests = Requests(FastMCP("main"))
    tools = [Tool.from_function(lambda: 1, name=name) for name in "abc"]
    everything, some = await requests.entries(tools), await requests.entries(tools[1:])
    assert some == everything[1:]
    assert all(one is other for one, other in zip(some, everything[1:], strict=True))
    for _ in range(3):
        assert await requests.entries(tools) is everything
        assert await requests.entries(tools[1:]) is some


async def test_versions_of_a_tool_for_different_callers_are_told_apart() -> None:
    requests = Requests(FastMCP("main"))
    old, new = (Tool.from_function(lambda: 1, name="one", version=version) for version in ("1", "2"))
    first, second = await requests.entries([old]), await requests.entries([new])
    assert [first[0].version, second[0].version] == ["1", "2"]
    assert await requests.entries([old]) is first
    assert await requests.entries([new]) is second


async def test_one_changed_tool_leaves_the_entries_of_the_others() -> None:
    requests = Requests(FastMCP("main"))
    tools = [Tool.from_function(lambda: 1, name=name) for name in "abc"]
    before = await requests.entries(tools)
    tools[1] = tools[1].model_copy(update={"description": "new"})
    after = await requests.entries(tools)
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]


async def test_an_app_that_changes_changes_the_entry() -> None:
    server: FastMCP = FastMCP("main")
    child: FastMCP = FastMCP("child")
    child.tool(lambda: 1, name="x")
    server.mount(child)
    requests = Requests(server)
    assert [entry.app_id for entry in await requests.entries()] == ["child"]
    server.providers.pop()
    server.mount(child, namespace="kid")
    server.providers[-1].add_transform(ToolTransform({"kid_x": ToolTransformConfig(name="x")}))
    assert [entry.app_id for entry in await requests.entries()] == ["kid"]


async def test_plugins_with_different_rules_share_nothing() -> None:
    server: FastMCP = FastMCP("main")
    server.tool(lambda: 1, name="x")
    server.tool(lambda: 1, name="y", meta=tool_metadata(app_id="other"))
    everything, some = Requests(server), Requests(server, app_ids=["other"])
    for _ in range(2):
        assert [entry.name for entry in await everything.entries()] == ["x", "y"]
        assert [entry.name for entry in await some.entries()] == ["y"]


@pytest.mark.parametrize("proved", [True, False])
async def test_the_filter_of_the_user_is_asked_once_a_tool_in_every_request(proved: bool) -> None:
    asked: list[str] = []
    allowed = {"a", "b"}

    def include(tool: Tool) -> bool:
        asked.append(tool.name)
        return tool.name in allowed

    server: FastMCP = FastMCP("main")
    for name in ("a", "b", "__reserved"):
        server.tool(lambda: 1, name=name)
    if not proved:
        server.add_middleware(Hides("nothing"))
    plugin = CodeCallPlugin.init(include_tools=include)
    plugin.install(server)

    async def entries() -> tuple[CatalogEntry, ...]:
        async with Context(fastmcp=server) as context:
            view = plugin.view(context)
            await view.find("b")
            found = await view.entries()
            assert await view.entries() is found
            return found

    first = await entries()
    assert asked == ["b", "a"]
    assert await entries() is first
    assert asked == ["b", "a"] * 2
    allowed.remove("a")
    assert [entry.name for entry in await entries()] == ["b"]


async def test_what_is_remembered_stays_within_bounds() -> None:
    requests = Requests(FastMCP("main"))
    for number in range(20):
        await requests.entries([Tool.from_function(lambda: 1, name=f"tool_{number}_{n}") for n in range(100)])
    assert len(requests.catalog._records) <= 3 * 100 + 100
    catalogs = CatalogCaches(requests.reach)
    servers = [cast("FastMCPServer", FastMCP(f"server_{number}")) for number in range(40)]
    first = catalogs.for_server(servers[0])
    for server in servers:
        assert catalogs.for_server(servers[0]) is first
        catalogs.for_server(server)
    assert len(catalogs._caches) == 32


async def test_metadata_that_is_no_plain_data_gives_fresh_entries() -> None:
    requests = Requests(FastMCP("main"))
    odd = Tool.from_function(lambda: 1, name="odd").model_copy(update={"meta": {"codecall": {"tags": ("a", object())}}})
    assert await requests.entries([odd]) == ()
