"""What a fresh process for every script costs: `python benchmarks/once_only.py`.

Prints the median of a constant script with workers that are used once and with workers that are reused, both with
spares ready, in alternating rounds of one run; scripts a second with fresh processes; and how long it takes until a
script runs after a worker was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import time

from codecall.sandbox.enclave import Enclave

SCRIPT = "return 1 + 1"

PAUSE_S = 0.03
"""Between two scripts: enough for a spare to be made."""


async def timed(enclave: Enclave) -> float:
    """Milliseconds of one script."""
    started = time.perf_counter()
    result = await enclave.execute(SCRIPT)
    assert result.value == 2, result.error
    return (time.perf_counter() - started) * 1000


async def latency(rounds: int) -> tuple[float, float]:
    """Medians with fresh and with reused workers, in milliseconds."""
    times: dict[str, list[float]] = {"fresh": [], "reused": []}
    async with (
        Enclave("locked_down") as fresh,
        Enclave("locked_down", worker_max_runs=1_000_000) as reused,
    ):
        for enclave in (fresh, reused):
            for _ in range(10):
                await timed(enclave)
        for _ in range(rounds):
            for name, enclave in (("fresh", fresh), ("reused", reused)):
                await asyncio.sleep(PAUSE_S)
                times[name].append(await timed(enclave))
    return statistics.median(times["fresh"]), statistics.median(times["reused"])


async def throughput(scripts: int, clients: int) -> float:
    """Scripts a second when each has a process of its own."""
    async with Enclave("locked_down", pool={"min_workers": clients, "max_workers": clients}) as enclave:
        await timed(enclave)
        left = iter(range(scripts))

        async def client() -> None:
            for _ in left:
                await timed(enclave)

        started = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        return scripts / (time.perf_counter() - started)


async def replacement(rounds: int) -> float:
    """Median milliseconds from the death of the only worker until a script has run again."""
    times: list[float] = []
    async with Enclave("secure", pool={"max_workers": 1}) as enclave:
        for _ in range(rounds):
            await timed(enclave)
            (pid,) = enclave.pool.pids()
            started = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            # A script that was given to it before its end was known is lost with it.
            while not (await enclave.execute(SCRIPT)).success:
                pass
            times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


async def run(rounds: int, scripts: int) -> list[tuple[str, float, float, str]]:
    """What was measured: name, figure, goal, unit."""
    fresh, reused = await latency(rounds)
    return [
        ("fresh process, beyond a reused one", fresh - reused, 1.0, f"ms ({fresh:.2f} against {reused:.2f})"),
        ("scripts a second, each in a fresh process", await throughput(scripts, 4), 250.0, "/s"),
        ("a killed worker replaced, and a script run", await replacement(20), 100.0, "ms"),
    ]


def main() -> int:
    """Measure and print; with `--check`, exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--scripts", type=int, default=500)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    missed = False
    for name, figure, goal, unit in asyncio.run(run(options.rounds, options.scripts)):
        met = figure >= goal if unit == "/s" else figure <= goal
        missed |= not met
        sys.stdout.write(f"{name:<46}{figure:8.2f} {unit:<28} goal {goal:g}{'' if met else '  MISSED'}\n")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
