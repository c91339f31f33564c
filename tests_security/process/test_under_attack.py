"""The pool under attack, with real workers: the server stays awake and slim, and friendly scripts notice nothing."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest

from codecall.sandbox.enclave import Enclave
from tests_security.attacking import as_far_as_there_is_a_jail
from tests_security.process.monitor import loop_lag, resident_mb, running
from tests_security.process.script_mix import DOCUMENTED, Script, bombs, complaint, friendly, stream, tools

WORKERS = 3
TIMEOUT_MS = 1000
"""Time for each script: enough for a friendly one on a machine that has much else to do."""
SEED = 20_260_301
BOMBS = 12
"""How many of the bombs go off in one test."""
GROWTH_MB = 48
"""What the server's memory may have grown by after an attack: the results in flight, the allocator's habits."""


@pytest.fixture
async def enclave() -> AsyncIterator[Enclave]:
    """An enclave with little time, little memory and few steps for each script: what is hostile uses all there is, and
    fills the memory before its time is up. The scripts say how they end under `secure`, so it has that preset,
    whichever is forced on others."""
    pool = {"min_workers": 2, "max_workers": WORKERS}
    jail = as_far_as_there_is_a_jail()
    limits = {"timeout_ms": TIMEOUT_MS, "max_steps": 100_000, "memory_mb": 16}
    async with Enclave("secure", pool=pool, **limits, **jail) as enclave:
        yield enclave


async def run(enclave: Enclave, script: Script, ends: Counter[str], complaints: list[str]) -> None:
    """Run one script of the stream and note how it ended."""
    number = int(script.title.rpartition(" ")[2]) if not script.hostile else 0
    result = await enclave.execute(script.source, tool_handler=tools, context={"tenant": "t1", "n": number})
    ends[result.status if result.error is None else result.error.code] += 1
    wrong = complaint(script, result)
    if wrong is not None:
        complaints.append(wrong)


async def drive(enclave: Enclave, scripts: Iterable[Script], clients: int) -> Counter[str]:
    """Run all `scripts`, `clients` of them at once; gives how often each end was seen."""
    ends: Counter[str] = Counter()
    complaints: list[str] = []
    pending: Iterator[Script] = iter(scripts)

    async def client() -> None:
        for script in pending:
            await run(enclave, script, ends, complaints)

    async with anyio.create_task_group() as group:
        for _ in range(clients):
            group.start_soon(client)
    assert complaints == [], "\n\n".join(complaints[:5])
    return ends


async def assert_healthy(enclave: Enclave) -> None:
    """The pool can have its full size again, every process of it alive, and serves friendly scripts."""
    arrived = 0
    all_there = anyio.Event()

    async def meet(name: str, arguments: dict[str, object]) -> int:
        nonlocal arrived
        arrived += 1
        if arrived == WORKERS:
            assert enclave.pool.size == WORKERS
            assert [running(pid) for pid in enclave.pool.pids()] == [True] * WORKERS
            all_there.set()
        await all_there.wait()
        return arrived

    values: list[object] = []

    async def client() -> None:
        values.append((await enclave.execute("return await callTool('meet', {})", tool_handler=meet)).value)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(WORKERS):
                group.start_soon(client)
    assert values == [WORKERS] * WORKERS
    await drive(enclave, [friendly(number) for number in range(24)], clients=WORKERS)
    assert enclave.pool.waiting == 0


async def test_the_server_stays_awake_and_slim_while_bombs_go_off(enclave: Enclave):
    heavy = random.Random(SEED).sample(bombs(), BOMBS)
    mixed = [script for number, bomb in enumerate(heavy) for script in (bomb, friendly(number), friendly(number + 1))]
    await drive(enclave, mixed[:9], clients=WORKERS)
    before, pids = resident_mb(), set(enclave.pool.pids())
    async with loop_lag("bombs"):
        ends = await drive(enclave, mixed, clients=WORKERS)
    after = resident_mb()
    print(f"bombs: {dict(ends)}; memory {before:.0f} MiB before, {after:.0f} MiB after")
    assert ends["ok"] >= len(heavy) * 2
    assert ends["WORKER_MEMORY_EXCEEDED"] > 0
    assert ends["TIMEOUT"] > 0
    assert after - before < GROWTH_MB
    assert not pids & set(enclave.pool.pids()), "no worker outlives a bomb"
    await assert_healthy(enclave)


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.fuzz)])
async def test_hostile_and_friendly_scripts_in_mixed_order(enclave: Enclave, count: int):
    await drive(enclave, stream(24, SEED + 9), clients=WORKERS)
    before = resident_mb()
    async with loop_lag(f"{count} scripts"):
        ends = await drive(enclave, stream(count, SEED, bombs_in_100=1), clients=WORKERS)
    after = resident_mb()
    print(f"{count} scripts: {dict(ends.most_common())}; memory {before:.0f} MiB before, {after:.0f} MiB after")
    assert ends.total() == count
    assert ends["ok"] > count * 0.5
    assert after - before < GROWTH_MB
    await assert_healthy(enclave)


async def test_sixty_clients_at_once(enclave: Enclave):
    ends = await drive(enclave, stream(150, SEED + 1, bombs_in_100=1), clients=60)
    assert ends.total() == 150
    assert enclave.pool.size <= WORKERS
    await assert_healthy(enclave)


# ---------------------------------------------------------------------------------------------------------------------
# Clients that go away


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("return await callTool('wait', {})", id="while a tool works"),
        pytest.param(
            "await callTool('go', {}); return new Array(2 ** 32 - 1).join('')", id="while the engine is stuck"
        ),
        pytest.param("await callTool('go', {}); for (let i = 0; i < 1000; i++) await null", id="while it runs"),
    ],
)
async def test_a_client_that_goes_away_frees_its_worker(script: str):
    pool = {"min_workers": 1, "max_workers": 1}
    async with Enclave(timeout_ms=60_000, pool=pool, **as_far_as_there_is_a_jail()) as enclave:
        started, cancelled = anyio.Event(), anyio.Event()

        async def handler(name: str, arguments: dict[str, object]) -> None:
            started.set()
            if name == "wait":
                try:
                    await anyio.sleep_forever()
                except anyio.get_cancelled_exc_class():
                    cancelled.set()
                    raise

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: enclave.execute(script, tool_handler=handler))
                await started.wait()
                for _ in range(50):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            assert (await enclave.execute("return 1 + 1")).value == 2
        assert cancelled.is_set() == ("'wait'" in script)
        assert (enclave.pool.size, enclave.pool.waiting) == (1, 0)


async def test_a_client_that_goes_away_leaves_the_queue():
    pool = {"min_workers": 1, "max_workers": 1}
    async with Enclave(timeout_ms=60_000, pool=pool, **as_far_as_there_is_a_jail()) as enclave:
        started = anyio.Event()

        async def handler(name: str, arguments: dict[str, object]) -> None:
            started.set()
            await anyio.sleep_forever()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as first:
                first.start_soon(lambda: enclave.execute("await callTool('wait', {})", tool_handler=handler))
                await started.wait()
                async with anyio.create_task_group() as others:
                    for _ in range(10):
                        others.start_soon(enclave.execute, "return 1")
                    while enclave.pool.waiting < 10:
                        await anyio.lowlevel.checkpoint()
                    others.cancel_scope.cancel()
                assert enclave.pool.waiting == 0
                first.cancel_scope.cancel()
            assert (await enclave.execute("return 1 + 1")).value == 2


async def test_clients_that_go_away_at_any_moment(enclave: Enclave):
    draw = random.Random(SEED)
    ends: Counter[str] = Counter()
    complaints: list[str] = []

    async def client(script: Script, patience: float) -> None:
        with anyio.move_on_after(patience) as scope:
            await run(enclave, script, ends, complaints)
        ends["gone"] += scope.cancelled_caught

    async with anyio.create_task_group() as group:
        for number, script in enumerate(stream(150, SEED + 2, bombs_in_100=3)):
            # Some go at once: how many of the others do is decided by the machine.
            group.start_soon(client, script, draw.uniform(0.0, 3.0) if number % 10 else 0.0)
    print(f"clients that went away: {dict(ends)}")
    assert complaints == []
    assert ends["gone"] > 10
    assert ends.total() == 150
    await assert_healthy(enclave)


# ---------------------------------------------------------------------------------------------------------------------
# Workers that are shot

SHOTS = 10
CHATTY = """
const seen = [];
for (let i = 0; i < 12; i++) { for (let k = 0; k < 1000; k++) { } seen.push((await callTool('echo', { i })).i) }
return seen.length;
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_workers_killed_at_random_moments(enclave: Enclave, seed: int):
    draw = random.Random(seed)
    ends: Counter[str] = Counter()

    async def shoot() -> None:
        while ends["shots"] < SHOTS:
            pids = enclave.pool.pids()
            if pids:
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(pids), signal.SIGKILL)
                    ends["shots"] += 1
            await anyio.sleep(draw.uniform(0.0, 0.1))

    async def client() -> None:
        while ends["shots"] < SHOTS or not ends["ok"]:
            result = await enclave.execute(CHATTY, tool_handler=tools)
            if result.error is None:
                assert result.value == 12
            else:
                assert result.error.code in DOCUMENTED
                assert result.status == "runtime_error"
            ends[result.status if result.error is None else result.error.code] += 1

    async with anyio.create_task_group() as group:
        group.start_soon(shoot)
        for _ in range(WORKERS):
            group.start_soon(client)
    print(dict(ends))
    assert set(ends) <= {"shots", "ok", "WORKER_CRASHED", "WORKER_STARTUP_FAILED"}
    # Where a worker takes long to start, all shots may hit one that does.
    assert ends["WORKER_CRASHED"] + ends["WORKER_STARTUP_FAILED"] > 0
    await assert_healthy(enclave)
