"""Rate limits that several instances share: a real Redis, that is stopped, hangs, and comes back."""

from __future__ import annotations

import json
import logging
import signal
import sys
import textwrap
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from limits import RateLimitItemPerHour
from redis.asyncio import Redis
from redis.asyncio.client import Monitor

from codecall import CodeCallPlugin, OptionsError, RateLimitPlugin
from codecall.ratelimit.counting import CallCounter, LimitRefusal, WindowLimit
from codecall.ratelimit.redis_store import RETRY_AFTER_S, RedisCounterStore, redis_breaker
from codecall.ratelimit.rules import RateLimitOptions, RateLimitRule, Strategy
from tests.loaded_python import LoadedPython
from tests.redis_server import RedisServer

ALL: tuple[Strategy, ...] = ("moving-window", "fixed-window", "sliding-window-counter")
RULE = {"tool": "users:*", "rate": "2/hour", "name": "users"}


class Waiting:
    """A tool that runs until it is told to end."""

    def __init__(self) -> None:
        self.running = 0
        self.began = anyio.Event()
        self.end = anyio.Event()

    async def __call__(self) -> int:
        self.running += 1
        self.began.set()
        await self.end.wait()
        self.running -= 1
        return 1


def server(redis: RedisServer | str, *rules: dict[str, Any], **options: Any) -> FastMCP[Any]:
    """One instance."""
    mcp = FastMCP[Any]("crm")
    mcp.tool(lambda: 1, name="users:list")
    mcp.tool(lambda: 2, name="users:get")
    storage = redis if isinstance(redis, str) else redis.url
    RateLimitPlugin.init(rules=list(rules), storage=storage, **options).install(mcp)
    return mcp


async def error_of(client: Client[Any], tool: str = "users:list") -> dict[str, Any] | None:
    """The error of a refused call, None for one that passed."""
    try:
        await client.call_tool(tool, {})
    except ToolError as refused:
        error = json.loads(str(refused))
        assert error["code"] == "RATE_LIMIT"
        return error
    return None


async def passes(client: Client[Any], count: int, tool: str = "users:list") -> list[bool]:
    """For each of so many calls in turn, whether it passed."""
    return [await error_of(client, tool) is None for _ in range(count)]


@asynccontextmanager
async def asked(redis: RedisServer) -> AsyncGenerator[Redis]:
    """A connection of the test's own."""
    async with Redis.from_url(redis.url, decode_responses=True) as client:
        yield client


async def advised(error: dict[str, Any]) -> None:
    """Do what a refusal says: wait."""
    await anyio.sleep(error["retryAfterMs"] / 1000 + 0.02)


async def connections(redis: Redis, number: int) -> bool:
    """Whether Redis has so many connections, that of the test included, now or soon: it notices ends by and by."""
    with anyio.move_on_after(5):
        while (await redis.info("clients"))["connected_clients"] != number:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        return True
    return False


async def commanded(monitor: Monitor, command: str, times: int) -> None:
    """Wait until Redis has been given that command so often."""
    with anyio.fail_after(20):
        async for seen in monitor.listen():
            times -= seen["command"].startswith(command)
            if times <= 0:
                return


# --- shared by instances


@pytest.mark.parametrize("strategy", ALL)
async def test_two_instances_share_a_limit(redis_server: RedisServer, strategy: str) -> None:
    rule = {"tool": "users:*", "rate": "3/hour", "strategy": strategy, "name": "users"}
    # The second has another rule before it: which rules are the same does not depend on their place.
    other_rules = [{"tool": "orders:*", "rate": "1/hour"}, rule]
    async with Client(server(redis_server, rule)) as one, Client(server(redis_server, *other_rules)) as other:
        assert await passes(one, 2) == [True, True]
        assert await passes(other, 2) == [True, False]
        error = await error_of(one)
        assert error is not None
        assert error["details"] == {"rule": "users"}
        assert 0 < error["retryAfterMs"] <= 3_601_000


@pytest.mark.parametrize("strategy", ALL)
async def test_after_the_time_a_refusal_names_the_call_passes(redis_server: RedisServer, strategy: str) -> None:
    rule = {"tool": "users:*", "rate": "2/second", "strategy": strategy}
    async with Client(server(redis_server, rule)) as client:
        assert await passes(client, 3) == [True, True, False]
        error = await error_of(client)
        assert error is not None
        await advised(error)
        assert await error_of(client) is None


async def test_other_prefixes_and_other_rules_count_for_themselves(redis_server: RedisServer) -> None:
    elsewhere = server(redis_server, RULE, prefix="billing")
    renamed = server(redis_server, RULE | {"name": "others"})
    for mcp in (server(redis_server, RULE), elsewhere, renamed):
        async with Client(mcp) as client:
            assert await passes(client, 3) == [True, True, False]


async def test_keys_hold_no_identity_and_expire(redis_server: RedisServer) -> None:
    rules: list[dict[str, Any]] = [
        {"tool": "users:*", "rate": "5/minute", "strategy": strategy, "per": "tenant"} for strategy in ALL
    ]
    rules.append({"tool": "users:*", "concurrent": 3, "per": "tenant"})
    waiting = Waiting()
    mcp = server(redis_server, *rules, tenant=lambda _: "acme")
    mcp.tool(waiting.__call__, name="users:wait")
    async with asked(redis_server) as redis, Client(mcp) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "users:wait")
        await waiting.began.wait()
        keys: list[str] = [key async for key in redis.scan_iter()]
        assert len(keys) == 4
        for key in keys:
            assert key.startswith("codecall:rates:")
            assert "acme" not in key
            assert "users" not in key
            assert 0 < await redis.ttl(key) <= 120
        waiting.end.set()


@pytest.mark.parametrize("strategy", ALL)
async def test_a_call_refused_by_one_rule_counts_for_none(redis_server: RedisServer, strategy: Strategy) -> None:
    """Many calls at once on two connections: some are counted for the first rule before the second refuses them."""
    options = RateLimitOptions.read(
        {"storage": redis_server.url, "timeout_ms": 10_000, "rules": [{"tool": "*", "rate": "1/hour"}]}, where=""
    )
    rule = RateLimitRule.read({"tool": "*", "rate": "1/hour", "strategy": strategy}, where="")
    wide = WindowLimit(rule, ("wide", "all"), RateLimitItemPerHour(100))
    narrow = WindowLimit(rule, ("narrow", "all"), RateLimitItemPerHour(7))
    stores = [RedisCounterStore(options, redis_breaker(options)) for _ in range(2)]
    countings = [CallCounter(store) for store in stores]
    passed = 0

    async def one(number: int) -> None:
        nonlocal passed
        store, counting = stores[number % 2], countings[number % 2]
        admitted = await store.ask(lambda: counting.admit([wide, narrow]))
        if admitted is None:
            passed += 1
        else:
            assert isinstance(admitted, LimitRefusal)
            assert admitted.limit == narrow

    try:
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(one, number)
        assert passed == 7
        left = 0
        only_wide = CallCounter(stores[0])
        while await only_wide.admit([wide]) is None:
            left += 1
        assert left == 93
        async with asked(redis_server) as redis:
            calls = await redis.info("commandstats")
        taken_back = calls["cmdstat_lpop" if strategy == "moving-window" else "cmdstat_decr"]["calls"]
        assert taken_back > 0, "no call was refused after it was counted; the test shows nothing"
    finally:
        for store in stores:
            await store.aclose()


async def test_calls_of_scripts_count_for_all_instances(redis_server: RedisServer) -> None:
    script = """
        const seen = [];
        for (let i = 0; i < 3; i++) {
          try { seen.push(await callTool("users:list", {})); }
          catch (error) { seen.push([error.code, error.details.rule, error.retryAfterMs > 0]); }
        }
        return seen;"""
    mcp = CodeCallPlugin.init().install(server(redis_server, RULE))
    async with Client(server(redis_server, RULE)) as other, Client(mcp) as client:
        assert await passes(other, 1) == [True]
        ran = await client.call_tool("codecall:execute", {"script": script})
        assert ran.structured_content is not None
        refused = ["RATE_LIMIT", "users", True]
        assert ran.structured_content["result"] == [1, refused, refused]


async def test_a_unix_socket_and_a_server_without_lifespan(redis_server: RedisServer) -> None:
    mcp = FastMCP[Any]("crm")
    mcp.tool(lambda: 1, name="users:list")
    plugin = RateLimitPlugin.init(rules=[RULE], storage=f"redis+unix://{redis_server.socket}")
    plugin.install(mcp)
    for _ in range(2):
        await mcp.call_tool("users:list", {})
    with pytest.raises(ToolError, match="RATE_LIMIT"):
        await mcp.call_tool("users:list", {})
    await plugin.aclose()
    async with asked(redis_server) as redis:
        assert await connections(redis, 1)


async def test_the_lifespan_closes_its_connections(redis_server: RedisServer) -> None:
    async with asked(redis_server) as redis:
        async with Client(server(redis_server, RULE)) as client:
            await passes(client, 1)
            assert await connections(redis, 2)
        assert await connections(redis, 1)


# --- Redis away


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of Redis."""
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("Redis at")]


@pytest.mark.parametrize("fail", ["open", "closed"])
@pytest.mark.parametrize("how", ["stopped", "hangs"])
async def test_redis_away_and_back(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, fail: str, how: str
) -> None:
    caplog.set_level(logging.INFO, logger="codecall")
    mcp = server(redis_server, RULE, fail=fail, timeout_ms=300)
    async with Client(mcp) as client:
        assert await passes(client, 1) == [True]
        if how == "stopped":
            redis_server.stop()
        else:
            redis_server.freeze()
        assert await passes(client, 10) == [fail == "open"] * 10
        (line,) = lines(caplog)
        assert f"Redis at 127.0.0.1:{redis_server.port} is away" in line
        assert ("pass uncounted" if fail == "open" else "are refused") in line

        if how == "stopped":
            redis_server.start()
        else:
            redis_server.thaw()
        error = await error_of(client)
        if fail == "closed":
            assert error is not None
            assert error["details"] == {"rule": "users"}
            assert "cannot be checked now" in error["message"]
            await advised(error)
        else:
            assert error is None
            await anyio.sleep(RETRY_AFTER_S + 0.02)
        if how == "stopped":  # what it had counted is gone
            assert await passes(client, 3) == [True, True, False]
        else:  # it did what it was asked while it hung, or did not
            assert await passes(client, 3) in ([True, False, False], [False] * 3)
        assert len(lines(caplog)) == 2
        assert "is back after" in lines(caplog)[1]


async def test_redis_that_was_never_there(caplog: pytest.LogCaptureFixture, redis_server: RedisServer) -> None:
    redis_server.stop()
    url = redis_server.url.replace("redis://", "redis://user:secret@", 1)
    async with Client(server(url, RULE)) as client:
        assert await passes(client, 3) == [True] * 3
    (line,) = lines(caplog)
    assert "secret" not in caplog.text
    assert "user" not in line


async def test_many_calls_at_once_wait_together_for_a_redis_that_hangs(redis_server: RedisServer) -> None:
    async with Client(server(redis_server, RULE, timeout_ms=300)) as client:
        await passes(client, 1)
        redis_server.freeze()
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(passes, client, 1)


async def test_a_busy_event_loop_is_no_outage(redis_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async with Client(server(redis_server, RULE, timeout_ms=400)) as client:
        outcomes: list[bool] = []

        async def call() -> None:
            outcomes.extend(await passes(client, 2))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(call)
            for _ in range(3):
                time.sleep(0.5)  # noqa: ASYNC251 - this is what is tested
                await anyio.lowlevel.checkpoint()
    assert outcomes.count(True) == 2
    assert lines(caplog) == []


async def test_an_error_of_redis_is_an_outage_too(redis_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async with Client(server(redis_server, RULE, fail="closed")) as client, asked(redis_server) as redis:
        assert await passes(client, 1) == [True]
        (key,) = [key async for key in redis.scan_iter()]
        await redis.set(key, "no list")
        assert await passes(client, 2) == [False, False]
    assert len(lines(caplog)) == 1
    assert "WRONGTYPE" in lines(caplog)[0]


# --- calls at the same time


def limited(redis: RedisServer, waiting: Waiting, **options: Any) -> FastMCP[Any]:
    """One instance, with a tool of which one call may run at a time, everywhere."""
    mcp = server(redis, {"tool": "users:wait", "concurrent": 1, "per": "global", "name": "one"}, **options)
    mcp.tool(waiting.__call__, name="users:wait")
    return mcp


async def test_calls_at_once_are_counted_over_all_instances(redis_server: RedisServer) -> None:
    waiting = Waiting()
    one, other = limited(redis_server, waiting), limited(redis_server, waiting)
    async with Client(one) as client, Client(other) as second:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "users:wait")
            await waiting.began.wait()
            error = await error_of(second, "users:wait")
            assert error is not None
            assert error["details"] == {"rule": "one"}
            assert error["message"] == "Too many calls of 'users:wait' at the same time: 1 may run"
            assert error["retryAfterMs"] == 1000
            waiting.end.set()
        assert await error_of(second, "users:wait") is None


async def test_a_running_call_keeps_its_lease(redis_server: RedisServer) -> None:
    waiting = Waiting()
    mcp = limited(redis_server, waiting, lease_s=1)
    async with Client(mcp) as client, asked(redis_server) as redis, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "users:wait")
        await waiting.began.wait()
        (key,) = [key async for key in redis.scan_iter()]
        async with redis.monitor() as monitor:
            await commanded(monitor, "ZADD", 4)  # each after a third of a second
        assert await redis.zcard(key) == 1
        assert await error_of(client, "users:wait") is not None
        waiting.end.set()


async def test_the_leases_of_an_instance_that_died_expire(
    redis_server: RedisServer, loaded_python: LoadedPython
) -> None:
    program = f"""
        import asyncio, sys
        sys.path.insert(0, {str(Path.cwd())!r})
        from fastmcp import Client
        from tests.ratelimit.test_redis_store import Waiting, limited
        class Redis:
            url = {redis_server.url!r}
        class ReportingWaiting(Waiting):
            async def __call__(self) -> int:
                print("running", flush=True)
                return await super().__call__()
        async def main():
            async with Client(limited(Redis, ReportingWaiting(), lease_s=1)) as client:
                await client.call_tool("users:wait")
        asyncio.run(main())
    """
    async with await anyio.open_process([loaded_python.executable, "-c", textwrap.dedent(program)]) as child:
        assert child.stdout is not None
        assert (await child.stdout.receive()).startswith(b"running")
        waiting = Waiting()
        waiting.end.set()
        async with Client(limited(redis_server, waiting, lease_s=1)) as client:
            assert await error_of(client, "users:wait") is not None
            child.send_signal(signal.SIGKILL)
            with anyio.fail_after(10):
                while (error := await error_of(client, "users:wait")) is not None:
                    await advised(error)


async def test_a_cancelled_call_gives_its_place_back(redis_server: RedisServer) -> None:
    waiting = Waiting()
    async with Client(limited(redis_server, waiting)) as client, asked(redis_server) as redis:
        async with redis.monitor() as monitor:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "users:wait")
                await waiting.began.wait()
                group.cancel_scope.cancel()
            await commanded(monitor, "ZREM ", 1)
        assert await redis.keys() == []
        waiting.end.set()
        assert await error_of(client, "users:wait") is None


async def test_a_call_refused_for_its_rate_holds_no_place(redis_server: RedisServer) -> None:
    rules = [{"tool": "users:*", "concurrent": 1}, {"tool": "users:list", "rate": "1/hour", "name": "rate"}]
    async with Client(server(redis_server, *rules)) as client:
        assert await passes(client, 2) == [True, False]
        assert await passes(client, 1, "users:get") == [True]


@pytest.mark.parametrize("how", ["stopped", "hangs"])
async def test_a_call_ends_though_its_lease_cannot_be_given_back(redis_server: RedisServer, how: str) -> None:
    waiting = Waiting()
    mcp = limited(redis_server, waiting, timeout_ms=300, lease_s=1)
    async with Client(mcp) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "users:wait")
        await waiting.began.wait()
        if how == "stopped":
            redis_server.stop()
        else:
            redis_server.freeze()
        waiting.end.set()


# --- options


def test_without_the_client_for_redis_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.exceptions", None)
    with pytest.raises(OptionsError, match="client for Redis is not installed") as raised:
        RateLimitPlugin.init(rules=[RULE], storage="redis://localhost")
    assert raised.value.hint == "pip install 'codecall[redis]'"


def test_another_storage_is_refused_without_its_password() -> None:
    with pytest.raises(OptionsError) as raised:
        RateLimitPlugin.init(rules=[RULE], storage="mysql://user:secret@host")
    assert raised.value.message.startswith("storage: mysql:// is not known; known here: memory://, redis://")
    assert "secret" not in raised.value.message
