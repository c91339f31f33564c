"""Where the processor time of one script goes, stage by stage.

    python benchmarks/stages.py [--rounds 200] [--tools 200] [--json] [--functions]

The stages of a worker run in this process, without a jail and one after the other; those of the server are measured
around real requests over FastMCP's in-memory transport, client included. Times are processor time in milliseconds, the
least of several batches, because anything else on the machine only adds to it.

    server   direct call       one `tools/call` of a plain tool: what FastMCP takes for any request
             execute           one `codecall:execute` of the script, calls of tools included
    worker   read              the script is parsed and validated
             instrument        counters are inserted, the plan of its calls is written
             read again        the same script once more: it is remembered
             build             an engine with the runtime is built
             run               the script is compiled and run, its calls answered
             free              the engine is freed

`--functions` counts the functions of Python that the server and its client call for a request instead, by package:
such counts are the same on every machine, so they say what a request is bound by. Those of the worker are not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastmcp import Client

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.jobs import Job, jobs
from benchmarks.shop import build, price_of
from codecall import CodeCallPlugin, load_preset
from codecall.sandbox import wire
from codecall.sandbox.agentscript.analysis.calls import build_plan
from codecall.sandbox.agentscript.dialect import ScriptCache
from codecall.sandbox.agentscript.engine.realm import Realm
from codecall.sandbox.agentscript.instrument import instrument
from codecall.sandbox.agentscript.policy import Rules
from codecall.sandbox.agentscript.validate import validate_script
from codecall.sandbox.agentscript.validator.names import no_host, no_namespaces
from codecall.sandbox.enclave import LimitsCache
from codecall.sandbox.worker.startup import warm_up

NAMES = ("constant", "1 call", "10 calls in turn", "100 calls in turn", "a new script of 2 KB, 3 calls")
"""Jobs of `vs_codemode.py` that are taken apart."""

BATCHES = 10
"""Most batches of each stage; the least of them counts."""

FIRST = 20
"""Most requests before those that count: the first start workers."""


def least_ms(rounds: int, stage: Callable[[], object]) -> float:
    """Processor time of one stage, in milliseconds."""
    best = float("inf")
    for _ in range(min(BATCHES, rounds)):
        began = time.process_time()
        for _ in range(max(1, rounds // BATCHES)):
            stage()
        best = min(best, (time.process_time() - began) / max(1, rounds // BATCHES))
    return best * 1_000


async def least_ms_of_requests(rounds: int, request: Callable[[], Awaitable[object]]) -> float:
    """The same for a request to a server of this process."""
    best = float("inf")
    for _ in range(min(BATCHES, rounds)):
        began = time.process_time()
        for _ in range(max(1, rounds // BATCHES)):
            await request()
        best = min(best, (time.process_time() - began) / max(1, rounds // BATCHES))
    return best * 1_000


def answer(call: wire.Call) -> wire.Answer:
    """What the shop answers to a call."""
    number = json.loads(call.input)["id"]
    value = {"id": number, "name": f"Item {number}", "price": price_of(number), "stock": number % 17}
    return wire.Answer(call.call, ok=True, payload=json.dumps(value))


def worker_stages(script: str, rounds: int) -> dict[str, float]:
    """The stages in a worker."""
    limits = LimitsCache(0).limits(load_preset("secure"))
    rules = Rules.from_limits(limits)
    text, checked = validate_script(script, rules)
    program = instrument(text, checked, max_iterations=limits.max_iterations)
    start, cache = wire.Start(script, limits), ScriptCache()
    cache.prepare(start, no_namespaces)
    fresh: list[Realm] = []
    used: list[Realm] = []

    def build_engine() -> None:
        fresh.append(Realm(limits, no_host, lambda: 0.0))

    def run_script() -> None:
        realm = fresh.pop()
        realm.start(program, context=None)
        while realm.outcome is None:
            realm.resume([answer(call) for call in realm.drain_calls(wire.CALLS_BUDGET)])
        used.append(realm)

    def instrument_script() -> None:
        instrument(text, checked, max_iterations=limits.max_iterations)
        build_plan(checked.outline)

    return {
        "read": least_ms(rounds, lambda: validate_script(script, rules)),
        "instrument": least_ms(rounds, instrument_script),
        "read again": least_ms(rounds, lambda: cache.prepare(start, no_namespaces)),
        "build": least_ms(rounds, build_engine),
        "run": least_ms(rounds, run_script),
        "free": least_ms(rounds, lambda: used.pop().close()),
    }


async def server_stages(job: Job, tools: int, rounds: int) -> dict[str, float]:
    """The stages in the server's process."""
    server, plain = build("shop", tools), build("plain", tools)
    CodeCallPlugin.init().install(server)
    async with Client(server) as client, Client(plain) as plain_client:
        script = job.numbered(0)[1]
        for _ in range(min(FIRST, rounds)):
            await client.call_tool("codecall:execute", {"script": script})
        return {
            "direct call": await least_ms_of_requests(rounds, lambda: plain_client.call_tool("items_get", {"id": 1})),
            "execute": await least_ms_of_requests(
                rounds, lambda: client.call_tool("codecall:execute", {"script": script})
            ),
        }


PACKAGES = ("codecall", "fastmcp", "mcp", "pydantic")
"""Packages whose functions are counted apart; all others, Python's own too, are one more."""

COUNTED = 50
"""Most requests of each kind whose functions are counted."""


async def count_functions(job: Job, tools: int, rounds: int) -> dict[str, dict[str, int]]:
    """How many functions a request calls, by package: a direct call, and the execution of the job's script."""
    server, plain = build("shop", tools), build("plain", tools)
    CodeCallPlugin.init().install(server)
    async with Client(server) as client, Client(plain) as plain_client:
        script = job.numbered(0)[1]
        kinds: dict[str, Callable[[], Awaitable[object]]] = {
            "direct call": lambda: plain_client.call_tool("items_get", {"id": 1}),
            job.name: lambda: client.call_tool("codecall:execute", {"script": script}),
        }
        counts: dict[str, dict[str, int]] = {}
        for kind, request in kinds.items():
            for _ in range(min(FIRST, rounds)):
                await request()
            with cProfile.Profile() as profile:
                for _ in range(counted := min(COUNTED, rounds)):
                    await request()
            counts[kind] = functions_by_package(profile, counted)
        return counts


def functions_by_package(profile: cProfile.Profile, requests: int) -> dict[str, int]:
    """The calls of a profile of so many requests, for one of them and by the package of what was called; all last."""
    counts: Counter[str] = Counter()
    statistics: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, _), (_, calls, *_) in statistics.items():
        parts = Path(file).parts
        package = next((name for name in PACKAGES if name in parts[-8:]), "others")
        counts[package] += calls
    shares = {name: round(counts[name] / requests) for name in (*PACKAGES, "others")}
    return shares | {"all": sum(shares.values())}


def print_table(title: str, columns: dict[str, dict[str, str]]) -> None:
    """A table in Markdown."""
    print(f"| {title} | {' | '.join(columns)} |")
    print(f"|---|{'---:|' * len(columns)}")
    for row in next(iter(columns.values())):
        print(f"| {row} | {' | '.join(cells[row] for cells in columns.values())} |")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Where the processor time of one script goes.")
    parser.add_argument("--rounds", type=int, default=200, help="runs of each stage (default %(default)s)")
    parser.add_argument("--tools", type=int, default=200, help="tools on the server (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--functions", action="store_true", help="count functions instead of measuring time")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.tools < 2:
        parser.error("--rounds must be at least 1 and --tools at least 2")
    chosen = [job for job in jobs() if job.name in NAMES]
    if arguments.functions:
        counts: dict[str, dict[str, int]] = {}
        for job in chosen:
            counts |= asyncio.run(count_functions(job, arguments.tools, arguments.rounds))
        if arguments.json:
            print(json.dumps(counts, indent=2))
        else:
            shown = {kind: {name: f"{count:,}" for name, count in each.items()} for kind, each in counts.items()}
            print_table("functions called", shown)
        return 0
    warm_up()
    results: dict[str, dict[str, float]] = {}
    for job in chosen:
        stages = asyncio.run(server_stages(job, arguments.tools, arguments.rounds))
        results[job.name] = stages | worker_stages(job.numbered(0)[1], arguments.rounds)
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        shown = {name: {stage: f"{ms:.2f}" for stage, ms in stages.items()} for name, stages in results.items()}
        print_table("processor time in ms", shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
