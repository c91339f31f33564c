"""Worker processes: there when the server's lifespan begins, gone when it ends, never left over without one."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin


def secure(**options: Any) -> CodeCallPlugin:
    """A plugin whose workers serve many scripts, whatever `CODECALL_VM_PRESET` says."""
    return CodeCallPlugin.init(vm={"preset": "secure"}, **options)


def alive(pids: Sequence[int]) -> list[int]:
    """Those of the processes that exist."""
    found: list[int] = []
    for pid in pids:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        found.append(pid)
    return found


def make(plugin: CodeCallPlugin, name: str = "server") -> FastMCP:
    server = FastMCP(name, transforms=[plugin])

    @server.tool
    async def pids() -> list[int]:
        """The workers that run now."""
        return list(plugin.worker_pids)

    return server


async def execute(caller: Any, script: str = "return await callTool('pids', {})") -> Any:
    result = await caller.call_tool("codecall:execute", {"script": script})
    assert result.structured_content["status"] == "ok", result.structured_content
    return result.structured_content["result"]


async def born(plugin: CodeCallPlugin, count: int = 1) -> tuple[int, ...]:
    """The workers, once that many have been forked."""
    with anyio.fail_after(10):
        while len(plugin.worker_pids) < count:  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.002)  # the fork server needs the processor
    return plugin.worker_pids


async def test_workers_start_with_the_lifespan_and_end_with_it() -> None:
    plugin = secure()
    server = make(plugin)
    assert plugin.worker_pids == ()
    async with Client(server) as client:
        before = await born(plugin)
        assert len(alive(before)) == 1
        assert await execute(client) == list(before)
        assert await execute(client) == list(before)
    assert plugin.worker_pids == ()
    assert alive(before) == []


@pytest.mark.parametrize("how", ["add_transform", "install", "decorator", "mounted", "mounted_twice"])
async def test_workers_start_with_the_lifespan_however_it_is_installed(how: str) -> None:
    plugin = secure()
    child = FastMCP("child")
    root = child
    match how:
        case "add_transform":
            child.add_transform(plugin)
        case "install":
            plugin.install(child)
        case "decorator":
            plugin(lambda: child)()
        case _:
            plugin.install(child)
            root = FastMCP("root")
            root.mount(child, namespace="a")
            if how == "mounted_twice":
                root.mount(child, namespace="b")
    name = "codecall:execute" if root is child else "a_codecall:execute"
    async with Client(root) as client:
        before = await born(plugin)
        assert len(alive(before)) == 1
        assert (await client.call_tool(name, {"script": "return 7"})).structured_content["result"] == 7
        assert plugin.worker_pids == before
    assert alive(before) == []


async def test_one_client_after_another() -> None:
    plugin = secure()
    server = make(plugin)
    seen: set[int] = set()
    for _ in range(3):
        async with Client(server) as client:
            (pid,) = await execute(client)
            assert pid not in seen
            seen.add(pid)
    assert alive([*seen]) == []


async def test_clients_at_once_share_one_lifespan() -> None:
    plugin = secure()
    server = make(plugin)
    async with Client(server) as one, Client(server) as two:
        assert await execute(one) == await execute(two) == list(plugin.worker_pids)
        pids = plugin.worker_pids
    assert alive(pids) == []


async def test_the_client_that_opened_the_lifespan_leaves_first() -> None:
    plugin = secure()
    server = make(plugin)
    first = Client(server)
    await first.__aenter__()
    seen: list[int] = []
    async with Client(server) as second:
        seen += await execute(second)
        await first.__aexit__(None, None, None)
        assert alive(seen) == []
        seen += await execute(second)
        assert plugin.worker_pids == ()
    async with Client(server) as third:
        seen += await execute(third)
        assert len(await born(plugin)) == 1
    assert len(set(seen)) == 3
    assert alive(seen) == []


async def test_without_a_lifespan_a_call_leaves_nothing_behind() -> None:
    plugin = secure()
    server = make(plugin)
    (pid,) = await execute(server)
    assert plugin.worker_pids == ()
    assert alive([pid]) == []


async def test_without_a_lifespan_calls_that_overlap_share_workers() -> None:
    plugin = secure(pool={"max_workers": 2})
    server = make(plugin)
    results = await asyncio.gather(*(execute(server) for _ in range(6)))
    assert len({pid for pids in results for pid in pids}) <= 2
    assert plugin.worker_pids == ()


async def test_listing_and_looking_up_start_nothing() -> None:
    plugin = secure()
    server = make(plugin)
    await server.list_tools()
    await server.get_tool("codecall:execute")
    await server.get_tasks()
    await server.call_tool("codecall:search", {"query": "pids"})
    await server.call_tool("codecall:invoke", {"tool": "pids", "input": {}})
    assert plugin.worker_pids == ()


async def test_a_plugin_added_to_a_running_server_works_and_is_cleaned_up() -> None:
    plugin = secure()
    server = FastMCP("late")
    async with Client(server) as client:
        assert await client.list_tools() == []
        plugin.install(server)
        assert len(await client.list_tools()) == 4
        assert await execute(client, "return 5") == 5
        pids = plugin.worker_pids
        assert len(alive(pids)) == 1
    assert alive(pids) == []


async def test_two_servers_of_one_plugin_have_workers_of_their_own() -> None:
    plugin = secure()
    async with Client(make(plugin, "one")) as one:
        async with Client(make(plugin, "two")) as two:
            await execute(one)
            await execute(two)
            assert len(await born(plugin, 2)) == 2
        assert len(await born(plugin)) == 1
        await execute(one)
    assert plugin.worker_pids == ()


def test_two_event_loops_at_once() -> None:
    plugin = secure()
    server = make(plugin)
    results: list[Any] = []

    async def run() -> None:
        results.append(await execute(server, "return 3"))

    threads = [threading.Thread(target=anyio.run, args=(run,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [3, 3]
    assert plugin.worker_pids == ()


@pytest.mark.parametrize("lifespan", [True, False])
async def test_a_cancelled_request_stops_its_tool_call_and_frees_the_worker(lifespan: bool) -> None:
    plugin = secure(pool={"max_workers": 1})
    server = make(plugin)
    entered, left = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    async def cancel(call: Callable[[], Any]) -> None:
        task = asyncio.create_task(call())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with anyio.fail_after(5):
            await left.wait()

    script = "await callTool('wait', {}); return 1"
    if lifespan:
        async with Client(server) as client:
            await cancel(lambda: execute(client, script))
            with anyio.fail_after(5):
                assert await execute(client, "return 2") == 2
    else:
        await cancel(lambda: execute(server, script))
        assert await execute(server, "return 2") == 2
    assert plugin.worker_pids == ()


@pytest.mark.usefixtures("own_fork_server")
async def test_a_worker_that_cannot_start_is_an_answer_and_the_server_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("codecall.sandbox.host.spawner.FORK_SERVER_COMMAND", ("/no/such/python",))
    server = make(secure())
    async with Client(server) as client:
        ran = await client.call_tool("codecall:execute", {"script": "return 1"})
        assert ran.structured_content["error"]["code"] == "WORKER_STARTUP_FAILED"
        found = await client.call_tool("codecall:search", {"query": "pids"})
        assert found.structured_content["totalIndexed"] == 1
    assert "could not start a worker process" in caplog.text
