"""The fork server with real processes: what it makes, what becomes of it, and what of its workers when it ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from codecall.errors import WorkerStartupError
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.host import spawner
from codecall.sandbox.host.spawner import ForkServer

pytestmark = [
    pytest.mark.skipif(not ForkServer.available(), reason="this system cannot fork from a fork server"),
    pytest.mark.usefixtures("own_fork_server"),
]


async def have_ended(*pids: int) -> bool:
    """Wait until these processes are gone."""
    with anyio.fail_after(10):
        while any(state(pid) != "Z" for pid in pids):
            await anyio.lowlevel.checkpoint()
    return True


def state(pid: int) -> str:
    """One letter, as proc_pid_stat(5) has it; Z for a process that has ended, with all of its threads."""
    try:
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
    # The first thread may have ended before the others, which still hold the process's files.
    return "Z" if letter == "Z" and threads == 1 else letter.replace("Z", "D")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_workers_are_children_of_one_clean_process() -> None:
    async with Enclave("secure", pool={"min_workers": 2, "max_workers": 2}) as enclave:
        assert (await enclave.execute("return 1")).value == 1
        with anyio.fail_after(10):
            while len(pids := enclave.pool.pids()) < 2:
                await anyio.lowlevel.checkpoint()
        parents = {parent(pid) for pid in pids}
        assert len(parents) == 1
        assert parents != {os.getpid()}
        assert parent(*parents) == os.getpid()
        assert enclave.pool.spawner.forks
    assert await have_ended(*pids, *parents)


async def test_without_it_each_worker_is_a_process_of_its_own() -> None:
    async with Enclave("secure", pool={"fork_server": False, "max_workers": 1}) as enclave:
        assert (await enclave.execute("return 1")).value == 1
        (pid,) = enclave.pool.pids()
        assert parent(pid) == os.getpid()
        assert not enclave.pool.spawner.forks


async def test_when_it_dies_its_workers_die_and_the_next_script_runs() -> None:
    async with Enclave("secure", pool={"max_workers": 1}) as enclave:
        assert (await enclave.execute("return 1")).value == 1
        (pid,) = enclave.pool.pids()
        server = parent(pid)
        os.kill(server, signal.SIGKILL)
        assert await have_ended(pid)
        assert (await enclave.execute("return 2")).value == 2
        assert parent(enclave.pool.pids()[0]) not in {server, os.getpid()}


async def test_a_script_whose_fork_server_dies_says_so() -> None:
    async with Enclave("secure", pool={"max_workers": 1}) as enclave:

        async def handler(name: str, arguments: dict[str, object]) -> None:
            (pid,) = enclave.pool.pids()
            os.kill(parent(pid), signal.SIGKILL)
            await have_ended(pid)

        result = await enclave.execute("return await callTool('kill')", tool_handler=handler)
        assert result.error is not None
        assert result.error.code == "WORKER_CRASHED"
        assert (await enclave.execute("return 2")).value == 2


async def test_one_that_is_stopped_holds_up_nobody_for_long() -> None:
    enclave = Enclave("secure", pool={"max_workers": 2, "startup_timeout_ms": 2_000})
    assert (await enclave.execute("return 1")).value == 1
    (pid,) = enclave.pool.pids()
    server = parent(pid)
    os.kill(server, signal.SIGSTOP)
    # The worker there is goes on. A second one cannot be made, and the one after it comes from another server.
    assert (await enclave.execute("return 2")).value == 2
    async with anyio.create_task_group() as group:
        outcomes: list[object] = []
        one_ended = anyio.Event()

        async def run() -> None:
            result = await enclave.execute("return await callTool('x')", tool_handler=tool)
            outcomes.append(result.error.code if result.error else result.value)
            one_ended.set()

        barrier = anyio.Event()

        async def tool(name: str, arguments: dict[str, object]) -> str:
            await barrier.wait()
            return "done"

        group.start_soon(run)
        group.start_soon(run)
        with anyio.fail_after(10):
            await one_ended.wait()
        assert outcomes == ["WORKER_STARTUP_FAILED"]
        barrier.set()
    assert outcomes == ["WORKER_STARTUP_FAILED", "done"]
    with anyio.fail_after(10):
        await enclave.aclose()
    assert await have_ended(pid, server)


async def test_one_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawner, "FORK_SERVER_COMMAND", ("/nonexistent/python",))
    async with Enclave("secure", pool={"min_workers": 0}) as enclave:
        result = await enclave.execute("return 1")
    assert isinstance(result.error, WorkerStartupError)
    assert result.error.hint


async def test_one_that_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawner, "FORK_SERVER_COMMAND", (sys.executable, "-c", "pass"))
    async with Enclave("secure", pool={"min_workers": 0}) as enclave:
        with anyio.fail_after(10):
            result = await enclave.execute("return 1")
        assert isinstance(result.error, WorkerStartupError)
        monkeypatch.undo()
        assert (await enclave.execute("return 1")).value == 1


async def test_a_script_with_more_memory_than_the_preset_gets_a_worker_with_room_for_it() -> None:
    script = "const a = []; for (let i = 0; i < 1500; i++) a.push('x'.repeat(100000) + i); return a.length"
    async with Enclave("secure", pool={"max_workers": 1}) as enclave:
        assert (await enclave.execute("return 1")).value == 1
        before = enclave.pool.pids()
        result = await enclave.execute(script, config={"memory_mb": 512})
        assert result.value == 1500, result.error
        assert enclave.pool.pids() != before
        assert enclave.pool.size == 1


class Who:
    """No broker anybody calls: it is the owner that matters."""

    async def prepare(self) -> None:
        """Nothing to read ahead."""

    async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
        raise AssertionError

    async def describe(self, name: str) -> dict[str, object] | None:
        raise AssertionError


async def test_no_worker_serves_two_owners() -> None:
    served: dict[object, set[str]] = {}  # by the worker itself: the system uses process ids again
    async with Enclave("secure", pool={"max_workers": 2}) as enclave:

        class Told(Who):
            """Notes whose script runs in which worker."""

            def __init__(self, owner: str) -> None:
                self.owner = owner

            async def call(self, name: str, arguments: dict[str, object], *, max_bytes: int | None = None) -> str:
                for worker in enclave.pool.busy_workers():
                    if worker.owner == self.owner:
                        served.setdefault(worker, set()).add(self.owner)
                return "1"

        async def run(owner: str) -> None:
            result = await enclave.run("return callTool('x')", Told(owner), owner=owner)
            assert result.value == 1, result.error

        async with anyio.create_task_group() as group:
            for number in range(24):
                group.start_soon(run, f"owner {number % 3}")
        for _ in range(3):
            await run("owner 0")
    assert all(len(owners) == 1 for owners in served.values())
    assert {owner for owners in served.values() for owner in owners} == {"owner 0", "owner 1", "owner 2"}


async def test_the_report_tells_what_holds() -> None:
    async with Enclave("locked_down", require_jail=False) as enclave:
        report = await enclave.sandbox_report()
    assert report.fork_server
    assert report.runs_per_worker == 1
    assert [layer.name for layer in report.layers] == [
        "surroundings",
        "privileges",
        "undumpable",
        "landlock",
        "descriptors",
        "limits",
        "seccomp",
    ]
    assert report.kernel["NoNewPrivs"] == "1"
    assert report.complete == all(layer.active for layer in report.layers)
    assert report.as_dict()["complete"] == report.complete
    assert ("NOT every layer holds" in str(report)) != report.complete
