"""CodeCall beside FastMCP's own CodeMode: the same tools, the same work, interleaved in one run.

    python benchmarks/vs_codemode.py [--tools 200] [--small 24] [--rounds 20] [--only WORD] [--json] [--check]
        [--against CHECKOUT [--turns 3]] [--write README.md …]

Servers with identical tools run in this process; clients reach them through FastMCP's in-memory transport:

- CodeMode: `CodeMode()` of `fastmcp[code-mode]` with its published default sandbox and limits. One thing is changed:
  `max_tool_calls=None`, because its default of 50 would refuse the jobs with 100 calls.
- CodeCall: `CodeCallPlugin.init()` with its defaults, which means the `secure` preset.
- direct: one `tools/call` of a plain tool, which is what FastMCP takes for any request.
- inside: a FastMCP tool that makes the same calls with `ctx.fastmcp.call_tool`; nothing that runs scripts for a model
  can cost less.

Every job runs once on each side before anything is timed. Then each round runs it on all sides, starting with another
side each time, and every answer is compared with the right one. The table shows medians in milliseconds. Short jobs
are measured a second time on servers with few tools. `server` and `workers` are the processor time of CodeCall for one
run: of this process, clients included, and of its workers (Linux only).

`--against CHECKOUT` runs the same jobs with the `codecall` of another checkout, which has a `.venv` of its own, and
with this one by turns, and prints how the two compare: single runs on a shared machine say little.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastmcp import Client, Context, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.jobs import Job, jobs
from benchmarks.load_processes import children_cpu_ms
from benchmarks.shop import build
from codecall import CodeCallPlugin

DEFAULT_TOOLS = 200
"""A server of the size code mode is for. CodeMode lists all tools for every call a script makes, CodeCall once for a
script, so the ratios grow with this number."""

SMALL_TOOLS = 24
"""A server as small as `examples/crm`."""

SETTLE_S = 2.0
"""Time for what a server loads after its start, in seconds."""

Run = Callable[[Client[Any], Job, int], Awaitable[object]]


async def _codemode(client: Client[Any], job: Job, number: int) -> object:
    result = await client.call_tool("execute", {"code": job.numbered(number)[0]})
    content = result.structured_content
    if content is not None and set(content) == {"result"}:
        return content["result"]
    return json.loads(result.content[0].text)  # type: ignore[union-attr]


async def _codecall(client: Client[Any], job: Job, number: int) -> object:
    script = job.numbered(number)[1]
    envelope = (await client.call_tool("codecall:execute", {"script": script})).structured_content or {}
    if envelope.get("status") != "ok":
        raise AssertionError(f"{job.name}: {envelope}")
    return envelope["result"]


async def _inside(client: Client[Any], job: Job, _number: int) -> object:
    return (await client.call_tool("perform", {"job": job.name})).structured_content["result"]  # type: ignore[index]


async def _direct(client: Client[Any], job: Job, _number: int) -> object:
    await client.call_tool("items_get", {"id": 1})
    return job.answer


@dataclass(frozen=True)
class Side:
    """One way of doing the work, with its server."""

    name: str
    server: FastMCP
    run: Run


def sides(tools: int, work: list[Job]) -> list[Side]:
    """The four ways."""
    codemode = build("codemode", tools)
    codemode.add_transform(CodeMode(max_tool_calls=None))
    codecall = build("codecall", tools)
    CodeCallPlugin.init().install(codecall)
    plain = build("plain", tools)
    by_name = {job.name: job.inside for job in work}

    async def perform(job: str, ctx: Context) -> Any:
        return {"result": await by_name[job](ctx)}

    plain.tool(perform)
    return [
        Side("codemode", codemode, _codemode),
        Side("codecall", codecall, _codecall),
        Side("direct", plain, _direct),
        Side("inside", plain, _inside),
    ]


_numbers = itertools.count(1)


async def _timed(side: Side, clients: list[Client[Any]], job: Job) -> float:
    """Milliseconds until all clients have the right answer."""
    started = time.perf_counter()
    for _ in range(job.repeat):
        answers = await asyncio.gather(*[side.run(client, job, next(_numbers)) for client in clients[: job.clients]])
    elapsed = (time.perf_counter() - started) * 1_000 / job.repeat
    for answer in answers:
        if answer != job.answer:
            raise AssertionError(f"{side.name}, {job.name}: got {answer!r}, expected {job.answer!r}")
    return elapsed


@dataclass(frozen=True)
class Row:
    """One line of the table: medians in milliseconds."""

    job: str
    tools: int
    codemode: float
    codecall: float
    direct: float
    inside: float
    server: float
    """Processor time of this process for one run of CodeCall."""
    workers: float
    """The same of its workers."""

    @property
    def ratio(self) -> float:
        """How many times as long CodeMode takes."""
        return self.codemode / self.codecall

    def goals(self, job: Job) -> list[tuple[str, bool]]:
        """Each goal of the job in words, and whether it is met."""
        found: list[tuple[str, bool]] = []
        if job.target is not None:
            found.append((f"≥ {job.target:g}x", self.ratio >= job.target))
        if job.direct_target is not None:
            found.append((f"≤ {job.direct_target:g} direct", self.codecall <= job.direct_target * self.direct))
        if job.inside_target is not None:
            found.append((f"≤ {job.inside_target:g} inside", self.codecall <= job.inside_target * self.inside))
        return found


async def measure(tools: int, rounds: int, work: list[Job]) -> list[Row]:
    """One row for each job."""
    async with AsyncExitStack() as stack:
        competitors = sides(tools, work)
        most = max(job.clients for job in work)
        clients = {
            side.name: [await stack.enter_async_context(Client(side.server)) for _ in range(most)]
            for side in competitors
        }
        await asyncio.sleep(SETTLE_S)
        return [await _row(job, tools, rounds, competitors, clients) for job in work]


async def _row(
    job: Job, tools: int, rounds: int, competitors: list[Side], clients: dict[str, list[Client[Any]]]
) -> Row:
    times: dict[str, list[float]] = {side.name: [] for side in competitors}
    processor: dict[str, list[float]] = {"server": [], "workers": []}
    for side in competitors:
        await _timed(side, clients[side.name], job)
    gc.collect()
    for turn in range(rounds):
        shift = turn % len(competitors)
        for side in competitors[shift:] + competitors[:shift]:
            own, others = time.process_time(), children_cpu_ms(os.getpid())
            times[side.name].append(await _timed(side, clients[side.name], job))
            if side.name == "codecall":
                processor["server"].append((time.process_time() - own) * 1_000)
                processor["workers"].append(children_cpu_ms(os.getpid()) - others)
    medians = {name: statistics.median(values) for name, values in times.items()}
    # Medians too: a worker that ends takes its figures along.
    scripts = job.repeat * job.clients
    used = {name: statistics.median(values) / scripts for name, values in processor.items()}
    return Row(job.name, tools, **medians, **used)


def conditions(tools: int, rounds: int) -> dict[str, object]:
    """What the numbers were measured on."""
    packages = ("fastmcp", "pydantic-monty", "quickjs-ng")
    return {
        "tools": tools,
        "rounds": rounds,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        **{name: version(name) for name in packages},
    }


def table(rows: Sequence[Row], about: dict[str, object]) -> str:
    """The result as a Markdown table."""
    by_name = {job.name: job for job in jobs()}
    lines = [
        ", ".join(f"{key} {value}" for key, value in about.items()) + "; medians in milliseconds",
        "",
        "| job | tools | CodeMode | CodeCall | CodeMode / CodeCall | direct | inside | server | workers | goals |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        goals = ", ".join(words if met else f"**{words} missed**" for words, met in row.goals(by_name[row.job]))
        lines.append(
            f"| {row.job} | {row.tools} | {row.codemode:.2f} | {row.codecall:.2f} | {row.ratio:.1f} | {row.direct:.2f} "
            f"| {row.inside:.2f} | {row.server:.2f} | {row.workers:.2f} | {goals} |"
        )
    return "\n".join(lines)


def write_between(file: Path, text: str) -> None:
    """Replace what stands between the two benchmark comments of `file`."""
    before, first, rest = file.read_text(encoding="utf-8").partition("<!-- benchmark -->\n")
    _, last, after = rest.partition("<!-- end of benchmark -->")
    if not last:
        raise SystemExit(f"{file} has no benchmark comments")
    file.write_text(f"{before}{first}{text}\n{last}{after}", encoding="utf-8")


_BY_TURNS = """
import runpy, sys
import codecall
sys.argv = ["vs_codemode.py", *sys.argv[2:]]
runpy.run_path({script!r}, run_name="__main__")
"""
"""Imports the checkout's own `codecall` first, then runs this file with it."""


def compare(checkout: Path, turns: int, options: list[str]) -> str:
    """A table of both checkouts, run by turns with the same jobs; least and median of CodeCall's times."""
    here = Path(__file__).resolve()
    pythons = {"other": checkout / ".venv/bin/python", "this": Path(sys.executable)}
    found: dict[str, dict[tuple[str, int], list[Row]]] = {side: {} for side in pythons}
    for _ in range(turns):
        for side, python in pythons.items():
            command = [str(python), "-c", _BY_TURNS.format(script=str(here)), "--", *options, "--json"]
            printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=here.parent.parent)
            for fields in json.loads(printed.stdout)["jobs"]:
                row = Row(**fields)
                found[side].setdefault((row.job, row.tools), []).append(row)
    lines = [
        f"CodeCall of {checkout} (other) and of {here.parent.parent} (this), {turns} turns of each; milliseconds",
        "",
        "| job | tools | other | this | this / other | least, other | least, this | CodeMode / CodeCall, this |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for (job, tools), rows in found["this"].items():
        this = [row.codecall for row in rows]
        other = [row.codecall for row in found["other"][job, tools]]
        medians = statistics.median(other), statistics.median(this)
        ratio = statistics.median(row.ratio for row in rows)
        lines.append(
            f"| {job} | {tools} | {medians[0]:.2f} | {medians[1]:.2f} | {medians[1] / medians[0]:.2f} "
            f"| {min(other):.2f} | {min(this):.2f} | {ratio:.1f} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="CodeCall beside FastMCP's CodeMode.")
    parser.add_argument("--tools", type=int, default=DEFAULT_TOOLS, help="tools on each server (default %(default)s)")
    parser.add_argument(
        "--small", type=int, default=SMALL_TOOLS, help="tools of the small servers; 0: none (default %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=20, help="timed rounds of each job (default %(default)s)")
    parser.add_argument("--only", default="", help="jobs whose name contains this")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between FILE's benchmark comments")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless every goal is met")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare with another checkout, by turns")
    parser.add_argument("--turns", type=int, default=3, help="runs of each checkout (default %(default)s)")
    arguments = parser.parse_args()
    if arguments.tools < 2 or arguments.rounds < 1 or arguments.turns < 1:
        parser.error("--tools must be at least 2, --rounds and --turns at least 1")
    if 0 != arguments.small < 2:
        parser.error("--small must be 0, or at least 2")
    work = [job for job in jobs() if arguments.only in job.name]
    if not work:
        parser.error(f"--only {arguments.only!r} matches no job")
    if arguments.against is not None:
        if not (arguments.against / ".venv/bin/python").exists():
            parser.error(f"--against {arguments.against} has no .venv/bin/python")
        sizes = ["--tools", str(arguments.tools), "--small", str(arguments.small), "--only", arguments.only]
        print(compare(arguments.against.resolve(), arguments.turns, [*sizes, "--rounds", str(arguments.rounds)]))
        return 0
    rows = asyncio.run(measure(arguments.tools, arguments.rounds, work))
    short = [job for job in work if job.small]
    if arguments.small and short:
        rows += asyncio.run(measure(arguments.small, arguments.rounds, short))
    about = conditions(arguments.tools, arguments.rounds)
    print(
        json.dumps({"conditions": about, "jobs": [asdict(row) for row in rows]}, indent=2)
        if arguments.json
        else table(rows, about)
    )
    if arguments.write is not None:
        write_between(arguments.write, table(rows, about))
    by_name = {job.name: job for job in work}
    missed = any(not met for row in rows for _, met in row.goals(by_name[row.job]))
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
