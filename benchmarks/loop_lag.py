"""How long the server's event loop stands still while CodeCall works.

    python benchmarks/loop_lag.py [--rounds 5] [--json] [--check]

The server is a process of its own, reached over stdio, so that nothing a client does counts. A task in it sleeps for
one millisecond over and over and notes by how much each sleep is late; the worst and the 99th percentile of a job are
its lag. Beside each job stands what FastMCP alone costs for the same traffic, measured in the same way: a plain tool
with the same input or output, or one that lists the same tools. The limit is on what CodeCall adds. The `idle` row is
the noise of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmcp import Client, Context, FastMCP
from fastmcp.client.transports import PythonStdioTransport
from typing_extensions import TypedDict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.shop import build

LIMIT_MS = 20.0
"""Longest time CodeCall may hold the event loop, from the project's goals."""
SAMPLE_SECONDS = 0.001
"""How long the meter sleeps between two looks at the clock."""
MANY_TOOLS = 5_000
"""Tools of the server whose catalog is indexed."""
SCRIPT_BYTES = 60_000
"""Length of the long script; 64 KiB is the most the validator accepts."""
FIRST, LATER = range(2)
"""When in the life of a server a job is measured."""
RESULT_BYTES = 1_000_000
"""Size of the large result; 1 MiB is the most the `secure` preset allows."""


class Lag(TypedDict):
    """What the meter saw, in milliseconds."""

    worst: float
    p99: float
    samples: int


class Meter:
    """Measures by how much the running event loop is late."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._late: list[float] = []

    def start(self) -> None:
        """Begin to measure, in the running loop."""
        self._late = []
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> Lag:
        """End, and say what was seen."""
        if self._task is None:
            raise RuntimeError("the meter is not running")
        # One more turn, so that a block that is happening now is seen.
        await asyncio.sleep(2 * SAMPLE_SECONDS)
        self._task.cancel()
        late = sorted(self._late)
        return Lag(worst=late[-1], p99=late[len(late) * 99 // 100], samples=len(late))

    async def _watch(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(SAMPLE_SECONDS)
            self._late.append((time.perf_counter() - before - SAMPLE_SECONDS) * 1_000)


def serve(tools: int, *, codecall: bool) -> None:
    """Be the server that is measured: `tools` tools and a meter that both kinds of client can reach."""
    server = build("lag", tools)
    meter = Meter()
    always = {"codecall": {"visibleInListTools": True, "enabledInCodeCall": False}}

    async def lag_start() -> bool:
        """Begin to measure."""
        meter.start()
        return True

    async def lag_stop() -> Lag:
        """End, and say what was seen."""
        return await meter.stop()

    for tool in (lag_start, lag_stop):
        server.tool(tool, meta=always)
    if codecall:
        from codecall import CodeCallPlugin

        CodeCallPlugin.init(vm={"preset": "secure", "timeout_ms": SPIN_MS}).install(server)
    else:
        _plain_tools(server)
    server.run("stdio", show_banner=False, log_level="WARNING")


def _plain_tools(server: FastMCP) -> None:
    """Tools with the traffic of each job and none of its work."""

    async def takes(script: str) -> dict[str, Any]:
        return {"status": "ok", "result": len(script)}

    async def gives(size: int) -> dict[str, Any]:
        return {"status": "ok", "result": _rows(size)}

    async def lists(ctx: Context) -> int:
        return len(await ctx.fastmcp.list_tools())

    server.tool(takes)
    server.tool(lists)
    server.tool(gives)


def _rows(size: int) -> list[dict[str, Any]]:
    row = {"id": 1000, "name": "x" * 120, "open": True}
    return [row] * (size // len(json.dumps(row)))


def _long_script() -> str:
    lines = ["const rows = [];"]
    length = 0
    while length < SCRIPT_BYTES:
        line = (
            f"rows.push({{ id: {len(lines)}, name: `row ${{{len(lines)} + 1}}`, tags: ['a', 'b'].map((t) => t + 1) }});"
        )
        lines.append(line)
        length += len(line) + 1
    return "\n".join([*lines, "return rows.length;"])


SPIN_MS = 5_000
"""How long a script may run."""
SPIN = "let n = 0; for (const a of Array(4000)) { for (const b of Array(4000)) { n += 1; } } return n;"
LARGE = f"""
const row = {{ id: 1000, name: 'x'.repeat(120), open: true }};
return Array({RESULT_BYTES} / JSON.stringify(row).length | 0).fill(row);
"""


@dataclass(frozen=True)
class Job:
    """One thing the server does while the meter runs, and the same traffic without CodeCall."""

    name: str
    tools: int
    call: tuple[str, dict[str, Any]] | None
    status: str | None
    alone: tuple[str, dict[str, Any]] | None
    when: int = LATER
    """`START`: at once in the life of a server; `FIRST`: when a server that has loaded everything does it for the first
    time, so that what is cached must be built; `LATER`: after it has done it."""


def jobs() -> list[Job]:
    """What is measured."""
    script = _long_script()
    return [
        Job("idle", 24, None, None, None),
        Job(
            f"parse a script of {len(script):,} bytes",
            24,
            ("codecall:execute", {"script": script}),
            "ok",
            ("takes", {"script": script}),
        ),
        Job(
            f"first search: load NumPy and SciPy, index {MANY_TOOLS:,} tools",
            MANY_TOOLS,
            ("codecall:search", {"query": "refund a customer"}),
            None,
            ("lists", {}),
            FIRST,
        ),
        Job(
            f"search {MANY_TOOLS:,} tools again",
            MANY_TOOLS,
            ("codecall:search", {"query": "archive a supplier"}),
            None,
            ("lists", {}),
        ),
        Job("a script spins until its limit", 24, ("codecall:execute", {"script": SPIN}), "runtime_error", None),
        Job(
            f"a result of {RESULT_BYTES:,} bytes",
            24,
            ("codecall:execute", {"script": LARGE}),
            "ok",
            ("gives", {"size": RESULT_BYTES}),
        ),
    ]


def transport(tools: int, *, codecall: bool) -> PythonStdioTransport:
    """The server of this file as a process of its own, with CodeCall or without."""
    side = "codecall" if codecall else "alone"
    return PythonStdioTransport(
        Path(__file__), args=["--serve", side, "--tools", str(tools)], python_cmd=sys.executable, keep_alive=False
    )


async def lag_of(client: Client[Any], call: tuple[str, dict[str, Any]] | None, status: str | None) -> Lag:
    """The lag while the server performs one call; None measures while nothing happens."""
    await client.call_tool("lag_start", {})
    if call is None:
        await asyncio.sleep(0.5)
    else:
        result = await client.call_tool(*call)
        content = result.structured_content or {}
        if status is not None and content.get("status") != status:
            raise AssertionError(f"{call[0]}: expected {status}, got {str(content)[:500]}")
    return (await client.call_tool("lag_stop", {})).structured_content  # type: ignore[return-value]


async def settle(client: Client[Any]) -> None:
    """Wait until this client has what it asks for by itself before its first call."""
    # A client lists all tools once, which takes FastMCP alone 0.6 s of its loop for many; that is no job of ours.
    await lag_of(client, None, None)


async def _lags(job: Job, rounds: int, *, codecall: bool) -> list[Lag]:
    call = job.call if codecall else job.alone
    if job.when != LATER:
        found: list[Lag] = []
        for _ in range(rounds):
            async with Client(transport(job.tools, codecall=codecall)) as client:
                await settle(client)
                found.append(await lag_of(client, call, job.status))
        return found
    async with Client(transport(job.tools, codecall=codecall)) as client:
        await settle(client)
        await lag_of(client, call, job.status)
        return [await lag_of(client, call, job.status) for _ in range(rounds)]


async def measure(rounds: int) -> list[dict[str, object]]:
    """One row per job: medians over the rounds, in milliseconds, and the worst round."""
    rows: list[dict[str, object]] = []
    for job in jobs():
        lags = await _lags(job, rounds, codecall=True)
        alone = await _lags(job, rounds, codecall=False) if job.alone is not None else []
        worst = statistics.median(lag["worst"] for lag in lags)
        without = statistics.median(lag["worst"] for lag in alone) if alone else 0.0
        rows.append(
            {
                "job": job.name,
                "p99Ms": statistics.median(lag["p99"] for lag in lags),
                "maxMs": worst,
                "worstRoundMs": max(lag["worst"] for lag in lags),
                "aloneMaxMs": without if alone else None,
                "met": None if job.call is None else worst - without <= LIMIT_MS,
            }
        )
    return rows


def table(rows: list[dict[str, Any]], rounds: int) -> str:
    """The result as a Markdown table."""
    lines = [
        f"python {platform.python_version()}, cpus {os.cpu_count()}, rounds {rounds}; milliseconds; "
        f"limit {LIMIT_MS:g} ms above what FastMCP alone costs",
        "",
        "| job | p99 | max (median of rounds) | worst round | FastMCP alone, max | met |",
        "|---|---:|---:|---:|---:|---|",
    ]
    words = {True: "yes", False: "NO", None: ""}
    for row in rows:
        alone = "" if row["aloneMaxMs"] is None else f"{row['aloneMaxMs']:.1f}"
        lines.append(
            f"| {row['job']} | {row['p99Ms']:.1f} | {row['maxMs']:.1f} | {row['worstRoundMs']:.1f} | {alone} "
            f"| {words[row['met']]} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure and print, or be the server."""
    parser = argparse.ArgumentParser(description="Event-loop lag of a server with CodeCall.")
    parser.add_argument("--rounds", type=int, default=5, help="times each job is measured (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless every job keeps the limit")
    parser.add_argument("--serve", choices=["codecall", "alone"], help=argparse.SUPPRESS)
    parser.add_argument("--tools", type=int, default=24, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.tools, codecall=arguments.serve == "codecall")
        return 0
    rows = asyncio.run(measure(arguments.rounds))
    print(json.dumps(rows, indent=2) if arguments.json else table(rows, arguments.rounds))
    return 1 if arguments.check and any(row["met"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
