"""Namespaced calls over real servers: mounted, renamed, large, and with tools that not everybody sees."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.auth import require_scopes
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers import LocalProvider
from fastmcp.tools import Tool
from fastmcp.utilities.tests import asgi_client

from codecall import CodeCallPlugin, tool_metadata
from codecall.catalog.view import CatalogView
from codecall.namespaces import MAX_NAMES

MANY = 5_000


def named(server: FastMCP[Any], *names: str) -> FastMCP[Any]:
    """Tools that answer with what they were given."""
    for name in names:

        @server.tool(name=name)
        def tell(value: int = 0) -> dict[str, int]:
            return {"value": value}

    return server


def shop() -> FastMCP[Any]:
    server = named(
        FastMCP("shop"), "users:list", "users:get", "shop_ping", "loose_end", "process:run", "billing/v2/pay"
    )
    server.mount(named(FastMCP("GitHub"), "create_issue", "list"), namespace="github")
    server.mount(named(FastMCP("weather"), "weather_today", "forecast"))
    inner = named(FastMCP("inner"), "x")
    outer = FastMCP("outer")
    outer.mount(inner, namespace="deep")
    server.mount(outer, namespace="outer")
    zoo = {"app_id": "zoo"}
    server.tool(name="list_animals", meta=tool_metadata(**zoo))(lambda value=0: {"value": value})
    server.tool(name="zoo", meta=tool_metadata(**zoo))(lambda value=0: {"value": value})
    server.tool(name="hidden_tool", meta=tool_metadata(enabled_in_codecall=False))(lambda: None)
    server.tool(name="crm_find", meta=tool_metadata(app_id="crm"))(lambda: {"found": True})
    return server


@asynccontextmanager
async def client_of(server: FastMCP[Any], **options: Any) -> AsyncIterator[Client[Any]]:
    CodeCallPlugin.init(**{"vm": {"preset": "secure"}, **options}).install(server)
    async with Client(server) as client:
        yield client


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client[Any]]:
    async with client_of(shop()) as client:
        yield client


async def execute(client: Client[Any], script: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool("codecall:execute", {"script": script, **arguments})
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.parametrize(
    "call",
    [
        "users.list",
        "tools['users:list']",
        "tools.users.get",
        "shop.ping",
        "github.create_issue",
        "github['list']",
        "tools.github_create_issue",
        "weather.today",
        "outer.deep_x",
        "billing.v2.pay",
        "billing.v2_pay",
        "tools['billing/v2/pay']",
        "tools.process.run",
        "loose_end",
        "github_list",
        "weather_today",
        "github.github_create_issue",
        "weather.weather_today",
        "shop.loose_end",
        "shop['users:list']",
        "zoo.list_animals",
        "zoo",
        "list_animals",
    ],
)
async def test_a_namespaced_call(client: Client[Any], call: str) -> None:
    envelope = await execute(client, f"return (await {call}({{ value: 7 }})).value")
    assert (envelope["status"], envelope.get("result")) == ("ok", 7), envelope
    assert envelope["stats"]["toolCalls"] == 1


async def test_a_tool_is_a_function_of_its_name(client: Client[Any]) -> None:
    script = """
    const calls = [1, 2].map((value) => loose_end({ value }));
    const { success } = await loose_end({ value: 'x' }, { throwOnError: false });
    const run = github_list;
    const inner = ((list_animals) => list_animals({ value: 5 }))((input) => input.value);
    const animals = [typeof zoo, Object.keys(zoo), (await zoo({ value: 9 })).value, (await zoo.zoo({})).value];
    const called = (await Promise.all(calls)).map((one) => one.value);
    return [called, success, (await run({ value: 3 })).value, inner, animals];
    """
    told = await execute(client, script)
    assert told["status"] == "ok", told
    assert told["result"] == [[1, 2], False, 3, 5, ["function", ["list_animals", "zoo"], 9, 0]]


async def test_a_function_is_in_the_plan_and_in_the_manifest(client: Client[Any]) -> None:
    script = "const a = await loose_end({ value: 1 });\nreturn await github_list({ value: 'text' })"
    refused = await execute(client, script)
    assert (refused["error"]["code"], refused["error"]["toolName"]) == ("INVALID_INPUT", "github_list")
    assert "No call was made" in refused["error"]["hint"]
    assert refused["stats"]["toolCalls"] == 0
    report = (await execute(client, script, dryRun=True))["result"]
    assert [(tool["name"], tool["known"]) for tool in report["manifest"]["tools"]] == [
        ("github_list", True),
        ("loose_end", True),
    ]
    assert report["manifest"]["computedNames"] is False


async def test_an_app_named_by_metadata(client: Client[Any]) -> None:
    assert (await execute(client, "return await crm.find()"))["result"] == {"found": True}


@pytest.mark.parametrize(
    ("script", "code", "expected"),
    [
        ("return await users.lst({})", "TOOL_NOT_FOUND", "users has no tool 'lst'; it has: list, get"),
        ("return await users.lst({})", "TOOL_NOT_FOUND", "Did you mean users.list?"),
        ("return await github.createIssue({})", "TOOL_NOT_FOUND", "Did you mean github.create_issue?"),
        ("return await billing.pay({})", "TOOL_NOT_FOUND", "it has: v2.pay"),
        ("return await tools.user_list({})", "TOOL_NOT_FOUND", "Did you mean 'users:list'"),
        ("return await loose.end({})", "VALIDATION_ERROR", "await tools['loose_end']({…})"),
        ("return await loose_ends({})", "VALIDATION_ERROR", "Unknown name 'loose_ends' No tool is called so"),
        (
            "return await loose_ends({})",
            "VALIDATION_ERROR",
            "Did you mean 'loose_end'? Write `await tools['loose_end']",
        ),
        ("return await usersList({})", "VALIDATION_ERROR", "await tools['users:list']({…})"),
        ("return await hidden_tool({})", "VALIDATION_ERROR", "Unknown name 'hidden_tool'"),
        ("return await listTools()", "VALIDATION_ERROR", "search and describe them before it"),
        ("return await codecall_search({ query: 'x' })", "VALIDATION_ERROR", "search and describe them before it"),
        ("return await codemode.list({})", "VALIDATION_ERROR", "await tools['name']"),
        ("loose_end = 1", "VALIDATION_ERROR", "Assigning to 'loose_end' is not allowed"),
        ("user = await users.list({}); return user", "VALIDATION_ERROR", "Declare it: `const user = …`, or `let` if"),
        ("loose_ends = await loose_end({})", "VALIDATION_ERROR", "Declare it: `const loose_ends = …`"),
        ("return await user.list({})", "VALIDATION_ERROR", "Did you mean the namespace `users`?"),
        ("return await process.run({})", "VALIDATION_ERROR", "'process' is not allowed"),
        ("return await outer.x({})", "TOOL_NOT_FOUND", "it has: deep_x"),
        ("return await users.list({ value: 'text' })", "INVALID_INPUT", "users:list"),
        ("return await codecall.execute({})", "SELF_REFERENCE_BLOCKED", "codecall:execute"),
        ("return await tools[['codecall', 'search'].join('_')]({})", "SELF_REFERENCE_BLOCKED", "codecall_search"),
    ],
)
async def test_a_failure_says_what_to_do(client: Client[Any], script: str, code: str, expected: str) -> None:
    envelope = await execute(client, script)
    assert envelope["error"]["code"] == code, envelope
    assert expected in f"{envelope['error']['message']} {envelope['error'].get('hint')}"
    assert envelope["error"]["location"]["line"] == 1


async def test_allowed_tools_hold(client: Client[Any]) -> None:
    allowed = ["users:get", "shop_*"]
    denied = await execute(client, "return await users.list({})", allowedTools=allowed)
    assert denied["error"]["code"] == "ACCESS_DENIED"
    missing = await execute(client, "return await users.lst({})", allowedTools=allowed)
    assert missing["error"]["message"] == "users has no tool 'lst'; it has: get"
    assert "list" not in missing["error"]["hint"]
    fine = await execute(client, "return [Object.keys(users), (await users.get({})).value]", allowedTools=allowed)
    assert fine["result"] == [["get"], 0]
    names = await execute(client, "return Object.keys(tools)", allowedTools=allowed)
    assert names["result"] == ["users:get", "shop_ping"]


async def test_invented_members_do_not_reach_other_tools(client: Client[Any]) -> None:
    # What a namespace gives out for a member it does not have is no way around the rules for names.
    script = """
    const codes = [];
    const calls = [github.users, github['../users:list'], github['users:list'], users['*'], users['list '], users['']];
    for (const call of calls) {
      codes.push((await call({}, { throwOnError: false })).error.code);
    }
    codes.push((await callTool('users.lst', {}, { throwOnError: false })).error.code);
    return codes;
    """
    assert set((await execute(client, script))["result"]) == {"TOOL_NOT_FOUND"}


async def test_tools_of_others_are_neither_called_nor_named() -> None:
    tokens = {who: {"client_id": who, "sub": who, "scopes": [who]} for who in ("staff", "admin")}
    server = named(FastMCP("hr", auth=StaticTokenVerifier(tokens=tokens)), "people:list")
    for name in ("people:payroll", "vault:open", "people_payroll_export"):
        server.tool(lambda: {"seen": True}, name=name, auth=require_scopes("admin"))
    CodeCallPlugin.init(vm={"preset": "secure"}).install(server)
    answers: dict[str, list[dict[str, Any]]] = {}
    async with asgi_client(server, auth="admin") as admin, asgi_client(server, auth="staff") as staff:
        for who, client in (("admin", admin), ("staff", staff), ("admin", admin), ("staff", staff)):
            answers[who] = [
                await execute(client, script)
                for script in (
                    "return await people.payroll()",
                    "return await vault.open()",
                    "return await tools['vault:open']()",
                    "return await people.pay()",
                    "return await valt.open()",
                    "return await people_payroll.export()",
                    "const has = (name) => name in tools; "
                    "people.list; return [Object.keys(people), 'payroll' in people, has('vault:open'), has('vault')]",
                    "return Object.keys(tools)",
                    "return await tools.search('pay')",
                )
            ]
    admins, staffs = answers["admin"], answers["staff"]
    assert [one["status"] for one in admins[:3]] == ["ok"] * 3
    assert admins[6]["result"] == [["list", "payroll"], True, True, True]
    codes = [one["error"]["code"] for one in staffs[:6]]
    assert (
        codes == ["TOOL_NOT_FOUND", "VALIDATION_ERROR", "TOOL_NOT_FOUND", "TOOL_NOT_FOUND"] + ["VALIDATION_ERROR"] * 2
    )
    assert staffs[6]["result"] == [["list"], False, False, False]
    assert [len(admins[7]["result"]), staffs[7]["result"]] == [4, ["people:list"]]
    assert staffs[8]["error"]["hint"].endswith("There are people:list.")
    errors = [str({key: one["error"][key] for key in ("message", "hint")}) for one in staffs[:6]]
    names = ["payroll", "vault", "vault", "pay", "valt", "people_payroll"]
    for text, own in zip(errors, names, strict=True):
        hidden = text.replace(own, "").replace(f"{own}:open", "")
        assert not any(name in hidden for name in ("payroll", "vault", "export")), text


async def test_a_listing_that_fails_fails_the_call() -> None:
    class Broken(Middleware):
        async def on_list_tools(self, context: Any, call_next: Any) -> Sequence[Tool]:
            if context.fastmcp_context is not None and self.broken:
                raise KeyError("not for scripts")
            return await call_next(context)

        broken = False

    server = named(FastMCP("shaky"), "users:list")
    broken = Broken()
    server.add_middleware(broken)
    async with client_of(server) as client:
        await client.list_tools()  # which a client does once by itself
        broken.broken = True
        envelope = await execute(client, "return await users.list({})")
        assert envelope["status"] == "tool_error"
        assert "not for scripts" not in str(envelope)
        broken.broken = False
        assert (await execute(client, "return (await users.list({})).value"))["result"] == 0


@pytest.fixture(scope="module")
def many() -> FastMCP[Any]:
    async def tell() -> str:
        return "told"

    server, tool = FastMCP[Any]("many"), Tool.from_function(tell)
    areas = [LocalProvider() for _ in range(50)]  # a provider compares each tool it is given with all it has
    for number in range(MANY):
        areas[number % 50].add_tool(tool.model_copy(update={"name": f"area{number % 50}:thing_{number}"}))
    for area in areas:
        server.add_provider(area)
    CodeCallPlugin.init(vm={"preset": "secure"}).install(server)
    return server


async def test_five_thousand_tools(many: FastMCP[Any]) -> None:
    async with Client(many) as client:
        assert (await execute(client, "return await area7.thing_4907()"))["result"] == "told"
        missing = (await execute(client, "return await area7.thing_490()"))["error"]
        assert missing["message"].endswith(" and 90 more")
        assert len(missing["message"]) + len(missing["hint"]) < 500
        names = (await execute(client, "return Object.keys(tools)"))["result"]
        assert (len(names), names[-1]) == (MAX_NAMES + 1, f"… and {MANY - MAX_NAMES} more")
        told = (await execute(client, "return await tools.list()"))["error"]
        assert len(told["hint"]) < 600


async def test_a_script_without_unknown_names_reads_no_namespaces(
    many: FastMCP[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: CatalogView) -> Any:
        raise AssertionError

    monkeypatch.setattr(CatalogView, "namespaces", never)
    async with Client(many) as client:
        script = "const area1 = 1; return [area1, await callTool('area1:thing_1'), await tools['area1:thing_1']()]"
        assert (await execute(client, script))["result"] == [1, "told", "told"]


async def test_a_namespace_belongs_to_the_mount_that_is_called_so() -> None:
    server = FastMCP("main")
    server.mount(named(FastMCP("hostile"), "bank.pay", "bank_send", "bank.only"), namespace="my")
    server.mount(named(FastMCP("nameless"), "my_bank.steal", "my_bank:pay"))
    server.mount(named(FastMCP("bank"), "pay"), namespace="my-bank")
    by_prefix = LocalProvider()
    by_prefix.add_tool(Tool.from_function(lambda: "hostile", name="bank_pay"))
    server.add_provider(by_prefix, namespace="your")
    server.add_provider(LocalProvider(), namespace="your_bank")
    async with client_of(server) as client:
        told = await execute(client, "return tools.my.bank_pay === undefined || Object.keys(my_bank)")
        assert told["result"] == ["pay"]
        for member in ("only", "send", "steal"):
            envelope = await execute(client, f"return await my_bank.{member}({{}})")
            assert envelope["error"]["code"] == "TOOL_NOT_FOUND", envelope
            assert envelope["error"]["message"] == f"my_bank has no tool '{member}'; it has: pay"
        assert (await execute(client, "return await tools['my_bank.only']({ value: 3 })"))["result"] == {"value": 3}
        assert (await execute(client, "return await your_bank.pay({})"))["status"] == "illegal_access"
        assert (await execute(client, "return await your.bank_pay({})"))["result"] == "hostile"
