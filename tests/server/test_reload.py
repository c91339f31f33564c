"""`reload`: other options, and no script the worse for it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin, OptionsError, WorkerStartupError

CLIENTS, RELOADS = 16, 3
"""60 and 50 pass, too, and take a minute."""

HOLD = "const held = await callTool('hold', {}); console.log('after'); return held"


class Server:
    """A server with a tool that waits, and one plugin."""

    def __init__(self, **options: Any) -> None:
        self.calling, self.let_go = asyncio.Event(), asyncio.Event()
        self.plugin = CodeCallPlugin.init(**{"vm": {"preset": "secure"}, **options})
        self.mcp: FastMCP[Any] = FastMCP("reloaded", transforms=[self.plugin])
        self.mcp.tool(self.hold)

    async def hold(self) -> str:
        """Wait."""
        self.calling.set()
        await self.let_go.wait()
        return "held"


async def execute(caller: Any, script: str) -> dict[str, Any]:
    return (await caller.call_tool("codecall:execute", {"script": script})).structured_content


async def new_worker(plugin: CodeCallPlugin, than: tuple[int, ...]) -> None:
    """Wait for a worker that was not there before."""
    while True:
        if set(plugin.worker_pids) - set(than):
            return
        await asyncio.sleep(0)


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def dead(pids: tuple[int, ...]) -> None:
    async with asyncio.timeout(10):
        for pid in pids:
            try:
                while True:
                    os.kill(pid, 0)
                    await asyncio.sleep(0.01)
            except ProcessLookupError:
                pass


async def test_running_scripts_finish_under_the_old_options_and_new_ones_see_the_new() -> None:
    server = Server()
    async with Client(server.mcp) as client:
        run = asyncio.create_task(execute(client, HOLD))
        await asyncio.wait_for(server.calling.wait(), 10)
        before = server.plugin.worker_pids
        await server.plugin.reload(vm={"preset": "locked_down"}, top_k=7)
        assert server.plugin.options.preset_name == "locked_down"
        assert set(before) <= set(server.plugin.worker_pids)
        refused = await execute(client, "console.log('no console under locked_down')")
        assert refused["status"] == "illegal_access"
        listed = {tool.name: tool for tool in await client.list_tools()}
        assert "25 tool calls" in (listed["codecall:execute"].description or "")
        server.let_go.set()
        result = await run
        assert (result["result"], result["logs"]) == ("held", ["after"])
        await dead(before)
        assert (await execute(client, "return 1"))["result"] == 1
    assert server.plugin.worker_pids == ()


async def test_what_is_not_given_stays() -> None:
    server = Server(top_k=3, pool={"max_workers": 2})
    await server.plugin.reload(mode="codecall_opt_in")
    options = server.plugin.options
    assert (options.mode, options.top_k, options.pool.max_workers) == ("codecall_opt_in", 3, 2)
    assert options.preset_name == "secure"
    await server.plugin.reload(topK=4, pool={"min_workers": 0})
    options = server.plugin.options
    assert (options.mode, options.top_k, options.pool.max_workers) == ("codecall_opt_in", 4, 8)
    await server.plugin.reload()
    assert server.plugin.options == options


async def test_tools_and_names_change() -> None:
    server = Server()
    async with Client(server.mcp) as client:
        await server.plugin.reload(direct_calls=False, tool_name_separator="_", mode="metadata_driven")
        assert [tool.name for tool in await client.list_tools()] == [
            *("codecall_search", "codecall_describe", "codecall_execute"),
            "hold",
        ]
        refused = await client.call_tool("codecall:invoke", {"tool": "hold", "input": {}}, raise_on_error=False)
        assert refused.is_error
        await server.plugin.reload(include_tools=lambda tool: False)
        search = await client.call_tool("codecall:search", {"query": "hold"})
        assert search.structured_content["totalIndexed"] == 0


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"top_k": 0}, "top_k"),
    ({"no_such": 1}, "no_such"),
    ({"vm": {"preset": "no such preset"}}, "no such preset"),
    ({"vm": {"timeout_ms": -1}}, "timeout_ms"),
    ({"observed_output": False}, "observed_output: cannot be changed by a reload"),
    ({"observedOutput": False, "tasks": True}, "observed_output, tasks: cannot be changed"),
    ({"shutdown": {"on_sigterm": True}}, r"shutdown\.on_sigterm: cannot be changed"),
    ({"pool": {"max_workers": 2}, "embedding": {"strategy": "embedding", "model_name": "/no/such"}}, "embedding"),
]


async def test_wrong_options_change_nothing() -> None:
    server = Server()
    async with Client(server.mcp) as client:
        await execute(client, "return 1")
        before, pids = server.plugin.options, server.plugin.worker_pids
        for options, message in WRONG:
            with pytest.raises(OptionsError, match=message):
                await server.plugin.reload(**options)
            assert server.plugin.options is before
            assert server.plugin.worker_pids == pids
        assert (await execute(client, "return 1"))["result"] == 1


@pytest.mark.usefixtures("own_fork_server")
async def test_options_under_which_no_worker_lives_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    async with Client(server.mcp) as client:
        await execute(client, "return 1")
        before, pids = server.plugin.options, server.plugin.worker_pids
        with monkeypatch.context() as broken:
            broken.setattr("codecall.sandbox.host.spawner.FORK_SERVER_COMMAND", ("/no/such/python",))
            with pytest.raises(WorkerStartupError):
                await server.plugin.reload(vm={"preset": "balanced"})
        assert server.plugin.options is before
        assert server.plugin.worker_pids == pids
        assert (await execute(client, "return 1"))["result"] == 1


async def test_a_server_without_a_lifespan() -> None:
    server = Server()
    run = asyncio.create_task(execute(server.mcp, HOLD))
    await asyncio.wait_for(server.calling.wait(), 10)
    before = server.plugin.worker_pids
    await server.plugin.reload(vm={"preset": "locked_down"})
    assert server.plugin.worker_pids == before
    assert (await execute(server.mcp, "return 1"))["result"] == 1
    server.let_go.set()
    assert (await run)["result"] == "held"
    assert server.plugin.worker_pids == ()


async def test_many_clients_and_many_reloads_leave_nothing_behind() -> None:
    server = Server(pool={"max_workers": 4, "share_workers": True})
    server.let_go.set()
    before = asyncio.all_tasks()
    replaced_pids: set[int] = set()
    done = asyncio.Event()
    answers: list[object] = []

    async def work(client: Client[Any], number: int) -> None:
        while True:
            result = await execute(client, f"return [{number}, await callTool('hold', {{}})]")
            answers.append(result.get("result") == [number, "held"] or result)
            if done.is_set():
                return

    async with Client(server.mcp) as opener:
        fds = descriptors()
        clients = [Client(server.mcp) for _ in range(CLIENTS)]
        for client in clients:
            await client.__aenter__()
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                group.create_task(work(client, number))
            for count in range(RELOADS):
                await server.plugin.reload(top_k=1 + count, vm={"preset": "secure", "timeout_ms": 3000 + count})
                replaced_pids |= set(server.plugin.worker_pids)
            done.set()
        for client in clients:
            await client.__aexit__(None, None, None)
        assert [answer for answer in answers if answer is not True] == []
        assert len(server.plugin.worker_pids) <= 4
        assert (await execute(opener, "return 1"))["result"] == 1
        assert descriptors() - fds <= 2 * 4 + 2
    assert server.plugin.worker_pids == ()
    await dead(tuple(replaced_pids))
    assert asyncio.all_tasks() - before == set()


async def test_a_reload_that_is_cancelled_changes_nothing_and_leaves_nothing() -> None:
    server = Server()
    async with Client(server.mcp) as client:
        await execute(client, "return 1")
        before, pids, replaced_pids = server.plugin.options, server.plugin.worker_pids, set[int]()
        for _ in range(3):
            reload = asyncio.create_task(server.plugin.reload(top_k=9))
            async with asyncio.timeout(10):
                await new_worker(server.plugin, pids)
            replaced_pids |= set(server.plugin.worker_pids)
            reload.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reload
            assert server.plugin.options is before
        await dead(tuple(replaced_pids - set(pids)))
        assert server.plugin.worker_pids == pids
        assert (await execute(client, "return 1"))["result"] == 1


async def test_reloads_at_once_and_from_another_event_loop() -> None:
    server = Server()
    async with Client(server.mcp) as client:
        await execute(client, "return 1")
        before = server.plugin.worker_pids
        await asyncio.gather(server.plugin.reload(top_k=9), server.plugin.reload(direct_calls=False))
        assert (server.plugin.options.top_k, server.plugin.options.direct_calls.enabled) == (9, False)
        await asyncio.to_thread(asyncio.run, server.plugin.reload(vm={"preset": "locked_down"}))
        assert (await execute(client, "console.log(1)"))["status"] == "illegal_access"
        await dead(before)
    assert server.plugin.worker_pids == ()
