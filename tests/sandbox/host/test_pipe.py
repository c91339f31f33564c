"""The server's end of the pipe, with a real socket at the other: what arrives, when, and what it costs to wait."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import weakref
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import NamedTuple

import pytest

from codecall.errors import MessageValidationError, WorkerCrashedError, WorkerError, WorkerTimeoutError
from codecall.sandbox import wire
from codecall.sandbox.host import pipe as module
from codecall.sandbox.host.pipe import WorkerPipe
from codecall.sandbox.worker.startup import WARM_UP_LIMITS

ASK = wire.Ask("users_list")
LONG = wire.Ask("x" * wire.MAX_NAME_LENGTH)
SOON_S = 5.0
"""Longer than anything here takes, in seconds."""


class Ends(NamedTuple):
    pipe: WorkerPipe
    worker: socket.socket


@asynccontextmanager
async def ends() -> AsyncIterator[Ends]:
    ours, theirs = socket.socketpair()

    async def gone() -> WorkerError:
        return WorkerCrashedError("gone")

    pipe = WorkerPipe(ours, gone)
    with theirs:
        try:
            yield Ends(pipe, theirs)
        finally:
            pipe.close()


async def within(work: Awaitable[object]) -> object:
    """What `work` gives, which must not take long; its own TimeoutError is another matter."""
    waiting = asyncio.timeout(SOON_S)
    try:
        async with waiting:
            return await work
    except TimeoutError:
        assert not waiting.expired(), "takes too long"
        raise


async def turns_of_the_loop(count: int = 5) -> None:
    """Until the event loop has looked at its sockets so often."""
    for _ in range(count):
        await asyncio.sleep(0)


async def asleep(seconds: float = 0.03) -> int:
    """How often the event loop goes round while nobody has anything to do."""
    loop = asyncio.get_running_loop()
    rounds, ended = 0, loop.create_future()
    select = loop._selector.select  # type: ignore[attr-defined]

    def counted(timeout: float | None = None) -> object:
        nonlocal rounds
        rounds += 1
        return select(timeout)

    loop._selector.select = counted  # type: ignore[attr-defined]
    loop.call_later(seconds, ended.set_result, None)
    try:
        await ended
    finally:
        del loop._selector.select  # type: ignore[attr-defined]
    return rounds


A_FEW = 6
"""Rounds of an event loop that sleeps."""


@pytest.mark.parametrize("spin_s", [0.0, 0.0001])
async def test_a_frame_in_pieces(spin_s: float) -> None:
    frame = wire.pack(ASK)
    async with ends() as (pipe, worker):
        receiving = asyncio.create_task(pipe.receive(spin_s))
        for cut in (1, 3, 5, 7):
            await turns_of_the_loop()
            worker.sendall(frame[:cut])
            frame = frame[cut:]
            assert not receiving.done()
        worker.sendall(frame + wire.pack(LONG))
        assert await within(receiving) == ASK
        assert await within(pipe.receive(spin_s)) == LONG


async def test_nothing_of_the_first_request_is_kept_while_a_worker_lives() -> None:
    class Marker:
        """What a request is about."""

    marker = Marker()
    kept, variable = weakref.ref(marker), ContextVar[Marker]("request")

    async def request(pipe: WorkerPipe, marker: Marker) -> object:
        variable.set(marker)
        return await pipe.receive(0.0)

    async with ends() as (pipe, worker):
        receiving = asyncio.create_task(request(pipe, marker))
        del marker
        await turns_of_the_loop()
        worker.sendall(wire.pack(ASK))
        assert await within(receiving) == ASK
        del receiving
        await turns_of_the_loop()  # which no longer holds the task
        gc.collect()
        assert kept() is None
        worker.sendall(wire.pack(LONG))
        assert await within(pipe.receive(0.0)) == LONG


async def test_no_frame_by_the_deadline() -> None:
    async with ends() as (pipe, worker):
        now = asyncio.get_running_loop().time
        frame = wire.pack(ASK)
        for spin_s in (0.0, 0.0001):
            began = now()
            with pytest.raises(TimeoutError):
                await within(pipe.receive(spin_s, began + 0.01))
            assert now() - began >= 0.009
        worker.sendall(frame[:5])
        with pytest.raises(TimeoutError):
            await within(pipe.receive(0.0, now() + 0.01))
        with pytest.raises(TimeoutError):
            await within(pipe.receive(0.0, now() - 1))
        worker.sendall(frame[5:])
        assert await within(pipe.receive(0.0, now() + SOON_S)) == ASK


async def test_a_worker_that_never_stops_has_a_deadline_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrives without a wait would keep the event loop, and the deadline with it."""
    monkeypatch.setattr(module, "MAX_HOLD_S", 0.0)
    async with ends() as (pipe, worker):
        until = asyncio.get_running_loop().time() + 0.01
        pipe.longest_frame = 1 << 30
        worker.sendall(wire.HEADER.pack(1 << 30))

        async def talk() -> None:
            while True:
                worker.sendall(b"x" * 512)
                await asyncio.sleep(0)

        talking = asyncio.create_task(talk())
        with pytest.raises(TimeoutError):
            await within(pipe.receive(0.0, until))
        _ = talking.cancel()


async def test_a_cancelled_wait_loses_nothing() -> None:
    frame = wire.pack(ASK)
    async with ends() as (pipe, worker):
        receiving = asyncio.create_task(pipe.receive())
        await turns_of_the_loop()
        worker.sendall(frame[:6])
        await turns_of_the_loop()
        _ = receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        worker.sendall(frame[6:])
        assert await asleep() <= A_FEW
        assert await within(pipe.receive()) == ASK
        receiving = asyncio.create_task(pipe.receive())
        await turns_of_the_loop()
        worker.sendall(wire.pack(LONG))
        # Its bytes have been taken in when the task, which has not run since, is cancelled.
        asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(receiving.cancel))
        await turns_of_the_loop()
        assert receiving.cancelled()
        assert await within(pipe.receive()) == LONG


async def test_who_speaks_out_of_turn_is_noticed_once() -> None:
    notices: list[None] = []
    async with ends() as (pipe, worker):
        with pipe.watch_for_interrupt(lambda: notices.append(None)):
            await turns_of_the_loop()
            assert not notices
            worker.sendall(wire.pack(ASK))
            await turns_of_the_loop()
            assert len(notices) == 1
            worker.sendall(wire.pack(ASK))
            assert await asleep() <= A_FEW
            assert len(notices) == 1
            assert isinstance(await pipe.interrupt_error(), MessageValidationError)
        with pipe.watch_for_interrupt(lambda: notices.append(None)):  # it still stands there
            await turns_of_the_loop()
            assert len(notices) == 2


async def test_what_was_said_before_the_server_had_the_turn_is_noticed() -> None:
    notices: list[None] = []
    async with ends() as (pipe, worker):
        worker.sendall(wire.pack(ASK) + wire.pack(ASK))
        assert await within(pipe.receive()) == ASK
        with pipe.watch_for_interrupt(lambda: notices.append(None)):
            assert len(notices) == 1  # nothing of it is left for the event loop to tell of
        assert isinstance(await pipe.interrupt_error(), MessageValidationError)
    async with ends() as (pipe, worker):
        worker.sendall(wire.pack(ASK))
        await within(pipe.receive())
        worker.sendall(wire.pack(ASK))
        assert await asleep() <= A_FEW  # nobody listens: neither a notice nor a busy loop
        with pipe.watch_for_interrupt(lambda: notices.append(None)):
            await turns_of_the_loop()
        assert len(notices) == 2


async def test_an_answer_is_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop may tell of what somebody has read meanwhile."""
    monkeypatch.setattr(module, "MAX_HOLD_S", SOON_S)
    notices: list[None] = []
    async with ends() as (pipe, worker):
        with pipe.watch_for_interrupt(lambda: notices.append(None)):
            await turns_of_the_loop()
        for _ in range(3):
            worker.sendall(wire.pack(ASK))
            await asyncio.sleep(0)  # the event loop looks, and this goes on before it tells
            assert await within(pipe.receive()) == ASK
            with pipe.watch_for_interrupt(lambda: notices.append(None)):
                await turns_of_the_loop()
        assert not notices


@pytest.mark.parametrize("listening", [True, False])
async def test_the_end_while_the_server_has_the_turn(listening: bool) -> None:
    notices: list[None] = []
    async with ends() as (pipe, worker):
        worker.sendall(wire.pack(ASK))
        assert await within(pipe.receive()) == ASK
        if not listening:
            worker.close()
            assert await asleep() <= A_FEW
            assert pipe.has_unread()
        with pipe.watch_for_interrupt(lambda: notices.append(None)):
            await turns_of_the_loop()
            if listening:
                assert not notices
                worker.close()
            assert await asleep() <= A_FEW
            assert len(notices) == 1
        assert isinstance(await pipe.interrupt_error(), WorkerCrashedError)
        for spin_s in (0.0, 0.0001):
            with pytest.raises(WorkerCrashedError):
                await within(pipe.receive(spin_s))


async def test_the_end_in_the_middle_of_a_frame() -> None:
    async with ends() as (pipe, worker):
        receiving = asyncio.create_task(pipe.receive())
        await turns_of_the_loop()
        worker.sendall(wire.pack(ASK)[:-1])
        await turns_of_the_loop()
        worker.close()
        with pytest.raises(WorkerCrashedError):
            await within(receiving)
        assert await asleep() <= A_FEW


async def test_while_its_end_is_looked_into_the_loop_sleeps() -> None:
    rounds: list[int] = []
    ours, theirs = socket.socketpair()

    async def gone() -> WorkerError:
        rounds.append(await asleep())
        return WorkerCrashedError("gone")

    pipe = WorkerPipe(ours, gone)
    receiving = asyncio.create_task(pipe.receive())
    await turns_of_the_loop()
    theirs.close()
    with pytest.raises(WorkerCrashedError):
        await within(receiving)
    pipe.close()
    assert rounds[0] <= A_FEW


async def test_closing_wakes_whoever_waits() -> None:
    async with ends() as (pipe, _):
        receiving = asyncio.create_task(pipe.receive())
        await turns_of_the_loop()
        pipe.close()
        with pytest.raises(WorkerCrashedError):
            await within(receiving)
    async with ends() as (pipe, _):
        sending = asyncio.create_task(pipe.send(wire.Start("x" * 4_000_000, WARM_UP_LIMITS)))
        await turns_of_the_loop()
        assert not sending.done()
        pipe.close()
        with pytest.raises(WorkerCrashedError):
            await within(sending)
    notices: list[None] = []
    async with ends() as (pipe, _):
        with pipe.watch_for_interrupt(lambda: notices.append(None)):
            pipe.close()
            assert len(notices) == 1
        with pipe.watch_for_interrupt(lambda: notices.append(None)):
            assert len(notices) == 2
        assert isinstance(await pipe.interrupt_error(), WorkerCrashedError)
        with pytest.raises(WorkerCrashedError):
            await within(pipe.receive())


async def test_what_is_said_while_the_server_writes_keeps_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ends() as (pipe, worker):
        sending = asyncio.create_task(pipe.send(wire.Start("x" * 4_000_000, WARM_UP_LIMITS)))
        await turns_of_the_loop()
        worker.sendall(wire.pack(ASK))
        assert await asleep() <= A_FEW
        worker.setblocking(False)
        while not sending.done():
            with contextlib.suppress(BlockingIOError):
                _ = worker.recv(1 << 20)
            await asyncio.sleep(0)
        await sending
        assert await within(pipe.receive()) == ASK
        monkeypatch.setattr(module, "UNREAD_MS", 20)
        with pytest.raises(WorkerTimeoutError):
            await within(pipe.send(wire.Start("x" * 4_000_000, WARM_UP_LIMITS)))


def test_another_event_loop_may_go_on() -> None:
    ours, theirs = socket.socketpair()

    async def gone() -> WorkerError:
        return WorkerCrashedError("gone")

    pipe = WorkerPipe(ours, gone)

    async def one() -> None:
        receiving = asyncio.create_task(pipe.receive())
        await turns_of_the_loop()
        theirs.sendall(wire.pack(ASK))
        assert await within(receiving) == ASK

    for _ in range(2):
        asyncio.run(one())
    pipe.close()  # no loop runs any more
    theirs.close()
