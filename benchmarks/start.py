"""What CodeCall adds to the start and to the memory of a process, beside FastMCP alone.

    python benchmarks/start.py [--rounds 9] [--json]

Each round runs every program once, in turns and each in a fresh process, so that whatever else the machine does
disturbs all of them alike; the first round only warms the caches. Processor time is the better figure on a busy
machine. The limit of a row is a multiple of the row it names, from the project's goals.

- imports, and `codecall --help`, to the end of the process;
- the first `tools/list` of `codecall serve` that knows nothing of its servers, beside FastMCP's proxy of the same
  (`gateway.py` measures more of it);
- the first search over 5,000 tools, in a server that has just listed them;
- memory: RSS of a server over stdio with 20 tools, and PSS of its workers' processes, shared pages by their part.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.gateway import Program, sides

FASTMCP, PLUGIN = "import FastMCP", "import CodeCallPlugin"
LIBRARIES, HELP = "import cyclopts and what prints help", "`codecall --help`"
PROXY, SERVE = "`tools/list` of FastMCP's proxy", "`tools/list` of `codecall serve`"
SEARCH = "first search over 5,000 tools"

COMMANDS = {
    FASTMCP: "from fastmcp import FastMCP, Client",
    PLUGIN: "from codecall import CodeCallPlugin",
    LIBRARIES: "import cyclopts, cyclopts.help, rich.console, rich.panel, rich.table",
    HELP: "import sys; from codecall.cli import main; sys.argv[1:] = ['--help']; main()",
}
LIMITS = {PLUGIN: (FASTMCP, 1.2), SERVE: (PROXY, 1.5)}
"""How many times another row a row may take."""
MEMORY_LIMITS_MB = {"server, tools listed": 40, "worker": 14}
"""Megabytes above FastMCP alone; of a worker, in all."""

SERVER = """
import sys
from fastmcp import FastMCP
from fastmcp.tools import FunctionTool
from benchmarks.many_tools import tool

def create(described):
    made = FunctionTool.from_function(lambda id, limit=10, query="": id, name=described["name"])
    return made.model_copy(update={"description": described["description"], "parameters": described["inputSchema"]})

server = FastMCP("start")
for number in range(int(sys.argv[1])):
    server.add_tool(create(tool("start", number)))
if sys.argv[2:] == ["plugin"]:
    from codecall import CodeCallPlugin
    CodeCallPlugin.init().install(server)
server.run(show_banner=False, log_level="ERROR")
"""


class Cost(NamedTuple):
    """What one program took."""

    wall_ms: float
    cpu_ms: float | None
    """Processor time, where the whole process was measured."""


def run(code: str) -> Cost:
    """Run a program to its end."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(took * 1000, cpu * 1000)


def server(tools: int, *, plugin: bool) -> Program:
    """Start a server over stdio that has listed its tools."""
    program = Program([sys.executable, "-c", SERVER, str(tools), *(["plugin"] if plugin else [])])
    program.listed()
    return program


def first_search() -> Cost:
    """The first search of a server."""
    program = server(5_000, plugin=True)
    began = time.perf_counter()
    found = program.ask("tools/call", name="codecall:search", arguments={"query": "get an invoice"})
    took = time.perf_counter() - began
    assert found["structuredContent"]["totalIndexed"] == 5_000, found
    assert "warnings" not in found["structuredContent"], found
    program.close()
    return Cost(took * 1000, None)


def measure_times(rounds: int) -> dict[str, list[Cost]]:
    """Run everything in turns; the first round does not count, and compiles our modules as an installation does."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as name:
        for number in range(rounds + 1):
            folder = Path(name) / str(number)  # nothing is known of the servers
            folder.mkdir()
            _, serve, _, proxy = sides(folder, 3, 20)
            found = {row: run(code) for row, code in COMMANDS.items()}
            for row, side in ((PROXY, proxy), (SERVE, serve)):
                program = Program(side.command)
                found[row] = Cost(program.listed()[0], None)
                program.close()
            found[SEARCH] = first_search()
            if number:
                for row, cost in found.items():
                    costs.setdefault(row, []).append(cost)
    return costs


def measure_memory() -> dict[str, float]:
    """Megabytes: of FastMCP alone, of the server with CodeCall at four moments, and of its other processes."""
    alone = server(20, plugin=False)
    found = {"FastMCP alone, tools listed": _memory_mb(alone.pid, "Rss")}
    alone.close()
    program = server(20, plugin=True)
    found["server, tools listed"] = _memory_mb(program.pid, "Rss")
    script = {"script": "return (await callTool('get_invoice_1', { id: '7' }))"}
    for _ in range(3):
        ran = program.ask("tools/call", name="codecall:execute", arguments=script)
        assert ran["structuredContent"]["status"] == "ok", ran
    found["server, after a script"] = _memory_mb(program.pid, "Rss")
    (fork_server,) = _children(program.pid)
    found["fork server"] = _memory_mb(fork_server, "Pss")
    workers = _children(fork_server)
    found["worker"] = max(_memory_mb(worker, "Pss") for worker in workers)
    found["worker, what it shares with no process"] = max(_memory_mb(worker, "Private_Dirty") for worker in workers)
    program.ask("tools/call", name="codecall:search", arguments={"query": "invoice"})
    found["server, after a search"] = _memory_mb(program.pid, "Rss")
    program.close()
    return found


def _memory_mb(pid: int, of: str) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return int(text.partition(f"\n{of}:")[2].split()[0]) / 1024


def _children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text(encoding="ascii").split()]


def report(costs: dict[str, list[Cost]], memory: dict[str, float]) -> str:
    """Both tables as Markdown."""
    lines = [
        f"Python {platform.python_version()}, {os.cpu_count()} cores ({platform.machine()}); medians and minima.",
        "",
        "| until its end or answer | median | minimum | processor time, minimum | times | limit |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row, found in costs.items():
        wall = [cost.wall_ms for cost in found]
        cpu = [cost.cpu_ms for cost in found if cost.cpu_ms is not None]
        times = limit = ""
        if row in LIMITS:
            other, most = LIMITS[row]
            ratio = min(wall) / min(cost.wall_ms for cost in costs[other])
            times, limit = f"{ratio:.2f} × {other}", f"{most:g}"
        least = f"{min(cpu):,.0f} ms" if cpu else ""
        lines.append(
            f"| {row} | {statistics.median(wall):,.0f} ms | {min(wall):,.0f} ms | {least} | {times} | {limit} |"
        )
    base = memory["FastMCP alone, tools listed"]
    lines += ["", "| memory of | MB | above FastMCP alone | limit |", "| --- | ---: | ---: | ---: |"]
    for row, size in memory.items():
        above = f"{size - base:.0f}" if row.startswith("server") else ""
        lines.append(f"| {row} | {size:.1f} | {above} | {MEMORY_LIMITS_MB.get(row, '')} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="all figures instead of tables")
    asked = parser.parse_args()
    costs, memory = measure_times(asked.rounds), measure_memory()
    if asked.json:
        rows: dict[str, Any] = {row: [cost._asdict() for cost in found] for row, found in costs.items()}
        print(json.dumps({"times": rows, "memoryMb": memory}))
    else:
        print(report(costs, memory))


if __name__ == "__main__":
    main()
