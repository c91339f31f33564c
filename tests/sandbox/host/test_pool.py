"""The pool with real worker processes: reuse, replacement, the queue, cancellation, shutdown, hostile workers."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from codecall.calls.task import MAX_NESTING
from codecall.envelopes import ExecutionResult
from codecall.errors import (
    QueueFullError,
    QueueTimeoutError,
    WorkerCrashedError,
    WorkerPoolDisposedError,
    WorkerStartupError,
    WorkerTimeoutError,
)
from codecall.options import SanitizationOptions
from codecall.sandbox.callbacks import CallbackBroker
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host import process, queue
from codecall.sandbox.host.pool import MAX_NESTED


def has_ended(pid: int) -> bool:
    """Whether no such process is left, not even as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


class Gate:
    """A tool that says when it was called and answers when told to."""

    def __init__(self) -> None:
        self.called = anyio.Event()
        self.open = anyio.Event()

    async def __call__(self, name: str, arguments: dict[str, Any]) -> str:
        self.called.set()
        await self.open.wait()
        return "opened"


PLAIN = {"max_workers": 1, "min_workers": 0, "fork_server": False}
"""One worker that is a process of its own, so that another can be put in its place."""

WAITING = "return await callTool('gate', {})"


async def test_a_worker_is_reused_until_its_runs_are_used_up() -> None:
    async with Enclave("secure", worker_max_runs=2, pool={"min_workers": 1, "max_workers": 1}) as enclave:
        pids: list[int] = []
        for _ in range(4):
            result = await enclave.execute("return callTool('pid')", tool_handler=lambda n, a: enclave.pool.pids())
            pids += cast("list[int]", result.value)
    assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_nothing_is_left_for_the_next_script() -> None:
    async with Enclave("secure", pool={"max_workers": 1}) as enclave:
        first = await enclave.execute("const o = Object.assign(Array, {leak: 1}); return 1")
        second = await enclave.execute("const A = Array; return [typeof A.leak, codecallContext]")
    assert first.status == "runtime_error"
    assert second.value == ["undefined", {}]


async def test_closing_leaves_no_process() -> None:
    enclave = Enclave("secure", pool={"min_workers": 2, "max_workers": 2})
    await enclave.start()
    while len(pids := enclave.pool.pids()) < 2:  # noqa: ASYNC110 - nobody tells
        await anyio.sleep(0.002)  # the fork server needs the processor
    await enclave.aclose()
    await enclave.aclose()
    assert all(has_ended(pid) for pid in pids)
    result = await enclave.execute("return 1")
    assert isinstance(result.error, WorkerPoolDisposedError)


async def test_closing_ends_running_and_waiting_scripts() -> None:
    gate = Gate()
    results: list[ExecutionResult] = []
    enclave = Enclave("secure", pool={"max_workers": 1})

    async def run() -> None:
        results.append(await enclave.execute(WAITING, tool_handler=gate))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await gate.called.wait()
        group.start_soon(run)
        while not enclave.pool.waiting:
            await anyio.lowlevel.checkpoint()
        await enclave.aclose()
        gate.open.set()
    assert [result.error and result.error.code for result in results] == ["POOL_DISPOSED", "POOL_DISPOSED"]


async def test_the_queue_has_a_bound_and_a_wait_limit() -> None:
    gate = Gate()
    pool = {"max_workers": 1, "max_queue": 1, "queue_timeout_ms": 300}
    async with Enclave("secure", pool=pool) as enclave, anyio.create_task_group() as group:
        results: dict[str, ExecutionResult] = {}

        refused = anyio.Event()

        async def run(name: str) -> None:
            results[name] = await enclave.execute(WAITING, tool_handler=gate)
            if name == "second":
                refused.set()

        group.start_soon(run, "first")
        await gate.called.wait()
        group.start_soon(run, "second")
        while not enclave.pool.waiting:
            await anyio.lowlevel.checkpoint()
        await run("third")
        assert isinstance(results["third"].error, QueueFullError)
        await refused.wait()
        assert isinstance(results["second"].error, QueueTimeoutError)
        gate.open.set()
    assert results["first"].value == "opened"


async def test_many_scripts_share_few_workers() -> None:
    async with Enclave("secure", pool={"max_workers": 2}) as enclave:
        values: list[object] = []

        async def run(number: int) -> None:
            result = await enclave.execute(
                f"return (await callTool('echo', {{n: {number}}})).n", tool_handler=lambda _, a: a
            )
            values.append(result.value)

        async with anyio.create_task_group() as group:
            for number in range(60):
                group.start_soon(run, number)
        assert sorted(values, key=str) == sorted(range(60), key=str)
        assert enclave.pool.size <= 2


async def test_cancelling_stops_the_script_and_its_calls() -> None:
    ended = anyio.Event()
    called = anyio.Event()

    async def never(name: str, arguments: dict[str, Any]) -> None:
        called.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with Enclave("secure", pool={"max_workers": 1}) as enclave:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: enclave.execute("return callTool('never', {})", tool_handler=never))
            await called.wait()
            pids = enclave.pool.pids()
            group.cancel_scope.cancel()
        assert ended.is_set()
        assert (await enclave.execute("return 1")).value == 1
        assert enclave.pool.pids() != pids


async def test_cancelling_a_spinning_script() -> None:
    async with Enclave("secure", pool={"max_workers": 1}, timeout_ms=60_000) as enclave:
        assert (await enclave.execute("return 1")).success
        (pid,) = enclave.pool.pids()
        with anyio.move_on_after(0.2) as scope:
            await enclave.execute("/^(a+)+$/.test('a'.repeat(60) + 'b')")
        assert scope.cancelled_caught
        assert (await enclave.execute("return 1")).value == 1
        assert pid not in enclave.pool.pids()


async def test_a_waiter_that_gives_up_loses_no_worker() -> None:
    gate = Gate()
    async with Enclave("secure", pool={"max_workers": 1}) as enclave, anyio.create_task_group() as group:
        group.start_soon(lambda: enclave.execute(WAITING, tool_handler=gate))
        await gate.called.wait()
        with anyio.move_on_after(0.1):
            await enclave.execute("return 1")
        gate.open.set()
        assert (await enclave.execute("return 2")).value == 2
        assert enclave.pool.size == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_killed_worker_is_replaced(number: signal.Signals) -> None:
    async with Enclave("secure", pool={"max_workers": 1}) as enclave:

        async def kill(name: str, arguments: dict[str, Any]) -> None:
            while not (pids := enclave.pool.pids()):  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.002)  # the fork server says the number of a worker that may run already
            os.kill(pids[0], number)

        result = await enclave.execute("console.log('here'); await callTool('kill', {}); return 1", tool_handler=kill)
        assert isinstance(result.error, WorkerCrashedError)
        assert result.logs == ("here",)
        assert number.name in result.error.message
        assert (await enclave.execute("return 1")).value == 1


async def test_an_idle_worker_that_died_is_noticed() -> None:
    async with Enclave("secure", pool={"max_workers": 1}) as enclave:
        assert (await enclave.execute("return 1")).success
        (pid,) = enclave.pool.pids()
        os.kill(pid, signal.SIGKILL)
        while not has_ended(pid):
            await anyio.lowlevel.checkpoint()
        assert (await enclave.execute("return 1")).value == 1


async def test_the_watchdog_kills_a_worker_that_does_not_answer(replace_worker: Callable[[str], None]) -> None:
    replace_worker("ready(); receive(); time.sleep(60)")
    async with Enclave("secure", timeout_ms=100, pool=PLAIN) as enclave:
        with anyio.fail_after(5):
            result = await enclave.execute("return 1")
        assert isinstance(result.error, WorkerTimeoutError)
        assert result.error.message == "Script execution timed out after 100ms"


@pytest.fixture
def replace_worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces the worker by a process that has been taken over and says what it likes."""
    preamble = (
        "import os, socket, struct, time, msgspec\n"
        "s = socket.socket(fileno=0)\n"
        "def send(m): b = msgspec.msgpack.encode(m); s.sendall(struct.pack('>I', len(b)) + b)\n"
        "def receive():\n"
        "    n = struct.unpack('>I', s.recv(4, socket.MSG_WAITALL))[0]\n"
        "    return msgspec.msgpack.decode(s.recv(n, socket.MSG_WAITALL))\n"
        "def ready(): receive(); send({'type': 'ready', 'layers': []})\n"
    )

    def speak(code: str) -> None:
        monkeypatch.setattr(process, "WORKER_COMMAND", (sys.executable, "-I", "-c", preamble + code))

    return speak


async def test_a_worker_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "WORKER_COMMAND", ("/nonexistent/python",))
    async with Enclave("secure", pool=PLAIN) as enclave:
        result = await enclave.execute("return 1")
    assert isinstance(result.error, WorkerStartupError)
    assert result.error.hint


async def test_never_more_workers_than_allowed() -> None:
    gate = Gate()
    async with (
        Enclave("secure", pool={"min_workers": 1, "max_workers": 2}) as enclave,
        anyio.create_task_group() as group,
    ):
        sizes: list[int] = []
        for _ in range(12):
            group.start_soon(lambda: enclave.execute(WAITING, tool_handler=gate))
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            sizes.append(enclave.pool.size)
        await gate.called.wait()
        sizes.append(enclave.pool.size)
        gate.open.set()
    assert max(sizes) <= 2


async def test_closing_while_a_worker_loads(replace_worker: Callable[[str], None]) -> None:
    replace_worker("time.sleep(60)")
    enclave = Enclave("secure", pool=PLAIN | {"max_workers": 2})
    results: list[ExecutionResult] = []

    async def run() -> None:
        results.append(await enclave.execute("return 1"))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        group.start_soon(run)
        while len(enclave.pool.pids()) < 2:
            await anyio.lowlevel.checkpoint()
        pids = enclave.pool.pids()
        await enclave.aclose()
    assert [result.error and result.error.code for result in results] == ["POOL_DISPOSED", "POOL_DISPOSED"]
    assert all(has_ended(pid) for pid in pids)


async def test_a_worker_that_cannot_start_while_another_is_busy(replace_worker: Callable[[str], None]) -> None:
    gate = Gate()
    async with Enclave("secure", pool=PLAIN | {"max_workers": 2}) as enclave, anyio.create_task_group() as group:
        group.start_soon(lambda: enclave.execute(WAITING, tool_handler=gate))
        await gate.called.wait()
        replace_worker("os._exit(3)")
        result = await enclave.execute("return 1")
        assert isinstance(result.error, WorkerStartupError)
        gate.open.set()


async def test_a_finished_result_survives_a_failing_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Enclave("secure", worker_max_runs=1, pool=PLAIN) as enclave:

        def handler(name: str, arguments: dict[str, Any]) -> int:
            monkeypatch.setattr(process, "WORKER_COMMAND", ("/nonexistent/python",))
            return 5

        assert (await enclave.execute("return await callTool('a')", tool_handler=handler)).value == 5
        assert isinstance((await enclave.execute("return 1")).error, WorkerStartupError)


@pytest.mark.parametrize("fork_server", [True, False])
@pytest.mark.parametrize("turns", [1, 3, 30])
async def test_a_script_cancelled_while_its_worker_is_made_leaves_its_place_to_the_next(
    turns: int, fork_server: bool
) -> None:
    pool = {"max_workers": 1, "min_workers": 0, "fork_server": fork_server, "queue_timeout_ms": 10_000}
    async with Enclave("secure", pool=pool) as enclave:
        first = asyncio.create_task(enclave.execute("return 1"))
        await asyncio.sleep(0)
        second = asyncio.create_task(enclave.execute("return 2"))
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        with anyio.fail_after(8):
            assert (await second).value == 2
        assert enclave.pool.size == 1


async def test_a_worker_that_cannot_be_made_leaves_its_place_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    real = process.start_process
    tried: list[object] = []

    def once_without(command: Sequence[str], line: socket.socket) -> subprocess.Popen[bytes]:
        tried.append(command)
        return real(("/nonexistent/python",) if len(tried) == 1 else command, line)

    monkeypatch.setattr(process, "start_process", once_without)
    async with Enclave("secure", pool=PLAIN) as enclave:
        with anyio.fail_after(8):
            results = await asyncio.gather(*(enclave.execute(f"return {number}") for number in range(3)))
    assert [result.error and result.error.code for result in results] == ["WORKER_STARTUP_FAILED", None, None]


async def test_a_worker_that_dies_while_it_loads_leaves_its_place_to_the_next() -> None:
    async with Enclave("secure", pool=PLAIN) as enclave:
        scripts = [asyncio.create_task(enclave.execute(f"return {number}")) for number in range(3)]
        while not enclave.pool.pids():
            await anyio.lowlevel.checkpoint()
        os.kill(enclave.pool.pids()[0], signal.SIGKILL)
        with anyio.fail_after(8):
            results = await asyncio.gather(*scripts)
    assert [result.error and result.error.code for result in results] == ["WORKER_STARTUP_FAILED", None, None]


async def test_closing_while_the_first_worker_loads_harms_nobody_else() -> None:
    enclave = Enclave("secure", pool={"max_workers": 1})
    await enclave.start()
    script = asyncio.create_task(enclave.execute("return 1"))
    await asyncio.sleep(0)
    await enclave.aclose()
    result = await script
    assert result.error is not None
    assert result.error.code == "POOL_DISPOSED"


async def test_descriptors_of_any_number_will_do() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    descriptors = [os.dup(0) for _ in range(1100)]
    try:
        async with Enclave("secure", pool={"max_workers": 1}) as enclave:
            assert (await enclave.execute("return 1")).value == 1
            os.kill(enclave.pool.pids()[0], signal.SIGKILL)
            codes = [(await enclave.execute("return 1")).status for _ in range(2)]
            assert codes[-1] == "ok"
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("slice_s", "latest"), [(0.0, 3), (60.0, 5)])
async def test_one_owners_many_scripts_do_not_hold_up_anothers_for_longer_than_a_slice(
    slice_s: float, latest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "TIME_SLICE_S", slice_s)
    gate = Gate()
    order: list[str] = []
    async with (
        Enclave("secure", pool={"max_workers": 1, "max_queue": 4}) as enclave,
        anyio.create_task_group() as group,
    ):

        async def run(owner: str) -> None:
            broker = CallbackBroker(gate, None, None, SanitizationOptions())
            result = await enclave.run(WAITING, broker, owner=owner)
            order.append(f"{owner} {result.error.code if result.error else result.value}")

        group.start_soon(run, "greedy")
        await gate.called.wait()
        for _ in range(4):
            group.start_soon(run, "greedy")
        while enclave.pool.waiting < 4:
            await anyio.lowlevel.checkpoint()
        group.start_soon(run, "other")
        while not order:
            await anyio.lowlevel.checkpoint()
        gate.open.set()
    assert order[0] == "greedy QUEUE_FULL"
    assert order.index("other opened") == latest
    assert order.count("greedy opened") == 4


async def test_the_first_worker_given_up_while_it_starts_is_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    async with Enclave(pool={"min_workers": 1, "max_workers": 1}) as enclave:
        run = asyncio.create_task(enclave.execute("return 1"))
        while not enclave.pool.busy_workers():
            await anyio.lowlevel.checkpoint()
        run.cancel()
        await asyncio.wait([run])
        assert (await enclave.execute("return 2")).value == 2
    assert "cannot run" not in caplog.text


class Nested:
    """A tool that runs a script, which calls the tool again, so many levels deep; and the most workers of the pool."""

    def __init__(self, enclave: Enclave, levels: int) -> None:
        self.enclave = enclave
        self.levels = levels
        self.most_workers = 0
        self.outer = anyio.Event()
        self.waiting = 0

    async def run(self, level: int = 0, owner: str = "ann") -> ExecutionResult:
        script = "return callTool('inner', {})" if level < self.levels else "return 'done'"

        async def inner(_name: str, _arguments: dict[str, Any]) -> object:
            if not level:
                self.waiting -= 1
                if self.waiting <= 0:
                    self.outer.set()
                await self.outer.wait()  # all the outermost scripts hold their workers by now
            result = await self.run(level + 1, owner)
            result.raise_for_status()
            return result.value

        broker = CallbackBroker(inner, None, None, SanitizationOptions())
        result = await self.enclave.run(script, broker, owner=owner)
        self.most_workers = max(self.most_workers, self.enclave.pool.size)
        return result

    async def run_many(self, count: int, owner: str = "ann") -> list[ExecutionResult]:
        results: list[ExecutionResult] = []
        self.waiting = count

        async def keep(owner: str) -> None:
            results.append(await self.run(owner=owner))

        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(keep, owner or f"owner {number}")
        return results


@pytest.mark.parametrize("fork_server", [True, False])
@pytest.mark.parametrize("levels", [1, MAX_NESTED])
async def test_scripts_inside_of_scripts_do_not_wait_for_workers_that_wait_for_them(
    levels: int, fork_server: bool
) -> None:
    pool = {"min_workers": 0, "max_workers": 2, "queue_timeout_ms": 20_000, "fork_server": fork_server}
    async with Enclave("secure", pool=pool, max_duration_ms=60_000) as enclave:
        nested = Nested(enclave, levels)
        results = await nested.run_many(2)
        assert [result.value for result in results] == ["done"] * 2
        assert nested.most_workers <= 2 + levels
        assert enclave.pool.limit == 2
        assert (await enclave.execute("return 1")).value == 1
        assert enclave.pool.size <= 2


async def test_each_level_has_one_worker_more_however_many_scripts_and_callers_there_are() -> None:
    pool = {"min_workers": 0, "max_workers": 3, "queue_timeout_ms": 20_000}
    async with Enclave("secure", pool=pool, max_duration_ms=60_000) as enclave:
        nested = Nested(enclave, 2)
        results = await nested.run_many(3, owner="")
        assert [result.value for result in results] == ["done"] * 3
        assert nested.most_workers <= 3 + 2
        assert enclave.pool.limit == 3


async def test_a_place_of_a_level_is_free_again_however_its_script_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = {"min_workers": 0, "max_workers": 1, "queue_timeout_ms": 20_000}
    async with Enclave("secure", pool=pool) as enclave:

        async def inner(_name: str, arguments: dict[str, Any]) -> object:
            how = arguments["how"]
            if how == "no worker":
                with monkeypatch.context() as patch:
                    patch.setattr(enclave.pool.spawner, "spawn", refuse)
                    return (await enclave.execute("return 1")).status
            if how == "cancelled":
                with anyio.move_on_after(0.2):
                    await enclave.execute(WAITING, tool_handler=lambda n, a: anyio.sleep(60))
                return how
            return (await enclave.execute("throw new Error('no')" if how == "fails" else "return 1")).status

        def refuse(_memory_mb: int) -> None:
            raise WorkerStartupError("no")

        ways = ["fails", "cancelled", "no worker", "returns"]
        script = f"const all = []; for (const how of {ways}) all.push(await callTool('inner', {{ how }})); return all"
        result = await enclave.execute(script, tool_handler=inner)
        assert result.value == ["runtime_error", "cancelled", "runtime_error", "ok"]
        assert enclave.pool.limit == 1


def test_each_level_that_calls_may_be_nested_has_a_place() -> None:
    assert MAX_NESTED == MAX_NESTING
