"""Whether clients list the tools or the meta-tools, and when that changes."""

from __future__ import annotations

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.middleware import Middleware

from codecall.gateway.config.options import ExposeOptions
from codecall.gateway.exposure import ExposurePolicy, GatewayPlugin, current_context, is_listing_tools

META = ["codecall_search", "codecall_describe", "codecall_invoke", "codecall_execute"]


def exposing(**options: object) -> ExposurePolicy:
    """What decides, with a limit of 1,000 tokens."""
    return ExposurePolicy(ExposeOptions.read({"share": 0.01, "context_tokens": 100_000, **options}, where=""))


def test_tools_up_to_the_limit_and_meta_tools_above_it():
    auto = exposing()
    assert auto.decide(1_000) is False  # the first decision is no change
    assert auto.current[:3] == ("tools", 1_000, 1_000)
    assert auto.decide(1_001) is True
    assert auto.current.mode == "meta_tools"
    assert "1,001" in auto.current.reason


def test_it_goes_back_only_well_below_the_limit():
    auto = exposing()
    auto.decide(2_000)
    assert [auto.decide(tokens) for tokens in (999, 801)] == [False, False]
    assert "listed again at 800" in auto.current.reason
    assert auto.decide(800) is True
    assert [auto.decide(tokens) for tokens in (900, 1_000)] == [False, False]
    assert auto.current.mode == "tools"


@pytest.mark.parametrize(("mode", "shown"), [("always", "meta_tools"), ("never", "tools")])
def test_what_was_asked_for_does_not_change(mode: str, shown: str):
    fixed = exposing(mode=mode)
    assert [fixed.decide(tokens) for tokens in (0, 10_000_000, 0)] == [False, False, False]
    assert (fixed.current.mode, mode in fixed.current.reason) == (shown, True)


async def test_a_plugin_stands_aside_and_comes_back_without_a_restart():
    server = FastMCP("house")

    @server.tool
    def echo(a: int) -> int:
        return a

    exposed = GatewayPlugin.init(tool_name_separator="_")
    exposed.install(server)
    exposed.exposure_policy = exposing()
    exposed.exposure_policy.decide(0)
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["echo"]
        searched = await client.call_tool("codecall_search", {"query": "echo"})
        assert "echo" in str(searched.structured_content)  # who knows the meta-tools can go on with them
        exposed.exposure_policy.decide(5_000)
        assert [tool.name for tool in await client.list_tools()] == META
        assert "1" in str((await client.call_tool("echo", {"a": 1})).content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_it_is_known_which_request_lists_tools(mode: str):
    seen: dict[str, bool] = {}

    class Watch(Middleware):
        async def on_list_tools(self, context, call_next):  # type: ignore[no-untyped-def]
            seen["list"] = is_listing_tools(current_context())
            return await call_next(context)

        async def on_call_tool(self, context, call_next):  # type: ignore[no-untyped-def]
            seen["call"] = is_listing_tools(current_context())
            return await call_next(context)

    server = FastMCP("house", middleware=[Watch()])
    server.tool(lambda: 1, name="one")
    assert is_listing_tools(current_context()) is False
    async with Client(server, mode=mode) as client:  # type: ignore[arg-type]
        await client.list_tools()
        assert seen["list"] is True
        await client.call_tool("one", {})
        assert seen["call"] is False
