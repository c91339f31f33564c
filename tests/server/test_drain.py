"""`drain`: what becomes of scripts that run, wait, or come."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin, Enclave, OptionsError

HOLD = "console.log('before'); await callTool('hold', {}); return 1"


class Held:
    """A tool that waits until it is let go, and knows what became of its calls."""

    def __init__(self) -> None:
        self.calls = asyncio.Semaphore(0)
        self.let_go = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, name: str = "", arguments: object = None) -> str:
        self.calls.release()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "held"

    async def calling(self, count: int = 1) -> None:
        """Wait for that many calls."""
        for _ in range(count):
            await asyncio.wait_for(self.calls.acquire(), 10)


def tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


async def test_scripts_that_end_in_time_are_waited_for() -> None:
    held = Held()
    async with Enclave("secure") as enclave:
        run = asyncio.create_task(enclave.execute(HOLD, tool_handler=held))
        await held.calling()
        drain = asyncio.create_task(enclave.drain(60))
        await asyncio.sleep(0)
        held.let_go.set()
        assert await drain == 0
        assert (await run).value == 1


async def test_the_others_end_with_what_is_known_of_them() -> None:
    held, before = Held(), tasks()
    async with Enclave("secure", pool={"max_workers": 2}) as enclave:
        script = "await callTool('hold', {}); for (const each of [1, 2]) await callTool('hold', {});"
        runs = [asyncio.create_task(enclave.execute(text, tool_handler=held)) for text in (script, HOLD)]
        await held.calling(2)
        waits = asyncio.create_task(enclave.execute("return 3", tool_handler=held))
        await asyncio.sleep(0)
        assert enclave.pool.waiting == 1
        assert len(enclave.in_flight) == 3
        drain = asyncio.create_task(enclave.drain(0.05))
        refused = await waits
        assert refused.error is not None
        assert refused.error.code == "POOL_DISPOSED"
        assert not drain.done()
        assert await drain == 2
        for run in runs:
            result = await run
            assert result.error is not None
            assert result.error.code == "EXECUTION_ABORTED"
            assert "1 tool call was still running and may have taken effect: hold" in (result.error.hint or "")
            assert result.stats.tool_calls == 1
        assert (await runs[1]).logs == ("before",)
        assert held.cancelled == 2
        assert len(enclave.in_flight) == 0
        assert enclave.pool.pids() == []
        late = await enclave.execute("return 4")
        assert late.error is not None
        assert (late.error.code, "another instance" in (late.error.hint or "")) == ("POOL_DISPOSED", True)
    assert tasks() == before


async def test_a_script_that_computes_is_ended_too() -> None:
    held = Held()
    held.let_go.set()
    async with Enclave("experimental", max_iterations=10**9, max_steps=10**9) as enclave:
        run = asyncio.create_task(enclave.execute("await callTool('hold', {}); while (true) {}", tool_handler=held))
        await held.calling()
        assert await enclave.drain(0.1) == 1
        result = await run
        assert result.error is not None
        assert result.error.code == "EXECUTION_ABORTED"


async def test_a_tool_that_does_not_let_go_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codecall.sandbox.enclave.ABORT_S", 0.1)
    entered, leave = asyncio.Event(), asyncio.Event()

    async def stubborn(_name: str, _arguments: object) -> str:
        entered.set()
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    try:
        async with Enclave("secure") as enclave:
            run = asyncio.create_task(enclave.execute(HOLD, tool_handler=stubborn))
            await asyncio.wait_for(entered.wait(), 10)
            assert await asyncio.wait_for(enclave.drain(0), 10) == 1
            result = await asyncio.wait_for(run, 10)
            assert result.error is not None
            assert result.error.code in ("EXECUTION_ABORTED", "POOL_DISPOSED")
    finally:
        leave.set()  # else the loop waits for the tool when it closes


async def test_an_enclave_that_nobody_uses_is_closed_at_once() -> None:
    async with Enclave("secure") as enclave:
        assert await asyncio.wait_for(enclave.drain(3600), 10) == 0
        assert await asyncio.wait_for(enclave.drain(3600), 10) == 0
        assert enclave.pool.closed


def serve(held: Held, **options: Any) -> tuple[CodeCallPlugin, FastMCP[Any]]:
    plugin = CodeCallPlugin.init(vm={"preset": "secure"}, **options)
    server: FastMCP[Any] = FastMCP("drained", transforms=[plugin])

    @server.tool
    async def hold() -> str:
        return await held()

    return plugin, server


async def execute(caller: Any, script: str) -> dict[str, Any]:
    return (await caller.call_tool("codecall:execute", {"script": script})).structured_content


async def test_a_plugin_drains_all_its_servers_and_goes_on_with_all_else() -> None:
    held = Held()
    plugin, one = serve(held, shutdown={"grace_s": 0})
    two: FastMCP[Any] = FastMCP("two", transforms=[plugin])
    two.tool(held.__call__, name="hold")
    async with Client(one) as first, Client(two) as second:
        runs = [asyncio.create_task(execute(client, HOLD)) for client in (first, second)]
        await held.calling(2)
        assert await plugin.drain() == 2
        for run in runs:
            assert (await run)["error"]["code"] == "EXECUTION_ABORTED"
        assert (await execute(first, "return 1"))["error"]["code"] == "POOL_DISPOSED"
        assert (await execute(one, "return 1"))["error"]["code"] == "POOL_DISPOSED"
        search = await first.call_tool("codecall:search", {"query": "hold"})
        assert search.structured_content["totalIndexed"] == 1
        assert plugin.worker_pids == ()
    async with Client(one) as client:
        assert (await execute(client, "return 2"))["result"] == 2


HELD_FLOW = {
    "name": "flow",
    "description": "Holds, and then calls another",
    "steps": [
        {"id": "hold", "tool": "hold"},
        {"id": "inner", "tool": "inner", "dependsOn": ["hold"]},
    ],
}
INNER_FLOW = {"name": "inner", "description": "Inner", "steps": [{"id": "hold", "tool": "hold"}]}


async def test_composite_tools_are_waited_for_with_what_they_call() -> None:
    held = Held()
    plugin, server = serve(held, composite_tools=[HELD_FLOW, INNER_FLOW])
    async with Client(server) as client:
        run = asyncio.create_task(client.call_tool("flow", {}))
        await held.calling()
        drain = asyncio.create_task(plugin.drain(60))
        refused = await client.call_tool("flow", {}, raise_on_error=False)
        assert (refused.structured_content or {})["code"] == "POOL_DISPOSED"
        assert not drain.done()
        held.let_go.set()
        assert await drain == 0
        assert (await run).data == "held"


@pytest.mark.parametrize("lifespan", [True, False])
async def test_composite_tools_that_do_not_end_are_ended(lifespan: bool) -> None:
    held = Held()
    plugin, server = serve(held, composite_tools=[HELD_FLOW, INNER_FLOW], shutdown={"grace_s": 0})
    async with Client(server) if lifespan else contextlib.nullcontext() as client:
        caller: Any = client or server
        run = asyncio.create_task(caller.call_tool("flow", {}, **({"raise_on_error": False} if lifespan else {})))
        await held.calling()
        assert await plugin.drain() == 1
        body: dict[str, Any] = (await run).structured_content or {}
        assert body["code"] == "EXECUTION_ABORTED"
        assert body["steps"] == {"hold": "cancelled", "inner": "not_run"}
        assert held.cancelled == 1


async def test_a_server_without_a_lifespan_is_drained_too() -> None:
    held = Held()
    plugin, server = serve(held)
    run = asyncio.create_task(execute(server, HOLD))
    await held.calling()
    assert await plugin.drain(grace_s=0) == 1
    assert (await run)["error"]["code"] == "EXECUTION_ABORTED"
    assert (await execute(server, "return 1"))["error"]["code"] == "POOL_DISPOSED"
    assert plugin.worker_pids == ()


async def test_drain_from_another_event_loop() -> None:
    held = Held()
    plugin, server = serve(held)
    async with Client(server) as client:
        run = asyncio.create_task(execute(client, HOLD))
        await held.calling()
        assert await asyncio.to_thread(asyncio.run, plugin.drain(0)) == 1
        assert (await run)["error"]["code"] == "EXECUTION_ABORTED"


@pytest.mark.parametrize("grace_s", [-1, float("nan"), "5", 3601])
async def test_a_grace_that_is_none(grace_s: Any) -> None:
    plugin, _ = serve(Held())
    with pytest.raises(OptionsError, match="grace_s"):
        await plugin.drain(grace_s)
    with pytest.raises(OptionsError, match=r"shutdown\.grace_s"):
        CodeCallPlugin.init(shutdown={"grace_s": grace_s})
