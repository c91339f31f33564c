"""A tool is looked up as FastMCP does it, by fewer tasks where that is sure: each way is compared with the other.

The other way is what a release of FastMCP gets that nobody has read the source of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import fastmcp
import pytest
from fastmcp import Context, FastMCP, FastMCPApp
from fastmcp.server.dependencies import get_context
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers import AggregateProvider, LocalProvider
from fastmcp.server.transforms import Namespace, Visibility
from fastmcp.tools import Tool
from fastmcp.utilities.versions import VersionSpec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codecall import CodeCallPlugin

PLUGIN = CodeCallPlugin.init(mode="codecall_opt_in")
"""One for all servers, which it may serve at once. Shows all tools: FastMCP takes from the listing what stands in for a
disabled version."""


def tool(name: str, version: str | None = None, **fields: Any) -> Tool:
    return Tool.from_function(lambda: version, name=name, version=version, **fields)


def local(*tools: Tool) -> LocalProvider:
    provider = LocalProvider()
    for each in tools:
        provider.add_tool(each)
    return provider


def server(*providers: Any, **options: Any) -> FastMCP:
    """One with CodeCall."""
    return PLUGIN.install(FastMCP("s", providers=providers, **options))


class Answer(NamedTuple):
    tool: Tool | None
    error: str
    tasks: int
    """How many it took."""


@asynccontextmanager
async def counted_tasks() -> Any:
    """Collects one item for each task that begins."""
    loop, tasks = asyncio.get_running_loop(), list[object]()

    def task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        tasks.append(None)
        return asyncio.Task(work, loop=loop, **options)

    loop.set_task_factory(cast("Any", task))
    try:
        yield tasks
    finally:
        loop.set_task_factory(None)


async def answer(root: FastMCP, name: str, version: Any = None, tool_hash: str = "") -> Answer:
    async with Context(fastmcp=root), counted_tasks() as tasks:
        try:
            found = await (root.get_tool_by_hash(tool_hash, name) if tool_hash else root.get_tool(name, version))
        except Exception as failure:
            return Answer(None, repr(failure), len(tasks))
        return Answer(found, "", len(tasks))


async def both_ways(root: FastMCP, name: str, version: Any = None, tool_hash: str = "") -> Answer:
    """What both ways give; `tasks`: how many ours does without."""
    ours = await answer(root, name, version, tool_hash)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fastmcp, "__version__", "0.0.0")
        theirs = await answer(root, name, version, tool_hash)
    assert (ours.tool, ours.error) == (theirs.tool, theirs.error)
    if ours.tool is not None and theirs.tool is not None:
        assert cast("Any", ours.tool).fn is cast("Any", theirs.tool).fn
    return ours._replace(tasks=theirs.tasks - ours.tasks)


async def test_no_task_is_begun_for_tools_of_the_server_itself() -> None:
    root = server(local(tool("b")), local(tool("a", "1")))
    root.add_tool(tool("a", "2"))
    assert (await answer(root, "b")).tasks == 0
    found = await both_ways(root, "a")
    assert found.tool is not None
    assert (found.tool.version, found.tasks) == ("2", 3)  # one for each provider
    assert (await both_ways(root, "c")).tool is None


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (None, "10"),
        (VersionSpec(eq="2"), "2"),
        (VersionSpec(lt="10"), "2"),
        (VersionSpec(gte="1", lt="2"), "1.5"),
        (VersionSpec(gte="11"), None),
    ],
)
async def test_the_highest_version_that_may_be(version: VersionSpec | None, found: str | None) -> None:
    root = server(local(tool("a", "2"), tool("a", "1.5")), local(tool("a", "10"), tool("a", "1")))
    seen = await both_ways(root, "a", version)
    assert (seen.tool.version if seen.tool else None) == found


async def test_of_equals_the_first() -> None:
    first, second = tool("a"), tool("a")
    found = (await both_ways(server(local(first), local(second)), "a")).tool
    assert found is first


@pytest.mark.parametrize("before", [True, False], ids=["beneath the plugin", "above it"])
async def test_a_disabled_version_gives_way_to_a_lower_one(before: bool) -> None:
    hide = Visibility(False, names={"a"}, version=VersionSpec(eq="2"))
    root: FastMCP = FastMCP("s", providers=[local(tool("a", "1"), tool("a", "2"), tool("b"))])
    if before:
        root.add_transform(hide)
    PLUGIN.install(root)
    if not before:
        root.add_transform(hide)
    found = await both_ways(root, "a")
    assert found.tool is not None
    assert found.tool.version == "1"
    assert (await both_ways(root, "b")).tasks == (0 if before else 2)
    assert (await both_ways(root, "a", VersionSpec(eq="2"))).tool is None


@pytest.mark.parametrize("allowed", [True, False])
async def test_auth_decides(allowed: bool) -> None:
    root = server(local(tool("a", "1"), tool("a", "2", auth=lambda _: allowed)))
    found = await both_ways(root, "a")
    assert (found.tool.version if found.tool else None) == ("2" if allowed else None)


async def test_auth_is_asked_once() -> None:
    asked: list[None] = []
    root = server(local(tool("a", auth=lambda _: not asked.append(None))))
    assert (await answer(root, "a")).tool is not None
    ours = len(asked)
    assert (await both_ways(root, "a")).tool is not None
    assert len(asked) == 3 * ours


async def test_an_injected_tool_owns_its_name() -> None:
    injected = tool("a")
    root = server(local(tool("a", "7"), tool("b")), middleware=[ToolInjectionMiddleware([injected])])
    assert (await both_ways(root, "a")).tool is injected
    assert (await both_ways(root, "b")).tasks == 2


async def test_a_server_and_one_mounted_on_it_share_the_plugin() -> None:
    child = server(local(tool("a", "1"), tool("b")))
    root = server(local(tool("a", "2"), tool("c_b", "0")))
    root.mount(child, namespace="c")
    for name, version in {"a": "2", "c_a": "1", "c_b": "0", "b": None}.items():
        async with Context(fastmcp=root):
            seen = await root.get_tool(name)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(fastmcp, "__version__", "0.0.0")
                long = await root.get_tool(name)
        assert (seen and seen.version, type(seen)) == (version, type(long))
    assert (await both_ways(root, "a")).tasks == 0
    assert (await both_ways(child, "a")).tasks == 2


async def test_the_hash_of_an_app_tool_means_that_tool() -> None:
    app = FastMCPApp("app")
    app.tool(lambda: 1, name="save")
    async with Context(fastmcp=server(app)) as context:
        saved = await context.fastmcp.get_tool("save")
    assert saved is not None
    assert saved.meta is not None
    root = server(local(saved), local(tool("save", "3")))
    assert (await both_ways(root, "save")).tool is not saved
    assert (await both_ways(root, "save", tool_hash=saved.meta["fastmcp"]["tool_hash"])).tool is saved


class Own(FastMCP):
    """Gives another tool than its providers have."""

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        return tool("own")


class OwnProvider(LocalProvider):
    """Gives another tool than it holds."""

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        return tool(name, "own")


class Failing(LocalProvider):
    """Holds tools, and gives none."""

    async def get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        raise RuntimeError("broken")


OWN = tool("own")


async def give_own(*_: object, **__: object) -> Tool:
    return OWN


def with_attribute(part: Any, name: str, value: object) -> Any:
    setattr(part, name, value)
    return part


def of_a_provider() -> FastMCP:
    provider = local(tool("a"))
    provider.add_transform(PLUGIN)
    return FastMCP("s", providers=[provider])


def nested() -> FastMCP:
    inside = AggregateProvider()
    inside.add_provider(local(tool("a", "3")))
    return server(local(tool("a", "1")), inside)


def renamed() -> FastMCP:
    provider = local(tool("b"))
    provider.add_transform(Namespace("x"))
    return server(provider, local(tool("a")))


def hidden() -> FastMCP:
    provider = local(tool("a"))
    provider.disable(names={"a"})
    return server(provider)


class Going(CodeCallPlugin):
    """Goes on in a way of its own."""

    async def get_tool(self, name: str, call_next: Any, *, version: VersionSpec | None = None) -> Tool | None:
        root = get_context().fastmcp

        async def other(name: str, *, version: VersionSpec | None = None) -> Tool | None:
            return await root.providers[-1].get_tool(name, version)

        return await super().get_tool(name, other, version=version)


ODD: dict[str, Callable[[], FastMCP]] = {
    "a kind of server of its own": lambda: PLUGIN.install(Own("s", providers=[local(tool("a"))])),
    "a kind of provider of its own": lambda: server(local(tool("a")), OwnProvider()),
    "a provider that raises": lambda: server(local(tool("a")), Failing()),
    "get_tool of one provider": lambda: server(with_attribute(local(tool("a")), "get_tool", give_own)),
    "_get_tool of one provider": lambda: server(with_attribute(local(tool("a")), "_get_tool", give_own)),
    "_get_tool of one server": lambda: with_attribute(server(local(tool("a"))), "_get_tool", give_own),
    "_get_highest_version_result of one server": lambda: with_attribute(
        server(local(tool("a"))), "_get_highest_version_result", lambda *_: OWN
    ),
    "a kind of plugin of its own": lambda: Going.init().install(
        FastMCP("s", providers=[local(tool("a", "2")), local(tool("a", "1"))])
    ),
    "the plugin on a provider": of_a_provider,
    "providers in a provider": nested,
    "a provider with names of its own": renamed,
    "a provider that hides": hidden,
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
async def test_whatever_is_odd_is_left_to_fastmcp(make: Callable[[], FastMCP]) -> None:
    root = make()
    for name in ("a", "x_b"):
        # Equal, not the same: some make a new tool each time.
        ours = await answer(root, name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fastmcp, "__version__", "0.0.0")
            theirs = await answer(root, name)
        assert (ours.error, ours.tasks) == (theirs.error, theirs.tasks)
        assert (ours.tool and (ours.tool.key, ours.tool.meta)) == (theirs.tool and (theirs.tool.key, theirs.tool.meta))


@pytest.mark.parametrize("strategy", ["warn", "raise"])
async def test_a_failure_comes_to_what_the_server_says(strategy: str) -> None:
    root = with_attribute(server(local(tool("a", "1"))), "provider_error_strategy", strategy)
    seen = await both_ways(root, "a", "1")  # a mistake: no VersionSpec
    assert ("AttributeError" in seen.error, seen.tool) == (strategy == "raise", None)


VERSIONS = (None, "1", "1.0", "2", "next")
AUTHS: dict[str, Any] = {"nobody's": None, "allowed": lambda _: True, "denied": lambda _: False}
TOOLS = {
    (name, version, auth): tool(name, version, auth=AUTHS[auth])
    for name in "ab"
    for version in VERSIONS
    for auth in AUTHS
}
SPECS = st.none() | st.builds(VersionSpec, eq=st.sampled_from(VERSIONS[1:])) | st.builds(VersionSpec, lt=st.just("2"))
KEYS = st.tuples(st.sampled_from("ab"), st.sampled_from(VERSIONS), st.sampled_from((*AUTHS, "nobody's", "nobody's")))
HIDES = st.lists(st.sampled_from(VERSIONS[1:]), max_size=1)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(KEYS, max_size=4), max_size=3), HIDES, HIDES, st.sampled_from("ab"), SPECS)
def test_any_small_server(
    held: list[list[tuple[str, str | None, str]]],
    before: list[str],
    after: list[str],
    name: str,
    spec: VersionSpec | None,
) -> None:
    root: FastMCP = FastMCP("s")
    for keys in held:
        provider = LocalProvider(on_duplicate="ignore")
        for key in keys:
            try:
                provider.add_tool(TOOLS[key])
            except ValueError:  # some with a version and some without
                continue
        root.add_provider(provider)
    for version in before:
        root.add_transform(Visibility(False, version=VersionSpec(eq=version)))
    PLUGIN.install(root)
    for version in after:
        root.add_transform(Visibility(False, version=VersionSpec(eq=version)))
    asyncio.run(both_ways(root, name, spec))
