"""Threads for work that may never end: stopped when it is waited for no longer, and never two for one key."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from codecall.concurrency import StoppableThreads


async def test_the_result_of_work_and_its_failure_come_back():
    threads = StoppableThreads("test", 1)
    assert await threads.run("a", lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        await threads.run("a", lambda: 1 // 0)
    assert await threads.run("a", lambda: threading.current_thread().daemon)


async def test_work_that_is_waited_for_no_longer_is_stopped():
    threads, loop, started = StoppableThreads("test", 1), asyncio.get_running_loop(), asyncio.Event()
    worker: list[threading.Thread] = []

    def work() -> None:
        worker.append(threading.current_thread())
        while True:
            try:
                loop.call_soon_threadsafe(started.set)
                while True:
                    pass
            except Exception:
                pass

    task = asyncio.create_task(threads.run("a", work))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await threads.run("b", lambda: 5) == 5
    worker[0].join(30)
    assert not worker[0].is_alive()


async def test_what_cannot_be_stopped_takes_one_thread():
    threads, loop = StoppableThreads("test", 2), asyncio.get_running_loop()
    end, started, running = threading.Event(), asyncio.Event(), 0

    def work() -> int:
        nonlocal running
        running += 1
        loop.call_soon_threadsafe(started.set)
        end.wait()
        return running

    tasks = [asyncio.create_task(threads.run("a", work)) for _ in range(5)]
    await started.wait()
    for task in tasks[:-1]:
        task.cancel()
    await asyncio.wait(tasks[:-1])
    assert await threads.run("b", lambda: 5) == 5
    assert running == 1
    end.set()
    assert await tasks[-1] == 2


async def test_who_waits_for_a_thread_may_give_up():
    threads, loop = StoppableThreads("test", 1), asyncio.get_running_loop()
    end, started = threading.Event(), asyncio.Event()

    def work() -> None:
        loop.call_soon_threadsafe(started.set)
        end.wait()

    first = asyncio.create_task(threads.run("a", work))
    await started.wait()
    second = asyncio.create_task(threads.run("b", lambda: 5))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    end.set()
    await first
    assert await threads.run("b", lambda: 6) == 6


def test_a_process_ends_while_work_runs():
    code = """
import asyncio, threading
from codecall.concurrency import StoppableThreads

async def main():
    loop, started = asyncio.get_running_loop(), asyncio.Event()
    def work():
        loop.call_soon_threadsafe(started.set)
        threading.Event().wait()
    task = asyncio.create_task(StoppableThreads("test", 1).run("a", work))
    await started.wait()

asyncio.run(main())
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("ended\n", "")
