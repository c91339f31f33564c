"""Whether anything leaks: `python benchmarks/soak.py`, 20,000 scripts of every kind against a real HTTP server.

Clients of several callers run scripts that succeed, call tools side by side, fail in every usual way, exceed their
time, return more than an answer holds, or are cancelled half-way. Every so many scripts, when none is running, the
server says what it holds: memory, objects, tasks, threads, descriptors, and its worker processes. A line is flat when
it rises by no more than its allowance over the second half. Exit status 1 when one is not, or when a script ended in
another way than it should.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import logging
import os
import platform
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import linear_regression, mean
from typing import Any, NamedTuple

from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from codecall import CodeCallPlugin

CALLERS = 4
"""Identities; no worker serves two of them."""

CLIENTS = 12
"""Clients at once, those of each caller among them."""

WORKERS = 8

PATIENCE_S = 0.15
"""After which a client cancels the script that waits for ever."""


class Kind(NamedTuple):
    """Scripts of one kind."""

    name: str
    share: int
    """Of a thousand."""
    script: str
    ends: str
    """Its status, or the code of its error."""


KINDS = (
    Kind("value", 331, "const a = [3, 1, 2].map(n => n * 2); a.sort(); return { a, n: codecallContext.n };", "ok"),
    Kind("one call", 160, "return await callTool('row', { id: 7 });", "ok"),
    Kind(
        "five calls at once",
        160,
        "const rows = await Promise.all([1, 2, 3, 4, 5].map(id => callTool('row', { id })));"
        "console.log('rows', rows.length); return rows.map(row => row.name);",
        "ok",
    ),
    Kind("caught failure", 80, "try { await callTool('broken', {}); } catch (e) { return e.code; }", "ok"),
    Kind("failing tool", 50, "return await callTool('broken', {});", "TOOL_EXECUTION_ERROR"),
    Kind("wrong input", 40, "return await callTool('row', { id: codecallContext });", "INVALID_INPUT"),
    Kind("throw", 50, "console.log('about to'); throw new Error('no');", "EXECUTION_ERROR"),
    Kind("syntax error", 30, "return 1 +;", "SYNTAX_ERROR"),
    Kind("refused", 30, "return eval('1');", "VALIDATION_ERROR"),
    Kind("large value", 30, "return (await callTool('rows', { count: 1000 })).length;", "ok"),
    Kind("large result", 18, "return { rows: await callTool('rows', { count: 400 }) };", "ok"),
    Kind("too long", 1, "for (let i = 0; i < 5000; i++) 'y'.repeat(50000).split('').sort().join('');", "TIMEOUT"),
    Kind("cancelled", 20, "console.log('waits'); return await callTool('wait', {});", "cancelled"),
)


class Line(NamedTuple):
    """Something a server holds, which must not grow."""

    name: str
    title: str
    allowance: float
    """How far it may rise over the second half."""
    part: float = 0.0
    """The same as a part of its mean; the larger one counts."""


LINES = (
    Line("rss", "server, MiB", 4.0, 0.02),
    Line("objects", "objects", 1_500, 0.005),
    Line("tasks", "tasks", 2),
    Line("threads", "threads", 2),
    Line("descriptors", "descriptors", 10),
    Line("workers", "workers", 2),
    Line("workersRss", "workers, MiB", 8.0, 0.1),
)
"""What is looked at. The pool may have any number of its workers when it rests, and each has descriptors."""


# ------------------------------------------------------------------------------------------------ the server


def create_server() -> FastMCP[Any]:
    """A server with tools for the scripts, and one that says what it holds."""
    tokens = {token: {"client_id": token, "scopes": list[str]()} for token in callers()}
    plugin = CodeCallPlugin.init(
        vm={"preset": "secure", "timeout_ms": 2_000, "max_result_bytes": 64 * 1024},
        pool={"min_workers": 1, "max_workers": WORKERS, "max_queue": 1_000},
        results={"ttl_s": 1},  # and a minute longer, for whoever has begun to read
    )
    mcp: FastMCP[Any] = FastMCP("soak", auth=StaticTokenVerifier(tokens), transforms=[plugin])

    @mcp.tool(name="row")
    async def one(id: int) -> dict[str, Any]:  # noqa: A002 - what a caller would call it
        """One row."""
        return {"id": id, "name": f"row {id}", "active": True}

    @mcp.tool(name="rows")
    async def many(count: int) -> list[dict[str, Any]]:
        """Many rows."""
        return [{"id": number, "name": f"row {number}", "text": "x" * 200} for number in range(count)]

    @mcp.tool(name="broken")
    def fail() -> str:
        """Fail, in a thread."""
        raise ToolError("broken")

    @mcp.tool(name="wait")
    async def wait() -> None:
        """Wait until the call is cancelled."""
        await asyncio.Event().wait()

    @mcp.tool(name="holds")
    async def holds() -> dict[str, float]:
        """What the server holds."""
        return held(plugin)

    return mcp


def callers() -> list[str]:
    """The tokens of all callers."""
    return [f"caller-{number}" for number in range(CALLERS)]


def held(plugin: CodeCallPlugin) -> dict[str, float]:
    """What this process and its workers hold. What the C library keeps for later is given back first: how much that is
    depends on the busiest moment, and hides what is held."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    workers = plugin.worker_pids
    servers = {int(status(pid).get("PPid", "0")) for pid in workers} - {0, os.getpid()}
    return {
        "rss": resident(os.getpid()),
        "objects": len(gc.get_objects()),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "descriptors": len([*Path("/proc/self/fd").iterdir()]),
        "workers": len(workers),
        "workersRss": sum(map(resident, {*workers, *servers})),
    }


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process; nothing of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def resident(pid: int) -> float:
    """Memory of a process, in MiB."""
    return int(status(pid).get("VmRSS", "0 kB").split()[0]) / 1024


# ----------------------------------------------------------------------------------------------- the clients


def deal(runs: int) -> Iterator[Kind]:
    """That many kinds, in an order that is always the same."""
    deck = [kind for kind in KINDS for _ in range(kind.share)]
    chance = random.Random(0)
    for number in range(runs):
        if number % len(deck) == 0:
            chance.shuffle(deck)
        yield deck[number % len(deck)]


async def run(client: Client[Any], kind: Kind) -> str:
    """Run a script of that kind; how it ended."""
    arguments = {"script": kind.script, "context": {"n": 1}}
    try:
        async with asyncio.timeout(PATIENCE_S if kind.ends == "cancelled" else 60):
            answer = await client.call_tool("codecall:execute", arguments, raise_on_error=False)
    except TimeoutError:
        return "cancelled"
    envelope = answer.structured_content or {"status": str(answer.content)[:200]}
    return str(envelope["error"]["code"] if "error" in envelope else envelope["status"])


async def soak(runs: int, every: int) -> dict[str, Any]:
    """What the server held after each `every` of `runs` scripts, and what went wrong."""
    samples: list[dict[str, float]] = []
    wrong: Counter[str] = Counter()
    kinds = deal(runs)
    began = time.perf_counter()
    async with server() as url, AsyncExitStack() as stack:
        tokens = callers()
        clients: list[Client[Any]] = []
        for number in range(CLIENTS):
            client = Client(url, auth=tokens[number % CALLERS], log_handler=ignore)
            clients.append(await stack.enter_async_context(client))

        async def work(client: Client[Any], left: Iterator[int]) -> None:
            for _ in left:
                kind = next(kinds)
                if (ended := await run(client, kind)) != kind.ends:
                    wrong[f"{kind.name}: {ended}"] += 1

        for done in range(0, runs, every):
            left = iter(range(min(every, runs - done)))
            async with asyncio.TaskGroup() as group:
                for client in clients:
                    group.create_task(work(client, left))
            answer = await clients[0].call_tool("holds")
            samples.append({"runs": min(done + every, runs), **(answer.structured_content or {})})
            print(row(samples[-1]), file=sys.stderr, flush=True)
    seconds = time.perf_counter() - began
    return {"conditions": conditions(runs, seconds), "samples": samples, "lines": lines(samples), "wrong": wrong}


async def ignore(_: object) -> None:
    """Console lines are in the answers, too."""


@asynccontextmanager
async def server() -> AsyncGenerator[str]:
    """A server process; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, fd = listening.getsockname()[1], listening.fileno()
        command = [sys.executable, __file__, "--serve", str(fd)]
        environment = {**os.environ, "FASTMCP_LOG_LEVEL": "CRITICAL"}  # what fails here is meant to
        process = subprocess.Popen(command, pass_fds=[fd], env=environment)  # noqa: ASYNC220 - it starts while this one waits for it
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(30)


def conditions(runs: int, seconds: float) -> dict[str, Any]:
    """What was measured, and on what."""
    machine = {"python": platform.python_version(), "cpus": os.cpu_count()}
    return {**machine, "runs": runs, "clients": CLIENTS, "callers": CALLERS, "seconds": round(seconds, 1)}


def lines(samples: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """What became of each line over the second half."""
    half = samples[len(samples) // 2 :]
    runs = [sample["runs"] for sample in half]
    found: list[dict[str, Any]] = []
    for line in LINES:
        values = [sample[line.name] for sample in half]
        rise = linear_regression(runs, values).slope * (runs[-1] - runs[0])
        allowed = max(line.allowance, line.part * mean(values))
        told = {"line": line.name, "title": line.title, "mean": mean(values), "rise": rise, "allowed": allowed}
        found.append({**told, "flat": rise <= allowed})
    return found


def row(sample: dict[str, float]) -> str:
    """A sample as a row of a table."""
    values = " | ".join(f"{sample[line.name]:,.{1 if 'MiB' in line.title else 0}f}" for line in LINES)
    return f"| {sample['runs']:,} | {values} |"


def report(result: dict[str, Any]) -> str:
    """The result as two Markdown tables and a verdict."""
    told = ", ".join(f"{name} {value}" for name, value in result["conditions"].items())
    titles = [line.title for line in LINES]
    rows = [f"| scripts | {' | '.join(titles)} |", f"|---:|{'---:|' * len(LINES)}", *map(row, result["samples"])]
    verdicts = ["| line | mean of the second half | rise over it | allowed | flat |", "|---|---:|---:|---:|---|"]
    for line in result["lines"]:
        numbers = " | ".join(f"{line[name]:,.1f}" for name in ("mean", "rise", "allowed"))
        verdicts.append(f"| {line['title']} | {numbers} | {'yes' if line['flat'] else 'NO'} |")
    wrong = [f"{count} x {what}" for what, count in result["wrong"].items()]
    return "\n".join(
        [told, "", *rows, "", *verdicts, "", f"Ended otherwise than they should: {'; '.join(wrong) or 'none'}."]
    )


def main() -> int:
    """Soak and print, or be the server."""
    parser = argparse.ArgumentParser(description="Whether a server with CodeCall leaks anything.")
    parser.add_argument("--runs", type=int, default=20_000, help="scripts (default %(default)s)")
    parser.add_argument("--samples", type=int, default=20, help="how often the server is asked (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--serve", type=int, metavar="FD", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        listening = socket.socket(fileno=arguments.serve)
        create_server().run("http", show_banner=False, sockets=[listening], uvicorn_config={"log_level": "error"})
        return 0
    if arguments.samples < 4 or arguments.runs < arguments.samples:
        parser.error("--samples: at least 4, and no more than --runs")
    logging.disable(logging.WARNING)
    result = asyncio.run(soak(arguments.runs, arguments.runs // arguments.samples))
    print(json.dumps(result, indent=2) if arguments.json else report(result))
    return 0 if not result["wrong"] and all(line["flat"] for line in result["lines"]) else 1


if __name__ == "__main__":
    sys.exit(main())
