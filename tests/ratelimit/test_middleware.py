"""Rate limits, seen by real clients over memory and over HTTP."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import anyio
import mcp_types
import pytest
from fastmcp import Client, FastMCP
from fastmcp.apps.app import FastMCPApp
from fastmcp.exceptions import NotFoundError, ToolError
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.providers.addressing import hashed_backend_name
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.tests import asgi_server
from jsonschema import validate
from mcp import MCPError
from starlette.middleware import Middleware as HttpMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from codecall import CodeCallPlugin
from codecall.envelopes import EXECUTE_SCHEMA, INVOKE_SCHEMA
from codecall.errors import OptionsError
from codecall.ratelimit.middleware import RateLimitPlugin
from codecall.ratelimit.rules import RateLimitOptions, RateLimitRule, RuleDict

META = ("search", "describe", "invoke", "execute")
SCHEMAS = {"execute": EXECUTE_SCHEMA, "invoke": INVOKE_SCHEMA}
LISTING = {"type": "object", "properties": {"tools": {"type": "array"}}, "required": ["tools"]}


class Meta(Tool):
    """A tool with the name and output schema of a meta-tool, that answers as one."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        kind = self.name[len("codecall:") :]
        return ToolResult(structured_content={"status": "ok"} if kind in SCHEMAS else {"tools": []})


def server(*rules: dict[str, Any], separator: str = ":", **options: Any) -> FastMCP[Any]:
    """A server with the meta-tools and three ordinary ones, under these rules."""
    mcp = FastMCP[Any]("crm", **options)
    for kind in META:
        schema = SCHEMAS.get(kind, LISTING)
        mcp.add_tool(Meta(name=f"codecall{separator}{kind}", parameters={"type": "object"}, output_schema=schema))

    for name in ("users:list", "users:get", "orders:list"):

        @mcp.tool(name=name)
        def tool() -> int:
            return 1

    RateLimitPlugin.init(rules=list(rules)).install(mcp)
    return mcp


async def refused(client: Client[Any], tool: str = "users:list") -> dict[str, Any] | None:
    """The error object of a refused call, None for one that passed."""
    result = await client.call_tool(tool, {}, raise_on_error=False)
    if result.structured_content is not None and "error" in result.structured_content:
        return result.structured_content["error"]
    if not result.is_error:
        return None
    (block,) = result.content
    assert isinstance(block, mcp_types.TextContent)
    return json.loads(block.text)


async def passes(client: Client[Any], *tools: str) -> list[bool]:
    """For each call in turn, whether it passed."""
    return [await refused(client, tool) is None for tool in tools]


# --- what a refused call answers


@pytest.mark.parametrize("separator", [":", "_"])
@pytest.mark.parametrize("kind", ["execute", "invoke"])
async def test_a_refused_envelope_tool_answers_with_an_envelope(kind: str, separator: str) -> None:
    rule = {"tool": f"codecall:{kind}", "limit": 1, "window": "1m"}
    async with Client(server(rule, separator=separator)) as client:
        name = f"codecall{separator}{kind}"
        await client.list_tools()  # the client now checks results against the output schema
        assert (await client.call_tool(name, {})).structured_content == {"status": "ok"}
        result = await client.call_tool(name, {})
    envelope = result.structured_content
    assert envelope is not None
    validate(envelope, SCHEMAS[kind])
    assert not result.is_error
    assert envelope["status"] == ("tool_error" if kind == "execute" else "error")
    assert envelope["error"]["code"] == "RATE_LIMIT"
    assert envelope["error"]["source"] == "tool"
    assert envelope["error"]["toolName"] == name
    assert envelope["error"]["message"] == f"Rate limit exceeded for '{name}': 1 calls per minute"
    assert 50_000 < envelope["error"]["retryAfterMs"] <= 60_000
    (block,) = result.content
    assert isinstance(block, mcp_types.TextContent)
    assert json.loads(block.text) == envelope


@pytest.mark.parametrize("tool", ["codecall:search", "codecall:describe", "users:list"])
async def test_every_other_tool_answers_with_an_error_result(tool: str) -> None:
    async with Client(server({"tool": tool, "limit": 1, "window": 60})) as client:
        await client.list_tools()
        assert await refused(client, tool) is None
        error = await refused(client, tool)
        assert error is not None
        assert (error["code"], error["toolName"]) == ("RATE_LIMIT", tool)
        assert 50_000 < error["retryAfterMs"] <= 60_000
        with pytest.raises(ToolError, match="RATE_LIMIT"):
            await client.call_tool(tool, {})


# --- which calls a rule counts


async def test_either_spelling_of_a_meta_tool_is_meant() -> None:
    for written in ("codecall:execute", "codecall_execute", "CodeCall:Execute", "codecall:*", "codecall_exec*", "*"):
        for called in ("codecall:execute", "codecall_execute", "CODECALL_EXECUTE", " codecall:execute "):
            assert RateLimitRule.read({"tool": written, "limit": 1, "window": 1}, where="").matches(called)
    other = RateLimitRule.read({"tool": "codecall:search", "limit": 1, "window": 1}, where="")
    assert not other.matches("codecall:execute")
    assert not other.matches("codecall:searching")


@pytest.mark.parametrize("namespace", [None, "eu"])
async def test_a_tool_of_an_app_is_limited_under_its_hashed_name_too(namespace: str | None) -> None:
    app = FastMCPApp("shop")

    @app.tool(model=True)
    def refund() -> int:
        return 1

    inner, mcp = FastMCP[Any]("inner"), FastMCP[Any]("crm")
    inner.add_provider(app)
    mcp.mount(inner, namespace=namespace)
    async with Client(mcp) as client:
        (listed,) = [tool.name for tool in await client.list_tools()]
    RateLimitPlugin.init(rules=[{"tool": listed, "limit": 2, "window": 60}]).install(mcp)
    hashed = hashed_backend_name("shop", "refund")
    async with Client(mcp) as client:
        assert await passes(client, hashed, listed, hashed, listed) == [True, True, False, False]


@pytest.mark.parametrize("separator", [":", "_"])
async def test_the_meta_tools_of_a_mounted_server_are_meant_too(separator: str) -> None:
    child, mcp = FastMCP[Any]("child"), FastMCP[Any]("crm")
    options: dict[str, Any] = {"tool_name_separator": separator, "pool": {"min_workers": 0}}
    CodeCallPlugin.init(**options).install(child)
    child.tool(lambda: 1, name="one")
    mcp.tool(lambda: 1, name="my_codecall_search")
    mcp.mount(child, namespace="child")
    rules: list[RuleDict] = [{"tool": "codecall:*", "limit": 1, "window": 60}]
    RateLimitPlugin.init(rules=rules).install(mcp)
    async with Client(mcp) as client:
        name = f"child_codecall{separator}invoke"
        arguments = {"tool": "one", "input": {}}
        answers = [await client.call_tool(name, arguments, raise_on_error=False) for _ in range(2)]
        assert [answer.structured_content["status"] for answer in answers if answer.structured_content] == [
            "ok",
            "error",
        ]
        assert await passes(client, "my_codecall_search", "my_codecall_search") == [True, True]


@pytest.mark.parametrize("namespace", [None, "child"])
@pytest.mark.parametrize("rule", ["codecall:execute", "execute_tool_script"])
async def test_a_rule_for_scripts_holds_in_each_language(rule: str, namespace: str | None) -> None:
    child, mcp = FastMCP[Any]("child"), FastMCP[Any]("crm")
    CodeCallPlugin.init(starlark={"optimizer": True}, pool={"min_workers": 0}).install(child)
    child.tool(lambda: 1, name="one")
    mcp.mount(child, namespace=namespace)
    rules: list[RuleDict] = [
        {"tool": rule, "limit": 1, "window": 60},
        {"tool": "codecall:invoke", "limit": 1, "window": 60},
        {"tool": "codecall:search", "limit": 1, "window": 60},
    ]
    RateLimitPlugin.init(rules=rules).install(mcp)
    prefix = f"{namespace}_" if namespace else ""
    async with Client(mcp) as client:

        async def call(tool: str, /, **arguments: Any) -> Any:
            return await client.call_tool(f"{prefix}{tool}", arguments, raise_on_error=False)

        assert (await call("execute_tool_script", script="return one()")).structured_content == {"result": 1}
        refused = await call("execute_tool_script", script="return one()")
        assert refused.is_error
        assert refused.content[0].text.startswith("script execution failed: Rate limit exceeded for")
        other = await call("codecall:execute", script="return 1")
        assert other.structured_content["status"] == ("tool_error" if rule == "codecall:execute" else "ok")
        called = [await call("call_tool", tool="one", input={}) for _ in range(2)]
        assert [each.structured_content["status"] for each in called] == ["ok", "error"]
        found = [await call("find_tool", query="one") for _ in range(2)]
        assert [each.is_error for each in found] == [False, True]


async def test_the_limit_is_of_the_window() -> None:
    async with Client(server({"tool": "users:list", "limit": 3, "window": "1m"})) as client:
        assert await passes(client, *["users:list"] * 5) == [True, True, True, False, False]
        assert await passes(client, "users:get", "orders:list", "codecall:execute") == [True, True, True]


async def test_a_glob_counts_its_tools_together_and_case_counts() -> None:
    async with Client(server({"tool": "users:*", "limit": 2, "window": "1m"})) as client:
        assert await passes(client, "users:list", "users:get", "users:list") == [True, True, False]
    async with Client(server({"tool": "Users:*", "limit": 1, "window": "1m"})) as client:
        assert await passes(client, "users:list", "users:list") == [True, True]


async def test_a_call_must_pass_every_rule_and_a_refused_one_counts_for_none() -> None:
    rules = [{"tool": "users:*", "limit": 3, "window": "1m"}, {"tool": "users:list", "limit": 1, "window": "1m"}]
    async with Client(server(*rules)) as client:
        assert await passes(client, "users:list", "users:list", "users:list") == [True, False, False]
        assert await passes(client, "users:get", "users:get", "users:get") == [True, True, False]


async def test_the_window_moves_on() -> None:
    async with Client(server({"tool": "users:list", "limit": 1, "window": "1s"})) as client:
        assert await refused(client) is None
        error = await refused(client)
        assert error is not None
        # What it tells the caller to do works: this waits for the clock the rule itself reads.
        await anyio.sleep(error["retryAfterMs"] / 1000 + 0.02)
        assert await refused(client) is None


async def test_many_calls_at_once_never_exceed_the_limit() -> None:
    outcomes: list[bool] = []
    async with Client(server({"tool": "users:list", "limit": 7, "window": "1h"})) as client:

        async def one() -> None:
            outcomes.append(await refused(client) is None)

        async with anyio.create_task_group() as group:
            for _ in range(40):
                group.start_soon(one)
    assert (outcomes.count(True), len(outcomes)) == (7, 40)


# --- who is one client


class Peer:
    """Takes the address of the peer from a header that only this test's server reads."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for name, value in scope.get("headers", ()):
            if name == b"x-test-peer":
                scope["client"] = (value.decode(), 1) if value else None
        await self.app(scope, receive, send)


RULE = {"tool": "users:list", "limit": 2, "window": "1h"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_anonymous_http_clients_are_told_apart_by_address_only(mode: Any) -> None:
    async with asgi_server(server(RULE), middleware=[HttpMiddleware(Peer)]) as running:

        async def calls(**headers: str) -> list[bool]:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            async with running.client(headers=named, mode=mode) as client:
                return await passes(client, "users:list", "users:list")

        assert await calls(x_test_peer="203.0.113.5") == [True, True]
        assert await calls(x_test_peer="203.0.113.6") == [True, True]
        # A new connection, a forwarded address, a made-up identity: all the same client.
        assert await calls(x_test_peer="203.0.113.5") == [False, False]
        assert await calls(x_test_peer="203.0.113.5", x_forwarded_for="198.51.100.1") == [False, False]
        assert await calls(x_test_peer="2001:db8:1:2::1") == [True, True]
        assert await calls(x_test_peer="2001:db8:1:2:ffff::9") == [False, False]
        assert await calls(x_test_peer="2001:db8:1:3::1") == [True, True]
        assert await calls(x_test_peer="") == [True, True]
        assert await calls(x_test_peer="unix") == [True, True]


async def test_a_spoofed_session_id_or_client_id_changes_nothing() -> None:
    async with asgi_server(server(RULE)) as running, running.client() as client:
        outcomes: list[bool] = []
        for number in range(4):
            meta = {"client_id": f"someone-{number}"}
            result = await client.call_tool("users:list", {}, meta=meta, raise_on_error=False)
            outcomes.append(not result.is_error)
        async with running.client(headers={"mcp-session-id": "fresh"}) as other:
            outcomes += await passes(other, "users:list")
    assert outcomes == [True, True, False, False, False]


async def test_authenticated_clients_are_told_apart_by_subject() -> None:
    tokens: dict[str, dict[str, Any]] = {
        "ann-1": {"client_id": "app-1", "scopes": [], "sub": "ann", "iss": "https://id.example"},
        "ann-2": {"client_id": "app-2", "scopes": [], "sub": "ann", "iss": "https://id.example"},
        "ann-elsewhere": {"client_id": "app-1", "scopes": [], "sub": "ann", "iss": "https://other.example"},
        "robot": {"client_id": "robot", "scopes": []},
        "other-robot": {"client_id": "other", "scopes": []},
    }
    mcp = server(RULE, auth=StaticTokenVerifier(tokens))
    async with asgi_server(mcp) as running:

        async def calls(token: str) -> list[bool]:
            async with running.client(auth=token) as client:
                return await passes(client, "users:list", "users:list")

        assert await calls("ann-1") == [True, True]
        assert await calls("ann-2") == [False, False]
        assert await calls("ann-elsewhere") == [True, True]
        assert await calls("robot") == [True, True]
        assert await calls("other-robot") == [True, True]
        assert await calls("robot") == [False, False]


async def test_in_memory_connections_of_the_handshake_era_are_sessions() -> None:
    mcp = server(RULE)
    for _ in range(2):
        async with Client(mcp, mode="legacy") as client:
            assert await passes(client, *["users:list"] * 3) == [True, True, False]


async def test_modern_in_memory_connections_are_one_client() -> None:
    mcp = server(RULE)
    async with Client(mcp) as first, Client(mcp) as second:
        assert await passes(first, "users:list") == [True]
        assert await passes(second, "users:list", "users:list") == [True, False]


async def test_a_call_without_a_request_counts_for_the_process() -> None:
    mcp = server(RULE)
    await mcp.call_tool("users:list", {})
    await mcp.call_tool("users:list", {})
    with pytest.raises(ToolError, match="RATE_LIMIT"):
        await mcp.call_tool("users:list", {})


# --- options


def test_windows_in_every_form() -> None:
    for written, seconds in [("30s", 30), ("1m", 60), ("2H", 7200), (" 1d ", 86_400), ("45", 45), (90, 90)]:
        assert RateLimitRule.read({"tool": "x", "limit": 1, "window": written}, where="").window == seconds


GOOD = {"tool": "x", "limit": 1, "window": "1m"}


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ([], "rules"),
        ("x", "rules"),
        ([1], "rules.0"),
        ([GOOD, {"limit": 1, "window": "1m"}], "rules.1.tool"),
        ([GOOD | {"tool": ""}], "rules.0.tool"),
        ([GOOD | {"limit": 0}], "rules.0.limit"),
        ([GOOD | {"limit": "10"}], "rules.0.limit"),
        ([GOOD | {"limit": True}], "rules.0.limit"),
        ([GOOD | {"window": "1 fortnight"}], "rules.0.window"),
        ([GOOD | {"window": "0s"}], "rules.0.window"),
        ([GOOD | {"window": "31d"}], "rules.0.window"),
        ([GOOD | {"window": 1.5}], "rules.0.window"),
        ([GOOD | {"window": True}], "rules.0.window"),
        ([GOOD | {"per": "user"}], "rules.0.per"),
    ],
)
def test_a_bad_rule_names_its_field(rules: Any, field: str) -> None:
    with pytest.raises(OptionsError) as raised:
        RateLimitPlugin.init(rules=rules)
    assert raised.value.message.startswith(f"{field}:")


def test_a_rule_for_a_tool_that_codecall_does_not_have_is_refused() -> None:
    for misspelt in ("codecall:exec", "CodeCall:serch*"):
        with pytest.raises(OptionsError, match=r"none of CodeCall's tools: codecall:search, "):
            RateLimitPlugin.init(rules=[{"tool": misspelt, "limit": 1, "window": 1}])
    RateLimitPlugin.init(rules=[{"tool": "codecall://results/*", "limit": 1, "window": 1}])


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(OptionsError, match="store: unknown option"):
        RateLimitPlugin.init(rules=[GOOD], store="redis://")


async def test_a_name_longer_than_any_tool_has_is_unknown_and_reaches_no_rule() -> None:
    async with Client(server({"tool": "a*", "limit": 1, "window": "1h"})) as client:
        for _ in range(3):
            result = await client.call_tool("a" * 200_000, {}, raise_on_error=False)
            assert result.is_error
            assert "Unknown tool: 'aaa" in str(result.content)


async def test_a_refusal_repeats_any_name_as_text() -> None:
    mcp = server({"tool": "users:*", "limit": 1, "window": "1m"})
    with pytest.raises(NotFoundError):
        await mcp.call_tool("users:\ud800", {})
    with pytest.raises(ToolError) as raised:
        await mcp.call_tool("users:\ud800", {})
    assert json.loads(str(raised.value))["toolName"] == "users:\ufffd"


# --- resources


async def reads(*uris: str, rule: str, limit: int = 1) -> list[bool]:
    """For each read in turn, whether it passed; first one of the URI that the rule is about."""
    mcp = FastMCP[Any]("shelf")
    mcp.resource("data://{x}{?part}", name="any")(lambda x, part="": f"{x} {part}")
    mcp.resource("tree://{path*}", name="tree")(lambda path: path)
    RateLimitPlugin.init(rules=[{"tool": rule, "limit": limit, "window": "1h"}]).install(mcp)
    passed: list[bool] = []
    async with Client(mcp) as client:
        for uri in uris:
            try:
                await client.read_resource(uri)
                passed.append(True)
            except MCPError as error:
                if "RATE_LIMIT" not in str(error):
                    raise
                passed.append(False)
    return passed


@pytest.mark.parametrize(
    "uri",
    [
        "data://hot",
        "data://%68ot",
        "data://h%6ft",
        "data://%68%6F%74",
        "data://hot#1",
        "data://hot?a",
        "data://h%6Ft?a#b",
    ],
)
async def test_no_spelling_of_a_uri_passes_its_rule(uri: str) -> None:
    assert await reads("data://hot", uri, "data://cold", rule="data://hot") == [True, False, True]
    assert await reads(uri, "data://hot", rule="data://hot") == [True, False]


async def test_the_rule_itself_may_be_spelled_otherwise() -> None:
    assert await reads("data://two%20words", "data://two%20word%73", rule="data://two%20words") == [True, False]
    assert await reads("data://%C3%A9", "data://%c3%a9", rule="data://%c3%A9") == [True, False]
    assert await reads("data://%C3%A9", "data://%c3%a9", rule="data://é") == [True, False]
    # A coded star is a star, and no glob.
    assert await reads("data://a", "data://b", "data://%2A", "data://%2a", rule="data://%2A") == [
        True,
        True,
        True,
        False,
    ]
    assert await reads("data://hot?part=1", "data://hot?part=2", "data://hot", rule="data://hot[?]part=*") == [
        True, False, True,
    ]  # fmt: skip


async def test_globs_are_about_every_spelling() -> None:
    assert await reads("tree://vault/a", "tree://v%61ult/b", "tree://other", rule="tree://vault/*") == [
        True,
        False,
        True,
    ]
    assert await reads("data://a", "data://b#c", "data://c?d", rule="data://?") == [True, False, False]


def test_the_signature_and_the_docstring_of_init_have_every_option():
    parameters = inspect.signature(RateLimitPlugin.init).parameters
    named = {name: each for name, each in parameters.items() if each.kind is inspect.Parameter.KEYWORD_ONLY}
    assert set(named) == set(RateLimitOptions.names())
    for name, field in RateLimitOptions.model_fields.items():
        default = () if field.is_required() else field.default
        assert named[name].default == default
        assert re.search(rf"^    {name}: \S", inspect.getdoc(RateLimitPlugin.init) or "", re.MULTILINE)
    assert set(RuleDict.__annotations__) == set(RateLimitRule.names())


def test_options_of_init_may_be_given_in_either_spelling():
    rule = {"tool": "add", "rate": "1/minute"}
    assert isinstance(RateLimitPlugin.init(rules=[rule], timeoutMs=50), RateLimitPlugin)
    with pytest.raises(OptionsError, match="did you mean timeout_ms"):
        RateLimitPlugin.init(rules=[rule], timeout=50)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "rules: at least 1 is needed (got [])"),
        ([{"tool": "x", "rate": "often"}], "rules.0.rate: 'often' is no rate; one is '10/minute', "),
        ([{"tool": "x"}], "rules.0: says no limit: give rate, or limit and window, or concurrent"),
        ([{"tool": "x", "rate": "1/minute"}, {"limit": "1", "window": "1m"}], "rules.1.tool: missing; rules.1.limit: "),
    ],
)
def test_a_wrong_rule_is_all_that_its_error_names(rules: list[dict[str, object]], message: str):
    with pytest.raises(OptionsError) as refused:
        RateLimitPlugin.init(rules=rules)
    assert refused.value.message.startswith(message)
    assert "Value error" not in refused.value.message
    assert "rules: " not in refused.value.message.removeprefix(message)


def test_rules_may_be_given_in_one_mapping():
    assert isinstance(RateLimitPlugin.init({"rules": [{"tool": "add", "limit": 1, "window": "1m"}]}), RateLimitPlugin)
    with pytest.raises(OptionsError, match="rules: missing"):
        RateLimitPlugin.init()
