"""A listing as JSON, and back."""

from __future__ import annotations

import logging
from pathlib import Path

import mcp_types
import pytest

from codecall.errors import ServerUnavailableError
from codecall.gateway.config.options import StdioServer
from codecall.gateway.upstream import listing
from codecall.gateway.upstream.listing import Listing
from codecall.gateway.upstream.server import Backend
from tests.gateway.backends import MODERN_RAW
from tests.gateway.listing_servers import Listed, tool
from tests.loop_turns import assert_turns_below

FULL = Listing(
    tools=(
        mcp_types.Tool.model_validate(
            {
                "name": "sum",
                "inputSchema": {"type": "object", "properties": {"a": {"const": None, "default": 1.0}}},
                "annotations": {"readOnlyHint": True},
                "_meta": {"of": "ours", "n": None},
            }
        ),
    ),
    resources=(mcp_types.Resource.model_validate({"uri": "data://a", "name": "a", "size": 5}),),
    templates=(mcp_types.ResourceTemplate.model_validate({"uriTemplate": "data://{a}", "name": "t"}),),
    prompts=(mcp_types.Prompt.model_validate({"name": "p", "arguments": [{"name": "x", "required": True}]}),),
    server_info=mcp_types.Implementation(name="n", version="1"),
    instructions="Ünïcode \u2028",
    capabilities=mcp_types.ServerCapabilities.model_validate({"tools": {"listChanged": True}}),
)


def test_what_a_server_said_comes_back_as_it_was():
    read = Listing.from_json(FULL.encoded)
    assert read == FULL
    assert read.tools[0].input_schema == {"type": "object", "properties": {"a": {"const": None, "default": 1.0}}}
    assert read.digest == FULL.digest


def test_another_listing_has_another_digest():
    assert len({Listing().digest, FULL.digest, Listing(instructions="a").digest, Listing(tools=FULL.tools).digest}) == 4


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"tools":[{}]}', b'{"other":1}', b"\xff", b'{"tools":5}'])
def test_anything_else_is_refused(text: bytes):
    with pytest.raises(ValueError):  # noqa: PT011 - of any kind
        Listing.from_json(text)


async def test_icons_and_arguments_of_one_server_have_a_bound(tmp_path: Path) -> None:
    icons: list[object] = [{"src": "data:,"}] * 900
    arguments: list[object] = [{"name": "a"}] * 900
    server = Listed(tmp_path, "many")
    server.say(*({**tool(f"t{n}"), "icons": icons} for n in range(12)))
    async with Backend("many", StdioServer.read(server.options, where="")) as backend:
        assert len((await backend.fetch_listing()).tools) == 12
        prompts = [{"name": f"p{n}", "arguments": arguments} for n in range(12)]
        server.say(*({**tool(f"t{n}"), "icons": icons} for n in range(12)), prompts=prompts)
        with pytest.raises(ServerUnavailableError, match="lists more than 20,000 icons and arguments"):
            await backend.fetch_listing()


async def test_a_long_text_of_one_tool_holds_nobody_up(tmp_path: Path) -> None:
    server = Listed(tmp_path, "long")
    server.say(tool("long", description="Ā\n" * 3_000_000))
    async with Backend("long", StdioServer.read(server.options, where="")) as backend:
        await assert_turns_below(4, backend.fetch_listing)


@pytest.mark.parametrize(("limit", "said"), [("MAX_VALUES", "500 values"), ("MAX_LEVELS", "500 levels of nesting")])
async def test_what_one_server_lists_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, said: str
) -> None:
    monkeypatch.setattr(listing, limit, 500)
    server = Listed(tmp_path, "deep")
    server.say(tool("plain"), resources=[{"uri": "data://a", "name": "a"}])
    async with Backend("deep", StdioServer.read(server.options, where="")) as backend:
        assert len((await backend.fetch_listing()).tools) == 1
        # Neither the tools nor the resources alone are too much.
        server.say(*({**tool(f"t{n}"), "_meta": {"a": [[[]]] * 10}} for n in range(5)))
        assert len((await backend.fetch_listing()).tools) == 5
        more = [{"uri": f"data://{n}", "name": "a", "_meta": {"a": [[[]]] * 25}} for n in range(5)]
        server.say(*({**tool(f"t{n}"), "_meta": {"a": [[[]]] * 10}} for n in range(5)), resources=more)
        with pytest.raises(ServerUnavailableError, match=f"lists more than {said}"):
            await backend.fetch_listing()


async def test_long_integers_of_a_listing_count_as_several_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_VALUES", 500)
    server = Listed(tmp_path, "numbers")
    async with Backend("numbers", StdioServer.read(server.options, where="")) as backend:
        server.say({**tool("short"), "_meta": {"a": [10**17] * 200, "b": ["9" * 40] * 200}})
        assert len((await backend.fetch_listing()).tools) == 1
        server.say({**tool("long"), "_meta": {"a": [10**39] * 60}})
        with pytest.raises(ServerUnavailableError, match="lists more than 500 values"):
            await backend.fetch_listing()


async def test_tools_with_an_invalid_header_count_and_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = StdioServer(command=MODERN_RAW.command, args=(*MODERN_RAW.args, "300"))
    with caplog.at_level(logging.WARNING):
        async with Backend("raw", server) as backend:
            assert [each.name for each in (await backend.fetch_listing()).tools] == ["write"]
            assert [record.getMessage() for record in caplog.records] == [
                "server 'raw': 900 tools were left out for an invalid x-mcp-header, the first 'bad0-0': "
                "property 'a': x-mcp-header must be a string, not int"
            ]
            monkeypatch.setattr(listing, "MAX_ITEMS", 900)
            with pytest.raises(ServerUnavailableError, match="lists more than 900 tools"):
                await backend.fetch_listing()
