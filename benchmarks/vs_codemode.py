"""CodeCall beside FastMCP's own CodeMode: the same tools, the same work, interleaved in one run.

    python benchmarks/vs_codemode.py [--tools 200] [--rounds 20] [--json] [--check]
        [--write docs/operations/performance.md]

Three servers with identical tools run in this process; clients reach them through FastMCP's in-memory transport:

- CodeMode: `CodeMode()` of `fastmcp[code-mode]` with its published default sandbox and limits. One thing is changed:
  `max_tool_calls=None`, because its default of 50 would refuse the jobs with 100 calls.
- CodeCall: `CodeCallPlugin.init()` with its defaults, which means the `secure` preset.
- direct: a FastMCP tool that makes the same calls with `ctx.fastmcp.call_tool`; nothing that runs scripts for a model
  can cost less. For the constant it is a tool that returns it.

Every job runs once on each side before anything is timed. Then each round runs it on all sides, starting with another
side each time, and every answer is compared with the right one. The table shows medians in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastmcp import Client, Context, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.jobs import Job, jobs
from benchmarks.shop import build
from codecall import CodeCallPlugin

DEFAULT_TOOLS = 200
"""A server of the size code mode is for. CodeMode lists all tools for every call a script makes, CodeCall once for a
script, so the ratios grow with this number; `--tools 24` shows them for a server as small as `examples/crm`."""


Run = Callable[[Client[Any], Job], Awaitable[object]]


async def _codemode(client: Client[Any], job: Job) -> object:
    result = await client.call_tool("execute", {"code": job.python})
    content = result.structured_content
    if content is not None and set(content) == {"result"}:
        return content["result"]
    return json.loads(result.content[0].text)  # type: ignore[union-attr]


async def _codecall(client: Client[Any], job: Job) -> object:
    envelope = (await client.call_tool("codecall:execute", {"script": job.script})).structured_content or {}
    if envelope.get("status") != "ok":
        raise AssertionError(f"{job.name}: {envelope}")
    return envelope["result"]


async def _direct(client: Client[Any], job: Job) -> object:
    return (await client.call_tool("perform", {"job": job.name})).structured_content["result"]  # type: ignore[index]


@dataclass(frozen=True)
class Side:
    """One way of doing the work, with its server."""

    name: str
    server: FastMCP
    run: Run


def sides(tools: int, work: list[Job]) -> list[Side]:
    """The three servers."""
    codemode = build("codemode", tools)
    codemode.add_transform(CodeMode(max_tool_calls=None))
    codecall = build("codecall", tools)
    CodeCallPlugin.init().install(codecall)
    direct = build("direct", tools)
    by_name = {job.name: job.direct for job in work}

    async def perform(job: str, ctx: Context) -> Any:
        return {"result": await by_name[job](ctx)}

    direct.tool(perform)
    return [
        Side("codemode", codemode, _codemode),
        Side("codecall", codecall, _codecall),
        Side("direct", direct, _direct),
    ]


async def _timed(side: Side, clients: list[Client[Any]], job: Job) -> float:
    """Milliseconds until all clients have the right answer."""
    started = time.perf_counter()
    for _ in range(job.repeat):
        if job.clients == 1:
            answers = [await side.run(clients[0], job)]
        else:
            answers = await asyncio.gather(*[side.run(client, job) for client in clients[: job.clients]])
    elapsed = (time.perf_counter() - started) * 1_000 / job.repeat
    for answer in answers:
        if answer != job.answer:
            raise AssertionError(f"{side.name}, {job.name}: got {answer!r}, expected {job.answer!r}")
    return elapsed


async def measure(tools: int, rounds: int, work: list[Job]) -> dict[str, dict[str, float]]:
    """Median milliseconds by job and side."""
    async with AsyncExitStack() as stack:
        competitors = sides(tools, work)
        most = max(job.clients for job in work)
        clients = {
            side.name: [await stack.enter_async_context(Client(side.server)) for _ in range(most)]
            for side in competitors
        }
        medians: dict[str, dict[str, float]] = {}
        for job in work:
            times: dict[str, list[float]] = {side.name: [] for side in competitors}
            for side in competitors:
                await _timed(side, clients[side.name], job)
            gc.collect()
            for turn in range(rounds):
                shift = turn % len(competitors)
                for side in competitors[shift:] + competitors[:shift]:
                    times[side.name].append(await _timed(side, clients[side.name], job))
            medians[job.name] = {name: statistics.median(values) for name, values in times.items()}
        return medians


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    job: Job
    codemode: float
    codecall: float
    direct: float

    @property
    def ratio(self) -> float:
        """How many times as long CodeMode takes."""
        return self.codemode / self.codecall

    @property
    def over_direct(self) -> float:
        """How many times as long CodeCall takes as direct calls."""
        return self.codecall / self.direct

    @property
    def met(self) -> bool | None:
        """Whether the goals hold; None when the job has none."""
        goals = [self.ratio >= self.job.target] if self.job.target is not None else []
        if self.job.direct_target is not None:
            goals.append(self.over_direct <= self.job.direct_target)
        return all(goals) if goals else None

    @property
    def goal(self) -> str:
        """The goals in words."""
        parts = [] if self.job.target is None else [f"≥ {self.job.target:g}x"]
        if self.job.direct_target is not None:
            parts.append(f"≤ {self.job.direct_target:g}x direct")
        return ", ".join(parts)


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


def table(rows: list[Row], about: dict[str, object]) -> str:
    """The result as a Markdown table."""
    words = {True: "yes", False: "NO", None: ""}
    lines = [
        ", ".join(f"{key} {value}" for key, value in about.items()) + "; medians in milliseconds",
        "",
        "| job | CodeMode | CodeCall | direct | CodeMode / CodeCall | CodeCall / direct | goal | met |",
        "|---|---:|---:|---:|---:|---:|---|---|",
    ]
    lines += [
        f"| {row.job.name} | {row.codemode:.2f} | {row.codecall:.2f} | {row.direct:.2f} "
        f"| {row.ratio:.1f}x | {row.over_direct:.2f}x | {row.goal} | {words[row.met]} |"
        for row in rows
    ]
    return "\n".join(lines)


def write_between(file: Path, text: str) -> None:
    """Replace what stands between the two benchmark comments of `file`."""
    before, first, rest = file.read_text(encoding="utf-8").partition("<!-- benchmark -->\n")
    _, last, after = rest.partition("<!-- end of benchmark -->")
    if not last:
        raise SystemExit(f"{file} has no benchmark comments")
    file.write_text(f"{before}{first}{text}\n{last}{after}", encoding="utf-8")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="CodeCall beside FastMCP's CodeMode.")
    parser.add_argument("--tools", type=int, default=DEFAULT_TOOLS, help="tools on each server (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="timed rounds of each job (default %(default)s)")
    parser.add_argument("--only", default="", help="jobs whose name contains this")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between FILE's benchmark comments")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless every goal is met")
    arguments = parser.parse_args()
    if arguments.tools < 2 or arguments.rounds < 1:
        parser.error("--tools must be at least 2 and --rounds at least 1")
    work = [job for job in jobs() if arguments.only in job.name]
    if not work:
        parser.error(f"--only {arguments.only!r} matches no job")
    medians = asyncio.run(measure(arguments.tools, arguments.rounds, work))
    rows = [Row(job, **medians[job.name]) for job in work]
    about = conditions(arguments.tools, arguments.rounds)
    if arguments.json:
        results = [
            {
                "job": row.job.name,
                "codemodeMs": row.codemode,
                "codecallMs": row.codecall,
                "directMs": row.direct,
                "ratio": row.ratio,
                "overDirect": row.over_direct,
                "goal": row.goal or None,
                "met": row.met,
            }
            for row in rows
        ]
        print(json.dumps({"conditions": about, "jobs": results}, indent=2))
    else:
        print(table(rows, about))
    if arguments.write is not None:
        write_between(arguments.write, table(rows, about))
    return 1 if arguments.check and any(row.met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
