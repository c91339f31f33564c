"""Who comes when in the chain of handlers of SIGTERM; with real signals, to this process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from codecall import CodeCallPlugin
from codecall.server import shutdown as sigterm_module
from codecall.server.shutdown import RESPONSE_TIME_S, ShutdownSignals


class Handler:
    """Counts the signals that come to it."""

    def __init__(self) -> None:
        self.received = 0
        self.came = asyncio.Event()

    def __call__(self, number: int, frame: object) -> None:
        assert number == signal.SIGTERM
        self.received += 1
        self.came.set()


class Stop:
    """Something to be stopped, which takes as long as it is made to."""

    def __init__(self, answers: bool = False) -> None:
        self.answers = answers
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> bool:
        self.begun.set()
        await self.go_on.wait()
        return self.answers


@pytest.fixture
def handler() -> Iterator[Handler]:
    """What handles SIGTERM before anybody else comes."""
    handler = Handler()
    usual = signal.signal(signal.SIGTERM, handler)
    try:
        yield handler
    finally:
        signal.signal(signal.SIGTERM, usual)


def sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def wait(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 10)


def now() -> Any:
    return signal.getsignal(signal.SIGTERM)


async def test_the_handler_waits_for_what_is_stopped(handler: Handler):
    termination, one, two = ShutdownSignals(), Stop(), Stop(answers=True)
    with termination.drain_first(one), termination.drain_first(two):
        sigterm()
        await wait(one.begun)
        await wait(two.begun)
        one.go_on.set()
        assert handler.received == 0
        began = asyncio.get_running_loop().time()
        two.go_on.set()
        await wait(handler.came)
        assert asyncio.get_running_loop().time() - began >= RESPONSE_TIME_S * 0.9
    assert now() is handler
    assert handler.received == 1


async def test_where_nobody_gets_an_answer_there_is_nothing_to_wait_for(handler: Handler, monkeypatch: Any):
    monkeypatch.setattr("codecall.server.shutdown.RESPONSE_TIME_S", 3600)
    stop = Stop()
    stop.go_on.set()
    with ShutdownSignals().drain_first(stop):
        sigterm()
        await wait(handler.came)


async def test_each_further_signal_is_passed_on_at_once(handler: Handler):
    stop = Stop()
    with ShutdownSignals().drain_first(stop):
        sigterm()
        await wait(stop.begun)
        for count in (1, 2):
            sigterm()
            await asyncio.sleep(0)
            assert handler.received == count
        stop.go_on.set()
    assert handler.received == 2


async def test_one_who_set_a_handler_later_comes_after_all_the_same(handler: Handler):
    termination, stop, server = ShutdownSignals(), Stop(), Handler()
    with termination.drain_first(stop):
        beneath = signal.signal(signal.SIGTERM, server)
        termination.move_to_front()
        termination.move_to_front()
        sigterm()
        await wait(stop.begun)
        assert server.received == 0
        stop.go_on.set()
        await wait(server.came)
        # As uvicorn does at its end: it puts back what it found, and raises again what it got.
        signal.signal(signal.SIGTERM, beneath)
        sigterm()
        await asyncio.sleep(0)
        assert handler.received == 1
    assert now() is handler


async def test_a_handler_that_came_later_and_stays_is_left_alone(handler: Handler):
    termination, stop, other = ShutdownSignals(), Stop(), Handler()
    with termination.drain_first(stop):
        ours = signal.signal(signal.SIGTERM, other)
    assert now() is other
    # Whoever calls what it had found gets what had been there before.
    ours(signal.SIGTERM, None)
    assert handler.received == 1


async def test_the_end_of_the_lifespan_ends_the_wait(handler: Handler):
    stop = Stop()
    with ShutdownSignals().drain_first(stop):
        sigterm()
        await wait(stop.begun)
    assert handler.received == 1
    assert now() is handler


async def test_a_stop_that_fails_holds_up_nothing(handler: Handler, caplog: pytest.LogCaptureFixture):
    async def fail() -> bool:
        raise ValueError("broken")

    with ShutdownSignals().drain_first(fail):
        sigterm()
        await wait(handler.came)
    assert "stopping at SIGTERM failed" in caplog.text


async def test_a_stop_that_hangs_and_cannot_be_cancelled_is_given_up(
    handler: Handler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(sigterm_module, "EXTRA_GRACE_S", 0.05)
    go_on = asyncio.Event()

    async def hang() -> bool:
        while not go_on.is_set():
            with suppress(asyncio.CancelledError):
                await go_on.wait()
        return True

    with ShutdownSignals().drain_first(lambda: sigterm_module.within_grace(0, hang())):
        sigterm()
        await wait(handler.came)
    go_on.set()
    assert "no answer within 0.05 s" in caplog.text


async def test_event_loops_that_stand_still_hold_up_nothing(handler: Handler):
    termination, stop = ShutdownSignals(), Stop()
    others = [asyncio.new_event_loop() for _ in range(3)]
    left: list[Any] = []

    async def leave() -> None:
        watched = termination.drain_first(Stop())
        watched.__enter__()
        left.append(watched)

    def fill() -> None:
        for loop in others:
            loop.run_until_complete(leave())
        others[0].close()

    # Their lifespans are left open on this thread, in which they are run before this loop goes on.
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        fill()
    finally:
        asyncio._set_running_loop(running)
    with termination.drain_first(stop):
        sigterm()
        await wait(stop.begun)
        assert handler.received == 0
        stop.go_on.set()
        await wait(handler.came)
    for watched in left:
        watched.__exit__(None, None, None)
    for loop in others:
        loop.close()


async def test_a_second_life(handler: Handler):
    termination = ShutdownSignals()
    for count in (1, 2):
        handler.came.clear()
        stop = Stop()
        stop.go_on.set()
        with termination.drain_first(stop):
            sigterm()
            await wait(handler.came)
        assert handler.received == count


async def test_a_fork_of_the_server_ends_as_it_would_without_us(handler: Handler, monkeypatch: Any):
    stop = Stop()
    with ShutdownSignals().drain_first(stop):
        link: Callable[..., None] = now()
        monkeypatch.setattr(os, "getpid", lambda: -1)
        link(signal.SIGTERM, None)
        assert handler.received == 1
        assert not stop.begun.is_set()


@pytest.mark.parametrize("usual", [signal.SIG_IGN])
async def test_a_process_that_ignores_it_goes_on_to(handler: Handler, usual: Any):
    signal.signal(signal.SIGTERM, usual)
    with ShutdownSignals().drain_first(Stop()):
        assert now() == usual


async def test_a_plugin_leaves_the_signal_alone_unless_it_is_told_to_drain(handler: Handler):
    for on_sigterm in (None, True):
        server = FastMCP[Any]("quiet")
        options: dict[str, Any] = {} if on_sigterm is None else {"shutdown": {"on_sigterm": on_sigterm}}
        CodeCallPlugin.init(pool={"min_workers": 0}, **options).install(server)
        async with Client(server) as client:
            await client.list_tools()
            assert (now() is handler) is (on_sigterm is None)
    assert now() is handler


async def test_nothing_to_stop(handler: Handler):
    with ShutdownSignals().drain_first(None):
        assert now() is handler


def test_other_threads_have_no_signals(handler: Handler):
    received: list[object] = []

    async def run() -> None:
        termination = ShutdownSignals()
        with termination.drain_first(Stop()):
            termination.move_to_front()
            received.append(now())

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    thread.join()
    assert received == [handler]
