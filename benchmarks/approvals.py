"""What approvals cost: a script that needs none, with the option and without it, in turns; and runs that wait.

    python benchmarks/approvals.py [--rounds N] [--waiting N] [--seconds S] [--rest S] [--json]

The memory of runs that wait is what the server and its workers have for themselves (`Private` of `smaps_rollup`),
less what they had while as many workers were idle; `workers_mb` is what these workers have, which a run keeps while it
waits. Their processor time is that of all of them. `released_mb` is what the server and all processes below it have
more than before, once the runs have given up their workers, which `resume` lets them do (`release_s`, here at once);
`released_server_mb` is the server's part. The one worker is a new one then, and smaller than one that has run scripts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from key_value.aio.stores.memory import MemoryStore
from mcp_types import ElicitResult, InputRequiredResult

from codecall import CodeCallPlugin

SCRIPT = "let n = 0; for (let i = 0; i < 10; i++) n += (await callTool('double', {n: i})).n; return n"
WAITING = (
    "await callTool('double', {n: 1}); try { await callTool('erase', {n: 2}) } catch (error) { return error.code }"
)


def create_server(approvals: Any, waiting: int = 8, **options: Any) -> tuple[FastMCP[Any], CodeCallPlugin]:
    """A server with a tool that needs no approval, and one that does."""
    server: FastMCP[Any] = FastMCP("office")

    @server.tool
    async def double(n: int) -> dict[str, int]:
        return {"n": 2 * n}

    @server.tool(annotations={"destructiveHint": True})
    async def erase(n: int) -> dict[str, int]:
        return {"n": n}

    defaults: Any = {"pool": {"max_workers": waiting}, "audit": {"sinks": []}}
    plugin = CodeCallPlugin.init(approvals=approvals, **defaults | options)
    plugin.install(server)
    return server, plugin


async def person(*_: object) -> dict[str, str]:
    """Whoever is asked; nobody is, where a call needs no approval."""
    return {"decision": "deny"}


async def measure_scripts(rounds: int) -> dict[str, float]:
    """Milliseconds of a script of ten calls that needs no approval: the medians of some rounds in turns."""
    sides = {"off_ms": None, "on_ms": "destructive"}
    times: dict[str, list[float]] = {name: [] for name in sides}
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(
                Client(create_server(approvals)[0], mode="2026-07-28", elicitation_handler=person)
            )
            for name, approvals in sides.items()
        }
        for number in range(rounds + 3):
            for name in sides if number % 2 else reversed(sides):
                began = time.perf_counter()
                result = await clients[name].call_tool("codecall:execute", {"script": SCRIPT})
                times[name].append((time.perf_counter() - began) * 1000)
                if (result.structured_content or {}).get("result") != 90:
                    raise ValueError(f"{name} gave {result.structured_content}")
    return {name: round(statistics.median(taken[3:]), 3) for name, taken in times.items()}


async def measure_waiting(waiting: int, seconds: float, rest: float) -> dict[str, float]:
    """What so many runs cost while they wait."""
    before = after = held = 0
    idle_percent = waiting_percent = 0.0
    idle_workers = workers = 0
    server, plugin = create_server("destructive", waiting)
    async with Client(server, mode="2026-07-28", elicitation_handler=person) as client:
        arguments = {"script": WAITING}
        ask = client.session.call_tool

        async def begin() -> Any:
            return await ask("codecall:execute", arguments, allow_input_required=True)

        async def end(asked: Any) -> None:
            no = ElicitResult(action="accept", content={"decision": "deny"})
            result = await ask(
                "codecall:execute",
                arguments,
                input_responses=dict.fromkeys(asked.input_requests, no),
                request_state=asked.request_state,
                allow_input_required=True,
            )
            if result.structured_content.get("result") != "APPROVAL_DENIED":
                raise ValueError(f"a run ended with {result.structured_content}")

        # The first ones leave their workers, which are idle then.
        for number in range(2):
            began = [await begin() for _ in range(waiting)]
            if not all(isinstance(each, InputRequiredResult) for each in began):
                raise ValueError(f"some did not wait: {began}")
            await asyncio.sleep(rest)
            if number:
                after, workers = private_bytes(os.getpid(), *plugin.worker_pids), len(plugin.worker_pids)
                held = private_bytes(*plugin.worker_pids)
                waiting_percent = await processor_percent(plugin, seconds)
            for asked in began:
                await end(asked)
            if not number:
                await asyncio.sleep(rest)
                before, idle_workers = private_bytes(os.getpid(), *plugin.worker_pids), len(plugin.worker_pids)
                idle_percent = await processor_percent(plugin, seconds)
    return {
        "waiting": waiting,
        "idle_workers": idle_workers,
        "workers": workers,
        "waiting_mb": round((after - before) / 1024 / 1024, 2),
        "workers_mb": round(held / 1024 / 1024, 2),
        "idle_cpu_percent": idle_percent,
        "waiting_cpu_percent": waiting_percent,
    }


async def measure_released(waiting: int, seconds: float, rest: float) -> dict[str, float]:
    """What so many runs cost that have given up their workers while they wait."""
    server, plugin = create_server(
        {"rules": "destructive", "release_s": 0.01, "max_waiting": waiting},
        resume={"store": MemoryStore()},
        pool={"min_workers": 1, "max_workers": 1},  # so that as many are there before and after
    )
    arguments = {"script": WAITING}
    async with Client(server, mode="2026-07-28", elicitation_handler=person) as client:
        ask, figures = client.session.call_tool, dict[str, float]()
        for number in range(2):
            asked: list[Any] = []
            for _ in range(waiting):
                asked.append(await ask("codecall:execute", arguments, allow_input_required=True))
                await released(plugin)
            await asyncio.sleep(rest)
            if number:
                memory = private_bytes(*process_group()) - figures["before"]
                server_memory = private_bytes(os.getpid()) - figures["server_before"]
                figures = {
                    "released": waiting,
                    "resting_workers": figures["resting_workers"],
                    "released_workers": len(plugin.worker_pids),
                    "released_mb": round(memory / 1024 / 1024, 2),
                    "released_server_mb": round(server_memory / 1024 / 1024, 2),
                    "released_cpu_percent": await processor_percent(plugin, seconds),
                }
            for each in asked:
                no = ElicitResult(action="accept", content={"decision": "deny"})
                answers = dict.fromkeys(each.input_requests, no)
                again: Any = {"input_responses": answers, "request_state": each.request_state}
                result = await ask("codecall:execute", arguments, allow_input_required=True, **again)
                if result.structured_content.get("result") != "APPROVAL_DENIED":
                    raise ValueError(f"a run ended with {result.structured_content}")
            if not number:
                await asyncio.sleep(rest)
                figures = {
                    "before": private_bytes(*process_group()),
                    "server_before": private_bytes(os.getpid()),
                    "resting_workers": len(plugin.worker_pids),
                }
    return figures


async def released(plugin: CodeCallPlugin) -> None:
    """Wait until no run waits in a worker."""
    approvals = plugin._now.runtime.approvals
    while approvals is not None and len(approvals.rounds):  # noqa: ASYNC110 - until a timer has run out
        await asyncio.sleep(0.005)


def process_group() -> list[int]:
    """This process, and all below it."""
    found = [os.getpid()]
    for pid in found:  # grows meanwhile
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


async def processor_percent(plugin: CodeCallPlugin, seconds: float) -> float:
    """What of one processor this process and its workers use while nothing is asked of them."""
    used = processor_s(plugin)
    await asyncio.sleep(seconds)
    return round(100 * (processor_s(plugin) - used) / seconds, 2)


def private_bytes(*pids: int) -> int:
    """Bytes that these processes share with nobody; none for those that have ended."""
    total = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
            total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private")) * 1024
    return total


def processor_s(plugin: CodeCallPlugin) -> float:
    """Seconds of processor time that this process and its workers have used."""
    ticks = 0
    for pid in (os.getpid(), *plugin.worker_pids):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--waiting", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0, help="for which processor time is counted")
    parser.add_argument("--rest", type=float, default=2.0, help="in which workers get ready for the next script")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    async def measure() -> dict[str, float]:
        waiting = await measure_waiting(options.waiting, options.seconds, options.rest)
        released = await measure_released(options.waiting, options.seconds, options.rest)
        return {**await measure_scripts(options.rounds), **waiting, **released}

    result = asyncio.run(measure())
    print(json.dumps(result) if options.json else "\n".join(f"{name:20} {value}" for name, value in result.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
