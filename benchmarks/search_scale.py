"""How fast `codecall:search` is over 100, 1,000 and 10,000 tools, beside FastMCP's own search.

    python benchmarks/search_scale.py [--tools 100 1000 10000] [--data FILE] [--rounds 60] [--quick] [--json] [--check]

A client asks the server through FastMCP's in-memory transport, so a query costs what a caller waits for: the protocol,
the caller's own view of the catalog, the search and the answer. Each size, on each side, has a process of its own.

- CodeCall: `CodeCallPlugin.init()` with its defaults.
- FastMCP: `BM25SearchTransform()` with its defaults; its meta-tool is called `search_tools`.

The tools are made here of word lists, always the same ones; `--data` takes a file with one tool definition in each line
instead (`{"name", "description", "inputSchema"}`), repeated under other names as often as needed. Queries are the first
words of descriptions.

- built: from the first search until the tool that was added last is found.
- median, p99: one query after the other, milliseconds. CPU: processor time of a query, all threads.
- view: what the median has of the caller's catalog view. Only CodeCall has one.
- stood still: the longest time another task of the server's event loop had to wait, while the index was built and
  while it was searched. In this process the client counts too.
- memory: growth of the process while the index is built, megabytes; the tools themselves are there before.
- added, changed, removed: from the change of one tool until a search shows it.
- at once: so many clients search at the same moment; until the median and the last of them have their answer.

`--quick`: 100 and 1,000 tools, few rounds. `--check`: exit 1 where a goal of the project is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

from fastmcp import Client, Context, FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codecall import CodeCallPlugin

SIZES = (100, 1_000, 10_000)
CLIENTS = 60
"""Clients that search at the same moment."""
SIDES = ("codecall", "fastmcp")
GOALS_MS = {1_000: 5.0, 10_000: 20.0}
"""Most milliseconds a query may take at the median, from the project's goals."""
GOAL_BUILT_S = 6.0
"""Most seconds until the index of 10,000 tools is built, from the project's goals."""
MARKS = ("zyzzogeton", "quagswagging", "floccinauci", "xertzling")
"""Words that no other tool has."""

VERBS = (
    "create",
    "list",
    "get",
    "update",
    "delete",
    "search",
    "archive",
    "export",
    "import",
    "share",
    "approve",
    "sync",
)
THINGS = (
    "invoice", "customer", "order", "ticket", "repository", "branch", "calendar event", "message", "channel", "file",
    "folder", "spreadsheet", "report", "dashboard", "alert", "deployment", "container", "database", "table", "record",
    "user", "role", "team", "project", "task", "comment", "label", "milestone", "payment", "refund", "subscription",
    "product", "shipment", "warehouse", "contact", "lead", "campaign", "template", "domain", "certificate", "backup",
)  # fmt: skip
SYSTEMS = (
    "Billing", "Support", "Storage", "Analytics", "Identity", "Shipping", "Marketing", "Payroll", "Monitoring",
    "Content", "Chat", "Planning", "Registry", "Compliance", "Inventory", "Travel", "Learning", "Research", "Archive",
    "Gateway", "Scheduling",
)  # fmt: skip
DETAILS = (
    "Returns the identifier and the current state.",
    "Results come in pages; pass the cursor of the last page to go on.",
    "Fails when the caller lacks the right to change it.",
    "Dates are given in ISO 8601, in UTC.",
    "Nothing is changed when dry_run is set.",
    "Use it after the matching search, which gives the identifier.",
)
PARAMETERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("id", {"type": "string", "description": "Identifier, as the search gives it"}),
    ("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "Most results wanted"}),
    ("cursor", {"type": "string", "description": "Where the last page ended"}),
    ("since", {"type": "string", "format": "date-time", "description": "Only what changed after this moment"}),
    ("status", {"type": "string", "enum": ["open", "closed", "pending"], "description": "State to filter by"}),
    ("owner", {"type": "object", "properties": {"email": {"type": "string"}, "team": {"type": "string"}}}),
    ("tags", {"type": "array", "items": {"type": "string"}, "description": "Words it is filed under"}),
    ("dry_run", {"type": "boolean", "default": False, "description": "Check everything and change nothing"}),
)

Definition = dict[str, Any]


class Listed(Tool):
    """A tool that is only ever listed."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer with nothing."""
        return ToolResult(structured_content={})


def definitions() -> Iterator[Definition]:
    """Tools of the word lists: the same ones in the same order every time."""
    chance = random.Random(7)
    for system, thing, verb in product(SYSTEMS, THINGS, VERBS):
        chosen = dict(chance.sample(PARAMETERS, chance.randint(1, 6)))
        article = "an" if thing[0] in "aeiou" else "a"
        details = " ".join(chance.sample(DETAILS, chance.randint(0, 3)))
        yield {
            "name": f"{system.lower()}_{verb}_{thing.replace(' ', '_')}",
            "description": f"{verb.capitalize()} {article} {thing} in {system}. {details}".strip(),
            "inputSchema": {"type": "object", "properties": chosen, "required": list(chosen)[:1]},
        }


def read(path: Path) -> list[Definition]:
    """The tool definitions of a JSON-lines file."""
    with path.open(encoding="utf-8") as file:
        found = [json.loads(line) for line in file if line.strip()]
    if not found:
        raise SystemExit(f"--data: there is no tool in {path}")
    return found


def tools(size: int, data: Path | None) -> list[Tool]:
    """As many tools as asked for; the last can be found by a word of its own."""
    source = list(definitions()) if data is None else read(data)
    made: list[Tool] = []
    for number, each in enumerate(islice(cycle(source), size - 1)):
        # Names of MCP have up to 128 characters of a small set.
        name = "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "_" for c in each["name"][:100])
        made.append(
            Listed(
                name=name if number < len(source) and data is None else f"{name}_{number}",
                description=each.get("description") or "",
                parameters=each.get("inputSchema") or {"type": "object"},
            )
        )
    return [*made, marked(0)]


def marked(number: int, *, name: str = "last") -> Tool:
    """A tool that is found by a word of its own."""
    return Listed(name=f"{name}_tool", description=f"Count the {MARKS[number]}", parameters={"type": "object"})


class Side:
    """One of the two servers, and how it is asked."""

    def __init__(self, name: str, catalog: list[Tool]) -> None:
        self.server: FastMCP = FastMCP(name)
        for tool in catalog:
            self.server.add_tool(tool)
        self.plugin: CodeCallPlugin | None = None
        if name == "codecall":
            self.plugin = CodeCallPlugin.init()
            self.plugin.install(self.server)
            self._tool = "codecall:search"
        else:
            self.server.add_transform(BM25SearchTransform())
            self._tool = "search_tools"

    async def search(self, client: Client[Any], query: str) -> list[str]:
        """Names of the tools found, best first."""
        answer = (await client.call_tool(self._tool, {"query": query})).structured_content or {}
        return [tool["name"] for tool in answer.get("tools", answer.get("result", []))]

    async def until(self, client: Client[Any], query: str, condition: Callable[[list[str]], bool]) -> float:
        """Seconds until a search gives what it should."""
        began = time.perf_counter()
        while not condition(await self.search(client, query)):
            if time.perf_counter() - began > 120:
                raise SystemExit(f"{query!r} was not answered as it should be within two minutes")
        return time.perf_counter() - began


@asynccontextmanager
async def watched() -> AsyncIterator[list[float]]:
    """The milliseconds by which a task that only sleeps is late, over and over."""
    late: list[float] = [0.0]

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append((time.perf_counter() - began - 0.001) * 1_000)

    task = asyncio.create_task(watch())
    try:
        yield late
        await asyncio.sleep(0.002)  # one more turn, so that a block that is happening now is seen
    finally:
        task.cancel()


def resident() -> float:
    """Megabytes of the process in memory; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def at(values: list[float], percent: int) -> float:
    """A percentile."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds it takes."""
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1_000


async def measure(name: str, size: int, rounds: int, data: Path | None) -> dict[str, Any]:
    """Everything about one side and one size."""
    catalog = tools(size, data)
    chance = random.Random(11)
    queries = [" ".join(tool.description.split()[:8]) or tool.name for tool in chance.choices(catalog[:-1], k=rounds)]
    few = Side(name, catalog[:10])
    async with Client(few.server) as client:
        await few.search(client, "warm up")  # what is loaded once is no part of an index
    side = Side(name, catalog)
    row: dict[str, Any] = {"side": name, "tools": size}
    async with Client(side.server) as client:
        gc.collect()
        before = resident()
        async with watched() as late:
            row["builtSeconds"] = await side.until(client, MARKS[0], lambda names: names[:1] == ["last_tool"])
        row["stoodStillBuildingMs"] = max(late)
        gc.collect()
        row["memoryMb"] = max(0.0, resident() - before)
        for query in queries[:5]:
            await side.search(client, query)
        processor = time.process_time()
        times = [await timed(lambda query=query: side.search(client, query)) for query in queries]
        row["cpuMs"] = (time.process_time() - processor) * 1_000 / len(queries)
        row["medianMs"], row["p99Ms"] = statistics.median(times), at(times, 99)
        async with watched() as late:
            for query in queries:
                await side.search(client, query)
        row["stoodStillSearchingMs"] = max(late)
        row["viewMs"] = await view(side, rounds)
        row |= await changes(side, client)
        row |= await at_once(side, queries)
    return row


async def view(side: Side, rounds: int) -> float | None:
    """Median milliseconds of the caller's catalog view."""
    plugin = side.plugin
    if plugin is None:
        return None
    async with Context(fastmcp=side.server) as context:
        times = [await timed(lambda: plugin.view(context).entries()) for _ in range(rounds)]
    return statistics.median(times)


async def changes(side: Side, client: Client[Any]) -> dict[str, float]:
    """Milliseconds until a search shows that a tool was added, changed and removed."""
    provider = side.server.local_provider
    side.server.add_tool(marked(1, name="new"))
    added = await side.until(client, MARKS[1], lambda names: names[:1] == ["new_tool"])
    provider.remove_tool("new_tool")
    side.server.add_tool(marked(2, name="new"))
    changed = await side.until(client, MARKS[2], lambda names: names[:1] == ["new_tool"])
    provider.remove_tool("new_tool")
    removed = await side.until(client, MARKS[2], lambda names: "new_tool" not in names)
    return {"addedMs": added * 1_000, "changedMs": changed * 1_000, "removedMs": removed * 1_000}


async def at_once(side: Side, queries: list[str]) -> dict[str, float]:
    """Milliseconds until the median and the last of many clients have their answers."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(side.server)) for _ in range(CLIENTS)]
        asked = list(zip(clients, cycle(queries), strict=False))
        times = await asyncio.gather(
            *(timed(lambda client=client, query=query: side.search(client, query)) for client, query in asked)
        )
    return {"atOnceMedianMs": statistics.median(times), "atOnceLastMs": max(times)}


def apart(name: str, size: int, rounds: int, data: Path | None) -> dict[str, Any]:
    """What `measure` gives in a process of its own."""
    command = [sys.executable, __file__, "--one", name, "--tools", str(size), "--rounds", str(rounds)]
    if data is not None:
        command += ["--data", str(data)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{name} with {size} tools failed:\n{ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


COLUMNS = (
    ("tools", "tools", ",d"), ("side", "", "s"), ("builtSeconds", "built s", ".2f"), ("medianMs", "median ms", ".1f"),
    ("p99Ms", "p99 ms", ".1f"), ("cpuMs", "CPU ms", ".1f"), ("viewMs", "view ms", ".1f"),
    ("stoodStillBuildingMs", "stood still b.", ".0f"), ("stoodStillSearchingMs", "stood still s.", ".0f"),
    ("memoryMb", "memory MB", ".1f"), ("addedMs", "added ms", ".0f"), ("changedMs", "changed ms", ".0f"),
    ("removedMs", "removed ms", ".0f"), ("atOnceMedianMs", f"{CLIENTS} at once", ".0f"),
    ("atOnceLastMs", "the last", ".0f"),
)  # fmt: skip


def table(rows: list[dict[str, Any]]) -> None:
    """Print the rows."""
    print("  ".join(f"{label:>{max(8, len(label))}}" for _, label, _ in COLUMNS))
    for row in rows:
        cells = ["-" if row[key] is None else format(row[key], form) for key, _, form in COLUMNS]
        print("  ".join(f"{cell:>{max(8, len(label))}}" for cell, (_, label, _) in zip(cells, COLUMNS, strict=True)))


def missed(rows: list[dict[str, Any]]) -> list[str]:
    """The goals of the project that our rows miss."""
    found: list[str] = []
    for row in rows:
        goal = GOALS_MS.get(row["tools"])
        if row["side"] != "codecall" or goal is None:
            continue
        if row["medianMs"] > goal:
            found.append(f"{row['tools']:,} tools: {row['medianMs']:.1f} ms at the median, the goal is {goal:g}")
        if row["builtSeconds"] > GOAL_BUILT_S:
            found.append(f"{row['tools']:,} tools: built in {row['builtSeconds']:.1f} s, the goal is {GOAL_BUILT_S:g}")
    return found


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=int, nargs="+", help="sizes of the catalog, each at least 20")
    parser.add_argument("--data", type=Path, help="JSON lines with tool definitions, instead of made ones")
    parser.add_argument("--rounds", type=int, help="queries for each figure, at least 5")
    parser.add_argument("--quick", action="store_true", help="100 and 1,000 tools, few rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    parser.add_argument("--one", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes: list[int] = arguments.tools or list(SIZES[:2] if arguments.quick else SIZES)
    rounds: int = arguments.rounds or (20 if arguments.quick else 60)
    if min(sizes) < 20:
        parser.error(f"--tools: at least 20 are needed, got {min(sizes)}")
    if rounds < 5:
        parser.error(f"--rounds: at least 5 are needed, got {rounds}")
    if arguments.data is not None and not arguments.data.is_file():
        parser.error(f"--data: there is no file {arguments.data}")
    if arguments.one:
        logging.disable(logging.WARNING)
        print(json.dumps(asyncio.run(measure(arguments.one, sizes[0], rounds, arguments.data))))
        return
    rows = [apart(side, size, rounds, arguments.data) for size in sizes for side in SIDES]
    conditions = {
        "python": platform.python_version(),
        "fastmcp": version("fastmcp"),
        "processors": os.cpu_count(),
        "rounds": rounds,
        "data": "made" if arguments.data is None else str(arguments.data),
    }
    if arguments.json:
        print(json.dumps({"conditions": conditions, "rows": rows}))
    else:
        table(rows)
        print("\n" + ", ".join(f"{key} {value}" for key, value in conditions.items()))
    failures = missed(rows)
    if arguments.check and failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
