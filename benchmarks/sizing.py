"""What one instance needs: memory of its processes, and processor time of a script.

    python benchmarks/sizing.py [--scripts 400] [--clients 8]

An HTTP server of its own process runs scripts with three calls each, for that many clients at once, over streamable
HTTP. Memory is PSS: what several processes share counts for each by its part, so that the sum is what the machine
needs. Processor time is that of the server and of the workers, whoever else uses the machine meanwhile. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from fastmcp import Client, FastMCP

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codecall import CodeCallPlugin

SCRIPT = """
const calls = [1, 2, 3].map(number => callTool('get_order', { number }));
return (await Promise.all(calls)).reduce((sum, { total }) => sum + total, 0);
"""
LARGE = (
    "return (await callTool('list_orders', {})).map(({ number, total }) => number * total).filter(x => x > 0).length"
)
TICK = os.sysconf("SC_CLK_TCK")


def create_server(workers: int) -> FastMCP[Any]:
    """A server with some tools."""
    server = FastMCP[Any]("orders")
    server.tool(lambda number: {"number": number, "total": number * 10}, name="get_order")
    server.tool(lambda: [{"number": n, "total": n, "text": "x" * 100} for n in range(8_000)], name="list_orders")
    for number in range(200):
        server.tool(lambda customer="": [customer], name=f"report_{number}", description=f"Report {number} of orders")
    CodeCallPlugin.init(vm={"preset": "secure"}, pool={"min_workers": workers, "max_workers": workers}).install(server)
    return server


class Process(NamedTuple):
    """One process of the server's."""

    pid: int
    role: str

    @property
    def pss_mb(self) -> float:
        """Memory, in MB."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text(encoding="ascii")
        return int(text.partition("\nPss:")[2].split()[0]) / 1000

    @property
    def cpu_s(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK


def processes(server: int) -> Iterator[Process]:
    """The server, its fork server, its workers."""
    yield Process(server, "server")
    for child in _children(server):
        yield Process(child, "fork server")
        yield from (Process(worker, "worker") for worker in _children(child))


def _children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text(encoding="ascii").split()]


def roles(server: int, of: str) -> dict[str, list[float]]:
    """A measure of each process, by role."""
    measured: dict[str, list[float]] = {}
    for process in processes(server):
        measured.setdefault(process.role, []).append(getattr(process, of))
    return measured


async def run(client: Client[Any], script: str) -> None:
    """Run a script, which must end well."""
    answer = await client.call_tool_mcp("codecall:execute", {"script": script})
    assert (answer.structured_content or {})["status"] == "ok", answer


async def measure(url: str, pid: int, scripts: int, clients: int) -> None:
    """Print the table."""
    async with Client(url) as first:
        await run(first, SCRIPT)
        print_memory("at rest", pid)
        before = roles(pid, "cpu_s")
        started = time.perf_counter()

        async def caller() -> None:
            async with Client(url) as client:
                for _ in range(scripts // clients):
                    await run(client, SCRIPT)

        await asyncio.gather(*(caller() for _ in range(clients)))
        took = time.perf_counter() - started
        spent = {role: 1000 * (sum(all_) - sum(before[role])) / scripts for role, all_ in roles(pid, "cpu_s").items()}
        print_memory(f"after {scripts:,} scripts", pid)
        for _ in range(20):
            await run(first, LARGE)
        print_memory("after 20 scripts that read 1 MB", pid)
    each = sum(spent.values())
    print(
        f"processor time of a script with three calls: {each:.1f} ms",
        *(f"{r} {ms:.1f}" for r, ms in spent.items()),
        sep=", ",
    )
    print(f"scripts per second: {1000 / each:.0f} for each core; here {scripts / took:.0f}, with the client beside it")


def print_memory(when: str, pid: int) -> None:
    """Print a row of the table."""
    parts = roles(pid, "pss_mb")
    told = (f"{len(each)} x {role} {sum(each) / len(each):.0f} MB" for role, each in parts.items())
    print(f"{when}: {', '.join(told)}; {sum(map(sum, parts.values())):.0f} MB in all")


def main(scripts: int, clients: int) -> None:
    """Start the server, measure it, end it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        command = [sys.executable, __file__, "--serve", str(listening.fileno()), "--clients", str(clients)]
        server = subprocess.Popen(command, pass_fds=[listening.fileno()])
    try:
        asyncio.run(measure(f"http://127.0.0.1:{port}/mcp", server.pid, scripts, clients))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What one instance needs")
    parser.add_argument("--scripts", type=int, default=400)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is None:
        main(arguments.scripts, arguments.clients)
    else:
        app = create_server(arguments.clients).http_app(stateless_http=True)
        uvicorn.run(app, fd=arguments.serve, log_level="warning")
