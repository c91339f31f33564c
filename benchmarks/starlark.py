"""Starlark scripts beside JavaScript ones: the same work on one server, in one run, in turns.

    python benchmarks/starlark.py [--rounds N] [--tools N] [--only WORD] [--json] [--check]

`execute_tool_script` runs the Starlark ones, `codecall:execute` the others, under the defaults of both. `--check` fails
where a ratio is above its target.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from fastmcp import Client, FastMCP

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.shop import build, price_of
from codecall import CodeCallPlugin

CALLS = 100
SUM = sum(price_of(number) for number in range(CALLS))


class Job(NamedTuple):
    """The same work in both languages."""

    name: str
    javascript: str
    starlark: str
    answer: object
    target: float | None = None
    """The ratio it is to stay within."""
    repeat: int = 1
    """Runs of one turn."""


JOBS = (
    Job("constant", "return 42;", "return 42", 42, 2.0, 10),
    Job(
        "1 call",
        "return (await callTool('items_get', { id: 1 })).price;",
        'return call_tool("items_get", id=1)["price"]',
        price_of(1),
        None,
        5,
    ),
    Job(
        f"{CALLS} calls in turn",
        f"let sum = 0; for (let id = 0; id < {CALLS}; id++) sum += (await callTool('items_get', {{ id }})).price;"
        "return sum;",
        f'total = 0\nfor id in range({CALLS}):\n  total += items_get(id=id)["price"]\nreturn total',
        SUM,
    ),
    Job(
        f"{CALLS} calls with parallel",
        f"const ids = [...Array({CALLS}).keys()];"
        "const items = await __safe_parallel(ids.map((id) => () => callTool('items_get', { id })));"
        "return items.reduce((sum, item) => sum + item.price, 0);",
        f"items = parallel([lambda id=id: items_get(id=id) for id in range({CALLS})])\n"
        'return sum([item["price"] for item in items])',
        SUM,
        1.3,
    ),
    Job(
        "10,000 turns of a loop",
        "let sum = 0; for (let i = 0; i < 100; i++) for (let j = 0; j < 100; j++) sum += (i * j) % 7; return sum;",
        "total = 0\nfor i in range(100):\n  for j in range(100):\n    total += (i * j) % 7\nreturn total",
        sum((i * j) % 7 for i in range(100) for j in range(100)),
    ),
)
"""What is measured."""


def create_server(tools: int) -> FastMCP[Any]:
    """The shop with so many tools, and scripts in both languages."""
    server = build("shop", tools)
    CodeCallPlugin.init(starlark=True, audit={"sinks": []}).install(server)
    return server


async def _run(client: Client[Any], job: Job, language: str) -> float:
    """Milliseconds of one run.

    Raises:
        ValueError: the answer is not the right one.
    """
    tool, script = (
        ("codecall:execute", job.javascript) if language == "javascript" else ("execute_tool_script", job.starlark)
    )
    began = time.perf_counter()
    for _ in range(job.repeat):
        answer = await client.call_tool(tool, {"script": script}, raise_on_error=False)
        if (answer.structured_content or {}).get("result") != job.answer:
            raise ValueError(f"{job.name} in {language} gave {answer.content}")
    return (time.perf_counter() - began) * 1000 / job.repeat


async def measure(rounds: int, tools: int, only: str) -> dict[str, dict[str, float | None]]:
    """Milliseconds of each job in both languages: the medians of some rounds in turns, and their ratio."""
    results: dict[str, dict[str, float | None]] = {}
    async with Client(create_server(tools)) as client:
        for job in JOBS:
            if only not in job.name:
                continue
            times: dict[str, list[float]] = {"javascript": [], "starlark": []}
            for number in range(rounds + 1):
                gc.collect()
                for language in sorted(times, reverse=bool(number % 2)):
                    times[language].append(await _run(client, job, language))
            javascript, starlark = (statistics.median(times[name][1:]) for name in ("javascript", "starlark"))
            results[job.name] = {
                "javascript_ms": round(javascript, 3),
                "starlark_ms": round(starlark, 3),
                "ratio": round(starlark / javascript, 2),
                "target": job.target,
            }
    return results


def main() -> int:
    """Print what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tools", type=int, default=24)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    results = asyncio.run(measure(options.rounds, options.tools, options.only))
    if options.json:
        print(json.dumps(results))
    else:
        print(f"{'job':28} {'JavaScript':>11} {'Starlark':>11} {'ratio':>7}  target")
        for name, row in results.items():
            target = f"{row['target']:.1f}" if row["target"] else ""
            print(
                f"{name:28} {row['javascript_ms']:8.2f} ms {row['starlark_ms']:8.2f} ms {row['ratio']:7.2f}  {target}"
            )
    missed = [name for name, row in results.items() if row["target"] and (row["ratio"] or 0) > row["target"]]
    if options.check and missed:
        print(f"above the target: {', '.join(missed)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
