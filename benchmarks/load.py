"""Many clients at once, over HTTP, against a real server process: CodeCall beside FastMCP's CodeMode.

    python benchmarks/load.py [--clients 60,200] [--seconds 60] [--owners 1,20] [--check]
        [--write docs/operations/load.md]

For each number of clients, CodeCall's server runs first and then CodeMode's, each in a process of its own, started with
`FastMCP.run("http")`, with the same 200 tools and everything else at its defaults. For CodeCall this means 8 workers,
and that a script waits for one of them no longer than 30 s and among 256 at most; for CodeMode, 50 calls a script.

Every client is a connection with a session (`load_client.py`), lean so that it leaves the processor to the server, and
the same for both sides. It runs one script after the other, of eight kinds in an order of its own, without a pause. The
clock starts once each client has had an answer of every kind: before that, the longest scripts are still under way and
the shortest alone would count. What is answered before it stops is counted. Every answer is compared with the right
one; anything else is an error, whenever it comes. Before all that, the clients call one plain tool of
the same server: this is what HTTP and FastMCP cost, and no script can be faster.

`--owners 20`: clients have access tokens of so many identities; CodeCall lets no worker serve two of them. With one,
the clients are anonymous and come from one address, which makes them one caller.

Memory is the most seen: RSS of the server, and PSS of the processes it started (workers, fork server). Processor time
is that of the server and of those while the clock ran, for each script; on a machine with other work it tells more than
the clock. `clients` is what the process with the clients took. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.load_client import Session
from benchmarks.load_processes import Usage, cpu_s
from benchmarks.load_report import report
from benchmarks.load_work import KINDS, PLAIN, SIDES, Kind, create_server, perform, token
from benchmarks.vs_codemode import DEFAULT_TOOLS, conditions, write_between

PATIENCE_S = 180.0
"""After which a client gives up; longer than either server lets a script wait."""

GOAL = 3.0
"""Times CodeMode's throughput."""


@dataclass
class Load:
    """What clients saw of a server."""

    times: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds of each script that was answered while the clock ran, by kind."""
    wrong: Counter[str] = field(default_factory=Counter)
    done: int = 0
    """Scripts answered, also before and after."""

    def percentiles(self, kind: str | None = None) -> dict[str, float]:
        """p50, p95 and p99 of a kind, or of all; 0 where there is none."""
        names = [kind] if kind is not None else list(self.times)
        times = sorted(itertools.chain.from_iterable(self.times.get(name, []) for name in names))
        return {f"p{part}": times[len(times) * part // 100] if times else 0 for part in (50, 95, 99)}


async def put_load(
    side: str, sessions: Sequence[Session], kinds: Sequence[Kind], seconds: float, pid: int
) -> dict[str, Any]:
    """Let the clients work for that time; what they saw, as JSON has it."""
    load, usage = Load(), Usage(pid)
    cold = len(sessions)
    warm = asyncio.Event()
    running = stopped = False

    def scripts(chance: random.Random) -> Iterator[Kind]:
        while True:
            yield from chance.sample(kinds, len(kinds))

    async def client(number: int, session: Session) -> None:
        nonlocal cold
        for count, kind in enumerate(scripts(random.Random(number)), 1):
            began = time.perf_counter()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    wrong = await perform(side, session, kind)
            except TimeoutError:
                wrong = f"no answer within {PATIENCE_S:g} s"
            load.done += 1
            if wrong is not None:
                load.wrong[f"{kind.name}: {wrong}"] += 1
            if running:
                load.times.setdefault(kind.name, []).append(1_000 * (time.perf_counter() - began))
            cold -= count == len(kinds)
            if not cold:
                warm.set()
            if stopped:
                return

    async with asyncio.TaskGroup() as group:
        for number, session in enumerate(sessions):
            group.create_task(client(number, session))
        await warm.wait()
        before, own = usage.processor(), cpu_s()
        running, began = True, time.perf_counter()
        async with usage.watched():
            await asyncio.sleep(seconds)
        running, took = False, time.perf_counter() - began
        spent = {name: value - before[name] for name, value in usage.processor().items()}
        own = cpu_s() - own
        stopped = True
    counted = sum(map(len, load.times.values()))
    return {
        "perSecond": counted / took,
        "done": load.done,
        **load.percentiles(),
        "kinds": {kind.name: load.percentiles(kind.name) for kind in kinds},
        "errors": load.wrong.total(),
        "wrong": dict(load.wrong.most_common(5)),
        "memoryMb": usage.peak,
        "cpuMs": {name: 1_000 * value / max(counted, 1) for name, value in {**spent, "clients": own}.items()},
    }


async def measure(side: str, clients: int, owners: int, options: argparse.Namespace) -> dict[str, Any]:
    """What so many clients see of a new server."""
    async with server(side, owners, options) as (port, pid):
        tokens = [token(number % owners) if owners > 1 else None for number in range(clients)]
        sessions = [Session(port, each) for each in tokens]
        await asyncio.gather(*[session.open() for session in sessions])
        gc.collect()
        try:
            plain = await put_load(side, sessions, [PLAIN], max(0.3, options.seconds / 10), pid)
            mixed = await put_load(side, sessions, KINDS, options.seconds, pid)
        finally:
            for session in sessions:
                session.close()
    return {"plain": plain, **mixed}


@asynccontextmanager
async def server(side: str, owners: int, options: argparse.Namespace) -> AsyncGenerator[tuple[int, int]]:
    """A server process: its port and its process id."""
    with socket.create_server(("127.0.0.1", 0), backlog=1_024) as listening:
        port, fd = listening.getsockname()[1], listening.fileno()
        command = [sys.executable, __file__, "--serve", str(fd), "--side", side]
        command += ["--owners", str(owners), "--tools", str(options.tools)]
        if options.profile is not None:
            command += ["--profile", str(options.profile)]
        environment = {**os.environ, "FASTMCP_LOG_LEVEL": "CRITICAL"}  # what fails here is meant to
        process = subprocess.Popen(command, pass_fds=[fd], env=environment)  # noqa: ASYNC220 - nothing else happens yet
    try:
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


def serve(options: argparse.Namespace) -> None:
    """Be the server, until told to stop."""
    listening = socket.socket(fileno=options.serve)
    mcp = create_server(options.side, options.tools, options.owners[0])
    profile = cProfile.Profile(time.process_time)  # others use the machine, too
    if options.profile is not None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # uvicorn sends it again at its end
        profile.enable()
    try:
        mcp.run("http", show_banner=False, sockets=[listening], uvicorn_config={"log_level": "error"})
    finally:
        if options.profile is not None:
            profile.disable()
            profile.dump_stats(options.profile / f"{options.side}-{os.getpid()}.prof")


async def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Both sides, for each number of owners and of clients."""
    results: list[dict[str, Any]] = []
    for owners, clients in itertools.product(options.owners, options.clients):
        found = {side: await measure(side, clients, owners, options) for side in SIDES}
        ratio = found["codecall"]["perSecond"] / max(found["codemode"]["perSecond"], 0.001)
        results.append({"clients": clients, "owners": owners, "ratio": ratio, **found})
        print(f"{clients} clients, {owners} owners: {ratio:.1f}x", file=sys.stderr, flush=True)
    return results


def missed(results: Sequence[dict[str, Any]]) -> list[str]:
    """What is not as it should be with the most clients."""
    most = max(result["clients"] for result in results)
    found: list[str] = []
    for result in [each for each in results if each["clients"] == most]:
        where = f"{result['clients']} clients, {result['owners']} owners"
        errors = result["codecall"]["errors"] + result["codecall"]["plain"]["errors"]
        if result["ratio"] < GOAL:
            found.append(f"{where}: {result['ratio']:.1f} times CodeMode's throughput; the goal is {GOAL:g}")
        if errors:
            found.append(f"{where}: {errors} errors of CodeCall")
    return found


def numbers(text: str) -> list[int]:
    """Positive numbers with commas between them."""
    found = [int(part) for part in text.split(",")]
    if min(found) < 1:
        raise ValueError(text)
    return found


def main() -> int:
    """Measure and print, or be the server."""
    parser = argparse.ArgumentParser(description="CodeCall beside FastMCP's CodeMode, with many clients over HTTP.")
    parser.add_argument("--clients", type=numbers, default=[60, 200], help="how many at once (default 60,200)")
    parser.add_argument("--owners", type=numbers, default=[1], help="identities they have; 1: anonymous (default 1)")
    parser.add_argument("--seconds", type=float, default=60, help="how long each is measured (default %(default)s)")
    parser.add_argument("--tools", type=int, default=DEFAULT_TOOLS, help="tools on each server (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="4 clients, half a second, 20 tools: does it work?")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables between FILE's benchmark comments")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless the goals are met")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="where servers leave profiles (cProfile)")
    parser.add_argument("--serve", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=[*SIDES], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options)
        return 0
    if options.tools < 4 or options.seconds <= 0:
        parser.error("--tools must be at least 4 and --seconds more than 0")
    if options.quick:
        options.clients, options.seconds, options.tools = [4], 0.5, 20
    results = asyncio.run(compare(options))
    about = {key: value for key, value in conditions(options.tools, 0).items() if key != "rounds"}
    about |= {"seconds": f"{options.seconds:g}"}
    print(json.dumps({"conditions": about, "results": results}, indent=2) if options.json else report(results, about))
    if options.write is not None:
        write_between(options.write, report(results, about))
    wrong = missed(results)
    if options.check:
        print("\n".join(wrong), file=sys.stderr)
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
