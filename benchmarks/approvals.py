"""What approvals cost: a script that needs none, with the option and without it, in turns; and runs that wait.

    python benchmarks/approvals.py [--rounds N] [--waiting N] [--json]

The memory of runs that wait is what the server and its workers have for themselves (`Private` of `smaps_rollup`),
less what they had while as many workers were idle; their processor time is that of all of them.
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
from mcp_types import InputRequiredResult

from codecall import CodeCallPlugin

SCRIPT = "let n = 0; for (let i = 0; i < 10; i++) n += (await callTool('double', {n: i})).n; return n"
WAITING = "await callTool('double', {n: 1}); return callTool('erase', {n: 2})"
WATCHED_S = 5.0
"""Seconds for which the processor time of runs that wait is counted."""


def create_server(approvals: Any, waiting: int = 8) -> tuple[FastMCP[Any], CodeCallPlugin]:
    """A server with a tool that needs no approval, and one that does."""
    server: FastMCP[Any] = FastMCP("office")

    @server.tool
    async def double(n: int) -> dict[str, int]:
        return {"n": 2 * n}

    @server.tool(annotations={"destructiveHint": True})
    async def erase(n: int) -> dict[str, int]:
        return {"n": n}

    plugin = CodeCallPlugin.init(approvals=approvals, pool={"max_workers": waiting}, audit={"sinks": []})
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


async def measure_waiting(waiting: int) -> dict[str, float]:
    """What so many runs cost while they wait."""
    server, plugin = create_server("destructive", waiting)
    async with Client(server, mode="2026-07-28", elicitation_handler=person) as client:
        arguments = {"script": WAITING}
        ask = client.session.call_tool

        async def begin() -> Any:
            return await ask("codecall:execute", arguments, allow_input_required=True)

        async def end(asked: Any, action: str) -> None:
            answers: Any = {name: {"action": action} for name in asked.input_requests}
            await ask(
                "codecall:execute",
                arguments,
                input_responses=answers,
                request_state=asked.request_state,
                allow_input_required=True,
            )

        # As many workers as are needed have run scripts, and are idle.
        for asked in [await begin() for _ in range(waiting)]:
            await end(asked, "cancel")
        await asyncio.gather(*(client.call_tool("codecall:execute", {"script": "return 1"}) for _ in range(waiting)))
        idle_workers, before = len(plugin.worker_pids), private_bytes(plugin)
        began = [await begin() for _ in range(waiting)]
        if not all(isinstance(each, InputRequiredResult) for each in began):
            raise ValueError(f"some did not wait: {began}")
        after, used = private_bytes(plugin), processor_s(plugin)
        await asyncio.sleep(WATCHED_S)
        used = processor_s(plugin) - used
        workers = len(plugin.worker_pids)
        for asked in began:
            await end(asked, "cancel")
    return {
        "waiting": waiting,
        "idle_workers": idle_workers,
        "workers": workers,
        "waiting_mb": round((after - before) / 1024 / 1024, 2),
        "waiting_cpu_percent": round(100 * used / WATCHED_S, 2),
    }


def private_bytes(plugin: CodeCallPlugin) -> int:
    """Bytes that this process and its workers share with nobody."""
    total = 0
    for pid in (os.getpid(), *plugin.worker_pids):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private")) * 1024
    return total


def processor_s(plugin: CodeCallPlugin) -> float:
    """Seconds of processor time that this process and its workers have used."""
    ticks = 0
    for pid in (os.getpid(), *plugin.worker_pids):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--waiting", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    async def measure() -> dict[str, float]:
        return {**await measure_scripts(options.rounds), **await measure_waiting(options.waiting)}

    result = asyncio.run(measure())
    print(json.dumps(result) if options.json else "\n".join(f"{name:20} {value}" for name, value in result.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
