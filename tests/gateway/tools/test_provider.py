"""What is listed of a server, and when it is asked anew. Servers here are objects that a test steers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from pathlib import Path

import mcp_types
import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.server.transforms import Namespace
from fastmcp.tools import Tool
from mcp import MCPError

from codecall import CodeCallPlugin
from codecall.catalog.cache.fingerprint import Fingerprint
from codecall.errors import CodeCallError
from codecall.gateway.config.options import AccessOptions
from codecall.gateway.tools import refresher
from codecall.gateway.tools.access import AccessRules
from codecall.gateway.tools.disk_cache import ListingCacheFile
from codecall.gateway.tools.filter import ReservedNames
from codecall.gateway.tools.provider import ServerProvider
from codecall.gateway.tools.refresher import Backoff
from codecall.gateway.upstream.interface import UpstreamCall
from codecall.gateway.upstream.listing import Listing


def listing(*names: str, version: str = "1", **more: object) -> Listing:
    """A listing with tools of these names."""
    tools = tuple(mcp_types.Tool(name=name, input_schema={"type": "object"}) for name in names)
    return Listing(tools=tools, server_info=mcp_types.Implementation(name="n", version=version), **more)  # type: ignore[arg-type]


class Steered:
    """A server whose answers a test gives."""

    def __init__(self, says: Listing | Exception) -> None:
        self.name = "steered"
        self.server_info: mcp_types.Implementation | None = None
        self.says = says
        self.asked = 0
        self.under_way = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.tell: Callable[[str], None] = lambda _: None

    def use(self, context: Context | None) -> AbstractAsyncContextManager[UpstreamCall]:
        raise NotImplementedError

    async def fetch_listing(self) -> Listing:
        self.asked += 1
        self.under_way.set()
        await self.gate.wait()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def on_changed(self, callback: Callable[[str], None]) -> None:
        self.tell = callback


class Told:
    """What a provider told, and a way to wait for it."""

    def __init__(self) -> None:
        self.kinds: list[frozenset[str]] = []
        self.news = asyncio.Event()

    def __call__(self, kinds: frozenset[str]) -> None:
        self.kinds.append(kinds)
        self.news.set()

    async def once(self) -> frozenset[str]:
        """The next that is told."""
        async with asyncio.timeout(5):
            await self.news.wait()
        self.news.clear()
        return self.kinds[-1]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for between two listings."""
    monkeypatch.setattr(refresher, "FIRST_PAUSE_S", 0)


async def names_of(provider: ServerProvider) -> list[str]:
    """The tools it lists."""
    return [tool.name for tool in await provider.list_tools()]


async def test_what_is_kept_is_listed_and_the_server_is_not_asked(tmp_path: Path):
    kept = ListingCacheFile(tmp_path / "cache" / "a.listing")
    kept.save(listing("a", "b"))
    behind = Steered(RuntimeError("not to be asked"))
    provider = ServerProvider(behind, cache_file=kept)
    provider.load()
    provider.open()
    assert await names_of(provider) == ["a", "b"]
    assert (await provider.get_tool("b")) is not None
    await provider.close()
    assert behind.asked == 0


async def test_what_is_not_kept_is_asked_for_and_waited_for_and_kept(tmp_path: Path):
    kept, told = ListingCacheFile(tmp_path / "cache" / "a.listing"), Told()
    behind = Steered(listing("a"))
    provider = ServerProvider(behind, cache_file=kept, on_change=told)
    provider.load()
    assert await names_of(provider) == []  # nobody has opened it
    provider.open()
    assert await names_of(provider) == ["a"]
    assert told.kinds == [frozenset({"tools"})]
    assert kept.load() == behind.says
    await provider.close()


async def test_nobody_waits_for_ever_and_what_comes_later_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(refresher, "FIRST_WAIT_S", 0.02)
    behind, told = Steered(listing("late")), Told()
    behind.gate.clear()
    provider = ServerProvider(behind, on_change=told)
    provider.open()
    assert await names_of(provider) == []
    assert provider.codecall_tools is None  # nothing may be concluded from that
    behind.gate.set()
    assert await told.once() == {"tools"}
    assert await names_of(provider) == ["late"]
    await provider.close()


async def test_who_need_not_wait_does_not():
    behind = Steered(listing("late"))
    behind.gate.clear()
    provider = ServerProvider(behind, wait_for_first=lambda: False)
    provider.open()
    async with asyncio.timeout(1):
        assert await names_of(provider) == []
    await provider.close()


@pytest.mark.parametrize(
    "failure",
    [CodeCallError("away"), MCPError(-32603, "secret"), RuntimeError("secret")],
    ids=["down", "refuses", "broken"],
)
async def test_a_server_that_cannot_be_listed_is_tried_again_later(
    failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    behind = Steered(failure)
    provider = ServerProvider(behind)
    provider.open()
    assert await names_of(provider) == []
    assert await names_of(provider) == []
    assert behind.asked == 1
    assert provider.failure is not None
    assert "secret" not in provider.failure
    assert "steered could not be listed" in caplog.text
    monkeypatch.setattr(refresher, "RETRY_S", 0)
    behind.says = listing("back")
    assert await names_of(provider) == ["back"]
    assert provider.failure is None
    await provider.close()


async def test_a_change_that_a_server_tells_is_listed_and_told(tmp_path: Path):
    kept, told = ListingCacheFile(tmp_path / "cache" / "a.listing"), Told()
    kept.save(listing("a"))
    behind = Steered(listing("a", "b"))
    provider = ServerProvider(behind, cache_file=kept, on_change=told)
    provider.load()
    provider.open()
    before = provider.codecall_tools
    assert provider.codecall_tools is before
    behind.tell("tools")
    assert await told.once() == {"tools"}
    assert provider.codecall_tools is not before
    assert await names_of(provider) == ["a", "b"]
    assert kept.load() == behind.says
    await provider.close()


async def test_changes_that_come_while_it_is_asked_are_seen_too():
    behind, told = Steered(listing("one")), Told()
    behind.gate.clear()
    provider = ServerProvider(behind, on_change=told)
    provider.open()
    async with asyncio.timeout(5):
        await behind.under_way.wait()
    behind.tell("tools")
    behind.tell("prompts")
    behind.gate.set()
    await told.once()
    behind.says = listing("one", "two")
    assert await told.once() == {"tools"}
    assert behind.asked == 2
    await provider.close()


async def test_another_version_of_a_server_is_asked_when_it_is_started(tmp_path: Path):
    kept, told = ListingCacheFile(tmp_path / "cache" / "a.listing"), Told()
    kept.save(listing("a"))
    behind = Steered(listing("b", version="2"))
    provider = ServerProvider(behind, cache_file=kept, on_change=told)
    provider.load()
    provider.open()
    behind.server_info = mcp_types.Implementation(name="n", version="2")
    behind.tell("started")
    assert await told.once() == {"tools"}
    assert await names_of(provider) == ["b"]
    await provider.close()


async def test_what_is_old_is_looked_at_once_in_a_run_when_the_server_is_started(tmp_path: Path):
    kept, told = ListingCacheFile(tmp_path / "cache" / "a.listing"), Told()
    kept.save(listing("a"))
    behind = Steered(listing("b"))
    behind.server_info = mcp_types.Implementation(name="n", version="1")
    fresh = ServerProvider(behind, cache_file=kept, on_change=told)
    fresh.load()
    fresh.open()
    behind.tell("started")
    await fresh.close()
    os.utime(kept.path, (0, 0))
    old = ServerProvider(behind, cache_file=kept, on_change=told)
    old.load()
    old.open()
    behind.tell("started")
    assert await told.once() == {"tools"}
    behind.tell("started")
    await old.refresh()
    assert behind.asked == 2  # the refresh itself is the second
    await old.close()


async def test_what_has_not_changed_is_not_told_and_not_written(tmp_path: Path):
    kept, told = ListingCacheFile(tmp_path / "cache" / "a.listing"), Told()
    kept.save(listing("a"))
    os.utime(kept.path, (0, 0))
    number = kept.path.stat().st_ino
    provider = ServerProvider(Steered(listing("a")), cache_file=kept, on_change=told)
    provider.load()
    before = provider.codecall_tools
    await provider.refresh()
    assert (told.kinds, provider.codecall_tools, kept.path.stat().st_ino) == ([], before, number)
    assert (kept.age_s() or 0) < 60


async def test_refreshing_joins_a_first_listing_that_is_under_way():
    behind = Steered(listing("a"))
    provider = ServerProvider(behind)
    provider.open()
    assert await provider.refresh() == behind.says
    assert behind.asked == 1
    await provider.refresh()
    assert behind.asked == 2
    await provider.close()
    behind = Steered(CodeCallError("away"))
    provider = ServerProvider(behind)
    provider.open()
    with pytest.raises(CodeCallError, match="away"):
        await provider.refresh()
    assert behind.asked == 1
    await provider.close()


async def test_a_failed_refresh_leaves_what_was_known():
    behind = Steered(listing("a"))
    provider = ServerProvider(behind)
    await provider.refresh()
    behind.says = CodeCallError("away")
    with pytest.raises(CodeCallError, match="away"):
        await provider.refresh()
    assert await names_of(provider) == ["a"]


async def test_rules_are_applied_to_each_listing_anew():
    tame = mcp_types.Tool(name="clean", input_schema={"type": "object"})
    wild = tame.model_copy(update={"annotations": mcp_types.ToolAnnotations(destructive_hint=True)})
    behind = Steered(Listing(tools=(tame,)))
    provider = ServerProvider(behind, access=AccessRules(AccessOptions()))
    await provider.refresh()
    assert await names_of(provider) == ["clean"]
    behind.says = Listing(tools=(wild,))
    await provider.refresh()
    assert await names_of(provider) == []
    assert await provider.get_tool("clean") is None
    assert [(hidden.name, hidden.code) for hidden in provider.hidden] == [("clean", "asked")]


async def test_too_many_and_too_large_things_are_hidden_and_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("codecall.gateway.tools.filter.MAX_TOOLS", 2)
    monkeypatch.setattr("codecall.gateway.tools.filter.MAX_DEFINITION_BYTES", 1_000)
    huge = mcp_types.Tool(name="huge", description="x" * 2_000, input_schema={"type": "object"})
    small = listing("a", "b", "c").tools
    provider = ServerProvider(Steered(Listing(tools=(huge, *small))))
    await provider.refresh()
    assert await names_of(provider) == ["a"]
    assert [(hidden.name, hidden.code) for hidden in provider.hidden] == [("huge", "size"), ("b", "number")]


async def test_what_has_too_many_values_or_is_nested_too_much_is_hidden_and_said():
    many = {"type": "object", "enum": [0] * 20_000}
    deep = {"type": "object", "x": [[[[[[[]]]]]]] * 500}
    provider = ServerProvider(
        Steered(
            Listing(
                tools=(
                    mcp_types.Tool(name="many", input_schema=many),
                    mcp_types.Tool(name="deep", input_schema={"type": "object"}, _meta=deep),
                    *listing("a").tools,
                ),
                resources=(mcp_types.Resource(uri="data://deep", name="deep", _meta=deep),),
            )
        )
    )
    await provider.refresh()
    assert await names_of(provider) == ["a"]
    assert [(hidden.name, hidden.code, hidden.reason) for hidden in provider.hidden] == [
        ("many", "size", "its definition has more than 20,000 values"),
        ("deep", "size", "its definition has more than 10,000 levels of nesting, added up"),
        ("data://deep", "size", "its definition has more than 10,000 levels of nesting, added up"),
    ]


async def test_what_a_tool_says_of_itself_besides_counts_as_what_its_listing_costs():
    plain = ServerProvider(Steered(listing("a")))
    await plain.refresh()
    said = mcp_types.Tool(name="a", input_schema={"type": "object"}, _meta={"a": [[] for _ in range(4_000)]})
    saying = ServerProvider(Steered(Listing(tools=(said,))))
    await saying.refresh()
    assert saying.tokens - plain.tokens == pytest.approx(3_000, rel=0.01)


async def test_resources_templates_and_prompts_are_found_too():
    said = Listing(
        resources=(mcp_types.Resource(uri="data://a", name="a"), mcp_types.Resource(uri="HTTP://A.test", name="b")),
        templates=(mcp_types.ResourceTemplate(uri_template="data://{x}/y", name="t"),),
        prompts=(mcp_types.Prompt(name="p"),),
    )
    provider = ServerProvider(Steered(said))
    await provider.refresh()
    assert await provider.get_resource("data://a") is not None
    assert await provider.get_resource("data://b") is None
    assert await provider.get_resource_template("data://b/y") is not None
    assert await provider.get_resource_template("data://b/z") is None
    assert await provider.get_prompt("p") is not None
    assert await provider.get_prompt("q") is None
    assert [len(await each()) for each in (provider.list_resources, provider.list_prompts)] == [2, 1]
    for resource in await provider.list_resources():
        assert await provider.get_resource(str(resource.uri)) is not None
    assert await provider.get_resource("HTTP://A.test") is not None


async def test_a_template_made_to_be_slow_is_not_compared(caplog: pytest.LogCaptureFixture):
    slow = "data://" + "-".join(f"{{v{number}*}}" for number in range(8)) + "!"
    provider = ServerProvider(Steered(Listing(templates=(mcp_types.ResourceTemplate(uri_template=slow, name="t"),))))
    await provider.refresh()
    async with asyncio.timeout(5):
        assert await provider.get_resource_template("data://" + "-" * 200) is None
    assert "takes too long" in caplog.text


async def test_a_fingerprint_holds_until_the_provider_lists_anything_else():
    behind = Steered(listing("a", "b"))
    provider = ServerProvider(behind)
    server = FastMCP("house")
    server.add_provider(provider, namespace="s")
    plugin = CodeCallPlugin.init()
    plugin.install(server)
    assert await Fingerprint.from_server(server, plugin) is None  # not listed yet: nothing is sure
    await provider.refresh()
    taken = await Fingerprint.from_server(server, plugin)
    assert taken is not None
    assert await taken.holds(server, plugin)
    await provider.refresh()
    assert await taken.holds(server, plugin)
    behind.says = listing("a")
    await provider.refresh()
    assert not await taken.holds(server, plugin)


async def test_a_provider_that_lists_in_a_way_of_its_own_has_no_fingerprint():
    class Other(ServerProvider):
        async def _list_tools(self) -> list[Tool]:
            return []

    for change in (lambda: Other(Steered(listing("a"))), lambda: _patched(ServerProvider(Steered(listing("a"))))):
        provider = change()
        await provider.refresh()
        server = FastMCP("house")
        server.add_provider(provider, namespace="s")
        plugin = CodeCallPlugin.init()
        plugin.install(server)
        assert await Fingerprint.from_server(server, plugin) is None


def _patched(provider: ServerProvider) -> ServerProvider:
    vars(provider)["list_tools"] = provider.list_tools
    return provider


async def test_calls_through_a_gateway_do_not_list_all_tools_each_time(monkeypatch: pytest.MonkeyPatch):
    provider = ServerProvider(Steered(listing("a", "b")))
    await provider.refresh()
    server = FastMCP("house")
    server.add_provider(provider, namespace="s")
    CodeCallPlugin.init().install(server)
    lists = 0
    listed = Namespace.list_tools

    async def counted(self: Namespace, tools: Sequence[Tool]) -> Sequence[Tool]:
        nonlocal lists
        lists += 1
        return await listed(self, tools)

    async with Client(server) as client:
        await client.call_tool("codecall:describe", {"toolNames": ["s_a"]})
        monkeypatch.setattr(Namespace, "list_tools", counted)
        for _ in range(3):
            await client.call_tool("codecall:describe", {"toolNames": ["s_b"]})
        assert lists == 0
        await client.list_tools()
        assert lists > 0


async def test_oddities_of_one_thing_leave_the_others_and_the_next_start_as_they_are(tmp_path: Path):
    odd: list[object] = [5, None, [[1]], [1, "a"]]
    said = Listing(
        tools=tuple(
            mcp_types.Tool(name=f"t{at}", input_schema={"type": "object"}, _meta={"fastmcp": {"tags": tags}})
            for at, tags in enumerate(odd)
        ),
        resources=(mcp_types.Resource(uri="hello world", name="r"), mcp_types.Resource(uri="data://a", name="a")),
        prompts=(mcp_types.Prompt(name="p", _meta={"fastmcp": {"tags": [1]}}),),
    )
    kept = ListingCacheFile(tmp_path / "cache" / "a.listing")
    first, second = (ServerProvider(Steered(said), cache_file=kept) for _ in range(2))
    await first.refresh()
    second.load()
    for provider in (first, second):
        assert [tool.tags for tool in await provider.list_tools()] == [set(), set(), set(), {"a"}]
        assert [str(resource.uri) for resource in await provider.list_resources()] == ["data://a"]
        assert [(hidden.kind, hidden.name, hidden.code) for hidden in provider.hidden] == [
            ("resource", "hello world", "unusable")
        ]
        assert await provider.get_prompt("p") is not None


async def test_what_cannot_be_shown_is_not_kept_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    kept = ListingCacheFile(tmp_path / "cache" / "a.listing")
    kept.save(listing("a"))
    provider = ServerProvider(Steered(listing("b")), cache_file=kept)

    def broken(_: object) -> bool:
        raise RecursionError

    monkeypatch.setattr("codecall.gateway.tools.filter.may_be_large", broken)
    provider.load()
    assert not provider.is_listed
    assert "what is kept of it is not used" in caplog.text
    with pytest.raises(CodeCallError, match="cannot be used"):
        await provider.refresh()
    assert provider.failure is not None
    assert kept.load() == listing("a")
    provider = ServerProvider(Steered(ValueError("no listing at all")), cache_file=kept)
    with pytest.raises(CodeCallError, match="cannot be used"):
        await provider.refresh()


async def test_a_prompt_does_not_take_the_name_of_another_servers():
    said = Listing(prompts=(mcp_types.Prompt(name="er_review"), mcp_types.Prompt(name="review")))
    provider = ServerProvider(Steered(said), names=ReservedNames(["steered", "steered_er"]))
    await provider.refresh()
    assert [prompt.name for prompt in await provider.list_prompts()] == ["review"]
    assert await provider.get_prompt("er_review") is None
    assert [(hidden.kind, hidden.code) for hidden in provider.hidden] == [("prompt", "shadows")]


def test_a_server_that_goes_on_changing_is_asked_more_and_more_seldom():
    now = 0.0
    pace = Backoff(lambda: now)
    pauses: list[float] = []
    for _ in range(8):
        pace.note_change()
        pauses.append(pace.next_pause_s(1.0))
        now += pauses[-1] if pauses[-1] < 60 else 59
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    now += 60
    pace.note_change()
    assert pace.next_pause_s(1.0) == 1


async def test_a_listing_has_no_variables_of_the_request_that_starts_the_server():
    variable = ContextVar[str]("request", default="none")
    seen: list[str] = []

    class Watched(Steered):
        async def fetch_listing(self) -> Listing:
            seen.append(variable.get())
            return await super().fetch_listing()

    behind, told = Watched(listing("a")), Told()
    provider = ServerProvider(behind, on_change=told)
    provider.open()
    await told.once()

    async def request() -> None:
        variable.set("of one caller")
        behind.says = listing("a", "b")
        behind.tell("tools")

    await asyncio.create_task(request())
    await told.once()
    await provider.close()
    assert seen == ["none", "none"]
