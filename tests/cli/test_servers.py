"""Commands about servers: `tools`, `search`, `describe`, `savings`, `refresh`."""

from __future__ import annotations

import json
import sys

import pytest

from codecall.cli import exit_codes as exits
from codecall.cli.commands.refresh import listing_changes
from codecall.cli.commands.savings import count_tokens
from codecall.cli.gateway import ServerInventory
from codecall.gateway.upstream.listing import Listing
from codecall.telemetry.tokens import estimate_characters, estimate_tokens
from tests.cli.conftest import CommandLine

WIPE = {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}
SECRET = "sk-live-0123456789abcdef0123456789abcdef"
BROKEN = f"""
[servers.broken]
command = {json.dumps(sys.executable)}
args = ["-c", "raise SystemExit(4)", "{SECRET}"]
env = {{ TOKEN = "{SECRET}" }}
"""


@pytest.fixture
def shop(cli: CommandLine) -> CommandLine:
    cli.serve(shop=["list_orders", "cancel_order", WIPE], mail=["send"])
    return cli


def add_broken(cli: CommandLine) -> None:
    with (cli.folder / "codecall.toml").open("a") as file:
        file.write(BROKEN)


def log(cli: CommandLine, server: str) -> str:
    """What that server was asked."""
    path = cli.folder / f"{server}.json.log"
    return path.read_text() if path.exists() else ""


def test_tools_are_lines_and_what_is_cached_starts_nothing(shop: CommandLine):
    ran = shop("tools")
    assert (ran.code, ran.err) == (exits.OK, "")
    assert [row[0] for row in ran.rows] == ["shop_list_orders", "shop_cancel_order", "mail_send"]
    assert ran.rows[0][2] == "Do list orders."
    assert int(ran.rows[0][1]) > 10
    asked = log(shop, "shop")
    again = shop("tools", "shop", "--all")
    assert [row[0] for row in again.rows] == ["shop_list_orders", "shop_cancel_order", "shop_wipe"]
    assert again.rows[2][1] == "hidden"
    assert "destructive" in again.rows[2][2]
    assert log(shop, "shop") == asked


def test_tools_as_json_and_as_a_tree(shop: CommandLine):
    told = shop("tools", "--all", "--json").json
    assert set(told) == {"servers", "tokens"}
    one, two = told["servers"]
    assert (one["name"], one["server"], len(one["tools"])) == ("shop", "shop 1.5", 2)
    assert one["hidden"][0]["code"] == "destructive"
    assert told["tokens"] == one["tokens"] + two["tokens"] > 0
    tree = shop("tools", terminal=True).out
    for said in ("2 servers, 3 tools", "list_orders", "1 hidden; --all shows them", "shop 1.5"):
        assert said in tree


def test_a_server_that_is_down_hides_no_other_and_no_secret_shows(shop: CommandLine):
    add_broken(shop)
    ran = shop("tools")
    assert ran.code == exits.UNAVAILABLE
    assert len(ran.rows) == 3
    assert "error: SERVER_UNAVAILABLE: Server 'broken' is not available: it ended (exit code 4)" in ran.err
    told = shop("tools", "--json")
    assert told.code == exits.UNAVAILABLE
    assert told.json["servers"][2]["error"]["code"] == "SERVER_UNAVAILABLE"
    assert SECRET not in ran.out + ran.err + told.out


def test_wrong_names_of_servers(shop: CommandLine):
    ran = shop("tools", "nosuch", "--json")
    assert ran.code == exits.USAGE
    assert ran.json["error"]["message"] == "There is no server 'nosuch'; configured: shop, mail"


def test_servers_of_the_command_line(shop: CommandLine):
    words = json.loads(shop.folder.joinpath("shop.json").read_text())
    shop.write("codecall.toml", "broken = ")
    command = f"other={sys.executable} {__file__.replace('cli/test_servers.py', 'gateway/servers/listed.py')}"
    ran = shop("tools", "--no-cache", "--server", f"{command} {shop.folder / 'shop.json'}")
    assert [row[0] for row in ran.rows] == [f"other_{tool['name']}" for tool in words["tools"][:2]]
    wrong = shop("tools", "--json")
    assert (wrong.code, wrong.json["error"]["code"]) == (exits.USAGE, "INVALID_OPTIONS")


def test_search_answers_as_the_meta_tool_does(shop: CommandLine):
    told = shop("search", "cancel an order", "--json").json
    assert told["tools"][0]["name"] == "shop_cancel_order"
    assert told["totalIndexed"] == 3
    ran = shop("search", "cancel an order", "--top", "1")
    assert [row[1:] for row in ran.rows] == [["shop_cancel_order", "Do cancel order. And more."]]
    assert "wipe" not in shop("search", "wipe").out
    assert "mail" in shop("search", "--app", "mail", "--detail", "typescript").out
    nothing = shop("search", "quantum chromodynamics")
    assert (nothing.code, nothing.out) == (exits.FAILED, "")
    assert nothing.err
    assert shop("search", "x", "--top", "99", "--json").json["error"]["code"] == "USAGE"


def test_describe_answers_as_the_meta_tool_does(shop: CommandLine):
    told = shop("describe", "shop_list_orders", "--json").json
    assert told["tools"][0]["inputSchema"]["properties"] == {"text": {"type": "string"}}
    ran = shop("describe", "shop_list_orders", "shop_list_order")
    assert ran.code == exits.FAILED
    assert "Do list orders.\nAnd more." in ran.out
    assert "callTool(" in ran.out
    assert ran.err.startswith("there is no shop_list_order; did you mean shop_list_orders")
    assert "shop" in shop("describe", "shop_list_orders", "--typescript", terminal=True).out


def test_savings_say_what_they_count_and_how(shop: CommandLine):
    told = shop("savings", "--json").json
    assert told["listingAll"]["tokens"] == sum(server["tokens"] for server in told["servers"])
    assert told["codecall"]["tools"] == 4
    assert told["saved"]["tokens"] == told["listingAll"]["tokens"] - told["codecall"]["tokens"]
    assert told["exposure"]["mode"] == "tools"
    assert "four characters a token" in told["estimate"]
    rows = shop("savings").rows
    assert [row[0] for row in rows] == ["shop", "mail", "listing all of them", "with CodeCall", "saved"]
    seen = " ".join(shop("savings", terminal=True).out.split())
    assert "less than CodeCall's own in each turn" in seen


def test_savings_do_not_count_what_is_down(shop: CommandLine):
    add_broken(shop)
    ran = shop("savings")
    assert ran.code == exits.UNAVAILABLE
    assert ran.rows[2][:2] == ["broken", "not listed"]
    assert "not listed" in shop("savings", terminal=True).out


def test_savings_of_many_tools():
    tools = [_Definition(f"tool_{number}") for number in range(300)]
    size = estimate_tokens(estimate_characters(tools))
    surveyed = ServerInventory("big", Listing(), tools, (), size)  # type: ignore[arg-type]
    told = count_tokens([surveyed], tools[:4], 100_000)
    assert told["listingAll"] == {"tools": 300, "tokens": size, "share": round(size / 100_000, 4)}
    assert told["saved"]["percent"] == pytest.approx(98.7, abs=0.1)
    assert count_tokens([], tools[:4], 100_000)["saved"]["percent"] == 0.0


class _Definition:
    def __init__(self, name: str) -> None:
        self.name = name
        self.description = "Says the same as all others."
        self.parameters = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_refresh_says_what_has_changed(shop: CommandLine):
    first = shop("refresh")
    assert (first.code, first.rows) == (exits.OK, [["shop", "3 tools"], ["mail", "1 tool"]])
    assert shop("refresh").rows == [["shop", "unchanged"], ["mail", "unchanged"]]
    what = json.loads((shop.folder / "shop.json").read_text())
    what["tools"][0]["description"] = "Another."
    what["tools"][1]["name"] = "refund_order"
    (shop.folder / "shop.json").write_text(json.dumps(what))
    told = shop("refresh", "shop", "--json").json
    assert told["servers"] == [
        {
            "name": "shop",
            "tools": 3,
            "known": True,
            "changes": [
                {"what": "added", "kind": "tool", "name": "refund_order"},
                {"what": "removed", "kind": "tool", "name": "cancel_order"},
                {"what": "changed", "kind": "tool", "name": "list_orders"},
            ],
        }
    ]
    assert "shop_refund_order" in shop("tools").out


def test_refresh_goes_on_without_a_server_that_is_down(shop: CommandLine):
    add_broken(shop)
    ran = shop("refresh", terminal=True)
    assert ran.code == exits.UNAVAILABLE
    assert "shop: 3 tools" in ran.out
    assert "broken" in ran.err
    assert list(listing_changes(Listing(), Listing())) == []
