"""Calls at the same time, and rules that say several things: one process."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import PromptError, ToolError
from mcp import MCPError

from codecall import CodeCallPlugin, OptionsError, RateLimitPlugin
from codecall.ratelimit.rules import RateLimitRule


class Crm:
    """A server whose tool `users:wait` runs until it is told to end."""

    def __init__(self, *rules: dict[str, Any]) -> None:
        self.running = 0
        self.most = 0
        self.began = anyio.Event()
        self.end = anyio.Event()
        self.mcp = FastMCP[Any]("crm")
        self.mcp.tool(self.wait, name="users:wait")
        self.mcp.tool(lambda: 1, name="users:list")
        self.mcp.resource("crm://wait")(self.text)
        self.mcp.prompt(self.text, name="ask")
        RateLimitPlugin.init(rules=list(rules)).install(self.mcp)

    async def wait(self) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        self.began.set()
        try:
            await self.end.wait()
        finally:
            self.running -= 1
        return 1

    async def text(self) -> str:
        return str(await self.wait())


async def status(client: Client[Any], script: str) -> str:
    """How a script ended: its status, or the name of the rule that refused it."""
    body = (await client.call_tool("codecall:execute", {"script": script})).structured_content
    assert body is not None
    if body["status"] == "ok":
        return "ok"
    assert body["error"]["code"] == "RATE_LIMIT"
    return body["error"]["details"]["rule"]


WAIT = 'return await callTool("users:wait", {});'


async def test_scripts_at_once_per_client_and_in_all() -> None:
    crm = Crm(
        {"tool": "codecall:execute", "concurrent": 2, "name": "mine"},
        {"tool": "codecall:execute", "concurrent": 3, "per": "global", "name": "all"},
    )
    CodeCallPlugin.init().install(crm.mcp)
    outcomes: list[str] = []

    async def run(client: Client[Any]) -> None:
        outcomes.append(await status(client, WAIT))

    # In the handshake era each connection in memory is a client of its own.
    async with Client(crm.mcp, mode="legacy") as one, Client(crm.mcp, mode="legacy") as other:
        async with anyio.create_task_group() as group:
            for client in (one, one):
                group.start_soon(run, client)
            with anyio.fail_after(20):
                while crm.running < 2:  # noqa: ASYNC110 - two scripts, one event
                    await anyio.sleep(0.01)
            assert await status(one, "return 1;") == "mine"
            group.start_soon(run, other)
            with anyio.fail_after(20):
                while crm.running < 3:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            assert await status(other, "return 1;") == "all"
            crm.end.set()
        assert outcomes == ["ok"] * 3
        assert await status(one, "return 1;") == "ok"


async def test_a_tool_s_calls_at_once_in_one_script() -> None:
    crm = Crm({"tool": "users:wait", "concurrent": 2})
    CodeCallPlugin.init().install(crm.mcp)
    script = """
        const all = await Promise.allSettled([1, 2, 3, 4].map(() => callTool("users:wait", {})));
        return all.map(one => one.status === "fulfilled" ? one.value : one.reason.details.rule);"""
    crm.end.set()
    async with Client(crm.mcp) as client:
        ran = (await client.call_tool("codecall:execute", {"script": script})).structured_content
    assert ran is not None
    assert crm.most <= 2
    assert set(map(str, ran["result"])) <= {"1", "users:wait"}
    assert ran["result"][:2] == [1, 1]


@pytest.mark.parametrize("kind", ["tool", "resource", "prompt"])
async def test_a_place_is_given_back_when_a_call_ends_or_is_cancelled(kind: str) -> None:
    crm = Crm({"tool": "*", "concurrent": 1, "name": "one"})

    async def call(client: Client[Any]) -> None:
        match kind:
            case "tool":
                await client.call_tool("users:wait")
            case "resource":
                await client.read_resource("crm://wait")
            case _:
                await client.get_prompt("ask")

    async with Client(crm.mcp) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(call, client)
            await crm.began.wait()
            with pytest.raises((ToolError, MCPError, PromptError)) as raised:
                await call(client)
            assert '"rule":"one"' in str(raised.value)
            group.cancel_scope.cancel()
        crm.end.set()
        with anyio.fail_after(5):
            while crm.running:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        await call(client)
        await call(client)


async def test_a_call_refused_for_its_rate_holds_no_place_and_one_without_a_place_counts_for_no_rate() -> None:
    crm = Crm(
        {"tool": "users:*", "concurrent": 1, "rate": "2/hour", "name": "both"},
        {"tool": "users:list", "rate": "1/hour", "name": "list"},
    )
    async with Client(crm.mcp) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "users:wait")
            await crm.began.wait()
            for _ in range(3):
                with pytest.raises(ToolError, match="at the same time: 1 may run"):
                    await client.call_tool("users:list")
            crm.end.set()
        await client.call_tool("users:list")  # the second of two an hour
        with pytest.raises(ToolError) as raised:
            await client.call_tool("users:list")
        assert json.loads(str(raised.value))["details"]["rule"] in ("both", "list")


# --- what rules say


async def test_several_rates_in_one_rule_must_all_hold() -> None:
    crm = Crm({"tool": "users:list", "rate": ["2/second", "3 per 2 hours; 5/day"]})
    async with Client(crm.mcp) as client:
        outcomes: list[str] = []
        for _ in range(6):
            result = await client.call_tool("users:list", raise_on_error=False)
            if result.is_error:
                error = json.loads(result.content[0].text)  # type: ignore[union-attr]
                outcomes.append(error["message"].partition(": ")[2])
                await anyio.sleep(error["retryAfterMs"] / 1000 + 0.02) if error["retryAfterMs"] < 2000 else None
            else:
                outcomes.append("passed")
    assert outcomes == ["passed", "passed", "2 calls per second", "passed", *["3 calls per 2 hours"] * 2]


def test_rates_in_every_form() -> None:
    for written, expected in [
        ("10/minute", [(10, 60)]),
        ("1 per second", [(1, 1)]),
        ("5/2 hours", [(5, 7_200)]),
        ("1/second;10/minute, 2/day", [(1, 1), (10, 60), (2, 86_400)]),
        (["1/second", "7/month"], [(1, 1), (7, 30 * 86_400)]),
    ]:
        rule = RateLimitRule.read({"tool": "x", "rate": written}, where="")
        assert [tuple(rate) for rate in rule.rates] == expected
    both = RateLimitRule.read({"tool": "x", "rate": "1/second", "limit": 9, "window": "1h"}, where="")
    assert [tuple(rate) for rate in both.rates] == [(1, 1), (9, 3_600)]


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({}, "rules.0"),
        ({"limit": 5}, "rules.0"),
        ({"window": "1m"}, "rules.0"),
        ({"rate": ""}, "rules.0.rate"),
        ({"rate": []}, "rules.0.rate"),
        ({"rate": 10}, "rules.0.rate"),
        ({"rate": [10]}, "rules.0.rate"),
        ({"rate": "10"}, "rules.0.rate"),
        ({"rate": "0/minute"}, "rules.0.rate"),
        ({"rate": "1/0 minute"}, "rules.0.rate"),
        ({"rate": "1000001/minute"}, "rules.0.rate"),
        ({"rate": "1/year"}, "rules.0.rate"),
        ({"rate": "1/fortnight"}, "rules.0.rate"),
        ({"rate": "1/minute;" * 200}, "rules.0.rate"),
        ({"concurrent": 0}, "rules.0.concurrent"),
        ({"concurrent": True}, "rules.0.concurrent"),
        ({"rate": "1/minute", "strategy": "token-bucket"}, "rules.0.strategy"),
        ({"rate": "1/minute", "name": "a\nb"}, "rules.0.name"),
    ],
)
def test_a_bad_rule_names_its_field(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(OptionsError) as raised:
        RateLimitPlugin.init(rules=[{"tool": "x", **fields}])
    assert raised.value.message.startswith(f"{where}:")


async def test_a_rule_that_is_there_twice_counts_once() -> None:
    rule = {"tool": "users:list", "rate": "2/hour;2/hour", "concurrent": 1}
    async with Client(Crm(rule, rule).mcp) as client:
        for _ in range(2):
            await client.call_tool("users:list")
        with pytest.raises(ToolError, match="RATE_LIMIT"):
            await client.call_tool("users:list")
