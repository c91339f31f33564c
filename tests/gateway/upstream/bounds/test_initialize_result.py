"""What a server says of itself: bounded where it comes in, so that nothing behind sees more."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from fastmcp import FastMCP

from codecall.errors import ServerUnavailableError
from codecall.gateway.config.options import HttpServer, StdioServer
from codecall.gateway.upstream.bounds.initialize_result import (
    MAX_ICONS,
    MAX_TEXT_CHARS,
    MAX_VALUES,
    cut_initialize_result,
)
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import serve_over_http
from tests.gateway.listing_servers import Listed, gateway, tool
from tests.loop_turns import assert_turns_below

LONG = "Ā\n" * MAX_TEXT_CHARS
CUT = LONG[:MAX_TEXT_CHARS] + f"…[truncated {MAX_TEXT_CHARS} characters]"
ICON = {"src": "data:,"}


def backend(server: Listed) -> Backend:
    return Backend(server.name, StdioServer.read(server.options, where=""))


async def test_long_texts_of_a_server_are_cut_with_a_mark_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Listed(tmp_path, "wordy")
    server.say(tool("fine"), instructions=LONG, info={"title": LONG, "description": "Short.", "icons": [ICON]})
    async with backend(server) as raw:
        listing = await raw.fetch_listing()
    assert listing.instructions == CUT
    assert listing.server_info == mcp_types.Implementation(
        name="wordy", version="1", title=CUT, description="Short.", icons=[mcp_types.Icon(src="data:,")]
    )
    assert [record.getMessage() for record in caplog.records] == [
        "of what it says of itself was left out: instructions (16,000 characters), serverInfo.title (16,000 characters)"
    ]


async def test_they_are_cut_in_an_answer_of_the_newest_version_too() -> None:
    async with (
        serve_over_http(FastMCP("far", version="v" * 20_000, instructions=LONG)) as url,
        Backend("far", HttpServer(url=url)) as far,
    ):
        listing = await far.fetch_listing()
    assert listing.instructions == CUT
    assert listing.server_info is not None
    assert listing.server_info.version == "v" * MAX_TEXT_CHARS + "…[truncated 4000 characters]"


@pytest.mark.parametrize(
    "icons",
    [[ICON] * (MAX_ICONS + 1), [1] * 60_000, [{**ICON, "sizes": ["any"] * MAX_ICONS}]],
    ids=["many", "wrong", "sizes"],
)
async def test_very_many_icons_of_a_server_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, icons: list[Any]
) -> None:
    server = Listed(tmp_path, "bright")
    server.say(tool("fine"), info={"icons": icons})
    async with backend(server) as raw:
        listing = await raw.fetch_listing()
    assert [each.name for each in listing.tools] == ["fine"]
    assert listing.server_info == mcp_types.Implementation(name="bright", version="1")
    assert "left out: serverInfo.icons" in caplog.text


MANY: dict[str, Any] = {"experimental": {str(number): {} for number in range(MAX_VALUES)}}


@pytest.mark.parametrize(("capabilities", "excess"), [(MANY, "10,000 values"), ({"x": "y" * 2**20}, "1 MiB")])
async def test_a_server_with_very_many_capabilities_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capabilities: dict[str, Any], excess: str
) -> None:
    server = Listed(tmp_path, "able")
    server.say(tool("fine"), capabilities=capabilities)
    with caplog.at_level(logging.WARNING):
        async with backend(server) as raw:
            with pytest.raises(ServerUnavailableError, match=f"its first answer has more than {excess} about itself"):
                await raw.fetch_listing()


@pytest.mark.parametrize(
    "result",
    [{}, {"instructions": 5, "serverInfo": [], "_meta": 1}, {"serverInfo": {"name": [LONG], "icons": {"a": 1}}}],
)
def test_what_is_no_such_result_is_left_to_the_sdk(result: dict[str, Any]) -> None:
    before = repr(result)
    assert cut_initialize_result(result) == []
    assert repr(result) == before


async def test_a_server_that_says_very_much_of_itself_holds_nobody_up(tmp_path: Path) -> None:
    server = Listed(tmp_path, "wordy")
    server.say(tool("fine"), instructions="Ā\n" * (2 * 2**20))
    async with gateway(tmp_path, server) as running:
        await running.refresh()

        async def start() -> None:
            async with backend(server) as raw:
                await raw.fetch_listing()
            await running.refresh()

        await assert_turns_below(6, start)
    async with gateway(tmp_path, server) as running:  # which has it from its cache, and writes its instructions of it
        assert "[shortened by more than 30,000 characters]" in (running.server.instructions or "")
