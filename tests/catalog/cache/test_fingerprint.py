"""A listing is used again only where FastMCP would list the same tools: everything that decides is changed once here.

Each test changes something between two requests. `Seen` compares, within one real request, what CodeCall shows with
what FastMCP lists for the same caller at the same moment.
"""

from __future__ import annotations

import asyncio
import copy
import gc
from collections.abc import Callable, Sequence
from typing import Any, cast

import fastmcp
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.server.middleware import AuthMiddleware, Middleware
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers import AggregateProvider, LocalProvider, Provider
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.transforms import Namespace, ToolTransform, Transform, VersionFilter, Visibility
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ToolTransformConfig

from codecall import CodeCallPlugin
from codecall.catalog.cache.cache import ToolListing
from codecall.catalog.entries import CatalogEntry


def tool(name: str, **fields: Any) -> Tool:
    return Tool.from_function(lambda: 1, name=name, **fields)


def server(name: str, *tools: str) -> FastMCP:
    made: FastMCP = FastMCP(name)
    for each in tools:
        made.add_tool(tool(each))
    return made


class Seen:
    """A server with CodeCall, and a tool on it that looks at the catalog in two ways."""

    def __init__(self, root: FastMCP, **options: Any) -> None:
        self.root = root
        self.plugin = CodeCallPlugin.init(**options)
        self.plugin.install(root)
        self.entries: tuple[CatalogEntry, ...] = ()
        self.listing: object = None
        root.tool(self.look)

    async def look(self, ctx: Context) -> list[str]:
        """The names CodeCall shows; fails where FastMCP would list anything else."""
        listed = await self.plugin.get_tool_catalog(ctx)
        view = self.plugin.view(ctx)
        self.entries = await view.entries()
        self.listing = view._listing
        assert [said(each) for each in self.entries] == [said(each) for each in listed]
        return [each.name for each in self.entries if each.name != "look"]

    async def names(self, client: Client[Any] | None = None, **meta: str) -> list[str]:
        """What a caller sees now; without a client in a request of nobody's."""
        if client is not None:
            return (await client.call_tool("look", meta=meta or None)).data
        async with Context(fastmcp=self.root) as context:
            return await self.look(context)

    async def reused(self) -> bool:
        """Whether the listing of one request serves the next."""
        await self.names()
        entries, listing = self.entries, self.listing
        await self.names()
        # The same entries come again in either case.
        assert entries is self.entries
        return listing is self.listing


def said(item: Tool | CatalogEntry) -> tuple[object, ...]:
    schema = item.parameters if isinstance(item, Tool) else item.input_schema
    return item.name, item.description or "", item.title, item.version, repr(schema), set(item.tags)


async def test_nothing_changed_and_the_same_tuple_comes_again() -> None:
    root = server("root", "one", "two")
    child = server("child", "three")
    child.mount(server("deep", "four"), namespace="deep")
    root.mount(child, namespace="kid")
    root.disable(tags={"secret"})
    seen = Seen(root)
    assert await seen.names() == ["one", "two", "kid_three", "kid_deep_four"]
    assert await seen.reused()


# --- the tools -------------------------------------------------------------------------------------------------------


async def test_a_tool_added_removed_and_replaced() -> None:
    seen = Seen(server("root", "one", "two"))
    assert await seen.names() == ["one", "two"]
    seen.root.add_tool(tool("three"))
    assert await seen.names() == ["one", "two", "three"]
    seen.root.local_provider.remove_tool("one")
    assert await seen.names() == ["two", "three"]
    seen.root.local_provider.remove_tool("two")
    seen.root.add_tool(tool("two", description="another"))
    assert await seen.names() == ["three", "two"]
    assert await seen.reused()


SCHEMA = {"type": "object", "properties": {"n": {"default": 1}}}


async def never(context: object) -> bool:
    return False


def seen_with(changing: Tool, *, mounted: bool) -> Seen:
    """A caller of a server with that tool, or with one mounted that has it; what is tagged hidden is hidden."""
    home: FastMCP = FastMCP("home")
    home.add_tool(changing)
    root = home
    if mounted:
        root = server("root")
        root.mount(home)
    root.disable(tags={"hidden"})
    return Seen(root)


@pytest.mark.parametrize("mounted", [False, True])
@pytest.mark.parametrize(
    ("field", "value", "names"),
    [
        ("name", "renamed", ["renamed"]),
        ("title", "Titled", ["one"]),
        ("description", "another", ["one"]),
        ("tags", {"hidden"}, []),
        ("meta", {"fastmcp": {"_internal": {"visibility": False}}}, []),
        ("meta", {"ui": {"visibility": ["app"]}}, []),
        ("parameters", {"type": "object", "properties": {"n": {"default": True}}}, ["one"]),
        ("version", "2", ["one"]),
        ("auth", never, []),
    ],
    ids=["name", "title", "description", "tags", "visibility", "app only", "parameters", "version", "auth"],
)
async def test_a_field_of_a_tool_that_gets_another_value(
    field: str, value: Any, names: list[str], mounted: bool
) -> None:
    changing = tool("one").model_copy(update={"parameters": SCHEMA})
    seen = seen_with(changing, mounted=mounted)
    assert await seen.names() == ["one"]
    assert await seen.reused()
    setattr(changing, field, value)
    assert await seen.names() == names


async def test_the_output_schema_and_the_metadata_of_a_tool_that_get_another_value() -> None:
    changing = tool("one")
    root: FastMCP = FastMCP("root")
    root.add_tool(changing)
    seen = Seen(root)
    await plain(seen)
    changing.output_schema = {"type": "object", "title": "New"}
    changing.meta = {"codecall": {"tags": ["more"], "appId": "elsewhere"}}
    (entry, _) = await plain(seen)
    assert (entry.output_schema, entry.tags, entry.app_id) == (changing.output_schema, {"more"}, "elsewhere")


async def plain(seen: Seen) -> tuple[CatalogEntry, ...]:
    """The entries alone, where CodeCall's own metadata makes them differ from FastMCP's tools."""
    async with Context(fastmcp=seen.root) as context:
        return await seen.plugin.view(context).entries()


IN_PLACE: dict[str, tuple[dict[str, Any], Callable[[Tool], None]]] = {
    "tags": ({}, lambda each: each.tags.add("hidden")),
    "visibility": ({"fastmcp": {}}, lambda each: each.meta["fastmcp"].update({"_internal": {"visibility": False}})),
    "app only": ({"ui": {}}, lambda each: each.meta["ui"].update({"visibility": ["app"]})),
    "app of text alone": ({"codecall": {"appId": "data"}}, lambda each: each.meta["codecall"].update({"appId": ""})),
    "not for CodeCall": (
        {"codecall": {"enabledInCodeCall": True}},
        lambda each: each.meta["codecall"].update({"enabledInCodeCall": False}),
    ),
    "1 for True": (
        {"codecall": {"enabledInCodeCall": True}},
        lambda each: each.meta["codecall"].update({"enabledInCodeCall": 1}),
    ),
}


@pytest.mark.parametrize("mounted", [False, True])
@pytest.mark.parametrize(("meta", "change"), IN_PLACE.values(), ids=IN_PLACE)
async def test_what_changes_inside_a_tool(meta: dict[str, Any], change: Callable[[Tool], None], mounted: bool) -> None:
    changing = tool("one", meta=copy.deepcopy(meta))
    seen = seen_with(changing, mounted=mounted)
    assert "one" in [entry.name for entry in await plain(seen)]
    assert await seen.reused()
    change(changing)
    assert "one" not in [entry.name for entry in await plain(seen)]


async def test_versions_of_a_tool() -> None:
    seen = Seen(server("root"))
    seen.root.add_tool(tool("one", version="1", description="first"))
    await seen.names()
    seen.root.add_tool(tool("one", version="2", description="second"))
    assert await seen.names() == ["one"]
    assert [entry.description for entry in seen.entries if entry.name == "one"] == ["second"]
    seen.root.local_provider.remove_tool("one", "2")
    await seen.names()
    assert [entry.version for entry in seen.entries if entry.name == "one"] == ["1"]


async def test_a_tool_whose_metadata_is_no_plain_data_is_asked_for_every_time() -> None:
    seen = Seen(server("root", "one"))
    seen.root.add_tool(tool("odd", meta={"when": object()}))
    assert await seen.names() == ["one", "odd"]
    assert not await seen.reused()


class Odd(Tool):
    """Copies itself in a way of its own."""

    def get_meta(self) -> dict[str, Any]:
        return {"fastmcp": {"_internal": {"visibility": False}}}


async def test_a_tool_that_describes_itself_in_a_way_of_its_own_is_asked_for_every_time() -> None:
    seen = Seen(server("root"))
    seen.root.add_tool(Odd(name="odd", parameters={}))
    assert await seen.names() == ["odd"]
    assert not await seen.reused()


# --- transforms and visibility ---------------------------------------------------------------------------------------


async def test_tools_disabled_and_enabled() -> None:
    seen = Seen(server("root", "one", "two"))
    assert await seen.names() == ["one", "two"]
    seen.root.disable(names={"one"})
    assert await seen.names() == ["two"]
    seen.root.enable(names={"one"})
    assert await seen.names() == ["one", "two"]
    seen.root.local_provider.disable(names={"two"})
    assert await seen.names() == ["one"]
    assert await seen.reused()


@pytest.mark.parametrize(
    ("transform", "change", "after"),
    [
        (Visibility(False, names={"no"}), lambda each: each.names.add("one"), ["two"]),
        (Visibility(False, names={"one"}), lambda each: setattr(each, "_enabled", True), ["one", "two"]),
        (Visibility(False, tags=set()), lambda each: setattr(each, "match_all", True), []),
    ],
)
async def test_a_transform_that_changes_inside(transform: Transform, change: Any, after: list[str]) -> None:
    root = server("root", "one", "two")
    home = root.local_provider
    home.add_transform(transform)
    seen = Seen(root)
    home.add_transform(Visibility(True, names={"look"}))
    await seen.names()
    assert await seen.reused()
    change(transform)
    assert await seen.names() == after


async def test_a_namespace_added_and_changed() -> None:
    child = server("child", "one")
    root = server("root")
    provider = FastMCPProvider(child)
    root.add_provider(provider)
    seen = Seen(root)
    assert await seen.names() == ["one"]
    namespace = Namespace("late")
    provider.add_transform(namespace)
    assert await seen.names() == ["late_one"]
    namespace._prefix, namespace._name_prefix = "later", "later_"
    assert await seen.names() == ["later_one"]
    assert [entry.app_id for entry in seen.entries if entry.name == "later_one"] == ["later"]


async def test_a_filter_of_versions_added() -> None:
    root = server("root")
    root.add_tool(tool("one", version="1"))
    root.add_tool(tool("one", version="2"))
    seen = Seen(root)
    await seen.names()
    root.add_transform(VersionFilter(version_lt="2"))
    await seen.names()
    assert [entry.version for entry in seen.entries if entry.name == "one"] == ["1"]
    assert await seen.reused()


class Moody(Transform):
    """Hides what it is told to at the moment."""

    hidden: Sequence[str] = ()

    async def list_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        return [each for each in tools if each.name not in self.hidden]


class Derived(Visibility):
    """Not the class that is known, whatever it inherits."""


@pytest.mark.parametrize(
    "transform", [Moody(), Derived(True), ToolTransform({"one": ToolTransformConfig(name="uno")})], ids=repr
)
async def test_a_transform_of_an_unknown_kind_is_asked_every_time(transform: Transform) -> None:
    root = server("root", "one", "two")
    root.add_transform(transform)
    seen = Seen(root)
    await seen.names()
    assert not await seen.reused()
    if isinstance(transform, Moody):
        transform.hidden = ["one"]
        assert await seen.names() == ["two"]


async def test_a_transform_with_a_method_of_its_own_is_asked_every_time() -> None:
    transform = Visibility(True, names={"one"})
    root = server("root", "one", "two")
    root.add_transform(transform)
    seen = Seen(root)
    assert await seen.names() == ["one", "two"]
    assert await seen.reused()

    async def only_look(tools: Sequence[Tool]) -> Sequence[Tool]:
        return [each for each in tools if each.name == "look"]

    transform.list_tools = only_look  # type: ignore[method-assign]
    assert await seen.names() == []


async def test_rules_of_one_session_hold_for_it_alone() -> None:
    root = server("root", "one", "two")
    child = server("child", "three")
    root.mount(child)

    async def hide(ctx: Context, name: str) -> None:
        await ctx.disable_components(names={name})

    root.tool(hide)
    child.tool(hide, name="hide_below")
    seen = Seen(root)
    # Sessions of the handshake era have rules of their own.
    async with Client(root, mode="legacy") as one, Client(root, mode="legacy") as other:
        everything = await seen.names(one)
        assert await seen.names(other) == everything
        await one.call_tool("hide_below", {"name": "three"})
        assert await seen.names(one) == [name for name in everything if name != "three"]
        assert await seen.names(other) == everything
        await one.call_tool("hide", {"name": "one"})
        assert await seen.names(one) == [name for name in everything if name not in ("one", "three")]
        assert await seen.names(other) == everything


# --- the caller's rights ---------------------------------------------------------------------------------------------


def user() -> str | None:
    request = fastmcp.server.dependencies.get_context().request_context
    return (request.meta or {}).get("user") if request else None


@pytest.mark.parametrize("mounted", [False, True])
async def test_two_callers_with_different_rights_at_the_same_time(mounted: bool) -> None:
    home = server("home", "open")
    home.add_tool(tool("closed", auth=lambda context: user() == "admin"))
    root = home
    if mounted:
        root = server("root")
        root.mount(home)
    seen = Seen(root)
    async with Client(root) as client:
        for _ in range(3):
            some = await asyncio.gather(*(seen.names(client, user=name) for name in ("admin", "guest") * 5))
            assert some == [["open", "closed"], ["open"]] * 5
    assert not await seen.reused()


async def test_a_right_that_is_taken_away() -> None:
    allowed = True
    seen = Seen(server("root", "open"))
    assert await seen.names() == ["open"]
    seen.root.add_tool(tool("closed", auth=lambda context: allowed))
    assert await seen.names() == ["open", "closed"]
    allowed = False
    assert await seen.names() == ["open"]


async def test_a_list_of_checks_that_is_filled_later() -> None:
    closed = tool("closed", auth=[])
    seen = Seen(server("root", "open"))
    seen.root.add_tool(closed)
    assert await seen.names() == ["open", "closed"]
    cast("list[Any]", closed.auth).append(lambda context: False)
    assert await seen.names() == ["open"]


# --- middleware ------------------------------------------------------------------------------------------------------


class Hides(Middleware):
    """Hides every tool of one name."""

    name = "one"

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        return [each for each in await call_next(context) if each.name != self.name]


@pytest.mark.parametrize("mounted", [False, True])
@pytest.mark.parametrize(
    "item", [Hides(), AuthMiddleware(auth=lambda context: context.component.name != "one")], ids=["listing", "auth"]
)
async def test_middleware_that_hides_tools_added_later(item: Middleware, mounted: bool) -> None:
    home = server("home", "one", "two")
    root = home
    if mounted:
        root = server("root")
        root.mount(home)
    seen = Seen(root)
    assert await seen.names() == ["one", "two"]
    assert await seen.reused()
    home.add_middleware(item)
    assert await seen.names() == ["two"]
    assert not await seen.reused()
    home.middleware.remove(item)
    assert await seen.names() == ["one", "two"]


async def test_middleware_that_is_given_a_hook_later() -> None:
    child = server("child", "one")
    root = server("root", "two")
    root.mount(child)
    seen = Seen(root)
    assert await seen.names() == ["two", "one"]

    async def nothing(context: Any, call_next: Any) -> list[Tool]:
        return []

    child.middleware[0].on_list_tools = nothing  # type: ignore[method-assign]
    assert await seen.names() == ["two"]


@pytest.mark.parametrize("mounted", [False, True])
async def test_injected_tools(mounted: bool) -> None:
    home = server("home", "one")
    root = home
    if mounted:
        root = server("root")
        root.mount(home)
    seen = Seen(root)
    assert await seen.names() == ["one"]
    injected = tool("extra", description="injected")
    home.add_middleware(ToolInjectionMiddleware([injected]))
    assert await seen.names() == ["extra", "one"]
    assert await seen.reused()
    injected.description = "another"
    await seen.names()
    assert [entry.description for entry in seen.entries if entry.name == "extra"] == ["another"]
    home.middleware.pop()
    assert await seen.names() == ["one"]


# --- providers -------------------------------------------------------------------------------------------------------


async def test_a_mount_added_later_and_a_tool_added_below() -> None:
    root, child, deep = server("root", "one"), server("child"), server("deep")
    seen = Seen(root)
    assert await seen.names() == ["one"]
    root.mount(child, namespace="kid")
    assert await seen.names() == ["one"]
    child.mount(deep)
    deep.add_tool(tool("three"))
    assert await seen.names() == ["one", "kid_three"]
    assert await seen.reused()
    deep.disable(names={"three"})
    assert await seen.names() == ["one"]
    root.providers.pop()
    assert await seen.names() == ["one"]


async def test_the_app_of_a_tool_follows_the_name_of_its_server() -> None:
    root, child = server("root", "one"), server("child", "two")
    root.mount(child)
    seen = Seen(root)
    await seen.names()
    assert {entry.app_id for entry in seen.entries} == {"root", "child"}
    child._mcp_server.name = "renamed"
    await seen.names()
    assert {entry.app_id for entry in seen.entries} == {"root", "renamed"}


async def test_a_server_that_takes_the_place_of_another() -> None:
    root = server("root")
    provider = FastMCPProvider(server("child", "one"))
    root.add_provider(provider)
    seen = Seen(root)
    assert await seen.names() == ["one"]
    provider.server = server("child", "two")
    assert await seen.names() == ["two"]
    twin: FastMCP = FastMCP("child", providers=[provider.server.local_provider])
    twin.providers.pop(0)
    provider.server = twin
    assert await seen.names() == ["two"]
    assert isinstance(seen.listing, ToolListing)
    assert cast("Any", seen.listing.tools["two"])._server is twin


async def test_providers_of_known_kinds() -> None:
    root = server("root", "one")
    shared = LocalProvider()
    shared.add_tool(tool("two"))
    root.add_provider(AggregateProvider([shared]), namespace="both")
    seen = Seen(root)
    assert await seen.names() == ["one", "both_two"]
    assert await seen.reused()
    shared.add_tool(tool("three"))
    assert await seen.names() == ["one", "both_two", "both_three"]


class Changing(Provider):
    """Gives what it is told to at the moment."""

    names: Sequence[str] = ("one",)

    async def _list_tools(self) -> Sequence[Tool]:
        return [tool(name) for name in self.names]


class Inherited(LocalProvider):
    """Not the class that is known."""


class OwnServer(FastMCP):
    """Not the class that is known."""


@pytest.mark.parametrize("mounted", [False, True])
async def test_what_is_of_an_unknown_kind_is_asked_every_time(mounted: bool) -> None:
    home = server("home")
    root = home
    if mounted:
        root = server("root")
        root.mount(home)
    home.add_provider(Inherited())
    seen = Seen(root)
    await seen.names()
    assert not await seen.reused()
    home.providers.pop()
    home.mount(OwnServer("own"))
    await seen.names()
    assert not await seen.reused()
    home.providers.pop()
    assert await seen.reused()
    home.list_tools = home.list_tools  # type: ignore[method-assign]
    await seen.names()
    assert not await seen.reused()


async def test_a_provider_of_an_unknown_class_is_asked_every_time() -> None:
    root = server("root")
    provider = Changing()
    root.add_provider(provider)
    seen = Seen(root)
    assert await seen.names() == ["one"]
    provider.names = ["two", "three"]
    assert await seen.names() == ["two", "three"]


class Late(Changing):
    """Cannot say yet what FastMCP does not ask it for."""

    @property
    def transforms(self) -> list[Transform]:
        raise RuntimeError("not connected")

    async def list_tools(self) -> Sequence[Tool]:
        return await self._list_tools()


async def test_nothing_is_asked_of_a_provider_of_an_unknown_class() -> None:
    from codecall.catalog.cache.fingerprint import Fingerprint

    root = server("root")
    plugin = CodeCallPlugin.init()
    plugin.install(root)
    root.add_provider(Late())
    assert await Fingerprint.from_server(root, plugin) is None  # type: ignore[arg-type]


async def test_a_wrapper_around_itself_has_no_fingerprint() -> None:
    from codecall.catalog.cache.fingerprint import Fingerprint

    root = server("root")
    plugin = CodeCallPlugin.init()
    plugin.install(root)
    root.add_provider(Changing().wrap_transform(Namespace("a")))
    wrapper: Any = root.providers[-1]
    wrapper._inner = wrapper
    assert await Fingerprint.from_server(root, plugin) is None  # type: ignore[arg-type]
    wrapper._inner = None
    assert await Fingerprint.from_server(root, plugin) is None  # type: ignore[arg-type]


async def test_a_proxy_is_asked_every_time() -> None:
    far = server("far", "one")
    root = server("root")
    root.mount(fastmcp.server.create_proxy(far))
    seen = Seen(root)
    assert await seen.names() == ["one"]
    far.add_tool(tool("two"))
    assert await seen.names() == ["one", "two"]
    assert not await seen.reused()


async def test_servers_mounted_in_a_circle_have_no_fingerprint() -> None:
    from codecall.catalog.cache.fingerprint import Fingerprint

    one, two = server("one", "a"), server("two", "b")
    plugin = CodeCallPlugin.init()
    plugin.install(one)
    one.mount(two)
    two.mount(one)
    assert await Fingerprint.from_server(one, plugin) is None  # type: ignore[arg-type]


async def test_another_release_of_fastmcp_is_asked_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(server("root", "one"))
    monkeypatch.setattr(fastmcp, "__version__", "4.99.0")
    assert await seen.names() == ["one"]
    assert not await seen.reused()


async def test_what_changes_while_fastmcp_lists_is_not_kept() -> None:
    root = server("root", "one")
    seen = Seen(root)
    usual = seen.plugin.get_tool_catalog

    async with Context(fastmcp=root) as context:

        async def read() -> Sequence[Tool]:
            listed = await usual(context)
            if len(listed) == 2:
                root.add_tool(tool("during"))
            return listed

        view = seen.plugin.view(context)
        view._list_tools = read
        # What was read first is out of date, so FastMCP was asked again.
        assert [entry.name for entry in await view.entries()] == ["one", "look", "during"]
    assert await seen.names() == ["one", "during"]


async def test_requests_at_the_same_time_share_one_look_at_the_server() -> None:
    root = server("root", *(f"tool_{number}" for number in range(50)))
    seen = Seen(root)
    reads = 0
    usual = seen.plugin.get_tool_catalog

    async def entries() -> tuple[CatalogEntry, ...]:
        nonlocal reads
        async with Context(fastmcp=root) as context:

            async def read() -> Sequence[Tool]:
                nonlocal reads
                reads += 1
                return await usual(context)

            view = seen.plugin.view(context)
            view._list_tools = read
            return await view.entries()

    several = await asyncio.gather(*(entries() for _ in range(20)))
    assert {id(each) for each in several} == {id(several[0])}
    assert reads == 1


async def test_a_request_never_uses_a_look_that_began_before_it() -> None:
    root = server("root", "one")
    seen = Seen(root)
    usual = seen.plugin.get_tool_catalog
    late: list[asyncio.Task[list[str]]] = []

    async with Context(fastmcp=root) as context:

        async def read() -> Sequence[Tool]:
            listed = await usual(context)
            if not late:
                root.local_provider.remove_tool("one")
                late.append(asyncio.create_task(seen.names()))
                await asyncio.sleep(0)
            return listed

        view = seen.plugin.view(context)
        view._list_tools = read
        await view.entries()
    assert await late[0] == []


def test_loops_one_after_the_other_serve_the_same_server() -> None:
    seen = Seen(server("root", "one"))

    async def several() -> list[list[str]]:
        return await asyncio.gather(*(seen.names() for _ in range(5)))

    for _ in range(3):
        assert asyncio.run(several()) == [["one"]] * 5


def test_a_server_that_is_gone_is_forgotten() -> None:
    plugin = CodeCallPlugin.init()

    async def use(number: int) -> None:
        root = server(f"root_{number}", "one")
        plugin.install(root)
        async with Context(fastmcp=root) as context:
            assert len(await plugin.view(context).entries()) == 1

    for number in range(3):
        asyncio.run(use(number))
    for _ in range(3):  # what a collection ends may hold what only the next one finds
        gc.collect()
    assert len(plugin._now.catalogs._caches) == 0
