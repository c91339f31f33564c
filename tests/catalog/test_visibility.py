"""The table of modes, and the filters on top of it."""

from __future__ import annotations

import logging
from typing import cast

import pytest
from fastmcp import FastMCP

from codecall.catalog.apps import FastMCPServer
from codecall.catalog.cache.cache import CatalogCache
from codecall.catalog.entries import ToolMetadata, tool_metadata
from codecall.catalog.view import CatalogView
from codecall.catalog.visibility import VisibilityPolicy, is_reserved
from codecall.options import PluginOptions

TABLE = {
    "codecall_only": (True, False),
    "codecall_opt_in": (False, True),
    "metadata_driven": (False, True),
    "additive": (True, True),
}


@pytest.mark.parametrize("mode", TABLE)
def test_mode_decides_what_the_tool_does_not_say(mode: str) -> None:
    reach = VisibilityPolicy(PluginOptions.build(mode=mode))
    enabled, listed = TABLE[mode]
    assert reach.allows("t", ToolMetadata(), "app") is enabled
    assert reach.is_listed(ToolMetadata(), "app") is listed


@pytest.mark.parametrize("mode", TABLE)
@pytest.mark.parametrize("said", [True, False])
def test_what_the_tool_says_wins_in_every_mode(mode: str, said: bool) -> None:
    reach = VisibilityPolicy(PluginOptions.build(mode=mode))
    metadata = ToolMetadata.read({"enabledInCodeCall": said, "visibleInListTools": said}, where="")
    assert reach.allows("t", metadata, "app") is said
    assert reach.is_listed(metadata, "app") is said


@pytest.mark.parametrize("name", ["system:reboot", "internal:x", "__secret", " System:reboot", "INTERNAL:x"])
def test_reserved_names_are_never_reached(name: str) -> None:
    assert is_reserved(name)
    metadata = ToolMetadata.read({"enabledInCodeCall": True}, where="")
    assert not VisibilityPolicy(PluginOptions.build()).allows(name, metadata, "app")


@pytest.mark.parametrize("name", ["systems:list", "system", "my_internal:x", "a__b", "_private"])
def test_names_that_only_look_reserved(name: str) -> None:
    assert not is_reserved(name)


def test_other_apps_are_listed_and_not_reached() -> None:
    reach = VisibilityPolicy(PluginOptions.build(app_ids=("crm",)))
    assert reach.depends_on_app
    assert reach.allows("t", ToolMetadata(), "crm")
    assert not reach.allows("t", ToolMetadata(), "billing")
    assert not reach.is_listed(ToolMetadata(), "crm")
    assert reach.is_listed(ToolMetadata.read({"visibleInListTools": False}, where=""), "billing")


def test_a_meta_tool_of_another_server_is_never_reached() -> None:
    reach = VisibilityPolicy(PluginOptions.build())
    assert not reach.allows("sub_codecall:execute", ToolMetadata(metaTool=True), "sub")


async def test_filter_is_asked_only_about_tools_that_pass_everything_else() -> None:
    asked: list[str] = []
    server = cast("FastMCPServer", FastMCP("main"))
    for name in ("yes", "no", "__never"):
        server.tool(lambda: 1, name=name)
    server.tool(lambda: 1, name="off", meta=tool_metadata(enabled_in_codecall=False))
    reach = VisibilityPolicy(
        PluginOptions.build(include_tools=lambda tool: asked.append(tool.name) or tool.name == "yes")
    )
    assert reach.has_filter
    view = CatalogView(server, server.list_tools, reach, CatalogCache(reach))
    assert [entry.name for entry in await view.entries()] == ["yes"]
    assert [await view.find(name) for name in ("no", "__never", "off")] == [None, None, None]
    assert asked == ["yes", "no"]


def test_without_a_filter_everything_is_included() -> None:
    reach = VisibilityPolicy(PluginOptions.build())
    assert not reach.has_filter
    assert reach.includes(None, "t")


def test_a_filter_that_raises_excludes_the_tool_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken(tool: object) -> bool:
        raise LookupError("boom")

    reach = VisibilityPolicy(PluginOptions.build(include_tools=broken))
    with caplog.at_level(logging.WARNING, logger="codecall"):
        assert not reach.includes(None, "t")
        assert not reach.includes(None, "t")
    assert [record.getMessage() for record in caplog.records] == [
        "include_tools failed on tool 't', which stays out of CodeCall"
    ]
    assert "boom" in caplog.text
