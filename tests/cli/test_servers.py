"""Commands about servers: `tools`, `search`, `describe`, `savings`, `refresh`."""

from __future__ import annotations

import json
import sys

import pytest

from codecall.cli import exit_codes as exits
from codecall.cli import gateway
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
    assert cli("trust").code == exits.OK


def log(cli: CommandLine, server: str) -> str:
    """What that server was asked."""
    path = cli.folder / f"{server}.json.log"
    return path.read_text() if path.exists() else ""


ASKED = "shop: 1 asked, as it says that it may destroy something; --all shows them\n"


def test_tools_are_lines_and_what_is_cached_starts_nothing(shop: CommandLine):
    result = shop("tools")
    assert (result.code, result.err) == (exits.OK, ASKED)
    assert [row[0] for row in result.rows] == ["shop_list_orders", "shop_cancel_order", "mail_send"]
    assert result.rows[0][2] == "Do list orders."
    assert int(result.rows[0][1]) > 10
    requests = log(shop, "shop")
    again = shop("tools", "shop", "--all")
    assert [row[0] for row in again.rows] == ["shop_list_orders", "shop_cancel_order", "shop_wipe"]
    assert again.rows[2][1] == "asked"
    assert "destructive" in again.rows[2][2]
    assert log(shop, "shop") == requests


def test_a_tool_that_is_asked_for_is_known_to_allow(shop: CommandLine):
    shop.write("a.js", "return shop.wipe({})")
    refused = shop("run", "a.js")
    assert "say --allow shop_wipe;" in refused.err
    allowed = shop("run", "a.js", "--allow", "shop_wipe")
    assert (allowed.code, allowed.err) == (exits.OK, "")


def test_tools_as_json_and_as_a_tree(shop: CommandLine):
    document = shop("tools", "--all", "--json").json
    assert set(document) == {"servers", "tokens"}
    one, two = document["servers"]
    assert (one["name"], one["server"], len(one["tools"])) == ("shop", "shop 1.5", 2)
    assert one["hidden"][0]["code"] == "asked"
    assert document["tokens"] == one["tokens"] + two["tokens"] > 0
    tree = shop("tools", terminal=True).out
    for text in ("2 servers, 3 tools", "list_orders", "1 hidden; --all shows them", "shop 1.5"):
        assert text in tree


def test_a_pipe_is_told_of_the_tools_that_it_is_not_given(shop: CommandLine):
    config = shop.folder / "codecall.toml"
    config.write_text(f"{config.read_text()}\n[servers.shop.access]\ndeny = ['*_order*']\n")
    assert shop("trust").code == exits.OK
    result = shop("tools")
    assert not any(row[0].startswith("shop_") for row in result.rows)
    assert result.err == ASKED.replace("shop: ", "shop: 2 hidden, as it is in access.deny, ")
    assert shop("tools", "--all").err == shop("tools", "--json").err == ""


def test_a_server_that_is_down_hides_no_other_and_no_secret_shows(shop: CommandLine):
    add_broken(shop)
    result = shop("tools")
    assert result.code == exits.UNAVAILABLE
    assert len(result.rows) == 3
    assert "error: SERVER_UNAVAILABLE: Server 'broken' is not available: it ended (exit code 4)" in result.err
    document = shop("tools", "--json")
    assert document.code == exits.UNAVAILABLE
    assert document.json["servers"][2]["error"]["code"] == "SERVER_UNAVAILABLE"
    assert SECRET not in result.out + result.err + document.out


def test_a_server_that_ends_says_why_and_the_command_that_says_more_is_whole(shop: CommandLine):
    shop.write("the config.toml", f"[servers.gone]\ncommand = {json.dumps(sys.executable)}\nargs = ['nope.py']\n")
    listed = shop("tools", "--config", "the config.toml")
    assert "hint: It wrote last: " in listed.err
    assert "can't open file" in listed.err
    assert "`codecall doctor gone --config 'the config.toml'` says more." in listed.err
    doctor = shop("doctor", "gone", "--config", "the config.toml")
    assert "can't open file" in doctor.out
    found = shop("search", "one", "--config", "the config.toml")
    assert "so its tools are missing: it ended (exit code 2) before it answered its first request." in found.err
    assert "hint: It wrote last: " in found.err
    assert "`codecall doctor gone --config 'the config.toml'` says more." in found.err
    ran = shop("run", shop.write("a.js", "return gone.one({})").name, "--config", "the config.toml")
    assert "'gone' is not available: it ended (exit code 2) before it answered its first request; it wrote" in ran.err
    assert "api_key" not in shop("tools", "--server", "http://127.0.0.1:9/?api_key=abc").err


def test_access_rules_that_name_no_tool_are_told(shop: CommandLine):
    config = shop.folder / "codecall.toml"
    config.write_text(f"""{config.read_text()}
[servers.shop.access]
deny = ["shop_cancel_order", "list_order"]
""")
    assert shop("trust").code == exits.OK
    wrong = "access.deny: 'list_order' matches no tool of shop; did you mean 'list_orders'?"
    for _ in ("listed", "kept"):
        result = shop("tools", "--all")
        assert [row[:2] for row in result.rows if row[0] == "shop_cancel_order"] == [["shop_cancel_order", "hidden"]]
        assert result.err == f"warning: {wrong}\n"
    checks = shop("doctor", "--json").json["checks"]
    assert [(check["verdict"], check["said"]) for check in checks if check["name"] == "rules"] == [("warn", wrong)]


def test_so_are_rules_about_calls(shop: CommandLine):
    config = shop.folder / "codecall.toml"
    config.write_text(f"""{config.read_text()}
[codecall]
approvals = [{{ tools = ["mail_sned"], action = "ask" }}]
""")
    assert shop("trust").code == exits.OK
    wrong = "approvals.tools: 'mail_sned' matches no tool of any server; did you mean 'mail_send'?"
    assert shop("tools").err == f"warning: {wrong}\n{ASKED}"
    checks = shop("doctor", "--json").json["checks"]
    assert [(check["verdict"], check["said"]) for check in checks if check["name"] == "rules"] == [("warn", wrong)]


def test_so_are_conditions_on_inputs(cli: CommandLine):
    cli.serve(shop=["list_orders"], mail=["send"])
    config = cli.folder / "codecall.toml"
    own = config.read_text().replace(
        "[servers.mail]",
        '[servers.mail]\napprovals = [{ tools = ["send"], action = "deny", input.properties.txet = { const = "x" } }]',
    )
    config.write_text(f"""{own}
[codecall]
approvals = [
    {{ tools = ["orders"], action = "ask", input = {{ required = ["nmae"] }} }},
    {{ action = "ask", input = {{ required = ["text"], properties.text = {{ pattern = "!", maxLenght = 3 }} }} }},
]
[composite_tools]
paths = ["flows"]
""")
    steps = [{"id": "orders", "tool": "shop_list_orders", "arguments": {"text": "new"}}]
    parameters = {"type": "object", "properties": {"name": {"type": "string"}}}
    flow = {"name": "orders", "description": "Lists orders", "parameters": parameters, "steps": steps}
    cli.write("flows/orders.yaml", json.dumps(flow))
    assert cli("trust").code == exits.OK
    of_mail, of_composite = (
        f"approvals.input: {wrong!r} is no parameter of the tools that the rule is about; did you mean {right!r}?"
        for wrong, right in (("txet", "text"), ("nmae", "name"))
    )
    of_all = "approvals.input: 'maxLenght' is no keyword of JSON Schema; did you mean 'maxLength'?"
    checks = cli("doctor", "--json").json["checks"]
    assert [check["said"] for check in checks if check["name"] == "rules"] == [of_mail, of_composite, of_all]
    # Of what may be about tools of a server that is switched off, nothing is said.
    config.write_text(config.read_text().replace("[servers.mail]", "[servers.mail]\nenabled = false"))
    assert cli("trust").code == exits.OK
    assert cli("tools").err == f"switched off: mail\nwarning: {of_composite}\n"


def test_access_rules_for_all_servers_are_judged_by_all_of_them(shop: CommandLine):
    config = shop.folder / "codecall.toml"
    config.write_text(f"""[access]\ndeny = ["mail_send", "mail_sent", "*_orders"]\n{config.read_text()}""")
    assert shop("trust").code == exits.OK
    result = shop("tools")
    assert [row[0] for row in result.rows] == ["shop_cancel_order"]
    warning = "warning: access.deny: 'mail_sent' matches no tool of any server; did you mean 'mail_send'?\n"
    assert result.err.startswith(warning)
    hidden = ASKED.replace("shop: ", "shop: 1 hidden, as it is in access.deny, ")
    assert result.err.removeprefix(warning) == f"{hidden}mail: 1 hidden, as it is in access.deny; --all shows them\n"
    assert shop("tools", "shop").err == hidden


def test_rules_about_tools_of_servers_that_are_not_asked_are_not_judged(cli: CommandLine):
    cli.serve(shop=["list_orders"], mail=["send"])
    config = cli.folder / "codecall.toml"
    config.write_text(f"""access = {{ deny = ["mail_list"] }}
{config.read_text()}
[codecall]
app_ids = ["shop", "mail"]
flows = [{{ from = "mail_sent", to = ["shop_list_order", "mail_*"], action = "deny" }}]
approvals = [
    {{ tools = ["mail_send", "mail_*", "m*_send", "shop_sent"], action = "deny" }},
    {{ tools = ["*_send"], servers = ["mail"], action = "deny" }},
    {{ tools = ["*_send"], servers = ["shop"], action = "deny" }},
]
[rate_limits]
rules = [{{ tool = "mail_*", rate = "3/minute" }}, {{ tool = "sohp_*", rate = "3/minute" }}]
[composite_tools]
paths = ["flows"]
""")
    steps = [{"id": "orders", "tool": "shop_list_orders", "arguments": {"text": "new"}}]
    cli.write("flows/orders.yaml", json.dumps({"name": "orders", "description": "Lists orders", "steps": steps}))
    assert cli("trust").code == exits.OK
    wrong = [
        "approvals.tools: 'shop_sent' matches no tool of any server",
        "approvals.tools: '*_send' matches no tool of any server",
        "flows.to: 'shop_list_order' matches no tool of any server; did you mean 'shop_list_orders'?",
        "rate_limits.tool: 'sohp_*' matches no tool, resource or prompt of any server",
    ]
    told = "".join(f"warning: {warning}\n" for warning in wrong)
    commands = ("tools shop", "refresh shop", "savings shop", "composite run orders --dry-run")
    assert {command: cli(*command.split()).err for command in commands} == dict.fromkeys(commands, told)
    document = cli("doctor", "shop", "--json")
    checks = document.json["checks"]
    assert [check["said"] for check in checks if check["name"] == "rules"] == wrong
    assert [check["name"] for check in checks if "switched off" in check["said"]] == []
    config.write_text(config.read_text().replace("[servers.mail]", "[servers.mail]\nenabled = false"))
    assert cli("trust").code == exits.OK
    assert cli("tools").err == f"switched off: mail\n{told}"


def test_wrong_names_of_servers(shop: CommandLine):
    result = shop("tools", "nosuch", "--json")
    assert result.code == exits.USAGE
    assert result.json["error"]["message"] == "There is no server 'nosuch'; configured: shop, mail"


def test_servers_of_the_command_line(shop: CommandLine):
    words = json.loads(shop.folder.joinpath("shop.json").read_text())
    shop.write("codecall.toml", "broken = ")
    command = f"other={sys.executable} {__file__.replace('cli/test_servers.py', 'gateway/servers/listed.py')}"
    result = shop("tools", "--no-cache", "--server", f"{command} {shop.folder / 'shop.json'}")
    assert [row[0] for row in result.rows] == [f"other_{tool['name']}" for tool in words["tools"][:2]]
    wrong = shop("tools", "--json")
    assert (wrong.code, wrong.json["error"]["code"]) == (exits.USAGE, "INVALID_OPTIONS")


def test_search_answers_as_the_meta_tool_does(shop: CommandLine):
    document = shop("search", "cancel an order", "--json").json
    assert document["tools"][0]["name"] == "shop_cancel_order"
    assert document["totalIndexed"] == 4
    result = shop("search", "cancel an order", "--top", "1")
    assert [row[1:] for row in result.rows] == [["shop_cancel_order", "Do cancel order. And more."]]
    assert "mail" in shop("search", "--app", "mail", "--detail", "typescript").out
    assert shop("search", "", "--json").json == shop("search", "--json").json
    nothing = shop("search", "quantum chromodynamics")
    assert (nothing.code, nothing.out) == (exits.FAILED, "")
    assert nothing.err
    assert shop("search", "cancel an order", "--min-score", "0.99", "--json").json["tools"] == []
    assert shop("search", "cancel an order", "--min-score", "2", "--json").json["error"]["code"] == "USAGE"
    assert shop("search", "x", "--top", "99", "--json").json["error"]["code"] == "USAGE"


def test_describe_answers_as_the_meta_tool_does(shop: CommandLine):
    document = shop("describe", "shop_list_orders", "--json").json
    assert document["tools"][0]["inputSchema"]["properties"] == {"text": {"type": "string"}}
    result = shop("describe", "shop_list_orders", "shop_list_order")
    assert result.code == exits.FAILED
    assert "    Do list orders.\n    And more.\n" in result.out
    assert "callTool(" in result.out
    assert result.err.startswith("there is no shop_list_order; did you mean shop_list_orders")
    assert "shop" in shop("describe", "shop_list_orders", "--typescript", terminal=True).out


def test_tools_that_are_asked_for_are_there_and_marked(shop: CommandLine):
    (hit,) = [row for row in shop("search", "wipe").rows if row[1] == "shop_wipe"]
    assert hit[2].startswith("(asked for)")
    assert shop("search", "wipe", "--json").json["tools"][0]["name"] == "shop_wipe"
    assert "(asked for)" not in shop("search", "list orders").rows[0][2]
    described = shop("describe", "shop_wipe")
    assert (described.code, "asked for: a person has to allow each call" in described.out) == (exits.OK, True)
    assert "asked for" not in shop("describe", "shop_list_orders").out
    shop.write("a.js", "return shop.wipe({});")
    shop.write("b.star", "return shop_wipe()")
    assert shop("check", "a.js", "b.star").code == exits.OK
    assert shop("run", "a.js", "--dry-run").code == exits.OK
    config = shop.folder / "codecall.toml"
    config.write_text(f"{config.read_text()}\n[access]\ndestructive = false\n")
    assert shop("trust").code == exits.OK
    for words in (["describe", "shop_wipe"], ["check", "a.js"]):
        assert shop(*words).code == exits.FAILED, words


def test_savings_say_what_they_count_and_how(shop: CommandLine):
    document = shop("savings", "--json").json
    assert document["listingAll"]["tokens"] == sum(server["tokens"] for server in document["servers"])
    assert document["codecall"]["tools"] == 4
    assert document["saved"]["tokens"] == document["listingAll"]["tokens"] - document["codecall"]["tokens"]
    assert document["exposure"]["mode"] == "tools"
    assert "four characters a token" in document["estimate"]
    rows = shop("savings").rows
    assert [row[0] for row in rows] == ["shop", "mail", "listing all of them", "with CodeCall", "saved"]
    shown_text = " ".join(shop("savings", terminal=True).out.split())
    assert "less than CodeCall's own in each turn" in shown_text


def test_tools_that_are_asked_for_count_as_tools(cli: CommandLine):
    cli.serve(shop=[WIPE])
    row, *_ = cli("savings").rows
    assert (row[:2], int(row[2]) > 0) == (["shop", "1"], True)
    doctor = cli("doctor", "shop", "--json").json["checks"]
    (said,) = [check for check in doctor if check["name"] == "shop"]
    assert (said["verdict"], "0 tools, 1 asked for" in said["said"], said["advice"]) == ("ok", True, "")
    cli.write("a.js", "return shop.wipe({});")
    assert "--allow wpe matches no tool that is known" in cli("run", "a.js", "--allow", "wpe").err


def test_savings_do_not_count_what_is_down(shop: CommandLine):
    add_broken(shop)
    result = shop("savings")
    assert result.code == exits.UNAVAILABLE
    assert result.rows[2][:2] == ["broken", "not listed"]
    shown = shop("savings", terminal=True)
    assert "broken" not in shown.out  # its error says it
    assert shown.err.count("'broken'") == 1


def test_savings_of_many_tools():
    tools = [_Definition(f"tool_{number}") for number in range(300)]
    size = estimate_tokens(estimate_characters(tools))
    surveyed = ServerInventory("big", Listing(), tools, (), size)  # type: ignore[arg-type]
    document = count_tokens([surveyed], tools[:4], 100_000)
    assert document["listingAll"] == {"tools": 300, "tokens": size, "share": round(size / 100_000, 4)}
    assert document["saved"]["percent"] == pytest.approx(98.7, abs=0.1)
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
    document = shop("refresh", "shop", "--json").json
    assert document["servers"] == [
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
    result = shop("refresh", terminal=True)
    assert result.code == exits.UNAVAILABLE
    assert "shop: 3 tools" in result.out
    assert "broken" in result.err
    assert list(listing_changes(Listing(), Listing())) == []


@pytest.fixture
def hanging(shop: CommandLine) -> CommandLine:
    """What `shop` lists is kept; `slow` starts and never answers, and nothing is kept of it."""
    assert shop("tools").code == exits.OK
    program = f"open({str(shop.folder / 'started')!r}, 'a').write('x'); import sys; sys.stdin.read()"
    with (shop.folder / "codecall.toml").open("a") as file:
        file.write(f"\n[servers.slow]\ncommand = {json.dumps(sys.executable)}\nargs = ['-c', {json.dumps(program)}]\n")
    assert shop("trust").code == exits.OK
    return shop


def was_started(cli: CommandLine) -> bool:
    return (cli.folder / "started").exists()


NAMES_SHOP = (
    ("a.js", "return shop.list_orders({ text: 'a' })"),
    ("a.js", "return callTool('shop_list_orders', { text: 'a' })"),
    ("a.js", "return tools.shop['list_orders']({ text: `a` })"),
    ("a.ts", "const one: string = 'a'; return tools['shop_list_orders']({ text: one })"),
    ("a.star", "return call_tool('shop_list_orders', text = 'a')"),
    ("a.star", "return shop_list_orders(text = 'a')"),
    ("a.js", "return 1"),
)


@pytest.mark.parametrize(("name", "script"), NAMES_SHOP)
def test_a_script_starts_only_the_servers_whose_tools_it_names(hanging: CommandLine, name: str, script: str):
    hanging.write(name, script)
    for command in ("run", "check"):
        result = hanging(command, name)
        assert (result.code, result.err) == (exits.OK, ""), result
    assert not was_started(hanging)


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "shop_list_orders"],
        ["search", "orders", "--app", "shop"],
        ["tools", "shop"],
        ["tools", "shop", "mail"],
    ],
)
def test_a_command_starts_only_the_servers_that_it_names(hanging: CommandLine, words: list[str]):
    result = hanging(*words)
    assert (result.code, result.err) == (exits.OK, ASKED if words[0] == "tools" else ""), result
    assert not was_started(hanging)


NAMES_ANY = (
    ("a.js", "const n = ['shop', 'list_orders'].join('_'); return callTool(n, { text: 'a' })"),
    ("a.js", "const n = 'list_orders'; return tools[`shop_${n}`]({ text: 'a' })"),
    ("a.js", "const { shop } = tools; return shop.list_orders({ text: 'a' })"),
    ("a.star", "n = 'shop_list_orders'\nreturn call_tool(n, text = 'a')"),
    ("a.js", "const s = 'slow'; return shop.list_orders({ text: 'a' })"),
)


@pytest.mark.parametrize(("name", "script"), NAMES_ANY)
def test_a_script_that_computes_names_runs_without_a_server_that_hangs(
    hanging: CommandLine, monkeypatch: pytest.MonkeyPatch, name: str, script: str
):
    monkeypatch.setattr(gateway, "PATIENCE_S", 0.0)
    hanging.write(name, script)
    result = hanging("run", name)
    assert (result.code, result.json) == (exits.OK, {"tool": "list_orders", "text": "a"}), result
    assert result.err == (
        "warning: server 'slow' is not available: it has not answered 0 s after the others; commands wait longer if "
        "its `start_timeout_s` is set\n"
    )


def test_a_server_that_hangs_is_told_once(hanging: CommandLine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway, "PATIENCE_S", 0.0)
    listed = hanging("tools")
    assert listed.code == exits.UNAVAILABLE
    assert [row[0] for row in listed.rows] == ["shop_list_orders", "shop_cancel_order", "mail_send"]
    assert listed.err.count("slow' is not available: it has not answered 0 s after the others") == 1
    found = hanging("search", "orders")
    assert found.rows[0][1] == "shop_list_orders"
    assert found.err == (
        "Server 'slow' could not be listed, so its tools are missing: it has not answered 0 s after the others.\n"
        "hint: `codecall refresh slow` waits longer, as does every command if its `start_timeout_s` is set; "
        "`codecall doctor slow` says more.\n"
    )
    hanging.write("a.js", "return slow.find({})")
    missed = hanging("run", "a.js")
    assert missed.code == exits.FAILED
    assert "Server 'slow' could not be listed, so its tools are missing: it has not answered 0 s" in missed.err


@pytest.mark.parametrize("script", ["slow_find()", "slow.find()", "call_tool('slow_find')"])
def test_a_server_that_hangs_is_told_of_in_starlark(hanging: CommandLine, monkeypatch: pytest.MonkeyPatch, script: str):
    monkeypatch.setattr(gateway, "PATIENCE_S", 0.0)
    hanging.write("a.star", f"return {script}")
    missed = hanging("run", "a.star")
    assert missed.code == exits.FAILED
    assert "hint: Server 'slow' could not be listed, so its tools are missing: it has not answered 0 s" in missed.err


def test_how_long_a_server_is_waited_for_its_options_say(hanging: CommandLine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway, "PATIENCE_S", 0.0)
    with (hanging.folder / "codecall.toml").open("a") as file:
        file.write("start_timeout_s = 0.2\n")
    assert hanging("trust").code == exits.OK
    result = hanging("tools")
    assert result.code == exits.UNAVAILABLE
    assert "it did not answer its first request within 0.2 s" in result.err
    assert was_started(hanging)


UNSET = """
[servers.issues]
url = "https://issues.invalid/mcp"
headers = { Authorization = "Bearer ${ISSUES_TOKEN_THAT_NOBODY_SETS}" }
"""


def test_a_variable_that_is_missing_is_told_once(shop: CommandLine):
    with (shop.folder / "codecall.toml").open("a") as file:
        file.write(UNSET)
    assert shop("trust").code == exits.OK
    result = shop("tools")
    assert result.code == exits.UNAVAILABLE
    assert result.err.count("Set ISSUES_TOKEN_THAT_NOBODY_SETS in the environment") == 1


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        ("return callTool('shop_nothing', {})", "`codecall search` finds tools by what they do."),
        ("return getPrompt('shop_nothing', {})", "`codecall search --kind prompt` finds prompts"),
        ("return readResource('data://x')", "`codecall search --kind resource --kind template` finds resources."),
    ],
)
def test_hints_name_commands(shop: CommandLine, script: str, hint: str):
    shop.write("a.js", script)
    for words in (["run", "a.js"], ["run", "a.js", "--json"], ["check", "a.js"]):
        result = shop(*words)
        shown = result.out + result.err
        assert "codecall_search" not in shown
        assert hint in shown or (words[0] == "check" and result.code == exits.OK), result


def test_a_search_says_how_the_command_finds_more(shop: CommandLine):
    prompts = [{"name": "greet", "description": "Greet somebody."}]
    listing = {"name": "mail", "version": "1.6", "tools": [], "prompts": prompts}
    shop.write("mail.json", json.dumps(listing))
    result = shop("search", "greet somebody")
    assert "`--kind prompt` finds it." in result.err
    assert shop("search", "greet somebody", "--kind", "prompt").rows[0][1] == "mail_greet"


def test_composite_tools_may_call_tools_of_any_server(hanging: CommandLine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway, "PATIENCE_S", 0.0)
    hanging.write("w.yaml", "name: w\ndescription: W.\nsteps:\n  - id: a\n    tool: shop_list_orders\n")
    config = hanging.folder / "codecall.toml"
    config.write_text(f"composite_tools = {{ paths = ['w.yaml'] }}\n{config.read_text()}")
    assert hanging("trust").code == exits.OK
    hanging.write("a.js", "return shop.list_orders({ text: 'a' })")
    assert "server 'slow' is not available" in hanging("run", "a.js").err


def test_servers_that_are_switched_off_are_named(cli: CommandLine):
    cli.serve(shop=["list_orders"])
    with (cli.folder / "codecall.toml").open("a") as file:
        file.write("enabled = false\n")
    assert cli("trust").code == 0
    assert cli("tools").err == "switched off: shop\n"
