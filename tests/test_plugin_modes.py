"""What clients list and what scripts reach, in each mode, by each filter."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin, tool_metadata

META = 4

CASES = {
    "silent": {},
    "enabled": tool_metadata(enabled_in_codecall=True),
    "disabled": tool_metadata(enabled_in_codecall=False),
    "visible": tool_metadata(visible_in_list_tools=True),
    "hidden": tool_metadata(visible_in_list_tools=False),
}


def server_of_all_cases() -> FastMCP:
    server = FastMCP("cases")
    for name, meta in CASES.items():
        server.tool(lambda: 1, name=name, meta=meta)
    return server


async def listed(client: Client[Any]) -> set[str]:
    return {tool.name for tool in (await client.list_tools())[META:]}


async def structured(client: Client[Any], name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert result.structured_content is not None
    return result.structured_content


async def reached(client: Client[Any]) -> set[str]:
    """What search finds, once describe, getTool, callTool and invoke agree with it."""
    found = {tool["name"] for tool in (await structured(client, "codecall:search", query="", topK=50))["tools"]}
    names = [*CASES, "system:x", "internal:x", "__x"]
    described = await structured(client, "codecall:describe", toolNames=names)
    assert {tool["name"] for tool in described["tools"]} == found
    assert set(described["notFound"]) == set(names) - found
    script = """
        const seen = [], called = [];
        for (const name of codecallContext.names) {
          if (getTool(name)) seen.push(name);
          const { success } = await callTool(name, {}, { throwOnError: false });
          if (success) called.push(name);
        }
        return { seen, called };
    """
    ran = await structured(client, "codecall:execute", script=script, context={"names": names})
    assert ran["status"] == "ok", ran
    assert set(ran["result"]["seen"]) == set(ran["result"]["called"]) == found
    for name in names:
        answer = await structured(client, "codecall:invoke", tool=name, input={})
        assert (answer["status"] == "ok") == (name in found), name
    return found


@pytest.mark.parametrize(
    ("mode", "shown", "usable"),
    [
        ("codecall_only", {"visible"}, {"silent", "enabled", "visible", "hidden"}),
        ("codecall_opt_in", {"silent", "enabled", "disabled", "visible"}, {"enabled"}),
        ("metadata_driven", {"silent", "enabled", "disabled", "visible"}, {"enabled"}),
        ("additive", {"silent", "enabled", "disabled", "visible"}, {"silent", "enabled", "visible", "hidden"}),
    ],
)
async def test_the_table_of_modes(mode: str, shown: set[str], usable: set[str]) -> None:
    async with Client(CodeCallPlugin.init(mode=mode).install(server_of_all_cases())) as client:
        assert await listed(client) == shown
        assert await reached(client) == usable


async def test_additive_asks_nothing_of_a_server_and_takes_nothing_from_its_clients() -> None:
    plain = FastMCP("plain")
    plain.tool(lambda a: a + 1, name="increment")
    outer = FastMCP("outer")
    outer.mount(plain, namespace="inner")
    async with Client(outer) as client:
        before = await client.list_tools()
    async with Client(CodeCallPlugin.init(mode="additive").install(outer)) as client:
        assert (await client.list_tools())[META:] == before
        assert (await client.call_tool("inner_increment", {"a": 1})).content[0].text == "2"
        ran = await structured(client, "codecall:execute", script="return await inner.increment({ a: 1 })")
        assert ran["result"] == 2


async def test_a_hidden_tool_can_still_be_called_by_a_client_that_knows_it() -> None:
    async with Client(CodeCallPlugin.init().install(server_of_all_cases())) as client:
        assert (await client.call_tool("silent", {})).content[0].text == "1"


async def test_app_ids_limit_what_is_managed() -> None:
    server = FastMCP("main")
    server.tool(lambda: 1, name="silent", meta=tool_metadata(app_id="crm"))
    server.tool(lambda: 1, name="enabled", meta=tool_metadata(app_id="billing"))
    server.tool(lambda: 1, name="visible")
    async with Client(CodeCallPlugin.init(app_ids=["crm"]).install(server)) as client:
        assert await listed(client) == {"enabled", "visible"}
        assert await reached(client) == {"silent"}
        answer = await structured(client, "codecall:invoke", tool="enabled", input={})
        assert answer["error"]["code"] == "ACCESS_DENIED"


async def test_app_ids_may_be_namespaces() -> None:
    main = FastMCP("main")
    main.mount(server_of_all_cases(), namespace="inner")
    main.tool(lambda: 1, name="silent")
    async with Client(CodeCallPlugin.init(app_ids=["main"]).install(main)) as client:
        assert await listed(client) == {f"inner_{name}" for name in CASES}
        assert await reached(client) == {"silent"}


async def test_include_tools_filters_what_is_reached() -> None:
    plugin = CodeCallPlugin.init(include_tools=lambda tool: tool.name != "silent")
    async with Client(plugin.install(server_of_all_cases())) as client:
        assert await reached(client) == {"enabled", "visible", "hidden"}
        answer = await structured(client, "codecall:invoke", tool="silent", input={})
        assert answer["error"]["code"] == "ACCESS_DENIED"


async def test_a_filter_that_fails_excludes(caplog: pytest.LogCaptureFixture) -> None:
    def include(tool: Any) -> bool:
        return tool.name != "silent" or tool.no_such_attribute

    with caplog.at_level(logging.WARNING, logger="codecall"):
        async with Client(CodeCallPlugin.init(include_tools=include).install(server_of_all_cases())) as client:
            assert await reached(client) == {"enabled", "visible", "hidden"}
    assert caplog.text.count("include_tools failed on tool 'silent'") == 1


async def test_reserved_names_are_never_reached_even_if_opted_in() -> None:
    server = server_of_all_cases()
    for name in ("system:x", "internal:x", "__x"):
        server.tool(lambda: 1, name=name, meta=tool_metadata(enabled_in_codecall=True))
    async with Client(CodeCallPlugin.init().install(server)) as client:
        assert await reached(client) == {"silent", "enabled", "visible", "hidden"}


async def test_unreadable_metadata_denies_one_tool_and_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    server = server_of_all_cases()
    server.tool(lambda: 1, name="broken", meta={"codecall": {"enabledInCodeCall": "of course"}})
    with caplog.at_level(logging.WARNING, logger="codecall"):
        async with Client(CodeCallPlugin.init(mode="metadata_driven").install(server)) as client:
            assert await listed(client) == {"silent", "enabled", "disabled", "visible", "broken"}
            assert await reached(client) == {"enabled"}
            answer = await structured(client, "codecall:invoke", tool="broken", input={})
            assert answer["error"]["code"] == "ACCESS_DENIED"
    assert caplog.text.count("'broken' is kept out of CodeCall") == 1


async def test_what_is_misspelt_or_named_like_a_tool_of_codecall_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    server = FastMCP("home")
    for app in ("crm", "billing"):
        server.tool(lambda: 1, name=f"{app}_one", meta=tool_metadata(app_id=app))
    server.tool(lambda: 1, name="codecall:report", meta=tool_metadata(app_id="crm"))
    server.tool(lambda: 1, name="misspelt", meta={"code_call": {"enabledInCodeCall": True}})
    server.tool(lambda: 1, name="plain", meta={"coverall": 1, "fastmcp": {"x": 1}})
    plugin = CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": 0}, app_ids=["crm", "typo"])
    with caplog.at_level(logging.WARNING, logger="codecall"):
        async with Client(plugin.install(server)) as client:
            for _ in range(2):
                found = await structured(client, "codecall:search", query="one report", topK=50, minScore=0)
    assert [tool["name"] for tool in found["tools"]] == ["crm_one"]
    assert sorted(record.getMessage() for record in caplog.records if record.name == "codecall") == [
        "Tool 'codecall:report' is kept out of CodeCall: such names are those of its own tools",
        "Tool 'misspelt': meta key 'code_call' is not read; did you mean 'codecall'?",
        "app_ids: no tool belongs to the app 'typo' so far; there are: billing, crm, home",
    ]
