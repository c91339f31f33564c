"""Tools that may destroy something: who sees them, and that no call of one is made which nobody has allowed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codecall import Decision
from codecall.errors import OptionsError
from codecall.gateway.config.load import read_config
from codecall.gateway.config.options import GatewayOptions
from codecall.gateway.gateway import Gateway
from tests.gateway.listing_servers import Listed, gateway, tool

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
ALWAYS: dict[str, Any] = {"expose": {"mode": "always"}}


class Person:
    """Gives one decision to each question."""

    def __init__(self, decision: str) -> None:
        self.decision = decision
        self.questions: list[str] = []

    async def __call__(self, message: str, *_: object) -> dict[str, str]:
        self.questions.append(message)
        return {"decision": self.decision}


def disk(folder: Path, name: str = "disk") -> Listed:
    """A server with a tool that reads and one that destroys."""
    server = Listed(folder, name)
    server.say(tool("look", "Looks at a file", readOnlyHint=True), tool("wipe", "Wipes a file", destructiveHint=True))
    return server


async def structured(client: Client[Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(name, arguments, raise_on_error=False)
    return result.structured_content or {"error": str(result.content), "status": "error"}


@ERAS
@pytest.mark.parametrize("said", ["allow this call", "deny"])
async def test_a_client_that_can_ask_sees_them_and_each_call_is_asked_for(tmp_path: Path, mode: Any, said: str) -> None:
    server, person = disk(tmp_path), Person(said)
    async with (
        gateway(tmp_path, server, **ALWAYS) as gate,
        Client(gate.server, mode=mode, elicitation_handler=person) as client,
        Client(gate.server, mode=mode) as other,
    ):
        for each in (client, other, client):
            found = await structured(each, "codecall_search", {"query": "wipe the disk"})
            assert ("disk_wipe" in [hit["name"] for hit in found["tools"]]) is (each is client)
        ran = await structured(client, "codecall_execute", {"script": "return disk.wipe({ path: 'a' })"})
        invoked = await structured(client, "codecall_invoke", {"tool": "disk_wipe", "input": {"path": "b"}})
        direct = await client.call_tool("disk_wipe", {"path": "c"}, raise_on_error=False)
        allowed = said != "deny"
        assert [ran["status"] == "ok", invoked["status"] == "ok", not direct.is_error] == [allowed] * 3
        assert [question.count("Tool: disk_wipe\nServer: disk\n") for question in person.questions] == [1, 1, 1]
        assert (await structured(client, "codecall_execute", {"script": "return disk.look({})"}))["status"] == "ok"
        assert len(person.questions) == 3
        for name, arguments in (
            ("codecall_execute", {"script": "return callTool('disk_wipe', {})"}),
            ("codecall_invoke", {"tool": "disk_wipe", "input": {}}),
            ("disk_wipe", {}),
        ):
            assert (await structured(other, name, arguments))["status"] in ("error", "tool_error", "illegal_access")
    assert server.asked.count("tools/call") == 1 + 3 * allowed


@ERAS
async def test_where_the_tools_themselves_are_listed_a_plain_call_is_asked_for(tmp_path: Path, mode: Any) -> None:
    server, person = disk(tmp_path), Person("deny")
    async with (
        gateway(tmp_path, server) as gate,
        Client(gate.server, mode=mode, elicitation_handler=person) as client,
        Client(gate.server, mode=mode) as other,
    ):
        assert [each.name for each in await client.list_tools()] == ["disk_look", "disk_wipe"]
        assert gate.describe_exposure().startswith("Clients list the servers' 2 tools, ")
        assert [each.name for each in await other.list_tools()] == ["disk_look"]
        refused = await client.call_tool("disk_wipe", {}, raise_on_error=False)
        assert refused.is_error
        assert "a person denied it" in str(refused.content)
    assert "tools/call" not in server.asked


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"access": {"destructive": False}}, False),
        ({"access": {"destructive": True}}, True),
        ({"codecall": {"approvals": {"rules": [], "ask_client": False}}}, False),
        ({"expose": {"mode": "never"}}, False),
    ],
)
async def test_what_the_configuration_says_counts(tmp_path: Path, options: dict[str, Any], shown: bool) -> None:
    server, person = disk(tmp_path), Person("deny")
    async with (
        gateway(tmp_path, server, **options) as gate,
        Client(gate.server, mode="legacy", elicitation_handler=person) as client,
    ):
        assert ("disk_wipe" in [each.name for each in await client.list_tools()]) is shown
        assert (not (await client.call_tool("disk_wipe", {}, raise_on_error=False)).is_error) is shown
    assert person.questions == []


async def test_rules_of_the_operator_decide_first_and_only_such_servers_are_asked_for(tmp_path: Path) -> None:
    one, two, person = disk(tmp_path, "one"), disk(tmp_path, "two"), Person("allow this call")
    servers = {"one": one.options, "two": {**two.options, "access": {"destructive": True}}}
    rules = [{"tools": ["one_wipe"], "input": {"properties": {"path": {"const": "/"}}}, "action": "deny"}]
    options = {"servers": servers, "cache_dir": False, "codecall": {"approvals": rules}, **ALWAYS}
    async with (
        Gateway(GatewayOptions.read(options, where="")) as gate,
        Client(gate.server, mode="legacy", elicitation_handler=person) as client,
    ):
        denied = await structured(client, "codecall_invoke", {"tool": "one_wipe", "input": {"path": "/"}})
        assert denied["error"]["code"] == "ACCESS_DENIED"
        script = "return Promise.all([one.wipe({ path: 'a' }), two.wipe({ path: 'a' })])"
        assert (await structured(client, "codecall_execute", {"script": script}))["status"] == "ok"
    assert [question.split("\n")[2] for question in person.questions] == ["Tool: one_wipe"]


async def test_rules_in_the_table_of_a_server_are_for_its_tools_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOT", "/")
    one, two, person = disk(tmp_path, "one"), disk(tmp_path, "two"), Person("allow this call")
    toml = tmp_path / "codecall.toml"
    toml.write_text(
        f"""
        cache_dir = false
        expose.mode = "always"
        codecall.approvals = [{{ tools = ["*_look"], action = "deny" }}]
        [servers.one]
        command = {json.dumps(sys.executable)}
        args = {json.dumps(one.options["args"])}
        [[servers.one.approvals]]
        tools = ["wipe"]
        input = {{ required = ["path"], properties.path.const = "${{ROOT}}" }}
        action = "deny"
        [[servers.one.approvals]]
        tools = ["one_look"]
        action = "allow"
        [servers.two]
        command = {json.dumps(sys.executable)}
        args = {json.dumps(two.options["args"])}
        approvals = "writes"
        """,
        encoding="utf-8",
    )
    async with (
        Gateway(read_config(toml).options) as gate,
        Client(gate.server, mode="legacy", elicitation_handler=person) as client,
    ):
        codes: list[str | None] = []
        for name, path in (
            ("one_wipe", "/"),
            ("one_wipe", "a"),
            ("one_look", "/"),
            ("two_look", "/"),
            ("two_wipe", "/"),
        ):
            ran = await structured(client, "codecall_invoke", {"tool": name, "input": {"path": path}})
            codes.append(ran.get("error", {}).get("code"))
    # The rules of a server first, then those of all.
    assert codes == ["ACCESS_DENIED", None, None, "ACCESS_DENIED", None]
    assert [question.split("\n")[2] for question in person.questions] == ["Tool: one_wipe", "Tool: two_wipe"]


@pytest.mark.parametrize(
    ("server", "options", "message"),
    [
        ({"approvals": "write"}, {}, r"servers\.git\.approvals: 'write' is no short form; known here: writes"),
        ({"approvals": ["push"]}, {}, r"servers\.git\.approvals: a rule is a mapping"),
        ({"approvals": [{"tools": ["push"]}]}, {}, r"servers\.git\.approvals\.0\.action: missing"),
        ({"approvals": [{"servers": ["x"], "action": "ask"}]}, {}, "leave out servers and apps"),
        ({"approvals": "writes", "code_mode": True}, {"expose": {"mode": "never"}}, "needs CodeCall's four tools"),
        (
            {"approvals": [{"input": {"type": 7}, "action": "ask"}]},
            {},
            r"codecall\.json: \[servers\.git\] approvals\.rules\.0\.input: not a JSON Schema",
        ),
        (
            {"approvals": [{"input": {"const": "${NOT_SET}"}, "action": "ask"}]},
            {},
            r"codecall\.json: \[servers\.git\] .*NOT_SET",
        ),
    ],
)
def test_rules_of_a_server_that_say_nothing_are_refused(
    tmp_path: Path, server: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    file = tmp_path / "codecall.json"
    file.write_text(json.dumps({**options, "servers": {"git": {"command": "x", **server}}}), encoding="utf-8")
    with pytest.raises(OptionsError, match=message):
        Gateway(read_config(file).options)


def office(folder: Path) -> Listed:
    """A server with a tool that reads, and two that write."""
    server = Listed(folder, "office")
    server.say(tool("look", "Looks", readOnlyHint=True), tool("add", "Adds"), tool("send", "Sends"))
    return server


RULES: dict[str, Any] = {
    "approvals": [
        {
            "tools": ["office_look"],
            "input": {"required": ["path"], "properties": {"path": {"const": "/"}}},
            "action": "deny",
        },
        {"tools": ["office_send"], "action": "deny"},
        {"read_only": False, "action": "ask"},
    ]
}


@ERAS
@pytest.mark.parametrize(
    "options",
    [
        {"expose": {"mode": "auto"}},
        {"expose": {"mode": "always"}},
        {"expose": {"mode": "never"}},
        {"each": {"code_mode": False}},
    ],
)
async def test_rules_hold_for_calls_that_a_client_makes_by_itself(
    tmp_path: Path, mode: Any, options: dict[str, Any]
) -> None:
    server, person = office(tmp_path), Person("allow this call")
    async with (
        gateway(tmp_path, server, codecall=RULES, **options) as gate,
        Client(gate.server, mode=mode, elicitation_handler=person) as client,
        Client(gate.server, mode=mode) as other,
    ):
        said = {
            f"{who} {name} {path}": str(await each.call_tool(name, {"path": path}, raise_on_error=False))
            for who, each in (("person", client), ("nobody", other))
            for name, path in (("office_look", "a"), ("office_look", "/"), ("office_send", "a"), ("office_add", "a"))
        }
    assert {call: "is_error=True" in answer for call, answer in said.items()} == {
        call: call.split(" ", 1)[1] != "office_look a" and call != "person office_add a" for call in said
    }
    assert all("may not be called so" in said[f"person office_{call}"] for call in ("look /", "send a"))
    assert "nobody can be asked" in said["nobody office_add a"].lower()
    assert [question.split("\n")[2] for question in person.questions] == ["Tool: office_add"]
    assert server.asked.count("tools/call") == 3


@ERAS
async def test_a_call_of_a_script_is_asked_for_once_where_the_tools_are_listed(tmp_path: Path, mode: Any) -> None:
    server, person = office(tmp_path), Person("allow this call")
    async with (
        gateway(tmp_path, server, codecall=RULES) as gate,
        Client(gate.server, mode=mode, elicitation_handler=person) as client,
    ):
        script = "await office.add({ path: 'a' }); return office.look({})"
        assert (await structured(client, "codecall_execute", {"script": script}))["status"] == "ok"
        assert (await structured(client, "codecall_invoke", {"tool": "office_look", "input": {}}))["status"] == "ok"
    assert len(person.questions) == 1


async def test_an_approver_decides_where_the_client_cannot_ask(tmp_path: Path) -> None:
    server = disk(tmp_path)

    async def approver(_: object) -> Decision:
        return Decision.once()

    options = {"codecall": {"approvals": {"rules": [], "approver": approver}}}
    async with gateway(tmp_path, server, **options, **ALWAYS) as gate, Client(gate.server, mode="legacy") as client:
        assert (await structured(client, "codecall_invoke", {"tool": "disk_wipe", "input": {}}))["status"] == "ok"


async def test_a_tool_that_becomes_destructive_is_not_called_unasked(tmp_path: Path) -> None:
    server, person = disk(tmp_path), Person("allow this call")
    async with gateway(tmp_path, server) as gate:
        await gate.refresh()
    server.say(tool("look", "Looks at a file", destructiveHint=True))
    async with (
        gateway(tmp_path, server) as gate,
        Client(gate.server, mode="legacy", elicitation_handler=person) as client,
    ):
        refused = await client.call_tool("disk_look", {}, raise_on_error=False)
        assert refused.is_error
        assert (person.questions, server.asked.count("tools/call")) == ([], 0)
        assert not (await client.call_tool("disk_look", {}, raise_on_error=False)).is_error
    assert len(person.questions) == 1
