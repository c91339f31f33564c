"""Putting CodeCall on a server: every way to do it, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.transforms import Namespace

from codecall import CodeCallPlugin, OptionsError, RateLimitPlugin
from codecall.plugin import CodeCallPlugin as DirectImport

NAMES = ["codecall:search", "codecall:describe", "codecall:invoke", "codecall:execute"]
SCRIPT = "return (await callTool('answer', {})) + 1"


def answering(name: str = "server", **settings: Any) -> FastMCP:
    server = FastMCP(name, **settings)
    server.tool(lambda: 41, name="answer")
    return server


def by_transforms() -> FastMCP:
    return answering(transforms=[CodeCallPlugin.init()])


def by_add_transform() -> FastMCP:
    server = answering()
    server.add_transform(CodeCallPlugin.init())
    return server


def by_install() -> FastMCP:
    server = answering()
    assert CodeCallPlugin.init().install(server) is server
    return server


@CodeCallPlugin.init()
def by_decorator() -> FastMCP:
    """Made by a function."""
    return answering()


@pytest.mark.parametrize("make", [by_transforms, by_add_transform, by_install, by_decorator])
async def test_every_way_of_installing(make: Callable[[], FastMCP]) -> None:
    async with Client(make()) as client:
        assert [tool.name for tool in await client.list_tools()] == NAMES
        ran = await client.call_tool("codecall:execute", {"script": SCRIPT})
        assert ran.structured_content is not None
        assert (ran.structured_content["status"], ran.structured_content["result"]) == ("ok", 42)


async def test_the_decorator_takes_async_functions_and_arguments() -> None:
    @CodeCallPlugin.init(tool_name_separator="_")
    async def create(name: str, *, extra: str) -> FastMCP:
        """Make one."""
        return answering(f"{name}-{extra}")

    assert create.__name__ == "create"
    assert create.__doc__ == "Make one."
    server = await create("a", extra="b")
    assert server.name == "a-b"
    async with Client(server) as client:
        assert (await client.list_tools())[0].name == "codecall_search"


def test_the_decorator_says_what_it_decorates() -> None:
    with pytest.raises(TypeError, match=r"install\("):
        CodeCallPlugin.init()(answering())  # type: ignore[call-overload]

    @CodeCallPlugin.init()
    def create() -> FastMCP:
        return "server"  # type: ignore[return-value]

    with pytest.raises(TypeError, match=r"create\(\) must return a FastMCP server; it returned str"):
        create()


def test_the_decorator_refuses_a_server_that_has_a_plugin() -> None:
    with pytest.raises(OptionsError, match="has a CodeCall plugin already"):
        CodeCallPlugin.init()(by_install)()


def test_installing_twice_is_refused() -> None:
    plugin = CodeCallPlugin.init()
    server = plugin.install(answering("twice"))
    with pytest.raises(OptionsError, match="'twice' has a CodeCall plugin already"):
        plugin.install(server)
    with pytest.raises(OptionsError, match="already"):
        CodeCallPlugin.init().install(server)


@pytest.mark.parametrize("separators", [(":", ":"), (":", "_")])
async def test_two_plugins_by_the_back_door_are_refused_clearly(separators: tuple[str, str]) -> None:
    plugins = [CodeCallPlugin.init(tool_name_separator=separator) for separator in separators]
    server = answering("two", transforms=plugins)
    with pytest.raises(OptionsError, match="'two' must have exactly one CodeCall plugin"):
        await server.list_tools()
    with pytest.raises(Exception, match="must have exactly one CodeCall plugin"):
        await server.call_tool("codecall:search", {"query": "x"})


async def test_one_plugin_serves_two_servers_at_once() -> None:
    plugin = CodeCallPlugin.init()
    one, two = plugin.install(answering("one")), plugin.install(FastMCP("two"))
    two.tool(lambda: "other", name="other")
    script = "return getTool('answer') ? await callTool('answer', {}) : await callTool('other', {})"
    async with Client(one) as first, Client(two) as second:
        for client, result, names in ((first, 41, ["answer"]), (second, "other", ["other"])):
            ran = await client.call_tool("codecall:execute", {"script": script})
            assert ran.structured_content is not None
            assert ran.structured_content["result"] == result
            found = await client.call_tool("codecall:search", {"query": ""})
            assert found.structured_content is not None
            assert [tool["name"] for tool in found.structured_content["tools"]] == names


async def test_a_plugin_on_a_provider_is_refused_when_it_is_used() -> None:
    server = answering()
    server.local_provider.add_transform(CodeCallPlugin.init())
    with pytest.raises(Exception, match="as a transform of the server itself"):
        await server.call_tool("codecall:search", {"query": "x"})


@pytest.mark.parametrize("spelling", [":", "_"])
@pytest.mark.parametrize("called", [":", "_"])
async def test_both_spellings_work_whichever_is_advertised(spelling: str, called: str) -> None:
    server = CodeCallPlugin.init(tool_name_separator=spelling).install(answering())
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == [name.replace(":", spelling) for name in NAMES]
        ran = await client.call_tool(f"codecall{called}execute", {"script": "return 1"})
        assert ran.structured_content is not None
        assert ran.structured_content["status"] == "ok"


async def test_advertised_names_suit_strict_clients() -> None:
    import re

    server = CodeCallPlugin.init(toolNameSeparator="_").install(answering())
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name) for tool in await server.list_tools())


async def test_a_tool_that_has_the_name_of_a_meta_tool_gives_way() -> None:
    server = CodeCallPlugin.init(mode="codecall_opt_in").install(answering())
    server.tool(lambda: "mine", name="codecall_search")
    names = [tool.name for tool in await server.list_tools()]
    assert names == [*NAMES, "answer"]


async def test_a_namespace_around_the_plugin_renames_the_meta_tools() -> None:
    server = by_install()
    server.add_transform(Namespace("api"))
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == [f"api_{name}" for name in NAMES]
        found = await client.call_tool("api_codecall:search", {"query": "answer"})
        assert found.structured_content is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "colour: unknown option"),
        ({"mode": "all"}, "mode: "),
        ({"top_k": 0}, "top"),
        ({"topK": 51}, "top"),
        ({"tool_name_separator": "-"}, "eparator"),
        ({"vm": {"preset": "paranoid"}}, "vm.preset: unknown preset 'paranoid'"),
        ({"vm": {"timeout": 5}}, "timeout"),
        ({"vm": "secure"}, "vm: a mapping is needed"),
        ({"vm": "secure"}, "vm={'preset': 'secure'}"),
        ({"approvals": ["delete_*"]}, "approvals=[{'tools': ['delete_*'], 'action': 'ask'}]"),
        ({"rate_limit": 3}, "RateLimitPlugin.init(rules="),
        ({"rateLimits": {"per_minute": 3}}, "[rate_limits] with rules = "),
        ({"embedding": {"strategy": "bm25"}}, "embedding.strategy"),
        ({"include_tools": "all"}, "include"),
        ({"direct_calls": 5}, "direct"),
        ({"direct_calls": "users:*"}, "a list of names or globs, or a mapping is needed (got 'users:*')"),
        ({"direct_calls": "users:*"}, "direct_calls=['users:*']"),
        ({"presets": "secure"}, "presets: set it as vm={'preset': 'secure'}, in TOML vm = { preset = \"secure\" }"),
        ({"timeoutMs": 5}, "timeoutMs: is a limit; set it as vm={'timeoutMs': …}"),
        ({"embedding": 5}, "embedding: a mapping is needed (got 5)"),
        ({"embedding": {"model_name": "no-such/model", "strategy": "embedding"}}, "hf download"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError) as refused:
        CodeCallPlugin.init(**options)
    assert message in str(refused.value)


def test_options_may_be_one_mapping() -> None:
    mapping = {"vm": {"preset": "balanced", "timeoutMs": 8000}, "topK": 7, "directCalls": ["a*"]}
    keywords = CodeCallPlugin.init(vm={"preset": "balanced", "timeout_ms": 8000}, top_k=7, direct_calls=["a*"])
    assert CodeCallPlugin.init(mapping).options == keywords.options
    assert CodeCallPlugin.init({"topK": 7}, mark_errors=True).options.mark_errors is True
    with pytest.raises(OptionsError, match="top_k: given twice, in the mapping and as a keyword"):
        CodeCallPlugin.init({"topK": 7}, top_k=7)
    for wrong in ("secure", ["secure"], {3: 4}):
        with pytest.raises(OptionsError, match="the options are keywords or one mapping of names"):
            CodeCallPlugin.init(wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionsError, match=r"PluginOptions are needed, got dict\nWrite CodeCallPlugin\.init\(…\)"):
        CodeCallPlugin({"topK": 7})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "plugin", [CodeCallPlugin.init(), RateLimitPlugin.init(rules=[{"tool": "x", "concurrent": 1}])]
)
def test_only_a_server_is_installed_on(plugin: CodeCallPlugin | RateLimitPlugin) -> None:
    for wrong in (None, answering):
        with pytest.raises(OptionsError, match=f"install: a FastMCP server is needed, got {type(wrong).__name__}"):
            plugin.install(wrong)  # type: ignore[type-var, arg-type]


def test_both_spellings_of_options() -> None:
    python = CodeCallPlugin.init(mode="metadata_driven", top_k=7, mark_errors=True, direct_calls=["a*"])
    wire = CodeCallPlugin.init(mode="metadata_driven", topK=7, markErrors=True, directCalls={"allowedTools": ["a*"]})
    assert python.options == wire.options


def test_the_public_name_is_the_class() -> None:
    assert CodeCallPlugin is DirectImport


async def test_other_parts_of_the_server_are_left_alone() -> None:
    @asynccontextmanager
    async def lifespan(_: FastMCP) -> AsyncIterator[dict[str, str]]:
        yield {"state": "mine"}

    server = answering(lifespan=lifespan)
    server.resource("data://x")(lambda: "x")
    server.prompt(lambda: "hello", name="greet")
    CodeCallPlugin.init().install(server)
    async with Client(server) as client:
        assert [str(item.uri) for item in await client.list_resources()] == ["data://x"]
        assert [item.name for item in await client.list_prompts()] == ["greet"]
        direct = await client.call_tool("answer", {})
        assert direct.content[0].text == "41"
